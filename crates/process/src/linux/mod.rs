//! Linux: the keeper and its parts, one file for each mechanism.
//!
//! `link` is the host's end and `keeper` the keeper's end of a socket that carries `wire` messages. The keeper starts children
//! with `fork`, tracks every `tree`, and ends trees by `cgroup` and by what `scan` reads in `/proc`. `early` starts a keeper
//! before it is needed; `before_main` lets an executed keeper begin before the host's `main`. `strays` ends what is left when a
//! keeper itself is gone. `ancestry` finds the keeper above a process, and `inotify` reports that a file was replaced.

pub(crate) mod ancestry;
pub(crate) mod before_main;
pub(crate) mod cgroup;
pub(crate) mod early;
pub(crate) mod fork;
pub(crate) mod inotify;
pub(crate) mod keeper;
pub(crate) mod link;
pub(crate) mod scan;
pub(crate) mod seclusion;
pub(crate) mod strays;
pub(crate) mod system;
pub(crate) mod tree;
pub(crate) mod wire;
