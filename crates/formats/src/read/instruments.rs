//! Instruments' clipboard format (Edit, Deep Copy): a tree as lines of columns.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::indented::{IndentedTree, add_inclusive};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::ValueType;

/// Titles of the first column: costs with those of callees.
const TITLES: &[&str] = &["Weight", "Running Time", "Bytes Used"];

/// Returns whether a text is one.
pub(crate) fn detect_instruments(text: &str) -> bool {
    let Some(first) = text.lines().next() else {
        return false;
    };
    let mut titles = first.split('\t').map(str::trim);
    titles.next().is_some_and(|title| TITLES.contains(&title))
        && titles.any(|title| title.starts_with("Symbol Name"))
}

pub(crate) fn read_instruments(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let mut lines = LineReader::new(input);
    let mut draft = TreeDraft::new(Vec::new(), options);
    let mut tree = IndentedTree::new(draft.group_node(&Owner::default(), FilePosition::Line(1))?);
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let mut unit = None;
    // The titles.
    lines.next_line()?;
    while let Some((at, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let row = parse_row(&line);
        let Some((cost, row_unit, symbol)) = row.filter(|r| unit.is_none_or(|u| u == r.1)) else {
            skipped.skip_part("not a weight and a symbol", at);
            continue;
        };
        if unit.is_none() {
            unit = Some(row_unit);
            draft.add_value_type(ValueType {
                name: if row_unit == "bytes" {
                    "space"
                } else {
                    "weight"
                }
                .to_owned(),
                unit: row_unit.to_owned(),
            });
        }
        read += 1;
        let indent = symbol.len() - symbol.trim_start().len();
        let method = draft.intern_method(symbol.trim(), "")?;
        let node = tree.enter_line(&mut draft, indent, method, at)?;
        add_inclusive(&mut draft, 0, node, cost);
    }
    skipped.note_skipped(read, &mut draft)?;
    draft.add_note("weights are rounded as Instruments shows them; what a function took itself is what is left of it");
    Ok(draft)
}

/// Returns the weight, the unit, and the symbol with its indentation.
fn parse_row(line: &str) -> Option<(i64, &'static str, &str)> {
    let (weight, rest) = line.split_once('\t')?;
    let symbol = rest.rsplit('\t').next()?;
    if symbol.trim().is_empty() {
        return None;
    }
    // `4.93 s  99.9%`, `4273.0ms 99.9%`, `429.93 MB 100.0%`.
    let weight = weight.trim();
    let digits = weight.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = weight.get(..digits)?.parse().ok()?;
    let name = weight.get(digits..)?.split_whitespace().next()?;
    let (factor, unit) = match name {
        "min" => (60e9, "nanoseconds"),
        "s" => (1e9, "nanoseconds"),
        "ms" => (1e6, "nanoseconds"),
        "µs" | "us" | "μs" => (1e3, "nanoseconds"),
        "ns" => (1.0, "nanoseconds"),
        "GB" => (1_073_741_824.0, "bytes"),
        "MB" => (1_048_576.0, "bytes"),
        "KB" => (1024.0, "bytes"),
        "Bytes" => (1.0, "bytes"),
        "Gc" => (1e9, "cycles"),
        "Mc" => (1e6, "cycles"),
        "Kc" | "kc" => (1e3, "cycles"),
        "cycles" | "c" => (1.0, "cycles"),
        _ => return None,
    };
    Some(((number * factor).round() as i64, unit, symbol))
}
