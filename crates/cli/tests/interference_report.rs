//! `vitalfew interference report` on synthetic traces.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use profile::{CauseKind, Interference, TraceBatch};
use simulate::*;
use std::path::Path;
use std::process::{Command, Output};

fn report(args: &[&str], database: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vitalfew"));
    command.args(["interference", "report"]).args(args);
    command
        .env("VITALFEW_DB", database)
        .output()
        .expect("vitalfew runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn write(trace: &Trace, path: &Path) {
    let mut writer = store::TraceWriter::create_file(path).unwrap();
    for batch in batches(trace) {
        writer.write_batch(&batch).unwrap();
    }
    writer.finish_trace(&trace.head).unwrap();
}

fn batches(trace: &Trace) -> Vec<TraceBatch> {
    trace.batches(TICKS_PER_SECOND / 20, usize::MAX)
}

/// The files for transcripts come from the simulation. To make them anew: OVERWRITE=1.
#[test]
fn fixtures_are_what_is_simulated() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interference");
    let all = [
        ("lock.trace", contended_lock(4, 1_000, 10 * US, 4 * US)),
        ("alone.trace", alone(0.4)),
    ];
    for (name, trace) in all {
        let path = directory.join(name);
        if std::env::var_os("OVERWRITE").is_some() {
            write(&trace, &path);
        }
        let mut reader = store::TraceReader::open_trace(&path).unwrap();
        assert_eq!(*reader.head(), trace.head);
        let mut read = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            read.extend(batch.items.iter().map(|item| (batch.thread, item.clone())));
        }
        let made = batches(&trace).into_iter();
        let made = made.flat_map(|batch| {
            batch
                .items
                .into_iter()
                .map(move |item| (batch.thread, item))
        });
        assert!(made.eq(read), "{name}");
    }
}

#[test]
fn json_has_the_documented_fields_and_the_last_run_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let none = report(&[], &database);
    assert_eq!(none.status.code(), Some(4));
    assert!(text(&none.stderr).contains("has no run: make one"));

    let trace = pool(4, 3_000, 20 * US);
    write(
        &trace,
        &store::interference_path(
            &database,
            1_700_000_000_000_000_000,
            store::StoredResult::Trace,
        ),
    );
    let output = report(&["--json", "--limit", "2"], &database);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "vitalfew.interference/2");
    assert_eq!(json["functions_total"], 3);
    let words = &json["words"];
    let verdict = "interference was not measured: no thread ran alone";
    assert_eq!(words["verdict"], verdict);
    assert_eq!(words["causes"].as_array().map(Vec::len), Some(2));
    assert_eq!(words["waits"]["pool"], CauseKind::Pool.label());
    let result: Interference = serde_json::from_value(json).unwrap();
    assert_eq!(result.functions.len(), 2);
    assert_eq!(result.functions[0].name, "read");
    assert_eq!(result.functions[0].waits[0].kind, CauseKind::Pool);

    // The same from a stored result.
    let stored = directory.path().join("run.json");
    store::write_interference(&result, &stored).unwrap();
    let stored = stored.to_str().unwrap();
    let again = report(&[stored, "--json"], &database);
    let again: Interference = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again, result);
}

/// An error that names the file, and an exit code for its kind; no panic.
#[test]
fn bad_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.trace");
    let trace = contended_lock(2, 200, 10 * US, 4 * US);
    write(&trace, &path);
    let bytes = std::fs::read(&path).unwrap();
    let cut = &bytes[..bytes.len() / 2];
    let mut changed = bytes.clone();
    changed[100] ^= 4;
    let cases: [(&[u8], &str); 5] = [
        (cut, "the end of the trace is missing"),
        (&changed, "the chunk at offset 16"),
        (b"", "is neither a trace nor a result"),
        (b"VFTRACE\0", "the file ends here, at offset 0"),
        (
            b"{\"format\":\"vitalfew-interference\",\"version\":9,\"crc32\":0,\"result\":{}}",
            "upgrade it",
        ),
    ];
    for (bytes, what) in cases {
        std::fs::write(&path, bytes).unwrap();
        let output = report(&[path.to_str().unwrap()], directory.path());
        assert_eq!(output.status.code(), Some(1));
        let message = text(&output.stderr);
        assert!(
            message.contains("bad.trace") && message.contains(what),
            "{message}"
        );
        assert!(output.stdout.is_empty() && !message.contains("panicked"));
    }
}
