//! A step of the time of day while the command runs: a user or the time service sets the clock.
//!
//! The clock of a test machine cannot be set, and a time namespace has no time of day of its own. So the step is made where the
//! command reads the time of day: in the C library, by a small one that is loaded before it. All other clocks stay as they are.

use std::path::PathBuf;
use std::process::Stdio;

use crate::support::in_shell;
use crate::world::World;

/// Adds what a file says, in seconds, to the time of day.
const STEPPED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    const char *path = getenv("STEP_FILE");
    if (clock != CLOCK_REALTIME || !path) return result;
    FILE *file = fopen(path, "r");
    if (!file) return result;
    long seconds = 0;
    if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
    fclose(file);
    return result;
}
"#;

/// Builds the library.
fn stepped(world: &World) -> PathBuf {
    let (source, library) = (world.path("stepped.c"), world.path("stepped.so"));
    std::fs::write(&source, STEPPED).expect("a file");
    let mut cc = in_shell(r#"cc -shared -fPIC -O1 -o "$1" "$0" -ldl"#);
    let output = cc.arg(&source).arg(&library).stdin(Stdio::null()).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn a_step_of_the_clock_ends_no_run() {
    for seconds in [7200, -7200] {
        let world = World::new();
        let library = stepped(&world);
        let call = world
            .practice(&["say one", "sleep 2500ms", "say two"])
            .with(&["--timeout", "60s", "--idle-timeout", "30s", "-o", "json"])
            .env("LD_PRELOAD", &library)
            .env("STEP_FILE", world.path("step"));
        let running = call.start();
        running.says("one");
        std::fs::write(world.path("step.new"), seconds.to_string()).expect("a file");
        std::fs::rename(world.path("step.new"), world.path("step")).expect("a file");
        let ended = running.end().exits(0);
        let record = ended.json();
        assert_eq!(
            (&record["outcome"], &record["text"]),
            (&"completed".into(), &"one\ntwo".into()),
            "{record}"
        );
        let took = record["took_ms"].as_u64().expect("a time");
        assert!((2_500..60_000).contains(&took), "the run took {took} ms");
        // The step was seen: the events after it bear the other time.
        let journal = world.journal();
        let at = |text: &str| {
            let event = journal.events.iter().find(|it| it["kind"]["text"].as_str() == Some(text));
            let at = event.unwrap_or_else(|| panic!("`{text}` is not in the journal"))["at"].clone();
            at.as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time").as_second()
        };
        let moved = at("two") - at("one");
        assert!((moved - seconds).abs() < 60, "the clock moved by {moved} s");
    }
}
