//! The control socket of a live session: orders, snapshots, and a wake-up for each new event.
//!
//! The runner of a session listens on a Unix socket ([`place`] has its path) and passes requests to the owner of the session
//! ([`server::SessionRequest`]). Another process connects with [`client::SocketClient`]. Both sides send lines of JSON
//! ([`lines`]). Events are not sent: a watcher reads `events.jsonl` with a cursor of its own, and the socket only wakes it.
//!
//! A peer must have the runner's user id. A peer inside the process tree of an agent may watch and nothing else, because an agent
//! must not approve its own requests ([`rights`]). A client checks the runner, too: an agent can replace the socket.

mod build;
pub(crate) mod client;
mod connection;
pub(crate) mod lines;
pub(crate) mod place;
pub(crate) mod rights;
pub(crate) mod server;
#[cfg(test)]
mod tests;
