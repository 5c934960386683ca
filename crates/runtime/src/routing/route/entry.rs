//! The limits of an entry of the router's file: missing capabilities, cost, and context length.

use bowline_engine::route::{self, Truncation};
use bowline_protocol::kinds::{Level, Notice};
use bowline_providers::prices;

use crate::run::settings::{RouterEntry, RunSettings};
use crate::run::task::Task;

/// The rule for requests that are too long for a provider's context.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextLimit {
    /// Whether requests have to fit.
    fits: bool,
    /// How to shorten them; none leaves them as they are.
    shortens: Option<Truncation>,
}

impl ContextLimit {
    pub(super) fn of(settings: &RunSettings) -> Self {
        let routing = settings.router.as_ref().map(|router| &router.routing);
        Self {
            fits: routing.and_then(|routing| routing.fits).unwrap_or(true),
            shortens: routing
                .filter(|routing| routing.shortens)
                .map(|routing| routing.truncation.unwrap_or(Truncation::Oldest)),
        }
    }

    /// Shortens a request to an entry's context, if the file enables that.
    pub(super) fn shorten(&self, entry: &RouterEntry, task: &mut Task) {
        let (Some(most), Some(how), true) = (entry.lacks.max_context, self.shortens, self.fits) else {
            return;
        };
        let before = route::tokens(&task.request);
        if before <= most {
            return;
        }
        let mut request = task.request.clone();
        if !route::shorten(&mut request, most, how) {
            // A named provider gets the whole request: even a shortened one would not fit.
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

    /// Returns which need of a request an entry does not meet.
    pub(super) fn lacks(&self, entry: &RouterEntry, task: &Task) -> Option<String> {
        let (lacks, request) = (entry.lacks, &task.request);
        if lacks.tools && !request.tools.is_empty() {
            return Some("its entry excludes tools, and the request offers some".to_owned());
        }
        if lacks.multi_turn && (!request.context.is_empty() || request.resume.is_some()) {
            return Some(
                "its entry excludes requests with earlier messages or a session to resume".to_owned(),
            );
        }
        if lacks.vision && !request.attachments.is_empty() {
            return Some("its entry excludes images, and the request has some".to_owned());
        }
        let most = lacks.max_context.filter(|_| self.fits)?;
        let needs = route::tokens(request);
        let fits =
            needs <= most || self.shortens.is_some_and(|how| route::shorten(&mut request.clone(), most, how));
        (!fits).then(|| format!("its entry allows {most} tokens, and the request has about {needs}"))
    }
}

/// Returns the price of an entry, for any model.
pub(super) fn row(entry: &RouterEntry) -> Option<prices::Row> {
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
