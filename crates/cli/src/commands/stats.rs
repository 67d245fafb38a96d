//! `vitalfew stats`: variation across sample sets, as in DCPI's Figure 3.

use crate::args::Stats as Args;
use crate::comparison::{self, ComparisonTable, q_text};
use crate::output::{group_digits, write_json};
use crate::screen::Screen;
use analysis::variation::{Description, describe_amounts};
use profile::{AmountBase, AmountUnit, Certainty, Claim, FindingAmount, FindingEvidence, Unit};
use results::{ComparedRow, ComparedSets, ComparisonForm, RowClaim, judge_rows, load_sets};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

const HEADINGS: [&str; 9] = [
    "range%", "sum", "sum%", "N", "mean", "std-dev", "min", "max", "q",
];

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let compare = &args.compare;
    let sets = load_sets(&args.sets, &compare.compare_options())?;
    let mean = sets.exposure.iter().sum::<f64>() / sets.exposure.len() as f64;
    // Counts scaled to equal exposure of all sets.
    let scaled = |counts: &[u64]| -> Vec<f64> {
        let counts = counts.iter().zip(&sets.exposure);
        counts.map(|(c, e)| *c as f64 * (mean / e)).collect()
    };
    let by_range = |a: &Description, b: &Description| {
        let by_sum = || b.sum.total_cmp(&a.sum);
        b.range.total_cmp(&a.range).then_with(by_sum)
    };
    let measure = |counts: &[u64], _: Option<&_>, _: &_| Some(describe_amounts(&scaled(counts)));
    let judged = judge_rows(&sets, measure, by_range);
    let mut table = ComparisonTable { judged };
    table.limit_rows(compare);
    let mut out = Screen::open_output(compare.shown.json);
    if compare.shown.json {
        let form = ComparisonForm {
            schema: "vitalfew.stats/1",
            compared: false,
            confidence: None,
            by: compare.by,
            sets: &args.sets,
        };
        let json = table.judged.to_json(&sets, &form, json_numbers, row_claim);
        write_json(&mut out, &json)?;
    } else {
        print_heading(&mut out, &sets)?;
        let total: f64 = scaled(&sets.totals).iter().sum();
        let cells = |row: &ComparedRow<Description>| row_cells(row, total);
        let noise = table.describe_noise(&sets);
        let closing: Vec<String> = [table.describe_result(&sets)]
            .into_iter()
            .chain(noise)
            .collect();
        table.print_comparison(&mut out, &closing, compare, &HEADINGS, cells)?;
    }
    out.flush()?;
    let none = table.judged.rows.is_empty();
    let nothing = none.then_some("no sample matches the event and filters");
    Ok(comparison::warn_and_conclude(&sets, nothing))
}

fn print_heading(out: &mut impl Write, sets: &ComparedSets) -> std::io::Result<()> {
    let unit = match sets.unit {
        Unit::Samples => "samples",
        Unit::Nanoseconds => "nanoseconds",
    };
    writeln!(out, "Number of {unit} of type {}", sets.event)?;
    let numbered = sets.totals.iter().enumerate();
    let totals: Vec<String> = numbered
        .map(|(number, total)| format!("set {} = {}", number + 1, group_digits(*total)))
        .collect();
    for line in totals.chunks(4) {
        writeln!(out, "{}", line.join("  "))?;
    }
    writeln!(out, "TOTAL {}\n", group_digits(sets.totals.iter().sum()))
}

fn row_cells(row: &ComparedRow<Description>, total: f64) -> Vec<String> {
    let s = &row.numbers;
    vec![
        format!("{:.1}%", 100.0 * s.range),
        amount_text(s.sum),
        format!("{:.1}%", 100.0 * s.sum / total),
        s.sets.to_string(),
        amount_text(s.mean),
        amount_text(s.std_dev),
        amount_text(s.min),
        amount_text(s.max),
        q_text(row.q),
    ]
}

/// Formats an amount with three digits or more: nine columns of numbers leave little room for
/// names.
fn amount_text(amount: f64) -> String {
    let decimals = match amount.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{amount:.decimals$}")
}

#[derive(Serialize)]
struct Numbers {
    range: f64,
    sum: f64,
    sets: usize,
    mean: f64,
    std_dev: f64,
    min: f64,
    max: f64,
}

fn json_numbers(s: &Description) -> Numbers {
    Numbers {
        range: s.range,
        sum: s.sum,
        sets: s.sets,
        mean: s.mean,
        std_dev: s.std_dev,
        min: s.min,
        max: s.max,
    }
}

/// Returns the claim of a row: a differing row varies from its least amount to its greatest.
fn row_claim(row: &ComparedRow<Description>) -> RowClaim {
    let Description { mean, min, max, .. } = row.numbers;
    RowClaim {
        claim: Claim::Varies,
        amount: FindingAmount {
            value: if mean > 0.0 { (max - min) / mean } else { 0.0 },
            interval: None,
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::MeanOfSets,
            certainty: Certainty::Measured,
        },
        evidence: FindingEvidence::SampleSpread {
            counts: row.counts.clone(),
            q: row.q,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_no_longer_than_they_must_be() {
        let texts = [0.0, 0.256, 9.5, 84.26, 406.0, 12_345.6].map(amount_text);
        assert_eq!(texts, ["0", "0.26", "9.50", "84.3", "406", "12346"]);
    }
}
