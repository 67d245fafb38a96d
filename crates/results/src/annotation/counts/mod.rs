//! Counts of the same program by other tools (`--counts`), and their part for a procedure.

mod lines;

pub use lines::{CountedLines, UsedLines};

use crate::refusal::usage_refusal;
use formats::counts::callgrind;
use formats::counts::{ExecutionCounts, LineCounts, read_counts};
use formats::read::{BranchStacks, ReadLimits};
use std::path::PathBuf;

/// The given counts.
#[derive(Default)]
pub struct GivenCounts {
    /// Counts of instructions.
    pub instructions: Option<callgrind::CallgrindCounts>,
    /// Branch stacks of samples.
    pub branches: Option<BranchStacks>,
    /// Counts of source lines.
    pub lines: Option<LineCounts>,
}

impl GivenCounts {
    /// Reads files.
    ///
    /// # Errors
    /// If one cannot be read, or two are of a kind that cannot be summed.
    pub fn read_files(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut given = Self::default();
        for path in paths {
            let twice = match read_counts(path, &ReadLimits::default())? {
                ExecutionCounts::Instructions(counts) => {
                    given.instructions.replace(counts).is_some()
                }
                ExecutionCounts::Branches(stacks) => given.branches.replace(stacks).is_some(),
                ExecutionCounts::Lines(more) => {
                    given.lines.get_or_insert_default().merge_counts(more);
                    false
                }
            };
            if twice {
                let path = path.display();
                return Err(usage_refusal(format!(
                    "{path}: give one file of callgrind, and one of perf; only counts of lines are added up"
                )));
            }
        }
        Ok(given)
    }

    /// Returns whether there are execution counts, which are comparable with time only if the clock
    /// is known.
    pub fn has_executions(&self) -> bool {
        self.instructions.is_some() || self.lines.is_some()
    }
}
