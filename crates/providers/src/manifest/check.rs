//! Checks the sections about runs. Each error names its key.

use std::collections::BTreeMap;

use bowline_protocol::PermissionMode;

use super::run::{Flag, HostOffer, McpForm, RunFlag};
use super::{Format, Manifest, ManifestError, PromptStyle};
use crate::ask;
use crate::conversation::protocol_client;
use crate::invocation::{StdioKind, is_field, template};
use crate::simulate::NAMES;

/// Checks the names: they occur on command lines, in lists with commas between, and before `:`.
pub(super) fn name(manifest: &Manifest) -> Result<(), ManifestError> {
    let names =
        std::iter::once(("name", &manifest.name)).chain(manifest.aliases.iter().map(|it| ("aliases", it)));
    for (key, name) in names {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
            let reason = format!("`{name}` is not a valid name: use letters, digits, `-`, `_` and `.`");
            return wrong(key.into(), reason);
        }
        if name.eq_ignore_ascii_case("auto") {
            return wrong(key.into(), "`auto` is reserved for the router".into());
        }
    }
    Ok(())
}

/// Checks the sections about runs.
pub(super) fn run(manifest: &Manifest) -> Result<(), ManifestError> {
    let run = &manifest.run;
    for (key, format) in [
        ("format", &run.format),
        ("no_stream_format", &run.no_stream_format),
        ("live_format", &run.live_format),
    ] {
        if let Some(name) = format.as_ref().filter(|name| !manifest.formats.contains_key(*name)) {
            return wrong(format!("run.{key}"), format!("there is no format `{name}`"));
        }
    }
    let asks = |dialect: &str| protocol_client(dialect).is_some_and(|client| client.asks_host);
    let has_requests = manifest.formats.values().any(|format| asks(&format.dialect));
    for (key, offer, what) in
        [("host_files", run.host_files, "files"), ("host_terminals", run.host_terminals, "terminals")]
    {
        if offer == HostOffer::Offered && !has_requests {
            return wrong(format!("run.{key}"), format!("no format has a protocol with requests for {what}"));
        }
    }
    plain("run.args", &run.args)?;
    plain("run.stdin_args", &run.stdin_args)?;
    plain("run.dash_guard", &run.dash_guard)?;
    prompt(manifest)?;
    for (name, value) in &run.env {
        plain(&format!("run.env.{name}"), std::slice::from_ref(value))?;
    }
    for (list, names) in
        [("env_keep", &run.env_keep), ("env_remove", &run.env_remove), ("secrets", &run.secrets)]
    {
        for name in names {
            let stem = name.strip_suffix('*').unwrap_or(name);
            if stem.is_empty() || stem.contains(['*', '=', ' ']) {
                return wrong(
                    format!("run.{list}"),
                    format!("`{name}` is neither a variable nor a prefix followed by `*`"),
                );
            }
        }
    }
    if manifest.prompt != PromptStyle::Request {
        let flags = run.flags.iter().map(|(flag, how)| (format!("run.flags.{}", flag.key()), how));
        if let Some((key, _)) = flags.into_iter().find(|(_, how)| how.request.is_some()) {
            return wrong(format!("{key}.request"), "needs `prompt = \"request\"`".into());
        }
    }
    for (flag, how) in &run.flags {
        check(&format!("run.flags.{}", flag.key()), ValueArity::of(*flag), how)?;
    }
    host_tools(&run.flags)?;
    for (name, how) in &run.config {
        check(&format!("run.config.{name}"), ValueArity::One, how)?;
    }
    permissions(manifest)
}

