//! Templates of arguments: text with names in braces.
//!
//! A name is lower-case letters and `_`; any other brace is text, so that JSON can be written as it is. A value is put
//! in once and never read again: a prompt that contains `{file}` stays what it is.

/// Returns the names in a template.
pub(crate) fn names(template: &str) -> impl Iterator<Item = &str> {
    parts(template).filter_map(|part| if let TemplatePart::Name(name) = part { Some(name) } else { None })
}

/// Puts values into a template. A name that `value` does not know stays as it is written.
pub(crate) fn fill<'a>(template: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut text = String::with_capacity(template.len());
    for part in parts(template) {
        match part {
            TemplatePart::Text(plain) => text.push_str(plain),
            TemplatePart::Name(name) => match value(name) {
                Some(value) => text.push_str(value),
                None => text.extend(["{", name, "}"]),
            },
        }
    }
    text
}

enum TemplatePart<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn parts(template: &str) -> impl Iterator<Item = TemplatePart<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(open) = rest[from..].find('{').map(|at| from + at) {
            let inside = &rest[open + 1..];
            let length = inside.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(inside.len());
            if length > 0 && inside[length..].starts_with('}') {
                if open > 0 {
                    let text = &rest[..open];
                    rest = &rest[open..];
                    return Some(TemplatePart::Text(text));
                }
                rest = &inside[length + 1..];
                return Some(TemplatePart::Name(&inside[..length]));
            }
            from = open + 1;
        }
        Some(TemplatePart::Text(std::mem::take(&mut rest)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_put_in_once() {
        let fill = |template| fill(template, |name| (name == "value").then_some("{value} {file}"));
        assert_eq!(fill("--x={value}"), "--x={value} {file}");
        assert_eq!(fill("a{value}b{value}"), "a{value} {file}b{value} {file}");
        assert_eq!(fill("{other}"), "{other}");
        assert_eq!(fill(""), "");
    }

    #[test]
    fn json_is_text() {
        let json = r#"{"edit":"deny","b":{}} {Value} {"#;
        assert_eq!(names(json).count(), 0);
        assert_eq!(fill(json, |_| Some("no")), json);
        assert_eq!(names("{{value}} {file}").collect::<Vec<_>>(), ["value", "file"]);
    }
}
