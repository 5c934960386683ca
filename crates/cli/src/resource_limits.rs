//! Checks resource limits before a run: open files and threads.
//!
//! The async runtime panics if it cannot open files or start threads. This check reports limits that are too low before
//! anything starts.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

use crate::error::{CommandError, Fault};

/// Files that are open at once while one agent runs, beside the standard streams, with some to spare.
const FILES: usize = 20;

/// Threads that run at once: the run, the reader of the keeper, and two that may wait for a disk.
const THREADS: usize = 4;

/// Address space for each thread: its stack and its heap.
const STACK: usize = 8 << 20;

/// Limits above these are enough and are not tried: the trial would slow every short run.
const PLENTY: u64 = 256;
const PLENTY_OF_THREADS: u64 = 4096;

/// Returns an error if a limit is too low.
pub(crate) fn check() -> Result<(), CommandError> {
    // Any limit of the address space is tried: no number shows beforehand whether the stacks fit.
    let at_least = |resource, plenty| getrlimit(resource).current.is_none_or(|limit| limit >= plenty);
    if at_least(Resource::Nofile, PLENTY)
        && at_least(Resource::Nproc, PLENTY_OF_THREADS)
        && at_least(Resource::As, u64::MAX)
    {
        return Ok(());
    }
    files().map_err(|error| {
        CommandError::new(Fault::Configuration, format!("could not open {FILES} more files"))
            .caused_by(error)
            .hint("raise the limit with `ulimit -n 1024`, or pass fewer open files to this command")
    })?;
    threads().map_err(|error| {
        CommandError::new(Fault::Configuration, format!("could not start {THREADS} threads"))
            .caused_by(error)
            .hint(
                "raise the limits that `ulimit -u` and `ulimit -v` show, or stop other programs of this user",
            )
    })
}

fn files() -> io::Result<()> {
    let one = File::open("/dev/null")?;
    // dup(2) takes a descriptor as open(2) does, without the file system.
    let others: io::Result<Vec<File>> = (1..FILES).map(|_| one.try_clone()).collect();
    others.map(drop)
}

fn threads() -> io::Result<()> {
    // RLIMIT_NPROC counts threads that exist at the same time (getrlimit(2)). The lock keeps each one until all are started.
    let gate = Arc::new(Mutex::new(()));
    // No thread panics while it holds the lock.
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = || {
        let gate = gate.clone();
        std::thread::Builder::new().stack_size(STACK).spawn(move || drop(gate.lock()))
    };
    let mut begun = Vec::new();
    let failed = (0..THREADS).find_map(|_| waits().map(|thread| begun.push(thread)).err());
    // Before the joins: the threads wait for this lock.
    drop(closed);
    for thread in begun {
        // The thread does nothing that could panic.
        let _ = thread.join();
    }
    failed.map_or(Ok(()), Err)
}
