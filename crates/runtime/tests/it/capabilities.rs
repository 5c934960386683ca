//! The capabilities of a session: those of the format in use and of the program that is installed.

use std::path::Path;

use bowline::{Approvals, Capabilities};
use bowline_providers::catalogue;
use libtest_mimic::Trial;

use crate::support::{Stage, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("capabilities_are_those_of_the_installed_program", narrowed),
        trial("capabilities_in_one_form_have_a_second_chance", one_form),
    ]
}

async fn narrowed() {
    // The first event has the capabilities of a run; without a probe, they are those that the manifest declares for the format.
    let stage = Stage::new("init; result done");
    let mut turn = stage.task("hi").start().await.unwrap();
    let mut started = None;
    while let Some(event) = turn.next().await {
        if let bowline::Kind::SessionStarted(it) = &event.kind
            && started.is_none()
        {
            started = it.capabilities.clone();
        }
    }
    let record = turn.outcome().await.unwrap();
    let declared = catalogue::by_name("claude").expect("a provider").capabilities.clone();
    let expect = Capabilities { steers: false, approvals: Approvals::Rules, ..declared };
    assert_eq!(started.as_deref(), Some(&expect), "the prompt is all that this format is told");
    let meta = bowline::journal::SessionMeta::read(record.journal.as_deref().unwrap()).unwrap();
    assert_eq!(meta.provider_version.as_deref(), Some("2.9.9"), "as it says while it runs");
    let program = meta.program.expect("the file");
    assert_eq!(Path::new(&program.path), stage.agent().canonicalize().unwrap());
    // The next turn of the session, after an update.
    let text = std::fs::read_to_string(stage.agent()).unwrap();
    bowline_testkit::write_program(stage.agent(), format!("{text}\n# changed\n"));
    let next = |task: bowline::Task| async move {
        let mut turn = task.start().await.unwrap();
        let mut noticed = Vec::new();
        while let Some(event) = turn.next().await {
            if let bowline::Kind::Notice(notice) = &event.kind {
                noticed.extend(notice.code.clone());
            }
        }
        let record = turn.outcome().await.unwrap();
        let meta = bowline::journal::SessionMeta::read(record.journal.as_deref().unwrap()).unwrap();
        (noticed, meta.parent)
    };
    // By the agent's name of the session, then by ours, then once more: now it is the same program as the last time.
    let (noticed, parent) = next(stage.task("and?").resume("n-1")).await;
    assert_eq!((noticed, parent), (vec!["program_replaced".to_owned()], None));
    let (noticed, parent) = next(stage.task("and?").resume("n-1").parent(record.session.clone())).await;
    assert_eq!((noticed, parent), (vec!["program_replaced".to_owned()], Some(record.session)));
    let (noticed, _) = next(stage.task("and?").resume("n-1")).await;
    assert_eq!(noticed, Vec::<String>::new());
}

async fn one_form() {
    // Its usual form and the one that does not stream are the same; a first run that says nothing is not the last.
    let stage = Stage::new(
        r#"[ -e "$HERE/tried" ] || { touch "$HERE/tried"; exit 0; }
           echo '{"type":"thread.started","thread_id":"t-1"}'
           echo '{"type":"turn.started"}'
           echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Here."}}'
           echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#,
    );
    let record = stage.task("hi").provider("codex").run().await.unwrap();
    assert_eq!((record.text.as_deref(), record.is_completed()), (Some("Here."), true));
}
