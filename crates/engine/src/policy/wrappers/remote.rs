//! Commands on other machines and in containers.

use bowline_protocol::ApprovalCategory;

use super::{Wrapping, shells, skip_options};
use crate::policy::acts::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::{ShellCommand, WorkingDirs};

const OPTION: BuiltInRule = BuiltInRule::high("unknown.option", ApprovalCategory::Shell);
const HOST: BuiltInRule = BuiltInRule::high("container.host", ApprovalCategory::Shell);

/// Options of `docker run` and its like that take the next word.
const CONTAINER_VALUES: &[&str] = &[
    "-e",
    "--env",
    "--env-file",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "-v",
    "--volume",
    "--mount",
    "-p",
    "--publish",
    "--name",
    "--network",
    "--net",
    "--entrypoint",
    "-h",
    "--hostname",
    "-m",
    "--memory",
    "--cpus",
    "-l",
    "--label",
    "--platform",
    "--add-host",
    "--cap-add",
    "--cap-drop",
    "--device",
    "--restart",
    "--ulimit",
    "--tmpfs",
    "--pull",
    "--security-opt",
    "--shm-size",
    "--pid",
    "--ipc",
    "--userns",
    "--gpus",
    "--dns",
    "-f",
    "--file",
    "-c",
    "-n",
    "--namespace",
    "--context",
    "--container",
    "--index",
    "--profile",
    "--project-name",
    "--volumes-from",
    "--cidfile",
];

/// Judges `ssh`, `docker` and `kubectl`. The command behind them is judged as one in a directory that is not known.
pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) -> Wrapping {
    let mut command = call.command.clone();
    command.dirs = WorkingDirs::anywhere();
    let there = ProgramCall { command: &command, ..*call };
    match call.name {
        "ssh" | "mosh" => ssh(judge, &there),
        "kubectl" | "oc" if call.verb() == Some("exec") => {
            if let Some(at) = call.args.iter().position(|arg| arg.text == "--") {
                words(judge, &there, at + 1);
            }
        }
        "kubectl" | "oc" => return Wrapping::None,
        _ => container(judge, &there),
    }
    Wrapping::Also
}

fn words(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, at: usize) {
    if let Some(words) = call.args.get(at..).filter(|words| !words.is_empty()) {
        judge.nested_words(ShellCommand { words: words.to_vec(), ..call.command.clone() });
    }
}

fn ssh(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let values = [
        "-B", "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q",
        "-R", "-S", "-W", "-w",
    ];
    let (at, _) = skip_options(call.args, 0, &values);
    for arg in &call.args[..at] {
        let text = arg.text.to_ascii_lowercase();
        // `-o ProxyCommand=…` runs on this machine, and `-F` names a file that may set it.
        if text.contains("command") || text.starts_with("-f") || text.contains("knownhostscommand") {
            judge.ask(&OPTION, Some(arg.span), "this option names a program that runs here");
        }
    }
    shells::joined(judge, call, call.args.get(at + 1..).unwrap_or_default());
}

fn container(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let runs = |arg: &crate::policy::shell::ShellWord| matches!(arg.text.as_str(), "run" | "exec" | "create");
    let Some(verb) = call.args.iter().position(runs) else { return };
    let (image, _) = skip_options(call.args, verb + 1, CONTAINER_VALUES);
    let options = call.args.get(verb + 1..image).unwrap_or_default();
    for (at, option) in options.iter().enumerate() {
        let value = options.get(at + 1).map(|next| next.text.as_str()).unwrap_or_default();
        let text = option.text.as_str();
        let mounts = match text {
            "-v" | "--volume" | "--mount" | "--device" => mounts_host(judge, value),
            _ => text.split_once('=').is_some_and(|(name, value)| {
                matches!(name, "-v" | "--volume" | "--mount" | "--device") && mounts_host(judge, value)
            }),
        };
        let host = ["--pid", "--net", "--network", "--ipc", "--userns"];
        let joins =
            host.contains(&text) && value == "host" || host.iter().any(|name| text == format!("{name}=host"));
        if mounts || joins || text == "--privileged" || text.starts_with("--cap-add") {
            judge.ask(&HOST, Some(option.span), "the container reaches the host through this option");
        }
    }
    let at = image + 1;
    words(judge, call, at);
}

/// Returns whether a volume is a directory outside of the workspace.
fn mounts_host(judge: &ActJudge<'_>, volume: &str) -> bool {
    let source =
        volume.split(',').find_map(|part| part.strip_prefix("source=").or(part.strip_prefix("src=")));
    let source = source.unwrap_or_else(|| volume.split(':').next().unwrap_or_default());
    let path = crate::policy::paths::resolved(&judge.facts.cwd, source);
    // A name without a slash is a volume of the container program.
    source.contains(['/', '~', '\0', '.']) && !judge.facts.is_inside(&path)
}
