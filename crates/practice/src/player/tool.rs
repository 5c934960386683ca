//! Tool calls of the play.

use super::Player;
use crate::control::Stop;
use crate::script::ToolStep;
use crate::tools::{Call, Outcome, Tool, absolute, perform};

impl Player<'_> {
    /// Runs a tool, if it is allowed.
    pub(crate) fn tool(&mut self, tool: Tool) -> Result<Outcome, Stop> {
        self.next_action()?;
        // The guard ends with this block: `with` below takes the same lock.
        let call = {
            let mut show = self.lock();
            show.stage.calls += 1;
            Call { id: format!("toolu_practice{:06}", show.stage.calls), tool }
        };
        self.with(|voice, stage| {
            voice.call(&call, stage);
            stage.out.flush();
        });
        // The tool runs without the lock, which the handler of a signal needs to print the last lines.
        let outcome = self.attempt(&call);
        if self.control.is_stopped() {
            // Its result may be that of a command that the host's cancellation has just killed.
            let stopped = Outcome::Failed("The tool was stopped: the host cancelled the prompt.".to_owned());
            self.with(|voice, stage| voice.outcome(&call, &stopped, stage));
            return Err(Stop::Cancelled);
        }
        let outcome = outcome?;
        self.with(|voice, stage| voice.outcome(&call, &outcome, stage));
        self.pause(100)?;
        Ok(outcome)
    }

    fn attempt(&mut self, call: &Call) -> Result<Outcome, Stop> {
        self.pause(250)?;
        if let Some(why) = self.forbidden(call)? {
            self.lock().stage.denials.push(call.clone());
            return Ok(Outcome::Refused(why));
        }
        self.with(|voice, stage| {
            voice.starts(call, stage);
            stage.out.flush();
        });
        Ok(perform(&call.tool, &self.cwd, &|| self.control.is_stopped()))
    }

    pub(super) fn tool_of(&self, step: ToolStep) -> Result<Tool, Stop> {
        let path = |file: &str| absolute(&self.cwd, file).display().to_string();
        Ok(match step {
            ToolStep::Read(file) => Tool::Read { path: path(&file) },
            ToolStep::Write { file, text } => Tool::Write { path: path(&file), content: text },
            ToolStep::Replace { file, old, new } => Tool::Edit { path: path(&file), old, new },
            ToolStep::Run(command) => Tool::Run { command },
            ToolStep::Append { file, text } => {
                let path = path(&file);
                match std::fs::read_to_string(&path) {
                    Ok(old) if !old.is_empty() => {
                        let end = if old.ends_with('\n') { "" } else { "\n" };
                        let new = format!("{old}{end}{text}\n");
                        Tool::Edit { path, old, new }
                    }
                    Ok(_) => Tool::Write { path, content: format!("{text}\n") },
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        Tool::Write { path, content: format!("{text}\n") }
                    }
                    Err(error) => return Err(Stop::Fault(format!("could not read `{path}`: {error}"))),
                }
            }
        })
    }
}
