//! Programs that are described as the specification for pi describes them: a JSON object by model id.
//!
//! `{"claude-cli": {"executable": "claude", "modelArg": "sonnet", "extraArgs": ["--json"]}}`. The default is that
//! specification's line, word for word: `--mode json --model M --thinking L <extraArgs> <extraArgs of the call> -p PROMPT`.
//! The keys with which its implementation changes that line are read too. Model and thinking level are mapped; token
//! limit and temperature are not passed, and a notice reports that.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{
    Capabilities, FieldValue, Millis, PermissionMode, Request, RequestField, Resume, ResumeSupport,
};
use serde::{Deserialize, Serialize};

use super::build::unrestricted;
use super::environment::{self, BASE, NESTING};
use super::{
    Arg, Invocation, LONGEST_ARGUMENT, PhaseLimits, PromptTime, Refusal, StdinPlan, StdioKind, Unrestricted,
    Wish,
};
use crate::dialect::Shape;
use crate::dialects;
use crate::manifest::run::{RunFlag, Stop, StopMethod, StopScope};

/// A program, as the configuration for pi describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExternalCli {
    /// The program; absent takes the model's id. See [`Self::program`].
    #[serde(alias = "command")]
    pub executable: Option<String>,
    /// The model's name for the program; absent takes the model's id.
    pub model_arg: Option<String>,
    /// Further arguments.
    pub extra_args: Vec<String>,
    /// The first arguments, instead of `--mode json`.
    pub args: Option<Vec<String>>,
    /// The option for the model, instead of `--model`; empty for none.
    pub model_flag: Option<String>,
    /// The option for the thinking level, instead of `--thinking`; empty for none.
    pub thinking_flag: Option<String>,
    /// The option for the session, instead of `--session`; empty for none.
    pub session_flag: Option<String>,
    /// The option for a session that exists already; absent takes the session's and `--continue`.
    pub resume_flag: Option<String>,
    /// The option for the prompt, instead of `-p`; empty for none.
    pub prompt_flag: Option<String>,
    /// How it prints: `jsonl`, `sse` or `text`.
    pub output_format: Option<OutputFormat>,
    /// The dialect, where it is not `external-events` (protocol A or B, whichever the program prints).
    pub dialect: Option<String>,
    /// Its working directory.
    #[serde(alias = "cwd")]
    pub workdir: Option<String>,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Variables of the host that it gets besides the shared list; `NAME` or `PREFIX_*`.
    pub env_keep: Vec<String>,
    /// How long it may take, in milliseconds; absent means that there is no limit.
    #[serde(alias = "timeoutMs")]
    pub timeout: Option<u64>,
    /// The session to use.
    pub cli_session_id: Option<String>,
    /// Arguments by permission mode. Without those of a mode it is not restricted: see [`Unrestricted`].
    pub permission_args: BTreeMap<PermissionMode, Vec<String>>,
}

/// How a program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// Lines of JSON.
    Jsonl,
    /// Server-sent events.
    Sse,
    /// Text.
    Text,
}

/// The only format of such a program.
const FORMAT: &str = "external";

/// Programs by model id.
pub type ByModel = BTreeMap<String, ExternalCli>;

/// Reads a configuration file of the specification for pi.
pub fn read(json: &str) -> Result<ByModel, serde_json::Error> {
    serde_json::from_str(json)
}

impl ExternalCli {
    /// Returns the program of a model: a path if it has a `/`, else a name to look for on `PATH`.
    pub fn program<'a>(&'a self, model: &'a str) -> &'a str {
        self.executable.as_deref().unwrap_or(model)
    }

    /// Returns the capabilities that follow from the description. Behaviour of the program alone, such as approvals, is unknown.
    pub fn capabilities(&self) -> Capabilities {
        let has = |flag: &Option<String>| flag.as_deref() != Some("");
        let resumes =
            if self.resume_flag.is_some() { has(&self.resume_flag) } else { has(&self.session_flag) };
        let is_chosen =
            |mode: &PermissionMode| *mode == PermissionMode::Yolo || self.permission_args.contains_key(mode);
        Capabilities {
            supports_non_interactive: true,
            streams_text: self.output_format != Some(OutputFormat::Text),
            resume: if resumes { ResumeSupport::ById } else { ResumeSupport::None },
            images: true,
            chooses_model: has(&self.model_flag),
            chooses_effort: has(&self.thinking_flag),
            permission_modes: PermissionMode::ALL.into_iter().filter(is_chosen).collect(),
            ..Capabilities::default()
        }
    }

