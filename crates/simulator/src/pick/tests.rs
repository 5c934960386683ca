//! Markers in prompts.

use super::*;

fn names(text: &str) -> Vec<String> {
    markers(text).into_iter().map(|marker| marker.name).collect()
}

#[test]
fn markers_are_found_anywhere_and_told_from_what_looks_like_them() {
    assert_eq!(names("[[a]] b [[c-2]]"), ["a", "c-2"]);
    assert_eq!(names("[[[a]]]"), ["a"]);
    for none in [
        "",
        "[[]]",
        "[[ a ]]",
        "[[A]]",
        "[[a",
        "[[a]",
        "[[a_b]]",
        "[[a b]]",
        "[[a key]]",
        "[[a K=1]]",
        "[[a k=\"1]]",
    ] {
        assert_eq!(names(none), [""; 0], "{none}");
    }
}

#[test]
fn a_marker_carries_values() {
    let found = markers("x [[edit file=/a/b.txt line=\"two words\"]] y");
    let values: Vec<(&str, &str)> =
        found[0].values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(values, [("file", "/a/b.txt"), ("line", "two words")]);
}

#[test]
fn what_the_model_says_in_one_go_is_one_answer() {
    let user = || ConversationItem::User(String::new());
    assert_eq!(answers(&[]), 0);
    assert_eq!(answers(&[ConversationItem::Model, ConversationItem::Model]), 1);
    assert_eq!(
        answers(&[
            user(),
            ConversationItem::Model,
            ConversationItem::Tool,
            ConversationItem::Tool,
            ConversationItem::Model,
            user()
        ]),
        2
    );
}
