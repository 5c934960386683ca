//! Runs the same command inside a container, by `docker exec`.
//!
//! Killing `docker exec` leaves the agent running. So the command is started by
//! a small shell script that writes down its pid inside the container and then becomes the agent, and [`stop`] gives the
//! command that finds the agent and its descendants there and signals them.
//!
//! Of the environment, the container keeps its own; what Bowline sets is set with `-e NAME=VALUE`, and secrets with
//! `-e NAME`, so that their values are in no argument. Side files are handed over the same way and written by the script,
//! because the host's paths mean nothing inside.

use std::collections::BTreeMap;

use bowline_protocol::RequestField;

use super::environment::{self, BASE};
use super::{Arg, Invocation, LONGEST_ARGUMENT, Refusal, StdinPlan, StdioKind};

/// The place of an agent in a container, and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// The container's name or id.
    pub name: &'a str,
    /// The working directory inside it.
    pub cwd: Option<&'a str>,
    /// Bowline's session, by which the agent is found again.
    pub session: &'a str,
    /// The caller's key.
    pub key: Option<&'a str>,
}

/// A signal to an agent in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerSignal {
    /// No signal: the command prints the live processes.
    None,
    /// The signal of Ctrl-C.
    Int,
    /// The signal to end.
    Term,
    /// The end.
    Kill,
}

impl ContainerSignal {
    fn name(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::Int => "INT",
            Self::Term => "TERM",
            Self::Kill => "KILL",
        }
    }
}

/// Becomes the agent after its files and its pid are written. `$0` is the session's directory in the container, `$1`
/// the number of files; then come their names and the command.
const START: &str = r#"set -e; d=$0; n=$1; shift; i=0
umask 077; mkdir -p "$d"
while [ "$i" -lt "$n" ]; do
  eval "printf %s \"\$BOWLINE_FILE_$i\" >\"\$d/\$1\"; unset BOWLINE_FILE_$i"
  shift; i=$((i+1))
done
umask 022; echo $$ >"$d/pid"
exec "$@""#;

/// Signals the agent, its group, its descendants and every process with the session's mark, and prints them as
/// `pid name`. When no process is left, it removes the session's directory. `$0` is the session's directory, `$1` the session, `$2` the signal.
/// One GNU `grep` searches all environments; BusyBox lacks `-z`, and three processes for each environment take 3 ms on an idle machine.
const STOP: &str = r#"d=$0; id=$1; sig=$2; all=; new=
pid=$(cat "$d/pid" 2>/dev/null) && [ -d "/proc/$pid" ] && { all=$pid; new=$pid; }
mark=BOWLINE_SESSION_ID=$id
if echo x | grep -qz x 2>/dev/null; then
  marked=$(grep -lzxF "$mark" /proc/[0-9]*/environ 2>/dev/null)
else
  marked=
  for e in /proc/[0-9]*/environ; do
    if { tr '\0' '\n' <"$e" | grep -qxF "$mark"; } 2>/dev/null; then marked="$marked $e"; fi
  done
fi
for e in $marked; do
  p=${e#/proc/}; p=${p%/environ}
  [ "$p" = $$ ] || [ "$p" = "$PPID" ] && continue
  case " $all " in *" $p "*) ;; *) all="$all $p"; new="$new $p";; esac
done
while [ -n "$new" ]; do
  next=
  for s in /proc/[0-9]*/stat; do
    line=; { read -r line <"$s"; } 2>/dev/null || continue
    p=${s#/proc/}; p=${p%/stat}; set -- ${line##*) }
    [ "$1" = Z ] && continue
    case " $new " in *" $2 "*) case " $all " in *" $p "*) ;; *) next="$next $p"; all="$all $p";; esac;; esac
  done
  new=$next
