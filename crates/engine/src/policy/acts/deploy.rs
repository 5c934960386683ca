//! Deploying and publishing, merging on a server, and changes of the system.

use bowline_protocol::{ApprovalCategory, GatedAction};

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::pattern;

const DEPLOY: BuiltInRule = BuiltInRule::high("deploy.run", ApprovalCategory::Deploy);
const MERGE: BuiltInRule = BuiltInRule::high("git.merge", ApprovalCategory::Merge);
const SYSTEM: BuiltInRule = BuiltInRule::high("system.change", ApprovalCategory::Shell);

/// Subcommands that change something that others use. `*` is any.
const TOOLS: &[(&str, &[&str])] = &[
    (
        "kubectl",
        &[
            "apply", "delete", "create", "replace", "patch", "scale", "rollout", "set", "edit", "drain",
            "cordon", "taint", "label", "annotate", "run", "expose", "exec", "cp",
        ],
    ),
    ("oc", &["apply", "delete", "create", "replace", "patch", "scale", "rollout", "new-app", "exec"]),
    ("helm", &["install", "upgrade", "uninstall", "delete", "rollback", "push"]),
    ("terraform", &["apply", "destroy", "import", "taint", "untaint", "state", "force-unlock"]),
    ("tofu", &["apply", "destroy", "import", "taint", "state"]),
    ("terragrunt", &["apply", "destroy", "run-all"]),
    ("pulumi", &["up", "update", "destroy", "refresh", "import"]),
    ("cdk", &["deploy", "destroy", "bootstrap"]),
    ("sam", &["deploy", "delete", "sync"]),
    ("fly", &["deploy", "launch", "scale", "destroy", "apps", "machine", "machines", "ssh"]),
    ("flyctl", &["deploy", "launch", "scale", "destroy", "apps", "machine", "machines", "ssh"]),
    ("vercel", &["deploy", "promote", "rollback", "remove", "rm", "alias", "--prod", "domains"]),
    ("netlify", &["deploy", "sites:delete"]),
    ("serverless", &["deploy", "remove", "invoke"]),
    ("sls", &["deploy", "remove", "invoke"]),
    ("wrangler", &["deploy", "publish", "delete", "secret", "rollback"]),
    ("firebase", &["deploy", "hosting:disable"]),
    ("heroku", &["*:create", "*:destroy", "*:set", "ps:*", "run", "releases:rollback", "container:*"]),
    ("railway", &["up", "deploy", "down"]),
    ("eas", &["submit", "update"]),
    ("docker", &["push"]),
    ("podman", &["push"]),
    ("skopeo", &["copy", "sync", "delete"]),
    ("npm", &["publish", "unpublish", "deprecate", "dist-tag", "owner", "access"]),
    ("pnpm", &["publish"]),
    ("yarn", &["publish", "npm"]),
    ("bun", &["publish"]),
    ("cargo", &["publish", "yank", "owner"]),
    ("twine", &["upload"]),
    ("gem", &["push", "yank"]),
    ("poetry", &["publish"]),
    ("uv", &["publish"]),
    ("hatch", &["publish"]),
    ("flit", &["publish"]),
    ("mvn", &["deploy", "release:*"]),
    ("nuget", &["push"]),
    ("ansible-playbook", &["*"]),
    ("ansible", &["*"]),
    ("cap", &["*"]),
    ("fab", &["*"]),
    ("argocd", &["app"]),
    ("flux", &["*"]),
    ("nomad", &["run", "job", "stop"]),
    ("psql", &[]),
    ("goreleaser", &["release"]),
    ("semantic-release", &["*"]),
    ("lerna", &["publish"]),
    ("changeset", &["publish"]),
];

