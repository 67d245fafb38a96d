//! Results as text.

use super::command::HELP;
use crate::output::{
    Align, Table, clean_name, format_bytes, format_ns, group_digits, shorten_middle,
};
use crate::screen::terminal_width;
use analysis::bottleneck::forest::{CallSequence, Forest, Whole};
use analysis::bottleneck::interface::{Metrics, Profile, Step};
use analysis::bottleneck::search::{Details, Listing, Relation, Row};
use analysis::statistics::Interval;
use profile::ValueType;
use std::fmt::Write as _;

/// Maximum width of a name in a table.
const WIDEST: usize = 100;

/// Returns the number of characters for a name after `indent` others: the rest of the terminal, or
/// the name's full width with --wide.
pub fn name_width(indent: usize, wide: bool) -> usize {
    match (wide, terminal_width()) {
        (true, _) => usize::MAX,
        (false, Some(width)) => width.saturating_sub(indent).clamp(20, WIDEST),
        (false, None) => WIDEST,
    }
}

/// Describes the subject of the search.
pub fn head_text(forest: &Forest) -> String {
    let mut text = String::new();
    let value = forest.value_type();
    let members = forest.members();
    let single = members.len() == 1;
    let mut counts = [0, 0];
    for member in &members {
        let count = &mut counts[usize::from(!member.first_side)];
        *count += 1;
        let side = match (single, forest.is_comparison(), member.first_side) {
            (true, ..) => String::new(),
            (_, false, _) => format!("run {count}  "),
            (.., true) => format!("A{count}  "),
            (.., false) => format!("B{count}  "),
        };
        let factor = match member.factor {
            1.0 => String::new(),
            factor => format!(" × {factor:.4}"),
        };
        let _ = writeln!(
            text,
            "{side}{}: {}{factor} in {} calling contexts",
            clean_name(&member.name),
            format_total(value, member.total as f64),
            group_digits(member.nodes as u64)
        );
    }
    let whole = format_amount(value, forest.whole());
    match forest.whole_kind() {
        Whole::Total if single => {}
        Whole::Total => drop(writeln!(text, "100% is the mean of the runs, {whole}")),
        Whole::Difference => {
            let total = format_amount(value, forest.total());
            let _ = writeln!(
                text,
                "values are A - B, on the whole {total}; 100% is {whole}"
            );
        }
        Whole::FirstTotal => {
            let total = format_amount(value, forest.total());
            let _ = writeln!(
                text,
                "values are A - B, on the whole {total}; 100% is A, {whole}, because the difference is next to nothing"
            );
        }
    }
    if forest.is_signed() && !forest.is_comparison() {
        text.push_str("the profile has negative costs: it is read as a difference\n");
    }
    text
}

/// Formats an amount with its unit.
pub fn format_amount(value: &ValueType, amount: f64) -> String {
    let sign = if amount < 0.0 { "-" } else { "" };
    let size = amount.abs();
    let text = match value.unit.as_str() {
        "nanoseconds" | "ns" => format_ns(size),
        "microseconds" | "us" | "µs" => format_ns(size * 1e3),
        "milliseconds" | "ms" => format_ns(size * 1e6),
        "seconds" | "s" => format_ns(size * 1e9),
        "bytes" => format_bytes(size.round() as u64),
        _ => group_digits(size.round() as u64),
    };
    match size.round() {
        0.0 if text == "0" => text,
        _ => format!("{sign}{text}"),
    }
}

/// Formats an amount with its unit and quantity.
pub fn format_total(value: &ValueType, size: f64) -> String {
    let (text, name) = (format_amount(value, size), clean_name(&value.name));
    let has_unit = text.ends_with(char::is_alphabetic);
    if has_unit {
        format!("{text} of {name}")
    } else {
        format!("{text} {name}")
    }
}

/// Formats a share of the whole.
pub fn format_share(forest: &Forest, amount: f64) -> String {
    share_of(forest.whole(), amount)
}

/// Formats a part of `whole` as a percentage, without a minus before zero.
pub fn share_of(whole: f64, amount: f64) -> String {
    let text = format!("{:.1}%", 100.0 * amount / whole);
    if text == "-0.0%" {
        "0.0%".to_owned()
    } else {
        text
    }
}

