//! Many runs at once in one process.

use std::collections::BTreeSet;

use libtest_mimic::Trial;

use crate::support::{Stage, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("two_hundred_runs_have_one_keeper", one_keeper)]
}

const RUNS: usize = 200;

async fn one_keeper() {
    let stage =
        Stage::new("echo $PPID >>$HERE/keepers; prompt=$(cat); init; say m1 \"$prompt\"; result \"$prompt\"");
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..RUNS {
        let task = stage.task(&format!("answer {number}")).timeout_ms(None).idle_timeout_ms(None);
        runs.spawn(async move { (number, task.start().await.unwrap().outcome().await.unwrap()) });
    }
    let records = tokio::time::timeout(std::time::Duration::from_secs(300), runs.join_all()).await.unwrap();
    assert_eq!(records.len(), RUNS);
    for (number, record) in records {
        assert!(record.is_completed(), "{record:#?}");
        assert_eq!(record.text, Some(format!("answer {number}")), "each got its own answer");
        assert_eq!(record.survivors, []);
    }
    let keepers = std::fs::read_to_string(stage.path("keepers")).unwrap();
    let different: BTreeSet<&str> = keepers.lines().collect();
    assert_eq!((keepers.lines().count(), different.len()), (RUNS, 1), "{different:?}");
    assert!(!different.contains(std::process::id().to_string().as_str()), "it is not this process");
}
