//! `bowline attach` without a runner that answers: the journal of a session that is not running, or of a run that takes no orders.

use std::time::Duration;

use bowline::journal::Reader;

use super::{AttachArgs, FoundSession, OutputFormat, Sink, finish, first, sink};
use crate::commands::wait::resume_hint;
use crate::error::CommandError;
use crate::signals::{ProcessSignals, SignalAction};
use crate::time;
use crate::ui::{closed_by_its_reader, terminal};

/// How often the journal of a run is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Prints a session that is over.
pub(super) fn over(
    args: &AttachArgs,
    format: OutputFormat,
    found: &FoundSession,
) -> Result<(), CommandError> {
    let (mut sink, mut reader) = open(args, format, found)?;
    print(&mut reader, &mut sink)?;
    finish(&mut sink, &found.id)?;
    let dir = found.home.session_dir(&found.id).map_err(bowline::Error::from)?;
    let snapshot = bowline::journal::snapshot(&dir).map_err(bowline::Error::from)?;
    sink.tell(&format!("the session is not running; {}", resume_hint(&found.name, &snapshot)))
}

/// Follows a run of `bowline run`, which has no socket, to its end.
pub(super) async fn watch(
    args: &AttachArgs,
    format: OutputFormat,
    found: &FoundSession,
) -> Result<(), CommandError> {
    let (mut sink, mut reader) = open(args, format, found)?;
    let mut signals = ProcessSignals::new()?;
    let mut closed = closed_by_its_reader();
    loop {
        // Before the events: what was written before the runner ended is read then.
        let is_live = reader.is_live().map_err(bowline::Error::from)?;
        print(&mut reader, &mut sink)?;
        if !is_live {
            return finish(&mut sink, &found.id);
        }
        tokio::select! {
            signal = signals.next() => match signal {
                SignalAction::Window => sink.resize(terminal::width()),
                SignalAction::Stop(_) => return Ok(()),
            },
            _ = &mut closed => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Opens the journal at the first event to show.
fn open(
    args: &AttachArgs,
    format: OutputFormat,
    found: &FoundSession,
) -> Result<(Sink, Reader), CommandError> {
    let FoundSession { home, id, .. } = found;
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    let mut reader = Reader::open(&dir).map_err(bowline::Error::from)?;
    reader.seek(first(home, id, args.from)?).map_err(bowline::Error::from)?;
    Ok((sink(args, format, home, id)?, reader))
}

/// Prints the events that are on file.
fn print(reader: &mut Reader, sink: &mut Sink) -> Result<(), CommandError> {
    while let Some(event) = reader.next_event().map_err(bowline::Error::from)? {
        sink.events(&[event], time::now())?;
    }
    Ok(())
}
