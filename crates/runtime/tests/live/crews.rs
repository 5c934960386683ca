//! Crews, with scripts in the place of agents.

use bowline::testing::{says, script, world};
use bowline::{CrewResult, Error, Fallback, crew, task};

#[tokio::test]
async fn every_task_has_one_result_and_few_run_at_once() {
    let world = world();
    world.provider("claude", says("Done."));
    let tasks = (0..7).map(|number| world.prepare(task(format!("task {number}"))));
    let mut run = crew().providers(["claude"]).at_once(2).run(tasks);
    let mut seen = Vec::new();
    while let Some(CrewResult { index, result, .. }) = run.next().await {
        assert_eq!(result.expect("a record").text.as_deref(), Some("Done."));
        seen.push(index);
    }
    seen.sort_unstable();
    assert_eq!((seen, run.left()), ((0..7).collect(), 0));
}

#[tokio::test]
async fn a_task_falls_back_and_another_one_keeps_its_own_provider() {
    let world = world();
    world.provider("claude", script(r#"{"steps": [{"fail": "insufficient_quota"}]}"#));
    world.provider("codex", says("by codex"));
    let tasks =
        [world.prepare(task("any")), world.prepare(task("mine").provider("claude").fallback(Fallback::None))];
    let mut run = crew().providers(["claude", "codex"]).fallback(Fallback::Next).run([tasks[0].clone()]);
    let done = run.next().await.expect("a result").result.expect("a record");
    assert_eq!(done.text.as_deref(), Some("by codex"));
    let mut run = crew().providers(["codex"]).run([tasks[1].clone()]);
    let done = run.next().await.expect("a result").result.expect("a record");
    assert!(!done.is_completed());
}

#[tokio::test]
async fn one_budget_is_for_all() {
    let world = world();
    let costs =
        r#"{"steps": [{"say": "a"}, {"result": {"usage": {"input": 1, "output": 2}, "cost_usd": 0.6}}]}"#;
    world.provider("claude", script(costs));
    let tasks = (0..4).map(|_| world.prepare(task("spend")));
    let mut run = crew().providers(["claude"]).max_cost(1.0).at_once(1).run(tasks);
    let mut over = 0;
    while let Some(done) = run.next().await {
        over += usize::from(matches!(done.result, Err(Error::OverBudget { .. })));
    }
    assert!(over >= 2, "two tasks use it up: {over}");
    assert!(run.spent().cost.is_some_and(|cost| cost >= 1.2));
}
