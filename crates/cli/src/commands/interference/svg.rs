//! `--curves`: all executions of a block, sorted by duration (Fig. 7), one plot a block.

use crate::commands::causal::{LONGEST_TITLE, escape_xml, shorten_start};
use profile::BlockScore;
use std::io::Write;

const COLUMNS: usize = 2;
/// Size of a plot with its labels, in pixels.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 62.0;
/// Room for half of the last axis label.
const RIGHT: f64 = 26.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 40.0;

/// Writes the plots.
pub fn write(blocks: &[BlockScore], out: &mut dyn Write) -> std::io::Result<()> {
    let columns = COLUMNS.min(blocks.len().max(1));
    let rows = blocks.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (columns as f64 * WIDTH, rows as f64 * HEIGHT);
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>"##
    )?;
    for (number, block) in blocks.iter().enumerate() {
        let (x, y) = (
            (number % COLUMNS) as f64 * WIDTH,
            (number / COLUMNS) as f64 * HEIGHT,
        );
        writeln!(out, r#"<g transform="translate({x},{y})">"#)?;
        plot(block, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

/// Durations on the vertical axis, by powers of ten.
struct Scale {
    /// Exponents.
    low: f64,
    high: f64,
}

impl Scale {
    fn of(block: &BlockScore) -> Self {
        let durations = block.durations.curve.iter().map(|point| point.up_to_ns);
        let usable = durations.chain([block.floor.ns]).filter(|d| d.is_finite());
        let (mut low, mut high): (f64, f64) = (f64::MAX, 0.0);
        for duration in usable {
            let exponent = duration.clamp(1.0, 1e18).log10();
            low = low.min(exponent);
            high = high.max(exponent);
        }
        let low = low.floor().min(high);
        Self {
            low,
            high: high.ceil().max(low + 1.0),
        }
    }

    fn y(&self, ns: f64) -> f64 {
        let exponent = ns.clamp(1.0, 1e18).log10();
        let part = (self.high - exponent) / (self.high - self.low);
        TOP + part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }
}

fn x(part: f64) -> f64 {
    LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn plot(block: &BlockScore, out: &mut dyn Write) -> std::io::Result<()> {
    let scale = Scale::of(block);
    let sci = block.score.sci;
    writeln!(
        out,
        r##"<text x="{LEFT}" y="16" font-weight="bold">{}</text>
<text x="{LEFT}" y="31" fill="#555">SCI {:.2} [{:.2}, {:.2}], {} calls, floor {}</text>"##,
        escape_xml(&shorten_start(&block.name, LONGEST_TITLE)),
        sci.estimate,
        sci.low,
        sci.high,
        crate::output::group_digits(block.executions.calls),
        crate::output::format_ns(block.floor.ns)
    )?;
    axes(&scale, out)?;
    let total: f64 = block
        .durations
        .curve
        .iter()
        .map(|point| point.calls as f64)
        .sum();
    let (bottom, mut before) = (HEIGHT - BOTTOM, 0.0);
    let mut line = Vec::new();
    for point in &block.durations.curve {
        let y = scale.y(point.up_to_ns);
        line.push(format!("{:.1},{y:.1}", x(before / total.max(1.0))));
        before += point.calls as f64;
        line.push(format!("{:.1},{y:.1}", x(before / total.max(1.0))));
    }
    let line = line.join(" ");
    let floor = scale.y(block.floor.ns);
    // What is above the floor is what was lost: on this axis, by its logarithm.
    writeln!(
        out,
        r##"<polygon points="{:.1},{bottom:.1} {line} {:.1},{bottom:.1}" fill="#9ecae1" fill-opacity="0.4"/>
<polyline points="{line}" fill="none" stroke="#08519c" stroke-width="2"/>
<path d="M{:.1} {floor:.1}H{:.1}" stroke="#cb181d" stroke-dasharray="5 3"/>
<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#cb181d">floor</text>"##,
        x(0.0),
        x(1.0),
        x(0.0),
        x(1.0),
        x(1.0),
        floor - 4.0
    )
}

fn axes(scale: &Scale, out: &mut dyn Write) -> std::io::Result<()> {
    let (left, right) = (x(0.0), x(1.0));
    let mut exponent = scale.low;
    while exponent <= scale.high {
        let value = 10f64.powf(exponent);
        let y = scale.y(value);
        writeln!(
            out,
            r##"<path d="M{left:.1} {y:.1}H{right:.1}" stroke="#e5e5e5"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
            left - 5.0,
            y + 4.0,
            label(exponent)
        )?;
        exponent += 1.0;
    }
    let bottom = HEIGHT - BOTTOM;
    for percent in [0, 25, 50, 75, 100] {
        let x = x(f64::from(percent) / 100.0);
        writeln!(
            out,
            r##"<path d="M{x:.1} {bottom:.1}v4" stroke="#333"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{percent}%</text>"##,
            bottom + 16.0
        )?;
    }
    writeln!(
        out,
        r##"<path d="M{left:.1} {bottom:.1}H{right:.1}" stroke="#333"/>
<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#555">executions, the fastest first; up: duration</text>"##,
        (left + right) / 2.0,
        bottom + 31.0
    )
}

/// A power of ten nanoseconds.
fn label(exponent: f64) -> String {
    let exponent = exponent.clamp(0.0, 18.0) as usize;
    let unit = ["ns", "µs", "ms", "s"];
    let at = (exponent / 3).min(3);
    format!(
        "{}{} {}",
        1,
        "0".repeat(exponent - 3 * at),
        unit.get(at).unwrap_or(&"s")
    )
}
