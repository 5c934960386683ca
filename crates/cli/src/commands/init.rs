//! `bowline init`: a commented file of settings to begin with.

use std::io::{BufRead as _, IsTerminal as _};

use bowline_config::{KEYS, edit};

use super::config::file;
use crate::args::config::InitArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::Ui;

/// Runs the command.
pub(crate) fn run(args: &InitArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let path = file(args.project)?;
    if path.exists() {
        let message = format!("`{}` already exists", path.display());
        return Err(CommandError::new(Fault::Usage, message).hint("change it with `bowline config set`"));
    }
    let usable: Vec<&str> = bowline::detect::usable().iter().map(|manifest| manifest.name.as_str()).collect();
    let proposed = match usable[..] {
        [] => None,
        [only] => Some(only),
        _ => Some(bowline::route::AUTO),
    };
    // Without a terminal there is no person to answer the question.
    let provider = if args.yes || !std::io::stdin().is_terminal() {
        proposed.map(str::to_owned)
    } else {
        ask(&usable, proposed)?
    };
    let text = written(provider.as_deref());
    edit::write(&path, &text).map_err(|error| {
        CommandError::new(Fault::Configuration, format!("could not write `{}`", path.display()))
            .caused_by(error)
    })?;
    stdout.print(&format!("wrote {}\n", path.display()))
}

/// Asks the one question that has no good answer of its own.
fn ask(usable: &[&str], proposed: Option<&str>) -> Result<Option<String>, CommandError> {
    let question = question(usable, proposed);
    let mut ui = Ui::new();
    loop {
        ui.question(&question);
        let mut line = String::new();
        let read = std::io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(|error| CommandError::new(Fault::Usage, "could not read the answer").caused_by(error))?;
        let answer = line.trim();
        // Ctrl-D at the beginning of a line reads 0 bytes. It counts as the empty answer.
        if read == 0 || answer.is_empty() {
            return Ok(proposed.map(str::to_owned));
        }
        if answer == bowline::route::AUTO {
            return Ok(Some(answer.to_owned()));
        }
        match crate::suggest::provider(answer) {
            Ok(manifest) => return Ok(Some(manifest.name.clone())),
            Err(_) => {
                ui.status(&format!("there is no provider `{answer}`; `bowline providers` lists them"));
            }
        }
    }
}

/// Returns the question, with the answer that counts if none is given.
fn question(usable: &[&str], proposed: Option<&str>) -> String {
    match proposed {
        Some(proposed) => {
            let names = usable.join(", ");
            format!("Default agent ({names}; auto = let Bowline choose) [{proposed}]: ")
        }
        None => "No agent is installed and logged in yet. Default agent (a name; auto = let Bowline choose; \
                 empty = none): "
            .to_owned(),
    }
}

/// Returns the text of the file: every setting with its description, those without a value as comments.
fn written(provider: Option<&str>) -> String {
    let mut text =
        "# Settings of Bowline. Lines that begin with `#` are not set; they show what is possible.\n\
        # Precedence: flag, environment, a project's .bowline/bowline.toml, this file.\n\
        # `bowline config show` prints the effective settings and their sources.\n"
            .to_owned();
    let mut section = "";
    for key in KEYS {
        let (above, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if above != section {
            section = above;
            let title = above.replace('*', "NAME");
            let is_set = above == "run" && provider.is_some();
            text.push_str(&format!("\n{}[{title}]\n", if is_set { "" } else { "# " }));
        }
        text.push_str(&format!("# {}{}\n", key.about[..1].to_uppercase(), &key.about[1..]));
        match provider.filter(|_| key.name == "run.provider") {
            Some(provider) => text.push_str(&format!("{name} = \"{provider}\"\n")),
            None => text.push_str(&format!("# {name} = {}\n", key.in_toml(key.example))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_good_and_so_is_every_line_without_its_sign() {
        let dir = tempfile::tempdir().expect("a directory");
        let read = |text: &str| {
            std::fs::write(dir.path().join("bowline.toml"), text).expect("written");
            let places = bowline_config::Places { user: Some(dir.path().to_owned()), cwd: None, home: None };
            bowline_config::Config::read(places, &|_| None).expect("a good file").settings
        };
        assert_eq!(read(&written(None)).all().count(), 0);
        assert_eq!(read(&written(Some("auto"))).text("run.provider"), Some("auto"));
        let bare: Vec<String> = written(None)
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.starts_with('[') || rest.contains(" = ") => rest.to_owned(),
                _ => line.to_owned(),
            })
            .collect();
        let all = read(&bare.join("\n"));
        for key in KEYS {
            assert!(all.get(&key.name.replace('*', "NAME")).is_some(), "{}", key.name);
        }
    }
}
