//! The adapter of everything that the name of a provider can mean.

use std::path::PathBuf;

use bowline_protocol::{Capabilities, Request};
use bowline_providers::invocation::external::ExternalCli;
use bowline_providers::manifest::Manifest;

use super::{AdapterFuture, Detection, ProviderAdapter};
use crate::agents::detect::{self, Ask, Found, Missing, MissingKind};
use crate::agents::installed::KnownProgram;
use crate::run::error::Error;
use crate::run::launch::named_manifest;
use crate::run::live::{LiveSession, SessionTask};
use crate::run::task::{AttemptContext, Task};

/// The adapter of the provider that a task names: a built-in one, one of the user's manifests, an executable provider, an external
/// CLI of the task's settings, or `acp:COMMAND`.
#[derive(Clone, Debug)]
pub struct NamedAdapter {
    /// The task without a request.
    base: Task,
    name: String,
    description: ProviderDescription,
}

/// The description of the program.
#[derive(Clone, Debug)]
enum ProviderDescription {
    Manifest(&'static Manifest),
    External(Box<ExternalCli>),
}

impl NamedAdapter {
    /// Creates the adapter of the provider that a task names. Its sessions have the task's settings, program, format, variables, data
    /// home and working directory; the rest of its request does not count.
    ///
    /// # Errors
    ///
    /// The task names no provider, no provider has this name, or its description cannot be used.
    pub fn of(task: Task) -> Result<Self, Error> {
        let base = task.captured();
        let (name, description) = match AttemptContext::of_named(&base)?.external {
            Some((name, external)) => (name, ProviderDescription::External(Box::new(external))),
            None => {
                let manifest = named_manifest(&base)?;
                (manifest.name.clone(), ProviderDescription::Manifest(manifest))
            }
        };
        Ok(Self { base, name, description })
    }

    /// Looks for the program in the places of a session.
    async fn found(&self, manifest: &'static Manifest) -> Result<Found, Missing> {
        detect::find_anywhere(manifest, self.base.binary.as_deref(), self.base.variables()).await
    }

    /// Looks for the program of an external CLI.
    fn program(&self, external: &ExternalCli) -> Result<PathBuf, Missing> {
        let program = external.program(&self.name);
        detect::on_path(program, &self.base.variables().search()).ok_or_else(|| Missing {
            program: program.to_owned(),
            kind: MissingKind::Absent,
            remedies: Vec::new(),
        })
    }

    fn ask(&self) -> Ask {
        Ask::of(self.base.variables())
    }
}

impl ProviderAdapter for NamedAdapter {
    fn provider(&self) -> &str {
        &self.name
    }

    fn detect(&self) -> AdapterFuture<'_, Result<Detection, Missing>> {
        Box::pin(async move {
            match &self.description {
                ProviderDescription::External(external) => {
                    Ok(Detection { program: self.program(external)?, version: None, unknown: None })
                }
                ProviderDescription::Manifest(manifest) => {
                    let found = self.found(manifest).await?;
                    let (version, unknown) = match self.ask().version(&found).await {
                        Ok(version) => (Some(version.to_string()), None),
                        Err(error) => (None, Some(error)),
                    };
                    Ok(Detection { program: found.program().to_owned(), version, unknown })
                }
            }
        })
    }

    fn capabilities(&self) -> AdapterFuture<'_, Result<Capabilities, Missing>> {
        Box::pin(async move {
            match &self.description {
                ProviderDescription::External(external) => {
                    self.program(external)?;
                    Ok(external.capabilities())
                }
                ProviderDescription::Manifest(manifest) => {
                    let known = KnownProgram::settled(&self.found(manifest).await?, &self.ask()).await;
                    let format =
                        self.base.format.clone().or_else(|| manifest.live_format().map(str::to_owned));
                    let format = format.or_else(|| known.format());
                    let format = format.as_ref().unwrap_or(&manifest.default_format);
                    Ok(known.capabilities(manifest, format))
                }
            }
        })
    }

    fn start(&self, request: Request) -> AdapterFuture<'_, Result<LiveSession, Error>> {
        let mut task = self.base.clone();
        let before = std::mem::replace(&mut task.request, request);
        task.request.provider = before.provider;
        task.request.cwd = task.request.cwd.or(before.cwd);
        for (name, value) in before.env {
            task.request.env.entry(name).or_insert(value);
        }
        // A request always has a mode, so it is never widened.
        task.mode_chosen = true;
        Box::pin(SessionTask::of(task).open())
    }
}
