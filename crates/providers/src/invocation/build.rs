//! Builds the whole command: format, permission mode, options, prompt, environment, in this order.

use std::borrow::Cow;

use bowline_protocol::kinds::{CapabilityDegraded, Level};
use bowline_protocol::{Approvals, Category, PermissionMode, Request, RequestField, Resume};

use super::apply::{Draft, Value, is_word};
use super::environment::{self, BASE, NESTING};
use super::{
    Arg, Invocation, LONGEST_ARGUMENT, PhaseLimits, PromptTime, Refusal, StdinPlan, StdioKind, Streaming,
    Unrestricted, User, Wish, native, repository, template,
};
use crate::conversation::{Conversation, ToolGating, native_permission, protocol_client};
use crate::manifest::run::{Flag, Permission, RunFlag};
use crate::manifest::{Format, Manifest, PromptStyle, into_terminal};

/// Builds the command of a request in the best available format, or returns the option that cannot be honoured and
/// why. If a better format is not available, the default one is used, and the command reports what is missing.
pub fn build(manifest: &Manifest, request: &Request, wish: &Wish) -> Result<Invocation, Refusal> {
    let better = manifest.better_format(request.permission).filter(|_| wish.format.is_none());
    let Some((name, own)) = better else { return build_in(manifest, usual(manifest, wish)?, request, wish) };
    let reason = match (wish.streaming, wish.lacking.get(name)) {
        (Streaming::Off, _) => "`no_stream` is set, and this format always streams".into(),
        (Streaming::On, Some(why)) => why.clone(),
        // Native arguments are options of the command that people type, not of the command with a protocol.
        (Streaming::On, None) if !wish.agent_args.is_empty() => {
            format!("`{name}` does not take native arguments")
        }
        (Streaming::On, None) => match build_in(manifest, name, request, wish) {
            Ok(made) => return Ok(made),
            Err(refusal) => format!("`{}`: {}", refusal.setting(), refusal.reason),
        },
    };
    let mut made = build_in(manifest, usual(manifest, wish)?, request, wish)?;
    let (capability, instead) = (own.gives.clone(), own.instead.clone());
    made.degraded.push(CapabilityDegraded { capability, instead, reason });
    Ok(made)
}

/// Builds the command of a request in one format.
fn build_in(manifest: &Manifest, name: &str, request: &Request, wish: &Wish) -> Result<Invocation, Refusal> {
    // Against all formats, before one is chosen: the options of a permission mode are those of the program also in a format in which
    // Bowline answers the requests itself (Gemini 0.61.0 takes `--approval-mode=yolo` beside `--acp`). Native arguments may narrow a
    // permission, never widen it.
    let narrower = native::check(manifest, &wish.agent_args)?;
    let manifest = &*manifest.in_format(name);
    let format = format(manifest, name)?;
    let transport = wish.transport.unwrap_or(manifest.run.transport);
    let mut draft = Draft::new(Invocation {
        provider: manifest.name.clone(),
        program: wish.binary.clone().unwrap_or_else(|| manifest.program.clone()),
        args: Vec::new(),
        env: environment::of(transport),
        env_files: Default::default(),
        env_keep: BASE
            .iter()
            .map(|it| (*it).to_owned())
            .chain(manifest.run.env_keep.iter().cloned())
            .collect(),
        env_removed: NESTING
            .iter()
            .map(|it| (*it).to_owned())
            .chain(manifest.run.env_remove.iter().cloned())
            .collect(),
        stdin: StdinPlan::Null,
        conversation: None,
        cwd: request.cwd.clone(),
        transport,
        format: name.to_owned(),
        dialect: format.dialect.clone(),
        shape: format.shape,
        files: Vec::new(),
        notices: Vec::new(),
        degraded: Vec::new(),
        secrets_env: manifest.run.secrets.clone(),
        secret_values: Vec::new(),
        limits: PhaseLimits::of(manifest, request, format.shape).with_shorter_idle(wish.idle_at_most),
        stop: manifest.stop,
    });
    // First, because these reasons hold for every format and every option below.
    never(&draft, manifest, request, wish)?;
    // The order of the arguments matters to `codex exec`: flags after `resume` are rejected with exit code 2 (0.166.0).
    draft.plain(&format.args);
    draft.plain(&manifest.run.args);
    draft.made.env.extend(manifest.run.env.iter().map(|(name, value)| (name.clone(), value.clone())));

    let permission =
        &*with_host_tools(manifest, wish, permission(manifest, request, wish, narrower, &mut draft)?);
    draft.host_server.clone_from(&wish.host_server);
    repository::keep_out(manifest, request, wish, &mut draft)?;
    for flag in RunFlag::ALL {
        // Settings stand before the subcommand of a resume, for the same reason.
        if *flag == RunFlag::Resume {
            settings(manifest, request, &mut draft)?;
        }
        option(manifest, request, permission, *flag, &mut draft)?;
    }
    draft.plain(&wish.agent_args);
    if manifest.prompt != PromptStyle::Request {
        sampling(request, &mut draft);
    }
    prompt(manifest, request, wish, &mut draft)?;
    // Last: it has to know which variables the options have set.
    variables(request, &mut draft)?;
    Ok(draft.made)
}

