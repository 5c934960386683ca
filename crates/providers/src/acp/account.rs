//! The models of an agent of this protocol: a new session comes with a list of them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::introduction;
use crate::ask::{
    AccountReport, NotTold, QueryMessage, QueryProtocol, QueryReplies, Reader, Subject, enough,
};
use crate::conversation::Conversation;
use crate::models::Model;
use crate::rpc::RpcVersionField;

const NEW: &str = "session/new";

pub(super) const READERS: &[Reader] = &[Reader {
    name: "acp-models",
    subject: Subject::Models,
    manner: QueryProtocol::Rpc(RpcVersionField::Written),
    open: |cwd| {
        vec![
            QueryMessage::Call("initialize", introduction(&Conversation::default())),
            QueryMessage::Call(NEW, json!({ "cwd": cwd, "mcpServers": [] })),
        ]
    },
    more: enough,
    read: models,
}];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AcpModelList {
    model_id: String,
    name: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct ListedChoice {
    value: String,
    name: Option<String>,
    description: Option<String>,
}

fn models(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let session = heard.reply(NEW)?;
    let array = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let listed = array(session.pointer("/models/availableModels"));
    let mut models: Vec<(String, Option<String>, Option<String>)> = listed
        .iter()
        .filter_map(|model| AcpModelList::deserialize(model).ok())
        .map(|model| (model.model_id, model.name, model.description))
        .collect();
    let mut current = session.pointer("/models/currentModelId").and_then(Value::as_str);
    if models.is_empty() {
        // Newer agents offer the model as one of several settings.
        let options = session.get("configOptions").and_then(Value::as_array);
        let is_model = |it: &&Value| it.get("category").and_then(Value::as_str) == Some("model");
        if let Some(option) = options.and_then(|options| options.iter().find(is_model)) {
            current = option.get("currentValue").and_then(Value::as_str);
            let choices = array(option.get("options"));
            models = choices
                .iter()
                .filter_map(|it| ListedChoice::deserialize(it).ok())
                .map(|choice| (choice.value, choice.name, choice.description))
                .collect();
        }
    }
    if models.is_empty() {
        return Err(NotTold("it lists no models for this login and these settings".into()));
    }
    let models = models.into_iter().map(|(id, name, about)| Model {
        default: current == Some(id.as_str()),
        // An automatic choice is a name for whatever it chooses.
        alias_of: (id == "auto").then(String::new),
        name: name.unwrap_or_else(|| id.clone()),
        id,
        about,
        ..Model::default()
    });
    Ok(AccountReport::Models(models.collect()))
}
