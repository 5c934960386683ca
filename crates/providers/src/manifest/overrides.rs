//! Settings of one format that differ from the rest of the manifest: another way to pass the prompt, other
//! options, other capabilities.
//!
//! [`Manifest::in_format`] makes a manifest with this format only. Code that builds a command, compares
//! it with a help page or declares capabilities therefore need not know that there are several.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bowline_protocol::{Approvals, Capabilities, PermissionMode, ResumeSupport, UsageReports};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::repository::Repository;
use super::run::{Flag, HostOffer, Permission, Permissions, RunFlag, Stop};
use super::{Format, Manifest, ManifestError, PromptStyle};
use crate::conversation::protocol_client;
use crate::dialect::Shape;

/// The settings of a format that differ from those of the other formats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormatOverrides {
    /// The permission modes in which it is the best one, if the run is watched.
    #[serde(default)]
    pub best_for: Vec<PermissionMode>,
    /// The capability that it adds.
    pub gives: String,
    /// The effect of falling back to the default format.
    pub instead: String,
    /// How the prompt gets in.
    pub prompt: PromptStyle,
    /// Options that differ.
    #[serde(default)]
    pub flags: BTreeMap<RunFlag, Flag>,
    /// Permission modes that differ.
    #[serde(default)]
    pub permission: Permissions,
    /// What keeps the program from the repository's code in this format, if it differs. Its files are those of the manifest.
    #[serde(default)]
    pub repository: Option<Repository>,
    /// How a run is ended politely.
    #[serde(default)]
    pub stop: Stop,
    /// Capabilities that differ.
    #[serde(default)]
    pub capabilities: BTreeMap<String, Value>,
}

impl Manifest {
    /// Returns the format in which a run is watched, unless there is a better one for it.
    pub fn usual_format(&self) -> &str {
        self.run.format.as_ref().unwrap_or(&self.default_format)
    }

    /// Returns the format of a live session, in which one process takes many prompts.
    pub fn live_format(&self) -> Option<&str> {
        self.run.live_format.as_deref()
    }

    /// Returns the format of a live session if the agent can ask for an approval in it. pi's `rpc` takes many prompts and asks nothing.
    pub fn asking_format(&self) -> Option<&str> {
        let asks =
            |name: &&str| self.capabilities_in(name, &self.capabilities).approvals == Approvals::Interactive;
        self.live_format().filter(asks)
    }

    /// Returns whether only a process for each prompt can resume a session: the format of live sessions cannot, and the usual one can.
    pub fn resumes_per_prompt(&self) -> bool {
        let resumes =
            |name: &str| self.capabilities_in(name, &self.capabilities).resume == ResumeSupport::ById;
        self.live_format().is_some_and(|live| !resumes(live)) && resumes(self.usual_format())
    }

    /// Returns the format that is better than the usual one under a permission mode.
    pub fn better_format(&self, permission: PermissionMode) -> Option<(&str, &FormatOverrides)> {
        let best = |own: &FormatOverrides| own.best_for.contains(&permission);
        let mut own = self.formats.iter().filter_map(|(name, format)| Some((name, format.own.as_deref()?)));
        own.find(|(_, own)| best(own)).map(|(name, own)| (name.as_str(), own))
    }

    /// Returns whether the mode `ask` lets the program do no more than the mode `read`: it has no way to ask.
    pub fn only_reads_under_ask(&self) -> bool {
        let [read, ask] = [PermissionMode::Read, PermissionMode::Ask].map(|mode| self.permission.get(&mode));
        let narrows = |it: &Permission| {
            let empty =
                Permission { refused: it.refused.clone(), hint: it.hint.clone(), ..Permission::default() };
            it.refused.is_none() && *it != empty
        };
        ask.is_some_and(narrows) && read == ask && self.better_format(PermissionMode::Ask).is_none()
    }

