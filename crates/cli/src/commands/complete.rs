//! `bowline __complete`: the completions of the last word. The scripts of `bowline completions` call it.
//!
//! It starts no agent and reads only files: manifests, settings, cached lists of models, and the names and `session.json` of
//! the newest sessions. A file that cannot be read adds nothing, because a shell cannot show an error here.

use bowline::detect::Surroundings;
use bowline::journal::{Home, SessionMeta};
use bowline::roster::Roster;
use bowline_config::{Config, KEYS, Key, KeyKind};
use bowline_providers::manifest::Manifest;
use bowline_providers::{dialects, views};
use clap::{Arg, Command, CommandFactory as _};

use super::session_ids;
use crate::args::{Args, CompleteArgs};
use crate::error::CommandError;
use crate::output::sink::OutputFormat;
use crate::ui::Stdout;

/// The maximum number of sessions, newest first.
const SESSIONS: usize = 50;

/// The values of `--hint`.
const HINTS: [&str; 6] = ["fast", "capable", "codegen", "long-context", "agentic", "cheap"];

/// A completion and its description.
type Candidate = (String, String);

/// Prints the candidates, a line each: the word, a tab, and its description.
pub(crate) fn run(args: &CompleteArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let mut text = String::new();
    for (word, about) in candidates(&args.words) {
        // The shell inserts the word unquoted, so skip words that it would expand or execute.
        if !word.chars().all(is_inert) {
            continue;
        }
        let about = crate::ui::tables::in_one_line(&about);
        text.push_str(&if about.is_empty() { format!("{word}\n") } else { format!("{word}\t{about}\n") });
    }
    stdout.print_laid_out(&text)
}

/// Returns whether no shell gives a character a special meaning in the middle of a word.
fn is_inert(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:@/+,=-".contains(c)
}

/// The parsed words before the one that is being typed.
struct CompletionContext {
    command: Command,
    /// The command and its subcommands, such as `config set`.
    path: Vec<String>,
    /// The number of positional arguments so far.
    positional: usize,
    /// The option whose value is being typed.
    option: Option<Arg>,
    /// The options so far, with their values.
    given: Vec<(String, String)>,
    /// The positional arguments so far.
    words: Vec<String>,
}

/// Returns the completions of the last word.
fn candidates(words: &[String]) -> Vec<Candidate> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    // Bash splits `--provider=cl` into three words.
    let typed = if typed == "=" { "" } else { typed.as_str() };
    let place = understood(before);
    if let Some(option) = &place.option {
        return fitting(values(option, &place), typed);
    }
    if let Some((name, value)) = typed.split_once('=').filter(|_| typed.starts_with("--")) {
        let option = place.command.get_arguments().find(|arg| arg.get_long() == name.strip_prefix("--"));
        let found = option.map(|option| fitting(values(option, &place), value)).unwrap_or_default();
        return found.into_iter().map(|(word, about)| (format!("{name}={word}"), about)).collect();
    }
    if typed.starts_with('-') {
        return fitting(options(&place.command), typed);
    }
    let commands = place.command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut all: Vec<Candidate> = match place.positional {
        0 => commands.map(|sub| (sub.get_name().to_owned(), about(sub.get_about()))).collect(),
        _ => Vec::new(),
    };
    let positionals: Vec<&Arg> = place.command.get_positionals().collect();
    let repeated = positionals.last().filter(|last| last.get_num_args().is_some_and(|n| n.max_values() > 1));
    if let Some(arg) = positionals.get(place.positional).or(repeated) {
        all.extend(values(arg, &place));
    }
    fitting(all, typed)
}

/// Parses the words before the one that is being typed.
fn understood(before: &[String]) -> CompletionContext {
    let mut command = Args::command();
    // Without `build`, clap's own options such as `--help` are missing.
    command.build();
    let mut place = CompletionContext {
        command,
        path: Vec::new(),
        positional: 0,
        option: None,
        given: Vec::new(),
        words: Vec::new(),
    };
    for word in before {
        if let Some(option) = place.option.take() {
            if word == "=" {
                place.option = Some(option);
            } else {
                place.given.push((option.get_id().to_string(), word.clone()));
            }
        } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty() && flags != &"-")
        {
            place.take_option(flags);
        } else if let Some(sub) = place.command.find_subcommand(word).filter(|_| place.positional == 0) {
            place.path.push(sub.get_name().to_owned());
            place.command = sub.clone();
        } else {
            place.positional += 1;
            place.words.push(word.clone());
        }
    }
    place
}

