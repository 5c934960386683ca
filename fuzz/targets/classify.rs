//! Reads arbitrary text as a failure, as usage, and as something to show on a terminal.

#![no_main]

use bowline_protocol::Exit;
use bowline_testkit::{check_classify, check_terminal_text, check_usage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&end, bytes)) = input.split_first() else { return };
    let exit = match end % 4 {
        0 => None,
        1 | 2 => Some(Exit::Code((end >> 2).into())),
        _ => Some(Exit::Signal((end >> 2).into())),
    };
    let text = String::from_utf8_lossy(bytes);
    check_classify(&text, exit, end == u8::MAX);
    check_terminal_text(&text);
    if let Ok(value) = serde_json::from_str(&text) {
        check_usage(&value);
    }
});
