//! `bowline prices`: what models cost, as far as Bowline knows.

use bowline::config::Config;
use bowline_providers::prices;

use super::tables::table;
use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::output::Stdout;

/// Runs the command.
pub(crate) fn run(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let settings = Config::load(None)?.settings;
    let own = settings.prices();
    let rows: Vec<_> = own.iter().chain(prices::shipped()).collect();
    if args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the list").caused_by(error)
        })?;
        return stdout.print(&format!("{text}\n"));
    }
    let cells = rows.iter().map(|row| {
        let price =
            |amount: f64| format!("{amount:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
        [
            row.models.join(", "),
            price(row.input),
            price(row.output),
            price(row.cache_read),
            price(row.cache_write),
            row.as_of.clone(),
        ]
    });
    let mut text = table(["MODELS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "AS OF"], cells);
    text.push_str(
        "\nUS dollars per million tokens, list prices. The first row that fits a model counts; a model in no row has no price.\n\
         What an agent itself reports comes before this list. `bowline config set prices.MODEL.input 3` and `prices.MODEL.output 15` change it.\n",
    );
    for model in settings.half_prices() {
        text.push_str(&format!(
            "{model} has no price yet: `prices.{model}.input` and `prices.{model}.output` are both needed.\n"
        ));
    }
    stdout.print(&text)
}
