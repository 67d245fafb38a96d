//! DTrace's output for an aggregation by `stack()` or `ustack()`: frames, innermost first, a line
//! each, then the count.

use super::draft::{Owner, TreeDraft};
use super::error::ReadFault;
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::ValueType;

/// Returns whether a text is one: it has an indented frame with a module, and a count alone on a line.
pub(crate) fn detect_dtrace(text: &str) -> bool {
    let mut lines = text
        .lines()
        .take(2000)
        .filter(|l| l.starts_with([' ', '\t']));
    lines.clone().any(is_stack_frame) && lines.any(|line| parse_count(line).is_some())
        || text.trim_start().starts_with("CPU") && text.lines().any(is_header)
}

/// `libc.so.1`write+0xa`.
fn is_stack_frame(line: &str) -> bool {
    let line = line.trim();
    let module = line.split_once('`').map(|(module, _)| module);
    module.is_some_and(|m| !m.is_empty() && !m.contains([' ', '(', ';']))
}

fn parse_count(line: &str) -> Option<i64> {
    line.trim().parse().ok()
}

/// `CPU ID FUNCTION:NAME`, or ` 0 64091 :tick-60s` below it.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (first, second, third) = (words.next(), words.next(), words.next());
    let is_number = |word: Option<&str>| word.is_some_and(|w| w.parse::<u64>().is_ok());
    let probe = third.is_some_and(|word| word.contains(':'));
    probe && (first == Some("CPU") && second == Some("ID") || is_number(first) && is_number(second))
}

pub(crate) fn read_dtrace(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let value_type = ValueType {
        name: "samples".to_owned(),
        unit: "samples".to_owned(),
    };
    let mut draft = TreeDraft::new(vec![value_type], options);
    let mut frames: Vec<(String, String)> = Vec::new();
    let (mut skipped, mut read, mut unnamed) = (Skipped::new("lines"), 0_u64, 0_u64);
    let mut started = false;
    let mut lines = LineReader::new(input);
    while let Some((at, line)) = lines.next_line()? {
        let text = line.trim();
        if text.is_empty() {
            started = true;
        } else if is_header(text) || text.starts_with("dtrace: ") {
        } else if let Some(count) = parse_count(text) {
            read += 1;
            let mut node = draft.group_node(&Owner::default(), at)?;
            for (name, module) in frames.drain(..).rev() {
                let method = draft.intern_method(&name, &module)?;
                node = draft.child_node(node, method, at)?;
            }
            draft.add_cost(0, node, count);
        } else if line.starts_with([' ', '\t']) && frames.len() as u32 <= options.limits.depth {
            read += 1;
            unnamed += u64::from(text.starts_with("0x"));
            frames.push(split_frame(text));
        } else if started {
            skipped.skip_part("neither a frame nor a count", at);
        }
    }
    if !frames.is_empty() {
        draft.add_note("the last stack has no count and was left out: the file ends early");
    }
    skipped.note_skipped(read.max(1), &mut draft)?;
    if unnamed > 0 {
        draft.add_note(format!(
            "{unnamed} frames have no symbol and are named by their address"
        ));
    }
    Ok(draft)
}

/// Name and module of `module`name+0x12`.
fn split_frame(text: &str) -> (String, String) {
    let (module, name) = match text.split_once('`') {
        Some((module, name)) if !module.contains(['(', ' ']) => (module, name),
        _ => ("", text),
    };
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => name,
    };
    (name.to_owned(), module.to_owned())
}
