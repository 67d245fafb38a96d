//! Registers that count how often a block runs, because a loop only ever adds a constant to them.

use crate::{Architecture, Flow, FlowGraph, Loops, Register, RegisterSet};

/// A register to which a loop adds a constant at one place, or once in each round, and which it does
/// not write otherwise. While the loop runs, the register's change counts the executions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCounter {
    /// The outermost loop of which this is true, in [`Loops::loops`].
    pub around: usize,
    /// The integer register.
    pub register: Register,
    /// The constant, not 0.
    pub step: i64,
    /// The block with the addition; the loop's head if there are several additions.
    pub block: usize,
    /// The integer registers that the loop never writes.
    pub unwritten: RegisterSet,
}

impl StepCounter {
    /// Returns the number of executions between two values of the register. `None` if it moved
    /// against its step, or by no multiple of it.
    pub fn executions_between(&self, before: u64, after: u64) -> Option<u64> {
        let by = after.wrapping_sub(before) as i64;
        let steps = |by: i64| (by % self.step == 0).then(|| by / self.step);
        let is_half = |value: u64| value <= u64::from(u32::MAX);
        let narrow = || {
            // An addition to half of the register wraps around at 32 bits.
            let by = (after as u32).wrapping_sub(before as u32) as i32;
            (is_half(before) && is_half(after)).then_some(i64::from(by))
        };
        let wide = steps(by).filter(|steps| *steps >= 0);
        let steps = wide.or_else(|| narrow().and_then(steps));
        steps.and_then(|steps| u64::try_from(steps).ok())
    }
}

/// Registers that a called function may change (x86-64, System V).
const CALLER_SAVED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Finds the counters of a procedure's loops (x86-64): for each block at most one, of the outermost
/// loop that has one.
pub fn step_counters(
    architecture: Architecture,
    graph: &FlowGraph,
    loops: &Loops,
) -> Vec<StepCounter> {
    let mut found: Vec<StepCounter> = Vec::new();
    if architecture != Architecture::X86_64 || graph.misses_edges() || graph.overlapping {
        return found;
    }
    let stack = Register::stack_pointer(architecture);
    // Loops come after those around them.
    for (around, one) in loops.loops.iter().enumerate() {
        if one.irreducible {
            continue;
        }
        for counter in counters_of_loop(graph, loops, around) {
            let known = found.iter().any(|other| {
                other.block == counter.block
                    && loops.around(Some(around)).any(|one| one == other.around)
            });
            if counter.register != stack && !known {
                found.push(counter);
            }
        }
    }
    found
}

/// Finds the counters of one loop, one for each register.
fn counters_of_loop(graph: &FlowGraph, loops: &Loops, around: usize) -> Vec<StepCounter> {
    let is_inside = |block: usize| (loops.around(loops.innermost[block])).any(|one| one == around);
    let body: Vec<usize> = (0..graph.blocks.len())
        .filter(|one| is_inside(*one))
        .collect();
    let mut advances: [Vec<(usize, i64)>; 16] = Default::default();
    let mut written = RegisterSet::default();
    for index in &body {
        for instruction in graph.instructions_of(&graph.blocks[*index]) {
            if matches!(instruction.flow, Flow::Call(_) | Flow::IndirectCall) {
                for number in CALLER_SAVED {
                    written.insert(Register::integer(number));
                }
            }
            let advance = instruction.advances.filter(|(_, step)| *step != 0);
            for register in instruction.writes.iter() {
                let slot = advances.get_mut(usize::from(register.number()));
                match (slot, advance) {
                    (Some(slot), Some((of, step))) if of == register => slot.push((*index, step)),
                    _ => written.insert(register),
                }
            }
        }
    }
    let is_unwritten = |number: &u8| {
        let register = Register::integer(*number);
        advances[usize::from(*number)].is_empty() && !written.contains(register)
    };
    let unwritten: RegisterSet = (0..16)
        .filter(is_unwritten)
        .map(Register::integer)
        .collect();
    let head = loops.loops[around].head;
    let counter = |(number, places): (u8, Vec<(usize, i64)>)| {
        let register = Register::integer(number);
        let (block, step) = *places.first()?;
        let block = match places.as_slice() {
            [_] => block,
            all if all.iter().all(|one| one.1 == step) => {
                passes_one(graph, &body, head, all).then_some(head)?
            }
            _ => return None,
        };
        (!written.contains(register)).then_some(StepCounter {
            around,
            register,
            step,
            block,
            unwritten,
        })
    };
    (0..).zip(advances).filter_map(counter).collect()
}

