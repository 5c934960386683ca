//! `bowline completions`: the scripts in their shells, and what they offer.

use std::path::Path;

use crate::support::{shell, show};
use crate::world::World;

/// Runs a script in a shell that has the command on its PATH, and returns what it prints.
fn in_its_shell(program: &str, script: &str) -> Option<Vec<String>> {
    let bin = Path::new(env!("CARGO_BIN_EXE_bowline")).parent().expect("a folder");
    if !shell(&format!("command -v {program}"), bin).status.success() {
        bowline_testkit::skip("completions", &format!("there is no {program}"));
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("script");
    std::fs::write(&file, script).expect("written");
    let home = dir.path().display();
    let output = shell(&format!("HOME={home} XDG_CONFIG_HOME={home} {program} {}", file.display()), bin);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{program}: {stderr}");
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn bash_offers_what_there_is() {
    let typed = |words: &str, at: usize| {
        let script = format!(
            "source <(bowline completions bash)\nCOMP_WORDS=({words})\nCOMP_CWORD={at}\n_bowline\n\
             [ ${{#COMPREPLY[@]}} -eq 0 ] || printf '%s\\n' \"${{COMPREPLY[@]}}\"\n\
             complete -p bowline | grep -q -- '-F _bowline bowline' || echo 'not registered'\n"
        );
        in_its_shell("bash", &script).expect("bash is everywhere")
    };
    assert_eq!(typed("bowline run -p cl", 3), ["claude", "claude-acp"]);
    assert_eq!(typed("bowline run -p claude -m op", 5), ["opus"]);
    assert_eq!(typed("bowline ses", 1), ["sessions"]);
    assert_eq!(typed("bowline config set run.permission ''", 4), ["read", "ask", "edit", "yolo"]);
    // Bash takes the sign between a name and its value for a word.
    assert_eq!(typed("bowline run --permission = y", 4), ["yolo"]);
    assert!(typed("bowline run -C ''", 3).is_empty(), "files are the shell's own");
}

#[test]
fn zsh_offers_what_there_is() {
    let script = "_describe() { print -rl -- \"${(@)candidates}\" }\nsource <(bowline completions zsh)\n\
                  words=(bowline run -p cl)\nCURRENT=4\n_bowline\n";
    let Some(offered) = in_its_shell("zsh", script) else { return };
    assert_eq!(offered.len(), 2, "{offered:?}");
    assert!(offered[0].starts_with("claude:Claude"), "{offered:?}");
}

#[test]
fn fish_offers_what_there_is() {
    let script = "bowline completions fish | source\ncomplete -C 'bowline run -p cl'\n";
    let Some(offered) = in_its_shell("fish", script) else { return };
    assert_eq!(offered.len(), 2, "{offered:?}");
    assert!(offered[0].starts_with("claude\t"), "{offered:?}");
}

#[test]
fn sessions_and_keys_are_those_of_the_data_home_and_nothing_is_started() {
    let world = World::new();
    world.practice(&["say hi"]).with(&["--key", "chat-42"]).end().exits(0);
    let offered = |words: &[&str]| {
        let ended = world.bowline(&[&["__complete", "--"], words].concat()).end().exits(0);
        ended.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let session = world.journals_begun().pop().expect("a session");
    let session = session.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(offered(&["run", "--resume", "s-"]), std::slice::from_ref(&session));
    assert_eq!(offered(&["stop", ""]), [format!("@last\t{session}"), session]);
    assert_eq!(offered(&["sessions", "--key", "ch"]), ["chat-42"]);
    assert_eq!(world.journals_begun().len(), 1);
}

#[test]
fn nonsense_completes_to_nothing_and_is_no_error() {
    for words in
        [&["__complete"][..], &["__complete", "--", "nonsense", "x"], &["__complete", "--", "--", "-"]]
    {
        let text = show(words, "");
        assert!(text.starts_with("exit 0\n") && text.ends_with("--- stderr\n"), "{text}");
    }
}

#[test]
fn words_that_a_shell_would_expand_are_not_offered() {
    let world = World::new();
    let names =
        ["p-plain", "p-$(touch ran)", "p-`touch ran`", "p-*", "p-;x", "p-'x", "p-~", "p-[a]", "p-a b"];
    let entries: String = names.iter().map(|name| format!("  - {{name: {name:?}}}\n")).collect();
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("router.yaml"), format!("providers:\n{entries}")).expect("a file");
    let ended = world.bowline(&["__complete", "--", "run", "--provider", "p-"]).end().exits(0);
    assert_eq!(ended.stdout, "p-plain\tfrom router.yaml\n");
}

#[test]
fn bash_does_not_expand_what_is_offered() {
    let script = "bowline() { printf 'a*\\tabout\\nb c\\n'; }\ncd \"$HOME\" && touch ab ac\n\
                  source <(command bowline completions bash)\nCOMP_WORDS=(bowline x)\nCOMP_CWORD=1\n_bowline\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    assert_eq!(in_its_shell("bash", script).expect("bash is everywhere"), ["a*", "b c"]);
}
