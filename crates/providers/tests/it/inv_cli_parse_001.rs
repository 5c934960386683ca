//! INV-CLI-PARSE-001: parse without exception.

use bowline_providers::dialects;

use crate::support::Run;

#[test]
fn empty_malformed_and_binary_output_is_taken_by_every_dialect() {
    let outputs: [&[u8]; 14] = [
        b"",
        b"\n\n\n",
        b"null",
        b"{not json",
        b"{\"type\":",
        b"[]",
        b"{}",
        b"\"text\"",
        b"\x00\x01\x02\xff\xfe",
        b"{\"type\":\"content\",\"content\":\"\\ud83d\"}",
        b"{\"type\":1,\"content\":{},\"item\":[],\"usage\":\"x\",\"message\":true}",
        b"data: {\"type\":\"text\",\"delta\":5}\n\n",
        &[b'['; 100_000],
        "\u{feff}{\"content\":\"x\"}".as_bytes(),
    ];
    for entry in dialects::ALL {
        for output in outputs {
            for exit in [0, 1] {
                let events = Run::of(entry.name, output).exit(exit).events();
                let starts = events.iter().filter(|event| event.kind.type_name() == "turn_started").count();
                let ends = events.iter().filter(|event| event.kind.type_name() == "turn_ended").count();
                assert_eq!((starts, ends), (1, 1), "{} on {output:?}", entry.name);
                assert_eq!(events.last().map(|event| event.kind.type_name()), Some("session_ended"));
            }
        }
    }
}

#[test]
fn a_line_that_cannot_be_read_does_not_stop_the_next() {
    let output = "{\"type\":\"content\",\"content\":\"a\"}\n{not json\nnull\n[1]\n{\"type\":\"content\",\"content\":\"b\"}\n";
    let run = Run::of("stream-json", output);
    assert_eq!(run.text(), "ab");
    assert_eq!(run.unrecognized(), ["{not json", "null", "[1]"]);
}
