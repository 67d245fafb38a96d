//! `vitalfew causal report` as text, with the curves drawn in characters.

use super::shown_report::ShownEffects;
use crate::output::shell_words;
use crate::output::{clean_name, count_noun, database_option, format_ns, group_digits};
use analysis::causal::{Effect, EffectVerdict, Estimate, FragmentEffects, Lack};
use results::causal::{CURVE_SPEEDUPS, measure_name};
use results::phrases::effect_verdict;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Width and height of a curve in characters; each has two by four dots.
const WIDTH: usize = 24;
const HEIGHT: usize = CURVE_SPEEDUPS.len();

/// Writes the report.
pub fn write_report(report: &ShownEffects<'_>, out: &mut impl Write) -> std::io::Result<()> {
    write_heading(report, out)?;
    for (number, finding) in report.shown.iter().enumerate() {
        writeln!(out)?;
        write_finding(number + 1, finding, out)?;
    }
    writeln!(out)?;
    let analysis = report.analysis;
    let more = analysis.fragments.len() - report.shown.len();
    if more > 0 {
        let hidden = analysis.fragments.iter().skip(report.shown.len());
        let contention =
            hidden.filter(|f| matches!(surest_verdict(f), Some(EffectVerdict::Contention(_))));
        let contention = match contention.count() {
            0 => String::new(),
            n => format!(" ({n} of them contention)"),
        };
        writeln!(out, "{more} more with --all{contention}")?;
    }
    left_out(report, out)?;
    // Without samples, a warning names the cause, and repeating the run does not help.
    let sampled = report
        .profile
        .runs
        .iter()
        .any(|run| !run.fragments.is_empty());
    if sampled || report.profile.runs.is_empty() {
        writeln!(out, "next: {}", next(report))
    } else {
        Ok(())
    }
}

fn surest_verdict(finding: &FragmentEffects) -> Option<EffectVerdict> {
    finding.effects.first().map(|effect| effect.verdict)
}

fn write_heading(report: &ShownEffects<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let runs = &report.profile.runs;
    let length: f64 = runs.iter().map(|run| run.duration_ns as f64).sum();
    let command = runs.first().map(|run| run.command.join(" "));
    let command = command.filter(|command| !command.is_empty());
    let of = command.map_or_else(String::new, |command| {
        format!(" of {}", clean_name(&command))
    });
    let (experiments, runs) = (report.analysis.experiments, runs.len());
    write!(
        out,
        "{} in {}{of}, {}",
        count_noun(experiments as u64, "experiment"),
        count_noun(runs as u64, "run"),
        format_ns(length)
    )?;
    match report.analysis.without_sample {
        0 => writeln!(out)?,
        n => writeln!(
            out,
            "; {n} without a sample of what they sped up do not count"
        )?,
    }
    match report.analysis.disturbed {
        0 => Ok(()),
        n => writeln!(
            out,
            "{} set aside because the host ran something else meanwhile",
            count_noun(n as u64, "experiment")
        ),
    }
}

fn write_finding(
    number: usize,
    finding: &FragmentEffects,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let Some((effect, others)) = finding.effects.split_first() else {
        return Ok(());
    };
    let detail = match finding.detail.as_str() {
        "" => String::new(),
        detail => format!("  {}", clean_name(detail)),
    };
    writeln!(
        out,
        "{number}. {}{detail}",
        clean_name(&finding.shown_name())
    )?;
    writeln!(out, "   {}", effect_verdict(effect))?;
    let phase = match effect.phase.of {
        of if of + effect.phase.error < 0.95 => {
            format!(", runs in {} of the time", format_part(of))
        }
        _ => String::new(),
    };
    let disturbed = match effect.set_aside {
        0 => String::new(),
        n => format!(" ({n} disturbed set aside)"),
    };
    writeln!(
        out,
        "   {} of {}: slope {:+.2} [{:+.2}, {:+.2}], {}{disturbed}, {}; {} of the {}{phase}",
        measure_name(effect.measure),
        clean_name(&effect.point),
        effect.slope.estimate,
        effect.slope.low,
        effect.slope.high,
        count_noun(effect.experiments as u64, "experiment"),
        match effect.visits {
            1 => "1 visit".to_owned(),
            visits => format!("{} visits", group_digits(visits)),
        },
        format_part(finding.share),
        match finding.waiting {
            Some(_) => "waiting time",
            None => "samples",
        }
    )?;
    for (row, at) in plot_curve(effect).into_iter().zip(CURVE_SPEEDUPS) {
        let estimate = effect.at(at);
        let estimate =
            estimate.map(|e| format!("  sped up by {:>3.0}%: {}", 100.0 * at, format_estimate(&e)));
        let line = format!("   {row}{}", estimate.unwrap_or_default());
        writeln!(out, "{}", line.trim_end())?;
    }
    for other in others {
        let point = clean_name(&other.point);
        writeln!(
            out,
            "   {} of {point}: {}",
            measure_name(other.measure),
            effect_verdict(other)
        )?;
    }
    Ok(())
}

fn format_part(part: f64) -> String {
    format!("{:.1}%", 100.0 * part)
}

