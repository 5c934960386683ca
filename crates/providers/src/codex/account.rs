//! The app server's reports on the account: the login, the models, the limits.

use bowline_protocol::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ask::{
    AccountLimits, AccountReport, Login, NotTold, QueryMessage, QueryProtocol, QueryReplies, Reader, Reply,
    Subject, Window, enough,
};
use crate::models::Model;
use crate::rpc::RpcVersionField;

const MANNER: QueryProtocol = QueryProtocol::Rpc(RpcVersionField::LeftOut);

const ACCOUNT: &str = "account/read";
const MODELS: &str = "model/list";
const LIMITS: &str = "account/rateLimits/read";

/// More models than any release has had; the rest comes page by page.
const PAGE: u32 = 200;

/// The most pages that are read.
const PAGES: usize = 20;

pub(super) const READERS: &[Reader] = &[
    Reader {
        name: "codex-account",
        subject: Subject::Login,
        manner: MANNER,
        open: |_| greet(QueryMessage::Call(ACCOUNT, json!({}))),
        more: enough,
        read: login,
    },
    Reader {
        name: "codex-models",
        subject: Subject::Models,
        manner: MANNER,
        open: |_| greet(page(None)),
        more: next_page,
        read: models,
    },
    Reader {
        name: "codex-limits",
        subject: Subject::Limits,
        manner: MANNER,
        open: |_| greet(QueryMessage::Call(LIMITS, Value::Null)),
        more: enough,
        read: limits,
    },
];

/// It refuses all requests before `initialize`, and expects a confirmation of its response.
fn greet(then: QueryMessage) -> Vec<QueryMessage> {
    vec![QueryMessage::Call("initialize", introduction()), QueryMessage::Notify("initialized"), then]
}

/// The client's name and version.
pub(super) fn introduction() -> Value {
    let client = json!({ "name": "bowline", "title": "Bowline", "version": env!("CARGO_PKG_VERSION") });
    json!({ "clientInfo": client })
}

fn page(cursor: Option<&str>) -> QueryMessage {
    QueryMessage::Call(MODELS, json!({ "includeHidden": true, "limit": PAGE, "cursor": cursor }))
}

fn next_page(replies: &[Reply]) -> Option<QueryMessage> {
    // The page limit also ends a server that returns the same cursor for ever.
    let last = replies.last().filter(|reply| reply.method == MODELS && replies.len() < PAGES)?;
    let cursor = last.result.as_ref().ok()?.get("nextCursor")?.as_str()?;
    Some(page(Some(cursor)))
}

fn login(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let account = heard.reply(ACCOUNT)?;
    // Not `codex login status` (0.166.0): it ignores keys in the environment, and takes an `auth.json` of `{}` for a login.
    let needed = account.get("requiresOpenaiAuth").and_then(Value::as_bool);
    let needed = needed.ok_or_else(|| NotTold::strange("account"))?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let told = match account.get("account").filter(|account| account.is_object()) {
        Some(account) => {
            let method = text(account, "type").map(|kind| match kind.as_str() {
                "apiKey" => "an API key".to_owned(),
                "chatgpt" => "ChatGPT".to_owned(),
                _ => kind,
            });
            Login { logged_in: true, method, plan: text(account, "planType") }
        }
        // A model provider of the user's own, which takes its key from elsewhere or needs none.
        None if !needed => {
            Login { logged_in: true, method: Some("a model provider of its settings".into()), plan: None }
        }
        None => Login { logged_in: false, method: None, plan: None },
    };
    Ok(AccountReport::Login(told))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodexModelList {
    id: String,
    #[serde(default)]
    display_name: String,
    description: Option<String>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    is_default: bool,
    #[serde(default)]
    supported_reasoning_efforts: Vec<ListedEffort>,
    default_reasoning_effort: Option<String>,
    upgrade: Option<String>,
    upgrade_info: Option<Upgrade>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedEffort {
    reasoning_effort: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Upgrade {
    retirement_at: Option<i64>,
}

fn models(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    // For its error only: a refused first page must not pass for an empty list.
    heard.reply(MODELS)?;
    let mut models = Vec::new();
    for reply in heard.replies.iter().filter(|reply| reply.method == MODELS) {
        let page = reply.result.as_ref().map_err(|why| NotTold(why.clone()))?;
        let listed = page.get("data").and_then(Value::as_array).ok_or_else(|| NotTold::strange("list"))?;
        // One that cannot be read is one that we do not know how to use; the others are as good as before.
        models.extend(
            listed.iter().filter_map(|model| CodexModelList::deserialize(model).ok()).map(Model::from),
        );
    }
    Ok(AccountReport::Models(models))
}

impl From<CodexModelList> for Model {
    fn from(listed: CodexModelList) -> Self {
        let name = if listed.display_name.is_empty() { listed.id.clone() } else { listed.display_name };
        let retires_at = listed.upgrade_info.and_then(|it| it.retirement_at).map(Timestamp::from_seconds);
        Self {
            id: listed.id,
            name,
            about: listed.description,
            default: listed.is_default,
            hidden: listed.hidden,
            efforts: listed.supported_reasoning_efforts.into_iter().map(|it| it.reasoning_effort).collect(),
            default_effort: listed.default_reasoning_effort,
            replaced_by: listed.upgrade,
            retires_at,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    limit_name: Option<String>,
    plan_type: Option<String>,
    primary: Option<RateWindow>,
    secondary: Option<RateWindow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RateWindow {
    used_percent: f64,
    window_duration_mins: Option<u64>,
    resets_at: Option<i64>,
}

fn limits(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let answer = heard.reply(LIMITS)?;
    let strange = |_| NotTold::strange("limits");
    // Each limit by its own name, in versions that know more than one; else the one.
    let several = answer.get("rateLimitsByLimitId").and_then(Value::as_object).filter(|it| !it.is_empty());
    let snapshots: Vec<Snapshot> = match several {
        Some(several) => {
            several.values().map(Snapshot::deserialize).collect::<Result<_, _>>().map_err(strange)?
        }
        None => {
            let one = answer.get("rateLimits").ok_or_else(|| NotTold::strange("limits"))?;
            vec![Snapshot::deserialize(one).map_err(strange)?]
        }
    };
    let plan = snapshots.iter().find_map(|it| it.plan_type.clone());
    let mut windows = Vec::new();
    for snapshot in snapshots {
        for (word, window) in [("primary", snapshot.primary), ("secondary", snapshot.secondary)] {
            let Some(window) = window else { continue };
            let name = match &snapshot.limit_name {
                Some(name) => format!("{name} {word}"),
                None => word.to_owned(),
            };
            windows.push(Window {
                name,
                used_percent: Some(window.used_percent),
                resets_at: window.resets_at.map(Timestamp::from_seconds),
                minutes: window.window_duration_mins,
            });
        }
    }
    Ok(AccountReport::Limits(AccountLimits { plan, windows }))
}
