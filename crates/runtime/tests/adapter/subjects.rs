//! The providers of the contract: everything that the name of a provider can mean, each with a program of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline::adapter::{NamedAdapter, ProviderAdapter};
use bowline::roster::{self, Executable, Roster};
use bowline::settings::RunSettings;
use bowline::testing::World;
use bowline::{PermissionMode, Request, Task};
use bowline_providers::invocation::external::ExternalCli;

/// The meanings that the name of a provider can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubjectKind {
    /// A built-in manifest: the practice agent in one of its formats.
    BuiltIn(&'static str),
    /// `acp:COMMAND`.
    Acp,
    /// A manifest of the user.
    UserManifest,
    /// An external CLI, by the specification for pi.
    External,
    /// An executable provider.
    Executable,
}

/// All of them.
pub(crate) const KINDS: &[SubjectKind] = &[
    SubjectKind::BuiltIn("stream-json"),
    SubjectKind::BuiltIn("json"),
    SubjectKind::BuiltIn("text"),
    SubjectKind::BuiltIn("codex"),
    SubjectKind::BuiltIn("gemini"),
    SubjectKind::BuiltIn("pi"),
    SubjectKind::BuiltIn("acp"),
    SubjectKind::Acp,
    SubjectKind::UserManifest,
    SubjectKind::External,
    SubjectKind::Executable,
];

impl SubjectKind {
    pub(crate) fn name(self) -> String {
        match self {
            Self::BuiltIn(format) => format!("practice-{format}"),
            Self::Acp => "acp-command".to_owned(),
            Self::UserManifest => "user-manifest".to_owned(),
            Self::External => "external-cli".to_owned(),
            Self::Executable => "executable".to_owned(),
        }
    }
}

/// An executable provider that knows a few of the practice agent's directives.
const EXECUTABLE: &str = r#"#!/bin/sh
for last; do :; done
case "$last" in --version) echo "lines 1.2.3"; exit ;; esac
request=$(cat)
case "$request" in
*"practice: fail"*) echo "529 overloaded" >&2; exit 9 ;;
*"practice: hang"*)
  sleep 1000 &
  echo '{"content":"Working","delta":"Working","done":false}'
  wait ;;
*"practice: sleep"*) sleep 1 ;;
esac
word=$(printf '%s' "$request" | sed 's/.*practice: say \([A-Za-z]*\).*/\1/')
printf '{"content":"%s","delta":"%s","done":true,"tokens_used":3,"finish_reason":"stop"}\n' "$word" "$word"
"#;

/// A provider under test, in a place of its own.
pub(crate) struct Subject {
    pub(crate) kind: SubjectKind,
    world: World,
    /// The program that its adapter has to find.
    pub(crate) program: PathBuf,
}

impl Subject {
    pub(crate) fn new(kind: SubjectKind) -> Self {
        let world = bowline::testing::world();
        std::fs::create_dir(world.path().join("work")).unwrap();
        let own = std::env::current_exe().unwrap();
        let script = |text: String| {
            let program = world.path().join("program");
            bowline_testkit::write_program(&program, text);
            program
        };
        let program = match kind {
            SubjectKind::Executable => script(EXECUTABLE.to_owned()),
            // The description puts the session in front of all arguments.
            SubjectKind::External => {
                script(format!("#!/bin/sh\nexec '{}' practice-agent \"$@\"\n", own.display()))
            }
            SubjectKind::BuiltIn(_) | SubjectKind::Acp | SubjectKind::UserManifest => own,
        };
        Self { kind, world, program }
    }

    /// Returns the directory in which its sessions work.
    pub(crate) fn work(&self) -> PathBuf {
        self.world.path().join("work")
    }

    /// Returns the version that its program prints; nothing if nothing asks for it.
    pub(crate) fn version(&self) -> Option<&'static str> {
        match self.kind {
            SubjectKind::External => None,
            SubjectKind::Executable => Some("1.2.3"),
            SubjectKind::BuiltIn(_) | SubjectKind::Acp | SubjectKind::UserManifest => {
                Some(env!("CARGO_PKG_VERSION"))
            }
        }
    }

    /// Returns its adapter.
    pub(crate) fn adapter(&self) -> Box<dyn ProviderAdapter> {
        Box::new(self.adapter_of(&self.program).unwrap())
    }

    /// Returns the same adapter for a program that does not exist.
    pub(crate) fn without_program(&self) -> Box<dyn ProviderAdapter> {
        Box::new(self.adapter_of(&self.world.path().join("no-such-program")).unwrap())
    }

    fn adapter_of(&self, program: &Path) -> Result<NamedAdapter, bowline::Error> {
        let task = self.world.task("").cwd(self.work()).without_files();
        let task = task.env("PRACTICE_HOME", self.world.path().join("practice").display().to_string());
        NamedAdapter::of(self.named(task, program))
    }

    /// Names the provider, with the settings that define it.
    fn named(&self, task: Task, program: &Path) -> Task {
        match self.kind {
            SubjectKind::BuiltIn(format) => task.provider("practice").binary(program).format(format),
            SubjectKind::Acp => {
                task.provider(format!("acp:{} practice-agent --format acp", program.display()))
            }
            SubjectKind::UserManifest => {
                let dir = self.world.path().join("providers");
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(dir.join("mine.toml"), user_manifest(program)).unwrap();
                task.provider("mine").roster(Roster::at(dir))
            }
            SubjectKind::External => {
                let mut settings = RunSettings::default();
                settings.external.programs.insert("described".to_owned(), external(program));
                task.provider("described").settings(Arc::new(settings))
            }
            SubjectKind::Executable => {
                let described = Executable::at("lines", program.display().to_string());
                task.of_provider(roster::executable(&described, self.world.path()).unwrap())
            }
        }
    }
}

/// A manifest for the practice agent as a program of its own.
fn user_manifest(program: &Path) -> String {
    let program = program.display();
    format!(
        r#"
        name = "mine"
        program = "{program}"
        prompt = "stdin"
        formats.lines = {{ dialect = "claude", shape = "lines", args = ["practice-agent"] }}
        auth = {{ none = true }}
        permission.read = {{ args = ["--permission", "read"] }}
        permission.ask = {{ args = ["--permission", "ask"] }}
        permission.edit = {{ args = ["--permission", "edit"] }}
        capabilities = {{ supports_non_interactive = true, resume = "by_id", streams_text = true, reports_tools = true, permission_modes = ["read", "ask", "edit"] }}
        run.env_keep = ["PRACTICE_*"]
        run.flags.resume = {{ args = ["--resume", "{{value}}"] }}
        "#
    )
}

/// The practice agent as the configuration for pi describes a program.
fn external(program: &Path) -> ExternalCli {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let modes = [(PermissionMode::Ask, "ask"), (PermissionMode::Edit, "edit")];
    ExternalCli {
        executable: Some(program.display().to_string()),
        args: Some(words(&["--format", "pi"])),
        resume_flag: Some("--resume".to_owned()),
        prompt_flag: Some(String::new()),
        permission_args: BTreeMap::from(modes.map(|(mode, word)| (mode, words(&["--permission", word])))),
        ..ExternalCli::default()
    }
}

/// A request with these directives of the practice agent.
pub(crate) fn request(directives: &[&str]) -> Request {
    Request { prompt: prompt(directives), ..Request::default() }
}

/// A prompt with these directives.
pub(crate) fn prompt(directives: &[&str]) -> String {
    directives.iter().map(|directive| format!("practice: {directive}\n")).collect()
}
