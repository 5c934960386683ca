//! The whole table: ten categories, with and without retries and fallback, one to three agents, tools or none.

use super::*;

/// The table of the adapter protocol, as it is written there.
const SPECIFICATION: &str = "
| `quota` | false | true | Usage quota exceeded |
| `rate_limit` | true | false | Rate limiting in effect |
| `authentication` | false | false | Credential issues |
| `validation` | false | false | Invalid request |
| `network` | true | true | Network connectivity |
| `server` | true | true | Server-side errors |
| `timeout` | true | true | Request timeout |
| `not_found` | false | true | Resource not found |
| `configuration` | false | false | Config issues |
| `unknown` | false | true | Unrecognized error |
";

const NAMES: [&str; 3] = ["first", "second", "third"];

fn now() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().unwrap()
}

/// One row of the specification.
fn row(line: &str) -> (Category, bool, bool) {
    let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
    let category = Category::ALL.into_iter().find(|it| it.as_str() == cells[1]).expect("a category");
    (category, cells[2] == "true", cells[3] == "true")
}

/// Plays a request in which every attempt fails in the same way, and says what was decided each time.
fn play(rules: &Rules, failure: &Failure, agents: usize, tool_ran: bool) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let (mut agent, mut retries) = (0, 0);
    loop {
        let next = NAMES[..agents].get(agent + 1).copied();
        let attempt =
            Attempt { failure, retries, waits: 0, tool_ran, deadline: Deadline::None, opened: false, next };
        let verdict = decide(rules, &attempt, now(), 700);
        verdicts.push(verdict.clone());
        match verdict.next {
            Next::Retry { .. } => retries += 1,
            Next::FallBack => (agent, retries) = (agent + 1, 0),
            Next::Wait { .. } | Next::Stop => return verdicts,
        }
        assert!(verdicts.len() < 20, "it ends");
    }
}

#[test]
fn the_table_of_the_specification_is_obeyed_and_explained() {
    let mut text = String::new();
    for (category, may_retry, may_fall_back) in SPECIFICATION.trim().lines().map(row) {
        let failure = Failure::new(category, Code::Unknown, "it failed");
        for (retries, fallback, agents, tool_ran) in cases() {
            let rules = Rules { retries, fallback, ..Rules::default() };
            let verdicts = play(&rules, &failure, agents, tool_ran);
            // What the specification demands, counted without asking the code under test.
            let again = if may_retry { retries } else { 0 };
            let others = if may_fall_back && fallback == Fallback::Next { agents as u32 - 1 } else { 0 };
            let attempts = if tool_ran { 1 } else { (1 + again) * (1 + others) };
            let told = format!(
                "{category} retries={retries} fallback={} agents={agents} tool={tool_ran}",
                fallback.as_str()
            );
            assert_eq!(verdicts.len() as u32, attempts, "{told}");
            text.push_str(&format!("{told}\n"));
            for verdict in verdicts {
                text.push_str(&format!("  {}\n", verdict.reason));
            }
        }
    }
    insta::assert_snapshot!("the_table", text);
}

fn cases() -> impl Iterator<Item = (u32, Fallback, usize, bool)> {
    [0, 2].into_iter().flat_map(|retries| {
        [Fallback::None, Fallback::Next].into_iter().flat_map(move |fallback| {
            (1..=3).flat_map(move |agents| {
                [false, true].into_iter().map(move |tool_ran| (retries, fallback, agents, tool_ran))
            })
        })
    })
}

