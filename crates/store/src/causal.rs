//! Causal profiles on disk: one line of JSON for each run, each with its own checksum, so that
//! profiles are concatenated by `cat`.

use crate::envelope::EnvelopeForm;
use crate::error::{StoreError, TableFault};
use crate::file::{WrittenFile, write_whole};
use crate::names::utc_name;
use profile::{CausalProfile, CausalRun, Progress};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FORM: EnvelopeForm = EnvelopeForm {
    format: "vitalfew-causal-profile",
    version: 1,
    key: "run",
    member: "run",
};

/// Limit on a file, in bytes, far above any profile.
const MAX_LEN: u64 = 256 << 20;

/// Returns the path of a program's causal profile in a database, by the program's start. The file
/// and its directory need not exist.
pub fn causal_path(database: &Path, start_unix_ns: u64) -> PathBuf {
    let name = format!("{}.json", utc_name(start_unix_ns / 1000));
    database.join("causal").join(name)
}

/// Returns the last causal profile in a database; `None` if it has none.
///
/// # Errors
/// [`StoreError::Io`] if the directory cannot be read.
pub fn latest_causal(database: &Path) -> Result<Option<PathBuf>, StoreError> {
    let directory = database.join("causal");
    if !directory.exists() {
        return Ok(None);
    }
    let failed = || StoreError::wrap_io("read", &directory);
    let mut last = None;
    for entry in fs::read_dir(&directory).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let ours = path.extension().is_some_and(|e| e == "json");
        if ours && last.as_ref().is_none_or(|last| *last < path) {
            last = Some(path);
        }
    }
    Ok(last)
}

/// Appends runs to the causal profile in the file `path`, which is created with its directory if
/// need be. A concurrent reader finds the former content or the new one, whole.
///
/// # Errors
/// [`StoreError::Unstorable`] if a run contradicts itself, [`StoreError::Io`], and the errors of
/// [`read_causal`] for an existing file: nothing is added to a damaged one.
pub fn append_causal(runs: &[CausalRun], path: &Path) -> Result<WrittenFile, StoreError> {
    let mut lines = Vec::new();
    for run in runs {
        check_run(run).map_err(StoreError::unstorable)?;
        lines.extend(FORM.seal_content(run)?);
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(StoreError::wrap_io("write", path))?;
    }
    let lock = match open_locked(path)? {
        Some(lock) => lock,
        // A device or a pipe is written to directly.
        None => return write_whole(&lines, path),
    };
    let mut bytes = read_bytes(&lock, path)?;
    parse_profile(&bytes, path)?;
    if bytes.last().is_some_and(|byte| *byte != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend(lines);
    if bytes.len() as u64 > MAX_LEN {
        return Err(StoreError::unstorable("the profile exceeds 256 MiB"));
    }
    write_whole(&bytes, path)
}

/// Saves the current or just ended run, as [`append_causal`] does. It replaces the state of the
/// same run (the same command and start) saved by an earlier call.
///
/// # Errors
/// As [`append_causal`].
pub fn save_causal(run: &CausalRun, path: &Path) -> Result<WrittenFile, StoreError> {
    check_run(run).map_err(StoreError::unstorable)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(StoreError::wrap_io("write", path))?;
    }
    let Some(lock) = open_locked(path)? else {
        return append_causal(std::slice::from_ref(run), path);
    };
    let mut bytes = Vec::new();
    let old = read_bytes(&lock, path)?;
    parse_profile(&old, path)?; // reports positions in the file, should it be damaged
    for line in old.split_inclusive(|byte| *byte == b'\n') {
        let known = parse_profile(line, path)?.runs;
        let same =
            |it: &CausalRun| it.start_unix_ns == run.start_unix_ns && it.command == run.command;
        if !known.iter().any(same) {
            bytes.extend(line);
        }
    }
    if bytes.last().is_some_and(|byte| *byte != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend(FORM.seal_content(run)?);
    if bytes.len() as u64 > MAX_LEN {
        return Err(StoreError::unstorable("the profile exceeds 256 MiB"));
    }
    write_whole(&bytes, path)
}

/// Opens and locks the file at `path`; another writer that held the lock before may have put a new
/// file in its place.
fn open_locked(path: &Path) -> Result<Option<File>, StoreError> {
    loop {
        let mut options = File::options();
        // No truncation: the existing file stays until the new one is whole.
        let opened = options.read(true).append(true).create(true).open(path);
        let file = opened.map_err(StoreError::wrap_io("write", path))?;
        let metadata = file
            .metadata()
            .map_err(StoreError::wrap_io("write", path))?;
        if !metadata.is_file() {
            return Ok(None);
        }
        file.lock().map_err(StoreError::wrap_io("lock", path))?;
        if fs::metadata(path).is_ok_and(|now| now.ino() == metadata.ino()) {
            return Ok(Some(file));
        }
    }
}

/// Reads the causal profile in the file `path`.
///
/// # Errors
/// [`StoreError::Io`]; [`StoreError::Newer`], [`StoreError::Checksum`] and [`StoreError::Damaged`]
/// of the first run that cannot be read; [`StoreError::NotARecording`] of a file of another kind.
pub fn read_causal(path: &Path) -> Result<CausalProfile, StoreError> {
    let file = File::open(path).map_err(StoreError::wrap_io("read", path))?;
    parse_profile(&read_bytes(&file, path)?, path)
}

fn read_bytes(file: &File, path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_LEN + 1).read_to_end(&mut bytes);
    read.map_err(StoreError::wrap_io("read", path))?;
    if bytes.len() as u64 > MAX_LEN {
        let what = "no causal profile is longer than 256 MiB";
        return Err(TableFault::at_offset(bytes.len(), what).in_member(path, FORM.member));
    }
    Ok(bytes)
}

