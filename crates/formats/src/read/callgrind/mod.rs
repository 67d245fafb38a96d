//! Callgrind's output: a call *graph*.
//!
//! It says what each function cost itself, and what each of its callees cost when it called them,
//! but not which of that belongs to which of its own callers. As gprof does, the tree takes a
//! function to cost the same mix whoever calls it; with `--separate-callers` a function has several
//! nodes in the graph, and the tree is the truer.

mod expand;
mod graph;

use super::draft::Draft;
use super::error::{Fault, Place};
use super::input::Input;
use super::lines::Lines;
use super::options::ReadOptions;
use profile::ValueType;

pub(crate) use expand::expand;
pub(crate) use graph::Graph;

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let mut graph = Graph::new(options.limits.memory);
    let mut lines = Lines::new(input);
    let mut end = Place::Line(1);
    while let Some((at, line)) = lines.next()? {
        end = at;
        graph.line(&line, at)?;
    }
    let events = graph.events();
    if events.is_empty() {
        return Err(Fault::damaged("no line says which events it counts", end));
    }
    let value_type = |name: &String| ValueType {
        name: name.clone(),
        unit: "count".to_owned(),
    };
    let mut draft = Draft::new(events.iter().map(value_type).collect(), options);
    draft.hold(graph.size(), end)?;
    draft.note("callgrind keeps a call graph: the cost of a function was shared among its call paths in proportion to what its callers paid for it; valgrind --separate-callers=N keeps them apart");
    if options.lines {
        draft.note("callgrind's lines were not read; methods are functions");
    }
    expand(&graph, &mut draft, end)?;
    Ok(draft)
}
