//! Callgrind's output: a call *graph*.
//!
//! It gives each function's own cost and the cost of each of its calls, but not how a callee's cost
//! divides among the function's own callers. As in gprof, the tree assumes the same mix of costs
//! for every caller. With `--separate-callers` a function has several nodes in the graph, which
//! makes the tree more accurate.

mod expand;
mod graph;

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use profile::ValueType;

pub(crate) use expand::expand_call_paths;
pub(crate) use graph::CostGraph;

pub(crate) fn read_callgrind(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let mut graph = CostGraph::new(options.limits.memory);
    let mut lines = LineReader::new(input);
    let mut end = FilePosition::Line(1);
    while let Some((at, line)) = lines.next_line()? {
        end = at;
        graph.read_line(&line, at)?;
    }
    let events = graph.event_names();
    if events.is_empty() {
        return Err(ReadFault::damaged(
            "no line says which events it counts",
            end,
        ));
    }
    let value_type = |name: &String| ValueType {
        name: name.clone(),
        unit: "count".to_owned(),
    };
    let mut draft = TreeDraft::new(events.iter().map(value_type).collect(), options);
    draft.charge_memory(graph.memory_size(), end)?;
    draft.add_note("callgrind keeps a call graph: the cost of a function was shared among its call paths in proportion to what its callers paid for it; valgrind --separate-callers=N keeps them apart");
    if options.lines {
        draft.add_note("callgrind's lines were not read; methods are functions");
    }
    if graph.unnamed() > 0 {
        let unnamed = graph.unnamed();
        draft.add_note(format!(
            "{unnamed} names are not in the file: their numbers stand for them"
        ));
    }
    if graph.reconcile_calls(end)? {
        draft.add_note("callers paid for more than functions cost, as with recursion and longjmp: their calls were scaled down");
    }
    expand_call_paths(&graph, &mut draft, end)?;
    Ok(draft)
}
