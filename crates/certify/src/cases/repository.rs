//! Whether a program with permission to read only runs code of the repository that it reads, or takes settings from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bowline::{SessionTask, Task};
use bowline_process::seclusion::NetworkAccess;
use bowline_protocol::PermissionMode;
use bowline_providers::manifest::repository::Repository;
use bowline_simulator::{Simulator, SimulatorOptions};
use serde_json::Value;

use crate::case_failure::{CaseFailure, CaseVerdict, hold};
use crate::place::{CaseContext, CasePlace, StopCondition};

/// The files of a repository with code to run, in every form that one of the programs knows.
const HOSTILE: &str = include_str!("fixtures/hostile_repository.json");

const PROMPT: &str = "[[text]] Say something about knots.";

/// The variables of a proxy.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// How long a program may do things beside its first turn.
const BESIDE_THE_TURN: std::time::Duration = std::time::Duration::from_secs(2);

/// Creates a repository with code to run and settings to take, in every form that one of the programs knows. Checks in both
/// modes that promise it, one-way and in a live session, that no code ran and that the requests went to the user's address.
pub(super) async fn code(context: CaseContext) -> CaseVerdict {
    let manifest = context.subject.manifest;
    let forms = [Some(SessionForm::OneWay), manifest.live_format().map(|_| SessionForm::Live)];
    let in_both = async |name: &str, mode: PermissionMode, address: AddressSource, check: OwnCheck| {
        let trials = forms.map(async |form| match form {
            Some(form) => {
                let name = format!("{name}-{}", form.name());
                RepositoryTrial { context: &context, name: &name, mode, form, address, check }.run().await
            }
            None => Ok(()),
        });
        let [one, live] = trials;
        let (one, live) = tokio::join!(one, live);
        one.and(live)
    };
    let modes = [("read", PermissionMode::Read, OwnCheck::On), ("ask", PermissionMode::Ask, OwnCheck::Off)];
    for (name, mode, check) in modes {
        if manifest.permission.get(&mode).is_some_and(|how| how.refused.is_none()) {
            in_both(name, mode, AddressSource::User, check).await?;
        }
    }
    // Without its variable the program looks for an address, and calls its vendor. Never do that with a network.
    match context.network {
        NetworkAccess::Loopback => {
            in_both("address", PermissionMode::Ask, AddressSource::Repository, OwnCheck::Off).await
        }
        NetworkAccess::Open => Ok(()),
    }
}

/// How Bowline talks to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionForm {
    /// A process with one prompt.
    OneWay,
    /// A live session.
    Live,
}

impl SessionForm {
    fn name(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::Live => "live",
        }
    }
}

/// The sources of the address of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressSource {
    /// A variable of the user. A program does not replace it by one of the repository, so it hides that the program reads those.
    User,
    /// Only files of the repository, from which the program must not take it.
    Repository,
}

/// Whether the user has left on the program's own check of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnCheck {
    On,
    Off,
}

/// The run of a program in a hostile repository.
#[derive(Debug)]
struct RepositoryTrial<'a> {
    context: &'a CaseContext,
    name: &'a str,
    mode: PermissionMode,
    form: SessionForm,
    address: AddressSource,
    check: OwnCheck,
}

