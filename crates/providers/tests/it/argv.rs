//! Every option of a run with every provider: what it becomes, or why it is refused. No cell may be missing.
//!
//! The tables are in `tests/snapshots/argv/`, one for each provider; a new provider needs no line here. To write them
//! anew: `INSTA_UPDATE=always cargo test -p bowline-providers --test it argv`, and look at the difference.

mod better;
mod limits;
mod recorded;

use std::fmt::Write as _;

use bowline_protocol::{
    Attachment, Json, McpServer, Millis, PermissionMode, Request, RequestField, Resume, Sampling,
};
use bowline_providers::catalogue;
use bowline_providers::invocation::{
    Arg, Invocation, Refusal, StdinPlan, StdioKind, Streaming, User, Wish, build,
};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, RunFlag};

const SESSION: &str = "0cb916db-26aa-40f2-86b5-1ba81b225fd2";

/// The fields of a request, and the options of a task, that reach a provider or its surroundings.
const FIELDS: &[RequestField] = &[
    RequestField::Binary,
    RequestField::Model,
    RequestField::Effort,
    RequestField::Cwd,
    RequestField::AddDirs,
    RequestField::Attachments,
    RequestField::SystemPrompt,
    RequestField::AppendSystemPrompt,
    RequestField::OutputSchema,
    RequestField::McpServers,
    RequestField::AllowTools,
    RequestField::DenyTools,
    RequestField::Permission,
    RequestField::MaxTurns,
    RequestField::MaxCost,
    RequestField::Timeout,
    RequestField::IdleTimeout,
    RequestField::Resume,
    RequestField::Env,
    RequestField::NoTools,
    RequestField::Ephemeral,
    RequestField::Isolate,
    RequestField::Docker,
    RequestField::Key,
    RequestField::NoStream,
];

/// A row of the table.
struct Row {
    name: String,
    request: Request,
    wish: Wish,
}

/// Every provider, and once more in each format that has something of its own. The names are those of the tables.
pub(crate) fn ways() -> Vec<(String, Manifest)> {
    let ways = |manifest: &Manifest| -> Vec<(String, Manifest)> {
        let mut usual = manifest.clone();
        usual.formats.retain(|_, format| format.own.is_none());
        let own = manifest.formats.iter().filter(|(_, format)| format.own.is_some());
        let own = own.map(|(format, _)| {
            (format!("{}.{format}", manifest.name), manifest.in_format(format).into_owned())
        });
        std::iter::once((manifest.name.clone(), usual)).chain(own).collect()
    };
    catalogue::built_in().flat_map(ways).collect()
}

/// A request that the provider can be asked in the first place: some are only run when they may do anything.
pub(crate) fn plain(manifest: &Manifest) -> Request {
    let asks =
        manifest.permission.get(&PermissionMode::Ask).is_some_and(|permission| permission.refused.is_none());
    let permission = if asks { PermissionMode::Ask } else { PermissionMode::Yolo };
    Request { prompt: "Hello".into(), permission, ..Request::default() }
}

pub(crate) fn texts(invocation: &Invocation) -> Vec<String> {
    invocation.args.iter().map(|arg| arg.text(|name| format!("{{file:{name}}}"))).collect()
}

