//! What is to be done: the builder that every call starts with.

mod names;
mod routed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::budget::Amounts;
use bowline_engine::fallback::StreamFallback;
use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{
    Attachment, Event, Json, McpServer, Message, Millis, NativeSessionId, PermissionMode, Request, Resume,
    Sampling, SessionId,
};
use bowline_providers::invocation::{Preview, Streaming, Unrestricted};
use bowline_providers::manifest::Manifest;
use serde::de::DeserializeOwned;

use bowline_process::check_runtime;

use crate::callback::SharedCallback;
use crate::config::Config;
use crate::journal::Home;
use crate::profile::Profile;
use crate::record::Record;
use crate::route::Beside;
use crate::trust::ProjectTrust;
use crate::turn::Turn;
use crate::{Error, launch, route};
pub use names::NAME_LIMIT;
pub(crate) use names::check_name;
pub(crate) use routed::{Leg, Usual, Wishes};

/// Says what an agent is to do.
///
/// ```
/// # async fn example() -> Result<(), bowline::Error> {
/// let task = bowline::task("Name this branch: fixes login race").provider("claude").no_tools();
/// # let task = task.script(bowline::testing::says("fix/login-race"));
/// assert_eq!(task.answer().await?, "fix/login-race");
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn task(prompt: impl Into<String>) -> Task {
    Task::of(Request { prompt: prompt.into(), ..Request::default() })
}

/// A task for an agent: the request, and how it is to be run. Nothing happens until [`Task::start`],
/// [`Task::answer`] or [`Task::run`].
///
/// A clone is another task with the same request: it runs on its own, and shares what [`Task::on_event`], [`Task::pot`] and
/// [`Task::beside`] were given.
#[derive(Clone)]
#[must_use = "a task does nothing until it is started"]
pub struct Task {
    pub(crate) request: Request,
    pub(crate) label: Option<String>,
    pub(crate) manifest: Option<&'static Manifest>,
    pub(crate) profile: Option<Profile>,
    pub(crate) parent: Option<SessionId>,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) streaming: Streaming,
    pub(crate) format: Option<String>,
    pub(crate) agent_args: Vec<String>,
    pub(crate) unrestricted: Option<Unrestricted>,
    /// Whether the caller chose the permission mode.
    pub(crate) mode_chosen: bool,
    pub(crate) stream_fallback: Option<StreamFallback>,
    pub(crate) journal: JournalChoice,
    pub(crate) quota: Option<u64>,
    pub(crate) callback: Option<SharedCallback>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) excerpt_limit: Option<usize>,
    pub(crate) files: bool,
    pub(crate) sole: bool,
    pub(crate) no_timeout: bool,
    pub(crate) no_idle_timeout: bool,
    /// A path that is not UTF-8.
    pub(crate) not_text: Option<PathBuf>,
    pub(crate) route: Wishes,
    pub(crate) usual: Usual,
    pub(crate) spend: Amounts,
    pub(crate) config: Option<Arc<Config>>,
    pub(crate) trust: ProjectTrust,
    pub(crate) leg: Leg,
    pub(crate) beside: Option<Beside>,
    /// The script of this attempt, once it is known which provider is asked.
    #[cfg(feature = "testing")]
    pub(crate) script: Option<crate::testing::Script>,
    #[cfg(feature = "testing")]
    pub(crate) cast: crate::testing::Cast,
}

/// The most that an event may carry of the output of a tool.
const MOST_OF_OUTPUT: usize = 16 << 20;

