//! A doctor that agrees with `run`: what it calls usable runs, what it calls broken does not, and what it does not know it
//! says. The programs are scripts on a machine of their own.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use crate::doctor::{Machine, text};
use crate::world::now;

/// Longer than anything here takes, and shorter than for ever.
const LONG: Duration = Duration::from_secs(90);

/// Waits for the end of a command, and ends it if that does not come.
fn ended(mut child: Child, what: &str) -> Output {
    let began = now();
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > LONG {
            child.kill().expect("a child");
            panic!("`{what}` hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("a child")
}

#[test]
fn init_asks_one_question_on_a_terminal() {
    let machine = Machine::new();
    let init = |typed: &str, env: &[(&str, &str)]| {
        let file = machine.path("home/.config/bowline/bowline.toml");
        let _ = std::fs::remove_file(&file);
        let (master, slave) = terminal();
        let command = &mut machine.command(&["init"], env);
        let child = command.stdin(Stdio::from(slave)).spawn().expect("the command starts");
        rustix::io::write(&master, typed.as_bytes()).expect("a terminal");
        let (code, _, stderr) = text(&ended(child, "init"));
        assert_eq!(code, 0, "{stderr}");
        let written = std::fs::read_to_string(file).expect("it was written");
        let provider = written.lines().find(|line| line.starts_with("provider = ")).map(str::to_owned);
        (stderr, provider)
    };
    let open = "No agent is installed and logged in yet. Which one is to be asked when none is named? \
                A name, auto for whichever suits, or nothing to leave it open: ";
    assert_eq!(init("\n", &[]), (open.to_owned(), None));
    let (asked, provider) = init("nobody\nClaude\n", &[]);
    let again = format!("{open}there is no provider `nobody`; `bowline providers` lists them\n{open}");
    assert_eq!((asked, provider), (again, Some("provider = \"claude\"".to_owned())));

    machine.recorded("claude", "claude/2.1.325");
    let key = [("ANTHROPIC_API_KEY", "made-up")];
    let (asked, provider) = init("\n", &key);
    let one = "Which agent is to be asked when none is named: claude, or auto for whichever suits? [claude] ";
    assert_eq!((asked.as_str(), provider), (one, Some("provider = \"claude\"".to_owned())));
    assert_eq!(init("auto\n", &key).1, Some("provider = \"auto\"".to_owned()));
    // The end of what is typed is no answer.
    assert_eq!(init("\u{4}", &key).1, Some("provider = \"claude\"".to_owned()));
}

/// Makes a terminal, and returns both of its ends.
fn terminal() -> (rustix::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a terminal").into_string().expect("UTF-8");
    let slave = std::fs::File::options().read(true).write(true).open(name).expect("a terminal");
    (master, slave)
}
