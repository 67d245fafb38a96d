//! What other tools counted of the same program (`--counts`), and what of it is about a procedure.

mod lines;

pub use lines::{CountedLines, UsedLines};

use crate::refusal::usage_refusal;
use formats::counts::callgrind;
use formats::counts::{Counts, LineCounts, read};
use formats::read::{BranchStacks, Limits};
use std::path::PathBuf;

/// The counts that were given.
#[derive(Default)]
pub struct GivenCounts {
    /// Of instructions.
    pub instructions: Option<callgrind::Counts>,
    /// Branches before samples.
    pub branches: Option<BranchStacks>,
    /// Of source lines.
    pub lines: Option<LineCounts>,
}

impl GivenCounts {
    /// Reads files.
    ///
    /// # Errors
    /// If one cannot be read, or two are of a kind that cannot be added up.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut given = Self::default();
        for path in paths {
            let twice = match read(path, &Limits::default())? {
                Counts::Instructions(counts) => given.instructions.replace(counts).is_some(),
                Counts::Branches(stacks) => given.branches.replace(stacks).is_some(),
                Counts::Lines(more) => {
                    given.lines.get_or_insert_default().join(more);
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

    /// Returns whether it has executions, which compare with time only if the clock is known.
    pub fn has_executions(&self) -> bool {
        self.instructions.is_some() || self.lines.is_some()
    }
}
