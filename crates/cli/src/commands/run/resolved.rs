//! Resolves a request: applies the settings to the command line, and finds the provider.

use std::sync::Arc;

use bowline::settings::FileOwner;
use bowline::{Profile, Task, Unrestricted};
use bowline_config::Config;

use super::choose::{self, NamedProvider, RequestTarget};
use super::request;
use super::resume;
use super::schema::AnswerSchema;
use super::settings::{self, DefaultSettings};
use crate::args::request::RequestArgs;
use crate::commands::session_ids;
use crate::error::CommandError;

/// Runs a program that the user did not name only if it can be restricted. The hint names the file that chose it.
fn restricted(task: Task, hint: &str) -> Result<Task, CommandError> {
    let task = task.unrestricted(Unrestricted::Refuse);
    match task.preview() {
        Err(error @ (bowline::Error::Refused(_) | bowline::Error::NoRoute(_))) => {
            Err(CommandError::from(error).hint(hint))
        }
        // The run reports every other error.
        Ok(_) | Err(_) => Ok(task),
    }
}

/// A request with all settings applied.
pub(crate) struct ResolvedRequest {
    /// The command line, completed by the settings.
    pub(crate) args: RequestArgs,
    pub(crate) config: Arc<Config>,
    pub(crate) target: RequestTarget,
    pub(super) schema: Option<AnswerSchema>,
    profile: Option<Profile>,
    defaults: DefaultSettings,
    /// Set if a project's setting or a file of tasks decides which program runs: the hint of the error if that program cannot be
    /// restricted.
    chosen_by_file: Option<String>,
}

impl ResolvedRequest {
    /// Reads the configuration for a request, and resolves the request.
    pub(crate) fn of(args: &RequestArgs) -> Result<Self, CommandError> {
        let mut args = args.clone();
        if let Some(id) = &args.resume {
            args.resume = Some(session_ids::whole(id)?);
        }
        if let (Some(id), None, None) = (&args.resume, &args.cwd, &args.docker) {
            args.cwd = resume::place(id)?;
        }
        // A path in a container is not a path of this machine.
        let config = settings::load(args.cwd.as_deref().filter(|_| args.docker.is_none()))?;
        Self::by(&args, config)
    }

    /// Resolves a request with these settings.
    pub(crate) fn by(typed: &RequestArgs, config: Arc<Config>) -> Result<Self, CommandError> {
        let mut args = settings::applied(typed, &config)?;
        let mut defaults = DefaultSettings::of(&args, &config);
        let resumed = args.resume.as_deref().map(|id| resume::find(id, &config)).transpose()?.flatten();
        let projects_choice = settings::projects_choice(typed, &args, &defaults, &config);
        let projects_choice = projects_choice.filter(|_| resumed.is_none());
        // A resumed session keeps its account.
        args.profile = args.profile.or_else(|| resumed.as_ref()?.profile.clone());
        // The policies that its caller named hold on. Those of the settings are found again.
        args.policy.extend(resumed.iter().flat_map(|it| it.policies.iter().cloned()));
        // It also keeps its container, because the files outside are different ones.
        if let (None, Some((container, cwd))) =
            (&args.docker, resumed.as_ref().and_then(|it| it.container.clone()))
        {
            args.docker = Some(container);
            args.cwd = args.cwd.or(cwd);
        }
        let profile = settings::profile(&args, &config)?;
        let target = match (args.resume.clone(), &resumed) {
            (Some(id), Some(resumed)) => resume::target(&id, resumed, &mut args)?,
            _ => {
                // A default model must not select a provider from a project's router file.
                let foreign = config.router.as_ref().is_some_and(|it| it.owner != FileOwner::User);
                let model = args.model.clone().or_else(|| defaults.model.clone().filter(|_| !foreign));
                let chosen =
                    choose::target(&RequestArgs { model, ..args.clone() }, &config, profile.as_ref());
                // For an unknown session, report the session, not the missing provider.
                match (chosen, &args.resume) {
                    (Ok(target), _) => target,
                    (Err(error), _) if resume::selects_provider(&args, &config) => return Err(error),
                    (Err(_), Some(id)) => return Err(resume::unknown(id)),
                    // Without a provider, it is our own last session of the directory.
                    (Err(_), None) if args.continue_latest => {
                        let Some(id) = resume::latest_in(args.cwd.as_deref())? else {
                            return Err(resume::continue_without_provider());
                        };
                        let typed = RequestArgs { resume: Some(id), continue_latest: false, ..typed.clone() };
                        return Self::by(&typed, config);
                    }
                    (Err(error), None) => return Err(error),
                }
            }
        };
        // Without a provider, the model selects it.
        if matches!(target, RequestTarget::Router) {
            args.model = args.model.take().or_else(|| defaults.model.take());
        }
        let schema = args.schema.as_deref().map(AnswerSchema::read).transpose()?;
        let chosen_by_file = projects_choice.map(|choice| {
            format!(
                "name the program yourself with `--provider` or `--model`: this project chose it ({choice}), and a \
                 project can only choose a program that can be restricted"
            )
        });
        Ok(Self { args, config, target, schema, profile, defaults, chosen_by_file })
    }

    /// Runs the program only if it can be restricted, because a file chose it. An error has this hint.
    pub(super) fn restrict(&mut self, hint: String) {
        self.chosen_by_file = Some(hint);
    }

    /// Makes the task for one provider, or for the router.
    pub(crate) fn task(&self, prompt: &str, named: Option<&NamedProvider>) -> Result<Task, CommandError> {
        self.finished(request::task(&self.args, prompt, named, self.schema.as_ref())?)
    }

    /// Makes a task that tries several providers in this order.
    pub(super) fn task_in_order(&self, prompt: &str, all: &[NamedProvider]) -> Result<Task, CommandError> {
        let task = request::task(&self.args, prompt, None, self.schema.as_ref())?;
        self.finished(task.providers(all.iter().map(NamedProvider::name)))
    }

    /// Adds what the command line does not have.
    fn finished(&self, task: Task) -> Result<Task, CommandError> {
        let mut task = task.settings(self.config.run_settings().into());
        if let Some(profile) = &self.profile {
            task = task.profile(profile.clone());
        }
        if let Some(model) = &self.defaults.model {
            task = task.usual_model(model);
        }
        if let Some(limit) = self.defaults.timeout {
            task = task.usual_timeout(limit);
        }
        if let Some(limit) = self.defaults.idle_at_most {
            task = task.idle_timeout_at_most(limit);
        }
        match &self.chosen_by_file {
            Some(hint) => restricted(task, hint),
            None => Ok(task),
        }
    }
}
