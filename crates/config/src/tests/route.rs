//! Requests over several attempts, with scripts in the place of programs and a clock that is stopped.

mod keys;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_engine::retry::Fallback;
use bowline_protocol::{Category, Code, Kind};

use crate::{Config, Places};
use bowline::Error;
use bowline::Record;
use bowline::Task;
use bowline::journal::SessionMeta;
use bowline::settings::RunSettings;
use bowline::testing::{Script, World, script, world};

const ROUTER: &str = "
providers:
  - {name: claude, priority: 90, models: {fast: haiku}}
  - {name: codex, priority: 50}
  - {name: gemini, priority: 10, enabled: false}
";

fn config(router: &str) -> Arc<RunSettings> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("user")).unwrap();
    std::fs::write(dir.path().join("user/router.yaml"), router).unwrap();
    let places = Places { user: Some(dir.path().join("user")), cwd: None, home: None };
    Arc::new(Config::read(places, &|_| None).unwrap().run_settings())
}

fn task(world: &World, scripts: &[&str]) -> Task {
    let steps = |steps: &&str| script(&format!(r#"{{"steps": [{steps}]}}"#));
    let scripts: Vec<Script> = scripts.iter().map(steps).collect();
    world.task("Say hello").provider("auto").settings(config(ROUTER)).scripts(scripts)
}

const HELLO: &str = r#"{"say": "hello"}, {"result": {"usage": {"input": 10, "output": 20}}}"#;
const LIMITED: &str = r#"{"fail": "429 rate limit"}"#;
const QUOTA: &str = r#"{"fail": "insufficient_quota"}"#;
const LOGIN: &str = r#"{"fail": "401 unauthorized: invalid_api_key"}"#;
const AWAY: &str = r#"{"fail": "503 service unavailable"}"#;

fn steps(record: &Record) -> Vec<String> {
    record.attempts.iter().map(|it| format!("{}: {}", it.name, it.then)).collect()
}

/// The waits are random; what is compared are the words around them.
fn plain(record: &Record) -> Vec<String> {
    steps(record).iter().map(|it| it.split(" in ").next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_retried_in_the_same_session() {
    let world = world();
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let told = seen.clone();
    let mut turn = task(&world, &[LIMITED, HELLO])
        .on_event(move |event| {
            told.lock().unwrap().push((event.session.to_string(), event.kind.type_name().to_owned()))
        })
        .start()
        .await
        .unwrap();
    let mut watched = Vec::new();
    while let Some(event) = turn.next().await {
        watched.push((event.session.to_string(), event.kind.type_name().to_owned()));
        if let Kind::Retrying(retrying) = &event.kind {
            assert_eq!((retrying.attempt, retrying.max_attempts), (Some(1), Some(2)));
            assert_eq!(retrying.category, Category::RateLimit);
        }
    }
    let record = turn.outcome().await.unwrap();
    assert_eq!(record.text.as_deref(), Some("hello"));
    assert_eq!(plain(&record), ["claude: rate limit: retry 1 of 2", "claude: answered"]);
    assert_eq!(watched, *seen.lock().unwrap(), "one stream over both");
    assert_eq!(record.attempts[0].session, record.attempts[1].session);
    let meta = SessionMeta::read(&world.home().session_dir(&record.session).unwrap()).unwrap();
    assert_eq!(meta.parent, None);
    let second = usize::try_from(record.attempts[1].first_seq).unwrap() - 1;
    let beginning: Vec<&str> = watched[second..].iter().map(|(_, kind)| kind.as_str()).take(4).collect();
    assert_eq!(beginning, ["session_started", "route_chosen", "retrying", "session_state_changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_quota_falls_back_and_a_login_does_not() {
    let world = world();
    let record = task(&world, &[QUOTA, HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["claude: quota: not retried; falls back to codex", "codex: answered"]);
    assert!(record.is_completed());

    let record = task(&world, &[LOGIN, HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["claude: authentication: not retried; no fallback under `next`"]);
    assert_eq!(record.failure.unwrap().category, Category::Authentication);

    let record = task(&world, &[LOGIN, HELLO]).fallback(Fallback::Any).run().await.unwrap();
    assert_eq!(
        steps(&record),
        ["claude: authentication: not retried; falls back to codex", "codex: answered"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_after_a_tool_ran() {
    let world = world();
    let tool =
        r#"{"tool": {"name": "Write", "input": {}, "output": "done"}}, {"fail": "503 service unavailable"}"#;
    let record = task(&world, &[tool, HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["claude: server: a tool ran, and would run a second time"]);
    let record = task(&world, &[tool, HELLO]).repeat_tools().run().await.unwrap();
    assert_eq!(plain(&record), ["claude: server: retry 1 of 2", "claude: answered"]);
}

#[tokio::test(start_paused = true)]
async fn as_many_retries_are_made_as_are_given() {
    let world = world();
    let record = task(&world, &[AWAY; 9]).retries(6).fallback(Fallback::None).run().await.unwrap();
    let steps = plain(&record);
    assert_eq!(steps.len(), 7, "{steps:?}");
    assert_eq!(steps[5], "claude: server: retry 6 of 6");
    assert_eq!(steps[6], "claude: server: retried 6 times already; no fallback under `none`");
}

/// What may have done something is not repeated: text, lines that were not understood, an end without a reason.
#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_after_a_sign_of_work() {
    for (steps_of_script, why) in [
        (
            r#"{"say": "I did"}, {"fail": "503 service unavailable"}"#,
            "server: the model had answered, so a tool may have run",
        ),
        (
            r#"{"stdout": {"type": "tool_invocation_v2"}}, {"fail": "503 service unavailable"}"#,
            "server: some of its output was not understood, so a tool may have run",
        ),
        (
            r#"{"exit": 3}"#,
            "unknown: it had the prompt and did not report why it ended, so a tool may have run",
        ),
    ] {
        let world = world();
        let record = task(&world, &[steps_of_script, HELLO]).run().await.unwrap();
        assert_eq!(steps(&record), [format!("claude: {why}")]);
        let record = task(&world, &[steps_of_script, HELLO]).repeat_tools().run().await.unwrap();
        assert_eq!(record.attempts.len(), 2, "{steps_of_script}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_about_all_attempts_and_their_waits() {
    const SPENT: &str = r#"{"dialect": "claude", "steps": [{"stdout": {"type": "result", "subtype": "success", "is_error": true, "result": "API Error: 503 service unavailable", "api_error_status": 503, "total_cost_usd": 0.25, "usage": {"input_tokens": 7, "output_tokens": 0}}}]}"#;
    const PAID: &str = r#"{"steps": [{"say": "hello"}, {"wait_ms": 3000}, {"result": {"usage": {"input": 10, "output": 20}, "cost_usd": 0.5}}]}"#;
    let world = world();
    let task = world.task("Say hello").provider("auto").settings(config(ROUTER));
    let record = task.scripts([SPENT, PAID].map(script).to_vec()).run().await.unwrap();
    assert!(record.is_completed(), "{:?}", record.failure);
    let [first, second] = &record.attempts[..] else { panic!("{:?}", steps(&record)) };
    assert_eq!((first.cost, second.cost, record.cost), (Some(0.25), Some(0.5), Some(0.75)));
    let input = |usage: Option<bowline_protocol::Usage>| usage.map(|usage| (usage.input, usage.output));
    assert_eq!(
        (input(first.usage), input(second.usage), input(record.usage)),
        (Some((7, 0)), Some((10, 20)), Some((17, 20)))
    );
    assert_eq!(first.waited, Duration::ZERO);
    let parts: Duration = record.attempts.iter().map(|it| it.waited + it.took).sum();
    assert_eq!(record.took, parts);
    assert!(second.took >= Duration::from_secs(3) && second.took < Duration::from_secs(4), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn who_keeps_failing_is_left_alone_also_by_the_next_request() {
    let world = world();
    let record = task(&world, &[AWAY, AWAY, AWAY, AWAY, AWAY, AWAY]).run().await.unwrap();
    assert_eq!(record.attempts.len(), 6, "{:?}", steps(&record));
    // Three failures each. Two more open the first one's breaker; the memory is a file, as after a restart.
    let record = task(&world, &[AWAY, HELLO]).run().await.unwrap();
    assert_eq!(plain(&record), ["claude: server: retry 1 of 2", "claude: answered"]);
    let explained = task(&world, &[HELLO]).explain().unwrap();
    // The first answered at last, so that it is forgiven.
    assert_eq!(explained.verdicts[0].turn, Some(1));
    task(&world, &[AWAY, AWAY, AWAY, HELLO]).run().await.unwrap();
    // The fifth failure opens the breaker; the request that it happens to makes its own retries all the same.
    let record = task(&world, &[AWAY, AWAY, AWAY, HELLO]).run().await.unwrap();
    let told = "claude: server: retried 2 times already; falls back to codex";
    assert_eq!(steps(&record)[2..], [told, "codex: answered"]);
    let explained = task(&world, &[HELLO]).explain().unwrap();
    assert!(
        explained.verdicts[0].reason.contains("failed 5 times within a minute"),
        "{:?}",
        explained.verdicts
    );
    let named = task(&world, &[HELLO]).provider("claude").explain().unwrap();
    assert!(
        named.verdicts[0].reason.starts_with("it was named, although it failed 5 times within a minute"),
        "{:?}",
        named.verdicts
    );
    assert_eq!(named.turns().len(), 1, "who is named is asked all the same");
    let record = task(&world, &[HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["codex: answered"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_it_between_two_attempts_is_heard() {
    let world = world();
    let limited = r#"{"fail": "429 rate limit: retry after 20 seconds"}"#;
    let mut turn = task(&world, &[limited, HELLO]).start().await.unwrap();
    let control = turn.control();
    while let Some(event) = turn.next().await {
        if let Kind::Retrying(retrying) = &event.kind {
            assert!(retrying.delay_ms.is_some_and(|delay| delay.0 >= 20_000), "{retrying:?}");
            control.cancel();
        }
    }
    let record = turn.outcome().await.unwrap();
    assert_eq!(record.outcome_word(), "cancelled");
    assert_eq!(record.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_resets_late_is_waited_for_only_on_request() {
    let world = world();
    let late = r#"{"fail": "429 rate limit: retry after 3600 seconds"}"#;
    let record = task(&world, &[late, HELLO]).run().await.unwrap();
    let told = "claude: rate limit: not retried, because 1 h is longer than the longest wait of 30 s; no fallback under `next`; the limit resets in 1 h, and the run does not wait for it";
    assert_eq!(steps(&record), [told]);
    let explained = task(&world, &[HELLO]).explain().unwrap();
    assert!(
        explained.verdicts[0].reason.starts_with("its limit is used up and resets in "),
        "{:?}",
        explained.verdicts
    );

    let elsewhere = bowline::testing::world();
    let record = task(&elsewhere, &[late, HELLO]).wait_for_limit().run().await.unwrap();
    assert_eq!(record.attempts.len(), 2, "{:?}", steps(&record));
    assert!(record.is_completed());
    assert!(record.took.as_secs() >= 3599, "{:?}", record.took);
}

#[tokio::test(start_paused = true)]
async fn a_hint_names_the_model_and_a_model_its_provider() {
    let world = world();
    let explained = task(&world, &[HELLO]).hint("quick").explain().unwrap();
    assert_eq!(explained.verdicts[0].model.as_deref(), Some("haiku"));
    assert!(explained.verdicts[2].reason.contains("disabled"));
    let record = world
        .task("hi")
        .model("gpt-9")
        .settings(config(ROUTER))
        .scripts([bowline::testing::says("x")])
        .run()
        .await
        .unwrap();
    assert_eq!((record.attempts[0].name.as_str(), record.attempts.len()), ("codex", 1));
    let unknown = world.task("hi").model("nobodys").settings(config(ROUTER)).run().await;
    assert!(matches!(unknown, Err(Error::NoRoute(_))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_named_provider_is_asked_once_unless_somebody_says_otherwise() {
    let world = world();
    let named = |name: &str| task(&world, &[LIMITED, HELLO]).provider(name);
    assert_eq!(named("qwen").run().await.unwrap().attempts.len(), 0, "the router has no part in it");
    assert_eq!(named("claude").run().await.unwrap().attempts.len(), 1, "its file has a word on this one");
    assert_eq!(named("qwen").retries(1).run().await.unwrap().attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_over_all_attempts_and_what_was_spent_is_on_file() {
    let world = world();
    let record = task(&world, &[QUOTA, HELLO]).max_tokens(1_000).run().await.unwrap();
    assert_eq!(record.usage.unwrap().total(), 30);
    let file = std::fs::read_dir(world.path().join("spending")).unwrap().next().unwrap().unwrap().path();
    let lines: Vec<bowline::budget::Line> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.iter().map(|line| line.tokens).sum::<u64>(), 30);
    assert_eq!(lines.last().unwrap().session.as_ref(), Some(&record.session));

    let config = config(&format!("{ROUTER}budgets: {{day: {{tokens: 25}}}}\n"));
    let refused = task(&world, &[HELLO]).settings(config).run().await;
    assert!(
        matches!(&refused, Err(Error::OverBudget { scope, what }) if scope == "today" && what == "30 of 25 tokens"),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_stops_a_turn_that_goes_on() {
    let world = world();
    let long = r#"{"say": ["one two three four five six seven eight nine ten eleven twelve", " more"]}, {"hang": true}"#;
    let record = task(&world, &[long, HELLO]).max_tokens(12).run().await.unwrap();
    let failure = record.failure.as_ref().unwrap();
    assert_eq!((failure.code.clone(), record.attempts.len()), (Code::Budget, 1), "{:?}", steps(&record));
    assert!(failure.message.contains("counted by its text"), "{failure:?}");
    assert!(record.text.as_deref().is_some_and(|text| text.starts_with("one two")), "{:?}", record.text);
}

#[tokio::test(start_paused = true)]
async fn entries_with_a_program_or_variables_of_their_own_do_not_share_their_limits() {
    let world = world();
    let router = "
providers:
  - {name: one, config: {provider: claude, binary: /nowhere/a}}
  - {name: two, config: {provider: claude, env: {A_KEY: b}}}
  - {name: three, config: {provider: claude}}
";
    let late = r#"{"fail": "insufficient_quota: retry after 3600 seconds"}"#;
    let auto = |scripts: &[&str]| task(&world, scripts).settings(config(router));
    let record = auto(&[late, HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["one: quota: not retried; falls back to two", "two: answered"]);
    let turns = |task: Task| task.explain().unwrap().verdicts.iter().map(|it| it.turn).collect::<Vec<_>>();
    assert_eq!(turns(auto(&[HELLO])), [None, Some(1), Some(2)]);
    let plain = task(&world, &[late]).settings(config("providers: [{name: claude}]"));
    plain.run().await.unwrap();
    assert_eq!(turns(auto(&[HELLO])), [None, Some(1), None], "a plain entry is the provider itself");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_known_already_is_waited_for_on_request() {
    let world = world();
    let only = |scripts: &[&str]| task(&world, scripts).settings(config("providers: [{name: claude}]"));
    let late = r#"{"fail": "429 rate limit: retry after 3600 seconds"}"#;
    only(&[late]).run().await.unwrap();
    let refused = only(&[HELLO]).run().await;
    let told =
        |error: &Error| error.to_string().starts_with("the limits of all usable providers are used up; ");
    assert!(refused.as_ref().is_err_and(told), "{refused:?}");
    let explained = only(&[HELLO]).explain().unwrap();
    assert!(explained.problem.is_some() && explained.turns().is_empty(), "{explained:?}");
    let explained = only(&[HELLO]).wait_for_limit().explain().unwrap();
    assert_eq!((explained.problem.clone(), explained.verdicts[0].turn), (None, Some(1)));
    assert!(explained.waits_until.is_some());
    let again = bowline_protocol::Failure {
        retry_after_ms: Some(bowline_protocol::Millis(3_600_000)),
        ..bowline_protocol::Failure::new(Category::RateLimit, Code::RateLimited, "429")
    };
    assert_eq!(
        explained.after(&again, bowline::Footprint::NoWork).steps.len(),
        5,
        "the first of five waits is before it"
    );

    let waits: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = waits.clone();
    let listen = move |event: &bowline_protocol::Event| {
        if let Kind::Retrying(retrying) = &event.kind {
            seen.lock().unwrap().push(retrying.delay_ms.unwrap_or_default().0 / 1000);
        }
    };
    let record = only(&[HELLO]).wait_for_limit().on_event(listen).run().await.unwrap();
    assert_eq!(steps(&record), ["claude: answered"]);
    assert!(matches!(waits.lock().unwrap()[..], [3_590..=3_600]), "{waits:?}");
    assert!(record.took.as_secs() >= 3_590, "{:?}", record.took);
}

#[tokio::test(start_paused = true)]
async fn who_names_one_and_wants_a_fallback_gets_the_others_after_it() {
    let world = world();
    let codex = |scripts: &[&str]| task(&world, scripts).provider("codex");
    let record = codex(&[QUOTA, HELLO]).run().await.unwrap();
    assert_eq!(steps(&record), ["codex: quota: not retried; no fallback under `none`"]);
    let record = codex(&[QUOTA, HELLO]).fallback(Fallback::Next).run().await.unwrap();
    assert_eq!(steps(&record), ["codex: quota: not retried; falls back to claude", "claude: answered"]);
    let record = codex(&[LOGIN, HELLO]).fallback(Fallback::Any).model("gpt-9").run().await.unwrap();
    let told = "codex: authentication: not retried; no other agent to fall back to";
    assert_eq!(steps(&record), [told], "the other one does not have that model");
}

#[tokio::test(start_paused = true)]
async fn what_is_explained_is_what_happens() {
    const GONE: &str = r#"{"fail": "404 model not found"}"#;
    const BROKEN: &str = r#"{"fail": "ECONNRESET"}"#;
    const WRONG: &str = r#"{"fail": "400 bad request"}"#;
    const LATE: &str = r#"{"fail": "429 rate limit: retry after 3600 seconds"}"#;
    const TOOL: &str =
        r#"{"tool": {"name": "Write", "input": {}, "output": "done"}}, {"fail": "503 service unavailable"}"#;
    let wishes: [fn(Task) -> Task; 7] = [
        |task| task,
        |task| task.fallback(Fallback::Any).retries(1),
        |task| task.fallback(Fallback::None),
        |task| task.retries(9),
        |task| task.provider("codex"),
        |task| task.provider("codex").fallback(Fallback::Next).retries(1),
        |task| task.repeat_tools().wait_for_limit(),
    ];
    for script in [QUOTA, LIMITED, LOGIN, AWAY, GONE, BROKEN, WRONG, LATE, TOOL] {
        for (number, wish) in wishes.iter().enumerate() {
            let world = world();
            // One failure of the first is remembered.
            task(&world, &[AWAY]).retries(0).fallback(Fallback::None).run().await.unwrap();
            let explained = wish(task(&world, &[script])).explain().unwrap();
            let record = wish(task(&world, &[script; 30])).run().await.unwrap();
            let failure = record.failure.clone().unwrap();
            let outlook = explained.after(&failure, record.footprint);
            let step = |it: &bowline::route::OutlookStep| {
                format!("{}: {}", explained.turns()[it.turn].name, it.verdict.reason)
            };
            let foreseen: Vec<String> = outlook.steps.iter().map(step).collect();
            // The waits are told as bounds before, and as what was drawn after.
            let before: Vec<_> = foreseen.iter().map(|it| it.split(" in ").next().unwrap()).collect();
            assert_eq!(before, plain(&record), "{script} with wish {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn listed_providers_are_asked_in_their_order_and_no_others() {
    let world = world();
    // The file would begin with claude, and has a strategy of its own.
    let router = "
providers:
  - {name: claude, priority: 90}
  - {name: codex, priority: 50}
  - {name: gemini, priority: 10, enabled: false}
routing: {strategy: round-robin, fallback: none}
";
    let listed = |names: &[&str]| {
        let steps = |steps: &str| script(&format!(r#"{{"steps": [{steps}]}}"#));
        world
            .task("Say hello")
            .settings(config(router))
            .providers(names.iter().copied())
            .scripts([steps(QUOTA)])
    };
    let names = |record: &Record| record.attempts.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    for order in [["gemini", "codex"], ["codex", "gemini"], ["qwen", "claude"]] {
        let record = listed(&order).run().await.unwrap();
        assert_eq!(names(&record), order, "all are tried, in this order, and then it ends");
        assert_eq!(record.failure.unwrap().category, Category::Quota);
        std::fs::remove_file(world.path().join("router.json")).unwrap();
    }
    // The same one twice, by its alias, is asked once.
    let record = listed(&["claude", "claude-code", "CLAUDE"]).run().await.unwrap();
    assert_eq!(names(&record), ["claude"]);
    std::fs::remove_file(world.path().join("router.json")).unwrap();
    // A model that one of them is known to have is for that one; a model that none is known to have is for all.
    let verdicts = |model: &str| -> Vec<(String, Option<usize>)> {
        let explained = listed(&["claude", "codex"]).model(model).explain().unwrap();
        explained.verdicts.into_iter().map(|it| (it.name, it.turn)).collect()
    };
    assert_eq!(verdicts("gpt-5.5"), [("claude".to_owned(), None), ("codex".to_owned(), Some(1))]);
    assert_eq!(verdicts("in-house-1"), [("claude".to_owned(), Some(1)), ("codex".to_owned(), Some(2))]);
    assert!(matches!(listed(&["claude", "nobody"]).run().await, Err(Error::UnknownProvider { .. })));
    assert!(
        matches!(listed(&["claude"]).provider("codex").explain().unwrap().verdicts[..], [ref it] if it.name == "codex")
    );
}
