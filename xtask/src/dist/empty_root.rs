//! Runs the static program in a root directory that has nothing but the program and an empty `/tmp`.
//!
//! `--version` needs nothing else. A run needs `/proc`: the practice agent is the program itself, which finds its own path
//! there, and the sweep after a run looks there for processes. A run that has `/dev/null` too, as every container has, also
//! has a keeper. Namespaces make this possible without root where the kernel allows them to users.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::sh::{self, Call};

/// The result of a check that did not fail.
#[derive(Debug)]
pub(super) enum Checked {
    /// The program works in an empty root.
    Works,
    /// This machine has no namespaces for it; the reason.
    NoNamespaces(String),
}

/// Mounts what a run needs, removes all variables, and runs the program in the new root.
const ENTER: &str = r#"
set -e
root=$1; shift
for path in "$@"; do
  shift
  case $path in
    --) break;;
    /proc) mkdir -p "$root/proc"; mount -t proc proc "$root/proc";;
    *) mkdir -p "$root${path%/*}"; : >"$root$path"; mount --bind "$path" "$root$path";;
  esac
done
unshare=$(command -v unshare)
exec env -i "$unshare" --root="$root" --wd=/ /bowline "$@"
"#;

/// A run of the practice agent, which keeps nothing.
const RUN: &[&str] = &["run", "--provider=practice", "--ephemeral", "practice: say Hello"];

/// Checks the version and runs of the practice agent.
pub(super) fn check(program: &Path) -> Result<Checked> {
    let Some(namespaces) = namespaces() else {
        return Ok(Checked::NoNamespaces(
            "`unshare` cannot mount /proc here, with root or without".to_owned(),
        ));
    };
    let version = inside(&namespaces, program, &[], &["--version"])?;
    if !version.starts_with("bowline ") {
        bail!("`bowline --version` printed {version:?} in an empty root");
    }
    for mounts in [&["/proc"][..], &["/proc", "/dev/null"]] {
        let answer = inside(&namespaces, program, mounts, RUN)?;
        // Both streams are compared: a run without a keeper must not report a bug either.
        if answer != "Hello\n" {
            bail!("a run of the practice agent printed {answer:?} in a root with {mounts:?}");
        }
    }
    Ok(Checked::Works)
}

/// Returns the call that creates the namespaces: as root, or as a user that is root in a namespace of its own.
fn namespaces() -> Option<Call> {
    let unshare = Call::new("unshare").words("--mount --pid --fork");
    let calls = [unshare.clone(), unshare.arg("--map-root-user")];
    // The mount fails in containers that hide parts of /proc.
    calls.into_iter().find(|call| call.clone().words("--mount-proc true").works())
}

/// Runs the program in a fresh root, and returns the output of both streams.
fn inside(namespaces: &Call, program: &Path, mounts: &[&str], args: &[&str]) -> Result<String> {
    let root = sh::root().join("target/empty-root");
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    std::fs::create_dir_all(root.join("tmp"))?;
    std::fs::copy(program, root.join("bowline"))?;
    let enter = namespaces.clone().words("sh -c").arg(ENTER).arg("enter").arg(&root);
    let words = mounts.iter().chain(&["--"]).chain(args);
    let call = words.fold(enter, |call, word| call.arg(*word));
    let output =
        call.quiet_output().with_context(|| format!("`bowline {}` in an empty root", args.join(" ")));
    // The mounts are gone with their namespace.
    std::fs::remove_dir_all(&root)?;
    output
}
