//! Finding and reading what runs left.

use analysis::interference::Analyser;
use profile::Interference;
use results::{Refusal, RefusalReason, failure_refusal, inconclusive_refusal};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The last run in the database.
pub fn latest() -> anyhow::Result<PathBuf> {
    let database = store::default_database();
    store::latest_interference(&database)?.ok_or_else(|| {
        let message = format!(
            "{} has no run: make one with vitalfew interference run -- COMMAND",
            database.display()
        );
        inconclusive_refusal(message)
    })
}

/// The scores of the run in a file: what was stored, or anew from its trace.
pub fn load(path: &Path) -> anyhow::Result<Interference> {
    let failed = |error: std::io::Error| Refusal {
        reason: RefusalReason::Failure,
        message: format!("{}: cannot be read: {error}", path.display()),
    };
    let mut start = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(64).read_to_end(&mut start).map_err(failed)?;
    if store::is_trace(&start) {
        return analyse(path);
    }
    let message = if !store::is_interference(&start) {
        let path = path.display();
        format!("{path}: is neither a trace nor a result of vitalfew interference run")
    } else {
        return Ok(store::read_interference(path)?);
    };
    Err(failure_refusal(message))
}

fn analyse(path: &Path) -> anyhow::Result<Interference> {
    let mut reader = store::TraceReader::open_trace(path)?;
    let head = reader.head().clone();
    let mut analyser = Analyser::new(&head.blocks, head.host.machine == "aarch64");
    while let Some(batch) = reader.next_batch()? {
        analyser.push(batch);
    }
    Ok(analyser.finish(&head))
}
