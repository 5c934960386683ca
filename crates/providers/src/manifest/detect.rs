//! Where a program is found, how to query it, and how to install it: the sections `[detect]`, `[probe]`
//! and `[install]`.
//!
//! All of it is data. The runtime searches and queries, and `probe` parses the output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::probe::Version;

/// A directory of programs that `PATH` may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramDir {
    /// Where it is, relative to the home directory. A `*` is any one name; where several fit, the newest version comes
    /// first.
    pub dir: &'static str,
    /// Whose it is, where it belongs to a manager of packages or versions.
    pub manager: Option<&'static str>,
    /// A variable that moves the manager's directory, and where the programs are below it.
    pub moved: Option<(&'static str, &'static str)>,
}

const fn place(dir: &'static str) -> ProgramDir {
    ProgramDir { dir, manager: None, moved: None }
}

const fn managed(manager: &'static str, dir: &'static str) -> ProgramDir {
    ProgramDir { dir, manager: Some(manager), moved: None }
}

impl ProgramDir {
    const fn or(self, variable: &'static str, below: &'static str) -> Self {
        Self { moved: Some((variable, below)), ..self }
    }
}

/// Directories of programs that installers and managers use, tried in this order.
pub const PLACES: &[ProgramDir] = &[
    place(".local/bin"),
    managed("npm", ".npm-global/bin"),
    managed("bun", ".bun/bin").or("BUN_INSTALL", "bin"),
    managed("volta", ".volta/bin").or("VOLTA_HOME", "bin"),
    managed("pnpm", ".local/share/pnpm").or("PNPM_HOME", ""),
    managed("pnpm", "Library/pnpm"),
    managed("yarn", ".yarn/bin"),
    managed("n", "n/bin").or("N_PREFIX", "bin"),
    managed("mise", ".local/share/mise/shims").or("MISE_DATA_DIR", "shims"),
    managed("asdf", ".asdf/shims").or("ASDF_DATA_DIR", "shims"),
    managed("nvm", ".nvm/versions/node/*/bin").or("NVM_DIR", "versions/node/*/bin"),
    managed("fnm", ".local/share/fnm/node-versions/*/installation/bin")
        .or("FNM_DIR", "node-versions/*/installation/bin"),
    managed("fnm", ".fnm/node-versions/*/installation/bin"),
    managed("cargo", ".cargo/bin").or("CARGO_HOME", "bin"),
];

/// Where a program is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Detect {
    /// Its other names, tried behind `program`.
    pub programs: Vec<String>,
    /// Files that its own installer makes, relative to the home directory; tried behind `PATH` and before [`PLACES`].
    pub places: Vec<String>,
    /// The arguments that print its version.
    pub version_args: Vec<String>,
    /// The program behind a launcher, where it is better to start it directly.
    pub native: Option<Native>,
}

impl Default for Detect {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            places: Vec::new(),
            version_args: vec!["--version".to_owned()],
            native: None,
        }
    }
}

/// The program behind a launcher: npm puts a script in front of it, or a stub that only prints an error where npm ran no
/// install scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The npm packages that may hold it, found as Node.js finds them from the launcher's own. `{os}` and `{arch}` are as
    /// npm writes them (`linux`, `x64`).
    pub packages: Vec<String>,
    /// Where it is in its package. `{triple}` is the target as Rust writes it.
    pub file: String,
    /// Why it is better to start it directly.
    pub why: String,
}

impl Native {
    /// Returns where the program may be below a `node_modules` directory, for a machine.
    ///
    /// `os` and `arch` are those of `std::env::consts`.
    ///
    /// ```
    /// # use bowline_providers::manifest::detect::Native;
    /// let native = Native {
    ///     packages: vec!["@knot/cli-{os}-{arch}".into()],
    ///     file: "vendor/{triple}/knot".into(),
    ///     why: "the launcher passes no signal on".into(),
    /// };
    /// assert_eq!(native.files("macos", "aarch64"), ["@knot/cli-darwin-arm64/vendor/aarch64-apple-darwin/knot"]);
    /// ```
    pub fn files(&self, os: &str, arch: &str) -> Vec<String> {
        let (npm_os, npm_arch) = npm_names(os, arch);
        let system = match os {
            "linux" => "unknown-linux-musl",
            "macos" => "apple-darwin",
            "windows" => "pc-windows-msvc",
            other => other,
        };
        let triple = format!("{arch}-{system}");
        let fill = |text: &str| {
            text.replace("{os}", npm_os).replace("{arch}", npm_arch).replace("{triple}", &triple)
        };
        self.packages.iter().map(|package| fill(&format!("{package}/{}", self.file))).collect()
    }
}

/// Returns npm's names of a system and an architecture, by their names in `std::env::consts`.
pub fn npm_names<'a>(os: &'a str, arch: &'a str) -> (&'a str, &'a str) {
    let os = match os {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    (os, arch)
}

/// How to find out what a program can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// The arguments of its health check, which reports by the exit code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<String>,
    /// The help pages that list the options that runs rely on, each by its arguments.
    pub pages: Vec<Vec<String>>,
    /// Variables to set for these commands.
    pub env: BTreeMap<String, String>,
    /// Options that work without being listed there.
    pub unlisted: Vec<Unlisted>,
    /// Options with another meaning in older versions.
    pub changed: Vec<Changed>,
}

/// An option, or values of it, that the help does not list and that work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unlisted {
    /// The option, with its dashes.
    pub flag: String,
    /// The values, if the option itself is listed.
    #[serde(default)]
    pub values: Vec<String>,
    /// The evidence.
    pub why: String,
}

/// An option with another meaning before a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The option, with its dashes.
    pub flag: String,
    /// The first version in which it has the meaning that the manifest relies on.
    pub since: Version,
    /// The older meaning.
    pub before: String,
}

/// How a program is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Install {
    /// The command.
    pub command: Option<String>,
    /// Instructions for people where no command installs it.
    pub about: Option<String>,
    /// Where to read more.
    pub more: Option<String>,
}

impl Install {
    /// Returns how to install the program, in a clause.
    pub fn hint(&self) -> Option<String> {
        let more = self.more.iter().map(|more| format!("see {more}"));
        let how = self.command.iter().map(|command| format!("install it with `{command}`"));
        let parts: Vec<String> = how.chain(self.about.clone()).chain(more).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
