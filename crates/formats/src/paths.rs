//! Call stacks as paths of frames that a format numbers itself.

use indexmap::IndexSet;
use profile::{Location, StackId, StackTable};
use rustc_hash::FxBuildHasher;

/// A frame, by its number in the format, and the node of its caller.
type Node = (Option<usize>, usize);

/// A tree of frames: two stacks of equal frames are one path.
pub(crate) struct Paths {
    nodes: IndexSet<Node, FxBuildHasher>,
    /// The innermost node of each stack; `None` where the stack was not asked for.
    of_stack: Vec<Option<usize>>,
}

impl Paths {
    /// The paths of the wanted stacks. `frames` appends the numbers of the frames at a location,
    /// innermost first.
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

    /// The innermost node of a stack; `None` of one that was not asked for.
    pub fn node(&self, stack: StackId) -> Option<usize> {
        self.of_stack[stack.0 as usize]
    }

    /// The frames from a node outwards.
    pub fn innermost_first(&self, node: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let mut next = node;
        std::iter::from_fn(move || {
            let (caller, frame) = *self.nodes.get_index(next?)?;
            next = caller;
            Some(frame)
        })
    }

    /// All nodes, callers before the frames that they called.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node> + '_ {
        self.nodes.iter().copied()
    }
}

/// Which stacks are wanted or call one that is.
fn with_callers(stacks: &StackTable, wanted: impl Iterator<Item = StackId>) -> Vec<bool> {
    let mut marks = vec![false; stacks.len()];
    for id in wanted {
        marks[id.0 as usize] = true;
    }
    // A caller has the smaller number, so going down meets every frame before its caller.
    for (id, frame) in stacks.frames().iter().enumerate().rev() {
        if let Some(caller) = frame.caller {
            marks[caller.0 as usize] |= marks[id];
        }
    }
    marks
}
