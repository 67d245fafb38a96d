//! Recordings with right checksums and wrong content.

use crate::container::Encoded;
use crate::encode::encode_recording;
use crate::manifest::{self, Manifest, ManifestMember};
use crate::table::{
    ACCESSES, BRANCHES, ColumnKind, IMAGES, PLACES, SAMPLES, STACKS, STRETCHES, SYMBOLS, THREADS,
    TableColumn,
};
use crate::table_writer::{TableWriter, shared_text};
use crate::{ErrorPlace, StoreError, container};
use profile::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLES: [(&str, &[TableColumn]); 9] = [
    ("samples.parquet", SAMPLES),
    ("stacks.parquet", STACKS),
    ("threads.parquet", THREADS),
    ("images.parquet", IMAGES),
    ("symbols.parquet", SYMBOLS),
    ("branches.parquet", BRANCHES),
    ("stretches.parquet", STRETCHES),
    ("accesses.parquet", ACCESSES),
    ("places.parquet", PLACES),
];

/// Makes a recording with two rows in every table.
fn good() -> Recording {
    let target = Target::Machine;
    let mut recording = Recording::new(
        Host::default(),
        target,
        Collector::Bpf,
        CallGraph::FramePointer,
    );
    recording
        .events
        .push(Event::new("cpu-clock", Unit::Samples, 1));
    recording.images = vec![Image::unknown(), Image::unknown()];
    recording.images[1].build_id = BuildId::new(&[1, 2]);
    recording.images[1].file = Some(FileIdentity {
        major: 1,
        minor: 2,
        inode: 3,
        generation: 4,
    });
    let process = recording.names.intern("a");
    for i in 0..2 {
        let location = |offset| Location {
            image: ImageId(i),
            offset: ImageOffset(offset),
        };
        let stack = recording.stacks.intern_stack(&[location(1), location(2)]);
        let waker = stack.map(|stack| Waker {
            process,
            tid: i,
            stack: Some(stack),
        });
        recording.samples.extend(stack.map(|stack| Sample {
            pid: Some(i),
            slice: Some(i),
            waker,
            weight: 2,
            ..Sample::new(EventId(0), process, stack, 1)
        }));
        recording.threads.push(ThreadCount {
            cgroup: None,
            event: EventId(0),
            pid: i,
            tid: i,
            process,
            count: 1,
            weight: 1,
        });
        recording.symbols.push(EmbeddedSymbol {
            image: ImageId(i),
            start: ImageOffset(1),
            end: ImageOffset(2),
            name: "f".into(),
        });
        recording.branches.push(BranchCount {
            image: ImageId(i),
            branch: ImageOffset(1),
            target: ImageOffset(2),
            observed: 3,
            walked: 4,
        });
        recording.stretches.push(StretchCount {
            image: ImageId(i),
            stretch: Stretch {
                start: ImageOffset(1),
                branch: ImageOffset(2),
                target: (i == 0).then_some(ImageOffset(3)),
            },
            seen: StretchSightings {
                times: 5,
                judged: 4,
                mispredicted: 3,
            },
        });
        let mut accesses = Accesses {
            known: 3,
            stride: -8,
            ..Accesses::default()
        };
        let visits = Visits { seen: 3, waited: 1 };
        accesses.pages.add(u64::MAX, visits);
        accesses.lines.add(5, visits);
        recording.accesses.push(AccessCount {
            image: ImageId(i),
            instruction: ImageOffset(1),
            accesses,
        });
    }
    recording
}

static GOOD: LazyLock<Encoded> = LazyLock::new(|| encode_recording(&good()).unwrap());

/// Reads the recording with `bytes` in place of a member, and with matching checksums.
fn read_with(name: &str, bytes: Vec<u8>) -> Result<Recording, StoreError> {
    let mut encoded = GOOD.clone();
    let mut members = encoded.members.iter_mut();
    members.find(|(member, _)| *member == name).unwrap().1 = bytes;
    let describe = |(name, bytes): &(&'static str, Vec<u8>)| {
        let crc32 = crc32fast::hash(bytes);
        (
            name.to_string(),
            ManifestMember {
                bytes: bytes.len() as u64,
                crc32,
            },
        )
    };
    let tables: BTreeMap<_, _> = encoded.members.iter().skip(1).map(describe).collect();
    encoded.members[0].1 = Manifest::new(&good(), tables).to_bytes().unwrap();
    read(&encoded)
}

fn read(encoded: &Encoded) -> Result<Recording, StoreError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, container::write_archive(encoded).unwrap()).unwrap();
    crate::read_file(&path)
}

