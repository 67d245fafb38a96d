//! pprof: an independent decoder and `go tool pprof` read what was recorded.

mod common;

use common::*;
use flate2::read::GzDecoder;
use formats::write::{WriteOptions, pprof};
use profile::{EventId, Image, ImageKind, Recording, Sample, SymbolTable, Unit};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::Command;

fn write(recording: &Recording, symbols: &SymbolTable, options: &WriteOptions) -> Vec<u8> {
    let mut out = Vec::new();
    pprof::write_pprof(recording, symbols, options, &mut out).unwrap();
    out
}

/// A protobuf field: its number and its value.
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Reads protobuf by the wire format alone.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The numbers of a message by field; repeated ones packed or not.
#[derive(Debug, Default)]
struct Message {
    numbers: BTreeMap<u64, Vec<u64>>,
    messages: BTreeMap<u64, Vec<Message>>,
}

impl Message {
    /// Reads a message. `nested` lists the fields that are messages, `packed` those of packed
    /// numbers.
    fn read(bytes: &[u8], nested: &[u64], packed: &[u64]) -> Self {
        let mut message = Self::default();
        for (field, value) in fields(bytes) {
            match value {
                Value::Varint(number) => message.numbers.entry(field).or_default().push(number),
                Value::Bytes(mut bytes) if packed.contains(&field) => {
                    while !bytes.is_empty() {
                        let number = varint(&mut bytes);
                        message.numbers.entry(field).or_default().push(number);
                    }
                }
                Value::Bytes(bytes) => {
                    assert!(nested.contains(&field), "field {field}");
                    let inner = Self::read(bytes, &[], &[]);
                    message.messages.entry(field).or_default().push(inner);
                }
            }
        }
        message
    }

    fn number(&self, field: u64) -> u64 {
        self.numbers.get(&field).map_or(0, |n| n[n.len() - 1])
    }
    fn all(&self, field: u64) -> &[u64] {
        self.numbers.get(&field).map_or(&[], |n| n)
    }
    fn inner(&self, field: u64) -> &[Message] {
        self.messages.get(&field).map_or(&[], |n| n)
    }
}

/// A decoded profile, names resolved.
#[derive(Debug, Default)]
struct Decoded {
    strings: Vec<String>,
    sample_types: Vec<(String, String)>,
    default_type: String,
    comments: Vec<String>,
    /// Stack (outermost first), labels, values.
    samples: Vec<(Named, BTreeMap<String, String>, Vec<i64>)>,
    /// (file, start, limit).
    mappings: Vec<(String, u64, u64)>,
    times: [u64; 3],
}

