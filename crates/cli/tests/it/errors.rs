//! What the command says when it cannot do what was asked.

use crate::support::show;

#[test]
fn names_that_do_not_exist() {
    insta::assert_snapshot!(show(&["decode", "--dialect", "steam-json"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no dialect `steam-json`
hint: did you mean `stream-json`?
hint: `bowline dialects` lists the dialects
"#);
    insta::assert_snapshot!(show(&["decode", "--provider", "cluade"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no provider `cluade`
hint: did you mean `claude`?
hint: `bowline providers` lists what there is
"#);
    insta::assert_snapshot!(show(&["decode", "--provider", "qwen", "--format", "jsn"], ""), @r#"
exit 2
--- stdout
--- stderr
error: `qwen` has no output format `jsn`
hint: did you mean `json`?
hint: its formats: acp, json, stream-json, stream-json-partial, text
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--view", "sumary"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no view `sumary`
hint: did you mean `summary`?
hint: possible values: events, text, summary, pi, pi-partials, simple, chunks, generate, stream-events, provider-events
"#);
    insta::assert_snapshot!(show(&["classify", "--provider", "zzz"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no provider `zzz`
hint: `bowline providers` lists what there is
"#);
}

#[test]
fn values_that_mean_nothing() {
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--signal", "FOO"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no signal `FOO`
hint: write it as TERM, SIGTERM or 15
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--now", "never"], ""), @r#"
exit 2
--- stdout
--- stderr
error: `never` is not a time
hint: write it as 2026-11-15T08:00:00Z, 2026-11-15T10:00:00+02:00, or seconds since 1970
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--exit-code", "abc"], ""), @r#"
exit 2
--- stdout
--- stderr
error: invalid value `abc` for `--exit-code <N>`: invalid digit found in string
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
}

#[test]
fn a_number_below_zero_is_taken_for_the_value_that_it_is() {
    insta::assert_snapshot!(show(&["run", "-p", "practice", "--max-cost", "-1", "hi"], ""), @r#"
exit 2
--- stdout
--- stderr
error: `--max-cost -1` is not an amount of money
hint: write it as 0.50
"#);
    for option in ["--max-turns", "--max-tokens", "--retries"] {
        let text = show(&["run", "-p", "practice", option, "-1", "hi"], "");
        let message =
            format!("error: invalid value `-1` for `{option} <N>`: expected a whole number such as 3\n");
        assert!(text.starts_with("exit 2\n") && text.contains(&message), "{text}");
    }
}

#[test]
fn arguments_that_are_missing_or_wrong() {
    insta::assert_snapshot!(show(&["decod"], ""), @r#"
exit 2
--- stdout
--- stderr
error: there is no command `decod`
hint: did you mean `bowline decode`?
hint: `bowline help` lists the commands
"#);
    insta::assert_snapshot!(show(&["decode"], ""), @r#"
exit 2
--- stdout
--- stderr
error: neither a dialect nor a provider is given
hint: name the dialect: `--dialect NAME` (`bowline dialects` lists them)
hint: or the provider that printed the output: `--provider NAME` (`bowline providers` lists them)
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--vieww", "x"], ""), @r#"
exit 2
--- stdout
--- stderr
error: unexpected argument `--vieww` found
hint: did you mean `--view`?
hint: usage: bowline decode --dialect <NAME> --view <NAME> [FILE]
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--format", "json"], ""), @r#"
exit 2
--- stdout
--- stderr
error: the argument `--dialect <NAME>` cannot be used with `--format <NAME>`
hint: usage: bowline decode --dialect <NAME> [FILE]
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
}

#[test]
fn a_command_that_there_is_not_is_understood_by_its_meaning() {
    let check = |word: &str, instead: &str| {
        let text = show(&[word], "");
        let expected = format!(
            "exit 2\n--- stdout\n--- stderr\nerror: there is no command `{word}`\nhint: did you mean `bowline {instead}`?\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(text.matches("hint: did you mean").count(), 1, "{text}");
    };
    check("ls", "sessions");
    check("list", "sessions");
    check("resume", "run --resume ID \"PROMPT\"");
    check("kill", "stop");
    check("chat", "run \"PROMPT\"");
    check("exec", "run \"PROMPT\"");
    check("ask", "run \"PROMPT\"");
    check("health", "doctor");
    check("watch", "attach");
    check("login", "doctor");
    check("Sesions", "sessions");
    check("fix the failing test", "run \"PROMPT\"");
    check("claude", "run --provider claude \"PROMPT\"");
    let nonsense = show(&["qqqqqq"], "");
    assert!(!nonsense.contains("did you mean"), "{nonsense}");
    assert!(show(&["help", "ls"], "").contains("did you mean `bowline sessions`?"));
    assert!(show(&["login"], "").contains("`bowline doctor` prints it"));
}

#[test]
fn a_prompt_without_quotes_gets_a_hint() {
    insta::assert_snapshot!(show(&["run", "-p", "practice", "hi", "there"], ""), @r#"
exit 2
--- stdout
--- stderr
error: unexpected argument `there` found
hint: put a prompt of several words in quotes: `bowline run "fix the failing test"`
hint: usage: bowline run [OPTIONS] [PROMPT]
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    let text = show(&["decode", "--dialect", "text", "one", "two"], "");
    assert!(text.starts_with("exit 2") && !text.contains("in quotes"), "{text}");
    let text = show(&["run", "--promt", "x"], "");
    assert!(text.starts_with("exit 2") && !text.contains("in quotes"), "{text}");
}

#[test]
fn a_provider_given_as_a_dialect_is_recognised() {
    let text = show(&["decode", "--dialect", "glm"], "");
    assert!(text.contains("did you mean `--provider glm`?"), "{text}");
}

#[test]
fn standard_input_cannot_be_two_things() {
    let text = show(&["decode", "--dialect", "text", "--stderr", "-"], "");
    assert!(text.starts_with("exit 2\n") && text.contains("cannot be read from standard input"), "{text}");
}

#[test]
fn files_that_cannot_be_read() {
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "/no/such/file"], ""), @r#"
exit 2
--- stdout
--- stderr
error: could not open `/no/such/file`
caused by: No such file or directory (os error 2)
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "/"], ""), @r#"
exit 2
--- stdout
--- stderr
error: could not read `/`
caused by: Is a directory (os error 21)
"#);
    insta::assert_snapshot!(show(&["decode", "--dialect", "text", "--stderr", "/no/such/file"], ""), @r#"
exit 2
--- stdout
--- stderr
error: could not open `/no/such/file`
caused by: No such file or directory (os error 2)
"#);
}
