//! `bowline decode`: converts the output of an agent into events or another format.

use std::path::Path;

use bowline_protocol::SessionId;
use bowline_providers::catalogue;
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialect::{Shape, UnnumberedEvent};
use bowline_providers::moment::Moment;
use bowline_providers::views::Setup;

use super::input;
use crate::args::DecodeArgs;
use crate::error::{CommandError, Fault};
use crate::output::view::ViewWriter;
use crate::ui::Stdout;
use crate::{suggest, time};

/// Decodes a file or standard input.
pub(crate) fn run(args: &DecodeArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let provider = args.provider.as_deref().map(suggest::provider).transpose()?;
    let (dialect, shape) = match (provider, args.dialect.as_deref()) {
        (Some(provider), _) => suggest::format(provider, args.format.as_deref())?,
        (None, Some(dialect)) => (suggest::dialect(dialect)?, Shape::Unknown),
        (None, None) => return Err(no_dialect()),
    };
    let view = suggest::view(&args.view)?;
    let end = End { exit: input::exit(&args.ending)?, cause: Cause::Exited };
    if args.stderr.as_deref() == Some(Path::new("-")) {
        return Err(CommandError::new(Fault::Usage, "standard error cannot be read from standard input")
            .hint("save the standard error of the agent and pass `--stderr FILE`"));
    }
    let mut stderr = args.stderr.as_deref().map(|path| input::open(Some(path))).transpose()?;
    let mut source = input::open(args.file.as_deref())?;

    let mut printer = EventPrinter {
        viewer: ViewWriter::new(view, &Setup { provider: provider.map(|it| it.name.clone()), ours: false }),
        stamp: Stamp::new(SessionId::from("decode")),
        moment: time::moment(args.now.as_deref())?,
        drafts: Vec::new(),
        stdout,
    };
    let mut decoder = Decoder::of_shape(dialect, shape);
    if let Some(vocabulary) = catalogue::vocabulary(dialect.name) {
        decoder = decoder.watching(vocabulary);
    }
    source.each_chunk(|chunk| {
        decoder.stdout(chunk, &printer.moment, &mut printer.drafts);
        printer.print()
    })?;
    // Two files do not show the order of the streams in time. Standard error has to be read before `finish`, which judges the
    // end by it.
    if let Some(stderr) = &mut stderr {
        stderr.each_chunk(|chunk| {
            decoder.stderr(chunk, &printer.moment, &mut printer.drafts);
            printer.print()
        })?;
    }
    decoder.finish(&end, &printer.moment, &mut printer.drafts);
    printer.finish()
}

fn no_dialect() -> CommandError {
    CommandError::new(Fault::Usage, "neither a dialect nor a provider is given")
        .hint("name the dialect: `--dialect NAME` (`bowline dialects` lists them)")
        .hint("or the provider that printed the output: `--provider NAME` (`bowline providers` lists them)")
}

/// Numbers events and prints them in one format.
struct EventPrinter<'a> {
    viewer: ViewWriter,
    stamp: Stamp,
    moment: Moment,
    drafts: Vec<UnnumberedEvent>,
    stdout: &'a mut Stdout,
}

impl EventPrinter<'_> {
    fn print(&mut self) -> Result<(), CommandError> {
        for draft in self.drafts.drain(..) {
            self.viewer.event(&self.stamp.stamp(draft, self.moment.at));
        }
        self.viewer.flush(self.stdout)
    }

    fn finish(&mut self) -> Result<(), CommandError> {
        self.print()?;
        self.viewer.finish(self.stdout)
    }
}
