//! Programs that a test writes can be started at once, whatever other tests start at the same time.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_testkit::write_program;

#[test]
#[expect(clippy::disallowed_methods, reason = "the test starts what it wrote")]
fn a_written_program_is_never_busy() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (over, path) = (AtomicBool::new(false), dir.join("agent"));
    let outputs: Vec<_> = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    Command::new("/bin/true").status().expect("it starts");
                }
            });
        }
        let start = |turn: usize| {
            write_program(&path, format!("#!/bin/sh\necho {turn}\n"));
            Command::new(&path).output().map(|output| output.stdout)
        };
        let outputs = (0..100).map(start).collect();
        over.store(true, Ordering::Relaxed);
        outputs
    });
    for (turn, output) in outputs.into_iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(&output.expect("it starts")), format!("{turn}\n"));
    }
    std::fs::remove_dir_all(&dir).expect("the directory goes");
}
