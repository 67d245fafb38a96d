//! Basic blocks and edges of a procedure, and the interface to its image.

use crate::Instruction;
use profile::ImageAddress;
use std::ops::Range;

/// Data in the rest of the image that a procedure's code refers to.
pub trait LoadedImage {
    /// Fills `buffer` with the bytes of loaded data at an address, with relative relocations
    /// applied; `false` if there are none, or fewer than it holds.
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool;

    /// Returns whether a call of this address never returns.
    fn never_returns(&self, target: ImageAddress) -> bool;
}

/// An image of which nothing is known but the procedure itself.
#[derive(Clone, Copy, Debug)]
pub struct NoImage;

impl LoadedImage for NoImage {
    fn read_loaded(&self, _: ImageAddress, _: &mut [u8]) -> bool {
        false
    }

    fn never_returns(&self, _: ImageAddress) -> bool {
        false
    }
}

/// A basic block: instructions that are executed one after the other, or not at all (calls that
/// return are within).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its start.
    pub start: ImageAddress,
    /// The address after its last instruction.
    pub end: ImageAddress,
    /// The range of the graph's instructions that it contains.
    pub instructions: Range<usize>,
}

/// A way that control may go. A missing end is outside the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The block that it leaves; `None` where the procedure is entered.
    pub from: Option<usize>,
    /// The block that it enters; `None` where the procedure is left.
    pub to: Option<usize>,
    /// Reason that control goes there.
    pub kind: EdgeKind,
}

/// Reason that control goes along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The procedure is called.
    Entry,
    /// Nothing known leads here, but it is code: a landing pad of an exception, dead code, or the
    /// target of an unresolved jump.
    UnknownEntry,
    /// The next instruction; for a conditional branch, when it is not taken.
    Fall,
    /// A conditional branch is taken.
    Taken,
    /// An unconditional jump.
    Jump,
    /// An entry of a jump table.
    Table,
    /// Control returns to the caller.
    Return,
    /// A jump to another procedure, or the end of this one: execution runs on into the next.
    TailCall,
    /// A call that does not return, or an instruction that stops.
    NoReturn,
    /// An indirect jump whose targets are not known.
    Unresolved,
    /// Into bytes that are no instruction.
    Invalid,
}

/// A jump table that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// The instruction that jumps through it.
    pub jump: ImageAddress,
    /// Its address.
    pub address: ImageAddress,
    /// The targets of its entries.
    pub targets: Vec<ImageAddress>,
    /// True if the code says how many entries there are. Otherwise all those were taken that
    /// could be targets, of which the last may be none.
    pub bounded: bool,
}

/// The control-flow graph of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowGraph {
    /// Start of the procedure.
    pub start: ImageAddress,
    /// The address after its last byte.
    pub end: ImageAddress,
    /// Its basic blocks, by address.
    pub blocks: Vec<Block>,
    /// Its edges: sorted, each once.
    pub edges: Vec<Edge>,
    /// The instructions of its blocks, block by block.
    pub instructions: Vec<Instruction>,
    /// The jump tables, by the address of the jump.
    pub tables: Vec<JumpTable>,
    /// Indirect jumps that could go anywhere in the procedure. If there are any, edges are
    /// missing.
    pub unresolved: Vec<ImageAddress>,
    /// Addresses where control seems to run into bytes that are no instruction.
    pub invalid: Vec<ImageAddress>,
    /// Ranges that are neither reached nor padding nor could be code: data.
    pub data: Vec<Range<ImageAddress>>,
    /// True if instructions overlap, as where a jump skips a prefix.
    pub overlapping: bool,
}

impl FlowGraph {
    /// Returns whether edges may be missing. Then nothing can be said about which blocks run equally often
    /// (§6.1.2).
    pub fn misses_edges(&self) -> bool {
        !self.unresolved.is_empty() || !self.invalid.is_empty()
    }

    /// Returns whether the procedure can return to its caller; otherwise a call of it ends a block.
    pub fn returns(&self) -> bool {
        self.misses_edges()
            || self
                .edges
                .iter()
                .any(|edge| matches!(edge.kind, EdgeKind::Return | EdgeKind::TailCall))
    }

    /// The instructions of a block.
    pub fn instructions_of(&self, block: &Block) -> &[Instruction] {
        self.instructions
            .get(block.instructions.clone())
            .unwrap_or_default()
    }

    /// The block that has an instruction starting at this address.
    pub fn block_at(&self, address: ImageAddress) -> Option<usize> {
        // Blocks that start before it; where instructions overlap, not always the last.
        let after = self.blocks.partition_point(|block| block.start <= address);
        let holds = |index: &usize| {
            self.blocks.get(*index).is_some_and(|block| {
                address < block.end
                    && self
                        .instructions_of(block)
                        .binary_search_by_key(&address, |instruction| instruction.address)
                        .is_ok()
            })
        };
        let reach = if self.overlapping {
            after
        } else {
            after.min(1)
        };
        (after - reach..after).rev().find(holds)
    }
}
