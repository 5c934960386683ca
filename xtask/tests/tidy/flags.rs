//! Our own flags stand in the `cli` crate only: other crates name request fields, and `cli/remedies` writes their flags.
//!
//! Flags of agents are allowed where agents are described: as arguments in `providers`, and in the comments of [`ABOUT_AGENTS`].

use std::collections::BTreeSet;

use crate::{File, Violation};

/// Crates that callers of the library do not read: the command, and programs and tools with command lines of their own.
const PROGRAMS: &[&str] = &["certify", "cli", "practice", "provider-kit", "simulator", "testkit"];

/// The crate whose arguments are those of agents.
const PROVIDERS: &str = "crates/providers/src/";

/// The judge of policies, which knows the arguments of the programs that agents run.
const POLICY: &str = "crates/engine/src/policy/";

/// Modules of that crate whose comments quote the command lines and the help of agents, besides the folders of providers.
const ABOUT_AGENTS: &[&str] = &["crates/providers/src/probe", "crates/providers/src/invocation/external.rs"];

/// Places where a flag of another program has the name of one of ours: the name of the file, and a part of the text.
const ALLOWED: &[(&str, &str)] = &[
    // The arguments of git.
    ("git.rs", "--list"),
    // The example of a native argument.
    ("keys.rs", "--verbose"),
];

/// Keys of a manifest whose values are texts for people.
const TEXTS: &[&str] = &["granted", "hint", "ignored", "never", "refused", "refused_as_root"];

/// Flags that every program has.
const COMMON: &[&str] = &["help", "version"];

const ADVICE: &str = "is a flag of `bowline`: name the request field, and let `cli/remedies` write the flag";

/// Reads our flags from the argument structs of the command: fields with `#[arg(long)]`.
pub(crate) fn ours(files: &[File]) -> BTreeSet<String> {
    let mut flags = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/cli/src/args")) {
        let mut rest = file.text.as_str();
        while let Some(at) = rest.find("#[arg(") {
            rest = &rest[at + "#[arg(".len()..];
            let (attribute, after) = rest.split_once(")]").expect("an attribute ends");
            let mut settings = attribute.split(',').map(str::trim);
            let Some(long) = settings.find(|it| *it == "long" || it.starts_with("long =")) else { continue };
            let name = match long.split_once('"') {
                Some((_, name)) => name.trim_end_matches('"').to_owned(),
                None => field(after).replace('_', "-"),
            };
            flags.insert(name);
        }
    }
    flags
}

/// Returns the name of the field that follows an attribute.
fn field(after: &str) -> &str {
    let line = after.lines().map(str::trim).find(|line| !(line.is_empty() || line.starts_with(['#', '/'])));
    let (declared, _) = line.and_then(|line| line.split_once(':')).expect("a field follows its attribute");
    declared.rsplit(' ').next().unwrap_or(declared)
}

/// Finds our flags outside `cli`.
pub(crate) fn outside_the_command(files: &[File]) -> Vec<Violation> {
    let flags: BTreeSet<String> =
        ours(files).into_iter().filter(|flag| !COMMON.contains(&flag.as_str())).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_library(&file.path) && !file.is_test()) {
        let texts = match file.path.rsplit_once('.') {
            Some((_, "rs")) => in_rust(file, files),
            Some((_, "toml")) => in_manifest(file),
            _ => continue,
        };
        for (line, text) in texts {
            let allowed = ALLOWED
                .iter()
                .any(|(name, part)| file.path.ends_with(&format!("/{name}")) && text.contains(part));
            for flag in flags.iter().filter(|flag| !allowed && mentions(&text, flag)) {
                found.push(file.violation(line, format!("`--{flag}` {ADVICE}")));
            }
        }
    }
    found
}

/// Returns whether a file is a source of a crate that callers of the library use.
fn is_library(path: &str) -> bool {
    let (name, inside) =
        path.strip_prefix("crates/").and_then(|path| path.split_once('/')).unwrap_or_default();
    inside.starts_with("src/") && !PROGRAMS.contains(&name)
}

/// Returns whether a text has the flag as a word.
fn mentions(text: &str, flag: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(&format!("--{flag}"))
        .any(|(at, found)| !text[..at].ends_with(part) && !text[at + found.len()..].starts_with(part))
}

/// Returns the texts of a source that people read, with their lines.
fn in_rust(file: &File, files: &[File]) -> Vec<(usize, String)> {
    // The formatter puts the tests of a module at its end.
    let text = file.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let of_agents = [PROVIDERS, POLICY].iter().any(|folder| file.path.starts_with(folder));
    let folder = file.path.strip_prefix(PROVIDERS).and_then(|path| path.split('/').next());
    let manifest = folder.map(|folder| format!("{PROVIDERS}{folder}/"));
    let describes = manifest.is_some_and(|folder| {
        files.iter().any(|file| file.path.starts_with(&folder) && file.path.ends_with(".toml"))
    });
    let quotes_agents = describes || ABOUT_AGENTS.iter().any(|path| file.path.starts_with(path));
    let pieces = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Doc(line, text) => (!quotes_agents).then_some((line, text)),
        // A literal without backticks is an argument of the agent's.
        Piece::Literal(line, text) => (!of_agents || text.contains("`--")).then_some((line, text)),
    });
    pieces.collect()
}

