//! Many prompts in one process, with the control protocol of Claude Code. A prompt is `paced N MICROS` (pieces of text), or
//! `asks N` (requests for permission, one after the other). Each piece of text is the time at which it was made: for a request,
//! the time at which its decision arrived.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// Takes prompts until its input ends.
pub(crate) fn talk(out: &mut impl Write) -> io::Result<()> {
    let mut lines = io::stdin().lock().lines();
    let mut turns = 0;
    while let Some(line) = lines.next() {
        let line: Value = serde_json::from_str(&line?)?;
        match line["type"].as_str() {
            Some("control_request") => acknowledge(out, &line)?,
            Some("user") => {
                turns += 1;
                let (id, prompt) = (&line["uuid"], text_of(&line["message"]["content"]));
                lifecycle(out, id, "queued")?;
                lifecycle(out, id, "started")?;
                writeln!(
                    out,
                    r#"{{"type":"system","subtype":"init","session_id":"b","model":"m","cwd":"/"}}"#
                )?;
                out.flush()?;
                play(out, &mut lines, &prompt, turns)?;
                writeln!(
                    out,
                    r#"{{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"b"}}"#
                )?;
                lifecycle(out, id, "completed")?;
                out.flush()?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn play(
    out: &mut impl Write,
    lines: &mut impl Iterator<Item = io::Result<String>>,
    prompt: &str,
    turn: u64,
) -> io::Result<()> {
    let words: Vec<&str> = prompt.split(' ').collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(0_u64);
    for count in 0..number(1) {
        if words[0] == "asks" {
            ask(out, lines, &format!("{turn}-{count}"))?;
        } else {
            std::thread::sleep(Duration::from_micros(number(2)));
        }
        super::delta(out, &super::nanos().to_string())?;
        out.flush()?;
    }
    Ok(())
}

/// Requests a permission, and waits for the decision.
fn ask(
    out: &mut impl Write,
    lines: &mut impl Iterator<Item = io::Result<String>>,
    id: &str,
) -> io::Result<()> {
    let input = json!({ "command": "true" });
    let request =
        json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": id });
    writeln!(out, "{}", json!({ "type": "control_request", "request_id": id, "request": request }))?;
    out.flush()?;
    for line in lines {
        let line: Value = serde_json::from_str(&line?)?;
        if line["type"] == "control_response" && line["response"]["request_id"] == id {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn acknowledge(out: &mut impl Write, request: &Value) -> io::Result<()> {
    let response = json!({ "subtype": "success", "request_id": request["request_id"], "response": {} });
    writeln!(out, "{}", json!({ "type": "control_response", "response": response }))?;
    out.flush()
}

fn lifecycle(out: &mut impl Write, prompt: &Value, state: &str) -> io::Result<()> {
    let line = json!({ "type": "command_lifecycle", "command_uuid": prompt, "state": state });
    writeln!(out, "{line}")
}

/// The text of a prompt, which is a string or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
