//! The judge over tables of commands, and its promises over random ones.

mod lists;
mod promises;
mod table;

use std::collections::BTreeMap;

use super::{Judgement, PolicyAction, PolicyRules, WorkspaceFacts, judge};

/// A workspace with a link that leads out of it and one that does not.
fn facts() -> WorkspaceFacts {
    let own = [
        "/home/ann/.config/bowline",
        "/home/ann/.local/share/bowline",
        "/run/user/1000/bowline",
        "/usr/local/bin/bowline",
    ];
    WorkspaceFacts {
        cwd: "/home/ann/app".into(),
        roots: vec!["/home/ann/app".into()],
        scratch: vec!["/tmp".into()],
        home: Some("/home/ann".into()),
        branch: Some("feature/x".into()),
        links: BTreeMap::from([
            ("/home/ann/app/outside".into(), "/etc".into()),
            ("/home/ann/app/inner".into(), "src".into()),
        ]),
        agent_settings: vec![".agent".into(), ".mcp.json".into()],
        own: own.iter().map(Into::into).collect(),
    }
}

fn shell(policies: &[PolicyRules], command: &str) -> Judgement {
    judge(policies, &PolicyAction::Shell(command), &facts())
}