#[test]
fn tables_of_earlier_writers_are_read() {
    let tables = [
        ("samples.parquet", SAMPLES, 3),
        ("threads.parquet", THREADS, 1),
    ];
    for (name, columns, later) in tables {
        let earlier = columns.iter().filter(|column| !column.later).count();
        assert_eq!(columns.len() - earlier, later);
        let recording = read_with(name, table(&columns[..earlier], "", &Bad::Null)).unwrap();
        assert!(recording.samples.iter().all(|s| s.cgroup.is_none()) || name != "samples.parquet");
        assert!(recording.samples.iter().all(|s| s.slice.is_none()) || name != "samples.parquet");
        assert!(recording.samples.iter().all(|s| s.labels.is_none()) || name != "samples.parquet");
        assert!(recording.threads.iter().all(|t| t.cgroup.is_none()));
        // No other column may be missing.
        assert!(read_with(name, table(&columns[..earlier - 1], "", &Bad::Null)).is_err());
        let recording = read_with(name, table(columns, "", &Bad::Null)).unwrap();
        let cgroups = recording.samples.iter().map(|s| s.cgroup);
        let mut cgroups = cgroups.chain(recording.threads.iter().map(|t| t.cgroup));
        assert!(cgroups.any(|cgroup| cgroup.is_some()));
    }
}

