//! Epochs that grow, are merged and closed, while others read and writers are killed.

#[path = "common/mod.rs"]
mod common;

use profile::Recording;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use store::{Database, Epoch, OpenEpoch, PartId, StoreError, TimeRange};

fn part(drain: u32) -> PartId {
    PartId {
        collector: 7,
        drain,
    }
}

fn recording(samples: usize) -> Recording {
    let mut recording = common::compile_job(samples);
    recording.host.name = "h".into();
    recording
}

fn samples(recording: &Recording) -> u64 {
    recording.samples.iter().map(|sample| sample.count).sum()
}

fn only(database: &Database) -> Epoch {
    let mut epochs = database.epochs().unwrap();
    assert_eq!(epochs.len(), 1, "{epochs:?}");
    epochs.remove(0)
}

#[test]
fn an_epoch_grows_and_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database
        .begin_epoch("h", 1_795_230_900_123_456_000)
        .unwrap();
    for drain in 0..9 {
        open.add_part(part(drain), &recording(50)).unwrap();
        assert!(open.holds_part(part(drain)).unwrap());
        assert!(!open.holds_part(part(drain + 1)).unwrap());
        if drain % 3 == 2 {
            open.merge_parts(false, |_| {}).unwrap();
        }
        let epoch = only(&database);
        assert!(epoch.open);
        assert_eq!(
            epoch.summary.as_ref().unwrap().samples,
            50 * (u64::from(drain) + 1)
        );
        assert_eq!(
            samples(&epoch.read_recording().unwrap()),
            50 * (u64::from(drain) + 1)
        );
    }
    assert!(open.len().unwrap() < 9);
    open.add_part(part(9), &recording(50)).unwrap();
    open.merge_parts(true, |merged| merged.warnings.push("amended".into()))
        .unwrap();
    assert_eq!(open.len().unwrap(), 1);
    assert!((0..10).all(|drain| open.holds_part(part(drain)).unwrap()));
    open.close_epoch(&database, |_| {}).unwrap().unwrap();
    let epoch = only(&database);
    assert!(!epoch.open);
    assert_eq!(epoch.name(), "20261121T031500.123456Z");
    let closed = epoch.read_recording().unwrap();
    assert_eq!(samples(&closed), 500);
    assert!(closed.warnings.contains(&"amended".to_owned()));
    assert!(database.open_epochs("h").unwrap().is_empty());
}

#[test]
fn an_epoch_knows_samples_of_other_periods() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    let (fast, mut slow) = (recording(50), recording(50));
    slow.events[0].period *= 4;
    assert!(open.has_periods_of(&slow).unwrap(), "it has none yet");
    open.add_part(part(0), &fast).unwrap();
    assert!(open.has_periods_of(&fast).unwrap());
    assert!(!open.has_periods_of(&slow).unwrap());
    slow.events[0].name = "cycles".into();
    assert!(open.has_periods_of(&slow).unwrap(), "another event");
    fs::remove_dir_all(open.path()).unwrap();
    assert!(open.has_periods_of(&fast).unwrap());
}

#[test]
fn an_epoch_of_nothing_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    let listed = database.epochs().unwrap();
    assert!(listed[0].summary.is_err());
    assert!(open.close_epoch(&database, |_| {}).unwrap().is_none());
    assert!(database.epochs().unwrap().is_empty());
    // A reader that had listed it before finds it empty, as one that still exists.
    let read = listed[0].read_recording();
    assert!(
        matches!(read, Err(StoreError::NotARecording { .. })),
        "{read:?}"
    );
}

#[test]
fn two_epochs_of_one_moment_are_two() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let first = database.begin_epoch("h", 1000).unwrap();
    let second = database.begin_epoch("h", 1000).unwrap();
    let other = database.begin_epoch("i", 1000).unwrap();
    assert_ne!(first.path(), second.path());
    assert_eq!(first.path().parent(), other.path().parent());
}

