//! The instructions of a procedure, during the search for them.

use crate::{Error, Flow, Instruction, InstructionDecoder, MAX_INSTRUCTIONS};
use profile::ImageAddress;
use rustc_hash::{FxHashMap, FxHashSet};

/// A position in the procedure, in bytes from its start.
pub(super) type Position = u32;

pub(super) struct CodeMap<'a> {
    pub decoder: InstructionDecoder,
    pub start: ImageAddress,
    pub bytes: &'a [u8],
    pub instructions: Vec<Instruction>,
    /// Index of the instruction that starts at a position, plus one.
    at: Vec<u32>,
    /// Index of the last found instruction that runs on into a position, plus one.
    before: Vec<u32>,
    /// Positions where blocks start.
    pub leaders: FxHashSet<Position>,
    /// The jumps to a position, by the index of the instruction.
    pub jumps_to: FxHashMap<Position, Vec<u32>>,
    /// Indirect jumps, by index.
    pub indirect: Vec<u32>,
    /// Calls that do not return, by index.
    pub dead_ends: FxHashSet<u32>,
    /// Positions where control reaches bytes that are no instruction.
    pub invalid: Vec<Position>,
}

impl<'a> CodeMap<'a> {
    pub fn new(decoder: InstructionDecoder, start: ImageAddress, bytes: &'a [u8]) -> Self {
        Self {
            decoder,
            start,
            bytes,
            instructions: Vec::new(),
            at: vec![0; bytes.len()],
            before: vec![0; bytes.len()],
            leaders: FxHashSet::default(),
            jumps_to: FxHashMap::default(),
            indirect: Vec::new(),
            dead_ends: FxHashSet::default(),
            invalid: Vec::new(),
        }
    }

    pub fn address(&self, position: Position) -> ImageAddress {
        ImageAddress(self.start.0.wrapping_add(position.into()))
    }

    /// Returns the position of an address; `None` outside the procedure.
    pub fn position(&self, address: ImageAddress) -> Option<Position> {
        let position = address.0.checked_sub(self.start.0)?;
        (position < self.bytes.len() as u64).then_some(position as Position)
    }

    /// Returns the instruction that starts at a position.
    pub fn index_at(&self, position: Position) -> Option<u32> {
        self.at.get(position as usize)?.checked_sub(1)
    }

    /// Returns the instruction that runs on into a position.
    pub fn index_before(&self, position: Position) -> Option<u32> {
        self.before.get(position as usize)?.checked_sub(1)
    }

    pub fn instruction(&self, index: u32) -> Option<&Instruction> {
        self.instructions.get(index as usize)
    }

    /// Returns whether execution continues after an instruction.
    pub fn runs_on(&self, index: u32, instruction: &Instruction) -> bool {
        instruction.flow.falls_through() && !self.dead_ends.contains(&index)
    }

    pub fn bytes_at(&self, position: Position) -> &'a [u8] {
        self.bytes.get(position as usize..).unwrap_or_default()
    }

    pub fn decode(&mut self, position: Position) -> Result<Instruction, Error> {
        let address = self.address(position);
        self.decoder.decode(address, self.bytes_at(position))
    }

    /// Follows the code from these positions, which start blocks.
    pub fn follow(
        &mut self,
        mut work: Vec<Position>,
        never_returns: &dyn Fn(ImageAddress) -> bool,
    ) -> Result<(), Error> {
        for position in &work {
            self.leaders.insert(*position);
        }
        while let Some(position) = work.pop() {
            self.follow_run(position, &mut work, never_returns)?;
        }
        Ok(())
    }

    /// Follows the code from a position until it ends or is known.
    fn follow_run(
        &mut self,
        mut position: Position,
        work: &mut Vec<Position>,
        never_returns: &dyn Fn(ImageAddress) -> bool,
    ) -> Result<(), Error> {
        let mut previous = None;
        loop {
            if previous.is_some() && self.index_at(position).is_some() {
                // Two paths lead here.
                self.leaders.insert(position);
            }
            if let (Some(previous), Some(before)) =
                (previous, self.before.get_mut(position as usize))
            {
                *before = previous + 1;
            }
            if self.index_at(position).is_some() {
                return Ok(());
            }
            let Ok(instruction) = self.decode(position) else {
                let after_call = previous.filter(|index| self.is_call(*index));
                match after_call {
                    // The bytes after a call are no code, so the call does not return.
                    Some(call) => drop(self.dead_ends.insert(call)),
                    // Runs on into the next procedure.
                    None if position as usize == self.bytes.len() => {}
                    None => self.invalid.push(position),
                }
                return Ok(());
            };
            if self.instructions.len() >= MAX_INSTRUCTIONS {
                return Err(Error::TooManyInstructions(self.start));
            }
            let index = self.instructions.len() as u32;
            self.instructions.push(instruction);
            if let Some(at) = self.at.get_mut(position as usize) {
                *at = index + 1;
            }
            self.note_targets(index, instruction.flow, work, never_returns);
            if !self.runs_on(index, &instruction) {
                return Ok(());
            }
            position += Position::from(instruction.length);
            if matches!(instruction.flow, Flow::Branch(_)) {
                self.leaders.insert(position);
            }
            previous = Some(index);
        }
    }

    fn is_call(&self, index: u32) -> bool {
        let instruction = self.instruction(index);
        instruction.is_some_and(|instruction| instruction.flow.is_call())
    }

    /// Notes the successors of an instruction other than the next one.
    fn note_targets(
        &mut self,
        index: u32,
        flow: Flow,
        work: &mut Vec<Position>,
        never_returns: &dyn Fn(ImageAddress) -> bool,
    ) {
        match flow {
            Flow::Branch(target) | Flow::Jump(target) => {
                if let Some(target) = self.position(target) {
                    self.jumps_to.entry(target).or_default().push(index);
                    if self.leaders.insert(target) || self.index_at(target).is_none() {
                        work.push(target);
                    }
                }
            }
            Flow::IndirectJump => self.indirect.push(index),
            Flow::Call(target) if never_returns(target) => {
                self.dead_ends.insert(index);
            }
            _ => {}
        }
    }

    /// Returns, for each byte, whether it belongs to an instruction.
    pub fn covered(&self) -> Vec<bool> {
        let mut covered = vec![false; self.bytes.len()];
        for instruction in &self.instructions {
            let Some(position) = self.position(instruction.address) else {
                continue;
            };
            let range = position as usize..position as usize + usize::from(instruction.length);
            covered.get_mut(range).unwrap_or_default().fill(true);
        }
        covered
    }
}
