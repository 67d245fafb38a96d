//! Plots as SVG, side by side over an axis from 0 to 100 %.

use crate::output::is_deceptive;
use std::io::{self, Write};

const COLUMNS: usize = 2;
/// Size of a plot with its labels, in pixels.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 266.0;
const LEFT: f64 = 52.0;
/// Room for half of the last axis label.
const RIGHT: f64 = 26.0;
const BOTTOM: f64 = 40.0;
/// Height of a line above a plot.
const LINE: f64 = 15.0;

/// Maximum number of characters in a plot's width: of a bold name, which is cut, and of a line,
/// which is squeezed.
const LONGEST_TITLE: usize = 46;
const LONGEST_LINE: usize = 62;

/// A plot under construction.
pub struct SvgPlot<'a> {
    pub out: &'a mut dyn Write,
    top: f64,
    /// The ends of the vertical axis.
    range: (f64, f64),
}

/// A number on the vertical axis, with a line across the plot.
pub struct AxisTick {
    pub value: f64,
    pub label: String,
    pub is_dark: bool,
}

/// Writes a document with one plot for each of these, drawn by `draw`.
pub fn write_plots<T>(
    plotted: &[T],
    out: &mut dyn Write,
    draw: impl Fn(&T, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let columns = COLUMNS.min(plotted.len().max(1));
    let rows = plotted.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (columns as f64 * WIDTH, rows as f64 * HEIGHT);
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>"##
    )?;
    for (number, one) in plotted.iter().enumerate() {
        let (x, y) = (number % COLUMNS, number / COLUMNS);
        let (x, y) = (x as f64 * WIDTH, y as f64 * HEIGHT);
        writeln!(out, r#"<g transform="translate({x},{y})">"#)?;
        draw(one, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

impl<'a> SvgPlot<'a> {
    /// Begins a plot with a name and lines of text, each in its colour, above it.
    pub fn begin(
        out: &'a mut dyn Write,
        title: &str,
        lines: &[(&str, &str)],
        range: (f64, f64),
    ) -> io::Result<Self> {
        let title = shorten_start(title, LONGEST_TITLE);
        let bold = r##"fill="#000" font-weight="bold""##;
        write_line(16.0, &title, bold, out)?;
        let mut top = LINE;
        for (text, colour) in lines {
            top += LINE;
            let style = format!(r#"fill="{colour}""#);
            write_line(top + 1.0, text, &style, out)?;
        }
        let top = top + LINE;
        Ok(Self { out, top, range })
    }

    /// Returns the position of a share on the horizontal axis.
    pub fn x(&self, share: f64) -> f64 {
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Returns the position of a value on the vertical axis; its end for values beyond.
    pub fn y(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let part = (high - value.clamp(low, high)) / (high - low);
        self.top + part * (HEIGHT - self.top - BOTTOM)
    }

    /// Returns a point in the form of line attributes.
    pub fn point(&self, share: f64, value: f64) -> String {
        format!("{:.1},{:.1}", self.x(share), self.y(value))
    }

    /// Draws the axes; `caption` describes them.
    pub fn draw_axes(
        &mut self,
        ticks: impl Iterator<Item = AxisTick>,
        caption: &str,
    ) -> io::Result<()> {
        let (left, right, bottom) = (self.x(0.0), self.x(1.0), HEIGHT - BOTTOM);
        for tick in ticks {
            let y = self.y(tick.value);
            let colour = if tick.is_dark { "#333" } else { "#e5e5e5" };
            writeln!(
                self.out,
                r#"<path d="M{left:.1} {y:.1}H{right:.1}" stroke="{colour}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                left - 5.0,
                y + 4.0,
                tick.label
            )?;
        }
        for percent in [0, 25, 50, 75, 100] {
            let x = self.x(f64::from(percent) / 100.0);
            let y = bottom + 16.0;
            writeln!(
                self.out,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{percent}%</text>"#
            )?;
        }
        writeln!(
            self.out,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#555">{caption}</text>"##,
            (left + right) / 2.0,
            bottom + 31.0
        )
    }

    /// Draws an area, and a curve on it, through such points.
    pub fn draw_curve(&mut self, area: &[String], curve: &[String]) -> io::Result<()> {
        writeln!(
            self.out,
            r##"<polygon points="{}" fill="#9ecae1" fill-opacity="0.5"/>
<polyline points="{}" fill="none" stroke="#08519c" stroke-width="2"/>"##,
            area.join(" "),
            curve.join(" ")
        )
    }
}

/// Writes a line above a plot. A long one is squeezed into the plot's width, or it would run into
/// the next plot.
fn write_line(y: f64, text: &str, style: &str, out: &mut dyn Write) -> io::Result<()> {
    let squeezed = if text.chars().count() > LONGEST_LINE {
        let length = WIDTH - LEFT - 8.0;
        format!(r#" textLength="{length}" lengthAdjust="spacingAndGlyphs""#)
    } else {
        String::new()
    };
    let text = escape_xml(text);
    writeln!(
        out,
        r#"<text x="{LEFT}" y="{y}" {style}{squeezed}>{text}</text>"#
    )
}

/// Returns the end of a long name, whose beginning is directories.
pub fn shorten_start(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - width + 1).collect();
    format!("…{end}")
}

/// Escapes text for XML.
fn escape_xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Some of these are not characters in XML.
            c if is_deceptive(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
