//! The short task for a prompt without directives: read a file, improve it, check it, and report.

use std::path::Path;

use crate::control::Stop;
use crate::player::Player;
use crate::tools::{Outcome, Tool, absolute};

/// The file that the task works on, if it exists and is not improved yet.
pub(crate) const SAMPLE_NAME: &str = "greeting.py";

/// Its content before.
pub(crate) const SAMPLE_TEXT: &str = "\
\"\"\"Greets people.\"\"\"


def greeting(name):
    return \"Hello, \" + name


if __name__ == \"__main__\":
    print(greeting(\"world\"))
";

/// The part of the sample that the task replaces.
const OLD: &str = "def greeting(name):\n    return \"Hello, \" + name\n";

/// The replacement.
const NEW: &str = "\
def greeting(name=\"world\"):
    \"\"\"Returns a greeting, also without a name.\"\"\"
    return f\"Hello, {name.strip()}!\"
";

/// Without the sample, the task uses a file of its own: other files belong to the user.
const NOTES: &str = "practice-notes.md";

/// Plays the task.
pub(crate) fn play(player: &mut Player<'_>) -> Result<(), Stop> {
    let cwd = player.cwd().to_owned();
    if player.options().has("no-tools") {
        player.think("No tools this time, so the answer has to come from me alone.")?;
        return answer(player, "I have no tools in this session, so I did not look at or change any file.");
    }
    let work = Work::find(&cwd);
    player.say(&format!("I'll have a look at {} first.", work.name))?;
    if work.exists {
        player.think(&format!(
            "A small change is enough. I read {}, edit it once, and check the result.",
            work.name
        ))?;
        player.tool(Tool::Read { path: work.path.clone() })?;
    } else {
        player.think(&format!("There is no {} yet. I write it, and check the result.", work.name))?;
    }
    let changed = player.tool(work.change.clone())?;
    player.tool(Tool::Run { command: format!("wc -l {}", work.name) })?;
    match changed {
        Outcome::Done(_) => answer(player, &format!("{} {}", work.told, CLOSING)),
        Outcome::Failed(why) => answer(player, &format!("I could not change {}: {why}", work.name)),
        Outcome::Refused(_) => answer(
            player,
            &format!(
                "I was not allowed to change {}, so it is as it was. With permission to edit I would have made one \
                 small change and shown it to you.",
                work.name
            ),
        ),
    }
}

const CLOSING: &str = "I checked the file afterwards, and nothing else was touched. \
                       This was practice: no model was asked and nothing left this machine.";

/// Writes the answer: the text, or JSON if a schema requires it.
fn answer(player: &mut Player<'_>, text: &str) -> Result<(), Stop> {
    match player.structured() {
        Some(json) => player.say(&json),
        None => player.say(text),
    }
}

/// The steps of the task.
struct Work {
    name: &'static str,
    path: String,
    exists: bool,
    change: Tool,
    told: &'static str,
}

impl Work {
    fn find(cwd: &Path) -> Self {
        let path = |name: &str| absolute(cwd, name).display().to_string();
        let sample = path(SAMPLE_NAME);
        if std::fs::read_to_string(&sample).is_ok_and(|text| text.contains(OLD)) {
            let change = Tool::Edit { path: sample.clone(), old: OLD.to_owned(), new: NEW.to_owned() };
            let told = "Done: greeting.py now greets the world without a name, ignores stray spaces, and says \
                        what it returns.";
            return Self { name: SAMPLE_NAME, path: sample, exists: true, change, told };
        }
        let notes = path(NOTES);
        let told = "Done: practice-notes.md has one more line.";
        let line = "- The practice agent was here.\n";
        match std::fs::read_to_string(&notes) {
            Ok(text) if !text.is_empty() => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                // A single line may occur twice in the file; the whole text occurs once.
                let (old, new) = (text.clone(), format!("{text}{end}{line}"));
                let change = Tool::Edit { path: notes.clone(), old, new };
                Self { name: NOTES, path: notes, exists: true, change, told }
            }
            _ => {
                let change = Tool::Write { path: notes.clone(), content: format!("# Practice\n\n{line}") };
                Self { name: NOTES, path: notes, exists: false, change, told }
            }
        }
    }
}
