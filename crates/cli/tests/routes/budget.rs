//! A limit of money ends a turn that would go on for ever, and what was counted is what was served.

use std::sync::Arc;

use bowline_protocol::PermissionMode;
use bowline_simulator::RequestOutcome;
use libtest_mimic::Trial;

use crate::place::{Agent, Place, Programs, manifest};
use crate::trial;

/// What the scenario tells of each request.
const TOKENS: u64 = 1000;

pub(crate) fn trials(programs: &Arc<Programs>, trials: &mut Vec<Trial>) {
    for agent in &programs.agents {
        let name = format!("a limit of cost stops {} in the middle of a turn", agent.provider);
        let agent = agent.clone();
        trials.push(trial(name, programs, move |programs, case| stopped(programs, case, &agent)));
    }
}

fn stopped(programs: &Programs, case: &str, agent: &Agent) {
    let place = Place::new(programs, case, &[(&agent.provider, "default")]);
    let request = (agent.price.input + agent.price.output) * TOKENS as f64 / 1e6;
    let limit = format!("{}", request * 2.5);
    let mut more = vec!["--permission", "yolo", "--max-cost", &limit];
    let sandbox = manifest(&agent.provider)
        .permission
        .get(&PermissionMode::Yolo)
        .and_then(|how| how.root_env.as_deref());
    let sandbox = sandbox.map(|name| format!("{name}=1"));
    if let Some(sandbox) = sandbox.as_deref().filter(|_| rustix::process::geteuid().is_root()) {
        more.extend(["--env", sandbox]);
    }
    let seen = place.ask("[[spend]] Go on for ever.", &more);
    let attempts = seen.exits(5).attempts();
    assert_eq!(seen.chosen(), [&*agent.provider], "what is too dear is not sent again: {}", seen.stderr);
    let ended = attempts[0].one("turn_ended");
    assert_eq!([&ended["outcome"], &ended["failure"]["code"]], ["failed", "budget"]);
    let notices = attempts[0].all("notice");
    let notice = notices.iter().find(|it| it["code"] == "budget").expect("the limit is told of");
    let text = notice["text"].as_str().expect("a sentence");
    let ends = |basis: &String| text.ends_with(&format!(": ${:.4} so far, {basis}", request * 3.0));
    assert!(agent.basis.iter().any(ends), "{text}");

    // Two requests are below the limit and three above it. At most one more was on its way, and no caller waited for it.
    let requests = place.requests();
    let answered: Vec<_> = requests.iter().filter(|it| it.outcome == RequestOutcome::Sent).collect();
    assert_eq!(answered.len(), 3, "{:?}", place.asked());
    assert!(requests.len() <= 4, "{:?}", place.asked());
    let served: u64 = answered.iter().filter_map(|it| it.usage).map(|it| it.input + it.output).sum();
    assert_eq!(served, 3 * 2 * TOKENS);
    let spent = place.spent();
    assert_eq!(spent.len(), 1, "{spent:?}");
    assert_eq!(spent[0]["session"], attempts[0].session);
    assert_eq!(spent[0]["tokens"], served);
    let cost = spent[0]["cost_usd"].as_f64().expect("money");
    assert!((cost - request * 3.0).abs() < 1e-9, "{cost} was counted, and {} was served", request * 3.0);
}
