//! The task builder. Every call of the library starts with it.

mod beside;
mod limits;
mod live;
mod policy;
mod routed;
#[cfg(feature = "testing")]
mod scripts;
mod session;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Approver;
use bowline_engine::budget::Amounts;
use bowline_engine::fallback::StreamFallback;
use bowline_protocol::kinds::Notice;
use bowline_protocol::{
    Attachment, Json, McpServer, Message, Millis, PermissionMode, Request, Sampling, SessionId,
};
use bowline_providers::invocation::{Streaming, Unrestricted};
use bowline_providers::manifest::Manifest;

use crate::agents::profile::Profile;
use crate::run::attention::{AlertFinder, AlertWatch};
use crate::run::callback::SharedCallback;
use crate::run::error::Error;
use crate::run::host_tools::HostTool;
use crate::run::policy::PolicySource;
use crate::run::settings::RunSettings;
use crate::run::trust::{ProjectPlace, ProjectTrust};
use crate::sessions::budget::Share;
use crate::sessions::journal::Home;
use crate::sessions::names::check_name;
use crate::system::surroundings::Surroundings;
pub use beside::Beside;
pub(crate) use live::LiveOptions;
pub(crate) use routed::{AttemptContext, Defaults, RetriedAttempt, RouteOptions};

/// Creates a task from a prompt.
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

/// A task for an agent: the request and its options. Nothing happens before [`Task::start`],
/// [`Task::answer`] or [`Task::run`].
///
/// A clone is another task with the same request. It runs on its own, and shares the values of [`Task::on_event`],
/// [`Task::pot`] and [`Task::beside`].
#[derive(Clone)]
#[must_use = "a task does nothing until it is started"]
pub struct Task {
    pub(crate) request: Request,
    pub(crate) label: Option<String>,
    pub(crate) manifest: Option<&'static Manifest>,
    pub(crate) profile: Option<Profile>,
    pub(crate) parent: Option<SessionId>,
    /// The session that the run appends to, set when its provider is known.
    pub(crate) continues: Option<SessionId>,
    /// Whether a session with turns must not go on without the conversation of its agent.
    pub(crate) needs_history: bool,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) streaming: Streaming,
    pub(crate) format: Option<String>,
    pub(crate) agent_args: Vec<String>,
    pub(crate) unrestricted: Option<Unrestricted>,
    /// Whether the caller chose the permission mode.
    pub(crate) mode_chosen: bool,
    /// Whether the caller chose the MCP servers, so that a resume takes over none.
    pub(crate) servers_chosen: bool,
    pub(crate) stream_fallback: Option<StreamFallback>,
    pub(crate) journal: JournalChoice,
    pub(crate) quota: Option<u64>,
    pub(crate) callback: Option<SharedCallback>,
    /// Calls a person when the agent needs one; set when a call begins.
    pub(crate) alerts: Option<AlertWatch>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) excerpt_limit: Option<usize>,
    pub(crate) files: bool,
    pub(crate) sole: bool,
    pub(crate) no_timeout: bool,
    pub(crate) no_idle_timeout: bool,
    /// A path that is not UTF-8.
    pub(crate) not_text: Option<PathBuf>,
    pub(crate) route: RouteOptions,
    pub(crate) defaults: Defaults,
    pub(crate) spend: Amounts,
    pub(crate) settings: Arc<RunSettings>,
    /// The variables to run with; captured at the entry of a call if the caller gave none.
    pub(crate) surroundings: Option<Arc<Surroundings>>,
    pub(crate) trust: ProjectTrust,
    /// Its part of a budget that it shares with other tasks.
    pub(crate) share: Option<Share>,
    pub(crate) beside: Option<Beside>,
    /// The options of a live session, if the task is one.
    pub(crate) live: Option<LiveOptions>,
    pub(crate) approver: Approver,
    /// The policies of the caller.
    pub(crate) policy: Option<PolicySource>,
    /// The functions of the caller that the agent can call.
    pub(crate) host_tools: Vec<HostTool>,
    /// The script of this attempt, set when the provider is chosen.
    #[cfg(feature = "testing")]
    pub(crate) script: Option<crate::run::testing::Script>,
    #[cfg(feature = "testing")]
    pub(crate) cast: crate::run::testing::Cast,
}

