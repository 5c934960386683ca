//! Checks that the caller's async runtime has what this crate needs, before tokio would panic.

use std::panic::catch_unwind;
use std::time::Duration;

/// The part that the caller's tokio runtime lacks.
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

/// Checks that the caller runs in a tokio runtime with timers and IO.
///
/// Tokio does not report how a runtime was built; it panics where a part is missing. This function catches that panic, after
/// the program's panic hook has seen it. A program built with `panic = "abort"` cannot catch it and ends.
pub fn check_runtime() -> Result<(), RuntimeGap> {
    tokio::runtime::Handle::try_current().map_err(|_| RuntimeGap::NoRuntime)?;
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| RuntimeGap::NoTime)?;
    #[cfg(unix)]
    catch_unwind(|| {
        // The kernel refuses to watch `/dev/null`, so tokio registers nothing. The attempt alone shows whether the runtime has
        // IO.
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
    fn the_missing_part_is_named() {
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
