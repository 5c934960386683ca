//! Package managers: which of their subcommands add or change dependencies. Programs that run a fetched package are wrappers.

use bowline_protocol::{ApprovalCategory, GatedAction, Risk};

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};

const ADD: BuiltInRule =
    BuiltInRule { rule: "deps.add", risk: Risk::Med, category: ApprovalCategory::DepsAdd };

/// Whether a subcommand adds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adds {
    Always,
    /// With the name of a package only; without one, it installs what the project lists.
    Named,
}

const MANAGERS: &[(&str, &[&str], Adds)] = &[
    (
        "npm",
        &["install", "i", "in", "ins", "inst", "insta", "instal", "isnt", "add", "update", "up", "link"],
        Adds::Named,
    ),
    ("pnpm", &["install", "i", "add", "update", "up", "link"], Adds::Named),
    ("yarn", &["add", "link", "global", "upgrade", "up"], Adds::Named),
    ("bun", &["install", "i", "add", "a", "update", "link"], Adds::Named),
    ("pip", &["install", "download"], Adds::Always),
    ("pip3", &["install", "download"], Adds::Always),
    ("pipx", &["install", "inject", "upgrade"], Adds::Always),
    ("pipenv", &["install", "update"], Adds::Named),
    ("uv", &["add", "tool"], Adds::Always),
    ("poetry", &["add"], Adds::Always),
    ("pdm", &["add"], Adds::Always),
    ("rye", &["add"], Adds::Always),
    ("conda", &["install", "create", "update"], Adds::Always),
    ("mamba", &["install", "create", "update"], Adds::Always),
    ("cargo", &["add", "install", "binstall"], Adds::Always),
    ("go", &["get", "install"], Adds::Always),
    ("gem", &["install", "update"], Adds::Always),
    ("bundle", &["add"], Adds::Always),
    ("composer", &["require", "global"], Adds::Always),
    ("apt", &["install", "full-upgrade", "upgrade", "build-dep"], Adds::Always),
    ("apt-get", &["install", "dist-upgrade", "upgrade", "build-dep"], Adds::Always),
    ("aptitude", &["install", "upgrade"], Adds::Always),
    ("dpkg", &["-i", "--install"], Adds::Always),
    ("rpm", &["-i", "-U", "-ivh", "-Uvh"], Adds::Always),
    ("yum", &["install", "update"], Adds::Always),
    ("dnf", &["install", "upgrade"], Adds::Always),
    ("zypper", &["install", "in", "update"], Adds::Always),
    ("apk", &["add", "upgrade"], Adds::Always),
    ("pacman", &["-S", "-Sy", "-Syu", "-U"], Adds::Always),
    ("brew", &["install", "upgrade", "tap"], Adds::Always),
    ("port", &["install"], Adds::Always),
    ("snap", &["install"], Adds::Always),
    ("flatpak", &["install"], Adds::Always),
    ("nix-env", &["-i", "-iA", "--install"], Adds::Always),
    ("nix", &["profile"], Adds::Always),
    ("luarocks", &["install"], Adds::Always),
    ("cpan", &[""], Adds::Always),
    ("cpanm", &[""], Adds::Always),
    ("mix", &["archive.install"], Adds::Always),
    ("dotnet", &["add"], Adds::Always),
    ("nuget", &["install"], Adds::Always),
    ("helm", &["repo", "plugin"], Adds::Always),
    ("rustup", &["install", "update", "component", "target", "toolchain"], Adds::Always),
    ("deno", &["add", "install"], Adds::Always),
    ("easy_install", &[""], Adds::Always),
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let part = Some(call.command.span);
    // `python -m pip install` and `uv pip install` are a `pip install`.
    let inner = call.args.iter().position(|arg| matches!(arg.text.as_str(), "pip" | "pip3" | "ensurepip"));
    let runs_pip = call.name.starts_with("python") || call.name == "uv" || call.name == "py";
    if runs_pip
        && inner.is_some_and(|at| {
            call.args.iter().skip(at).any(|arg| matches!(arg.text.as_str(), "install" | "sync"))
        })
    {
        return judge.gate(GatedAction::DepsAdd, &ADD, part, format!("`{}` installs packages", call.name));
    }
    let Some((name, verbs, adds)) = MANAGERS.iter().find(|it| it.0 == call.name) else { return };
    let words = call.subcommand();
    let first = call.args.first().map(|arg| arg.text.as_str());
    let verb = call.verb();
    let unknown = verb.is_some_and(|verb| verb.contains('\0'));
    let found = verbs.contains(&"")
        || verb.is_some_and(|verb| verbs.contains(&verb))
        || first.is_some_and(|first| verbs.contains(&first));
    if unknown {
        let rule = BuiltInRule::high("unknown.command", ApprovalCategory::Shell);
        return judge.ask(&rule, part, format!("the command of `{name}` is known only when it runs"));
    }
    let named = words.iter().skip(1).any(|arg| !arg.text.starts_with('-'));
    // `uv tool list` and `rustup component list` only look.
    let looks =
        words.get(1).is_some_and(|arg| matches!(arg.text.as_str(), "list" | "dir" | "--help" | "run"));
    if found && !looks && (*adds == Adds::Always || named) {
        judge.gate(GatedAction::DepsAdd, &ADD, part, format!("`{name}` adds or changes packages"));
    }
}