/// Checks the permission modes.
fn permissions(manifest: &Manifest) -> Result<(), ManifestError> {
    for (mode, permission) in &manifest.permission {
        let key = format!("permission.{}", mode.as_str());
        plain(&format!("{key}.args"), &permission.args)?;
        for (name, value) in &permission.env {
            plain(&format!("{key}.env.{name}"), std::slice::from_ref(value))?;
        }
        let says_how = !permission.args.is_empty() || !permission.env.is_empty();
        if permission.refused.is_some() && says_how {
            return wrong(key, "a refused mode cannot have arguments or variables".into());
        }
        if permission.unrestricted && (permission.refused.is_none() || *mode != PermissionMode::Ask) {
            let reason = "is for `ask` only, and needs the reason in `refused`";
            return wrong(format!("{key}.unrestricted"), reason.into());
        }
        if permission.root_env.is_some() && permission.refused_as_root.is_none() {
            return wrong(format!("{key}.root_env"), "has no effect without `refused_as_root`".into());
        }
        for (list, tools, flag) in [
            ("allow_tools", &permission.allow_tools, RunFlag::AllowTool),
            ("deny_tools", &permission.deny_tools, RunFlag::DenyTool),
        ] {
            let honoured = manifest.run.flags.get(&flag).is_some_and(Flag::is_done);
            if !tools.is_empty() && !honoured {
                let reason = format!("`run.flags.{}` does not define how tools are named", flag.key());
                return wrong(format!("{key}.{list}"), reason);
            }
        }
    }
    Ok(())
}

/// Checks the sections about finding, asking and installing.
pub(super) fn detect(manifest: &Manifest) -> Result<(), ManifestError> {
    for (list, names) in [("programs", &manifest.detect.programs), ("places", &manifest.detect.places)] {
        let odd = |name: &&String| {
            let file = list == "places";
            name.is_empty()
                || name.starts_with(['/', '~'])
                || name.split('/').any(|part| part == "..")
                || !file && name.contains('/')
        };
        if let Some(name) = names.iter().find(odd) {
            let reason = match list {
                "places" => format!("`{name}` is not a relative path inside the home directory"),
                _ => format!("`{name}` is not the name of a program"),
            };
            return wrong(format!("detect.{list}"), reason);
        }
    }
    if let Some(native) = &manifest.detect.native {
        let known: &[&str] = &["os", "arch", "triple"];
        let texts = native.packages.iter().chain([&native.file]);
        for name in texts.flat_map(|text| template::names(text)) {
            known_name("detect.native", name, known)?;
        }
        if native.packages.is_empty() || native.file.is_empty() || native.why.is_empty() {
            let reason = "needs `packages`, the `file` in them, and a reason in `why`";
            return wrong("detect.native".into(), reason.into());
        }
    }
    let probe = &manifest.probe;
    if probe.pages.iter().any(Vec::is_empty) {
        return wrong(
            "probe.pages".into(),
            "a page needs arguments: without them the program itself would start".into(),
        );
    }
    let unlisted = probe.unlisted.iter().map(|it| ("unlisted", &it.flag, &it.why));
    let changed = probe.changed.iter().map(|it| ("changed", &it.flag, &it.before));
    for (list, flag, reason) in unlisted.chain(changed) {
        if !flag.starts_with('-') || reason.is_empty() {
            return wrong(format!("probe.{list}"), format!("`{flag}` needs its dashes, and a reason"));
        }
    }
    Ok(())
}

/// Checks the sections about the login and the account.
pub(super) fn auth(manifest: &Manifest) -> Result<(), ManifestError> {
    let auth = &manifest.auth;
    let inside =
        |file: &str| !file.is_empty() && file.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let files = auth
        .files
        .iter()
        .chain(&auth.traces)
        .chain(auth.home.as_ref().map(|home| &home.dir).filter(|dir| !dir.is_empty()));
    if let Some(file) = files.into_iter().find(|file| !inside(file)) {
        let reason = format!("`{file}` is not a relative path inside the home directory");
        return wrong("auth".into(), reason);
    }
    for (subject, question) in manifest.ask.all() {
        let key = format!("ask.{}", subject.key());
        let Some(reader) = ask::reader(&question.reader) else {
            let known: Vec<&str> = ask::readers().collect();
            return wrong(
                format!("{key}.reader"),
                format!("there is no reader `{}`; known: {}", question.reader, known.join(", ")),
            );
        };
        if reader.subject != subject {
            let reason = format!("`{}` is about {}", reader.name, reader.subject.key());
            return wrong(format!("{key}.reader"), reason);
        }
        let names: &[&str] = if question.each.is_empty() { &[] } else { &["each"] };
        for name in question.args.iter().flat_map(|arg| template::names(arg)) {
            known_name(&format!("{key}.args"), name, names)?;
        }
    }
    Ok(())
}

