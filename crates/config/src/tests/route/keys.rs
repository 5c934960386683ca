//! Every key of a router's file changes something: a table of keys, each with a change of it and where that shows.

use std::path::Path;

use bowline_engine::route::{RouteMemory, key};
use bowline_protocol::{Json, Message, Millis, Role, Timestamp};

use super::*;
use bowline::settings::ConfigError;

use crate::yaml::paths;

/// The file that ships.
const EXAMPLE: &str = include_str!("../../../../../docs/router.example.yaml");

/// Keys that other variants of the file have, which are read too.
const VARIANTS: &str = "
providers: [{name: claude, config: {model: sonnet}}, {name: codex}]
budget_usd: 20
max_latency_ms: 60000
prefer_cheap: false
enable_fallback: true
fallback_model: opus
max_retries: 2
retry_backoff_ms: 1000
retry_max_backoff_ms: 30000
enable_context_validation: true
auto_truncate: false
truncation_strategy: oldest
strategy:
  preference: [claude, codex]
  budget: {max_cost_per_day: 5, max_cost_per_request: 1}
  performance: {max_latency_ms: 60000, prefer_cheap: false}
  fallback: {enabled: true, max_retries: 2, retry_delay_ms: 1000, fallback_model: opus}
";

/// Returns the time of day.
fn now() -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

/// Where a change shows.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// The candidates in their order, and why the others are left out.
    Order,
    /// The command, with its arguments, variables and input.
    Command,
    /// The next step after each failure.
    Failing,
    /// How long is waited.
    Waits,
    /// The limits that stop a run.
    Limits,
    /// How long the choice may take.
    Choice,
}

use Shows::{Choice, Command, Failing, Limits, Order, Waits};

/// A key, what else is changed so that it matters, a change of it, and where that shows.
type Row = (&'static str, &'static [(&'static str, &'static str)], (&'static str, &'static str), Shows);

const SMALL: (&str, &str) = ("max_context_tokens: 8000", "max_context_tokens: 150");
const SHORTENS: (&str, &str) = ("auto_truncate: false", "auto_truncate: true");
const CHEAPEST: (&str, &str) = ("strategy: priority", "strategy: least-cost");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("providers[].name", &[], ("name: ollama", "name: llama"), Order),
    ("providers[].type", &[], ("type: cli", "type: agent"), Order),
    ("providers[].enabled", &[], ("enabled: true", "enabled: false"), Order),
    ("providers[].priority", &[], ("priority: 90", "priority: 10"), Order),
    ("providers[].config.timeout", &[], ("timeout: 10m", "timeout: 2m"), Limits),
    ("providers[].config.model", &[], ("model: sonnet", "model: opus"), Command),
    ("providers[].config.provider", &[], ("provider: claude", "provider: codex"), Command),
    ("providers[].config.binary", &[], ("binary: ./bin/claude", "binary: ./bin/other"), Command),
    ("providers[].config.profile", &[], ("profile: work", "profile: home"), Command),
    ("providers[].config.env.*", &[], ("https://proxy.example", "https://other.example"), Command),
    ("providers[].config.options", &[], ("options: {}", "options: {depth: 3}"), Command),
    ("providers[].config.capabilities.streaming", &[], ("streaming: false", "streaming: true"), Command),
    ("providers[].config.path", &[], ("path: ./ollama-provider", "path: ./other"), Command),
    ("providers[].config.args", &[], ("--keep-alive", "--keep-longer"), Command),
    ("providers[].config.max_tokens", &[], ("max_tokens: 4000", "max_tokens: 4001"), Command),
    ("providers[].config.temperature", &[], ("temperature: 0.7", "temperature: 0.6"), Command),
    ("providers[].config.top_p", &[], ("top_p: 0.9", "top_p: 0.8"), Command),
    ("providers[].config.cost_per_1k_tokens", &[CHEAPEST], ("cost_per_1k_tokens: 0", "cost_per_1k_tokens: 9"), Order),
    ("providers[].capabilities.tools", &[], ("tools: false", "tools: true"), Order),
    ("providers[].capabilities.multi_turn", &[], ("multi_turn: true", "multi_turn: false"), Order),
    ("providers[].capabilities.vision", &[], ("vision: false", "vision: true"), Order),
    ("providers[].capabilities.max_context_tokens", &[], SMALL, Order),
    ("providers[].models.*", &[], ("fast: haiku", "fast: sonnet"), Order),
    ("routing.strategy", &[], CHEAPEST, Order),
    ("routing.fallback", &[], ("fallback: next", "fallback: none"), Failing),
    ("routing.fallback_model", &[], ("fallback_model: opus", "fallback_model: haiku"), Failing),
    ("routing.max_retries", &[], ("max_retries: 2", "max_retries: 1"), Failing),
    ("routing.retry_backoff_ms", &[], ("retry_backoff_ms: 1000", "retry_backoff_ms: 0"), Waits),
    ("routing.retry_max_backoff_ms", &[], ("retry_max_backoff_ms: 30000", "retry_max_backoff_ms: 10000"), Waits),
    ("routing.max_latency_ms", &[], ("max_latency_ms: 60000", "max_latency_ms: 40000"), Order),
    ("routing.selection_timeout", &[], ("selection_timeout: 3s", "selection_timeout: 1s"), Choice),
    ("routing.enable_context_validation", &[SMALL], ("enable_context_validation: true", "enable_context_validation: false"), Order),
    ("routing.auto_truncate", &[SMALL], SHORTENS, Order),
    ("routing.truncation_strategy", &[SMALL, SHORTENS], ("truncation_strategy: oldest", "truncation_strategy: context"), Command),
    ("routing.model_hints.*.max_tokens", &[], ("max_tokens: 2000", "max_tokens: 1000"), Command),
    ("routing.model_hints.*.temperature", &[], ("temperature: 0.2", "temperature: 0.3"), Command),
    ("routing.model_hints.*.prefer_local", &[], ("prefer_local: false", "prefer_local: true"), Order),
    ("budgets.request.cost", &[], ("cost: 2.50", "cost: 0.001"), Limits),
    ("budgets.request.tokens", &[], ("tokens: 500000", "tokens: 100"), Limits),
    ("budgets.request.time", &[], ("time: 30m", "time: 1m"), Limits),
    ("budgets.day.cost", &[], ("cost: 20 ", "cost: 0.001 "), Limits),
    ("budgets.day.tokens", &[], ("tokens: 10000000 ", "tokens: 100 "), Limits),
    ("budgets.project.cost", &[], ("cost: 200", "cost: 0.001"), Limits),
    ("budgets.project.tokens", &[], ("tokens: 100000000", "tokens: 100"), Limits),
];

