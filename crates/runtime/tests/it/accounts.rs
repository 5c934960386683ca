//! Logins, models and limits: programs that answer as the recorded ones do, in homes of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::auth::{self, Auth, Binary, Evidence, Status};
use bowline::detect::{self, Ask, Cache, FoundBy, Surroundings};
use bowline::models::ListSource;
use bowline::{Profile, limits, models};
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;
use libtest_mimic::Trial;

use crate::support::{Stage, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("accounts_are_seen_by_files_and_variables", files_and_variables),
        trial("accounts_move_with_their_variable", moved),
        trial("accounts_are_told_by_the_program", own_word),
        trial("accounts_of_which_a_program_does_not_tell_are_seen", silent),
        trial("accounts_are_asked_about_once", asked_once),
        trial("a_replaced_program_is_asked_anew_whatever_its_time", same_time),
        trial("an_empty_file_is_no_login", an_empty_file_is_no_login),
        trial("models_are_kept_for_a_day_and_never_forgotten_for_nothing", kept_models),
        trial("models_of_a_manifest_do_where_nobody_tells", declared_models),
        trial("limits_are_asked_for_once_a_minute", limits_kept),
        trial("detect_looks_where_the_login_shell_would", login_shell),
        trial("detect_follows_managers_that_were_moved", moved_managers),
        trial("profiles_have_a_home_of_their_own", profiles),
    ]
}

/// An app server. `$ACCOUNT`, `$MODELS` and `$LIMITS` are what it answers with.
const APP_SERVER: &str = r#"
[ "$1" = app-server ] || exit 64
while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"method":"warming/up","params":{}}'; echo '{"id":0,"method":"their/own","params":{}}'; echo '{"id":1,"result":{}}' ;;
    *'account/read'*) echo asked >> "$HERE/account"; printf '{"id":2,"result":%s}\n' "$ACCOUNT" ;;
    *'model/list'*) echo asked >> "$HERE/models"; printf '{"id":2,"result":{"data":%s,"nextCursor":null}}\n' "$MODELS" ;;
    *'rateLimits/read'*) echo asked >> "$HERE/limits"; printf '{"id":2,%s}\n' "$LIMITS" ;;
    *-32601*) echo refused >> "$HERE/refused" ;;
  esac
done
"#;

/// A machine with programs in `bin` and a home.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
    extra: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("home")).unwrap();
        std::fs::create_dir_all(dir.path().join("bin")).unwrap();
        Self { dir, extra: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// Writes a program; `$HERE` is the machine.
    pub(crate) fn program(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!("#!/bin/sh\nHERE='{}'\n{body}\n", self.dir.path().display());
        bowline_testkit::write_program(&path, text);
        path
    }

    pub(crate) fn file(&self, name: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "never read").unwrap();
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let own = [
            ("HOME".to_owned(), text(self.path("home"))),
            ("PATH".to_owned(), format!("{}:/usr/bin:/bin", text(self.path("bin")))),
            ("BOWLINE_HOME".to_owned(), text(self.path("data"))),
        ];
        Surroundings::of(own.into_iter().chain(self.extra.clone()))
    }

    pub(crate) fn ask(&self) -> Ask {
        Ask { deadline: Duration::from_secs(60), cache: Cache::of(&self.surroundings()), ..Ask::from_env() }
    }

    fn look(&self, name: &str) -> Auth {
        auth::look(provider(name), None, &self.surroundings())
    }

    async fn check(&self, name: &str) -> Auth {
        auth::check(provider(name), None, &self.surroundings(), &self.ask()).await
    }

    /// Counts how often something was asked for.
    fn count(&self, name: &str) -> usize {
        std::fs::read_to_string(self.path(name)).unwrap_or_default().lines().count()
    }
}

fn provider(name: &str) -> &'static Manifest {
    catalogue::by_name(name).expect("a provider")
}

