//! What was probably meant by a name that nobody has.

/// Returns the known name that is most like the given one, if any is like it at all: every third letter may be wrong, left
/// out, too much, or have changed places with its neighbour.
///
/// ```
/// assert_eq!(bowline::near("cladue", ["claude", "codex"]), Some("claude"));
/// assert_eq!(bowline::near("nobody", ["claude", "codex"]), None);
/// ```
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
    use super::near;

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let known = ["stream-json", "json", "text"];
        assert_eq!(near("steam-json", known), Some("stream-json"));
        assert_eq!(near("TEXT", known), Some("text"));
        assert_eq!(near("jsno", known), Some("json"));
        for nonsense in ["qqq", "", "x", "txxt-ish"] {
            assert_eq!(near(nonsense, known), None, "{nonsense}");
        }
    }

    #[test]
    fn the_nearest_is_meant_and_among_equals_the_first() {
        assert_eq!(near("route.retrys", ["route.retries", "route.retry"]), Some("route.retry"));
        assert_eq!(near("ab", ["ax", "ay"]), Some("ax"));
    }
}
