//! Stacks that a format keeps as a table of callers.

use super::draft::Draft;
use super::error::{Fault, Place};
use profile::{DraftNode, MethodId};
use rustc_hash::FxHashMap;

/// The nodes of stacks that are given by a caller and a method each.
#[derive(Default)]
pub(crate) struct StackNodes {
    /// By the node that the stack begins under, and the stack.
    known: FxHashMap<(DraftNode, u32), DraftNode>,
    missing: Vec<(u32, Option<MethodId>)>,
}

/// A stack's caller, and its method if that is a frame of its own.
pub(crate) type Link = (Option<u32>, Option<MethodId>);

/// A table of stacks.
pub(crate) trait StackTable {
    /// Returns what is known of a stack; `None` if there is no such stack.
    fn stack(&mut self, stack: u32, draft: &mut Draft) -> Result<Option<Link>, Fault>;
}

impl StackNodes {
    /// The node of a stack that begins under `root`.
    pub fn node(
        &mut self,
        draft: &mut Draft,
        table: &mut impl StackTable,
        root: DraftNode,
        stack: Option<u32>,
    ) -> Result<DraftNode, Fault> {
        let (mut node, mut next) = (root, stack);
        self.missing.clear();
        while let Some(stack) = next {
            if let Some(found) = self.known.get(&(root, stack)) {
                node = *found;
                break;
            }
            let at = place(stack);
            let Some((caller, method)) = table.stack(stack, draft)? else {
                return Err(Fault::damaged(
                    "a stack that is not there is referred to",
                    at,
                ));
            };
            // So no walk goes in circles.
            if caller.is_some_and(|caller| caller >= stack) {
                return Err(Fault::damaged("its caller comes after it", at));
            }
            self.missing.push((stack, method));
            next = caller;
        }
        while let Some((stack, method)) = self.missing.pop() {
            if let Some(method) = method {
                node = draft.child(node, method, place(stack))?;
            }
            self.known.insert((root, stack), node);
        }
        Ok(node)
    }

    /// Forgets the stacks of a table.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

fn place(stack: u32) -> Place {
    Place::Row {
        table: "stack",
        row: stack.into(),
    }
}
