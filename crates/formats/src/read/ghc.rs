//! GHC's cost centre profiles, as text: `program +RTS -p` or `-P`.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::indented::IndentedTree;
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::ValueType;

/// Returns whether a text is such a profile.
pub(crate) fn detect_ghc(text: &str) -> bool {
    let mut lines = text.lines().take(4);
    lines.any(|line| line.contains("Time and Allocation Profiling Report"))
}

/// The totals to which the percentages refer.
#[derive(Default)]
struct GhcTotals {
    ticks: f64,
    tick_ns: f64,
    allocated: f64,
}

pub(crate) fn read_ghc(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let value_type = |name: &str, unit: &str| ValueType {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    let types = vec![
        value_type("time", "nanoseconds"),
        value_type("allocations", "bytes"),
    ];
    let mut draft = TreeDraft::new(types, options);
    let root = draft.group_node(&Owner::default(), FilePosition::Line(1))?;
    let mut tree = IndentedTree::new(root);
    let mut totals = GhcTotals::default();
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let (mut tables, mut is_exact) = (0, true);
    let mut lines = LineReader::new(input);
    while let Some((at, line)) = lines.next_line()? {
        if line.starts_with("COST CENTRE") {
            tables += 1;
            is_exact = line.contains("bytes");
        } else if line.contains("total time") || line.contains("total alloc") {
            totals.read_total(&line);
        } else if tables == 2 && !line.trim().is_empty() {
            let Some(row) = GhcRow::parse_row(&line, is_exact) else {
                skipped.skip_part("not a cost centre with its costs", at);
                continue;
            };
            read += 1;
            let method = draft.intern_method(row.name, row.module)?;
            let node = tree.enter_line(&mut draft, row.indent, method, at)?;
            let [time, allocated] = totals.row_costs(&row, is_exact);
            draft.add_cost(0, node, time);
            draft.add_cost(1, node, allocated);
        }
    }
    if tables < 2 {
        let what = "no table of cost centre stacks: the file ends early";
        return Err(ReadFault::damaged(what, FilePosition::Line(1)));
    }
    skipped.note_skipped(read, &mut draft)?;
    if !is_exact {
        draft.add_note(
            "costs are percentages with one decimal, of the totals; +RTS -P or -pj has them whole",
        );
    }
    Ok(draft)
}

impl GhcTotals {
    /// Reads `total time = 0.02 secs (23 ticks @ 1000 us, 1 processor)` or `total alloc =
    /// 59,542,424 bytes`.
    fn read_total(&mut self, line: &str) {
        let Some((_, value)) = line.split_once('=') else {
            return;
        };
        let number = |text: &str| text.trim().replace(',', "").parse::<f64>().ok();
        if let Some((allocated, _)) = value.split_once("bytes") {
            self.allocated = number(allocated).unwrap_or(0.0);
        } else if let Some((_, ticks)) = value.split_once('(')
            && let Some((ticks, rest)) = ticks.split_once("ticks")
        {
            self.ticks = number(ticks).unwrap_or(0.0);
            let interval = rest.trim().trim_start_matches('@').split("us").next();
            self.tick_ns = interval.and_then(number).unwrap_or(0.0) * 1000.0;
        }
    }

    fn row_costs(&self, row: &GhcRow<'_>, is_exact: bool) -> [i64; 2] {
        let [time, allocated] = row.costs;
        let costs = if is_exact {
            [time * self.tick_ns, allocated]
        } else {
            [
                time / 100.0 * self.ticks * self.tick_ns,
                allocated / 100.0 * self.allocated,
            ]
        };
        costs.map(|cost| cost.round() as i64)
    }
}

/// A line of the second table.
struct GhcRow<'l> {
    indent: usize,
    name: &'l str,
    module: &'l str,
    /// Its own time and allocation: ticks and bytes, or percentages.
    costs: [f64; 2],
}

impl<'l> GhcRow<'l> {
    /// Parses `name module [source] number entries %time %alloc %time %alloc [ticks bytes]`.
    fn parse_row(line: &'l str, is_exact: bool) -> Option<Self> {
        let indent = line.len() - line.trim_start().len();
        let mut words = line.split_whitespace();
        let (name, module) = (words.next()?, words.next()?);
        let numbers: Vec<f64> = words.rev().map_while(|word| word.parse().ok()).collect();
        let of = |index: usize| {
            numbers
                .get(index)
                .copied()
                .filter(|number| number.is_finite())
        };
        // From the right.
        let costs = if is_exact {
            [of(1)?, of(0)?]
        } else {
            [of(3)?, of(2)?]
        };
        (numbers.len() >= if is_exact { 8 } else { 6 }).then_some(Self {
            indent,
            name,
            module,
            costs,
        })
    }
}
