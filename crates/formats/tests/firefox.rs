//! The Firefox Profiler. No schema of its format is published, so the tables are checked against
//! its type definitions. If Mozilla's own `profiler-cli` is installed (npm
//! `@firefox-devtools/profiler-cli`, Node 24), it loads the profile; the environment variable
//! `PROFILER_CLI` can name it.

mod common;

use common::*;
use flate2::read::GzDecoder;
use formats::write::{WriteOptions, firefox};
use profile::{EventId, ImageKind, Recording, Sample, SymbolTable, Unit};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::Command;

fn write(recording: &Recording, symbols: &SymbolTable, options: &WriteOptions) -> Vec<u8> {
    let mut out = Vec::new();
    firefox::write_firefox(recording, symbols, options, &mut out).unwrap();
    out
}

fn json(recording: &Recording, symbols: &SymbolTable, options: &WriteOptions) -> Value {
    serde_json::from_slice(&write(recording, symbols, options)).unwrap()
}

/// The columns of each shared table, and their contents: an index into another table, `#` a number,
/// `b` a truth value, `0` nothing; `?` allows null, `-` allows -1.
const TABLES: [(&str, &[(&str, &str)]); 6] = [
    (
        "sources",
        &[
            ("id", "0"),
            ("filename", "stringArray"),
            ("startLine", "#"),
            ("startColumn", "#"),
            ("sourceMapURL", "0"),
        ],
    ),
    (
        "stackTable",
        &[("prefix", "?stackTable"), ("frame", "frameTable")],
    ),
    (
        "frameTable",
        &[
            ("address", "-#"),
            ("inlineDepth", "#"),
            ("category", "categories"),
            ("subcategory", "#"),
            ("func", "funcTable"),
            ("nativeSymbol", "?nativeSymbols"),
            ("innerWindowID", "#"),
            ("line", "?#"),
            ("column", "0"),
        ],
    ),
    (
        "funcTable",
        &[
            ("name", "stringArray"),
            ("isJS", "b"),
            ("relevantForJS", "b"),
            ("resource", "-resourceTable"),
            ("source", "?sources"),
            ("lineNumber", "0"),
            ("columnNumber", "0"),
        ],
    ),
    (
        "resourceTable",
        &[
            ("lib", "libs"),
            ("name", "stringArray"),
            ("host", "0"),
            ("type", "#"),
        ],
    ),
    (
        "nativeSymbols",
        &[
            ("libIndex", "libs"),
            ("address", "#"),
            ("name", "stringArray"),
            ("functionSize", "?#"),
        ],
    ),
];

fn length(profile: &Value, table: &str) -> usize {
    match table {
        "libs" => profile["libs"].as_array().unwrap().len(),
        "categories" => profile["meta"]["categories"].as_array().unwrap().len(),
        "stringArray" => profile["shared"]["stringArray"].as_array().unwrap().len(),
        table => profile["shared"][table]["length"].as_u64().unwrap() as usize,
    }
}

fn check_cell(profile: &Value, cell: &Value, holds: &str, at: &str) {
    let (nullable, none) = (holds.starts_with('?'), holds.starts_with('-'));
    let right = match holds.trim_start_matches(['?', '-']) {
        "0" => cell.is_null(),
        "b" => cell.is_boolean(),
        "#" => cell.is_u64(),
        table => cell
            .as_u64()
            .is_some_and(|i| (i as usize) < length(profile, table)),
    };
    assert!(
        right || (nullable && cell.is_null()) || (none && *cell == -1),
        "{at}: {cell}"
    );
}

/// Checks all demands of the format's type definitions.
fn check(profile: &Value) {
    for (table, columns) in TABLES {
        let length = length(profile, table);
        let table_json = profile["shared"][table].as_object().unwrap();
        assert_eq!(table_json.len(), columns.len() + 1, "columns of {table}");
        for (column, holds) in columns {
            let cells = table_json[*column].as_array().unwrap();
            assert_eq!(cells.len(), length, "{table}.{column}");
            for cell in cells {
                check_cell(profile, cell, holds, &format!("{table}.{column}"));
            }
        }
    }
    for (index, prefix) in profile["shared"]["stackTable"]["prefix"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        assert!(
            prefix.as_u64().is_none_or(|p| (p as usize) < index),
            "a caller after its callee"
        );
    }
    let meta = &profile["meta"];
    assert_eq!(meta["preprocessedProfileVersion"], 61);
    assert_eq!(meta["symbolicated"], true);
    assert_eq!(meta["categories"][0]["color"], "grey");
    for key in [
        "interval",
        "startTime",
        "processType",
        "product",
        "stackwalk",
        "version",
        "markerSchema",
    ] {
        assert!(!meta[key].is_null(), "meta.{key}");
    }
    for lib in profile["libs"].as_array().unwrap() {
        assert_eq!(lib["breakpadId"].as_str().unwrap().len(), 33);
        for key in ["arch", "name", "path", "debugName", "debugPath"] {
            assert!(lib[key].is_string(), "lib.{key}");
        }
    }
    let mut tids = BTreeSet::new();
    for thread in profile["threads"].as_array().unwrap() {
        assert!(
            tids.insert(thread["tid"].as_str().unwrap()),
            "two threads of one id"
        );
        assert!(thread["pid"].is_string() && thread["isMainThread"].is_boolean());
        assert_eq!(thread["markers"]["length"], 0);
        check_samples(profile, &thread["samples"]);
    }
}

