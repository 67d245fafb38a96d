//! Registers that count how often a block runs, because a loop only ever adds a constant to them.

use crate::{
    Architecture, Edge, Equivalence, Flow, FlowGraph, Instruction, Loops, Register, RegisterSet,
};

/// A register to which a loop adds a constant at one place, or once in each round, and which it
/// does not write otherwise. While the loop runs, the register's change counts the executions of a
/// block.
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

/// A loop that ends only when a register that it advances by a constant has reached a limit: where
/// it is entered, the register says how many rounds it will make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedLoop {
    /// The register with its step. Its block is executed once in each round.
    pub counter: StepCounter,
    /// The register that it is compared with, which the loop never writes; `None`: with 0.
    pub limit: Option<Register>,
    /// The block before the loop, which only the loop follows.
    pub before: usize,
    /// The first of its last instructions that write neither register: they have their first
    /// values.
    pub settled: usize,
    /// The edges from the comparison: by the first the loop goes on, by the second it ends.
    pub edges: (usize, usize),
}

impl CountedLoop {
    /// Returns the rounds that the loop will make. `None` if it would count past its limit.
    pub fn rounds_from(&self, registers: &[u64; 16]) -> Option<u64> {
        let value = |register: Register| registers.get(usize::from(register.number())).copied();
        let limit = self.limit.map_or(Some(0), value)?;
        let left = limit.wrapping_sub(value(self.counter.register)?) as i64;
        let step = self.counter.step;
        let rounds = left.checked_div(step)? + i64::from(left.checked_rem(step)? != 0);
        u64::try_from(rounds).ok().map(|rounds| rounds.max(1))
    }
}

/// Finds the loops that end by their counter (x86-64).
pub fn counted_loops(
    architecture: Architecture,
    graph: &FlowGraph,
    loops: &Loops,
    classes: &Equivalence,
) -> Vec<CountedLoop> {
    if architecture != Architecture::X86_64 || graph.misses_edges() || graph.overlapping {
        return Vec::new();
    }
    let all = 0..loops.loops.len();
    all.filter(|one| !loops.loops[*one].irreducible)
        .filter_map(|one| counted_loop(graph, loops, classes, one))
        .collect()
}

/// Returns the edges from the only block at which a loop ends: by the first it goes on, by the
/// second it ends.
pub fn loop_exit(graph: &FlowGraph, loops: &Loops, around: usize) -> Option<(usize, usize)> {
    let is_inside = |block: usize| loops.has_block(around, block);
    let leaves = |edge: &usize| {
        let edge = &graph.edges[*edge];
        edge.from.is_some_and(is_inside) && !edge.to.is_some_and(is_inside)
    };
    let off = only((0..graph.edges.len()).filter(leaves))?;
    let last = graph.edges[off].from;
    let others = (0..graph.edges.len()).filter(|edge| *edge != off);
    let on = only(others.filter(|edge| graph.edges[*edge].from == last))?;
    Some((on, off))
}

/// Returns whether a loop that is entered at one edge sets its counter to a constant before.
pub fn starts_at_constant(graph: &FlowGraph, loops: &Loops, counter: &StepCounter) -> bool {
    /// Blocks before the loop that are read.
    const BEFORE: usize = 4;
    let is_inside = |block: usize| loops.has_block(counter.around, block);
    let entered =
        |edge: &&Edge| edge.to.is_some_and(is_inside) && !edge.from.is_some_and(is_inside);
    let mut before = only(graph.edges.iter().filter(entered)).and_then(|edge| edge.from);
    for _ in 0..BEFORE {
        let Some(block) = before else { return false };
        let sets = |one: &&Instruction| one.flow.is_call() || one.writes.contains(counter.register);
        let mut backwards = graph.instructions_of(&graph.blocks[block]).iter().rev();
        if let Some(set) = backwards.find(sets) {
            let is_own = |one: Register| set.kind.renamed && one == counter.register;
            return set.flow == Flow::Next && !set.kind.load && set.reads.iter().all(is_own);
        }
        let into = graph.edges.iter().filter(|edge| edge.to == Some(block));
        before = only(into).and_then(|edge| edge.from);
    }
    false
}

