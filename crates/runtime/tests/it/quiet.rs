//! Events for a tracing subscriber: they contain ids and counts, never text of the conversation.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Trial;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::doors::speaking;
use crate::support::{Stage, trial};

/// Stands in everything that is said, and nowhere else.
const CANARY: &str = "canary7f3a";

/// Everything that was told.
static TOLD: Mutex<String> = Mutex::new(String::new());

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("no_content_reaches_a_subscriber", no_content)]
}

/// Takes everything, at every level.
struct All(AtomicU64);

struct Taker;

impl Visit for Taker {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        TOLD.lock().unwrap().push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for All {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        TOLD.lock().unwrap().push_str(&format!("\nspan {}", span.metadata().name()));
        span.record(&mut Taker);
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Taker);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        TOLD.lock().unwrap().push_str(&format!("\nevent {}", event.metadata().target()));
        event.record(&mut Taker);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn no_content() {
    // For the whole process: other threads of the library are heard as well.
    tracing::subscriber::set_global_default(All(AtomicU64::new(1))).expect("nobody else sets one");
    let prompt = format!("prompt {CANARY}");
    let good =
        Stage::new(&format!("cat >/dev/null; init; say m1 'answer {CANARY}'; result 'answer {CANARY}'"));
    let turn =
        good.task(&prompt).system_prompt(CANARY).env("SECRET", CANARY).label("main").start().await.unwrap();
    let session = turn.session().clone();
    assert!(turn.outcome().await.unwrap().text.unwrap().contains(CANARY));

    let bad = Stage::new(&format!("echo 'error {CANARY}' >&2; printf '{{not json {CANARY}\\n'; exit 1"));
    assert!(bad.task(&prompt).answer().await.is_err());
    let typed = good.task(&prompt).answer_as::<u8>().await;
    assert!(typed.unwrap_err().to_string().contains("not JSON of the requested type"));
    let waits = Stage::new(&format!("init; say m1 '{CANARY}'; exec sleep 600"));
    speaking(waits.task(&prompt)).await.stop().await.unwrap();
    let refused = waits.task(&prompt).provider("glm").resume(CANARY).answer().await;
    assert!(refused.is_err());

    let told = TOLD.lock().unwrap().clone();
    assert!(told.contains(&format!("span run session={session}")), "the run is told of:\n{told}");
    assert!(told.contains("outcome=\"completed\""), "and its end:\n{told}");
    assert!(!told.contains(CANARY), "content was told:\n{told}");
}
