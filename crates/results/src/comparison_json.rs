//! Compared sets as JSON; the form is documented in docs/json.md.

use crate::claims::JsonClaims;
use crate::command::command_words;
use crate::comparison::{ComparedRow, FALSE_DISCOVERIES, JudgedRows, RowClaim};
use crate::result_kind::is_recording;
use crate::selection::CompareBy;
use crate::sets::{ComparedSets, Measure};
use analysis::variation::Change;
use profile::Unit;
use serde::Serialize;
use std::path::PathBuf;

/// Differences between the JSON forms of the commands.
pub struct ComparisonForm<'a> {
    /// Name and version.
    pub schema: &'static str,
    /// True if amounts are compared, so that their measure matters.
    pub compared: bool,
    /// The confidence of the intervals, if there are any.
    pub confidence: Option<f64>,
    /// The key of the rows.
    pub by: CompareBy,
    /// Paths of the sets.
    pub sets: &'a [PathBuf],
}

/// The documented JSON form, of rows with numbers of the kind `N`.
#[derive(Serialize)]
pub struct ComparisonJson<'a, N> {
    schema: &'static str,
    event: &'a str,
    unit: Unit,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'static str>,
    totals: &'a [u64],
    /// Relative noise of one row from set to set.
    noise: Option<f64>,
    noise_rows: usize,
    /// For two sets: the common factor of all rows, and that of all samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    common: Option<JsonChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<JsonChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    false_discovery_rate: f64,
    rows_total: usize,
    rows_tested: usize,
    rows_different: usize,
    warnings: &'a [String],
    rows: Vec<JsonRow<'a, N>>,
    claims: JsonClaims,
}

/// An estimate in the JSON form, with its interval.
#[derive(Serialize)]
struct JsonChange {
    estimate: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct JsonRow<'a, N> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(flatten)]
    numbers: N,
    q: Option<f64>,
    differs: bool,
}

impl<T> JudgedRows<T> {
    /// Returns the documented JSON form; `numbers` gives those of a row.
    pub fn to_json<'a, N>(
        &'a self,
        sets: &'a ComparedSets,
        form: &ComparisonForm<'_>,
        numbers: impl Fn(&'a T) -> N,
        claim: impl Fn(&ComparedRow<T>) -> RowClaim,
    ) -> ComparisonJson<'a, N> {
        let row = |row: &'a ComparedRow<T>| JsonRow {
            name: &row.key.name,
            image: row.key.image.as_deref(),
            detail: row.key.detail.as_deref(),
            numbers: numbers(&row.numbers),
            q: row.q,
            differs: row.differs(),
        };
        let pair = self.background.pair.as_ref();
        let next = |name: &str| command_for_row(form, name);
        ComparisonJson {
            schema: form.schema,
            event: &sets.event,
            unit: sets.unit,
            per: form.compared.then_some(sets.measure).map(Measure::name),
            totals: &sets.totals,
            noise: Some(self.background.noise),
            noise_rows: self.background.informative,
            common: pair.map(|pair| json_change(pair.common)),
            total: pair.map(|pair| json_change(pair.total)),
            confidence: form.confidence,
            false_discovery_rate: FALSE_DISCOVERIES,
            rows_total: self.found,
            rows_tested: self.tested,
            rows_different: self.different,
            warnings: &sets.warnings,
            rows: self.rows.iter().map(row).collect(),
            claims: JsonClaims::of_findings(self.difference_findings(sets, form.by, claim, next)),
        }
    }
}

fn json_change(change: Change) -> JsonChange {
    JsonChange {
        estimate: change.estimate,
        low: change.low,
        high: change.high,
    }
}

/// Returns the command that shows more of a row: the instructions of a procedure in the last set,
/// the other data of that set, or, for other tools' profiles, the calling contexts.
fn command_for_row(form: &ComparisonForm<'_>, name: &str) -> Vec<String> {
    let [first, .., last] = form.sets else {
        return Vec::new();
    };
    let [first, file] = [first, last].map(|path| path.display().to_string());
    match (is_recording(last), form.by) {
        (true, CompareBy::Procedure) => command_words(&["annotate", name, &file]),
        (true, _) => command_words(&["report", &file]),
        (false, _) => command_words(&["bottlenecks", &file, "--against", &first]),
    }
}
