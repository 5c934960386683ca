//! Properties over random, cut, spliced and damaged streams.

use bowline_protocol::Kind;
use bowline_providers::dialects;
use proptest::prelude::*;

use crate::support::Run;

const CHUNKS: [usize; 6] = [1, 2, 3, 7, 64, 4096];

/// A stream made of lines that dialects know, noise, and damage.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(LINES.to_vec()).prop_map(|line| line.as_bytes().to_vec());
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    let line = prop_oneof![8 => known, 1 => noise];
    let end = prop::sample::select(vec![&b"\n"[..], b"\r\n", b"", b"\n\n"]);
    prop::collection::vec((line, end), 0..12)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.to_vec()].concat()).collect())
}

/// A stream in which bytes were changed, cut off and moved.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (
        stream(),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut bytes, changes, cut)| {
            if bytes.is_empty() {
                return bytes;
            }
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let place = cut.index(bytes.len());
            bytes.rotate_left(place);
            bytes.truncate(bytes.len() - place / 2);
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_events_do_not_depend_on_the_chunks(bytes in stream(), damaged in damaged()) {
        for bytes in [bytes, damaged] {
            for entry in dialects::ALL {
                let whole = Run::of(entry.name, &bytes).events();
                for chunk in CHUNKS {
                    let cut = Run { chunk, ..Run::of(entry.name, &bytes) }.events();
                    prop_assert_eq!(&whole, &cut, "{} in chunks of {}", entry.name, chunk);
                }
            }
        }
    }

    #[test]
    fn a_prefix_of_the_bytes_gives_a_prefix_of_the_events(bytes in damaged(), cut in any::<prop::sample::Index>()) {
        let at = if bytes.is_empty() { 0 } else { cut.index(bytes.len()) };
        for entry in dialects::ALL {
            let whole = before_the_end(entry.name, &bytes);
            let part = before_the_end(entry.name, &bytes[..at]);
            prop_assert!(part.len() <= whole.len());
            prop_assert_eq!(&part[..], &whole[..part.len()], "{}", entry.name);
        }
    }

    #[test]
    fn no_line_is_lost_and_the_account_adds_up(bytes in damaged()) {
        for entry in dialects::ALL {
            let events = Run::of(entry.name, &bytes).events();
            check_account(entry.name, &events)?;
        }
        // In a dialect in which every line that is understood says something, every line must show.
        let events = Run::of("simple", &bytes).events();
        for (start, line) in lines(&bytes) {
            // A bare byte 0x85 is the control character NEL, and that is white space.
            let spaced: Vec<u8> = line.iter().map(|byte| if *byte == 0x85 { b' ' } else { *byte }).collect();
            let spaced = String::from_utf8_lossy(&spaced);
            let blank = spaced.chars().all(|c| c.is_whitespace() || c == '\0' || c == '\u{feff}');
            // A line whose say is an empty text, or that ends a message without text, has nothing to show.
            let quiet = ["\"done\"", "\"delta\":\"\"", "DONE", "data", "event", "id", "retry", ":"];
            let quiet = quiet.iter().any(|word| String::from_utf8_lossy(line).contains(word));
            let covered = events.iter().filter_map(|event| event.raw).any(|raw| raw.start <= start && start <= raw.end);
            prop_assert!(blank || quiet || covered, "lost {:?}", String::from_utf8_lossy(line));
        }
    }
}

/// The events that a stream gives before its end is known.
fn before_the_end(dialect: &str, bytes: &[u8]) -> Vec<bowline_providers::dialect::UnnumberedEvent> {
    let entry = dialects::by_name(dialect).expect("a dialect of the list");
    let now = bowline_providers::moment::Moment::utc(bowline_protocol::Timestamp::EPOCH);
    let mut drafts = Vec::new();
    bowline_providers::decode::Decoder::new(entry).stdout(bytes, &now, &mut drafts);
    drafts
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut start = 0;
    bytes.split(|byte| *byte == b'\n').map(move |line| {
        let at = start;
        start += line.len() as u64 + 1;
        (at, line)
    })
}

/// Turns alternate and end, messages are finished once within their turn, and the session ends last.
pub(crate) fn check_account(dialect: &str, events: &[bowline_protocol::Event]) -> Result<(), TestCaseError> {
    let mut open_turn = false;
    let mut turns = 0;
    let mut open_messages: Vec<&str> = Vec::new();
    for (place, event) in events.iter().enumerate() {
        prop_assert_eq!(event.seq, place as u64 + 1);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these kinds have a place in the account")]
        match &event.kind {
            Kind::TurnStarted(_) => {
                prop_assert!(!open_turn, "{}", dialect);
                open_turn = true;
                turns += 1;
            }
            Kind::TurnEnded(_) => {
                prop_assert!(open_turn && open_messages.is_empty(), "{}: {:?}", dialect, open_messages);
                open_turn = false;
            }
            Kind::TextDelta(delta) => {
                prop_assert!(open_turn, "{}", dialect);
                if !open_messages.contains(&delta.message.as_str()) {
                    open_messages.push(delta.message.as_str());
                }
            }
            Kind::MessageFinished(finished) => {
                let place = open_messages.iter().position(|message| *message == finished.message.as_str());
                prop_assert!(place.is_some(), "{}: finished a message without text", dialect);
                open_messages.remove(place.unwrap_or_default());
            }
            _ => {}
        }
        prop_assert_eq!(event.turn, (turns > 0).then_some(turns));
    }
    prop_assert!(!open_turn && turns > 0);
    prop_assert_eq!(events.last().map(|event| event.kind.type_name()), Some("session_ended"));
    Ok(())
}

