//! The parts of a project's entry that need trust: programs, variables, addresses, accounts.
//!
//! It is read off the tree before anything is made of it, so that a key which this version does not know how to obey cannot
//! slip through as something harmless, and so that no variable is looked up for it.

use std::path::PathBuf;

use crate::project::{base_of, program_within};
use bowline::settings::ConfigError;

use crate::source::ConfigSource;
use crate::trust::{Claim, ClaimKind};
use crate::yaml::{Node, YamlReader};

/// A part of a file, and what it would do.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedPart {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) claims: Vec<Claim>,
}

/// All that a file would do.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterClaims {
    pub(crate) parts: Vec<ClaimedPart>,
    /// The programs of the project among what it runs.
    pub(crate) programs: Vec<PathBuf>,
}

/// Keeps `${NAME}` as it stands: what is not trusted gets no value of a variable.
pub(crate) fn unfilled(name: &str) -> Option<String> {
    Some(format!("${{{name}}}"))
}

/// Lists what a file would do.
pub(crate) fn of_file(source: &ConfigSource) -> Result<RouterClaims, ConfigError> {
    let reader = YamlReader { source, variable: &unfilled };
    let mut all = RouterClaims::default();
    let Some(root) = reader.tree()? else { return Ok(all) };
    for (key, value) in reader.fields(&root, "a map with `providers`")?.rest() {
        let key = reader.text(key, "a name")?;
        if key != "providers" {
            let claims = variables(value);
            all.parts.extend((!claims.is_empty()).then(|| ClaimedPart {
                name: key,
                line: value.line(),
                claims,
            }));
            continue;
        }
        for node in reader.list(value, "a list of providers")? {
            let claims = of_entry(&reader, node);
            if !claims.is_empty() {
                all.parts.push(ClaimedPart { name: name(&reader, node), line: node.line(), claims });
            }
        }
    }
    let (base, dir) = (base_of(&source.path), source.path.parent());
    if let (Some(base), Some(dir)) = (base, dir) {
        let claims = all.parts.iter().flat_map(|part| &part.claims);
        all.programs = claims.filter_map(|claim| program(&claim.kind, base, dir)).collect();
    }
    Ok(all)
}

fn program(kind: &ClaimKind, base: &std::path::Path, dir: &std::path::Path) -> Option<PathBuf> {
    let ClaimKind::Runs { program, .. } = kind else { return None };
    // Of an `acp:` command the first word is the program.
    let program = match program.strip_prefix("acp:") {
        Some(command) => command.split_whitespace().next()?,
        None => program,
    };
    program_within(base, dir, program)
}

fn name(reader: &YamlReader<'_>, node: &Node) -> String {
    let name = reader.fields(node, "").ok().and_then(|mut fields| reader.text(fields.take("name")?, "").ok());
    name.unwrap_or_else(|| "a provider without a name".to_owned())
}

/// Lists what one entry would do.
pub(super) fn of_entry(reader: &YamlReader<'_>, node: &Node) -> Vec<Claim> {
    let config = reader.fields(node, "").ok().and_then(|mut fields| fields.take("config"));
    let mut claims = Vec::new();
    let config = config.map(|config| pairs(reader, config)).unwrap_or_default();
    let value_of = |wanted: &str| config.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
    let args = value_of("args").and_then(|args| reader.texts(args).ok()).unwrap_or_default();
    for (key, value) in &config {
        let text = reader.text(value, "").unwrap_or_default().trim().to_owned();
        match key.as_str() {
            "binary" => claims.push(claim(value, ClaimKind::Runs { program: text, args: Vec::new() })),
            "path" => claims.push(claim(value, ClaimKind::Runs { program: text, args: args.clone() })),
            // Its arguments are words of the same text.
            "provider" if text.starts_with("acp:") => {
                claims.push(claim(value, ClaimKind::Runs { program: text, args: Vec::new() }));
            }
            "profile" => claims.push(claim(value, ClaimKind::Uses { profile: text })),
            "env" => {
                let set = pairs(reader, value)
                    .into_iter()
                    .map(|(name, value)| claim(value, sets(reader, &name, value)));
                claims.extend(set);
            }
            "options" => {
                let options = pairs(reader, value).into_iter();
                claims.extend(options.map(|(option, value)| claim(value, configures(reader, option, value))));
            }
            // A key that the form does not name is a setting of the program, and may be passed on to it.
            key if !super::CONFIG_KEYS.contains(&key) => {
                claims.push(claim(value, configures(reader, key.to_owned(), value)));
            }
            // A key that only orders, limits or describes needs no trust.
            _ => {}
        }
    }
    claims.extend(variables(node));
    claims
}

fn claim(node: &Node, kind: ClaimKind) -> Claim {
    Claim { line: node.line(), kind }
}

/// A setting that only the program understands, with its value: it may be an address.
fn configures(reader: &YamlReader<'_>, option: String, value: &Node) -> ClaimKind {
    let text = reader.text(value, "").unwrap_or_else(|_| reader.json(value).to_string());
    ClaimKind::configure(option, &text)
}

/// A variable of the environment, which may hold an address.
fn sets(reader: &YamlReader<'_>, variable: &str, value: &Node) -> ClaimKind {
    ClaimKind::set(variable, &reader.text(value, "").unwrap_or_default())
}

/// Returns the keys and values of a map; none for anything else, which is told when the file is read.
fn pairs<'n>(reader: &YamlReader<'_>, node: &'n Node) -> Vec<(String, &'n Node)> {
    let fields = reader.fields(node, "").map(|mut fields| fields.rest()).unwrap_or_default();
    fields.into_iter().map(|(key, value)| (reader.text(key, "").unwrap_or_default(), value)).collect()
}

/// Lists the variables that a part of a file reads.
fn variables(node: &Node) -> Vec<Claim> {
    let mut claims = Vec::new();
    node.variables(&mut |line, variable| {
        claims.push(Claim { line, kind: ClaimKind::Reads { variable: variable.to_owned() } });
    });
    claims
}
