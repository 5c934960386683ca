//! The provider events of the adapters specification, by their own names, and its policy and task forms.

use bowline_protocol::{Capabilities, PolicySpec, TaskSpec};
use bowline_providers::catalogue;

use crate::support::Run;

#[test]
fn a_run_in_its_words() {
    let output = "{\"type\":\"thread.started\",\"thread_id\":\"t1\"}\n{\"type\":\"content\",\"content\":\"Hel\"}\n{\"type\":\"content\",\"content\":\"lo\"}\n{\"type\":\"turn.completed\"}\n";
    let lines = Run::of("stream-json", output).lines("provider-events");
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["PROVIDER_STARTED", "PROVIDER_MESSAGE"]);
    assert_eq!(lines[1]["text"], "Hello");
    let failed = Run::of("text", "").exit(1).stderr("boom").lines("provider-events");
    assert!(failed.iter().any(|line| line["severity"] == "error" && line["text"] == "boom"));
}

#[test]
fn its_specs_are_read_as_they_stand() {
    let task = r#"{"title":"t","goal":"g","constraints":["c"],"acceptance":["a"],"roomPath":"src/x","branchName":"b"}"#;
    let spec: TaskSpec = serde_json::from_str(task).expect("a task");
    assert_eq!(serde_json::to_string(&spec).expect("writes"), task);
    let policy = r#"{"shellAllowlist":["git"],"shellDenylist":["rm"],"requiresApprovalFor":["merge","deps_add","secrets","deploy"],"networkMode":"restricted"}"#;
    let spec: PolicySpec = serde_json::from_str(policy).expect("a policy");
    assert_eq!(serde_json::to_string(&spec).expect("writes"), policy);
}

#[test]
fn every_provider_declares_its_capabilities_and_can_be_packaged() {
    for manifest in catalogue::built_in() {
        assert!(manifest.capabilities.supports_non_interactive, "{}", manifest.name);
        assert_ne!(manifest.capabilities, Capabilities::default());
        assert_eq!(manifest.adapter_id, format!("bowline.{}", manifest.name));
        assert!(!manifest.adapter_version.is_empty() && !manifest.vendor.is_empty());
        assert!(manifest.signature.is_empty());
    }
}
