//! What no argument may lose, and what is too long for one.

use bowline_protocol::{Category, Code, Failure, Message, Role};
use bowline_providers::manifest::PromptStyle;

use super::*;

/// Prompts that a shell, or a careless parser of options, would change.
const HOSTILE: &[&str] = &[
    "-starts with a dash",
    "--",
    "--help",
    "-",
    "a 'b' \"c\" `d` $(e) $HOME \\ ; | & > <",
    "two\nlines\r\nand a tab\t.",
    "{value} {file} {prompt}",
    "@file and #tag and !bang",
    "grüße 你好 🪢 \u{2028} e\u{301}",
];

#[test]
fn a_prompt_arrives_as_it_was_written() {
    for (_, manifest) in &ways() {
        for prompt in HOSTILE {
            let request = Request { prompt: (*prompt).into(), ..plain(manifest) };
            let made = build(manifest, &request, &Wish::default()).expect("can be put");
            let args = texts(&made);
            match manifest.prompt {
                PromptStyle::Stdin | PromptStyle::Request => {
                    assert_eq!(made.stdin, StdinPlan::Prompt((*prompt).into()), "{}", manifest.name);
                    assert!(
                        args.iter().all(|arg| *arg == "-" || arg != prompt),
                        "{}: {args:?}",
                        manifest.name
                    );
                }
                PromptStyle::Protocol => {
                    let said = made.conversation.as_deref().map(|talk| talk.prompt.as_str());
                    assert_eq!(said, Some(*prompt), "{}", manifest.name);
                    assert!(!args.iter().any(|arg| arg == prompt), "{}: {args:?}", manifest.name);
                }
                PromptStyle::Arg => {
                    assert_eq!(made.stdin, StdinPlan::Null);
                    assert_eq!(args.last().map(String::as_str), Some(*prompt), "{}", manifest.name);
                    // Behind `--`, or as the value of an option: never where it could be taken for one.
                    let before = args.iter().rev().nth(1).map_or("", String::as_str);
                    assert!(
                        !prompt.starts_with('-') || before.starts_with("--"),
                        "{}: {args:?}",
                        manifest.name
                    );
                }
            }
        }
    }
}

#[test]
fn other_texts_arrive_as_they_were_written_or_are_refused() {
    for (_, manifest) in &ways() {
        for text in HOSTILE {
            let text = *text;
            for (flag, request) in [
                (RunFlag::System, Request { system_prompt: Some(text.into()), ..plain(manifest) }),
                (
                    RunFlag::AppendSystem,
                    Request { append_system_prompt: Some(text.into()), ..plain(manifest) },
                ),
            ] {
                let Ok(made) = build(manifest, &request, &Wish::default()) else {
                    assert!(manifest.run.flags[&flag].refused.is_some(), "{}: {text}", manifest.name);
                    continue;
                };
                let somewhere =
                    texts(&made).iter().any(|arg| arg == text || arg.ends_with(&format!("={text}")))
                        || super::prompt(&made).contains(text)
                        || made.conversation.as_ref().is_some_and(|talk| talk.prompt.contains(text))
                        || made.files.iter().any(|file| file.content == text);
                assert!(somewhere, "{}: {text}", manifest.name);
            }
        }
        // A value that would be taken for an option is none.
        for request in [
            Request { model: Some("--yolo".into()), ..plain(manifest) },
            Request { allow_tools: vec!["-x".into()], permission: PermissionMode::Ask, ..plain(manifest) },
            Request { resume: Some(Resume::Id { native_session: "--last".into() }), ..plain(manifest) },
        ] {
            let refusal = build(manifest, &request, &Wish::default()).expect_err(&manifest.name);
            assert_eq!(refusal.category, Category::Validation, "{refusal}");
        }
    }
}

