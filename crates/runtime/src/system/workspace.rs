//! Files that an agent reads and writes through its host, inside its workspace only.
//!
//! The place of a file is found out first ([`real_path`]). Then the file is opened from the directory of the workspace, part by part,
//! and no part may be a link: whatever is replaced by a link in between is refused, so the check cannot be outrun. `openat2` with
//! `RESOLVE_BENEATH` would do the same in one call, but is missing before Linux 5.6, under the seccomp rules of some containers,
//! and on other systems.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use bowline_providers::dialect::{HostAnswer, HostCall, HostProblem, HostProblemKind};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::system::real_path::real_path;

/// The longest file that is read or written. A line of the protocol holds at most 64 MiB, and JSON needs more room than the text.
const LONGEST: u64 = 8 << 20;

/// How directories on the way are opened. With `PATH` a directory that may be searched and not listed is no obstacle.
#[cfg(target_os = "linux")]
const SEARCH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlags = OFlags::RDONLY;

/// Carries out a request. The first directory is the project.
pub(crate) fn carry_out(call: HostCall, roots: &[String]) -> Result<HostAnswer, HostProblem> {
    match call {
        HostCall::ReadText { path, line, limit } => {
            let text = read_text(&path, roots)?;
            Ok(HostAnswer::Text(if line.is_none() && limit.is_none() {
                text
            } else {
                lines_of(&text, line, limit)
            }))
        }
        HostCall::WriteText { path, content } => {
            write_text(&path, &content, roots).map(|()| HostAnswer::Written)
        }
        HostCall::CreateTerminal(_)
        | HostCall::TerminalOutput(_)
        | HostCall::WaitForExit(_)
        | HostCall::KillTerminal(_)
        | HostCall::ReleaseTerminal(_) => {
            Err(HostProblem { kind: HostProblemKind::Refused, message: "a terminal is no file".to_owned() })
        }
    }
}

/// A directory of the workspace, open: it cannot be replaced by a link any more.
#[derive(Debug)]
pub(crate) struct WorkspaceDir {
    /// Its path without links, when it was opened.
    pub(crate) path: PathBuf,
    open: OwnedFd,
}

impl WorkspaceDir {
    /// Returns the path by which a child enters the directory, while this is kept.
    pub(crate) fn for_child(&self) -> PathBuf {
        // Its own path may lead elsewhere by now.
        if cfg!(target_os = "linux") {
            format!("/proc/{}/fd/{}", std::process::id(), self.open.as_raw_fd()).into()
        } else {
            self.path.clone()
        }
    }
}

/// Opens a directory of the workspace; without a path, the project.
pub(crate) fn directory(path: Option<&str>, roots: &[String]) -> Result<WorkspaceDir, HostProblem> {
    let project = roots.first().map(String::as_str).unwrap_or_default();
    let place = match path {
        Some(path) => WorkspacePlace::of(path, roots)?,
        None => {
            let absolute = std::path::absolute(project).ok().and_then(|project| real_path(&project));
            let root = absolute.ok_or_else(|| refused(project, "its place could not be found out"))?;
            WorkspacePlace { root, rest: PathBuf::new() }
        }
    };
    let open = place.open_directory().map_err(|errno| of_errno(path.unwrap_or(project), errno))?;
    Ok(WorkspaceDir { path: place.root.join(&place.rest), open })
}

fn read_text(path: &str, roots: &[String]) -> Result<String, HostProblem> {
    let place = WorkspacePlace::of(path, roots)?;
    let (dir, name) = place.parent(MissingDirs::Refuse).map_err(|errno| of_errno(path, errno))?;
    // Without `NONBLOCK`, opening a FIFO waits for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir, name, flags, Mode::empty()).map_err(|errno| of_errno(path, errno))?;
    let file = regular(path, file)?;
    let mut bytes = Vec::new();
    // The size may grow after the look at it, so the read has a limit of its own.
    let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(path, &error.to_string()))?;
    if bytes.len() as u64 > LONGEST {
        return Err(too_long(path));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) | Err(_) => Err(refused(path, "it is not a text file in UTF-8")),
    }
}

