//! The CLI layer's lines in full, and what no argument may lose.

use bowline_protocol::{
    Attachment, Category, Code, Failure, Json, McpServer, PermissionMode, Remedy, Request, RequestField,
    Resume,
};

use super::*;
use crate::catalogue;
use crate::manifest::Manifest;
use crate::manifest::repository::Repository;

fn manifest(name: &str) -> &'static Manifest {
    catalogue::by_name(name).expect("a provider of the catalogue")
}

fn ask(prompt: &str) -> Request {
    Request { prompt: prompt.into(), ..Request::default() }
}

fn built(name: &str, request: &Request) -> Invocation {
    build(manifest(name), request, &Wish::default()).expect("can be honoured")
}

fn refused(name: &str, request: &Request) -> Refusal {
    build(manifest(name), request, &Wish::default()).expect_err("cannot be honoured")
}

fn args(invocation: &Invocation) -> Vec<String> {
    invocation.args.iter().map(|arg| arg.text(|name| format!("/session/{name}"))).collect()
}

/// Everything that the CLI layer's request has.
fn everything() -> Request {
    Request {
        system_prompt: Some("Be brief.".into()),
        append_system_prompt: Some("Use tabs.".into()),
        model: Some("big".into()),
        effort: Some("high".into()),
        permission: PermissionMode::Edit,
        resume: Some(Resume::Id { native_session: "0cb916db-26aa-40f2-86b5-1ba81b225fd2".into() }),
        ..ask("Fix it")
    }
}

#[test]
fn the_line_of_the_cli_layer_for_claude() {
    let request = Request { max_turns: Some(3), max_cost_usd: Some(0.5), ..everything() };
    let wish = Wish { streaming: Streaming::Off, ..Wish::default() };
    let made = build(manifest("claude"), &request, &wish).expect("can be honoured");
    assert_eq!(made.program, "claude");
    assert_eq!(
        args(&made).join(" "),
        "--print --output-format json --permission-mode acceptEdits --model big --effort high \
         --system-prompt Be brief. --append-system-prompt Use tabs. --max-turns 3 --max-budget-usd 0.5 \
         --resume 0cb916db-26aa-40f2-86b5-1ba81b225fd2"
    );
    assert_eq!(made.stdin, StdinPlan::Prompt("Fix it".into()));
    let streaming = Request { resume: Some(Resume::Latest), ..request };
    let line = args(&built("claude", &streaming)).join(" ");
    assert!(line.starts_with("--print --output-format stream-json --verbose "), "{line}");
    assert!(line.ends_with(" --continue"), "{line}");
}

