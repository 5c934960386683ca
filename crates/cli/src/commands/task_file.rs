//! A task in the form of the provider adapters specification (004): the file of `start --task`, and the lines of `run --tasks`.
//!
//! The goal, constraints and acceptance criteria become the prompt. A field that Bowline cannot enforce yet is refused by
//! name: a task that works outside of its room, or on another branch, is worse than none.

use std::path::Path;

use bowline_protocol::TaskSpec;
use serde_json::Value;

use super::run::read_option_file;
use crate::error::{CommandError, Fault};

/// The fields that a task may have.
const FIELDS: [&str; 6] = ["title", "goal", "constraints", "acceptance", "roomPath", "branchName"];

/// A task of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskFile {
    pub(super) title: String,
    pub(super) prompt: String,
}

/// The form that a hint shows.
const FORM: &str =
    "write it as {\"title\": \"…\", \"goal\": \"…\", \"constraints\": [\"…\"], \"acceptance\": [\"…\"]}";

/// Reads a task.
pub(super) fn read(path: &Path) -> Result<TaskFile, CommandError> {
    let text = read_option_file(path, "--task")?;
    parse(&text).map_err(|error| {
        CommandError::new(Fault::Usage, format!("`--task {}` {}", path.display(), error.problem))
            .hint(error.hint)
    })
}

/// Why a text is no task that can be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskProblem {
    pub(super) problem: String,
    pub(super) hint: &'static str,
}

fn wrong(problem: String, hint: &'static str) -> TaskProblem {
    TaskProblem { problem, hint }
}

fn parse(text: &str) -> Result<TaskFile, TaskProblem> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("is not JSON: {error}"), FORM))?;
    let fields = value.as_object().ok_or_else(|| wrong("is not a JSON object".to_owned(), FORM))?;
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let problem = format!("has a field that a task does not have: `{name}`");
        return Err(wrong(problem, "remove it; options of the session are options of the command"));
    }
    let spec: TaskSpec =
        serde_json::from_value(value).map_err(|error| wrong(format!("is not a task: {error}"), FORM))?;
    of_spec(&spec)
}

/// Makes the prompt of a task.
pub(super) fn of_spec(spec: &TaskSpec) -> Result<TaskFile, TaskProblem> {
    if spec.room_path.is_some() {
        let problem =
            "has `roomPath`, and Bowline cannot keep an agent inside a part of the repository".to_owned();
        return Err(wrong(problem, "remove it, or start the agent in a directory with `--cwd DIR`"));
    }
    if spec.branch_name.is_some() {
        let problem = "has `branchName`, and Bowline makes and changes no branches".to_owned();
        return Err(wrong(problem, "remove it, and check out the branch before you start the agent"));
    }
    for (name, text) in [("title", &spec.title), ("goal", &spec.goal)] {
        if text.trim().is_empty() {
            return Err(wrong(format!("has an empty `{name}`"), FORM));
        }
    }
    let mut prompt = format!("{}\n\n{}\n", spec.title.trim(), spec.goal.trim());
    for (head, items) in [("Constraints", &spec.constraints), ("Acceptance criteria", &spec.acceptance)] {
        if !items.is_empty() {
            let items: String = items.iter().map(|item| format!("- {}\n", item.trim())).collect();
            prompt += &format!("\n{head}:\n{items}");
        }
    }
    Ok(TaskFile { title: spec.title.trim().to_owned(), prompt })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_becomes_a_prompt() {
        let text = r#"{"title": "Fix the build", "goal": "Make it pass.", "constraints": ["no new packages"],
            "acceptance": ["CI is green", "a test"]}"#;
        let task = parse(text).expect("a task");
        let prompt = "Fix the build\n\nMake it pass.\n\nConstraints:\n- no new packages\n\nAcceptance criteria:\n- CI is green\n- a test\n";
        assert_eq!(task, TaskFile { title: "Fix the build".to_owned(), prompt: prompt.to_owned() });
        let short =
            parse(r#"{"title": "T", "goal": "G", "constraints": [], "acceptance": []}"#).expect("a task");
        assert_eq!(short.prompt, "T\n\nG\n");
    }

    #[test]
    fn what_cannot_be_honoured_is_named() {
        for (text, problem) in [
            (r#"{"title": "T", "goal": "G", "roomPath": "web"}"#, "`roomPath`"),
            (r#"{"title": "T", "goal": "G", "branchName": "fix"}"#, "`branchName`"),
            (r#"{"title": "T", "goal": "G", "policy": {}}"#, "`policy`"),
            (r#"{"title": "T", "goal": " "}"#, "`goal`"),
            (r#"{"title": "T"}"#, "`goal`"),
            (r#"{"title": "T", "goal": "G", "constraints": "no"}"#, "is not a task"),
            ("[]", "is not a JSON object"),
            ("title: T", "is not JSON"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.problem.contains(problem), "{text}: {error:?}");
        }
    }
}
