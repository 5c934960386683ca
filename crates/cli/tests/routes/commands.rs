//! Real agents that are named by their command alone: `acp:<command>` speaks with them, without any manifest.

use std::sync::Arc;

use libtest_mimic::Trial;

use crate::place::{Place, Programs, Spoken, manifest};
use crate::trial;

/// What the scenario `text` says.
const TEXT: &str = "The knot holds, and it always unties.";

pub(crate) fn trials(programs: &Arc<Programs>, trials: &mut Vec<Trial>) {
    for spoken in &programs.commands {
        let spoken = spoken.clone();
        let name = format!("acp, {}", spoken.provider);
        trials.push(trial(name, programs, move |programs, case| talk(programs, case, &spoken)));
    }
}

/// A prompt is answered; something risky is asked for, refused and told.
fn talk(programs: &Programs, case: &str, spoken: &Spoken) {
    let place = Place::new(programs, case, &[(&spoken.provider, "default")]);
    let manifest = manifest(&spoken.provider);
    let agent = format!("acp:{} {}", manifest.program, spoken.args);
    // Nothing is known of a command, so that what it needs has to be passed on by name.
    let names = manifest.simulate.iter().flat_map(|it| it.env.keys());
    let env: Vec<&str> = names.flat_map(|name| ["--env", name]).collect();
    let run = |prompt: &str| {
        let args = ["run", "--provider", &agent, "--timeout", "50s", prompt];
        place.bowline(&args.into_iter().chain(env.iter().copied()).collect::<Vec<_>>())
    };

    let seen = run("[[text]] Say something.");
    seen.exits(0);
    assert_eq!(seen.stdout.trim(), TEXT, "{}", seen.stderr);
    let asked = place.asked();
    assert!(asked.contains(&(spoken.provider.clone(), Some(200))), "{asked:?}");

    let file = place.project().join("risky.txt");
    let seen = run(&format!("[[risky file={}]] Do it.", file.display()));
    seen.exits(0);
    assert!(seen.stderr.contains("refused: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("; --permission yolo would allow it"), "{}", seen.stderr);
    assert!(!file.exists(), "nobody had allowed it");
}