/// Returns whether each way round a loop passes exactly one of these places: compilers copy the end
/// of a loop into each branch.
fn passes_one(graph: &FlowGraph, body: &[usize], head: usize, places: &[(usize, i64)]) -> bool {
    let own = |block: usize| places.iter().filter(|one| one.0 == block).count();
    let mut passed = vec![None; graph.blocks.len()];
    passed[head] = Some(own(head));
    let mut reached = vec![head];
    while let Some(from) = reached.pop() {
        let before = passed[from].unwrap_or(0);
        for edge in graph.edges.iter().filter(|edge| edge.from == Some(from)) {
            let Some(to) = edge.to.filter(|to| body.contains(to)) else {
                continue;
            };
            if to == head {
                if before != 1 {
                    return false;
                }
                continue;
            }
            let there = before + own(to);
            match passed[to] {
                None => {
                    passed[to] = Some(there);
                    reached.push(to);
                }
                Some(known) if known != there => return false,
                Some(_) => {}
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoImage;
    use profile::ImageAddress;

    fn counters(code: &[u8]) -> (FlowGraph, Vec<StepCounter>) {
        let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), code, &NoImage)
            .expect("a procedure");
        let loops = Loops::of(&graph);
        let found = step_counters(Architecture::X86_64, &graph, &loops);
        (graph, found)
    }

    #[test]
    fn a_loop_counts_down_in_one_register() {
        // 0: mov rdi,[rdi]  3: dec rsi  6: jne 0  8: ret
        let code = [0x48, 0x8b, 0x3f, 0x48, 0xff, 0xce, 0x75, 0xf8, 0xc3];
        let (_, found) = counters(&code);
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((one.register, one.step), (Register::integer(6), -1));
        assert_eq!(one.executions_between(1000, 400), Some(600));
        assert_eq!(one.executions_between(400, 1000), None);
    }

    #[test]
    fn an_outer_loop_resets_what_an_inner_one_counts() {
        // 0: xor eax,eax  2: inc eax  4: cmp eax,9  7: jne 2  9: add rsi,4  d: cmp rsi,rdi
        // 10: jne 0  12: ret
        let code = [
            0x31, 0xc0, 0xff, 0xc0, 0x83, 0xf8, 0x09, 0x75, 0xf9, 0x48, 0x83, 0xc6, 0x04, 0x48,
            0x39, 0xfe, 0x75, 0xee, 0xc3,
        ];
        let (graph, found) = counters(&code);
        let outer = found.iter().find(|one| one.step == 4).expect("rsi");
        let inner = found.iter().find(|one| one.step == 1).expect("eax");
        assert_eq!(found.len(), 2);
        assert_ne!(inner.around, outer.around);
        assert_eq!(graph.blocks[inner.block].start.0, 2);
        assert_eq!(graph.blocks[outer.block].start.0, 9);
        // 32 bits wrap around.
        assert_eq!(inner.executions_between(0xffff_fffe, 3), Some(5));
        assert_eq!(outer.executions_between(0, 6), None);
    }

    #[test]
    fn a_loop_adds_in_each_of_its_branches() {
        // 0: shr rdx,1  3: jb b  5: inc rsi  8: jne 0  a: ret  b: inc rsi  e: jne 0  10: ret
        let mut code = [
            0x48, 0xd1, 0xea, 0x72, 0x06, 0x48, 0xff, 0xc6, 0x75, 0xf6, 0xc3, 0x48, 0xff, 0xc6,
            0x75, 0xf0, 0xc3,
        ];
        let block = |code: &[u8]| {
            let (graph, found) = counters(code);
            let [one] = found.as_slice() else {
                panic!("{found:?}");
            };
            assert_eq!((one.register, one.step), (Register::integer(6), 1));
            graph.blocks[one.block].start.0
        };
        assert_eq!(block(&code), 0);
        // Without the second addition, only rounds through the first are counted.
        code[11..14].copy_from_slice(&[0x90, 0x90, 0x90]);
        assert_eq!(block(&code), 5);
    }

    #[test]
    fn a_call_may_change_a_register() {
        // 0: dec rsi  3: call 100  8: dec rbx  b: jne 0  d: ret
        let code = [
            0x48, 0xff, 0xce, 0xe8, 0xf8, 0, 0, 0, 0x48, 0xff, 0xcb, 0x75, 0xf3, 0xc3,
        ];
        let (_, found) = counters(&code);
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(one.register, Register::integer(3));
    }
}
