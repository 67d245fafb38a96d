//! Branch stacks, from the records of a ring buffer to the stretches of a recording. The program is
//! invented, so the truth is known.

mod ring;

use profile::{Recording, Stretch, StretchSightings};
use proptest::prelude::*;
use ring::*;
use sampler::EventSpec;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const CODE: u64 = 0x5555_5555_0000;
const LIBRARY: u64 = 0x7fff_f7d0_0000;
const SIZE: u64 = 0x4000;

/// The branches of the program with their targets, by place in its file: two nested loops, with a
/// call of a library in the inner one.
const BRANCHES_OF: [(u64, &[u64]); 4] = [
    (0x1020, &[0x1040]),
    (0x1038, &[0x1010]),
    (0x1058, &[0x1010, LIBRARY + 0x200]),
    (0x1080, &[0x1000]),
];
/// The library returns from here to the instruction after the call.
const RETURN: (u64, u64) = (LIBRARY + 0x230, 0x105c);

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Returns the branches taken in a random execution.
fn walk(random: &mut Random, length: usize) -> Vec<(u64, u64)> {
    let mut taken = Vec::new();
    let mut at = 0x1000;
    while taken.len() < length {
        // Straight on, past some of the branches.
        let ahead = BRANCHES_OF.iter().filter(|(branch, _)| *branch >= at);
        let last = BRANCHES_OF[3];
        let chosen = ahead.copied().find(|_| random.below(3) == 0);
        let (branch, targets) = chosen.unwrap_or(last);
        let to = targets[random.below(targets.len() as u64) as usize];
        taken.push((branch, to));
        at = to;
        if to > LIBRARY {
            taken.push(RETURN);
            at = RETURN.1;
        }
    }
    taken
}

/// Converts offsets to addresses; those of the library are addresses already.
fn address(at: u64) -> u64 {
    if at < SIZE { at + CODE } else { at }
}

/// Expected counts in a recording (times, judged, mispredicted), by start, branch and target.
type Truth = BTreeMap<Stretch, StretchSightings>;

/// Returns a random execution as the records of a ring, and the code executed between its branches.
fn execution(
    seed: u64,
    program: &std::path::Path,
    library: &std::path::Path,
) -> (Vec<Record>, Truth) {
    let mut random = Random(seed);
    let taken = walk(&mut random, 20_000);
    let mut records = vec![mapped(program, CODE, SIZE), mapped(library, LIBRARY, SIZE)];
    let mut truth = Truth::new();
    let offset = |at: u64| profile::ImageOffset(if at > LIBRARY { at - LIBRARY } else { at });
    for end in (32..taken.len()).step_by(57) {
        let length = 1 + random.below(32) as usize;
        let mut entries = Vec::new();
        let range = &taken[end - length..end];
        let mut older: Option<u64> = None;
        for (from, to) in range {
            let flags = [0, PREDICTED, MISPREDICTED][random.below(3) as usize];
            if let Some(start) = older {
                let stretch = Stretch {
                    start: offset(start),
                    branch: offset(*from),
                    target: ((*from > LIBRARY) == (*to > LIBRARY)).then(|| offset(*to)),
                };
                truth.entry(stretch).or_default().join(StretchSightings {
                    times: 1,
                    judged: u64::from(flags != 0),
                    mispredicted: u64::from(flags == MISPREDICTED),
                });
            }
            older = Some(*to);
            entries.insert(0, (address(*from), address(*to), flags));
            if random.below(20) == 0 {
                // Fetched, but never executed.
                entries.insert(0, (address(0x1020), address(0x1040), WRONG_PATH));
            }
        }
        let time = end as u64;
        records.push(sample(TIME, time, address(older.unwrap_or(0x1000))));
        records.push(stack(time, address(older.unwrap_or(0x1000)), &entries));
    }
    (records, truth)
}

fn events() -> [EventSpec; 2] {
    [EventSpec::cpu_clock(), EventSpec::branch_records()]
}

fn replay(records: &[Record]) -> Recording {
    let records = records
        .iter()
        .map(|(kind, misc, body)| (*kind, *misc, &body[..]));
    sampler::replay(&events(), records).expect("attributes")
}

struct Files {
    _directory: tempfile::TempDir,
    program: std::path::PathBuf,
    library: std::path::PathBuf,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let (program, library) = (at("program"), at("library.so"));
    for file in [&program, &library] {
        std::fs::write(file, vec![0x90; SIZE as usize]).expect("written");
    }
    Files {
        program,
        library,
        _directory: directory,
    }
});

