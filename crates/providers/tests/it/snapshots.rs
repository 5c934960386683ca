//! What every recording gives, event by event, so that a change of a dialect shows what it changes.
//!
//! They are believed because the expectations and the script agree with them, not the other way round. To write them
//! anew: `INSTA_UPDATE=always cargo test -p bowline-providers --test it snapshots`, and look at the difference.

use std::fmt::Write as _;

use serde_json::Value;

use crate::fixtures::{self, Recording};

/// The longest text that a snapshot shows whole.
const SHOWN: usize = 120;

#[test]
fn every_recording() {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for capture in fixtures::all() {
        settings.set_snapshot_path(format!("../snapshots/{}/{}", capture.cli, capture.version));
        settings.bind(|| insta::assert_snapshot!(capture.case.as_str(), shown(&capture)));
    }
}

/// One line for each event: its turn, where it comes from, and what it is, with long texts cut.
fn shown(capture: &Recording) -> String {
    let mut text = String::new();
    for event in capture.events() {
        let mut kind = serde_json::to_value(&event.kind).expect("an event is plain data");
        cut(&mut kind);
        let turn = event.turn.map_or("-".to_owned(), |turn| turn.to_string());
        let span = event.raw.map_or(String::new(), |raw| format!(" {}..{}", raw.start, raw.end));
        let _ = writeln!(text, "{turn}{span} {kind}");
    }
    let _ = write!(text, "= {}", {
        let mut summary = capture.summary();
        cut(&mut summary);
        summary
    });
    text
}

/// Cuts long texts and long lists.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > SHOWN => {
            let head = &text[..text.floor_char_boundary(SHOWN)];
            *text = format!("{head}… ({} bytes)", text.len());
        }
        Value::Array(values) => {
            let length = values.len();
            values.iter_mut().for_each(cut);
            if length > 12 {
                values.truncate(12);
                values.push(format!("… ({length} in all)").into());
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
