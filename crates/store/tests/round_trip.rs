//! Tests of round trips: recordings are read as they were written, and files are small.

#[path = "common/any.rs"]
mod any;
#[path = "common/mod.rs"]
mod common;
#[path = "common/content.rs"]
mod content;

use any::recording;
use content::content;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use store::{Database, Opened};

fn opened(path: &Path) -> profile::Recording {
    match store::open_path(path).unwrap() {
        Opened::Recording(recording) => *recording,
        Opened::Database(_) => panic!("{} is a recording", path.display()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn both_containers_give_back_what_they_got(recording in recording(40)) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(&directory.path().join("db")).unwrap();
        let epoch = database.write_recording(&recording).unwrap();
        let file = store::write_file(&recording, &directory.path().join("file")).unwrap();
        let expected = content(&recording);
        prop_assert_eq!(&content(&opened(&epoch.path)), &expected);
        prop_assert_eq!(&content(&opened(&file.path)), &expected);

        let epoch = database.latest_epoch().unwrap().0.unwrap();
        let summary = epoch.summary.as_ref().unwrap();
        prop_assert_eq!(&summary.host, &recording.host.name);
        prop_assert_eq!(summary.start_unix_ns, recording.start_unix_ns);
        let counts = recording.samples.iter().map(|s| s.count);
        prop_assert_eq!(summary.samples, counts.fold(0, u64::saturating_add));
    }

    #[test]
    fn the_order_of_samples_does_not_change_a_byte(recording in recording(40)) {
        let directory = tempfile::tempdir().unwrap();
        let mut other = recording.clone();
        other.samples.reverse();
        other.threads.reverse();
        let files = [&recording, &other].map(|recording| {
            let path = directory.path().join("file");
            store::write_file(recording, &path).unwrap();
            std::fs::read(path).unwrap()
        });
        prop_assert!(files[0] == files[1]);
    }
}

/// Several row groups, dictionaries that overflow, texts as long as a page.
#[test]
fn large_tables_come_back() {
    let mut recording = common::compile_job(5_000);
    let template = recording.samples[0];
    for i in 0..600_000u64 {
        let location = profile::Location {
            image: profile::ImageId((i % 59) as u32),
            offset: profile::ImageOffset(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 50)),
        };
        let process = recording.names.intern(&format!("process {}", i % 9000));
        let stack = recording
            .stacks
            .intern(location, (i > 0).then_some(template.stack));
        let pid = (i % 3 == 0).then_some(i as u32);
        let (count, weight) = (i, i / 2);
        recording.samples.push(profile::Sample {
            process,
            stack,
            pid,
            count,
            weight,
            ..template
        });
    }
    for (i, symbol) in recording.symbols.iter_mut().enumerate().take(5) {
        symbol.name = "x".repeat((200_000 * (i + 1)).min(1 << 20));
    }
    let directory = tempfile::tempdir().unwrap();
    let written = store::write_file(&recording, &directory.path().join("file")).unwrap();
    assert!(content(&recording) == content(&opened(&written.path)));
}

#[test]
fn a_compile_job_takes_at_most_six_tenths_of_a_byte_a_sample() {
    let recording = common::compile_job(600_000);
    assert!((100_000..180_000).contains(&recording.samples.len()));
    let directory = tempfile::tempdir().unwrap();
    let written = store::write_file(&recording, &directory.path().join("file")).unwrap();
    let each = written.bytes as f64 / 600_000.0;
    assert!(each <= 0.6, "{each} bytes a sample");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let good = common::compile_job(100);
    let refused = |spoil: &dyn Fn(&mut profile::Recording)| {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = store::write_file(&bad, &path).unwrap_err();
        assert!(
            matches!(error, store::StoreError::Unstorable { .. }),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    };
    refused(&|r| r.samples[3].count = 1 << 63);
    refused(&|r| r.samples[3].stack.0 = u32::MAX);
    refused(&|r| r.samples[3].event.0 = 1);
    refused(&|r| r.samples[3].process.0 = 99);
    refused(&|r| r.threads[3].weight = u64::MAX);
    refused(&|r| r.symbols[3].image.0 = 60);
    refused(&|r| r.images.truncate(1));
    refused(&|r| r.events[0].multiplex_scale = f64::NAN);
    refused(&|r| r.images[3].path = "x".repeat((1 << 20) + 1));
}

#[test]
fn epochs_of_the_same_moment_keep_apart() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let recording = common::compile_job(100);
    for _ in 0..3 {
        database.write_recording(&recording).unwrap();
    }
    let mut other = recording.clone();
    other.host.name = "../elsewhere".into();
    database.write_recording(&other).unwrap();
    let epochs = database.epochs().unwrap();
    let names: Vec<_> = epochs
        .iter()
        .map(|epoch| epoch.path.strip_prefix(directory.path()).unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "epoch=20261121T031500.123456Z/host=..%2Felsewhere",
            "epoch=20261121T031500.123456Z/host=build-1",
            "epoch=20261121T031500.123457Z/host=build-1",
            "epoch=20261121T031500.123458Z/host=build-1",
        ]
        .map(Path::new)
    );
    let other = epochs[0].summary.as_ref().unwrap();
    assert_eq!(other.host, "../elsewhere");
    let Opened::Database(again) = store::open_path(directory.path()).unwrap() else {
        panic!("a database is one");
    };
    assert_eq!(again.epochs().unwrap().len(), 4);
}

