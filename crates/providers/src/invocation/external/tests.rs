//! The specification's own examples.

use bowline_protocol::{Attachment, Sampling};

use super::*;

const CONFIG: &str = r#"{
    "claude-cli/sonnet": { "executable": "claude", "modelArg": "claude-sonnet-4-20250514" },
    "codex-cli": { "executable": "codex", "extraArgs": ["--json"] },
    "my-cli": { "command": "mine", "args": ["--print"], "modelFlag": "", "promptFlag": "", "resumeFlag": "--resume",
                "outputFormat": "sse", "dialect": "simple", "timeoutMs": 5000, "cwd": "/w", "env": { "MY_API_KEY": "k" },
                "permissionArgs": { "ask": ["--safe"] } }
}"#;

fn request() -> Request {
    Request { prompt: "-- \"hi\"\n".into(), permission: PermissionMode::Yolo, ..Request::default() }
}

fn passing(extra: &[String]) -> Wish {
    Wish { agent_args: extra.to_vec(), ..Wish::default() }
}

fn line(model: &str, request: &Request, extra: &[String]) -> Vec<String> {
    let made = read(CONFIG).expect("a configuration")[model]
        .build(model, request, &passing(extra))
        .expect("can be honoured");
    let args = made.args.iter().map(|arg| arg.text(str::to_owned));
    std::iter::once(made.program.clone()).chain(args).collect()
}

#[test]
fn the_line_is_the_specifications() {
    let thinking = Request { effort: Some("high".into()), ..request() };
    assert_eq!(
        line("claude-cli/sonnet", &thinking, &["--verbose".into()]),
        [
            "claude",
            "--mode",
            "json",
            "--model",
            "claude-sonnet-4-20250514",
            "--thinking",
            "high",
            "--verbose",
            "-p",
            "-- \"hi\"\n"
        ]
    );
    assert_eq!(
        line("codex-cli", &thinking, &["--x".into()]),
        [
            "codex",
            "--mode",
            "json",
            "--model",
            "codex-cli",
            "--thinking",
            "high",
            "--json",
            "--x",
            "-p",
            "-- \"hi\"\n"
        ]
    );
}

#[test]
fn sessions_and_images() {
    let resumed = Request { resume: Some(Resume::Id { native_session: "abc123".into() }), ..request() };
    assert_eq!(
        line("codex-cli", &resumed, &[])[..6],
        ["codex", "--session", "abc123", "--continue", "--mode", "json"]
    );
    let image = Attachment { path: "x.png".into(), media_type: None };
    let seen = Request { attachments: vec![image], ..request() };
    assert!(line("codex-cli", &seen, &[]).ends_with(&["@x.png".into(), "-p".into(), request().prompt]));
}