    /// Puts a request to the program of a model. The native arguments of the wish are those of this call.
    pub fn build(&self, model: &str, request: &Request, wish: &Wish) -> Result<Invocation, Refusal> {
        let restricted = self.refuse(model, request, wish)?;
        let prompt = &request.prompt;
        if prompt.trim().is_empty() && wish.prompt == PromptTime::Now {
            return Err(Refusal::invalid(model, RequestField::Prompt, "the prompt is empty"));
        }
        if prompt.len() > LONGEST_ARGUMENT || prompt.contains('\0') {
            let reason = format!(
                "it is {} bytes long; the program takes its prompt as an argument, which holds at most {LONGEST_ARGUMENT} bytes without a NUL",
                prompt.len()
            );
            return Err(Refusal::too_large(model, RequestField::Prompt, reason));
        }
        let (dialect, shape) = self.dialect(model)?;
        let mut env = environment::of(StdioKind::Pipe);
        env.extend(self.env.iter().chain(&request.env).map(|(name, value)| (name.clone(), value.clone())));
        if let Some(name) = env.keys().find(|name| NESTING.contains(&name.as_str())) {
            let reason = "the agent would treat itself as the child of another agent";
            return Err(Refusal::invalid(model, RequestField::Env.value(name), reason));
        }
        let base = BASE.iter().map(|name| (*name).to_owned());
        let span = |millis: u64| Some(Millis(millis));
        let at_once = matches!(shape, Shape::Text | Shape::Document);
        Ok(Invocation {
            provider: model.to_owned(),
            program: self.program(model).to_owned(),
            args: self.line(model, request, &wish.agent_args).into_iter().map(Arg::Plain).collect(),
            secrets_env: env.keys().filter(|name| environment::looks_secret(name)).cloned().collect(),
            env,
            env_files: BTreeMap::new(),
            env_keep: base.chain(self.env_keep.iter().cloned()).collect(),
            env_removed: NESTING.iter().map(|name| (*name).to_owned()).collect(),
            stdin: StdinPlan::Null,
            conversation: None,
            cwd: request.cwd.clone().or_else(|| self.workdir.clone()),
            transport: StdioKind::Pipe,
            format: FORMAT.into(),
            dialect,
            shape,
            files: Vec::new(),
            notices: notices(request).into_iter().chain(restricted).collect(),
            degraded: Vec::new(),
            secret_values: Vec::new(),
            // The specification has no time limit unless `timeout` sets one. Silence is limited all the same; a
            // program that prints only at its end may be silent for as long as one whose tool runs.
            limits: PhaseLimits {
                spawn: span(30_000),
                first_event: request.idle_timeout_ms.or(if at_once { None } else { span(120_000) }),
                idle: request.idle_timeout_ms.or(span(if at_once { 3_600_000 } else { 300_000 })),
                in_tool: span(3_600_000),
                shutdown: span(1000),
                total: request.timeout_ms.or(self.timeout.map(Millis)),
            }
            .with_shorter_idle(wish.idle_at_most),
            stop: Stop { polite: StopMethod::Sigterm, scope: StopScope::Tree, grace: Millis(2000) },
        })
    }

