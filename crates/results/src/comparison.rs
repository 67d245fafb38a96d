//! Rows of compared sets that differ by more than chance.

use crate::matching::RowKey;
use crate::selection::CompareBy;
use crate::sets::ComparedSets;
use analysis::variation::{
    Noise, PairComparison, PairRow, PairVerdict, RowOrigin, benjamini_hochberg, common_factors,
    compare_pair,
};
use profile::{
    Claim, Finding, FindingAmount, FindingDoubt, FindingEvidence, FindingPlace, PlaceInCode, Unit,
};
use std::cmp::Ordering;

/// The allowed rate of false discoveries among the rows that are called different.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// A row of the result, with the command's numbers.
pub struct ComparedRow<T> {
    /// The key of the row.
    pub key: RowKey,
    /// The command's numbers.
    pub numbers: T,
    /// q-value; `None` if not tested.
    pub q: Option<f64>,
    /// Samples, or nanoseconds, in each set.
    pub counts: Vec<u64>,
}

impl<T> ComparedRow<T> {
    /// Returns the row's place, for a finding about it.
    fn finding_place(&self, by: CompareBy) -> FindingPlace {
        let name = self.key.name.clone();
        let what = match by {
            CompareBy::Image => PlaceInCode::File { path: name },
            CompareBy::Procedure => PlaceInCode::Procedure { name },
            CompareBy::Line => PlaceInCode::Line {
                line: name,
                procedure: self.key.detail.clone().unwrap_or_default(),
            },
            CompareBy::Path => PlaceInCode::CallPath {
                path: name.split(';').map(str::to_owned).collect(),
            },
        };
        FindingPlace {
            image: self.key.image.clone(),
            what,
        }
    }

    /// Returns whether it differs by more than chance.
    pub fn differs(&self) -> bool {
        self.q.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }
}

/// Differences between sets that are no change of a row.
#[derive(Clone, Debug)]
pub struct Background {
    /// The comparison of two sets.
    pub pair: Option<PairComparison>,
    /// Relative deviation of the program's rows from run to run.
    pub noise: f64,
    /// Number of rows behind the estimates.
    pub informative: usize,
}

/// The judged rows, and their numbers by kind.
pub struct JudgedRows<T> {
    /// The rows: first those that differ, then the other tested ones, then the rest.
    pub rows: Vec<ComparedRow<T>>,
    /// The common factor and noise that rows were tested against.
    pub background: Background,
    /// Number of all rows.
    pub found: usize,
    /// Number of rows with enough samples to be tested.
    pub tested: usize,
    /// Number of rows that differ by more than chance.
    pub different: usize,
}

/// Tests the rows. `measure` returns a row's numbers, or `None` to leave it out; it receives the
/// row's verdict if there are two sets. `order` sorts rows that the test does not distinguish.
pub fn judge_rows<T>(
    sets: &ComparedSets,
    measure: impl Fn(&[u64], Option<&PairVerdict>, &Background) -> Option<T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> JudgedRows<T> {
    let (background, p) = test_rows(sets);
    let sampled = sets.unit == Unit::Samples;
    let p: Vec<Option<f64>> = p.into_iter().map(|p| p.filter(|_| sampled)).collect();
    let q = benjamini_hochberg(&p);
    let numbered = sets.rows.iter().zip(q).enumerate();
    let judged = numbered.filter_map(|(index, ((key, counts), q))| {
        let verdict = background
            .pair
            .as_ref()
            .and_then(|pair| pair.rows.get(index));
        let numbers = measure(counts, verdict, &background)?;
        Some(ComparedRow {
            key: key.clone(),
            numbers,
            q,
            counts: counts.clone(),
        })
    });
    let mut rows: Vec<ComparedRow<T>> = judged.collect();
    rows.sort_by(|a, b| {
        b.differs()
            .cmp(&a.differs())
            .then(b.q.is_some().cmp(&a.q.is_some()))
            .then_with(|| order(&a.numbers, &b.numbers))
            .then_with(|| a.key.cmp(&b.key))
    });
    JudgedRows {
        background,
        found: rows.len(),
        tested: rows.iter().filter(|row| row.q.is_some()).count(),
        different: rows.iter().filter(|row| row.differs()).count(),
        rows,
    }
}

/// Returns the probability of each row by chance.
fn test_rows(sets: &ComparedSets) -> (Background, Vec<Option<f64>>) {
    let scale = sets.measure.pair_scale();
    if let &[exposure_a, exposure_b] = sets.exposure.as_slice() {
        let of_row = |(key, counts): &(RowKey, Vec<u64>)| PairRow {
            counts: [counts[0], counts[1]],
            origin: sets.row_origin(key),
        };
        let rows: Vec<PairRow> = sets.rows.iter().map(of_row).collect();
        let pair = compare_pair(&rows, [exposure_a, exposure_b], scale);
        let p = match &pair {
            Some(pair) => pair.rows.iter().map(|row| row.p).collect(),
            None => vec![None; rows.len()],
        };
        let background = Background {
            noise: pair.as_ref().map_or(0.0, |pair| pair.noise),
            informative: pair.as_ref().map_or(0, |pair| pair.informative),
            pair,
        };
        return (background, p);
    }
    let rows = sets
        .rows
        .iter()
        .map(|(key, counts)| (counts.clone(), sets.row_origin(key)));
    let rows: Vec<(Vec<u64>, RowOrigin)> = rows.collect();
    let common = common_factors(&rows, &sets.exposure, scale);
    let exposure: Vec<f64> = sets
        .exposure
        .iter()
        .zip(common)
        .map(|(e, c)| e * c)
        .collect();
    let noise = |origin: RowOrigin| Noise::estimate_noise(&rows, &exposure, origin);
    let (program, kernel) = (noise(RowOrigin::Program), noise(RowOrigin::Kernel));
    let p_value = |(counts, origin): &(Vec<u64>, RowOrigin)| match origin {
        RowOrigin::Program => program.p_value(counts, &exposure),
        RowOrigin::Kernel => kernel.p_value(counts, &exposure),
    };
    let background = Background {
        pair: None,
        noise: program.relative,
        informative: program.rows,
    };
    (background, rows.iter().map(p_value).collect())
}

/// The claim of a row that differs.
pub struct RowClaim {
    /// The claim.
    pub claim: Claim,
    /// The amount.
    pub amount: FindingAmount,
    /// The counts.
    pub evidence: FindingEvidence,
}

impl<T> JudgedRows<T> {
    /// Returns a finding for each row that differs; `claim` gives such a row's claim, and `next`
    /// the command that shows more of a row by its name.
    pub fn difference_findings(
        &self,
        sets: &ComparedSets,
        by: CompareBy,
        claim: impl Fn(&ComparedRow<T>) -> RowClaim,
        next: impl Fn(&str) -> Vec<String>,
    ) -> Vec<Finding> {
        let is_one_run = sets.exposure.len() == 2;
        let doubts = is_one_run.then_some(FindingDoubt::OneRun);
        let finding = |row: &ComparedRow<T>| {
            let RowClaim {
                claim,
                amount,
                evidence,
            } = claim(row);
            Finding {
                claim,
                place: row.finding_place(by),
                amount,
                evidence: vec![evidence],
                doubts: doubts.iter().cloned().collect(),
                next: next(&row.key.name),
            }
        };
        let differing = self.rows.iter().filter(|row| row.differs());
        differing.map(finding).collect()
    }
}