#[test]
fn the_keys_of_its_implementation() {
    let resume = Some(Resume::Id { native_session: "s".into() });
    let asking = Request { permission: PermissionMode::Ask, resume, ..request() };
    assert_eq!(line("my-cli", &asking, &[]), ["mine", "--resume", "s", "--print", "--safe", "-- \"hi\"\n"]);
    let made = read(CONFIG).expect("a configuration")["my-cli"]
        .build("my-cli", &asking, &Wish::default())
        .expect("honoured");
    assert_eq!((made.dialect.as_str(), made.cwd.as_deref()), ("simple", Some("/w")));
    assert_eq!(made.limits.total, Some(Millis(5000)));
    assert!(made.is_secret("MY_API_KEY"));
    assert!(
        read(r#"{"x":{"executible":"y"}}"#).expect_err("a typing error").to_string().contains("executible")
    );
}

#[test]
fn what_has_no_place_is_refused_and_hints_are_notices() {
    let program = &read(CONFIG).expect("a configuration")["codex-cli"];
    let sampling = Sampling { max_tokens: Some(1), temperature: Some(0.5), top_p: None };
    let made = program.build("codex-cli", &Request { sampling, ..request() }, &Wish::default());
    let made = made.expect("hints are hints");
    assert_eq!(made.notices.len(), 2);
    assert!(!made.args.iter().any(|arg| *arg == Arg::from("0.5")));
    assert_eq!(made.limits.total, None, "the specification has no limit");
    for (request, field) in [
        (Request { system_prompt: Some("s".into()), ..request() }, "system_prompt"),
        (Request { permission: PermissionMode::Ask, ..request() }, "permission = ask"),
        (Request { prompt: "x".repeat(LONGEST_ARGUMENT + 1), ..request() }, "prompt"),
    ] {
        let refusal = program.build("codex-cli", &request, &Wish::default()).expect_err(field);
        assert_eq!(refusal.setting().to_string(), field);
    }
}

#[test]
fn an_option_that_the_configuration_switches_off_is_refused() {
    let without = |key: &str| read(&format!(r#"{{"m": {{"{key}": ""}}}}"#)).expect("a configuration");
    let resume = Some(Resume::Id { native_session: "s-1".into() });
    let rows = [
        ("thinkingFlag", Request { effort: Some("high".into()), ..request() }, "effort"),
        ("modelFlag", Request { model: Some("other".into()), ..request() }, "model"),
        ("sessionFlag", Request { resume: resume.clone(), ..request() }, "resume"),
        ("resumeFlag", Request { resume, ..request() }, "resume"),
    ];
    for (key, asked, field) in rows {
        let refusal = without(key)["m"].build("m", &asked, &Wish::default()).expect_err(key);
        assert_eq!(refusal.setting().to_string(), field);
        assert!(refusal.to_string().contains(&format!("`{key}`")), "{refusal}");
        // Without the option of the request the program runs.
        without(key)["m"].build("m", &request(), &Wish::default()).expect(key);
    }
    // A resumed session needs only one of the two.
    let other = read(r#"{"m": {"sessionFlag": "", "resumeFlag": "--resume"}}"#).expect("a configuration");
    let resumed = Request { resume: Some(Resume::Id { native_session: "s-1".into() }), ..request() };
    other["m"].build("m", &resumed, &Wish::default()).expect("`resumeFlag` has the session");
}

#[test]
fn a_format_that_the_program_does_not_have_is_refused() {
    let program = &read(CONFIG).expect("a configuration")["codex-cli"];
    let built = |format: &str| {
        program.build("codex-cli", &request(), &Wish { format: Some(format.into()), ..Wish::default() })
    };
    let refusal = built("json").expect_err("it has one format").to_string();
    assert_eq!(refusal, "codex-cli cannot be run with `format`: it has no format `json`; it has external");
    built("external").expect("its own format");
}

#[test]
fn every_key_changes_what_is_started() {
    // A key, a value of it, another one, and what is asked for so that it matters.
    let thinking = Request { effort: Some("high".into()), ..request() };
    let resumed = Request { resume: Some(Resume::Id { native_session: "abc123".into() }), ..request() };
    let asking = Request { permission: PermissionMode::Ask, ..request() };
    let rows: [(&str, &str, &str, &Request); 17] = [
        ("executable", r#""agent""#, r#""other""#, &request()),
        ("modelArg", r#""m-1""#, r#""m-2""#, &request()),
        ("extraArgs", r#"["--json"]"#, "[]", &request()),
        ("args", r#"["--mode", "json"]"#, r#"["--print"]"#, &request()),
        ("modelFlag", r#""--model""#, r#""-m""#, &request()),
        ("thinkingFlag", r#""--thinking""#, r#""--effort""#, &thinking),
        ("sessionFlag", r#""--session""#, r#""--session-id""#, &resumed),
        ("resumeFlag", "null", r#""--resume""#, &resumed),
        ("promptFlag", r#""-p""#, r#""""#, &request()),
        ("outputFormat", r#""jsonl""#, r#""text""#, &request()),
        ("dialect", r#""pi-events""#, r#""simple""#, &request()),
        ("workdir", r#""/work""#, r#""/other""#, &request()),
        ("env", r#"{"A": "1"}"#, r#"{"A": "2"}"#, &request()),
        ("envKeep", "[]", r#"["MY_*"]"#, &request()),
        ("timeout", "5000", "6000", &request()),
        ("cliSessionId", "null", r#""native-1""#, &request()),
        ("permissionArgs", r#"{"ask": ["--safe"]}"#, r#"{"ask": ["--ask"]}"#, &asking),
    ];
    let known = serde_json::to_value(ExternalCli::default()).expect("JSON");
    let mut keys: Vec<&String> = known.as_object().expect("an object").keys().collect();
    for (key, one, other, request) in rows {
        let started = |value: &str| {
            let all = read(&format!(r#"{{"m": {{"{key}": {value}}}}}"#)).expect("a configuration");
            format!("{:?}", all["m"].build("m", request, &Wish::default()).expect("can be honoured"))
        };
        assert_ne!(started(one), started(other), "`{key}` has no effect");
        keys.retain(|known| *known != key);
    }
    assert!(keys.is_empty(), "nothing proves that these take effect: {keys:?}");
    // Lines and server-sent events are told apart by themselves.
    let framed = |format: &str| {
        let all = read(&format!(r#"{{"m": {{"outputFormat": "{format}"}}}}"#)).expect("a configuration");
        let made = all["m"].build("m", &request(), &Wish::default()).expect("can be honoured");
        (made.dialect, made.shape)
    };
    assert_eq!(framed("jsonl"), framed("sse"));
}

#[test]
fn a_program_that_nothing_restricts_runs_with_a_warning_where_that_is_allowed() {
    let program = &read(CONFIG).expect("a configuration")["codex-cli"];
    let wish = Wish { unrestricted: Unrestricted::Warn, ..Wish::default() };
    let made = |permission| program.build("codex-cli", &Request { permission, ..request() }, &wish);
    let notices = made(PermissionMode::Ask).expect("it runs").notices;
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].level, notices[0].code.as_deref()), (Level::Warn, Some("unrestricted")));
    assert!(notices[0].text.contains("codex-cli cannot be restricted"), "{}", notices[0].text);
    // A restriction that was asked for is never left out.
    for mode in [PermissionMode::Read, PermissionMode::Edit] {
        assert_eq!(made(mode).expect_err("refused").field, RequestField::Permission);
    }
}

#[test]
fn an_argument_of_the_call_does_not_contradict_the_line() {
    let program = &read(CONFIG).expect("a configuration")["codex-cli"];
    for arg in ["--model=x", "--mode", "-p", "-px", "--session=s", "--thinking", "--", "a\0b"] {
        let refusal = program.build("codex-cli", &request(), &passing(&[arg.into()])).expect_err(arg);
        assert_eq!(refusal.field, RequestField::AgentArgs, "{refusal}");
    }
}

#[test]
fn the_capabilities_follow_from_the_description() {
    let of = |text: &str| read(text).expect("a configuration")["m"].capabilities();
    let usual = of(r#"{"m": {}}"#);
    assert!(usual.streams_text && usual.chooses_model && usual.chooses_effort && !usual.reports_tools);
    assert_eq!(
        (usual.resume, &usual.permission_modes[..]),
        (ResumeSupport::ById, &[PermissionMode::Yolo][..])
    );
    let other = of(r#"{"m": {"outputFormat": "text", "modelFlag": "", "thinkingFlag": "", "sessionFlag": "",
        "permissionArgs": {"ask": []}}}"#);
    assert!(!other.streams_text && !other.chooses_model && !other.chooses_effort);
    let modes = [PermissionMode::Ask, PermissionMode::Yolo];
    assert_eq!((other.resume, &other.permission_modes[..]), (ResumeSupport::None, &modes[..]));
    assert_eq!(of(r#"{"m": {"sessionFlag": "", "resumeFlag": "--go-on"}}"#).resume, ResumeSupport::ById);
}

#[test]
fn a_session_without_a_prompt_is_planned() {
    let program = &read(CONFIG).expect("a configuration")["codex-cli"];
    let empty = Request { prompt: String::new(), permission: PermissionMode::Yolo, ..request() };
    let wish = Wish { prompt: PromptTime::Later, ..Wish::default() };
    assert!(program.build("codex-cli", &empty, &wish).is_ok());
    let refusal = program.build("codex-cli", &empty, &Wish::default()).expect_err("a run needs a prompt");
    assert_eq!(refusal.field, RequestField::Prompt);
}
