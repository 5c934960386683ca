//! Where a path leads after all symbolic links, also if the file does not exist yet.
//!
//! `std::fs::canonicalize` needs an existing file, and resolving only the parent directory would miss a link whose target does not
//! exist: a program that writes to such a link creates the target. So the parts are followed one by one, as the kernel does it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The number of links in a path above which the kernel gives up (`MAXSYMLINKS` of Linux).
const LINKS_AT_MOST: usize = 40;

/// Returns where an absolute path leads. `None` if that cannot be found out: a directory may not be read, or links form a circle.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut rest: VecDeque<OsString> = parts(path);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        // Its links mean something else in every process: `/proc/self/cwd` is the directory of the process that reads it.
        if real.starts_with("/proc") {
            return None;
        }
        match std::fs::symlink_metadata(&real) {
            Ok(meta) if meta.is_symlink() => {
                links += 1;
                if links > LINKS_AT_MOST {
                    return None;
                }
                let target = std::fs::read_link(&real).ok()?;
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
            Ok(_) => {}
            // Nothing there: what follows is not there either, unless `..` leads back.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(_) => return None,
        }
    }
    Some(real)
}

/// Returns the parts of a path without its root and without `.`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::ParentDir => Some(OsString::from("..")),
        Component::Normal(name) => Some(name.to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_also_to_files_that_do_not_exist() {
        let home = tempfile::tempdir().expect("a directory");
        let root = home.path().canonicalize().expect("it exists");
        let at = |path: &str| root.join(path);
        std::fs::create_dir_all(at("project/sub")).expect("created");
        std::fs::create_dir_all(at("outside/deep")).expect("created");
        std::fs::write(at("project/a.rs"), "a").expect("written");
        for (target, link) in [
            (at("outside"), "project/out"),
            (PathBuf::from("../outside/new.txt"), "project/dangling"),
            (PathBuf::from("sub"), "project/inner"),
            (PathBuf::from("out/deep"), "project/twice"),
            (PathBuf::from("circle"), "project/circle"),
            (at("project"), "alias"),
            (PathBuf::from("/proc/self/cwd"), "project/here"),
        ] {
            symlink(target, at(link)).expect("linked");
        }
        let table = [
            ("project/a.rs", Some("project/a.rs")),
            ("project/new/dir/b.rs", Some("project/new/dir/b.rs")),
            ("project/./sub/../a.rs", Some("project/a.rs")),
            ("project/inner/b.rs", Some("project/sub/b.rs")),
            ("project/out/b.rs", Some("outside/b.rs")),
            // The kernel leaves the link's target by `..`, and so does this.
            ("project/twice/../b.rs", Some("outside/b.rs")),
            ("project/dangling", Some("outside/new.txt")),
            ("project/new/../out/b.rs", Some("outside/b.rs")),
            ("alias/a.rs", Some("project/a.rs")),
            ("project/a.rs/b", Some("project/a.rs/b")),
            ("project/circle", None),
            ("project/here/x", None),
        ];
        for (path, real) in table {
            assert_eq!(real_path(&at(path)), real.map(at), "{path}");
        }
        assert_eq!(real_path(Path::new("a.rs")), None);
        assert_eq!(real_path(Path::new("/../..")), Some(PathBuf::from("/")));
    }

    #[test]
    fn a_directory_that_may_not_be_searched_is_not_taken_for_missing() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        let closed = home.path().canonicalize().expect("it exists").join("closed");
        std::fs::create_dir(&closed).expect("created");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("set");
        // Root may search every directory.
        let expected = rustix::process::geteuid().is_root().then(|| closed.join("a"));
        assert_eq!(real_path(&closed.join("a")), expected);
    }
}
