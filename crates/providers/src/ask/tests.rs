//! Conversations, played: what is said, what is heard, what it means.

use serde_json::{Value, json};

use super::*;

fn reader(name: &str) -> &'static Reader {
    super::reader(name).expect("a reader")
}

fn printed(name: &str, stdout: &str, code: i32) -> Result<AccountReport, NotTold> {
    let (talk, first) = AccountQuery::new(reader(name), "/w");
    assert!(first.is_empty() && !talk.is_over());
    talk.end(Answer { stdout: stdout.into(), stderr: String::new(), code: Some(code) })
}

/// Plays a program that answers calls by method. What it answers with is the whole of it.
fn played(name: &str, answer: impl Fn(&str, &Value) -> Value) -> Result<AccountReport, NotTold> {
    let (mut talk, first) = AccountQuery::new(reader(name), "/w");
    let mut lines: Vec<String> = lines(&first);
    for _ in 0..100 {
        let Some(line) = lines.pop() else { break };
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        assert!(!talk.is_over());
        let method = message["method"].as_str().unwrap();
        let mut reply = answer(method, &message["params"]);
        reply["id"] = id.clone();
        let more = talk.line(&reply.to_string());
        lines.extend(self::lines(&more));
    }
    assert!(talk.is_over());
    talk.end(Answer::default())
}

fn lines(bytes: &[u8]) -> Vec<String> {
    std::str::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn pages_are_read_to_the_last() {
    let told = played("codex-models", |method, params| match (method, params["cursor"].as_str()) {
        ("initialize", _) => json!({ "result": {} }),
        (_, None) => json!({ "result": { "data": [{ "id": "a" }], "nextCursor": "2" } }),
        (_, Some("2")) => {
            json!({ "result": { "data": [{ "id": "b" }, { "no": "id" }], "nextCursor": null } })
        }
        (_, Some(other)) => panic!("{other}"),
    });
    let Ok(AccountReport::Models(models)) = told else { panic!("{told:?}") };
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_list_that_never_ends_is_left() {
    let endless = json!({ "result": { "data": [{ "id": "a" }], "nextCursor": "more" } });
    let Ok(AccountReport::Models(models)) = played("codex-models", |_, _| endless.clone()) else { panic!() };
    assert!(models.len() < 50, "{}", models.len());
}

#[test]
fn a_refusal_is_told_in_the_programs_words() {
    let told = played("codex-limits", |method, _| match method {
        "initialize" => json!({ "result": {} }),
        _ => json!({ "error": { "code": -32600, "message": "log in first" } }),
    });
    assert_eq!(told, Err(NotTold("log in first".into())));
}

#[test]
fn a_call_of_theirs_is_refused_and_disturbs_nothing() {
    let (mut talk, _) = AccountQuery::new(reader("acp-models"), "/w");
    let refused =
        talk.line(r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"path":"/x"}}"#);
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32601)));
    for line in [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "not JSON", r#"{"method":"session/update"}"#] {
        assert_eq!(talk.line(line), b"");
        assert!(!talk.is_over());
    }
    talk.line(r#"{"id":2,"result":{"models":{"availableModels":[{"modelId":"m"}],"currentModelId":"m"}}}"#);
    assert!(talk.is_over());
    let Ok(AccountReport::Models(models)) = talk.end(Answer::default()) else { panic!() };
    assert_eq!((models.len(), models[0].id.as_str(), models[0].default), (1, "m", true));
}

