//! What a command needs of the system before it begins to work: files that it may open, and threads.
//!
//! The async runtime takes both for granted and panics where it gets none. Who has set the limits too low is told so here,
//! before anything was begun.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

use crate::error::{CommandError, Fault};

/// How many files are open at once while one agent runs, beside the standard streams, with some to spare.
const FILES: usize = 20;

/// How many threads there are at once: the run, the reader of the keeper, and two that may wait for a disk.
const THREADS: usize = 4;

/// What each of them may need of the address space: not only its stack, but what it keeps.
const STACK: usize = 8 << 20;

/// Limits above these leave enough, and need not be tried: that would cost every short run.
const PLENTY: u64 = 256;
const PLENTY_OF_THREADS: u64 = 4096;

/// Finds out whether there is enough.
pub(crate) fn check() -> Result<(), CommandError> {
    let at_least = |resource, plenty| getrlimit(resource).current.is_none_or(|limit| limit >= plenty);
    if at_least(Resource::Nofile, PLENTY)
        && at_least(Resource::Nproc, PLENTY_OF_THREADS)
        && at_least(Resource::As, u64::MAX)
    {
        return Ok(());
    }
    files().map_err(|error| {
        CommandError::new(Fault::Configuration, format!("{FILES} more files cannot be opened at once"))
            .caused_by(error)
            .hint("raise the limit with `ulimit -n 1024`, or leave fewer files open for this command")
    })?;
    threads().map_err(|error| {
        CommandError::new(Fault::Configuration, format!("{THREADS} threads cannot be started"))
            .caused_by(error)
            .hint(
                "raise the limits that `ulimit -u` and `ulimit -v` show, or end other programs of this user",
            )
    })
}

fn files() -> io::Result<()> {
    let one = File::open("/dev/null")?;
    let others: io::Result<Vec<File>> = (1..FILES).map(|_| one.try_clone()).collect();
    others.map(drop)
}

fn threads() -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    // Nobody panics who holds it.
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = || {
        let gate = gate.clone();
        std::thread::Builder::new().stack_size(STACK).spawn(move || drop(gate.lock()))
    };
    let mut begun = Vec::new();
    let failed = (0..THREADS).find_map(|_| waits().map(|thread| begun.push(thread)).err());
    drop(closed);
    for thread in begun {
        // It does nothing that could panic.
        let _ = thread.join();
    }
    failed.map_or(Ok(()), Err)
}
