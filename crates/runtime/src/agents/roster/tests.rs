//! Which manifest a name leads to, and what is said of bad ones.

use super::*;

const AGENT: &str = r#"
name = "my-agent"
aliases = ["mine"]
program = "my-agent"
prompt = "stdin"
formats.text.dialect = "text"
"#;

struct ManifestDir(tempfile::TempDir);

impl ManifestDir {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        Self(dir)
    }

    fn roster(&self) -> Roster {
        Roster::at(self.0.path())
    }

    /// Looks a name up and returns the program, or all that the error says.
    fn find(&self, name: &str) -> String {
        match self.roster().find(name) {
            Ok(manifest) => manifest.program.clone(),
            Err(error) => error.to_string().replace(&self.0.path().display().to_string(), "DIR"),
        }
    }
}

#[test]
fn a_users_manifest_is_found_by_every_name() {
    let dir = ManifestDir::with(&[("a.toml", AGENT), ("notes.txt", "not a manifest")]);
    for name in ["my-agent", "My_Agent", "mine"] {
        assert_eq!(dir.find(name), "my-agent", "{name}");
    }
    assert_eq!(dir.find("practice"), "bowline", "the built-in ones are there");
    assert_eq!(dir.find("nobody"), "there is no provider `nobody`");
    assert_eq!(Roster::at("/nowhere/at/all").find("practice").map(|it| &*it.name).ok(), Some("practice"));
}

#[test]
fn what_may_be_left_out_is_filled_in() {
    let manifest = ManifestDir::with(&[("a.toml", AGENT)]).roster().find("mine").expect("it is there");
    assert_eq!((&*manifest.title, &*manifest.adapter_id), ("my-agent", "user.my-agent"));
    assert_eq!((&*manifest.default_format, &*manifest.default_model), ("text", "default"));
    assert_eq!(manifest.timeout, None);
}

#[test]
fn a_changed_file_counts_from_the_next_look_on() {
    let dir = ManifestDir::with(&[("a.toml", AGENT)]);
    let first = dir.roster().find("mine").expect("it is there");
    assert!(std::ptr::eq(first, dir.roster().find("mine").expect("it is there")), "kept once");
    let changed = AGENT.replace("program = \"my-agent\"", "program = \"./bin/other\"");
    std::fs::write(dir.0.path().join("a.toml"), changed).expect("a file");
    assert_eq!(dir.find("mine"), format!("{}/bin/other", dir.0.path().display()));
}

#[test]
fn a_built_in_provider_is_replaced_only_on_purpose() {
    let named = AGENT.replace("\"my-agent\"\na", "\"practice\"\na");
    let dir = ManifestDir::with(&[("p.toml", &named)]);
    assert_eq!(
        dir.find("practice"),
        "the manifest `DIR/p.toml` takes the name `practice`, which a built-in provider has already"
    );
    assert_eq!(dir.find("claude"), "claude", "others are not held up");
    let replaced = ManifestDir::with(&[("p.toml", &format!("override = true\n{named}"))]);
    assert_eq!(replaced.find("practice"), "my-agent");
    let (all, bad) = replaced.roster().all().expect("a list");
    let practice: Vec<_> = all.iter().filter(|entry| entry.manifest.name == "practice").collect();
    assert!(matches!(practice[..], [RosterEntry { origin: ManifestOrigin::File(_), .. }]), "{practice:?}");
    assert!(bad.is_empty(), "{bad:?}");
    let other = AGENT.replace("\"my-agent\"\na", "\"claude\"\na");
    let other = ManifestDir::with(&[("c.toml", &format!("override = true\n{other}"))]);
    assert_eq!(other.find("claude-code"), "my-agent", "also by the other names of the one that it replaces");
    let alias = AGENT.replace("mine", "claude-code");
    let dir = ManifestDir::with(&[("a.toml", &format!("override = true\n{alias}"))]);
    assert!(dir.find("my-agent").contains("takes the name `claude-code`"), "only its own name is replaced");
}

#[test]
fn two_files_cannot_have_one_name() {
    let dir = ManifestDir::with(&[
        ("a.toml", AGENT),
        ("b.toml", &AGENT.replace("name = \"my-agent\"", "name = \"b\"")),
    ]);
    assert_eq!(dir.find("mine"), "my-agent", "the first has it");
    assert_eq!(
        dir.find("b"),
        "the manifest `DIR/b.toml` takes the name `mine`, which `DIR/a.toml` has already"
    );
}

#[test]
fn a_bad_file_is_named_with_line_and_column_and_holds_up_nobody_else() {
    let check = |from: &str, to: &str, expect: &str| {
        let dir = ManifestDir::with(&[("a.toml", &AGENT.replace(from, to))]);
        assert_eq!(dir.find("my-agent"), expect);
        assert_eq!(dir.find("claude"), "claude", "others are not held up");
        assert_eq!(dir.roster().all().expect("a list").1.len(), 1);
    };
    let said = |place: &str, line: &str, why: &str| {
        format!("the manifest `DIR/a.toml` cannot be used: {place}, `{line}`: {why}")
    };
    check(
        "dialect = \"text\"",
        "dialect = \"txt\"",
        &said(
            "line 6, column 14",
            "formats.text.dialect = \"txt\"",
            "format `text` names the dialect `txt`, which does not exist",
        ),
    );
    let dir = ManifestDir::with(&[("a.toml", &AGENT.replace("program", "porgram"))]);
    let error = dir.find("my-agent");
    assert!(
        error.starts_with("the manifest `DIR/a.toml` cannot be used: line 4, column 1, `porgram"),
        "{error}"
    );
    assert!(error.contains("unknown field `porgram`"), "{error}");
    let dir = ManifestDir::with(&[("a.toml", "name = \"my-agent\nprogram = 1")]);
    assert!(dir.find("a").contains("line 1, column "), "{}", dir.find("a"));
    assert!(dir.find("nobody").contains("cannot be used"), "the name may be that of the bad file");
}

#[test]
fn a_name_is_a_word() {
    for name in ["", "a b", "a,b", "acp:x", "-x", "../x", "auto"] {
        let dir = ManifestDir::with(&[(
            "a.toml",
            &AGENT.replace("name = \"my-agent\"", &format!("name = \"{name}\"")),
        )]);
        assert!(dir.find("a").contains("`name`: "), "{name}: {}", dir.find("a"));
    }
}

#[test]
fn the_environment_says_where_manifests_are() {
    let check = |set: &[(&str, &str)], expected: Option<&str>| {
        let roster = Roster::of(&Surroundings::of(set.iter().copied()));
        assert_eq!(roster.dir, expected.map(PathBuf::from), "{set:?}");
    };
    check(&[("HOME", "/h")], Some("/h/.config/bowline/providers"));
    check(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], Some("/c/bowline/providers"));
    check(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")], Some("/h/.config/bowline/providers"));
    check(&[], None);
}