/// Returns the name of the format, where there is no better one.
fn usual<'a>(manifest: &'a Manifest, wish: &'a Wish) -> Result<&'a str, Refusal> {
    match (&wish.format, wish.streaming, &manifest.run.no_stream_format) {
        (Some(name), _, _) => Ok(name),
        (None, Streaming::On, _) => Ok(wish.usual.as_deref().unwrap_or(manifest.usual_format())),
        (None, Streaming::Off, Some(name)) => Ok(name),
        (None, Streaming::Off, None) => {
            let reason = "it has no format that prints only the result";
            Err(Refusal::unsupported(&manifest.name, RequestField::NoStream, reason))
        }
    }
}

fn format<'a>(manifest: &'a Manifest, name: &str) -> Result<&'a Format, Refusal> {
    manifest.formats.get(name).ok_or_else(|| {
        let known: Vec<&str> = manifest.formats.keys().map(String::as_str).collect();
        let reason = format!("it has no format `{name}`; it has {}", known.join(", "));
        Refusal::unsupported(&manifest.name, RequestField::Format, reason)
    })
}

/// Refuses options that no agent's command line has, and options that contradict each other.
fn never(draft: &Draft, manifest: &Manifest, request: &Request, wish: &Wish) -> Result<(), Refusal> {
    let refuse = |field: RequestField, reason: &str| Err(draft.unsupported(&field.into(), reason));
    if !request.tools.is_empty() && manifest.prompt != PromptStyle::Request {
        return refuse(
            RequestField::Tools,
            "an agent's command line cannot call a tool that is only declared",
        );
    }
    let asks = manifest.capabilities.approvals == Approvals::Interactive;
    if wish.gated == ToolGating::On && (manifest.prompt != PromptStyle::Protocol || !asks) {
        return refuse(
            RequestField::Policy,
            "a policy decides what the agent asks for, and it does not ask in this format",
        );
    }
    if request.policy.is_some() && wish.gated == ToolGating::Off {
        return refuse(RequestField::Policy, "the caller does not enforce a policy");
    }
    if request.task.is_some() && request.prompt.is_empty() {
        return refuse(RequestField::Task, "a single run needs a prompt; a task is for sessions");
    }
    if request.no_tools && !request.allow_tools.is_empty() {
        return refuse(RequestField::NoTools, "it contradicts `allow_tools`");
    }
    if request.no_tools && !request.mcp_servers.is_empty() {
        return refuse(RequestField::NoTools, "it contradicts `mcp_servers`: MCP servers provide tools");
    }
    Ok(())
}

