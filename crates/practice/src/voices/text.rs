//! Plain text: the messages, without tools.

use super::{Block, Ending, Parting, Voice};
use crate::stage::Stage;
use crate::tools::{Call, Outcome};

/// The plain voice.
#[derive(Debug, Default)]
pub(super) struct Text {
    open: Option<Block>,
    text: String,
}

impl Voice for Text {
    fn begin(&mut self, _: &mut Stage) {}

    fn open(&mut self, block: Block, _: &mut Stage) {
        self.open = Some(block);
        self.text.clear();
    }

    fn delta(&mut self, text: &str, stage: &mut Stage) {
        if self.open == Some(Block::Text) {
            self.text.push_str(text);
            stage.out.bytes(text.as_bytes());
            if stage.out.prompt {
                stage.out.flush();
            }
        }
    }

    fn close(&mut self, stage: &mut Stage) {
        if self.open.take() == Some(Block::Text) {
            stage.out.end_line();
            stage.last_text = std::mem::take(&mut self.text);
            stage.count(stage.last_text.len());
        }
    }

    fn call(&mut self, _: &Call, _: &mut Stage) {}

    fn outcome(&mut self, _: &Call, _: &Outcome, _: &mut Stage) {}

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        if self.open.is_some() {
            stage.out.end_line();
        }
        stage.out.line(text);
        stage.last_text = text.to_owned();
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        self.close(stage);
        match ending {
            Ending::Done => {}
            Ending::Error { status, .. } => {
                stage.out.flush();
                crate::player::to_stderr(format!("API Error: {status} {}\n", ending.words()).as_bytes());
            }
            Ending::MaxTurns(_) | Ending::MaxCost(_) => {
                stage.out.flush();
                crate::player::to_stderr(format!("Error: {}\n", ending.words()).as_bytes());
            }
        }
    }

    fn part(&mut self, _: i32, _: &mut Stage) -> Parting {
        Parting::Signal
    }
}