/// Joins names as a path on one line.
pub fn join_path(forest: &Forest, path: &[Step]) -> String {
    let names: Vec<&str> = path.iter().map(|step| forest.step_name(*step)).collect();
    clean_name(&names.join(" > "))
}

fn format_range(value: &ValueType, interval: Interval) -> String {
    format!(
        "{} to {}",
        format_amount(value, interval.low),
        format_amount(value, interval.high)
    )
}

/// Formats a list of numbered summaries; for those near `current`, only the difference of the
/// paths.
pub fn listing_text(
    forest: &Forest,
    listing: &Listing<CallSequence>,
    current: Option<&CallSequence>,
    wide: bool,
) -> String {
    let mut text = String::new();
    if listing.rows.is_empty() {
        text.push_str(match current {
            Some(_) => "nothing is near\n",
            None => "nothing\n",
        });
    } else {
        text = listing_table(forest, &listing.rows, current, wide).render();
    }
    for (relation, count) in &listing.more {
        let what = match relation {
            Relation::Start | Relation::Label(_) => String::new(),
            relation => format!(" {}", relation_name(relation)),
        };
        let _ = writeln!(
            text,
            "{} more{what}; set limit N shows more",
            group_digits(*count as u64)
        );
    }
    if listing.noise > 0 {
        let _ = writeln!(
            text,
            "{} more differ by no more than chance between runs, and are not ranked",
            group_digits(listing.noise as u64)
        );
    }
    text
}

fn listing_table(
    forest: &Forest,
    rows: &[Row<CallSequence>],
    current: Option<&CallSequence>,
    wide: bool,
) -> Table {
    let new = rows.iter().any(|row| row.new.is_some());
    let ranges = rows.iter().any(|row| row.interval.is_some());
    let right = |name: &str| (name.to_owned(), Align::Right);
    let mut columns: Vec<_> = ["n", "base", "%", "cum", "%"].map(right).into();
    if new {
        columns.extend(["new cum", "%"].map(right));
    }
    if ranges {
        columns.push(right("95% interval"));
    }
    if current.is_some() {
        columns.push(("".to_owned(), Align::Left));
    }
    columns.push(("path".to_owned(), Align::Left));
    let mut table = Table::new(columns);
    let value = forest.value_type();
    for (number, row) in rows.iter().enumerate() {
        let Metrics { base, cum } = row.metrics;
        let mut cells = vec![number.to_string()];
        for part in [base, cum] {
            cells.extend([format_amount(value, part), format_share(forest, part)]);
        }
        if new {
            let part = row.new.unwrap_or(cum);
            cells.extend([format_amount(value, part), format_share(forest, part)]);
        }
        if ranges {
            cells.push(
                row.interval
                    .map_or(String::new(), |i| format_range(value, i)),
            );
        }
        let path = path_cell(forest, row, current);
        let path = shorten_middle(&path, if wide { usize::MAX } else { WIDEST });
        if current.is_some() {
            cells.push(relation_name(&row.relation));
        }
        cells.push(path);
        table.add_row(cells);
    }
    table
}

fn path_cell(forest: &Forest, row: &Row<CallSequence>, current: Option<&CallSequence>) -> String {
    let path = forest.path_of(&row.summary);
    let own = current.map_or(0, |s| forest.path_of(s).len());
    let (more, less) = (
        path.len().saturating_sub(own),
        own.saturating_sub(path.len()),
    );
    let current = current.map_or(&[][..], |s| forest.path_of(s));
    match &row.relation {
        Relation::Above => format!("{} > …", join_path(forest, &path[..more])),
        Relation::Below => format!("… > {}", join_path(forest, &path[own.min(path.len())..])),
        Relation::TrimTop => format!("without {} > …", join_path(forest, &current[..less])),
        Relation::TrimBottom => {
            format!(
                "without … > {}",
                join_path(forest, &current[path.len().min(own)..])
            )
        }
        Relation::Start => join_path(forest, path),
        Relation::Label(label) => format!("{}: {}", clean_name(label), join_path(forest, path)),
    }
}

fn relation_name(relation: &Relation) -> String {
    match relation {
        Relation::Above => "above".into(),
        Relation::Below => "below".into(),
        Relation::TrimTop => "trim top".into(),
        Relation::TrimBottom => "trim bottom".into(),
        Relation::Start => String::new(),
        Relation::Label(label) => clean_name(label),
    }
}

