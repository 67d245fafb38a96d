//! Writers that are killed, and full disks: whole recordings or none.

#[path = "common/mod.rs"]
mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use store::{Database, StoreError};

/// Returns a command that runs one of this program's ignored tests in `directory`.
fn child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--quiet"]);
    command.env("STORE_TEST_DIRECTORY", directory);
    command.stdout(std::process::Stdio::null());
    command
}

fn directory() -> PathBuf {
    std::env::var_os("STORE_TEST_DIRECTORY").unwrap().into()
}

fn small() -> profile::Recording {
    let mut recording = common::compile_job(100);
    recording.symbols.clear();
    recording.threads.clear();
    recording
}

#[test]
#[ignore = "writes until it is killed, by the test that kills it"]
fn writer() {
    let recording = store::read_file(&directory().join("input")).unwrap();
    let database = Database::create(&directory().join("db")).unwrap();
    loop {
        database.write_recording(&recording).unwrap();
        store::write_file(&recording, &directory().join("file")).unwrap();
    }
}

/// Kills the process even if the test ends early.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_writers_leave_whole_recordings() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let recording = small();
    let expected = recording.samples.len();
    store::write_file(&recording, &path.join("input")).unwrap();
    let database = Database::create(&path.join("db")).unwrap();
    let mut random = common::Random(7);
    let mut left_behind = 0;
    let count = || database.epochs().unwrap().len();
    for _ in 0..40 {
        let before = count();
        let writers = [(); 2].map(|()| Killed(child("writer", path).spawn().unwrap()));
        // Waits for the writers to start, however long that takes, and kills at a random moment.
        common::wait_until(|| count() > before);
        std::thread::sleep(Duration::from_millis(random.below(50)));
        // One dies while the other lives and cleans.
        for writer in writers {
            drop(writer);
            for epoch in database.epochs().unwrap() {
                assert!(epoch.summary.is_ok(), "{epoch:?}");
            }
        }
        left_behind += fs::read_dir(path.join("db/.writing")).unwrap().count();
    }
    let epochs = database.epochs().unwrap();
    assert!(epochs.len() > 40, "{} epochs", epochs.len());
    assert!(left_behind > 0, "no writer was killed at work");
    for epoch in &epochs {
        assert_eq!(epoch.read_recording().unwrap().samples.len(), expected);
    }
    let file = store::read_file(&path.join("file")).unwrap();
    assert_eq!(file.samples.len(), expected);
    database.write_recording(&recording).unwrap();
    assert_eq!(fs::read_dir(path.join("db/.writing")).unwrap().count(), 0);
    assert_eq!(database.epochs().unwrap().len(), epochs.len() + 1);
}

/// Writes a recording that does not fit and checks the leftovers.
fn refuses(path: &Path, expected: ErrorKind) {
    let database = Database::create(&path.join("db")).unwrap();
    let small = small();
    let file = path.join("file");
    database.write_recording(&small).unwrap();
    store::write_file(&small, &file).unwrap();
    let large = common::compile_job(60_000);
    for error in [
        database.write_recording(&large).unwrap_err(),
        store::write_file(&large, &file).unwrap_err(),
    ] {
        assert!(
            matches!(&error, StoreError::Io { source, .. } if source.kind() == expected),
            "{error}"
        );
    }
    let epochs = database.epochs().unwrap();
    assert_eq!(epochs.len(), 1);
    assert_eq!(
        epochs[0].read_recording().unwrap().samples.len(),
        small.samples.len()
    );
    assert_eq!(
        store::read_file(&file).unwrap().samples.len(),
        small.samples.len()
    );
    assert_eq!(fs::read_dir(path.join("db/.writing")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(path).unwrap().count(), 2);
}

#[test]
#[ignore = "needs a limit on the size of files, set by the test that runs it"]
fn limited_writer() {
    refuses(&directory(), ErrorKind::FileTooLarge);
}

#[test]
fn a_limit_on_files_leaves_nothing_half_written() {
    let directory = tempfile::tempdir().unwrap();
    let inner = child("limited_writer", directory.path());
    let mut limited = Command::new("sh");
    // 32 KiB; the signal would end the writer.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""]);
    limited.arg(inner.get_program()).args(inner.get_args());
    limited.env("STORE_TEST_DIRECTORY", directory.path());
    // The limit applies to this test's own output too, if that is a file: so it goes through a
    // pipe.
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Unmounts when the test ends.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let directory = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=96k", "tmpfs"])
        .arg(directory.path())
        .output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        let required = std::env::var_os("REQUIRE_LIVE").is_some_and(|required| required == "1");
        assert!(!required, "cannot mount a tmpfs, which needs root");
        eprintln!("skipped: cannot mount a tmpfs, which needs root");
        return;
    }
    let mounted = Mounted(directory.path());
    refuses(mounted.0, ErrorKind::StorageFull);
}

#[test]
fn a_directory_without_permission_is_named() {
    let directory = tempfile::tempdir().unwrap();
    // Not even root may write there.
    let error = Database::create(Path::new("/proc/1/db")).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    let path = directory.path().join("missing/file");
    let error = store::write_file(&common::compile_job(10), &path).unwrap_err();
    let StoreError::Io {
        path: named,
        source,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((named, source.kind()), (&path, ErrorKind::NotFound));
}
