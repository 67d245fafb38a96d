//! DuckDB reads a database with the queries of `docs/format.md`, and finds the written data.

#[path = "common/mod.rs"]
mod common;

use profile::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use store::Database;

/// Returns the results of the documented queries; `None` without DuckDB.
fn query(database: &Path) -> Option<Vec<serde_json::Value>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ran = Command::new("python3")
        .arg(here.join("tests/read_with_duckdb.py"))
        .arg(here.join("../../docs/format.md"))
        .arg(database)
        .output();
    let missing = match &ran {
        Err(error) => format!("python3: {error}"),
        Ok(ran) if ran.status.code() == Some(77) => String::from_utf8_lossy(&ran.stderr).into(),
        Ok(ran) => {
            assert!(
                ran.status.success(),
                "{}",
                String::from_utf8_lossy(&ran.stderr)
            );
            return Some(serde_json::from_slice(&ran.stdout).unwrap());
        }
    };
    let required = std::env::var_os("REQUIRE_LIVE").is_some_and(|required| required == "1");
    assert!(!required, "python3 with duckdb is required: {missing}");
    eprintln!("skipped: python3 with duckdb is needed (pip install duckdb): {missing}");
    None
}

/// Makes two hosts: one counts samples; the other has waits too, in nanoseconds and with stacks.
fn recordings() -> [Recording; 2] {
    let first = common::compile_job(20_000);
    let mut second = common::compile_job(3_000);
    second.host.name = "build 2".into();
    second.start_unix_ns += 1_000_000_000;
    // Its fewer samples stand for more time.
    second.events[0].period *= 10;
    let waits = Event {
        name: "offcpu".into(),
        unit: Unit::Nanoseconds,
        period: 1,
        ..second.events[0].clone()
    };
    second.events.push(waits);
    for i in 0..100 {
        let outer = second.stacks.frame(second.samples[i].stack).location;
        let inner = second.stacks.frame(second.samples[i + 1].stack).location;
        let stack = second.stacks.intern_stack(&[inner, outer]).unwrap();
        let waker = Waker {
            process: second.samples[i].process,
            tid: 5,
            stack: Some(stack),
        };
        second.samples.push(Sample {
            event: EventId(1),
            stack,
            waker: Some(waker),
            weight: 1_000_000 + i as u64,
            ..second.samples[i]
        });
    }
    [first, second]
}

/// Returns the sum of each key, greatest first, then by key: the order of the queries.
fn sums<K: Ord, const N: usize>(pairs: impl Iterator<Item = (K, [u64; N])>) -> Vec<(K, [u64; N])> {
    let mut sums = BTreeMap::new();
    for (key, values) in pairs {
        let sum = sums.entry(key).or_insert([0; N]);
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, values)| std::cmp::Reverse(values[0]));
    sums
}

fn samples(recordings: &[Recording]) -> impl Iterator<Item = (&Recording, &Sample, Location)> {
    recordings.iter().flat_map(|r| {
        let samples = r.samples.iter();
        samples.map(move |s| (r, s, r.stacks.frame(s.stack).location))
    })
}

#[test]
fn the_documented_queries_find_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let recordings = recordings();
    for recording in &recordings {
        database.write_recording(recording).unwrap();
    }
    let Some(results) = query(directory.path()) else {
        return;
    };
    assert_eq!(
        results.len(),
        4,
        "the document has other queries than this test"
    );

    let clock = samples(&recordings).filter(|(_, s, _)| s.event == EventId(0));
    let by_image = sums(clock.map(|(r, s, at)| {
        let ns = r.event(s.event).units_of_weight(s.weight);
        (r.image(at.image).path.as_str(), [ns])
    }));
    let rows: Vec<_> = by_image.iter().map(|(image, [n])| (image, n)).collect();
    assert_eq!(results[0], serde_json::json!(rows));

    let by_process = sums(samples(&recordings).map(|(r, s, _)| {
        // The encoding of directory names, which DuckDB decodes.
        ((r.host.name.as_str(), r.names.get(s.process)), [s.count])
    }));
    let rows = by_process.iter().map(|((host, name), [n])| (host, name, n));
    assert_eq!(results[1], serde_json::json!(rows.collect::<Vec<_>>()));

    let by_symbol = sums(samples(&recordings).flat_map(|(r, s, at)| {
        let here = r.symbols.iter().filter(move |symbol| {
            symbol.image == at.image && symbol.start <= at.offset && at.offset < symbol.end
        });
        here.map(move |symbol| (symbol.name.as_str(), [s.count]))
    }));
    let rows: Vec<_> = by_symbol
        .iter()
        .take(20)
        .map(|(name, [n])| (name, n))
        .collect();
    assert_eq!(rows.len(), 20);
    assert_eq!(results[2], serde_json::json!(rows));

    let epochs = recordings.iter().map(|r| {
        let count: u64 = r.samples.iter().map(|s| s.count).sum();
        (&r.host.name, r.start_unix_ns, count)
    });
    assert_eq!(results[3], serde_json::json!(epochs.collect::<Vec<_>>()));
}
