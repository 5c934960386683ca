//! However a stream is cut into chunks and whenever it is flushed, the file holds what masking the whole would give.

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Event, Kind, RawFile, RawSpan};
use proptest::prelude::*;

use super::*;

/// A raw file in memory, written by the orders of a [`MaskedStream`].
#[derive(Default)]
struct MaskTarget {
    stream: MaskedStream,
    file: Vec<u8>,
}

impl MaskTarget {
    fn chunk(&mut self, mask: &Mask, bytes: &[u8]) {
        let (piece, next) = self.stream.feed(mask, bytes);
        if let Some(rewrite) = piece.rewrite {
            let from = self.file.len() - rewrite.len();
            self.file[from..].copy_from_slice(&rewrite);
        }
        self.file.extend_from_slice(&piece.append);
        self.stream = next;
    }

    fn flush(&mut self) {
        self.file.extend_from_slice(self.stream.held_bytes());
        self.stream.mark_flushed();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Two letters make overlapping and repeated secrets the rule.
    #[test]
    fn chunks_and_flushes_make_no_difference(
        secrets in prop::collection::vec("[ab]{4,9}", 1..4),
        chunks in prop::collection::vec(("[ab]{0,12}", any::<bool>()), 0..12),
    ) {
        let mask = Mask::new(&secrets);
        let longest = secrets.iter().map(String::len).max().unwrap_or(0);
        let mut target = MaskTarget::default();
        let mut whole = Vec::new();
        for (chunk, flush) in &chunks {
            target.chunk(&mask, chunk.as_bytes());
            whole.extend_from_slice(chunk.as_bytes());
            prop_assert!(target.stream.held() < longest);
            prop_assert_eq!(target.file.len() + target.stream.held(), whole.len(), "offsets stay true");
            if *flush {
                target.flush();
                prop_assert_eq!(target.file.len(), whole.len());
            }
            // Whatever is on file now, no whole secret is.
            let leaked = secrets.iter().any(|secret| memchr::memmem::find(&target.file, secret.as_bytes()).is_some());
            prop_assert!(!leaked);
        }
        target.flush();
        prop_assert_eq!(target.file, mask.bytes(&whole).into_owned());
    }

    /// An event stays an event with the same number, and its texts lose the secret.
    #[test]
    fn a_masked_line_is_still_an_event(
        secret in "[\"\\\\/a-c1-3é\u{1F511}\n]{4,8}",
        before in "[ -~]{0,8}",
        after in "[ -~é]{0,8}",
        seq in any::<u64>(),
    ) {
        let text = format!("{before}{secret}{after}");
        let line = line_of(seq, &text);
        let mut masked = line.clone();
        Mask::new([&secret]).line(&mut masked);
        prop_assert_eq!(masked.len(), line.len());
        let event: Event = serde_json::from_slice(&masked).expect("is an event");
        prop_assert_eq!(event.seq, seq);
        let Kind::Notice(notice) = event.kind else { panic!("is a notice") };
        prop_assert!(!notice.text.contains(&secret), "{}", notice.text);
    }
}

fn line_of(seq: u64, text: &str) -> Vec<u8> {
    let raw = RawSpan { file: RawFile::Stdout, start: 12345, end: 67890 };
    let notice = Kind::Notice(Notice { level: Level::Info, text: text.to_owned(), code: None });
    let event = crate::sessions::journal::tests::event(seq, Some(raw), notice);
    serde_json::to_vec(&event).expect("writes")
}

#[test]
fn numbers_keys_and_our_own_words_are_no_secrets() {
    let mask = Mask::new(["12345", "notice", "level", "secret", "abc"]);
    let mut line = line_of(12345, "a notice on level 12345: the secret is abc");
    mask.line(&mut line);
    let event: Event = serde_json::from_slice(&line).expect("is an event");
    assert_eq!((event.seq, event.raw.expect("a span").start), (12345, 12345));
    let Kind::Notice(notice) = event.kind else { panic!("is a notice") };
    // `notice` is a type of event, so its masking is given up for this line; `abc` is too short to be a secret.
    assert_eq!(notice.text, "a notice on ***** *****: the ****** is abc");
}

#[test]
fn a_secret_is_known_in_the_forms_of_json() {
    let secret = "pa\"ss/wörd";
    let mask = Mask::new([secret]);
    for form in
        [r#"pa"ss/wörd"#, r#"pa\"ss/wörd"#, r#"pa\"ss\/wörd"#, r#"pa\"ss/w\u00f6rd"#, r#"pa\\\"ss/wörd"#]
    {
        let text = format!("<{form}>");
        let masked = mask.bytes(text.as_bytes());
        let stars = "*".repeat(form.len());
        assert_eq!(String::from_utf8_lossy(&masked), format!("<{stars}>"), "{form}");
    }
    assert_eq!(format!("{mask:?}"), "Mask { secrets: [Secret(..)] }", "a debug print tells nothing");
}

/// Whatever the order of the list, the longer secret is masked whole.
#[test]
fn a_secret_that_begins_like_another_is_masked_whole() {
    for secrets in [["sk-abc1", "sk-abc1-rest"], ["sk-abc1-rest", "sk-abc1"], ["abc1-r", "sk-abc1-rest"]] {
        let mut line = line_of(1, "keys sk-abc1-rest, abc1-r and sk-abc1");
        Mask::new(secrets).line(&mut line);
        let text = String::from_utf8(line).expect("is text");
        assert!(text.contains("keys ************, "), "{secrets:?}: {text}");
    }
}
