//! `bowline doctor` on a machine with none, some and all of the real programs.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_providers::manifest::Chosen;
use libtest_mimic::Trial;
use serde_json::Value;

use crate::place::{Place, Program, Programs};
use crate::{say, trial};

/// What the doctor and the programs need: interpreters, and what the doctor itself looks for.
const TOOLS: &[&str] = &["git", "node"];

/// How often the doctor may be asked again because a program did not answer in time: a machine that was busy for a moment
/// is no fault of the program, and one that is at fault stays silent.
const AGAIN: usize = 2;

pub(crate) fn trials(programs: &Arc<Programs>, trials: &mut Vec<Trial>) {
    trials.push(trial("doctor, no program", programs, |programs, case| examine(programs, case, &[])));
    trials.push(trial("doctor, one program", programs, |programs, case| {
        let first = programs.all.iter().find(|it| it.provider == programs.agents[0].provider);
        examine(programs, case, &[first.expect("it is installed")]);
    }));
    trials.push(trial("doctor, all programs", programs, |programs, case| {
        // Those that are only chosen by name are another's program, and not looked for.
        let all: Vec<&Program> =
            programs.all.iter().filter(|it| it.manifest().chosen != Chosen::ByName).collect();
        assert!(all.len() >= 8, "{all:?}");
        examine(programs, case, &all);
    }));
    trials.push(trial("doctor, one program that hangs", programs, one_hangs));
}

/// One real program is started and stopped before it can say anything. It is named within the time that an answer may take,
/// nothing of it is left, and the others answer as ever.
fn one_hangs(programs: &Programs, case: &str) {
    let find = |name: &str| programs.all.iter().find(|it| it.provider == name).expect("it is installed");
    let hangs = find(&programs.hangs);
    let mut installed: Vec<&Program> = programs.agents.iter().map(|agent| find(&agent.provider)).collect();
    let others = installed.clone();
    installed.push(hangs);
    let names: Vec<(&str, &str)> = installed.iter().map(|it| (&*it.provider, "default")).collect();
    let mut place = Place::new(programs, case, &names);
    place.bare_path(TOOLS);
    place.stop_at_once(hangs);
    let mut report = report(&place, &installed);
    let row = |report: &Value, provider: &str| {
        rows(report).iter().find(|row| row["provider"] == provider).expect("a row").clone()
    };
    let silent = row(&report, &hangs.provider);
    assert_eq!(silent["health"], "found", "{silent:#}");
    let command = format!("{} --version", hangs.manifest().program);
    let problem = &silent["problems"][0];
    assert_eq!(problem["what"], format!("`{command}`: it did not answer within 5 s, and was ended"));
    assert_eq!(problem["fix"], format!("run `{command}` by hand, and see what it waits for"));
    let took = silent["took_ms"].as_u64().expect("a time");
    assert!((5_000..10_000).contains(&took), "{took} ms");
    for again in 1..=AGAIN {
        let late = |it: &&&Program| row(&report, &it.provider)["health"] == "found";
        if !others.iter().any(|it| late(&it)) {
            break;
        }
        say(&format!("routes: doctor once more ({again} of {AGAIN}), because others were late too"));
        report = self::report(&place, &installed);
    }
    for other in others {
        let row = row(&report, &other.provider);
        assert_eq!(
            (&row["health"], &row["auth"]["status"]),
            (&"answers".into(), &"authenticated".into()),
            "{row:#}"
        );
    }
    // What was stopped is ended too.
    place.is_deserted();
}

fn report(place: &Place, installed: &[&Program]) -> Value {
    let seen = place.bowline(&["doctor", "--json"]);
    seen.exits(if installed.is_empty() { 4 } else { 0 });
    serde_json::from_str(&seen.stdout).expect("it is JSON")
}

fn rows(report: &Value) -> &[Value] {
    report["agents"].as_array().expect("rows")
}

fn examine(programs: &Programs, case: &str, installed: &[&Program]) {
    let names: Vec<(&str, &str)> = installed.iter().map(|it| (&*it.provider, "default")).collect();
    let mut place = Place::new(programs, case, &names);
    place.bare_path(TOOLS);
    let mut report = report(&place, installed);
    for again in 1..=AGAIN {
        let late = rows(&report).iter().filter(|row| row["health"] == "found");
        let late: Vec<&str> = late.filter_map(|row| row["provider"].as_str()).collect();
        if late.is_empty() {
            break;
        }
        // Who did answer is remembered, so that the others have the machine to themselves.
        say(&format!("routes: doctor once more ({again} of {AGAIN}), because of {}", late.join(", ")));
        report = self::report(&place, installed);
    }
    let mut expected: BTreeSet<&str> = installed.iter().map(|it| &*it.provider).collect();
    for row in rows(&report) {
        let provider = row["provider"].as_str().expect("a name");
        if expected.remove(provider) {
            assert_eq!(row["health"], "answers", "{row:#}");
            // The certified version is the reported one, which may differ from that of the package.
            assert!(row["version"].is_string() && row["version"] == row["certified"], "{row:#}");
            assert_eq!(row["auth"]["binary"], "found", "{row:#}");
            assert_eq!(row["auth"]["status"], "authenticated", "{row:#}");
        } else {
            assert_eq!(row["health"], "missing", "{row:#}");
            assert_eq!(row["auth"]["binary"], "absent", "{row:#}");
            let what = row["problems"][0]["what"].as_str().expect("a sentence");
            let why = what.strip_prefix("not installed").expect("that is what is wrong");
            // How it is had is said, or why that cannot be said.
            assert!(row["problems"][0]["fix"].is_string() || why.starts_with("; "), "{row:#}");
        }
    }
    assert!(expected.is_empty(), "no row for {expected:?}");
    let mut usable: Vec<&str> =
        report["usable"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let mut there: Vec<&str> = installed.iter().map(|it| &*it.provider).collect();
    usable.sort_unstable();
    there.sort_unstable();
    assert_eq!(usable, there);
    assert_eq!(place.asked(), [], "nobody asked for a request that costs");
}