impl CompletionContext {
    /// Parses an option, without its first dash.
    fn take_option(&mut self, flags: &str) {
        let (option, value) = match flags.strip_prefix('-') {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, it)| (name, Some(it)));
                (self.command.get_arguments().find(|arg| arg.get_long() == Some(name)), value)
            }
            None => {
                let mut letters = flags.chars();
                let letter = letters.next();
                let option = self.command.get_arguments().find(|arg| arg.get_short() == letter);
                (option, Some(letters.as_str()).filter(|rest| !rest.is_empty()))
            }
        };
        let Some(option) = option.filter(|option| option.get_action().takes_values()).cloned() else {
            return;
        };
        match value {
            Some(value) => self.given.push((option.get_id().to_string(), value.to_owned())),
            None => self.option = Some(option),
        }
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// Keeps the candidates that begin with the typed text. Completes the last name of a list such as `first,sec`.
fn fitting(all: Vec<Candidate>, typed: &str) -> Vec<Candidate> {
    let listed = typed.rsplit_once(',');
    let (front, last) = listed.map_or((String::new(), typed), |(front, last)| (format!("{front},"), last));
    let fits = all.into_iter().filter(|(word, _)| word.starts_with(last));
    fits.map(|(word, about)| (format!("{front}{word}"), about)).collect()
}

fn options(command: &Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
}

fn about(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default()
}

/// Returns the known values of an option or an argument.
fn values(arg: &Arg, place: &CompletionContext) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| (value.get_name().to_owned(), about(value.get_help()))).collect();
    }
    let plain = |names: Vec<String>| names.into_iter().map(|name| (name, String::new())).collect();
    let named = |names: &[&str]| plain(names.iter().map(|name| (*name).to_owned()).collect());
    let in_config = place.path.first().is_some_and(|command| command == "config");
    match arg.get_id().as_str() {
        "provider" | "providers" | "print_env" => providers(place),
        "name" if place.path.last().is_some_and(|command| command == "health") => providers(place),
        "model" => models(place),
        "resume" | "session" | "sessions" => sessions(),
        "key" if in_config => settings(),
        "value" if in_config => setting_values(place),
        "key" => plain(keys()),
        "profile" => plain(profiles()),
        "hint" => named(&HINTS),
        "fallback" => named(&bowline::Fallback::ALL.map(bowline::Fallback::as_str)),
        "output" => plain(OutputFormat::names().map(str::to_owned).collect()),
        "view" => plain(views::ALL.iter().map(|entry| entry.name.to_owned()).collect()),
        "dialect" => {
            dialects::ALL.iter().map(|entry| (entry.name.to_owned(), entry.about.to_owned())).collect()
        }
        "format" => {
            plain(named_provider(place).map(|it| it.formats.keys().cloned().collect()).unwrap_or_default())
        }
        "only" => plain(bowline_certify::cases().map(|case| case.name.to_owned()).collect()),
        "after" => named(&bowline_protocol::Category::ALL.map(bowline_protocol::Category::as_str)),
        _ => Vec::new(),
    }
}

/// Returns the providers, including those of the router's file.
fn providers(place: &CompletionContext) -> Vec<Candidate> {
    let (all, _) = Roster::from_env().all().unwrap_or_default();
    let mut names: Vec<Candidate> =
        all.iter().map(|entry| (entry.manifest.name.clone(), entry.manifest.title.clone())).collect();
    if let Some(router) = Config::load(None).ok().and_then(|config| config.router) {
        let more = router.providers.iter().filter(|entry| !names.iter().any(|(name, _)| *name == entry.name));
        let more: Vec<Candidate> =
            more.map(|entry| (entry.name.clone(), "from router.yaml".to_owned())).collect();
        names.extend(more);
    }
    if place.path.first().is_some_and(|command| command == "run" || command == "route") {
        names.push((bowline::route::AUTO.to_owned(), "let the router choose".to_owned()));
    }
    names
}

