//! Profiles: several accounts of one program, each with a directory of its own for settings and login.

use std::borrow::Cow;
use std::path::PathBuf;

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Request, RequestField};
use bowline_providers::invocation::{Invocation, Refusal};
use bowline_providers::manifest::Manifest;

use crate::system::surroundings::Surroundings;

/// An account of a program: the directory with its settings and its login.
///
/// The variable that the manifest names points the program to the directory. Keys of the environment are not passed to the
/// program with a profile: they would take precedence over its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The directory.
    pub home: PathBuf,
}

impl Profile {
    /// Checks whether a provider can use this profile; the error has a hint.
    pub fn suits(&self, manifest: &Manifest) -> Result<(), Refusal> {
        self.variable(manifest).map(drop)
    }

    /// Returns the variable that this profile sets for a provider, and its value.
    pub(crate) fn variable(&self, manifest: &Manifest) -> Result<(String, String), Refusal> {
        let refused = |reason: String, hint: &str| self.refusal(manifest, reason, hint);
        if !bowline_providers::catalogue::same_name(manifest, &self.provider) {
            let reason = format!("it is a profile of {}", self.provider);
            return Err(refused(
                reason,
                &format!("name {} or no provider at all, or choose another profile", self.provider),
            ));
        }
        let Some(home) = &manifest.auth.home else {
            let reason = "it has one account only: no variable moves its settings and its login".to_owned();
            return Err(refused(reason, "another home is another account: `env = HOME=DIR`"));
        };
        if !self.home.is_absolute() {
            let reason = format!("its directory `{}` is not an absolute path", self.home.display());
            return Err(refused(reason, "write the whole path; `~` is not expanded here"));
        }
        let Some(dir) = self.home.to_str() else {
            let reason = format!("its directory `{}` is not text", self.home.display());
            return Err(refused(reason, "choose a directory whose name is UTF-8"));
        };
        Ok((home.env.clone(), dir.to_owned()))
    }

    /// Returns the surroundings of a program with this profile.
    pub(crate) fn within(
        &self,
        manifest: &Manifest,
        surroundings: &Surroundings,
    ) -> Result<Surroundings, Refusal> {
        let (name, dir) = self.variable(manifest)?;
        let mut changed = surroundings.clone();
        manifest.auth.env.iter().for_each(|key| changed.remove(key));
        changed.set(name, dir);
        Ok(changed)
    }

    /// Returns the surroundings of a program, with a profile or without one. Ignores a profile that the provider cannot use: a task
    /// with it fails.
    pub(crate) fn seen<'a>(
        profile: Option<&Self>,
        manifest: &Manifest,
        surroundings: &'a Surroundings,
    ) -> Cow<'a, Surroundings> {
        match profile.and_then(|profile| profile.within(manifest, surroundings).ok()) {
            Some(changed) => Cow::Owned(changed),
            None => Cow::Borrowed(surroundings),
        }
    }

    /// Puts the profile's directory into a request.
    pub(crate) fn enter(&self, manifest: &Manifest, request: &mut Request) -> Result<(), Refusal> {
        let (name, dir) = self.variable(manifest)?;
        if request.env.contains_key(&name) {
            let reason = format!("`env = {name}` already sets the directory of its settings");
            return Err(self.refusal(manifest, reason, "leave one of the two out"));
        }
        request.env.insert(name, dir);
        Ok(())
    }

    /// Removes keys of the environment from the program's variables, with a notice. Keeps those of the request.
    pub(crate) fn alone(
        &self,
        manifest: &Manifest,
        request: &Request,
        invocation: &mut Invocation,
        surroundings: &Surroundings,
    ) {
        let away = manifest.auth.env.iter().filter(|name| !request.env.contains_key(*name));
        for name in away {
            invocation.env_removed.push(name.clone());
            if surroundings.get(name).is_some() {
                let text =
                    format!("{name} is not passed on: the profile `{}` decides who is logged in", self.name);
                invocation.notices.push(Notice { level: Level::Info, text, code: None });
            }
        }
    }

    fn refusal(&self, manifest: &Manifest, reason: String, hint: &str) -> Refusal {
        let field = RequestField::Profile.value(self.name.as_str());
        Refusal::misconfigured(&manifest.name, field, reason).hint(hint)
    }
}