#[test]
fn a_long_prompt_goes_over_standard_input_or_is_refused() {
    let long = "é".repeat(450_000);
    for (_, manifest) in &ways() {
        let request = Request { prompt: long.clone(), ..plain(manifest) };
        let made = build(manifest, &request, &Wish::default());
        match manifest.prompt {
            PromptStyle::Stdin | PromptStyle::Request => {
                let made = made.expect("900 KB are no trouble");
                assert_eq!(made.stdin, StdinPlan::Prompt(long.clone()));
                assert!(texts(&made).iter().all(|arg| arg.len() < 1000));
            }
            PromptStyle::Protocol => {
                let made = made.expect("900 KB are no trouble");
                assert_eq!(made.conversation.map(|talk| talk.prompt), Some(long.clone()));
            }
            PromptStyle::Arg => {
                let failure = Failure::from(made.expect_err("too long for an argument"));
                assert_eq!((failure.category, failure.code), (Category::Validation, Code::RequestTooLarge));
            }
        }
        // The last one that fits.
        let most = 96 * 1024;
        for (length, fits) in [(most, true), (most + 1, manifest.prompt != PromptStyle::Arg)] {
            let request = Request { prompt: "x".repeat(length), ..plain(manifest) };
            assert_eq!(
                build(manifest, &request, &Wish::default()).is_ok(),
                fits,
                "{} {length}",
                manifest.name
            );
        }
    }
}

#[test]
fn the_programs_own_limit_counts_characters() {
    for (_, manifest) in &ways() {
        let Some(most) = manifest.run.max_prompt_chars else { continue };
        let most = usize::try_from(most).expect("a length");
        let prompt = |length| Request { prompt: "é".repeat(length), ..plain(manifest) };
        build(manifest, &prompt(most), &Wish::default()).expect("as long as it may be");
        let refusal = build(manifest, &prompt(most + 1), &Wish::default()).expect_err("one too many");
        assert_eq!((refusal.field, refusal.code.clone()), (RequestField::Prompt, Code::RequestTooLarge));
        assert!(refusal.reason.contains(&most.to_string()), "{refusal}");
        // What is merged into the prompt counts.
        let merged = Request { system_prompt: Some("s".into()), ..prompt(most) };
        build(manifest, &merged, &Wish::default()).expect_err("the system prompt is a part of it");
    }
    let codex = catalogue::by_name("codex").expect("a provider");
    assert_eq!(codex.run.max_prompt_chars, Some(1_048_576));
}

