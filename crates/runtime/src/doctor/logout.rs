//! Whether runners of sessions survive the logout of their user: the settings of logind, lingering, and the unit that this process
//! belongs to.
//!
//! A runner stays in the control group of the command that started it. logind ends a session's processes if `KillUserProcesses` is
//! set (logind.conf(5)), and the user's own service manager ends its processes with the last logout, unless the user lingers
//! (loginctl(1)). Not here: logind is not asked, so a setting that it has not read yet counts.

use std::collections::BTreeMap;
use std::path::Path;

use super::machine::{Condition, MachineItem};
use crate::system::surroundings::Surroundings;

/// The directories of `logind.conf`, the most important one first.
const DIRS: [&str; 4] = ["etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"];

/// Looks at this machine.
pub(super) fn item(surroundings: &Surroundings) -> MachineItem {
    let is_root = rustix::process::geteuid().is_root();
    let named = ["USER", "LOGNAME"].iter().find_map(|name| surroundings.get(name)?.to_str());
    let user = named.unwrap_or(if is_root { "root" } else { "" });
    let cgroup = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    assess(&facts(Path::new("/"), user, &cgroup))
}

/// Everything that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogoutFacts {
    /// Whether systemd is the system's service manager.
    systemd: bool,
    place: LoginPlace,
    /// Whether logind ends the processes of this user's sessions; `None` if its files do not tell.
    kills: Option<bool>,
    lingers: bool,
}

/// The unit that a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginPlace {
    /// A login on a terminal or over SSH.
    Session,
    /// The user's service manager: terminals of some desktops, `systemd-run --user`.
    UserManager,
    /// None of them: a system service or a container.
    Elsewhere,
}

fn facts(root: &Path, user: &str, cgroup: &str) -> LogoutFacts {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    // Of the main files the first one counts. Drop-in files count all, by name; the first directory with a name has it.
    let main = DIRS.iter().find_map(|dir| read(&root.join(dir).join("logind.conf"))).unwrap_or_default();
    let mut drop_ins = BTreeMap::new();
    for dir in DIRS {
        let entries = std::fs::read_dir(root.join(dir).join("logind.conf.d")).into_iter().flatten().flatten();
        for path in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "conf"))
        {
            if let (Some(name), Some(text)) = (path.file_name(), read(&path)) {
                drop_ins.entry(name.to_owned()).or_insert(text);
            }
        }
    }
    let settings = LogindSettings::read(&main, drop_ins.values().map(String::as_str));
    // The file is a mark without content. A name with a slash is no user's.
    let lingers =
        !user.is_empty() && !user.contains('/') && root.join("var/lib/systemd/linger").join(user).exists();
    // The test of sd_booted(3).
    let systemd = root.join("run/systemd/system").is_dir();
    LogoutFacts { systemd, place: place(cgroup), kills: settings.kills(user), lingers }
}

/// Finds the unit in the lines of `/proc/PID/cgroup`.
fn place(cgroup: &str) -> LoginPlace {
    let mut units =
        cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2)).flat_map(|path| path.split('/'));
    // The outer unit comes first, and decides.
    let found = units.find_map(|unit| match unit {
        unit if unit.starts_with("user@") && unit.ends_with(".service") => Some(LoginPlace::UserManager),
        unit if unit.starts_with("session-") && unit.ends_with(".scope") => Some(LoginPlace::Session),
        _ => None,
    });
    found.unwrap_or(LoginPlace::Elsewhere)
}

/// The settings of logind that decide about processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LogindSettings {
    kill: Option<bool>,
    only: Vec<String>,
    /// `None` is the default: root.
    exclude: Option<Vec<String>>,
}

impl LogindSettings {
    /// Reads the main file, then the drop-in files in their order.
    fn read<'a>(main: &'a str, drop_ins: impl Iterator<Item = &'a str>) -> Self {
        let mut settings = Self::default();
        // The default was chosen when systemd was built, and the file of the package has it in a comment.
        let default = main.lines().find_map(|line| line.trim().strip_prefix("#KillUserProcesses="));
        settings.kill = default.and_then(boolean);
        for text in std::iter::once(main).chain(drop_ins) {
            settings.apply(text);
        }
        settings
    }

    fn apply(&mut self, text: &str) {
        let mut in_login = false;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[') {
                in_login = section.starts_with("Login]");
            }
            let Some((key, value)) = line.split_once('=').filter(|_| in_login) else { continue };
            let names = || value.split_whitespace().map(str::to_owned);
            match key.trim() {
                "KillUserProcesses" => self.kill = boolean(value).or(self.kill),
                // An empty value forgets the ones before it (systemd.syntax(7)).
                "KillOnlyUsers" if value.trim().is_empty() => self.only.clear(),
                "KillOnlyUsers" => self.only.extend(names()),
                "KillExcludeUsers" if value.trim().is_empty() => self.exclude = Some(Vec::new()),
                "KillExcludeUsers" => self.exclude.get_or_insert_default().extend(names()),
                _ => {}
            }
        }
    }

    /// Returns whether the processes of this user are ended.
    fn kills(&self, user: &str) -> Option<bool> {
        let spared = match &self.exclude {
            Some(names) => names.iter().any(|name| name == user),
            None => user == "root",
        };
        let meant = self.only.is_empty() || self.only.iter().any(|name| name == user);
        if spared || !meant { Some(false) } else { self.kill }
    }
}