/// Checks the section about the simulator.
pub(super) fn simulate(manifest: &Manifest) -> Result<(), ManifestError> {
    let Some(simulate) = &manifest.simulate else { return Ok(()) };
    let env = simulate.env.iter().map(|(name, text)| (format!("simulate.env.{name}"), text));
    let files = simulate.files.iter().map(|file| (format!("simulate.files ({})", file.path), &file.text));
    let args = simulate.args.iter().map(|arg| ("simulate.args".to_owned(), arg));
    for (key, text) in env.chain(files).chain(args) {
        for name in template::names(text) {
            known_name(&key, name, NAMES)?;
        }
    }
    for file in &simulate.files {
        let inside =
            !file.path.is_empty() && file.path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !inside {
            let reason = format!("`{}` has to be a path inside the home directory", file.path);
            return wrong("simulate.files".into(), reason);
        }
    }
    Ok(())
}

fn prompt(manifest: &Manifest) -> Result<(), ManifestError> {
    let run = &manifest.run;
    let key = || "run.prompt_args".to_owned();
    if let Some(reason) = into_terminal(manifest.prompt, run.transport) {
        return wrong("prompt".into(), reason);
    }
    match manifest.prompt {
        PromptStyle::Stdin if !run.prompt_args.is_empty() => {
            wrong(key(), "the prompt comes over standard input".into())
        }
        PromptStyle::Arg if !run.stdin_args.is_empty() => {
            wrong("run.stdin_args".into(), "the prompt is an argument".into())
        }
        PromptStyle::Arg if !run.prompt_args.is_empty() => {
            let names: Vec<&str> = run.prompt_args.iter().flat_map(|arg| template::names(arg)).collect();
            if names == ["prompt"] { Ok(()) } else { wrong(key(), "`{prompt}` has to occur once".into()) }
        }
        PromptStyle::Protocol if !run.prompt_args.is_empty() || !run.stdin_args.is_empty() => {
            wrong(key(), "a protocol carries the prompt".into())
        }
        PromptStyle::Request if !run.prompt_args.is_empty() || !run.stdin_args.is_empty() => {
            wrong(key(), "the prompt is in the request, over standard input".into())
        }
        PromptStyle::Arg | PromptStyle::Stdin | PromptStyle::Request | PromptStyle::Protocol => {
            protocol(manifest)
        }
    }
}

/// Returns why a prompt cannot be passed, if it would have to be typed into a terminal.
pub(crate) fn into_terminal(prompt: PromptStyle, transport: StdioKind) -> Option<String> {
    let how = match (prompt, transport) {
        (PromptStyle::Arg, _) | (_, StdioKind::Pipe) => return None,
        (PromptStyle::Stdin, StdioKind::Pty) => "stdin",
        (PromptStyle::Protocol, StdioKind::Pty) => "protocol",
        (PromptStyle::Request, StdioKind::Pty) => "request",
    };
    Some(format!(
        "`{how}` would be typed into the terminal of `transport = \"pty\"`, which repeats it in the answer, cuts lines at 4095 bytes \
         and obeys its control characters; use `prompt = \"arg\"`, or `transport = \"pipe\"`"
    ))
}