/// A request for one option. The compiler asks for a new one here.
fn wanting(flag: RunFlag, effort: &str, base: Request) -> Request {
    let session = || SESSION.into();
    let text = || Some("- Be brief.\nSay \"ok\".".to_owned());
    match flag {
        RunFlag::Model => Request { model: Some("big".into()), ..base },
        RunFlag::Effort => Request { effort: Some(effort.into()), ..base },
        RunFlag::System => Request { system_prompt: text(), ..base },
        RunFlag::AppendSystem => Request { append_system_prompt: text(), ..base },
        RunFlag::MaxTurns => Request { max_turns: Some(3), ..base },
        RunFlag::MaxCost => Request { max_cost_usd: Some(0.25), ..base },
        RunFlag::AddDir => Request { add_dirs: vec!["/a b".into(), "-c".into()], ..base },
        RunFlag::AllowTool => Request { allow_tools: vec!["Bash(git *)".into(), "read".into()], ..base },
        RunFlag::DenyTool => Request { deny_tools: vec!["Bash(rm *)".into(), "write".into()], ..base },
        RunFlag::NoTools => Request { no_tools: true, ..base },
        RunFlag::McpConfig => {
            let stdio = McpServer::Stdio {
                command: "files-server".into(),
                args: vec!["--root".into(), "/a b".into()],
                env: [("LEVEL".to_owned(), "1".to_owned())].into(),
            };
            let http = McpServer::Http {
                url: "http://127.0.0.1:1/mcp".into(),
                headers: [("Authorization".to_owned(), "Bearer made-up".to_owned())].into(),
            };
            Request { mcp_servers: [("files".to_owned(), stdio), ("web".to_owned(), http)].into(), ..base }
        }
        RunFlag::Schema => {
            Request { output_schema: Some(Json::parse(r#"{"type":"object"}"#).expect("JSON")), ..base }
        }
        RunFlag::Image => {
            let image = |path: &str| Attachment { path: path.into(), media_type: None };
            Request { attachments: vec![image("/a b/x.png"), image("y.JPG")], ..base }
        }
        RunFlag::Ephemeral => Request { ephemeral: true, ..base },
        RunFlag::Isolate => Request { isolate: true, ..base },
        RunFlag::Resume => Request { resume: Some(Resume::Id { native_session: session() }), ..base },
        RunFlag::Continue => Request { resume: Some(Resume::Latest), ..base },
        RunFlag::Fork => Request { resume: Some(Resume::Fork { native_session: session() }), ..base },
    }
}

/// A request with the server that the library starts for its caller's own functions.
fn host_tools(base: Request) -> Request {
    let server = McpServer::Http {
        url: "http://127.0.0.1:1/mcp".into(),
        headers: [("Authorization".to_owned(), "Bearer made-up".to_owned())].into(),
    };
    Request { mcp_servers: [("bowline".to_owned(), server)].into(), ..base }
}

fn rows(manifest: &Manifest) -> Vec<Row> {
    let base = || plain(manifest);
    let row = |name: &str, request: Request| Row { name: name.into(), request, wish: Wish::default() };
    let mut rows = vec![row("(nothing)", base())];
    for known in PermissionMode::ALL {
        let request = Request { permission: known, ..base() };
        rows.push(row(&format!("permission = {}", known.as_str()), request.clone()));
        let wish = Wish { user: User::Root, ..Wish::default() };
        rows.push(Row { wish, ..row(&format!("permission = {} (as root)", known.as_str()), request) });
    }
    // A word that the provider knows, where it knows some only.
    let effort = manifest.run.flags.get(&RunFlag::Effort).and_then(|how| how.values.get(1));
    let effort = effort.map_or("high", String::as_str);
    rows.extend(
        RunFlag::ALL.iter().map(|flag| row(&flag.field().to_string(), wanting(*flag, effort, base()))),
    );
    let sampling = Sampling { max_tokens: Some(100), temperature: Some(0.1), top_p: Some(0.9) };
    rows.extend([
        row("allow_tools (names)", Request { allow_tools: vec!["bash".into(), "task".into()], ..base() }),
        row("deny_tools (names)", Request { deny_tools: vec!["bash".into(), "task".into()], ..base() }),
        row("cwd", Request { cwd: Some("/work".into()), ..base() }),
        row("env", Request { env: [("A_TOKEN".into(), "made-up".into())].into(), ..base() }),
        row("timeout_ms", Request { timeout_ms: Some(Millis(1)), ..base() }),
        row("idle_timeout_ms", Request { idle_timeout_ms: Some(Millis(2)), ..base() }),
        row("docker", Request { docker: Some("box".into()), ..base() }),
        row("key", Request { key: Some("chat-7".into()), ..base() }),
        row("(sampling hints)", Request { sampling, ..base() }),
    ]);
    let wished = |name: &str, wish: Wish| Row { wish, ..row(name, base()) };
    rows.extend([
        wished("no_stream", Wish { streaming: Streaming::Off, ..Wish::default() }),
        wished("binary", Wish { binary: Some("/opt/agent".into()), ..Wish::default() }),
        Row {
            request: host_tools(base()),
            ..wished("(tools of the host)", Wish { host_server: Some("bowline".into()), ..Wish::default() })
        },
        wished("(terminal)", Wish { transport: Some(StdioKind::Pty), ..Wish::default() }),
    ]);
    rows
}

#[test]
fn every_cell_of_the_table() {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../snapshots/argv");
    for (name, manifest) in ways() {
        settings.bind(|| insta::assert_snapshot!(name.as_str(), table(&manifest)));
    }
}

#[test]
fn no_cell_is_missing() {
    for (name, manifest) in ways() {
        for flag in RunFlag::ALL {
            let key = flag.key();
            assert!(manifest.run.flags.contains_key(flag), "{name}: `run.flags.{key}` is missing");
        }
        for mode in PermissionMode::ALL {
            let key = mode.as_str();
            assert!(manifest.permission.contains_key(&mode), "{name}: `permission.{key}` is missing");
        }
        let rows = rows(&manifest);
        for field in FIELDS {
            let about = |row: &Row| row.name.split(' ').next() == Some(field.name());
            assert!(rows.iter().any(about), "no row for {field}");
        }
    }
}

#[test]
fn the_table_and_the_capabilities_agree() {
    for (name, manifest) in ways() {
        let can = &manifest.capabilities;
        let done = |flag: RunFlag| manifest.run.flags.get(&flag).is_some_and(Flag::is_done);
        for (flag, declared) in [
            (RunFlag::Model, can.chooses_model),
            (RunFlag::Effort, can.chooses_effort),
            (RunFlag::System, can.system_prompt),
            (RunFlag::MaxTurns, can.max_turns),
            (RunFlag::MaxCost, can.max_cost),
            (RunFlag::Schema, can.output_schema),
            (RunFlag::Image, can.images),
            (RunFlag::Fork, can.forks),
            (RunFlag::Resume, can.resume == bowline_protocol::ResumeSupport::ById),
        ] {
            assert_eq!(done(flag), declared, "{name}: {}", flag.key());
        }
        assert!(can.supports_mcp || !done(RunFlag::McpConfig), "{name}: supports_mcp");
        let modes: Vec<PermissionMode> = PermissionMode::ALL
            .iter()
            .filter(|mode| manifest.permission.get(mode).is_some_and(|it| it.refused.is_none()))
            .copied()
            .collect();
        assert_eq!(modes, can.permission_modes, "{name}: permission_modes");
    }
}

/// The table of a provider, as text.
fn table(manifest: &Manifest) -> String {
    let base = build(manifest, &plain(manifest), &Wish::default()).expect("a plain prompt can be put");
    let mut text = format!(
        "{} {}\n    env {}\n    limits {}\n    stop {}\n    keeps {}\n    removes {}\n    secrets {}\n\n",
        base.program,
        texts(&base).join(" "),
        base.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "),
        serde_json::to_string(&base.limits).expect("plain data"),
        serde_json::to_string(&base.stop).expect("plain data"),
        manifest.run.env_keep.join(" "),
        manifest.run.env_remove.join(" "),
        base.secrets_env.join(" "),
    );
    for row in rows(manifest) {
        let cell = match build(manifest, &row.request, &row.wish) {
            Ok(made) => difference(&base, &made),
            Err(refusal) => refused(&refusal),
        };
        let _ = writeln!(text, "{}\n{cell}", row.name);
    }
    text
}

fn refused(refusal: &Refusal) -> String {
    let hint = refusal.hint.as_ref().map_or(String::new(), |hint| format!("\n    hint: {hint}"));
    format!("    refused ({}): {refusal}{hint}\n", refusal.code)
}

/// What differs from a run without options.
fn difference(base: &Invocation, made: &Invocation) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "    {what} {value}");
    };
    if base.program != made.program {
        line("program", made.program.clone());
    }
    if base.args != made.args {
        let mut old = base.args.iter().peekable();
        let mut added = Vec::new();
        for arg in &made.args {
            if old.next_if_eq(&arg).is_none() {
                added.push(shown(arg));
            }
        }
        if old.next().is_none() {
            line("adds", added.join(" "));
        } else {
            line("args", made.args.iter().map(shown).collect::<Vec<_>>().join(" "));
        }
    }
    for (name, value) in &made.env {
        if base.env.get(name) != Some(value) {
            line("env", format!("{name}={value}"));
        }
    }
    base.env.keys().filter(|name| !made.env.contains_key(*name)).for_each(|name| line("unset", name.clone()));
    made.env_files.iter().for_each(|(name, file)| line("env", format!("{name}={{file:{file}}}")));
    let secrets: Vec<&String> =
        made.secrets_env.iter().filter(|name| !base.secrets_env.contains(name)).collect();
    if !secrets.is_empty() || !made.secret_values.is_empty() {
        line("masks", format!("{secrets:?} and {} values", made.secret_values.len()));
    }
    if base.env_removed != made.env_removed {
        line("removes", made.env_removed[base.env_removed.len()..].join(" "));
    }
    if base.stdin != made.stdin {
        line("stdin", format!("{:?}", prompt(made)));
    }
    if base.cwd != made.cwd {
        line("cwd", format!("{:?}", made.cwd));
    }
    if base.format != made.format {
        line("format", format!("{} ({}, {:?})", made.format, made.dialect, made.shape));
    }
    if base.transport != made.transport {
        line("transport", format!("{:?}", made.transport));
    }
    if base.conversation != made.conversation {
        let lines = |made: &Invocation| -> Vec<String> {
            format!("{:#?}", made.conversation).lines().map(|line| line.trim().to_owned()).collect()
        };
        let before = lines(base);
        let new: Vec<String> = lines(made).into_iter().filter(|line| !before.contains(line)).collect();
        line("by protocol", new.join(" "));
    }
    if base.limits != made.limits {
        line("limits", serde_json::to_string(&made.limits).expect("plain data"));
    }
    made.files.iter().for_each(|file| line("file", format!("{} {}", file.name, file.content)));
    made.notices.iter().for_each(|notice| line("notice", format!("{:?}: {}", notice.level, notice.text)));
    if text.is_empty() { "    the same\n".into() } else { text }
}

fn prompt(made: &Invocation) -> &str {
    match &made.stdin {
        StdinPlan::Null => "",
        StdinPlan::Prompt(text) | StdinPlan::Protocol(text) => text,
    }
}

/// An argument that can be read among others: in quotation marks where its ends do not show.
fn shown(arg: &Arg) -> String {
    let text = arg.text(|name| format!("{{file:{name}}}"));
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '"') {
        format!("{text:?}")
    } else {
        text
    }
}
