//! The forms in which a run starts an agent, and what keeps it from the code of a repository. The commands are the manifests' own.

use std::path::Path;

use super::*;
use crate::run::trust::ProjectTrust;
use crate::{SessionTask, task};

/// A project with one file, which an agent would use in the format of live sessions.
fn project(file: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".git")).unwrap();
    let path = dir.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
    dir
}

fn asking(provider: &str, cwd: &Path) -> Task {
    task("Go on").provider(provider).cwd(cwd).permission(PermissionMode::Ask).ask_a_person()
}

/// Returns whether the run talks over ACP, and what it reports as lost.
fn form(task: &Task) -> (bool, Option<CapabilityDegraded>) {
    let driver = Driver::Manifest(named_manifest(task).unwrap());
    let args = task.preview().unwrap().args;
    (args.iter().any(|arg| arg == "--acp"), lost(&task.clone().captured(), &driver))
}

#[test]
fn a_run_that_asks_does_not_use_a_format_that_would_run_the_repositorys_code() {
    for (provider, file) in [("qwen", ".env"), ("copilot", ".github/hooks/x.json")] {
        let dir = project(file);
        let (over_acp, lost) = form(&asking(provider, dir.path()));
        let lost = lost.expect("it cannot ask");
        assert!(!over_acp, "{provider}");
        assert_eq!(lost.capability, "approvals");
        assert!(lost.reason.starts_with("over ACP it ") && lost.reason.ends_with("not trusted"), "{lost:?}");
        // Nothing is lost in a trusted project, with `edit`, or without such files.
        let trusted = asking(provider, dir.path()).trust_project(ProjectTrust::Always);
        let editing = asking(provider, dir.path()).permission(PermissionMode::Edit);
        let clean = asking(provider, project("README.md").path());
        for task in [trusted, editing, clean] {
            assert_eq!(form(&task), (true, None), "{provider}");
        }
    }
    // It can be kept from the file over ACP.
    assert_eq!(form(&asking("gemini", project(".env").path())), (true, None));
}

#[tokio::test]
async fn a_live_session_that_would_run_the_repositorys_code_is_refused() {
    let dir = project(".env");
    let session = SessionTask::of(task("").provider("qwen").cwd(dir.path()).without_journal());
    let refused = session.permission(PermissionMode::Ask).open().await;
    let Err(Error::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert!(refusal.reason.ends_with("this project is not trusted and has .env"), "{refusal:?}");
}
