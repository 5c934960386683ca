//! What is kept, for how long, and what damage does.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn said(text: &str) -> Answer {
    Answer { stdout: text.into(), code: Some(0), ..Answer::default() }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

struct CacheDir {
    dir: tempfile::TempDir,
    cache: Cache,
}

impl CacheDir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("deep/er/probes.json"));
        Self { dir, cache }
    }

    fn program(&self, name: &str, text: &str) -> Stamp {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Stamp::of(&path).unwrap()
    }
}

#[test]
fn an_answer_is_kept_for_a_day_and_for_its_file() {
    let place = CacheDir::new();
    let (one, other) = (place.program("one", "x"), place.program("other", "x"));
    let cache = &place.cache;
    cache.put(&one, &words("--version"), &said("1"), at(0)).unwrap();
    cache.put(&one, &words("--help"), &said("help"), at(10)).unwrap();
    cache.put(&other, &words("--version"), &said("2"), at(20)).unwrap();
    let get = |file: &Stamp, args: &str, now: i64| {
        cache.get(file, &words(args), at(now)).map(|(answer, at)| (answer.stdout, at.as_millis() / 1000))
    };
    assert_eq!(get(&one, "--version", 30), Some(("1".into(), 0)));
    assert_eq!(get(&one, "--help", 30), Some(("help".into(), 10)));
    assert_eq!(get(&other, "--version", 30), Some(("2".into(), 20)));
    assert_eq!(get(&one, "exec --help", 30), None);
    assert_eq!(get(&one, "--version", 24 * 60 * 60), None, "a day is over");
    assert_eq!(get(&one, "--version", -5), None, "the clock was set back");
    let bigger = place.program("one", "xy");
    assert_eq!(get(&bigger, "--version", 30), None, "another size");
    cache.put(&bigger, &words("--version"), &said("3"), at(30)).unwrap();
    assert_eq!(get(&one, "--version", 30), None, "the old file is forgotten");
    assert_eq!(get(&bigger, "--help", 30), None);
}

#[test]
fn a_file_of_the_same_size_and_time_is_another_file() {
    let place = CacheDir::new();
    let old = place.program("tool", "a");
    let path = place.dir.path().join("tool");
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    // As npm does it: a new file with the old time.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "b").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let new = Stamp::of(&path).unwrap();
    assert_eq!((old.size, old.mtime), (new.size, new.mtime));
    assert_ne!(old, new);
}

#[test]
fn damage_is_forgotten_and_repaired() {
    for damage in ["", "{", "[]", "{\"v\":99,\"programs\":[]}", "\u{0}\u{0}", "{\"v\":1,\"programs\":[{}]}"] {
        let place = CacheDir::new();
        let file = place.program("tool", "x");
        place.cache.put(&file, &words("--version"), &said("1"), at(0)).unwrap();
        std::fs::write(place.cache.path(), damage).unwrap();
        assert_eq!(place.cache.get(&file, &words("--version"), at(1)), None, "{damage:?}");
        place.cache.put(&file, &words("--version"), &said("2"), at(2)).unwrap();
        let (answer, _) = place.cache.get(&file, &words("--version"), at(3)).unwrap();
        assert_eq!(answer.stdout, "2");
    }
}

#[test]
fn many_writers_leave_a_whole_file() {
    let place = CacheDir::new();
    let files: Vec<Stamp> = (0..8).map(|number| place.program(&format!("tool-{number}"), "x")).collect();
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                for round in 0..20 {
                    place.cache.put(file, &words("--version"), &said(&"9".repeat(2000)), at(round)).unwrap();
                    let text = std::fs::read(place.cache.path()).unwrap();
                    serde_json::from_slice::<CacheFile>(&text).expect("never half of it");
                }
            });
        }
    });
    let left: Vec<_> = std::fs::read_dir(place.cache.path().parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn only_so_many_programs_are_remembered() {
    let place = CacheDir::new();
    let files: Vec<Stamp> =
        (0..MOST + 3).map(|number| place.program(&format!("tool-{number}"), "x")).collect();
    for file in &files {
        place.cache.put(file, &words("--version"), &said("1"), at(0)).unwrap();
    }
    assert_eq!(place.cache.read().programs.len(), MOST);
    assert_eq!(place.cache.get(&files[2], &words("--version"), at(1)), None);
    assert!(place.cache.get(&files[3], &words("--version"), at(1)).is_some());
}

#[test]
fn what_cannot_be_written_is_told() {
    let place = CacheDir::new();
    let file = place.program("tool", "x");
    let cache = Cache::at(place.dir.path().join("tool/probes.json"));
    assert!(cache.put(&file, &words("--version"), &said("1"), at(0)).is_err());
}