    fn line(&self, model: &str, request: &Request, extra: &[String]) -> Vec<String> {
        let mut args = Vec::new();
        let flag = |own: &Option<String>, usual: &str| own.clone().unwrap_or_else(|| usual.to_owned());
        let option = |args: &mut Vec<String>, flag: String, value: &str| {
            if !flag.is_empty() {
                args.extend([flag, value.to_owned()]);
            }
        };
        let session = flag(&self.session_flag, "--session");
        match (&request.resume, &self.resume_flag, &self.cli_session_id) {
            (Some(Resume::Id { native_session }), Some(resume), _) => {
                option(&mut args, resume.clone(), native_session.as_str());
            }
            (Some(Resume::Id { native_session }), None, _) => {
                option(&mut args, session, native_session.as_str());
                args.push("--continue".into());
            }
            (_, _, Some(id)) => option(&mut args, session, id),
            (Some(Resume::Latest | Resume::Fork { .. }) | None, _, None) => {}
        }
        args.extend(self.args.clone().unwrap_or_else(|| vec!["--mode".into(), "json".into()]));
        let wanted = request.model.as_deref().filter(|wanted| *wanted != model);
        let name = wanted.or(self.model_arg.as_deref()).unwrap_or(model);
        if !name.is_empty() {
            option(&mut args, flag(&self.model_flag, "--model"), name);
        }
        if let Some(level) = &request.effort {
            option(&mut args, flag(&self.thinking_flag, "--thinking"), level);
        }
        if let Some(permission) = self.permission_args.get(&request.permission) {
            args.extend(permission.iter().cloned());
        }
        args.extend(self.extra_args.iter().chain(extra).cloned());
        args.extend(request.attachments.iter().map(|file| format!("@{}", file.path)));
        args.extend(Some(flag(&self.prompt_flag, "-p")).filter(|flag| !flag.is_empty()));
        args.push(request.prompt.clone());
        args
    }

    /// The options that have a placeholder in the line.
    fn passed_flags(&self) -> Vec<String> {
        let named = [
            (&self.model_flag, "--model"),
            (&self.thinking_flag, "--thinking"),
            (&self.session_flag, "--session"),
            (&self.resume_flag, "--continue"),
            (&self.prompt_flag, "-p"),
        ];
        let mut flags: Vec<String> =
            named.map(|(own, usual)| own.clone().unwrap_or_else(|| usual.to_owned())).to_vec();
        let fixed = self.args.clone().unwrap_or_else(|| vec!["--mode".into()]);
        let modes = self.permission_args.values().flatten();
        flags.extend(fixed.iter().chain(modes).filter(|arg| arg.starts_with('-')).cloned());
        flags.retain(|flag| !flag.is_empty());
        flags
    }

    /// Returns a field of the request whose option the configuration switches off by an empty text, and the key of that option.
    /// Without the option a run would start with another model or effort, or in a new session.
    fn switched_off(&self, model: &str, request: &Request) -> Option<(RequestField, &'static str)> {
        let is_off = |flag: &Option<String>| flag.as_deref() == Some("");
        let resumed = matches!(request.resume, Some(Resume::Id { .. }));
        let session = match &self.resume_flag {
            Some(_) => ("resumeFlag", &self.resume_flag),
            None => ("sessionFlag", &self.session_flag),
        };
        let asked = [
            (
                RequestField::Model,
                request.model.as_deref().is_some_and(|it| it != model),
                "modelFlag",
                &self.model_flag,
            ),
            (RequestField::Effort, request.effort.is_some(), "thinkingFlag", &self.thinking_flag),
            (RequestField::Resume, resumed, session.0, session.1),
        ];
        let off = asked.into_iter().find(|(_, asked, _, flag)| *asked && is_off(flag));
        off.map(|(field, _, key, _)| (field, key))
    }

    fn dialect(&self, model: &str) -> Result<(String, Shape), Refusal> {
        let (usual, shape) = match self.output_format {
            Some(OutputFormat::Text) => ("text", Shape::Text),
            Some(OutputFormat::Jsonl | OutputFormat::Sse) | None => ("external-events", Shape::Lines),
        };
        let name = self.dialect.as_deref().unwrap_or(usual);
        if dialects::by_name(name).is_none() {
            return Err(Refusal::misconfigured(
                model,
                RequestField::Provider,
                format!("its configuration names the dialect `{name}`, which does not exist"),
            ));
        }
        Ok((name.to_owned(), shape))
    }

