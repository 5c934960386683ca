//! The capabilities of a provider that are left on the installed program, and which way of running it is the best
//! that it still has.
//!
//! A manifest declares what the program can do that it was written for. Where the installed one lacks an option, what
//! hangs on it is taken back; a page of help that cannot be read takes nothing back, because nothing is known then.

use std::collections::BTreeMap;

use bowline_protocol::kinds::CapabilityDegraded;
use bowline_protocol::{Capabilities, PermissionMode, ResumeSupport};

use super::check::{Finding, Kind};
use crate::dialect::Shape;
use crate::manifest::run::RunFlag;
use crate::manifest::{Format, Manifest};

/// The capabilities of an installed program.
#[derive(Clone, Debug, PartialEq)]
pub struct NarrowedCapabilities {
    /// The rest of the declared capabilities.
    pub capabilities: Capabilities,
    /// The removed capabilities, each with the reason.
    pub lost: Vec<LostCapability>,
    /// The format of a watched run, if it is not the default one, and what is lost by that.
    pub format: Option<(String, CapabilityDegraded)>,
    /// The formats with something of their own that the program does not have, each with the reason.
    pub lacking: BTreeMap<String, String>,
    /// Why the program cannot be kept from running a repository's own code, if the manifest's way to do that is missing.
    pub unkept: Option<String>,
}

/// A capability that the installed program does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCapability {
    /// The capability, as it is called in [`Capabilities`].
    pub capability: String,
    /// The missing options, as text.
    pub reason: String,
}

/// Removes the capabilities that are missing according to the findings of [`check`](super::check()).
pub fn narrow(manifest: &Manifest, findings: &[Finding]) -> NarrowedCapabilities {
    let mut capabilities = manifest.capabilities.clone();
    let mut lost: Vec<LostCapability> = Vec::new();
    for flag in RunFlag::ALL {
        let Some(reason) = why(findings, &format!("run.flags.{}", flag.key())) else { continue };
        if let Some(capability) = take_back(&mut capabilities, *flag) {
            lost.push(LostCapability { capability: capability.to_owned(), reason });
        }
    }
    for mode in PermissionMode::ALL {
        let Some(reason) = mode_lost(manifest, findings, mode) else { continue };
        let before = capabilities.permission_modes.len();
        capabilities.permission_modes.retain(|it| *it != mode);
        if capabilities.permission_modes.len() < before {
            lost.push(LostCapability { capability: format!("permission_modes.{}", mode.as_str()), reason });
        }
    }
    let format = best_format(manifest, findings);
    if let Some((_, degraded)) = &format
        && std::mem::take(&mut capabilities.streams_text)
    {
        lost.push(LostCapability { capability: "streams_text".to_owned(), reason: degraded.reason.clone() });
    }
    let own = manifest.formats.iter().filter(|(_, format)| format.own.is_some());
    let lacking = own.filter_map(|(name, _)| Some((name.clone(), lacks(findings, name)?))).collect();
    NarrowedCapabilities { capabilities, lost, format, lacking, unkept: why(findings, "repository") }
}

/// Returns why a format with something of its own cannot be had: all of it, or none.
fn lacks(findings: &[Finding], format: &str) -> Option<String> {
    let own = format!("formats.{format}");
    let of_it =
        |key: &&String| key.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    findings.iter().flat_map(|it| &it.keys).filter(of_it).find_map(|key| why(findings, key))
}

/// Returns why a mode cannot be had: its own arguments, or those that name the tools that it allows and refuses.
fn mode_lost(manifest: &Manifest, findings: &[Finding], mode: PermissionMode) -> Option<String> {
    let permission = manifest.permission.get(&mode)?;
    let tools = |list: &[String], flag: RunFlag| {
        let key = format!("run.flags.{}", flag.key());
        if list.is_empty() { None } else { why(findings, &key) }
    };
    why(findings, &format!("permission.{}", mode.as_str()))
        .or_else(|| tools(&permission.allow_tools, RunFlag::AllowTool))
        .or_else(|| tools(&permission.deny_tools, RunFlag::DenyTool))
}

/// Returns why a key of the manifest cannot be honoured.
fn why(findings: &[Finding], key: &str) -> Option<String> {
    let hit = |finding: &&Finding| {
        finding.keys.iter().any(|it| it == key)
            && match &finding.kind {
                Kind::Missing | Kind::WantsValue | Kind::TakesNoValue | Kind::Means { .. } => true,
                // One of several values of an option is a smaller loss than the option; of a mode, it is the mode.
                Kind::LacksChoice { .. } => !key.starts_with("run.flags."),
                // No page proves nothing, and a deprecated option still works: neither takes a capability back.
                Kind::NoPage | Kind::Deprecated { .. } => false,
            }
    };
    findings.iter().find(hit).map(Finding::difference)
}

