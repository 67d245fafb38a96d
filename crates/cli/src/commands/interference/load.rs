//! Finding and reading what runs left.

use super::args::Regroup;
use analysis::interference::Analyser;
use profile::{BlockScore, Interference, TraceHead};
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
pub fn load(path: &Path, regroup: &Regroup) -> anyhow::Result<Interference> {
    let failed = |error: std::io::Error| Refusal {
        reason: RefusalReason::Failure,
        message: format!("{}: cannot be read: {error}", path.display()),
    };
    let mut start = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(64).read_to_end(&mut start).map_err(failed)?;
    if store::is_trace(&start) {
        return analyse(path, regroup);
    }
    let message = if !store::is_interference(&start) {
        let path = path.display();
        format!("{path}: is neither a trace nor a result of vitalfew interference run")
    } else if regroup.is_asked_for() {
        return Err(Refusal {
            reason: RefusalReason::Usage,
            message: format!(
                "{}: is a result without its trace, from which nothing can be computed anew: run again without --no-trace",
                path.display()
            ),
        }
        .into());
    } else {
        return Ok(store::read_interference(path)?);
    };
    Err(failure_refusal(message))
}

fn analyse(path: &Path, regroup: &Regroup) -> anyhow::Result<Interference> {
    let mut reader = store::TraceReader::open_trace(path)?;
    let head = reader.head().clone();
    let notes = unmatched(&head, regroup)?;
    let costs = head.events.iter().map(|event| event.cost);
    let options = analysis::interference::Options {
        aarch64: head.host.machine == "aarch64",
        ..regroup.options(head.call_overhead, costs.collect())
    };
    let mut analyser = Analyser::new(&head.blocks, options);
    while let Some(batch) = reader.next_batch()? {
        analyser.push(batch);
    }
    let mut result = analyser.finish(&head);
    result.warnings.extend(notes);
    Ok(result)
}

/// Names that match nothing are mistakes; arguments that were not recorded cannot be used.
fn unmatched(head: &TraceHead, regroup: &Regroup) -> Result<Vec<String>, Refusal> {
    let options = regroup.options(0, Vec::new());
    let asked = options.arguments.iter().map(|(pattern, _)| pattern);
    for pattern in asked.chain(&options.exclude) {
        if !head.blocks.iter().any(|block| pattern.matches(&block.name)) {
            return Err(unknown(head, pattern.as_str()));
        }
    }
    let mut notes = Vec::new();
    for (pattern, numbers) in &options.arguments {
        for block in head.blocks.iter().filter(|b| pattern.matches(&b.name)) {
            for number in numbers.iter().filter(|n| !block.arguments.contains(n)) {
                notes.push(format!(
                    "argument {number} of {} was not recorded: run again with --args '{}={number}'",
                    block.name, block.name
                ));
            }
        }
    }
    Ok(notes)
}

fn unknown(head: &TraceHead, name: &str) -> Refusal {
    let mut near: Vec<(usize, &str)> = head
        .blocks
        .iter()
        .map(|block| (distance(&block.name, name), block.name.as_str()))
        .collect();
    near.sort_unstable();
    near.dedup();
    let near: Vec<&str> = near.into_iter().map(|(_, name)| name).take(3).collect();
    Refusal {
        reason: RefusalReason::Usage,
        message: format!(
            "no traced function matches '{name}'; there are: {}",
            near.join(", ")
        ),
    }
}

/// Returns how different two names are: what they do not begin with alike.
fn distance(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    a.chars().count() + b.chars().count() - 2 * same
}

/// The file name of an image.
pub fn image(block: &BlockScore) -> &str {
    block.image.rsplit('/').next().unwrap_or(&block.image)
}
