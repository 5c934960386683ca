//! What the tests share: bytes in, a view out.

use bowline_protocol::{Event, Exit, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialect::Shape;
use bowline_providers::moment::Moment;
use bowline_providers::{dialects, views};
use serde_json::Value;

/// A run to decode.
pub(crate) struct Run<'a> {
    pub(crate) dialect: &'a str,
    pub(crate) stdout: &'a [u8],
    pub(crate) stderr: &'a str,
    pub(crate) end: End,
    pub(crate) chunk: usize,
    pub(crate) shape: Shape,
}

impl<'a> Run<'a> {
    /// A run that ended with exit code 0.
    pub(crate) fn of(dialect: &'a str, stdout: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let end = End { exit: Some(Exit::Code(0)), cause: Cause::Exited };
        Self { dialect, stdout: stdout.as_ref(), stderr: "", end, chunk: usize::MAX, shape: Shape::Unknown }
    }

    pub(crate) fn exit(mut self, code: i32) -> Self {
        self.end.exit = Some(Exit::Code(code));
        self
    }

    pub(crate) fn signal(mut self, signal: i32) -> Self {
        self.end.exit = Some(Exit::Signal(signal));
        self
    }

    pub(crate) fn stderr(mut self, stderr: &'a str) -> Self {
        self.stderr = stderr;
        self
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let entry = dialects::by_name(self.dialect).expect("a dialect of the list");
        let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
        let mut decoder = Decoder::of_shape(entry, self.shape);
        let mut drafts = Vec::new();
        for chunk in self.stdout.chunks(self.chunk.min(self.stdout.len().max(1))) {
            decoder.stdout(chunk, &now, &mut drafts);
        }
        decoder.stderr(self.stderr.as_bytes(), &now, &mut drafts);
        decoder.finish(&self.end, &now, &mut drafts);
        let mut stamp = Stamp::new(SessionId::from("s"));
        drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
    }

    pub(crate) fn view(&self, name: &str) -> String {
        let setup = views::Setup { provider: Some("fixture".to_owned()), ours: false };
        let mut view = (views::by_name(name).expect("a view of the list").make)(&setup);
        let mut text = String::new();
        for event in self.events() {
            view.event(&event, &mut text);
        }
        view.finish(&mut text);
        text
    }

    pub(crate) fn lines(&self, view: &str) -> Vec<Value> {
        self.view(view).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.view("summary")).expect("one object")
    }

    pub(crate) fn text(&self) -> String {
        self.summary()["text"].as_str().expect("a text").to_owned()
    }

    pub(crate) fn outcome(&self) -> String {
        self.summary()["outcome"].as_str().expect("an outcome").to_owned()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events().iter().map(|event| event.kind.type_name().to_owned()).collect()
    }

    pub(crate) fn unrecognized(&self) -> Vec<String> {
        let head = |event: &Event| {
            if let Kind::Unrecognized(what) = &event.kind { Some(what.head.text.clone()) } else { None }
        };
        self.events().iter().filter_map(head).collect()
    }
}

/// The text that a dialect finds in an output that ended well.
pub(crate) fn text(dialect: &str, stdout: &str) -> String {
    Run::of(dialect, stdout).text()
}
