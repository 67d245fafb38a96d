//! speedscope: the file matches speedscope's own schema, and its sums equal the recording.

mod common;

use common::*;
use formats::write::{WriteOptions, speedscope};
use profile::{EventId, Recording, SymbolTable, Unit};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// `file-format-schema.json` of the npm package `speedscope` 1.25.0; see `speedscope-LICENSE`.
static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = include_str!("data/speedscope-file-format-schema.json");
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    // Its `$ref` defines a file; without it nothing would be checked.
    assert_eq!(schema["$ref"], "#/definitions/FileFormat.File");
    // Recorded stacks are sampled, never evented: without the other kind, a failure names the
    // place.
    schema["definitions"]["FileFormat.Profile"] =
        schema["definitions"]["FileFormat.SampledProfile"].clone();
    jsonschema::validator_for(&schema).unwrap()
});

fn write(recording: &Recording, symbols: &SymbolTable, options: &WriteOptions) -> Value {
    let mut out = Vec::new();
    speedscope::write_speedscope(recording, symbols, options, &mut out).unwrap();
    let file = serde_json::from_slice(&out).unwrap();
    let errors: Vec<String> = SCHEMA.iter_errors(&file).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    file
}

/// Returns stacks and their weights; checks rules that the schema cannot express.
fn read(file: &Value) -> BTreeMap<Named, u64> {
    let frames = file["shared"]["frames"].as_array().unwrap();
    let profile = &file["profiles"][0];
    let samples = profile["samples"].as_array().unwrap();
    let weights = profile["weights"].as_array().unwrap();
    assert_eq!(samples.len(), weights.len());
    let mut stacks = BTreeMap::new();
    let mut total = 0;
    for (sample, weight) in samples.iter().zip(weights) {
        let frame = |i: &Value| {
            frames[i.as_u64().unwrap() as usize]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let stack = sample.as_array().unwrap().iter().map(frame).collect();
        *stacks.entry(stack).or_insert(0) += weight.as_u64().unwrap();
        total += weight.as_u64().unwrap();
    }
    assert_eq!(profile["startValue"], 0);
    assert_eq!(profile["endValue"], total);
    stacks
}

/// Asserts that a stack does not recur after it was left, as in a tree: recurring stacks look like
/// phases of the program, but times of samples are not recorded.
fn assert_no_phases(file: &Value) {
    let samples = file["profiles"][0]["samples"].as_array().unwrap();
    let mut left = std::collections::HashSet::new();
    let mut last: &[Value] = &[];
    for sample in samples {
        let stack = sample.as_array().unwrap().as_slice();
        let common = stack.iter().zip(last).take_while(|(a, b)| a == b).count();
        for depth in common..last.len() {
            left.insert(format!("{:?}", &last[..=depth]));
        }
        for depth in common..stack.len() {
            assert!(
                !left.contains(&format!("{:?}", &stack[..=depth])),
                "{stack:?}"
            );
        }
        last = stack;
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let (recording, symbols) = small();
    let mut file = write(&recording, &symbols, &WriteOptions::default());
    file["profiles"][0]["unit"] = "parsecs".into();
    assert!(!SCHEMA.is_valid(&file));
}

#[test]
fn the_small_recording_has_all_its_parts() {
    let (recording, symbols) = small();
    let file = write(&recording, &symbols, &WriteOptions::default());
    let name = file["name"].as_str().unwrap();
    assert!(name.starts_with("cpu-clock (no time axis"), "{name}");
    assert_eq!(file["profiles"][0]["unit"], "none");
    assert_no_phases(&file);
    let stacks = read(&file);
    assert_eq!(stacks.len(), 3);
    assert_eq!(
        stacks[&["tool", "main", "hot(int)", "<T as Add>::add"]
            .map(str::to_owned)
            .to_vec()],
        42
    );
    let frames = file["shared"]["frames"].as_array().unwrap();
    let add = frames
        .iter()
        .find(|f| f["name"] == "<T as Add>::add")
        .unwrap();
    assert_eq!(add["file"], "/src/tool.rs");
    assert!(
        frames.iter().all(|f| f["name"] != "schedule"),
        "a frame of another event"
    );
    let options = WriteOptions {
        event: EventId(1),
        ..WriteOptions::default()
    };
    let file = write(&recording, &symbols, &options);
    assert_eq!(file["profiles"][0]["unit"], "nanoseconds");
    assert_eq!(file["profiles"][0]["endValue"], 1_500_000);
}

#[test]
fn an_empty_recording_is_a_valid_file() {
    let file = write(&empty(), &SymbolTable::new(), &WriteOptions::default());
    assert!(read(&file).is_empty());
}

#[test]
fn a_million_frames_are_written_in_seconds() {
    let (recording, symbols) = large();
    let start = std::time::Instant::now();
    let mut out = Vec::new();
    speedscope::write_speedscope(&recording, &symbols, &WriteOptions::default(), &mut out).unwrap();
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    let total: u64 = read(&serde_json::from_slice(&out).unwrap()).values().sum();
    assert_eq!(
        total,
        recording.samples.iter().map(|s| s.count).sum::<u64>()
    );
}

proptest! {
    #[test]
    fn stacks_add_up((recording, symbols) in recordings(), inline: bool) {
        for (index, event) in recording.events.iter().enumerate() {
            let event_id = EventId(index as u16);
            let options = WriteOptions { event: event_id, inline, ..WriteOptions::default() };
            let file = write(&recording, &symbols, &options);
            // Rounded by stack and file names: the totals of one stack may be a few roundings off.
            let expected = totals(&recording, event_id, |s| {
                let mut key = vec![process(&recording, s.process)];
                key.extend(stack_names(&recording, &symbols, inline, s.stack));
                key
            });
            assert_no_phases(&file);
            let read = read(&file);
            let exact = event.unit == Unit::Nanoseconds || event.multiplex_scale == 1.0;
            if exact {
                prop_assert_eq!(&read, &expected);
            }
            for (stack, value) in &read {
                let expected = expected.get(stack).copied().unwrap_or(0);
                prop_assert!(value.abs_diff(expected) <= 8, "{:?}: {} for {}", stack, value, expected);
            }
        }
    }
}