fn check_samples(profile: &Value, samples: &Value) {
    let length = samples["length"].as_u64().unwrap() as usize;
    assert!(length > 0);
    let column = |name: &str| {
        let column = samples[name].as_array().unwrap();
        assert_eq!(column.len(), length, "samples.{name}");
        column
    };
    for stack in column("stack") {
        check_cell(profile, stack, "stackTable", "samples.stack");
    }
    let times: Vec<f64> = column("time").iter().map(|t| t.as_f64().unwrap()).collect();
    // Times are not recorded, so no order is claimed.
    assert_eq!(times, vec![0.0; length]);
    assert_eq!(
        profile["meta"]["profilingEndTime"],
        profile["meta"]["interval"]
    );
    let product = profile["meta"]["product"].as_str().unwrap();
    assert!(product.ends_with("(no time axis)"), "{product}");
    assert!(column("weight").iter().all(|w| w.as_f64().unwrap() > 0.0));
}

/// Returns weights by process name, thread name, pid, and names of the frames outermost first;
/// nanoseconds for measured time.
fn read(profile: &Value) -> BTreeMap<(String, String, Named), u64> {
    let shared = &profile["shared"];
    let index = |table: &str, column: &str, row: usize| {
        shared[table][column][row].as_u64().map(|i| i as usize)
    };
    let mut totals = BTreeMap::new();
    for thread in profile["threads"].as_array().unwrap() {
        let samples = &thread["samples"];
        for row in 0..samples["length"].as_u64().unwrap() as usize {
            let mut names = Vec::new();
            let mut stack = samples["stack"][row].as_u64().map(|s| s as usize);
            while let Some(s) = stack {
                let func = index(
                    "frameTable",
                    "func",
                    index("stackTable", "frame", s).unwrap(),
                )
                .unwrap();
                let name = index("funcTable", "name", func).unwrap();
                names.push(shared["stringArray"][name].as_str().unwrap().to_owned());
                stack = index("stackTable", "prefix", s);
            }
            names.reverse();
            let weight = match samples["weightType"].as_str().unwrap() {
                "samples" => samples["weight"][row].as_u64().unwrap(),
                "tracing-ms" => (samples["weight"][row].as_f64().unwrap() * 1e6).round() as u64,
                other => panic!("{other}"),
            };
            let text = |key: &str| thread[key].as_str().unwrap().to_owned();
            *totals
                .entry((text("pid"), text("name"), names))
                .or_insert(0) += weight;
        }
    }
    totals
}

/// A `profiler-cli` that keeps its session in a folder; stopped on drop.
struct Session<'a>(&'a Path);

impl Session<'_> {
    /// Runs it; prints a note and returns `None` if it is not installed.
    fn run(&self, args: &[&str]) -> Option<String> {
        let program = std::env::var("PROFILER_CLI").unwrap_or_else(|_| "profiler-cli".to_owned());
        let mut command = Command::new(&program);
        let run = command
            .args(args)
            .env("PROFILER_CLI_SESSION_DIR", self.0)
            .output();
        let output = match run {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("{program} is not installed: not checked with the Firefox Profiler");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        Some(text(&output.stdout))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let program = std::env::var("PROFILER_CLI").unwrap_or_else(|_| "profiler-cli".to_owned());
        let mut command = Command::new(program);
        // A failure is ignored at the end.
        let _ = command
            .arg("stop")
            .env("PROFILER_CLI_SESSION_DIR", self.0)
            .output();
    }
}