async fn files_and_variables() {
    // Nothing, then a trace, then the program, then a login: for every provider that has such a thing.
    for manifest in catalogue::built_in().filter(|manifest| !manifest.auth.none) {
        let (name, auth) = (manifest.name.as_str(), &manifest.auth);
        let machine = Machine::new();
        let nothing = machine.look(name);
        assert_eq!((nothing.status, nothing.binary), (Status::NotFound, Binary::Absent), "{name}");
        if let Some(trace) = auth.traces.first() {
            machine.file(&format!("home/{trace}/x"));
            let seen = machine.look(name);
            assert_eq!((seen.status, seen.binary), (Status::Installed, Binary::Absent), "{name}");
            assert_eq!(seen.evidence, [Evidence::Trace(machine.path(&format!("home/{trace}")))], "{name}");
        }
        machine.program(&format!("bin/{}", manifest.program), "exit 0");
        let installed = machine.look(name);
        assert_eq!((installed.status, installed.binary), (Status::Installed, Binary::Found), "{name}");
        for file in &auth.files {
            let machine = Machine::new();
            machine.file(&format!("home/{file}"));
            let seen = machine.look(name);
            assert_eq!((seen.status, seen.verified), (Status::Authenticated, false), "{name}: {file}");
            assert_eq!(seen.evidence, [Evidence::File(machine.path(&format!("home/{file}")))], "{name}");
        }
        for variable in &auth.env {
            let status = |value: &str| Machine::new().with(variable, value).look(name).status;
            assert_eq!(status("made-up"), Status::Authenticated, "{name}: {variable}");
            for nothing in ["", "  ", "none", "None", "NULL", "false", "0"] {
                assert_eq!(status(nothing), Status::NotFound, "{name}: {variable}={nothing:?}");
            }
        }
    }
    for (name, variable) in [
        ("glm", "ZAI_API_KEY"),
        ("grok", "XAI_API_KEY"),
        ("qwen", "DASHSCOPE_API_KEY"),
        ("gemini", "GOOGLE_API_KEY"),
        ("gemini", "GOOGLE_GENAI_USE_VERTEXAI"),
    ] {
        assert!(provider(name).auth.env.iter().any(|it| it == variable), "{name}: {variable}");
    }
}

async fn moved() {
    let machine = Machine::new();
    let elsewhere = machine.path("elsewhere").to_str().unwrap().to_owned();
    let machine = machine.with("CODEX_HOME", elsewhere.clone()).with("CLAUDE_CONFIG_DIR", elsewhere);
    machine.file("home/.codex/auth.json");
    machine.file("home/.claude/.credentials.json");
    assert_eq!(machine.look("codex").status, Status::NotFound, "that is another account");
    assert_eq!(machine.look("claude").status, Status::NotFound);
    machine.file("elsewhere/version.json");
    assert_eq!(machine.look("codex").status, Status::Installed);
    machine.file("elsewhere/auth.json");
    machine.file("elsewhere/.credentials.json");
    assert_eq!(machine.look("codex").status, Status::Authenticated);
    let file = Evidence::File(machine.path("elsewhere/.credentials.json"));
    assert_eq!(machine.look("claude").evidence, [file]);
}

async fn own_word() {
    let machine = Machine::new();
    machine.file("home/.claude/.credentials.json");
    let answers = |logged_in: bool, method: &str| {
        format!(
            r#"[ "$1 $2" = "auth status" ] || exit 64
               printf '{{"loggedIn":{logged_in},"authMethod":"{method}","subscriptionType":null}}'
               [ {logged_in} = true ]"#
        )
    };
    machine.program("bin/claude", &answers(false, "none"));
    let auth = machine.check("claude").await;
    assert_eq!(
        (auth.status, auth.verified),
        (Status::Installed, false),
        "the program says that the file is nothing"
    );
    machine.program("bin/claude", &answers(true, "claude.ai"));
    let auth = machine.check("claude").await;
    assert_eq!((auth.status, auth.verified), (Status::Authenticated, true));
    assert_eq!(auth.word.and_then(|word| word.method).as_deref(), Some("claude.ai"));
    assert_eq!(auth.evidence.last(), Some(&Evidence::Word));

    // A key in the environment counts, though the app server looks at its file alone.
    let none = r#"ACCOUNT='{"account":null,"requiresOpenaiAuth":true}'"#;
    let machine = Machine::new().with("CODEX_API_KEY", "made-up");
    machine.program("bin/codex", &format!("{none}\n{APP_SERVER}"));
    let auth = machine.check("codex").await;
    assert_eq!((auth.status, auth.verified), (Status::Authenticated, false));
    assert_eq!(machine.count("refused"), 1, "what it asked was answered");
}

