//! `bowline provider new`: what it writes, what it says, and that what it writes keeps the contract.

use std::path::Path;
use std::process::Command;

use bowline_testkit::skip;
use serde_json::Value;

use crate::world::World;

/// Puts a program through the suite and wants every cell green.
fn is_certified(world: &World, program: &str) {
    let ended = world.bowline(&["certify", "--json", "--executable", program]).end().exits(0);
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    let cells = report["cells"].as_array().expect("cells");
    assert!(cells.len() >= 15 && cells.iter().all(|cell| cell["status"] == "green"), "{report:#}");
}

#[test]
fn a_script_is_written_once_and_keeps_the_contract() {
    let world = World::new();
    for (lang, file) in [("sh", "my-model.sh"), ("python", "my-model.py")] {
        let python =
            ["/usr/local/bin", "/usr/bin", "/bin"].map(|dir| Path::new(dir).join("python3").exists());
        if lang == "python" && !python.contains(&true) {
            return skip("a_script_is_written_once_and_keeps_the_contract", "there is no python3 here");
        }
        let new = || world.bowline(&["provider", "new", "my-model", "--lang", lang]);
        let ended = new().end().exits(0);
        assert!(ended.stdout.starts_with(&format!("wrote ./{file}\n")), "{}", ended.stdout);
        let text = std::fs::read_to_string(world.path("work").join(file)).expect("it was written");
        assert!(text.contains("my-model") && !text.contains("minimal-provider"), "it has its own name");
        // What it says to do next works as it stands.
        for next in
            [format!("bowline run --executable ./{file} "), format!("bowline certify --executable ./{file}")]
        {
            assert!(ended.stdout.contains(&next), "{next}: {}", ended.stdout);
        }
        let run = ["run", "--executable", &format!("./{file}"), "Hello, world!"];
        assert_eq!(world.bowline(&run).end().exits(0).stdout.trim(), "You said: Hello, world!");
        is_certified(&world, &format!("./{file}"));
        let again = new().end().exits(2);
        assert!(again.stderr.contains("already exists"), "{}", again.stderr);
        let described = ended.stdout.split("providers/my-model.toml:\n").nth(1).expect("a file to write");
        let dir = world.path("work/.config/bowline/providers");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("my-model.toml"), described).expect("a file");
        assert_eq!(world.run("my-model", "hi").end().exits(0).stdout.trim(), "You said: hi");
    }
}

#[test]
fn a_project_in_rust_is_built_and_keeps_the_contract() {
    let world = World::new();
    let kit = concat!(env!("CARGO_MANIFEST_DIR"), "/../provider-kit");
    let ended =
        world.bowline(&["provider", "new", "my-model", "--lang", "rust", "--kit", kit]).end().exits(0);
    assert!(ended.stdout.contains("cargo build --manifest-path ./my-model/Cargo.toml"), "{}", ended.stdout);
    let project = world.path("work/my-model");
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    std::fs::copy(lock, project.join("Cargo.lock")).expect("the versions that are here");
    let target = Path::new(env!("CARGO_BIN_EXE_bowline")).with_file_name("provider-new");
    build(&project, &target);
    is_certified(&world, target.join("debug/my-model").to_str().expect("UTF-8"));
    world.bowline(&["provider", "new", "my-model", "--lang", "rust"]).end().exits(2);

    // A checkout is as good as the crate in it; who names neither is told that there is no other place yet.
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let new = |args: &[&str]| world.bowline(&["provider", "new", "--lang", "rust"]).with(args).end();
    let ended = new(&["other", "--kit", checkout]).exits(0);
    assert!(!ended.stdout.contains("on no registry"), "{}", ended.stdout);
    let read = |name: &str| {
        let text = std::fs::read_to_string(world.path("work").join(name).join("Cargo.toml")).expect("a file");
        text.replace(name, "NAME")
    };
    assert_eq!(read("other"), read("my-model"));
    let ended = new(&["third"]).exits(0);
    assert!(ended.stdout.contains("`bowline-provider` is not on the registry yet"), "{}", ended.stdout);
    new(&["fourth", "--kit", "."]).exits(2).tells(&["`--kit .` has no crate `bowline-provider`"]);
    assert!(!world.path("work/fourth").exists(), "nothing was written");
}

#[expect(clippy::disallowed_methods, reason = "what the command wrote is built as its user would build it")]
fn build(project: &Path, target: &Path) {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .current_dir(project)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("cargo is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

#[test]
fn what_cannot_be_written_is_said() {
    let world = World::new();
    let refused = |args: &[&str], why: &str| {
        let ended = world.bowline(&["provider", "new"]).with(args).end().exits(2);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    };
    refused(&["My Model", "--lang", "sh"], "cannot be the name of a provider");
    refused(&["../x", "--lang", "sh"], "cannot be the name of a provider");
    refused(&["x", "--lang", "cobol"], "possible values: rust, python, sh");
    refused(&["x", "--lang", "sh", "--kit", "."], "`--kit` applies to `--lang rust` only");
    assert_eq!(std::fs::read_dir(world.path("work")).expect("a directory").count(), 0, "nothing was written");
}

#[test]
fn a_red_cell_comes_with_its_evidence() {
    let world = World::new();
    let path = world.script("bad", "cat >/dev/null; echo '{}'");
    let path = path.to_str().expect("UTF-8");
    let ended = world
        .bowline(&["certify", "--executable", path, "--only", "generate", "--only", "unknown-command"])
        .end()
        .exits(1);
    assert!(ended.stdout.contains("red          generate"), "{}", ended.stdout);
    assert!(ended.stdout.contains("`content` is not a string"), "{}", ended.stdout);
    assert!(ended.stdout.contains("reported success with exit code 0"), "{}", ended.stdout);
    assert!(ended.stdout.contains("0 green, 2 red"), "{}", ended.stdout);
    let ended = world.bowline(&["certify", "--executable", path, "--only", "generat"]).end().exits(2);
    assert!(ended.stderr.contains("did you mean `generate`?"), "{}", ended.stderr);
    world.bowline(&["certify", "--executable", path, "--smoke"]).end().exits(2);
    let nowhere = world.bowline(&["certify", "--executable", "./nowhere"]).end().exits(4);
    assert_eq!(nowhere.stderr, "error: `--executable ./nowhere` does not exist\nhint: check the path\n");
    let ended = world.bowline(&["certify", "claude", "--set", "a=1"]).end().exits(2);
    assert!(ended.stderr.contains("apply to executable providers only"), "{}", ended.stderr);
}
