//! Where the files lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bowline::project;
use bowline::roster::Roster;

/// The name of the file with the settings.
const SETTINGS: &str = "bowline.toml";

/// The name of the file with the providers to choose from.
const ROUTER: &str = "router.yaml";

/// The name of the file with programs in the form of the specification for pi.
const EXTERNAL: &str = "cli-providers.json";

/// The names of the file with a policy.
const POLICIES: [&str; 3] = ["policy.json", "policy.yaml", "policy.yml"];

/// Where that specification itself has it, in the home directory.
const EXTERNAL_AT_HOME: &str = ".pi/agent/extensions/cli-providers/config.json";

/// Where files are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// A person's directory.
    pub user: Option<PathBuf>,
    /// The working directory, from which a project is looked for upwards.
    pub cwd: Option<PathBuf>,
    /// The home directory. A project does not lie at or above it.
    pub home: Option<PathBuf>,
}

impl Places {
    /// Returns whether a file is the user's own, and did not come with a project.
    pub fn are_own(&self, path: &Path) -> bool {
        self.user.as_ref().is_some_and(|dir| path.starts_with(dir))
    }

    /// Looks where this process would.
    #[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
    pub fn from_env(cwd: Option<&Path>) -> Self {
        let cwd = cwd.map(Path::to_owned).or_else(|| std::env::current_dir().ok());
        Self::from_variables(cwd, |name| std::env::var_os(name))
    }

    /// Looks where a process with these variables would.
    pub fn from_variables(cwd: Option<PathBuf>, get: impl Fn(&str) -> Option<OsString>) -> Self {
        // Without `..` and symbolic links, so that the directories above it are those that the kernel has.
        let cwd = cwd.map(|cwd| project::canonical(&cwd));
        // The XDG Base Directory Specification requires programs to ignore relative paths.
        let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let config = absolute("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
        Self { user: config.map(|config| config.join("bowline")), cwd, home }
    }

    /// Returns the user's policy, if there is one.
    pub fn user_policy(&self) -> Option<PathBuf> {
        let dir = self.user.as_ref()?;
        POLICIES.iter().map(|name| dir.join(name)).find(|path| path.exists())
    }

    /// Returns the project's policy, the nearest one.
    pub fn project_policy(&self) -> Option<PathBuf> {
        POLICIES.iter().find_map(|name| self.upwards(&[".bowline"], name))
    }

    /// Returns where a person's settings are, whether there are any or not.
    pub fn user_settings(&self) -> Option<PathBuf> {
        self.user.as_ref().map(|dir| dir.join(SETTINGS))
    }

    /// Returns the project's settings, if there are any.
    pub fn project_settings(&self) -> Option<PathBuf> {
        self.upwards(&[".bowline"], SETTINGS)
    }

    /// Returns where a project's settings would be made: in the working directory.
    pub fn new_project_settings(&self) -> Option<PathBuf> {
        self.cwd.as_ref().map(|cwd| cwd.join(".bowline").join(SETTINGS))
    }

    /// Returns the project's list of providers to choose from, the nearest one.
    pub fn project_router(&self) -> Option<PathBuf> {
        self.upwards(&[".bowline", ".specular"], ROUTER)
    }

    /// Returns the user's own list of providers to choose from, if there is one.
    pub fn user_router(&self) -> Option<PathBuf> {
        self.user.as_ref().map(|dir| dir.join(ROUTER)).filter(|path| path.exists())
    }

    /// Returns the project's programs in the form of the specification for pi, the nearest file.
    pub fn project_external(&self) -> Option<PathBuf> {
        self.upwards(&[".bowline"], EXTERNAL)
    }

    /// Returns the user's programs in the form of the specification for pi: in our place, else in that of the specification.
    pub fn user_external(&self) -> Option<PathBuf> {
        let user = self.user.as_ref().map(|dir| dir.join(EXTERNAL)).filter(|path| path.exists());
        let theirs = || self.home.as_ref().map(|home| home.join(EXTERNAL_AT_HOME));
        user.or_else(|| theirs().filter(|path| path.exists()))
    }

    /// Returns the directory of the project: the nearest one with a `.bowline` or a `.git`, else the working directory.
    pub fn project(&self) -> Option<PathBuf> {
        self.cwd.as_ref().map(|cwd| project::directory(cwd, self.home.as_deref()))
    }

    /// Returns the directories in which agents look for a repository's files: the working directory and all above it, but not
    /// the home directory, whose files are the user's own.
    pub(crate) fn repository_dirs(&self) -> Vec<PathBuf> {
        let above = |cwd: &PathBuf| project::directories_above(cwd, self.home.as_deref());
        self.cwd.as_ref().map(above).unwrap_or_default()
    }

    /// Returns the providers: the built-in ones, and those of the user's manifests.
    pub fn roster(&self) -> Roster {
        self.user.as_ref().map(|dir| Roster::at(dir.join("providers"))).unwrap_or_default()
    }

    fn upwards(&self, dirs: &[&str], file: &str) -> Option<PathBuf> {
        let above = self.repository_dirs();
        let mut files = above.iter().flat_map(|at| dirs.iter().map(move |dir| at.join(dir).join(file)));
        files.find(|path| path.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_counts_and_the_home_directory_is_no_project() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["home/.bowline", "home/project/.bowline", "home/project/deep/er", "home/other/.specular"]
        {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for path in [
            "home/.bowline/bowline.toml",
            "home/project/.bowline/bowline.toml",
            "home/other/.specular/router.yaml",
        ] {
            std::fs::write(at(path), "").unwrap();
        }
        let places =
            |cwd: &str| Places { user: Some(at("config")), cwd: Some(at(cwd)), home: Some(at("home")) };
        assert_eq!(
            places("home/project/deep/er").project_settings(),
            Some(at("home/project/.bowline/bowline.toml"))
        );
        assert_eq!(places("home/project/deep/er").project(), Some(at("home/project")));
        assert_eq!(places("home/other").project_settings(), None);
        assert_eq!(places("home/other").project_router(), Some(at("home/other/.specular/router.yaml")));
        assert_eq!(places("home").project_settings(), None);
    }

    #[test]
    fn variables_say_where_a_persons_files_are() {
        let user = |set: &[(&str, &str)]| {
            let get = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            Places::from_variables(None, get).user
        };
        assert_eq!(user(&[("HOME", "/h")]), Some("/h/.config/bowline".into()));
        assert_eq!(user(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]), Some("/c/bowline".into()));
        assert_eq!(user(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")]), Some("/h/.config/bowline".into()));
        assert_eq!(user(&[]), None);
    }
}