/// Wrong value of a column in the second row of a table.
enum Bad {
    Int(i64),
    Text(&'static str),
    Null,
}

/// Makes a table of four rows, good except for one value of the second.
fn table(columns: &'static [TableColumn], bad_column: &str, bad: &Bad) -> Vec<u8> {
    let mut table = TableWriter::new(columns).unwrap();
    let mut rows = table.begin_rows().unwrap();
    for column in columns {
        let name = column.name;
        let bad = |row: i64| (row == 1 && name == bad_column).then_some(bad);
        if column.kind == ColumnKind::Int {
            let value = |row| match bad(row) {
                Some(Bad::Int(value)) => Some(*value),
                Some(_) => None,
                None if name == "caller" => None,
                None if name == "id" => Some(row),
                None => Some(0),
            };
            rows.optional_ints(name, (0..4).map(value)).unwrap();
        } else {
            let good = match name {
                "kind" => "file",
                "build_id" => "00",
                _ => "text",
            };
            let value = |row| match bad(row) {
                Some(Bad::Text(text)) => Some(shared_text(text).unwrap()),
                Some(_) => None,
                None => Some(shared_text(good).unwrap()),
            };
            let texts: Vec<_> = (0..4).map(value).collect();
            let texts = texts.iter().map(Option::as_ref);
            rows.optional_texts(name, texts).unwrap();
        }
    }
    rows.finish_rows().unwrap();
    table.finish_table().unwrap()
}

#[test]
fn what_a_row_says_is_checked() {
    use Bad::{Int, Null, Text};
    let max = i64::from(u32::MAX);
    let cases: &[(&str, &[(&str, Bad)])] = &[
        (
            "samples.parquet",
            &[
                ("event_id", Int(1)),
                ("event_id", Int(-1)),
                ("image_id", Int(2)),
                ("image_id", Int(1 << 40)),
                ("count", Int(-1)),
                ("weight", Int(i64::MIN)),
                ("pid", Int(-1)),
                ("tid", Int(max + 1)),
                ("caller", Int(4)),
                ("caller", Int(-1)),
                ("waker_stack", Int(4)),
                ("waker_tid", Int(-1)),
                ("waker_tid", Null),
                ("waker_process", Null),
            ],
        ),
        (
            "stacks.parquet",
            &[
                ("id", Int(0)),
                ("id", Int(-1)),
                ("caller", Int(1)),
                ("caller", Int(2)),
                ("caller", Int(-1)),
                ("image_id", Int(2)),
            ],
        ),
        (
            "threads.parquet",
            &[
                ("event_id", Int(9)),
                ("pid", Int(-1)),
                ("tid", Int(max + 1)),
                ("count", Int(-1)),
            ],
        ),
        (
            "images.parquet",
            &[
                ("id", Int(0)),
                ("kind", Text("disk")),
                ("build_id", Text("0")),
                ("build_id", Text("")),
                ("major", Int(-1)),
                ("minor", Int(max + 1)),
                ("inode", Null),
                ("gone", Int(2)),
            ],
        ),
        (
            "symbols.parquet",
            &[("image_id", Int(2)), ("image_id", Int(-1))],
        ),
        (
            "branches.parquet",
            &[("image_id", Int(2)), ("observed", Int(-1))],
        ),
        (
            "stretches.parquet",
            &[
                ("image_id", Int(2)),
                ("times", Int(-1)),
                ("judged", Int(-1)),
                ("mispredicted", Int(i64::MIN)),
            ],
        ),
        (
            "accesses.parquet",
            &[
                ("image_id", Int(2)),
                ("known", Int(-1)),
                ("waited_page", Int(i64::MIN)),
            ],
        ),
        (
            "places.parquet",
            &[
                ("image_id", Int(-1)),
                ("line", Int(2)),
                ("seen", Int(-1)),
                ("waited", Int(-1)),
            ],
        ),
    ];
    for (name, bad) in cases {
        let columns = TABLES.iter().find(|(table, _)| table == name).unwrap().1;
        let untouched = table(columns, "", &Null);
        read_with(name, untouched).unwrap_or_else(|error| panic!("{error}"));
        for (column, bad) in *bad {
            let error = read_with(name, table(columns, column, bad)).unwrap_err();
            let StoreError::Damaged { member, at, .. } = &error else {
                panic!("{name} {column}: {error}");
            };
            assert_eq!(
                (member.as_str(), at),
                (*name, &ErrorPlace::Row(1)),
                "{column}: {error}"
            );
        }
    }
}

#[test]
fn a_table_that_lacks_or_changes_a_column_is_refused() {
    for (name, _) in TABLES {
        for (other, columns) in TABLES {
            let bytes = table(columns, "", &Bad::Null);
            assert_eq!(
                read_with(name, bytes).is_ok(),
                name == other,
                "{other} as {name}"
            );
        }
    }
}

/// A few kilobytes that would decode to 100 MB.
#[test]
fn a_bomb_is_refused() {
    let mut table = TableWriter::new(SYMBOLS).unwrap();
    let text = shared_text(&"x".repeat(1 << 20)).unwrap();
    let rows = 100;
    let mut out = table.begin_rows().unwrap();
    let zeros = || std::iter::repeat_n(0, rows);
    out.write_ints("image_id", zeros()).unwrap();
    out.write_texts("image", std::iter::repeat_n(&text, rows))
        .unwrap();
    out.write_ints("start", zeros()).unwrap();
    out.write_ints("end", zeros()).unwrap();
    out.write_texts("name", std::iter::repeat_n(&text, rows))
        .unwrap();
    out.finish_rows().unwrap();
    let bytes = table.finish_table().unwrap();
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let error = read_with("symbols.parquet", bytes).unwrap_err();
    assert!(error.to_string().contains("far more"), "{error}");
}

/// A few kilobytes that would decode to a million and a half rows.
#[test]
fn too_many_rows_are_refused() {
    let mut table = TableWriter::new(SYMBOLS).unwrap();
    let text = shared_text("f").unwrap();
    for _ in 0..6 {
        let rows = 1 << 18;
        let mut out = table.begin_rows().unwrap();
        let zeros = || std::iter::repeat_n(0, rows);
        out.write_ints("image_id", zeros()).unwrap();
        out.write_texts("image", std::iter::repeat_n(&text, rows))
            .unwrap();
        out.write_ints("start", zeros()).unwrap();
        out.write_ints("end", zeros()).unwrap();
        out.write_texts("name", std::iter::repeat_n(&text, rows))
            .unwrap();
        out.finish_rows().unwrap();
    }
    let bytes = table.into_bytes().unwrap();
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let error = read_with("symbols.parquet", bytes).unwrap_err();
    assert!(error.to_string().contains("far more"), "{error}");
}

/// Changes some bytes of a member.
fn spoil(bytes: &mut [u8], changes: &[(prop::sample::Index, u8)]) {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// The checksums match the changes: only the checks of the content protect the reader.
    #[test]
    fn changed_tables_do_no_harm(member in 1usize..6, changes in changes()) {
        let encoded = GOOD.clone();
        let (name, mut bytes) = encoded.members[member].clone();
        spoil(&mut bytes, &changes);
        if let Err(error) = read_with(name, bytes) {
            prop_assert!(matches!(error, StoreError::Damaged { .. }), "{}", error);
        }
    }

    #[test]
    fn changed_descriptions_do_no_harm(changes in changes()) {
        let mut encoded = GOOD.clone();
        let text = String::from_utf8(encoded.members[0].1.clone()).unwrap();
        let (_, inner) = text.split_once("\"recording\":").unwrap();
        let mut inner = inner.trim_end().strip_suffix('}').unwrap().to_owned().into_bytes();
        spoil(&mut inner, &changes);
        let crc32 = crc32fast::hash(&inner);
        let mut bytes = format!(
            "{{\"format\":\"vitalfew-recording\",\"version\":1,\"crc32\":{crc32},\"recording\":"
        )
        .into_bytes();
        bytes.append(&mut inner);
        bytes.push(b'}');
        prop_assert_eq!(encoded.members[0].0, manifest::NAME);
        encoded.members[0].1 = bytes;
        let _ = read(&encoded);
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut table = b"PAR1".to_vec();
        table.extend(&bytes);
        table.extend((bytes.len() as u32).to_le_bytes());
        table.extend(b"PAR1");
        prop_assert!(read_with("symbols.parquet", table).is_err());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut archive = b"PK\x03\x04".to_vec();
        archive.extend(bytes);
        std::fs::write(&path, archive).unwrap();
        prop_assert!(crate::read_file(&path).is_err());
    }
}
