//! How often code ran, as other tools count it: each instruction ([`callgrind`]),
//! source lines ([`LineCounts`]: gcov, lcov), or the last branches at samples ([`BranchStacks`]:
//! perf).

pub mod callgrind;
mod lines;

pub use lines::LineCounts;

use crate::read::error::Fault;
use crate::read::input::Input;
use crate::read::{BranchStacks, Limits, ReadError};
use std::path::Path;

/// What a file has counted.
#[derive(Clone, Debug)]
pub enum Counts {
    /// Executions of each instruction.
    Instructions(callgrind::Counts),
    /// Branches before samples.
    Branches(BranchStacks),
    /// Executions of source lines.
    Lines(LineCounts),
}

/// Why counts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of callgrind's.
    #[error(transparent)]
    Callgrind(#[from] callgrind::Error),
    /// Of others.
    #[error(transparent)]
    Other(#[from] ReadError),
}

/// The beginnings of files that have counts only together with another, and what makes text of
/// both.
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

/// Reads a file, compressed or not; which tool wrote it is told by its content.
///
/// # Errors
/// If it cannot be read, is damaged, exceeds the limits, or has no counts that can be used.
pub fn read(path: &Path, limits: &Limits) -> Result<Counts, Error> {
    let fault = |fault: Fault| Error::from(fault.of(path, "counts"));
    let mut input = Input::open(path, limits).map_err(fault)?;
    let head = input.head();
    if let Some((_, what)) = BINARY.iter().find(|(start, _)| head.starts_with(start)) {
        return Err(fault(Fault::Lacks((*what).to_owned())));
    }
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Ok(Counts::Branches(BranchStacks::read(path, limits)?));
    }
    let text = String::from_utf8_lossy(head).into_owned();
    if text.trim_start().starts_with('{') {
        let lines = LineCounts::gcov(&mut input, limits);
        return lines.map(Counts::Lines).map_err(fault);
    }
    // llvm-profdata's text form.
    if text.starts_with(":ir") || text.starts_with(":fe") || text.contains("\n# Func Hash:") {
        return Err(fault(Fault::Lacks(LLVM.to_owned())));
    }
    if ["TN:", "SF:"].iter().any(|start| text.starts_with(start)) {
        let lines = LineCounts::lcov(&mut input, limits);
        return lines.map(Counts::Lines).map_err(fault);
    }
    let counts = callgrind::Counts::parse(path, &mut input)?;
    Ok(Counts::Instructions(counts))
}
