//! The providers that this machine can use: their programs are installed, and have a login.

use bowline_providers::catalogue;
use bowline_providers::manifest::{Chosen, Manifest};

use crate::agents::detect::{Search, find};
use crate::agents::{auth, roster};
use crate::system::surroundings::Surroundings;

/// Returns the providers whose program is installed, the built-in ones first, without those that are only chosen by name.
pub fn installed() -> Vec<&'static Manifest> {
    let search = Search::from_env();
    // Skip files that cannot be read: a call that names such a provider reports the error.
    let all = roster::Roster::from_env()
        .all()
        .map(|(all, _)| all.into_iter().map(|entry| entry.manifest).collect());
    let all: Vec<&'static Manifest> = all.unwrap_or_else(|_| catalogue::built_in().collect());
    all.into_iter().filter(|it| it.chosen != Chosen::ByName && find(it, None, &search).is_ok()).collect()
}

/// Returns the installed providers that have a login.
pub fn usable() -> Vec<&'static Manifest> {
    let surroundings = Surroundings::from_env();
    let has_login = |it: &&'static Manifest| auth::look(it, None, &surroundings).is_authenticated();
    installed().into_iter().filter(has_login).collect()
}
