//! Execution counts of other tools: of each instruction ([`callgrind`]), of source lines
//! ([`LineCounts`]: gcov, lcov), or of the last branches at samples ([`BranchStacks`]: perf).

pub mod callgrind;
mod lines;

pub use lines::LineCounts;

use crate::read::error::ReadFault;
use crate::read::input::ProfileInput;
use crate::read::{BranchStacks, ReadError, ReadLimits};
use std::path::Path;

/// The counts of a file.
#[derive(Clone, Debug)]
pub enum ExecutionCounts {
    /// Executions of each instruction.
    Instructions(callgrind::CallgrindCounts),
    /// Branches before samples.
    Branches(BranchStacks),
    /// Executions of source lines.
    Lines(LineCounts),
}

/// Reason that counts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CountsError {
    /// An error of callgrind's reader.
    #[error(transparent)]
    Callgrind(#[from] callgrind::CallgrindError),
    /// An error of another reader.
    #[error(transparent)]
    Other(#[from] ReadError),
}

/// First bytes of files whose counts need a second file, and the tool that converts both to text.
const BINARY: [(&[u8], &str); 7] = [
    (b"adcg", GCOV),
    (b"gcda", GCOV),
    (b"oncg", GCOV),
    (b"gcno", GCOV),
    (b"        -:", GCOV),
    (b"\xfflprofi\x81", LLVM),
    (b"\x81rforpl\xff", LLVM),
];
const GCOV: &str = "gcov's own; give what gcov --json-format --stdout writes of the .gcda files";
const LLVM: &str = "llvm-profdata's own, which names no lines; give what llvm-cov export -format=lcov \
                    -instr-profile=FILE.profdata PROGRAM writes";

/// Reads a file, compressed or not; its content tells which tool wrote it.
///
/// # Errors
/// If it cannot be read, is damaged, exceeds the limits, or has no usable counts.
pub fn read_counts(path: &Path, limits: &ReadLimits) -> Result<ExecutionCounts, CountsError> {
    let fault = |fault: ReadFault| CountsError::from(fault.in_file(path, "counts"));
    let mut input = ProfileInput::open_file(path, limits).map_err(fault)?;
    let head = input.first_bytes();
    if let Some((_, what)) = BINARY.iter().find(|(start, _)| head.starts_with(start)) {
        return Err(fault(ReadFault::Lacks((*what).to_owned())));
    }
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Ok(ExecutionCounts::Branches(BranchStacks::read_file(
            path, limits,
        )?));
    }
    let text = String::from_utf8_lossy(head).into_owned();
    if text.trim_start().starts_with('{') {
        let lines = LineCounts::read_gcov(&mut input, limits);
        return lines.map(ExecutionCounts::Lines).map_err(fault);
    }
    // llvm-profdata's text form.
    if text.starts_with(":ir") || text.starts_with(":fe") || text.contains("\n# Func Hash:") {
        return Err(fault(ReadFault::Lacks(LLVM.to_owned())));
    }
    if ["TN:", "SF:"].iter().any(|start| text.starts_with(start)) {
        let lines = LineCounts::read_lcov(&mut input, limits);
        return lines.map(ExecutionCounts::Lines).map_err(fault);
    }
    let counts = callgrind::CallgrindCounts::parse_callgrind(path, &mut input)?;
    Ok(ExecutionCounts::Instructions(counts))
}