#[rustfmt::skip]
const VARIANT_ROWS: &[Row] = &[
    ("providers[].name", &[], ("name: codex", "name: qwen"), Order),
    ("providers[].config.model", &[], ("model: sonnet", "model: haiku"), Order),
    ("budget_usd", &[(", max_cost_per_request: 1", "")], ("budget_usd: 20", "budget_usd: 0.001"), Limits),
    ("max_latency_ms", &[], ("\nmax_latency_ms: 60000", "\nmax_latency_ms: 40000"), Order),
    ("prefer_cheap", &[], ("\nprefer_cheap: false", "\nprefer_cheap: true"), Order),
    ("enable_fallback", &[], ("enable_fallback: true", "enable_fallback: false"), Failing),
    ("fallback_model", &[], ("\nfallback_model: opus", "\nfallback_model: haiku"), Failing),
    ("max_retries", &[], ("\nmax_retries: 2", "\nmax_retries: 1"), Failing),
    ("retry_backoff_ms", &[], ("\nretry_backoff_ms: 1000", "\nretry_backoff_ms: 0"), Waits),
    ("retry_max_backoff_ms", &[], ("retry_max_backoff_ms: 30000", "retry_max_backoff_ms: 10000"), Waits),
    ("enable_context_validation", &[NARROW], ("enable_context_validation: true", "enable_context_validation: false"), Order),
    ("auto_truncate", &[NARROW], SHORTENS, Order),
    ("truncation_strategy", &[NARROW, SHORTENS], ("truncation_strategy: oldest", "truncation_strategy: context"), Command),
    ("strategy.preference", &[], ("[claude, codex]", "[codex, claude]"), Order),
    ("strategy.budget.max_cost_per_day", &[], ("max_cost_per_day: 5", "max_cost_per_day: 0.001"), Limits),
    ("strategy.budget.max_cost_per_request", &[], ("max_cost_per_request: 1", "max_cost_per_request: 0.001"), Limits),
    ("strategy.performance.max_latency_ms", &[("\nmax_latency_ms: 60000", "")], ("max_latency_ms: 60000", "max_latency_ms: 40000"), Order),
    ("strategy.performance.prefer_cheap", &[("\nprefer_cheap: false", "")], ("prefer_cheap: false", "prefer_cheap: true"), Order),
    ("strategy.fallback.enabled", &[], ("enabled: true", "enabled: false"), Failing),
    ("strategy.fallback.max_retries", &[("\nmax_retries: 2", "")], ("max_retries: 2", "max_retries: 1"), Failing),
    ("strategy.fallback.retry_delay_ms", &[("\nretry_backoff_ms: 1000", "")], ("retry_delay_ms: 1000", "retry_delay_ms: 0"), Waits),
    ("strategy.fallback.fallback_model", &[("\nfallback_model: opus", "")], ("fallback_model: opus", "fallback_model: haiku"), Failing),
];

