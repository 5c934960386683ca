//! Fake model APIs on loopback: agent command lines talk to them instead of a vendor, without an account.
//!
//! A [`Simulator`] serves Anthropic's Messages, OpenAI's Responses and chat completions, Google's `generateContent` and
//! Ollama's own API on one port. Scenarios ([`Scenario`]) define the answers. A request selects one by a
//! marker in its prompt, by its address or by a header. A ledger ([`LedgerEntry`]) has every request, so that a test can
//! check what a program sent, and whether it reports the served tokens.
//!
//! This crate does not know the programs that talk to it: each manifest defines how to point its program here.

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

pub use address::ApiOperation;
pub use apis::{Api, RequestImage, ResponseShape};
pub use ledger::{LedgerEntry, LedgerNews, RequestFacts, RequestOutcome, ScenarioChoice};
pub use pick::{PickedBy, SidePurpose};
pub use scenario::{FaultKind, Scenario, ScenarioError, ScenarioMistake, Usage};
pub use simulator::{NetworkReach, REFUSED, Simulator, SimulatorOptions, StartError, base_url};
