//! Files of settings as people write them, right and wrong.

mod route;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::Fallback;
use bowline_engine::route::RouteStrategy;
use bowline_protocol::Millis;

use super::*;
use bowline::Profile;

const EXAMPLE: &str = include_str!("../../../docs/router.example.yaml");

struct ConfigDir(tempfile::TempDir);

impl ConfigDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn places(&self) -> Places {
        Places {
            user: Some(self.path("config")),
            cwd: Some(self.path("home/project")),
            home: Some(self.path("home")),
        }
    }

    fn read(&self, set: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let get = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Self::trusting(self.places(), &get)
    }

    /// Reads with trust in the project: what a file means is another question than whether it may.
    fn trusting(places: Places, get: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        Config::each(places, get, ProjectTrust::Always).map_err(|mut wrong| wrong.swap_remove(0))
    }

    /// Returns what is wrong, with the directory taken out.
    fn wrong(&self, set: &[(&str, &str)]) -> String {
        let error = self.read(set).expect_err("something is wrong");
        let hint = error.hint.clone().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        let cause = std::error::Error::source(&error).map(|cause| format!("\ncaused by: {cause}"));
        format!("{error}{}{hint}", cause.unwrap_or_default())
            .replace(&self.0.path().display().to_string(), "")
    }
}

fn router(text: &str) -> Result<Router, String> {
    let dir = ConfigDir::new();
    dir.write("home/project/.bowline/router.yaml", text);
    match dir.read(&[("SET", "value"), ("EMPTY", "")]) {
        Ok(config) => Ok(config.router.unwrap()),
        Err(_) => Err(dir.wrong(&[("SET", "value"), ("EMPTY", "")])),
    }
}

#[test]
fn the_example_is_read_and_every_key_of_it_is_known() {
    let usual = router(EXAMPLE).unwrap();
    assert_eq!(usual.without_effect, Vec::<String>::new());
    let EntryKind::Executable { path, args } = &usual.providers[2].kind else { panic!("an executable") };
    assert!(path.ends_with("home/project/.bowline/./ollama-provider"), "{path:?}");
    assert_eq!(*args, ["--keep-alive", "10m"]);
    assert_eq!(
        usual.budgets["request"],
        Amounts { cost: Some(2.5), tokens: Some(500_000), time: Some(Millis(1_800_000)) }
    );
}

#[test]
fn the_example_of_the_specification_is_read_as_it_stands() {
    let text = "
providers:
  # CLI provider example
  - name: ollama
    type: cli
    enabled: true
    priority: 50
    config:
      path: /path/to/ollama-provider  # Absolute or relative path
      args: []                        # Optional additional arguments
      timeout: 120s                   # Request timeout
      model: llama3.2:latest         # Default model

    # Model hints routing
    models:
      fast: llama3.2:latest          # Fast, simple tasks
      capable: qwen3:8b              # Complex reasoning
      codegen: deepseek-coder:6.7b   # Code generation
";
    let router = router(text).unwrap();
    let entry = &router.providers[0];
    let kind = EntryKind::Executable { path: "/path/to/ollama-provider".into(), args: Vec::new() };
    assert_eq!(entry.kind, kind);
    assert_eq!((entry.timeout, entry.model.as_deref()), (Some(Millis(120_000)), Some("llama3.2:latest")));
    assert_eq!(entry.models.len(), 3);
}

#[test]
fn the_variants_of_the_file_are_read_where_they_can_be_honoured() {
    let text = "
providers: [{name: a, source: x, trust_level: community}, {name: b}]
budget_usd: 20
prefer_cheap: true
enable_fallback: false
max_retries: 3
auto_truncate: true
strategy:
  preference: [b, a]
  budget: {max_cost_per_day: 5, max_cost_per_request: 1}
  fallback: {enabled: true, max_retries: 9, retry_delay_ms: 10}
";
    let router = router(text).unwrap();
    assert_eq!(router.routing.strategy, Some(RouteStrategy::LeastCost));
    assert_eq!((router.routing.fallback, router.routing.max_retries), (Some(Fallback::None), Some(3)));
    assert_eq!((router.budgets["day"].cost, router.budgets["request"].cost), (Some(5.0), Some(1.0)));
    assert!(router.providers[1].priority > router.providers[0].priority);
    assert!(router.routing.shortens);
    assert_eq!(router.routing.first_wait, Some(Millis(10)));
    assert_eq!(router.without_effect, ["providers.a.source", "providers.a.trust_level"]);
}

