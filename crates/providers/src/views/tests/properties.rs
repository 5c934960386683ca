//! What holds for every stream that a decoder may give.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::super::ALL;
use super::super::script::*;

fn word<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_default()
}

proptest! {
    #[test]
    fn every_record_is_one_line_of_json(kinds in any_stream()) {
        for entry in ALL.iter().filter(|entry| entry.name != "text") {
            records(entry.name, kinds.clone());
        }
    }

    #[test]
    fn pi_starts_once_ends_once_and_closes_every_block(kinds in any_stream()) {
        let records = records("pi", kinds);
        let types: Vec<&str> = records.iter().map(|record| word(record, "type")).collect();
        prop_assert_eq!(types.iter().position(|t| *t == "start"), Some(0));
        prop_assert_eq!(types.iter().filter(|t| **t == "start").count(), 1);
        prop_assert_eq!(types.iter().position(|t| matches!(*t, "done" | "error")), Some(types.len() - 1));

        // Block number to the words so far, while it is open.
        let mut open: BTreeMap<u64, String> = BTreeMap::new();
        let mut next = 0;
        for record in &records[1..records.len() - 1] {
            let index = record["contentIndex"].as_u64().unwrap();
            match word(record, "type").rsplit_once('_').unwrap() {
                (_, "start") => {
                    prop_assert_eq!(index, next);
                    next += 1;
                    open.insert(index, String::new());
                }
                (_, "delta") => open.get_mut(&index).unwrap().push_str(word(record, "delta")),
                (sort, _) => {
                    let words = open.remove(&index);
                    prop_assert!(words.is_some());
                    // An end repeats its block, unless the text was taken back or is a call.
                    let content = word(record, "content");
                    prop_assert!(sort == "toolcall" || content.is_empty() || words.as_deref() == Some(content));
                }
            }
        }
        prop_assert!(open.is_empty());
        let last = &records[records.len() - 1];
        let message = if last["message"].is_null() { &last["error"] } else { &last["message"] };
        let content = message["content"].as_array().unwrap();
        prop_assert!(content.len() as u64 <= next);
        let empty = |block: &Value| word(block, "text").is_empty() && word(block, "thinking").is_empty();
        prop_assert!(!content.iter().any(|block| word(block, "type") != "toolCall" && empty(block)));
        prop_assert_eq!(&message["stopReason"], &last["reason"]);
        prop_assert_eq!(message.get("errorMessage").is_some(), word(last, "type") == "error");
    }

    #[test]
    fn chunks_add_up(kinds in any_straight_stream()) {
        let records = records("chunks", kinds);
        let mut sum = String::new();
        for record in &records {
            sum.push_str(word(record, "delta"));
            prop_assert_eq!(word(record, "content"), &sum);
        }
        let done: Vec<bool> = records.iter().map(|record| record["done"].as_bool().unwrap()).collect();
        prop_assert_eq!(done.iter().position(|done| *done), Some(records.len() - 1));
    }

    #[test]
    fn chunks_go_on_from_what_a_retraction_left(kinds in any_stream()) {
        let mut before = String::new();
        for record in records("chunks", kinds) {
            let (content, delta) = (word(&record, "content"), word(&record, "delta"));
            if !delta.is_empty() {
                prop_assert_eq!(content, format!("{before}{delta}"));
            }
            before = content.to_owned();
        }
    }

    #[test]
    fn the_views_agree_on_the_answer(kinds in any_stream()) {
        let summary = &records("summary", kinds.clone())[0];
        let text = word(summary, "text");
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        prop_assert_eq!(render("text", kinds.clone()), format!("{text}{newline}"));
        let response = &records("generate", kinds.clone())[0];
        prop_assert_eq!(word(response, "content"), text);
        let results = records("stream-events", kinds);
        if let Some(last) = results.iter().rfind(|record| word(record, "type") == "ResultEvent") {
            prop_assert!(summary["outcome"] != "completed" || word(last, "result") == text);
        }
    }

    #[test]
    fn simple_tells_each_call_once_and_ends_once(kinds in any_stream()) {
        let started = kinds.iter().filter(|kind| kind.type_name() == "tool_started").count();
        let records = records("simple", kinds);
        let count = |name: &str| records.iter().filter(|record| word(record, "type") == name).count();
        prop_assert_eq!(count("tool_call"), started);
        prop_assert_eq!(count("done") + count("error"), 1);
        prop_assert!(matches!(word(&records[records.len() - 1], "type"), "done" | "error"));
    }
}
