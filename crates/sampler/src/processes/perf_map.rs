//! Perf maps: files in which processes list the code that they generate.

use languages::jvm::JvmProcess;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens the perf map of a process, by its path in the process or, if that has ended, in this
/// process.
pub(crate) fn open_perf_map(pid: u32) -> Option<File> {
    let process = JvmProcess::read(pid).ok();
    let user = process.as_ref().map(|process| process.user);
    let own = process.map(|process| process.perf_map());
    let here = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let mut places = own.into_iter().chain([here]);
    places.find_map(|path| open_map_of(&path, user))
}

/// Opens a non-empty map. Anyone can write to `/tmp`: a link is not followed, a pipe not waited
/// for, and the file must belong to the user of the process, if that is known, or to root.
fn open_map_of(path: &Path, user: Option<u32>) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags).open(path).ok()?;
    let data = file.metadata().ok()?;
    let is_trusted = user.is_none_or(|user| [user, 0].contains(&data.uid()));
    (data.is_file() && data.len() > 0 && is_trusted).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_the_place_of_a_map_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("map"), "1000 10 f\n").unwrap();
        std::fs::write(path("empty"), "").unwrap();
        std::os::unix::fs::symlink(path("map"), path("link")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(path("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        let owner = path("map").metadata().unwrap().uid();
        assert!(open_map_of(&path("map"), None).is_some());
        assert!(open_map_of(&path("map"), Some(owner)).is_some());
        for bad in ["empty", "link", "pipe", "none"] {
            assert!(open_map_of(&path(bad), None).is_none(), "{bad}");
        }
        if owner != 0 {
            assert!(open_map_of(&path("map"), Some(owner + 1)).is_none());
        }
    }
}
