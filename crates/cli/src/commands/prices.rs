//! `bowline prices`: lists the model prices that Bowline knows.

use bowline_providers::prices;

use crate::args::TableArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::tables::TextTable;

/// Runs the command.
pub(crate) fn run(args: &TableArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let settings = crate::config::load(None)?.settings;
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
    let head = ["MODELS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "AS OF"];
    let layout = stdout.layout();
    let mut text = TextTable::new(head, cells).whole(&[5]).render(layout);
    text.push('\n');
    for note in NOTES {
        text.push_str(&layout.paragraph(0, note));
    }
    for model in settings.half_prices() {
        let what = "has no price yet";
        let note =
            format!("{model} {what}: `prices.{model}.input` and `prices.{model}.output` are both needed.");
        text.push_str(&layout.paragraph(0, &note));
    }
    stdout.print_laid_out(&text)
}

/// Notes below the table.
const NOTES: [&str; 3] = [
    "US dollars per million tokens, list prices. Bowline uses the first row that matches a model; a model without a row has no price.",
    "If two prices of a model are known, the list has the higher one, so that no budget is exceeded unnoticed.",
    "A cost that the agent reports takes precedence over this list. `bowline config set prices.MODEL.input 3` and `prices.MODEL.output 15` change it.",
];
