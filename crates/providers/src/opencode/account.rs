//! opencode's reports: the number of its credentials, and the models that they open.

use crate::ansi;
use crate::ask::{AccountReport, Login, NotTold, QueryReplies, Reader, Subject};
use crate::models::Model;

pub(super) const READERS: &[Reader] = &[
    Reader::printed("opencode-auth-list", Subject::Login, login),
    Reader::printed("opencode-models", Subject::Models, models),
];

/// It draws boxes whose last lines count: `0 credentials`, `1 environment variable`.
fn login(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    // Both streams: 1.18.33 prints even its help on stderr.
    let text = format!("{}\n{}", heard.answer.stdout, heard.answer.stderr);
    let text = ansi::strip(&text);
    let (mut stored, mut set) = (None, 0);
    for line in text.lines() {
        // The characters of the boxes are not ASCII.
        let words: Vec<&str> = line.split_whitespace().filter(|word| word.is_ascii()).collect();
        match words[..] {
            [count, "credential" | "credentials"] => stored = count.parse().ok(),
            [count, "environment", "variable" | "variables"] => set = count.parse().unwrap_or(0),
            _ => {}
        }
    }
    let stored: u32 = stored.ok_or_else(|| NotTold::strange("number of credentials"))?;
    let method = match (stored, set) {
        (0, 0) => None,
        (0, _) => Some("the environment".to_owned()),
        _ => Some("stored credentials".to_owned()),
    };
    Ok(AccountReport::Login(Login { logged_in: method.is_some(), method, plan: None }))
}

/// One on a line, as `provider/model`.
fn models(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    // Anything else on stdout, such as a progress note, is no model.
    let is_model = |line: &&str| {
        line.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty())
            && !line.contains(char::is_whitespace)
    };
    let models = heard.answer.stdout.lines().map(str::trim).filter(is_model).map(|id| {
        let name = id.split_once('/').map_or(id, |(_, name)| name).to_owned();
        Model { id: id.to_owned(), name, ..Model::default() }
    });
    let models: Vec<Model> = models.collect();
    if models.is_empty() { Err(NotTold::strange("list")) } else { Ok(AccountReport::Models(models)) }
}
