//! Cases that judge all runs, after all others have finished.
//!
//! Such a case needs runs of the kind that it judges. Without any, it is not proven, and red.

use crate::account::RunTotals;
use crate::case_failure::{CaseFailure, CaseVerdict, hold};

pub(super) fn understood(sums: &RunTotals) -> CaseVerdict {
    none(&sums.unrecognized)?;
    some(sums.completed, "no turn completed", "text")?;
    some(sums.with_tools, "no tool was called", "edit")
}

pub(super) fn leaves_nothing(sums: &RunTotals) -> CaseVerdict {
    none(&sums.left_behind)?;
    some(sums.with_tools, "no run that called a tool ended by itself", "edit")
}

pub(super) fn no_survivors(sums: &RunTotals) -> CaseVerdict {
    none(&sums.survivors)?;
    some(sums.by_themselves, "no run ended by itself", "text")?;
    some(sums.stopped, "no run was stopped", "stop")
}

pub(super) fn stays_home(sums: &RunTotals) -> CaseVerdict {
    match &sums.attempts_to_leave {
        Ok(0) => some(sums.asked, "the program sent no request to the model", "text"),
        Ok(count) => Err(CaseFailure::new(format_args!(
            "{count} connections or lookups had no route out of the namespace, or were refused by a port in it"
        ))),
        Err(why) => Err(CaseFailure::new(why)),
    }
}

fn none(found: &[String]) -> CaseVerdict {
    if found.is_empty() { Ok(()) } else { Err(CaseFailure(found.to_vec())) }
}

/// Succeeds if there were such runs; otherwise names the case that has them.
fn some(runs: u64, otherwise: &str, case: &str) -> CaseVerdict {
    hold(runs > 0, || format!("{otherwise}, so nothing is proven; the case `{case}` has such runs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The promise holds after these runs, and fails when one kind of them is missing.
    fn check(claim: fn(&RunTotals) -> CaseVerdict, needs: &[fn(&mut RunTotals)]) {
        let with = |missing: Option<usize>| {
            let mut sums = RunTotals { attempts_to_leave: Ok(0), ..RunTotals::default() };
            let there = needs.iter().enumerate().filter(|(at, _)| Some(*at) != missing);
            there.for_each(|(_, run)| run(&mut sums));
            claim(&sums)
        };
        assert_eq!(with(None), Ok(()));
        for missing in 0..needs.len() {
            let trouble = with(Some(missing)).expect_err("nothing proves it");
            assert!(trouble.0[0].contains("nothing is proven"), "{trouble:?}");
        }
    }

    #[test]
    fn a_claim_needs_runs_of_its_own_sort() {
        check(understood, &[|it| it.completed = 1, |it| it.with_tools = 1]);
        check(leaves_nothing, &[|it| it.with_tools = 1]);
        check(no_survivors, &[|it| it.by_themselves = 1, |it| it.stopped = 1]);
        check(stays_home, &[|it| it.asked = 1]);
    }

    #[test]
    fn what_was_found_is_the_evidence() {
        let found = vec!["text: pid 7: sleep".to_owned()];
        let sums = RunTotals {
            completed: 1,
            with_tools: 1,
            by_themselves: 1,
            stopped: 1,
            asked: 1,
            unrecognized: found.clone(),
            survivors: found.clone(),
            left_behind: found.clone(),
            attempts_to_leave: Ok(2),
            ..RunTotals::default()
        };
        for claim in [understood, leaves_nothing, no_survivors] {
            assert_eq!(claim(&sums), Err(CaseFailure(found.clone())));
        }
        assert!(stays_home(&sums).is_err_and(|it| it.0[0].starts_with("2 connections")));
    }
}