/// Decodes a profile and checks all demands of the format.
fn decode(gzipped: &[u8]) -> Decoded {
    let mut bytes = Vec::new();
    GzDecoder::new(gzipped).read_to_end(&mut bytes).unwrap();
    let mut d = Decoded::default();
    let mut parts: BTreeMap<u64, Vec<Message>> = BTreeMap::new();
    let mut top = Message::default();
    for (field, value) in fields(&bytes) {
        let nested: &[u64] = match field {
            2 => &[3],
            4 => &[4],
            _ => &[],
        };
        let packed: &[u64] = if field == 2 { &[1, 2] } else { &[] };
        match value {
            Value::Varint(n) => top.numbers.entry(field).or_default().push(n),
            Value::Bytes(b) if field == 6 => d.strings.push(String::from_utf8(b.to_vec()).unwrap()),
            Value::Bytes(mut b) if field == 13 => {
                while !b.is_empty() {
                    top.numbers.entry(13).or_default().push(varint(&mut b));
                }
            }
            Value::Bytes(b) => parts
                .entry(field)
                .or_default()
                .push(Message::read(b, nested, packed)),
        }
    }
    let part = |field: u64| parts.get(&field).map_or(&[][..], |p| p);
    let text = |index: u64| d.strings[index as usize].clone();
    assert_eq!(d.strings[0], "");
    assert_eq!(
        d.strings.iter().collect::<BTreeSet<_>>().len(),
        d.strings.len()
    );
    d.sample_types = part(1)
        .iter()
        .map(|t| (text(t.number(1)), text(t.number(2))))
        .collect();
    d.default_type = text(top.number(14));
    d.comments = top.all(13).iter().map(|c| text(*c)).collect();
    d.times = [top.number(9), top.number(10), top.number(12)];
    let functions: BTreeMap<u64, String> = part(5)
        .iter()
        .map(|f| (f.number(1), text(f.number(2))))
        .collect();
    assert_eq!(functions.len(), part(5).len());
    let mut ranges = BTreeMap::new();
    for m in part(3) {
        let range = (m.number(2), m.number(3));
        assert!(0 < range.0 && range.0 < range.1 && range.1 < 1 << 63);
        assert_eq!(m.number(4) % 0x1000, 0, "file offset");
        assert_eq!(ranges.insert(m.number(1), range), None);
        d.mappings.push((text(m.number(5)), range.0, range.1));
    }
    let mut sorted: Vec<(u64, u64)> = ranges.values().copied().collect();
    sorted.sort_unstable();
    assert!(
        sorted.windows(2).all(|w| w[0].1 <= w[1].0),
        "mappings overlap: {sorted:?}"
    );
    let mut addresses = BTreeSet::new();
    let mut locations = BTreeMap::new();
    for l in part(4) {
        let (start, limit) = ranges[&l.number(2)];
        assert!((start..limit).contains(&l.number(3)));
        assert!(
            addresses.insert(l.number(3)),
            "two locations at one address"
        );
        let names: Named = l
            .inner(4)
            .iter()
            .map(|line| functions[&line.number(1)].clone())
            .collect();
        assert!(!names.is_empty());
        assert!(locations.insert(l.number(1), names).is_none());
    }
    assert!(!locations.contains_key(&0) && !functions.contains_key(&0) && !ranges.contains_key(&0));
    for s in part(2) {
        let mut stack: Named = s
            .all(1)
            .iter()
            .flat_map(|id| locations[id].clone())
            .collect();
        stack.reverse();
        let values: Vec<i64> = s.all(2).iter().map(|v| *v as i64).collect();
        assert_eq!(values.len(), d.sample_types.len());
        let labels = s.inner(3).iter().map(|l| {
            let value = match l.number(2) {
                0 => l.number(3).to_string(),
                string => text(string),
            };
            (text(l.number(1)), value)
        });
        d.samples.push((stack, labels.collect(), values));
    }
    d
}

/// Runs `go tool pprof`; prints a note and returns `None` without Go.
fn go_pprof(profile: &[u8], args: &[&str]) -> Option<String> {
    run_pprof(&["go", "tool", "pprof"], profile, args)
}

fn run_pprof(program: &[&str], profile: &[u8], args: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.pb.gz");
    std::fs::write(&path, profile).unwrap();
    let run = Command::new(program[0])
        .args(&program[1..])
        .args(args)
        .arg(&path)
        .current_dir(folder.path())
        .env("PPROF_TMPDIR", folder.path())
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("not checked with {program:?}, which is not installed");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    Some(text + &complaints)
}

#[test]
fn the_small_recording_has_all_its_parts() {
    let (recording, symbols) = small();
    let d = decode(&write(&recording, &symbols, &WriteOptions::default()));
    let types: Vec<(&str, &str)> = d.sample_types.iter().map(|(t, u)| (&**t, &**u)).collect();
    assert_eq!(
        types,
        [
            ("samples", "count"),
            ("cpu", "nanoseconds"),
            ("off-cpu", "nanoseconds")
        ]
    );
    assert_eq!(d.default_type, "cpu");
    assert_eq!(
        d.times,
        [1_700_000_000_000_000_000, 2_000_000_000, 1_000_000]
    );
    let comments = [
        "host: box, 6.18.0 x86_64",
        "command: ./tool --fast",
        "warning: no hardware counters",
    ];
    assert_eq!(d.comments, comments);
    assert_eq!(d.mappings[0].0, "/usr/bin/tool");
    let hot = d
        .samples
        .iter()
        .find(|s| s.1.get("tid").is_some_and(|t| t == "70"))
        .unwrap();
    assert_eq!(hot.0, ["main", "hot(int)", "<T as Add>::add"]);
    assert_eq!(hot.2, [30, 30_000_000, 0]);
    assert_eq!(hot.1["process"], "tool");
    let wait = d.samples.iter().find(|s| s.2[2] > 0).unwrap();
    assert_eq!(wait.2, [0, 0, 1_500_000]);
    assert_eq!(
        (wait.1["waker"].as_str(), wait.1["waker_tid"].as_str()),
        ("kworker/0:1", "9")
    );
    let options = WriteOptions {
        event: EventId(1),
        ..WriteOptions::default()
    };
    assert_eq!(
        decode(&write(&recording, &symbols, &options)).default_type,
        "off-cpu"
    );
}

