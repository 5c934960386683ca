//! Where a login is, and how a program reports on its account: the sections `[auth]` and `[ask]`.
//!
//! All of it is data. Bowline only checks whether a login exists. It never reads a file that holds one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ask::Subject;

/// Where a login comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// A description for people.
    pub about: String,
    /// The command that logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Environment variables of which one suffices.
    pub env: Vec<String>,
    /// Files of which one suffices, relative to the home directory.
    pub files: Vec<String>,
    /// Files and directories that only show that the program was used, relative to the home directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<String>,
    /// The directory that holds the program's settings and its login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<ConfigHome>,
    /// It needs no login.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub none: bool,
}

/// The directory of a program's settings, which a variable moves: another directory is another account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigHome {
    /// The variable.
    pub env: String,
    /// The default of the variable, relative to the home directory; empty is the home directory itself.
    #[serde(default)]
    pub dir: String,
}

impl Auth {
    /// Returns where a file of `files` or `traces` lies: below the directory of the settings if it belongs there and a
    /// variable has moved it, else below the home directory.
    ///
    /// ```
    /// # use bowline_providers::manifest::auth::{Auth, ConfigHome, LoginFile};
    /// let home = ConfigHome { env: "KNOT_HOME".into(), dir: ".knot".into() };
    /// let auth = Auth { home: Some(home), ..Auth::default() };
    /// assert_eq!(auth.place(".knot/auth.json"), LoginFile::Settings("auth.json"));
    /// assert_eq!(auth.place(".config/knot"), LoginFile::Home(".config/knot"));
    /// ```
    pub fn place<'a>(&self, file: &'a str) -> LoginFile<'a> {
        let Some(home) = &self.home else { return LoginFile::Home(file) };
        if home.dir.is_empty() {
            return LoginFile::Settings(file);
        }
        match file.strip_prefix(&home.dir).map(|rest| (rest, rest.strip_prefix('/'))) {
            Some(("", _)) => LoginFile::Settings(""),
            Some((_, Some(rest))) => LoginFile::Settings(rest),
            Some((_, None)) | None => LoginFile::Home(file),
        }
    }
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFile<'a> {
    /// Below the home directory.
    Home(&'a str),
    /// Below the directory of the program's settings.
    Settings(&'a str),
}

/// How to query a program about its account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asks {
    /// Whether the user is logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<Question>,
    /// The available models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Question>,
    /// The used part of the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Question>,
}

impl Asks {
    /// Returns the question about a subject.
    pub fn about(&self, subject: Subject) -> Option<&Question> {
        match subject {
            Subject::Login => self.login.as_ref(),
            Subject::Models => self.models.as_ref(),
            Subject::Limits => self.limits.as_ref(),
        }
    }

    /// Returns all questions.
    pub fn all(&self) -> impl Iterator<Item = (Subject, &Question)> {
        [Subject::Login, Subject::Models, Subject::Limits]
            .into_iter()
            .filter_map(|subject| Some((subject, self.about(subject)?)))
    }
}

/// One question to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// The arguments that it is started with. `{each}` is one of `each`.
    pub args: Vec<String>,
    /// It is asked once with each of these, until one answer is yes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<String>,
    /// Variables to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whose home directory it is asked in.
    pub home: AskedIn,
    /// The reader of the answer.
    pub reader: String,
}

/// Whose home directory a program is asked in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedIn {
    /// The user's: the answer depends on the login and the settings.
    #[default]
    Own,
    /// An empty one: the answer is in the program, and asking would leave something behind.
    Empty,
}
