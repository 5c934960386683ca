//! What an entry of the router's file says about requests: what it cannot do, what it costs, how long they may be.

use bowline_engine::route::{self, Truncation};
use bowline_protocol::kinds::{Level, Notice};
use bowline_providers::prices;

use crate::config::{Config, Entry};
use crate::task::Task;

/// What is done about requests that are too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Whether they have to fit.
    fits: bool,
    /// Whether they are shortened, and how.
    shortens: Option<Truncation>,
}

impl Room {
    pub(super) fn of(config: &Config) -> Self {
        let routing = config.router.as_ref().map(|router| &router.routing);
        Self {
            fits: routing.and_then(|routing| routing.fits).unwrap_or(true),
            shortens: routing
                .filter(|routing| routing.shortens)
                .map(|routing| routing.truncation.unwrap_or(Truncation::Oldest)),
        }
    }

    /// Leaves out what does not fit into an entry's context, where the file wants that.
    pub(super) fn shorten(&self, entry: &Entry, task: &mut Task) {
        let (Some(most), Some(how), true) = (entry.lacks.max_context, self.shortens, self.fits) else {
            return;
        };
        let before = route::tokens(&task.request);
        if before <= most {
            return;
        }
        let mut request = task.request.clone();
        if !route::shorten(&mut request, most, how) {
            // Who was named is asked all the same, with all of it: a part would not fit either.
            return;
        }
        task.request = request;
        let text = format!(
            "about {before} tokens do not fit into the {most} of `{}`: the request was shortened ({})",
            entry.name,
            how.as_str()
        );
        let code = Some("context_shortened".to_owned());
        task.notices.push(Notice { level: Level::Warn, text, code });
    }

    /// Says what an entry cannot do that a request needs.
    pub(super) fn lacks(&self, entry: &Entry, task: &Task) -> Option<String> {
        let (lacks, request) = (entry.lacks, &task.request);
        let by = "its entry says";
        if lacks.tools && !request.tools.is_empty() {
            return Some(format!("{by} that it has no tools, and the request offers some"));
        }
        if lacks.multi_turn && (!request.context.is_empty() || request.resume.is_some()) {
            return Some(format!("{by} that it cannot go on with what was said before"));
        }
        if lacks.vision && !request.attachments.is_empty() {
            return Some(format!("{by} that it cannot look at images"));
        }
        let most = lacks.max_context.filter(|_| self.fits)?;
        let needs = route::tokens(request);
        let fits =
            needs <= most || self.shortens.is_some_and(|how| route::shorten(&mut request.clone(), most, how));
        (!fits).then(|| format!("{by} that it takes {most} tokens, and the request has about {needs}"))
    }
}

/// Returns what an entry says it costs, whichever model answers.
pub(super) fn row(entry: &Entry) -> Option<prices::Row> {
    let million = entry.cost_per_1k? * 1000.0;
    Some(prices::Row {
        models: vec!["*".to_owned()],
        as_of: "by the router's file".to_owned(),
        input: million,
        output: million,
        cache_read: million,
        cache_write: million,
    })
}
