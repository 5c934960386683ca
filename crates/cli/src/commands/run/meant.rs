//! A request as it is meant: what the command line says, what the settings add to it, and who is asked.

use std::sync::Arc;

use bowline::config::Config;
use bowline::{Profile, Task};

use super::choose::{self, Asked, Whom};
use super::resume::{self, Ours};
use super::schema::Schema;
use super::{request, settings};
use crate::args::request::RequestArgs;
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
}

impl Meant {
    /// Reads the files that concern a request, and finds who is asked.
    pub(crate) fn of(args: &RequestArgs) -> Result<Self, CommandError> {
        // In a container there is another file system, and its directories say nothing here.
        let config = settings::load(args.cwd.as_deref().filter(|_| args.docker.is_none()))?;
        Self::by(args, config)
    }

    /// Finds who is asked, by these settings.
    pub(crate) fn by(args: &RequestArgs, config: Arc<Config>) -> Result<Self, CommandError> {
        let mut args = settings::applied(args, &config)?;
        let ours = args.resume.as_deref().map(|id| resume::find(id, &config)).transpose()?.flatten();
        // A session goes on with the account that it began with.
        args.profile = args.profile.or_else(|| ours.as_ref()?.profile.clone());
        let profile = settings::profile(&args, &config)?;
        let whom = match (args.resume.clone(), &ours) {
            (Some(id), Some(ours)) => resume::whom(&id, ours, &mut args)?,
            _ => choose::whom(&args, &config, profile.as_ref())?,
        };
        let schema = args.schema.as_deref().map(Schema::read).transpose()?;
        Ok(Self { args, config, whom, schema, profile, ours })
    }

    /// Makes the task for one of those who are asked, or for whom the router chooses.
    pub(crate) fn task(&self, prompt: &str, asked: Option<&Asked>) -> Result<Task, CommandError> {
        let task = request::task(&self.args, prompt, asked, self.ours.as_ref(), self.schema.as_ref())?;
        let task = task.config(self.config.clone());
        Ok(match &self.profile {
            Some(profile) => task.profile(profile.clone()),
            None => task,
        })
    }
}
