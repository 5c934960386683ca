//! Which format is taken, where a better one than the usual is there: the best that can be had, one step down at a time, and
//! each step is told.

use bowline_protocol::PermissionMode;
use bowline_protocol::kinds::CapabilityDegraded;
use bowline_providers::probe::{Answer, NarrowedCapabilities, Page, Version, check, narrow};

use super::*;

fn codex() -> &'static Manifest {
    catalogue::by_name("codex").expect("a provider")
}

fn built(request: &Request, wish: &Wish) -> (String, Vec<CapabilityDegraded>) {
    let made = build(codex(), request, wish).expect("can be put");
    (made.format, made.degraded)
}

/// Expects the usual format, and returns why the better one is not taken.
fn stepped_down(request: &Request, wish: &Wish) -> String {
    let (format, degraded) = built(request, wish);
    assert_eq!(format, "stream-json");
    let [it] = &degraded[..] else { panic!("one step: {degraded:?}") };
    assert_eq!(it.capability, "approvals");
    assert!(it.instead.starts_with("it never asks: "), "{}", it.instead);
    it.reason.clone()
}

#[test]
fn the_app_server_is_for_those_who_ask() {
    for known in PermissionMode::ALL {
        let request = Request { permission: known, ..plain(codex()) };
        let expected = if known == PermissionMode::Ask { "app-server" } else { "stream-json" };
        assert_eq!(
            built(&request, &Wish::default()),
            (expected.to_owned(), Vec::new()),
            "{}",
            known.as_str()
        );
    }
    let named = Wish { format: Some("stream-json".into()), ..Wish::default() };
    assert_eq!(
        built(&plain(codex()), &named),
        ("stream-json".to_owned(), Vec::new()),
        "who names one gets it"
    );
}

#[test]
fn a_wish_that_it_cannot_honour_is_honoured_by_the_usual_one() {
    let any = Wish::default();
    let isolated = Request { isolate: true, ..plain(codex()) };
    let reason = "`isolate`: the app server always reads the user's settings";
    assert_eq!(stepped_down(&isolated, &any), reason);
    let resume = Some(Resume::Id { native_session: SESSION.into() });
    let traceless = Request { ephemeral: true, resume, ..plain(codex()) };
    assert_eq!(
        stepped_down(&traceless, &any),
        "`ephemeral`: a thread that goes on is written down as it was before"
    );
    let quiet = Wish { streaming: Streaming::Off, ..Wish::default() };
    assert_eq!(stepped_down(&plain(codex()), &quiet), "`no_stream` is set, and this format always streams");
    // What neither can do is refused as ever.
    let limited = Request { max_turns: Some(1), ..plain(codex()) };
    assert_eq!(build(codex(), &limited, &any).expect_err("no limit of turns").field, RequestField::MaxTurns);
    let file = Attachment { path: "notes.txt".into(), media_type: None };
    let attached = Request { attachments: vec![file], ..plain(codex()) };
    assert!(build(codex(), &attached, &any).expect_err("no image").reason.contains("only images"));
    let odd = Request { effort: Some("banana".into()), ..plain(codex()) };
    assert!(build(codex(), &odd, &any).expect_err("no effort").reason.contains("is not one of"));
}

/// What is left of the program whose recorded pages say nothing of these words.
fn without(words: &[&str]) -> NarrowedCapabilities {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/codex/0.166.0");
    let page = |case: &str, args: &[&str]| {
        let text = std::fs::read_to_string(root.join(case).join("stdout.raw")).expect(case);
        let said = |line: &&str| !words.iter().any(|word| line.trim_start().starts_with(word));
        let stdout = text.lines().filter(said).collect::<Vec<_>>().join("\n");
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Page::read(&args, &Answer { stdout, code: Some(0), ..Answer::default() })
    };
    let pages = [
        page("help", &["--help"]),
        page("app-server-help", &["app-server", "--help"]),
        page("exec-help", &["exec", "--help"]),
        page("exec-resume-help", &["exec", "resume", "--help"]),
        page("exec-fork-help", &["exec", "fork", "--help"]),
    ];
    narrow(codex(), &check(codex(), &pages, Version::parse("0.166.0").as_ref()))
}

#[test]
fn a_program_without_it_is_run_in_the_usual_one() {
    assert_eq!(without(&[]).lacking, [].into());
    let narrowed = without(&["app-server "]);
    let why = "`app-server` is not in its help";
    assert_eq!(narrowed.lacking, [("app-server".to_owned(), why.to_owned())].into());
    assert_eq!(narrowed.capabilities, codex().capabilities, "the usual one is as it was");
    let wish = Wish { lacking: narrowed.lacking, ..Wish::default() };
    assert_eq!(stepped_down(&plain(codex()), &wish), why);
    // Another step down: the usual one is not there either.
    let narrowed = without(&["app-server ", "--json"]);
    let usual = narrowed.format.map(|(name, _)| name);
    let wish = Wish { lacking: narrowed.lacking, usual, ..Wish::default() };
    let (format, degraded) = built(&plain(codex()), &wish);
    assert_eq!((format.as_str(), degraded.len()), ("text", 1), "plain text is all that is left");
    // An option of it that is gone takes it away as a whole.
    let reason = without(&["-c, --config"]).lacking.remove("app-server").expect("it needs `-c`");
    assert!(reason.starts_with("`-c` of `app-server`"), "{reason}");
}

#[test]
fn what_it_can_do_is_said_of_the_format() {
    let server = codex().in_format("app-server");
    assert!(server.capabilities.streams_text && !codex().capabilities.streams_text);
    assert_eq!(server.capabilities.approvals, bowline_protocol::Approvals::Interactive);
    assert_eq!(codex().capabilities.approvals, bowline_protocol::Approvals::Rules);
    assert_eq!(server.capabilities.images, codex().capabilities.images, "the rest is the same");
}