/// A protocol needs a dialect that Bowline can write, and options that the protocol carries need a protocol.
fn protocol(manifest: &Manifest) -> Result<(), ManifestError> {
    let talks = manifest.prompt == PromptStyle::Protocol;
    let mute = |format: &&Format| protocol_client(&format.dialect).is_none();
    if let Some(format) = manifest.formats.values().find(mute).filter(|_| talks) {
        let reason = format!(
            "`protocol` needs a dialect that Bowline can write, and `{}` is read-only",
            format.dialect
        );
        return wrong("prompt".into(), reason);
    }
    match manifest.run.flags.iter().find(|(_, how)| how.protocol && !talks) {
        Some((flag, _)) => wrong(format!("run.flags.{}", flag.key()), "needs `prompt = \"protocol\"`".into()),
        None => Ok(()),
    }
}

/// The number and form of an option's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueArity {
    Nothing,
    One,
    Many,
    Servers,
}

impl ValueArity {
    fn of(flag: RunFlag) -> Self {
        match flag {
            RunFlag::NoTools | RunFlag::Ephemeral | RunFlag::Isolate | RunFlag::Continue => Self::Nothing,
            RunFlag::Model
            | RunFlag::Effort
            | RunFlag::System
            | RunFlag::AppendSystem
            | RunFlag::MaxTurns
            | RunFlag::MaxCost
            | RunFlag::Schema
            | RunFlag::Resume
            | RunFlag::Fork => Self::One,
            RunFlag::AddDir | RunFlag::AllowTool | RunFlag::DenyTool | RunFlag::Image => Self::Many,
            RunFlag::McpConfig => Self::Servers,
        }
    }

    /// The names that a template used once may have, and those of a template used for each value.
    fn names(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Nothing => (&[], &[]),
            Self::One => (&["value", "toml", "file"], &[]),
            Self::Many => (&["values", "list"], &["value", "toml"]),
            Self::Servers => (&["json", "file"], &["value"]),
        }
    }
}

fn check(key: &str, value: ValueArity, flag: &Flag) -> Result<(), ManifestError> {
    let large = flag.large.iter().flat_map(|large| &large.args);
    let texts = flag.before.iter().chain(&flag.after).chain(flag.env.values());
    if let Some(field) = flag.request.as_ref().filter(|field| !is_field(field)) {
        let reason = format!("`{field}` is neither `system_prompt` nor a setting of `config`");
        return wrong(format!("{key}.request"), reason);
    }
    let says_how = flag.request.is_some()
        || [&flag.args, &flag.each].iter().any(|args| !args.is_empty())
        || texts.clone().next().is_some()
        || flag.large.is_some()
        || flag.rule.is_some()
        || flag.protocol;
    let verdicts = [&flag.granted, &flag.ignored, &flag.refused].iter().filter(|it| it.is_some()).count();
    match (verdicts, says_how) {
        (1, false) => return Ok(()),
        (0, true) => {}
        (0, false) => {
            return wrong(key.into(), "is empty: set arguments, variables or a text, or `refused`".into());
        }
        _ => {
            let reason =
                "takes either arguments, variables or a text, or one of `granted`, `ignored` and `refused`";
            return wrong(key.into(), reason.into());
        }
    }
    if flag.protocol {
        return Ok(());
    }
    let (once, each) = value.names();
    for (part, templates, known) in [("args", &flag.args, once), ("each", &flag.each, each)] {
        for name in templates.iter().flat_map(|arg| template::names(arg)) {
            known_name(&format!("{key}.{part}"), name, known)?;
        }
    }
    let text_names = if value == ValueArity::Many { each } else { once };
    for name in texts.clone().flat_map(|text| template::names(text)) {
        known_name(key, name, text_names)?;
    }
    for name in large.clone().flat_map(|arg| template::names(arg)) {
        known_name(&format!("{key}.large.args"), name, &["file"])?;
    }
    let uses = flag.args.iter().chain(&flag.each).chain(texts).flat_map(|text| template::names(text)).count();
    if flag.rule.is_some() && value != ValueArity::Many {
        return wrong(format!("{key}.rule"), "is for options with several values".into());
    }
    if value != ValueArity::Nothing && uses == 0 && flag.rule.is_none() && flag.request.is_none() {
        return wrong(key.into(), "does not use its value".into());
    }
    for arg in flag.args.iter().chain(large) {
        let file = template::names(arg).any(|name| name == "file");
        if file && (!arg.ends_with("{file}") || template::names(arg).count() > 1) {
            return wrong(format!("{key}.args"), format!("`{{file}}` has to be the end of `{arg}`"));
        }
        if arg != "{values}" && template::names(arg).any(|name| name == "values") {
            return wrong(format!("{key}.args"), format!("`{{values}}` has to be all of `{arg}`"));
        }
    }
    let wants_file = flag.args.iter().chain(flag.env.values()).any(|arg| arg.contains("{file}"));
    if wants_file != flag.file.is_some() {
        return wrong(format!("{key}.file"), "a file needs a name and a use in `args` or `env`".into());
    }
    servers(key, value, flag)
}

