//! Code in arguments and inputs of interpreters, and options that make a program run another one.

use bowline_protocol::ApprovalCategory;

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::{CommandInput, ShellWord};
use crate::policy::wrappers::{code_file, skip_options};

const CODE: BuiltInRule = BuiltInRule::high("unknown.code", ApprovalCategory::Shell);
const OPTION: BuiltInRule = BuiltInRule::high("unknown.option", ApprovalCategory::Shell);

/// Interpreters with the letters and words of options whose value is code, and those that take a value.
struct Interpreter {
    name: &'static str,
    letters: &'static str,
    words: &'static [&'static str],
    values: &'static [&'static str],
}

const fn interpreter(
    name: &'static str,
    letters: &'static str,
    words: &'static [&'static str],
    values: &'static [&'static str],
) -> Interpreter {
    Interpreter { name, letters, words, values }
}

const INTERPRETERS: &[Interpreter] = &[
    interpreter("python", "c", &[], &["-W", "-X", "-Q"]),
    interpreter("pypy", "c", &[], &["-W", "-X"]),
    interpreter("perl", "eE", &[], &[]),
    interpreter("ruby", "e", &[], &["-I", "-r"]),
    interpreter("node", "ep", &["--eval", "--print", "--require", "--import", "--loader"], &["-r", "-C"]),
    interpreter("nodejs", "ep", &["--eval", "--print"], &["-r"]),
    interpreter("tsx", "ep", &["--eval", "--print"], &[]),
    interpreter("ts-node", "ep", &["--eval", "--print"], &[]),
    interpreter("deno", "", &["eval"], &[]),
    interpreter("bun", "e", &["--eval", "--print"], &[]),
    interpreter("php", "rBRE", &["--run"], &["-d", "-c"]),
    interpreter("lua", "e", &[], &["-l"]),
    interpreter("luajit", "e", &[], &["-l"]),
    interpreter("Rscript", "e", &[], &[]),
    interpreter("julia", "eE", &["--eval", "--print"], &[]),
    interpreter("osascript", "e", &[], &["-l"]),
    interpreter("groovy", "e", &[], &[]),
    interpreter("scala", "e", &[], &[]),
    interpreter("elixir", "e", &["--eval"], &[]),
    interpreter("ghc", "e", &[], &[]),
    interpreter("guile", "c", &[], &[]),
    interpreter("tclsh", "", &[], &[]),
    interpreter("expect", "c", &[], &[]),
    interpreter("pwsh", "cC", &["-Command", "-EncodedCommand", "-enc"], &[]),
    interpreter("sqlite3", "", &[], &["-cmd", "-init", "-separator"]),
];

