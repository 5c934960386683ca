//! The agent's flags: one list for both the parser and the help.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;

use crate::children::Child;
use crate::script;

/// The value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value(&'static str),
    /// Can be repeated.
    Values(&'static str),
}

use Takes::{Nothing, Value, Values};

/// Every flag, its value, and its effect.
const FLAGS: &[(&str, Takes, &str)] = &[
    (
        "format",
        Value("NAME"),
        "output format: stream-json (default), json, text, codex, gemini, pi or acp (many prompts, over the Agent Client Protocol)",
    ),
    ("model", Value("MODEL"), "the model that it reports"),
    ("effort", Value("LEVEL"), "the reasoning effort"),
    ("system-prompt", Value("TEXT"), "replace the system prompt"),
    ("append-system-prompt", Value("TEXT"), "add to the system prompt"),
    ("system-prompt-file", Value("FILE"), "like --system-prompt, from a file"),
    ("append-system-prompt-file", Value("FILE"), "like --append-system-prompt, from a file"),
    ("schema", Value("FILE"), "answer with JSON of this schema; a file or the schema itself"),
    ("mcp-config", Values("FILE"), "MCP servers to list, not to start; a file or JSON"),
    ("image", Values("FILE"), "an image, which must exist"),
    ("add-dir", Values("DIR"), "another directory to work in"),
    ("permission", Value("MODE"), "read, ask, edit or yolo; it writes with edit and yolo (default: ask)"),
    ("allow-tool", Values("TOOL"), "allow a tool in every mode: Read, Edit, Write or Bash"),
    ("deny-tool", Values("TOOL"), "deny a tool in every mode"),
    ("no-tools", Nothing, "answer without tools"),
    ("max-turns", Value("N"), "limit of the model's answers"),
    ("max-cost", Value("USD"), "limit of the cost"),
    ("session-id", Value("ID"), "id of the new session"),
    ("resume", Value("ID"), "resume a stored session"),
    ("continue", Nothing, "resume the last session in this directory"),
    ("fork", Nothing, "with --resume or --continue: as a new session"),
    ("ephemeral", Nothing, "do not store this session"),
    ("isolate", Nothing, "accepted without effect: the agent has no settings"),
    ("max-tokens", Value("N"), "is accepted"),
    ("temperature", Value("X"), "is accepted"),
    ("top-p", Value("X"), "is accepted"),
    (
        "pace",
        Value("X"),
        "delay factor of the output; 0 is at once, 1 reading speed (default: 1 for its own task)",
    ),
    ("script", Value("FILE"), "directives from a file; standard input is then read only on `read-stdin`"),
    ("never-read-stdin", Nothing, "do not read standard input"),
];

/// The variables that replace a flag.
const VARIABLES: &str = "\
  PRACTICE_PACE            as --pace
  PRACTICE_SCRIPT          directives, as the text itself, one a line
  PRACTICE_HOME            where it remembers its sessions (default: <state home>/bowline/practice)
";

/// The action of the program.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Print the help.
    Help,
    /// Play the agent.
    Play(Box<Options>),
    /// Play a process that the agent left behind.
    Child(Child),
}

/// The options of a play.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    given: BTreeMap<&'static str, Vec<String>>,
    /// The prompt, if it came as an argument.
    pub(crate) prompt: Option<String>,
    /// All arguments, unchanged.
    pub(crate) argv: Vec<String>,
    /// The output format.
    pub(crate) format: Format,
    /// The permission mode.
    pub(crate) mode: Mode,
    /// The limit of the model's answers.
    pub(crate) max_turns: Option<u64>,
    /// The limit of cost.
    pub(crate) max_cost: Option<f64>,
    /// The pace, if it was given.
    pub(crate) pace: Option<f64>,
    /// A launcher started this process, so `launcher-exits` has happened.
    pub(crate) launched: bool,
}

impl Options {
    /// Returns the value of a flag.
    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        self.values(flag).last().map(String::as_str)
    }

    /// Returns the values of a flag that may be repeated.
    pub(crate) fn values(&self, flag: &str) -> &[String] {
        self.given.get(flag).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a flag was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }

    /// Adds a directory to work in.
    pub(crate) fn add_dir(&mut self, dir: String) {
        self.given.entry("add-dir").or_default().push(dir);
    }

    /// Returns all given flags, for `show`.
    pub(crate) fn given(&self) -> &BTreeMap<&'static str, Vec<String>> {
        &self.given
    }
}

