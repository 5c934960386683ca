//! Points a program at the simulator: fills the values into its manifest's section.
//!
//! Nothing is written and nothing is started here. The key is made up by the caller; the simulator takes any.

use std::collections::BTreeMap;

use crate::invocation::template;
use crate::manifest::Manifest;
pub use crate::manifest::simulate::{Api, Simulate, SimulateFile};

/// The names that the texts of the section may have in braces.
pub(crate) const NAMES: &[&str] = &["base_url", "key", "home", "model"];

/// The preparation before a program is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The API that it will use.
    pub api: Api,
    /// The model to ask for.
    pub model: String,
    /// Another one, that nothing but the option for it asks for.
    pub other_model: String,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Files, by their path relative to the home directory.
    pub files: Vec<SimulateFile>,
    /// Arguments, behind those of the program's own.
    pub args: Vec<String>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Returns how a program is pointed at the simulator at a base address, with a fresh home directory and a made-up key.
///
/// Returns nothing for a provider whose manifest does not define it.
pub fn plan(manifest: &Manifest, base_url: &str, home: &str, key: &str) -> Option<Plan> {
    let Simulate { api, model, other_model, env, files, args, notes } = manifest.simulate.as_ref()?;
    let base_url = base_url.trim_end_matches('/');
    let put = |text: &String| {
        template::fill(text, |name| match name {
            "base_url" => Some(base_url),
            "key" => Some(key),
            "home" => Some(home),
            "model" => Some(model),
            _ => None,
        })
    };
    Some(Plan {
        api: *api,
        model: model.clone(),
        other_model: other_model.clone(),
        env: env.iter().map(|(name, value)| (name.clone(), put(value))).collect(),
        files: files
            .iter()
            .map(|file| SimulateFile { path: file.path.clone(), text: put(&file.text) })
            .collect(),
        args: args.iter().map(put).collect(),
        notes: notes.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_provider_with_a_program_of_its_own_can_be_simulated() {
        let recorded =
            |it: &&Manifest| it.formats.values().any(|it| catalogue::vocabulary(&it.dialect).is_some());
        for manifest in catalogue::built_in().filter(recorded).filter(|it| it.name != "practice") {
            let name = &*manifest.name;
            let plan = plan(manifest, "http://127.0.0.1:9/r/x/", "/h", "made-up").expect(name);
            let env = plan.env.values().map(String::as_str);
            let texts: Vec<&str> = env
                .chain(plan.files.iter().map(|file| &*file.text))
                .chain(plan.args.iter().map(|arg| &**arg))
                .collect();
            assert!(texts.iter().any(|text| text.contains("http://127.0.0.1:9/r/x")), "{name}: no address");
            assert!(texts.iter().any(|text| text.contains("made-up")), "{name}: no key");
            for text in texts {
                assert!(!text.contains("/r/x//"), "{name}: {text}");
                assert_eq!(template::names(text).count(), 0, "{name}: {text}");
            }
            for file in &plan.files {
                if file.path.ends_with(".json") {
                    serde_json::from_str::<serde_json::Value>(&file.text)
                        .unwrap_or_else(|error| panic!("{name}: {}: {error}", file.path));
                } else if file.path.ends_with(".toml") {
                    toml::from_str::<toml::Table>(&file.text)
                        .unwrap_or_else(|error| panic!("{name}: {}: {error}", file.path));
                }
            }
        }
    }

    #[test]
    fn what_has_no_section_has_no_plan() {
        let practice = catalogue::by_name("practice").expect("it ships");
        assert_eq!(plan(practice, "http://127.0.0.1:9", "/h", "k"), None);
    }

    #[test]
    fn what_the_program_gets_passes_the_filter_of_a_run() {
        // A variable that a run would take away points at nothing.
        for manifest in catalogue::built_in() {
            let Some(plan) = plan(manifest, "http://127.0.0.1:9", "/h", "k") else { continue };
            for name in plan.env.keys() {
                let kept = manifest.run.env_keep.iter().any(|known| match known.strip_suffix('*') {
                    Some(stem) => name.starts_with(stem),
                    None => known == name,
                });
                assert!(kept, "{}: `{name}` is not in `run.env_keep`", manifest.name);
            }
        }
    }
}
