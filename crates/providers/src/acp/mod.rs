//! `acp`: the Agent Client Protocol, version 1, as JSON lines on standard input and output.
//!
//! Any agent may use it: [`agent`] makes the manifest of an agent that is only known by its command. The additions of single
//! agents to the protocol, in `_meta` and in extension methods, are read where they matter; the code names the agent there.
//!
//! The types of the wire are our own (`wire`) and not those of the official schema crate (1.15.1). Its types own every
//! string and hold tool arguments as trees; they refuse a line for an unknown stop reason, permission or block, or a
//! missing title; and the crate switches on `serde_json`'s `preserve_order` for the whole build. The tests hold an
//! example of every update that it knows.
//!
//! `dialect` reads the messages of both sides: requests and their responses, prompts, which become turns, and the updates of a
//! session. `session` has its settings. `client` is the other side: it chooses the settings and translates the orders of its caller.

mod account;
mod approvals;
mod client;
mod dialect;
mod failures;
mod messages;
mod session;
mod tools;
mod wire;

use std::borrow::Cow;

use bowline_protocol::kinds::Transport;

use self::dialect::Acp;
use crate::catalogue;
use crate::catalogue::ProviderEntry;
use crate::conversation::{Images, ProtocolClient};
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::manifest::Manifest;

/// The name of the dialect.
pub(crate) const NAME: &str = "acp";

/// The client of the protocol.
pub(crate) const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::Acp,
    needs_cwd: true,
    asks_host: true,
    announces_tools: false,
    images: Images::Bytes,
    first_message: client::AcpClient::first_message,
    dialect: |conversation| Box::new(client::AcpClient::new(conversation)),
    refuses: |_| None,
};

/// The manifest of an agent of which only the command is known.
const ANY: &str = include_str!("any.toml");

/// Makes the manifest of an agent of which only the command is known: `acp:<command>`.
///
/// The command is cut at blanks; there is no shell, and no way to quote. A command that needs one goes into a script.
pub fn agent(command: &str) -> Option<Manifest> {
    let mut words = command.split_whitespace().map(str::to_owned);
    let program = words.next()?;
    let mut manifest = Manifest::parse(ANY).expect("a test reads it");
    manifest.name = format!("{NAME}:{command}");
    manifest.title.clone_from(&program);
    manifest.program = program;
    manifest.run.args = words.collect();
    // `acp:claude-agent-acp` and `acp:npx -y @scope/claude-agent-acp@latest` start a program that Bowline knows by another name, so the
    // same rules keep it from the repository's code.
    if let Some(known) = command.split_whitespace().find_map(known_program) {
        // `--acp` may undo what holds for one prompt: Qwen Code 0.24.4 loads a repository's `.env` then.
        let over_acp = known.formats.iter().find(|(_, format)| format.dialect == NAME);
        let known = over_acp.map_or(Cow::Borrowed(known), |(format, _)| known.in_format(format));
        manifest.repository.clone_from(&known.repository);
    }
    Some(manifest)
}

/// Returns the provider whose program a word of a command names: as a path, or as an npm package with or without a version.
fn known_program(word: &str) -> Option<&'static Manifest> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split('@').next().unwrap_or(name);
    catalogue::built_in().find(|manifest| manifest.program == name && !manifest.repository.files.is_empty())
}

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: NAME,
        about: "the Agent Client Protocol, version 1, as JSON lines in both directions",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Immediate,
        make: |_| Box::new(Acp::default()),
        client: Some(CLIENT),
    }],
    account_readers: account::READERS,
    ..ProviderEntry::EMPTY
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_known_program_keeps_its_rules_for_the_code_of_repositories() {
        let repository = |command: &str| agent(command).expect("it has a program").repository;
        let of = |name: &str| &catalogue::by_name(name).expect("it is built in").repository;
        assert_eq!(&repository("claude-agent-acp"), of("claude-acp"));
        assert_eq!(&repository("npx -y @scope/claude-agent-acp@1.2.3"), of("claude-acp"));
        assert_eq!(repository("/opt/bin/gemini --acp").files, of("gemini").files);
        // Its format over ACP has rules of its own.
        assert!(repository("/opt/bin/gemini --acp").env.contains_key("GEMINI_RESTRICTED_MODE"));
        assert!(repository("qwen --acp").refused.is_some() && of("qwen").refused.is_none());
        assert!(repository("my-agent --acp").unproven.is_some());
    }

    #[test]
    fn an_unknown_program_may_read_the_files_of_every_known_one() {
        let listed = agent("my-agent").expect("it has a program").repository.files;
        let known: BTreeSet<String> =
            catalogue::built_in().flat_map(|manifest| manifest.repository.files.clone()).collect();
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), known);
    }
}