#[test]
fn go_tool_pprof_shows_it() {
    let (recording, symbols) = small();
    let profile = write(&recording, &symbols, &WriteOptions::default());
    let Some(top) = go_pprof(&profile, &["-top", "-sample_index=samples"]) else {
        return;
    };
    for line in [
        "File: tool",
        "Type: samples",
        "Duration: 2s",
        "50 total",
        "<T as Add>::add",
        "libc.so.6+0x88",
        "[unknown]",
    ] {
        assert!(top.contains(line), "no {line:?} in:\n{top}");
    }
    let add = top
        .lines()
        .find(|line| line.contains("<T as Add>::add"))
        .unwrap();
    let words: Vec<&str> = add.split_whitespace().collect();
    assert_eq!(words[..5], ["42", "84.00%", "84.00%", "42", "84.00%"]);
    let time = go_pprof(&profile, &["-top"]).unwrap();
    assert!(
        time.contains("Type: cpu") && time.contains("50ms total"),
        "{time}"
    );
    let raw = go_pprof(&profile, &["-raw"]).unwrap();
    for line in [
        "PeriodType: cpu nanoseconds",
        "Period: 1000000",
        "/src/tool.rs:7",
        "process:[tool]",
        "tid:[70]",
        "waker:[kworker/0:1]",
    ] {
        assert!(raw.contains(line), "no {line:?} in:\n{raw}");
    }
    let comments = go_pprof(&profile, &["-comments"]).unwrap();
    assert!(
        comments.contains("warning: no hardware counters"),
        "{comments}"
    );
}

/// Returns a recording of a function of this very program, sampled and not resolved. Its linker may
/// give code addresses other than file offsets, as rustc's own lld does.
fn of_this_program() -> (Recording, u64) {
    let address = of_this_program as fn() -> (Recording, u64) as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut mappings = profile::MapsLine::parse_all(&maps);
    let offset = mappings.find_map(|line| line.file_offset_of(address));
    let offset = offset.unwrap().0;
    let mut recording = empty();
    recording.events = vec![event("cpu-clock", Unit::Samples, 1_000_000, 1.0)];
    let program = std::env::current_exe().unwrap();
    recording.images = vec![Image {
        build_id: None,
        ..image(ImageKind::File, program.to_str().unwrap())
    }];
    let name = recording.names.intern("test");
    // Far enough away that the mapping does not begin at the function.
    for offset in [offset - 0x2345, offset] {
        let stack = recording.stacks.intern(at(0, offset), None);
        recording.samples.push(sample(0, name, stack, 1));
    }
    (recording, offset)
}

#[test]
fn go_tool_pprof_does_not_put_names_of_its_own() {
    let (recording, offset) = of_this_program();
    let profile = write(&recording, &SymbolTable::new(), &WriteOptions::default());
    if let Some(top) = go_pprof(&profile, &["-top"]) {
        assert!(top.contains(&format!("+{offset:#x}")), "{top}");
    }
}

/// Uses the `pprof` of github.com/google/pprof, if it is installed.
#[test]
fn pprof_finds_the_code_in_the_file() {
    let (recording, _) = of_this_program();
    let profile = write(&recording, &SymbolTable::new(), &WriteOptions::default());
    let args = ["-symbolize=local:force", "-top"];
    if let Some(top) = run_pprof(&["pprof"], &profile, &args) {
        assert!(top.contains("pprof::of_this_program"), "{top}");
    }
}