/// Where the record of a session goes.
#[derive(Clone, Debug)]
pub(crate) enum JournalChoice {
    /// To the user's data home.
    Default,
    /// To this one.
    At(Home),
    /// To a directory that goes with the run.
    Temporary,
    /// Nowhere.
    None,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Task {
    /// Makes a task of a request.
    pub fn of(request: Request) -> Self {
        let journal = if request.ephemeral { JournalChoice::Temporary } else { JournalChoice::Default };
        Self {
            request,
            label: None,
            manifest: None,
            profile: None,
            parent: None,
            binary: None,
            streaming: Streaming::On,
            format: None,
            agent_args: Vec::new(),
            unrestricted: None,
            mode_chosen: false,
            stream_fallback: None,
            journal,
            quota: None,
            callback: None,
            notices: Vec::new(),
            excerpt_limit: None,
            files: true,
            sole: false,
            no_timeout: false,
            no_idle_timeout: false,
            not_text: None,
            route: Wishes::default(),
            usual: Usual::default(),
            spend: Amounts::default(),
            config: None,
            trust: ProjectTrust::default(),
            leg: Leg::default(),
            beside: None,
            #[cfg(feature = "testing")]
            script: None,
            #[cfg(feature = "testing")]
            cast: crate::testing::Cast::default(),
        }
    }

    /// Chooses the provider by name or alias; `auto` leaves the choice to the router.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.request.provider = Some(name.into());
        self.manifest = None;
        self.route.providers.clear();
        self
    }

    /// Chooses the provider by its manifest: one that was looked up already ([`crate::roster`]), or made on the spot.
    pub fn of_provider(mut self, manifest: &'static Manifest) -> Self {
        self.request.provider = Some(manifest.name.clone());
        self.manifest = Some(manifest);
        self.route.providers.clear();
        self
    }

