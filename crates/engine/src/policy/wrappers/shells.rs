//! Shells, `eval`, `source`, and programs that hand a text to a shell.

use std::path::Path;

use bowline_protocol::ApprovalCategory;

use super::{Wrapping, skip_options};
use crate::policy::acts::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::{CommandInput, ShellCommand, ShellWord, UNKNOWN};

const CODE: BuiltInRule = BuiltInRule::high("unknown.code", ApprovalCategory::Shell);
const PIPED: BuiltInRule = BuiltInRule::high("unknown.piped", ApprovalCategory::Shell);
const EVAL: BuiltInRule = BuiltInRule::high("unknown.eval", ApprovalCategory::Shell);
const ALIAS: BuiltInRule = BuiltInRule::high("unknown.alias", ApprovalCategory::Shell);
const SOURCE: BuiltInRule = BuiltInRule::high("unknown.source", ApprovalCategory::Shell);

/// Judges a shell: its command text, its script, or its input.
pub(super) fn shell(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let values = ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];
    let mut at = 0;
    let (mut takes_text, mut takes_input) = (false, false);
    while let Some(arg) = call.args.get(at) {
        let text = arg.text.as_str();
        if arg.text.contains(UNKNOWN) {
            judge.ask(&CODE, Some(arg.span), "the options of the shell are known only when it runs");
            return Wrapping::Transparent;
        }
        if text == "--" || text == "-" {
            at += 1;
            break;
        }
        if !text.starts_with(['-', '+']) {
            break;
        }
        let letters = if text.starts_with("--") { "" } else { text.trim_start_matches(['-', '+']) };
        // `-c` may be one letter of several: `bash -lc`, `sh -ec`.
        takes_text |= letters.contains('c') || text == "--command";
        takes_input |= letters.contains('s');
        if text.contains("rcfile") || text.contains("init-file") || text.starts_with("--init-command") {
            judge.ask(&CODE, Some(arg.span), "the shell runs another file first");
        }
        // In `-eo pipefail` the last letter takes the next word.
        at += if values.contains(&text) || (letters.len() > 1 && letters.ends_with('o')) { 2 } else { 1 };
    }
    match call.args.get(at) {
        Some(_) if takes_text => run_text(judge, call, call.args.get(at)),
        None if takes_text => judge.ask(&CODE, Some(call.command.span), "the text of the shell is not there"),
        // With `-s` the words are arguments, and the script comes from the input.
        Some(script) if !takes_input => file(judge, call, script),
        Some(_) | None => input(judge, call),
    }
    Wrapping::Transparent
}

/// Judges the text that a shell runs.
pub(super) fn run_text(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, text: Option<&ShellWord>) {
    let Some(text) = text else { return };
    if text.is_known() && !text.glob {
        judge.nested(&text.text, text.span, &call.command.dirs, call.command.input.clone());
    } else {
        judge.ask(&CODE, Some(text.span), "the text for the shell is known only when it runs");
    }
}

/// Judges a file with code that a program runs.
pub(in crate::policy) fn file(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, script: &ShellWord) {
    if script.text == "-" || script.text.starts_with("/dev/stdin") || script.text.starts_with("/dev/fd") {
        return input(judge, call);
    }
    if !script.is_known() || script.glob || (call.command.dirs.others && !script.text.starts_with('/')) {
        return judge.ask(&CODE, Some(script.span), "the file with the code is known only when it runs");
    }
    let system = |path: &Path| path.starts_with("/usr") || path.starts_with("/opt");
    let places = judge.paths_of(script, &call.command.dirs);
    if places.iter().any(|path| !judge.facts.is_inside(path) && !system(path)) {
        judge.ask(
            &SOURCE,
            Some(script.span),
            format!("`{}` runs code from outside of the workspace", call.name),
        );
    }
}

/// Judges the standard input of a program that runs it.
pub(in crate::policy) fn input(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    match &call.command.input {
        CommandInput::Inherited => {}
        CommandInput::Piped => {
            judge.ask(
                &PIPED,
                Some(call.command.span),
                format!("`{}` runs what it reads from another program or file", call.name),
            );
        }
        CommandInput::Text(Some(text), span) => {
            judge.nested(text, *span, &call.command.dirs, CommandInput::Piped);
        }
        CommandInput::Text(None, span) => {
            judge.ask(&CODE, Some(*span), "the text for the shell is known only when it runs");
        }
    }
}

