//! The kernel's reports about one file.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::unix::streams;

/// The reports about a file.
#[derive(Debug)]
pub(crate) struct Reports(Arc<AsyncFd<OwnedFd>>);

impl Reports {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // A bound socket holds a reference to its file, so the inode outlives an `unlink` and IN_DELETE_SELF does not come. The
        // changed number of links does come, as IN_ATTRIB (inotify(7)), also when a rename puts another file in its place.
        let gone = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        add_watch(&watch, path, gone | WatchFlags::DONT_FOLLOW)?;
        if let Some(dir) = path.parent() {
            let moved = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            add_watch(&watch, dir, moved | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)?;
        }
        Ok(Self(streams::register(watch, Interest::READABLE)?))
    }

    pub(crate) async fn next(&self) {
        // More than one report with the longest name, so that the kernel does not refuse the read (EINVAL).
        let mut reports = [0; 4096];
        loop {
            let Ok(mut ready) = self.0.readable().await else {
                // The runtime shuts down.
                return std::future::pending().await;
            };
            // An error other than "nothing there" is a reason to look, too. Reports that do not fit are read the next time.
            if ready.try_io(|watch| Ok(rustix::io::read(watch.get_ref(), &mut reports)?)).is_ok() {
                return;
            }
        }
    }
}
