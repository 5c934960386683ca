//! The repository's own code that a program would run, and how a run prevents that: the section `[repository]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::probe::Version;

/// The repository's own code that a program would run, and how a run prevents that.
///
/// It counts for the permission modes `read` and `ask` in a project that is not trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Files, and directories with a `/` at their end, from which it would run programs or take settings. `bowline trust`
    /// pins their content.
    pub files: Vec<String>,
    /// Arguments that keep it from them.
    pub args: Vec<String>,
    /// Variables that keep it from them.
    pub env: BTreeMap<String, String>,
    /// The first version that is known to honour `env`. Help pages do not list variables, so only the version shows it.
    pub since: Option<Version>,
    /// Why it cannot be prevented. A run in a project with such a file is refused then.
    pub refused: Option<String>,
    /// The only files for which `refused` counts, in whichever directory. Empty: all.
    pub refused_for: Vec<String>,
    /// Why it is unknown whether it runs them. A run in a project with such a file gets a warning.
    pub unproven: Option<String>,
    /// Why there is nothing to prevent.
    pub never: Option<String>,
}

impl Repository {
    /// Returns whether the protection depends on the installed program: an older one may lack the option, or ignore
    /// the variable.
    pub fn depends_on_program(&self) -> bool {
        let refuses_all = self.refused.is_some() && self.refused_for.is_empty();
        !refuses_all && (!self.args.is_empty() || self.since.is_some())
    }

    /// Returns those of some files for which a run is refused.
    pub fn refused_files<'a>(&self, found: &'a [String]) -> Vec<&'a str> {
        let counts = |file: &str| {
            self.refused_for.is_empty() || self.refused_for.iter().any(|it| Path::new(file).ends_with(it))
        };
        let found = found.iter().map(String::as_str);
        found.filter(|file| self.refused.is_some() && counts(file)).collect()
    }

    /// Returns why a program of this version is not known to honour `env`. An unknown version counts as too old.
    pub fn too_old(&self, version: Option<&Version>) -> Option<String> {
        let since = self.since.as_ref()?;
        let names: Vec<String> = self.env.keys().map(|name| format!("`{name}`")).collect();
        let names = names.join(" and ");
        match version {
            Some(version) if version >= since => None,
            Some(version) => Some(format!(
                "its version is {version}, and {names} is known to keep it from them since {since} only"
            )),
            None => Some(format!(
                "its version is unknown, and {names} is known to keep it from them since {since} only"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_may_count_for_some_files_only() {
        let reason = Some("it reads them".to_owned());
        let some =
            Repository { refused: reason, refused_for: vec![".env".to_owned()], ..Repository::default() };
        let found = ["app/.env", ".a/.env", ".a/settings.json", "my.env"].map(str::to_owned);
        assert_eq!(some.refused_files(&found), ["app/.env", ".a/.env"]);
        let all = Repository { refused_for: Vec::new(), ..some.clone() };
        assert_eq!(all.refused_files(&found).len(), found.len());
        let none = Repository { refused: None, ..some.clone() };
        assert!(none.refused_files(&found).is_empty());
        let with_args = |how: &Repository| Repository { args: vec!["--safe".to_owned()], ..how.clone() };
        assert!(with_args(&some).depends_on_program() && !with_args(&all).depends_on_program());
    }

    #[test]
    fn a_variable_counts_since_its_version() {
        let version = |text: &str| Version::parse(text).unwrap();
        let how = Repository {
            env: [("SAFE".to_owned(), "1".to_owned())].into(),
            since: Some(version("0.61.0")),
            ..Repository::default()
        };
        let too_old = |text: &str| how.too_old(Some(&version(text)));
        assert_eq!((too_old("0.61.0"), too_old("1.0.0")), (None, None));
        assert_eq!(
            too_old("0.60.9").as_deref(),
            Some("its version is 0.60.9, and `SAFE` is known to keep it from them since 0.61.0 only")
        );
        assert!(too_old("0.61.0-preview.2").is_some(), "a preview comes before its release");
        assert!(how.too_old(None).is_some_and(|reason| reason.starts_with("its version is unknown")));
        let other = Repository { since: None, ..how.clone() };
        assert_eq!((other.too_old(None), other.depends_on_program()), (None, false));
        assert!(how.depends_on_program());
        assert!(Repository { args: vec!["--safe".to_owned()], ..other }.depends_on_program());
    }
}