/// Reads a boolean (systemd.syntax(7)).
fn boolean(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

fn assess(facts: &LogoutFacts) -> MachineItem {
    const LINGER: &str = "loginctl enable-linger";
    const SCOPE: &str = "start sessions with `systemd-run --user --scope bowline start …`";
    let good = |what: &str| MachineItem::new("logout", Condition::Good, what, None);
    let fair = |what: &str, fix: &str| MachineItem::new("logout", Condition::Fair, what, Some(fix));
    let moved = if facts.lingers { SCOPE.to_owned() } else { format!("{LINGER}, then {SCOPE}") };
    match (facts.place, facts.kills) {
        _ if !facts.systemd => good("sessions survive it: systemd does not run here"),
        (LoginPlace::Elsewhere, _) => good("sessions survive it: this process belongs to no login"),
        (LoginPlace::UserManager, _) if facts.lingers => good("sessions survive it: lingering is enabled"),
        (LoginPlace::UserManager, _) => {
            fair("sessions end with your last logout, as your service manager does", LINGER)
        }
        (LoginPlace::Session, Some(false)) => good("sessions survive it"),
        (LoginPlace::Session, Some(true)) => {
            fair("sessions end with your login (`KillUserProcesses` of logind)", &moved)
        }
        (LoginPlace::Session, None) => {
            fair("sessions may end with your login: logind.conf does not show `KillUserProcesses`", &moved)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0::/user.slice/user-1000.slice/session-3.scope\n";
    const MANAGER: &str =
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope/session-1.scope\n";

    #[test]
    fn the_settings_of_logind_are_read_in_its_order() {
        let none: &[&str] = &[];
        for (main, drop_ins, user, expected) in [
            ("", none, "me", None),
            // As packages ship it.
            ("[Login]\n#KillUserProcesses=no\n#KillExcludeUsers=root\n", none, "me", Some(false)),
            ("[Login]\n#KillUserProcesses=yes\n", none, "me", Some(true)),
            ("[Login]\n#KillUserProcesses=yes\n", none, "root", Some(false)),
            ("[Login]\n#KillUserProcesses=no\nKillUserProcesses = on\n", none, "me", Some(true)),
            ("[Login]\nKillUserProcesses=yes\n", &["[Login]\nKillUserProcesses=0\n"], "me", Some(false)),
            ("[Login]\nKillUserProcesses=no\n", &["[Login]\nKillUserProcesses=maybe\n"], "me", Some(false)),
            ("[Other]\nKillUserProcesses=yes\n[Login]\n", none, "me", None),
            ("[Login]\nKillUserProcesses=1\nKillOnlyUsers=you her\n", none, "me", Some(false)),
            ("[Login]\nKillUserProcesses=1\nKillOnlyUsers=you me\n", none, "me", Some(true)),
            ("[Login]\nKillUserProcesses=1\nKillOnlyUsers=you\nKillOnlyUsers=\n", none, "me", Some(true)),
            ("[Login]\nKillUserProcesses=1\nKillExcludeUsers=root me\n", none, "me", Some(false)),
            ("[Login]\nKillUserProcesses=1\nKillExcludeUsers=\n", none, "root", Some(true)),
            ("\u{0}[[Login]=\n=\nKillUserProcesses", none, "me", None),
        ] {
            let settings = LogindSettings::read(main, drop_ins.iter().copied());
            assert_eq!(settings.kills(user), expected, "{main:?} {drop_ins:?} {user}");
        }
    }

    #[test]
    fn the_outer_unit_is_the_place() {
        for (cgroup, expected) in [
            (SESSION, LoginPlace::Session),
            (MANAGER, LoginPlace::UserManager),
            ("12:cpu:/\n1:name=systemd:/user.slice/user-0.slice/session-c1.scope\n", LoginPlace::Session),
            ("0::/system.slice/ssh.service\n", LoginPlace::Elsewhere),
            ("0::/\n", LoginPlace::Elsewhere),
            ("", LoginPlace::Elsewhere),
        ] {
            assert_eq!(place(cgroup), expected, "{cgroup}");
        }
    }

    #[test]
    fn the_files_decide_with_the_unit() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), text).unwrap();
        };
        let found = |cgroup: &str| assess(&facts(root.path(), "me", cgroup));
        assert_eq!(found(SESSION).what, "sessions survive it: systemd does not run here");
        std::fs::create_dir_all(at("run/systemd/system")).unwrap();
        assert_eq!(found("0::/").what, "sessions survive it: this process belongs to no login");
        assert_eq!(found(SESSION).condition, Condition::Fair, "no file shows the default");
        write("usr/lib/systemd/logind.conf", "[Login]\n#KillUserProcesses=no\n");
        assert_eq!((found(SESSION).condition, found(SESSION).fix), (Condition::Good, None));
        // A file of the distribution; one of the same name in `/etc` takes its place.
        write("usr/lib/systemd/logind.conf.d/50-kill.conf", "[Login]\nKillUserProcesses=yes\n");
        let ends = found(SESSION);
        assert_eq!((ends.condition, ends.what.contains("KillUserProcesses")), (Condition::Fair, true));
        assert!(
            ends.fix.unwrap().starts_with("loginctl enable-linger, then start sessions with `systemd-run")
        );
        write("etc/systemd/logind.conf.d/50-kill.conf", "[Login]\n");
        assert_eq!(found(SESSION).condition, Condition::Good);
        // The terminals of some desktops belong to the user's manager, which ends with the last login.
        let manager = found(MANAGER);
        assert_eq!(
            (manager.condition, manager.fix.as_deref()),
            (Condition::Fair, Some("loginctl enable-linger"))
        );
        write("var/lib/systemd/linger/me", "");
        assert_eq!(found(MANAGER).what, "sessions survive it: lingering is enabled");
    }
}