    /// Runs this program instead of the one that the provider's manifest names.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.text_of(&path);
        self.binary = Some(path);
        self
    }

    /// Runs it with an account of its own: its settings and its login are in the profile's directory. If no provider is
    /// chosen, it is the profile's.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Chooses the model. Without a provider, the router finds the one whose model it is.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.request.model = Some(model.into());
        self
    }

    /// Chooses how much the model is to think, in the provider's words.
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.request.effort = Some(effort.into());
        self
    }

    /// Agents are told paths as text. One that is none is remembered, and refused when the task is started.
    fn text_of(&mut self, path: &Path) -> String {
        if path.to_str().is_none() {
            self.not_text.get_or_insert_with(|| path.to_owned());
        }
        path.to_string_lossy().into_owned()
    }

    /// Works in this directory instead of the current one.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.request.cwd = Some(self.text_of(dir.as_ref()));
        self
    }

    /// Lets the agent use a further directory.
    pub fn add_dir(mut self, dir: impl AsRef<Path>) -> Self {
        let dir = self.text_of(dir.as_ref());
        self.request.add_dirs.push(dir);
        self
    }

    /// Sends an image or another file along.
    pub fn attach(mut self, path: impl AsRef<Path>) -> Self {
        let path = self.text_of(path.as_ref());
        self.request.attachments.push(Attachment { path, media_type: None });
        self
    }

    /// Replaces the agent's system prompt.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.request.system_prompt = Some(text.into());
        self
    }

    /// Adds to the agent's system prompt.
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.request.append_system_prompt = Some(text.into());
        self
    }

    /// Tells the agent to hold its answer to a JSON Schema. Whether it did is the caller's to see; [`Task::answer_as`] does.
    pub fn output_schema(mut self, schema: Json) -> Self {
        self.request.output_schema = Some(schema);
        self
    }

    /// Gives the agent an MCP server.
    pub fn mcp_server(mut self, name: impl Into<String>, server: McpServer) -> Self {
        self.request.mcp_servers.insert(name.into(), server);
        self
    }

    /// Allows a tool by name.
    pub fn allow_tool(mut self, name: impl Into<String>) -> Self {
        self.request.allow_tools.push(name.into());
        self
    }

    /// Refuses a tool by name.
    pub fn deny_tool(mut self, name: impl Into<String>) -> Self {
        self.request.deny_tools.push(name.into());
        self
    }

    /// Lets the agent answer without any tool.
    pub fn no_tools(mut self) -> Self {
        self.request.no_tools = true;
        self
    }

    /// Says what the agent may do without being asked. The default is [`PermissionMode::Ask`].
    pub fn permission(mut self, mode: PermissionMode) -> Self {
        self.request.permission = mode;
        self.mode_chosen = true;
        self
    }

    /// Says whether a program that nothing restricts may run under [`PermissionMode::Ask`]. Without this call it runs, with
    /// a warning, if no mode was chosen and the settings do not forbid it; a mode that was chosen is never widened.
    pub fn unrestricted(mut self, unrestricted: Unrestricted) -> Self {
        self.unrestricted = Some(unrestricted);
        self
    }

    /// Runs the program in this one of its output formats, by the provider's name for it, instead of the best one.
    pub fn format(mut self, name: impl Into<String>) -> Self {
        self.format = Some(name.into());
        self
    }

    /// Passes a native argument on to the named provider's program. One that contradicts what Bowline itself passes
    /// (permission, format, session, prompt, or anything that is a method here) is refused before anything starts.
    pub fn agent_arg(mut self, arg: impl Into<String>) -> Self {
        self.agent_args.push(arg.into());
        self
    }

    /// Passes native arguments on, as [`Task::agent_arg`] does.
    pub fn agent_args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.agent_args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Limits the number of turns.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.request.max_turns = Some(turns);
        self
    }

    /// Limits the cost, in US dollars. It is watched while the turn goes on, as often as the agent reports, and the agent is
    /// told where it has such a limit of its own.
    pub fn max_cost(mut self, usd: f64) -> Self {
        self.request.max_cost_usd = Some(usd);
        self
    }

    /// Limits the time of the whole turn.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.request.timeout_ms = Some(millis(limit));
        self
    }

    /// Limits the time between two signs of life.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.request.idle_timeout_ms = Some(millis(limit));
        self
    }

    /// Limits the time of the whole turn, or lifts the limit that the provider's manifest has.
    pub fn timeout_ms(mut self, limit: Option<Millis>) -> Self {
        self.request.timeout_ms = limit;
        self.no_timeout = limit.is_none();
        self
    }

    /// Limits the time between two signs of life, or lifts the limit that the provider's manifest has.
    pub fn idle_timeout_ms(mut self, limit: Option<Millis>) -> Self {
        self.request.idle_timeout_ms = limit;
        self.no_idle_timeout = limit.is_none();
        self
    }

    /// Goes on with an earlier session of the agent. If the agent does not, the turn fails; it is never a silent fresh
    /// session.
    ///
    /// The id is the agent's own ([`Record::native_session`](crate::Record::native_session)), or that of a Bowline session in
    /// the same data home ([`Turn::session`](crate::Turn::session)). A Bowline id that cannot be resumed is
    /// [`Error::NotResumable`], and nothing is started.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let world = bowline::testing::world();
    /// # let says = |id: &str| bowline::testing::script(&format!(
    /// #     r#"{{"session": "{id}", "steps": [{{"say": "a"}}, {{"result": {{}}}}]}}"#));
    /// # world.provider("claude", says("n-1"));
    /// let first = world.task("Read the parser").provider("claude").run().await?;
    /// let second = world.task("Now fix it").provider("claude").resume(first.session.as_str()).run().await?;
    /// # assert_eq!(second.native_session, first.native_session);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn resume(mut self, id: impl Into<NativeSessionId>) -> Self {
        self.request.resume = Some(Resume::Id { native_session: id.into() });
        self
    }

    /// Says which of our sessions this one comes from. If its program has been replaced since, a notice names both.
    pub fn parent(mut self, session: SessionId) -> Self {
        self.parent = Some(session);
        self
    }

    /// Goes on with the agent's last session in the working directory.
    pub fn resume_latest(mut self) -> Self {
        self.request.resume = Some(Resume::Latest);
        self
    }

    /// Sets a variable of the agent's environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.env.insert(name.into(), value.into());
        self
    }

    /// Says what was said before. An agent is told of it in its prompt, an executable provider as messages.
    pub fn context(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.request.context.extend(messages);
        self
    }

    /// Hints at how the answer is sampled. Where a program chooses that itself, a notice says so.
    pub fn sampling(mut self, hints: Sampling) -> Self {
        self.request.sampling = hints;
        self
    }

    /// Offers a tool of the host, in the model API's form. Only executable providers can ask for one.
    pub fn host_tool(mut self, tool: Json) -> Self {
        self.request.tools.push(tool);
        self
    }

    /// Adds something that the caller wants to find again.
    pub fn metadata(mut self, name: impl Into<String>, value: Json) -> Self {
        self.request.metadata.insert(name.into(), value);
        self
    }

    /// Sets something that only this provider understands.
    pub fn set(mut self, name: impl Into<String>, value: Json) -> Self {
        self.request.config.insert(name.into(), value);
        self
    }

    /// Leaves no trace: neither in the agent's own history nor in the journal.
    pub fn ephemeral(mut self) -> Self {
        self.request.ephemeral = true;
        self.journal = JournalChoice::Temporary;
        self
    }

    /// Ignores the user's settings for the agent.
    pub fn isolate(mut self) -> Self {
        self.request.isolate = true;
        self
    }

    /// Runs the agent in a container.
    pub fn docker(mut self, container: impl Into<String>) -> Self {
        self.request.docker = Some(container.into());
        self
    }

    /// Gives the session the caller's key, by which sessions are found and ended together.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }

    /// Gives the session a label for people.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says that this process exists for this task alone and cancels it on SIGTERM, as `bowline run` does. Who ends the
    /// session from another process may then signal this one; see [`crate::registry`].
    pub fn sole_process(mut self) -> Self {
        self.sole = true;
        self
    }

    /// Asks for the result in one piece instead of a stream.
    pub fn no_stream(mut self) -> Self {
        self.streaming = Streaming::Off;
        self
    }

    /// Asks for a stream, which is the default.
    pub(crate) fn stream(mut self) -> Self {
        self.streaming = Streaming::On;
        self
    }

    /// Says when a prompt may be sent once more, without streaming, if the stream ends without a result. The default is the
    /// setting `run.stream-fallback`, else [`StreamFallback::Untouched`]: only if the program provably did nothing with it.
    pub fn stream_fallback(mut self, when: StreamFallback) -> Self {
        self.stream_fallback = Some(when);
        self
    }

    /// Keeps the journal in this data home instead of the user's.
    pub fn home(mut self, home: Home) -> Self {
        self.journal = JournalChoice::At(home);
        self
    }

    /// Keeps no journal. The run then waits for whoever reads its events: a slow reader slows the agent down.
    pub fn without_journal(mut self) -> Self {
        self.journal = JournalChoice::None;
        self
    }

    /// Limits what the session may write to disk, in bytes. A turn that would write more is ended, and says so.
    pub fn disk_quota(mut self, bytes: u64) -> Self {
        self.quota = Some(bytes);
        self
    }

    /// Says something about the request that whoever watches the run should know: a notice at its beginning.
    pub fn notice(mut self, code: impl Into<String>, text: impl Into<String>) -> Self {
        self.notices.push(Notice { level: Level::Info, text: text.into(), code: Some(code.into()) });
        self
    }

    /// Does not ask git which files were changed.
    pub fn without_files(mut self) -> Self {
        self.files = false;
        self
    }

    /// Sets how many bytes of a tool's output an event carries; 32 KiB without this. Longer output is cut, and
    /// [`Excerpt::is_cut`](crate::Excerpt::is_cut) says so.
    ///
    /// The whole output is in the journal, and [`Reader::tool_output`](crate::journal::Reader::tool_output) returns it. Without
    /// a journal ([`Task::without_journal`]) there is nothing else than what the events carry. The limit is at most
    /// 16 MiB, because events are kept in memory until they are read.
    ///
    /// ```
    /// let task = bowline::task("Run the tests").provider("codex").without_journal().excerpt_limit(4 << 20);
    /// ```
    pub fn excerpt_limit(mut self, bytes: usize) -> Self {
        self.excerpt_limit = Some(bytes.min(MOST_OF_OUTPUT));
        self
    }

    /// Calls this with every event as it becomes public, on the task that drives the run. It should be quick.
    pub fn on_event(mut self, callback: impl FnMut(&Event) + Send + 'static) -> Self {
        self.callback = Some(SharedCallback::new(callback));
        self
    }

    /// Plays this script instead of starting a process. Everything else is real; only the journal goes with the run,
    /// unless a home was chosen for it.
    #[cfg(feature = "testing")]
    pub fn script(self, script: crate::testing::Script) -> Self {
        self.scripts([script])
    }

    /// Plays these scripts, one for each attempt that the router makes; the last one for all further attempts.
    #[cfg(feature = "testing")]
    pub fn scripts(mut self, scripts: impl IntoIterator<Item = crate::testing::Script>) -> Self {
        self.cast.set(scripts);
        self.without_own_journal()
    }

    /// Plays this script where that provider is asked. Providers without a script count as not installed; see
    /// [`crate::testing`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use bowline::testing::says;
    ///
    /// let task = bowline::task("Say hello").provider("auto").script_for("codex", says("hello"));
    /// assert_eq!(task.run().await?.attempts[0].name, "codex");
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    #[cfg(feature = "testing")]
    pub fn script_for(mut self, provider: &str, script: crate::testing::Script) -> Self {
        self.cast.set_for(provider, script);
        self.without_own_journal()
    }

    /// Keeps what a test does out of the developer's own sessions.
    #[cfg(feature = "testing")]
    fn without_own_journal(mut self) -> Self {
        if matches!(self.journal, JournalChoice::Default) {
            self.journal = JournalChoice::Temporary;
        }
        self
    }

    /// Returns what would be started, without starting anything.
    pub fn preview(&self) -> Result<Preview, Error> {
        self.check_names()?;
        if self.is_routed() { route::preview(self) } else { launch::preview(self) }
    }

    /// Starts the turn and returns it, to be watched and stopped. What happens to it from here on is data.
    ///
    /// Needs a tokio runtime, which drives the turn: it is lost ([`Error::Lost`]) when that runtime is shut down.
    ///
    /// # Errors
    ///
    /// [`Error::NoRuntime`] outside of a tokio runtime, or in one without timers or IO; the others where nothing could be started.
    pub async fn start(self) -> Result<Turn, Error> {
        check_runtime()?;
        self.check_names()?;
        // Boxed: what it takes to prepare a run is some 80 kB, which would be part of the caller's future for good.
        if self.is_routed() {
            Box::pin(route::start(self)).await
        } else {
            Box::pin(launch::start(self)).await
        }
    }

    /// Runs the turn and returns its record, whatever the outcome: the record door.
    ///
    /// Needs a tokio runtime. Dropping the future ends the agent.
    ///
    /// # Errors
    ///
    /// As those of [`Self::start`].
    pub async fn run(self) -> Result<Record, Error> {
        check_runtime()?;
        self.check_names()?;
        if self.is_routed() { Box::pin(route::run(self)).await } else { Box::pin(launch::run(self)).await }
    }

    /// Runs the turn and returns the answer: the result door. A turn that does not end well is an error, so that `?`
    /// never takes an error message for the answer.
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

    /// Variables of the request's environment, for masking.
    pub(crate) fn env_of_request(&self) -> &BTreeMap<String, String> {
        &self.request.env
    }
}

/// Models put JSON between fences even when they are told not to.
fn bare_json(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

fn millis(span: Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_little_room_in_the_callers_future() {
        // What it takes to prepare a run has some 80 kB; hundreds of callers would keep that for as long as they run.
        let sizes = [
            size_of_val(&crate::task("hi").provider("agent").start()),
            size_of_val(&crate::task("hi").provider("agent").run()),
        ];
        assert!(sizes.iter().all(|size| *size < 16 * 1024), "{sizes:?}");
    }

    #[test]
    fn fences_around_json_are_no_part_of_it() {
        for text in ["{}", " {} \n", "```json\n{}\n```", "```\n{}\n```"] {
            assert_eq!(bare_json(text), "{}");
        }
        assert_eq!(bare_json("no json"), "no json");
    }
}
