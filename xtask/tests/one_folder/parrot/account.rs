//! The parrot's report on its login: the exit code.

use crate::ask::{Heard, Login, NotTold, Reader, Subject, Told};

pub(super) const READERS: &[Reader] = &[Reader::printed("parrot-login", Subject::Login, login)];

fn login(heard: &Heard) -> Result<Told, NotTold> {
    Ok(Told::Login(Login { logged_in: heard.answer.code == Some(0), method: None, plan: None }))
}
