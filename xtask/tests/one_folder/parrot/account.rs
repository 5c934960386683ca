//! The parrot's report on its login: the exit code.

use crate::ask::{QueryReplies, Login, NotTold, Reader, Subject, AccountReport};

pub(super) const READERS: &[Reader] = &[Reader::printed("parrot-login", Subject::Login, login)];

fn login(heard: &QueryReplies) -> Result<AccountReport, NotTold> {
    Ok(AccountReport::Login(Login { logged_in: heard.answer.code == Some(0), method: None, plan: None }))
}