#[test]
fn a_key_that_the_form_does_not_have_leaves_the_file_usable() {
    let text = "
providers:
  - name: a
    config:
      provider: claude
      modle: opus
      base_url: https://models.example
      timeout: 10s
  - name: b
    config: {path: ./b, keep_alive: 10m}
";
    let router = router(text).unwrap();
    let unknown = &router.providers[0].unknown;
    let told: Vec<_> = unknown.iter().map(|(name, key)| (name.as_str(), key.line, key.nearest)).collect();
    assert_eq!(told, [("base_url", 7, None), ("modle", 6, Some("model"))]);
    assert_eq!(router.providers[0].timeout, Some(Millis(10_000)));
    assert!(router.providers[1].unknown.is_empty() && router.providers[1].options.contains_key("keep_alive"));
}

#[test]
fn a_key_that_seems_to_limit_an_agent_is_not_ignored() {
    let wrong =
        |key: &str| router(&format!("providers: [{{name: a, config: {{{key}}}}}]")).unwrap_err().to_string();
    for key in ["permission: read", "allowed_tools: [Read]", "timout: 5s", "max_tokns: 10", "max_turns: 3"] {
        let error = wrong(key);
        assert!(
            error.contains("is not known in `config` of the provider `a`, and seems to limit it"),
            "{error}"
        );
    }
}

#[test]
fn a_key_that_only_contains_a_word_for_a_limit_is_passed_on() {
    for key in ["max_retries", "rate_limit", "low_cost", "shallow", "tools_version", "max_concurrency"] {
        let text = format!("providers: [{{name: a, config: {{{key}: 3}}}}]");
        let router = router(&text).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(router.providers[0].unknown.keys().collect::<Vec<_>>(), [key]);
    }
}

