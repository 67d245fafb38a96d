//! `vitalfew causal report --svg`: the curves with their bands, one plot a line and progress point.

use super::json::measure_name;
use super::shown_report::Report;
use super::text::verdict_words;
use crate::output::is_deceptive;
use analysis::causal::{Effect, Estimate, FragmentEffects, Verdict};
use std::io::Write;

const COLUMNS: usize = 2;
/// Size of a plot with its labels, in pixels.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 266.0;
const LEFT: f64 = 52.0;
/// Room for half of the last axis label.
const RIGHT: f64 = 26.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 36.0;

/// Characters of a bold name, and of a line, that a plot is wide enough for without being squeezed. A name is cut to
/// a few more: wide letters would reach the edge else.
pub const LONGEST_TITLE: usize = 52;
const WIDE_TITLE: usize = 44;
const LONGEST_LINE: usize = 62;

/// Writes the plots.
pub fn write_plots(report: &Report<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let pairs = report.shown.iter().flat_map(|finding| {
        let effects = finding.effects.iter();
        effects.map(move |effect| (finding, effect))
    });
    let pairs: Vec<(&FragmentEffects, &Effect)> = pairs.collect();
    // One scale, so that plots can be compared.
    let scale = Scale::of(pairs.iter().map(|(_, effect)| *effect));
    let rows = pairs.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (COLUMNS as f64 * WIDTH, rows as f64 * HEIGHT);
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>"##
    )?;
    for (number, (finding, effect)) in pairs.iter().enumerate() {
        let (x, y) = (number % COLUMNS, number / COLUMNS);
        let (x, y) = (x as f64 * WIDTH, y as f64 * HEIGHT);
        writeln!(out, r#"<g transform="translate({x},{y})">"#)?;
        plot_effect(finding, effect, &scale, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

/// Program speedups on the vertical axis.
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    fn of<'a>(effects: impl Iterator<Item = &'a Effect>) -> Self {
        let (mut low, mut high): (f64, f64) = (-0.02, 0.05);
        for effect in effects {
            let measured = effect.points.iter().map(|point| point.program);
            let band = effect.curve.iter().flat_map(|at| [at.low, at.high]);
            for value in measured.chain(band) {
                low = low.min(value);
                high = high.max(value);
            }
        }
        // What is worse than twice as slow is cut off.
        let (low, high) = (low.max(-1.0), high.min(1.0));
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
        let step = steps.into_iter().find(|step| (high - low) / step <= 8.0);
        let step = step.unwrap_or(0.5);
        Self {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            step,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let part = (self.high - value.clamp(self.low, self.high)) / (self.high - self.low);
        TOP + part * (HEIGHT - TOP - BOTTOM)
    }
}

fn x(speedup: f64) -> f64 {
    LEFT + speedup * (WIDTH - LEFT - RIGHT)
}

fn plot_effect(
    finding: &FragmentEffects,
    effect: &Effect,
    scale: &Scale,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let title = escape_xml(&shorten_start(&finding.shown_name(), LONGEST_TITLE));
    let point = escape_xml(&shorten_start(&effect.point, 32));
    let verdict = escape_xml(&verdict_words(effect));
    let color = match effect.verdict {
        Verdict::WorthIt(_) | Verdict::WorthItUpTo(_) => "#238b45",
        Verdict::Contention(_) => "#cb181d",
        Verdict::NoEffect | Verdict::Unclear => "#555",
    };
    let slope = effect.slope;
    let measured = format!(
        "{} of {point}: slope {:+.2} [{:+.2}, {:+.2}]",
        measure_name(effect.measure),
        slope.estimate,
        slope.low,
        slope.high
    );
    let bold = r##"fill="#000" font-weight="bold""##;
    draw_heading(16, &title, bold, WIDE_TITLE, out)?;
    draw_heading(31, &measured, r##"fill="#555""##, LONGEST_LINE, out)?;
    let color = format!(r#"fill="{color}""#);
    draw_heading(46, &verdict, &color, LONGEST_LINE, out)?;
    draw_axes(scale, out)?;
    let origin = Estimate::default();
    let curve: Vec<&Estimate> = std::iter::once(&origin).chain(&effect.curve).collect();
    let at = |speedup: f64, value: f64| format!("{:.1},{:.1}", x(speedup), scale.y(value));
    let upper = curve.iter().map(|e| at(e.speedup, e.high));
    let lower = curve.iter().rev().map(|e| at(e.speedup, e.low));
    let band: Vec<String> = upper.chain(lower).collect();
    writeln!(
        out,
        r##"<polygon points="{}" fill="#9ecae1" fill-opacity="0.5"/>"##,
        band.join(" ")
    )?;
    for point in &effect.points {
        let (center, low, high) = (
            point.program,
            point.program - point.error,
            point.program + point.error,
        );
        let (x, center, low, high) = (
            x(point.speedup),
            scale.y(center),
            scale.y(low),
            scale.y(high),
        );
        writeln!(
            out,
            r##"<path d="M{x:.1} {low:.1}V{high:.1}" stroke="#999"/><circle cx="{x:.1}" cy="{center:.1}" r="2.5" fill="#555"/>"##
        )?;
    }
    let line: Vec<String> = curve.iter().map(|e| at(e.speedup, e.program)).collect();
    writeln!(
        out,
        r##"<polyline points="{}" fill="none" stroke="#08519c" stroke-width="2"/>"##,
        line.join(" ")
    )
}

/// Writes a line above a plot. A long one is squeezed into the plot's width instead of running into the next plot or
/// being cut off at the right edge.
fn draw_heading(
    y: u32,
    text: &str,
    style: &str,
    longest: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let squeezed = match text.chars().count() {
        length if length <= longest => String::new(),
        _ => format!(
            r#" textLength="{}" lengthAdjust="spacingAndGlyphs""#,
            WIDTH - LEFT - 8.0
        ),
    };
    writeln!(
        out,
        r#"<text x="{LEFT}" y="{y}" {style}{squeezed}>{text}</text>"#
    )
}

fn draw_axes(scale: &Scale, out: &mut dyn Write) -> std::io::Result<()> {
    let (left, right) = (x(0.0), x(1.0));
    let count = ((scale.high - scale.low) / scale.step).round() as i32;
    for number in 0..=count {
        let value = scale.low + f64::from(number) * scale.step;
        let y = scale.y(value);
        let zero = value.abs() < scale.step / 2.0;
        let color = if zero { "#333" } else { "#e5e5e5" };
        let label = if zero {
            "0%".to_owned()
        } else {
            format!("{:+.0}%", 100.0 * value)
        };
        writeln!(
            out,
            r#"<path d="M{left:.1} {y:.1}H{right:.1}" stroke="{color}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
            left - 5.0,
            y + 4.0
        )?;
    }
    let bottom = HEIGHT - BOTTOM;
    for percent in [0, 25, 50, 75, 100] {
        let x = x(f64::from(percent) / 100.0);
        writeln!(
            out,
            r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{percent}%</text>"#,
            bottom + 15.0
        )?;
    }
    writeln!(
        out,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#555">speedup of the line; up: of the program</text>"##,
        (left + right) / 2.0,
        bottom + 29.0
    )
}

/// The end of a long name: its beginning is directories.
pub fn shorten_start(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - width + 1).collect();
    format!("…{end}")
}

/// Text as XML has it.
pub fn escape_xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Among them are those that are no characters, says XML.
            c if is_deceptive(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
