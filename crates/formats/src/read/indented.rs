//! Call trees printed as text, with callees indented under their callers.

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use profile::{DraftNode, MethodId};

/// The callers of the next line.
pub(crate) struct IndentedTree {
    root: DraftNode,
    /// Open nodes, with their indentation.
    open: Vec<(usize, DraftNode)>,
}

impl IndentedTree {
    pub fn new(root: DraftNode) -> Self {
        Self {
            root,
            open: Vec::new(),
        }
    }

    /// Adds a line; returns its node.
    pub fn enter_line(
        &mut self,
        draft: &mut TreeDraft,
        indent: usize,
        method: MethodId,
        at: FilePosition,
    ) -> Result<DraftNode, ReadFault> {
        while self.open.last().is_some_and(|(other, _)| *other >= indent) {
            self.open.pop();
        }
        let caller = self.open.last().map(|(_, node)| *node);
        let node = draft.child_node(caller.unwrap_or(self.root), method, at)?;
        self.open.push((indent, node));
        Ok(node)
    }
}
