//! Stacks in formats that keep them as a table of callers.

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use profile::{DraftNode, MethodId};
use rustc_hash::FxHashMap;

/// The nodes of stacks that are given by a caller and a method each.
#[derive(Default)]
pub(crate) struct StackNodes {
    /// Nodes by the node under which the stack begins, and the stack.
    known: FxHashMap<(DraftNode, u32), DraftNode>,
    missing: Vec<(u32, Option<MethodId>)>,
}

/// A stack's caller, and its method if it has a frame of its own.
pub(crate) type Link = (Option<u32>, Option<MethodId>);

/// A table of stacks.
pub(crate) trait LinkedStacks {
    /// Returns the caller and method of a stack; `None` if it does not exist.
    fn stack_link(&mut self, stack: u32, draft: &mut TreeDraft) -> Result<Option<Link>, ReadFault>;
}

impl StackNodes {
    /// Returns the node of a stack that begins under `root`.
    pub fn node_of_stack(
        &mut self,
        draft: &mut TreeDraft,
        table: &mut impl LinkedStacks,
        root: DraftNode,
        stack: Option<u32>,
    ) -> Result<DraftNode, ReadFault> {
        let (mut node, mut next) = (root, stack);
        self.missing.clear();
        while let Some(stack) = next {
            if let Some(found) = self.known.get(&(root, stack)) {
                node = *found;
                break;
            }
            let at = stack_position(stack);
            let Some((caller, method)) = table.stack_link(stack, draft)? else {
                return Err(ReadFault::damaged(
                    "a stack that is not there is referred to",
                    at,
                ));
            };
            // Ensures that no walk loops.
            if caller.is_some_and(|caller| caller >= stack) {
                return Err(ReadFault::damaged("its caller comes after it", at));
            }
            self.missing.push((stack, method));
            next = caller;
        }
        while let Some((stack, method)) = self.missing.pop() {
            if let Some(method) = method {
                node = draft.child_node(node, method, stack_position(stack))?;
            }
            self.known.insert((root, stack), node);
        }
        Ok(node)
    }

    /// Forgets the stacks of a table.
    pub fn forget_table(&mut self) {
        self.known.clear();
    }
}

fn stack_position(stack: u32) -> FilePosition {
    FilePosition::Row {
        table: "stack",
        row: stack.into(),
    }
}
