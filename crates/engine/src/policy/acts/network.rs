//! The hosts that a command uses.

use bowline_protocol::ApprovalCategory;

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::{ShellWord, UNKNOWN};

const LISTEN: BuiltInRule = BuiltInRule::medium("network.tunnel", ApprovalCategory::Network);

/// Programs whose operands are addresses.
const ADDRESSED: [&str; 10] =
    ["curl", "wget", "http", "https", "xh", "httpie", "aria2c", "lynx", "w3m", "websocat"];

/// Programs whose first operand is a host.
const HOST_FIRST: [&str; 12] =
    ["nc", "ncat", "netcat", "telnet", "ftp", "sftp", "ping", "mosh", "ssh", "nslookup", "dig", "host"];

/// Options of those that take the next word.
const VALUES: &[(&str, &[&str])] = &[
    (
        "curl",
        &[
            "-H",
            "-X",
            "-d",
            "-o",
            "-u",
            "-A",
            "-e",
            "-b",
            "-c",
            "-F",
            "-T",
            "-m",
            "-w",
            "-x",
            "-E",
            "-r",
            "-D",
            "-K",
            "-y",
            "-Y",
            "-z",
            "-C",
            "--header",
            "--request",
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-urlencode",
            "--output",
            "--user",
            "--user-agent",
            "--referer",
            "--cookie",
            "--cookie-jar",
            "--form",
            "--upload-file",
            "--max-time",
            "--write-out",
            "--cert",
            "--key",
            "--cacert",
            "--connect-timeout",
            "--retry",
            "--retry-delay",
            "--json",
            "--range",
            "--dump-header",
            "--config",
            "--max-redirs",
            "--output-dir",
            "--limit-rate",
            "--retry-max-time",
            "--interface",
            "--ciphers",
        ],
    ),
    (
        "wget",
        &[
            "-O",
            "-o",
            "-P",
            "-U",
            "-t",
            "-T",
            "-a",
            "-w",
            "-e",
            "--header",
            "--user-agent",
            "--output-document",
            "--tries",
            "--timeout",
            "--post-data",
            "--post-file",
            "--directory-prefix",
            "--user",
            "--password",
        ],
    ),
    (
        "ssh",
        &[
            "-B", "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
            "-Q", "-R", "-S", "-W", "-w",
        ],
    ),
    ("nc", &["-p", "-s", "-w", "-x", "-X", "-i", "-q", "-e", "-c"]),
    ("ping", &["-c", "-i", "-w", "-W", "-s", "-t", "-I"]),
    ("sftp", &["-i", "-o", "-P", "-b", "-F"]),
    ("dig", &["-t", "-p", "-f"]),
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let values = VALUES.iter().find(|it| it.0 == call.name).map_or(&[][..], |it| it.1);
    if ADDRESSED.contains(&call.name) {
        let operands = operands(call, values);
        for word in &operands {
            address(judge, word);
        }
        proxies(judge, call);
    } else if HOST_FIRST.contains(&call.name) {
        if call.has(&["-l"]) && matches!(call.name, "nc" | "ncat" | "netcat") {
            judge.ask(&LISTEN, Some(call.command.span), format!("`{}` opens a port", call.name));
        } else if let Some(word) = operands(call, values).first() {
            judge.host(&host_of(&word.text).unwrap_or_default(), Some(word.span));
        }
    } else if matches!(call.name, "scp" | "rsync") {
        for word in operands(
            call,
            &["-i", "-o", "-P", "-F", "-e", "--exclude", "--include", "--rsh", "-S", "-J", "-c", "-l"],
        ) {
            let remote = word.text.split('/').next().is_some_and(|first| first.contains([':', UNKNOWN]));
            if remote || word.text.contains("://") {
                judge.host(&host_of(&word.text).unwrap_or_default(), Some(word.span));
            }
        }
    } else if matches!(call.name, "socat" | "openssl") {
        for word in call.args.iter().filter(|word| word.text.contains(':') && !word.text.starts_with('-')) {
            let parts: Vec<&str> = word.text.split(':').collect();
            let host = if call.name == "socat" { parts.get(1) } else { parts.first() };
            judge.host(host.copied().unwrap_or_default(), Some(word.span));
        }
    }
    git_addresses(judge, call);
}

fn git_addresses(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let talks = matches!(
        call.verb(),
        Some("clone" | "fetch" | "pull" | "push" | "ls-remote" | "remote" | "submodule")
    );
    if call.name == "git" && talks {
        for word in call.subcommand().iter().skip(1) {
            let short =
                word.text.split('/').next().is_some_and(|first| first.contains('@') && first.contains(':'));
            if word.text.contains("://") || short {
                judge.host(&host_of(&word.text).unwrap_or_default(), Some(word.span));
            }
        }
    }
}

/// Returns the operands of a call, where some options take the next word.
fn operands<'a>(call: &ProgramCall<'a>, values: &[&str]) -> Vec<&'a ShellWord> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(arg) = call.args.get(at) {
        let text = arg.text.as_str();
        at += 1;
        if text == "--url" {
            continue;
        }
        if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            // `-sSo file`: the last letter of a cluster takes the next word.
            let cluster = !letters.starts_with('-')
                && letters.chars().last().is_some_and(|last| values.contains(&format!("-{last}").as_str()));
            at += usize::from(values.contains(&text) || cluster);
            continue;
        }
        all.push(arg);
    }
    all
}

fn proxies(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    for (at, arg) in call.args.iter().enumerate() {
        let value = match arg.text.as_str() {
            // These send the request for an allowed host to another one.
            "-x" | "--proxy" | "--connect-to" | "--resolve" => {
                call.args.get(at + 1).map(|next| next.text.clone())
            }
            text => text.strip_prefix("--proxy=").or(text.strip_prefix("--url=")).map(str::to_owned),
        };
        if let Some(value) = value {
            judge.host(&host_of(&value).unwrap_or_default(), Some(arg.span));
        }
        // The file may hold any option, and so any address.
        if matches!(arg.text.as_str(), "-K" | "--config") {
            judge.host("", Some(arg.span));
        }
    }
}

fn address(judge: &mut ActJudge<'_>, word: &ShellWord) {
    // `http POST example.org` and `http example.org name=value`.
    let is_method = !word.text.is_empty() && word.text.chars().all(|next| next.is_ascii_uppercase());
    if !is_method && !word.text.contains('=') || word.text.contains("://") {
        judge.host(&host_of(&word.text).unwrap_or_default(), Some(word.span));
    }
}

/// Returns the host of an address: `https://user@host:port/path`, `host:path`, `user@host`, `host/path`.
pub(in crate::policy) fn host_of(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    // A backslash ends the host for some programs and not for others.
    if authority.contains('\\') {
        return Some(UNKNOWN.to_string());
    }
    // `https://allowed.org@evil.org/` goes to `evil.org`: what is in front of the `@` is a user name.
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}
