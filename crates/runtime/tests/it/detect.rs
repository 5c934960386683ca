//! Programs that are looked for and asked: scripts in the place of agents, in directories of their own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::PermissionMode;
use bowline::detect::{self, Ask, Cache, Found, FoundBy, MissingKind, ProbeErrorKind, Search};
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;
use bowline_providers::probe::check;
use bowline_testkit::write_program;
use libtest_mimic::Trial;

use crate::support::{is_alive, trial, wait_for};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("detect_finds_a_program_where_it_lies", where_it_lies),
        trial("detect_tells_why_there_is_none", why_there_is_none),
        trial("detect_follows_a_launcher", behind_a_launcher),
        trial("detect_asks_for_a_version", versions),
        trial("detect_ends_a_program_that_hangs", hangs),
        trial("detect_ends_what_a_program_leaves_behind", leaves_behind),
        trial("detect_tells_of_a_program_without_a_version", no_version),
        trial("detect_tells_of_a_program_that_does_not_start", does_not_start),
        trial("detect_asks_in_an_empty_home", empty_home),
        trial("detect_keeps_answers", keeps_answers),
        trial("detect_does_without_a_cache_that_cannot_be_written", no_room),
        trial("detect_probes_pages", pages),
        trial("detect_runs_what_it_finds", runs_what_it_finds),
    ]
}

/// A directory with programs in it.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a program. `$HERE` is the ground.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let here = self.dir.path().display();
        write_program(&path, format!("#!/bin/sh\nHERE='{here}'\n{body}\n"));
        path
    }

    /// Looks on a `PATH` of these directories, with the ground's `home`.
    fn search(&self, dirs: &[&str]) -> Search {
        let path = std::env::join_paths(dirs.iter().map(|dir| self.path(dir))).unwrap();
        Search { path, home: Some(self.path("home")), ..Search::default() }
    }

    fn cache(&self) -> Cache {
        Cache::at(self.path("cache/probes.json"))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn provider(name: &str) -> &'static Manifest {
    catalogue::by_name(name).expect("a provider")
}

/// Finds a program that is a script.
fn given(path: &Path) -> Found {
    detect::find(provider("gemini"), Some(path), &Search::default()).expect("it is there")
}

/// Asks without a cache. Long enough for any machine that is not broken.
fn patient() -> Ask {
    Ask { deadline: Duration::from_secs(60), cache: None, ..Ask::from_env() }
}

async fn where_it_lies() {
    let ground = Ground::new();
    let claude = provider("claude");
    let find =
        |dirs: &[&str]| detect::find(claude, None, &ground.search(dirs)).ok().map(|it| (it.path, it.how));
    assert_eq!(find(&["bin"]), None);
    // From the weakest place to the strongest; of the versions of Node.js, the newest.
    for (file, how) in [
        ("home/.nvm/versions/node/v9.11.0/bin/claude", FoundBy::Manager("nvm")),
        ("home/.nvm/versions/node/v22.1.0/bin/claude", FoundBy::Manager("nvm")),
        ("home/.bun/bin/claude", FoundBy::Manager("bun")),
        ("home/.claude/local/claude", FoundBy::Place),
        ("home/.local/bin/claude", FoundBy::Place),
        ("second/claude", FoundBy::Path),
        ("first/claude", FoundBy::Path),
    ] {
        let path = ground.script(file, "exit 0");
        assert_eq!(find(&["first", "second"]), Some((path, how)));
    }
    std::fs::remove_file(ground.path("first/claude")).unwrap();
    std::fs::write(ground.path("first/claude"), "").unwrap();
    assert_eq!(
        find(&["first", "second"]),
        Some((ground.path("second/claude"), FoundBy::Path)),
        "passed over"
    );

    let link = ground.path("link");
    std::os::unix::fs::symlink(ground.path("second/claude"), &link).unwrap();
    let found = detect::find(claude, Some(&link), &Search::default()).unwrap();
    assert_eq!((&found.path, found.how), (&link, FoundBy::Given));
    assert_eq!(found.real, ground.path("second/claude").canonicalize().unwrap());
    assert_eq!((found.native.as_deref(), found.program()), (None, link.as_path()));
    let by_name = detect::find(claude, Some(Path::new("claude")), &ground.search(&["second"])).unwrap();
    assert_eq!((by_name.path, by_name.how), (ground.path("second/claude"), FoundBy::Given));
}

