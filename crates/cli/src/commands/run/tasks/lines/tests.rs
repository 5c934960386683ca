//! Lines of a file of tasks, and the places of mistakes in them.

use std::time::Duration;

use super::*;

fn parsed(text: &str) -> Vec<TaskLine> {
    parse("t".to_owned(), text.as_bytes()).expect("tasks").tasks
}

#[track_caller]
fn refused(text: &[u8], message: &str) {
    let error = parse("t.jsonl".to_owned(), text).expect_err("a mistake").text().unwrap_or_default();
    assert!(error.contains(&format!("error: {message}")), "{message}: {error}");
}

#[test]
fn a_line_is_a_task() {
    let tasks = parsed(concat!(
        "\u{feff}{\"prompt\": \"One\"}\r\n",
        "\n   \t\r\n",
        r#"{"id": "fix", "title": "Fix", "goal": "Make it pass.", "acceptance": ["a test"], "cwd": "web", "provider": "a,b","#,
        r#" "model": "m", "effort": "low", "permission": "read", "timeout": "90s"}"#,
        "\n",
        r#"{"id": 7, "prompt": "Three", "label": "third", "timeout": 5, "model": null}"#,
    ));
    assert_eq!((tasks[0].line, tasks[0].id.as_str(), tasks[0].prompt.as_str()), (1, "1", "One"));
    let second = &tasks[1];
    assert_eq!((second.line, second.id.as_str(), second.label.as_deref()), (4, "fix", Some("Fix")));
    assert_eq!(second.prompt, "Fix\n\nMake it pass.\n\nAcceptance criteria:\n- a test\n");
    assert_eq!(second.cwd, Some(Placed { value: PathBuf::from("web"), column: 89 }));
    assert_eq!(second.provider.as_ref().map(|it| it.value.as_str()), Some("a,b"));
    assert_eq!(
        (second.model.as_ref().map(|it| it.value.as_str()), second.effort.as_deref()),
        (Some("m"), Some("low"))
    );
    assert_eq!(second.permission.as_ref().map(|it| it.value), Some(PermissionArg::Read));
    assert_eq!(second.timeout.as_ref().map(|it| it.value), Some(TimeLimit::Of(Duration::from_secs(90))));
    let third = &tasks[2];
    assert_eq!((third.id.as_str(), third.label.as_deref(), &third.model), ("7", Some("third"), &None));
    assert_eq!(third.timeout.as_ref().map(|it| it.value), Some(TimeLimit::Of(Duration::from_secs(5))));
}

#[test]
fn a_mistake_has_its_line_and_column() {
    for (text, message) in [
        ("{\"prompt\": \"a\"}\n{\"prompt\": }", "t.jsonl:2:12: expected value"),
        (
            "{\"prompt\": \"é\", \"promt\": \"a\"}",
            "t.jsonl:1:17: unknown field `promt`, expected one of `id`",
        ),
        ("{\"prompt\": \"a\", \"prompt\": \"b\"}", "t.jsonl:1:17: duplicate field `prompt`"),
        ("{\"prompt\": \"a\"} {}", "t.jsonl:1:17: trailing characters"),
        ("{\"prompt\": \"a\"", "t.jsonl:1:14: EOF while parsing an object"),
        ("  [\"a\"]", "t.jsonl:1:3: the line is not a JSON object"),
        ("fix it", "t.jsonl:1:1: the line is not a JSON object"),
        ("{\"prompt\": 7}", "t.jsonl:1:12: `prompt` must be a text"),
        ("{\"prompt\": \" \"}", "t.jsonl:1:12: `prompt` is empty"),
        ("\n {\"id\": \"a\"}", "t.jsonl:2:2: the line has no `prompt`"),
        (
            "{\"prompt\": \"a\", \"goal\": \"b\"}",
            "t.jsonl:1:25: a line has either `prompt`, or `title` and `goal`",
        ),
        ("{\"title\": \"a\"}", "t.jsonl:1:11: the task has an empty `goal`"),
        ("{\"title\": \"a\", \"goal\": \"b\", \"roomPath\": \"c\"}", "t.jsonl:1:11: the task has `roomPath`"),
        (
            "{\"title\": \"a\", \"goal\": \"b\", \"constraints\": \"c\"}",
            "t.jsonl:1:44: `constraints` must be a list",
        ),
        ("{\"prompt\": \"a\", \"permission\": \"all\"}", "t.jsonl:1:31: `permission` must be `read`"),
        ("{\"prompt\": \"a\", \"timeout\": \"soon\"}", "t.jsonl:1:28: `timeout` must be a time"),
        ("{\"prompt\": \"a\", \"timeout\": -5}", "t.jsonl:1:28: `timeout` must be a time"),
        ("{\"prompt\": \"a\", \"id\": [1]}", "t.jsonl:1:23: `id` must be a text or a whole number"),
        ("{\"prompt\": \"a\", \"id\": \"a\\nerror: forged\"}", "t.jsonl:1:23: `id` must have 1 to 64 bytes"),
        (
            "{\"prompt\": \"a\", \"id\": \"x\"}\n{\"prompt\": \"a\", \"id\": \"x\"}",
            "t.jsonl:2:23: the id `x` is already used in line 1",
        ),
        (
            "{\"prompt\": \"a\", \"id\": \"2\"}\n{\"prompt\": \"a\"}",
            "t.jsonl:2:1: the id `2` is already used in line 1",
        ),
        ("\n \n", "t.jsonl has no tasks"),
    ] {
        refused(text.as_bytes(), message);
    }
    refused(b"{\"prompt\": \"a\"}\n{\"prompt\": \"\xc3\xa9\xff\"}", "t.jsonl:2:14: the line is not UTF-8");
}

#[test]
fn files_and_lines_are_bounded() {
    let long = format!("{{\"prompt\": \"{}\"}}", "a".repeat(LONGEST_LINE));
    refused(long.as_bytes(), "t.jsonl:1:1: the line is longer than 4 MiB");
    refused(
        "{\"prompt\":\"a\"}\n".repeat(MOST_TASKS + 1).as_bytes(),
        "t.jsonl:10001:1: the file has more than 10000 tasks",
    );
    assert_eq!(parsed(&"{\"prompt\":\"a\"}\n".repeat(MOST_TASKS)).len(), MOST_TASKS);
    let whole = bounded(std::io::repeat(b'a')).expect("read");
    assert_eq!(whole.len(), LONGEST_FILE + 1, "an endless source is not read to its end");
}

#[test]
fn the_page_about_tasks_has_every_field() {
    const PAGE: &str = include_str!("../../../../../../../docs/tasks.md");
    let example =
        PAGE.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert_eq!(parsed(example).len(), 2);
    let error = parse("t".to_owned(), b"{\"x\": 1}").expect_err("no field").text().unwrap_or_default();
    let known = error.split("expected one of ").nth(1).expect("a list");
    // Fields that are refused need no row.
    let fields = known.trim().split(", ").filter(|field| !["`roomPath`", "`branchName`"].contains(field));
    for field in fields {
        assert!(PAGE.contains(field), "{field}");
    }
}
