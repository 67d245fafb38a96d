//! `--curves`: all executions of a block, sorted by duration (Fig. 7), one plot a block.

use crate::svg::{self, AxisTick, SvgPlot};
use profile::BlockScore;
use std::io::Write;

/// Writes the plots.
pub fn write_plots(blocks: &[BlockScore], out: &mut dyn Write) -> std::io::Result<()> {
    svg::write_plots(blocks, out, plot_block)
}

/// Returns where a duration is on the vertical axis, which has powers of ten.
fn exponent_of(ns: f64) -> f64 {
    ns.clamp(1.0, 1e18).log10()
}

/// Returns the exponents at the ends of the axis.
fn exponent_range(block: &BlockScore) -> (f64, f64) {
    let durations = block.durations.curve.iter().map(|point| point.up_to_ns);
    let usable = durations.chain([block.floor.ns]).filter(|d| d.is_finite());
    let (mut low, mut high): (f64, f64) = (f64::MAX, 0.0);
    for exponent in usable.map(exponent_of) {
        low = low.min(exponent);
        high = high.max(exponent);
    }
    let low = low.floor().min(high);
    (low, high.ceil().max(low + 1.0))
}

fn plot_block(block: &BlockScore, out: &mut dyn Write) -> std::io::Result<()> {
    let sci = block.score.sci;
    let measured = format!(
        "SCI {:.2} [{:.2}, {:.2}], {} calls, floor {}",
        sci.estimate,
        sci.low,
        sci.high,
        crate::output::group_digits(block.executions.calls),
        crate::output::format_ns(block.floor.ns)
    );
    let range @ (low, high) = exponent_range(block);
    let mut plot = SvgPlot::begin(out, &block.name, &[(&measured, "#555")], range)?;
    let ticks = (0..=(high - low) as u32).map(|number| low + f64::from(number));
    let ticks = ticks.map(|exponent| AxisTick {
        value: exponent,
        label: power_text(exponent),
        is_dark: exponent == low,
    });
    plot.draw_axes(ticks, "executions, the fastest first; up: duration")?;
    let calls = block.durations.curve.iter().map(|point| point.calls as f64);
    let total = calls.sum::<f64>().max(1.0);
    let mut before = 0.0;
    let mut curve = Vec::new();
    for point in &block.durations.curve {
        let exponent = exponent_of(point.up_to_ns);
        curve.push(plot.point(before / total, exponent));
        before += point.calls as f64;
        curve.push(plot.point(before / total, exponent));
    }
    // What is above the floor is what was lost: on this axis, by its logarithm.
    let mut area = vec![plot.point(0.0, low)];
    area.extend_from_slice(&curve);
    area.push(plot.point(1.0, low));
    plot.draw_curve(&area, &curve)?;
    let (left, right, floor) = (
        plot.x(0.0),
        plot.x(1.0),
        plot.y(exponent_of(block.floor.ns)),
    );
    writeln!(
        plot.out,
        r##"<path d="M{left:.1} {floor:.1}H{right:.1}" stroke="#cb181d" stroke-dasharray="5 3"/>
<text x="{right:.1}" y="{:.1}" text-anchor="end" fill="#cb181d">floor</text>"##,
        floor - 4.0
    )
}

/// Returns a power of ten nanoseconds as text.
fn power_text(exponent: f64) -> String {
    let exponent = exponent.clamp(0.0, 18.0) as usize;
    let at = (exponent / 3).min(3);
    let unit = ["ns", "µs", "ms", "s"][at];
    format!("1{} {unit}", "0".repeat(exponent - 3 * at))
}
