//! What can only be said when everything else is over.

use crate::account::Sums;
use crate::trouble::{Trouble, Verdict, hold};

pub(super) fn understood(sums: &Sums) -> Verdict {
    ran(sums)?;
    none(&sums.unrecognized)
}

pub(super) fn leaves_nothing(sums: &Sums) -> Verdict {
    ran(sums)?;
    none(&sums.left_behind)
}

pub(super) fn no_survivors(sums: &Sums) -> Verdict {
    ran(sums)?;
    none(&sums.survivors)
}

pub(super) fn stays_home(sums: &Sums) -> Verdict {
    ran(sums)?;
    match &sums.attempts_to_leave {
        Ok(0) => Ok(()),
        Ok(count) => {
            Err(Trouble::new(format_args!("{count} connections or names found no way out of the namespace")))
        }
        Err(why) => Err(Trouble::new(why)),
    }
}

fn none(found: &[String]) -> Verdict {
    if found.is_empty() { Ok(()) } else { Err(Trouble(found.to_vec())) }
}

/// A claim about runs needs some.
fn ran(sums: &Sums) -> Verdict {
    hold(sums.runs > 0, || "nothing was run".to_owned())
}