/// Returns whether bytes begin like a causal profile of vitalfew.
pub fn is_causal(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"format\":\"vitalfew-causal-profile\"")
}

/// Parses the profile in `bytes`, which were read from `path`.
fn parse_profile(bytes: &[u8], path: &Path) -> Result<CausalProfile, StoreError> {
    let mut profile = CausalProfile::default();
    let mut base = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            let run: CausalRun = FORM.open_envelope(line, path, base)?;
            let fault = |what| TableFault::at_offset(base, what).in_member(path, FORM.member);
            check_run(&run).map_err(fault)?;
            profile.runs.push(run);
        }
        base += line.len();
    }
    Ok(profile)
}

/// Checks a run, so that its users need not: all indexes are valid and all numbers are finite.
fn check_run(run: &CausalRun) -> Result<(), String> {
    for fragment in &run.fragments {
        if fragment
            .image
            .is_some_and(|i| i as usize >= run.images.len())
        {
            return Err(format!(
                "{} is in an image that is not listed",
                fragment.name
            ));
        }
    }
    let settings = &run.settings.fixed_speedups;
    let speedups = run.experiments.iter().map(|experiment| experiment.speedup);
    let bad = speedups
        .chain(settings.iter().copied())
        .find(|speedup| !(0.0..=1.0).contains(speedup));
    if let Some(speedup) = bad {
        return Err(format!("a speedup of {speedup} is not from 0 to 1"));
    }
    for (number, experiment) in run.experiments.iter().enumerate() {
        if experiment.fragment as usize >= run.fragments.len() {
            return Err(format!("experiment {number} sped up what is not listed"));
        }
        if experiment.counts.len() > run.points.len() {
            return Err(format!("experiment {number} counted more than the points"));
        }
        for count in &experiment.counts {
            if let Progress::Latency { in_flight, .. } = count
                && !(in_flight.is_finite() && *in_flight >= 0.0)
            {
                return Err(format!("experiment {number} has {in_flight} in flight"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::*;
    use proptest::prelude::*;

    fn good() -> CausalRun {
        CausalRun {
            command: vec!["./app".into(), "--\u{e9}\n\"".into()],
            asked: AskedExperiments {
                options: vec!["--progress".into(), "a b".into()],
                time_ns: Some(5),
                process: Some(7),
            },
            host: Host::default(),
            collector: "vitalfew".into(),
            start_unix_ns: 1,
            duration_ns: 2,
            undelayed_ns: 1,
            end: RunEnd::Signalled(9),
            settings: ExperimentSettings {
                fixed_speedups: vec![0.1 + 0.2],
                ..ExperimentSettings::default()
            },
            images: vec![ProfiledImage {
                path: "/a".into(),
                build_id: BuildId::new(&[1, 2]),
            }],
            points: vec![ProgressPoint {
                name: "p".into(),
                counted_by: CountedBy::Usdt,
                visits: 3,
            }],
            fragments: vec![Fragment {
                name: "a.c:1".into(),
                detail: "f".into(),
                image: Some(0),
                samples: u64::MAX,
                undelayed_samples: 1,
                waiting: None,
                copy_of: None,
            }],
            experiments: vec![Experiment {
                fragment: 0,
                speedup: 0.35,
                start_ns: 0,
                duration_ns: 5,
                delay_ns: 1,
                samples: 1,
                counts: vec![Progress::Latency {
                    arrivals: 1,
                    departures: 2,
                    in_flight: 1.0 / 3.0,
                }],
                disturbance: Some(Disturbance {
                    stolen_ns: 1,
                    others_ns: 2,
                    idle_ns: Some(3),
                    target: Some(TargetTime {
                        ran_ns: 4,
                        waited_ns: 5,
                        for_clients_ns: Some(9),
                        standing: Some(StandingTime {
                            total_ns: 7,
                            waited_ns: 8,
                        }),
                    }),
                }),
                meetings: Some(6),
                spinning: Some(2),
                at_pace: true,
            }],
            warnings: vec!["w".into()],
        }
    }

    #[test]
    fn a_run_that_is_saved_again_replaces_itself_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile");
        let other = CausalRun {
            start_unix_ns: 7,
            ..good()
        };
        append_causal(&[good(), other.clone()], &path).unwrap();
        let later = CausalRun {
            duration_ns: 99,
            ..good()
        };
        save_causal(&later, &path).unwrap();
        save_causal(&later, &path).unwrap();
        assert_eq!(read_causal(&path).unwrap().runs, [other, later]);
    }

    #[test]
    fn runs_are_added_and_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = causal_path(&directory.path().join("db"), 1_700_000_000_000_000_000);
        let runs = [good(), good()];
        append_causal(&runs[..1], &path).unwrap();
        append_causal(&runs[1..], &path).unwrap();
        assert_eq!(read_causal(&path).unwrap().runs, runs);
        assert_eq!(
            latest_causal(&directory.path().join("db")).unwrap(),
            Some(path.clone())
        );
        // Joined by other tools, with varying line ends.
        let bytes = fs::read(&path).unwrap();
        let doubled = [bytes.trim_ascii_end(), b"\n\n", &bytes].concat();
        assert_eq!(parse_profile(&doubled, &path).unwrap().runs.len(), 4);
    }

    /// Concurrent writers lose nothing of each other's.
    #[test]
    fn writers_wait_for_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        append_causal(&[good()], &path).unwrap();
                    }
                });
            }
        });
        assert_eq!(read_causal(&path).unwrap().runs.len(), 20);
    }

    /// A file cut anywhere or with any bit changed gives an error that names the file and a place
    /// in it. Nothing is added to such a file.
    #[test]
    fn damage_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        append_causal(&[good(), good()], &path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let line = bytes.len() / 2;
        for length in 0..bytes.len() {
            match parse_profile(&bytes[..length], &path) {
                Ok(profile) => assert!(
                    length == 0
                        || length + 1 >= line && profile.runs.len() == 1
                        || length + 1 >= bytes.len(),
                    "{length}"
                ),
                Err(error) => assert!(error.to_string().contains("profile.json"), "{error}"),
            }
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            if let Ok(profile) = parse_profile(&changed, &path) {
                // Changes of white space and of ignored fields are harmless.
                assert_eq!(profile.runs.len(), 2, "{at}");
                assert_eq!(profile.runs, [good(), good()], "{at}");
            }
        }
        fs::write(&path, &bytes[..line + 10]).unwrap();
        assert!(append_causal(&[good()], &path).is_err());
        assert_eq!(fs::read(&path).unwrap().len(), line + 10);
    }

    /// Right checksum, wrong content.
    #[test]
    fn what_a_run_says_is_checked() {
        let edits: [fn(&mut CausalRun); 6] = [
            |run| run.fragments[0].image = Some(1),
            |run| run.experiments[0].fragment = 1,
            |run| run.experiments[0].speedup = 1.5,
            |run| run.settings.fixed_speedups[0] = -0.1,
            |run| run.points.clear(),
            |run| {
                let latency = &mut run.experiments[0].counts[0];
                *latency = Progress::Latency {
                    arrivals: 0,
                    departures: 0,
                    in_flight: -1.0,
                };
            },
        ];
        for edit in edits {
            let mut run = good();
            edit(&mut run);
            let path = Path::new("/tmp/never/written");
            assert!(matches!(
                append_causal(&[run.clone()], path),
                Err(StoreError::Unstorable { .. })
            ));
            let line = FORM.seal_content(&run).unwrap();
            let error = parse_profile(&line, path).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        }
        let newer = FORM.seal_content(&good()).unwrap();
        let newer = String::from_utf8(newer)
            .unwrap()
            .replace("\"version\":1", "\"version\":2");
        let error = parse_profile(newer.as_bytes(), Path::new("p")).unwrap_err();
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_profile(&bytes, Path::new("p"));
        }
    }
}
