//! The result of the automatic search, as text.

use super::text::{format_amount, format_total, join_path, name_width, share_of};
use crate::output::{group_digits, shorten_middle};
use crate::screen::wrap_sentence;
use analysis::bottleneck::auto::FoundSequences;
use analysis::bottleneck::forest::{CallSequence, Forest};
use analysis::bottleneck::interface::Profile;
use analysis::bottleneck::search::Row;
use std::fmt::Write as _;

/// The result of a search, with its rows in the same order.
pub struct AutoReport<'a> {
    pub forest: &'a Forest,
    pub found: &'a FoundSequences,
    pub rows: &'a [Row<CallSequence>],
}

/// Number of shown steps of a path: its first and its last ones.
const SHOWN: (usize, usize) = (2, 6);

/// Least share of the cost that is reported as the rest.
const LEAST_REST: f64 = 5e-4;

/// Formats the report.
pub fn report_text(report: &AutoReport<'_>, wide: bool) -> String {
    let AutoReport {
        forest,
        found,
        rows,
    } = report;
    let value = forest.value_type();
    let mut text = super::text::head_text(forest);
    if rows.is_empty() {
        text.push_str(if forest.is_comparison() {
            "\nno difference found: no call sequence has a notable part of it\n"
        } else {
            "\nno call sequence has a notable part of the cost\n"
        });
        return text;
    }
    let share = |cost: f64| share_of(found.whole, cost);
    if found.cheaper {
        text.push_str("A is cheaper on the whole: the sequences are its savings\n");
    }
    if found.whole > forest.whole() * 1.0001 {
        let (changed, whole) = (
            if found.cheaper { "cheaper" } else { "dearer" },
            found.whole,
        );
        let _ = writeln!(
            text,
            "other code changed the other way: below, 100% is what got {changed}, {}",
            format_amount(value, whole)
        );
    }
    for (number, (row, bottleneck)) in rows.iter().zip(&found.bottlenecks).enumerate() {
        let cost = bottleneck.cost;
        let mut line = String::new();
        let _ = write!(
            line,
            "{number}  {}, {}",
            share(bottleneck.new),
            format_total(value, bottleneck.new)
        );
        if (cost - bottleneck.new).abs() > 1e-3 * found.whole {
            let _ = write!(line, " added; {} with what others here have", share(cost));
        }
        if let Some(gain) = speedup_bound(forest, cost) {
            let _ = write!(line, "; without it {gain}");
        }
        if let Some(i) = bottleneck.interval {
            let _ = write!(line, "; 95%: {} to {}", share(i.low), share(i.high));
        }
        let contexts = forest.context_count(&row.summary) as u64;
        let _ = write!(
            line,
            "; {} context{}",
            group_digits(contexts),
            if contexts == 1 { "" } else { "s" }
        );
        text.push('\n');
        text.push_str(&wrap_sentence(&line));
        write_path(forest, row, wide, &mut text);
    }
    let covered = found.covered;
    let mut line = format!(
        "together, overlap counted once: {}, {}",
        share(covered),
        format_total(value, covered)
    );
    if let Some(gain) = speedup_bound(forest, covered) {
        let _ = write!(line, "; without all of them {gain}");
    }
    text.push('\n');
    text.push_str(&wrap_sentence(&line));
    let rest = found.whole - covered;
    if !forest.is_signed() && rest > LEAST_REST * found.whole {
        let rest = format!(
            "everything else: {}, {}",
            share(rest),
            format_total(value, rest)
        );
        text.push_str(&wrap_sentence(&rest));
    }
    text.push_str(&wrap_sentence(&format!(
        "none calls notable others (of {:.1}% or more) for most of its cost; less --coverage makes them more specific",
        100.0 * found.notable
    )));
    text
}

fn write_path(forest: &Forest, row: &Row<CallSequence>, wide: bool, text: &mut String) {
    let path = forest.path_of(&row.summary);
    let (first, last) = SHOWN;
    let hidden = path.len().saturating_sub(first + last);
    for (at, step) in path.iter().enumerate() {
        if !wide && hidden > 1 && at >= first && at < first + hidden {
            if at == first {
                let _ = writeln!(text, "     … {hidden} more");
            }
            continue;
        }
        let name = join_path(forest, &[*step]);
        let _ = writeln!(text, "     {}", shorten_middle(&name, name_width(5, wide)));
    }
}

/// Describes the program's speed without a cost: an upper bound, because no change is free.
fn speedup_bound(forest: &Forest, cost: f64) -> Option<String> {
    if forest.is_signed() {
        return None;
    }
    let left = 1.0 - cost / forest.whole();
    (left > 0.005).then(|| format!("at most {:.2}× as fast", 1.0 / left))
}