/// A part of a source that people may read, with its line.
#[derive(Debug, PartialEq)]
enum Piece {
    /// A line of documentation.
    Doc(usize, String),
    /// A string literal.
    Literal(usize, String),
}

/// Cuts a source into its documentation and its string literals.
fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or_default();
            if comment.starts_with("///") || comment.starts_with("//!") {
                found.push(Piece::Doc(line(at), comment.to_owned()));
            }
            at += comment.len();
        } else if let Some((hashes, open)) = raw(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = &rest[open..];
            let end = body.find(&close).unwrap_or(body.len());
            found.push(Piece::Literal(line(at), body[..end].to_owned()));
            at += open + end + close.len();
        } else if let Some(body) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = body.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(body.len());
            found.push(Piece::Literal(line(at), body[..end].to_owned()));
            at += end + 2;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A character, which may be a quotation mark.
            at += rest[2..].find('\'').map_or(rest.len(), |end| end + 3);
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// Returns how many `#` a raw string has, and where its text begins.
fn raw(rest: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some((hashes, hashes + 2))
}

/// Returns the texts of a manifest for people, with their lines.
fn in_manifest(file: &File) -> Vec<(usize, String)> {
    let table: toml::Table = file.text.parse().expect("a manifest is TOML");
    let mut texts = Vec::new();
    collect(&toml::Value::Table(table), &mut texts);
    let line = |text: &str| file.lines().find(|(_, line)| line.contains(text)).map_or(1, |(line, _)| line);
    texts.into_iter().map(|text| (line(&text), text)).collect()
}

fn collect(value: &toml::Value, texts: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                match value.as_str().filter(|_| TEXTS.contains(&key.as_str())) {
                    Some(text) => texts.push(text.to_owned()),
                    None => collect(value, texts),
                }
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

const ARGS: &str = "struct RunArgs {\n    /// Where\n    #[arg(long, short = 'C', value_name = \"DIR\")]\n    pub(crate) cwd: Option<PathBuf>,\n    #[arg(\n        long = \"continue\",\n        help_heading = SESSION\n    )]\n    pub(crate) latest: bool,\n    #[arg(long)]\n    /// Doc.\n    max_turns: u32,\n    #[arg(value_name = \"PROMPT\")]\n    prompt: String,\n}\n";

#[test]
fn our_flags_are_read_from_the_arguments() {
    let flags =
        ours(&[File::new("crates/cli/src/args/run.rs", ARGS), File::new("crates/x/src/args.rs", ARGS)]);
    assert_eq!(flags.into_iter().collect::<Vec<_>>(), ["continue", "cwd", "max-turns"]);
}

#[test]
fn a_flag_in_the_library_is_caught() {
    let check = |path: &str, text: &str| {
        let args = File::new("crates/cli/src/args/run.rs", ARGS);
        let manifest = File::new("crates/providers/src/some/manifest.toml", "");
        outside_the_command(&[args, manifest, File::new(path, text)]).len()
    };
    let hint = "let hint = \"choose another with `--cwd`\";\n";
    assert_eq!(check("crates/runtime/src/x.rs", hint), 1);
    assert_eq!(check("crates/providers/src/invocation/x.rs", hint), 1);
    assert_eq!(check("crates/runtime/src/x.rs", "/// Of `--max-turns 3`.\nfn x() { y(r#\"--cwd\"#) }\n"), 2);
    assert_eq!(check("crates/runtime/src/x.rs", "format!(\"--cwd {dir}\")\n"), 1);
    assert_eq!(check("crates/new/src/x.rs", hint), 1, "a crate is checked until it is listed");
    assert_eq!(check("crates/cli/src/x.rs", hint), 0, "the command itself");
    assert_eq!(check("crates/runtime/src/x/tests.rs", hint), 0, "a test");
    assert_eq!(check("crates/runtime/src/x.rs", &format!("\n#[cfg(test)]\nmod tests {{\n{hint}}}\n")), 0);
    assert_eq!(check("crates/runtime/src/x.rs", "// Not for callers: `--cwd`.\n"), 0, "a plain comment");
    assert_eq!(check("crates/runtime/src/x.rs", "x(\"`--cwd-of` `--no-cwd` `---cwd`\")\n"), 0, "other flags");
    assert_eq!(
        check("crates/providers/src/some/mod.rs", "//! With `--continue`.\nx(\"--cwd\")\n"),
        0,
        "theirs"
    );
    assert_eq!(
        check("crates/providers/src/invocation/x.rs", "args.push(\"--continue\")\n"),
        0,
        "an argument"
    );
    let manifest =
        "a = { refused = \"no\", hint = \"use `--cwd`\" }\nb = { args = [\"--cwd\", \"{value}\"] }\n";
    assert_eq!(check("crates/providers/src/other/manifest.toml", manifest), 1);
}

#[test]
fn a_source_is_cut_into_texts() {
    let text =
        "//! A.\nlet c = '\"'; // \"no\"\nx(\"a\\\"b\", 'c', \"d\ne\");\nlet l: &'a str = '\\'';\n\"f\";\n";
    let literal = |line: usize, text: &str| Piece::Literal(line, text.to_owned());
    assert_eq!(
        pieces(text),
        [Piece::Doc(1, "//! A.".to_owned()), literal(3, "a\\\"b"), literal(3, "d\ne"), literal(6, "f")]
    );
}
