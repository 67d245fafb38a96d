//! What changed from one sample set to another.

use crate::comparison::{Background, ComparedRow, JudgedRows, RowClaim, judge_rows};
use crate::comparison_json::ComparisonForm;
use crate::refusal::inconclusive_refusal;
use crate::selection::{CompareBy, CompareOptions};
use crate::sets::{ComparedSets, Measure, load_sets};
use analysis::variation::{Change, PairComparison, PairVerdict, amount_change, share_change};
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingEvidence, Unit,
};
use serde::Serialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Reason that two sets cannot be compared.
pub const NOTHING_TO_COMPARE: &str =
    "one of the sets has no samples that match the event and filters";

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Least deviation from 1 of a common factor that is reported.
const WORTH_SAYING: f64 = 0.005;

/// A row of the difference: amounts per share of samples, run, second or unit of work.
pub struct Difference {
    /// The amounts; the second divided by what all rows have in common.
    pub amounts: [f64; 2],
    /// The change of the amount.
    pub change: Change,
    /// The factor beyond what all rows have in common; `None` of what was measured.
    pub factor: Option<Change>,
}

/// Judges the rows of two sets, those that changed most first.
pub fn judge_differences(sets: &ComparedSets) -> JudgedRows<Difference> {
    let measure = |counts: &[u64], verdict: Option<&PairVerdict>, background: &Background| {
        row_difference(sets, counts, verdict, background)
    };
    judge_rows(sets, measure, by_size)
}

impl JudgedRows<Difference> {
    /// Returns what `diff --json` says of the sets in these files.
    pub fn difference_json<'a>(
        &'a self,
        sets: &'a ComparedSets,
        by: CompareBy,
        files: &[PathBuf],
    ) -> impl Serialize {
        let form = ComparisonForm {
            schema: "vitalfew.diff/1",
            compared: true,
            confidence: Some(CONFIDENCE),
            by,
            sets: files,
        };
        self.to_json(sets, &form, json_numbers, row_claim)
    }
}

/// The procedures that changed between two recordings.
#[derive(Default)]
pub struct ChangedProcedures {
    /// A finding for each procedure that differs by more than chance, the largest change first.
    pub findings: Vec<Finding>,
    /// The procedure whose time grew most, by chance or not.
    pub most: Option<MostChanged>,
}

/// The procedure whose time grew most, with its time in each run.
#[derive(Clone, Debug, Serialize)]
pub struct MostChanged {
    /// Its name.
    pub name: String,
    /// Time in each run before, in nanoseconds.
    pub before_ns: f64,
    /// Time in each run after, in nanoseconds.
    pub after_ns: f64,
}

/// Returns the procedures that changed between two recordings. `runs` has the number of runs in
/// each recording.
///
/// # Errors
/// If they cannot be read or compared.
pub fn changed_procedures(
    recordings: [&Path; 2],
    runs: [f64; 2],
) -> anyhow::Result<ChangedProcedures> {
    let options = CompareOptions {
        work: runs.to_vec(),
        ..CompareOptions::default()
    };
    let sets = load_sets(&recordings.map(Path::to_owned), &options)?;
    let judged = judge_differences(&sets);
    let grown = |row: &&ComparedRow<Difference>| row.numbers.change.estimate;
    let most = judged.rows.iter().filter(|row| grown(row) > 0.0);
    let most = most.max_by(|a, b| grown(a).total_cmp(&grown(b)));
    let most = most.filter(|_| sets.clock).map(|row| MostChanged {
        name: row.key.name.clone(),
        before_ns: row.numbers.amounts[0],
        after_ns: row.numbers.amounts[1],
    });
    // The compared recordings are not kept, so no command can show more.
    let next = |_: &str| Vec::new();
    let findings = judged.difference_findings(&sets, CompareBy::Procedure, row_claim, next);
    Ok(ChangedProcedures { findings, most })
}

