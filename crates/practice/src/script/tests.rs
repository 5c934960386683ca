//! The parser reads every documented directive, and reports mistakes.

use super::*;

#[test]
fn every_documented_directive_is_parsed() {
    for known in DIRECTIVES {
        let name = known.usage.split(' ').next().expect("a name");
        assert!(known.example.starts_with(name), "{}: its example is another's", known.usage);
        for steps in [of_script(known.example), of_prompt(&format!("Please.\npractice: {}", known.example))] {
            assert_eq!(steps.unwrap_or_else(|error| panic!("{error}")).len(), 1, "{}", known.usage);
        }
    }
}

#[test]
fn every_directive_that_is_parsed_is_documented() {
    // The names in the source of the parser: the quoted text at the beginning of an arm.
    let source = include_str!("../script.rs");
    let arms = source.lines().map(str::trim).filter(|line| line.starts_with('"') && line.contains("=>"));
    let names = arms.flat_map(|line| {
        let (pattern, _) = line.split_once("=>").expect("an arm");
        pattern.split('"').skip(1).step_by(2).take(2).map(str::to_owned).collect::<Vec<_>>()
    });
    let names: Vec<String> = names.filter(|name| name != "again").collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let documented =
            DIRECTIVES.iter().any(|known| known.usage.split(' ').next().expect("a name") == name);
        assert!(documented, "`{name}` is in no line of the help");
    }
}

#[test]
fn texts_and_values_are_what_they_say() {
    let one = |text: &str| of_script(text).expect(text).remove(0);
    assert_eq!(one("say Hello there"), Step::Say("Hello there".to_owned()));
    assert_eq!(one(r#"practice: say "a\n\"b\"""#), Step::Say("a\n\"b\"".to_owned()));
    assert_eq!(one(r#"say "a" and "b""#), Step::Say(r#""a" and "b""#.to_owned()));
    assert_eq!(one("line {not json"), Step::Line("{not json".to_owned()));
    assert_eq!(one("bytes ff 00"), Step::Bytes(vec![0xff, 0]));
    assert_eq!(one("long-line 2MB"), Step::LongLine { size: 2_000_000, garbage: false });
    assert_eq!(one("flood stderr 1MiB"), Step::FloodStderr(1 << 20));
    assert_eq!(one("sleep 1500ms"), Step::Sleep(Duration::from_millis(1500)));
    assert_eq!(one("kill-self SIGKILL"), Step::KillSelf(9));
    assert_eq!(one("fail 529"), Step::Fail { status: 529, message: String::new() });
    let choices = vec!["red".to_owned(), "dark blue".to_owned()];
    let question = Step::Question { text: "Which?".to_owned(), choices };
    assert_eq!(one(r#"question Which? red "dark blue""#), question);
    assert!(of_script("question").is_err());
    assert_eq!(one("child sleep 5"), Step::Child { traits: vec![Trait::Plain], seconds: 5 });
}

#[test]
fn a_prompt_without_directives_has_none() {
    assert_eq!(of_prompt("Say hello.\nA good practice: test first."), Ok(vec![]));
}

#[test]
fn each_prompt_of_a_session_has_its_part_and_after_the_last_one_they_begin_again() {
    let script =
        || of_script("say one\nnext-prompt\nsay two\nsay three\nnext-prompt\nhang").expect("a script");
    let say = |text: &str| Step::Say(text.to_owned());
    assert_eq!(part(script(), 0), [say("one")]);
    assert_eq!(part(script(), 1), [say("two"), say("three")]);
    assert_eq!(part(script(), 2), [Step::Hang]);
    assert_eq!(part(script(), 3), [say("one")]);
    assert_eq!(part(vec![say("one")], 7), [say("one")]);
    assert_eq!(part(vec![], 7), []);
}

#[test]
fn a_bad_directive_is_an_error_that_says_why() {
    for (line, why) in [
        ("fly", "unknown name or form; --help lists the directives"),
        ("init", "unknown name or form; --help lists the directives"),
        ("hang on", "`hang` takes no argument"),
        ("exit 300", "`300` is not a number, or is too large"),
        ("bytes xyz", "`xyz` is not a byte in hexadecimal: write two digits"),
        ("bytes +f", "`+f` is not a byte in hexadecimal: write two digits"),
        ("sleep 2h", "`h` is not a unit of time: write `2s` or `500ms`"),
        ("ignore sigkill", "it can ignore sigterm, sigint, sighup, cancel, steer, set and eof"),
        ("child", "it needs one of plain, sleep, setsid, daemon, holds-stdout or ignores-sigterm"),
        ("say", "it needs a text"),
        ("tool edit \"a", "a quote is not closed"),
    ] {
        let expected = format!("bad directive `practice: {line}`: {why}");
        assert_eq!(of_prompt(&format!("practice: {line}")), Err(expected));
    }
}
