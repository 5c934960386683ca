//! How a request becomes a command.

use std::path::PathBuf;

use bowline_protocol::kinds::CapabilityDegraded;
use bowline_protocol::{PermissionMode, Request, Resume};
use bowline_providers::conversation::ToolGating;
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::invocation::{
    self, Invocation, PromptTime, Refusal, RepositoryCode, Streaming, Unrestricted, User, Wish,
};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, RunFlag};

use super::spec::texts;
use crate::agents::installed::KnownProgram;
use crate::agents::models;
use crate::agents::profile::Profile;
use crate::run::error::Error;
use crate::run::host_tools;
use crate::run::task::{AttemptContext, Task};
use crate::run::trust;

/// By a provider's manifest, or by a description in the form of the specification for pi.
pub(crate) enum Driver {
    Manifest(&'static Manifest),
    External(Box<(String, ExternalCli)>),
}

impl Driver {
    pub(super) fn of(task: &Task, context: &AttemptContext) -> Result<Self, Error> {
        match &context.external {
            Some(external) => Ok(Self::External(Box::new(external.clone()))),
            None => named_manifest(task).map(Self::Manifest),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Manifest(manifest) => &manifest.name,
            Self::External(external) => &external.0,
        }
    }

    pub(super) fn manifest(&self) -> Option<&'static Manifest> {
        match self {
            Self::Manifest(manifest) => Some(manifest),
            Self::External(_) => None,
        }
    }

    /// Returns whether its description has the program's directory.
    fn has_place(&self) -> bool {
        match self {
            Self::Manifest(_) => false,
            Self::External(external) => external.1.workdir.is_some(),
        }
    }

    /// Builds the command of a task, in the best form that the program has.
    pub(super) fn invoke(
        &self,
        task: &Task,
        request: &Request,
        known: &KnownProgram,
        streaming: Streaming,
    ) -> Result<Invocation, Refusal> {
        let mut wish = wish(task, self, streaming);
        wish.usual = known.format();
        wish.lacking = known.lacking();
        wish.unkept = known.unkept();
        let mut invocation = self.build(request, &wish)?;
        if let (Some(profile), Some(manifest)) = (&task.profile, self.manifest()) {
            profile.alone(manifest, request, &mut invocation, task.variables());
        }
        if task.host_server().is_some() {
            host_tools::past_proxies(&mut invocation, &texts(task));
        }
        Ok(invocation)
    }

    /// Puts a request as a command. A limit of money that the program does not know is kept by our own guard.
    pub(crate) fn build(&self, request: &Request, wish: &Wish) -> Result<Invocation, Refusal> {
        let knows =
            |manifest: &Manifest| manifest.run.flags.get(&RunFlag::MaxCost).is_some_and(Flag::is_done);
        let mut request = request.clone();
        // The builder of the command refuses an amount that is not a positive number.
        if request.max_cost_usd.is_some_and(|usd| usd.is_finite() && usd > 0.0)
            && !self.manifest().is_some_and(knows)
        {
            request.max_cost_usd = None;
        }
        if let Some(refusal) = host_tools::refused(self.name(), &request, wish) {
            return Err(refusal);
        }
        let built = match self {
            Self::Manifest(manifest) => invocation::build(manifest, &request, wish),
            Self::External(external) => external.1.build(&external.0, &request, wish),
        };
        built.map_err(|refusal| host_tools::renamed(refusal, self.manifest(), &request, wish))
    }
}

/// Returns the manifest of the provider that a task names.
pub(crate) fn named_manifest(task: &Task) -> Result<&'static Manifest, Error> {
    if let Some(manifest) = task.manifest {
        return Ok(manifest);
    }
    let of_profile = task.profile.as_ref().map(|profile| profile.provider.as_str());
    let name = task.request.provider.as_deref().or(of_profile).ok_or(Error::NoProvider)?;
    Ok(task.settings.roster.find(name)?)
}