    /// Returns the provider as it is in a format with settings of its own: with that format and no other.
    pub fn in_format(&self, name: &str) -> Cow<'_, Self> {
        match self.formats.get(name).and_then(|format| format.own.as_deref()) {
            Some(own) => Cow::Owned(self.with(name, own)),
            None => Cow::Borrowed(self),
        }
    }

    /// Returns whether the program has a setting of this name. A program that gets the whole request has every one.
    pub fn has_setting(&self, name: &str) -> bool {
        self.prompt == PromptStyle::Request || self.run.config.contains_key(name)
    }

    /// Returns the capabilities of a run in a format. In a format that takes only the prompt,
    /// nothing can be added to it and no question answered, and plain text reports nothing but itself.
    pub fn capabilities_in(&self, format: &str, of_program: &Capabilities) -> Capabilities {
        let manifest = self.in_format(format);
        let mut capabilities = match &manifest {
            Cow::Owned(own) => own.capabilities.clone(),
            Cow::Borrowed(_) => of_program.clone(),
        };
        if manifest.prompt != PromptStyle::Protocol {
            capabilities.steers = false;
            if capabilities.approvals == Approvals::Interactive {
                capabilities.approvals = Approvals::Rules;
            }
        }
        let is_text = |format: &Format| format.dialect == "text" || format.shape == Shape::Text;
        match manifest.formats.get(format).map(|it| if is_text(it) { Shape::Text } else { it.shape }) {
            Some(Shape::Document) => capabilities.streams_text = false,
            Some(Shape::Text) => {
                (capabilities.reports_thinking, capabilities.reports_tools) = (false, false);
                capabilities.reports_usage = UsageReports::None;
            }
            Some(Shape::Lines | Shape::Unknown) | None => {}
        }
        capabilities
    }

    fn with(&self, name: &str, own: &FormatOverrides) -> Self {
        let mut manifest = self.clone();
        manifest.formats.retain(|known, _| known == name);
        manifest.formats.values_mut().for_each(|format| format.own = None);
        name.clone_into(&mut manifest.default_format);
        manifest.prompt = own.prompt;
        manifest.stop = own.stop;
        manifest.permission.extend(own.permission.clone());
        // Rule by rule they would contradict each other: one keeps the program from the files, the other refuses it.
        if let Some(repository) = &own.repository {
            manifest.repository = Repository { files: self.repository.files.clone(), ..repository.clone() };
        }
        let run = &mut manifest.run;
        (run.format, run.no_stream_format, run.live_format) = (None, None, None);
        let asks = |dialect: &str| protocol_client(dialect).is_some_and(|client| client.asks_host);
        if !manifest.formats.values().any(|format| asks(&format.dialect)) {
            (run.host_files, run.host_terminals) = (HostOffer::Withheld, HostOffer::Withheld);
        }
        // They belong to the prompt.
        (run.stdin_args, run.prompt_args) = (Vec::new(), Vec::new());
        run.flags.extend(own.flags.clone());
        manifest.capabilities =
            own.applied(&self.capabilities).expect("they were put in when the manifest was read");
        manifest
    }

    /// Checks every format with settings of its own, as a manifest that has nothing else.
    pub(super) fn check_own(&self) -> Result<(), ManifestError> {
        for (name, format) in &self.formats {
            let Some(own) = format.own.as_deref() else { continue };
            let wrong = |key: &str, reason: String| {
                Err(ManifestError::Key { key: format!("formats.{name}.own{key}"), reason })
            };
            if name == self.usual_format() {
                return wrong("", "the default format is described by the rest of the manifest".into());
            }
            if let Err(why) = own.applied(&self.capabilities) {
                return wrong(".capabilities", why.to_string());
            }
            let known = serde_json::to_value(&self.capabilities);
            if !known.is_ok_and(|known| known.get(&own.gives).is_some()) {
                return wrong(".gives", format!("there is no capability `{}`", own.gives));
            }
            if own.repository.as_ref().is_some_and(|it| !it.files.is_empty()) {
                return wrong(".repository.files", "the files are those of `[repository]`".into());
            }
            match self.with(name, own).check() {
                Ok(()) => {}
                Err(ManifestError::Key { key, reason }) => return wrong(&format!(": {key}"), reason),
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}

impl FormatOverrides {
    /// Merges the capabilities that differ into the others.
    fn applied(&self, capabilities: &Capabilities) -> Result<Capabilities, serde_json::Error> {
        let mut all = serde_json::to_value(capabilities)?;
        for (name, value) in &self.capabilities {
            all[name] = value.clone();
        }
        serde_json::from_value(all)
    }
}
