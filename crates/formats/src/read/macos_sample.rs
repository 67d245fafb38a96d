//! What macOS's `sample` prints: a tree for each thread, with the samples of each function and what it
//! called.

use super::draft::{Draft, Owner};
use super::error::Fault;
use super::indented::{IndentedTree, add_inclusive};
use super::input::Input;
use super::lines::Lines;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::{DraftNode, ValueType};

/// Returns whether a text is one.
pub(crate) fn detect(text: &str) -> bool {
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
    fn parse(line: &'l str) -> Option<Self> {
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

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let value_type = ValueType {
        name: "samples".to_owned(),
        unit: "samples".to_owned(),
    };
    let mut draft = Draft::new(vec![value_type], options);
    let mut process = None;
    let mut tree = IndentedTree::new(DraftNode::ROOT);
    let (mut in_graph, mut ended) = (false, false);
    let mut outermost = None;
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let mut lines = Lines::new(input);
    while let Some((at, line)) = lines.next()? {
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
        let Some(call) = GraphLine::parse(&line) else {
            skipped.add("not a function with its samples", at);
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
            tree = IndentedTree::new(draft.group(&owner, at)?);
            continue;
        }
        let method = draft.method(call.name, call.module)?;
        let node = tree.enter(&mut draft, call.indent, method, at)?;
        add_inclusive(&mut draft, 0, node, call.samples);
    }
    if !ended {
        draft.note("the file ends within the call graph");
    }
    skipped.finish(read, &mut draft)?;
    Ok(draft)
}
