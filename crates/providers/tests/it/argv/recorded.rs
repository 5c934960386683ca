//! Our commands beside those that were recorded, and beside the programs' own help.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The arguments of a recording, without the program and the prompt. There are two ways in which they were written down.
fn recorded(case: &str) -> Vec<String> {
    let path = root().join(case).join("argv.txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let quoted: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("arg "))
        .map(|arg| serde_json::from_str(arg).expect("a JSON string"))
        .collect();
    let all = if quoted.is_empty() { text.lines().map(str::to_owned).collect() } else { quoted };
    // The fake models of the recordings choose what to say by this word; no other argument has it.
    all.into_iter().skip(1).filter(|arg| !arg.is_empty() && !arg.starts_with("CASE:")).collect()
}

/// One name for each option, whichever was used.
fn long(arg: &str) -> &str {
    match arg {
        "-o" => "--output-format",
        "-y" => "--yolo",
        "-m" => "--model",
        other => other,
    }
}

/// Compares a recorded command with ours: everything recorded has to be there, and of ours only `more` besides.
fn check(case: &str, without: &[&str], more: &[&str], build: impl FnOnce(Request) -> (Request, Wish)) {
    let name = case.split('/').next().expect("a program");
    let manifest = catalogue::by_name(if name == "grok" { "grok-cli" } else { name }).expect("a provider");
    let (request, wish) = build(plain(manifest));
    let made = super::build(manifest, &request, &wish).unwrap_or_else(|refusal| panic!("{case}: {refusal}"));
    let mut ours: Vec<String> = texts(&made);
    for theirs in recorded(case) {
        let theirs = long(&theirs);
        if without.contains(&theirs) {
            continue;
        }
        // A short `-p` is `--print` in some programs, and stands before the prompt in others.
        let same = |arg: &String| arg == theirs || (theirs == "-p" && arg == "--print");
        let place = ours.iter().position(same);
        let place = place.unwrap_or_else(|| panic!("{case}: `{theirs}` is not in {:?}", texts(&made)));
        ours.remove(place);
    }
    assert_eq!(ours, more, "{case}: what we add");
}

fn wish(format: &str) -> Wish {
    Wish { format: Some(format.into()), ..Wish::default() }
}

fn resumed(id: &str) -> Option<Resume> {
    Some(Resume::Id { native_session: id.into() })
}

#[test]
fn claude() {
    let ask = &["--permission-mode", "default"][..];
    check("claude/2.1.325/stdin-prompt", &[], ask, |request| (request, wish("stream-json")));
    check("claude/2.1.325/session-3-resume", &[], ask, |request| {
        let resume = resumed("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee");
        (Request { resume, ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/session-4-continue", &[], ask, |request| {
        (Request { resume: Some(Resume::Latest), ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/session-5-fork", &[], ask, |request| {
        let native_session = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee".into();
        (Request { resume: Some(Resume::Fork { native_session }), ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/max-turns", &[], ask, |request| {
        let allow_tools = vec!["Bash".into()];
        (Request { max_turns: Some(2), allow_tools, ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/max-budget", &[], ask, |request| {
        let allow_tools = vec!["Bash".into()];
        (Request { max_cost_usd: Some(0.012), allow_tools, ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/mode-acceptEdits", &[], &[], |request| {
        (Request { permission: PermissionMode::Edit, ..request }, wish("stream-json"))
    });
    check("claude/2.1.325/session-8-no-persistence", &[], ask, |request| {
        (Request { ephemeral: true, ..request }, wish("stream-json"))
    });
    let no_stream = Wish { streaming: Streaming::Off, ..Wish::default() };
    check("claude/2.1.325/json-arg", &[], ask, |request| (request, no_stream));
    check("claude/2.1.325/stream-json-partial", &[], ask, |request| (request, Wish::default()));
}

#[test]
fn codex() {
    let ask = &["--sandbox", "read-only", "-"][..];
    check("codex/0.166.0/stdin-noarg", &[], ask, |request| (request, wish("stream-json")));
    check("codex/0.166.0/session-4-execflags-before-resume", &[], &["-"], |request| {
        let resume = resumed("01a1de2a-51a8-78c0-8035-237c0140ce50");
        (Request { resume, permission: PermissionMode::Edit, ..request }, wish("stream-json"))
    });
    let more = &["--color", "never", "--sandbox", "read-only"][..];
    check("codex/0.166.0/session-8-resume-stdin", &[], more, |request| {
        (Request { resume: resumed("01a1de2a-51a8-78c0-8035-237c0140ce50"), ..request }, wish("stream-json"))
    });
    let more = &["--color", "never", "--sandbox", "read-only", "-"][..];
    check("codex/0.166.0/session-9-fork", &[], more, |request| {
        let native_session = "01a1de2a-51a8-78c0-8035-237c0140ce50".into();
        (Request { resume: Some(Resume::Fork { native_session }), ..request }, wish("stream-json"))
    });
    check("codex/0.166.0/session-19-ephemeral", &[], ask, |request| {
        (Request { ephemeral: true, ..request }, wish("stream-json"))
    });
    check("codex/0.166.0/exec-tool-yolo", &[], &["-"], |request| {
        (Request { permission: PermissionMode::Yolo, ..request }, wish("stream-json"))
    });
    check("codex/0.166.0/appserver-ask", &[], &[], |request| (request, Wish::default()));
    let fake = &["--disable", "unbounded_connection_retries", "-c", "model_provider=fake"][..];
    let more = &["--sandbox", "read-only", "--ignore-rules", "-"][..];
    check("codex/0.166.0/exec-ignore-user-config", fake, more, |request| {
        (Request { isolate: true, ..request }, wish("stream-json"))
    });
}

#[test]
fn the_others() {
    let ask = &["--approval-mode", "default"][..];
    check("gemini/0.61.0/stdin-prompt", &[], ask, |request| (request, Wish::default()));
    check("gemini/0.61.0/resume-latest", &["-p"], ask, |request| {
        (Request { resume: Some(Resume::Latest), ..request }, Wish::default())
    });
    check("gemini/0.61.0/tool-yolo", &["-p"], &[], |request| {
        (Request { permission: PermissionMode::Yolo, ..request }, Wish::default())
    });
    check("qwen/0.24.4/stdin-prompt", &[], ask, |request| (request, wish("stream-json")));
    check("qwen/0.24.4/fork-session", &[], ask, |request| {
        let native_session = "11111111-2222-4333-8444-555555555555".into();
        (Request { resume: Some(Resume::Fork { native_session }), ..request }, wish("stream-json"))
    });
    check("qwen/0.24.4/tool-yolo", &[], &[], |request| {
        (Request { permission: PermissionMode::Yolo, ..request }, wish("stream-json"))
    });
    let provider = &["--provider", "fake"][..];
    check("pi/0.87.1/stdin-prompt", provider, &["--tools", "read,grep,find,ls"], |request| {
        (Request { model: Some("fake-model".into()), ..request }, Wish::default())
    });
    check("pi/0.87.1/session-resume", &["--provider", "fake"], &[], |request| {
        let resume = resumed("11111111-2222-4333-8444-555555555555");
        let model = Some("fake-model".into());
        (Request { model, resume, permission: PermissionMode::Yolo, ..request }, Wish::default())
    });
    check("opencode/1.18.33/stdin-prompt", &[], &["--thinking"], |request| (request, Wish::default()));
    check("opencode/1.18.33/image-file", &[], &[], |request| {
        let attachments = vec![Attachment { path: "x.png".into(), media_type: None }];
        (Request { attachments, ..request }, wish("json"))
    });
    check("copilot/1.0.102/stdin-prompt", &[], &[], |request| (request, Wish::default()));
    check("copilot/1.0.102/image-attachment", &["-p"], &[], |request| {
        let attachments = vec![Attachment { path: "x.png".into(), media_type: None }];
        (Request { attachments, ..request }, Wish::default())
    });
}

/// Options that work though the program's help does not list them, with the reason why we believe it.
const UNLISTED: &[(&str, &str)] = &[
    ("claude --max-turns", "recorded: max-turns"),
    ("claude --system-prompt-file", "the help of `--bare` writes `--system-prompt[-file]`"),
    (
        "claude --permission-prompt-tool",
        "recorded: bidi-perm-allow; the help of `--permission-prompts` names it",
    ),
    ("claude --append-system-prompt-file", "the help of `--bare` writes `--append-system-prompt[-file]`"),
];

#[test]
fn every_option_is_in_the_programs_help() {
    let mut seen = 0;
    for manifest in catalogue::built_in() {
        let Some(help) = help(&manifest.name) else { continue };
        seen += 1;
        for option in options(manifest) {
            let named = format!("{} {option}", manifest.name);
            let listed = help
                .split(|c: char| c.is_whitespace() || [',', '=', '[', ']', '<', '`', '"', '\''].contains(&c))
                .any(|word| word == option);
            let excused = UNLISTED.iter().any(|(known, _)| *known == named);
            assert!(listed || excused, "`{named}` is not in the recorded help");
            assert!(!(listed && excused), "`{named}` is in the help by now: it needs no excuse");
        }
    }
    assert!(seen >= 8, "the recorded help texts are found: {seen}");
}

#[test]
fn programs_that_nobody_has_seen_get_no_options() {
    for name in ["glm", "grok"] {
        let manifest = catalogue::by_name(name).expect("a provider");
        assert_eq!(options(manifest), Vec::<String>::new(), "{name}");
        assert!(manifest.run.flags.values().all(|flag| flag.refused.is_some()), "{name}");
    }
}

/// The recorded help texts of a program, together, where there are any.
fn help(provider: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Probe {
        cli: String,
        provider: String,
        version: String,
        case: String,
    }
    let index = fs::read_to_string(root().join("index.jsonl")).expect("the list of recordings");
    let read = |probe: Probe| {
        let folder = root().join(probe.cli).join(probe.version).join(probe.case);
        let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        file("stdout.raw") + &file("stderr.raw")
    };
    let text: String = index
        .lines()
        .map(|line| serde_json::from_str::<Probe>(line).expect("a line of the list"))
        .filter(|probe| probe.provider == provider)
        .filter(|probe| ["help", "run-help", "exec-help", "exec-resume-help"].contains(&probe.case.as_str()))
        .map(read)
        .collect();
    (!text.is_empty()).then_some(text)
}

/// Every option that the manifest can write.
fn options(manifest: &Manifest) -> Vec<String> {
    let run = &manifest.run;
    let flags = run.flags.values().chain(run.config.values());
    let large = flags.clone().flat_map(|flag| flag.large.iter().flat_map(|large| &large.args));
    let all = manifest
        .formats
        .values()
        .flat_map(|format| &format.args)
        .chain(&run.args)
        .chain(&run.prompt_args)
        .chain(flags.flat_map(|flag| flag.args.iter().chain(&flag.each)))
        .chain(large)
        .chain(manifest.permission.values().flat_map(|permission| &permission.args));
    let mut options: Vec<String> = all
        .filter(|arg| arg.starts_with('-') && arg.len() > 1)
        .map(|arg| arg.split('=').next().unwrap_or_default().to_owned())
        .collect();
    options.sort();
    options.dedup();
    options
}
