//! Runs against the copy of `crates/providers` with the folder `parrot`: every list has the new provider.

use bowline_protocol::{Exit, Kind, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End};
use bowline_providers::moment::Moment;
use bowline_providers::{ask, catalogue, dialects, invocation};

#[test]
fn every_list_has_the_new_provider() {
    let manifest = catalogue::by_name("Polly").expect("the catalogue has its alias");
    assert_eq!(manifest.name, "parrot");
    catalogue::check().expect("its manifest is valid");
    let entry = dialects::by_name("parrot").expect("the list of dialects has it");
    assert_eq!(catalogue::vocabulary("parrot"), Some(".say\n"));
    assert!(ask::readers().any(|name| name == "parrot-login"));
    assert!(invocation::environment::NESTING.contains(&"PARROT_CAGE"));

    let now = Moment::utc(Timestamp::EPOCH);
    let mut events = Vec::new();
    let mut decoder = Decoder::new(entry);
    decoder.stdout(b"{\"say\":\"hello\"}\n", &now, &mut events);
    decoder.finish(&End { exit: Some(Exit::Code(0)), cause: Cause::Exited }, &now, &mut events);
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| if let Kind::TextDelta(delta) = &event.kind { Some(&*delta.text) } else { None })
        .collect();
    assert_eq!(texts, ["hello"]);
}
