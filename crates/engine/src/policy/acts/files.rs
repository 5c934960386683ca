//! Programs that write, delete and read files.

use bowline_protocol::ApprovalCategory;

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::paths;
use crate::policy::shell::ShellWord;

const MASS: BuiltInRule = BuiltInRule::high("delete.mass", ApprovalCategory::Edit);
const DISK: BuiltInRule = BuiltInRule::high("delete.disk", ApprovalCategory::Edit);

/// Which operands of a program are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// The last one, or the value of `-t`.
    Last,
    /// All but the first one, which is a mode or an owner.
    AfterFirst,
}

const WRITERS: &[(&str, Written)] = &[
    ("rm", Written::All),
    ("rmdir", Written::All),
    ("unlink", Written::All),
    ("mv", Written::All),
    ("cp", Written::Last),
    ("ln", Written::Last),
    ("install", Written::Last),
    ("rsync", Written::Last),
    ("touch", Written::All),
    ("mkdir", Written::All),
    ("mkfifo", Written::All),
    ("mknod", Written::All),
    ("tee", Written::All),
    ("truncate", Written::All),
    ("shred", Written::All),
    ("chmod", Written::AfterFirst),
    ("chown", Written::AfterFirst),
    ("chgrp", Written::AfterFirst),
    ("trash", Written::All),
    ("srm", Written::All),
    ("sponge", Written::All),
    ("split", Written::Last),
    ("gzip", Written::All),
    ("gunzip", Written::All),
    ("bzip2", Written::All),
    ("xz", Written::All),
    ("ex", Written::All),
    ("ed", Written::All),
    ("setfacl", Written::AfterFirst),
    ("chattr", Written::AfterFirst),
];

/// Options of writers that take the next word.
const VALUES: &[(&str, &[&str])] = &[
    ("truncate", &["-s", "--size", "-r", "--reference"]),
    ("touch", &["-d", "-t", "-r", "--date", "--reference"]),
    ("mkdir", &["-m", "--mode"]),
    ("cp", &["-S", "--suffix", "-t", "--target-directory"]),
    ("mv", &["-S", "--suffix", "-t", "--target-directory"]),
    ("ln", &["-S", "-t", "--target-directory"]),
    ("install", &["-m", "-o", "-g", "-t", "-S", "--mode", "--owner", "--group", "--target-directory"]),
    (
        "rsync",
        &[
            "-e",
            "--rsh",
            "-f",
            "--filter",
            "--exclude",
            "--include",
            "--exclude-from",
            "--include-from",
            "-T",
        ],
    ),
    ("shred", &["-n", "-s", "--iterations", "--size"]),
    ("split", &["-b", "-l", "-n", "-a", "-C"]),
];

/// Options of any program whose value is a file that it writes.
const OUTPUTS: &[(&str, &[&str])] = &[
    (
        "curl",
        &[
            "-o",
            "--output",
            "--output-dir",
            "-c",
            "--cookie-jar",
            "-D",
            "--dump-header",
            "--trace",
            "--trace-ascii",
        ],
    ),
    ("wget", &["-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a"]),
    ("sort", &["-o", "--output"]),
    ("tar", &["-C", "--directory", "--one-top-level"]),
    ("unzip", &["-d"]),
    ("patch", &["-o", "--output", "-d", "--directory"]),
    ("find", &["-fprint", "-fprintf", "-fls", "-fprint0"]),
    ("gcc", &["-o"]),
    ("cc", &["-o"]),
    ("clang", &["-o"]),
    ("rustc", &["-o", "--out-dir"]),
    ("yq", &["-o"]),
    ("ssh-keygen", &["-f"]),
    ("openssl", &["-out"]),
    ("git", &["-o", "--output"]),
    ("xxd", &[]),
    ("dot", &["-o"]),
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    if let Some((_, written)) = WRITERS.iter().find(|it| it.0 == call.name) {
        targets(judge, call, *written);
    }
    if let Some((_, options)) = OUTPUTS.iter().find(|it| it.0 == call.name) {
        outputs(judge, call, options);
    }
    match call.name {
        "rm" | "trash" | "srm" if call.has(&["-r", "-R", "--recursive"]) => removal(judge, call),
        "shred" => judge.ask(&DISK, Some(call.command.span), "`shred` destroys files beyond recovery"),
        "truncate" => judge.ask(&MASS, Some(call.command.span), "`truncate` cuts off the content of files"),
        "dd" => dd(judge, call),
        "sed" | "gsed" if call.has(&["-i", "--in-place"]) => in_place(judge, call),
        "perl" | "ruby" if call.has(&["-i"]) => in_place(judge, call),
        "find" | "fd" if call.args.iter().any(|arg| arg.text == "-delete") => {
            let reason = format!("`{} -delete` removes all files that it finds", call.name);
            judge.ask(&MASS, Some(call.command.span), reason);
        }
        "rsync"
            if call
                .args
                .iter()
                .any(|arg| arg.text.starts_with("--del") || arg.text == "--remove-source-files") =>
        {
            judge.ask(&MASS, Some(call.command.span), "`rsync` removes files of its source or its target");
        }
        "xargs" => {}
        name if name.starts_with("mkfs")
            || matches!(name, "wipefs" | "fdisk" | "parted" | "sfdisk" | "blkdiscard" | "mkswap") =>
        {
            judge.ask(&DISK, Some(call.command.span), format!("`{name}` overwrites a disk"));
        }
        _ => {}
    }
}

