//! Names with `*` in them, for models.

/// Returns whether a name is one that the pattern means; `*` is any text, case does not count.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name) in
            [("a-*", "a-1"), ("a-*", "A-"), ("*", ""), ("*/*", "x/y"), ("a*c*e", "abcde"), ("a", "a")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a-*", "b-1"), ("*/*", "xy"), ("a*a", "a"), ("a*c*c", "abc")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
