//! The calls themselves: the size of their futures, long names, and answers in code fences.

use super::*;
use crate::Request;
use crate::run::task::task;
use crate::run::testing;
use crate::service::{AgentRequest, CliService};
use crate::sessions::names::NAME_LIMIT;

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

#[test]
fn a_run_takes_little_room_in_the_callers_future() {
    // Preparing a run takes some 80 kB, which hundreds of callers would hold as long as they run.
    let sizes = [
        size_of_val(&task("hi").provider("agent").start()),
        size_of_val(&task("hi").provider("agent").run()),
    ];
    assert!(sizes.iter().all(|size| *size < 16 * 1024), "{sizes:?}");
}

#[test]
fn fences_around_json_are_no_part_of_it() {
    for text in ["{}", " {} \n", "```json\n{}\n```", "```\n{}\n```"] {
        assert_eq!(bare_json(text), "{}");
    }
    assert_eq!(bare_json("no json"), "no json");
}
