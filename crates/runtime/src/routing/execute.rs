//! The calls that run a task: with the router where the task leaves a choice, else directly.

use std::pin::Pin;

use bowline_process::check_runtime;
use bowline_protocol::Json;
use bowline_providers::invocation::Preview;
use serde::de::DeserializeOwned;

use crate::routing::route::{self, Explanation};
use crate::run::attention::AlertFinder;
use crate::run::error::Error;
use crate::run::launch;
use crate::run::record::Record;
use crate::run::task::{AttemptContext, Task};
use crate::run::turn::Turn;

impl Task {
    /// Returns the command that would be started, without starting it.
    pub fn preview(&self) -> Result<Preview, Error> {
        self.check_names()?;
        let task = self.clone().captured();
        if task.is_routed() {
            route::preview(&task)
        } else {
            launch::preview(&task, &AttemptContext::default())
        }
    }

    /// Starts the turn and returns a handle to read its events and to stop it. A failure of the turn is then data, not an error.
    ///
    /// Needs a tokio runtime, which drives the turn. When that runtime shuts down, the turn fails with [`Error::Lost`].
    ///
    /// # Errors
    ///
    /// [`Error::NoRuntime`] outside of a tokio runtime, or in one without timers or IO; other errors if nothing could be started.
    pub fn start(self) -> impl Future<Output = Result<Turn, Error>> + Send {
        self.dispatch(|task| Box::pin(route::start(task)), |task| Box::pin(launch::start(task)))
    }

    /// Runs the turn and returns its record, also if the turn failed.
    ///
    /// Needs a tokio runtime. Dropping the future ends the agent.
    ///
    /// # Errors
    ///
    /// As those of [`Self::start`].
    pub fn run(self) -> impl Future<Output = Result<Record, Error>> + Send {
        self.dispatch(|task| Box::pin(route::run(task)), |task| Box::pin(launch::run(task)))
    }

    /// Returns the future of a task, with or without the router.
    ///
    /// Preparing a run takes some 80 kB, and the task itself more than 1 kB. Both are boxed when the caller creates the future:
    /// a host that waits for hundreds of runs would otherwise hold them in its own futures.
    fn dispatch<T>(
        self,
        routed: impl FnOnce(Self) -> Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>,
        direct: impl FnOnce(Self) -> Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        let checked = self.check_names().map_err(Box::new);
        let task = self.captured().watched_by(AlertFinder::of_task());
        let future = if task.is_routed() { routed(task) } else { direct(task) };
        async move {
            // Check on the first poll: the caller may create the future before it enters the runtime.
            check_runtime()?;
            checked.map_err(|error| *error)?;
            future.await
        }
    }

    /// Runs the turn and returns the answer. A turn that does not complete is an error, so that `?` never returns an error
    /// message as the answer.
    ///
    /// Needs a tokio runtime. Dropping the future ends the agent.
    ///
    /// # Errors
    ///
    /// As those of [`Self::start`], and [`Error::Turn`].
    pub async fn answer(self) -> Result<String, Error> {
        let record = self.run().await?;
        if !record.is_completed() {
            return Err(Error::Turn(Box::new(record)));
        }
        record.answer()
    }

    /// Runs the turn with the JSON Schema of a type, and parses the answer as that type. [`Task::run_as`] also returns the
    /// record.
    ///
    /// Needs a tokio runtime. Dropping the future ends the agent.
    ///
    /// # Errors
    ///
    /// As those of [`Self::run_as`].
    pub async fn answer_as<T: DeserializeOwned + schemars::JsonSchema>(self) -> Result<T, Error> {
        Ok(self.run_as().await?.0)
    }

    /// Runs the turn with the JSON Schema of a type, parses the answer as that type, and returns it with the record: its
    /// cost, usage and journal.
    ///
    /// Like [`Task::answer`], this is a result call: a turn that failed is [`Error::Turn`], and an answer of another form is
    /// [`Error::BadAnswer`]. Both contain the record.
    ///
    /// Needs a tokio runtime. Dropping the future ends the agent.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Bug {
    ///     file: String,
    ///     line: u32,
    /// }
    ///
    /// let task = bowline::task("Find the bug").provider("codex");
    /// # let task = task.script(bowline::testing::says(r#"{"file": "lib.rs", "line": 7}"#));
    /// let (bug, record) = task.run_as::<Bug>().await?;
    /// println!("{}:{}, cost {:?}", bug.file, bug.line, record.cost);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub async fn run_as<T: DeserializeOwned + schemars::JsonSchema>(mut self) -> Result<(T, Record), Error> {
        let schema = schemars::schema_for!(T);
        let schema = serde_json::to_string(&schema).and_then(|text| serde_json::from_str::<Json>(&text));
        let bad = |text, record, source| Error::BadAnswer { text, record, source };
        self.request.output_schema = Some(schema.map_err(|source| bad(String::new(), None, source))?);
        let record = self.run().await?;
        if !record.is_completed() {
            return Err(Error::Turn(Box::new(record)));
        }
        let text = record.answer()?;
        match serde_json::from_str(bare_json(&text)) {
            Ok(value) => Ok((value, record)),
            Err(source) => Err(bad(text, Some(Box::new(record)), source)),
        }
    }

    /// Returns the providers that the router would try, with reasons, without starting an agent.
    pub fn explain(&self) -> Result<Explanation, Error> {
        self.check_names()?;
        route::explain(&self.clone().captured())
    }
}

/// Removes code fences: models put them around JSON even if the prompt forbids it.
fn bare_json(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests;