/// Beginnings of subcommands of cloud programs that only look.
const LOOKING: [&str; 12] =
    ["describe", "list", "get", "show", "help", "ls", "wait", "lookup", "search", "view", "head", "info"];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let part = Some(call.command.span);
    let (name, verb) = (call.name, call.verb().unwrap_or_default());
    if let Some((_, verbs)) = TOOLS.iter().find(|it| it.0 == name) {
        let named =
            call.args.iter().any(|arg| verbs.contains(&arg.text.as_str()) && arg.text.starts_with("--"));
        let found = verbs.iter().any(|pattern| !verb.is_empty() && pattern::matches(pattern, verb));
        // `vercel` alone deploys.
        let alone = name == "vercel"
            && call
                .args
                .iter()
                .all(|arg| arg.text.starts_with('-') && arg.text != "--version" && arg.text != "--help");
        // A subcommand that is not known may be each of them.
        if (found || named || alone || verb.contains('\0')) && !call.has(&["--help", "--dry-run"]) {
            judge.gate(GatedAction::Deploy, &DEPLOY, part, format!("`{name}` changes what others use"));
        }
    }
    match name {
        "aws" | "gcloud" | "az" | "doctl" | "ibmcloud" | "oci" => cloud(judge, call),
        "docker-compose" if verb == "push" => {
            judge.gate(GatedAction::Deploy, &DEPLOY, part, "`docker-compose push` pushes images")
        }
        "gh" | "glab" | "hub" | "tea" => forge(judge, call),
        "crontab" | "at" | "batch" if !call.has(&["-l"]) => {
            judge.ask(&SYSTEM, part, format!("`{name}` runs commands later"));
        }
        "systemctl" | "service" | "launchctl"
            if !matches!(verb, "status" | "show" | "list-units" | "is-active" | "list" | "cat") =>
        {
            judge.ask(&SYSTEM, part, format!("`{name}` changes services of the system"));
        }
        "useradd"
        | "userdel"
        | "usermod"
        | "groupadd"
        | "passwd"
        | "chpasswd"
        | "visudo"
        | "chsh"
        | "mount"
        | "umount"
        | "reboot"
        | "shutdown"
        | "poweroff"
        | "halt"
        | "init"
        | "insmod"
        | "modprobe"
        | "rmmod"
        | "iptables"
        | "nft"
        | "ufw"
        | "setenforce"
        | "update-alternatives"
        | "ip6tables"
        | "swapoff"
        | "setcap"
        | "telinit" => {
            judge.ask(&SYSTEM, part, format!("`{name}` changes the system"));
        }
        "sysctl" if call.has(&["-w", "-p"]) || call.args.iter().any(|arg| arg.text.contains('=')) => {
            judge.ask(&SYSTEM, part, "`sysctl` changes settings of the kernel");
        }
        _ => {}
    }
}

/// Judges the programs of clouds: what does not only look, changes something.
fn cloud(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let words: Vec<&str> = call
        .subcommand()
        .iter()
        .map(|arg| arg.text.as_str())
        .take_while(|text| !text.starts_with('-'))
        .collect();
    let looks = words.iter().skip(1).any(|word| LOOKING.iter().any(|prefix| word.starts_with(prefix)));
    let own = matches!(
        words.first(),
        None | Some(&("configure" | "config" | "version" | "info" | "help" | "auth" | "login"))
    );
    if !looks && !own && words.len() > 1 && !call.has(&["--version", "--dry-run", "--dryrun"]) {
        let reason = format!("`{}` changes resources in a cloud", call.name);
        judge.gate(GatedAction::Deploy, &DEPLOY, Some(call.command.span), reason);
    }
}

/// Judges the programs of code forges.
fn forge(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let words: Vec<&str> = call.subcommand().iter().map(|arg| arg.text.as_str()).collect();
    let (name, part) = (call.name, Some(call.command.span));
    match words.as_slice() {
        [kind @ ("pr" | "mr"), verb @ ("merge" | "accept"), ..] => {
            let reason = format!("`{name} {kind} {verb}` merges a change on the server");
            judge.gate(GatedAction::Merge, &MERGE, part, reason);
        }
        ["release", verb, ..] if !LOOKING.contains(verb) && *verb != "download" => {
            let reason = format!("`{name} release` publishes or changes a release");
            judge.gate(GatedAction::Deploy, &DEPLOY, part, reason);
        }
        [kind @ "workflow", "run" | "enable" | "disable", ..]
        | [kind @ "run", "rerun", ..]
        | [kind @ "deploy", ..] => {
            let reason = format!("`{name} {kind}` starts or changes a workflow on the server");
            judge.gate(GatedAction::Deploy, &DEPLOY, part, reason);
        }
        [kind @ ("secret" | "variable" | "ssh-key" | "gpg-key"), verb, ..] if *verb != "list" => {
            let reason = format!("`{name} {kind}` changes secrets on the server");
            judge.gate(GatedAction::Secrets, &SECRETS, part, reason);
        }
        ["repo", verb @ ("delete" | "archive" | "rename" | "edit"), ..] => {
            let reason = format!("`{name} repo {verb}` changes the repository on the server");
            judge.gate(GatedAction::Deploy, &DEPLOY, part, reason);
        }
        [
            kind @ ("alias" | "extension" | "config"),
            verb @ ("set" | "install" | "import" | "upgrade"),
            ..,
        ] => {
            judge.ask(
                &SYSTEM,
                part,
                format!("`{name} {kind} {verb}` changes what later commands of `{name}` do"),
            );
        }
        ["api", rest @ ..] => {
            // `gh api` sends a GET request; a field, an input or `graphql` makes it a POST.
            let sends = |text: &&str| {
                matches!(
                    *text,
                    "-X" | "--method" | "-f" | "-F" | "--field" | "--raw-field" | "--input" | "graphql"
                ) || text.starts_with("-X")
                    || text.starts_with("--method=")
                    || text.starts_with("-f")
                    || text.starts_with("-F")
                    || text.contains('\0')
            };
            if rest.iter().any(sends) {
                let reason = format!("`{name} api` sends a change to the server");
                judge.gate(GatedAction::Merge, &MERGE, part, reason);
            }
        }
        _ => {}
    }
}

const SECRETS: BuiltInRule = BuiltInRule::high("secrets.read", ApprovalCategory::Secrets);