/// A list of words for an option.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $first:ident = $first_word:literal, $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) enum $name {
            #[default]
            $first,
            $($variant),+
        }

        impl $name {
            pub(crate) const ALL: &[Self] = &[Self::$first, $(Self::$variant),+];

            /// Returns the word for it.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

words! {
    /// The output format.
    Format { StreamJson = "stream-json", Json = "json", Text = "text", Codex = "codex", Gemini = "gemini", Pi = "pi", Acp = "acp" }
}

words! {
    /// The permission mode.
    Mode { Ask = "ask", Read = "read", Edit = "edit", Yolo = "yolo" }
}

/// Reads the arguments.
pub(crate) fn parse(args: &[OsString]) -> Result<Parsed, String> {
    let mut words = Vec::new();
    for arg in args {
        let Some(word) = arg.to_str() else {
            return Err(format!("the argument {arg:?} is not UTF-8: write it in UTF-8"));
        };
        words.push(word.to_owned());
    }
    if words.first().is_some_and(|word| word == crate::children::FLAG) {
        return Child::parse(&words[1..]).map(Parsed::Child);
    }
    let mut options = Options { argv: words.clone(), ..Options::default() };
    let mut rest = words.into_iter();
    let mut plain = false;
    while let Some(word) = rest.next() {
        if plain || !word.starts_with('-') || word == "-" {
            if let Some(first) = options.prompt.replace(word.clone()) {
                return Err(format!("two prompts, {first:?} and {word:?}: put it into one argument"));
            }
            continue;
        }
        match word.as_str() {
            "--" => plain = true,
            "-h" | "--help" => return Ok(Parsed::Help),
            crate::children::LAUNCHED => options.launched = true,
            _ => flag(&word, &mut rest, &mut options)?,
        }
    }
    finish(options).map(|options| Parsed::Play(Box::new(options)))
}

fn flag(word: &str, rest: &mut impl Iterator<Item = String>, options: &mut Options) -> Result<(), String> {
    let name = word.trim_start_matches('-');
    let (name, joined) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (name, None),
    };
    let known = FLAGS.iter().find(|(known, _, _)| *known == name && word.starts_with("--"));
    let Some((known, takes, _)) = known else {
        return Err(format!("unknown flag `{word}`: --help lists the flags"));
    };
    let given = options.given.entry(known).or_default();
    match takes {
        Nothing if joined.is_some() => return Err(format!("--{known} takes no value")),
        Nothing => {}
        Value(what) | Values(what) => {
            if matches!(takes, Value(_)) && !given.is_empty() {
                return Err(format!("--{known} was given twice: give it once"));
            }
            match joined.or_else(|| rest.next()) {
                Some(value) => given.push(value),
                None => return Err(format!("--{known} needs a value: --{known} {what}")),
            }
        }
    }
    Ok(())
}

fn finish(mut options: Options) -> Result<Options, String> {
    if let Some(name) = options.value("format") {
        options.format = one_of("format", name, Format::ALL, Format::as_str)?;
    }
    if let Some(name) = options.value("permission") {
        options.mode = one_of("permission", name, Mode::ALL, Mode::as_str)?;
    }
    options.max_turns = number(&options, "max-turns")?;
    options.max_cost = number(&options, "max-cost")?;
    options.pace = match (number(&options, "pace")?, variable("PRACTICE_PACE")) {
        (None, Some(text)) => {
            let pace = text.parse().map_err(|_| format!("PRACTICE_PACE={text:?} is not a number"))?;
            Some(pace)
        }
        (pace, _) => pace,
    };
    if options.pace.is_some_and(|pace: f64| !(0.0..=1000.0).contains(&pace)) {
        return Err("the pace is a number from 0 (at once) to 1000".to_owned());
    }
    if options.has("resume") && options.has("continue") {
        return Err("--resume and --continue exclude each other: give one of them".to_owned());
    }
    if options.format == Format::Acp {
        if options.prompt.is_some() {
            return Err("--format acp takes its prompts from standard input: leave out the prompt".to_owned());
        }
        let of_sessions = ["resume", "continue", "fork", "session-id"];
        if let Some(flag) = of_sessions.into_iter().find(|flag| options.has(flag)) {
            return Err(format!("--{flag} and --format acp exclude each other: the protocol opens sessions"));
        }
    }
    for (flag, what) in
        [("image", "image"), ("system-prompt-file", "file"), ("append-system-prompt-file", "file")]
    {
        for path in options.values(flag) {
            std::fs::metadata(path)
                .map_err(|error| format!("could not open the {what} `{path}`: {error}"))?;
        }
    }
    Ok(options)
}

