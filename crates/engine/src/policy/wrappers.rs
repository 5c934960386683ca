//! Programs that run other programs: shells, `sudo`, `env`, `xargs`, `find -exec`, `ssh` and so on.

mod remote;
mod shells;
pub(super) use shells::file as code_file;

use bowline_protocol::{ApprovalCategory, Risk};

use super::acts::ProgramCall;
use super::judge::{ActJudge, BuiltInRule};
use super::shell::{ShellCommand, ShellWord, UNKNOWN};

/// Whether a program only starts another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// It is judged itself.
    None,
    /// The program that it starts is judged instead: lists of commands need not name the wrapper.
    Transparent,
    /// Both are judged.
    Also,
}

const UNKNOWN_WRAPPED: BuiltInRule = BuiltInRule::high("unknown.command", ApprovalCategory::Shell);
const PRIVILEGE: BuiltInRule = BuiltInRule::high("privilege.raise", ApprovalCategory::Shell);
const FETCH: BuiltInRule =
    BuiltInRule { rule: "deps.add", risk: Risk::High, category: ApprovalCategory::DepsAdd };

/// A program whose last arguments are a program with arguments.
struct PrefixWrapper {
    name: &'static str,
    /// The options that take the next word.
    values: &'static [&'static str],
    /// The number of words between the options and the program.
    operands: usize,
    wrapping: Wrapping,
}