impl RepositoryTrial<'_> {
    async fn run(&self) -> CaseVerdict {
        let mut place = self.context.place(self.name).await?;
        if self.address == AddressSource::Repository && !place.forget_address() {
            // It has the address from a file of the user, so that the other trials show whether the repository replaces it.
            return Ok(());
        }
        // Outside the repository, so that writing it does not change a file of the project.
        let log = place.home.join("executed-by-the-repository.txt");
        let lure = Arc::new(Simulator::start(SimulatorOptions::default()).await?);
        let mut hostile = HostileRepository::read(&log, &lure.base_url(None));
        let how = self.manner();
        if self.address == AddressSource::User && !how.refused_for.is_empty() {
            // Without the files for which the run is refused, so that it shows what the others do.
            let refused =
                how.refused_files(&hostile.paths()).into_iter().map(str::to_owned).collect::<Vec<_>>();
            hostile.repository.retain(|path, _| !refused.contains(path));
        }
        hostile.write(&place, self.check)?;
        // Judged last: code that ran, or a request that went astray, explains a turn that failed.
        let outcome = match how.refused_files(&hostile.paths()).is_empty() {
            true => self.watch(&place, &lure).await,
            false => self.be_refused(&place).await,
        };
        let executed = std::fs::read_to_string(&log).unwrap_or_default();
        let executed: Vec<&str> = executed.lines().collect();
        let name = self.name;
        hold(executed.is_empty(), || {
            format!("in `{name}` the repository's code ran: {}", executed.join(", "))
        })?;
        let requests = lure.ledger();
        hold(requests.is_empty(), || {
            let paths: Vec<&str> = requests.iter().map(|it| it.path.as_str()).collect();
            format!("in `{name}` the program sent requests to the repository's address: {}", paths.join(", "))
        })?;
        outcome
    }

    /// Returns what keeps the program from the repository's code in this form.
    fn manner(&self) -> Repository {
        let manifest = self.context.subject.manifest;
        let live = manifest.live_format().filter(|_| self.form == SessionForm::Live);
        manifest.in_format(live.unwrap_or_else(|| manifest.usual_format())).repository.clone()
    }

    /// Starts what the manifest declares as refused.
    async fn be_refused(&self, place: &CasePlace) -> CaseVerdict {
        let started = match self.form {
            SessionForm::OneWay => self.task(place).start().await.map(drop),
            SessionForm::Live => self.session(place).open().await.map(drop),
        };
        match started {
            Err(bowline::Error::Refused(_)) => Ok(()),
            Err(other) => Err(other.into()),
            Ok(()) => Err(CaseFailure::new(format_args!("`{}` was not refused", self.name))),
        }
    }

    /// Runs the program. With an address it has to answer; without one, until it sends a request anywhere.
    async fn watch(&self, place: &CasePlace, lure: &Arc<Simulator>) -> CaseVerdict {
        let unasked = || "the program sent no request to the model".to_owned();
        match (self.address, self.form) {
            (AddressSource::User, SessionForm::OneWay) => {
                let seen = place.run(self.task(place)).await?;
                seen.completed()?;
                seen.hold(place.was_answered_by("text"), unasked)
            }
            (AddressSource::User, SessionForm::Live) => {
                let mut session = place.open(self.session(place)).await?;
                session.ask(PROMPT).await?;
                session.hold(place.was_answered_by("text"), unasked)?;
                // A program may take a snapshot of the user's shell beside its first turn. If it is ended before that, the
                // shell outlives it, which is not what this case is about.
                tokio::time::sleep(BESIDE_THE_TURN).await;
                session.stop(place).await
            }
            (AddressSource::Repository, SessionForm::OneWay) => {
                // A program may try an address that does not answer for more than a minute. The first request is enough.
                let until = StopCondition::Request(Arc::clone(lure));
                place.stop(proxied(place, self.task(place)), until).await.map(drop)
            }
            (AddressSource::Repository, SessionForm::Live) => {
                let session = self.session(place).with(|task| proxied(place, task));
                let session = place.open(session).await?;
                // A program may also end its turn, or itself, because it finds no address.
                session.send(PROMPT).await?;
                session.rest_or(|| place.has_request(lure)).await?;
                tokio::time::sleep(BESIDE_THE_TURN).await;
                session.stop(place).await
            }
        }
    }

    fn task(&self, place: &CasePlace) -> Task {
        place.within(PROMPT, self.mode)
    }

    fn session(&self, place: &CasePlace) -> SessionTask {
        place.session(self.mode)
    }
}

