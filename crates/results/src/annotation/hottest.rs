//! Stalls in the hottest procedures of a recording.

use super::annotator::Annotator;
use super::claims::stall_findings;
use super::select::ChosenProcedure;
use profile::{Finding, FindingEvidence, PlaceInCode};
use symbols::ImageSymbols;

/// Least share of the samples in a procedure that is examined.
const HOT: f64 = 0.05;
/// Largest number of procedures that are examined.
const LOOKED_INTO: usize = 6;

impl Annotator<'_> {
    /// Returns a claim for each of the hottest procedures in which an instruction stalls: the longest stall, its place first among
    /// the evidence.
    pub fn hottest_stalls(&self) -> Vec<Finding> {
        let chosen = self.selection.by_image().into_values().flatten();
        let hot = chosen.filter(|one| one.samples >= HOT * self.selection.total);
        let mut hot: Vec<_> = hot.collect();
        hot.sort_by(|a, b| b.samples.total_cmp(&a.samples));
        let stall = |one: &ChosenProcedure| {
            // What cannot be annotated says nothing of stalls.
            let code = self.open_image(one).ok()?;
            let annotated = self.annotate_procedure(one, &code).ok()?;
            let mut finding = stall_findings(&annotated, &[]).into_iter().next()?;
            let place = place_evidence(&finding, &code)?;
            finding.evidence.insert(0, place);
            Some(finding)
        };
        hot.iter().take(LOOKED_INTO).filter_map(stall).collect()
    }
}

fn place_evidence(finding: &Finding, code: &ImageSymbols) -> Option<FindingEvidence> {
    let PlaceInCode::Instruction { procedure, address } = &finding.place.what else {
        return None;
    };
    Some(FindingEvidence::HotInstruction {
        procedure: procedure.clone(),
        address: *address,
        line: line_of(code, *address),
        part: finding.amount.value,
    })
}

fn line_of(code: &ImageSymbols, address: u64) -> Option<String> {
    let debug = code.debug_info().ok()??;
    let frames = debug
        .source_frames(profile::ImageAddress(address), None)
        .ok()?;
    let frame = frames.into_iter().next()?;
    let (file, line) = (frame.file?, frame.line?);
    let short = file.rsplit('/').next().unwrap_or(&file);
    Some(format!("{short}:{line}"))
}