const fn transparent(name: &'static str, values: &'static [&'static str], operands: usize) -> PrefixWrapper {
    PrefixWrapper { name, values, operands, wrapping: Wrapping::Transparent }
}

const fn also(name: &'static str, values: &'static [&'static str], operands: usize) -> PrefixWrapper {
    PrefixWrapper { name, values, operands, wrapping: Wrapping::Also }
}

const SUDO: &[&str] = &[
    "-u",
    "-g",
    "-h",
    "-p",
    "-C",
    "-T",
    "-R",
    "-D",
    "-U",
    "-r",
    "-t",
    "--user",
    "--group",
    "--host",
    "--prompt",
    "--chdir",
    "--chroot",
    "--close-from",
    "--role",
    "--type",
    "--other-user",
    "--command-timeout",
];

/// The wrappers of this form.
const PREFIXES: &[PrefixWrapper] = &[
    also("sudo", SUDO, 0),
    also("doas", &["-u", "-C"], 0),
    also("pkexec", &["--user"], 0),
    transparent("env", &["-u", "-C", "--unset", "--chdir"], 0),
    transparent("nice", &["-n", "--adjustment"], 0),
    transparent("nohup", &[], 0),
    transparent("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    transparent("setsid", &[], 0),
    transparent("time", &["-f", "-o", "--format", "--output"], 0),
    transparent("gtime", &["-f", "-o", "--format", "--output"], 0),
    transparent("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    transparent("gtimeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    transparent("ionice", &["-c", "-n", "-p", "--class", "--classdata"], 0),
    transparent("chrt", &["-T", "-P", "-D"], 1),
    transparent("taskset", &[], 1),
    transparent("numactl", &["-N", "-m", "-C", "-i", "-p"], 0),
    transparent("builtin", &[], 0),
    transparent("exec", &["-a"], 0),
    transparent("xvfb-run", &["-n", "-s", "-e", "-f", "-w", "--server-num", "--server-args"], 0),
    transparent("dbus-run-session", &["--dbus-daemon", "--config-file"], 0),
    transparent("caffeinate", &["-t", "-w"], 0),
    transparent("busybox", &[], 0),
    transparent("toybox", &[], 0),
    also("strace", &["-e", "-o", "-p", "-s", "-a", "-E", "-I", "-O", "-P", "-S", "-u", "-X", "-b"], 0),
    also("ltrace", &["-e", "-o", "-p", "-s", "-a", "-u", "-n", "-l", "-x"], 0),
    also("chroot", &["--userspec", "--groups"], 1),
    also("unshare", &["-S", "-G", "-R", "-w", "--setuid", "--setgid", "--root", "--wd"], 0),
    also("nsenter", &["-t", "-S", "-G", "--target"], 0),
    also("setpriv", &["--reuid", "--regid", "--groups"], 0),
    also("systemd-run", &["-p", "-u", "-M", "--unit", "--property", "--uid", "--gid"], 0),
    also("firejail", &[], 0),
    also("proxychains", &["-f"], 0),
    also("proxychains4", &["-f"], 0),
    also("torsocks", &[], 0),
    also("entr", &[], 0),
    also("valgrind", &[], 0),
];

/// Programs that change who runs a command.
const PRIVILEGED: [&str; 6] = ["sudo", "doas", "pkexec", "su", "runuser", "chroot"];

/// Package managers and environments whose subcommand starts a program.
const RUNNERS: &[(&str, &str)] = &[
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("rye", "run"),
    ("bundle", "exec"),
    ("npm", "exec"),
    ("pnpm", "exec"),
    ("yarn", "exec"),
    ("mise", "exec"),
    ("mise", "x"),
    ("rustup", "run"),
    ("conda", "run"),
    ("direnv", "exec"),
    ("nix", "shell"),
    ("nix", "develop"),
    ("asdf", "exec"),
];

/// Programs that fetch a package and run it.
const FETCHERS: &[(&str, Option<&str>)] = &[
    ("uvx", None),
    ("bunx", None),
    ("pipx", Some("run")),
    ("pnpm", Some("dlx")),
    ("yarn", Some("dlx")),
    ("uv", Some("tool")),
    ("pnpx", None),
    ("bun", Some("x")),
];

/// Looks into a program that runs another one, and judges that.
pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    if PRIVILEGED.contains(&call.name) {
        judge.ask(
            &PRIVILEGE,
            Some(call.command.span),
            format!("`{}` runs a command as another user", call.name),
        );
    }
    if let Some(wrapper) = PREFIXES.iter().find(|wrapper| wrapper.name == call.name) {
        return prefix(judge, call, wrapper);
    }
    if let Some((_, verb)) = RUNNERS.iter().find(|it| it.0 == call.name && call.verb() == Some(it.1)) {
        let at = call.args.iter().position(|arg| arg.text == *verb).map_or(0, |at| at + 1);
        let values =
            ["--python", "--with", "-p", "--package", "-n", "--name", "--extra", "--group", "--env-file"];
        started(judge, call, at, &values, 0);
        return Wrapping::Also;
    }
    let fetches = |it: &&(&str, Option<&str>)| it.0 == call.name && (it.1.is_none() || call.verb() == it.1);
    if let Some((_, verb)) = FETCHERS.iter().find(fetches) {
        let at =
            verb.and_then(|verb| call.args.iter().position(|arg| arg.text == verb)).map_or(0, |at| at + 1);
        // `uvx --help` names no package.
        let help = call.args.iter().all(|arg| arg.text.starts_with('-'));
        if !help {
            fetched(judge, call);
            started(judge, call, at, &["--from", "--with", "-p", "--python", "--package", "--spec"], 0);
        }
        return Wrapping::Also;
    }
    match call.name {
        "command" => command_builtin(judge, call),
        "npx" => npx(judge, call),
        "xargs" => xargs(judge, call),
        "find" | "fd" | "fdfind" => find(judge, call),
        "flock" => flock(judge, call),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "fish" | "rbash" => {
            shells::shell(judge, call)
        }
        "eval" | "source" | "." | "alias" | "trap" | "hash" | "enable" | "complete" => {
            shells::builtin(judge, call)
        }
        "watch" | "script" | "su" | "runuser" | "parallel" => shells::texts(judge, call),
        "ssh" | "mosh" | "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "docker-compose" => {
            remote::look(judge, call)
        }
        _ => Wrapping::None,
    }
}

fn fetched(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let reason = format!("`{}` fetches a package and runs it", call.name);
    judge.gate(bowline_protocol::GatedAction::DepsAdd, &FETCH, Some(call.command.span), reason);
}

/// Returns the first word after the options, and whether an unknown option stood before it: that option may take the word.
pub(super) fn skip_options(args: &[ShellWord], from: usize, values: &[&str]) -> (usize, bool) {
    let (mut at, mut unsure) = (from, false);
    while let Some(arg) = args.get(at) {
        let text = arg.text.as_str();
        if text == "--" {
            return (at + 1, unsure);
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        let long = text.starts_with("--");
        // In `-iu root` the last letter takes the next word, and in `-uroot` the first takes the rest.
        let taking =
            text.char_indices().skip(1).find(|(_, letter)| values.contains(&format!("-{letter}").as_str()));
        let separate = values.contains(&text)
            || (!long && taking.is_some_and(|(index, letter)| index + letter.len_utf8() == text.len()));
        // `--name value` and `--flag program` look alike. The caller judges both readings.
        unsure |= long && !text.contains('=') && !values.contains(&text);
        at += if separate { 2 } else { 1 };
    }
    (at.min(args.len()), unsure)
}

/// Judges the program that begins behind the options.
fn started(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, from: usize, values: &[&str], operands: usize) {
    let (mut at, unsure) = skip_options(call.args, from, values);
    // Words that are not known may be options, or become several words.
    if call.args[from.min(call.args.len())..at].iter().any(|arg| arg.splits) {
        judge.ask(
            &UNKNOWN_WRAPPED,
            Some(call.command.span),
            format!("which program `{}` starts is known only when it runs", call.name),
        );
    }
    at += operands;
    while call.args.get(at).is_some_and(|arg| is_assignment(&arg.text)) {
        at += 1;
    }
    let candidates = if unsure { at..(at + 2) } else { at..(at + 1) };
    for at in candidates {
        if let Some(words) = call.args.get(at..).filter(|words| !words.is_empty()) {
            judge.nested_words(ShellCommand { words: words.to_vec(), ..call.command.clone() });
        }
    }
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|next| next == '_' || next.is_ascii_alphanumeric())
    })
}

