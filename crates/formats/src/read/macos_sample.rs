//! Output of macOS's `sample`: a tree for each thread, with the samples of each function and its
//! callees.

use super::draft::{Owner, TreeDraft};
use super::error::ReadFault;
use super::indented::{IndentedTree, add_inclusive};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::{DraftNode, ValueType};

/// Returns whether a text is one.
pub(crate) fn detect_macos_sample(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "Call graph:")
        && (text.starts_with("Analysis of sampling") || text.contains("\nAnalysis Tool:"))
}

/// A line of the graph.
struct GraphLine<'l> {
    indent: usize,
    samples: i64,
    name: &'l str,
    module: &'l str,
}

impl<'l> GraphLine<'l> {
    /// `+ ! 825 main  (in rg) + 41  [0x10384b549]`; the signs in front of it only guide the eye.
    fn parse_graph_line(line: &'l str) -> Option<Self> {
        let indent = line.find(|c: char| !" +!:|".contains(c))?;
        let (samples, rest) = line.get(indent..)?.split_once(' ')?;
        let samples = samples.parse().ok()?;
        let (name, place) = match rest.split_once("  (in ") {
            Some((name, place)) => (name, place),
            None => (rest, ""),
        };
        let module = place.split(')').next().unwrap_or_default();
        let name = name.trim();
        (!name.is_empty()).then_some(Self {
            indent,
            samples,
            name,
            module,
        })
    }
}

pub(crate) fn read_macos_sample(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let value_type = ValueType {
        name: "samples".to_owned(),
        unit: "samples".to_owned(),
    };
    let mut draft = TreeDraft::new(vec![value_type], options);
    let mut process = None;
    let mut tree = IndentedTree::new(DraftNode::ROOT);
    let (mut in_graph, mut ended) = (false, false);
    let mut outermost = None;
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let mut lines = LineReader::new(input);
    while let Some((at, line)) = lines.next_line()? {
        if !in_graph {
            in_graph = line.trim_end() == "Call graph:";
            if let Some(name) = line.strip_prefix("Process:") {
                process = name.split('[').next().map(|name| name.trim().to_owned());
            }
            continue;
        }
        if line.starts_with("Total number in stack") || line.starts_with("Binary Images") {
            ended = true;
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let Some(call) = GraphLine::parse_graph_line(&line) else {
            skipped.skip_part("not a function with its samples", at);
            continue;
        };
        read += 1;
        let first = *outermost.get_or_insert(call.indent);
        if call.indent <= first && call.name.starts_with("Thread_") {
            let owner = Owner {
                process: process.as_deref(),
                thread: Some(call.name),
                ..Owner::default()
            };
            tree = IndentedTree::new(draft.group_node(&owner, at)?);
            continue;
        }
        let method = draft.intern_method(call.name, call.module)?;
        let node = tree.enter_line(&mut draft, call.indent, method, at)?;
        add_inclusive(&mut draft, 0, node, call.samples);
    }
    if !ended {
        draft.add_note("the file ends within the call graph");
    }
    skipped.note_skipped(read, &mut draft)?;
    Ok(draft)
}
