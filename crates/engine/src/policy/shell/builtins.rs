//! The effects of builtins on the state of the shell: `cd`, `export`, `read` and so on.

use super::fields::{ShellWord, UNKNOWN};
use super::state::{ShellState, WorkingDirs};

/// Applies a command to the state of its shell.
pub(super) fn apply(words: &[ShellWord], state: &mut ShellState) {
    let wrapper = |word: &&ShellWord| matches!(word.text.as_str(), "command" | "builtin");
    let skipped = words.iter().take_while(wrapper).count();
    let Some((program, args)) = words[skipped..].split_first() else { return };
    let operands = || args.iter().filter(|arg| !arg.text.starts_with(['-', '+']));
    match program.text.as_str() {
        "cd" | "pushd" => change_dir(args, state),
        "popd" => state.dirs.others = true,
        "export" | "declare" | "typeset" | "readonly" | "local" => {
            // `-n` makes a name for another variable, `-i` calculates.
            let plain = program.text != "declare" && program.text != "typeset" && program.text != "local"
                || args
                    .iter()
                    .all(|arg| !arg.text.starts_with('-') || !arg.text.contains(['n', 'i', 'a', 'A']));
            for arg in operands() {
                if let Some((name, value)) = arg.text.split_once('=') {
                    state.set(name.trim_end_matches('+'), plain.then(|| value.to_owned()));
                }
            }
        }
        "unset" | "read" | "mapfile" | "readarray" | "getopts" | "let" => {
            for arg in operands() {
                let end = arg.text.find(['=', '[', '+', '-']).unwrap_or(arg.text.len());
                state.set(&arg.text[..end], None);
            }
            // `read $x` sets the variable whose name `x` holds.
            if args.iter().any(|arg| !arg.is_known()) {
                state.forget();
            }
        }
        "printf" if args.first().is_some_and(|arg| arg.text == "-v") => {
            if let Some(name) = args.get(1) {
                state.set(&name.text, None);
            }
        }
        // Code that may set anything, now or later.
        "eval" | "source" | "." | "trap" => state.forget(),
        _ => {}
    }
}

fn change_dir(args: &[ShellWord], state: &mut ShellState) {
    let target = args.iter().find(|arg| !arg.text.starts_with('-') || arg.text == "-");
    state.dirs = match (target.map(|word| (word.text.as_str(), word)), &state.home) {
        (None, Some(home)) => state.dirs.joined(home),
        (Some((text, word)), _) if text != "-" && !text.contains(UNKNOWN) && !word.glob => {
            state.dirs.joined(text)
        }
        // `cd -`, `cd "$dir"` and `cd */`.
        (None | Some(_), _) => WorkingDirs::anywhere(),
    };
}