fn write_text(path: &str, content: &str, roots: &[String]) -> Result<(), HostProblem> {
    if content.len() as u64 > LONGEST {
        return Err(too_long(path));
    }
    let place = WorkspacePlace::of(path, roots)?;
    let (dir, name) = place.parent(MissingDirs::Create).map_err(|errno| of_errno(path, errno))?;
    // No `TRUNC`: the file is looked at before its content is lost.
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = rustix::fs::openat(&dir, name, flags, mode).map_err(|errno| of_errno(path, errno))?;
    let mut file = regular(path, file)?;
    // In place: a file that is renamed over the old one would lose its owner, its rights and its other names.
    let written = file.set_len(0).and_then(|()| file.write_all(content.as_bytes()));
    written.map_err(|error| failed(path, &error.to_string()))
}

/// Whether directories on the way to a file are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingDirs {
    Refuse,
    Create,
}

/// A file inside a workspace: the real directory, and the way from there without links and `..`.
#[derive(Debug, PartialEq, Eq)]
struct WorkspacePlace {
    root: PathBuf,
    rest: PathBuf,
}

impl WorkspacePlace {
    /// Finds out where a file is.
    fn of(path: &str, roots: &[String]) -> Result<Self, HostProblem> {
        if !Path::new(path).is_absolute() {
            return Err(refused(path, "the path has to be absolute"));
        }
        let Some(real) = real_path(Path::new(path)) else {
            return Err(refused(path, "its place could not be found out"));
        };
        let roots = roots.iter().filter_map(|root| real_path(&std::path::absolute(root).ok()?));
        for root in roots {
            if let Ok(rest) = real.strip_prefix(&root) {
                return Ok(Self { rest: rest.to_owned(), root });
            }
        }
        Err(refused(path, "it is outside of the workspace"))
    }

    /// Opens the place itself, which has to be a directory.
    fn open_directory(&self) -> Result<OwnedFd, Errno> {
        let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::openat(CWD, Path::new("/"), flags, Mode::empty())?;
        for part in self.root.components().chain(self.rest.components()) {
            let Component::Normal(part) = part else { continue };
            dir = rustix::fs::openat(&dir, part, flags, Mode::empty())?;
        }
        Ok(dir)
    }