fn verdict(rules: Rules, failure: &Failure, change: impl FnOnce(&mut Attempt<'_>)) -> Verdict {
    let mut attempt = Attempt {
        failure,
        retries: 0,
        waits: 0,
        tool_ran: false,
        deadline: Deadline::None,
        opened: false,
        next: Some("second"),
    };
    change(&mut attempt);
    decide(&rules, &attempt, now(), 700)
}

fn failure(category: Category) -> Failure {
    Failure::new(category, Code::Unknown, "it failed")
}

#[test]
fn waits_double_up_to_the_cap_and_are_drawn_from_all_of_it() {
    let backoff = |retries, dice| Rules::default().backoff(retries, dice);
    for (retries, bound) in [(0, 1_000), (1, 2_000), (4, 16_000), (5, 30_000), (40, 30_000)] {
        assert_eq!(backoff(retries, 0), Millis(0));
        assert_eq!(backoff(retries, bound), Millis(bound));
        assert_eq!(backoff(retries, bound + 1), Millis(0), "never more than {bound}");
    }
    let own = Rules { first_wait: Millis(10), longest_wait: Millis(25), ..Rules::default() };
    for (retries, bound) in [(0, 10), (1, 20), (2, 25), (40, 25)] {
        assert_eq!(
            (own.backoff(retries, bound), own.backoff(retries, bound + 1)),
            (Millis(bound), Millis(0))
        );
    }
}

#[test]
fn the_time_that_an_agent_names_is_honoured() {
    let rules = Rules::default();
    let named = Failure { retry_after_ms: Some(Millis(5_000)), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &named, |_| {}).next, Next::Retry { after: Millis(5_000) });
    let resets = Failure { resets_at: Some(now().after(Millis(12_000))), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &resets, |_| {}).next, Next::Retry { after: Millis(12_000) });
    let later = Failure { resets_at: Some(now().after(Millis(14_400_000))), ..failure(Category::RateLimit) };
    let told = verdict(rules, &later, |_| {});
    assert_eq!(told.next, Next::Stop);
    assert_eq!(
        told.reason,
        "rate limit: not retried, because 4 h is longer than 30 s to wait; no fallback; \
         the limit resets in 4 h and is not waited for"
    );
    let patient = Rules { wait_for_limit: true, ..rules };
    assert_eq!(verdict(patient, &later, |_| {}).next, Next::Wait { until: now().after(Millis(14_400_000)) });
    assert_eq!(verdict(patient, &later, |it| it.waits = 5).next, Next::Stop, "not for ever");
}

#[test]
fn a_quota_falls_back_before_it_is_waited_for() {
    let quota = Failure { resets_at: Some(now().after(Millis(60_000))), ..failure(Category::Quota) };
    let patient = Rules { wait_for_limit: true, ..Rules::default() };
    assert_eq!(verdict(patient, &quota, |_| {}).next, Next::FallBack);
    assert_eq!(
        verdict(patient, &quota, |it| it.next = None).next,
        Next::Wait { until: now().after(Millis(60_000)) }
    );
    assert_eq!(verdict(Rules::default(), &quota, |it| it.next = None).next, Next::Stop);
}

#[test]
fn any_falls_back_after_everything_but_what_is_ours() {
    let any = Rules { fallback: Fallback::Any, retries: 0, ..Rules::default() };
    for category in Category::ALL {
        assert_eq!(verdict(any, &failure(category), |_| {}).next, Next::FallBack, "{category}");
        assert_eq!(verdict(any, &failure(category), |it| it.tool_ran = true).next, Next::Stop, "{category}");
    }
    for code in [Code::Budget, Code::Policy, Code::DiskFull, Code::Cancelled] {
        let ours = Failure { code, ..failure(Category::Server) };
        assert_eq!(verdict(any, &ours, |_| {}).next, Next::Stop, "{}", ours.code);
    }
}

#[test]
fn our_own_deadline_is_not_retried() {
    let late = failure(Category::Timeout);
    let rules = Rules::default();
    assert_eq!(verdict(rules, &late, |it| it.deadline = Deadline::Silence).next, Next::FallBack);
    let over = verdict(rules, &late, |it| it.deadline = Deadline::Total);
    assert_eq!((over.next, over.reason.as_str()), (Next::Stop, "timeout: the time for all of it is over"));
}

#[test]
fn tools_are_repeated_only_on_request() {
    let rules = Rules { repeat_tools: true, ..Rules::default() };
    let retried = verdict(rules, &failure(Category::Server), |it| it.tool_ran = true);
    assert_eq!(retried.next, Next::Retry { after: Millis(700) });
}
