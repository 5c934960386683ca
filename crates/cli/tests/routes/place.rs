//! A machine of its own for each case: a home, a project, programs on the PATH, and fake model APIs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bowline_certify::seclusion::NetworkAccess;
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;
use bowline_providers::simulate;
use bowline_simulator::{LedgerEntry, REFUSED, Simulator, SimulatorOptions};
use serde::Deserialize;

use crate::seen::Seen;

/// How long a run may take on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// How long the last process may take to go.
const SOON: Duration = Duration::from_secs(10);

/// A key that opens nothing.
const KEY: &str = "sk-bowline-made-up-0000000000000000";

/// What is tried, as `cargo xtask certify` wrote it down.
#[derive(Debug)]
pub(crate) struct Programs {
    /// All programs, one of each provider.
    pub(crate) all: Vec<Program>,
    /// Those that the router chooses from, in its order.
    pub(crate) agents: Vec<Agent>,
    /// The one that is stopped as soon as it is started.
    pub(crate) hangs: String,
    /// Those that are named by their command.
    pub(crate) commands: Vec<Spoken>,
    node: Option<PathBuf>,
    network: NetworkAccess,
}

/// A real program.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Program {
    pub(crate) provider: String,
    path: PathBuf,
}

/// A program that the router chooses, of `conformance/routes.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    pub(crate) provider: String,
    pub(crate) price: Price,
    pub(crate) basis: Vec<String>,
}

/// A program that speaks the Agent Client Protocol, of `conformance/routes.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spoken {
    pub(crate) provider: String,
    pub(crate) args: String,
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Price {
    pub(crate) input: f64,
    pub(crate) output: f64,
}

#[derive(Deserialize)]
struct Written {
    node: Option<PathBuf>,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Routes {
    hangs: String,
    agent: Vec<Agent>,
    command: Vec<Spoken>,
}

impl Programs {
    pub(crate) fn read(file: &OsStr, network: NetworkAccess) -> Self {
        let text = std::fs::read_to_string(file).expect("xtask wrote the file");
        let Written { node, programs } = serde_json::from_str(&text).expect("xtask wrote it as JSON");
        let routes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/routes.toml");
        let routes: Routes = toml::from_str(&std::fs::read_to_string(routes).unwrap()).expect("it is valid");
        assert!(routes.agent.len() >= 2, "a router needs a choice");
        let Routes { hangs, agent: agents, command: commands } = routes;
        Self { all: programs, agents, hangs, commands, node, network }
    }
}

impl Program {
    pub(crate) fn manifest(&self) -> &'static Manifest {
        manifest(&self.provider)
    }
}

pub(crate) fn manifest(provider: &str) -> &'static Manifest {
    catalogue::by_name(provider).expect("what is pinned is in the catalogue")
}

/// Returns where a case is tried. Not below /tmp, where one of the programs does not work as it does at home.
pub(crate) fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("routes").join(case)
}

/// A machine.
pub(crate) struct Place {
    dir: PathBuf,
    api: Simulator,
    /// Where the API lives.
    _runtime: tokio::runtime::Runtime,
    env: BTreeMap<String, String>,
}

