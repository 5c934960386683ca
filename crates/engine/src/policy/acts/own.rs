//! Bowline's own commands and processes: an agent starts and decides no session.

use bowline_protocol::ApprovalCategory;

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};

const COMMANDS: BuiltInRule = BuiltInRule::high("own.commands", ApprovalCategory::Other);
const PROCESS: BuiltInRule = BuiltInRule::high("own.process", ApprovalCategory::Other);

/// Our program.
const PROGRAM: &str = "bowline";

/// Commands that only look.
const LOOKING: [&str; 16] = [
    "status",
    "sessions",
    "providers",
    "models",
    "prices",
    "dialects",
    "doctor",
    "version",
    "help",
    "decode",
    "classify",
    "completions",
    "man",
    "limits",
    "route",
    "__complete",
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let part = Some(call.command.span);
    // The program may be installed under another name, so its path is compared as well.
    let own = judge.facts.own.iter().any(|own| {
        call.command.words.first().is_some_and(|program| own.as_path() == std::path::Path::new(&program.text))
    });
    if call.name == PROGRAM || own {
        let looks = match call.verb() {
            None => {
                call.args.iter().all(|arg| matches!(arg.text.as_str(), "--help" | "-h" | "--version" | "-V"))
            }
            Some(verb) => LOOKING.contains(&verb) || call.args.iter().any(|arg| arg.text == "--help"),
        };
        if !looks {
            judge.deny(
                &COMMANDS,
                part,
                "an agent may not start, steer or decide sessions, and may not change policies",
            );
        }
    }
    match call.name {
        "pkill" | "killall" | "killall5" => {
            let ours = call.args.iter().any(|arg| arg.text.contains(PROGRAM));
            if ours {
                judge.deny(&PROCESS, part, "an agent may not end Bowline's processes");
            } else {
                let reason =
                    format!("`{}` ends processes by name, and may end others than the agent's", call.name);
                judge.ask(&PROCESS, part, reason);
            }
        }
        "kill" => {
            // `%1` is a job of the same shell; `-0` and `-l` end nothing.
            let harmless = call.args.iter().any(|arg| matches!(arg.text.as_str(), "-0" | "-l" | "-L"));
            let jobs = |arg: &crate::policy::shell::ShellWord| arg.text.starts_with('%');
            if !harmless && !call.operands().all(jobs) {
                judge.ask(&PROCESS, part, "`kill` ends a process that may not be the agent's");
            }
        }
        "gdb" | "lldb" if call.has(&["-p", "--pid"]) => {
            judge.ask(&PROCESS, part, format!("`{}` controls another process", call.name));
        }
        _ => {}
    }
}
