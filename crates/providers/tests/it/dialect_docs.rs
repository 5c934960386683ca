//! `docs/dialects.md` promises that these lines are understood: every example gives the answer, and nothing is strange.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{SessionId, Timestamp};
use bowline_providers::decode::{Decoder, End, Stamp};
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use bowline_providers::views::Digest;

const PAGE: &str = include_str!("../../../../docs/dialects.md");

/// Returns the examples of the page: the dialect, and its lines.
fn examples() -> Vec<(&'static str, &'static str)> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| block.split_once('\n').expect("a block has a first line"));
    blocks.filter(|(dialect, _)| *dialect != "console").collect()
}

#[test]
fn every_example_is_decoded() {
    let examples = examples();
    let wanted = [
        "text",
        "json",
        "stream-json",
        "role-lines",
        "pi-events",
        "simple",
        "executable-generate",
        "executable-stream",
    ];
    assert_eq!(examples.iter().map(|(dialect, _)| *dialect).collect::<Vec<_>>(), wanted);
    for (dialect, lines) in examples {
        let entry = dialects::by_name(dialect).unwrap_or_else(|| panic!("there is no dialect {dialect}"));
        let (mut decoder, now, mut drafts) = (Decoder::new(entry), Moment::utc(Timestamp::EPOCH), Vec::new());
        decoder.stdout(lines.as_bytes(), &now, &mut drafts);
        decoder.finish(&End::default(), &now, &mut drafts);
        let (mut digest, mut stamp) = (Digest::default(), Stamp::new(SessionId::from("s")));
        for draft in drafts {
            digest.event(&stamp.stamp(draft, Timestamp::EPOCH));
        }
        assert_eq!(digest.outcome(), Some(Outcome::Completed), "{dialect}: {:?}", digest.failure());
        assert_eq!(
            digest.text().as_deref().map(str::trim),
            Some("The parser drops the last line."),
            "{dialect}"
        );
        assert_eq!(digest.unrecognized(), 0, "{dialect}");
    }
}
