//! Reading of likely secrets: files, variables, and programs that print them.

use bowline_protocol::{ApprovalCategory, GatedAction};

use super::{ProgramCall, files};
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::ShellWord;

const SECRETS: BuiltInRule = BuiltInRule::high("secrets.read", ApprovalCategory::Secrets);

/// Programs whose arguments are not the names of files that they read.
const NOT_READERS: [&str; 19] = [
    "ls", "echo", "printf", "test", "[", "stat", "touch", "rm", "mkdir", "find", "fd", "git", "chmod",
    "chown", "which", "type", "cd", "du", "file",
];

/// Programs whose first operand is a pattern.
const PATTERN_FIRST: [&str; 9] = ["grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "jq"];

/// Parts of the names of variables that hold secrets.
const SECRET_VARIABLES: [&str; 9] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY", "CREDENTIAL"];

/// Programs and subcommands that print secrets.
const PRINTERS: &[(&str, &[&str])] = &[
    ("gh", &["auth", "token"]),
    ("glab", &["auth", "token"]),
    ("gcloud", &["auth", "print-access-token"]),
    ("gcloud", &["auth", "print-identity-token"]),
    ("gcloud", &["secrets"]),
    ("aws", &["secretsmanager"]),
    ("aws", &["configure", "get"]),
    ("aws", &["configure", "export-credentials"]),
    ("aws", &["ssm", "get-parameter"]),
    ("aws", &["ssm", "get-parameters"]),
    ("aws", &["sts"]),
    ("az", &["account", "get-access-token"]),
    ("az", &["keyvault"]),
    ("kubectl", &["get", "secret"]),
    ("kubectl", &["get", "secrets"]),
    ("kubectl", &["describe", "secret"]),
    ("kubectl", &["config", "view"]),
    ("vault", &["read"]),
    ("vault", &["kv"]),
    ("op", &["read"]),
    ("op", &["item"]),
    ("pass", &["show"]),
    ("bw", &["get"]),
    ("security", &["find-generic-password"]),
    ("security", &["find-internet-password"]),
    ("secret-tool", &["lookup"]),
    ("git", &["credential"]),
    ("npm", &["token"]),
    ("doctl", &["auth"]),
    ("heroku", &["auth:token"]),
    ("heroku", &["config"]),
    ("ssh-add", &["-L"]),
    ("gpg", &["--export-secret-keys"]),
    ("docker", &["secret"]),
    ("fly", &["auth", "token"]),
    ("fly", &["secrets"]),
    ("vercel", &["env"]),
    ("doppler", &["secrets"]),
    ("sops", &["-d"]),
    ("sops", &["--decrypt"]),
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let part = Some(call.command.span);
    let mut gate = |reason: String| judge.gate(GatedAction::Secrets, &SECRETS, part, reason);
    let prints = match call.name {
        "printenv" => true,
        "env" => call.args.iter().all(|arg| arg.text.starts_with('-')),
        "set" => call.args.is_empty(),
        "export" | "declare" | "typeset" => {
            call.args.iter().all(|arg| arg.text.starts_with('-') && arg.text.contains(['p', 'x']))
        }
        "compgen" => call.has(&["-v", "-e"]),
        _ => false,
    };
    if prints {
        gate(format!("`{}` prints variables, and some of them hold secrets", call.name));
    }
    let words = call.subcommand();
    let prints = |it: &&(&str, &[&str])| {
        it.0 == call.name
            && (it.1.iter().zip(words).all(|(name, word)| *name == word.text) && words.len() >= it.1.len()
                || it.1.len() == 1 && call.args.first().is_some_and(|arg| arg.text == it.1[0]))
    };
    if let Some((name, _)) = PRINTERS.iter().find(prints) {
        gate(format!("this command of `{name}` prints secrets"));
    }
    variables(judge, call);
    if !NOT_READERS.contains(&call.name) {
        arguments(judge, call);
    }
}

/// Asks about the use of variables that hold secrets by their names.
fn variables(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    for word in call.args {
        let secret = word.names.iter().find(|name| {
            let name = name.to_ascii_uppercase();
            SECRET_VARIABLES.iter().any(|part| name.contains(part))
        });
        if let Some(name) = secret {
            judge.gate(
                GatedAction::Secrets,
                &SECRETS,
                Some(word.span),
                format!("`{name}` likely holds a secret"),
            );
        }
    }
}

/// Looks at all arguments that may be files, also behind `@` and `=`.
fn arguments(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let script = call.args.iter().any(|arg| matches!(arg.text.as_str(), "-e" | "-f" | "--regexp" | "--file"));
    let mut skip = usize::from(PATTERN_FIRST.contains(&call.name) && !script);
    for word in call.args {
        if !word.text.starts_with('-') && skip > 0 {
            skip -= 1;
            continue;
        }
        // `curl -d @.env` and `tool --key-file=id_rsa` name the file behind a mark.
        let text = word.text.split_once('=').map_or(word.text.as_str(), |(_, value)| value);
        let text = text.rsplit_once('@').filter(|(_, file)| !file.is_empty()).map_or(text, |(_, file)| file);
        let value = ShellWord { text: text.to_owned(), ..word.clone() };
        if files::looks_like_path(&value) {
            judge.mention(&value, &call.command.dirs);
        }
    }
}
