//! The names that a caller gives a session, and how long they may be.

use super::Task;
use crate::Error;

/// The most bytes of a key or a label: both stand in lists, in files and in what other processes read.
pub const NAME_LIMIT: usize = 256;

/// Refuses a key or a label that is longer than [`NAME_LIMIT`].
pub(crate) fn check_name(what: &'static str, name: Option<&str>) -> Result<(), Error> {
    match name.map_or(0, str::len) {
        bytes if bytes > NAME_LIMIT => Err(Error::LongName { what, bytes }),
        _ => Ok(()),
    }
}

impl Task {
    /// Refuses a key or a label that is too long.
    pub(super) fn check_names(&self) -> Result<(), Error> {
        check_name("key", self.request.key.as_deref())?;
        check_name("label", self.label.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{AgentRequest, CliService};
    use crate::{Request, task, testing};

    fn long(result: Result<impl Sized, Error>) -> (&'static str, usize) {
        let error = result.err().expect("it is refused");
        let Error::LongName { what, bytes } = error else { panic!("{error}") };
        (what, bytes)
    }

    #[tokio::test]
    async fn a_name_of_256_bytes_is_taken_and_a_longer_one_is_refused_at_every_door() {
        let said = || task("hi").provider("claude").script(testing::says("hello")).without_journal();
        let (fits, tall) = ("k".repeat(NAME_LIMIT), "é".repeat(NAME_LIMIT / 2) + "k");
        assert_eq!(said().key(&fits).label(&fits).answer().await.expect("an answer"), "hello");
        assert_eq!(long(said().key(&tall).preview()), ("key", 257));
        assert_eq!(long(said().label(&tall).run().await), ("label", 257));
        assert_eq!(long(said().key(&tall).start().await), ("key", 257));
        assert_eq!(long(said().label(&tall).provider("auto").start().await), ("label", 257));
        let service = CliService::new(Request { provider: Some("claude".into()), ..Request::default() });
        let service = service.script(testing::says("hello"));
        let request = AgentRequest { label: Some(tall.clone()), ..AgentRequest::new("hi") };
        assert_eq!(long(service.execute(request).await), ("label", 257));
        let defaults = Request { provider: Some("claude".into()), key: Some(tall), ..Request::default() };
        let service = CliService::new(defaults).script(testing::says("hello"));
        assert_eq!(long(service.execute(AgentRequest::new("hi")).await), ("key", 257));
    }
}