fn permission<'a>(
    manifest: &'a Manifest,
    request: &Request,
    wish: &Wish,
    narrower: Option<&str>,
    draft: &mut Draft,
) -> Result<&'a Permission, Refusal> {
    let mode = native_permission(request.permission, wish.gated, &draft.made.dialect);
    let field = RequestField::Permission.value(mode.as_str());
    let Some(permission) = manifest.permission.get(&mode) else {
        let reason = format!("its manifest does not define the mode `{}`", mode.as_str());
        return Err(Refusal::misconfigured(&manifest.name, field, reason)
            .hint(format!("add a section `[permission.{}]` to the manifest", mode.as_str())));
    };
    if let Some(reason) = permission.refused.as_ref().filter(|_| permission.unrestricted)
        && wish.unrestricted == Unrestricted::Warn
    {
        draft.notice(Level::Warn, "unrestricted", unrestricted(&manifest.title, reason));
        return Ok(permission);
    }
    if let Some(reason) = &permission.refused {
        return Err(draft.unsupported(&field, reason.as_str()).maybe_hint(permission.hint.as_ref()));
    }
    // The user inside a container is another one, and whether it is root is not known here.
    let root = wish.user == User::Root && request.docker.is_none();
    // Claude 2.1.325 refuses to skip permissions as root, unless `IS_SANDBOX=1` declares a sandbox.
    let excused = permission.root_env.as_ref().is_some_and(|name| request.env.contains_key(name));
    if let Some(reason) = permission.refused_as_root.as_ref().filter(|_| root && !excused) {
        let refusal = draft.unsupported(&field, reason.as_str()).maybe_hint(permission.hint.as_ref());
        return Err(Refusal { category: Category::Configuration, ..refusal });
    }
    match narrower {
        Some(flag) => draft.plain(&native::without(&permission.args, flag)),
        None => draft.plain(&permission.args),
    }
    for (name, value) in &permission.env {
        draft.set_env(&field, name, value.clone());
    }
    Ok(permission)
}

/// Adds the tools of the caller's own MCP server to those that a permission mode allows: the caller gave the functions to the agent.
fn with_host_tools<'a>(manifest: &Manifest, wish: &Wish, permission: &'a Permission) -> Cow<'a, Permission> {
    let rule = manifest.run.flags.get(&RunFlag::McpConfig).and_then(|how| how.host.as_ref()?.allow.as_ref());
    let Some((rule, server)) = rule.zip(wish.host_server.as_ref()) else { return Cow::Borrowed(permission) };
    let tools = template::fill(rule, |name| (name == "server").then_some(server.as_str()));
    let mut permission = permission.clone();
    permission.allow_tools.push(tools);
    Cow::Owned(permission)
}

/// Returns the warning that a program runs without any restriction.
pub(super) fn unrestricted(title: &str, reason: &str) -> String {
    format!("{title} cannot be restricted ({reason}): it can do everything that you can")
}

/// Applies one option, if it is requested.
fn option(
    manifest: &Manifest,
    request: &Request,
    permission: &Permission,
    flag: RunFlag,
    draft: &mut Draft,
) -> Result<(), Refusal> {
    let how = manifest.run.flags.get(&flag);
    let Some(value) = value(manifest, request, permission, flag, how, draft)? else { return Ok(()) };
    match how {
        Some(how) => draft.apply(&flag.field(), how, value),
        None => {
            let reason = format!("its manifest does not define it (`run.flags.{}`)", flag.key());
            Err(Refusal::misconfigured(&manifest.name, flag.field(), reason))
        }
    }
}

