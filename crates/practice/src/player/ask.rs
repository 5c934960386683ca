//! Permission requests and questions: the host answers over standard input. Without an answer, a permission request is denied.

use std::io::BufRead;

use serde_json::Value;

use super::Player;
use super::input::InputSource;
use crate::control::Stop;
use crate::options::Mode;
use crate::stage::Stage;
use crate::tools::{Call, Refusal, refusal};
use crate::voices::Voice;
use crate::voices::acp::{self, HostAnswer};

/// The message of Claude Code 2.1.325 for a request that can no longer be answered.
const NO_RESPONSE: &str =
    "Tool permission request failed: AbortError: Tool permission stream closed before response received";

impl Player<'_> {
    /// Returns why a tool is denied, if it is. If it only lacks a permission, the agent requests it from the host, if the
    /// script and the dialect support that.
    pub(super) fn forbidden(&mut self, call: &Call) -> Result<Option<String>, Stop> {
        let mode = self.lock().stage.mode;
        let why = match refusal(&call.tool, self.options, mode, &self.cwd) {
            None => return Ok(None),
            Some(Refusal::Forbidden(why)) => return Ok(Some(why)),
            Some(Refusal::NotGranted(why)) => why,
        };
        match self.input.source {
            // A host that speaks the protocol can always answer.
            InputSource::Protocol if self.asks || mode != Mode::Read => self.ask_host(call),
            InputSource::Text if self.asks => {
                let mut question = None;
                self.with(|voice, stage| {
                    question = voice.ask(call, stage);
                    stage.out.flush();
                });
                Ok(question.map_or(Some(why), |question| answer(&question)))
            }
            InputSource::Protocol | InputSource::Text => Ok(Some(why)),
        }
    }

    /// Asks over the protocol, unless the host has allowed the tool for the session.
    fn ask_host(&mut self, call: &Call) -> Result<Option<String>, Stop> {
        let name = call.tool.name();
        if self.lock().stage.always.contains(&name) {
            return Ok(None);
        }
        // The id of the request is known already.
        let answer = self.request(|voice, stage| drop(voice.ask(call, stage)))?;
        Ok(match acp::grant(&answer) {
            acp::HostGrant::Once => None,
            acp::HostGrant::Always => {
                self.lock().stage.always.push(name);
                None
            }
            acp::HostGrant::Refused => Some("User refused permission to run this tool".to_owned()),
        })
    }

    /// Asks the user, and says the answer.
    pub(super) fn question(&mut self, text: &str, choices: &[String]) -> Result<(), Stop> {
        self.next_action()?;
        let answer = match self.input.source {
            InputSource::Protocol => {
                let answer = self.request(|voice, stage| voice.question(text, choices, stage))?;
                acp::answer(&answer, choices)
            }
            // A process of one prompt has no host that could answer.
            InputSource::Text => HostAnswer::None,
        };
        match answer {
            HostAnswer::Given(answer) => self.say(&format!("Answer: {answer}")),
            HostAnswer::NoChoice(answer) => self.say(&format!("No choice: {answer}")),
            HostAnswer::None => self.say("No answer."),
        }
    }

    /// Makes a request over the protocol, and waits for its response. If the play must end first, the request is withdrawn.
    fn request(&self, write: impl FnOnce(&mut dyn Voice, &mut Stage)) -> Result<Value, Stop> {
        let request = self.control.open_request();
        self.with(|voice, stage| {
            stage.request = request;
            write(voice, stage);
            stage.out.flush();
        });
        self.control.wait_for_answer().inspect_err(|_| self.with(|voice, stage| voice.withdraw(stage)))
    }
}

/// Waits for the response to a permission request; none if it is allowed, otherwise the reason.
fn answer(question: &str) -> Option<String> {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        let response = &said["response"];
        if said["type"] != "control_response" || response["request_id"] != question {
            continue;
        }
        let answer = &response["response"];
        return match answer["behavior"].as_str() {
            Some("allow") => None,
            _ => Some(answer["message"].as_str().unwrap_or("The user doesn't want to proceed.").to_owned()),
        };
    }
    Some(NO_RESPONSE.to_owned())
}
