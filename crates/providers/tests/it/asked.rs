//! What the real programs told about accounts, models and limits, as it was recorded.

use std::path::Path;

use bowline_providers::ask::{self, AccountQuery, AccountReport, Login, NotTold};
use bowline_providers::models::Model;
use bowline_providers::probe::Answer;
use serde_json::Value;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads what a program printed and ended with.
fn printed(reader: &str, fixture: &str) -> Result<AccountReport, NotTold> {
    let stdout = read(&format!("fixtures/{fixture}/stdout.raw"));
    let code = read(&format!("fixtures/{fixture}/exit_code")).trim().parse().ok();
    page(reader, stdout, code)
}

fn page(reader: &str, stdout: String, code: Option<i32>) -> Result<AccountReport, NotTold> {
    let (talk, first) = AccountQuery::new(ask::reader(reader).expect("a reader"), "/w");
    assert_eq!(first, b"");
    talk.end(Answer { stdout, stderr: String::new(), code })
}

/// Holds the conversation of a reader with the answers of a recording, each found by its method. What the program said
/// besides comes in between.
fn recorded(reader: &str, transcript: &str) -> Result<AccountReport, NotTold> {
    let lines: Vec<Value> =
        read(transcript).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let messages = || lines.iter().map(|line| &line["msg"]);
    let answer = |method: &str| {
        let asked = messages().find(|message| message["method"] == method && message.get("id").is_some());
        let id = &asked.unwrap_or_else(|| panic!("no `{method}` in {transcript}"))["id"];
        messages().find(|it| it.get("method").is_none() && it["id"] == *id).expect("an answer").clone()
    };
    let (mut talk, first) = AccountQuery::new(ask::reader(reader).expect("a reader"), "/w");
    let noise = messages().find(|message| message.get("method").is_some() && message.get("id").is_none());
    let mut said = String::from_utf8(first).expect("text");
    while let Some(line) = said.lines().next().map(str::to_owned) {
        said.drain(..line.len() + 1);
        let call: Value = serde_json::from_str(&line).expect("JSON");
        let Some(id) = call.get("id") else { continue };
        let mut reply = answer(call["method"].as_str().expect("a method"));
        reply["id"] = id.clone();
        for heard in noise.into_iter().chain([&reply]) {
            said.push_str(&String::from_utf8(talk.line(&heard.to_string())).expect("text"));
        }
    }
    assert!(talk.is_over());
    talk.end(Answer::default())
}

fn login(told: Result<AccountReport, NotTold>) -> Login {
    match told {
        Ok(AccountReport::Login(login)) => login,
        other => panic!("{other:?}"),
    }
}

fn models(told: Result<AccountReport, NotTold>) -> Vec<Model> {
    match told {
        Ok(AccountReport::Models(models)) => models,
        other => panic!("{other:?}"),
    }
}

fn ids(models: &[Model]) -> Vec<&str> {
    models.iter().map(|model| model.id.as_str()).collect()
}

#[test]
fn a_status_says_who_is_logged_in() {
    let status = |case: &str| login(printed("claude-auth-status", &format!("claude/2.1.325/{case}")));
    let word = |method: Option<&str>, plan: Option<&str>| Login {
        logged_in: method.is_some(),
        method: method.map(str::to_owned),
        plan: plan.map(str::to_owned),
    };
    assert_eq!(status("auth-status-none"), word(None, None));
    assert_eq!(status("auth-status-key"), word(Some("an API key"), None));
    assert_eq!(status("auth-status-auth-token"), word(Some("a token"), None));
    // It does not say that the login has run out.
    assert_eq!(status("auth-status-credfile-expired"), word(Some("claude.ai"), Some("max")));
    let text = printed("claude-auth-status", "claude/2.1.325/auth-status-none-text");
    assert!(text.is_err(), "{text:?}");
}

#[test]
fn an_app_server_says_who_is_logged_in() {
    let told = |case: &str| {
        login(recorded("codex-account", &format!("fixtures/codex/0.166.0/{case}/transcript.jsonl")))
    };
    assert!(!told("appserver-no-auth").logged_in);
    let own = told("appserver-main");
    assert_eq!((own.logged_in, own.method.as_deref()), (true, Some("a model provider of its settings")));
}

#[test]
fn a_check_says_whether_there_are_credentials() {
    let check = |case: &str| login(printed("pi-auth-check", &format!("pi/0.87.1/{case}")));
    assert_eq!(check("auth-check-missing"), Login { logged_in: false, method: None, plan: None });
    let ready = check("auth-check-ok");
    assert_eq!((ready.logged_in, ready.method.as_deref()), (true, Some("fake, api key")));
}