/// Judges the operands that a program writes.
fn targets(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, written: Written) {
    let values = VALUES.iter().find(|it| it.0 == call.name).map_or(&[][..], |it| it.1);
    let (mut operands, mut directory) = (Vec::new(), None);
    let (mut at, mut open) = (0, true);
    while let Some(arg) = call.args.get(at) {
        at += 1;
        if open && arg.text == "--" {
            open = false;
        } else if open && values.contains(&arg.text.as_str()) {
            let is_target = matches!(arg.text.as_str(), "-t" | "--target-directory") && call.name != "touch";
            directory = if is_target { call.args.get(at) } else { directory };
            at += 1;
        } else if let Some(value) = arg.text.strip_prefix("--target-directory=").filter(|_| open) {
            let value = ShellWord { text: value.to_owned(), ..arg.clone() };
            judge.write_word(&value, &call.command.dirs, Some(arg.span));
        } else if !open || !arg.text.starts_with('-') {
            operands.push(arg);
        }
    }
    let last = operands.len().saturating_sub(1);
    let chosen = match (written, directory) {
        (Written::Last, Some(directory)) => vec![directory],
        (Written::Last, None) => operands.get(last).copied().into_iter().collect(),
        (Written::AfterFirst, _) => operands.get(1..).unwrap_or_default().to_vec(),
        (Written::All, directory) => operands.iter().copied().chain(directory).collect(),
    };
    for target in chosen {
        // `rsync` writes to other machines, too; `network` judges those.
        let remote =
            call.name == "rsync" && target.text.split('/').next().is_some_and(|first| first.contains(':'));
        if !remote {
            judge.write_word(target, &call.command.dirs, Some(target.span));
        }
    }
    // A link makes another name for a file: writing to it later writes to its target.
    if call.name == "ln" {
        for target in operands.iter().take(last) {
            link_target(judge, call, target);
        }
    }
}

fn link_target(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, target: &ShellWord) {
    if !target.is_known() {
        return judge.write_word(target, &call.command.dirs, Some(target.span));
    }
    for path in judge.paths_of(target, &call.command.dirs) {
        let absolute = ShellWord { text: path.to_string_lossy().into_owned(), ..target.clone() };
        judge.write_word(&absolute, &call.command.dirs, Some(target.span));
    }
}

fn outputs(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, options: &[&str]) {
    for (at, arg) in call.args.iter().enumerate() {
        for option in options {
            let next = call.args.get(at + 1);
            let short = option.strip_prefix('-').filter(|rest| rest.len() == 1);
            // `curl -sSLo FILE`: the last letter of a cluster takes the next word.
            let cluster = short.is_some_and(|letter| {
                arg.text.len() > 2
                    && arg.text.starts_with('-')
                    && !arg.text.starts_with("--")
                    && arg.text.ends_with(letter)
            });
            let value = if arg.text == *option || (cluster && matches!(call.name, "curl" | "wget" | "tar")) {
                next.cloned()
            } else {
                let joined = match (option.starts_with("--"), short) {
                    (true, _) => arg.text.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')),
                    (false, Some(_)) => arg.text.strip_prefix(option).filter(|rest| !rest.is_empty()),
                    (false, None) => None,
                };
                joined.map(|text| ShellWord { text: text.to_owned(), ..arg.clone() })
            };
            if let Some(value) = value.filter(|value| value.text != "-") {
                judge.write_word(&value, &call.command.dirs, Some(value.span));
            }
        }
    }
}

/// Judges the targets of a recursive removal: the workspace itself, all that is in it, and what lies above it.
fn removal(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    for target in call.operands() {
        let text = target.text.trim_end_matches('/');
        let all = matches!(text, "*" | "./*" | ".*" | "./.*" | ".[!.]*" | "");
        // Without `.git` nothing brings the removed files back.
        let mut root = all || text.ends_with(".git");
        for path in judge.paths_of(target, &call.command.dirs) {
            // `rm -r src/*` empties `src`, so the directory is compared.
            let everything = path.file_name().is_some_and(|name| name == "*") && target.glob;
            let path = if everything { path.parent().map_or(path.clone(), ToOwned::to_owned) } else { path };
            root |= judge.facts.roots.iter().any(|workspace| workspace.starts_with(&path));
            root |= judge.facts.home.as_ref().is_some_and(|home| home.starts_with(&path));
        }
        if root {
            judge.ask(
                &MASS,
                Some(target.span),
                format!("`{}` removes everything in `{}`", call.name, target.text),
            );
        }
    }
}

fn dd(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    for arg in call.args {
        if let Some(target) = arg.text.strip_prefix("of=") {
            judge.ask(&DISK, Some(arg.span), format!("`dd` overwrites `{target}`"));
            let word = ShellWord { text: target.to_owned(), ..arg.clone() };
            judge.write_word(&word, &call.command.dirs, Some(arg.span));
        }
    }
}

/// Judges the files that `sed -i` changes: all operands but the script.
fn in_place(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let has_script = call.args.iter().any(|arg| {
        matches!(arg.text.as_str(), "-e" | "-f" | "--expression" | "--file")
            || arg.text.starts_with("--expression=")
            || arg.text.ends_with('e') && arg.text.starts_with("-") && call.name != "sed"
    });
    let mut skip = usize::from(!has_script);
    let mut value = false;
    for arg in call.args {
        if std::mem::take(&mut value) {
            continue;
        }
        value = matches!(arg.text.as_str(), "-e" | "-f" | "--expression" | "--file")
            || (call.name != "sed" && arg.text.starts_with('-') && arg.text.ends_with('e'));
        if arg.text.starts_with('-') {
            continue;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        judge.write_word(arg, &call.command.dirs, Some(arg.span));
    }
}

/// Returns whether a word looks like a path to a reader: `paths` then tells whether it holds secrets.
pub(super) fn looks_like_path(word: &ShellWord) -> bool {
    !word.text.is_empty()
        && !word.text.starts_with('-')
        && word.text.len() < 4096
        && !paths::resolved(std::path::Path::new("/"), &word.text).as_os_str().is_empty()
}