fn records(seed: u64) -> (Vec<Record>, Truth) {
    execution(seed, &FILES.program, &FILES.library)
}

#[test]
fn the_stretches_of_a_made_up_program_are_counted() {
    for seed in [1, 88_172_645_463_325_252] {
        let (records, truth) = records(seed);
        let recording = replay(&records);
        let mut found = Truth::new();
        for one in &recording.stretches {
            let path = &recording.image(one.image).path;
            let start = one.stretch.start.0;
            let library = (0x200..0x300).contains(&start);
            assert_eq!(path.ends_with("library.so"), library, "{path} {start:x}");
            assert_eq!(found.insert(one.stretch, one.seen), None);
        }
        assert_eq!(found, truth);
        let samples = records.len() as u64 - 2;
        let stored: Vec<u64> = recording.events.iter().map(|event| event.stored).collect();
        assert_eq!(stored, [samples / 2; 2]);
        let said = recording
            .warnings
            .iter()
            .find(|said| said.contains("branch stacks"));
        let said = said.expect("a sentence");
        assert!(
            said.starts_with(&format!("{} branch stacks", samples / 2)),
            "{said}"
        );
        assert!(said.contains("and 0 that no execution"), "{said}");
    }
}

#[test]
fn what_cannot_have_been_executed_is_counted_apart() {
    let (mut all, truth) = records(7);
    let before = all.len() as u64 - 2;
    // Outside of the mapped files; backwards; from one image straight into another.
    for entries in [
        [(1, 2, 0), (3, 4, 0)],
        [(CODE + 0x10, CODE, 0), (CODE + 0x20, CODE + 0x20, 0)],
        [(LIBRARY + 8, CODE, 0), (CODE, CODE, 0)],
    ] {
        all.push(stack(1 << 40, CODE, &entries));
    }
    let recording = replay(&all);
    let found: u64 = recording.stretches.iter().map(|one| one.seen.times).sum();
    assert_eq!(found, truth.values().map(|seen| seen.times).sum::<u64>());
    let said = recording.warnings.join("\n");
    let expected = format!(
        "{} branch stacks, with {found} stretches of code between branches, and 2 that",
        before / 2 + 3
    );
    assert!(said.contains(&expected), "{said}");
}

/// Checks invariants of all records, even damaged ones: counts of samples balance, and each stretch
/// was in a stack.
fn check(records: &[Record]) -> Result<(), TestCaseError> {
    let recording = replay(records);
    let entries: usize = records.iter().map(|record| record.2.len() / 24).sum();
    let mut times = 0;
    for one in &recording.stretches {
        prop_assert!((one.image.0 as usize) < recording.images.len());
        prop_assert!(one.seen.mispredicted <= one.seen.judged);
        prop_assert!(one.seen.judged <= one.seen.times);
        times += one.seen.times;
    }
    prop_assert!(times <= entries as u64, "{} of {}", times, entries);
    for event in &recording.events {
        prop_assert_eq!(event.taken, event.stored + event.dropped + event.lost);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_records_are_harmless(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..30),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
        kinds in proptest::collection::vec((any::<prop::sample::Index>(), 0_u32..20, any::<u16>()), 0..4),
    ) {
        let mut records = LazyLock::force(&VALID).clone();
        for (record, at, byte) in damage {
            let body = &mut record.get_mut(&mut records).2;
            let at = at.index(body.len());
            body[at] = byte;
        }
        for (record, length) in cuts {
            let body = &mut record.get_mut(&mut records).2;
            body.truncate(length.index(body.len().max(1)));
            body.push(0);
        }
        for (record, kind, misc) in kinds {
            let record = record.get_mut(&mut records);
            (record.0, record.1) = (kind, misc);
        }
        check(&records)?;
    }

    /// Arbitrary numbers in the places of counts, addresses and times.
    #[test]
    fn any_number_in_a_stack_is_harmless(
        record in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        number in prop_oneof![any::<u64>(), 0_u64..64, Just(u64::MAX), Just(u64::MAX / 24 + 1), Just(1 << 61)],
    ) {
        let mut records = LazyLock::force(&VALID).clone();
        let body = &mut record.get_mut(&mut records).2;
        let at = at.index(body.len() / 8) * 8;
        body[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        check(&records)?;
    }
}

/// Some records of an execution.
static VALID: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let mut all = records(3).0;
    all.truncate(42);
    all
});