async fn why_there_is_none() {
    let ground = Ground::new();
    let why = |binary: Option<&Path>| {
        let missing = detect::find(provider("codex"), binary, &ground.search(&["bin"])).unwrap_err();
        (missing.kind.clone(), missing.hint())
    };
    let (kind, hint) = why(None);
    assert_eq!(kind, MissingKind::Absent);
    assert!(
        hint.starts_with("install it with `npm install -g @openai/codex@latest`; see https://"),
        "{hint}"
    );
    assert!(hint.ends_with("; or set `binary`"), "{hint}");
    let nowhere = ground.path("nowhere");
    let (kind, hint) = why(Some(&nowhere));
    assert_eq!(
        (kind, hint),
        (MissingKind::NoSuchFile, format!("check `{}`, or set `binary`", nowhere.display()))
    );
    let file = ground.path("bin/codex");
    std::fs::create_dir_all(ground.path("bin")).unwrap();
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    for binary in [None, Some(file.as_path())] {
        let (kind, hint) = why(binary);
        assert_eq!(kind, MissingKind::NotExecutable { path: file.clone() });
        assert!(hint.starts_with("check `"), "{hint}");
    }
    let (kind, _) = why(Some(ground.dir.path()));
    assert_eq!(kind, MissingKind::NotExecutable { path: ground.dir.path().to_owned() }, "a directory");
}

async fn behind_a_launcher() {
    let codex = provider("codex");
    let native = codex.detect.native.as_ref().expect("it has one");
    let file = native.files(std::env::consts::OS, std::env::consts::ARCH).remove(0);
    let launcher = "node_modules/@openai/codex/bin/codex.js";
    let ground = Ground::new();
    ground.script(launcher, "exit 1");
    std::fs::write(ground.path("node_modules/@openai/codex/package.json"), "{}").unwrap();
    std::fs::create_dir_all(ground.path("bin")).unwrap();
    std::os::unix::fs::symlink(ground.path(launcher), ground.path("bin/codex")).unwrap();
    let find = || detect::find(codex, None, &ground.search(&["bin"])).unwrap();
    assert_eq!(find().native, None, "its package is not installed");
    assert_eq!(find().program(), ground.path("bin/codex"));
    // Beside the launcher's package, and then inside it, which Node.js prefers.
    for place in ["node_modules", "node_modules/@openai/codex/node_modules"] {
        let path = ground.script(&format!("{place}/{file}"), "exit 0");
        let found = find();
        assert_eq!(found.native.as_deref(), Some(path.canonicalize().unwrap().as_path()));
        assert_eq!(
            (found.program(), &found.path),
            (found.native.as_deref().unwrap(), &ground.path("bin/codex"))
        );
    }
    // What is no script is no launcher.
    write_program(&ground.path(launcher), "\u{7f}ELF, or so it says");
    assert_eq!(find().native, None);
    // A program whose manifest names none is started as it is.
    assert_eq!(
        detect::find(provider("gemini"), Some(&ground.path("bin/codex")), &Search::default()).unwrap().native,
        None
    );
}

async fn versions() {
    let ground = Ground::new();
    for (body, version) in [
        ("echo 1.2.3", "1.2.3"),
        ("echo 'tool 0.74.2' >&2", "0.74.2"),
        ("echo 'tool v2026.11.15'; exit 1", "2026.11.15"),
        ("[ \"$*\" = --version ] && echo 3.4", "3.4"),
        // It reads what is not there, and gets the end at once.
        ("read line; echo \"5.6.7$line\"", "5.6.7"),
    ] {
        let found = given(&ground.script("tool", body));
        assert_eq!(patient().version(&found).await.unwrap().to_string(), version, "{body}");
    }
}

async fn hangs() {
    let ground = Ground::new();
    let found = given(
        &ground.script("tool", "echo $$ >$HERE/pid; sleep 600 & echo $! >$HERE/child; echo 1.2.3; wait"),
    );
    let ask = Ask { deadline: Duration::from_millis(500), cache: Some(ground.cache()), ..patient() };
    let error = ask.version(&found).await.unwrap_err();
    assert!(matches!(error.kind, ProbeErrorKind::TooSlow { after } if after == ask.deadline), "{error:?}");
    assert_eq!(error.to_string(), format!("could not query `{} --version`", found.path.display()));
    assert_eq!(error.kind.to_string(), "it did not answer within 0.5 s, and was ended");
    for name in ["pid", "child"] {
        let text = ground.read(name);
        // On a busy machine the deadline may come before the script does anything.
        if let Ok(pid) = text.trim().parse() {
            wait_for("the end of it", || !is_alive(pid));
        }
    }
    assert!(!ground.cache().path().exists(), "nothing is kept of it");
}

