//! A chat backend: each message resumes the agent's session, and another provider takes over when the agent cannot go on.
//!
//! `cargo run -p bowline --example chat -- claude codex`, then type a message on each line.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io::BufRead;

use bowline::roster::Roster;
use bowline::{Error, Message, NativeSessionId, PermissionMode, Record, Role};

/// One conversation. A service keeps one for each user and stores it between two messages.
struct Chat {
    /// The providers, in the order of preference. One that fails moves to the end.
    providers: Vec<String>,
    /// The provider of the last answer, and its own session id.
    session: Option<(String, NativeSessionId)>,
    /// All messages, for a provider that takes over.
    history: Vec<Message>,
}

impl Chat {
    /// Sends a message and returns the answer.
    async fn send(&mut self, text: &str) -> Result<String, Error> {
        let record = match self.resume(text).await? {
            Some(record) => record,
            None => self.begin(text).await?,
        };
        if !record.is_completed() {
            return Err(Error::Turn(Box::new(record)));
        }
        let answer = record.answer()?;
        self.history.push(message(Role::User, text));
        self.history.push(message(Role::Assistant, &answer));
        Ok(answer)
    }

    /// Sends the message to the provider that knows the conversation. Returns nothing if there is none, or if it failed in a
    /// way that another provider can make up for, such as a used-up quota.
    async fn resume(&mut self, text: &str) -> Result<Option<Record>, Error> {
        let Some((provider, session)) = self.session.take() else { return Ok(None) };
        let task = bowline::task(text)
            .provider(&provider)
            .roster(Roster::from_env())
            .resume(session)
            .permission(PermissionMode::Read);
        let record = task.run().await?;
        // After a tool call the message may have had effects: do not send it twice.
        if record.failure.as_ref().is_some_and(|failure| failure.fallback) && !record.tool_ran {
            println!("[{provider} cannot go on]");
            self.providers.retain(|name| *name != provider);
            self.providers.push(provider);
            return Ok(None);
        }
        self.session = record.native_session.clone().map(|session| (provider, session));
        Ok(Some(record))
    }

    /// Starts a new session with the first provider that can be used, and passes the conversation along.
    async fn begin(&mut self, text: &str) -> Result<Record, Error> {
        let task = bowline::task(text)
            .providers(self.providers.clone())
            .roster(Roster::from_env())
            .context(self.history.clone());
        let record = task.permission(PermissionMode::Read).run().await?;
        let provider = record.attempts.last().map(|attempt| attempt.name.clone());
        if let Some(provider) = &provider {
            println!("[{provider} answers]");
        }
        self.session = provider.zip(record.native_session.clone());
        Ok(record)
    }
}

fn message(role: Role, content: &str) -> Message {
    Message { role, content: content.to_owned(), tool_calls: Vec::new(), tool_call_id: None }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    bowline::init();
    let providers = std::env::args().skip(1).collect();
    let mut chat = Chat { providers, session: None, history: Vec::new() };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!("{}", chat.send(&line).await?);
    }
    Ok(())
}