#[test]
fn variables_are_filled_in_and_a_missing_one_is_named() {
    let text = "providers:\n  - name: a\n    config:\n      model: \"x-${SET}-$${SET}${EMPTY}\"\n";
    assert_eq!(router(text).unwrap().providers[0].model.as_deref(), Some("x-value-${SET}"));
    let text = "providers:\n  - name: a\n    config:\n      model: ${GONE}  # ${NOT_READ_HERE}\n";
    insta::assert_snapshot!(router(text).unwrap_err(), @r"
    /home/project/.bowline/router.yaml:4:14: the variable `GONE` is not set
    4 |       model: ${GONE}  # ${NOT_READ_HERE}
      |              ^
    hint: set it (`export GONE=…`), or write the value here
    ");
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    let mut all = String::new();
    for text in [
        "providers:\n  - name: a\n    enabld: true\n",
        "providers:\n  - name: a\n    enabled: yes\n",
        "providers:\n  - name: a\n    enabled: \"true\"\n",
        "providers:\n  - name: a\n    priority: high\n",
        "providers:\n  - priority: 1\n",
        "providers:\n  - name: a\n  - name: a\n",
        "providers: a\n",
        "providers:\n  - name: a\n    type: api\n",
        "providers:\n  - name: a\n    config:\n      timeout: 120\n",
        "providers:\n  - name: a\n    config:\n      args: [x]\n",
        "providers:\n  - name: a\n    models:\n      fast: one\n      quick: two\n",
        "providers:\n  - name: Auto\n",
        "providers:\n  - name: a,b\n",
        "providers:\n  - name: a\n    config: {model: ${NAME}}\n",
        "providers:\n  - name: a\n    config: {temperature: nan}\n",
        "routing:\n  strategy: fastest\n",
        "routing:\n  max_retries: -1\n",
        "budgets:\n  request:\n    cost: -5\n",
        "budgets:\n  week: {cost: 5}\n",
        "providers: [\n",
        "a: &x 1\nb: *x\n",
        "providers: []\nproviders: []\n",
        "--- {}\n--- {}\n",
    ] {
        all.push_str(&router(text).unwrap_err());
        all.push_str("\n\n");
    }
    insta::assert_snapshot!("wrong_routers", all);
}

#[test]
fn the_nearer_word_counts() {
    let dir = ConfigDir::new();
    dir.write(
        "config/bowline.toml",
        "[run]\nprovider = \"mine\"\nmodel = \"usual\"\ntimeout = \"5m\"\n[route]\nretries = 1\n",
    );
    dir.write("home/project/.bowline/bowline.toml", "[run]\nprovider = \"ours\"\nmodel = \"special\"\n");
    let config = dir.read(&[("BOWLINE_PROVIDER", "now"), ("BOWLINE_MODEL", " ")]).unwrap();
    let said = |key: &str| {
        config.settings.get(key).map(|it| format!("{} ({})", it.value, it.origin)).unwrap_or_default()
    };
    let root = dir.0.path().display().to_string();
    assert_eq!(said("run.provider"), "now ($BOWLINE_PROVIDER)");
    assert_eq!(said("run.model").replace(&root, ""), "special (/home/project/.bowline/bowline.toml:3)");
    assert_eq!(said("run.timeout").replace(&root, ""), "5m (/config/bowline.toml:4)");
    assert_eq!(config.settings.span("run.timeout"), Some(Millis(300_000)));
    assert_eq!(config.settings.parsed("route.retries"), Some(1_u32));
    assert_eq!(said("route.fallback"), "");
}

#[test]
fn settings_that_are_wrong_are_shown_where_they_stand() {
    let mut all = String::new();
    for text in [
        "[run]\nprovidr = \"x\"\n",
        "[run]\nprovider = 5\n",
        "[run]\npermission = \"root\"\n",
        "[run]\ntimeout = \"soon\"\n",
        "[run]\ntimeout = 90\n",
        "[route]\nretries = \"2\"\n",
        "[budget.day]\ncost = -1\n",
        "[budget.week]\ncost = 1\n",
        "[nonsense]\nx = 1\n",
        "[run\n",
        "run = 5\n",
    ] {
        let dir = ConfigDir::new();
        dir.write("config/bowline.toml", text);
        all.push_str(&dir.wrong(&[]));
        all.push_str("\n\n");
    }
    let dir = ConfigDir::new();
    all.push_str(&dir.wrong(&[("BOWLINE_RETRIES", "many")]));
    insta::assert_snapshot!("wrong_settings", all);
}

#[test]
fn what_stands_there_as_a_comment_is_set_in_its_place() {
    let dir = ConfigDir::new();
    let text = "# Settings.\n\n# [run]\n# The agent\n# provider = \"auto\"\n# The time\n# timeout = \"10m\"\n\n# [route]\n# retries = 2\n# [prices.NAME]\n# input = 3.0\n";
    dir.write("config/bowline.toml", text);
    let path = dir.0.path().join("config/bowline.toml");
    for (name, value) in [
        ("run.timeout", "5m"),
        ("run.timeout", "6m"),
        ("run.model", "m"),
        ("route.retries", "1"),
        ("prices.x.input", "1"),
    ] {
        edit::set(&path, name, value).unwrap();
    }
    insta::assert_snapshot!(std::fs::read_to_string(&path).unwrap(), @r#"
    # Settings.

    [run]
    # The agent
    # provider = "auto"
    # The time
    timeout = "6m"
    model = "m"

    [route]
    retries = 1

    [prices.x]
    input = 1.0
    # [prices.NAME]
    # input = 3.0
    "#);
    // What is set below a comment stays where it is.
    let text = "[budget.request]\ntokens = 1000\n# [budget.day]\n# tokens = 5\ncost = 3.0\n";
    let other = dir.path("home/project/.bowline/bowline.toml");
    dir.write("home/project/.bowline/bowline.toml", text);
    edit::set(&other, "budget.day.tokens", "9").unwrap();
    let written = std::fs::read_to_string(&other).unwrap();
    assert!(written.starts_with("[budget.request]\ntokens = 1000\n"), "{written}");
    assert!(written.ends_with("cost = 3.0\n\n[budget.day]\ntokens = 9\n"), "{written}");
    std::fs::remove_file(&other).unwrap();
    // Removing another `#` gives a file that can be read.
    let text = std::fs::read_to_string(&path).unwrap().replace("# provider", "provider");
    std::fs::write(&path, text).unwrap();
    assert_eq!(dir.read(&[]).unwrap().settings.text("run.provider"), Some("auto"));
}

#[test]
fn a_file_that_comes_with_a_project_cannot_widen_what_an_agent_may_do() {
    let dir = ConfigDir::new();
    dir.write("home/project/.bowline/bowline.toml", "[run]\npermission = \"yolo\"\n");
    assert!(dir.wrong(&[]).contains("a project cannot set `run.permission` to `yolo`"), "{}", dir.wrong(&[]));
    dir.write("home/project/.bowline/bowline.toml", "[run]\npermission = \"read\"\n");
    assert_eq!(dir.read(&[]).unwrap().settings.text("run.permission"), Some("read"));
}

#[test]
fn profiles_prices_and_budgets_are_read() {
    let dir = ConfigDir::new();
    dir.write(
        "config/bowline.toml",
        "[profiles.work]\nprovider = \"a\"\nhome = \"/h\"\n[prices.\"gpt-5.5\"]\ninput = 1\noutput = 2.5\n[budget]\nday.cost = 3\n",
    );
    let settings = dir.read(&[]).unwrap().settings;
    assert_eq!(
        settings.profile("work"),
        Some(Profile { name: "work".into(), provider: "a".into(), home: "/h".into() })
    );
    assert_eq!(settings.profiles(), ["work"]);
    let prices = settings.prices();
    assert_eq!((prices[0].models[0].as_str(), prices[0].input, prices[0].output), ("gpt-5.5", 1.0, 2.5));
    assert_eq!(settings.budget("day").cost, Some(3.0));
}

#[test]
fn a_setting_is_changed_and_its_surroundings_stay() {
    let dir = ConfigDir::new();
    let path = dir.path("config/bowline.toml");
    let text = "# mine\n[run]\nprovider = \"a\" # the usual\n\n# about routes\n[route]\nretries = 1\n";
    dir.write("config/bowline.toml", text);
    edit::set(&path, "run.provider", "b").unwrap();
    edit::set(&path, "route.wait-for-limit", "true").unwrap();
    edit::set(&path, "prices.gpt-5.5.input", "1.25").unwrap();
    edit::set(&path, r#"prices."gpt-5.5".output"#, "10").unwrap();
    let open = edit::set(&path, r#"prices."gpt-5.5.output"#, "10").unwrap_err();
    assert!(open.what.contains("is not a name"), "{open}");
    insta::assert_snapshot!(std::fs::read_to_string(&path).unwrap(), @r#"
    # mine
    [run]
    provider = "b" # the usual

    # about routes
    [route]
    retries = 1
    wait-for-limit = true

    [prices."gpt-5.5"]
    input = 1.25
    output = 10.0
    "#);
    assert_eq!(dir.read(&[]).unwrap().settings.prices().len(), 1);
    edit::unset(&path, "run.provider").unwrap();
    assert_eq!(dir.read(&[]).unwrap().settings.get("run.provider"), None);
    let new = dir.path("home/project/.bowline/bowline.toml");
    edit::set(&new, "run.model", "m").unwrap();
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "[run]\nmodel = \"m\"\n");
    for (name, value) in [("run.modle", "m"), ("route.retries", "two"), ("run.permission", "root")] {
        assert!(edit::set(&new, name, value).is_err(), "{name}");
    }
    assert_eq!(
        std::fs::read_to_string(&new).unwrap(),
        "[run]\nmodel = \"m\"\n",
        "what is wrong changes nothing"
    );
}

#[test]
fn programs_of_the_specification_for_pi_are_read_as_they_stand() {
    let dir = ConfigDir::new();
    dir.write(
        "home/.pi/agent/extensions/cli-providers/config.json",
        r#"{"agent-cli": {"executable": "agent", "modelArg": "m-1", "extraArgs": ["--json"], "outputFormat": "sse", "timeout": 5}}"#,
    );
    let external = dir.read(&[]).unwrap().external;
    assert_eq!(external.get("agent-cli").unwrap().unwrap().executable.as_deref(), Some("agent"));
    let wrong = |text: &str| {
        dir.write("home/project/.bowline/cli-providers.json", text);
        let config = dir.read(&[]).unwrap();
        config.warnings().join("\n").replace(&dir.0.path().display().to_string(), "")
    };
    // A wrong entry affects only its own model, and a file that is not JSON only models that no provider has.
    let said = wrong("{\n  \"good\": {},\n  \"x\": {\"executble\": 1}\n}");
    let begins =
        "/home/project/.bowline/cli-providers.json:3:19: unknown field `executble`, expected one of ";
    assert!(said.starts_with(begins) && said.ends_with("; what it describes cannot be asked"), "{said}");
    let external = dir.read(&[]).unwrap().external;
    assert!(external.get("good").unwrap().is_some() && external.get("x").is_err());
    assert!(external.get("other").unwrap().is_none() && external.broken().is_none());
    let said = wrong("{\n  \"good\": {},\n  x\n}");
    assert!(
        said.starts_with(
            "/home/project/.bowline/cli-providers.json:3:3: this is not JSON: key must be a string"
        ),
        "{said}"
    );
    assert_eq!(dir.read(&[]).unwrap().external.broken().map(|error| error.at.is_some()), Some(true));
}

/// A program is run by its path as text. If that is not the path which was pinned, another file would run.
#[test]
fn a_program_whose_path_is_not_text_is_not_used() {
    use std::os::unix::ffi::OsStrExt as _;
    let path = Path::new(std::ffi::OsStr::from_bytes(b"/odd\xff/.bowline/cli-providers.json")).to_owned();
    let text = "{\"x\": {\"executable\": \"./x.sh\"},\n \"y\": {\"executable\": \"y\"}}".to_owned();
    let external = ExternalFile::of(&ConfigSource { path, text }).external;
    let error = external.get("x").unwrap_err();
    assert_eq!((error.at, error.what.as_str()), (Some((1, 7)), "the path of the program is not valid UTF-8"));
    assert!(external.get("y").unwrap().is_some(), "a bare name is looked for on PATH");
}

#[test]
fn a_file_of_settings_that_cannot_be_changed_says_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("below/config.toml");
    let error = edit::set(&below, "run.model", "m").unwrap_err();
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    assert_eq!(cause.map(std::io::Error::kind), Some(std::io::ErrorKind::NotADirectory), "{error:?}");
}
