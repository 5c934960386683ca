//! Paths as text: `.` and `..` taken out, links followed by what the caller knows of them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The most links that are followed for a path; the kernel follows 40.
const MOST_LINKS: usize = 40;

/// Returns a path from a directory, without `.` and `..`.
pub(super) fn resolved(dir: &Path, path: &str) -> PathBuf {
    let mut all = PathBuf::new();
    for part in dir.join(path).components() {
        match part {
            Component::CurDir => {}
            // At the root, `pop` does nothing, and neither does `..` for the kernel.
            Component::ParentDir => drop(all.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => all.push(part),
        }
    }
    all
}

/// Returns the places that a path may lead to: by its text, and by the links that are known. The two differ for `link/..`.
pub(super) fn places(dir: &Path, path: &str, links: &BTreeMap<PathBuf, PathBuf>) -> Vec<PathBuf> {
    let text = resolved(dir, path);
    if links.is_empty() {
        return vec![text];
    }
    let mut real = PathBuf::new();
    let mut followed = 0;
    let mut rest: Vec<PathBuf> = parts(&dir.join(path));
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            real.pop();
            continue;
        }
        real.push(&part);
        // Two links that lead to each other would never end.
        if let Some(target) = links.get(&real).filter(|_| followed < MOST_LINKS) {
            followed += 1;
            real.pop();
            // The parts of an absolute target begin with the root, and pushing the root replaces the whole path.
            rest.extend(parts(target));
        }
    }
    if real == text { vec![text] } else { vec![text, real] }
}

/// Returns the parts of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let part = |part: Component<'_>| match part {
        Component::CurDir => None,
        Component::Prefix(_) | Component::RootDir | Component::ParentDir | Component::Normal(_) => {
            Some(PathBuf::from(part.as_os_str()))
        }
    };
    path.components().rev().filter_map(part).collect()
}

/// Returns whether a path has these parts one after the other, such as `.git/hooks`.
pub(super) fn contains_parts(path: &Path, name: &str) -> bool {
    let wanted: Vec<_> = Path::new(name).components().collect();
    let parts: Vec<_> = path.components().collect();
    !wanted.is_empty() && parts.windows(wanted.len()).any(|window| window == wanted)
}

/// Names of files that hold secrets, wherever they are. `name*` matches a beginning, `*name` an end.
const SECRET_NAMES: [&str; 26] = [
    ".env",
    ".env.*",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".htpasswd",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.kdbx",
    "credentials.json",
    "service-account*.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    ".vault-token",
    ".dockercfg",
    "*.tfstate",
];

/// Files of secrets by their last two or three parts.
const SECRET_PLACES: [&str; 14] = [
    ".aws/credentials",
    ".aws/config",
    ".docker/config.json",
    ".kube/config",
    ".ssh",
    ".gnupg",
    ".config/gh/hosts.yml",
    ".config/gcloud",
    ".azure",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
    "proc/self/environ",
    "etc/shadow",
];

/// Names that look like those of secrets and are examples.
const EXAMPLES: [&str; 5] = ["*.example", "*.sample", "*.template", "*.dist", "*.pub"];

/// Returns whether a file likely holds secrets.
pub(super) fn is_secret(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if EXAMPLES.iter().any(|pattern| super::pattern::matches(pattern, &name)) {
        return false;
    }
    // A pattern of the shell is compared with the names that it may become.
    let by_name = |pattern: &str| {
        let sample = pattern.replace('*', "x");
        super::pattern::matches(pattern, &name)
            || (name.contains(['*', '?', '['])
                // `*` and `*.json` are everyday arguments. Asking for them would ask for almost every command.
                && !name.starts_with("*.")
                && name.contains(|is: char| is.is_alphanumeric() || is == '.')
                && glob_may_match(&name, &sample))
    };
    // Another process has its number in the place of `self`, and its variables hold the same secrets.
    let environ = path.starts_with("/proc") && name == "environ";
    environ
        || SECRET_NAMES.iter().any(|pattern| by_name(pattern))
        || SECRET_PLACES.iter().any(|place| contains_parts(path, place))
}

/// Returns whether a pattern of the shell matches a name: `*`, `?` and sets in brackets, which match any character here.
fn glob_may_match(pattern: &str, name: &str) -> bool {
    // A pattern matches a name with a dot only if it begins with one.
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    fn rest(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', after)) => (0..=name.len()).any(|skipped| rest(after, &name[skipped..])),
            Some(('[', after)) => match after.iter().position(|next| *next == ']') {
                Some(end) => !name.is_empty() && rest(&after[end + 1..], &name[1..]),
                None => name.first() == Some(&'[') && rest(after, &name[1..]),
            },
            Some(('?', after)) => !name.is_empty() && rest(after, &name[1..]),
            Some((first, after)) => name.first() == Some(first) && rest(after, &name[1..]),
        }
    }
    let pattern: Vec<char> = pattern.chars().collect();
    // Each `*` multiplies the work.
    if pattern.iter().filter(|next| **next == '*').count() > 4 {
        return true;
    }
    rest(&pattern, &name.chars().collect::<Vec<_>>())
}