/// Fills in what a request leaves to us: the model that is meant, the current directory, and where a profile has its
/// settings. What is known not to work is refused here.
pub(crate) fn completed(
    task: &Task,
    driver: &Driver,
    model: Option<String>,
    profile: Option<&Profile>,
) -> Result<Request, Error> {
    if let Some(path) = &task.not_text {
        return Err(Error::NotText { path: path.clone() });
    }
    let timeout_ms = task.request.timeout_ms.or(task.defaults.timeout);
    let mut request = Request { model, timeout_ms, ..task.request.clone() };
    if request.cwd.is_none() && !driver.has_place() {
        request.cwd = match std::env::current_dir().map(PathBuf::into_os_string) {
            Ok(dir) => match dir.into_string() {
                Ok(dir) => Some(dir),
                // In a container it is not looked at.
                Err(_) if request.docker.is_some() => None,
                Err(dir) => return Err(Error::NotText { path: dir.into() }),
            },
            // The spawner says what is the matter with it.
            Err(_) => None,
        };
    }
    if let Some(manifest) = driver.manifest() {
        let mut surroundings = (**task.variables()).clone();
        if let Some(profile) = profile {
            profile.enter(manifest, &mut request)?;
            surroundings = profile.within(manifest, &surroundings)?;
        }
        // What is in a container was never asked for its models.
        if request.docker.is_none() {
            models::admit(manifest, &request, &surroundings)?;
        }
    }
    Ok(request)
}

/// Returns what the caller wants of a run of a provider that is not part of the request.
pub(crate) fn wish(task: &Task, driver: &Driver, streaming: Streaming) -> Wish {
    let provider = driver.name();
    let binary = task.binary.as_ref().map(|path| path.to_string_lossy().into_owned());
    let user = if rustix::process::geteuid().is_root() { User::Root } else { User::Ordinary };
    let mut agent_args =
        task.settings.providers.get(provider).map(|set| set.args.clone()).unwrap_or_default();
    agent_args.extend(task.agent_args.iter().cloned());
    Wish {
        binary,
        streaming,
        user,
        format: chosen_format(task, driver, streaming),
        idle_at_most: task.defaults.idle_at_most,
        agent_args,
        unrestricted: unrestricted(task),
        prompt: if task.first_prompt().is_some() { PromptTime::Now } else { PromptTime::Later },
        host_server: task.host_server(),
        gated: if task.has_policies() { ToolGating::On } else { ToolGating::Off },
        repository: driver.manifest().map(|manifest| repository_code(task, manifest)).unwrap_or_default(),
        ..Wish::default()
    }
}

/// Returns the format that the caller or the settings chose, else that of a session whose agent lives on or asks. A setting is for
/// a run that is watched.
pub(super) fn chosen_format(task: &Task, driver: &Driver, streaming: Streaming) -> Option<String> {
    let live = || two_way_format(task, driver).filter(|_| !resumes_per_prompt(task, driver));
    own_choice(task, driver, streaming).or_else(|| live().map(str::to_owned))
}

/// Returns the format that the caller or the settings chose.
fn own_choice(task: &Task, driver: &Driver, streaming: Streaming) -> Option<String> {
    let settings = task.settings.providers.get(driver.name());
    let setting = || settings?.format.clone().filter(|_| streaming == Streaming::On);
    task.format.clone().or_else(setting)
}

/// Returns the format of a session whose agent lives on or asks.
fn two_way_format(task: &Task, driver: &Driver) -> Option<&'static str> {
    let manifest = driver.manifest()?;
    match task.live {
        // Refused if it cannot be kept from the repository's code: it was started for many prompts and for approvals.
        Some(_) => manifest.live_format(),
        None => {
            asking_format(task, manifest).filter(|it| refused_for_repository(task, manifest, it).is_none())
        }
    }
}

