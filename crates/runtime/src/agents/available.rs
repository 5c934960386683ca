//! The providers that this machine can use: their programs are installed, and have a login.

use bowline_providers::catalogue;
use bowline_providers::manifest::{Chosen, Manifest};

use crate::agents::auth;
use crate::agents::detect::find;
use crate::agents::roster::Roster;
use crate::system::surroundings::Surroundings;

/// Returns the providers whose program is installed, the built-in ones first, without those that are only chosen by name. Takes
/// the user's manifests and the variables of this process.
pub fn installed() -> Vec<&'static Manifest> {
    installed_among(&Surroundings::from_env())
}

/// Returns the installed providers that have a login.
pub fn usable() -> Vec<&'static Manifest> {
    let surroundings = Surroundings::from_env();
    let has_login = |it: &&'static Manifest| auth::look(it, None, &surroundings).is_authenticated();
    installed_among(&surroundings).into_iter().filter(has_login).collect()
}

fn installed_among(surroundings: &Surroundings) -> Vec<&'static Manifest> {
    let search = surroundings.search();
    // Skip files that cannot be read: a call that names such a provider reports the error.
    let all = Roster::of(surroundings).all();
    let all = all.map(|(all, _)| all.into_iter().map(|entry| entry.manifest).collect());
    let all: Vec<&'static Manifest> = all.unwrap_or_else(|_| catalogue::built_in().collect());
    all.into_iter().filter(|it| it.chosen != Chosen::ByName && find(it, None, &search).is_ok()).collect()
}