/// Retracts what hangs on an option of a run, and returns its name.
fn take_back(capabilities: &mut Capabilities, flag: RunFlag) -> Option<&'static str> {
    let off = |of: &'static str, value: &mut bool| std::mem::take(value).then_some(of);
    match flag {
        RunFlag::Model => off("chooses_model", &mut capabilities.chooses_model),
        RunFlag::Effort => off("chooses_effort", &mut capabilities.chooses_effort),
        RunFlag::System => off("system_prompt", &mut capabilities.system_prompt),
        RunFlag::MaxTurns => off("max_turns", &mut capabilities.max_turns),
        RunFlag::MaxCost => off("max_cost", &mut capabilities.max_cost),
        RunFlag::McpConfig => off("supports_mcp", &mut capabilities.supports_mcp),
        RunFlag::Schema => off("output_schema", &mut capabilities.output_schema),
        RunFlag::Image => off("images", &mut capabilities.images),
        RunFlag::Fork => off("forks", &mut capabilities.forks),
        RunFlag::Resume if capabilities.resume == ResumeSupport::ById => {
            // Resuming the latest session needs another option, which is checked after this one.
            capabilities.resume = ResumeSupport::Latest;
            Some("resume")
        }
        RunFlag::Continue if capabilities.resume == ResumeSupport::Latest => {
            capabilities.resume = ResumeSupport::None;
            Some("resume")
        }
        // These options have no capability of their own; a run that needs them fails and reports why.
        RunFlag::Resume
        | RunFlag::Continue
        | RunFlag::AppendSystem
        | RunFlag::AddDir
        | RunFlag::AllowTool
        | RunFlag::DenyTool
        | RunFlag::NoTools
        | RunFlag::Ephemeral
        | RunFlag::Isolate => None,
    }
}

/// The effect of a format that prints one document.
const WHOLE: &str = "the answer at the end";

/// The effect of a format that prints text only.
const PLAIN: &str = "the answer as plain text, without tools and usage";

