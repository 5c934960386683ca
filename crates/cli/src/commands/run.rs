//! `bowline run`: runs one turn of an agent, from the prompt to the exit code.

mod asking;
mod choose;
mod cleanup;
mod closed_output;
mod follow;
mod mcp;
mod parallel;
mod preview;
mod progress;
mod prompt;
mod render_options;
mod request;
mod resolved;
mod resume;
mod schema;
mod settings;
mod tasks;
mod uncertified;

use super::attention::settle;
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault};
use crate::human::AskTyping;
use crate::output::notices::TerminalNotices;
use crate::output::sink::{OutputFormat, Sink};
use crate::signals::StopSignal;
use crate::ui::Stdout;
use crate::{async_runtime, suggest};
use asking::Asking;
use choose::NamedProvider;
pub(crate) use choose::RequestTarget;
pub(crate) use closed_output::beside_the_run;
pub(crate) use follow::to_the_end;
pub(crate) use prompt::{piped, prompt};
use render_options::{detail, reads_only, render_options};
pub(crate) use request::permission;
pub(crate) use request::{absolute_file, read as read_option_file};
pub(crate) use resolved::ResolvedRequest;
pub(crate) use settings::{load, warn};

/// Runs the command.
pub(crate) fn run(args: &RunArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    if !args.dry_run {
        // Fork the keeper while this process is small.
        bowline::start_keeper();
    }
    if let Some(file) = &args.tasks {
        return tasks::run(args, file, format, stdout);
    }
    // The parser does not require `--tasks` if there is a prompt, with which that one conflicts.
    if args.at_once.is_some() {
        return Err(CommandError::new(Fault::Usage, "`--at-once` needs `--tasks FILE`")
            .hint("without a file of tasks, there is one task"));
    }
    let resolved = ResolvedRequest::of(&args.request)?;
    // If the request names an invalid entry, the error below has the details.
    if resolved.args.model.as_deref().is_none_or(|model| resolved.config.external.get(model).is_ok()) {
        warn(&resolved.config);
    }
    let prompt = prompt(args.request.prompt.as_deref())?;
    let named = match &resolved.target {
        RequestTarget::Several(named) => {
            return parallel::run(args, &resolved, format, &prompt, named, stdout);
        }
        RequestTarget::One(named) => Some(named),
        RequestTarget::Router => None,
    };
    let request = &resolved.args;
    let task = resolved.task(&prompt, named)?;
    let manifest = named.and_then(NamedProvider::manifest);
    let (task, asking) = Asking::of(args, request, format, &task).applied(task, args, manifest);
    if args.dry_run {
        return preview::dry_run(&task, format, stdout);
    }
    let options = render_options(request, detail(args), named);
    let mut sink = Sink::new(format, options, named.map(|named| named.name().to_owned()));
    if let (None, Some(cwd)) = (&args.request.cwd, &request.cwd) {
        sink.mention(&format!("resuming the session in {}", cwd.display()))?;
    }
    sink.notify(TerminalNotices::of_task(&resolved.config.attention));
    if asking == Asking::Person {
        sink.ask(AskTyping::Keys);
    }
    // In its format for live sessions, the agent may be able to ask.
    let asks =
        asking == Asking::Person && manifest.is_some_and(|manifest| manifest.asking_format().is_some());
    if matches!(format, OutputFormat::Human)
        && !asks
        && let Some(line) = manifest.and_then(|manifest| reads_only(manifest, request))
    {
        sink.mention(&line)?;
    }
    let retries = request.retries.is_some_and(|retries| retries > 0);
    if named.is_none() || retries || request.wait_for_limit || request.fallback.is_some() {
        sink.hold_answer();
    }
    // Query the version only of the installed program: not of one in a container, not of the caller's own binary, which would
    // start twice, and not in an ephemeral run, which must not write to the cache.
    let plain = request.docker.is_none() && request.binary.is_none() && !request.ephemeral;
    let program = manifest.filter(|_| plain && matches!(format, OutputFormat::Human));
    let runtime = async_runtime::start()?;
    let (record, stopped) = runtime.block_on(follow::drive(task, sink, request.ephemeral, program))?;
    if stopped == StopSignal::No {
        runtime.block_on(cleanup::leave_in_order(matches!(format, OutputFormat::Human)));
    }
    runtime.block_on(settle(&resolved.config.attention));
    // Do not wait for a cleanup that takes longer.
    runtime.shutdown_background();
    match follow::exit_code(&record, stopped) {
        0 => resolved.schema.map_or(Ok(()), |schema| schema.holds("the agent", &record)),
        code => Err(CommandError::told(code)),
    }
}
