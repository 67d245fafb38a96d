//! What threads cost each other: finding and reading what runs left, and its JSON.

use crate::claims::JsonClaims;
use crate::command::command_words;
use crate::phrases::InterferenceWords;
use crate::refusal::{failure_refusal, inconclusive_refusal};
use crate::result_kind::ResultKind;
use analysis::interference::Analyser;
use profile::Interference;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Returns the last run in the database.
///
/// # Errors
/// If there is none.
pub fn latest_run() -> anyhow::Result<PathBuf> {
    let database = store::written_database(&store::default_database());
    store::latest_interference(&database)?.ok_or_else(|| {
        let message = format!(
            "{} has no run: make one with vitalfew interference run -- COMMAND",
            database.display()
        );
        inconclusive_refusal(message)
    })
}

/// Returns the result of the run in a file: what was stored, or anew from its trace.
///
/// # Errors
/// If it cannot be read.
pub fn load_result(path: &Path) -> anyhow::Result<Interference> {
    ResultKind::Interference.expect_file(path)?;
    let failed = |error| failure_refusal(format!("{}: cannot be read: {error}", path.display()));
    let mut start = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(64).read_to_end(&mut start).map_err(failed)?;
    if store::is_trace(&start) {
        return analyse_trace(path);
    }
    if store::is_interference(&start) {
        return Ok(store::read_interference(path)?);
    }
    let path = path.display();
    let message = format!("{path}: is neither a trace nor a result of vitalfew interference run");
    Err(failure_refusal(message))
}

fn analyse_trace(path: &Path) -> anyhow::Result<Interference> {
    let mut reader = store::TraceReader::open_trace(path)?;
    let head = reader.head().clone();
    let mut analyser = Analyser::new(&head.blocks, head.host.machine == "aarch64");
    while let Some(batch) = reader.next_batch()? {
        analyser.push(batch);
    }
    Ok(analyser.finish(&head))
}

#[derive(Serialize)]
struct Json {
    schema: &'static str,
    confidence: f64,
    functions_total: usize,
    claims: JsonClaims,
    words: InterferenceWords,
    #[serde(flatten)]
    result: Interference,
}

/// Returns what `interference report --json` says of a result, with its first functions alone.
/// `file` is its name for the reader, empty if it has none.
pub fn result_json(result: &Interference, count: usize, file: &str) -> impl Serialize + use<> {
    let functions_total = result.functions.len();
    let mut result = result.clone();
    result.functions.truncate(count);
    let mut next = vec!["interference", "report", "--all"];
    next.extend((!file.is_empty()).then_some(file));
    let claims = analysis::interference::findings(&result, &command_words(&next));
    Json {
        schema: "vitalfew.interference/2",
        confidence: 0.95,
        functions_total,
        claims: JsonClaims::of_findings(claims),
        words: InterferenceWords::of_result(&result),
        result,
    }
}

/// Returns what `interference report --all --json` says of one file.
///
/// # Errors
/// If it cannot be read.
pub fn result_of_file(file: &Path) -> anyhow::Result<Value> {
    let json = result_json(&load_result(file)?, usize::MAX, &file.display().to_string());
    Ok(serde_json::to_value(json)?)
}