async fn silent() {
    let machine = Machine::new().with("ANTHROPIC_API_KEY", "made-up");
    machine.program("bin/claude", "echo 'error: unknown command' >&2; exit 1");
    let auth = machine.check("claude").await;
    assert_eq!((auth.status, auth.verified), (Status::Authenticated, false));
    assert_eq!(auth.silent.as_deref(), Some("its response has no readable login"));

    machine.program("bin/codex", "echo 'panicked: no config' >&2; exit 101");
    let auth = machine.check("codex").await;
    assert_eq!(auth.silent.as_deref(), Some("it ended before it had answered: panicked: no config"));

    machine.program("bin/claude", "sleep 600");
    let ask = Ask { deadline: Duration::from_millis(300), cache: None, ..Ask::from_env() };
    let auth = auth::check(provider("claude"), None, &machine.surroundings(), &ask).await;
    assert_eq!(auth.silent.as_deref(), Some("it did not answer within 0.3 s, and was ended"));

    // One provider of models at a time: a no to all of them is no answer, a yes to one is.
    let check = |yes: &str| {
        format!(
            r#"[ "$1 $2 $3" = "auth check --provider" ] || exit 64
               echo "$4" >> "$HERE/asked"
               [ "$4" = {yes} ] && exec echo '{{"status":"ready","provider":"'"$4"'","authType":"api_key"}}'
               echo '{{"status":"not_ready","provider":"'"$4"'"}}'; exit 1"#
        )
    };
    machine.program("bin/pi", &check("nobody"));
    let auth = machine.check("pi").await;
    assert_eq!(
        auth.silent.as_deref(),
        Some("no credentials for anthropic, openai and google; the program does not report other logins")
    );
    assert_eq!(machine.count("asked"), 3);
    machine.program("bin/pi", &check("openai"));
    let auth = machine.check("pi").await;
    assert_eq!(auth.word.and_then(|word| word.method).as_deref(), Some("openai, api key"));
    assert_eq!((auth.verified, machine.count("asked")), (true, 5));

    // Where there is no sign of a login, one no is enough, and it is good for a while; a sign is news.
    let machine = Machine::new();
    machine.program("bin/pi", &check("nobody"));
    for _ in 0..2 {
        let auth = machine.check("pi").await;
        assert_eq!(
            auth.silent.as_deref(),
            Some("no credentials for anthropic; the program does not report other logins")
        );
    }
    assert_eq!(machine.count("asked"), 1);
    machine.file("home/.pi/agent/auth.json");
    machine.check("pi").await;
    assert_eq!(machine.count("asked"), 4);

    // What it leaves behind when it is asked is no news.
    let machine = Machine::new();
    machine.program("bin/pi", &format!("mkdir -p \"$HOME/.pi/agent\"\n{}", check("nobody")));
    for _ in 0..2 {
        machine.check("pi").await;
    }
    assert_eq!(machine.count("asked"), 1);

    // That it was too slow says nothing about the next time.
    let machine = Machine::new();
    machine.program("bin/claude", "echo x >> \"$HERE/asked\"; sleep 600");
    for _ in 0..2 {
        let ask = Ask { deadline: Duration::from_millis(300), ..machine.ask() };
        auth::check(provider("claude"), None, &machine.surroundings(), &ask).await;
    }
    assert_eq!(machine.count("asked"), 2);
}

