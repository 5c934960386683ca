//! What a call needs of the async runtime that it is made in, found out before tokio would panic.

use std::panic::catch_unwind;
use std::time::Duration;

/// What the tokio runtime of a caller lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeGap {
    /// The call was made outside of a tokio runtime.
    #[error("there is no tokio runtime: call this in one, such as under `#[tokio::main]`")]
    NoRuntime,
    /// The runtime was built without timers.
    #[error("the tokio runtime has no timers: build it with `enable_all`")]
    NoTime,
    /// The runtime was built without IO.
    #[error("the tokio runtime has no IO: build it with `enable_all`")]
    NoIo,
}

/// Finds out whether this is called in a tokio runtime that has timers and IO.
///
/// Tokio does not say what a runtime was built with, but panics where a part is missing. That panic is caught here, after the
/// program's panic hook has seen it. In a program that is built with `panic = "abort"` it cannot be caught, and ends the program.
pub fn check_runtime() -> Result<(), RuntimeGap> {
    tokio::runtime::Handle::try_current().map_err(|_| RuntimeGap::NoRuntime)?;
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| RuntimeGap::NoTime)?;
    #[cfg(unix)]
    catch_unwind(|| {
        // The kernel refuses to watch this file, so that nothing is registered; what counts is that the runtime tries.
        let file = std::fs::File::open("/dev/null");
        drop(file.map(|file| crate::streams::register(file.into(), tokio::io::Interest::READABLE)));
    })
    .map_err(|_| RuntimeGap::NoIo)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(check_runtime(), Err(RuntimeGap::NoRuntime));
        let check = |builder: &mut tokio::runtime::Builder, expected| {
            let runtime = builder.build().unwrap();
            assert_eq!(runtime.block_on(async { check_runtime() }), expected);
        };
        let plain = tokio::runtime::Builder::new_current_thread;
        check(&mut plain(), Err(RuntimeGap::NoTime));
        check(plain().enable_io(), Err(RuntimeGap::NoTime));
        check(plain().enable_time(), Err(RuntimeGap::NoIo));
        check(plain().enable_all(), Ok(()));
    }
}