#[test]
fn the_firefox_profiler_shows_it() {
    let (recording, symbols) = small();
    let options = WriteOptions {
        gzip: true,
        ..WriteOptions::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json.gz");
    std::fs::write(&path, write(&recording, &symbols, &options)).unwrap();
    let session = Session(folder.path());
    if session.run(&["load", path.to_str().unwrap()]).is_none() {
        return;
    }
    let shown: Vec<String> = [
        &["profile", "info", "--all"][..],
        &["thread", "samples-top-down", "--thread", "t-2"],
        &["thread", "samples", "--thread", "t-2"],
        &["profile", "meta"],
    ]
    .iter()
    .filter_map(|args| session.run(args))
    .collect();
    let shown = shown.join("\n");
    for words in [
        "p-1: kworker/0:1 [pid kworker/0:1]",
        "t-3: tool [tid 71]",
        "tool!main [total: 100.0%, self: 0.0%]",
        "f-1. tool!<T as Add>::add - self: 30 (100.0%)",
        "tool!<T as Add>::add (inl)",
        "Time axis: none",
        "Warning: no hardware counters",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
}

#[test]
fn the_small_recording_has_all_its_parts() {
    let (recording, symbols) = small();
    let profile = json(&recording, &symbols, &WriteOptions::default());
    check(&profile);
    let key = |pid: &str, name: &str, stack: &[&str]| {
        let stack: Named = stack.iter().map(|s| (*s).to_owned()).collect();
        (pid.to_owned(), name.to_owned(), stack)
    };
    let expected = [
        (
            key("70", "tool", &["main", "hot(int)", "<T as Add>::add"]),
            42,
        ),
        (key("kworker/0:1", "kworker/0:1", &["[unknown]"]), 3),
        (key("tool", "tool", &["main", "libc.so.6+0x88"]), 5),
    ];
    assert_eq!(read(&profile), BTreeMap::from(expected));
    let tids: Vec<&str> = profile["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["tid"].as_str().unwrap())
        .collect();
    assert_eq!(tids, ["tool", "kworker/0:1", "70", "71"]);
    assert_eq!(
        profile["meta"]["extra"][0]["entries"][0]["label"],
        "Time axis"
    );
    let shared = &profile["shared"];
    let lines: Vec<Option<u64>> = shared["frameTable"]["line"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_u64)
        .collect();
    assert!(lines.contains(&Some(7)) && lines.contains(&Some(99)));
    assert_eq!(profile["libs"][0]["codeId"], "ab".repeat(20));
}

#[test]
fn inlined_calls_share_an_address_and_count_inwards() {
    let (recording, symbols) = small();
    let profile = json(&recording, &symbols, &WriteOptions::default());
    let frames = &profile["shared"]["frameTable"];
    let column = |name: &str| frames[name].as_array().unwrap().clone();
    let inlined: Vec<(Value, Value, Value)> = column("address")
        .into_iter()
        .zip(column("inlineDepth"))
        .zip(column("line"))
        .map(|((a, d), l)| (a, d, l))
        .filter(|(address, ..)| *address == 0x1234)
        .collect();
    let row = |depth: u64, line: u64| (Value::from(0x1234), Value::from(depth), Value::from(line));
    assert_eq!(inlined, [row(1, 7), row(0, 41)]);
}

#[test]
fn an_empty_recording_is_a_valid_profile() {
    let profile = json(&empty(), &SymbolTable::new(), &WriteOptions::default());
    check(&profile);
    assert!(read(&profile).is_empty());
}

#[test]
fn compressed_or_not_it_is_the_same() {
    let (recording, symbols) = small();
    let plain = write(&recording, &symbols, &WriteOptions::default());
    let options = WriteOptions {
        gzip: true,
        ..WriteOptions::default()
    };
    let mut unpacked = Vec::new();
    GzDecoder::new(&*write(&recording, &symbols, &options))
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(plain, unpacked);
}

#[test]
fn a_million_frames_are_written_in_seconds() {
    let (recording, symbols) = large();
    let start = std::time::Instant::now();
    let bytes = write(&recording, &symbols, &WriteOptions::default());
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    let profile: Value = serde_json::from_slice(&bytes).unwrap();
    let weights = profile["threads"][0]["samples"]["weight"]
        .as_array()
        .unwrap();
    let total: u64 = weights.iter().map(|w| w.as_u64().unwrap()).sum();
    assert_eq!(
        total,
        recording.samples.iter().map(|s| s.count).sum::<u64>()
    );
}

proptest! {
    #[test]
    fn stacks_add_up((recording, symbols) in recordings(), inline: bool) {
        for (index, event) in recording.events.iter().enumerate() {
            let id = EventId(index as u16);
            let options = WriteOptions { event: id, inline, ..WriteOptions::default() };
            let profile = json(&recording, &symbols, &options);
            check(&profile);
            let key = |s: &Sample| {
                let name = process(&recording, s.process);
                let pid = s.pid.map_or_else(|| name.clone(), |pid| pid.to_string());
                (pid, name, stack_names(&recording, &symbols, inline, s.stack))
            };
            let (read, expected) = (read(&profile), totals(&recording, id, key));
            if event.unit == Unit::Nanoseconds || event.multiplex_scale == 1.0 {
                prop_assert_eq!(&read, &expected);
            }
            // Rounded by thread and by place, so a few roundings off if names are equal.
            for (key, value) in &read {
                let expected = expected.get(key).copied().unwrap_or(0);
                prop_assert!(value.abs_diff(expected) <= 30, "{:?}: {} for {}", key, value, expected);
            }
            let kernel = recording.images.iter().any(|i| matches!(i.kind, ImageKind::Kernel | ImageKind::KernelModule));
            let categories = profile["shared"]["frameTable"]["category"].as_array().unwrap();
            prop_assert!(kernel || categories.iter().all(|c| *c == 1));
        }
    }
}
