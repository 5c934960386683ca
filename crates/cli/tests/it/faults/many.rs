//! Many runs at once.

use std::collections::BTreeSet;

use crate::journal::Journal;
use crate::world::World;

/// Two hundred runs in one process, by the library.
#[test]
fn two_hundred_runs_at_once() {
    let world = World::new();
    let (home, work) = (world.path("home"), world.path("work"));
    let mark = world.mark();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let records = runtime.block_on(async {
        let mut runs = tokio::task::JoinSet::new();
        for number in 0..200 {
            let task = bowline::task(format!("practice: say answer {number}\npractice: tool read none"))
                .provider("practice")
                .binary(env!("CARGO_BIN_EXE_bowline"))
                .env("PRACTICE_PACE", "0")
                .env("PRACTICE_HOME", world.path("practice").display().to_string())
                .env("MARK", &mark)
                .cwd(&work)
                .timeout_ms(None)
                .idle_timeout_ms(None)
                .home(bowline::journal::Home::at(&home));
            runs.spawn(async move { (number, task.start().await.unwrap().outcome().await.unwrap()) });
        }
        runs.join_all().await
    });
    assert_eq!(records.len(), 200);
    for (number, record) in &records {
        assert_eq!(record.outcome_word(), "completed", "{record:#?}");
        assert_eq!(record.text.as_deref(), Some(format!("answer {number}").as_str()));
        assert!(record.survivors.is_empty());
    }
    let sessions: BTreeSet<_> = records.iter().map(|(_, record)| record.session.to_string()).collect();
    assert_eq!(sessions.len(), 200, "each has a name of its own");
    let journals = Journal::all(&home);
    assert_eq!(journals.len(), 200);
    for journal in &journals {
        journal.check().ended("completed");
    }
    assert_eq!(world.agents(), Vec::<String>::new());
}

/// Several commands at once, each with its own keeper, in one data home.
#[test]
fn several_commands_at_once() {
    let world = World::new();
    let running: Vec<_> = (0..12)
        .map(|number| {
            let said = format!("say answer {number}");
            world.practice(&["child setsid ignores-sigterm 600", &said]).start()
        })
        .collect();
    for (number, running) in running.into_iter().enumerate() {
        let ended = running.end_among_others().exits(0);
        assert_eq!(ended.stdout, format!("answer {number}\n"));
    }
    world.nobody_is_left();
    let journals = world.journals();
    assert_eq!(journals.len(), 12);
    for journal in journals {
        journal.check().ended("completed");
    }
}
