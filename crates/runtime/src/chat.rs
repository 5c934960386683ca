//! Helpers for chat front ends: [`CommentaryFilter`] separates the answer from the words that accompany the work, and
//! [`Coalescer`] joins small pieces of text into portions that are worth a message.
//!
//! Both are pure: time is an argument, and all text that goes in comes out. A bot that sends the answer in portions:
//!
//! ```
//! # async fn example() -> Result<(), bowline::Error> {
//! use bowline::Kind;
//! use bowline::chat::{Coalescer, CommentaryFilter, Limits};
//!
//! let task = bowline::task("What does this repository do?").provider("claude");
//! # let task = task.script(bowline::testing::says("It ties knots.\n\nIt also unties them."));
//! let mut turn = task.start().await?;
//! let mut filter = CommentaryFilter::new(None);
//! let mut portions = Coalescer::new(Limits { min_chars: 10, ..Limits::default() });
//! let mut sent: Vec<String> = Vec::new();
//! while let Some(event) = turn.next().await {
//!     let at = event.at;
//!     for passed in filter.push(event) {
//!         if let (Kind::TextDelta(delta), false) = (&passed.event.kind, passed.commentary) {
//!             sent.extend(portions.feed(&delta.text, at));
//!         }
//!     }
//! }
//! sent.extend(portions.flush());
//! assert_eq!(sent, ["It ties knots.\n\n", "It also unties them."]);
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! [`CliService`](crate::service::CliService) uses both by itself.

pub use bowline_providers::chat::{Coalescer, CommentaryFilter, Limits, Passed};