/// Options by which programs run others: of a program, the beginnings of the words.
const RUNNING: &[(&str, &[&str])] = &[
    (
        "tar",
        &[
            "--to-command",
            "--checkpoint-action",
            "-I",
            "--use-compress-program",
            "--rsh-command",
            "--info-script",
            "--new-volume-script",
            "-F",
        ],
    ),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o"]),
    ("sftp", &["-S", "-o"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("vim", &["-c", "+", "--cmd", "-S", "-s"]),
    ("vi", &["-c", "+", "--cmd"]),
    ("nvim", &["-c", "+", "--cmd", "-S", "--headless"]),
    ("emacs", &["--eval", "-eval", "-f", "-l", "--load", "--batch"]),
    ("man", &["-P", "--pager", "-H"]),
    ("tcpdump", &["-z"]),
    ("gdb", &["-ex", "-x", "--eval-command"]),
    ("wget", &["--use-askpass", "-e"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("rg", &["--pre=", "--pre", "--hostname-bin"]),
    ("less", &["+"]),
    ("nc", &["-e", "-c"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec"]),
    ("socat", &["EXEC:", "SYSTEM:", "exec:", "system:"]),
    ("openssl", &["-engine"]),
    ("ctags", &["--options"]),
    ("make", &["SHELL=", "--eval"]),
    ("gmake", &["SHELL=", "--eval"]),
    ("ssh-keygen", &["-D"]),
    ("ssh-add", &["-s"]),
    ("npm", &["--script-shell", "--node-options"]),
    ("cargo", &["--config"]),
    ("pytest", &["-p"]),
    ("nmap", &["--script"]),
    ("mysql", &["-e", "--execute"]),
    ("psql", &["-c", "--command"]),
    ("m4", &["-D"]),
    ("screen", &["-X", "-dm"]),
    ("tmux", &["new", "new-session", "send-keys", "send", "run-shell", "run", "if-shell"]),
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    // `python3.12` is a `python`.
    let plain = call.name.trim_end_matches(|next: char| next.is_ascii_digit() || next == '.');
    if let Some(found) = INTERPRETERS.iter().find(|it| it.name == plain || it.name == call.name) {
        interpreted(judge, call, found);
    }
    if let Some((_, options)) = RUNNING.iter().find(|it| it.0 == call.name) {
        let names =
            |arg: &&ShellWord| options.iter().any(|option| arg.text == *option || starts(&arg.text, option));
        if let Some(arg) = call.args.iter().find(names) {
            judge.ask(
                &OPTION,
                Some(arg.span),
                format!("`{}` may run another program by this option", call.name),
            );
        }
    }
    match call.name {
        "awk" | "gawk" | "mawk" | "nawk" => awk(judge, call),
        "sed" | "gsed" => sed(judge, call),
        _ => {}
    }
}

/// Returns whether a word begins with an option and has its value behind it.
fn starts(text: &str, option: &str) -> bool {
    let rest = text.strip_prefix(option);
    rest.is_some_and(|rest| {
        !rest.is_empty() && (!option.starts_with("--") || rest.starts_with('=') || option.ends_with('='))
    }) && (option.len() > 2 || option == "+" || !text.starts_with("--"))
}

fn interpreted(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, it: &Interpreter) {
    let mut at = 0;
    while let Some(arg) = call.args.get(at) {
        let text = arg.text.as_str();
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        // `python -m module` and what is behind it are no options of the interpreter.
        let module = letters.starts_with('m') && matches!(it.name, "python" | "pypy");
        if module {
            return;
        }
        let code = (letters.contains(|next| it.letters.contains(next))
            && !it.values.iter().any(|value| text.starts_with(value)))
            || it.words.iter().any(|word| text == *word || (word.starts_with('-') && starts(text, word)));
        if code || !arg.is_known() && letters.is_empty() && arg.splits {
            let reason = format!("what this code of `{}` does cannot be known", call.name);
            return judge.ask(&CODE, Some(arg.span), reason);
        }
        if text == "--" || !text.starts_with('-') || text == "-" {
            break;
        }
        at += if it.values.contains(&text) { 2 } else { 1 };
    }
    // For `bun` and `deno` this word is a subcommand, for `sqlite3` a database.
    let runs_projects = matches!(it.name, "bun" | "deno" | "sqlite3");
    match call.args.get(at).filter(|arg| arg.text != "-" && arg.text != "/dev/stdin") {
        Some(_) if runs_projects => {}
        Some(script) => code_file(judge, call, script),
        None if call.command.input != CommandInput::Inherited && !runs_projects => {
            let reason = format!("`{}` runs what it reads", call.name);
            judge.ask(&CODE, Some(call.command.span), reason);
        }
        None => {}
    }
}

fn awk(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let (at, _) = skip_options(call.args, 0, &["-F", "-v", "-f", "--field-separator", "--assign", "--file"]);
    let Some(program) = call.args.get(at) else { return };
    // `||` is an operator; a single `|` starts a command.
    let text = program.text.replace("||", "");
    let runs = text.contains("system")
        || text.contains('|')
        || text.contains(">\"")
        || text.contains("> \"")
        || text.contains(">>");
    if runs || !program.is_known() {
        judge.ask(&CODE, Some(program.span), "this program of awk may run commands or write files");
    }
}

fn sed(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let mut scripts: Vec<&ShellWord> = Vec::new();
    for (at, arg) in call.args.iter().enumerate() {
        if matches!(arg.text.as_str(), "-e" | "--expression") {
            scripts.extend(call.args.get(at + 1));
        }
    }
    if scripts.is_empty() {
        scripts.extend(call.operands().next());
    }
    for script in scripts {
        if sed_runs(&script.text) {
            judge.ask(&CODE, Some(script.span), "this script of sed may run commands or write files");
        }
    }
}

/// Returns whether a script of sed has a command that runs or writes: `e`, `w`, `W`, or such a flag of `s`.
fn sed_runs(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|next: char| next.is_whitespace() || ";{}".contains(next));
        // An address: a number, `$`, or an expression between slashes.
        while let Some(first) = rest.chars().next() {
            if first == '/' {
                let Some(end) = unescaped(&rest[1..], '/') else { return false };
                rest = &rest[end + 2..];
            } else if first.is_ascii_digit() || "$,~+! \tI".contains(first) {
                rest = &rest[first.len_utf8()..];
            } else {
                break;
            }
        }
        let Some(command) = rest.chars().next() else { return false };
        rest = &rest[command.len_utf8()..];
        match command {
            'e' | 'w' | 'W' => return true,
            's' | 'y' => {
                let Some(mark) = rest.chars().next() else { return false };
                rest = &rest[mark.len_utf8()..];
                for _ in 0..2 {
                    let Some(end) = unescaped(rest, mark) else { return false };
                    rest = &rest[end + mark.len_utf8()..];
                }
                let end = rest.find([';', '\n', '}']).unwrap_or(rest.len());
                // The flags of `s`: with `e` the result is run as a command, with `w` it is written to a file.
                if rest[..end].contains(['e', 'w']) {
                    return true;
                }
                rest = &rest[end..];
            }
            // Text and labels reach to the end of the line.
            'a' | 'i' | 'c' | ':' | 'b' | 't' | 'T' | 'r' | 'R' => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
            }
            _ => {}
        }
    }
}

/// Returns the place of a mark without a backslash in front of it.
fn unescaped(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, next)| {
        let found = next == mark && !escaped;
        escaped = next == '\\' && !escaped;
        found.then_some(at)
    })
}