async fn leaves_behind() {
    let ground = Ground::new();
    // A child in a session of its own that holds the output open.
    let found = given(&ground.script("tool", "setsid sleep 600 & echo $! >$HERE/child; echo 1.2.3"));
    assert_eq!(patient().version(&found).await.unwrap().to_string(), "1.2.3");
    let pid = ground.read("child").trim().parse().unwrap();
    wait_for("the end of the child", || !is_alive(pid));
}

async fn no_version() {
    let ground = Ground::new();
    for (body, words) in [
        ("printf 'hello\\n\\033[31mthere\\033[0m'", "it prints no version, but: hello"),
        ("exit 0", "it prints nothing where its version should be"),
        ("exit 3", "it prints no version, nor anything else, and exits with 3"),
        (
            "echo 'unknown option: --version' >&2; exit 2",
            "it prints no version and exits with 2: unknown option: --version",
        ),
    ] {
        let found = given(&ground.script("tool", body));
        let error = patient().version(&found).await.unwrap_err();
        assert!(matches!(error.kind, ProbeErrorKind::NoVersion { .. }), "{error:?}");
        let text = error.kind.to_string();
        assert!(text.starts_with(words) && !text.contains('\u{1b}'), "{text}");
    }
    let found = given(&ground.script("tool", "echo 1.2.3; kill -SEGV $$"));
    let error = patient().version(&found).await.unwrap_err();
    assert_eq!(error.kind.to_string(), "it was ended by SIGSEGV before it had answered");
}

async fn does_not_start() {
    let ground = Ground::new();
    let path = ground.path("tool");
    write_program(&path, "#!/no/such/interpreter\n");
    let error = patient().version(&given(&path)).await.unwrap_err();
    assert!(matches!(error.kind, ProbeErrorKind::Spawn(_)), "{error:?}");
    assert!(error.kind.to_string().contains("interpreter"), "{error:?}");
}

async fn empty_home() {
    let ground = Ground::new();
    let body = "env >$HERE/env; pwd >$HERE/cwd; ls -A >$HERE/ls; echo x >$HOME/settings; echo 1.2.3";
    let found = given(&ground.script("tool", body));
    patient().version(&found).await.unwrap();
    let env = ground.read("env");
    let home = env.lines().find_map(|line| line.strip_prefix("HOME=")).expect("a home").to_owned();
    assert!(home.contains("bowline-probe-"), "{home}");
    assert_eq!((ground.read("cwd").trim(), ground.read("ls").as_str()), (home.as_str(), ""));
    assert!(!Path::new(&home).exists(), "it goes with the question");
    assert!(env.contains("NO_COLOR=1") && env.contains("GEMINI_CLI_NO_RELAUNCH=true"), "{env}");
    let odd: Vec<&str> =
        env.lines().filter(|line| line.contains("_KEY=") || line.contains("TOKEN=")).collect();
    assert_eq!(odd, [] as [&str; 0]);
}

async fn keeps_answers() {
    let ground = Ground::new();
    let path = ground.script("tool", "echo x >>$HERE/asked; echo 1.2.3");
    let asked = || ground.read("asked").lines().count();
    let ask = Ask { cache: Some(ground.cache()), ..patient() };
    for _ in 0..3 {
        assert_eq!(ask.version(&given(&path)).await.unwrap().to_string(), "1.2.3");
        assert_eq!(asked(), 1);
    }
    // By another name it is the same file.
    std::os::unix::fs::symlink(&path, ground.path("link")).unwrap();
    ask.version(&given(&ground.path("link"))).await.unwrap();
    assert_eq!(asked(), 1);
    std::fs::remove_file(&path).unwrap();
    ground.script("tool", "echo x >>$HERE/asked; echo 1.2.4");
    assert_eq!(ask.version(&given(&path)).await.unwrap().to_string(), "1.2.4");
    assert_eq!(asked(), 2);
    std::fs::write(ground.cache().path(), "not JSON").unwrap();
    assert_eq!(ask.version(&given(&path)).await.unwrap().to_string(), "1.2.4");
    assert_eq!(asked(), 3);
    ask.version(&given(&path)).await.unwrap();
    assert_eq!(asked(), 3, "the damage is repaired");
    // What failed is asked again.
    std::fs::remove_file(&path).unwrap();
    ground.script("tool", "echo x >>$HERE/asked; echo 1.2.5; exit 1");
    for asks in [4, 5] {
        assert_eq!(ask.version(&given(&path)).await.unwrap().to_string(), "1.2.5");
        assert_eq!(asked(), asks);
    }
}

