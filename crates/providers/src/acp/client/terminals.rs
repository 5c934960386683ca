//! Requests of the agent for terminals: commands that the host runs in the workspace.

use bowline_protocol::{ApprovalCategory, Excerpt, Risk};
use serde_json::{Value, json};

use super::AcpClient;
use super::host_calls::{CallApproval, INVALID_PARAMS};
use crate::dialect::{HostCall, Output, RequestedAct, TerminalCommand, TerminalName};
use crate::manifest::run::HostOffer;
use crate::rpc::UNKNOWN_METHOD;

/// The longest command with its arguments and variables, in bytes. A person has to be able to read it.
const LONGEST: usize = 64 << 10;

impl AcpClient {
    /// Begins a request for a terminal. Returns the response, if there is one already.
    pub(super) fn terminal_requested(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        out: &mut Output<'_>,
    ) -> Option<Vec<u8>> {
        let named: Option<fn(TerminalName) -> HostCall> = match method {
            "terminal/create" => None,
            "terminal/output" => Some(HostCall::TerminalOutput),
            "terminal/wait_for_exit" => Some(HostCall::WaitForExit),
            "terminal/kill" => Some(HostCall::KillTerminal),
            "terminal/release" => Some(HostCall::ReleaseTerminal),
            _ => return Some(self.peer.refuse(id, UNKNOWN_METHOD, "this client does not support it")),
        };
        if self.talk.host_terminals == HostOffer::Withheld {
            return Some(self.peer.refuse(id, UNKNOWN_METHOD, "this client does not support it"));
        }
        if let Some((code, why)) = self.refusal(params) {
            return Some(self.peer.refuse(id, code, why));
        }
        // Only `terminal/create` runs something, so only it needs a decision.
        let Some(call) = named else {
            return match command(params) {
                Ok(command) => {
                    let asks = approval(&command, &self.talk.cwd);
                    self.ask_for_call(id, HostCall::CreateTerminal(command), asks, out)
                }
                Err(why) => Some(self.peer.refuse(id, INVALID_PARAMS, why)),
            };
        };
        let Some(terminal) = params.get("terminalId").and_then(Value::as_str) else {
            let why = "`terminalId` has to be the id of a terminal";
            return Some(self.peer.refuse(id, INVALID_PARAMS, why));
        };
        self.host.begin(id.clone(), call(TerminalName(terminal.to_owned())), out);
        None
    }
}

/// Reads the command of a terminal.
fn command(params: &Value) -> Result<TerminalCommand, &'static str> {
    let present = |key: &str| params.get(key).filter(|value| !value.is_null());
    let program = present("command").and_then(Value::as_str).filter(|program| !program.is_empty());
    let program = program.ok_or("`command` has to be a program")?.to_owned();
    let mut args = Vec::new();
    if let Some(list) = present("args") {
        for arg in list.as_array().ok_or("`args` has to be a list of texts")? {
            args.push(arg.as_str().ok_or("`args` has to be a list of texts")?.to_owned());
        }
    }
    let mut env = Vec::new();
    if let Some(list) = present("env") {
        let wrong = "`env` has to be a list of `name` and `value`";
        for pair in list.as_array().ok_or(wrong)? {
            let text = |key: &str| pair.get(key).and_then(Value::as_str);
            let name = text("name").filter(|name| !name.is_empty() && !name.contains('='));
            env.push((name.ok_or(wrong)?.to_owned(), text("value").ok_or(wrong)?.to_owned()));
        }
    }
    let cwd = match present("cwd") {
        Some(cwd) => Some(cwd.as_str().ok_or("`cwd` has to be the absolute path of a directory")?.to_owned()),
        None => None,
    };
    let output_limit = match present("outputByteLimit") {
        Some(limit) => Some(limit.as_u64().ok_or("`outputByteLimit` has to be a number of bytes")?),
        None => None,
    };
    let texts = [&program].into_iter().chain(&args).chain(env.iter().flat_map(|(name, value)| [name, value]));
    if texts.clone().map(String::len).sum::<usize>() > LONGEST {
        return Err("the command is longer than 64 KiB");
    }
    // execve(2) ends its strings at a NUL: the rest would be shown to the person and never run.
    if texts.chain(&cwd).any(|text| text.contains('\0')) {
        return Err("the command has a NUL character");
    }
    Ok(TerminalCommand { program, args, env, cwd, output_limit })
}

/// Describes a command for the decision on it.
fn approval(command: &TerminalCommand, project: &str) -> CallApproval {
    let TerminalCommand { program, args, env, cwd, .. } = command;
    let words: Vec<String> = std::iter::once(program).chain(args).map(|word| shown(word)).collect();
    let line = words.join(" ");
    let cwd = cwd.as_deref().unwrap_or(project);
    let mut input = json!({ "command": line, "cwd": cwd });
    if !env.is_empty() {
        let pairs = env.iter().map(|(name, value)| (name.clone(), json!(value)));
        input["env"] = Value::Object(pairs.collect());
    }
    CallApproval {
        category: ApprovalCategory::Shell,
        risk: Risk::High,
        summary: Excerpt::with_limit(&line, 4096).text,
        input,
        // A command may change any file.
        paths: None,
        act: RequestedAct::Program(judged_words(command)),
    }
}

/// Returns the words of a command with its variables in front: some of them decide which code a program runs.
fn judged_words(command: &TerminalCommand) -> Vec<String> {
    let TerminalCommand { program, args, env, .. } = command;
    let assigned = env.iter().map(|(name, value)| format!("{name}={value}"));
    let prefix = if env.is_empty() { None } else { Some("env".to_owned()) };
    prefix
        .into_iter()
        .chain(assigned)
        .chain(std::iter::once(program.clone()))
        .chain(args.iter().cloned())
        .collect()
}

/// Writes a word so that its end can be seen. No shell reads it.
fn shown(word: &str) -> String {
    let plain = |it: char| it.is_alphanumeric() || "-_./:=@%+,".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
