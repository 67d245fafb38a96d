//! Basic blocks and edges of a procedure, and the interface to its image.

use crate::Instruction;
use profile::ImageAddress;
use std::ops::Range;

/// Data in the rest of the image that a procedure's code refers to.
pub trait LoadedImage {
    /// Fills `buffer` with the bytes of loaded data at an address, with relative relocations
    /// applied; returns `false` if there are fewer bytes.
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool;

    /// Returns whether a call of this address never returns.
    fn never_returns(&self, target: ImageAddress) -> bool;
}

/// An image of which only the procedure itself is known.
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

/// A basic block: instructions that execute one after the other, or not at all (calls that return
/// are within).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its start.
    pub start: ImageAddress,
    /// The address after its last instruction.
    pub end: ImageAddress,
    /// The range of the graph's instructions that it contains.
    pub instructions: Range<usize>,
}

/// A possible transfer of control. A missing end is outside the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The block that it leaves; `None` at the procedure's entry.
    pub from: Option<usize>,
    /// The block that it enters; `None` at the procedure's exit.
    pub to: Option<usize>,
    /// Reason for the transfer.
    pub kind: EdgeKind,
}

/// Reason for a transfer along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The procedure is called.
    Entry,
    /// Nothing known leads here, but it is code: a landing pad of an exception, dead code, or the
    /// target of an unresolved jump.
    UnknownEntry,
    /// The next instruction; after a conditional branch that is not taken.
    Fall,
    /// A conditional branch is taken.
    Taken,
    /// An unconditional jump.
    Jump,
    /// An entry of a jump table.
    Table,
    /// Control returns to the caller.
    Return,
    /// A jump to another procedure, or the end of this one, from which execution continues in the
    /// next.
    TailCall,
    /// A call that does not return, or an instruction that stops.
    NoReturn,
    /// An indirect jump with unknown targets.
    Unresolved,
    /// A transfer to bytes that are no instruction.
    Invalid,
}

/// A recognised jump table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// The instruction that jumps through it.
    pub jump: ImageAddress,
    /// Its address.
    pub address: ImageAddress,
    /// The targets of its entries.
    pub targets: Vec<ImageAddress>,
    /// True if the code determines the number of entries. Otherwise all possible targets were
    /// taken, and the last ones may be none.
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
    /// Indirect jumps that could go anywhere in the procedure. If there are any, edges are missing.
    pub unresolved: Vec<ImageAddress>,
    /// Addresses where control seems to reach bytes that are no instruction.
    pub invalid: Vec<ImageAddress>,
    /// Ranges that are data: neither reached, nor padding, nor decodable as code.
    pub data: Vec<Range<ImageAddress>>,
    /// True if instructions overlap, for example if a jump skips a prefix.
    pub overlapping: bool,
}

impl FlowGraph {
    /// Returns whether edges may be missing. Then nothing is known about blocks that run equally
    /// often (§6.1.2).
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

    /// Returns the instructions of a block.
    pub fn instructions_of(&self, block: &Block) -> &[Instruction] {
        self.instructions
            .get(block.instructions.clone())
            .unwrap_or_default()
    }

    /// Returns the block with an instruction that starts at this address.
    pub fn block_at(&self, address: ImageAddress) -> Option<usize> {
        // Blocks that start before it; if instructions overlap, not always the last one.
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
