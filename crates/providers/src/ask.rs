//! Queries to a program about its user's account: the login, the models, and the used part of the limits.
//!
//! A manifest has the arguments of a query and the name of the [`Reader`] of its answer (section `[ask]`).
//! The reader writes the requests and interprets the answers. It is in the provider's folder. A [`AccountQuery`] is one
//! conversation as a pure value: lines in, bytes out. The runtime starts the program, waits and caches answers.
//!
//! There are three ways: some programs print an answer and exit, some use JSON-RPC, and some take control requests among the
//! messages of a chat. No query costs anything, and no answer holds a secret.

use bowline_protocol::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalogue;
use crate::models::Model;
use crate::probe::Answer;
use crate::rpc::{self, Incoming, Peer};

/// The subject of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Whether the user is logged in.
    Login,
    /// Which models there are.
    Models,
    /// How much of the account's limits is used.
    Limits,
}

impl Subject {
    /// Returns the key in a manifest.
    pub fn key(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Models => "models",
            Self::Limits => "limits",
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum AccountReport {
    /// About the login.
    Login(Login),
    /// About its models.
    Models(Vec<Model>),
    /// About the limits of the account.
    Limits(AccountLimits),
}

/// A program's own report on its login. It checks whether there is one; only a request can show whether it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Whether there is one.
    pub logged_in: bool,
    /// The kind of login, in the program's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The plan of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// The limits of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountLimits {
    /// The plan of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Each window in which usage is counted.
    pub windows: Vec<Window>,
}

/// A window in which usage is counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its name, as the program has it.
    pub name: String,
    /// Percent that are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// When it resets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// How long it is, in minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
}

/// A question that was answered, but not with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotTold(pub String);

impl NotTold {
    /// The program answered in a form that is not known.
    pub(crate) fn strange(what: &str) -> Self {
        Self(format!("its response has no readable {what}"))
    }
}

/// How a program is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryProtocol {
    /// It prints an answer and ends.
    Printed,
    /// It uses JSON-RPC, one message on a line.
    Rpc(rpc::RpcVersionField),
    /// It takes control requests among the messages of a chat.
    Control,
}

/// One message to send.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryMessage {
    /// A call, which is answered.
    Call(&'static str, Value),
    /// A notification, which is not.
    Notify(&'static str),
}

/// The output of a program and its replies to a query.
#[derive(Debug, Default)]
pub struct QueryReplies {
    /// The output of the program; only for programs that print an answer and exit.
    pub answer: Answer,
    /// The answers to the calls, in the order of the calls.
    pub replies: Vec<Reply>,
}

impl QueryReplies {
    /// Reads standard output as one JSON document; `what` names it in the error.
    pub(crate) fn printed_json<T: serde::de::DeserializeOwned>(&self, what: &str) -> Result<T, NotTold> {
        serde_json::from_str(self.answer.stdout.trim()).map_err(|_| NotTold::strange(what))
    }
}

/// The answer to a call.
#[derive(Debug)]
pub struct Reply {
    id: u64,
    /// The method.
    pub method: String,
    /// The result.
    pub result: Result<Value, String>,
}

impl QueryReplies {
    /// Returns what a call of a method gave; of several, the last.
    pub fn reply(&self, method: &str) -> Result<&Value, NotTold> {
        let reply = self.replies.iter().rev().find(|reply| reply.method == method);
        match reply.map(|reply| &reply.result) {
            Some(Ok(value)) => Ok(value),
            Some(Err(why)) => Err(NotTold(why.clone())),
            None => Err(NotTold(format!("it sent no response to `{method}`"))),
        }
    }
}

/// A reader: it writes the requests to a program and reads the responses.
#[derive(Debug)]
pub struct Reader {
    /// Its name, for manifests.
    pub name: &'static str,
    /// The subject.
    pub subject: Subject,
    /// How the program is talked to.
    pub manner: QueryProtocol,
    /// The first requests; the argument is the working directory.
    pub(crate) open: fn(&str) -> Vec<QueryMessage>,
    /// The next requests, after all responses so far.
    pub(crate) more: fn(&[Reply]) -> Option<QueryMessage>,
    /// Interprets the responses.
    pub(crate) read: fn(&QueryReplies) -> Result<AccountReport, NotTold>,
}

impl Reader {
    /// Makes a reader of a program that prints its report and exits.
    pub(crate) const fn printed(
        name: &'static str,
        subject: Subject,
        read: fn(&QueryReplies) -> Result<AccountReport, NotTold>,
    ) -> Self {
        Self { name, subject, manner: QueryProtocol::Printed, open: silent, more: enough, read }
    }
}

/// Sends nothing at the beginning.
fn silent(_: &str) -> Vec<QueryMessage> {
    Vec::new()
}

/// Has no further question.
pub(crate) fn enough(_: &[Reply]) -> Option<QueryMessage> {
    None
}

/// Finds a reader by its name.
pub fn reader(name: &str) -> Option<&'static Reader> {
    catalogue::account_readers().find(|reader| reader.name == name)
}