#[test]
fn the_line_of_the_cli_layer_for_codex() {
    let image = Attachment { path: "a b.png".into(), media_type: None };
    let fresh = Request { resume: None, attachments: vec![image], ..everything() };
    let made = built("codex", &fresh);
    assert_eq!(
        args(&made),
        [
            "exec",
            "--json",
            "--color",
            "never",
            "--skip-git-repo-check",
            "--sandbox",
            "workspace-write",
            "--model",
            "big",
            "-c",
            "model_reasoning_effort=high",
            "--image=a b.png",
            "-"
        ]
    );
    assert_eq!(made.stdin, StdinPlan::Prompt("Be brief.\n\nFix it\n\nUse tabs.".into()));

    // Options of `exec` stand before `resume`, which does not know them.
    let line = args(&built("codex", &everything())).join(" ");
    assert_eq!(
        line,
        "exec --json --color never --skip-git-repo-check --sandbox workspace-write --model big \
         -c model_reasoning_effort=high resume 0cb916db-26aa-40f2-86b5-1ba81b225fd2 -"
    );
    // `continue` is ignored, with a note.
    let made = built("codex", &Request { resume: Some(Resume::Latest), ..ask("Go on") });
    assert!(!args(&made).iter().any(|arg| arg == "resume"));
    assert_eq!(made.notices.len(), 1);
    assert!(made.notices[0].text.starts_with("`resume = latest` is ignored: "), "{:?}", made.notices);
    // What `--instructions` was.
    let config = [("instructions".to_owned(), Json::parse(r#""say \"hi\"""#).expect("JSON"))].into();
    let made = built("codex", &Request { config, ..ask("x") });
    assert!(args(&made).contains(&r#"developer_instructions="say \"hi\"""#.to_owned()), "{:?}", made.args);
}

#[test]
fn a_refusal_is_a_failure_with_a_hint() {
    let refusal = refused("codex", &Request { max_turns: Some(2), ..ask("x") });
    assert_eq!(refusal.setting(), RequestField::MaxTurns.into());
    assert_eq!(refusal.to_string(), "codex cannot be run with `max_turns`: it has no turn limit");
    let failure = Failure::from(refusal);
    assert_eq!((failure.category, failure.code.clone()), (Category::Validation, Code::Unsupported));
    assert_eq!(failure.hint.as_deref(), Some("limit the time with `timeout_ms`"));
    assert!(!failure.retry && !failure.fallback);
}

#[test]
fn the_superuser_is_told_before_claude_refuses() {
    let yolo = Request { permission: PermissionMode::Yolo, ..ask("x") };
    let root = Wish { user: User::Root, ..Wish::default() };
    let refusal = build(manifest("claude"), &yolo, &root).expect_err("as root");
    assert_eq!(refusal.setting(), RequestField::Permission.value("yolo"));
    assert!(refusal.hint.expect("a hint").contains("IS_SANDBOX"));
    let sandboxed = Request { env: [("IS_SANDBOX".into(), "1".into())].into(), ..yolo.clone() };
    let made = build(manifest("claude"), &sandboxed, &root).expect("the user says that it is a sandbox");
    assert_eq!(made.env["IS_SANDBOX"], "1");
    let made = built("claude", &yolo);
    assert!(!made.env.contains_key("IS_SANDBOX") && !made.keeps("IS_SANDBOX"), "it is never set silently");
    let inside = Request { docker: Some("box".into()), ..yolo };
    build(manifest("claude"), &inside, &root).expect("who is the user inside is not known");
}

#[test]
fn codex_servers_carry_no_secret_in_their_arguments() {
    let stdio = McpServer::Stdio {
        command: "my server".into(),
        args: vec!["--x".into(), "a\"b".into()],
        env: [("DB_PASSWORD".to_owned(), "hunter2hunter2".to_owned())].into(),
    };
    let http = McpServer::Http {
        url: "http://h/".into(),
        headers: [("Authorization".to_owned(), "Bearer abcdefgh".to_owned())].into(),
    };
    let servers = [("db".to_owned(), stdio), ("web".to_owned(), http)].into();
    let request = Request { mcp_servers: servers, ..ask("x") };
    let made = built("codex", &request);
    let line = args(&made).join(" ");
    for part in [
        r#"-c mcp_servers.db.command="my server""#,
        r#"-c mcp_servers.db.args=["--x","a\"b"]"#,
        r#"-c mcp_servers.db.env_vars=["DB_PASSWORD"]"#,
        r#"-c mcp_servers.web.url="http://h/""#,
        r#"-c mcp_servers.web.env_http_headers={"Authorization"="BOWLINE_MCP_HEADER_1_0"}"#,
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("hunter2") && !line.contains("abcdefgh"), "{line}");
    assert_eq!(made.env["DB_PASSWORD"], "hunter2hunter2");
    assert_eq!(made.env["BOWLINE_MCP_HEADER_1_0"], "Bearer abcdefgh");
    let shown = serde_json::to_string(&made.preview()).expect("plain data");
    assert!(!shown.contains("hunter2") && !shown.contains("abcdefgh"), "{shown}");

    let made = built("claude", &request);
    let line = args(&made).join(" ");
    assert!(line.contains("--mcp-config /session/mcp.json --strict-mcp-config"), "{line}");
    assert!(made.files[0].content.contains("hunter2hunter2"), "the file is for its user alone");
    assert!(!serde_json::to_string(&made.preview()).expect("plain data").contains("hunter2"));
}

#[test]
fn native_arguments_stand_before_the_prompt_and_may_narrow_the_mode() {
    let wish = |args: &[&str]| Wish {
        agent_args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..Wish::default()
    };
    let made = build(manifest("claude"), &ask("hi"), &wish(&["--permission-mode=plan", "--betas", "x"]));
    let made = args(&made.expect("can be honoured"));
    assert_eq!(made.iter().filter(|arg| arg.starts_with("--permission-mode")).count(), 1, "{made:?}");
    assert!(made.ends_with(&["--permission-mode=plan".into(), "--betas".into(), "x".into()]), "{made:?}");
    let refusal = build(manifest("claude"), &ask("hi"), &wish(&["--permission-mode=bypassPermissions"]));
    let refusal = refusal.expect_err("it would widen the mode");
    assert_eq!(refusal.setting(), RequestField::AgentArgs.value("--permission-mode=bypassPermissions"));
    assert_eq!((refusal.category, refusal.code), (Category::Validation, Code::Unsupported));
    let made = build(
        manifest("grok-cli"),
        &Request { permission: PermissionMode::Yolo, ..ask("hi") },
        &wish(&["--x"]),
    );
    assert!(args(&made.expect("honoured")).ends_with(&["--x".into(), "--prompt".into(), "hi".into()]));
    // The app server is another command, with other options.
    let made = build(manifest("codex"), &ask("hi"), &wish(&["--search"])).expect("can be honoured");
    assert_eq!(made.format, "stream-json");
    assert!(made.degraded[0].reason.contains("native arguments"), "{:?}", made.degraded);
}

#[test]
fn a_program_without_permissions_runs_under_ask_only_where_that_is_allowed() {
    for name in ["glm", "grok"] {
        assert_eq!(refused(name, &ask("hi")).setting(), RequestField::Permission.value("ask"));
        let wish = Wish { unrestricted: Unrestricted::Warn, ..Wish::default() };
        let made = build(manifest(name), &ask("hi"), &wish).expect("it runs");
        assert_eq!(args(&made), ["hi"]);
        assert_eq!(made.notices.len(), 1);
        assert_eq!(made.notices[0].code.as_deref(), Some("unrestricted"));
        for mode in [PermissionMode::Read, PermissionMode::Edit] {
            let asked = Request { permission: mode, ..ask("hi") };
            assert!(build(manifest(name), &asked, &wish).is_err(), "{name} {mode:?}");
        }
    }
}

#[test]
fn what_a_protocol_carries_is_shown() {
    let asked = Request {
        model: Some("big".into()),
        effort: Some("high".into()),
        cwd: Some("/w".into()),
        ..ask("Fix it")
    };
    let shown = built("codex", &asked).preview().protocol;
    let pairs: Vec<(&str, &str)> = shown.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(pairs, [("effort", "high"), ("model", "big"), ("permission", "ask"), ("prompt", "Fix it")]);
    assert!(built("claude", &asked).preview().protocol.is_empty());
}

#[test]
fn capabilities_are_those_of_the_format() {
    let claude = manifest("claude");
    let one_way = claude.capabilities_in("stream-json-partial", &claude.capabilities);
    assert!(claude.capabilities.steers && !one_way.steers && one_way.streams_text);
    assert_eq!(one_way.approvals, bowline_protocol::Approvals::Rules);
    assert!(!claude.capabilities_in("json", &claude.capabilities).streams_text);
    let text = claude.capabilities_in("text", &claude.capabilities);
    assert!(!text.reports_tools && !text.reports_thinking);
    let codex = manifest("codex");
    assert!(codex.capabilities_in("app-server", &codex.capabilities).steers);
}

#[test]
fn every_provider_says_how_it_is_kept_from_a_repositorys_code() {
    for manifest in catalogue::built_in() {
        let own = manifest.formats.values().filter_map(|format| format.own.as_ref()?.repository.as_ref());
        let own: Vec<&Repository> = own.collect();
        for how in own.iter().copied().chain([&manifest.repository]) {
            let refuses_all = how.refused.is_some() && how.refused_for.is_empty();
            let ways = [!how.args.is_empty() || !how.env.is_empty(), refuses_all, how.never.is_some()];
            assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{}: one way, or a reason", manifest.name);
        }
        let how = &manifest.repository;
        let needs_none = how.never.is_some() && own.is_empty();
        assert_eq!(how.files.is_empty(), needs_none, "{}: files, or never", manifest.name);
    }
}

#[test]
fn who_may_only_read_or_ask_runs_no_code_of_the_repository() {
    let kept = |files: &[&str]| Wish {
        repository: RepositoryCode::Kept(files.iter().map(|file| (*file).to_owned()).collect()),
        ..Wish::default()
    };
    let request = |permission| Request { permission, ..ask("x") };
    let line = |name: &str, permission, wish: &Wish| {
        let made = build(manifest(name), &request(permission), wish).expect("can be honoured");
        (args(&made).join(" "), made)
    };
    for mode in [PermissionMode::Read, PermissionMode::Ask] {
        let (said, made) = line("claude", mode, &kept(&[".mcp.json"]));
        assert!(said.contains("--setting-sources user"), "{said}");
        let notice = made.notices.iter().find(|it| it.code.as_deref() == Some("repository_ignored"));
        assert!(notice.is_some_and(|it| it.text.contains(".mcp.json")), "{:?}", made.notices);
        assert!(line("pi", mode, &kept(&[".pi/x.ts"])).0.contains("--no-approve"));
        assert!(line("qwen", mode, &kept(&[".qwen/settings.json"])).0.contains("--bare"));
        let (_, gemini) = line("gemini", mode, &kept(&[".gemini/settings.json"]));
        assert_eq!(gemini.env["GEMINI_CLI_TRUST_WORKSPACE"], "false");
        // Each folder has its own files, and in this format none of them counts.
        let (_, copilot) = line("copilot", mode, &kept(&[".github/hooks/x.json"]));
        assert!(copilot.notices.is_empty(), "{:?}", copilot.notices);
        let refusal =
            build(manifest("opencode"), &request(mode), &kept(&["opencode.json"])).expect_err("no way");
        assert!(refusal.reason.contains("not trusted and has opencode.json"), "{refusal:?}");
        assert!(refusal.remedies.contains(&Remedy::TrustProject));
        // A version without the option that keeps it from the code might ignore it, and run the code.
        let older =
            Wish { unkept: Some("it has no option `--bare`".to_owned()), ..kept(&[".qwen/settings.json"]) };
        let refusal = build(manifest("qwen"), &request(mode), &older).expect_err("it is not known to hold");
        assert!(
            refusal.reason.contains("it has no option `--bare`; this project is not trusted"),
            "{refusal:?}"
        );
        // A project that has nothing of the sort, or is trusted, loses nothing.
        for wish in [kept(&[]), Wish::default()] {
            let (said, made) = line("claude", mode, &wish);
            assert!(!said.contains("--setting-sources") && made.notices.is_empty(), "{said}");
            build(manifest("opencode"), &request(mode), &wish).expect("nothing is in the way");
        }
    }
    for mode in [PermissionMode::Edit, PermissionMode::Yolo] {
        let (said, _) = line("claude", mode, &kept(&[".mcp.json"]));
        assert!(!said.contains("--setting-sources"), "{said}");
    }
    // It is not said twice, and what is asked for without any settings stays so.
    let alone = Request { isolate: true, ..request(PermissionMode::Read) };
    let made = build(manifest("claude"), &alone, &kept(&[".mcp.json"])).expect("can be honoured");
    let said = args(&made);
    assert_eq!(said.iter().filter(|arg| *arg == "--setting-sources").count(), 1, "{said:?}");
    assert!(!said.contains(&"user".to_owned()), "{said:?}");
    // A variable of the caller cannot undo it.
    let undone = Request {
        env: [("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned())].into(),
        ..request(PermissionMode::Read)
    };
    build(manifest("gemini"), &undone, &kept(&[".gemini/settings.json"])).expect_err("it would be undone");
}

/// Over its protocol, a program may use more of the repository than with one prompt.
#[test]
fn a_format_may_have_its_own_rule_for_the_code_of_the_repository() {
    let made = |name: &str, format: Option<&str>, file: &str| {
        let repository = RepositoryCode::Kept(vec![file.to_owned()]);
        let wish = Wish { repository, format: format.map(str::to_owned), ..Wish::default() };
        build(manifest(name), &Request { permission: PermissionMode::Ask, ..ask("x") }, &wish)
    };
    for (name, file) in [("qwen", ".env"), ("copilot", ".github/hooks/x.json")] {
        made(name, None, file).expect("one prompt is no danger");
        let refusal = made(name, Some("acp"), file).expect_err("it would use the file");
        assert!(refusal.reason.starts_with("over ACP it "), "{refusal:?}");
        assert!(refusal.reason.ends_with(&format!("is not trusted and has {file}")), "{refusal:?}");
    }
    let gemini = made("gemini", Some("acp"), ".env").expect("it can be kept from it");
    assert_eq!(gemini.env["GEMINI_RESTRICTED_MODE"], "true");
    let refusal = made("gemini", None, "app/.env").expect_err("it would take the variables");
    assert!(refusal.reason.ends_with("this project is not trusted and has app/.env"), "{refusal:?}");
    assert_eq!(refusal.remedies[0], Remedy::set(RequestField::Format.value("acp")));
    // opencode has no format that helps.
    let refusal = made("opencode", None, "opencode.json").expect_err("it would load the plugins");
    assert_eq!(refusal.remedies[0], Remedy::TrustProject);
}

/// A live session checks its options before it has a prompt.
#[test]
fn a_prompt_that_comes_later_leaves_every_other_check() {
    let later = Wish { prompt: PromptTime::Later, ..Wish::default() };
    let build_later = |request: &Request| build(manifest("claude"), request, &later);
    assert!(build_later(&ask("")).is_ok());
    assert_eq!(&*refused("claude", &ask(" ")).reason, "the prompt is empty");
    let contradicts = Request { no_tools: true, allow_tools: vec!["Read".into()], ..ask("") };
    assert_eq!(&*build_later(&contradicts).unwrap_err().reason, "it contradicts `allow_tools`");
}
