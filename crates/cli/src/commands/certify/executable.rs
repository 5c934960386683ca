//! The contract suite for executable providers: nothing is simulated, and nothing is taken away from the program.

use bowline::detect::{self, Search};
use bowline_certify::executable::{self, ExecutablePlan};
use bowline_providers::manifest::Manifest;

use super::progress::ProgressBar;
use crate::args::CertifyArgs;
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::signals::ProcessSignals;
use crate::suggest;
use crate::ui::{Stdout, Ui};

/// Tries an executable provider.
pub(super) fn run(
    args: &CertifyArgs,
    manifest: &'static Manifest,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    for (given, option) in [(args.smoke, "--smoke"), (args.keep, "--keep")] {
        if given {
            let message = format!(
                "`{option}` cannot be used with an executable provider: it has one suite and leaves no files"
            );
            return Err(CommandError::new(Fault::Usage, message));
        }
    }
    args.only.iter().try_for_each(|name| suggest::executable_case(name))?;
    let before = super::prepare(args, manifest)?;
    let found =
        detect::find(manifest, args.binary.as_deref(), &Search::from_env()).map_err(super::missing)?;
    let plan = ExecutablePlan {
        manifest,
        program: found.program().to_owned(),
        config: args.set.iter().cloned().collect(),
        env: args.env.iter().cloned().collect(),
        only: args.only.clone(),
    };
    let mut bar = ProgressBar::new(Ui::new());
    let runtime = async_runtime::start()?;
    let report = runtime.block_on(async {
        let mut signals = ProcessSignals::new()?;
        Ok::<_, CommandError>(tokio::select! {
            report = executable::certify(plan, |news| bar.tell(&news)) => Some(report),
            // The keeper kills the program under test when this process ends.
            _ = signals.stop() => None,
        })
    })?;
    let mut ui = bar.end();
    let Some(mut report) = report else {
        ui.status("interrupted");
        return Err(CommandError::told(130));
    };
    report.drift = before.map(|before| bowline_certify::drift(&before, &report));
    super::finish(args, &report, None, stdout)
}
