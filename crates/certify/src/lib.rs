//! The contract suite: what Bowline promises about an agent program, tried on the program itself.
//!
//! A real program is started as any run starts it, in a home of its own, with made-up keys, and talks to the simulator
//! instead of a model. So it costs nothing, needs no account, and the same thing happens every time. What it sent and
//! what it was told stands in the simulator's ledger, so that a claim such as "the image arrives" or "the usage is
//! right" is checked at the other end and not believed.
//!
//! [`cases`] lists what is tried, [`certify`] tries it and gives a [`Report`], [`drift()`] compares two of them. A cell
//! of a report is green, red with evidence, *not claimed* (the manifest says that the program cannot do it, and why) or
//! *pending* (it needs a part of Bowline that is not there, or is a known fault; one that passes turns red, so that
//! nobody forgets it).
//!
//! [`executable`] is the suite for executable providers, which are asked as they are.
//!
//! Whoever calls this has cut the process off from the network and the user's environment
//! ([`seclusion`]). Nothing is printed here.

mod account;
mod case;
mod cases;
mod clock;
pub mod drift;
pub mod executable;
mod place;
mod report;
mod subject;
mod suite;
mod trouble;

pub use bowline_process::seclusion;
pub use case::{Case, Suite};
pub use cases::{all as cases, chosen};
pub use drift::drift;
pub use report::{Cell, FORMAT, Report, Status};
pub use subject::Subject;
pub use suite::{Keep, Plan, Progress, certify};