#[test]
fn credentials_are_counted() {
    let none = login(printed("opencode-auth-list", "opencode/1.18.33/auth-list"));
    assert_eq!(none, Login { logged_in: false, method: None, plan: None });
    let text = read("crates/providers/tests/pages/opencode_1.18.33_auth.txt");
    let one = login(page("opencode-auth-list", text, Some(0)));
    assert_eq!((one.logged_in, one.method.as_deref()), (true, Some("the environment")));
}

#[test]
fn an_app_server_lists_models_with_their_efforts() {
    let models = models(recorded("codex-models", "fixtures/codex/0.166.0/appserver-main/transcript.jsonl"));
    let expected = [
        "gpt-6.1-sol",
        "gpt-6-astra",
        "gpt-6-sol",
        "gpt-6-luna",
        "gpt-5.6-sol",
        "gpt-6.1-terra",
        "gpt-5.6-terra",
        "gpt-5.6-luna",
        "gpt-5.5",
    ];
    assert_eq!(ids(&models), expected);
    let first = &models[0];
    assert_eq!((first.name.as_str(), first.default, first.hidden), ("GPT-6.1-Sol", true, false));
    assert_eq!(first.efforts, ["low", "medium", "high", "xhigh", "max", "ultra"]);
    assert_eq!(first.default_effort.as_deref(), Some("low"));
    let old = &models[8];
    assert_eq!((old.replaced_by.as_deref(), old.retires_at, old.retired), (Some("gpt-6-sol"), None, false));
    assert_eq!(old.efforts, ["low", "medium", "high", "xhigh"]);
}

#[test]
fn aliases_say_what_they_stand_for() {
    let wire = read("fixtures/claude/2.1.325/bidi-initialize/wire.jsonl");
    let answer = wire
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["line"].as_str().map(str::to_owned))
        .find(|line| {
            line.contains("\"control_response\"")
                && line.contains("\"resolvedModel\"")
                && line.contains("\"r5\"")
        })
        .expect("the list");
    let (mut talk, _) = AccountQuery::new(ask::reader("claude-models").expect("a reader"), "/w");
    talk.line(&answer.replace("\"r5\"", "\"1\""));
    assert!(talk.is_over());
    let models = models(talk.end(Answer::default()));
    let pairs: Vec<_> =
        models.iter().map(|it| (it.id.as_str(), it.alias_of.as_deref(), it.default)).collect();
    assert_eq!(
        pairs,
        [
            ("default", Some("claude-opus-5-5"), true),
            ("opus", Some("claude-opus-5-5"), false),
            ("fable", Some("claude-fable-5-2"), false),
            ("sonnet", Some("claude-sonnet-5-5"), false),
            ("haiku", Some("claude-haiku-5-5"), false),
        ]
    );
    assert_eq!(models[1].efforts, ["low", "medium", "high", "xhigh", "max"]);
}

#[test]
fn a_new_session_lists_models() {
    let transcript = "fixtures/gemini/0.61.0/acp-basic/transcript.jsonl";
    let models = models(recorded("acp-models", transcript));
    assert!(ids(&models).contains(&"gemini-2.5-pro"), "{:?}", ids(&models));
    let auto = models.iter().find(|model| model.id == "auto").expect("auto");
    assert_eq!((auto.alias_of.as_deref(), auto.default), (Some(""), true));
    let pinned = models.iter().find(|model| model.id == "gemini-2.5-pro").expect("a pinned one");
    assert_eq!(pinned.alias_of, None);
}

#[test]
fn a_table_lists_models() {
    let text = read("crates/providers/tests/pages/pi_0.87.1_models.txt");
    let models = models(page("pi-models", text, Some(0)));
    assert_eq!(models.len(), 15);
    assert_eq!(
        (models[0].id.as_str(), models[0].name.as_str()),
        ("anthropic/claude-fable-5", "claude-fable-5")
    );
    assert_eq!(models[0].about.as_deref(), Some("context 1M, answers up to 128K"));
    let none = page("pi-models", "No models available. Use /login to log in.\n".into(), Some(0));
    assert_eq!(none, Err(NotTold("it has no credentials for any model provider".into())));
}

#[test]
fn lines_list_models() {
    let models = models(printed("opencode-models", "opencode/1.18.33/models"));
    assert_eq!(ids(&models), ["fake/fake-model"]);
    assert_eq!(models[0].name, "fake-model");
}
