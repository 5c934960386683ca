//! The start of a simulator, and its errors.

use std::net::SocketAddr;

use bowline_simulator::{NetworkReach, Scenario, Simulator, SimulatorOptions, StartError};

use crate::support::{Speaks, simulator};

fn scenario(name: &str, text: &str) -> Scenario {
    Scenario::parse(name, name, &format!("about = \"x\"\n[[step]]\ntext = \"{text}\"\n")).expect("good")
}

#[tokio::test]
async fn a_port_in_use_is_said() {
    let first = simulator().await;
    let options = SimulatorOptions { listen: first.address(), ..SimulatorOptions::default() };
    let error = Simulator::start(options).await.expect_err("the port is taken");
    assert!(matches!(error, StartError::PortInUse(address) if address == first.address()));
    assert_eq!(error.to_string(), format!("port {} of 127.0.0.1 is in use", first.address().port()));
}

#[tokio::test]
async fn other_machines_come_in_only_when_told_so() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let options = SimulatorOptions { listen: everywhere, ..SimulatorOptions::default() };
    let error = Simulator::start(options).await.expect_err("the caller did not allow it");
    assert_eq!(error.to_string(), "`0.0.0.0:0` can be reached from other machines");
    let options =
        SimulatorOptions { listen: everywhere, reach: NetworkReach::Anywhere, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.expect("it starts");
    // A simulator on all addresses is reached here too.
    let port = simulator.address().port();
    assert_eq!(simulator.base_url(Some("a~1")), format!("http://127.0.0.1:{port}/r/a~1"));
}

#[tokio::test]
async fn an_address_of_another_machine_is_refused() {
    let options = SimulatorOptions {
        listen: "192.0.2.1:0".parse().expect("an address"),
        reach: NetworkReach::Anywhere,
        ..SimulatorOptions::default()
    };
    let error = Simulator::start(options).await.expect_err("it is not ours");
    assert_eq!(error.to_string(), "could not listen on 192.0.2.1:0");
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_is_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        SimulatorOptions { ledger_file: Some(folder.path().to_owned()), ..SimulatorOptions::default() };
    let error = Simulator::start(options).await.expect_err("it is a folder");
    assert!(error.to_string().starts_with("could not open the ledger `"), "{error}");
}

#[tokio::test]
async fn a_scenario_of_the_same_name_stands_in_for_the_built_in_one() {
    let options = SimulatorOptions {
        scenarios: vec![scenario("default", "mine"), scenario("new", "new")],
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.expect("it starts");
    for (prompt, text) in [("hi", "mine"), ("[[new]]", "new"), ("[[thinking]]", "Tie a bowline.")] {
        let reply = Speaks::Chat.say(&simulator, false, prompt, &[]).await;
        assert_eq!(Speaks::Chat.text(false, &reply), text);
    }
    let options = SimulatorOptions {
        scenarios: vec![scenario("new", "a"), scenario("new", "b")],
        ..SimulatorOptions::default()
    };
    let error = Simulator::start(options).await.expect_err("which one?");
    assert_eq!(error.to_string(), "two scenarios are called `new`");
}