#[test]
fn a_file_replaces_a_file_and_follows_links() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    std::fs::write(&file, "before").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let recording = common::compile_job(100);
    store::write_file(&recording, &link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(
        content(&store::read_file(&file).unwrap()),
        content(&recording)
    );
    // A device stays one.
    store::write_file(&recording, Path::new("/dev/null")).unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_adds_up(a in recording(20), b in recording(20)) {
        let all = [a, b];
        let merged = match store::merge_recordings(&all) {
            Ok(merged) => merged,
            Err(error) => panic!("{error}"),
        };
        let counts = |r: &profile::Recording| {
            r.samples.iter().map(|s| u128::from(s.count)).sum::<u128>()
        };
        let expected = counts(&all[0]) + counts(&all[1]);
        if expected < u128::from(u64::MAX) {
            prop_assert_eq!(counts(&merged), expected);
        }
        // Merged with itself, a recording has the same places and twice the counts.
        let once = store::merge_recordings(&all[..1]).unwrap();
        let twice = store::merge_recordings(&[all[0].clone(), all[0].clone()]).unwrap();
        prop_assert_eq!(once.samples.len(), twice.samples.len());
        prop_assert_eq!(once.images.len(), twice.images.len());
        prop_assert_eq!(once.threads.len(), twice.threads.len());
        for (once, twice) in once.samples.iter().zip(&twice.samples) {
            prop_assert_eq!(once.count.saturating_mul(2), twice.count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn epochs_read_as_slices_are_told_apart(a in recording(20), b in recording(20)) {
        let counts = |samples: &[profile::Sample], slice: Option<u32>| {
            let samples = samples.iter().filter(|sample| slice.is_none() || sample.slice == slice);
            samples.map(|sample| u128::from(sample.count)).sum::<u128>()
        };
        let whole = counts(&a.samples, None) + counts(&b.samples, None);
        prop_assume!(whole < u128::from(u64::MAX));
        let directory = tempfile::tempdir().unwrap();
        let database = store::Database::create(directory.path()).unwrap();
        for recording in [&a, &b] {
            database.write_recording(recording).unwrap();
        }
        let epochs = database.epochs().unwrap();
        let together = store::read_as_slices(&epochs).unwrap();
        for (slice, epoch) in (0..).zip(&epochs) {
            let alone = store::read_all(std::slice::from_ref(epoch), store::Wanted::ALL).unwrap();
            prop_assert_eq!(counts(&together.samples, Some(slice)), counts(&alone.samples, None));
        }
        prop_assert_eq!(counts(&together.samples, None), whole);
    }
}

/// Returns the sums of a recording by event, image (path and build-id), offset and, if requested,
/// process and control group.
fn sums(
    recording: &profile::Recording,
    (processes, cgroups): (bool, bool),
) -> BTreeMap<Vec<String>, [u128; 2]> {
    let mut sums = BTreeMap::<_, [u128; 2]>::new();
    for sample in &recording.samples {
        let location = recording.stacks.frame(sample.stack).location;
        let event = recording.event(sample.event);
        let process = recording.names.get(sample.process);
        let key = vec![
            format!("{} {:?}", event.name, event.unit),
            format!("{:?}", recording.image(location.image)),
            format!("{:?}", location.offset),
            if processes {
                process.to_owned()
            } else {
                String::new()
            },
            match sample.cgroup.filter(|_| cgroups) {
                Some(cgroup) => recording.names.get(cgroup).to_owned(),
                None => "none".to_owned(),
            },
        ];
        let sum = sums.entry(key).or_default();
        sum[0] += u128::from(sample.count);
        sum[1] += u128::from(sample.weight);
    }
    sums.retain(|_, sum| sum.iter().all(|sum| *sum < u128::from(u64::MAX))); // sums saturate
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sums_are_of_all_there_is(a in recording(30), b in recording(30), which: (bool, bool)) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(&directory.path().join("db")).unwrap();
        for recording in [&a, &b] {
            database.write_recording(recording).unwrap();
        }
        let epochs = database.select_epochs(&store::TimeRange::default(), None).unwrap();
        let (processes, cgroups) = which;
        let wanted = store::Wanted { processes, cgroups, ..store::Wanted::PLACES };
        let (some, all) = (store::read_all(&epochs, wanted), store::read_all(&epochs, store::Wanted::ALL));
        let (Ok(some), Ok(all)) = (some, all) else {
            return Err(TestCaseError::reject("too many events"));
        };
        prop_assert_eq!(sums(&some, which), sums(&all, which));
        // Each sum is there once.
        let keys = some.samples.iter().map(|s| (s.event, s.stack, s.process, s.cgroup));
        let distinct: std::collections::BTreeSet<_> = keys.collect();
        prop_assert_eq!(distinct.len(), some.samples.len());
    }
}

#[test]
fn programs_merge_across_hosts_and_nameless_images_do_not() {
    use profile::{Image, ImageKind};
    let mut a = common::compile_job(1000);
    a.branches.push(profile::BranchCount {
        image: a.symbols[0].image,
        branch: profile::ImageOffset(16),
        target: profile::ImageOffset(18),
        observed: 5,
        walked: 7,
    });
    let stretch = profile::StretchCount {
        image: a.symbols[0].image,
        stretch: profile::Stretch {
            start: profile::ImageOffset(4),
            branch: profile::ImageOffset(16),
            target: None,
        },
        seen: profile::StretchSightings {
            times: 3,
            judged: 2,
            mispredicted: 1,
        },
    };
    a.stretches.push(stretch);
    let mut accesses = profile::Accesses {
        known: 4,
        stride: 8,
        votes: 3,
        ..profile::Accesses::default()
    };
    let visits = profile::Visits { seen: 4, waited: 1 };
    accesses.pages.add(77, visits);
    a.accesses.push(profile::AccessCount {
        image: a.symbols[0].image,
        instruction: profile::ImageOffset(16),
        accesses,
    });
    let times = |blocked_ns| profile::TaskTimes {
        cpu_ns: 5,
        waiting_ns: Some(2),
        blocked_ns,
        ..profile::TaskTimes::default()
    };
    a.task_times = Some(times(Some(9)));
    let mut b = a.clone();
    b.task_times = Some(times(None));
    b.host.name = "build-2".into();
    let merged = store::merge_recordings(&[a.clone(), b.clone()]).unwrap();
    let [branch] = merged.branches[..] else {
        panic!("{:?}", merged.branches)
    };
    assert_eq!((branch.observed, branch.walked), (10, 14));
    let [sum] = merged.stretches[..] else {
        panic!("{:?}", merged.stretches)
    };
    assert_eq!(sum.stretch, stretch.stretch);
    let [seen] = &merged.accesses[..] else {
        panic!("{:?}", merged.accesses)
    };
    let accesses = &seen.accesses;
    assert_eq!((accesses.known, accesses.stride, accesses.votes), (8, 8, 6));
    let visits = profile::Visits { seen: 8, waited: 2 };
    assert_eq!(accesses.pages.iter().collect::<Vec<_>>(), [(77, visits)]);
    assert_eq!((sum.seen.times, sum.seen.judged), (6, 4));
    assert_eq!(sum.seen.mispredicted, 2);
    assert_eq!(merged.images.len(), a.images.len());
    assert_eq!(merged.samples.len(), a.samples.len());
    assert_eq!(merged.threads.len(), 2 * a.threads.len());
    assert_eq!(merged.symbols, a.symbols);
    assert_eq!(merged.events[0].taken, 2000);
    assert_eq!(merged.host.name, "build-1,build-2");
    let sum = merged.task_times.expect("both have them");
    assert_eq!(
        (sum.cpu_ns, sum.waiting_ns, sum.blocked_ns),
        (10, Some(4), None)
    );
    assert_eq!(merged.warnings, [""; 0]);

    let jit = Image {
        kind: ImageKind::Jit,
        path: "[jit 7]".into(),
        ..Image::unknown()
    };
    let with = |mut recording: profile::Recording| {
        recording.images.push(jit.clone());
        recording
    };
    let (a, b) = (with(a), with(b));
    let merged = store::merge_recordings(&[a.clone(), b]).unwrap();
    assert_eq!(merged.images.len(), a.images.len() + 1);
    assert_eq!(
        store::merge_recordings(&[a.clone(), a.clone()])
            .unwrap()
            .images
            .len(),
        a.images.len()
    );
    assert!(matches!(
        store::merge_recordings(&[]),
        Err(store::StoreError::Unmergeable { .. })
    ));
}

/// Copies of a program come and go: containers, temporary directories, releases side by side.
#[test]
fn a_program_goes_by_the_path_where_it_still_is() {
    let seen = |path: &str, gone: bool| {
        let mut recording = common::compile_job(100);
        let program = recording.images.iter_mut().find(|image| image.is_file());
        let program = program.expect("a program");
        (program.path, program.gone) = (path.to_owned(), gone);
        recording
    };
    let merged = |one, other| {
        let merged = store::merge_recordings(&[one, other]).unwrap();
        let program = merged.images.into_iter().find(profile::Image::is_file);
        let program = program.expect("a program");
        (program.path, program.gone)
    };
    let (old, new) = (|gone| seen("/old/cc1", gone), |gone| seen("/new/cc1", gone));
    assert_eq!(merged(old(true), new(false)), ("/new/cc1".into(), false));
    assert_eq!(merged(old(false), new(true)), ("/old/cc1".into(), false));
    assert_eq!(merged(old(false), new(false)), ("/new/cc1".into(), false));
    assert_eq!(merged(old(true), new(true)), ("/new/cc1".into(), true));
}