fn servers(key: &str, value: ValueArity, flag: &Flag) -> Result<(), ManifestError> {
    let per_key = flag.form == Some(McpForm::TomlOverrides);
    match (value, flag.form) {
        (ValueArity::Servers, None) => {
            wrong(format!("{key}.form"), "is missing: it defines how servers are written".into())
        }
        (ValueArity::Servers, Some(_)) if per_key == flag.each.is_empty() => {
            wrong(format!("{key}.each"), "goes with `form = \"toml_overrides\"`, and only with it".into())
        }
        (ValueArity::Nothing | ValueArity::One | ValueArity::Many, Some(_)) => {
            wrong(format!("{key}.form"), "is for MCP servers".into())
        }
        (ValueArity::Servers, Some(_)) | (ValueArity::Nothing | ValueArity::One | ValueArity::Many, None) => {
            Ok(())
        }
    }
}

/// Checks how the tools of the caller's own MCP server are allowed.
fn host_tools(flags: &BTreeMap<RunFlag, Flag>) -> Result<(), ManifestError> {
    for (flag, how) in flags {
        let Some(rule) = &how.host else { continue };
        let key = format!("run.flags.{}.host", flag.key());
        if *flag != RunFlag::McpConfig {
            return wrong(key, "is for `mcp_config`".into());
        }
        if !rule.entry.is_empty() && how.form.is_none() {
            return wrong(format!("{key}.entry"), "needs `form`: a protocol has no such fields".into());
        }
        let Some(allow) = &rule.allow else { continue };
        template::names(allow).try_for_each(|name| known_name(&format!("{key}.allow"), name, &["server"]))?;
        if !allow.contains("{server}") || !flags.get(&RunFlag::AllowTool).is_some_and(Flag::is_done) {
            let reason = "has to be a value of `allow_tool` with `{server}` in it";
            return wrong(format!("{key}.allow"), reason.into());
        }
    }
    Ok(())
}

/// Checks templates that have no value to put in.
fn plain(key: &str, templates: &[String]) -> Result<(), ManifestError> {
    match templates.iter().flat_map(|arg| template::names(arg)).next() {
        Some(name) => known_name(key, name, &[]),
        None => Ok(()),
    }
}

fn known_name(key: &str, name: &str, known: &[&str]) -> Result<(), ManifestError> {
    if known.contains(&name) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|name| format!("`{{{name}}}`")).collect();
    let known = if known.is_empty() { "placeholders are not allowed here".into() } else { known.join(", ") };
    wrong(key.into(), format!("`{{{name}}}` has no meaning here; known: {known}"))
}

fn wrong(key: String, reason: String) -> Result<(), ManifestError> {
    Err(ManifestError::Key { key, reason })
}
