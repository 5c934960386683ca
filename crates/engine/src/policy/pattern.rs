//! The patterns of a policy: commands, paths, hosts and names.
//!
//! A `*` stands for any characters. The sorts differ only in the text that a pattern is compared with:
//!
//! - **Commands** are compared word by word. One word alone is a program with any arguments. A last word that is `*` stands for
//!   any number of words, also none; elsewhere `*` stays inside its word. An entry that allows has to match the whole command; one
//!   that denies has to match its beginning.
//! - **Paths** are compared as a whole and with each directory above them. A pattern without a slash is compared with every name.
//! - **Hosts** and **tools** are compared as a whole.

use std::path::Path;

use super::shell::ShellWord;

/// The most `**` in a pattern of paths.
const MOST_STARS: usize = 3;

/// Why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It has no characters.
    #[error("a pattern cannot be empty")]
    Empty,
    /// It has characters that no simple command contains.
    #[error(
        "a pattern of commands has words and `*`; it cannot contain operators, quotes, variables or line breaks"
    )]
    Operator,
    /// It has more `**` than are compared.
    #[error("a pattern of paths has at most {MOST_STARS} parts `**`")]
    Stars,
    /// It is not the name of a host.
    #[error("a pattern of hosts is a name or an address, such as `example.org` or `*.example.org`")]
    Host,
}

/// Checks a pattern of commands.
pub fn check_command(pattern: &str) -> Result<(), PatternError> {
    check_text(pattern)?;
    let is_odd = |next: char| {
        matches!(next, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' | '"' | '\'' | '\\' | '\n')
    };
    if pattern.contains(is_odd) { Err(PatternError::Operator) } else { Ok(()) }
}

/// Checks a pattern of tools or branches.
pub fn check_text(pattern: &str) -> Result<(), PatternError> {
    if pattern.trim().is_empty() { Err(PatternError::Empty) } else { Ok(()) }
}

/// Checks a pattern of paths.
pub fn check_path(pattern: &str) -> Result<(), PatternError> {
    check_text(pattern)?;
    if pattern.split('/').filter(|part| *part == "**").count() > MOST_STARS {
        return Err(PatternError::Stars);
    }
    Ok(())
}

/// Checks a pattern of hosts.
pub fn check_host(pattern: &str) -> Result<(), PatternError> {
    check_text(pattern)?;
    let is_odd = |next: char| !next.is_ascii_alphanumeric() && !".-*:[]_".contains(next);
    if pattern.contains(is_odd) { Err(PatternError::Host) } else { Ok(()) }
}

/// How a pattern and a command compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternMatch {
    Yes,
    /// It depends on what is not known.
    Maybe,
    No,
}

/// Compares an entry that allows with the whole command. Unknown text matches `*` only.
pub(super) fn allows(pattern: &str, program: &str, args: &[ShellWord]) -> bool {
    let mut words = pattern.split_whitespace();
    let Some(first) = words.next() else { return false };
    if pattern == "*" {
        return true;
    }
    let rest: Vec<&str> = words.collect();
    // Stricter than a list that denies: `./git` is another program than `git`.
    if !matches(first, program) {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let open = rest.last() == Some(&"*");
    let fixed = if open { &rest[..rest.len() - 1] } else { &rest[..] };
    let long_enough = if open { args.len() >= fixed.len() } else { args.len() == fixed.len() };
    // A word that may become several would shift the words behind it.
    let fits = |(pattern, word): (&&str, &ShellWord)| {
        !word.splits && matches(pattern, &word.text) && (word.is_known() || pattern.contains('*'))
    };
    long_enough && fixed.iter().zip(args).all(fits)
}

/// Compares an entry that denies with the beginning of a command.
pub(super) fn denies(pattern: &str, program: &str, args: &[&ShellWord]) -> PatternMatch {
    let mut words = pattern.split_whitespace();
    let Some(first) = words.next() else { return PatternMatch::No };
    // A path must not avoid the list: `/opt/x/terraform` is a `terraform`, too.
    let base = program.rsplit('/').next().unwrap_or(program);
    if !matches(first, program) && !matches(first, base) {
        return PatternMatch::No;
    }
    let mut rest: Vec<&str> = words.collect();
    // The beginning of a command is compared, so `git push *` also denies a `git push` without arguments.
    while rest.last() == Some(&"*") {
        rest.pop();
    }
    let mut answer = PatternMatch::Yes;
    for (at, pattern) in rest.iter().enumerate() {
        let Some(word) = args.get(at) else { return PatternMatch::No };
        // A word such as `pus?` is `push` if the directory has a file of that name.
        if !word.is_known() || word.glob {
            answer = PatternMatch::Maybe;
            if word.splits {
                return answer;
            }
        } else if !matches(pattern, &word.text) {
            return PatternMatch::No;
        }
    }
    answer
}

/// Compares a text with a pattern in which `*` stands for any characters.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    // The first place of a part leaves the most text for the parts behind it, so no other place needs a try.
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Compares a path and all directories above it with a pattern.
pub(super) fn path_matches(
    pattern: &str,
    path: &Path,
    roots: &[std::path::PathBuf],
    home: Option<&Path>,
) -> bool {
    if pattern == "*" || pattern == "**" {
        return true;
    }
    // `secrets/**` also stands for the directory itself: removing `secrets` removes what is in it.
    let pattern = pattern.trim_end_matches("/**").trim_end_matches('/');
    if !pattern.contains('/') {
        let names = path.components().filter_map(|part| part.as_os_str().to_str());
        return names.into_iter().any(|name| matches(pattern, name)) || pattern.is_empty();
    }
    let full = |base: &Path| base.join(pattern.trim_start_matches("./")).to_string_lossy().into_owned();
    let patterns = match (pattern.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => vec![home.join(below).to_string_lossy().into_owned()],
        (Some(_), None) => return false,
        (None, _) if pattern.starts_with('/') || pattern.starts_with("**") => vec![pattern.to_owned()],
        (None, _) => roots.iter().map(|root| full(root)).collect(),
    };
    path.ancestors().any(|dir| patterns.iter().any(|pattern| segments_match(pattern, &dir.to_string_lossy())))
}

/// Compares paths part by part: `*` stays inside a part, `**` stands for any number of them.
fn segments_match(pattern: &str, path: &str) -> bool {
    fn parts(pattern: &[&str], path: &[&str]) -> bool {
        match pattern.split_first() {
            None => path.is_empty(),
            Some((&"**", rest)) => (0..=path.len()).any(|skipped| parts(rest, &path[skipped..])),
            Some((first, rest)) => {
                path.split_first().is_some_and(|(name, below)| matches(first, name) && parts(rest, below))
            }
        }
    }
    fn split(text: &str) -> Vec<&str> {
        text.split('/').filter(|part| !part.is_empty()).collect()
    }
    let (pattern, path) = (split(pattern), split(path));
    // Each `**` multiplies the work; a pattern with more of them matches nothing, and is refused when it is read.
    if pattern.iter().filter(|part| **part == "**").count() > MOST_STARS {
        return false;
    }
    parts(&pattern, &path)
}

/// Compares a host with a pattern, without its port.
pub(super) fn host_matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    matches(&pattern, host)
        || pattern.split(':').next().is_some_and(|name| !name.is_empty() && matches(name, host))
}