async fn no_room() {
    let ground = Ground::new();
    let path = ground.script("tool", "echo 1.2.3");
    let ask = Ask { cache: Some(Cache::at(ground.path("tool/probes.json"))), ..patient() };
    assert_eq!(ask.version(&given(&path)).await.unwrap().to_string(), "1.2.3");
}

async fn pages() {
    let ground = Ground::new();
    let body = r#"echo x >>$HERE/asked
case "$*" in
--version) echo 'codex-cli 9.9.9' ;;
--help) printf 'Commands:\n  exec  Run it\nOptions:\n  -h, --help  help\n' ;;
'exec --help') printf 'Options:\n  -m, --model <MODEL>  the model\n' >&2 ;;
esac"#;
    let manifest = provider("codex");
    let found = detect::find(manifest, Some(&ground.script("tool", body)), &Search::default()).unwrap();
    let ask = Ask { cache: Some(ground.cache()), ..patient() };
    let probe = ask.probe(&found).await.unwrap();
    assert_eq!(probe.version.to_string(), "9.9.9");
    let asked: Vec<&Vec<String>> = probe.pages.iter().map(|page| &page.args).collect();
    assert_eq!(asked, manifest.probe.pages.iter().collect::<Vec<_>>());
    assert!(probe.pages[0].help.subcommand("exec").is_some());
    assert_eq!(probe.pages[1].help.flag("-m").and_then(|it| it.value.clone()).unwrap().name, "MODEL");
    let findings: Vec<String> =
        check(manifest, &probe.pages, Some(&probe.version)).iter().map(ToString::to_string).collect();
    let json = "`--json` of `exec` is not in its help (the manifest relies on it in formats.stream-json)";
    assert!(findings.iter().any(|it| it == json), "{findings:?}");
    assert!(!findings.iter().any(|it| it.starts_with("`--model`")), "{findings:?}");
    let questions = manifest.probe.pages.len() + 1;
    assert_eq!(ground.read("asked").lines().count(), questions);
    assert_eq!(ask.probe(&found).await.unwrap(), probe, "from the cache, with the time of the first answer");
    assert_eq!(ground.read("asked").lines().count(), questions);
}

async fn runs_what_it_finds() {
    let ground = Ground::new();
    let native = provider("codex").detect.native.as_ref().unwrap();
    let file = native.files(std::env::consts::OS, std::env::consts::ARCH).remove(0);
    ground.script("node_modules/@openai/codex/bin/codex.js", "echo launcher >>$HERE/started; exit 1");
    std::fs::write(ground.path("node_modules/@openai/codex/package.json"), "{}").unwrap();
    ground.script(
        &format!("node_modules/{file}"),
        r#"echo native >>$HERE/started
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hello"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}'"#,
    );
    let world = bowline::testing::world();
    let task = world.task("hi").provider("codex").cwd(ground.dir.path()).permission(PermissionMode::Read);
    let task = task.binary(ground.path("node_modules/@openai/codex/bin/codex.js"));
    assert_eq!(task.answer().await.unwrap(), "hello");
    assert_eq!(ground.read("started"), "native\n");

    // By name: `PATH` and home of the run decide, and a program that is nowhere says how to come by it.
    let empty = OsString::from(ground.path("empty")).into_string().unwrap();
    let record = world
        .task("hi")
        .provider("codex")
        .env("PATH", &empty)
        .env("HOME", &empty)
        .cwd(ground.dir.path())
        .run()
        .await
        .unwrap();
    let hint = record.failure.and_then(|failure| failure.hint).unwrap();
    assert!(hint.contains("`npm install -g @openai/codex@latest`"), "{hint}");
}
