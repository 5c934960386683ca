//! Queries about the user's account: run a program with the user's own settings, in an empty directory.

use std::ffi::OsString;

use bowline_process as process;
use bowline_providers::ask::{self, AccountQuery, AccountReport, Login, NotTold, Subject};
use bowline_providers::invocation::environment;
use bowline_providers::manifest::auth::{AskedIn, Question};

use super::ask::{Session, run, turn};
use super::{Ask, Found, ProbeError, ProbeErrorKind, Surroundings};

/// How many of the items of a query to ask a program about, while the answer is no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// All items.
    All,
    /// The first item only: nothing suggests a better answer for another one, and each costs a start.
    First,
}

impl Ask {
    /// Queries a program about its user's account. Returns none for a manifest without such a query.
    pub(crate) async fn about(
        &self,
        subject: Subject,
        breadth: Breadth,
        found: &Found,
        surroundings: &Surroundings,
    ) -> Option<Result<AccountReport, ProbeError>> {
        let question = found.manifest.ask.about(subject)?;
        let mut session = Session::new(self, found);
        if question.each.is_empty() {
            return Some(session.told(question, &question.args, surroundings).await);
        }
        // An unknown item may be the one, so a no counts only if every item was queried.
        let named = match breadth {
            Breadth::All => &question.each[..],
            Breadth::First => &question.each[..1],
        };
        let mut last = None;
        for each in named {
            let args: Vec<String> = question.args.iter().map(|arg| arg.replace("{each}", each)).collect();
            match session.told(question, &args, surroundings).await {
                Ok(AccountReport::Login(Login { logged_in: false, .. })) => {
                    let why = format!(
                        "no credentials for {}; the program does not report other logins",
                        list(named)
                    );
                    last = Some(Err(session.error(&args, ProbeErrorKind::NotTold(NotTold(why)))));
                }
                Ok(told) => return Some(Ok(told)),
                Err(error) => return Some(Err(error)),
            }
        }
        last
    }
}

fn list(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

impl Session<'_> {
    async fn told(
        &mut self,
        question: &Question,
        args: &[String],
        surroundings: &Surroundings,
    ) -> Result<AccountReport, ProbeError> {
        let mut command = match question.home {
            AskedIn::Empty => self.command(args)?,
            AskedIn::Own => self.as_the_user(args, surroundings)?,
        };
        command.env.extend(question.env.iter().map(|(name, value)| (name.into(), value.into())));
        let cwd = command.cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
        let reader = ask::reader(&question.reader).expect("a manifest names readers that exist");
        let (mut talk, first) = AccountQuery::new(reader, &cwd);
        let _turn = turn().await;
        let answer = run(command, self.deadline(), Some((&mut talk, first))).await;
        let answer = answer.map_err(|kind| self.error(args, kind))?;
        talk.end(answer).map_err(|not_told| self.error(args, ProbeErrorKind::NotTold(not_told)))
    }

    /// Returns the command of a query with the user's settings.
    fn as_the_user(
        &mut self,
        args: &[String],
        surroundings: &Surroundings,
    ) -> Result<process::Command, ProbeError> {
        let scratch = self.home(args)?;
        let found = self.found();
        let mut command = process::Command::new(found.program(), "bowline-probe");
        command.args = args.iter().map(OsString::from).collect();
        let env = environment::of_questions(found.manifest, surroundings.texts());
        command.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let path = found.search_path(surroundings.get("PATH").unwrap_or_default());
        command.env.push(("PATH".into(), path));
        command.cwd = Some(scratch);
        Ok(command)
    }
}
