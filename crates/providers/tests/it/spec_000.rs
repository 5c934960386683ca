//! The examples of the CLI provider adapter protocol.

use bowline_providers::catalogue;
use bowline_providers::manifest::PromptStyle;

use crate::support::{Run, text};

#[test]
fn text_format() {
    let output = "Hello! I'm an AI assistant. How can I help you today?\n";
    assert_eq!(text("text", output), "Hello! I'm an AI assistant. How can I help you today?");
}

#[test]
fn json_format() {
    assert_eq!(text("json", r#"{"content": "Hello! How can I help you?"}"#), "Hello! How can I help you?");
}

#[test]
fn content_lines() {
    let output = r#"{"type":"turn.started","id":"turn_123"}
{"type":"content","content":"Hello! "}
{"type":"content","content":"How can I help?"}
{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":8}}
"#;
    let run = Run::of("stream-json", output);
    let summary = run.summary();
    assert_eq!(summary["text"], "Hello! How can I help?");
    assert_eq!(summary["outcome"], "completed");
    assert_eq!(
        summary["usage"],
        serde_json::json!({"input": 10, "output": 8, "cache_read": 0, "cache_write": 0, "total": 18, "source": "reported"})
    );
    assert_eq!(
        run.kinds(),
        [
            "turn_started",
            "text_delta",
            "text_delta",
            "usage_reported",
            "message_finished",
            "turn_ended",
            "session_ended"
        ]
    );
}

#[test]
fn items() {
    let output = r#"{"type":"thread.started","thread_id":"thread_abc"}
{"type":"item.completed","item":{"type":"agent_message","text":"Here's my response."}}
{"type":"turn.completed"}
"#;
    let summary = Run::of("stream-json", output).summary();
    assert_eq!(summary["text"], "Here's my response.");
    assert_eq!(summary["native_session"], "thread_abc");
    assert_eq!(summary["usage"]["source"], "estimated");
    assert_eq!(summary["usage"]["output"], 5, "19 characters");
    let nested = r#"{"type":"item.completed","item":{"agent_message":{"text":"nested"}}}"#;
    assert_eq!(text("stream-json", nested), "nested");
    let typed =
        r#"{"type":"item.completed","item":{"type":"agent_message","agent_message":{"text":"nested"}}}"#;
    assert_eq!(text("stream-json", typed), "nested");
}

#[test]
fn role_lines() {
    let output = "{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi there! How can I help?\"}\n";
    for dialect in ["role-lines", "stream-json"] {
        let summary = Run::of(dialect, output).summary();
        assert_eq!(summary["text"], "Hi there! How can I help?", "{dialect}");
        assert_eq!(summary["outcome"], "completed", "{dialect}");
        assert_eq!(summary["usage"]["input"], 2, "the echo of the prompt has five characters");
    }
}

#[test]
fn token_usage_in_both_spellings_mixed_and_missing() {
    for (usage, input, output, source) in [
        (r#"{"input_tokens":10,"output_tokens":8}"#, 10, 8, "reported"),
        (r#"{"prompt_tokens":10,"completion_tokens":8}"#, 10, 8, "reported"),
        (r#"{"input_tokens":10,"completion_tokens":8}"#, 10, 8, "reported"),
        (r#"{"input_tokens":10}"#, 0, 2, "estimated"),
        (r#"{"output_tokens":"8","input_tokens":1}"#, 0, 2, "estimated"),
    ] {
        let output_text = format!(
            "{{\"type\":\"content\",\"content\":\"eight ch\"}}\n{{\"type\":\"turn.completed\",\"usage\":{usage}}}\n"
        );
        let summary = Run::of("stream-json", &output_text).summary();
        assert_eq!(summary["usage"]["input"], input, "{usage}");
        assert_eq!(summary["usage"]["output"], output, "{usage}");
        assert_eq!(summary["usage"]["source"], source, "{usage}");
    }
}

#[test]
fn an_estimate_counts_characters_and_rounds_up() {
    for (answer, tokens) in [("a", 1), ("abcd", 1), ("abcde", 2), ("ééééé", 2), ("😀", 1)] {
        assert_eq!(Run::of("text", answer).summary()["usage"]["output"], tokens, "{answer}");
    }
    assert!(Run::of("text", "").summary()["usage"].is_null(), "nothing was answered");
}

#[test]
fn the_six_providers_of_the_table() {
    // name, program, format, dialect, prompt, where the login comes from.
    let table = [
        ("claude", "claude", "stream-json", "claude", PromptStyle::Stdin, ".claude/.credentials.json"),
        ("gemini", "gemini", "stream-json", "gemini", PromptStyle::Stdin, "GEMINI_API_KEY"),
        ("codex", "codex", "stream-json", "codex-exec", PromptStyle::Stdin, ".codex/auth.json"),
        ("qwen", "qwen", "text", "qwen", PromptStyle::Stdin, "DASHSCOPE_API_KEY"),
        ("glm", "ax-glm", "stream-json", "role-lines", PromptStyle::Arg, "ZAI_API_KEY"),
        ("grok", "ax-grok", "stream-json", "role-lines", PromptStyle::Arg, "XAI_API_KEY"),
    ];
    for (name, program, format, dialect, prompt, login) in table {
        let manifest = catalogue::by_name(name).expect(name);
        assert_eq!(manifest.program, program);
        assert_eq!(manifest.default_format, format);
        assert_eq!(manifest.formats[format].dialect, dialect);
        assert_eq!(manifest.prompt, prompt);
        assert!(manifest.auth.env.iter().chain(&manifest.auth.files).any(|place| place == login), "{name}");
        // The specification's 120 s stand in an example. As a limit of all work they would end healthy turns.
        assert_eq!((manifest.max_tokens, manifest.timeout), (4096, None));
        assert_eq!(
            (manifest.default_model.as_str(), manifest.models[0].name.as_str()),
            ("default", "Default Model")
        );
    }
}

#[test]
fn every_alias_of_the_specs_works() {
    for (alias, name) in [
        ("claude_code", "claude"),
        ("claude-code", "claude"),
        ("claude-cli", "claude"),
        ("CLAUDE", "claude"),
        ("gemini_cli", "gemini"),
        ("gemini-cli", "gemini"),
        ("codex-cli", "codex"),
        ("ax-glm", "glm"),
        ("ax_grok", "grok"),
    ] {
        assert_eq!(catalogue::by_name(alias).expect(alias).name, name);
    }
    assert!(catalogue::by_name("nobody").is_none());
}

#[test]
fn wrappers_may_print_a_list_of_messages_or_plain_text() {
    let list = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"one"},{"role":"assistant","content":"two"}]}"#;
    let pretty = list.replace(":[", ":[\n  ").replace("},", "},\n  ");
    for output in [list, &format!("{list}\n"), &pretty] {
        assert_eq!(text("role-lines", output), "one\ntwo", "{output}");
    }
    // Lists in lists say nothing, and cost nothing.
    let nested = r#"{"messages":[{"messages":[{"role":"assistant","content":"x"}]}]}"#;
    assert_eq!(Run::of("role-lines", nested).summary()["unrecognized"], 1);
    let run = Run::of("role-lines", "Hello from ax-glm.\nSecond line.\n");
    assert_eq!(
        (run.outcome().as_str(), run.text().as_str()),
        ("completed", "Hello from ax-glm.\nSecond line.")
    );
    let failed = Run::of("role-lines", "rate_limit hit\n").exit(1);
    assert_eq!(failed.summary()["failure"]["category"], "rate_limit");
}

#[test]
fn a_document_that_is_null_or_empty_has_no_answer() {
    for document in ["null", " null\n", "[]", "{}"] {
        assert_eq!(text("json", document), "", "{document:?}");
    }
}