#[test]
fn an_empty_recording_is_a_profile_of_nothing() {
    let profile = write(&empty(), &SymbolTable::new(), &WriteOptions::default());
    let d = decode(&profile);
    assert!(d.samples.is_empty() && d.mappings.is_empty());
    assert_eq!(d.sample_types, [("samples".to_owned(), "count".to_owned())]);
    if let Some(raw) = go_pprof(&profile, &["-raw"]) {
        assert!(raw.contains("Samples:"), "{raw}");
    }
}

#[test]
fn numbers_too_large_for_pprof_stay_as_large_as_can_be() {
    let (mut recording, symbols) = small();
    for sample in &mut recording.samples {
        sample.count = u64::MAX;
        sample.weight = u64::MAX;
    }
    let d = decode(&write(&recording, &symbols, &WriteOptions::default()));
    assert!(d.samples.iter().any(|s| s.2 == [i64::MAX, i64::MAX, 0]));
    assert!(d.samples.iter().any(|s| s.2 == [0, 0, i64::MAX]));
}

#[test]
fn a_million_frames_are_written_in_seconds() {
    let (recording, symbols) = large();
    let start = std::time::Instant::now();
    let profile = write(&recording, &symbols, &WriteOptions::default());
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    let total: i64 = decode(&profile).samples.iter().map(|s| s.2[0]).sum();
    assert_eq!(
        total as u64,
        recording.samples.iter().map(|s| s.count).sum::<u64>()
    );
}

/// Returns the labels of a sample that pprof can express: neither empty texts nor the number 0.
fn labels(recording: &Recording, s: &Sample) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |key: &str, value: String| {
        all.insert(
            key.to_owned(),
            if value.is_empty() {
                "0".to_owned()
            } else {
                value
            },
        );
    };
    set("process", recording.names.get(s.process).to_owned());
    if let Some(pid) = s.pid {
        set("pid", pid.to_string());
    }
    if let Some(tid) = s.tid {
        set("tid", tid.to_string());
    }
    if let Some(waker) = s.waker {
        set("waker", recording.names.get(waker.process).to_owned());
        set("waker_tid", waker.tid.to_string());
    }
    all
}

/// Values by stack and labels; pprof itself merges samples that differ only in offsets.
type Totals = BTreeMap<(Named, BTreeMap<String, String>), i64>;

fn read(d: &Decoded, column: usize) -> Totals {
    let mut totals = Totals::new();
    for (stack, labels, values) in d.samples.iter().filter(|s| s.2[column] > 0) {
        *totals.entry((stack.clone(), labels.clone())).or_default() += values[column];
    }
    totals
}

proptest! {
    #[test]
    fn stacks_add_up((recording, symbols) in recordings(), inline: bool) {
        let options = WriteOptions { inline, ..WriteOptions::default() };
        let d = decode(&write(&recording, &symbols, &options));
        let mut column = 0;
        for (index, event) in recording.events.iter().enumerate() {
            // Rounded for each stack and set of labels, then added up by name.
            let rows = totals(&recording, EventId(index as u16), |s| {
                (s.stack, labels(&recording, s))
            });
            let mut expected = Totals::new();
            for ((stack, labels), value) in &rows {
                let stack = stack_names(&recording, &symbols, inline, *stack);
                *expected.entry((stack, labels.clone())).or_default() += *value as i64;
            }
            prop_assert_eq!(&read(&d, column), &expected);
            column += 1;
            let clock = event.name.starts_with("cpu-clock") || event.name.starts_with("task-clock");
            if clock && event.unit == Unit::Samples && event.period > 0 {
                prop_assert_eq!(&d.sample_types[column].1, "nanoseconds");
                for value in expected.values_mut() {
                    *value *= event.period as i64;
                }
                prop_assert_eq!(&read(&d, column), &expected);
                column += 1;
            }
        }
        prop_assert_eq!(column, d.sample_types.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn go_tool_pprof_reads_anything_written((recording, symbols) in recordings()) {
        go_pprof(&write(&recording, &symbols, &WriteOptions::default()), &["-symbolize=none", "-raw"]);
    }
}
