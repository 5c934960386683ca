//! `bowline simulate`: serves fake model APIs until it is interrupted.

mod environment;
mod lines;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use bowline_simulator::{
    LedgerNews, NetworkReach, Scenario, ScenarioError, Simulator, SimulatorOptions, StartError,
};
use tokio::sync::mpsc;

use crate::args::simulate::{PORT, SimulateArgs};
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::signals::ProcessSignals;
use crate::ui::Stdout;
use crate::ui::{Ui, tables};

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let listen =
        args.listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, args.port.unwrap_or(PORT))));
    if let Some(provider) = &args.print_env {
        return environment::print(provider, listen, args.route.as_deref(), args.home.as_deref(), stdout);
    }
    if !args.check.is_empty() {
        return check(&args.check, stdout);
    }
    let scenarios: Vec<Scenario> =
        args.scenario.iter().map(|path| read(path)).collect::<Result<_, CommandError>>()?;
    if args.list {
        return list(scenarios, stdout);
    }
    async_runtime::start()?.block_on(serve(args, listen, scenarios, stdout))
}

async fn serve(
    args: &SimulateArgs,
    listen: SocketAddr,
    scenarios: Vec<Scenario>,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let mut signals = ProcessSignals::new()?;
    let mut ui = Ui::new();
    let (watcher, mut news) = mpsc::unbounded_channel();
    // Only `--listen` opens the simulator to other machines.
    let reach = if args.listen.is_some() { NetworkReach::Anywhere } else { NetworkReach::Loopback };
    let options = SimulatorOptions {
        listen,
        reach,
        scenarios,
        ledger_file: args.ledger.clone(),
        watcher: Some(watcher),
    };
    let simulator = Simulator::start(options).await.map_err(not_started)?;
    if !simulator.address().ip().is_loopback() {
        ui.warning("other machines can reach this simulator, and it serves every request");
    }
    stdout.print(&format!("{}\n", simulator.base_url(None)))?;
    // Scripts wait for this line. The simulator accepts connections already.
    stdout.flush()?;
    loop {
        tokio::select! {
            _ = signals.stop() => break,
            Some(news) = news.recv() => show(&news, &mut ui),
        }
    }
    simulator.stop().await;
    // `stop` has ended the open requests, and their lines are still in the queue.
    while let Ok(news) = news.try_recv() {
        show(&news, &mut ui);
    }
    Ok(())
}

fn show(news: &LedgerNews, ui: &mut Ui) {
    match news {
        LedgerNews::Over(entry) => ui.status(&lines::line(entry)),
        LedgerNews::LedgerLost(error) => {
            ui.warning(&format!("could not write the ledger; later requests are not recorded: {error}"));
        }
    }
}

fn not_started(error: StartError) -> CommandError {
    let message = "could not start the simulator";
    match error {
        StartError::PortInUse(_) => CommandError::new(Fault::Configuration, message).caused_by(error).hint(
            "stop the other process, or choose another port with `--port N`; `--port 0` takes any free one",
        ),
        StartError::NotLoopback(_) => CommandError::new(Fault::Usage, message).caused_by(error),
        StartError::SameName(_) => CommandError::new(Fault::Usage, message)
            .caused_by(error)
            .hint("rename one of the files: a scenario is named after its file"),
        StartError::Listen { .. } => CommandError::new(Fault::Configuration, message)
            .caused_by(error)
            .hint("`--listen` takes an address of this machine, such as 127.0.0.1:8484"),
        StartError::Ledger { .. } => CommandError::new(Fault::Configuration, message)
            .caused_by(error)
            .hint("`--ledger` takes a file that can be appended to"),
    }
}

fn read(path: &Path) -> Result<Scenario, CommandError> {
    Scenario::read(path).map_err(not_read)
}

fn not_read(error: ScenarioError) -> CommandError {
    let message = error.to_string();
    let ours = CommandError::new(Fault::Configuration, message);
    match error {
        ScenarioError::Unreadable { source, .. } => ours.caused_by(source),
        ScenarioError::Name { .. } => ours.hint("rename the file: a scenario is named after its file"),
        ScenarioError::Wrong(mistake) => {
            ours.caused_by(*mistake).hint("docs/simulator.md describes the form of a scenario")
        }
    }
}

fn check(files: &[std::path::PathBuf], stdout: &mut Stdout) -> Result<(), CommandError> {
    for path in files {
        let scenario = read(path)?;
        stdout.print(&format!("{}: `[[{}]]` is a valid scenario\n", path.display(), scenario.name))?;
    }
    Ok(())
}

fn list(more: Vec<Scenario>, stdout: &mut Stdout) -> Result<(), CommandError> {
    let mut all = Scenario::built_in();
    all.retain(|known| more.iter().all(|it| it.name != known.name));
    all.extend(more);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = all.into_iter().map(|scenario| [scenario.name, scenario.about]);
    let table = tables::TextTable::new(["NAME", "EFFECT"], rows).whole(&[0]);
    stdout.print_laid_out(&table.render(stdout.layout()))
}
