//! The list of dialects, and those that the specifications define.
//!
//! A format of only one program is in that program's folder. The formats here are for any program.

pub(crate) mod api_error;
pub(crate) mod content;
pub(crate) mod document;
pub(crate) mod executable;
pub(crate) mod external_events;
pub(crate) mod json;
pub(crate) mod loose_json;
pub(crate) mod pi_events;
pub(crate) mod reports;
pub(crate) mod roles;
pub(crate) mod shaped;
pub(crate) mod simple;
pub(crate) mod speech;
pub(crate) mod stream_json;
pub(crate) mod text;
pub(crate) mod text_dedup;
pub(crate) mod tools;

use crate::conversation::ProtocolClient;
use crate::dialect::{Commentary, Dialect, Framing, Shape, StepOutput, Terminal};
use crate::{acp, claude::Claude, codex, copilot, gemini, grok_cli, opencode, pi, qwen};

/// A dialect of the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// How its output is cut.
    pub framing: Framing,
    /// How its turns end.
    pub terminal: Terminal,
    /// How an answer is separated from the text that accompanies the work.
    pub commentary: Commentary,
    /// When its lines show that the program works.
    pub steps: StepOutput,
    /// Makes a reader for one process whose output has this shape.
    pub make: fn(Shape) -> Box<dyn Dialect>,
    /// The client of a dialect with a two-way protocol.
    pub client: Option<ProtocolClient>,
}

impl Entry {
    /// Returns whether a program that speaks it only generates text: the contract of executable providers has no tools.
    pub fn generates_only(&self) -> bool {
        matches!(self.name, "executable-generate" | "executable-stream")
    }

    /// Returns when output of this shape shows that the program works. Only lines can show it before the end.
    pub fn steps_of(&self, shape: Shape) -> StepOutput {
        if shape == Shape::Lines { self.steps } else { StepOutput::Late }
    }
}

/// Every dialect, in the order in which they are shown.
pub const ALL: &[Entry] = &[
    Entry {
        name: "text",
        about: "plain text: all of the output is the answer",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(text::Text::default()),
        client: None,
    },
    Entry {
        name: "json",
        about: "one JSON object with the answer in a common field",
        framing: Framing::Document,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(json::Json),
        client: None,
    },
    Entry {
        name: "stream-json",
        about: "JSON lines in any of the forms of the adapter protocol",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(stream_json::StreamJson::default()),
        client: None,
    },
    Entry {
        name: "role-lines",
        about: "JSON lines with role and content, one message each, or plain text",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |shape| Box::new(shaped::Shaped::new(roles::RoleLines::default(), shape)),
        client: None,
    },
    Entry {
        name: "claude",
        about: "Claude Code: JSON lines, one JSON document or plain text, and its control lines",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::new(Claude::default(), shape)),
        client: None,
    },
    Entry {
        name: "codex-exec",
        about: "`codex exec`: JSON lines, those of older versions, or plain text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::AllButLast,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::new(codex::Exec::default(), shape)),
        client: None,
    },
    Entry {
        name: "codex-app-server",
        about: "`codex app-server`: JSON-RPC in both directions",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Announced,
        make: |_| Box::new(codex::AppServer::default()),
        client: Some(codex::CLIENT),
    },
    Entry {
        name: "gemini",
        about: "Gemini CLI: JSON lines, one JSON object, or text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::new(gemini::Gemini::default(), shape)),
        client: None,
    },
    Entry {
        name: "qwen",
        about: "Qwen Code: JSON lines in both shapes, one JSON array, or text; two-way",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::BeforeTools,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::lines_or_text(qwen::Qwen::default(), shape)),
        client: None,
    },
    Entry {
        name: "pi",
        about: "pi: JSON lines or text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::new(pi::Pi::default(), shape)),
        client: None,
    },
    Entry {
        name: "pi-rpc",
        about: "pi's two-way mode: commands, answers and events as JSON lines",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Announced,
        make: |_| Box::new(pi::Rpc::default()),
        client: None,
    },
    Entry {
        name: "opencode",
        about: "opencode: JSON lines or text",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Immediate,
        make: |shape| Box::new(shaped::Shaped::new(opencode::Opencode::default(), shape)),
        client: None,
    },
    Entry {
        name: "copilot",
        about: "GitHub Copilot CLI: JSON lines or text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Announced,
        make: |shape| Box::new(shaped::Shaped::new(copilot::Copilot::default(), shape)),
        client: None,
    },
    Entry {
        name: "grok-cli",
        about: "grok-cli: JSON lines with role and content",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Late,
        make: |_| Box::new(grok_cli::GrokCli::default()),
        client: None,
    },
    Entry {
        name: acp::NAME,
        about: "the Agent Client Protocol, version 1, as JSON lines in both directions",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Immediate,
        make: |_| Box::new(acp::Acp::default()),
        client: Some(acp::CLIENT),
    },
    Entry {
        name: "pi-events",
        about: "pi-style events (protocol A), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(pi_events::PiEvents::default()),
        client: None,
    },
    Entry {
        name: "simple",
        about: "simple events (protocol B), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(simple::Simple::default()),
        client: None,
    },
    Entry {
        name: "external-events",
        about: "protocol A or B, by the first line; exit code 0 ends the turn",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(external_events::ExternalEvents::default()),
        client: None,
    },
    Entry {
        name: "executable-generate",
        about: "the response of an executable provider's `generate`",
        framing: Framing::Document,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(executable::Generate),
        client: None,
    },
    Entry {
        name: "executable-stream",
        about: "the chunks of an executable provider's `stream`",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(executable::Stream::default()),
        client: None,
    },
];

/// Finds a dialect by its name.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recordings of runs whose model never answered: all of their output was printed before the first model call was over.
    #[test]
    fn programs_that_announce_themselves_print_before_the_model_answers() {
        macro_rules! stdout {
            ($path:literal) => {
                include_str!(concat!("../../../fixtures/", $path, "/stdout.raw"))
            };
        }
        for (name, steps, stdout) in [
            ("claude", StepOutput::Announced, stdout!("claude/2.1.325/hang-sigint")),
            ("codex-exec", StepOutput::Announced, stdout!("codex/0.166.0/hang0-sigterm")),
            ("gemini", StepOutput::Announced, stdout!("gemini/0.61.0/hang-sigint")),
            ("qwen", StepOutput::Announced, stdout!("qwen/0.24.4/hang-sigint")),
            ("pi", StepOutput::Announced, stdout!("pi/0.87.1/hang-sigint")),
            ("copilot", StepOutput::Announced, stdout!("copilot/1.0.102/hang-sigint")),
            ("grok-cli", StepOutput::Late, stdout!("grok/0.0.34/hang-sigterm")),
        ] {
            let entry = by_name(name).expect("is in the list");
            assert_eq!(entry.steps_of(Shape::Lines), steps, "{name}");
            assert_eq!(entry.steps_of(Shape::Text), StepOutput::Late, "{name}");
            assert_eq!(stdout.starts_with('{'), steps == StepOutput::Announced, "{name}: {stdout}");
        }
        // opencode's first line may be the error of its first model call.
        assert!(stdout!("opencode/1.18.33/err429").starts_with(r#"{"type":"error""#));
        assert_eq!(by_name("opencode").map(|it| it.steps), Some(StepOutput::Immediate));
    }
}