/// Returns the provider that the earlier words name.
fn named_provider(place: &CompletionContext) -> Option<&'static Manifest> {
    let name = place.given("provider").or_else(|| place.words.first().map(String::as_str))?;
    Roster::from_env().find(name).ok()
}

/// Returns the cached models of the named provider, else of all.
fn models(place: &CompletionContext) -> Vec<Candidate> {
    let surroundings = Surroundings::from_env();
    let of = |manifest: &Manifest| {
        let known = bowline::models::known(manifest, None, &surroundings).into_iter();
        let shown = known.filter(|model| !model.hidden && !model.retired);
        shown.map(|model| (model.id, manifest.title.clone())).collect::<Vec<_>>()
    };
    if let Some(manifest) = named_provider(place) {
        return of(manifest);
    }
    let (all, _) = Roster::from_env().all().unwrap_or_default();
    all.iter().flat_map(|entry| of(entry.manifest)).collect()
}

/// Returns the names and the ids of the newest sessions, and `@last`. A name stands before all ids, because people gave it.
fn sessions() -> Vec<Candidate> {
    let newest: Vec<String> = session_ids::all().into_iter().take(SESSIONS).collect();
    let mut labels: Vec<Candidate> = Vec::new();
    for meta in metas() {
        if let Some(label) = meta.label.filter(|label| !labels.iter().any(|(known, _)| known == label)) {
            labels.push((label, meta.id.to_string()));
        }
    }
    let last = newest.first().map(|id| ("@last".to_owned(), id.clone()));
    let ids = newest.into_iter().map(|id| (id, String::new()));
    labels.into_iter().chain(last).chain(ids).collect()
}

/// Returns the descriptions of the newest sessions.
fn metas() -> Vec<SessionMeta> {
    let Ok(home) = Home::from_env() else { return Vec::new() };
    let newest = session_ids::all().into_iter().take(SESSIONS);
    newest.filter_map(|id| SessionMeta::read(&home.sessions_dir().join(id)).ok()).collect()
}

/// Returns the keys of the newest sessions, each once.
fn keys() -> Vec<String> {
    let mut keys: Vec<String> = metas().into_iter().filter_map(|meta| meta.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn profiles() -> Vec<String> {
    let config = Config::load(None).ok();
    let names = config.as_ref().map(|config| config.settings.profiles()).unwrap_or_default();
    names.into_iter().map(str::to_owned).collect()
}

fn settings() -> Vec<Candidate> {
    let fixed = KEYS.iter().filter(|key| !key.name.contains('*'));
    fixed.map(|key| (key.name.to_owned(), key.about.to_owned())).collect()
}

/// Returns the possible values of the setting that the earlier words name.
fn setting_values(place: &CompletionContext) -> Vec<Candidate> {
    let Some(key) = place.words.first().and_then(|name| Key::named(name)) else { return Vec::new() };
    let words: Vec<String> = match (key.name, key.kind) {
        ("run.provider", _) => {
            let mut all = providers(place);
            all.push((bowline::route::AUTO.to_owned(), "let the router choose".to_owned()));
            return all;
        }
        ("profiles.*.provider", _) => return providers(place),
        ("run.model", _) => return models(place),
        (_, KeyKind::Choice(words)) => words.iter().map(|word| (*word).to_owned()).collect(),
        (_, KeyKind::Truth) => vec!["true".to_owned(), "false".to_owned()],
        (
            _,
            KeyKind::Text
            | KeyKind::Count
            | KeyKind::Money
            | KeyKind::Time
            | KeyKind::Words
            | KeyKind::Program
            | KeyKind::Several(_),
        ) => {
            vec![key.example.to_owned()]
        }
    };
    words.into_iter().map(|word| (word, String::new())).collect()
}

#[cfg(test)]
mod tests;