const NARROW: (&str, &str) = ("{name: codex}", "{name: codex, capabilities: {max_context_tokens: 150}}");

#[tokio::test(start_paused = true)]
async fn every_key_of_the_example_takes_effect() {
    let all_on = EXAMPLE.replace("enabled: false", "enabled: true");
    prove(EXAMPLE, &all_on, ROWS).await;
}

#[tokio::test(start_paused = true)]
async fn every_key_of_the_other_variants_takes_effect() {
    prove(VARIANTS, VARIANTS, VARIANT_ROWS).await;
}

#[test]
fn every_key_that_is_read_is_in_one_of_the_files_or_is_told_to_be_without_effect() {
    let reader = [include_str!("../../router.rs"), include_str!("../../router/routing.rs")].concat();
    let taken = reader.split("take(\"").skip(1).filter_map(|rest| rest.split('"').next());
    // Those that stand in lists of keys: `("key", place)`.
    let listed =
        reader.split("(\"").skip(1).filter_map(|rest| rest.split_once("\", &mut ").map(|(key, _)| key));
    let listed = listed.filter(|key| key.chars().all(|c| c.is_ascii_lowercase() || "_1".contains(c)));
    let known: Vec<String> = paths(EXAMPLE).into_iter().chain(paths(VARIANTS)).collect();
    for key in taken.chain(listed) {
        let parts = known.iter().flat_map(|path| path.split('.')).map(|part| part.trim_end_matches("[]"));
        assert!(parts.into_iter().any(|part| part == key), "`{key}` is read, and in no example");
    }
}

/// Proves each row, and that there is one for every key of a file.
async fn prove(file: &str, base: &str, rows: &[Row]) {
    let mut keys = paths(file);
    for (path, given, change, shows) in rows {
        assert!(keys.remove(*path), "`{path}` is not in the file, or has two rows");
        let given = given.iter().fold(base.to_owned(), |text, edit| edited(path, &text, *edit));
        let (before, after) = (
            Box::pin(behaviour(&given, *shows)).await,
            Box::pin(behaviour(&edited(path, &given, *change), *shows)).await,
        );
        assert!(!before.starts_with("it is refused"), "{path}: {before}");
        assert_ne!(before, after, "`{path}` has no effect on {shows:?}: {change:?}");
    }
    assert!(keys.is_empty(), "nothing proves that these take effect: {keys:?}");
}

fn edited(path: &str, text: &str, (from, to): (&str, &str)) -> String {
    // A comment may stand behind a value.
    let text =
        text.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end().to_owned() + " \n");
    let text: String = text.collect();
    let text = if text.contains(from) { text } else { text.replace(" \n", "\n") };
    assert!(text.contains(from), "{path}: `{from}` is not in the file");
    text.replacen(from, to, 1)
}

const SETTINGS: &str = "
[profiles.work]
provider = \"claude\"
home = \"/nowhere/work\"
[profiles.home]
provider = \"claude\"
home = \"/nowhere/home\"
[prices.sonnet]
input = 3
output = 15
";

/// Reads a router's file beside settings with two profiles and a price.
fn settled(router: &str, dir: &Path) -> Result<Arc<RunSettings>, ConfigError> {
    let user = dir.join("user");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("router.yaml"), router).unwrap();
    std::fs::write(user.join("bowline.toml"), SETTINGS).unwrap();
    let places = Places { user: Some(user), cwd: Some(dir.to_owned()), home: None };
    Config::read(places, &|_| None).map(|config| Arc::new(config.run_settings()))
}