    /// Opens the directory of the file, and returns it with the name of the file in it.
    fn parent(&self, missing: MissingDirs) -> Result<(OwnedFd, &OsStr), Errno> {
        let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::openat(CWD, Path::new("/"), flags, Mode::empty())?;
        // The workspace is opened part by part as well: a process of the agent may replace a directory above it.
        let mut parts = self.root.components().map(|part| (part, MissingDirs::Refuse)).collect::<Vec<_>>();
        let (Some(above), Some(name)) = (self.rest.parent(), self.rest.file_name()) else {
            return Err(Errno::ISDIR);
        };
        parts.extend(above.components().map(|part| (part, missing)));
        for (part, missing) in parts {
            let Component::Normal(part) = part else { continue };
            dir = match rustix::fs::openat(&dir, part, flags, Mode::empty()) {
                Err(Errno::NOENT) if missing == MissingDirs::Create => {
                    match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                        // Another process was faster.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    rustix::fs::openat(&dir, part, flags, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok((dir, name))
    }
}

/// Returns an open file if it is a regular one of a readable size. A device or a FIFO has no content that could be returned.
fn regular(path: &str, file: OwnedFd) -> Result<File, HostProblem> {
    let file = File::from(file);
    let meta = file.metadata().map_err(|error| failed(path, &error.to_string()))?;
    if !meta.is_file() {
        return Err(refused(path, "it is not a regular file"));
    }
    if meta.len() > LONGEST {
        return Err(too_long(path));
    }
    Ok(file)
}

/// Returns some lines of a text with their ends. Lines are counted from 1; 0 is taken for 1.
fn lines_of(text: &str, line: Option<u64>, limit: Option<u64>) -> String {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let skipped = number(line.unwrap_or(1)).saturating_sub(1);
    text.split_inclusive('\n').skip(skipped).take(limit.map_or(usize::MAX, number)).collect()
}

fn of_errno(path: &str, errno: Errno) -> HostProblem {
    match errno {
        Errno::NOENT => HostProblem {
            kind: HostProblemKind::NotFound,
            message: format!("`{path}`: there is no such file"),
        },
        // `NOFOLLOW` met a link. The path had none when its place was found out.
        Errno::LOOP | Errno::MLINK => refused(path, "it was replaced by a link while it was opened"),
        Errno::NOTDIR => refused(path, "a part of it is a link or no directory"),
        Errno::ISDIR => refused(path, "it is a directory"),
        // A FIFO that has no reader.
        Errno::NXIO => refused(path, "it is not a regular file"),
        other => failed(path, &std::io::Error::from(other).to_string()),
    }
}

fn too_long(path: &str) -> HostProblem {
    refused(path, &format!("it is longer than {} MiB", LONGEST >> 20))
}

fn refused(path: &str, why: &str) -> HostProblem {
    HostProblem { kind: HostProblemKind::Refused, message: format!("`{path}`: {why}") }
}

fn failed(path: &str, why: &str) -> HostProblem {
    HostProblem { kind: HostProblemKind::Failed, message: format!("`{path}`: {why}") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A workspace `work` beside a directory `outside` with a secret.
    struct Scene {
        _home: tempfile::TempDir,
        root: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let home = tempfile::tempdir().expect("a directory");
            let root = home.path().canonicalize().expect("it exists");
            std::fs::create_dir_all(root.join("work/sub")).expect("created");
            std::fs::create_dir_all(root.join("outside")).expect("created");
            std::fs::write(root.join("outside/secret"), "secret").expect("written");
            std::fs::write(root.join("work/sub/a.txt"), "one\ntwo\nthree").expect("written");
            symlink("../outside", root.join("work/out")).expect("linked");
            symlink("../outside/new", root.join("work/dangling")).expect("linked");
            symlink(root.join("work/sub"), root.join("work/inner")).expect("linked");
            Self { _home: home, root }
        }

        fn at(&self, path: &str) -> String {
            self.root.join(path).display().to_string()
        }

        fn read(&self, path: &str) -> Result<HostAnswer, HostProblem> {
            let call = HostCall::ReadText { path: self.at(path), line: None, limit: None };
            carry_out(call, &[self.at("work")])
        }

        fn write(&self, path: &str) -> Result<HostAnswer, HostProblem> {
            let call = HostCall::WriteText { path: self.at(path), content: "new".to_owned() };
            carry_out(call, &[self.at("work")])
        }
    }

    #[test]
    fn files_of_the_workspace_are_read_and_written() {
        let scene = Scene::new();
        let text = || Ok(HostAnswer::Text("one\ntwo\nthree".to_owned()));
        assert_eq!(scene.read("work/sub/a.txt"), text());
        assert_eq!(scene.read("work/inner/a.txt"), text(), "a link that stays inside");
        assert_eq!(scene.read("work/sub/../sub/a.txt"), text());
        let some = |line, limit| {
            let call = HostCall::ReadText { path: scene.at("work/sub/a.txt"), line, limit };
            carry_out(call, &[scene.at("work")])
        };
        for (line, limit, expected) in [
            (Some(2), None, "two\nthree"),
            (None, Some(1), "one\n"),
            (Some(2), Some(1), "two\n"),
            (Some(9), Some(1), ""),
            (Some(0), Some(u64::MAX), "one\ntwo\nthree"),
        ] {
            assert_eq!(some(line, limit), Ok(HostAnswer::Text(expected.to_owned())), "{line:?} {limit:?}");
        }
        for path in ["work/new/deep/b.txt", "work/sub/a.txt", "work/inner/c.txt"] {
            assert_eq!(scene.write(path), Ok(HostAnswer::Written), "{path}");
            assert_eq!(std::fs::read_to_string(scene.at(path)).expect("written"), "new", "{path}");
        }
        // A workspace that is itself reached through a link.
        symlink("work", scene.root.join("alias")).expect("linked");
        let call = HostCall::ReadText { path: scene.at("alias/sub/c.txt"), line: None, limit: None };
        assert_eq!(carry_out(call, &[scene.at("alias")]), Ok(HostAnswer::Text("new".to_owned())));
    }

    #[test]
    fn nothing_outside_of_the_workspace_is_touched() {
        let scene = Scene::new();
        let outside =
            ["outside/secret", "work/out/secret", "work/../outside/secret", "work/out/../outside/secret"];
        for path in outside.into_iter().chain(["work/dangling", "work/out/new/b.txt"]) {
            for done in [scene.read(path), scene.write(path)] {
                let problem = done.expect_err(path);
                assert_eq!(problem.kind, HostProblemKind::Refused, "{path}");
                assert!(problem.message.contains("outside of the workspace"), "{}", problem.message);
            }
        }
        assert_eq!(std::fs::read_to_string(scene.at("outside/secret")).expect("it is there"), "secret");
        assert!(!scene.root.join("outside/new").exists());
        let relative = HostCall::ReadText { path: "sub/a.txt".to_owned(), line: None, limit: None };
        assert!(carry_out(relative, &[scene.at("work")]).is_err());
    }

    #[test]
    fn only_short_regular_text_files_are_read() {
        let scene = Scene::new();
        rustix::fs::mknodat(
            CWD,
            scene.at("work/fifo"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a FIFO");
        std::fs::write(scene.at("work/binary"), b"a\0b").expect("written");
        std::fs::write(scene.at("work/latin"), b"caf\xe9").expect("written");
        // A hole: it takes no room on the disk.
        let huge = File::create(scene.at("work/huge")).expect("created");
        huge.set_len(1 << 40).expect("a hole");
        for (path, why) in [
            ("work/fifo", "not a regular file"),
            ("work/sub", "not a regular file"),
            ("work", "it is a directory"),
            ("work/binary", "not a text file"),
            ("work/latin", "not a text file"),
            ("work/huge", "longer than 8 MiB"),
            ("work/sub/a.txt/b", "no directory"),
        ] {
            let problem = scene.read(path).expect_err(path);
            assert!(problem.message.contains(why), "{path}: {}", problem.message);
            assert_eq!(problem.kind, HostProblemKind::Refused, "{path}");
        }
        assert_eq!(scene.read("work/none").expect_err("none").kind, HostProblemKind::NotFound);
        // A FIFO without a reader neither blocks the write nor is one.
        for path in ["work/fifo", "work/sub", "work/huge"] {
            assert_eq!(scene.write(path).expect_err(path).kind, HostProblemKind::Refused, "{path}");
        }
        let content = "x".repeat(LONGEST as usize + 1);
        let call = HostCall::WriteText { path: scene.at("work/long"), content };
        assert!(carry_out(call, &[scene.at("work")]).is_err());
        assert!(!scene.root.join("work/long").exists());
    }

    #[test]
    fn a_child_enters_the_directory_that_was_checked() {
        let scene = Scene::new();
        let roots = [scene.at("work")];
        for (path, inside) in [
            ("work/sub", true),
            ("work/inner", true),
            ("work", true),
            ("work/out", false),
            ("outside", false),
        ] {
            let opened = directory(Some(&scene.at(path)), &roots);
            assert_eq!(opened.map_err(|problem| problem.kind).is_ok(), inside, "{path}");
        }
        assert_eq!(directory(None, &roots).expect("the project").path, scene.root.join("work"));
        let opened = directory(Some(&scene.at("work/sub")), &roots).expect("inside");
        // The agent replaces it before the child gets there.
        std::fs::rename(scene.at("work/sub"), scene.at("work/moved")).expect("renamed");
        symlink("../outside", scene.at("work/sub")).expect("linked");
        if cfg!(target_os = "linux") {
            let entered = opened.for_child().canonicalize().expect("it is open");
            assert_eq!(entered, scene.root.join("work/moved"));
        }
        assert_eq!(
            directory(Some(&scene.at("work/sub")), &roots).expect_err("a link").kind,
            HostProblemKind::Refused
        );
    }

    #[test]
    fn a_link_that_appears_after_the_check_is_not_followed() {
        let scene = Scene::new();
        let place = WorkspacePlace::of(&scene.at("work/sub/secret"), &[scene.at("work")]).expect("inside");
        std::fs::remove_dir_all(scene.at("work/sub")).expect("removed");
        symlink("../outside", scene.at("work/sub")).expect("linked");
        assert_eq!(place.parent(MissingDirs::Create).map(drop), Err(Errno::NOTDIR));

        // The same with an agent that swaps them as fast as it can.
        let (dir, swapped) = (scene.at("work/dir"), scene.at("work/swapped"));
        std::fs::create_dir(&dir).expect("created");
        symlink("../outside", &swapped).expect("linked");
        let (done, mut leaked) = (AtomicBool::new(false), false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &dir, CWD, &swapped, exchange).expect("exchanged");
                }
            });
            for _ in 0..2_000 {
                let secret = Ok(HostAnswer::Text("secret".to_owned()));
                leaked |= scene.read("work/swapped/secret") == secret;
                // Into the directory it may go, through the link it may not.
                let _ = scene.write("work/swapped/written");
            }
            // Before the assertions: a panic here would leave the other thread running.
            done.store(true, Ordering::Relaxed);
        });
        assert!(!leaked, "it was read through the link");
        assert!(
            std::fs::exists(scene.at("work/dir/written")).is_ok_and(|it| it)
                || std::fs::exists(scene.at("work/swapped/written")).is_ok_and(|it| it),
            "the directory was met, too"
        );
        assert!(!scene.root.join("outside/written").exists());
    }
}
