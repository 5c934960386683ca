//! Linux: the keeper and what it needs. One file for each mechanism.
//!
//! `link` is the host's end and `keeper` the keeper's end of a socket on which `wire` messages travel. The keeper
//! starts children with `fork`, keeps the account of every `tree`, and ends trees by `cgroup` and by what `scan` reads
//! in `/proc`. `early` starts a keeper before it is needed, `before_main` lets an
//! executed one begin before the host's `main`. `strays` is for what is left when a keeper itself is gone.

pub(crate) mod before_main;
pub(crate) mod cgroup;
pub(crate) mod early;
pub(crate) mod fork;
pub(crate) mod keeper;
pub(crate) mod link;
pub(crate) mod scan;
pub(crate) mod seclusion;
pub(crate) mod strays;
pub(crate) mod system;
pub(crate) mod tree;
pub(crate) mod wire;
