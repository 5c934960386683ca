//! The rule, case by case, and against a slow model of it.

use proptest::prelude::*;

use super::*;

const SMALL: Limits =
    Limits { min_chars: 5, max_chars: 12, idle_ms: Millis(800), paragraph_break: true, sentence_break: true };

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Feeds the pieces one after the other and compares what each of them sets free.
#[track_caller]
fn check(limits: Limits, pieces: &[&str], expect: &[Option<&str>]) {
    let mut coalescer = Coalescer::new(limits);
    let given: Vec<Option<String>> = pieces.iter().map(|piece| coalescer.feed(piece, at(0))).collect();
    assert_eq!(given, expect.iter().map(|portion| portion.map(str::to_owned)).collect::<Vec<_>>());
}

#[test]
fn portions_end_where_a_reader_pauses() {
    // Nothing below the minimum, whatever it contains.
    check(SMALL, &["a. ", "\n\n"], &[None, Some("a. \n\n")]);
    check(SMALL, &["abcd"], &[None]);
    // The last paragraph break wins over any sentence.
    check(SMALL, &["a\n\nb\n\nc. d"], &[Some("a\n\nb\n\n")]);
    check(SMALL, &["abc\n", "\ndef"], &[None, Some("abc\n\n")]);
    // Else the last end of a sentence, with the whitespace behind it.
    check(SMALL, &["ab! c? d.e"], &[Some("ab! c? ")]);
    check(SMALL, &["abcd.", " e"], &[None, Some("abcd. ")]);
    check(SMALL, &["abcd.e"], &[None]);
    // From the maximum on, everything.
    check(SMALL, &["abcdefghijk", "l. m"], &[None, Some("abcdefghijkl. m")]);
    // Characters, not bytes.
    check(SMALL, &["éé. "], &[None]);
    check(SMALL, &["ééé. "], &[Some("ééé. ")]);
    // Either break can be switched off.
    check(Limits { paragraph_break: false, ..SMALL }, &["ab. c\n\nd"], &[Some("ab. ")]);
    check(Limits { sentence_break: false, ..SMALL }, &["abcd. e"], &[None]);
}

#[test]
fn the_defaults_are_those_of_the_origin() {
    let expect = Limits {
        min_chars: 200,
        max_chars: 4000,
        idle_ms: Millis(800),
        paragraph_break: true,
        sentence_break: true,
    };
    assert_eq!(Limits::default(), expect);
}

#[test]
fn text_that_is_large_enough_waits_only_so_long() {
    let mut coalescer = Coalescer::new(SMALL);
    assert_eq!(coalescer.feed("abcd", at(0)), None);
    assert_eq!(coalescer.deadline(), None, "too little to send by itself");
    assert_eq!(coalescer.feed("e", at(100)), None);
    assert_eq!(coalescer.deadline(), Some(at(900)));
    assert_eq!(coalescer.feed("f", at(500)), None);
    assert_eq!(coalescer.deadline(), Some(at(1300)), "more text starts the wait anew");
    assert_eq!(coalescer.tick(at(1299)), None);
    assert_eq!(coalescer.tick(at(1300)), Some("abcdef".to_owned()));
    assert_eq!((coalescer.deadline(), coalescer.tick(at(9999))), (None, None));
    // What a cut leaves waits too, if it is large enough.
    assert_eq!(coalescer.feed("a. bcdefg", at(2000)), Some("a. ".to_owned()));
    assert_eq!(coalescer.deadline(), Some(at(2800)));
    assert_eq!(coalescer.flush(), Some("bcdefg".to_owned()));
    assert_eq!((coalescer.deadline(), coalescer.flush()), (None, None));
}

#[test]
fn single_characters_cost_no_more_than_their_number() {
    // Looking at the whole buffer for each character would take hours here.
    let mut coalescer = Coalescer::new(Limits { max_chars: 400_000, ..Limits::default() });
    let portions: Vec<String> = (0..400_000).filter_map(|_| coalescer.feed("x", at(0))).collect();
    assert_eq!(portions.iter().map(String::len).collect::<Vec<_>>(), [400_000]);
}

/// The rule as it is written down, looking at the whole buffer each time.
fn slow_feed(buffer: &mut String, text: &str) -> Option<String> {
    buffer.push_str(text);
    let chars = buffer.chars().count();
    let end = if chars >= SMALL.max_chars {
        buffer.len()
    } else if chars < SMALL.min_chars {
        return None;
    } else if let Some(at) = buffer.rfind("\n\n") {
        at + 2
    } else {
        let regex = regex::Regex::new(r"(?s)^.*[.!?]\s").unwrap();
        regex.find(buffer)?.end()
    };
    let rest = buffer.split_off(end);
    Some(std::mem::replace(buffer, rest))
}

proptest! {
    #[test]
    fn nothing_is_lost_and_the_rule_is_kept(pieces in prop::collection::vec("[ab.?é \n]{0,5}", 0..40)) {
        let mut coalescer = Coalescer::new(SMALL);
        let mut buffer = String::new();
        let mut given = String::new();
        for piece in &pieces {
            let portion = coalescer.feed(piece, at(0));
            prop_assert_eq!(&portion, &slow_feed(&mut buffer, piece));
            given.extend(portion);
        }
        given.extend(coalescer.flush());
        prop_assert_eq!(given, pieces.concat());
    }
}