impl Place {
    /// Makes a machine on which these providers' programs are installed and configured. Each talks to the API on a route of
    /// its own, whose scenario answers a prompt without a marker. The router chooses in this order.
    pub(crate) fn new(programs: &Programs, case: &str, installed: &[(&str, &str)]) -> Self {
        let dir = folder(case);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).expect("what an earlier run left goes");
        }
        for name in ["home", "bin", "tmp", "project/.git"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let api = runtime.block_on(Simulator::start(SimulatorOptions::default())).expect("loopback is there");
        let mut env = BTreeMap::new();
        let mut router = "providers:\n".to_owned();
        for (number, (provider, scenario)) in installed.iter().enumerate() {
            let program = programs.all.iter().find(|it| it.provider == *provider).expect("it is installed");
            let manifest = program.manifest();
            std::os::unix::fs::symlink(&program.path, dir.join("bin").join(&manifest.program)).unwrap();
            let base = api.base_url(Some(&format!("{scenario}~{provider}")));
            let home = dir.join("home");
            let plan =
                simulate::plan(manifest, &base, &home.to_string_lossy(), KEY).expect("it is certified");
            for file in &plan.files {
                let path = home.join(&file.path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, &file.text).unwrap();
            }
            env.extend(plan.env);
            router.push_str(&format!("  - name: {provider}\n    priority: {}\n", 90 - number));
        }
        let settings = dir.join("home/.config/bowline");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::write(settings.join("router.yaml"), router).unwrap();
        for (name, value) in [("HOME", dir.join("home")), ("TMPDIR", dir.join("tmp"))] {
            env.insert(name.to_owned(), value.display().to_string());
        }
        let node = programs.node.iter().map(PathBuf::as_path);
        let path = std::iter::once(&*dir.join("bin")).chain(node).map(Path::to_owned).collect::<Vec<_>>();
        let path = path.into_iter().chain(["/usr/bin", "/bin"].map(PathBuf::from));
        env.insert("PATH".to_owned(), std::env::join_paths(path).unwrap().into_string().unwrap());
        if programs.network == NetworkAccess::Open {
            // Where they could get out, they have at least no receiver.
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
                env.insert(name.to_owned(), REFUSED.to_owned());
            }
            env.insert("NO_PROXY".to_owned(), "127.0.0.1,localhost".to_owned());
        }
        Self { dir, api, _runtime: runtime, env }
    }

    /// Puts something before a provider's program that stops it as soon as it is started, so that it never says anything.
    pub(crate) fn stop_at_once(&self, program: &Program) {
        let link = self.dir.join("bin").join(&program.manifest().program);
        let script = format!("#!/bin/sh\n'{}' \"$@\" &\nkill -STOP $!\nwait\n", program.path.display());
        bowline_testkit::write_program(&link, script);
    }

    /// Panics unless all processes that were started on this machine are gone soon. The keeper outlives the command by a moment.
    #[expect(clippy::disallowed_methods, reason = "a test waits for processes, and not for ever")]
    pub(crate) fn is_deserted(&self) {
        let began = Instant::now();
        while !self.alive().is_empty() {
            assert!(began.elapsed() < SOON, "still there: {:?}", self.alive());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn alive(&self) -> Vec<String> {
        let mark = self.dir.join("tmp").display().to_string();
        let all = std::fs::read_dir("/proc").expect("it is Linux").flatten();
        let ours = all.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        });
        let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline"));
        ours.map(|entry| command(entry).unwrap_or_default().replace('\0', " ")).collect()
    }

    /// Takes everything off the PATH but the programs of this machine and the tools that are named.
    pub(crate) fn bare_path(&mut self, tools: &[&str]) {
        let path = self.env.remove("PATH").unwrap_or_default();
        for tool in tools {
            let found = std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|file| file.is_file());
            let found = found.unwrap_or_else(|| panic!("{tool} is not installed"));
            std::os::unix::fs::symlink(found, self.dir.join("bin").join(tool)).unwrap();
        }
        self.env.insert("PATH".to_owned(), self.dir.join("bin").display().to_string());
    }

    /// Returns the directory in which the command works.
    pub(crate) fn project(&self) -> PathBuf {
        self.dir.join("project")
    }

    /// Asks the provider that the router chooses.
    pub(crate) fn ask(&self, prompt: &str, more: &[&str]) -> Seen {
        let args = ["run", "--provider", "auto", "--output", "jsonl", "--timeout", "50s", prompt];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        self.bowline(&args)
    }

    /// Runs the command to its end. What it prints goes into files, which stay where a case is red.
    #[expect(clippy::disallowed_methods, reason = "the command under test is started here, and waited for")]
    pub(crate) fn bowline(&self, args: &[&str]) -> Seen {
        let file = |name: &str| std::fs::File::create(self.dir.join(name)).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(args).env_clear().envs(&self.env).current_dir(self.project());
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let mut child = command.spawn().expect("the command starts");
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status;
            }
            if began.elapsed() > LONG {
                // Its keeper ends what it started.
                child.kill().expect("it is ours");
                panic!("`bowline {}` was not over after {LONG:?}: {}", args.join(" "), self.dir.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |name: &str| std::fs::read_to_string(self.dir.join(name)).expect("it is text");
        Seen::new(status.code(), read("stdout"), read("stderr"), &self.dir)
    }

    /// Returns the requests to the models in the order in which they came, as the provider that sent them and the status
    /// that it got.
    pub(crate) fn asked(&self) -> Vec<(String, Option<u16>)> {
        let of = |entry: LedgerEntry| (provider(&entry).to_owned(), entry.status);
        self.requests().into_iter().map(of).collect()
    }

    /// Returns the requests to the models.
    pub(crate) fn requests(&self) -> Vec<LedgerEntry> {
        let is_main = |entry: &LedgerEntry| entry.choice.as_ref().is_some_and(|choice| choice.side.is_none());
        self.api.ledger().into_iter().filter(is_main).collect()
    }

    /// Returns the lines that were written about what was spent.
    pub(crate) fn spent(&self) -> Vec<serde_json::Value> {
        let folder = self.dir.join("home/.local/share/bowline/spending");
        let files: BTreeSet<PathBuf> = std::fs::read_dir(folder)
            .expect("something was spent")
            .map(|entry| entry.unwrap().path())
            .collect();
        let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
        texts
            .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
            .collect()
    }
}

/// Returns who sent a request.
fn provider(entry: &LedgerEntry) -> &str {
    let route = entry.route.as_deref().unwrap_or_default();
    route.split_once('~').map_or(route, |(_, provider)| provider)
}
