//! Certificates on file.

use super::*;

#[test]
fn a_certificate_is_for_one_version_of_both_programs() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    assert_eq!(Certificate::read(&home, "pi", "1.5.0"), None);
    let green = Certificate::new("pi", "1.5.0", Timestamp::from_seconds(1), Vec::new());
    green.keep(&home).unwrap();
    assert_eq!(Certificate::read(&home, "pi", "v1.5.0"), Some(green.clone()));
    assert!(green.holds());
    assert_eq!(Certificate::read(&home, "pi", "1.5.1"), None, "another version");
    assert_eq!(Certificate::read(&home, "codex", "1.5.0"), None, "another program");
    let older = Certificate { bowline: "0.0.1".into(), ..green };
    older.keep(&home).unwrap();
    assert_eq!(Certificate::read(&home, "pi", "1.5.0"), None, "another Bowline");
    let red = Certificate::new("pi", "1.5.0", Timestamp::from_seconds(2), vec!["image".into()]);
    red.keep(&home).unwrap();
    assert!(!Certificate::read(&home, "pi", "1.5.0").unwrap().holds());
    // A name is no path, and a damaged file is nothing.
    Certificate::new("../x", "1", Timestamp::EPOCH, Vec::new()).keep(&home).unwrap();
    assert!(!dir.path().join("x.json").exists());
    std::fs::write(dir.path().join("certified/pi.json"), "{").unwrap();
    assert_eq!(Certificate::read(&home, "pi", "1.5.0"), None);
}
