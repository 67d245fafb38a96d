//! Graphs of real compilers' code: jump tables, tail calls, calls that do not return.

mod support;

use machine::{EdgeKind, FlowGraph};
use support::Fixture;

const FIXTURES: [&str; 8] = [
    "switch.gcc-O2",
    "switch.gcc-O0",
    "switch.gcc-fixed",
    "switch.clang-O2",
    "switch.clang-fixed",
    "switch.aarch64-gcc-O2",
    "switch.aarch64-gcc-O0",
    "switch.aarch64-clang-O2",
];

fn has(graph: &FlowGraph, kind: EdgeKind) -> bool {
    graph.edges.iter().any(|edge| edge.kind == kind)
}

/// Returns the number of entries of each of the procedure's tables.
fn tables(fixture: &str, procedure: &str) -> Vec<usize> {
    let graph = Fixture::open(fixture).graph(procedure);
    assert!(
        !graph.misses_edges(),
        "{fixture} {procedure}: {:x?} {:x?}",
        graph.unresolved,
        graph.invalid
    );
    assert!(
        !has(&graph, EdgeKind::UnknownEntry),
        "{fixture} {procedure}: not all is reached"
    );
    assert!(graph.data.is_empty() && !graph.overlapping);
    graph
        .tables
        .iter()
        .map(|table| table.targets.len())
        .collect()
}

#[test]
fn a_switch_has_its_entries() {
    for fixture in FIXTURES {
        assert_eq!(tables(fixture, "nine"), [9], "{fixture}");
        let graph = Fixture::open(fixture).graph("nine");
        // Without optimisation, gcc compares in memory.
        let bounded = fixture != "switch.gcc-O0";
        assert!(
            graph.tables.iter().all(|table| table.bounded == bounded),
            "{fixture}"
        );
    }
}

#[test]
fn a_table_in_a_loop_is_found() {
    for fixture in FIXTURES {
        assert_eq!(tables(fixture, "interpreter"), [8], "{fixture}");
    }
}

#[test]
fn two_tables_are_found() {
    for fixture in FIXTURES {
        // This compiler tests for one of the eight separately.
        let first = if fixture == "switch.aarch64-gcc-O2" {
            7
        } else {
            8
        };
        assert_eq!(tables(fixture, "two"), [first, 7], "{fixture}");
    }
}

#[test]
fn labels_as_values_are_found() {
    for fixture in FIXTURES {
        let graph = Fixture::open(fixture).graph("threaded");
        assert!(!graph.misses_edges(), "{fixture}: {:x?}", graph.unresolved);
        assert!(!graph.tables.is_empty(), "{fixture}");
        for table in &graph.tables {
            assert!(!table.bounded);
            assert_eq!(table.targets.len(), 5, "{fixture}");
        }
    }
}

#[test]
fn ways_out_of_a_procedure_are_told_apart() {
    for fixture in FIXTURES {
        let image = Fixture::open(fixture);
        if !fixture.ends_with("O0") {
            for procedure in ["through_pointer", "through_memory", "tail"] {
                let graph = image.graph(procedure);
                assert!(has(&graph, EdgeKind::TailCall), "{fixture} {procedure}");
                assert!(
                    !graph.misses_edges() && graph.returns(),
                    "{fixture} {procedure}"
                );
            }
        }
        let checked = image.graph("checked");
        assert!(has(&checked, EdgeKind::NoReturn), "{fixture}");
        assert!(has(&checked, EdgeKind::Return), "{fixture}");
        for procedure in ["forever", "give_up"] {
            let graph = image.graph(procedure);
            assert!(!graph.returns(), "{fixture} {procedure}");
            assert!(!graph.misses_edges(), "{fixture} {procedure}");
        }
    }
}

#[test]
fn blocks_tile_the_code_that_is_reached() {
    for fixture in FIXTURES {
        let image = Fixture::open(fixture);
        for symbol in image.procedures() {
            let graph = image.graph(&symbol.name);
            for (index, block) in graph.blocks.iter().enumerate() {
                let instructions = graph.instructions_of(block);
                assert_eq!(
                    instructions.first().map(|first| first.address),
                    Some(block.start)
                );
                assert_eq!(instructions.last().map(|last| last.end()), Some(block.end));
                for instruction in instructions {
                    assert_eq!(graph.block_at(instruction.address), Some(index));
                }
                for pair in instructions.windows(2) {
                    assert_eq!(pair[0].end(), pair[1].address);
                    assert!(!pair[0].flow.ends_block());
                }
                let leaves = |edge: &&machine::Edge| edge.from == Some(index);
                assert!(
                    graph.edges.iter().any(|edge| leaves(&edge)),
                    "{fixture} {}",
                    symbol.name
                );
            }
        }
    }
}