done
found=
for p in $all; do
  line=; { read -r line <"/proc/$p/stat"; } 2>/dev/null || continue
  set -- ${line##*) }
  [ "$1" = Z ] && continue
  name=; { read -r name <"/proc/$p/comm"; } 2>/dev/null
  [ "$sig" = 0 ] || kill -s "$sig" "$p" 2>/dev/null
  echo "$p $name"; found=1
done
[ "$sig" = KILL ] && [ -z "$found" ] && rm -rf "$d"
[ -n "$pid" ] && [ "$sig" != 0 ] && kill -s "$sig" -- "-$pid" 2>/dev/null
exit 0"#;

/// Puts a command into a container. `host` has the names of the host's variables, which select the provider's own.
pub fn wrap(
    inside: Invocation,
    container: &Container<'_>,
    host: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Invocation, Refusal> {
    let directory = directory(&inside.provider, container)?;
    let mut args: Vec<String> = vec!["exec".into()];
    if inside.stdin != StdinPlan::Null || inside.transport == StdioKind::Pty {
        // Without `-i` docker gives the agent an empty standard input, which is right for a prompt in an argument.
        args.push("-i".into());
    }
    if inside.transport == StdioKind::Pty {
        args.push("-t".into());
    }
    if let Some(cwd) = container.cwd {
        args.extend(["-w".into(), cwd.to_owned()]);
    }
    let mut set = |name: &str, value: Option<&str>| {
        args.push("-e".into());
        args.push(value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}")));
    };
    set("BOWLINE_SESSION_ID", Some(container.session));
    if let Some(key) = container.key {
        set("DUCTOR_CHAT_ID", Some(key));
    }
    // `docker` takes the value of `-e NAME` from its own environment.
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &inside.env {
        // Arguments are visible to every user of the host (`/proc/PID/cmdline`, proc(5)); the environment is not.
        if inside.is_secret(name) || inside.secret_values.iter().any(|secret| value.contains(secret.as_str()))
        {
            set(name, None);
            env.insert(name.clone(), value.clone());
        } else {
            set(name, Some(value));
        }
    }
    let own: Vec<&String> = inside.env_keep.iter().filter(|name| !BASE.contains(&name.as_str())).collect();
    let mut kept: Vec<String> = host
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .filter(|name| environment::listed(&own, name) && !environment::listed(&inside.env_removed, name))
        .filter(|name| !inside.env.contains_key(name))
        .collect();
    // The order of the host's environment is arbitrary; the command must be the same each time.
    kept.sort();
    kept.iter().for_each(|name| set(name, None));
    for (name, file) in &inside.env_files {
        set(name, Some(&format!("{directory}/{file}")));
    }
    for (number, file) in inside.files.iter().enumerate() {
        // A variable has the same limit as an argument: 128 KiB with its name (execve(2)).
        if file.content.len() > LONGEST_ARGUMENT {
            let reason = format!("`{}` is too large to pass into a container", file.name);
            return Err(Refusal::too_large(&inside.provider, RequestField::Docker, reason));
        }
        let variable = format!("BOWLINE_FILE_{number}");
        set(&variable, None);
        env.insert(variable, file.content.clone());
    }
    args.push(container.name.to_owned());
    args.extend(["sh", "-c", START, &directory].map(str::to_owned));
    args.push(inside.files.len().to_string());
    args.extend(inside.files.iter().map(|file| file.name.clone()));
    args.push(inside.program.clone());
    args.extend(inside.args.iter().map(|arg| arg.text(|name| format!("{directory}/{name}"))));

    let mut env_keep = dockers_own();
    env_keep.extend(kept);
    let secrets_env = inside.secrets_env.iter().cloned().chain(env.keys().cloned()).collect();
    Ok(Invocation {
        program: "docker".into(),
        args: args.into_iter().map(Arg::Plain).collect(),
        env,
        env_files: BTreeMap::new(),
        env_keep,
        env_removed: inside.env_removed.clone(),
        // The directory is one of the container. On the host it may not exist, and spawning would fail.
        cwd: None,
        files: Vec::new(),
        secrets_env,
        ..inside
    })
}

/// Returns the command that signals an agent in its container, and prints the processes that it found.
pub fn stop(
    provider: &str,
    container: &Container<'_>,
    signal: ContainerSignal,
) -> Result<Vec<String>, Refusal> {
    let directory = directory(provider, container)?;
    let args =
        ["docker", "exec", container.name, "sh", "-c", STOP, &directory, container.session, signal.name()];
    Ok(args.map(str::to_owned).into())
}

/// Error messages of `docker` when it starts nothing, in lower case, and the hint for each.
const REFUSALS: [(&str, &str); 8] = [
    ("cannot connect to the docker daemon", "start the docker daemon, or check DOCKER_HOST"),
    ("failed to connect to the docker api", "start the docker daemon, or check DOCKER_HOST"),
    ("error during connect", "start the docker daemon, or check DOCKER_HOST"),
    (
        "permission denied while trying to connect",
        "give this user access to docker, or run as a user with access",
    ),
    ("no such container", "`docker ps` lists the containers that run"),
    ("is not running", "start the container first, with `docker start`"),
    ("is paused", "resume the container first, with `docker unpause`"),
    ("oci runtime exec failed", "the container needs `sh`, and the directory of `cwd` has to be in it"),
];

/// Returns the hint for an error of `docker` that started nothing; nothing for other errors.
/// Only the beginning of the output counts: the rest may be the agent's.
pub fn refusal(complaint: &str) -> Option<&'static str> {
    let first = complaint.lines().find(|line| !line.trim().is_empty())?.to_ascii_lowercase();
    REFUSALS.iter().find(|(words, _)| first.contains(words)).map(|(_, hint)| *hint)
}

/// Returns whether `docker` reports that the container does not run: then it has no processes.
pub fn is_gone(complaint: &str) -> bool {
    let complaint = complaint.to_ascii_lowercase();
    complaint.contains("no such container") || complaint.contains("is not running")
}

/// Returns the variables of the host that `docker` itself needs.
pub fn dockers_own() -> Vec<String> {
    BASE.iter().chain(&["DOCKER_*"]).map(|name| (*name).to_owned()).collect()
}

/// The session's directory in the container.
fn directory(provider: &str, container: &Container<'_>) -> Result<String, Refusal> {
    let refuse = |reason: String| Err(Refusal::invalid(provider, RequestField::Docker, reason));
    // `docker exec` would read the name as one of its options.
    if container.name.is_empty() || container.name.starts_with('-') {
        return refuse(format!("`{}` is not a container", container.name));
    }
    // The session's id becomes a path that `rm -rf` removes in the end.
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if container.session.is_empty() || !container.session.chars().all(safe) {
        return refuse(format!("`{}` cannot be the name of a directory", container.session));
    }
    Ok(format!("/tmp/bowline-{}", container.session))
}

#[cfg(test)]
mod tests;
