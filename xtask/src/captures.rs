//! `cargo xtask import-captures DIR`: sorts recordings of real programs and copies them into `fixtures/`, unedited.
//! `cargo xtask vocabulary`: writes what each program has ever said, for the drift guard.
//!
//! The rules are data, in `fixtures/captures.toml`. The list of all recordings, with what they are, is written to
//! `fixtures/index.jsonl`, sorted; the tests read only that. No program is named here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bowline_providers::novelty;
use serde::{Deserialize, Serialize};

use crate::{report, sh};

/// The rules for one program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    /// The provider, where it is not called like the folder of its recordings.
    provider: Option<String>,
    /// The version of recordings whose name gives none.
    version: String,
    rules: Vec<Rule>,
}

/// What recordings that fit are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    case: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    class: Option<Class>,
    format: Option<String>,
    dialect: Option<String>,
}

/// What sort of recording it is.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Class {
    Stream,
    Wire,
    Probe,
    Pty,
}

/// A line of the index.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Entry {
    cli: String,
    provider: String,
    version: String,
    case: String,
    class: Class,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialect: Option<String>,
}

/// Imports every recording below `from`.
pub fn import(from: &Path) -> Result<()> {
    let fixtures = sh::root().join("fixtures");
    let rules = fixtures.join("captures.toml");
    let text = fs::read_to_string(&rules).with_context(|| format!("could not read {}", rules.display()))?;
    let programs: BTreeMap<String, Program> =
        toml::from_str(&text).context("fixtures/captures.toml is not valid")?;
    let mut imported = 0;
    // What is not among these recordings was made elsewhere, and stays.
    let mut index = known(&fixtures)?;
    for (cli, program) in &programs {
        let folder = from.join(cli);
        if !folder.is_dir() {
            bail!("{} has no recordings of `{cli}`", from.display());
        }
        for case in folders(&folder)? {
            let entry = describe(cli, program, &case)?;
            let target = fixtures.join(cli).join(&entry.version).join(&entry.case);
            if target.exists() {
                fs::remove_dir_all(&target)?;
            }
            copy(&case, &target)?;
            let same =
                |it: &Entry| (&it.cli, &it.version, &it.case) == (&entry.cli, &entry.version, &entry.case);
            index.retain(|it| !same(it));
            index.push(entry);
            imported += 1;
        }
    }
    index.sort_by(|a: &Entry, b: &Entry| (&a.cli, &a.version, &a.case).cmp(&(&b.cli, &b.version, &b.case)));
    let lines: Vec<String> = index.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    fs::write(fixtures.join("index.jsonl"), lines.join("\n") + "\n")?;
    report::line(format_args!("imported {imported} recordings, kept {} others", index.len() - imported));
    Ok(())
}

/// Reads which recordings there are.
fn known(fixtures: &Path) -> Result<Vec<Entry>> {
    let index =
        fs::read_to_string(fixtures.join("index.jsonl")).context("could not read fixtures/index.jsonl")?;
    let entry = |line| serde_json::from_str(line).context("fixtures/index.jsonl is not valid");
    index.lines().map(entry).collect()
}

/// Writes the vocabulary of every program of which there are recordings.
pub fn vocabulary() -> Result<()> {
    let fixtures = sh::root().join("fixtures");
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in known(&fixtures)? {
        if !matches!(entry.class, Class::Stream | Class::Wire) {
            continue;
        }
        // A protocol that many speak has one vocabulary.
        let speaker = entry.dialect.filter(|dialect| dialect == "acp").unwrap_or(entry.provider);
        let folder = fixtures.join(&entry.cli).join(&entry.version).join(&entry.case);
        let output = fs::read(folder.join("stdout.raw")).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let known = words.entry(speaker).or_default();
        let mut take = |path: &str| {
            known.insert(path.to_owned());
        };
        let lines: Vec<_> = output.lines().map(serde_json::from_str::<serde_json::Value>).collect();
        if lines.iter().any(Result::is_ok) {
            lines.iter().flatten().for_each(|value| novelty::each_path(value, &mut take));
        } else if let Ok(document) = serde_json::from_str(&output) {
            novelty::each_path(&document, &mut take);
        }
    }
    for (provider, paths) in words {
        let text: String = paths.iter().map(|path| format!("{path}\n")).collect();
        fs::write(sh::root().join("crates/providers/src").join(&provider).join("vocabulary.txt"), text)?;
        report::line(format_args!("{provider}: {} words", paths.len()));
    }
    Ok(())
}

fn describe(cli: &str, program: &Program, folder: &Path) -> Result<Entry> {
    let name = folder.file_name().and_then(|name| name.to_str()).context("a case has a readable name")?;
    let (version, case) = version_of(name).unwrap_or((&program.version, name));
    let argv = fs::read_to_string(folder.join("argv.txt")).unwrap_or_default();
    let args = arguments(&argv);
    let fits = |rule: &&Rule| {
        rule.case.as_ref().is_none_or(|prefix| case.starts_with(prefix.as_str()))
            && rule.args.iter().all(|wanted| args.contains(wanted))
    };
    let rule = program.rules.iter().find(fits).with_context(|| format!("no rule fits {cli}/{name}"))?;
    let has = |names: &[&str]| names.iter().any(|name| folder.join(name).exists());
    let class = match rule.class {
        Some(class) => class,
        None if has(&["wire.jsonl", "transcript.jsonl"]) => Class::Wire,
        None if has(&["screens.txt", "pty.raw"]) => Class::Pty,
        None => Class::Stream,
    };
    Ok(Entry {
        cli: cli.to_owned(),
        provider: program.provider.clone().unwrap_or_else(|| cli.to_owned()),
        version: version.to_owned(),
        case: case.to_owned(),
        class,
        format: rule.format.clone(),
        dialect: rule.dialect.clone(),
    })
}

/// Takes the version from a name such as `v2.1.197-err-401` or `old-0.15.10-version`.
fn version_of(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix("old-").or_else(|| name.strip_prefix('v'))?;
    let (version, case) = rest.split_once('-')?;
    let numbers = version.split('.').count() == 3 && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    numbers.then_some((version, case))
}

/// Reads a recorded command line: one argument a line, or lines of `arg "…"` among others.
fn arguments(argv: &str) -> Vec<String> {
    let quoted: Vec<String> =
        argv.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("arg ")?).ok()).collect();
    if quoted.is_empty() { argv.lines().map(str::to_owned).collect() } else { quoted }
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("a file has a name")?);
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::write(&target, fs::read(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_versions() {
        assert_eq!(version_of("v2.1.197-err-401"), Some(("2.1.197", "err-401")));
        assert_eq!(version_of("old-0.15.10-version"), Some(("0.15.10", "version")));
        assert_eq!(version_of("version"), None);
        assert_eq!(version_of("variadic-swallows"), None);
    }

    #[test]
    fn command_lines_are_recorded_in_two_ways() {
        assert_eq!(arguments("agent\n-p\nhi there"), ["agent", "-p", "hi there"]);
        assert_eq!(arguments("cwd /x\nenv A=1\narg \"agent\"\narg \"a \\\"b\\\"\""), ["agent", "a \"b\""]);
    }
}