/// The name that leaves the choice of a provider to the router.
pub const AUTO: &str = "auto";

/// Where to write the journal of a session.
#[derive(Clone, Debug)]
pub(crate) enum JournalChoice {
    /// In the user's data home.
    Default,
    /// In this data home.
    At(Home),
    /// In a directory that is deleted with the run.
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
    /// Creates a task from a request.
    pub fn of(request: Request) -> Self {
        let journal = if request.ephemeral { JournalChoice::Temporary } else { JournalChoice::Default };
        Self {
            request,
            label: None,
            manifest: None,
            profile: None,
            parent: None,
            continues: None,
            needs_history: false,
            binary: None,
            streaming: Streaming::On,
            format: None,
            agent_args: Vec::new(),
            unrestricted: None,
            mode_chosen: false,
            servers_chosen: false,
            stream_fallback: None,
            journal,
            quota: None,
            callback: None,
            alerts: None,
            notices: Vec::new(),
            excerpt_limit: None,
            files: true,
            sole: false,
            no_timeout: false,
            no_idle_timeout: false,
            not_text: None,
            route: RouteOptions::default(),
            defaults: Defaults::default(),
            spend: Amounts::default(),
            settings: Arc::default(),
            surroundings: None,
            trust: ProjectTrust::default(),
            share: None,
            beside: None,
            live: None,
            approver: Approver::Mode,
            policy: None,
            host_tools: Vec::new(),
            #[cfg(feature = "testing")]
            script: None,
            #[cfg(feature = "testing")]
            cast: crate::run::testing::Cast::default(),
        }
    }

    /// Captures the variables of this process, unless the caller gave others. Every call on a task begins with this. Behind it a
    /// run reads no variable: it takes them from [`Self::variables`].
    pub(crate) fn captured(mut self) -> Self {
        self.surroundings.get_or_insert_with(|| Arc::new(Surroundings::from_env()));
        self
    }

    /// Begins to watch for events that a person should know of, if the settings want that. The variables are captured.
    pub(crate) fn watched_by(mut self, finder: AlertFinder) -> Self {
        self.alerts = self.settings.attention.watch(finder, self.label.as_deref(), self.variables());
        self
    }

    /// Returns the captured variables.
    pub(crate) fn variables(&self) -> &Arc<Surroundings> {
        self.surroundings.as_ref().expect("every call on a task captures the variables first")
    }

    /// Returns the project in which the task works; none if the current directory is unknown.
    pub(crate) fn project(&self) -> Option<ProjectPlace> {
        // A path in a container is not a path of this machine.
        let cwd = match self.request.cwd.as_ref().filter(|_| self.request.docker.is_none()) {
            Some(cwd) => PathBuf::from(cwd),
            None => std::env::current_dir().ok()?,
        };
        Some(ProjectPlace::of(&cwd, self.variables().home().as_deref()))
    }

