//! `vitalfew diff`: changes from one sample set to another.

use crate::args::Diff as Args;
use crate::comparison::{self, ComparisonTable, Kind, q_text};
use crate::exit::WORSE;
use crate::output::{clean_name, format_ns};
use crate::screen::{Screen, tell_user, wrap_sentence};
use analysis::variation::{Change, PairComparison, PairVerdict, amount_change, share_change};
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingEvidence, Unit,
};
use results::{
    Background, CompareBy, CompareOptions, ComparedRow, ComparedSets, JudgedRows, Measure,
    RowClaim, inconclusive_refusal, judge_rows, load_sets,
};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Least deviation from 1 of a common factor that is reported.
const WORTH_SAYING: f64 = 0.005;

/// A row of the difference: amounts per share of samples, run, second or unit of work.
struct Difference {
    /// The second one is divided by the common factor of all rows.
    amounts: [f64; 2],
    change: Change,
    factor: Option<Change>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut compare = args.compare.clone();
    if args.folded {
        compare.by = CompareBy::Path;
    }
    let sets = load_sets(
        &[args.a.clone(), args.b.clone()],
        &compare.compare_options(),
    )?;
    let mut out = Screen::open_output(compare.shown.json);
    if args.folded {
        write_folded(&mut out, &sets)?;
        out.flush()?;
        let nothing = sets.totals.contains(&0).then_some(NOTHING);
        return Ok(comparison::warn_and_conclude(&sets, nothing));
    }
    if sets.totals.contains(&0) {
        return Ok(comparison::warn_and_conclude(&sets, Some(NOTHING)));
    }
    let measure = |counts: &[u64], verdict: Option<&PairVerdict>, background: &Background| {
        row_difference(&sets, counts, verdict, background)
    };
    let judged = judge_rows(&sets, measure, by_size);
    let resolution = judged_resolution(&judged);
    let mut table = ComparisonTable { judged };
    let nothing = table.judged.rows.is_empty().then_some(NOTHING);
    let worse = args
        .fail_over
        .map(|limit| too_much(&sets, &table.judged, limit / 100.0));
    table.limit_rows(&compare);
    let mut headings = vec!["A", "B", "change"];
    if sets.unit == Unit::Samples {
        headings.extend(["least", "most", "q"]);
    }
    let cells = |row: &ComparedRow<Difference>| row_cells(&sets, row);
    if compare.shown.json {
        let kind = Kind {
            schema: "vitalfew.diff/1",
            compared: true,
            confidence: Some(CONFIDENCE),
            by: compare.by,
            sets: &[args.a.clone(), args.b.clone()],
        };
        table.print_json(&mut out, &sets, kind, json_numbers, row_claim)?;
    } else {
        for line in heading_lines(&sets, resolution, &table.judged.background) {
            match args.markdown {
                true => writeln!(out, "{line}\n")?,
                false => write!(out, "{}", wrap_sentence(&line))?,
            }
        }
        if args.markdown {
            table.print_markdown(&mut out, &sets, &headings, cells)?;
        } else {
            writeln!(out)?;
            table.print_comparison(&mut out, &sets, &compare, &headings, cells)?;
        }
    }
    out.flush()?;
    let exit = comparison::warn_and_conclude(&sets, nothing);
    let worse = worse.unwrap_or_default();
    for reason in &worse {
        tell_user(reason);
    }
    Ok(if worse.is_empty() {
        exit
    } else {
        ExitCode::from(WORSE)
    })
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
    pub name: String,
    pub before_ns: f64,
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
    let measure = |counts: &[u64], verdict: Option<&PairVerdict>, background: &Background| {
        row_difference(&sets, counts, verdict, background)
    };
    let judged = judge_rows(&sets, measure, by_size);
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

/// Compares two sets by procedure and returns the JSON of `--json`, with at most `most` rows, those
/// that differ first. It also has the unit of the amounts as `amount_unit`; empty: that of the
/// event.
///
/// # Errors
/// If they cannot be read or compared.
pub fn result_of_pair(
    sets: &[PathBuf; 2],
    debug_dirs: &[PathBuf],
    most: usize,
) -> anyhow::Result<Value> {
    let options = CompareOptions {
        debug_dirs: debug_dirs.to_owned(),
        ..CompareOptions::default()
    };
    let compared = load_sets(sets, &options)?;
    if compared.totals.contains(&0) {
        return Err(inconclusive_refusal(NOTHING.to_owned()));
    }
    let measure = |counts: &[u64], verdict: Option<&PairVerdict>, background: &Background| {
        row_difference(&compared, counts, verdict, background)
    };
    let mut judged = judge_rows(&compared, measure, by_size);
    judged.rows.truncate(most);
    let kind = Kind {
        schema: "vitalfew.diff/1",
        compared: true,
        confidence: Some(CONFIDENCE),
        by: CompareBy::Procedure,
        sets,
    };
    let mut json = Vec::new();
    ComparisonTable { judged }.print_json(&mut json, &compared, kind, json_numbers, row_claim)?;
    let mut result: Value = serde_json::from_slice(&json)?;
    result["amount_unit"] = amount_unit(&compared).into();
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

const NOTHING: &str = "one of the sets has no samples that match the event and filters";

/// Returns the smallest factor of the largest row that its interval distinguishes from 1; `None` if
/// rows have no intervals.
fn judged_resolution(judged: &JudgedRows<Difference>) -> Option<f64> {
    let size = |row: &&ComparedRow<Difference>| row.numbers.amounts[0] + row.numbers.amounts[1];
    let rows = judged
        .rows
        .iter()
        .filter(|row| row.numbers.factor.is_some());
    let largest = rows.max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let factor = largest.numbers.factor?;
    let resolution = (factor.high / factor.low).sqrt();
    resolution.is_finite().then_some(resolution)
}

/// Returns the lines before the table: the measure with its limits, the change of all samples, and
/// the common factor of all rows.
fn heading_lines(
    sets: &ComparedSets,
    resolution: Option<f64>,
    background: &Background,
) -> Vec<String> {
    let measure = format!("{} {}", sets.event, sets.measure.phrase());
    let mut lines = vec![match resolution {
        Some(factor) => {
            let more = match sets.measure {
                Measure::Run => {
                    "vitalfew check --base BEFORE -- AFTER runs both by turns and tells smaller ones"
                }
                _ => "longer recordings tell smaller ones",
            };
            let percent = 100.0 * (factor - 1.0);
            format!(
                "{measure}; one recording a side cannot tell a change of the largest row below {percent:.0} % from chance: {more}"
            )
        }
        None => measure,
    }];
    let Some(pair) = &background.pair else {
        return lines;
    };
    if sets.unit == Unit::Nanoseconds || sets.measure == Measure::Samples {
        return lines;
    }
    let factor = |change: &Change| {
        format!(
            "{:.2} [{:.2}, {:.2}]",
            change.estimate, change.low, change.high
        )
    };
    let total = |set: usize| sets.totals[set] as f64 / sets.exposure[set];
    lines.push(format!(
        "all: A {}, B {}, {} times as much",
        format_amount(sets, total(0)),
        format_amount(sets, total(1)),
        factor(&pair.total)
    ));
    if is_common(pair) {
        lines.push(format!(
            "code that did not change took {} times as long in B (the machine, or all of the code, ran at another speed): B is divided by that below",
            factor(&pair.common)
        ));
    }
    lines
}

/// Returns whether B's rows are divided by a common factor.
fn is_common(pair: &PairComparison) -> bool {
    (pair.common.estimate - 1.0).abs() >= WORTH_SAYING
}

/// Returns a sentence for each increase beyond `limit`, even at the lower end of its interval.
/// `limit` is a fraction of all of A.
fn too_much(sets: &ComparedSets, judged: &JudgedRows<Difference>, limit: f64) -> Vec<String> {
    let all = sets.totals[0] as f64 / sets.exposure[0];
    let mut reasons = Vec::new();
    if let Some(pair) = &judged.background.pair
        && sets.measure != Measure::Samples
        && sets.unit == Unit::Samples
        && pair.total.low > 1.0 + limit
    {
        reasons.push(format!(
            "B takes at least {:.1}% more in all",
            100.0 * (pair.total.low - 1.0)
        ));
    }
    let rows = judged.rows.iter().filter(|row| row.differs());
    let worse = rows.filter(|row| row.numbers.change.low > limit * all);
    reasons.extend(worse.map(|row| {
        format!(
            "{} takes more by at least {:.1}% of all of A",
            row.key.name,
            100.0 * row.numbers.change.low / all
        )
    }));
    reasons
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
        (Some(pair), ..) if is_common(pair) => pair.common.estimate,
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
fn by_size(a: &Difference, b: &Difference) -> std::cmp::Ordering {
    let least = |row: &Difference| row.change.conservative().abs();
    let size = |row: &Difference| row.change.estimate.abs();
    let by_size = || size(b).total_cmp(&size(a));
    least(b).total_cmp(&least(a)).then_with(by_size)
}

/// Formats an amount.
fn format_amount(sets: &ComparedSets, amount: f64) -> String {
    let time_like = sets.clock || sets.unit == Unit::Nanoseconds;
    let sign = if amount < 0.0 { "-" } else { "" };
    match sets.measure {
        Measure::Samples => format!("{:.2}%", 100.0 * amount),
        // On several CPUs there may be more than a second in a second.
        Measure::Time if time_like => format!("{sign}{}/s", format_ns(amount.abs())),
        _ if time_like => format!("{sign}{}", format_ns(amount.abs())),
        _ => format!("{amount:.1}"),
    }
}

fn row_cells(sets: &ComparedSets, row: &ComparedRow<Difference>) -> Vec<String> {
    let signed = |amount: f64| {
        let sign = if amount > 0.0 { "+" } else { "" };
        format!("{sign}{}", format_amount(sets, amount))
    };
    let Difference {
        amounts, change, ..
    } = &row.numbers;
    let mut cells = vec![
        format_amount(sets, amounts[0]),
        format_amount(sets, amounts[1]),
        signed(change.estimate),
    ];
    if sets.unit == Unit::Samples {
        cells.push(signed(change.low));
        cells.push(signed(change.high));
        cells.push(q_text(row.q));
    }
    cells
}

/// Writes lines `stack A B` for differential flame graphs; B at the exposure of A.
fn write_folded(out: &mut impl Write, sets: &ComparedSets) -> std::io::Result<()> {
    let exposure = |set: usize| sets.exposure.get(set).copied().unwrap_or(1.0);
    let scale = exposure(0) / exposure(1);
    for (key, counts) in &sets.rows {
        let (Some(a), Some(b)) = (counts.first(), counts.get(1)) else {
            continue;
        };
        let b = (*b as f64 * scale).round();
        writeln!(out, "{} {a} {b}", clean_name(&key.name))?;
    }
    Ok(())
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