fn value<'a>(
    manifest: &Manifest,
    request: &'a Request,
    permission: &Permission,
    flag: RunFlag,
    how: Option<&Flag>,
    draft: &mut Draft,
) -> Result<Option<Value<'a>>, Refusal> {
    let asked = |asked: bool| asked.then_some(Value::Nothing);
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let words = |words: Vec<String>| (!words.is_empty()).then_some(Value::Words(words));
    let value = match flag {
        RunFlag::Model => {
            let ours = how.is_some_and(Flag::is_done).then(|| manifest.default_model.clone());
            // `default` stands for the program's own choice.
            request.model.clone().or(ours).filter(|model| model != "default").map(Value::Text)
        }
        RunFlag::Effort => text(&request.effort),
        RunFlag::System => text(&request.system_prompt),
        RunFlag::AppendSystem => text(&request.append_system_prompt),
        RunFlag::MaxTurns => match request.max_turns {
            Some(0) => {
                return Err(Refusal::invalid(&manifest.name, flag.field(), "a run needs at least one turn"));
            }
            turns => turns.map(|turns| Value::Text(turns.to_string())),
        },
        RunFlag::MaxCost => match request.max_cost_usd {
            Some(cost) if !(cost.is_finite() && cost > 0.0) => {
                let reason = format!("{cost} is not an amount of money");
                return Err(Refusal::invalid(&manifest.name, flag.field(), reason));
            }
            cost => cost.map(|cost| Value::Text(cost.to_string())),
        },
        RunFlag::AddDir => (!request.add_dirs.is_empty()).then_some(Value::Paths(&request.add_dirs)),
        RunFlag::AllowTool if request.permission == PermissionMode::Yolo => {
            if !request.allow_tools.is_empty() {
                let text = "`allow_tools` adds nothing: `permission = yolo` allows every tool".to_owned();
                draft.notice(Level::Info, "option_granted", text);
            }
            words(permission.allow_tools.clone())
        }
        RunFlag::AllowTool => {
            // `Bash(git *)` is a rule for the tool `Bash`.
            let name = |tool: &str| tool.split('(').next().unwrap_or_default().to_owned();
            let denied = |tool: &&String| permission.deny_tools.contains(&name(tool));
            if let Some(tool) = request.allow_tools.iter().find(denied) {
                let mode = request.permission.as_str();
                let reason = format!("`permission = {mode}` denies `{tool}`, and denials take precedence");
                return Err(draft.unsupported(&flag.field(), reason).hint("choose a wider mode"));
            }
            words(merged(request, &permission.allow_tools, &request.allow_tools))
        }
        RunFlag::DenyTool => words(merged(request, &permission.deny_tools, &request.deny_tools)),
        RunFlag::NoTools => asked(request.no_tools),
        RunFlag::McpConfig => {
            (!request.mcp_servers.is_empty()).then_some(Value::Servers(&request.mcp_servers))
        }
        RunFlag::Schema => {
            request.output_schema.as_ref().map(|schema| Value::Text(schema.as_str().to_owned()))
        }
        RunFlag::Image => (!request.attachments.is_empty()).then_some(Value::Files(&request.attachments)),
        RunFlag::Ephemeral => asked(request.ephemeral),
        RunFlag::Isolate => asked(request.isolate),
        RunFlag::Resume | RunFlag::Continue | RunFlag::Fork => match (&request.resume, flag) {
            (Some(Resume::Id { native_session }), RunFlag::Resume)
            | (Some(Resume::Fork { native_session }), RunFlag::Fork) => {
                Some(Value::Text(native_session.as_str().to_owned()))
            }
            (Some(Resume::Latest), RunFlag::Continue) => Some(Value::Nothing),
            (Some(Resume::Id { .. } | Resume::Fork { .. } | Resume::Latest) | None, _) => None,
        },
    };
    if let Some(Value::Text(text)) = value.as_ref().filter(|_| is_word(flag)) {
        draft.check_word(&flag.field(), text)?;
    }
    Ok(value)
}

/// The tools of the mode and those of the request. A run without tools needs no list of them.
fn merged(request: &Request, mode: &[String], asked: &[String]) -> Vec<String> {
    let mode: &[String] = if request.no_tools { &[] } else { mode };
    let mut all: Vec<String> = mode.to_vec();
    for tool in asked {
        if !all.contains(tool) {
            all.push(tool.clone());
        }
    }
    all
}

/// Settings that only this provider understands.
fn settings(manifest: &Manifest, request: &Request, draft: &mut Draft) -> Result<(), Refusal> {
    if manifest.prompt == PromptStyle::Request {
        // They are in the request, as they are.
        return Ok(());
    }
    for (name, value) in &request.config {
        let field = RequestField::Config.value(name.as_str());
        let Some(how) = manifest.run.config.get(name) else {
            let known: Vec<&str> = manifest.run.config.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(draft.unsupported(&field, format!("it has no such setting; known: {known}")));
        };
        // A text is passed as it is; anything else as JSON.
        let text = value.read::<String>().unwrap_or_else(|_| value.as_str().to_owned());
        draft.apply(&field, how, Value::Text(text))?;
    }
    Ok(())
}

/// Sampling options are hints: the run continues without them.
fn sampling(request: &Request, draft: &mut Draft) {
    let hints = &request.sampling;
    for (name, given) in [
        ("max_tokens", hints.max_tokens.is_some()),
        ("temperature", hints.temperature.is_some()),
        ("top_p", hints.top_p.is_some()),
    ] {
        if given {
            let text = format!("`{name}` is not passed on: the program chooses it itself");
            draft.notice(Level::Info, "sampling_ignored", text);
        }
    }
    if request.context.iter().any(|message| !message.tool_calls.is_empty()) {
        let text = "the program does not receive the tool calls of the earlier conversation".to_owned();
        draft.notice(Level::Warn, "context_shortened", text);
    }
}

