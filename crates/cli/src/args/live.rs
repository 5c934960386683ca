//! The arguments of the commands about live sessions: start, attach, and the orders.

use std::path::PathBuf;

use bowline_protocol::kinds::ControlMode;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::request::{RequestArgs, TimeLimit};

pub(crate) const START_EXAMPLES: &str =
    "The session goes on when this command and the terminal end. `bowline attach` follows it and types into \
    it; `send`, `approve`, `interrupt` and `stop` direct it from anywhere. Approvals wait for you.

Examples:
  bowline start -p NAME \"Fix the failing test\" --name fix
  bowline start -p NAME --task task.json
  bowline attach fix
  bowline send fix \"and update the changelog\"
  bowline wait fix && bowline stop fix
  bowline start --resume fix \"Now review it\"";

pub(crate) const ATTACH_EXAMPLES: &str = "A line that you type is a prompt: Bowline sends it into the running turn if the agent can be steered, else queues it. \
    While an approval waits on the screen, `y` allows it, `a` allows it for the session, `n` denies it. Lines that begin with a colon \
    are commands; `:help` lists them. Ctrl-D or Ctrl-C detaches: the session goes on.

Examples:
  bowline attach @last
  bowline attach fix --from 1
  bowline attach fix -o jsonl </dev/null";

pub(crate) const SEND_EXAMPLES: &str = "Examples:
  bowline send fix \"and update the changelog\"
  bowline send fix --steer \"skip the slow tests\"
  bowline send fix --image error.png \"why does it look like this?\"
  git diff | bowline send fix \"review this\"";

pub(crate) const STATUS_EXAMPLES: &str = "Examples:
  bowline status fix
  bowline status @last --json | jq -r .state";

pub(crate) const APPROVE_EXAMPLES: &str = "`bowline status` shows the open requests and their ids. Without an id, the only open request is shown and you \
    are asked; without a terminal, the id is required. An id is never used again, so an agent that withdraws its request and asks for something \
    else gets no decision. A process that an agent started cannot approve: exit code 5. Exit code 1 if the approval was decided before.

Examples:
  bowline approve fix
  bowline approve fix 7 --session
  bowline approve fix --input changed.json";

pub(crate) const DENY_EXAMPLES: &str =
    "The agent continues its turn. It receives the reason if its protocol carries messages.

Examples:
  bowline deny fix
  bowline deny fix 7 --message \"do not touch the lock file\"";

pub(crate) const ANSWER_EXAMPLES: &str = "Examples:
  bowline answer fix \"the second one\"
  bowline answer fix --question 7 yes \"only on Linux\"";

pub(crate) const INTERRUPT_EXAMPLES: &str = "The text so far is kept. Queued prompts are not sent by themselves afterwards: `bowline status` lists them, and `bowline send \
    --offered` sends one. An agent that does not react within 10 seconds is ended; the next prompt resumes it.

Examples:
  bowline interrupt fix
  bowline send fix --now \"Stop. Fix the build first\"";

pub(crate) const DEQUEUE_EXAMPLES: &str = "Examples:
  bowline dequeue fix
  bowline dequeue fix p42";

pub(crate) const SET_EXAMPLES: &str = "Without a running process, the next process starts with the new value.

Examples:
  bowline set fix model NAME
  bowline set fix permission edit";

pub(crate) const CONTROL_EXAMPLES: &str = "Modes:
  agent-led  The queue is sent by itself, turn by turn. The default
  human-led  The queue waits, and no time limit counts. `send --now`
             and prompts typed in `attach` are sent
  delegated  A program directs the session, with the rules of agent-led

The mode lasts until it is changed, also over a stop and a resume.

Examples:
  bowline control fix
  bowline control fix human-led";

pub(crate) const WAIT_EXAMPLES: &str = "A session has nothing to do when no turn runs and no prompt is queued. While an approval or a question is open, its turn runs.

Examples:
  bowline wait fix
  bowline wait fix --timeout 10m -o json | jq -r .text
  bowline wait @last --end";

/// Changes the options of `run` for a session: hides those that it rejects, and describes those that mean something else.
pub(crate) fn for_sessions(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "provider" => arg.help(
            "Provider to run (`bowline providers` lists them). Default: the provider of the resumed session, else BOWLINE_PROVIDER",
        ),
        "permission" => arg.help("Actions that the agent may take without approval; the others wait for you. Default: `ask`"),
        "timeout" => arg.help("Maximum time for one turn, such as 90s or 10m. Time spent waiting for you does not count. Default: `none`"),
        "resume" => arg.help(
            "Resume a session: its id or a part of it, its name or key, `@last`, or the agent's own id. It keeps its id and its journal",
        ),
        // The name is the label.
        "label" => arg.hide(true),
        id if RequestArgs::RUN_ONLY.contains(&id) => arg.hide(true),
        _ => arg,
    }
}