/// Formats `+21.3% [+18.0%, +24.5%]`.
fn format_estimate(at: &Estimate) -> String {
    let [middle, low, high] = [at.program, at.low, at.high].map(|x| format!("{:+.1}%", 100.0 * x));
    format!("{middle:>7} [{low:>7}, {high:>7}]")
}

/// Draws the curve in Braille dots, with the highest and the lowest value at its left.
fn plot_curve(effect: &Effect) -> Vec<String> {
    let values = || effect.curve.iter().map(|estimate| estimate.program);
    let high = values().fold(0.0, f64::max).max(0.01);
    let low = values().fold(0.0, f64::min);
    let (columns, rows) = (2 * WIDTH, 4 * HEIGHT);
    let row = |value: f64| {
        let part = (high - value) / (high - low);
        (part * (rows - 1) as f64)
            .round()
            .clamp(0.0, (rows - 1) as f64) as usize
    };
    let mut dots = vec![vec![false; columns]; rows];
    let mut before: Option<usize> = None;
    for column in 0..columns {
        if column % 3 == 0
            && let Some(dot) = dots.get_mut(row(0.0)).and_then(|dots| dots.get_mut(column))
        {
            *dot = true;
        }
        let speedup = column as f64 / (columns - 1) as f64;
        let Some(estimate) = effect.at(speedup) else {
            continue;
        };
        let here = row(estimate.program);
        // Fills the gaps of steep parts.
        let from = before.map_or(here, |before| match here.cmp(&before) {
            std::cmp::Ordering::Less => before - 1,
            std::cmp::Ordering::Equal => here,
            std::cmp::Ordering::Greater => before + 1,
        });
        for dots in dots
            .iter_mut()
            .take(from.max(here) + 1)
            .skip(from.min(here))
        {
            if let Some(dot) = dots.get_mut(column) {
                *dot = true;
            }
        }
        before = Some(here);
    }
    let label = |row: usize| match row {
        0 => format!("{:+.0}%", 100.0 * high),
        r if r + 1 == HEIGHT && low == 0.0 => "0%".to_owned(),
        r if r + 1 == HEIGHT => format!("{:+.0}%", 100.0 * low),
        _ => String::new(),
    };
    dots.chunks(4)
        .enumerate()
        .map(|(number, rows)| format!("{:>5} {}", label(number), braille_line(rows)))
        .collect()
}

/// Converts four rows of dots to characters of two columns.
fn braille_line(rows: &[Vec<bool>]) -> String {
    const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    let cell = |cell: usize| {
        let mut code = 0x2800;
        for (row, bits) in rows.iter().zip(BITS) {
            for (column, bit) in bits.into_iter().enumerate() {
                if row.get(2 * cell + column) == Some(&true) {
                    code |= bit;
                }
            }
        }
        char::from_u32(code).unwrap_or(' ')
    };
    (0..WIDTH).map(cell).collect()
}

/// Writes the number of fragments left out, and the reasons.
fn left_out(report: &ShownEffects<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let left_out = &report.analysis.left_out;
    if left_out.is_empty() {
        return Ok(());
    }
    if report.all {
        writeln!(out, "left out:")?;
        for one in left_out {
            let (name, point) = (clean_name(&one.name), clean_name(&one.point));
            writeln!(out, "  {name}, {point}: {}", lack_reason(one.why))?;
        }
        return Ok(());
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for one in left_out {
        *kinds.entry(lack_kind(one.why)).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    writeln!(out, "left out: {}", kinds.join(", "))
}

fn lack_kind(lack: Lack) -> &'static str {
    match lack {
        Lack::Baseline => "without a baseline",
        Lack::Speedups(_) => "with too few different speedups",
        Lack::Visits(_) => "with too few visits",
        Lack::Experiments(_) => "with too few experiments",
    }
}

fn lack_reason(lack: Lack) -> String {
    match lack {
        Lack::Baseline => "no experiment with a speedup of 0".to_owned(),
        Lack::Speedups(n) => format!("{n} different speedups, 0 among them"),
        Lack::Visits(n) => format!("{n} visits"),
        Lack::Experiments(n) => format!("{n} experiments, which do not tell how much they vary"),
    }
}

/// Time for experiments that give a result.
const LONG: Duration = Duration::from_secs(60);

/// Returns the next command to type.
fn next(report: &ShownEffects<'_>) -> String {
    let unclear =
        |finding: &&FragmentEffects| surest_verdict(finding) == Some(EffectVerdict::Unclear);
    let files = match report.files.as_str() {
        "" => database_option(),
        files => format!(" {}", clean_name(files)),
    };
    let claimed = report
        .analysis
        .fragments
        .iter()
        .any(|finding| !unclear(&finding));
    let first = report.shown.iter().find(unclear).filter(|_| !claimed);
    let (again, what) = match first {
        Some(finding) => (report.run_again(Some(&finding.name), None), " with it"),
        None if report.shown.is_empty() => (report.run_again(None, Some(LONG)), ""),
        None => (None, ""),
    };
    match again {
        Some(words) => format!(
            "{}    more experiments{what}",
            clean_name(&shell_words(&words))
        ),
        None => {
            format!("vitalfew causal report{files} --svg causal.svg    the curves with their bands")
        }
    }
}
