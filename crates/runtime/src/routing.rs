//! Routing: chooses a provider, retries and falls back. Each attempt is a run.

mod execute;
pub mod route;