const LINES: &[&str] = &[
    r#"{"type":"turn.started","id":"turn_123"}"#,
    r#"{"type":"content","content":"Hello! "}"#,
    r#"{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":8}}"#,
    r#"{"type":"turn.failed","error":{"message":"429 Too Many Requests, retry after 3s"}}"#,
    r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
    r#"{"type":"thread.started","thread_id":"thread_abc"}"#,
    r#"{"type":"item.completed","item":{"type":"agent_message","text":"Here's my response."}}"#,
    r#"{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"ls"}}"#,
    r#"{"type":"item.completed","item":{"id":"i1","type":"command_execution","aggregated_output":"x"}}"#,
    r#"{"role":"user","content":"Hello"}"#,
    r#"{"role":"assistant","content":"Hi","tool_calls":[{"id":"t","function":{"name":"ls","arguments":"{}"}}]}"#,
    r#"{"role":"tool","tool_call_id":"t","content":"out"}"#,
    r#"{"type":"session","id":"abc123","cwd":"/p"}"#,
    r#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#,
    r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"He","contentIndex":0}}"#,
    r#"{"type":"message_update","assistantMessageEvent":{"type":"text_end","content":"Hello","contentIndex":0}}"#,
    r#"{"type":"message_update","assistantMessageEvent":{"type":"thinking_delta","delta":"hm","contentIndex":1}}"#,
    r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Hello!"}],"stopReason":"stop"}}"#,
    r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"500"}}"#,
    r#"{"type":"tool_execution_start","toolCallId":"c","toolName":"Read","args":{"path":"f"}}"#,
    r#"{"type":"tool_execution_update","toolCallId":"c","partialResult":{"content":[{"type":"text","text":"a"}]}}"#,
    r#"{"type":"tool_execution_end","toolCallId":"c","result":{"content":[]},"isError":true}"#,
    r#"{"type":"agent_end","messages":[],"willRetry":false}"#,
    r#"{"type":"text","delta":"Hello"}"#,
    r#"{"type":"thinking","delta":"Let me think..."}"#,
    r#"{"type":"tool_call","id":"call_1","name":"bash","arguments":{"command":"ls"}}"#,
    r#"{"type":"tool_result","id":"call_1","content":"file1.txt\nfile2.txt"}"#,
    r#"{"type":"done"}"#,
    r#"data: {"type":"text","delta":"x"}"#,
    r#"event: message"#,
    r#"{"content":"2","delta":"2","done":false,"tokens_used":0,"error":""}"#,
    r#"{"content":"2 = 2","delta":" = 2","done":true,"tokens_used":41,"error":""}"#,
    r#"{"content":"x","error":"overloaded"}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"u","name":"Bash","input":{}}]}}"#,
    r#"{"type":"result","is_error":false,"result":"Hi there"}"#,
    "\u{1b}[32m{\"type\":\"content\",\"content\":\"\\ud83d\"}\u{1b}[0m",
    // Gemini CLI and Qwen Code.
    r#"{"type":"message","role":"assistant","content":"[Thought: a] b","delta":true}"#,
    r#"{"type":"tool_use","tool_name":"write_file","tool_id":"w","parameters":{"file_path":"/x"}}"#,
    r#"{"type":"tool_result","tool_id":"w","status":"success"}"#,
    r#"{"type":"error","severity":"error","message":"blocked due to safety"}"#,
    r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: {\"error\":{\"code\":401}}]"}}"#,
    r#"{"type":"system","subtype":"retry","data":{"attempt":1,"preserveText":true}}"#,
    r#"{"type":"system","subtype":"retry","data":{"preserveText":false}}"#,
    r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"a"}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_start","content_block":{"type":"text","text":""}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"half "}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"[API Error: 500 x]"}}}"#,
    r#"{"type":"stream_event","parent_tool_use_id":"t","event":{"type":"content_block_stop"}}"#,
    r#"{"type":"stream_event","event":{"type":"message_stop"}}"#,
    r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"half half [API Error: 500 x]"}]}}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"result":"half ","usage":{"input_tokens":9,"output_tokens":3}}"#,
    r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"x"}}"#,
];