    /// Sets the provider by name or alias; `auto` leaves the choice to the router.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.request.provider = Some(name.into());
        self.manifest = None;
        self.route.providers.clear();
        self
    }

    /// Sets the provider by its manifest: from [`crate::roster`], or your own.
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

    /// Uses the settings and the login in the profile's directory. If no provider is set, the profile's provider is used.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets the model. Without a provider, the router chooses the provider that offers it.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.request.model = Some(model.into());
        self
    }

    /// Sets the thinking effort of the model, by the provider's name for it.
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.request.effort = Some(effort.into());
        self
    }

    /// Converts a path to text. A path that is not UTF-8 is remembered, and starting the task fails.
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

    /// Attaches an image or another file to the prompt.
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

    /// Sets a JSON Schema for the answer. Bowline does not check the answer against it; [`Task::answer_as`] parses it.
    pub fn output_schema(mut self, schema: Json) -> Self {
        self.request.output_schema = Some(schema);
        self
    }

    /// Gives the agent an MCP server. A task that resumes a session and names servers does not take over those of the session.
    pub fn mcp_server(mut self, name: impl Into<String>, server: McpServer) -> Self {
        self.request.mcp_servers.insert(name.into(), server);
        self.servers_chosen = true;
        self
    }

    /// Gives the agent no MCP servers but those that this task names, also if the session that it resumes had others.
    pub fn only_named_mcp_servers(mut self) -> Self {
        self.servers_chosen = true;
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

    /// Sets what the agent may do without approval. Default: [`PermissionMode::Ask`].
    pub fn permission(mut self, mode: PermissionMode) -> Self {
        self.request.permission = mode;
        self.mode_chosen = true;
        self
    }

    /// Sets whether a program that cannot be restricted may run under [`PermissionMode::Ask`]. Default: it runs with a warning
    /// if no mode was set and the settings do not forbid it. A mode that was set is never widened.
    pub fn unrestricted(mut self, unrestricted: Unrestricted) -> Self {
        self.unrestricted = Some(unrestricted);
        self
    }

    /// Sets the output format, by the provider's name for it. Default: the best one.
    pub fn format(mut self, name: impl Into<String>) -> Self {
        self.format = Some(name.into());
        self
    }

    /// Passes a native argument to the program of a named provider. Starting fails if the argument conflicts with one that Bowline
    /// passes (permission, format, session, prompt, or anything that has a method here).
    pub fn agent_arg(mut self, arg: impl Into<String>) -> Self {
        self.agent_args.push(arg.into());
        self
    }

    /// Passes several native arguments; see [`Task::agent_arg`].
    pub fn agent_args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.agent_args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the agent's environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.env.insert(name.into(), value.into());
        self
    }

    /// Adds earlier messages of the conversation. An agent gets them in its prompt, an executable provider as messages.
    pub fn context(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.request.context.extend(messages);
        self
    }

    /// Sets sampling options. A notice reports them as ignored if the program has no such options.
    pub fn sampling(mut self, hints: Sampling) -> Self {
        self.request.sampling = hints;
        self
    }

    /// Declares a tool in the model API's form. Only executable providers take one: they end the turn with a call of it, which the
    /// caller carries out. [`Task::tool`] has functions that Bowline calls.
    pub fn declare_tool(mut self, tool: Json) -> Self {
        self.request.tools.push(tool);
        self
    }

    /// Adds metadata of the caller.
    pub fn metadata(mut self, name: impl Into<String>, value: Json) -> Self {
        self.request.metadata.insert(name.into(), value);
        self
    }

    /// Sets an option that only this provider has.
    pub fn set(mut self, name: impl Into<String>, value: Json) -> Self {
        self.request.config.insert(name.into(), value);
        self
    }

    /// Turns streaming off: the agent prints its result in one piece.
    pub fn no_stream(mut self) -> Self {
        self.streaming = Streaming::Off;
        self
    }

    /// Turns streaming on, which is the default.
    pub(crate) fn stream(mut self) -> Self {
        self.streaming = Streaming::On;
        self
    }

    /// Sets when the run may send the prompt again, without streaming, if the stream ends without a result. The default is the
    /// setting `run.stream-fallback`, else [`StreamFallback::Untouched`]: only if the program provably did nothing with it.
    pub fn stream_fallback(mut self, when: StreamFallback) -> Self {
        self.stream_fallback = Some(when);
        self
    }

    /// Refuses a key or a label that is too long.
    pub(crate) fn check_names(&self) -> Result<(), Error> {
        check_name("key", self.request.key.as_deref())?;
        Ok(check_name("label", self.label.as_deref())?)
    }

    /// Variables of the request's environment, for masking.
    pub(crate) fn env_of_request(&self) -> &BTreeMap<String, String> {
        &self.request.env
    }
}

fn millis(span: Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_in_a_container_is_no_project_of_this_machine() {
        let here = crate::task("hi").captured().project().map(|project| project.directory);
        let inside = crate::task("hi").docker("box").cwd("/workspace").captured();
        assert_eq!(inside.project().map(|project| project.directory), here);
        let outside = crate::task("hi").cwd("/workspace").captured();
        assert_ne!(outside.project().map(|project| project.directory), here);
    }
}
