//! `vitalfew diff`: changes from one sample set to another.

use crate::args::Diff as Args;
use crate::comparison::{self, ComparisonTable, q_text};
use crate::exit::WORSE;
use crate::output::{clean_name, format_ns, write_json};
use crate::screen::{Screen, tell_user, wrap_sentence};
use analysis::variation::{Change, PairComparison};
use profile::Unit;
use results::{
    Background, CompareBy, ComparedRow, ComparedSets, Difference, JudgedRows, Measure,
    NOTHING_TO_COMPARE, has_common_factor, judge_differences, load_sets,
};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut compare = args.compare.clone();
    if args.folded {
        compare.by = CompareBy::Path;
    }
    let files = [args.a.clone(), args.b.clone()];
    let sets = load_sets(&files, &compare.compare_options())?;
    let mut out = Screen::open_output(compare.shown.json);
    if args.folded {
        write_folded(&mut out, &sets)?;
        out.flush()?;
        let nothing = sets.totals.contains(&0).then_some(NOTHING_TO_COMPARE);
        return Ok(comparison::warn_and_conclude(&sets, nothing));
    }
    if sets.totals.contains(&0) {
        return Ok(comparison::warn_and_conclude(
            &sets,
            Some(NOTHING_TO_COMPARE),
        ));
    }
    let judged = judge_differences(&sets);
    let resolution = judged_resolution(&judged);
    let mut table = ComparisonTable { judged };
    let nothing = table.judged.rows.is_empty().then_some(NOTHING_TO_COMPARE);
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
        write_json(
            &mut out,
            &table.judged.difference_json(&sets, compare.by, &files),
        )?;
    } else {
        let verdict = verdict_line(&sets, &table);
        let heading = heading_lines(&sets, resolution, &table.judged.background);
        let noise = table.describe_noise(&sets);
        if args.markdown {
            writeln!(out, "**{verdict}**\n")?;
            for line in heading {
                writeln!(out, "{line}\n")?;
            }
            table.print_markdown(&mut out, &headings, cells)?;
            if let Some(noise) = noise {
                writeln!(out, "\n{noise}")?;
            }
        } else {
            for line in std::iter::once(verdict).chain(heading) {
                write!(out, "{}", wrap_sentence(&line))?;
            }
            writeln!(out)?;
            table.print_comparison(&mut out, noise.as_slice(), &compare, &headings, cells)?;
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

/// Returns the result in one line: how all samples changed, and how many rows.
fn verdict_line(sets: &ComparedSets, table: &ComparisonTable<Difference>) -> String {
    let rows = table.describe_result(sets);
    if sets.measure == Measure::Samples {
        return rows;
    }
    let total = |set: usize| format_amount(sets, sets.totals[set] as f64 / sets.exposure[set]);
    let (a, b) = (total(0), total(1));
    let Some(pair) = total_of(sets, &table.judged.background) else {
        return format!("in all A {a}, B {b}; {rows}");
    };
    let direction = match &pair.total {
        all if all.low > 1.0 => "B takes more",
        all if all.high < 1.0 => "B takes less",
        _ => "A and B do not differ beyond chance",
    };
    let factor = factor_text(&pair.total);
    format!("{direction}: in all A {a}, B {b}, {factor} times as much; {rows}")
}

/// Returns the comparison of both sets, if all their samples can be compared.
fn total_of<'a>(sets: &ComparedSets, background: &'a Background) -> Option<&'a PairComparison> {
    let is_amount = sets.unit == Unit::Samples && sets.measure != Measure::Samples;
    background.pair.as_ref().filter(|_| is_amount)
}

fn factor_text(change: &Change) -> String {
    format!(
        "{:.2} [{:.2}, {:.2}]",
        change.estimate, change.low, change.high
    )
}

/// Returns the lines before the table: the measure with its limits, and the common factor of all
/// rows.
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
    if let Some(pair) = total_of(sets, background)
        && has_common_factor(pair)
    {
        lines.push(format!(
            "code that did not change took {} times as long in B (the machine, or all of the code, ran at another speed): B is divided by that below",
            factor_text(&pair.common)
        ));
    }
    lines
}

/// Returns a sentence for each increase beyond `limit`, even at the lower end of its interval.
/// `limit` is a fraction of all of A.
fn too_much(sets: &ComparedSets, judged: &JudgedRows<Difference>, limit: f64) -> Vec<String> {
    let all = sets.totals[0] as f64 / sets.exposure[0];
    let mut reasons = Vec::new();
    if let Some(pair) = total_of(sets, &judged.background)
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
