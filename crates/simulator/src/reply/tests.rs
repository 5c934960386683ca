//! Which parts of a request are the user's own words, and the working directory of a program.

use super::*;

#[test]
fn remarks_in_tags_are_not_the_users() {
    for (text, expect) in [
        ("hi", "hi"),
        ("<reminder>be nice</reminder>\n\nhi", "hi"),
        ("<a>1</a> <b x=\"1\">2</b> hi <c>3</c>", "hi"),
        ("<reminder>all of it</reminder>", ""),
        ("a < b > c", "a < b > c"),
        ("<not closed hi", "<not closed hi"),
        ("hi </x>", "hi </x>"),
        ("use <b>bold</b> here", "use <b>bold</b> here"),
    ] {
        assert_eq!(own(text), expect, "{text}");
    }
}

#[test]
fn programs_say_where_they_work_each_in_its_own_words() {
    for (said, expect) in [
        ("<environment>\n<cwd>/a/b</cwd>", Some("/a/b")),
        ("Primary working directory: /a/b\n", Some("/a/b")),
        ("The Current Working Directory: `/a/b`.", Some("/a/b")),
        ("* Workspace Directories:\n  - /a/b\n", Some("/a/b")),
        ("I'm currently working in the directory: /a/b\nHere", Some("/a/b")),
        ("the working directory: unknown", None),
    ] {
        let asked =
            ParsedRequest { said: vec![ConversationItem::User(said.to_owned())], ..ParsedRequest::default() };
        assert_eq!(cwd(&asked).as_deref(), expect, "{said}");
    }
}
