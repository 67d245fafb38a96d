//! Attribution of samples on a processor that executes out of order and retires in order. The clock
//! interrupts when something retires, and the program counter is that of the *next* instruction.
//! The instruction executed before it is the one that waited.

use machine::FlowGraph;

/// Moves each sample to the instruction before it, which held up retirement. At the head of a
/// block, that is the last instruction of a preceding block: samples are shared out in proportion
/// to how often the edges that lead here are taken (`taken`, for each edge; evenly if all are 0).
/// Samples at the procedure's entry stay where they are. `samples` and the result are of the
/// graph's instructions.
///
/// # Panics
/// If `samples` or `taken` are not of this graph.
pub fn attribute_samples(graph: &FlowGraph, samples: &[f64], taken: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), graph.instructions.len());
    assert_eq!(taken.len(), graph.edges.len());
    let mut moved = vec![0.0; samples.len()];
    let mut entering: Vec<Vec<(Option<usize>, f64)>> = vec![Vec::new(); graph.blocks.len()];
    for (edge, taken) in graph.edges.iter().zip(taken) {
        if let Some(to) = edge.to {
            let last = edge
                .from
                .map(|from| graph.blocks[from].instructions.end - 1);
            entering[to].push((last, *taken));
        }
    }
    for (block, entering) in graph.blocks.iter().zip(&entering) {
        let range = block.instructions.clone();
        let Some(head) = samples.get(range.start) else {
            continue;
        };
        for index in range.clone().skip(1) {
            moved[index - 1] += samples[index];
        }
        let all: f64 = entering.iter().map(|(_, taken)| taken).sum();
        for (last, taken) in entering {
            let share = if all > 0.0 {
                taken / all
            } else {
                1.0 / entering.len() as f64
            };
            moved[last.unwrap_or(range.start)] += head * share;
        }
        if entering.is_empty() {
            moved[range.start] += head;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Architecture, NoImage};
    use profile::ImageAddress;

    #[test]
    fn heads_are_shared_out_and_none_is_lost() {
        // 0: test edi,edi  2: je 7  4: inc eax  6: nop  7: dec edi  9: jne 4  b: ret
        let code = [
            0x85, 0xff, 0x74, 0x03, 0xff, 0xc0, 0x90, 0xff, 0xcf, 0x75, 0xf9, 0xc3,
        ];
        let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), &code, &NoImage)
            .expect("a procedure");
        let at = |address: u64| {
            let mut all = graph.instructions.iter();
            all.position(|one| one.address.0 == address).expect("there")
        };
        let mut samples = vec![0.0; graph.instructions.len()];
        samples[at(0)] = 1.0;
        samples[at(7)] = 8.0;
        samples[at(9)] = 2.0;
        // The ways into 7: the branch at 2, taken once, and from 6, three times.
        let taken: Vec<f64> = graph
            .edges
            .iter()
            .map(
                |edge| match edge.from.map(|from| graph.blocks[from].start.0) {
                    Some(0) => 1.0,
                    Some(4) => 3.0,
                    _ => 0.0,
                },
            )
            .collect();
        let moved = attribute_samples(&graph, &samples, &taken);
        assert_eq!(moved[at(0)], 1.0);
        assert_eq!(moved[at(2)], 2.0);
        assert_eq!(moved[at(6)], 6.0);
        assert_eq!(moved[at(7)], 2.0);
        assert_eq!(moved.iter().sum::<f64>(), samples.iter().sum::<f64>());
    }
}
