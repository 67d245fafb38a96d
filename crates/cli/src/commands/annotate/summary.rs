//! Cycles by cause, as in the paper's Figure 4.

use analysis::stall::culprits::{Cause, Line, Static, Summary};
use std::io::Write;

const RULE: &str = "----------------------------------------";
/// Largest width of a cause's range, as a part of all cycles. A wider one says nothing.
const WIDEST: f64 = 0.3;
/// Part of all cycles below which the range of a cause may begin at 0.
const SMALL: f64 = 0.05;
/// Least part of all cycles that is listed.
const LEAST: f64 = 0.0005;

/// Writes the summary.
pub fn write_summary(out: &mut impl Write, summary: &Summary) -> anyhow::Result<()> {
    let total = summary.samples;
    let percent = |part: f64| 100.0 * part / total;
    if summary.executed > 0.0 {
        let known = total - summary.unknown;
        writeln!(
            out,
            "*** Best-case {:.2}CPI, actual {:.2}CPI\n***",
            summary.best / summary.executed,
            known / summary.executed
        )?;
    }
    let causes = Cause::ALL.iter().zip(&summary.dynamic);
    let causes = causes.filter(|(_, line)| line.most >= LEAST * total);
    let is_known = |(_, line): &(&Cause, &Line)| {
        let (least, most) = (line.least / total, line.most / total);
        most <= SMALL || least > 0.0 && most - least <= WIDEST
    };
    let (known, wide): (Vec<_>, Vec<_>) = causes.partition(is_known);
    for (cause, line) in known {
        writeln!(
            out,
            "*** {:<22} {:>6.1}% to {:>5.1}%",
            cause.name(),
            percent(line.least),
            percent(line.most)
        )?;
    }
    if !wide.is_empty() {
        let names: Vec<&str> = wide.iter().map(|(cause, _)| cause.name()).collect();
        writeln!(out, "*** Not told apart: {}", names.join(", "))?;
    }
    let single = |out: &mut dyn Write, name: &str, part: f64| -> std::io::Result<()> {
        // Avoids a minus before a zero.
        let value = (percent(part) * 10.0).round() / 10.0 + 0.0;
        writeln!(out, "*** {name:<32} {value:>6.1}%")
    };
    writeln!(out, "***")?;
    single(out, "Unexplained stall", summary.unexplained_stall)?;
    single(out, "Unexplained gain", summary.unexplained_gain)?;
    writeln!(out, "*** {RULE}")?;
    single(out, "Subtotal dynamic", summary.subtotal_dynamic)?;
    writeln!(out, "***")?;
    let statics = Static::ALL.iter().zip(&summary.statics);
    for (reason, part) in statics.filter(|(_, part)| **part >= LEAST * total) {
        single(out, reason.name(), *part)?;
    }
    writeln!(out, "*** {RULE}")?;
    single(out, "Subtotal static", summary.subtotal_static)?;
    writeln!(out, "*** {RULE}")?;
    single(
        out,
        "Total stall",
        summary.subtotal_dynamic + summary.subtotal_static,
    )?;
    single(out, "Execution", summary.execution)?;
    single(out, "Net sampling error", summary.error)?;
    if summary.unknown > 0.0 {
        single(out, "Cycles not known", summary.unknown)?;
    }
    writeln!(out, "*** {RULE}")?;
    let tallied = summary.subtotal_dynamic
        + summary.subtotal_static
        + summary.execution
        + summary.error
        + summary.unknown;
    single(out, "Total tallied", tallied)?;
    Ok(())
}