    /// Refuses the options that have no placeholder in the specification's line.
    fn refuse(&self, model: &str, request: &Request, wish: &Wish) -> Result<Option<Notice>, Refusal> {
        if let Some(arg) = wish.agent_args.iter().find(|arg| arg.contains('\0') || *arg == "--") {
            let field = RequestField::AgentArgs.value(arg.escape_debug().to_string());
            return Err(Refusal::invalid(model, field, "it cannot be passed to the program"));
        }
        let ours = self.passed_flags();
        let passed = |arg: &&String| ours.iter().any(|flag| super::native::is_same(arg, flag));
        if let Some(arg) = wish.agent_args.iter().find(passed) {
            let field = RequestField::AgentArgs.value(arg.escape_debug().to_string());
            return Err(Refusal::unsupported(model, field, "Bowline passes this option itself"));
        }
        if let Some(name) = wish.format.as_ref().filter(|name| *name != FORMAT) {
            let reason = format!("it has no format `{name}`; it has {FORMAT}");
            return Err(Refusal::unsupported(model, RequestField::Format, reason));
        }
        if let Some((field, key)) = self.switched_off(model, request) {
            let reason = format!("`{key}` of its configuration is empty");
            return Err(Refusal::unsupported(model, field, reason)
                .hint(format!("put the program's own option into `{key}`")));
        }
        let asked = [
            (RequestField::SystemPrompt, request.system_prompt.is_some()),
            (RequestField::AppendSystemPrompt, request.append_system_prompt.is_some()),
            (RequestField::MaxTurns, request.max_turns.is_some()),
            (RequestField::MaxCost, request.max_cost_usd.is_some()),
            (RequestField::AddDirs, !request.add_dirs.is_empty()),
            (RequestField::AllowTools, !request.allow_tools.is_empty()),
            (RequestField::DenyTools, !request.deny_tools.is_empty()),
            (RequestField::NoTools, request.no_tools),
            (RequestField::McpServers, !request.mcp_servers.is_empty()),
            (RequestField::OutputSchema, request.output_schema.is_some()),
            (RequestField::Ephemeral, request.ephemeral),
            (RequestField::Isolate, request.isolate),
            (RequestField::Tools, !request.tools.is_empty()),
            (RequestField::Context, !request.context.is_empty()),
            (RequestField::Policy, request.policy.is_some()),
            (RequestField::Config, !request.config.is_empty()),
        ];
        let resumed = match &request.resume {
            Some(Resume::Latest) => Some(RunFlag::Continue.field()),
            Some(Resume::Fork { .. }) => Some(RunFlag::Fork.field()),
            Some(Resume::Id { .. }) | None => None,
        };
        let first = asked.into_iter().find(|(_, asked)| *asked).map(|(field, _)| FieldValue::from(field));
        if let Some(field) = first.or(resumed) {
            let reason = "its configured command line has no placeholder for it";
            return Err(Refusal::unsupported(model, field, reason)
                .hint("put the program's own option into `extraArgs`, or describe it in a manifest"));
        }
        if request.permission != PermissionMode::Yolo
            && !self.permission_args.contains_key(&request.permission)
        {
            let mode = request.permission.as_str();
            let reason = "its configuration does not define how to enforce it";
            if request.permission == PermissionMode::Ask && wish.unrestricted == Unrestricted::Warn {
                let text = unrestricted(model, reason);
                return Ok(Some(Notice { level: Level::Warn, text, code: Some("unrestricted".to_owned()) }));
            }
            return Err(Refusal::unsupported(model, RequestField::Permission.value(mode), reason).hint(format!(
                "add `permissionArgs.{mode}` to the configuration, or use `permission = yolo` to allow everything"
            )));
        }
        Ok(None)
    }
}

fn notices(request: &Request) -> Vec<Notice> {
    let hints = &request.sampling;
    let asked = [
        ("max_tokens", hints.max_tokens.is_some()),
        ("temperature", hints.temperature.is_some()),
        ("top_p", hints.top_p.is_some()),
    ];
    let notice = |name: &str| Notice {
        level: Level::Info,
        text: format!("`{name}` is not passed on: the program chooses it itself"),
        code: Some("sampling_ignored".to_owned()),
    };
    asked.iter().filter(|(_, asked)| *asked).map(|(name, _)| notice(name)).collect()
}

#[cfg(test)]
mod tests;