#[test]
fn a_damaged_part_is_named_and_costs_itself() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    let mut files = Vec::new();
    for drain in 0..3 {
        files.push(open.add_part(part(drain), &recording(50)).unwrap().path);
    }
    let mut bytes = fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&files[1], bytes).unwrap();
    let name = files[1].file_name().unwrap().to_str().unwrap().to_owned();
    let check = |epoch: &Epoch| {
        let read = epoch.read_recording().unwrap();
        assert_eq!(samples(&read), 100);
        assert!(
            read.warnings.iter().any(|w| w.contains(&name)),
            "{:?}",
            read.warnings
        );
    };
    check(&only(&database));
    open.merge_parts(true, |_| {}).unwrap();
    check(&only(&database));
    open.close_epoch(&database, |_| {}).unwrap().unwrap();
    check(&only(&database));
    let closed = only(&database);
    let aside = closed.path.with_file_name("damaged=h").join(name);
    assert!(aside.exists());
    let [StoreError::SetAside { path }] = &closed.damaged[..] else {
        panic!("{:?}", closed.damaged)
    };
    assert_eq!(*path, aside);
}

#[test]
fn a_list_of_epochs_names_the_parts_that_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    let whole = open.add_part(part(0), &recording(50)).unwrap().path;
    let cut = open.add_part(part(1), &recording(50)).unwrap().path;
    assert!(only(&database).damaged.is_empty());
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let epoch = only(&database);
    assert_eq!(epoch.summary.unwrap().samples, 50);
    assert_eq!(epoch.damaged.len(), 1);
    assert!(epoch.damaged[0].to_string().contains(cut.to_str().unwrap()));
    fs::write(&whole, "").unwrap();
    let epoch = only(&database);
    assert!(epoch.summary.is_err());
    assert_eq!(
        epoch.damaged.len(),
        1,
        "one is the reason, one is beside it"
    );
}

#[test]
fn a_part_of_a_newer_program_keeps_the_epoch_open() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    open.add_part(part(0), &recording(50)).unwrap();
    let newer = open.add_part(part(1), &recording(50)).unwrap().path;
    let mut bytes = fs::read(&newer).unwrap();
    let version = b"\"version\":1";
    let at = bytes
        .windows(version.len())
        .position(|w| w == version)
        .unwrap();
    bytes[at + version.len() - 1] = b'2';
    fs::write(&newer, bytes).unwrap();
    let refused = |error| matches!(error, StoreError::Newer { version: 2, .. });
    assert!(refused(open.merge_parts(true, |_| {}).unwrap_err()));
    assert!(refused(
        open.clone().close_epoch(&database, |_| {}).unwrap_err()
    ));
    assert_eq!(open.len().unwrap(), 2);
}

#[test]
fn a_removed_directory_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::create(&path).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    open.add_part(part(0), &recording(50)).unwrap();
    fs::remove_dir_all(&path).unwrap();
    open.merge_parts(true, |_| {}).unwrap();
    assert!(!path.exists());
    open.add_part(part(1), &recording(50)).unwrap();
    assert_eq!(samples(&only(&database).read_recording().unwrap()), 50);
    open.close_epoch(&database, |_| {}).unwrap().unwrap();
    assert_eq!(samples(&only(&database).read_recording().unwrap()), 50);
}

#[test]
fn epochs_are_chosen_by_time_and_host() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    for (start, host) in [
        (1_795_230_900, "a"),
        (1_795_230_960, "b"),
        (1_795_317_300, "a"),
    ] {
        let mut recording = recording(50);
        recording.host.name = host.into();
        recording.start_unix_ns = start * 1_000_000_000;
        database.write_recording(&recording).unwrap();
    }
    let count = |range: &str, host| {
        let range: TimeRange = range.parse().unwrap();
        database.select_epochs(&range, host).unwrap().len()
    };
    assert_eq!(count("..", None), 3);
    assert_eq!(count("..", Some("a")), 2);
    assert_eq!(count("..", Some("x")), 0);
    assert_eq!(count("20261121", None), 2);
    assert_eq!(count("2026-11-21T03:16", None), 1);
    assert_eq!(count("2026-11-22..", None), 1);
    assert_eq!(count("..2026-11-21", None), 2);
    assert_eq!(count("20261121T0315..20261121T0315", None), 1);
    for bad in ["x", "20..", "yesterday", "2026-11-21..now"] {
        assert!(bad.parse::<TimeRange>().is_err(), "{bad}");
    }
    let epochs = database
        .select_epochs(&"..".parse().unwrap(), None)
        .unwrap();
    assert_eq!(
        samples(&store::read_all(&epochs, store::Wanted::ALL).unwrap()),
        150
    );
    fs::write(epochs[0].path.join("samples.parquet"), "x").unwrap();
    let rest = store::read_all(&epochs, store::Wanted::ALL).unwrap();
    assert_eq!(samples(&rest), 100);
    assert!(rest.warnings.iter().any(|w| w.contains("samples.parquet")));
    database.remove_epoch(&epochs[1]).unwrap();
    assert_eq!(database.epochs().unwrap().len(), 2);
}

