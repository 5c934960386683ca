//! Every file of a session, cut at every byte of its last 64 KiB, is put in order, and the loss is told.

use std::collections::BTreeMap;
use std::path::Path;

use bowline::journal::{Home, Options, Repaired, repair};
use bowline_protocol::RawFile;

use super::checker::{Story, check, records};
use super::{Script, now};

const LAST: usize = 64 * 1024;
static ZEROS: [u8; 2 * LAST] = [0; 2 * LAST];

/// How many bytes each file has lost at its end.
#[derive(Clone, Copy, Debug)]
struct Cut {
    events: usize,
    index: usize,
    stdout: usize,
}

/// A session as its runner left it, and what is known of it at each place.
struct Original {
    events: Vec<u8>,
    index: Vec<u8>,
    stdout: Vec<u8>,
    meta: Vec<u8>,
    /// The end of each line of the events, and what the events up to there say.
    stories: Vec<(usize, Story)>,
    /// How many bytes of stdout each number of records covers.
    covered: Vec<u64>,
}

impl Original {
    fn read(dir: &Path) -> Self {
        let file = |name: &str| std::fs::read(dir.join(name)).expect("reads");
        let (events, index, stdout) = (file("events.jsonl"), file("io.index"), file("stdout.raw"));
        let mut stories = vec![(0, Story::default())];
        for line in events.split_inclusive(|byte| *byte == b'\n') {
            let (end, mut story) = stories.last().expect("is not empty").clone();
            story.line(&line[..line.len() - 1], &stdout).expect("the original is whole");
            stories.push((end + line.len(), story));
        }
        let (mut covered, mut all) = (vec![0], BTreeMap::new());
        for record in index[32..].chunks(32) {
            records(record, &mut all, &mut 0).expect("the original is whole");
            covered.push(all.get("stdout.raw").copied().unwrap_or(0));
        }
        Self { events, index, stdout, meta: file("session.json"), stories, covered }
    }

    /// Puts the session into a directory with its files cut, repairs it, and looks at what is there then.
    fn check(&self, dir: &Path, cut: Cut) -> Result<(), String> {
        let kept_events = &self.events[..self.events.len() - cut.events];
        let kept_index = &self.index[..self.index.len() - cut.index];
        let kept_stdout = &self.stdout[..self.stdout.len() - cut.stdout];
        let put = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("writes");
        put("session.json", &self.meta);
        put("events.jsonl", kept_events);
        put("io.index", kept_index);
        put("stdout.raw", kept_stdout);

        let report = repair(dir, now()).map_err(|error| format!("{error:?}"))?;

        let file = |name: &str| std::fs::read(dir.join(name)).expect("reads");
        let (events, index, stdout) = (file("events.jsonl"), file("io.index"), file("stdout.raw"));
        // Whole lines stay as they are; what follows them is new.
        let whole = self.stories.partition_point(|(end, _)| *end <= kept_events.len()) - 1;
        let (events_end, mut story) = self.stories[whole].clone();
        let added = events.strip_prefix(&self.events[..events_end]).ok_or("whole lines were changed")?;
        let reach = story.reach;
        for line in added.split_inclusive(|byte| *byte == b'\n') {
            story.line(line.strip_suffix(b"\n").ok_or("the last line has no end")?, &stdout)?;
        }
        story.is_over()?;
        // Whole records stay, and all bytes have one.
        let whole = (kept_index.len() / 32).saturating_sub(1);
        let (mut covered, mut recovered) = (BTreeMap::new(), 0);
        covered.insert("stdout.raw", self.covered[whole]);
        let added = index.strip_prefix(&self.index[..32 + whole * 32]).ok_or("whole records were changed")?;
        records(added, &mut covered, &mut recovered)?;
        if covered["stdout.raw"] != stdout.len() as u64 {
            return Err(format!("{} bytes have a record, {} are there", covered["stdout.raw"], stdout.len()));
        }
        // Raw bytes are never cut; what the others speak of and is gone reads as zeros.
        let known = self.covered[whole].max(reach).max(kept_stdout.len() as u64);
        let filled = stdout.strip_prefix(kept_stdout).ok_or("raw bytes were changed")?;
        if stdout.len() as u64 != known || filled != &ZEROS[..filled.len()] {
            return Err("the raw file is not what was left, filled to what is known".to_owned());
        }
        // A gap is told exactly when something was lost.
        let timeless = known > self.covered[whole];
        let torn = events_end != kept_events.len() || !kept_index.len().is_multiple_of(32);
        let lost = torn || timeless || !filled.is_empty();
        if story.gaps.len() != usize::from(lost) || report.has_gap() != lost {
            return Err(format!("lost: {lost}, told: {:?}, reported: {report:?}", story.gaps));
        }
        if (recovered > 0) != timeless {
            return Err(format!("{recovered} records have no time of their own"));
        }
        // Now and then, the slow questions.
        if (cut.events + cut.index + cut.stdout).is_multiple_of(61) {
            check(dir)?;
            if repair(dir, now()).map_err(|error| format!("{error:?}"))? != Repaired::default() {
                return Err("a second repair found something".to_owned());
            }
            if (file("events.jsonl"), file("io.index"), file("stdout.raw")) != (events, index, stdout) {
                return Err("a second repair changed something".to_owned());
            }
        }
        Ok(())
    }
}

