//! Synthetic output, shaped like what programs print all day: many short pieces, now and then a long line.

/// A stream that can be made in any length.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The dialect that reads it.
    pub(crate) dialect: &'static str,
    line: fn(usize, &mut String),
}

impl Stream {
    pub(crate) const ALL: &[Self] = &[
        Self { name: "content", dialect: "stream-json", line: content },
        Self { name: "items", dialect: "stream-json", line: item },
        Self { name: "pi-events", dialect: "pi-events", line: pi_event },
        Self { name: "executable-stream", dialect: "executable-stream", line: chunk },
        Self { name: "role-lines", dialect: "role-lines", line: role },
        Self { name: "text", dialect: "text", line: text },
    ];

    /// Makes so many lines.
    pub(crate) fn lines(&self, count: usize) -> Vec<u8> {
        let mut out = String::new();
        (0..count).for_each(|at| self.add(at, &mut out));
        out.into_bytes()
    }

    /// Makes whole lines until there are at least so many bytes.
    pub(crate) fn bytes(&self, least: usize) -> Vec<u8> {
        let mut out = String::with_capacity(least + 32 * 1024);
        (0..)
            .take_while(|at| {
                self.add(*at, &mut out);
                out.len() < least
            })
            .for_each(drop);
        out.into_bytes()
    }

    fn add(&self, at: usize, out: &mut String) {
        (self.line)(at, out);
        out.push('\n');
    }
}

/// Lines of one kind that are as long as one likes: what, the stream whose dialect reads it, and how to make it.
pub(crate) type LongLine = (&'static str, &'static str, fn(usize) -> Vec<u8>);

pub(crate) const LONG_LINES: &[LongLine] = &[
    ("one JSON string", "content", |bytes| {
        format!(r#"{{"type":"content","content":"{}"}}"#, "a".repeat(bytes)).into()
    }),
    ("JSON that is cut off", "content", |bytes| {
        format!(r#"{{"type":"content","content":"{}"#, "a".repeat(bytes)).into()
    }),
    ("terminal sequences before JSON", "content", |bytes| "\u{1B}[0m".repeat(bytes / 4).into()),
    ("plain text", "text", |bytes| "a".repeat(bytes).into()),
];

/// Two hundred characters; every fourth time with escapes, as code has them.
fn words(at: usize) -> &'static str {
    if at.is_multiple_of(4) {
        r#"fn main() {\n    println!(\"{}\", greeting);\n}\n\nThis program greets the one who runs it, and ends. It reads neither files nor the network, so that there is nothing it could get wrong but its manners."#
    } else {
        "The quick brown fox jumps over the lazy dog, and while it is in the air it wonders whether the dog is lazy or only well rested; it lands, finds no answer, and jumps again, because that is what it does."
    }
}

fn content(at: usize, out: &mut String) {
    add(out, &[r#"{"type":"content","content":""#, words(at), r#""}"#]);
}

/// Items: mostly short messages, every twentieth the output of a command of some 20 KB.
fn item(at: usize, out: &mut String) {
    if at % 20 == 19 {
        add(
            out,
            &[
                r#"{"type":"item.completed","item":{"id":"item_7","type":"command_execution","aggregated_output":""#,
            ],
        );
        (0..100).for_each(|part| out.push_str(words(part)));
        add(out, &[r#"","exit_code":0,"status":"completed"}}"#]);
    } else {
        let head = r#"{"type":"item.completed","item":{"id":"item_6","type":"agent_message","text":""#;
        add(out, &[head, words(at), r#""}}"#]);
    }
}

fn pi_event(at: usize, out: &mut String) {
    let head = r#"{"type":"message_update","message":{},"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":""#;
    add(out, &[head, words(at), r#""}}"#]);
}

/// Chunks that do not accumulate: a stream of chunks that do grows with its square, whoever reads it.
fn chunk(at: usize, out: &mut String) {
    let tail = r#"","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:00Z"}"#;
    add(out, &[r#"{"content":"","delta":""#, words(at), tail]);
}

fn role(at: usize, out: &mut String) {
    add(out, &[r#"{"role":"assistant","content":""#, words(at), r#""}"#]);
}

fn text(at: usize, out: &mut String) {
    out.push_str(&words(at)[..80]);
}

fn add(out: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| out.push_str(part));
}
