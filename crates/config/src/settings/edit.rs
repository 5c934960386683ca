//! Changing a setting in its file: what is around it stays as it is, comments included.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table};

use super::super::source::{ConfigSource, SyntaxProblem};
use super::keys::Key;
use bowline::settings::ConfigError;

/// Sets a value in a file, which is made if there is none.
pub fn set(path: &Path, name: &str, value: &str) -> Result<(), ConfigError> {
    change(path, name, awake, |key, table, last| {
        key.kind.check(value).map_err(|expected| format!("`{value}` is not {expected}"))?;
        let mut new = key.kind.toml(value);
        match table.get_mut(last) {
            // The comments above it belong to its name, which stays.
            Some(item) => {
                if let Some(old) = item.as_value() {
                    *new.decor_mut() = old.decor().clone();
                }
                *item = Item::Value(new);
            }
            None => drop(table.insert(last, Item::Value(new))),
        }
        Ok(())
    })
}

/// Takes a value out of a file.
pub fn unset(path: &Path, name: &str) -> Result<(), ConfigError> {
    change(
        path,
        name,
        |text, _, _| text.to_owned(),
        |_, table, last| {
            table.remove(last);
            Ok(())
        },
    )
}

fn change(
    path: &Path,
    name: &str,
    prepare: impl FnOnce(&str, &[&str], &str) -> String,
    edit: impl FnOnce(&Key, &mut Table, &str) -> Result<(), String>,
) -> Result<(), ConfigError> {
    let wrong = |what: String| ConfigError::of_file(path, what);
    let name = &*Key::spelled(name)
        .map_err(|what| wrong(what).expected(r#"quotes go around one part: `prices."gpt-5.5".input`"#))?;
    let Some(key) = Key::named(name) else {
        return Err(super::suggested(wrong(format!("`{name}` is not a setting")), name));
    };
    // Another process that changes the file waits for the lock, and begins with our result.
    let dir = path.parent().unwrap_or(Path::new("."));
    // Lock the directory, not the file: `write` replaces the file, and flock(2) belongs to the inode that was opened.
    let lock = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::File::open(dir))
        .and_then(|dir| dir.lock().map(|()| dir));
    let _lock = lock.map_err(|error| wrong("could not be changed".to_owned()).caused_by(error))?;
    // Read only under the lock: an older text would undo the change of another process.
    let source = match path.exists() {
        true => ConfigSource::read(path)?,
        false => ConfigSource { path: path.to_owned(), text: String::new() },
    };
    let mut document: DocumentMut = source.text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        source.wrong_at(at, "this is not TOML").caused_by(SyntaxProblem::new(error.message()))
    })?;
    let parts = parts(key, name);
    let (last, above) = parts.split_last().ok_or_else(|| wrong(format!("`{name}` is not a setting")))?;
    // A comment that only looks like the setting may be anything.
    document = prepare(&source.text, above, last).parse().unwrap_or(document);
    let mut table = document.as_table_mut();
    for part in above {
        let item = table.entry(part).or_insert_with(|| {
            // Its header is written only if there is something under it.
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        table = item.as_table_mut().ok_or_else(|| {
            wrong(format!("`{part}` is not written as a section, so that `{name}` cannot be changed here"))
                .expected("change it with an editor")
        })?;
    }
    edit(key, table, last).map_err(|what| wrong(what).expected(format!("`{name}`: {}", key.about)))?;
    let text = document.to_string();
    // Bowline does not write a file that it could not read again.
    super::check(&ConfigSource { path: path.to_owned(), text: text.clone() })?;
    write(path, &text).map_err(|error| wrong("could not be written".to_owned()).caused_by(error))
}

/// Takes away the `#` before a section and a setting in it, as `bowline init` writes them for what could be set.
fn awake(text: &str, above: &[&str], last: &str) -> String {
    let header = format!("[{}]", above.join("."));
    let bare = |line: &str| line.trim_start().trim_start_matches('#').trim().to_owned();
    let has = |line: &str| line.trim() == header;
    let set = text.lines().any(has);
    // The keys between it and the next section would become its own.
    let after = text.lines().skip_while(|line| !(line.trim_start().starts_with('#') && bare(line) == header));
    let mut after = after.skip(1).take_while(|line| !line.trim_start().starts_with('['));
    if !set && after.any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        return text.to_owned();
    }
    let (mut inside, mut done) = (false, false);
    let mut lines = Vec::new();
    for line in text.lines() {
        let (word, comment) = (bare(line), line.trim_start().starts_with('#'));
        if word.starts_with('[') && word.ends_with(']') {
            inside = has(line) || !set && comment && word == header;
            lines.push(if inside { header.clone() } else { line.to_owned() });
            continue;
        }
        let key = word.split_once('=').map(|(key, _)| key.trim());
        let meant = inside && key == Some(last);
        if meant && !comment {
            return text.to_owned();
        }
        lines.push(if meant && !done { word } else { line.to_owned() });
        done |= meant;
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// Cuts a name at its dots, but not at those in a name that a person chose.
fn parts<'a>(key: &Key, name: &'a str) -> Vec<&'a str> {
    let Some((before, after)) = key.name.split_once('*') else { return name.split('.').collect() };
    let chosen = &name[before.len()..name.len() - after.len()];
    let before = before.trim_end_matches('.').split('.').count();
    let mut parts: Vec<&str> = name.split('.').take(before).collect();
    parts.push(chosen);
    parts.extend(name[name.len() - after.len()..].split('.').filter(|part| !part.is_empty()));
    parts
}

/// Replaces a file as a whole: a reader sees the old content or the new one.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // A link is followed: what it leads to is what is meant.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The replacement is a new file. Keep the mode that the user gave the old one.
    let permissions = std::fs::metadata(&path).map(|meta| meta.permissions());
    bowline::replace_file(&path, text.as_bytes())?;
    permissions.map_or(Ok(()), |permissions| std::fs::set_permissions(&path, permissions))
}