/// A directory in memory, where there is one: the disk is not what is tested, and `fsync` would take most of the time.
fn scratch() -> (tempfile::TempDir, usize) {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => (dir, 1),
        Err(_) => {
            let every = 101;
            bowline_testkit::skip(
                "journal cuts",
                &format!("no /dev/shm: only one byte in {every} is cut at"),
            );
            (tempfile::tempdir().expect("a directory"), every)
        }
    }
}

/// A session with more than 64 KiB in each of its files.
fn original(scratch: &Path) -> Original {
    let mut script = Script::new(&Home::at(scratch.join("home")), "s-1", Options::default());
    script.start_turn();
    for round in 0..2060_usize {
        script.other(RawFile::Stdout, &b"some bytes that come in many pieces\n"[..1 + round % 35]);
        if round % 120 == 0 {
            // Small and large, with characters of several bytes, so that a cut falls into them too.
            let line =
                |number: usize| format!("{round}.{number} \u{e9}\u{1f511}{}", "x".repeat(number * 4200));
            script.lines(&[line(0), line(1)]);
        }
    }
    script.finish();
    script.writer.write_index().expect("writes");
    let original = Original::read(script.writer.dir());
    for file in [&original.events, &original.index, &original.stdout] {
        assert!((LAST..2 * LAST).contains(&file.len()), "{} bytes", file.len());
    }
    original
}

/// Tries all of these cuts, on all processors.
fn cut_all(scratch: &Path, original: &Original, cuts: &(impl Iterator<Item = Cut> + Clone + Send)) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (dir, cuts) = (scratch.join(format!("cut-{thread}")), cuts.clone());
            scope.spawn(move || {
                std::fs::create_dir(&dir).expect("creates");
                for cut in cuts.skip(thread).step_by(threads) {
                    if let Err(error) = original.check(&dir, cut) {
                        panic!("{cut:?}: {error}");
                    }
                }
            });
        }
    });
}

/// One repair for each byte of three files at once. There are 65,537 places, which is a prime: multiplying by anything
/// else gives each of them once, so that every file is cut everywhere and in ever different company.
#[test]
fn all_files_are_cut_at_every_byte() {
    let (scratch, every) = scratch();
    let original = original(scratch.path());
    let places = LAST + 1;
    let cut =
        |place: usize| Cut { events: place, index: place * 7919 % places, stdout: place * 104_729 % places };
    cut_all(scratch.path(), &original, &(0..places).step_by(every).map(cut));
}

#[test]
fn one_file_is_cut_and_the_others_are_whole() {
    let (scratch, every) = scratch();
    let original = original(scratch.path());
    let nothing = Cut { events: 0, index: 0, stdout: 0 };
    // All of the last bytes, and some of those before.
    let places = (0..700).chain((700..=LAST).step_by(211)).step_by(every);
    let cuts = places.flat_map(move |place| {
        [Cut { events: place, ..nothing }, Cut { index: place, ..nothing }, Cut { stdout: place, ..nothing }]
    });
    cut_all(scratch.path(), &original, &cuts);
}