fn one_of<T: Copy>(flag: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|known| name(*known) == word).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|known| name(*known)).collect();
        format!("--{flag} `{word}` does not exist: it is one of {}", names.join(", "))
    })
}

fn number<T: std::str::FromStr>(options: &Options, flag: &str) -> Result<Option<T>, String> {
    options
        .value(flag)
        .map(|text| text.parse().map_err(|_| format!("--{flag} {text:?} is not a number")))
        .transpose()
}

/// Returns a variable of the environment, if it is set and text.
#[expect(clippy::disallowed_methods, reason = "the agent is the edge: its environment is part of its input")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the help.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "A scripted agent for practice: no model, no network.\n\nUsage: practice-agent [FLAGS] [PROMPT]\n\n\
         Without a prompt as an argument, it is read from standard input. A prompt without directives plays a\n\
         short task: it says a sentence, thinks, reads a file, edits it, runs a command, and answers.\n\nFlags:\n",
    );
    for (name, takes, about) in FLAGS {
        let value = match takes {
            Nothing => String::new(),
            Value(what) | Values(what) => format!(" {what}"),
        };
        _ = writeln!(text, "  {:<34} {about}", format!("--{name}{value}"));
    }
    _ = write!(text, "\nEnvironment:\n{VARIABLES}\nDirectives, one a line, in a prompt after `practice:`:\n");
    for known in script::DIRECTIVES {
        _ = writeln!(text, "  {:<34} {}", known.usage, known.about);
    }
    text
}

#[cfg(test)]
mod tests {
    //! The parser of the flags, and its errors.

    use super::*;

    fn read(args: &[&str]) -> Result<Options, String> {
        match parse(&args.iter().map(OsString::from).collect::<Vec<_>>())? {
            Parsed::Play(options) => Ok(*options),
            other @ (Parsed::Help | Parsed::Child(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flag_is_accepted_in_both_forms() {
        for (name, takes, _) in FLAGS {
            let value = match *name {
                "format" => "pi",
                "permission" => "edit",
                "image" | "system-prompt-file" | "append-system-prompt-file" => "/dev/null",
                _ => "1",
            };
            if *takes == Nothing {
                assert!(read(&[&format!("--{name}")]).expect(name).has(name));
                assert!(read(&[&format!("--{name}=1")]).is_err());
            } else {
                assert_eq!(read(&[&format!("--{name}"), value]).expect(name).value(name), Some(value));
                assert_eq!(read(&[&format!("--{name}={value}")]).expect(name).value(name), Some(value));
                assert!(read(&[&format!("--{name}")]).expect_err(name).contains("needs a value"));
            }
        }
    }

    #[test]
    fn errors_say_what_and_what_to_try() {
        for (args, message) in [
            (&["--colour"] as &[&str], "unknown flag `--colour`: --help lists the flags"),
            (&["-p", "x"], "unknown flag `-p`: --help lists the flags"),
            (
                &["--permission", "sudo"],
                "--permission `sudo` does not exist: it is one of ask, read, edit, yolo",
            ),
            (&["--max-turns", "many"], "--max-turns \"many\" is not a number"),
            (&["--model", "a", "--model", "b"], "--model was given twice: give it once"),
            (&["a", "b"], "two prompts, \"a\" and \"b\": put it into one argument"),
            (&["--pace", "-1"], "the pace is a number from 0 (at once) to 1000"),
        ] {
            assert_eq!(read(args).expect_err("is refused"), message);
        }
        let missing = read(&["--image", "/nowhere/x.png"]).expect_err("is refused");
        assert!(missing.starts_with("could not open the image `/nowhere/x.png`: "), "{missing}");
    }

    #[test]
    fn a_prompt_may_begin_with_a_dash_after_two_of_them() {
        assert_eq!(read(&["--model", "m", "--", "--help"]).expect("reads").prompt.as_deref(), Some("--help"));
    }

    #[test]
    fn the_help_names_every_flag_and_directive() {
        let help = help();
        assert!(FLAGS.iter().all(|(name, _, _)| help.contains(&format!("  --{name}"))));
        assert!(script::DIRECTIVES.iter().all(|known| help.contains(known.usage)));
    }
}