fn child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--quiet"]);
    command.env("STORE_TEST_DIRECTORY", directory);
    command.stdout(std::process::Stdio::null());
    command
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Acts as a daemon: adds parts, merges, closes, begins the next. After each step, writes the
/// number of stored parts into a file of its own.
#[test]
#[ignore = "writes until it is killed, by the test that kills it"]
fn writer() {
    let directory = std::env::var_os("STORE_TEST_DIRECTORY").unwrap();
    let directory = Path::new(&directory);
    let database = Database::create(&directory.join("db")).unwrap();
    let recording = store::read_file(&directory.join("input")).unwrap();
    let stored = fs::read_to_string(directory.join("stored")).unwrap_or_default();
    let mut drain: u32 = stored.trim().parse().unwrap_or(0);
    let left = database.open_epochs("h").unwrap();
    let mut drained: Option<bool> = None;
    for open in &left {
        open.remove_leftovers().unwrap();
        drained = Some(drained.unwrap_or(false) | open.holds_part(part(drain)).unwrap());
    }
    // Killed between storing the part and writing the number.
    drain += u32::from(drained.unwrap_or(false));
    for open in left {
        open.close_epoch(&database, |_| {}).unwrap();
    }
    loop {
        let open = database.begin_epoch("h", 0).unwrap();
        for round in 0..7 {
            open.add_part(part(drain), &recording).unwrap();
            drain += 1;
            fs::write(directory.join("stored.new"), drain.to_string()).unwrap();
            fs::rename(directory.join("stored.new"), directory.join("stored")).unwrap();
            if round % 3 == 2 {
                open.merge_parts(false, |_| {}).unwrap();
            }
        }
        open.close_epoch(&database, |_| {}).unwrap();
    }
}

#[test]
fn killed_writers_lose_nothing_and_readers_see_each_drain_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut small = recording(20);
    small.symbols.clear();
    store::write_file(&small, &path.join("input")).unwrap();
    let database = Database::create(&path.join("db")).unwrap();
    let total = || {
        let mut sum = 0;
        for epoch in database.epochs().unwrap() {
            // Between listing and reading, the epoch may have been closed, which read() follows, or
            // be new.
            match epoch.read_recording() {
                Ok(recording) => sum += samples(&recording),
                Err(StoreError::NotARecording { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        sum
    };
    let mut seen = 0;
    for round in 0..25 {
        let said = || fs::read_to_string(path.join("stored")).ok();
        let before = said();
        let writer = Killed(child("writer", path).spawn().unwrap());
        // Waits for the writer to start, however long that takes, and kills it at a random moment.
        common::wait_until(|| said() != before);
        std::thread::sleep(std::time::Duration::from_millis(13 * (round % 9)));
        // A reader beside the writer sees whole drains, never fewer than before.
        let now = total();
        assert_eq!(now % 20, 0);
        assert!(now >= seen, "{now} after {seen}");
        drop(writer);
        seen = total();
        let said: u64 = fs::read_to_string(path.join("stored"))
            .unwrap_or_default()
            .trim()
            .parse()
            .unwrap_or(0);
        // One more may be stored than was written before the kill.
        assert!(
            seen == 20 * said || seen == 20 * (said + 1),
            "{seen} of {said}"
        );
    }
    assert!(seen > 0);
    for open in database.open_epochs("h").unwrap() {
        OpenEpoch::at_path(open.path())
            .close_epoch(&database, |_| {})
            .unwrap();
    }
    assert_eq!(total(), seen);
}