/// Formats the current summary.
pub fn details_text(forest: &Forest, details: &Details<CallSequence>, wide: bool) -> String {
    let mut text = String::new();
    let value = forest.value_type();
    if !details.labels.is_empty() {
        let labels: Vec<String> = details.labels.iter().map(|l| clean_name(l)).collect();
        let _ = writeln!(text, "labels: {}", labels.join(", "));
    }
    for (name, part, interval) in [
        ("base", details.metrics.base, details.intervals.0),
        ("cum", details.metrics.cum, details.intervals.1),
    ] {
        let _ = write!(
            text,
            "{name:<5}{}, {}",
            format_amount(value, part),
            format_share(forest, part)
        );
        if let Some(interval) = interval {
            let _ = write!(text, " (95%: {})", format_range(value, interval));
            if interval.conservative() == 0.0 {
                text.push_str(", which may be chance");
            }
        }
        text.push('\n');
    }
    explain_paradoxes(forest, details, &mut text);
    for (label, overlap) in &details.overlaps {
        let _ = writeln!(
            text,
            "overlap with {}: base {}, {}; cum {}, {}",
            clean_name(label),
            format_amount(value, overlap.base),
            format_share(forest, overlap.base),
            format_amount(value, overlap.cum),
            format_share(forest, overlap.cum)
        );
    }
    if let Some(labelled) = details.labelled {
        let new = details.metrics.cum - labelled.cum;
        let (new, share) = (format_amount(value, new), format_share(forest, new));
        let _ = writeln!(text, "cum that no label has: {new}, {share}");
    }
    let contexts = forest.context_count(&details.summary);
    let times = if contexts == 1 { "context" } else { "contexts" };
    let _ = writeln!(
        text,
        "path, in {} calling {times}:",
        group_digits(contexts as u64)
    );
    for step in forest.path_of(&details.summary) {
        let name = clean_name(forest.step_name(*step));
        let _ = writeln!(text, "  {}", shorten_middle(&name, name_width(2, wide)));
    }
    text.push('\n');
    text + &listing_text(forest, &details.nearby, Some(&details.summary), wide)
}

/// Explains why the numbers of a comparison look wrong.
fn explain_paradoxes(forest: &Forest, details: &Details<CallSequence>, text: &mut String) {
    if !forest.is_signed() {
        return;
    }
    let Metrics { base, cum } = details.metrics;
    let mut say = |sentence: &str| {
        text.push_str("  ");
        text.push_str(sentence);
        text.push('\n');
    };
    if base < 0.0 && cum < 0.0 {
        say("negative: this costs more in B than in A");
    } else if base < 0.0 {
        say("negative base: the methods of the path themselves cost more in B than in A");
    } else if cum < 0.0 {
        say("negative cum: with all that it calls, this costs more in B than in A");
    }
    if cum < base {
        say("cum is less than base: what the path calls is cheaper in A than in B");
    }
    if let Some(first) = forest.only_in(&details.summary)
        && forest.path_of(&details.summary).len() > 1
    {
        say(if first {
            "only A has this path: what its methods cost in B on other paths is not subtracted"
        } else {
            "only B has this path: what its methods cost in A on other paths is not added"
        });
    }
    if cum > forest.whole() {
        say("more than 100%: something else is cheaper in A than in B, and makes up for it");
    }
}

/// Formats the labelled summaries, and their sum.
pub fn labels_text(
    forest: &Forest,
    list: &Listing<CallSequence>,
    total: Metrics,
    wide: bool,
) -> String {
    if list.rows.is_empty() {
        return "nothing is labelled; label NAME labels the current summary\n".to_owned();
    }
    let value = forest.value_type();
    let mut text = listing_text(forest, list, None, wide);
    let _ = writeln!(
        text,
        "together, overlap counted once: base {}, {}; cum {}, {}",
        format_amount(value, total.base),
        format_share(forest, total.base),
        format_amount(value, total.cum),
        format_share(forest, total.cum)
    );
    text
}

/// Lists the commands.
pub fn help_text() -> String {
    let left = |name: &str| (name.to_owned(), Align::Left);
    let mut table = Table::new(vec![left("command"), left("")]);
    for (_, usage, what, _) in HELP {
        table.add_row(vec![(*usage).to_owned(), (*what).to_owned()]);
    }
    table.render()
}