fn prompt(manifest: &Manifest, request: &Request, wish: &Wish, draft: &mut Draft) -> Result<(), Refusal> {
    let run = &manifest.run;
    let provider = &manifest.name;
    if request.prompt.trim().is_empty() && wish.prompt == PromptTime::Now {
        return Err(Refusal::invalid(provider, RequestField::Prompt, "the prompt is empty"));
    }
    let text = match manifest.prompt {
        PromptStyle::Request => {
            draft.made.secret_values.extend(super::request::secrets(manifest, request));
            let prompt = draft.body.text(&[], &request.prompt);
            super::request::text(manifest, request, &draft.fields, &prompt)?
        }
        PromptStyle::Stdin | PromptStyle::Arg | PromptStyle::Protocol => {
            draft.body.text(&request.context, &request.prompt)
        }
    };
    // Characters, as the program counts them: Codex 0.166.0 accepts 1,048,576 and fails only after the thread has started.
    let chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(most) = run.max_prompt_chars.filter(|most| chars > *most) {
        let reason = format!("it has {chars} characters, and the program accepts {most} at most");
        return Err(Refusal::too_large(provider, RequestField::Prompt, reason)
            .hint("put the bulk into a file and mention the file in the prompt"));
    }
    if let Some(reason) = into_terminal(manifest.prompt, draft.made.transport) {
        return Err(Refusal::misconfigured(provider, RequestField::Prompt, reason));
    }
    match manifest.prompt {
        PromptStyle::Stdin | PromptStyle::Request => {
            draft.plain(&run.stdin_args);
            draft.made.stdin = StdinPlan::Prompt(text);
        }
        PromptStyle::Protocol => {
            let Some(client) = protocol_client(&draft.made.dialect) else {
                let reason = format!("Bowline cannot write the dialect `{}`", draft.made.dialect);
                return Err(Refusal::misconfigured(provider, RequestField::Prompt, reason));
            };
            let talk = Conversation { gated: wish.gated, ..Conversation::of(request, text, run) };
            if let Some((field, reason)) = (client.refuses)(&talk) {
                return Err(draft.unsupported(&field.into(), reason));
            }
            draft.made.stdin = StdinPlan::Protocol((client.first_message)(&talk));
            draft.made.conversation = Some(Box::new(talk));
        }
        PromptStyle::Arg => {
            if text.len() > LONGEST_ARGUMENT {
                let reason = format!(
                    "it is {} bytes long; the program takes its prompt as an argument, which holds at most {LONGEST_ARGUMENT} bytes",
                    text.len()
                );
                return Err(Refusal::too_large(provider, RequestField::Prompt, reason)
                    .hint("put the bulk into a file and mention the file in the prompt"));
            }
            if text.contains('\0') {
                return Err(Refusal::invalid(
                    provider,
                    RequestField::Prompt,
                    "a NUL cannot be passed as an argument",
                ));
            }
            // `-- "-prompt"`: without the guard the program parses the prompt as an option.
            if text.starts_with('-') {
                draft.plain(&run.dash_guard);
            }
            let own = ["{prompt}".to_owned()];
            let templates = if run.prompt_args.is_empty() { &own[..] } else { &run.prompt_args };
            let args = templates.iter().map(|arg| {
                Arg::Plain(super::template::fill(arg, |name| (name == "prompt").then_some(text.as_str())))
            });
            draft.made.args.extend(args);
        }
    }
    Ok(())
}

/// The variables of the request. They come last, but override nothing that an option has set.
fn variables(request: &Request, draft: &mut Draft) -> Result<(), Refusal> {
    for (name, value) in &request.env {
        let field = RequestField::Env.value(name.as_str());
        let invalid = |reason: &str| Err(Refusal::invalid(&draft.made.provider, field.clone(), reason));
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return invalid("it is not a variable");
        }
        if environment::MARKS.contains(&name.as_str()) {
            return invalid("Bowline uses it to find the processes of the session");
        }
        if NESTING.contains(&name.as_str()) {
            return invalid("the agent would treat itself as the child of another agent");
        }
        if let Some((_, by)) = draft.env_of.iter().find(|(set, _)| set == name) {
            return invalid(&format!("it is set by `{by}`, which it would override"));
        }
        if environment::looks_secret(name) {
            draft.made.secrets_env.push(name.clone());
        }
        draft.made.env.insert(name.clone(), value.clone());
    }
    // A variable that the request names is passed, even if the manifest's list removes the host's value.
    if draft.made.transport == StdioKind::Pty {
        draft.made.env_removed.extend(["NO_COLOR".to_owned(), "CI".to_owned()]);
    }
    Ok(())
}