/// Returns the format in which the agent of a run can ask, if the run wants that.
fn asking_format(task: &Task, manifest: &'static Manifest) -> Option<&'static str> {
    let settings = task.settings.providers.get(&manifest.name);
    // Native arguments are options of the command that people type. The command with a protocol may be another one, which
    // knows neither all of them nor in the same meaning.
    let native = !task.agent_args.is_empty() || settings.is_some_and(|it| !it.args.is_empty());
    manifest.asking_format().filter(|_| (task.wants_answers() || task.has_policies()) && !native)
}

/// Returns whether a task resumes a session by its id, and only a process for each prompt can do that.
fn resumes_per_prompt(task: &Task, driver: &Driver) -> bool {
    matches!(task.request.resume, Some(Resume::Id { .. }))
        && driver.manifest().is_some_and(Manifest::resumes_per_prompt)
}

/// Describes what a run loses because it cannot use the format of a session whose agent lives on or asks.
pub(super) fn lost(task: &Task, driver: &Driver) -> Option<CapabilityDegraded> {
    if own_choice(task, driver, task.streaming).is_some() {
        return None;
    }
    lost_by_resuming(task, driver).or_else(|| lost_to_repository(task, driver.manifest()?))
}

/// Describes what a session loses because only a process for each prompt can resume it.
fn lost_by_resuming(task: &Task, driver: &Driver) -> Option<CapabilityDegraded> {
    let format = two_way_format(task, driver).filter(|_| resumes_per_prompt(task, driver))?;
    let own = driver.manifest()?.formats.get(format)?.own.as_deref()?;
    let reason = own.flags.get(&RunFlag::Resume)?.refused.clone()?;
    Some(CapabilityDegraded { capability: own.gives.clone(), instead: own.instead.clone(), reason })
}

/// Describes what a run loses because its agent would run the repository's code in the format in which it can ask.
fn lost_to_repository(task: &Task, manifest: &'static Manifest) -> Option<CapabilityDegraded> {
    let format = asking_format(task, manifest).filter(|_| task.live.is_none())?;
    let reason = refused_for_repository(task, manifest, format)?;
    let own = manifest.formats.get(format)?.own.as_deref()?;
    let reason = format!("{reason}; this project is not trusted");
    Some(CapabilityDegraded { capability: own.gives.clone(), instead: own.instead.clone(), reason })
}

/// Returns the rule for a program that nothing restricts: the caller's, else that of the settings. A mode that the caller
/// chose is not widened unless one of them allows it.
fn unrestricted(task: &Task) -> Unrestricted {
    let usual = if task.mode_chosen { Unrestricted::Refuse } else { Unrestricted::Warn };
    task.unrestricted.or(task.settings.unrestricted).unwrap_or(usual)
}

/// Returns whether a task needs a program that can be kept from the code of its repository.
pub(super) fn must_be_kept(task: &Task, manifest: &Manifest) -> bool {
    manifest.repository.depends_on_program() && !kept_files(task, manifest).is_empty()
}

/// Returns why a format of a program cannot be used in the repository of a task.
fn refused_for_repository(task: &Task, manifest: &Manifest, format: &str) -> Option<String> {
    // First of all the manifest: the files are looked for only if something depends on them.
    let manifest = manifest.in_format(format);
    let reason = manifest.repository.refused.as_ref()?;
    let files = kept_files(task, &manifest);
    (!manifest.repository.refused_files(&files).is_empty()).then(|| reason.clone())
}

/// Returns the files of a repository from which the program of a task must be kept.
fn kept_files(task: &Task, manifest: &Manifest) -> Vec<String> {
    match task.request.permission {
        PermissionMode::Read | PermissionMode::Ask => match repository_code(task, manifest) {
            RepositoryCode::Kept(files) => files,
            RepositoryCode::Allowed => Vec::new(),
        },
        PermissionMode::Edit | PermissionMode::Yolo => Vec::new(),
    }
}

/// Returns whether a program may run code of the repository in which a task works: only of a project that is trusted.
fn repository_code(task: &Task, manifest: &Manifest) -> RepositoryCode {
    // A container has other files, which are not looked at; what is inside is the caller's to choose.
    if task.request.docker.is_some() || task.is_scripted() {
        return RepositoryCode::Allowed;
    }
    let place = task.project().unwrap_or_default();
    let files = trust::agent_files(manifest, &place, task.settings.pins.as_ref(), task.trust);
    if files.state.is_trusted() {
        return RepositoryCode::Allowed;
    }
    let shown = |path: &PathBuf| path.strip_prefix(&place.directory).unwrap_or(path).display().to_string();
    RepositoryCode::Kept(files.found.iter().map(shown).collect())
}

#[cfg(test)]
mod tests;