/// Judges builtins that run a text or a file, now or later.
pub(super) fn builtin(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let span = Some(call.command.span);
    match call.name {
        "eval" => {
            judge.ask(&EVAL, span, "`eval` runs a text that is put together");
            // Asked already. The text is judged as well, so that a list that denies its command still does.
            if call.args.iter().all(ShellWord::is_known) {
                let text = call.args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
                judge.nested(&text, call.command.span, &call.command.dirs, call.command.input.clone());
            }
        }
        "alias" if call.args.iter().any(|arg| arg.text.contains(['=', UNKNOWN])) => {
            judge.ask(&ALIAS, span, "an alias gives a command another meaning");
        }
        "source" | "." => match call.args.first() {
            Some(script) => file(judge, call, script),
            None => return Wrapping::None,
        },
        "trap" if call.args.len() > 1 => run_text(judge, call, call.args.iter().find(|arg| arg.text != "--")),
        "hash" if call.args.iter().any(|arg| arg.text.starts_with("-p")) => {
            judge.ask(&ALIAS, span, "`hash -p` gives a command another meaning");
        }
        "enable" if call.args.iter().any(|arg| arg.text.starts_with("-f")) => {
            judge.ask(&ALIAS, span, "`enable -f` loads code into the shell");
        }
        "complete" if call.args.iter().any(|arg| arg.text.starts_with(['-']) && arg.text.contains('C')) => {
            judge.ask(&ALIAS, span, "`complete -C` names a command to run later");
        }
        _ => return Wrapping::None,
    }
    Wrapping::Also
}

/// Judges programs that hand a text to a shell.
pub(super) fn texts(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    match call.name {
        "watch" => {
            let (at, _) = skip_options(call.args, 0, &["-n", "--interval"]);
            joined(judge, call, &call.args[at..]);
        }
        "parallel" => parallel(judge, call),
        // `script` and `su` take the text behind `-c`, alone or at the end of other letters.
        _ => {
            let takes = |arg: &ShellWord| {
                arg.text == "--command"
                    || (arg.text.starts_with('-') && !arg.text.starts_with("--") && arg.text.ends_with('c'))
            };
            if let Some(at) = call.args.iter().position(takes) {
                run_text(judge, call, call.args.get(at + 1));
            } else if let Some(text) = call.args.iter().find_map(|arg| arg.text.strip_prefix("--command=")) {
                judge.nested(text, call.command.span, &call.command.dirs, CommandInput::Inherited);
            } else if call.name != "script" || call.command.input != CommandInput::Inherited {
                input(judge, call);
            }
        }
    }
    Wrapping::Also
}

/// Judges words that a program joins to a text for a shell.
pub(super) fn joined(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, words: &[ShellWord]) {
    if words.is_empty() {
        return;
    }
    if words.iter().any(|word| !word.is_known()) {
        judge.ask(&CODE, Some(call.command.span), "the text for the shell is known only when it runs");
    }
    // The parser refuses a NUL. A `?` keeps the rest of the text readable, and the unknown part has asked.
    let text = words.iter().map(|word| word.text.replace(UNKNOWN, "?")).collect::<Vec<_>>().join(" ");
    judge.nested(&text, call.command.span, &call.command.dirs, CommandInput::Piped);
}

fn parallel(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let values =
        ["-j", "--jobs", "-n", "-N", "-I", "-a", "-S", "--delay", "--timeout", "--retries", "--colsep", "-C"];
    let (at, _) = skip_options(call.args, 0, &values);
    let is_mark = |arg: &ShellWord| arg.text.starts_with(":::");
    let end = call.args.iter().position(is_mark).unwrap_or(call.args.len());
    let template = call.args.get(at..end).unwrap_or_default();
    if template.is_empty() {
        // The values are the commands.
        for value in call.args.iter().skip(end).filter(|arg| !is_mark(arg)) {
            run_text(judge, call, Some(value));
        }
        if end == call.args.len() {
            judge.ask(&PIPED, Some(call.command.span), "`parallel` runs the lines of its input");
        }
        return;
    }
    let mut words = template.to_vec();
    words.iter_mut().for_each(|word| word.text = word.text.replace("{}", &UNKNOWN.to_string()));
    words.push(ShellWord::unknown(call.command.span));
    let text = template.iter().map(|word| word.text.replace(UNKNOWN, "?")).collect::<Vec<_>>().join(" ");
    judge.nested_words(ShellCommand { words, ..call.command.clone() });
    // The template goes through a shell: `parallel 'cat {}; rm x'` has two commands.
    if text.contains([';', '|', '&', '$', '`', '>', '<', '(']) {
        judge.nested(&text, call.command.span, &call.command.dirs, CommandInput::Piped);
    }
}
