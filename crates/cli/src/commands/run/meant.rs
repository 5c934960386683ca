//! A request as it is meant: what the command line says, what the settings add to it, and who is asked.

use std::sync::Arc;

use bowline::config::{Config, FileOwner};
use bowline::{Profile, Task, Unrestricted};

use super::choose::{self, Asked, Whom};
use super::request;
use super::resume::{self, Ours};
use super::schema::Schema;
use super::settings::{self, Usual};
use crate::args::request::RequestArgs;
use crate::commands::session_ids;
use crate::error::CommandError;

/// A request as it is meant.
pub(crate) struct Meant {
    /// The command line, with what the settings add.
    pub(crate) args: RequestArgs,
    pub(crate) config: Arc<Config>,
    pub(crate) whom: Whom,
    pub(super) schema: Option<Schema>,
    profile: Option<Profile>,
    ours: Option<Ours>,
    usual: Usual,
    /// A setting of the project decides which program runs.
    is_projects_choice: bool,
}

impl Meant {
    /// Reads the files that concern a request, and finds who is asked.
    pub(crate) fn of(args: &RequestArgs) -> Result<Self, CommandError> {
        let mut args = args.clone();
        if let Some(id) = &args.resume {
            args.resume = Some(session_ids::whole(id)?);
        }
        if let (Some(id), None, None) = (&args.resume, &args.cwd, &args.docker) {
            args.cwd = resume::place(id)?;
        }
        // In a container there is another file system, and its directories say nothing here.
        let config = settings::load(args.cwd.as_deref().filter(|_| args.docker.is_none()))?;
        Self::by(&args, config)
    }

    /// Finds who is asked, by these settings.
    pub(crate) fn by(typed: &RequestArgs, config: Arc<Config>) -> Result<Self, CommandError> {
        let mut args = settings::applied(typed, &config)?;
        let mut usual = Usual::of(&args, &config);
        let ours = args.resume.as_deref().map(|id| resume::find(id, &config)).transpose()?.flatten();
        let is_projects_choice =
            ours.is_none() && settings::is_projects_choice(typed, &args, &usual, &config);
        // A session goes on with the account that it began with.
        args.profile = args.profile.or_else(|| ours.as_ref()?.profile.clone());
        // And in its container: outside, it would be another machine's files that it works on.
        if let (None, Some((container, cwd))) =
            (&args.docker, ours.as_ref().and_then(|it| it.container.clone()))
        {
            args.docker = Some(container);
            args.cwd = args.cwd.or(cwd);
        }
        let profile = settings::profile(&args, &config)?;
        let whom = match (args.resume.clone(), &ours) {
            (Some(id), Some(ours)) => resume::whom(&id, ours, &mut args)?,
            _ => {
                // A usual model is no wish to be served by what a project's file names.
                let foreign = config.router.as_ref().is_some_and(|it| it.owner != FileOwner::User);
                let model = args.model.clone().or_else(|| usual.model.clone().filter(|_| !foreign));
                let chosen = choose::whom(&RequestArgs { model, ..args.clone() }, &config, profile.as_ref());
                // That no agent is chosen is not what is wrong where a session is meant.
                match (chosen, &args.resume) {
                    (Ok(whom), _) => whom,
                    (Err(error), _) if resume::is_anyone_named(&args, &config) => return Err(error),
                    (Err(_), Some(id)) => return Err(resume::unknown(id)),
                    (Err(_), None) if args.continue_latest => return Err(resume::nobody_to_continue()),
                    (Err(error), None) => return Err(error),
                }
            }
        };
        // Where nobody is named, the model says who is meant.
        if matches!(whom, Whom::Router) {
            args.model = args.model.take().or_else(|| usual.model.take());
        }
        let schema = args.schema.as_deref().map(Schema::read).transpose()?;
        Ok(Self { args, config, whom, schema, profile, ours, usual, is_projects_choice })
    }

    /// Makes the task for one of those who are asked, or for whom the router chooses.
    pub(crate) fn task(&self, prompt: &str, asked: Option<&Asked>) -> Result<Task, CommandError> {
        let task = request::task(&self.args, prompt, asked, self.ours.as_ref(), self.schema.as_ref())?;
        let mut task = task.config(self.config.clone());
        if let Some(profile) = &self.profile {
            task = task.profile(profile.clone());
        }
        if self.is_projects_choice {
            task = task.unrestricted(Unrestricted::Refuse);
        }
        if let Some(model) = &self.usual.model {
            task = task.usual_model(model);
        }
        if let Some(limit) = self.usual.timeout {
            task = task.usual_timeout(limit);
        }
        Ok(task)
    }
}
