//! The agent programs: which providers there are, which programs are installed, and what their accounts offer.

pub(crate) mod answer_cache;
pub mod auth;
pub(crate) mod available;
pub mod certificate;
pub(crate) mod command;
pub(crate) mod detect;
pub(crate) mod installed;
pub mod limits;
pub mod models;
pub(crate) mod profile;
pub mod roster;