#[test]
fn long_texts_are_never_arguments() {
    let long = "y".repeat(200_000);
    for (_, manifest) in &ways() {
        for request in [
            Request { system_prompt: Some(long.clone()), ..plain(manifest) },
            Request { append_system_prompt: Some(long.clone()), ..plain(manifest) },
            Request {
                output_schema: Some(Json::parse(&format!("\"{long}\"")).expect("JSON")),
                ..plain(manifest)
            },
        ] {
            match build(manifest, &request, &Wish::default()) {
                Ok(made) => assert!(texts(&made).iter().all(|arg| arg.len() < 1000), "{}", manifest.name),
                Err(refusal) => {
                    assert!([Code::RequestTooLarge, Code::Unsupported].contains(&refusal.code), "{refusal}")
                }
            }
        }
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let claude = catalogue::by_name("claude").expect("a provider");
    let base = || plain(claude);
    let env = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let tool = |name: &str| vec![name.to_owned()];
    for (request, field) in [
        (Request { prompt: " \n".into(), ..base() }, "prompt"),
        (Request { max_turns: Some(0), ..base() }, "max_turns"),
        (Request { max_cost_usd: Some(-1.0), ..base() }, "max_cost_usd"),
        (Request { max_cost_usd: Some(f64::NAN), ..base() }, "max_cost_usd"),
        (Request { effort: Some("very".into()), ..base() }, "effort"),
        (Request { system_prompt: Some("a\0b".into()), ..base() }, "system_prompt"),
        (Request { env: env("A=B", "c"), ..base() }, "env = A=B"),
        (Request { env: env("A", "c\0"), ..base() }, "env = A"),
        (Request { env: env("CLAUDECODE", "1"), ..base() }, "env = CLAUDECODE"),
        (Request { env: env("BOWLINE_SESSION_ID", "s-1"), ..base() }, "env = BOWLINE_SESSION_ID"),
        (Request { no_tools: true, allow_tools: tool("Bash"), ..base() }, "no_tools"),
        (
            Request { permission: PermissionMode::Read, allow_tools: tool("Bash(git *)"), ..base() },
            "allow_tools",
        ),
        (Request { tools: vec![Json::parse("{}").expect("JSON")], ..base() }, "tools"),
        (Request { policy: Some(Default::default()), ..base() }, "policy"),
        (
            Request { config: [("nope".to_owned(), Json::parse("1").expect("JSON"))].into(), ..base() },
            "config = nope",
        ),
    ] {
        let refusal = build(claude, &request, &Wish::default()).expect_err(field);
        assert_eq!(refusal.setting().to_string(), field);
    }
    // A variable of the request must not undo what an option has set.
    let opencode = catalogue::by_name("opencode").expect("a provider");
    let request = Request { env: env("OPENCODE_PERMISSION", "{}"), ..plain(opencode) };
    let refusal = build(opencode, &request, &Wish::default()).expect_err("it would undo the mode");
    assert!(refusal.reason.contains("permission = ask"), "{refusal}");
}

#[test]
fn an_earlier_conversation_is_told_as_the_adapter_protocol_tells_it() {
    let message = |role, content: &str| Message {
        role,
        content: content.into(),
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    let context = vec![
        message(Role::System, "Be kind."),
        message(Role::User, "Hi"),
        message(Role::Assistant, "Hello!"),
    ];
    let codex = catalogue::by_name("codex").expect("a provider");
    let request = Request { context, system_prompt: Some("S".into()), ..plain(codex) };
    let wish = Wish { format: Some("stream-json".into()), ..Wish::default() };
    let made = build(codex, &request, &wish).expect("can be put");
    let spoken = build(codex, &request, &Wish::default()).expect("can be put").conversation;
    assert_eq!(spoken.expect("a conversation").prompt, super::prompt(&made), "by protocol too");
    assert_eq!(
        super::prompt(&made),
        "S\n\n[System]\nBe kind.\n\nHi\n[Assistant]\nHello!\n\nHello",
        "the system prompt first, then what was said, then what is said now"
    );
}

#[test]
fn the_host_keeps_its_variables_to_itself() {
    let host = || {
        [
            ("PATH", "/bin"),
            ("HOME", "/home/u"),
            ("LC_ALL", "C.UTF-8"),
            ("https_proxy", "http://p"),
            ("SSH_AUTH_SOCK", "/s"),
            ("ANTHROPIC_API_KEY", "made-up"),
            ("COPILOT_ALLOW_ALL", "true"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_SESSION_ID", "x"),
            ("AWS_SECRET_ACCESS_KEY", "made-up"),
            ("GIT_DIR", "/elsewhere"),
            ("TERM", "xterm"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    for (_, manifest) in &ways() {
        let made = build(manifest, &plain(manifest), &Wish::default()).expect("can be put");
        let all = made.environment(host());
        for name in ["PATH", "HOME", "LC_ALL", "https_proxy", "SSH_AUTH_SOCK"] {
            assert!(all.contains_key(name), "{}: {name}", manifest.name);
        }
        for name in
            ["COPILOT_ALLOW_ALL", "CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "AWS_SECRET_ACCESS_KEY", "GIT_DIR"]
        {
            assert!(!all.contains_key(name), "{}: {name}", manifest.name);
        }
        let pipe = ["TERM", "NO_COLOR", "CI"].map(|name| all[name].as_str());
        assert_eq!(pipe, ["dumb", "1", "true"], "{}", manifest.name);
        for name in &manifest.auth.env {
            assert!(made.keeps(name), "{}: its login comes by {name}", manifest.name);
            // An address and a switch (`…_USE_VERTEXAI=true`) are no secrets.
            let plain = name.ends_with("_URL") || name.contains("_USE_");
            assert!(made.is_secret(name) || plain, "{}: {name}", manifest.name);
        }
        let wish = Wish { transport: Some(StdioKind::Pty), ..Wish::default() };
        let made = build(manifest, &plain(manifest), &wish);
        if manifest.prompt == PromptStyle::Arg {
            let all = made.expect("can be put").environment(host());
            assert_eq!((all["TERM"].as_str(), all.get("CI")), ("xterm-256color", None));
        } else {
            let refusal = made.expect_err("a prompt is not typed into a terminal");
            assert!(refusal.reason.contains("`prompt = \"arg\"`"), "{}: {}", manifest.name, refusal.reason);
        }
    }
    let claude = catalogue::by_name("claude").expect("a provider");
    let made = build(claude, &plain(claude), &Wish::default()).expect("can be put");
    assert_eq!(made.environment(host())["ANTHROPIC_API_KEY"], "made-up");
}
