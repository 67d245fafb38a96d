//! Call stacks as paths of frames that a format numbers itself.

use indexmap::IndexSet;
use profile::{Location, StackId, StackTable};
use rustc_hash::FxBuildHasher;
use std::cmp::Reverse;

/// A frame, by its number in the format, and the node of its caller.
type Node = (Option<usize>, usize);

/// A tree of frames: two stacks of equal frames are one path.
pub(crate) struct StackPaths {
    nodes: IndexSet<Node, FxBuildHasher>,
    /// The innermost node of each stack; `None` if the stack is not wanted.
    of_stack: Vec<Option<usize>>,
}

impl StackPaths {
    /// Makes the paths of the wanted stacks. `frames` appends the numbers of the frames at a
    /// location, innermost first.
    pub fn new(
        stacks: &StackTable,
        wanted: impl Iterator<Item = StackId>,
        mut frames: impl FnMut(Location, &mut Vec<usize>),
    ) -> Self {
        let wanted = with_callers(stacks, wanted);
        let mut nodes = IndexSet::default();
        let mut of_stack = vec![None; stacks.len()];
        let mut numbers = Vec::new();
        for (id, frame) in stacks.frames().iter().enumerate() {
            if !wanted[id] {
                continue;
            }
            frames(frame.location, &mut numbers);
            let mut node = frame.caller.and_then(|c| of_stack[c.0 as usize]);
            for number in numbers.drain(..).rev() {
                node = Some(nodes.insert_full((node, number)).0);
            }
            of_stack[id] = node;
        }
        Self { nodes, of_stack }
    }

    /// Returns the innermost node of a stack; `None` if it is not wanted.
    pub fn node_of_stack(&self, stack: StackId) -> Option<usize> {
        self.of_stack[stack.0 as usize]
    }

    /// Returns the frames from a node outwards.
    pub fn innermost_first(&self, node: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let mut next = node;
        std::iter::from_fn(move || {
            let (caller, frame) = *self.nodes.get_index(next?)?;
            next = caller;
            Some(frame)
        })
    }

    /// Returns the position of each node in a walk through the tree that visits callers before
    /// callees, and the heaviest callee first. `own` is each node's weight without its callees.
    pub fn heaviest_first(&self, own: Vec<u64>) -> Vec<usize> {
        let mut total = own;
        let mut by_caller: Vec<usize> = (0..total.len()).collect();
        for (node, (caller, _)) in self.nodes.iter().enumerate().rev() {
            if let Some(caller) = caller {
                total[*caller] = total[*caller].saturating_add(total[node]);
            }
        }
        // The index after the last node stands for "no caller". The lightest come first, because
        // the last is taken first.
        let caller = |node: &usize| self.nodes[*node].0.unwrap_or(self.nodes.len());
        by_caller.sort_by_key(|node| (caller(node), total[*node], Reverse(*node)));
        let callees = |of: usize| {
            let start = by_caller.partition_point(|node| caller(node) < of);
            let end = by_caller.partition_point(|node| caller(node) <= of);
            &by_caller[start..end]
        };
        let mut places = vec![0; total.len()];
        let mut waiting = callees(self.nodes.len()).to_vec();
        let mut place = 0;
        while let Some(node) = waiting.pop() {
            places[node] = place;
            place += 1;
            waiting.extend_from_slice(callees(node));
        }
        places
    }

    /// Returns the caller of a node, and its frame.
    pub fn node(&self, number: usize) -> Option<Node> {
        self.nodes.get_index(number).copied()
    }

    /// Returns all nodes, callers before the frames that they called.
    pub fn iter_nodes(&self) -> impl ExactSizeIterator<Item = Node> + '_ {
        self.nodes.iter().copied()
    }
}

/// Returns which stacks are wanted or call a wanted one.
fn with_callers(stacks: &StackTable, wanted: impl Iterator<Item = StackId>) -> Vec<bool> {
    let mut marks = vec![false; stacks.len()];
    for id in wanted {
        marks[id.0 as usize] = true;
    }
    // A caller has the smaller number, so a descending loop meets every frame before its caller.
    for (id, frame) in stacks.frames().iter().enumerate().rev() {
        if let Some(caller) = frame.caller {
            marks[caller.0 as usize] |= marks[id];
        }
    }
    marks
}
