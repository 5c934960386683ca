//! The parrot's report on its login: the exit code.

use crate::ask::{Heard, Login, Manner, NotTold, Reader, Subject, Told, enough, silent};

pub(super) const READERS: &[Reader] = &[Reader {
    name: "parrot-login",
    subject: Subject::Login,
    manner: Manner::Printed,
    open: silent,
    more: enough,
    read: login,
}];

fn login(heard: &Heard) -> Result<Told, NotTold> {
    Ok(Told::Login(Login { logged_in: heard.answer.code == Some(0), method: None, plan: None }))
}
