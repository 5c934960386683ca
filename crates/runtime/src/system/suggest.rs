//! Spelling suggestions: the known name closest to an unknown one.

/// Returns the known name that is most like the given one, if any is like it at all: every third letter may be wrong, left
/// out, too much, or have changed places with its neighbour.
///
/// ```
/// assert_eq!(bowline::closest_name("cladue", ["claude", "codex"]), Some("claude"));
/// assert_eq!(bowline::closest_name("something", ["claude", "codex"]), None);
/// ```
pub fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let letters = name.chars().count();
    let slips = |known: &str| strsim::damerau_levenshtein(&name, &known.to_lowercase());
    let like = known.into_iter().map(|known| (slips(known), known));
    like.filter(|(slips, _)| *slips <= (letters / 3).max(1) && *slips < letters)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, known)| known)
}

/// Returns the end of a message about an unknown name.
pub(crate) fn in_words(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::closest_name;

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let known = ["stream-json", "json", "text"];
        assert_eq!(closest_name("steam-json", known), Some("stream-json"));
        assert_eq!(closest_name("TEXT", known), Some("text"));
        assert_eq!(closest_name("jsno", known), Some("json"));
        for nonsense in ["qqq", "", "x", "txxt-ish"] {
            assert_eq!(closest_name(nonsense, known), None, "{nonsense}");
        }
    }

    #[test]
    fn the_nearest_is_meant_and_among_equals_the_first() {
        assert_eq!(closest_name("route.retrys", ["route.retries", "route.retry"]), Some("route.retry"));
        assert_eq!(closest_name("ab", ["ax", "ay"]), Some("ax"));
    }
}
