//! What a format has of its own: some programs are run in another way for it, with another way to tell the prompt, other
//! options, other capabilities.
//!
//! [`Manifest::in_format`] makes a manifest of it that knows this format only, so that whoever builds a command, compares
//! it with a page of help or declares what can be done need not know that there are several.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bowline_protocol::{Approvals, Capabilities, PermissionMode, UsageReports};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{Flag, Mode, Permission, Permissions, RunFlag, Stop};
use super::{Manifest, ManifestError, PromptStyle};
use crate::dialect::Shape;

/// What a format has of its own; everything else is as in all runs of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// The permission modes in which it is the best one, if somebody watches.
    #[serde(default)]
    pub best_for: Vec<Mode>,
    /// The capability for which it is.
    pub gives: String,
    /// What is so where it cannot be had and the usual format is taken.
    pub instead: String,
    /// How the prompt gets in.
    pub prompt: PromptStyle,
    /// What becomes of options.
    #[serde(default)]
    pub flags: BTreeMap<RunFlag, Flag>,
    /// What permission modes mean.
    #[serde(default)]
    pub permission: Permissions,
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

    /// Returns the format that is better than the usual one under a permission mode.
    pub fn better_format(&self, permission: PermissionMode) -> Option<(&str, &Own)> {
        let best = |own: &Own| own.best_for.contains(&Mode::from(permission));
        let mut own = self.formats.iter().filter_map(|(name, format)| Some((name, format.own.as_deref()?)));
        own.find(|(_, own)| best(own)).map(|(name, own)| (name.as_str(), own))
    }

    /// Says whether the mode that asks lets the program do no more than the mode that reads: it has no way to ask.
    pub fn only_reads_under_ask(&self) -> bool {
        let [read, ask] = [Mode::Read, Mode::Ask].map(|mode| self.permission.get(&mode));
        let narrows = |it: &Permission| {
            let empty =
                Permission { refused: it.refused.clone(), hint: it.hint.clone(), ..Permission::default() };
            it.refused.is_none() && *it != empty
        };
        ask.is_some_and(narrows) && read == ask && self.better_format(PermissionMode::Ask).is_none()
    }

    /// Returns the provider as it is in a format that has something of its own: with that format and no other.
    pub fn in_format(&self, name: &str) -> Cow<'_, Self> {
        match self.formats.get(name).and_then(|format| format.own.as_deref()) {
            Some(own) => Cow::Owned(self.with(name, own)),
            None => Cow::Borrowed(self),
        }
    }

    /// Returns what a run in a format can do, of what the program can do in any: where the prompt is all that it is told,
    /// nothing can be added to it and no question answered, and plain text tells of nothing but itself.
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
        match manifest.formats.get(format).map(|format| format.shape) {
            Some(Shape::Document) => capabilities.streams_text = false,
            Some(Shape::Text) => {
                (capabilities.reports_thinking, capabilities.reports_tools) = (false, false);
                capabilities.reports_usage = UsageReports::None;
            }
            Some(Shape::Lines | Shape::Unknown) | None => {}
        }
        capabilities
    }

    fn with(&self, name: &str, own: &Own) -> Self {
        let mut manifest = self.clone();
        manifest.formats.retain(|known, _| known == name);
        manifest.formats.values_mut().for_each(|format| format.own = None);
        name.clone_into(&mut manifest.default_format);
        manifest.prompt = own.prompt;
        manifest.stop = own.stop;
        manifest.permission.extend(own.permission.clone());
        let run = &mut manifest.run;
        (run.format, run.no_stream_format) = (None, None);
        // They belong to the prompt.
        (run.stdin_args, run.prompt_args) = (Vec::new(), Vec::new());
        run.flags.extend(own.flags.clone());
        manifest.capabilities =
            own.applied(&self.capabilities).expect("they were put in when the manifest was read");
        manifest
    }

    /// Checks every format that has something of its own, as a manifest with nothing else.
    pub(super) fn check_own(&self) -> Result<(), ManifestError> {
        for (name, format) in &self.formats {
            let Some(own) = format.own.as_deref() else { continue };
            let wrong = |key: &str, reason: String| {
                Err(ManifestError::Key { key: format!("formats.{name}.own{key}"), reason })
            };
            if name == self.usual_format() {
                return wrong("", "the usual format is what the rest of the manifest is about".into());
            }
            if let Err(why) = own.applied(&self.capabilities) {
                return wrong(".capabilities", why.to_string());
            }
            let known = serde_json::to_value(&self.capabilities);
            if !known.is_ok_and(|known| known.get(&own.gives).is_some()) {
                return wrong(".gives", format!("there is no capability `{}`", own.gives));
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

impl Own {
    /// Puts the capabilities that differ into the others.
    fn applied(&self, capabilities: &Capabilities) -> Result<Capabilities, serde_json::Error> {
        let mut all = serde_json::to_value(capabilities)?;
        for (name, value) in &self.capabilities {
            all[name] = value.clone();
        }
        serde_json::from_value(all)
    }
}