/// Which session. Every command about a live session takes it first.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArg {
    /// Session: its id or a part of it, its name or key, or `@last`
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Name of the session, by which other commands find it
    #[arg(long, value_name = "NAME", value_parser = super::request::key, conflicts_with = "label")]
    pub(crate) name: Option<String>,

    /// File with the task, as JSON: `title`, `goal`, `constraints` and `acceptance` become the first prompt, and the title the name if there
    /// is no `--name`. A field that Bowline cannot honour is refused
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) task: Option<PathBuf>,

    /// End the agent's process after this time without a prompt; the next prompt resumes it. `none` keeps it. Default: 10m
    #[arg(long, value_name = "TIME", value_parser = super::request::limit)]
    pub(crate) idle: Option<TimeLimit>,

    /// Deny an approval that waits for longer than this. Default: `none`. Other time limits pause while a request waits
    #[arg(long, value_name = "TIME", value_parser = super::request::limit)]
    pub(crate) approval_deadline: Option<TimeLimit>,

    /// Print JSON: the session's id, the runner's process id and its socket
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AttachArgs {
    /// Session: its id or a part of it, its name or key, or `@last`
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// Begin with this event; 1 shows everything. Default: the beginning of the last turn
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,

    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "human", help = super::run::output_help())]
    pub(crate) output: String,

    /// Only watch: send nothing that is typed
    #[arg(long)]
    pub(crate) watch: bool,

    /// Show thinking, sub-agents, retries and tool output; twice (`-vv`) also tool input and every event
    #[arg(long, short = 'v', action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("busy"))]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Prompt; `-` reads it from standard input. Piped input is appended
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Send it into the running turn; exit with code 1 if the agent cannot be steered or no turn runs
    #[arg(long, group = "busy")]
    pub(crate) steer: bool,

    /// Send it when the running turn and the prompts before it are over (default)
    #[arg(long, group = "busy")]
    pub(crate) queue: bool,

    /// Interrupt the running turn, then send it before all queued prompts
    #[arg(long, group = "busy")]
    pub(crate) now: bool,

    /// Image to attach to the prompt; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,

    /// Send a prompt that an earlier runner accepted and did not send (`bowline status` lists them)
    #[arg(long, value_name = "ID", conflicts_with_all = ["prompt", "busy", "image"])]
    pub(crate) offered: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DequeueArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Id of the prompt (`bowline status` lists them). Default: the newest one in the queue
    #[arg(value_name = "ID")]
    pub(crate) prompt: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Id of the approval (`bowline status` lists them). Default: on a terminal, the only open one, after a question
    #[arg(value_name = "ID")]
    pub(crate) approval: Option<String>,

    /// Run the tool with the JSON input of this file instead of the agent's; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Allow the same for the rest of the session
    #[arg(long = "session", conflicts_with = "input")]
    pub(crate) for_session: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Id of the approval (`bowline status` lists them). Default: the only open one
    #[arg(value_name = "ID")]
    pub(crate) approval: Option<String>,

    /// Reason for the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Answers, in the order of the questions. Without one, the question is dismissed
    #[arg(value_name = "ANSWER")]
    pub(crate) answers: Vec<String>,

    /// Id of the question (`bowline status` lists them). Default: the only open one
    #[arg(long, value_name = "ID")]
    pub(crate) question: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Option: model, effort, permission, or one of the agent's own (`bowline status` lists them)
    #[arg(value_name = "OPTION")]
    pub(crate) option: String,

    /// Value
    #[arg(value_name = "VALUE")]
    pub(crate) value: String,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ControlArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,

    /// Side that leads from now on. Without it, print the side that leads
    #[arg(value_name = "MODE", value_parser = control_mode())]
    pub(crate) mode: Option<ControlMode>,
}

/// The names of the sides that can lead, as people type them.
pub(crate) const CONTROL_MODES: [(&str, ControlMode); 3] = [
    ("agent-led", ControlMode::AgentLed),
    ("human-led", ControlMode::HumanLed),
    ("delegated", ControlMode::Delegated),
];

fn control_mode() -> impl TypedValueParser<Value = ControlMode> {
    let names = PossibleValuesParser::new(CONTROL_MODES.map(|(name, _)| name));
    names.try_map(|name| {
        let mode = CONTROL_MODES.into_iter().find(|(known, _)| *known == name);
        mode.map(|(_, mode)| mode).ok_or("there is no such mode")
    })
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Session: its id or a part of it, its name or key, or `@last`
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// Wait until the session is stopped
    #[arg(long)]
    pub(crate) end: bool,

    /// Stop waiting after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = super::request::limit)]
    pub(crate) timeout: Option<TimeLimit>,

    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "human", help = super::run::output_help())]
    pub(crate) output: String,
}
