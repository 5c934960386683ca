//! Fake model APIs on loopback: what agent command lines talk to when nobody has an account.
//!
//! A [`Simulator`] serves Anthropic's Messages, OpenAI's Responses and chat completions, Google's `generateContent` and
//! Ollama's own API on one port. What it answers is written in scenarios ([`Scenario`]), one of which a request picks by a
//! marker in its prompt, by its address or by a header. Every request is kept in a ledger ([`Entry`]), so that a test can
//! say what a program sent, and whether its account of tokens is what was served.
//!
//! It knows nothing of the programs that talk to it: how each is pointed here stands in its manifest.

mod address;
mod apis;
mod body;
mod ledger;
mod listing;
mod masked;
mod pick;
mod reply;
mod scenario;
mod serve;
mod simulator;

pub use address::Operation;
pub use apis::{Api, Image, Shape};
pub use ledger::{Choice, Entry, Facts, News, Outcome};
pub use pick::{PickedBy, Side};
pub use scenario::{FaultKind, Mistake, Scenario, ScenarioError, Usage};
pub use simulator::{Options, REFUSED, Reach, Simulator, StartError, base_url};