async fn an_empty_file_is_no_login() {
    let machine = Machine::new();
    machine.program("bin/pi", "exit 3");
    let file = machine.path("home/.pi/agent/auth.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for empty in ["", "{}", "{}\n", "null\n", "[ ]\n"] {
        std::fs::write(&file, empty).unwrap();
        assert_eq!(machine.look("pi").status, Status::Installed, "{empty:?}");
    }
    std::fs::write(&file, r#"{"anthropic":{"type":"api_key"}}"#).unwrap();
    assert_eq!(machine.look("pi").status, Status::Authenticated);
}

async fn asked_once() {
    let machine = Machine::new();
    let account = r#"ACCOUNT='{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}'"#;
    machine.program("bin/codex", &format!("{account}\n{APP_SERVER}"));
    for _ in 0..3 {
        assert!(machine.check("codex").await.verified);
    }
    assert_eq!(machine.count("account"), 1);
    machine.file("home/.codex/auth.json");
    assert!(machine.check("codex").await.verified);
    assert_eq!(machine.count("account"), 2, "what can be seen has changed");
}

/// npm gives every file of every release the same time of change, and the kernel gives it to files of the same tick.
async fn same_time() {
    let machine = Machine::new();
    let replace = |account: &str, model: &str| {
        let texts = format!(
            r#"ACCOUNT='{{"account":{account},"requiresOpenaiAuth":true}}'; MODELS='[{{"id":"{model}"}}]'"#
        );
        let path = machine.program("bin/codex", &format!("{texts}\n{APP_SERVER}"));
        let file = std::fs::File::open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(499_162_500)).unwrap();
    };
    let models =
        || async { models::of(provider("codex"), None, &machine.surroundings(), &machine.ask()).await };
    replace("null", "one");
    assert!(!machine.check("codex").await.verified);
    assert_eq!(models().await.models[0].id, "one");
    replace(r#"{"type":"apiKey"}"#, "two");
    assert!(machine.check("codex").await.verified, "the word of the other program is not this one's");
    assert_eq!(models().await.models[0].id, "two", "nor are its models");
}

async fn kept_models() {
    let machine = Machine::new();
    let server = |models: &str| {
        machine.program("bin/codex", &format!("MODELS='{models}'\n{APP_SERVER}"));
    };
    let of = || async { models::of(provider("codex"), None, &machine.surroundings(), &machine.ask()).await };
    let nowhere = of().await;
    assert_eq!(
        (nowhere.source, nowhere.models.len()),
        (ListSource::Manifest, 0),
        "there is no list of our own"
    );
    assert!(nowhere.trouble.is_some_and(|why| why.contains("is not installed")));

    server(r#"[{"id":"one","supportedReasoningEfforts":[{"reasoningEffort":"low"}],"isDefault":true}]"#);
    for _ in 0..2 {
        let told = of().await;
        assert_eq!((told.source, told.trouble), (ListSource::Program, None));
        assert_eq!(
            (told.models[0].id.as_str(), &told.models[0].efforts[..]),
            ("one", &["low".to_owned()][..])
        );
    }
    assert_eq!(machine.count("models"), 1, "asked once");

    // Another program: it is asked again, and has nothing to say.
    server("[]");
    let told = of().await;
    assert_eq!((told.source, told.models.len()), (ListSource::Kept, 1));
    assert_eq!(told.trouble.as_deref(), Some("it listed no models"));
    machine.program("bin/codex", "exit 1");
    assert_eq!(of().await.models[0].id, "one");
    server(r#"[{"id":"two"}]"#);
    let told = of().await;
    assert_eq!((told.source, told.models[0].id.as_str()), (ListSource::Program, "two"));
    assert_eq!(machine.count("models"), 3);
}

async fn declared_models() {
    let machine = Machine::new();
    let of = |name: &'static str| {
        let (surroundings, ask) = (machine.surroundings(), machine.ask());
        async move { models::of(provider(name), None, &surroundings, &ask).await }
    };
    let claude = of("claude").await;
    assert_eq!(claude.source, ListSource::Manifest);
    assert!(claude.models.iter().all(|model| model.alias_of.is_some()), "{:?}", claude.models);
    assert_eq!(of("glm").await.models, []);
    machine.program("bin/opencode", "[ \"$1\" = models ] && printf 'a/one\\na/two\\n'");
    let told: Vec<String> = of("opencode").await.models.into_iter().map(|model| model.id).collect();
    assert_eq!(told, ["a/one", "a/two"]);
}

async fn limits_kept() {
    let machine = Machine::new();
    let server = |answer: &str| {
        machine.program("bin/codex", &format!("LIMITS='{answer}'\n{APP_SERVER}"));
    };
    let of = || async { limits::of(provider("codex"), None, &machine.surroundings(), &machine.ask()).await };
    assert!(of().await.trouble.is_some_and(|why| why.contains("is not installed")));
    let window = r#"{"usedPercent":100,"windowDurationMins":300,"resetsAt":1794735906}"#;
    server(&format!(
        r#""result":{{"rateLimits":{{"planType":"plus","primary":{window},"secondary":null}}}}"#
    ));
    for _ in 0..2 {
        let told = of().await;
        assert_eq!(
            (told.plan.as_deref(), told.windows.len(), told.trouble.as_deref()),
            (Some("plus"), 1, None)
        );
        assert_eq!(told.exhausted_until(), "2026-11-15T09:45:06Z".parse().ok());
    }
    assert_eq!(machine.count("limits"), 1);
    let other = Machine::new();
    other.program("bin/codex", &format!("LIMITS='\"error\":{{\"message\":\"log in first\"}}'\n{APP_SERVER}"));
    for _ in 0..2 {
        let told = limits::of(provider("codex"), None, &other.surroundings(), &other.ask()).await;
        assert_eq!(told.trouble.as_deref(), Some("log in first"));
    }
    assert_eq!(other.count("limits"), 1, "a refusal is good for a minute too");
    let none = limits::of(provider("glm"), None, &other.surroundings(), &other.ask()).await;
    assert_eq!(none.trouble.as_deref(), Some("it does not report limits"));
}

async fn login_shell() {
    let machine = Machine::new();
    let shell = machine.program(
        "shell",
        r#"echo "$*" >> "$HERE/shell-asked"; echo 'Welcome!'; echo "PATH=$HERE/rc-bin:/usr/bin:/bin""#,
    );
    let machine = machine.with("SHELL", shell.to_str().unwrap());
    let find = |name: &'static str| {
        let surroundings = machine.surroundings();
        async move { detect::find_anywhere(provider(name), None, &surroundings).await.map(|it| (it.path, it.how)) }
    };
    assert!(find("gemini").await.is_err());
    let program = machine.program("rc-bin/gemini", "exit 0");
    assert_eq!(find("gemini").await.unwrap(), (program, FoundBy::LoginShell));
    assert_eq!(machine.count("shell-asked"), 1, "asked once");
    assert_eq!(std::fs::read_to_string(machine.path("shell-asked")).unwrap().trim(), "-l -c env");
    let nearer = machine.program("bin/gemini", "exit 0");
    assert_eq!(find("gemini").await.unwrap(), (nearer, FoundBy::Path));

    // One that hangs is not waited for longer than it takes to notice.
    let slow = Machine::new();
    let shell = slow.program("shell", "sleep 600");
    let slow = slow.with("SHELL", shell.to_str().unwrap());
    let surroundings = slow.surroundings();
    let found = detect::find_anywhere(provider("gemini"), None, &surroundings);
    assert!(tokio::time::timeout(Duration::from_secs(30), found).await.expect("two seconds").is_err());
}

async fn moved_managers() {
    let machine = Machine::new();
    for (variable, dir, file, manager) in [
        ("NVM_DIR", "nvm", "nvm/versions/node/v22.0.0/bin/qwen", "nvm"),
        ("PNPM_HOME", "pnpm", "pnpm/qwen", "pnpm"),
        ("VOLTA_HOME", "volta", "volta/bin/qwen", "volta"),
    ] {
        let program = machine.program(file, "exit 0");
        let moved = machine.path(dir);
        let home = machine.path("home");
        let surroundings = Surroundings::of([("HOME", home.as_path()), (variable, moved.as_path())]);
        let found = detect::find(provider("qwen"), None, &surroundings.search()).unwrap();
        assert_eq!((found.path, found.how), (program, FoundBy::Manager(manager)));
    }
}

async fn profiles() {
    let stage = Stage::new(r#"init; say m1 "$CLAUDE_CONFIG_DIR"; result "$CLAUDE_CONFIG_DIR""#);
    let profile = |provider: &str, home: &Path| Profile {
        name: "work".into(),
        provider: provider.into(),
        home: home.to_owned(),
    };
    let home = stage.path("work-home");
    let record = stage.task("hi").profile(profile("claude", &home)).run().await.unwrap();
    assert_eq!(record.text.as_deref(), home.to_str());
    let meta = bowline::journal::SessionMeta::read(record.journal.as_deref().unwrap()).unwrap();
    assert_eq!(meta.profile.as_deref(), Some("work"));
    let refused = |task: bowline::Task| task.preview().unwrap_err().to_string();
    let other = refused(stage.task("hi").profile(profile("codex", &home)));
    assert!(other.contains("it is a profile of codex"), "{other}");
    let none = refused(bowline::task("hi").profile(profile("opencode", &home)));
    assert!(none.contains("no variable moves its settings"), "{none}");
    let relative = refused(stage.task("hi").profile(profile("claude", Path::new("work"))));
    assert!(relative.contains("not an absolute path"), "{relative}");
    let twice = refused(stage.task("hi").env("CLAUDE_CONFIG_DIR", "/x").profile(profile("claude", &home)));
    assert!(twice.contains("`env = CLAUDE_CONFIG_DIR` already sets"), "{twice}");

    // Another profile is another account.
    let machine = Machine::new().with("ANTHROPIC_API_KEY", "made-up");
    let work = profile("claude", &machine.path("work"));
    let look = |profile| auth::look(provider("claude"), profile, &machine.surroundings()).status;
    assert_eq!((look(None), look(Some(&work))), (Status::Authenticated, Status::NotFound));
    machine.file("work/.credentials.json");
    assert_eq!(look(Some(&work)), Status::Authenticated);
}
