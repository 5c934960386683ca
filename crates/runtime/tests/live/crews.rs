//! Crews, with scripts in the place of agents.

use bowline::registry::{Registry, SessionFilter};
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

#[tokio::test]
async fn a_task_that_panics_has_a_result() {
    let world = world();
    world.provider("claude", says("Done."));
    let fine = world.prepare(task("fine").provider("claude"));
    let panics = world.prepare(task("panics").provider("claude")).on_event(|_| panic!("of the embedder"));
    let mut run = crew().at_once(1).run([panics, fine]);
    let first = run.next().await.expect("a result");
    assert!(matches!((first.index, first.result), (0, Err(Error::Lost))));
    let second = run.next().await.expect("the next task runs all the same");
    assert_eq!((second.index, second.result.expect("a record").is_completed()), (1, true));
    assert!(run.next().await.is_none());
    assert_eq!(run.left(), 0);
}

#[tokio::test]
async fn tasks_begin_without_a_call_of_next() {
    let world = world();
    world.provider("claude", says("Done."));
    let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let tasks = (0..5).map(|number| {
        let sender = sender.clone();
        let mut first = true;
        world.prepare(task(format!("task {number}")).provider("claude")).on_event(move |_| {
            if std::mem::take(&mut first) {
                sender.send(number).expect("the test waits");
            }
        })
    });
    let mut run = crew().at_once(2).run(tasks);
    for number in 0..5 {
        assert_eq!(begun.recv().await, Some(number), "in their order");
    }
    assert_eq!(run.left(), 5, "no result was taken");
    let mut results = 0;
    while run.next().await.is_some() {
        results += 1;
    }
    assert_eq!((results, run.left()), (5, 0));
}

#[tokio::test]
async fn a_crew_that_is_dropped_ends_its_agents() {
    let world = world();
    world.provider("claude", script(r#"{"steps": [{"say": "a"}, {"hang": true}]}"#));
    let run = crew().providers(["claude"]).run((0..3).map(|_| world.prepare(task("hang"))));
    let registry = Registry::at(world.home());
    let running = || registry.list(SessionFilter::Running).expect("the sessions").len();
    while running() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(run);
    while running() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn a_crew_outside_of_a_runtime_reports_it_for_each_task() {
    let mut run = crew().run([task("one"), task("two")]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        for index in 0..2 {
            let done = run.next().await.expect("a result");
            assert_eq!(done.index, index);
            assert!(matches!(done.result, Err(Error::NoRuntime(_))));
        }
        assert!(run.next().await.is_none());
    });
}
