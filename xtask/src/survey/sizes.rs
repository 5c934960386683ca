//! Sizes of files and functions.

use super::{Figure, Source, some};

/// How long a file and a function may be before they are listed.
const LONG_FILE: usize = 500;
const LONG_FUNCTION: usize = 80;

/// Counts lines.
pub(super) fn figures(sources: &[Source]) -> Vec<Figure> {
    let mut files: Vec<(usize, String)> = sources
        .iter()
        .map(|source| (source.text.lines().count(), format!("{}/{}", source.package, source.path)))
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    let median = files.get(files.len() / 2).map_or(0, |(lines, _)| *lines);
    let listed = |list: &[(usize, String)], most: usize| {
        let long = list.iter().filter(|(lines, _)| *lines > most);
        some(long.map(|(lines, name)| format!("{name} {lines}")).collect(), 8)
    };
    let long_files = files.iter().filter(|(lines, _)| *lines > LONG_FILE).count();
    let mut functions: Vec<(usize, String)> = sources.iter().flat_map(functions).collect();
    functions.sort_by(|a, b| b.cmp(a));
    let long_functions = functions.iter().filter(|(lines, _)| *lines > LONG_FUNCTION).count();
    let figure = |what: String, value: usize, limit: f64, worst: String| Figure {
        what,
        value: value as f64,
        limit,
        worst,
    };
    vec![
        figure("lines of a file, median".to_owned(), median, MEDIAN, String::new()),
        figure(format!("files above {LONG_FILE} lines"), long_files, LONG_FILES, listed(&files, LONG_FILE)),
        figure(
            format!("functions above {LONG_FUNCTION} lines, of {}", functions.len()),
            long_functions,
            LONG_FUNCTIONS,
            listed(&functions, LONG_FUNCTION),
        ),
        figure(
            "lines of the longest function".to_owned(),
            functions.first().map_or(0, |(lines, _)| *lines),
            LONGEST_FUNCTION,
            String::new(),
        ),
    ]
}

/// Half of the files may be longer. Not lowered with the tree: every comment and every file with a family of cases moves it
/// by a line, and splitting a file for it helps no reader. The models have more (nextest 209, quinn 220).
const MEDIAN: f64 = 150.0;
/// The figures of the tree when they were last lowered.
const LONG_FILES: f64 = 0.0;
const LONG_FUNCTIONS: f64 = 1.0;
const LONGEST_FUNCTION: f64 = 91.0;

/// Returns the functions of a file with their lines. The format of the code is fixed, so that the closing brace stands below the
/// first letter of the declaration.
fn functions(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words = code.split_whitespace().take_while(|word| *word != "fn");
        let is_declared = code.split_whitespace().any(|word| word == "fn")
            && words
                .clone()
                .all(|word| word.starts_with("pub") || ["async", "const", "unsafe"].contains(&word));
        let Some(name) = code.split_once("fn ").filter(|_| is_declared).map(|(_, name)| name) else {
            continue;
        };
        let indent = &line[..line.len() - code.len()];
        let closing = format!("{indent}}}");
        let body = lines[start..].iter().position(|line| *line == closing);
        // A declaration in a trait has no body.
        let end = lines[start..]
            .iter()
            .position(|line| line.ends_with(';') && !line.starts_with(&format!("{indent} ")));
        if let Some(length) = body.filter(|body| end.is_none_or(|end| end > *body)) {
            let name = name.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next();
            // Comments do not count: a limit on them would be a reason to leave them out.
            let is_code = |line: &&&str| !line.trim_start().starts_with("//");
            let length = lines[start..=start + length].iter().filter(is_code).count();
            found.push((length, format!("{}/{}:{}", source.package, source.path, name.unwrap_or_default())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_as_long_as_its_braces_are_apart() {
        let text = "trait T {\n    fn declared(&self);\n}\n\npub(crate) async fn one(\n    a: u8,\n) {\n    // Why.\n    a;\n}\n\nimpl X {\n    fn two() {\n    }\n}\n";
        let source = Source::new("engine", "a.rs", text);
        assert_eq!(
            functions(&source),
            [(5, "engine/a.rs:one".to_owned()), (2, "engine/a.rs:two".to_owned())]
        );
    }
}
