use super::blocks::{Block, Edge, EdgeKind, FlowGraph, JumpTable, LoadedImage};
use super::code::{CodeMap, Position};
use super::constants::Constants;
use super::gaps::{self, CodeGap};
use super::table;
use crate::{Architecture, Error, Flow, Instruction, InstructionDecoder, MAX_PROCEDURE};
use profile::ImageAddress;
use rustc_hash::FxHashMap;

/// Maximum number of rounds in which tables may reveal further tables, because each round examines
/// all of the code.
const MAX_ROUNDS: usize = 256;

/// Maximum number of instructions decoded in unreachable code, for each byte of the procedure:
/// later bytes are data.
const GAP_STEPS: usize = 4;

/// Number of pieces of unreachable code after which the rest is data.
const MAX_GAPS: usize = 1 << 16;

pub(super) fn build_graph(
    architecture: Architecture,
    start: ImageAddress,
    bytes: &[u8],
    image: &dyn LoadedImage,
) -> Result<FlowGraph, Error> {
    if bytes.is_empty() {
        return Err(Error::Empty(start));
    }
    if bytes.len() > MAX_PROCEDURE {
        let size = bytes.len() as u64;
        return Err(Error::TooLarge { start, size });
    }
    let size = bytes.len() as u64;
    let end = start.0.checked_add(size).ok_or(Error::Wraps(start))?;
    let mut builder = Builder {
        code: CodeMap::new(InstructionDecoder::new(architecture), start, bytes),
        image,
        tables: FxHashMap::default(),
        tried: 0,
        rounds: 0,
        unknown_entries: Vec::new(),
        data: Vec::new(),
    };
    builder.code.decode(0)?;
    builder.follow_code(vec![0])?;
    builder.resolve_tables()?;
    builder.fill_gaps()?;
    Ok(builder.finish_graph(ImageAddress(end)))
}

struct Builder<'a> {
    code: CodeMap<'a>,
    image: &'a dyn LoadedImage,
    /// Tables by the index of the jump.
    tables: FxHashMap<u32, JumpTable>,
    /// Number of indirect jumps examined, and of rounds.
    tried: usize,
    rounds: usize,
    unknown_entries: Vec<Position>,
    data: Vec<std::ops::Range<Position>>,
}

