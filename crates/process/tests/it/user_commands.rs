//! A command of the user runs beside the agents: it is no part of their trees, gets only the given variables, and ends in time.

use std::path::PathBuf;
use std::time::Duration;

use bowline_process::ancestry::{ProcessOrigin, origin_of};
use bowline_process::user_command::{UserCommand, UserCommandEnd, run};
use bowline_process::{ExitStatus, SpawnErrorKind};
use libtest_mimic::Trial;

use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("user_commands::it_ends_and_complains", it_ends_and_complains),
        trial("user_commands::a_slow_one_is_killed_with_its_group", a_slow_one_is_killed_with_its_group),
        trial("user_commands::it_is_no_part_of_an_agent", it_is_no_part_of_an_agent),
        trial("user_commands::a_missing_program_is_an_error", a_missing_program_is_an_error),
    ]
}

fn shell(script: &str, proof: &str) -> UserCommand {
    UserCommand {
        program: "sh".into(),
        args: ["-c", script].map(Into::into).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("PROOF".into(), proof.into())],
        cwd: PathBuf::from("/"),
        limit: Duration::from_secs(60),
    }
}

async fn ended(command: UserCommand) -> UserCommandEnd {
    tokio::task::spawn_blocking(|| run(command)).await.expect("does not panic").expect("starts")
}

async fn it_ends_and_complains() {
    // More than a pipe holds: the command must not block.
    let script = "echo $PROOF $(pwd) >&2; head -c 200000 /dev/zero >&2; cat; exit 3";
    let end = ended(shell(script, "complains")).await;
    assert_eq!(end.exit, Some(ExitStatus::Code(3)));
    assert!(end.stderr.starts_with(b"complains /\n") && end.stderr.len() == 4096, "{}", end.stderr.len());
}

async fn a_slow_one_is_killed_with_its_group() {
    let mut command = shell("sleep 600 & sleep 600", "slow-command");
    command.limit = Duration::from_millis(300);
    assert_eq!(ended(command).await.exit, None);
    wait_until("the group is gone", || marked("PROOF=slow-command").is_empty());
}

async fn it_is_no_part_of_an_agent() {
    let _agent = supervisor().spawn(agent("sleep")).await.expect("starts");
    let mut command = shell("sleep 600", "beside-the-agent");
    command.limit = Duration::from_secs(2);
    let running = tokio::spawn(ended(command));
    let found =
        || -> Option<u32> { marked("PROOF=beside-the-agent").first()?.split(' ').next()?.parse().ok() };
    wait_until("it runs", || found().is_some());
    // As this process is: the tests themselves may run below an agent, or beside agents without a keeper.
    let own = matches!(origin_of(std::process::id()), ProcessOrigin::Agent { .. });
    match origin_of(found().expect("it still runs")) {
        ProcessOrigin::Agent { reason } => assert!(own || reason.contains("runner"), "{reason}"),
        ProcessOrigin::Outside => {}
        ProcessOrigin::Unknown { reason } => panic!("{reason}"),
    }
    running.await.expect("does not panic");
}

async fn a_missing_program_is_an_error() {
    let mut command = shell("", "");
    command.program = "no-such-program-at-all".into();
    let error = tokio::task::spawn_blocking(|| run(command))
        .await
        .expect("does not panic")
        .expect_err("there is none");
    assert!(matches!(error.kind, SpawnErrorKind::NotFound), "{error}");
}