fn prefix(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, wrapper: &PrefixWrapper) -> Wrapping {
    if call.name == "env" {
        if let Some(at) =
            call.args.iter().position(|arg| arg.text.starts_with("-S") || arg.text.contains("split-string"))
        {
            judge.ask(&UNKNOWN_WRAPPED, Some(call.args[at].span), "`env -S` splits a text into a command");
        }
        let names = call.args.iter().filter(|arg| is_assignment(&arg.text));
        judge.environment(names.filter_map(|arg| Some((arg.text.split_once('=')?.0, arg.span))));
    }
    started(judge, call, 0, wrapper.values, wrapper.operands);
    wrapper.wrapping
}

fn command_builtin(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    // `command -v` only looks for a program.
    let looks = call.args.first().is_some_and(|arg| matches!(arg.text.as_str(), "-v" | "-V" | "-pv" | "-pV"));
    if !looks {
        started(judge, call, 0, &[], 0);
    }
    Wrapping::Transparent
}

fn npx(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let values = ["-p", "--package", "-c", "--call", "-w", "--workspace"];
    let (at, _) = skip_options(call.args, 0, &values);
    let options = &call.args[..at];
    let fetches = options.iter().any(|arg| matches!(arg.text.as_str(), "-y" | "--yes" | "-p" | "--package"))
        || options.iter().any(|arg| arg.text.starts_with("--package="))
        // `npx tool@latest` fetches that version; `npx @scope/tool` may be installed in the project.
        || call.args.get(at).is_some_and(|arg| arg.text.get(1..).is_some_and(|rest| rest.contains('@')));
    if fetches {
        fetched(judge, call);
    }
    if let Some(index) = options.iter().position(|arg| matches!(arg.text.as_str(), "-c" | "--call")) {
        shells::run_text(judge, call, call.args.get(index + 1));
    }
    started(judge, call, 0, &values, 0);
    Wrapping::Also
}

fn xargs(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let values = [
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-a",
        "-E",
        "-s",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--arg-file",
        "--replace",
        "--max-chars",
        "--eof",
    ];
    let (at, unsure) = skip_options(call.args, 0, &values);
    for at in at..(at + 1 + usize::from(unsure)) {
        let Some(words) = call.args.get(at..).filter(|words| !words.is_empty()) else { continue };
        let mut words = words.to_vec();
        words.push(ShellWord::unknown(call.command.span));
        // With `-I` the input stands inside other words.
        for word in &mut words[1..] {
            if word.text.contains("{}") || word.text == "%" {
                word.text = word.text.replace("{}", &UNKNOWN.to_string()).replace('%', &UNKNOWN.to_string());
            }
        }
        judge.nested_words(ShellCommand { words, ..call.command.clone() });
    }
    Wrapping::Transparent
}

fn find(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let fd = call.name != "find";
    let runs =
        if fd { ["-x", "-X", "--exec", "--exec-batch"] } else { ["-exec", "-execdir", "-ok", "-okdir"] };
    let mut at = 0;
    while let Some(arg) = call.args.get(at) {
        at += 1;
        if !runs.contains(&arg.text.as_str()) {
            continue;
        }
        let rest = &call.args[at..];
        let ends = |word: &ShellWord| word.text == ";" || (!fd && word.text == "+");
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let mut words = rest[..end].to_vec();
        for word in words.iter_mut().filter(|word| word.text.contains("{}")) {
            word.text = word.text.replace("{}", &UNKNOWN.to_string());
        }
        if fd {
            words.push(ShellWord::unknown(call.command.span));
        }
        judge.nested_words(ShellCommand { words, ..call.command.clone() });
        at += end;
    }
    Wrapping::Also
}

fn flock(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let values = ["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"];
    if let Some(at) = call.args.iter().position(|arg| matches!(arg.text.as_str(), "-c" | "--command")) {
        shells::run_text(judge, call, call.args.get(at + 1));
    } else {
        started(judge, call, 0, &values, 1);
    }
    Wrapping::Transparent
}