#[test]
fn a_control_request_of_theirs_is_refused() {
    let (mut talk, first) = AccountQuery::new(reader("claude-usage"), "/w");
    assert_eq!(
        serde_json::from_slice::<Value>(&first).unwrap(),
        json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "get_usage" } })
    );
    let refused =
        talk.line(r#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool"}}"#);
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!(
        (&refused["response"]["subtype"], &refused["response"]["request_id"]),
        (&json!("error"), &json!("q"))
    );
    assert!(!talk.is_over());
    talk.line(r#"{"type":"control_response","response":{"subtype":"error","request_id":"1","error":"Unsupported control request subtype: get_usage"}}"#);
    assert!(talk.is_over());
    let told = talk.end(Answer::default());
    assert_eq!(told, Err(NotTold("Unsupported control request subtype: get_usage".into())));
}

/// The fields are those of the app server's own schema (`generate-json-schema`); the figures are made up, because
/// there is no recording of an account.
#[test]
fn windows_of_an_account_have_names_figures_and_times() {
    let window = |used: u8, minutes: u32| json!({ "usedPercent": used, "windowDurationMins": minutes, "resetsAt": 1_794_735_906 });
    let one = json!({ "limitName": null, "planType": "plus", "primary": window(12, 300), "secondary": window(40, 10_080) });
    let mut named = one.clone();
    named["limitName"] = json!("Sol");
    named["secondary"] = Value::Null;
    let answers = json!({ "rateLimits": one, "rateLimitsByLimitId": { "a": one, "b": named } });
    let told = played("codex-limits", |_, _| json!({ "result": answers }));
    let Ok(AccountReport::Limits(limits)) = told else { panic!("{told:?}") };
    let at = "2026-11-15T09:45:06Z".parse().unwrap();
    let window = |name: &str, used: f64, minutes| Window {
        name: name.into(),
        used_percent: Some(used),
        resets_at: Some(at),
        minutes: Some(minutes),
    };
    let windows = vec![
        window("primary", 12.0, 300),
        window("secondary", 40.0, 10_080),
        window("Sol primary", 12.0, 300),
    ];
    assert_eq!(limits, AccountLimits { plan: Some("plus".into()), windows });
}

/// As the types in the program say it.
#[test]
fn what_is_no_window_is_passed_over() {
    let limits = json!({
        "five_hour": { "utilization": 6.0, "resets_at": "2026-11-15T09:45:00+00:00" },
        "seven_day": { "utilization": 35.5, "resets_at": null },
        "seven_day_opus": null,
        "model_scoped": [{ "display_name": "Fable", "utilization": 80, "resets_at": "2026-11-20T00:00:00Z" }],
        "extra_usage": { "is_enabled": false },
    });
    let response =
        json!({ "subscription_type": "max", "rate_limits_available": true, "rate_limits": limits });
    let (mut talk, _) = AccountQuery::new(reader("claude-usage"), "/w");
    let response = json!({ "subtype": "success", "request_id": "1", "response": response });
    talk.line(&json!({ "type": "control_response", "response": response }).to_string());
    let Ok(AccountReport::Limits(limits)) = talk.end(Answer::default()) else { panic!() };
    let mut names: Vec<_> =
        limits.windows.iter().map(|it| (it.name.as_str(), it.used_percent, it.minutes)).collect();
    names.sort_by_key(|(name, ..)| *name);
    let expected = [
        ("Fable", Some(80.0), None),
        ("five hour", Some(6.0), Some(300)),
        ("seven day", Some(35.5), Some(10_080)),
    ];
    assert_eq!(names, expected);
    let resets = limits.windows.iter().find(|it| it.name == "five hour").and_then(|it| it.resets_at);
    assert_eq!(resets, "2026-11-15T09:45:00Z".parse().ok());
}

#[test]
fn an_answer_of_another_form_is_no_answer() {
    for name in readers() {
        let reader = reader(name);
        let strange = match reader.manner {
            QueryProtocol::Printed => printed(name, "Error: unknown command\n", 1),
            QueryProtocol::Rpc(_) => played(name, |_, _| json!({ "result": { "other": 1 } })),
            QueryProtocol::Control => continue,
        };
        assert!(strange.is_err(), "{name}: {strange:?}");
    }
}

#[test]
fn a_login_without_the_vendor_is_one_too() {
    let told = |account: Value, needed: bool| {
        played(
            "codex-account",
            move |_, _| json!({ "result": { "account": account, "requiresOpenaiAuth": needed } }),
        )
    };
    let word = |told: Result<AccountReport, NotTold>| match told {
        Ok(AccountReport::Login(login)) => (login.logged_in, login.method, login.plan),
        other => panic!("{other:?}"),
    };
    assert_eq!(word(told(Value::Null, true)), (false, None, None));
    assert!(word(told(Value::Null, false)).0);
    assert_eq!(word(told(json!({ "type": "apiKey" }), true)), (true, Some("an API key".into()), None));
    let chatgpt = json!({ "type": "chatgpt", "email": "a@b.c", "planType": "pro" });
    assert_eq!(word(told(chatgpt, true)), (true, Some("ChatGPT".into()), Some("pro".into())), "no address");
}
