//! What is read: synthetic output, shaped like what programs print all day (many short pieces, now and then a long
//! line), and recorded output, of which `fixtures/bench.toml` has the list.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bowline_providers::dialect::Shape;
use serde::Deserialize;

use crate::bare::Bare;

/// How many lines are counted at most: enough for a mean, few enough for a simulated processor.
const COUNTED_LINES: usize = 2000;

/// How many bytes of a recorded stream are counted at most, unless that is less than two passes over it.
const COUNTED_BYTES: usize = 600_000;

/// A stream that can be made in any length.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its name in the table.
    pub(crate) name: String,
    /// The dialect that reads it.
    pub(crate) dialect: String,
    /// What the dialect is told of its form.
    pub(crate) shape: Shape,
    /// The bare reader that it is measured by.
    pub(crate) bare: Bare,
    /// What must hold.
    pub(crate) bar: Option<Bar>,
    source: Source,
}

/// What decoding may cost at most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bar {
    /// What it is about, in words.
    pub(crate) about: String,
    /// So many instructions for each line.
    pub(crate) instructions: Option<u64>,
    /// So many times the bare reader.
    pub(crate) ratio: Option<f64>,
}

/// Writes the line of a number.
type Make = fn(usize, &mut String);

#[derive(Debug)]
enum Source {
    Made(Make),
    /// Lines of recordings, again and again.
    Recorded {
        lines: Vec<String>,
        vary: Option<String>,
    },
}

/// A recorded stream, as `fixtures/bench.toml` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    name: String,
    dialect: String,
    #[serde(default)]
    shape: Shape,
    bare: Bare,
    files: Vec<String>,
    line: Option<Padded>,
    /// How ids begin that are said once in a stream: the four characters behind it are another on every pass, or the
    /// decoder would rightly pass over what it has heard before.
    vary: Option<String>,
    bar: Option<Bar>,
}

/// One line of a recording, made as long as one likes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Padded {
    /// The line is the first that has this text in it.
    with: String,
    /// The first field of this name with a string in it is made longer.
    field: String,
    /// Until the line has so many bytes.
    bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mixes {
    mix: Vec<Mix>,
}

impl Stream {
    /// Returns the synthetic streams, then the recorded ones.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let made: [(&str, &str, Bare, Make); 7] = [
            ("content", "stream-json", Bare::Content, content),
            ("items", "stream-json", Bare::Items, item),
            ("pi-events", "pi-events", Bare::Updates, pi_event),
            ("executable-stream", "executable-stream", Bare::Chunks, chunk),
            ("role-lines", "role-lines", Bare::Roles, role),
            ("text", "text", Bare::Text, text),
            ("codex-messages", "codex-exec", Bare::Items, message),
        ];
        let made = made.into_iter().map(|(name, dialect, bare, line)| {
            let (name, dialect, shape) = (name.to_owned(), dialect.to_owned(), Shape::Unknown);
            let bar = (name == "codex-messages").then(|| Bar {
                about: "a turn of many messages".to_owned(),
                instructions: None,
                ratio: Some(1.5),
            });
            Ok(Self { name, dialect, shape, bare, bar, source: Source::Made(line) })
        });
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        let mixes = std::fs::read_to_string(root.join("bench.toml")).context("the list of recorded mixes")?;
        let mixes: Mixes = toml::from_str(&mixes).context("the list of recorded mixes")?;
        let recorded = mixes.mix.into_iter().map(|mix| {
            let name = mix.name.clone();
            mix.stream(&root).with_context(|| format!("the recorded mix `{name}`"))
        });
        made.chain(recorded).collect()
    }

    /// How many lines to count: of a recorded stream whole passes, so that no sort of line weighs more than its part.
    pub(crate) fn counted_lines(&self) -> usize {
        match &self.source {
            Source::Made(_) => COUNTED_LINES,
            Source::Recorded { lines, .. } => {
                let bytes: usize = lines.iter().map(String::len).sum();
                lines.len() * (COUNTED_LINES / lines.len()).min(COUNTED_BYTES / bytes).max(2)
            }
        }
    }

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
        match &self.source {
            Source::Made(line) => line(at, out),
            Source::Recorded { lines, vary } => {
                let start = out.len();
                out.push_str(&lines[at % lines.len()]);
                let Some(vary) = vary else { return out.push('\n') };
                let places: Vec<usize> =
                    out[start..].match_indices(vary).map(|(place, _)| start + place + vary.len()).collect();
                for place in places {
                    out.replace_range(place..place + 4, &format!("{:04x}", at / lines.len() % 0x10000));
                }
            }
        }
        out.push('\n');
    }
}

impl Mix {
    fn stream(self, root: &Path) -> Result<Stream> {
        let mut lines = Vec::new();
        for file in &self.files {
            let path = root.join(file).join("stdout.raw");
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
        }
        if let Some(padded) = &self.line {
            let line = lines.iter().find(|line| line.contains(&padded.with)).context("no such line")?;
            lines = vec![padded.pad(line)?];
        }
        ensure!(!lines.is_empty(), "there are no lines");
        let Self { name, dialect, shape, bare, vary, bar, .. } = self;
        Ok(Stream { name, dialect, shape, bare, bar, source: Source::Recorded { lines, vary } })
    }
}

impl Padded {
    /// Puts words at the beginning of the field. In the text of the line, so that everything else stays as it was
    /// recorded, the order of the fields too.
    fn pad(&self, line: &str) -> Result<String> {
        let opening = format!(r#""{}":""#, self.field);
        let at = line.find(&opening).context("no such field")? + opening.len();
        let missing = self.bytes.checked_sub(line.len()).context("the line is longer already")?;
        let mut padding = String::with_capacity(missing);
        for words in (1..).map(words) {
            if padding.len() + words.len() > missing {
                break;
            }
            padding.push_str(words);
        }
        // The rest without escapes, because half an escape is none.
        padding.extend(words(1).chars().cycle().take(missing - padding.len()));
        let line = [&line[..at], &padding, &line[at..]].concat();
        ensure!(line.len() == self.bytes, "the line has {} bytes", line.len());
        Ok(line)
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

/// Whole messages, each with an id of its own.
fn message(at: usize, out: &mut String) {
    let id = at.to_string();
    let head = r#"{"type":"item.completed","item":{"id":"item_"#;
    add(out, &[head, &id, r#"","type":"agent_message","text":""#, words(at), r#""}}"#]);
}

fn pi_event(at: usize, out: &mut String) {
    let head = r#"{"type":"message_update","message":{},"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":""#;
    add(out, &[head, words(at), r#""}}"#]);
}

/// Chunks that do not accumulate: the size of a stream of chunks that do grows with the square of their number.
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