/// Returns what a file leads to, in one respect.
async fn behaviour(router: &str, shows: Shows) -> String {
    let (dir, world) = (tempfile::tempdir().unwrap(), world());
    let config = match settled(router, dir.path()) {
        Ok(config) => config,
        Err(error) => return format!("it is refused: {}", error.what),
    };
    let text = match shows {
        Order => order(&world, &config),
        Command => command(&world, &config),
        Failing => Box::pin(failing(&world, &config)).await,
        Waits => Box::pin(waits(&world, &config)).await,
        Limits => Box::pin(limits(&world, &config)).await,
        Choice => format!("{:?}", auto(&world, &config, &[HELLO]).explain().unwrap().selection_timeout),
    };
    text.replace(&dir.path().display().to_string(), "DIR")
}

fn auto(world: &World, config: &Arc<RunSettings>, scripts: &[&str]) -> Task {
    task(world, scripts).settings(config.clone())
}

/// Ten tokens, after two hundred that were said before.
fn long(task: Task) -> Task {
    let said = |letter: &str| Message {
        role: Role::User,
        content: letter.repeat(400),
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    task.context([said("a"), said("b")])
}

fn order(world: &World, config: &Arc<RunSettings>) -> String {
    let mut memory = RouteMemory::default();
    memory.answered(&key("claude", None, Some("sonnet")), Some(Millis(50_000)), now());
    std::fs::write(world.path().join("router.json"), serde_json::to_vec(&memory).unwrap()).unwrap();
    let tasks: [fn(Task) -> Task; 5] = [
        |task| task,
        |task| task.hint("fast"),
        |task| task.attach("/nowhere.png"),
        |task| task.declare_tool(Json::parse(r#"{"type": "function"}"#).unwrap()),
        long,
    ];
    let mut text = String::new();
    for change in tasks {
        for it in change(auto(world, config, &[HELLO])).explain().unwrap().verdicts {
            text.push_str(&format!("{:?} {} {:?} {}\n", it.turn, it.name, it.model, it.reason));
        }
    }
    text
}

fn command(world: &World, config: &Arc<RunSettings>) -> String {
    let mut text = String::new();
    for entry in &config.router.as_ref().unwrap().providers {
        // Where nothing has to be asked: a prompt that a protocol carries is not in the command.
        let named = || {
            auto(world, config, &[HELLO])
                .provider(&entry.name)
                .permission(bowline_protocol::PermissionMode::Read)
        };
        for task in [named(), named().hint("fast"), long(named())] {
            text.push_str(&match task.preview() {
                Ok(preview) => format!("{preview:?}\n"),
                Err(error) => format!("{error:?}\n"),
            });
        }
    }
    text
}

async fn failing(world: &World, config: &Arc<RunSettings>) -> String {
    let models: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = models.clone();
    let listen = move |event: &bowline_protocol::Event| {
        if let Kind::RouteChosen(chosen) = &event.kind {
            seen.lock().unwrap().push(format!("{} {:?}", chosen.provider, chosen.model));
        }
    };
    let record = auto(world, config, &[AWAY; 20]).on_event(listen).run().await.unwrap();
    format!("{:?} {:?}", plain(&record), models.lock().unwrap())
}

async fn waits(world: &World, config: &Arc<RunSettings>) -> String {
    // Waits are drawn; that all of them are nothing happens once in millions of times, or where they have to be.
    let waited = Arc::new(Mutex::new(Millis(0)));
    let sum = waited.clone();
    let listen = move |event: &bowline_protocol::Event| {
        if let Kind::Retrying(retrying) = &event.kind {
            let mut sum = sum.lock().unwrap();
            *sum = sum.plus(retrying.delay_ms.unwrap_or_default());
        }
    };
    auto(world, config, &[AWAY; 20]).on_event(listen).run().await.unwrap();
    let waits = *waited.lock().unwrap() > Millis(0);
    let named = r#"{"fail": "429 rate limit: retry after 20 seconds"}"#;
    let record = auto(&super::world(), config, &[named, HELLO]).run().await.unwrap();
    format!("{waits} {:?}", plain(&record))
}

async fn limits(world: &World, config: &Arc<RunSettings>) -> String {
    let said = format!(r#"{{"say": "{}"}}, {{"hang": true}}"#, "x".repeat(4000));
    let mut text = String::new();
    for _ in 0..2 {
        text.push_str(&match auto(world, config, &[&said]).provider("claude").run().await {
            Ok(record) => {
                format!("{:?} after {:?}\n", record.failure.map(|it| it.code), record.took.as_secs())
            }
            Err(error) => format!("{error}\n"),
        });
    }
    text
}