fn counted_loop(
    graph: &FlowGraph,
    loops: &Loops,
    classes: &Equivalence,
    around: usize,
) -> Option<CountedLoop> {
    let is_inside = |block: usize| loops.has_block(around, block);
    let indices = || 0..graph.edges.len();
    let (from, to) = (
        |edge: usize| graph.edges[edge].from,
        |edge: usize| graph.edges[edge].to,
    );
    let enters =
        |edge: &usize| to(*edge).is_some_and(is_inside) && !from(*edge).is_some_and(is_inside);
    let (on, off) = loop_exit(graph, loops, around)?;
    let last = from(off)?;
    let into = only(indices().filter(enters))?;
    let before = from(into)?;
    only(indices().filter(|edge| from(*edge) == Some(before)))?;
    let mut backwards = graph.instructions_of(&graph.blocks[last]).iter().rev();
    let branch = backwards.next()?;
    if !matches!(branch.flow, Flow::Branch(_)) || !branch.reads.contains(Register::FLAGS) {
        return None;
    }
    let compares = backwards.find(|one| one.writes.contains(Register::FLAGS))?;
    let counters = counters_of_loop(graph, loops, around).into_iter();
    let mut found = counters.filter_map(|counter| {
        let class = classes.blocks[counter.block];
        let is_each_round = class == classes.blocks[last] || class == classes.edges[on];
        let limit = counter_limit(compares, &counter)?;
        let sets = |one: &Instruction| {
            let mut registers = [Some(counter.register), limit].into_iter().flatten();
            one.flow.is_call() || registers.any(|register| one.writes.contains(register))
        };
        let block = graph.blocks[before].instructions.clone();
        let unset = graph.instructions[block.clone()].iter().rev();
        let settled = block.end - unset.take_while(|one| !sets(one)).count();
        (is_each_round && settled < block.end).then_some((counter, limit, settled))
    });
    found.next().map(|(counter, limit, settled)| CountedLoop {
        counter,
        limit,
        before,
        settled,
        edges: (on, off),
    })
}

/// Returns the only item.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next();
    first.filter(|_| items.next().is_none())
}

/// Returns the register that an instruction compares a counter with to set the flags, or `None` for
/// a comparison with 0. `None` for any other instruction.
fn counter_limit(compares: &Instruction, counter: &StepCounter) -> Option<Option<Register>> {
    if compares.advances == Some((counter.register, counter.step)) {
        return Some(None);
    }
    let only_flags = compares.writes.iter().all(|one| one == Register::FLAGS);
    if !only_flags || compares.kind.load || !compares.reads.contains(counter.register) {
        return None;
    }
    let limit = only(compares.reads.iter().filter(|one| *one != counter.register))?;
    counter.unwritten.contains(limit).then_some(Some(limit))
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
    let is_inside = |block: usize| loops.has_block(around, block);
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
    fn a_loop_says_its_rounds_where_it_is_entered() {
        let rounds = |code: &[u8], values: &[(u8, u64)]| {
            let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), code, &NoImage)
                .expect("a procedure");
            let (loops, classes) = (Loops::of(&graph), Equivalence::of(&graph));
            let found = counted_loops(Architecture::X86_64, &graph, &loops, &classes);
            let one = only(found.iter())?;
            assert_eq!(graph.instructions[one.settled].address.0, 0);
            let mut registers = [0; 16];
            for (register, value) in values {
                registers[usize::from(*register)] = *value;
            }
            one.rounds_from(&registers)
        };
        // 0: mov rax,rdx  3: nop  6: dec rsi  9: jne 6  b: ret
        let down = [
            0x48, 0x89, 0xd0, 0x0f, 0x1f, 0x00, 0x48, 0xff, 0xce, 0x75, 0xfb, 0xc3,
        ];
        assert_eq!(rounds(&down, &[(6, 3000)]), Some(3000));
        // 0: mov rax,rdx  3: nop  6: add rsi,8  a: cmp rsi,rdx  d: jb 6  f: ret
        let mut up = vec![
            0x48, 0x89, 0xd0, 0x0f, 0x1f, 0x00, 0x48, 0x83, 0xc6, 0x08, 0x48, 0x39, 0xd6, 0x72,
            0xf7, 0xc3,
        ];
        assert_eq!(rounds(&up, &[(6, 4096), (2, 4096 + 8 * 70)]), Some(70));
        assert_eq!(rounds(&up, &[(6, 4096), (2, 4096 + 8 * 70 - 3)]), Some(70));
        assert_eq!(rounds(&up, &[(6, 4096), (2, 4000)]), None);
        // Another exit of the loop: 6: je f  8: add rsi,8  c: cmp rsi,rdx  f: jb 6  11: ret
        up.splice(6..6, [0x74, 0x09]);
        up[16] = 0xf5;
        assert_eq!(rounds(&up, &[(6, 4096), (2, 5000)]), None);
        // What comes last before the loop sets the counter: 3: mov rsi,rdx
        let mut set = down;
        set[3..6].copy_from_slice(&[0x48, 0x89, 0xd6]);
        assert_eq!(rounds(&set, &[(6, 3000)]), None);
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
