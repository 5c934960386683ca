//! The program's reports on the account: `auth status` for the login, control requests for models and limits.

use bowline_protocol::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ask::{
    AccountLimits, AccountReport, Login, NotTold, QueryMessage, QueryProtocol, QueryReplies, Reader, Subject,
    Window, enough,
};
use crate::models::Model;

const MODELS: &str = "list_models";
const USAGE: &str = "get_usage";

pub(super) const READERS: &[Reader] = &[
    Reader::printed("claude-auth-status", Subject::Login, login),
    Reader {
        name: "claude-models",
        subject: Subject::Models,
        manner: QueryProtocol::Control,
        open: |_| vec![QueryMessage::Call(MODELS, json!({}))],
        more: enough,
        read: models,
    },
    Reader {
        name: "claude-usage",
        subject: Subject::Limits,
        manner: QueryProtocol::Control,
        open: |_| vec![QueryMessage::Call(USAGE, json!({}))],
        more: enough,
        read: limits,
    },
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    auth_method: Option<String>,
    subscription_type: Option<String>,
}

fn login(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let status: AuthStatus = heard.printed_json("login")?;
    // 2.1.325 checks only that a credential is present: an expired token or a garbage key still gives `loggedIn: true`.
    // Only a request to the API can show that the login works.
    let method = status.auth_method.filter(|method| method != "none").map(|method| match method.as_str() {
        "api_key" => "an API key".to_owned(),
        "oauth_token" => "a token".to_owned(),
        _ => method,
    });
    Ok(AccountReport::Login(Login { logged_in: status.logged_in, method, plan: status.subscription_type }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeModelList {
    value: String,
    resolved_model: Option<String>,
    #[serde(default)]
    display_name: String,
    description: Option<String>,
    #[serde(default)]
    supported_effort_levels: Vec<String>,
}

fn models(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let listed = heard.reply(MODELS)?.get("models").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| NotTold::strange("list"))?;
    // A model whose entry has a new shape is left out. It must not cost the user the rest of the list.
    let models = listed.iter().filter_map(|model| ClaudeModelList::deserialize(model).ok());
    Ok(AccountReport::Models(models.map(Model::from).collect()))
}

impl From<ClaudeModelList> for Model {
    fn from(listed: ClaudeModelList) -> Self {
        let name = if listed.display_name.is_empty() { listed.value.clone() } else { listed.display_name };
        Self {
            default: listed.value == "default",
            // A full name is listed as itself.
            alias_of: listed.resolved_model.filter(|resolved| *resolved != listed.value),
            id: listed.value,
            name,
            about: listed.description,
            efforts: listed.supported_effort_levels,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct UsageReply {
    subscription_type: Option<String>,
    #[serde(default)]
    rate_limits_available: bool,
    rate_limits: Option<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
struct Used {
    display_name: Option<String>,
    utilization: Option<f64>,
    resets_at: Option<String>,
}

impl Used {
    fn window(self, name: &str) -> Option<Window> {
        let used_percent = self.utilization?;
        // The reply has no length for a window, only its name, which begins with `five_hour` or `seven_day`.
        let minutes = match name.split('_').collect::<Vec<_>>()[..] {
            ["five", "hour", ..] => Some(5 * 60),
            ["seven", "day", ..] => Some(7 * 24 * 60),
            _ => None,
        };
        let name = self.display_name.unwrap_or_else(|| name.replace('_', " "));
        let resets_at = self.resets_at.and_then(|at| at.parse::<Timestamp>().ok());
        Some(Window { name, used_percent: Some(used_percent), resets_at, minutes })
    }
}

fn limits(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let usage = UsageReply::deserialize(heard.reply(USAGE)?).map_err(|_| NotTold::strange("usage"))?;
    // Two different cases: this account has no plan limits at all, or (below) it has some and the program could not fetch them.
    if !usage.rate_limits_available {
        return Err(NotTold(
            "no plan limits: API keys, cloud providers and programs without a login have none".into(),
        ));
    }
    let limits = usage
        .rate_limits
        .ok_or_else(|| NotTold("it could not query its service: no network, or an expired login".into()))?;
    let mut windows = Vec::new();
    for (name, value) in &limits {
        // `model_scoped` is a list of windows that name themselves; what is neither is something else about the plan.
        let several = value.as_array().map(Vec::as_slice).unwrap_or(std::slice::from_ref(value));
        let used = several.iter().filter_map(|it| Used::deserialize(it).ok());
        windows.extend(used.filter_map(|used| used.window(name)));
    }
    Ok(AccountReport::Limits(AccountLimits { plan: usage.subscription_type, windows }))
}