/// Compares two sets by procedure and returns the output of `diff --json`, with at most `most`
/// rows, those that differ first. Its field `amount_unit` has the unit of the amounts; empty: that
/// of the event.
///
/// # Errors
/// If they cannot be read or compared.
pub fn difference_of_files(
    files: &[PathBuf; 2],
    debug_dirs: &[PathBuf],
    most: usize,
) -> anyhow::Result<Value> {
    let options = CompareOptions {
        debug_dirs: debug_dirs.to_owned(),
        ..CompareOptions::default()
    };
    let sets = load_sets(files, &options)?;
    if sets.totals.contains(&0) {
        return Err(inconclusive_refusal(NOTHING_TO_COMPARE.to_owned()));
    }
    let mut judged = judge_differences(&sets);
    judged.rows.truncate(most);
    let by = CompareBy::Procedure;
    let mut result = serde_json::to_value(judged.difference_json(&sets, by, files))?;
    result["amount_unit"] = amount_unit(&sets).into();
    Ok(result)
}

/// Returns the unit of the amounts.
fn amount_unit(sets: &ComparedSets) -> &'static str {
    match sets.measure {
        Measure::Samples => "fraction",
        _ if sets.clock || sets.unit == Unit::Nanoseconds => "nanoseconds",
        _ => "",
    }
}

/// Returns whether B's rows are divided by a common factor.
pub fn has_common_factor(pair: &PairComparison) -> bool {
    (pair.common.estimate - 1.0).abs() >= WORTH_SAYING
}

fn row_difference(
    sets: &ComparedSets,
    counts: &[u64],
    verdict: Option<&PairVerdict>,
    background: &Background,
) -> Option<Difference> {
    let (&[a, b], &[exposure_a, exposure_b]) = (counts, sets.exposure.as_slice()) else {
        return None;
    };
    let common = match (&background.pair, sets.measure, sets.unit) {
        (_, Measure::Samples, _) | (None, ..) | (.., Unit::Nanoseconds) => 1.0,
        (Some(pair), ..) if has_common_factor(pair) => pair.common.estimate,
        (Some(_), ..) => 1.0,
    };
    let exposure = [exposure_a, exposure_b * common];
    let amounts = [a as f64 / exposure[0], b as f64 / exposure[1]];
    let estimate = amounts[1] - amounts[0];
    let noise = verdict.map_or(0.0, |verdict| verdict.noise);
    let change = match sets.unit {
        Unit::Samples if sets.measure == Measure::Samples => {
            share_change([a, b], exposure, noise, CONFIDENCE)
        }
        Unit::Samples => amount_change([a, b], exposure, noise, CONFIDENCE),
        // Measured, not sampled.
        Unit::Nanoseconds => Change {
            estimate,
            low: estimate,
            high: estimate,
        },
    };
    let factor = verdict.filter(|_| sets.unit == Unit::Samples);
    Some(Difference {
        amounts,
        change,
        factor: factor.map(|verdict| verdict.factor),
    })
}

/// Orders rows by the lower bound of their change.
fn by_size(a: &Difference, b: &Difference) -> Ordering {
    let least = |row: &Difference| row.change.conservative().abs();
    let size = |row: &Difference| row.change.estimate.abs();
    let by_size = || size(b).total_cmp(&size(a));
    least(b).total_cmp(&least(a)).then_with(by_size)
}

#[derive(Serialize)]
struct Numbers {
    a: f64,
    b: f64,
    change: f64,
    low: f64,
    high: f64,
    /// Beyond the common factor of all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor_high: Option<f64>,
}

fn json_numbers(row: &Difference) -> Numbers {
    Numbers {
        a: row.amounts[0],
        b: row.amounts[1],
        change: row.change.estimate,
        low: row.change.low,
        high: row.change.high,
        factor: row.factor.map(|factor| factor.estimate),
        factor_low: row.factor.map(|factor| factor.low),
        factor_high: row.factor.map(|factor| factor.high),
    }
}

/// Returns the claim of a row: a differing row changed by its factor, beyond the common factor of
/// all rows.
fn row_claim(row: &ComparedRow<Difference>) -> RowClaim {
    let factor = row.numbers.factor;
    let [before, after] = row.numbers.amounts;
    RowClaim {
        claim: Claim::Changed,
        amount: FindingAmount {
            value: factor.map_or(after / before, |factor| factor.estimate),
            interval: factor.map(|factor| [factor.low, factor.high]),
            unit: AmountUnit::Factor,
            relative_to: AmountBase::FirstSet,
            certainty: Certainty::Measured,
        },
        evidence: FindingEvidence::SampleCounts {
            before: row.counts.first().copied().unwrap_or(0),
            after: row.counts.get(1).copied().unwrap_or(0),
            q: row.q,
        },
    }
}
