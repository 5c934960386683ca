//! Why a name leads to no provider.

use std::path::PathBuf;

use bowline_providers::manifest::Place;

use super::ManifestOrigin;

/// Why a provider cannot be had by its name.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// There is no provider of that name.
    #[error("there is no provider `{name}`{}", crate::system::suggest::in_words(nearest.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// The known name or alias that is most like it.
        nearest: Option<String>,
    },
    /// A user's manifest cannot be used.
    #[error("the manifest `{}` cannot be used: {place}, `{}`: {reason}", file.display(), place.text.trim())]
    Bad {
        /// The file.
        file: PathBuf,
        /// Where in it.
        place: Place,
        /// The problem.
        reason: String,
    },
    /// A user's manifest has a name that another provider has.
    #[error("the manifest `{}` takes the name `{name}`, which {} has already", file.display(), owner(first))]
    Taken {
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
        /// Whose the name is.
        first: ManifestOrigin,
    },
    /// A file or directory cannot be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

impl RosterError {
    /// Returns what to try.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { .. } => "`bowline providers` lists what there is".to_owned(),
            Self::Bad { .. } => "correct the file, or move it out of the directory".to_owned(),
            Self::Taken { first: ManifestOrigin::BuiltIn, .. } => {
                "to replace the built-in provider, give the manifest its name and `override = true`; else choose another name"
                    .to_owned()
            }
            Self::Taken { first: ManifestOrigin::File(_), .. } => "rename one of the two".to_owned(),
            Self::Read { .. } => "check that it can be read".to_owned(),
        }
    }
}

fn owner(first: &ManifestOrigin) -> String {
    match first {
        ManifestOrigin::BuiltIn => "a built-in provider".to_owned(),
        ManifestOrigin::File(path) => format!("`{}`", path.display()),
    }
}