/// Finds the best format that the program still has, if the usual one is not among them: another that is read line by
/// line, then the one that prints nothing before the end, then any document, then plain text.
fn best_format(manifest: &Manifest, findings: &[Finding]) -> Option<(String, CapabilityDegraded)> {
    let run = &manifest.run;
    let usual = manifest.usual_format();
    let reason = why(findings, &format!("formats.{usual}"))?;
    let dialect = &manifest.formats.get(usual)?.dialect;
    let whole = manifest
        .formats
        .iter()
        .filter(|(name, format)| *name != usual && format.shape == Shape::Lines && format.dialect == *dialect)
        .map(|(name, _)| (name, "each message when it is complete"));
    let of_shape = |shape: Shape, instead: &'static str| {
        let usable = move |format: &Format| format.shape == shape && format.own.is_none();
        let formats = manifest.formats.iter().filter(move |(_, format)| usable(format));
        formats.map(move |(name, _)| (name, instead))
    };
    let unstreamed = run.no_stream_format.iter().filter(|name| *name != usual).map(|name| {
        let shape = manifest.formats.get(name).map(|format| format.shape);
        (name, if shape == Some(Shape::Text) { PLAIN } else { WHOLE })
    });
    let last = unstreamed.chain(of_shape(Shape::Document, WHOLE)).chain(of_shape(Shape::Text, PLAIN));
    let (name, instead) =
        whole.chain(last).find(|(name, _)| why(findings, &format!("formats.{name}")).is_none())?;
    let degraded =
        CapabilityDegraded { capability: "streams_text".to_owned(), instead: instead.to_owned(), reason };
    Some((name.clone(), degraded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::probe::{Answer, Page, Version, check};

    /// The page as it was recorded, without what is to be missing.
    fn page(without: &[&str]) -> Vec<Page> {
        let help = include_str!("../../../../fixtures/claude/2.1.325/help/stdout.raw");
        let mut lines: Vec<&str> = Vec::new();
        let mut skipping = false;
        for line in help.lines() {
            let begins =
                line.trim_start().starts_with('-') && line.starts_with("  ") && !line.starts_with("     ");
            if begins {
                skipping = without.iter().any(|flag| line.split([' ', ',']).any(|word| word == *flag));
            }
            if !skipping {
                lines.push(line);
            }
        }
        let answer = Answer { stdout: lines.join("\n"), code: Some(0), ..Answer::default() };
        vec![Page::read(&["--help".to_owned()], &answer)]
    }

    fn narrowed(without: &[&str]) -> NarrowedCapabilities {
        let manifest = catalogue::by_name("claude").unwrap();
        let version = Version::parse("2.1.325").unwrap();
        narrow(manifest, &check(manifest, &page(without), Some(&version)))
    }

    #[test]
    fn nothing_is_taken_back_from_the_program_that_the_manifest_was_written_for() {
        let declared = &catalogue::by_name("claude").unwrap().capabilities;
        let narrowed = narrowed(&[]);
        assert_eq!(
            (&narrowed.capabilities, &narrowed.lost, &narrowed.format),
            (declared, &Vec::new(), &None)
        );
    }

    #[test]
    fn what_hangs_on_an_option_goes_with_it() {
        let narrowed = narrowed(&["--json-schema", "--resume", "--effort"]);
        let names: Vec<&str> = narrowed.lost.iter().map(|lost| lost.capability.as_str()).collect();
        assert_eq!(names, ["chooses_effort", "output_schema", "resume", "forks"]);
        assert_eq!(narrowed.lost[0].reason, "`--effort` is not in its help");
        let left = narrowed.capabilities;
        assert!(!left.chooses_effort && !left.output_schema && !left.forks && left.chooses_model);
        assert_eq!(left.resume, ResumeSupport::Latest, "`--continue` is still there");
        assert_eq!(narrowed.format, None);
    }

    #[test]
    fn a_run_goes_down_one_step_at_a_time() {
        let partial = narrowed(&["--include-partial-messages"]);
        let (format, degraded) = partial.format.expect("another format");
        assert_eq!(
            (format.as_str(), degraded.instead.as_str()),
            ("stream-json", "each message when it is complete")
        );
        assert_eq!(degraded.reason, "`--include-partial-messages` is not in its help");
        assert!(!partial.capabilities.streams_text);

        let verbose = narrowed(&["--include-partial-messages", "--verbose"]);
        let (format, degraded) = verbose.format.expect("another format");
        assert_eq!((format.as_str(), degraded.instead.as_str()), ("json", "the answer at the end"));

        let text = narrowed(&["--include-partial-messages", "--verbose", "--output-format"]);
        let (format, degraded) = text.format.expect("another format");
        assert_eq!((format.as_str(), degraded.instead.as_str()), ("text", PLAIN));

        let none = narrowed(&["--include-partial-messages", "--verbose", "--output-format", "--print"]);
        assert_eq!(none.format, None, "there is nothing better to try");
    }

    #[test]
    fn a_program_without_an_option_for_formats_prints_text() {
        let manifest = catalogue::by_name("qwen").unwrap();
        let stdout = "Usage: qwen [options]\n\nOptions:\n  -m, --model          Model  [string]\n  -p, --prompt         Prompt  [string]\n      --approval-mode  Approval mode  [string]\n";
        let answer = Answer { stdout: stdout.to_owned(), code: Some(0), ..Answer::default() };
        let pages = [Page::read(&["--help".to_owned()], &answer)];
        let narrowed = narrow(manifest, &check(manifest, &pages, None));
        let (format, degraded) = narrowed.format.expect("another format");
        assert_eq!((format.as_str(), degraded.instead.as_str()), ("text", PLAIN));
        assert!(degraded.reason.ends_with("is not in its help"), "{}", degraded.reason);
    }

    #[test]
    fn a_mode_goes_with_its_option() {
        let modes = narrowed(&["--permission-mode"]).capabilities.permission_modes;
        assert_eq!(modes, []);
        // A mode that rests on refusing tools is none without the option for it.
        let modes = narrowed(&["--disallowedTools", "--disallowed-tools"]).capabilities.permission_modes;
        assert_eq!(modes, [PermissionMode::Ask, PermissionMode::Edit, PermissionMode::Yolo]);
    }

    #[test]
    fn a_page_that_cannot_be_read_takes_nothing_back() {
        let manifest = catalogue::by_name("claude").unwrap();
        let page = Page::read(&["--help".to_owned()], &Answer::default());
        let narrowed = narrow(manifest, &check(manifest, &[page], None));
        assert_eq!((narrowed.capabilities, narrowed.lost), (manifest.capabilities.clone(), Vec::new()));
    }
}
