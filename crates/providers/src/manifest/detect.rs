//! Where a program is found, how it is asked about itself, and how it is installed: the sections `[detect]`, `[probe]`
//! and `[install]`.
//!
//! All of it is data; the runtime looks and asks, and `probe` understands the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::probe::Version;

/// A directory of programs that `PATH` may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it is, relative to the home directory. A `*` is any one name; where several fit, the newest version comes
    /// first.
    pub dir: &'static str,
    /// Whose it is, where it belongs to a manager of packages or versions.
    pub manager: Option<&'static str>,
    /// A variable that moves the manager's directory, and where the programs are below it.
    pub moved: Option<(&'static str, &'static str)>,
}

const fn place(dir: &'static str) -> Place {
    Place { dir, manager: None, moved: None }
}

const fn managed(manager: &'static str, dir: &'static str) -> Place {
    Place { dir, manager: Some(manager), moved: None }
}

impl Place {
    const fn or(self, variable: &'static str, below: &'static str) -> Self {
        Self { moved: Some((variable, below)), ..self }
    }
}

/// Directories of programs that installers and managers use, tried in this order.
pub const PLACES: &[Place] = &[
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
    /// The program behind a launcher, where it is better started by itself.
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

/// The program behind a launcher: npm puts a script in front of it, or a stub that only complains where npm ran no
/// install scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The npm packages that may hold it, found as Node.js finds them from the launcher's own. `{os}` and `{arch}` are as
    /// npm writes them (`linux`, `x64`).
    pub packages: Vec<String>,
    /// Where it is in its package. `{triple}` is the target as Rust writes it.
    pub file: String,
    /// Why it is better started by itself.
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

/// Returns what npm calls a system and an architecture, by their names in `std::env::consts`.
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

/// How a program is asked what it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// The arguments that make it say, by its exit code, whether it is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<String>,
    /// The pages of help that say what runs rely on, each by its arguments.
    pub pages: Vec<Vec<String>>,
    /// Variables to set when it is asked.
    pub env: BTreeMap<String, String>,
    /// What works without being listed there.
    pub unlisted: Vec<Unlisted>,
    /// What means something else in older versions.
    pub changed: Vec<Changed>,
}

/// An option, or values of it, that help does not list and that work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unlisted {
    /// The option, with its dashes.
    pub flag: String,
    /// The values, if the option itself is listed.
    #[serde(default)]
    pub values: Vec<String>,
    /// How we know.
    pub why: String,
}

/// An option that means something else before a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The option, with its dashes.
    pub flag: String,
    /// The first version in which it means what the manifest means.
    pub since: Version,
    /// What it was before.
    pub before: String,
}

/// How a program is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Install {
    /// The command.
    pub command: Option<String>,
    /// What to tell a person where no command does it.
    pub about: Option<String>,
    /// Where to read more.
    pub more: Option<String>,
}

impl Install {
    /// Says how to come by the program, in a clause.
    pub fn hint(&self) -> Option<String> {
        let more = self.more.iter().map(|more| format!("see {more}"));
        let how = self.command.iter().map(|command| format!("install it with `{command}`"));
        let parts: Vec<String> = how.chain(self.about.clone()).chain(more).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