/// Gives a task a proxy, which gets the requests to the vendor. It is the simulator of the place, and connects nothing.
fn proxied(place: &CasePlace, task: Task) -> Task {
    // Programs written in Node.js read the small names too, and curl only those.
    let proxy = place.base_url();
    let task = PROXIES.iter().fold(task, |task, name| task.env(*name, &proxy));
    task.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1")
}

/// The files of the repository, each of which appends its name to a log when its code runs or names an address, and settings of a
/// user who has disabled the program's own check.
#[derive(Debug)]
struct HostileRepository {
    repository: BTreeMap<String, String>,
    home: BTreeMap<String, Value>,
}

impl HostileRepository {
    /// Reads the files and fills them in: `@LOG@` is the path of the log, `@RUN name@` a shell command that appends the name to it,
    /// `@ADDRESS@` the address of a model.
    fn read(log: &Path, address: &str) -> Self {
        #[derive(serde::Deserialize)]
        struct RepositoryFiles {
            repository: BTreeMap<String, Value>,
            home: BTreeMap<String, Value>,
        }
        let files: RepositoryFiles = serde_json::from_str(HOSTILE).expect("a test reads the file");
        let fill = |text: Value| {
            // A string is the file itself, an object is JSON.
            let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
            filled(&text, &log.display().to_string()).replace("@ADDRESS@", address)
        };
        let repository = files.repository.into_iter().map(|(path, text)| (path, fill(text))).collect();
        Self { repository, home: files.home }
    }

    fn paths(&self) -> Vec<String> {
        self.repository.keys().cloned().collect()
    }

    /// Writes the files into a place.
    fn write(&self, place: &CasePlace, check: OwnCheck) -> std::io::Result<()> {
        for (path, text) in &self.repository {
            let path = place.project.join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, text)?;
        }
        // With the check off, nothing but Bowline keeps the program from the files.
        if check == OwnCheck::On {
            return Ok(());
        }
        for (path, wanted) in &self.home {
            let path = place.home.join(path);
            let own = std::fs::read(&path).ok().and_then(|it| serde_json::from_slice::<Value>(&it).ok());
            if let Some(mut own) = own {
                merge(&mut own, wanted);
                std::fs::write(&path, own.to_string())?;
            }
        }
        Ok(())
    }
}

/// Fills in the log. Its path has nothing that JSON, TOML or a shell would read in another way.
fn filled(text: &str, log: &str) -> String {
    let mut parts = text.split("@RUN ");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('@').expect("a command ends with @");
        filled.push_str(&format!("echo {name} >>'{log}'{rest}"));
    }
    filled.replace("@LOG@", log)
}

/// Sets values of an object, and keeps its other values.
fn merge(into: &mut Value, wanted: &Value) {
    let Value::Object(wanted) = wanted else {
        *into = wanted.clone();
        return;
    };
    for (key, value) in wanted {
        merge(&mut into[key.as_str()], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_names_the_log_or_the_address() {
        let hostile = HostileRepository::read(Path::new("/tmp/log.txt"), "http://127.0.0.1:9");
        assert!(hostile.repository.len() >= 15);
        for (path, text) in &hostile.repository {
            assert!(!text.contains('@'), "{path} is filled in: {text}");
            let is_environment = path.ends_with(".env");
            let wanted = if is_environment { "=http://127.0.0.1:9" } else { "/tmp/log.txt" };
            assert!(text.contains(wanted), "{path}: {text}");
        }
        assert_eq!(filled("a @RUN b@; c @LOG@", "/x"), "a echo b >>'/x'; c /x");
    }

    #[test]
    fn settings_are_changed_beside_others() {
        let mut own = serde_json::json!({"security": {"auth": 1}});
        merge(&mut own, &serde_json::json!({"security": {"folderTrust": {"enabled": false}}}));
        assert_eq!(own, serde_json::json!({"security": {"auth": 1, "folderTrust": {"enabled": false}}}));
    }
}
