//! Damaged recordings: an error, or the same data; never a panic, never other data.

#[path = "common/mod.rs"]
mod common;
#[path = "common/content.rs"]
mod content;

use content::content;
use profile::*;
use std::fs;
use std::path::{Path, PathBuf};
use store::{Database, StoreError};

/// Makes a small recording with rows in every table.
fn small() -> Recording {
    let mut recording = common::compile_job(40);
    recording.threads.truncate(3);
    recording.symbols.truncate(3);
    let frame = recording.stacks.frame(recording.samples[0].stack);
    let caller = recording.samples[1].stack;
    let waker = Waker {
        process: recording.samples[0].process,
        tid: 7,
        stack: Some(recording.stacks.intern(frame.location, Some(caller))),
    };
    recording.samples[2].stack = recording.stacks.intern(frame.location, waker.stack);
    recording.samples[2].waker = Some(waker);
    recording
}

struct Written {
    directory: tempfile::TempDir,
    file: PathBuf,
    epoch: PathBuf,
    content: String,
}

fn written() -> Written {
    let directory = tempfile::tempdir().unwrap();
    let recording = small();
    let database = Database::create(&directory.path().join("db")).unwrap();
    let epoch = database.write_recording(&recording).unwrap().path;
    let file = directory.path().join("file");
    store::write_file(&recording, &file).unwrap();
    Written {
        directory,
        file,
        epoch,
        content: content(&recording),
    }
}

fn members(epoch: &Path) -> Vec<PathBuf> {
    let members: Vec<_> = fs::read_dir(epoch)
        .unwrap()
        .map(|m| m.unwrap().path())
        .collect();
    assert_eq!(members.len(), 6);
    members
}

/// Flips bits of `changed`, one after the other, and reads `recording` each time.
fn flip_bits(changed: &Path, recording: &Path, expected: &str, step: usize) {
    let good = fs::read(changed).unwrap();
    let mut refused = 0;
    for bit in (0..good.len() * 8).step_by(step) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(changed, bad).unwrap();
        match store::read_file(recording) {
            Ok(read) => assert!(
                content(&read) == expected,
                "bit {bit} of {}",
                changed.display()
            ),
            Err(_) => refused += 1,
        }
    }
    fs::write(changed, good).unwrap();
    assert!(refused > 0, "{}", changed.display());
    assert!(content(&store::read_file(recording).unwrap()) == expected);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let written = written();
    let good = fs::read(&written.file).unwrap();
    for len in 0..good.len() {
        fs::write(&written.file, &good[..len]).unwrap();
        assert!(
            store::read_file(&written.file).is_err(),
            "{len} bytes of {}",
            good.len()
        );
    }
}

#[test]
fn a_bit_that_flips_in_a_file_changes_nothing_unnoticed() {
    let written = written();
    flip_bits(&written.file, &written.file, &written.content, 7);
}

#[test]
fn a_bit_that_flips_in_a_member_is_named_with_it() {
    let written = written();
    for member in members(&written.epoch) {
        flip_bits(&member, &written.epoch, &written.content, 11);
        if member
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            let good = fs::read(&member).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 1;
            fs::write(&member, bad).unwrap();
            let name = member.file_name().unwrap().to_str().unwrap();
            let error = store::read_file(&written.epoch).unwrap_err();
            assert!(
                matches!(&error, StoreError::Checksum { member, .. } if member == name),
                "{error}"
            );
            fs::write(&member, good).unwrap();
        }
    }
}

#[test]
fn a_member_that_is_cut_or_missing_is_named() {
    let written = written();
    for path in members(&written.epoch) {
        let good = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        // The description ends with a newline that is not needed.
        for len in (0..good.len() - 1).step_by(7) {
            fs::write(&path, &good[..len]).unwrap();
            let error = store::read_file(&written.epoch).unwrap_err();
            let named = match &error {
                StoreError::Truncated {
                    member,
                    expected,
                    found,
                    ..
                } => (*expected, *found) == (good.len() as u64, len as u64) && member == name,
                StoreError::Damaged { member, .. } => member == name && name == "recording.json",
                _ => false,
            };
            assert!(named, "{len} bytes of {name}: {error}");
        }
        fs::remove_file(&path).unwrap();
        let error = store::read_file(&written.epoch).unwrap_err();
        match name {
            "recording.json" => {
                assert!(matches!(error, StoreError::NotARecording { .. }), "{error}")
            }
            _ => assert!(
                matches!(error, StoreError::Truncated { found: 0, .. }),
                "{error}"
            ),
        }
        fs::write(&path, good).unwrap();
    }
}

#[test]
fn a_damaged_epoch_does_not_hide_the_others() {
    let written = written();
    let database = Database::open(&written.directory.path().join("db")).unwrap();
    database.write_recording(&small()).unwrap();
    fs::write(written.epoch.join("recording.json"), "{").unwrap();
    let epochs = database.epochs().unwrap();
    assert_eq!(epochs.len(), 2);
    assert!(matches!(epochs[0].summary, Err(StoreError::Damaged { .. })));
    assert!(content(&epochs[1].read_recording().unwrap()) == written.content);
    assert_eq!(
        database.latest_epoch().unwrap().0.unwrap().path,
        epochs[1].path
    );
    // The newest epoch is damaged.
    fs::write(epochs[1].path.join("recording.json"), "{").unwrap();
    assert!(database.latest_epoch().unwrap().0.is_none());
}

#[test]
fn what_is_no_recording_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for (bytes, looks_like) in [
        (&b"PERFILE2 and more"[..], "made by perf"),
        (b"\x1f\x8b\x08\0\0\0", "gzip"),
        (b"\x7fELF\x02\x01", "program"),
        (b"PAR1....PAR1", "Parquet"),
        (b"{\"meta\": {}}", "JSON"),
        (b"main;f;g 12\n", "text"),
        (b"\x00\x01\x02", "unknown"),
        (b"P", "cut short"),
        (b"", "empty"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = store::open_path(&path).unwrap_err();
        assert!(matches!(error, StoreError::NotARecording { .. }), "{error}");
        assert!(error.to_string().contains(looks_like), "{error}");
    }
    let nothing = store::open_path(directory.path()).unwrap_err();
    assert!(
        matches!(nothing, StoreError::NotARecording { .. }),
        "{nothing}"
    );
    let device = store::open_path(Path::new("/dev/zero")).unwrap_err();
    assert!(
        matches!(device, StoreError::NotARecording { .. }),
        "{device}"
    );
    let missing = store::open_path(&directory.path().join("missing")).unwrap_err();
    assert!(matches!(missing, StoreError::Io { .. }), "{missing}");
    let written = written();
    let time = written.epoch.parent().unwrap();
    let recording = store::open_path(time).unwrap();
    assert!(matches!(recording, store::Opened::Recording(_)));
    fs::create_dir(time.join("host=another")).unwrap();
    let time = store::open_path(time).unwrap_err();
    assert!(time.to_string().contains("name one of its hosts"), "{time}");
}

#[test]
fn a_newer_recording_asks_for_a_newer_program() {
    let written = written();
    let path = written.epoch.join("recording.json");
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replace("\"version\":1,", "\"version\":2,\"something\":[],");
    assert_ne!(newer, text);
    fs::write(&path, newer).unwrap();
    let error = store::read_file(&written.epoch).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Newer {
                version: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("upgrade"), "{error}");
}