/// Returns the names of all readers.
pub fn readers() -> impl Iterator<Item = &'static str> {
    catalogue::account_readers().map(|reader| reader.name)
}

/// A query to a program about its account.
#[derive(Debug)]
pub struct AccountQuery {
    reader: &'static Reader,
    peer: Peer,
    replies: Vec<Reply>,
    begun: bool,
}

impl AccountQuery {
    /// Begins a query, and returns it with what is to be written first. A program that prints its answer is told
    /// nothing.
    pub fn new(reader: &'static Reader, cwd: &str) -> (Self, Vec<u8>) {
        let version = match reader.manner {
            QueryProtocol::Rpc(version) => version,
            QueryProtocol::Printed | QueryProtocol::Control => rpc::RpcVersionField::LeftOut,
        };
        let mut talk = Self { reader, peer: Peer::new(version), replies: Vec::new(), begun: false };
        let first = (reader.open)(cwd).into_iter().flat_map(|say| talk.say(say)).collect();
        (talk, first)
    }

    /// Returns whether everything is answered, so that the program can go.
    pub fn is_over(&self) -> bool {
        self.begun && !self.peer.is_waiting()
    }

    /// Reads a line, and returns the bytes to write.
    pub fn line(&mut self, line: &str) -> Vec<u8> {
        match self.reader.manner {
            QueryProtocol::Printed => Vec::new(),
            QueryProtocol::Rpc(_) => self.message(line),
            QueryProtocol::Control => match controlled(line) {
                Some(Controlled::Reply(reply)) => self.message(&reply.to_string()),
                Some(Controlled::Call(id)) => control_refusal(&id),
                None => Vec::new(),
            },
        }
    }

    /// Ends the conversation, and returns its result.
    pub fn end(self, answer: Answer) -> Result<AccountReport, NotTold> {
        (self.reader.read)(&QueryReplies { answer, replies: self.replies })
    }

    fn message(&mut self, line: &str) -> Vec<u8> {
        match self.peer.hear(line) {
            Incoming::Reply { id, method, result } => {
                self.replies.push(Reply { id, method, result: result.map_err(|error| error.message) });
                if self.peer.is_waiting() {
                    return Vec::new();
                }
                self.replies.sort_by_key(|reply| reply.id);
                (self.reader.more)(&self.replies).map(|say| self.say(say)).unwrap_or_default()
            }
            // Nothing is offered to the program, so that whatever it calls is not there.
            Incoming::Call { id, .. } => self.peer.refuse(&id, rpc::UNKNOWN_METHOD, "method not found"),
            Incoming::Notification { .. } | Incoming::Strange => Vec::new(),
        }
    }

    fn say(&mut self, say: QueryMessage) -> Vec<u8> {
        match (say, self.reader.manner) {
            (QueryMessage::Notify(method), _) => self.peer.notify(method),
            (QueryMessage::Call(method, params), QueryProtocol::Control) => {
                self.begun = true;
                let (id, _) = self.peer.call(method, &Value::Null);
                control_request(id, method, params)
            }
            (QueryMessage::Call(method, params), QueryProtocol::Rpc(_) | QueryProtocol::Printed) => {
                self.begun = true;
                self.peer.call(method, &params).1
            }
        }
    }
}

/// A control message of the other side.
enum Controlled {
    /// An answer, in the form that the peer reads.
    Reply(Value),
    /// A request of theirs, by its id.
    Call(Value),
}

fn controlled(line: &str) -> Option<Controlled> {
    let message: Value = serde_json::from_str(line).ok()?;
    match message.get("type")?.as_str()? {
        "control_request" => Some(Controlled::Call(message.get("request_id")?.clone())),
        "control_response" => {
            let response = message.get("response")?;
            let id: u64 = response.get("request_id")?.as_str()?.parse().ok()?;
            let reply = match response.get("error") {
                Some(error) => {
                    let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
                    json!({ "id": id, "error": { "message": message } })
                }
                None => json!({ "id": id, "result": response.get("response") }),
            };
            Some(Controlled::Reply(reply))
        }
        _ => None,
    }
}

fn control_request(id: u64, subtype: &str, mut request: Value) -> Vec<u8> {
    if let Some(fields) = request.as_object_mut() {
        fields.insert("subtype".to_owned(), json!(subtype));
    }
    format!("{}\n", json!({ "type": "control_request", "request_id": id.to_string(), "request": request }))
        .into_bytes()
}

fn control_refusal(id: &Value) -> Vec<u8> {
    let response =
        json!({ "subtype": "error", "request_id": id, "error": "this client does not decide approvals" });
    format!("{}\n", json!({ "type": "control_response", "response": response })).into_bytes()
}

#[cfg(test)]
mod tests;
