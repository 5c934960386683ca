//! pi's reports: whether it has credentials for a model provider, and a table of the models that it can use.

use serde::Deserialize;

use crate::ask::{AccountReport, Login, NotTold, QueryReplies, Reader, Subject};
use crate::models::Model;

pub(super) const READERS: &[Reader] = &[
    Reader::printed("pi-auth-check", Subject::Login, login),
    Reader::printed("pi-models", Subject::Models, models),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    status: String,
    provider: Option<String>,
    auth_type: Option<String>,
}

fn login(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let check: Check = heard.printed_json("login")?;
    let kind = check.auth_type.as_deref().map(|kind| kind.replace('_', " "));
    let method = match (check.provider, kind) {
        (Some(provider), Some(kind)) => Some(format!("{provider}, {kind}")),
        (provider, kind) => provider.or(kind),
    };
    // By the status, not the exit code: the JSON is printed in both cases (0.87.1).
    let logged_in = check.status == "ready";
    Ok(AccountReport::Login(Login { logged_in, method: method.filter(|_| logged_in), plan: None }))
}

/// Reads the table: a line of headings, then a line for each model, the columns apart by blanks.
fn models(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    let text = &heard.answer.stdout;
    if text.contains("No models available") || heard.answer.stderr.contains("No models available") {
        return Err(NotTold("it has no credentials for any model provider".into()));
    }
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let heading = lines.find(|words| words.starts_with(&["provider", "model"]));
    let heading = heading.ok_or_else(|| NotTold::strange("table"))?;
    let thinking = heading.iter().position(|word| *word == "thinking");
    // A line with other columns is a note, not a model; the indexes below rely on this filter.
    let listed = lines.filter(|words| words.len() == heading.len()).map(|words| {
        let thinks = thinking.is_some_and(|column| words[column] == "yes");
        Model {
            id: format!("{}/{}", words[0], words[1]),
            name: words[1].to_owned(),
            about: Some(format!("context {}, answers up to {}", words[2], words[3]))
                .filter(|_| heading.get(2..4) == Some(&["context", "max-out"])),
            // The program does not report which levels a model knows, only whether it thinks at all.
            efforts: if thinking.is_some() && !thinks { vec!["off".to_owned()] } else { Vec::new() },
            ..Model::default()
        }
    });
    Ok(AccountReport::Models(listed.collect()))
}