impl Builder<'_> {
    fn follow_code(&mut self, work: Vec<Position>) -> Result<(), Error> {
        let image = self.image;
        self.code
            .follow(work, &|target| image.never_returns(target))
    }

    /// Finds the tables of indirect jumps, and follows them, as long as there are new jumps. Each
    /// jump is examined once, because code found later only adds paths to it, and so doubt.
    fn resolve_tables(&mut self) -> Result<(), Error> {
        while self.tried < self.code.indirect.len() && self.rounds < MAX_ROUNDS {
            self.rounds += 1;
            let constants = Constants::default();
            let mut found = Vec::new();
            let new = self.code.indirect.get(self.tried..).unwrap_or_default();
            for index in new {
                if let Some(table) =
                    table::find_jump_table(&self.code, *index, self.image, &constants)
                {
                    found.push((*index, table));
                }
            }
            self.tried = self.code.indirect.len();
            let mut work = Vec::new();
            for (index, table) in found {
                for target in &table.targets {
                    let Some(position) = self.code.position(*target) else {
                        continue;
                    };
                    let jumps = self.code.jumps_to.entry(position).or_default();
                    if jumps.last() != Some(&index) {
                        jumps.push(index);
                    }
                    work.push(position);
                }
                self.tables.insert(index, table);
            }
            self.follow_code(work)?;
        }
        Ok(())
    }

    /// Examines unreached code.
    fn fill_gaps(&mut self) -> Result<(), Error> {
        let mut covered = self.code.covered();
        let mut from = 0;
        let mut known = self.code.instructions.len();
        let mut steps = GAP_STEPS * self.code.bytes.len();
        while let Some(gap) = gaps::next_gap(&mut self.code, &covered, &mut from, &mut steps) {
            match gap {
                CodeGap::Data(range) => self.data.push(range),
                CodeGap::Code(position) if self.unknown_entries.len() < MAX_GAPS => {
                    self.unknown_entries.push(position);
                    self.follow_code(vec![position])?;
                    self.resolve_tables()?;
                    let new = self.code.instructions.get(known..).unwrap_or_default();
                    for instruction in new {
                        let position = (instruction.address.0 - self.code.start.0) as usize;
                        let range = position..position + usize::from(instruction.length);
                        covered.get_mut(range).unwrap_or_default().fill(true);
                    }
                    known = self.code.instructions.len();
                }
                CodeGap::Code(position) => {
                    self.data.push(position..self.code.bytes.len() as Position);
                    break;
                }
            }
        }
        Ok(())
    }

    fn finish_graph(self, end: ImageAddress) -> FlowGraph {
        let mut leaders: Vec<Position> = self
            .code
            .leaders
            .iter()
            .copied()
            .filter(|position| self.code.index_at(*position).is_some())
            .collect();
        leaders.sort_unstable();
        let mut blocks = Vec::with_capacity(leaders.len());
        let mut instructions = Vec::with_capacity(self.code.instructions.len());
        let mut lasts = Vec::with_capacity(leaders.len());
        for leader in &leaders {
            let first = instructions.len();
            let last = self.fill_block(*leader, &mut instructions);
            let end = instructions.last().map(Instruction::end);
            blocks.push(Block {
                start: self.code.address(*leader),
                end: end.unwrap_or(self.code.address(*leader)),
                instructions: first..instructions.len(),
            });
            lasts.push(last);
        }
        let mut edges = self.find_edges(end, &leaders, &lasts);
        edges.sort_unstable();
        edges.dedup();
        self.assemble_graph(end, blocks, edges, instructions)
    }

    fn assemble_graph(
        self,
        end: ImageAddress,
        blocks: Vec<Block>,
        edges: Vec<Edge>,
        instructions: Vec<Instruction>,
    ) -> FlowGraph {
        let mut tables: Vec<JumpTable> = self.tables.into_values().collect();
        tables.sort_by_key(|table| table.jump);
        let mut unresolved: Vec<ImageAddress> = edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Unresolved)
            .filter_map(|edge| blocks.get(edge.from?))
            .filter_map(|block| instructions.get(block.instructions.end.checked_sub(1)?))
            .map(|instruction: &Instruction| instruction.address)
            .collect();
        unresolved.sort_unstable();
        let overlapping = blocks.windows(2).any(|pair| match pair {
            [first, second] => first.end > second.start,
            _ => false,
        });
        let address = |position: Position| self.code.address(position);
        let mut invalid: Vec<_> = self.code.invalid.iter().map(|at| address(*at)).collect();
        invalid.sort_unstable();
        invalid.dedup();
        FlowGraph {
            start: self.code.start,
            end,
            blocks,
            edges,
            instructions,
            tables,
            unresolved,
            invalid,
            data: self
                .data
                .iter()
                .map(|range| address(range.start)..address(range.end))
                .collect(),
            overlapping,
        }
    }

    /// Appends the instructions of the block; returns the index of the last one.
    fn fill_block(&self, leader: Position, instructions: &mut Vec<Instruction>) -> u32 {
        let mut position = leader;
        let mut last = 0;
        while let Some(index) = self.code.index_at(position)
            && let Some(instruction) = self.code.instruction(index)
        {
            instructions.push(*instruction);
            last = index;
            position += Position::from(instruction.length);
            if instruction.flow.ends_block()
                || !self.code.runs_on(index, instruction)
                || self.code.leaders.contains(&position)
            {
                break;
            }
        }
        last
    }

    fn find_edges(&self, end: ImageAddress, leaders: &[Position], lasts: &[u32]) -> Vec<Edge> {
        let block_at = |position: Position| leaders.binary_search(&position).ok();
        let mut edges = vec![Edge {
            from: None,
            to: block_at(0),
            kind: EdgeKind::Entry,
        }];
        edges.extend(self.unknown_entries.iter().map(|position| Edge {
            from: None,
            to: block_at(*position),
            kind: EdgeKind::UnknownEntry,
        }));
        for (from, last) in lasts.iter().enumerate() {
            let Some(instruction) = self.code.instruction(*last) else {
                continue;
            };
            let mut leave = |to: Option<usize>, kind| {
                edges.push(Edge {
                    from: Some(from),
                    to,
                    kind,
                });
            };
            let mut to_target = |target, kind| {
                let to = self.code.position(target).and_then(block_at);
                let outside = if self.code.position(target).is_none() {
                    EdgeKind::TailCall
                } else {
                    EdgeKind::Invalid
                };
                leave(to, if to.is_some() { kind } else { outside });
            };
            match instruction.flow {
                Flow::Branch(target) => to_target(target, EdgeKind::Taken),
                Flow::Jump(target) => to_target(target, EdgeKind::Jump),
                Flow::IndirectJump => match self.tables.get(last) {
                    Some(table) => table
                        .targets
                        .iter()
                        .for_each(|target| to_target(*target, EdgeKind::Table)),
                    None if table::is_through_slot(&self.code, instruction) => {
                        leave(None, EdgeKind::TailCall);
                    }
                    None => leave(None, self.unknown_target()),
                },
                Flow::Return => leave(None, EdgeKind::Return),
                Flow::Stop => leave(None, EdgeKind::NoReturn),
                Flow::Next | Flow::Call(_) | Flow::IndirectCall => {}
            }
            if self.code.runs_on(*last, instruction) {
                let next = self.code.position(instruction.end()).and_then(block_at);
                let kind = match next {
                    Some(_) => EdgeKind::Fall,
                    None if instruction.end() == end => EdgeKind::TailCall,
                    None => EdgeKind::Invalid,
                };
                leave(next, kind);
            } else if instruction.flow.falls_through() {
                leave(None, EdgeKind::NoReturn);
            }
        }
        edges
    }

    /// Returns the kind of an indirect jump without a table. It leaves the procedure if all of its
    /// possible targets are reached without it.
    fn unknown_target(&self) -> EdgeKind {
        if self.unknown_entries.is_empty() && self.data.is_empty() {
            EdgeKind::TailCall
        } else {
            EdgeKind::Unresolved
        }
    }
}
