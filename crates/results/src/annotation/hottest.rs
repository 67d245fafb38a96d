//! Stalls in the hottest procedures of a recording.

use super::annotator::Annotator;
use super::claims::stall_findings;
use super::select::ChosenProcedure;
use profile::{Finding, FindingEvidence, PlaceInCode};
use std::collections::BTreeMap;
use symbols::ImageSymbols;

/// Least share of the samples with which a procedure is examined.
const HOT: f64 = 0.05;
/// Maximum number of procedures that are examined.
const LOOKED_INTO: usize = 6;

impl Annotator<'_> {
    /// Returns a claim for each of the hottest procedures with a stalling instruction: the longest
    /// stall, its place first among the evidence.
    pub fn hottest_stalls(&self) -> Vec<Finding> {
        let chosen = self.selection.by_image().into_values().flatten();
        let hot = chosen.filter(|one| one.samples >= HOT * self.selection.total);
        let mut hot: Vec<_> = hot.collect();
        hot.sort_by(|a, b| b.samples.total_cmp(&a.samples));
        let stall = |one: &ChosenProcedure| {
            // Code that cannot be annotated gives no claims.
            let code = self.open_image(one).ok()?;
            let annotated = self.annotate_procedure(one, &code).ok()?;
            let stalls = stall_findings(&annotated, &[]);
            let sums = sums_of_culprits(&stalls);
            let mut finding = stalls.into_iter().next()?;
            let place = place_evidence(&finding, &code)?;
            finding.evidence.insert(0, place);
            finding.evidence.extend(sums);
            Some(finding)
        };
        hot.iter().take(LOOKED_INTO).filter_map(stall).collect()
    }
}

/// Adds up the part of all stalls of a procedure that each reason can explain.
fn sums_of_culprits(stalls: &[Finding]) -> Vec<FindingEvidence> {
    let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for evidence in stalls.iter().flat_map(|stall| &stall.evidence) {
        if let FindingEvidence::StallCulprit {
            culprit,
            least,
            most,
        } = evidence
        {
            let sum = sums.entry(culprit).or_default();
            *sum = [sum[0] + least, sum[1] + most];
        }
    }
    let sums = sums.into_iter();
    let sums = sums.map(|(culprit, [least, most])| FindingEvidence::StallSum {
        culprit: culprit.to_owned(),
        least: least.min(1.0),
        most: most.min(1.0),
    });
    sums.collect()
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
