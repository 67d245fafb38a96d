//! Places of an image to which counts of source lines apply.

use analysis::stall::out_of_order::Counted;
use formats::counts::LineCounts;
use machine::{Equivalence, FlowGraph};
use rustc_hash::FxHashMap;
use symbols::ImageSymbols;

/// Maximum number of pieces of an image's line tables that are kept.
const MOST_PIECES: usize = 1 << 24;

/// The counted lines of an image, and the addresses of their code.
pub struct CountedLines {
    /// Address ranges of code with the index of their line in `lines`, by address.
    pieces: Vec<(u64, u64, u32)>,
    /// Lowest and highest address of each line's code, and the line's count.
    lines: Vec<(u64, u64, u64)>,
}

/// The counts of lines that could be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedLines {
    /// Number of lines with a count and code in the procedure.
    pub lines: usize,
    /// Number of these lines whose code all runs equally often.
    pub used: usize,
}

impl CountedLines {
    /// Joins counts with the line table of an image. The table still has lines of code that the
    /// linker removed, so only code in a procedure counts.
    ///
    /// # Errors
    /// If there is no line table, it is damaged, or it is too large.
    pub fn new(code: &ImageSymbols, counts: &LineCounts) -> anyhow::Result<Self> {
        let image = code.path().display();
        let debug = code.debug_info()?.ok_or_else(|| {
            anyhow::anyhow!(
                "{image}: no debug information: counts of lines mean nothing; compile it with -g"
            )
        })?;
        let (mut pieces, mut lines) = (Vec::new(), Vec::new());
        let mut of_line: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut files: FxHashMap<String, u32> = FxHashMap::default();
        debug.for_each_line(|range, file, line| {
            let Some(count) = counts
                .lines_of_file(file)
                .and_then(|lines| lines.get(&line))
            else {
                return;
            };
            let at = code.offset_of(range.start);
            if pieces.len() > MOST_PIECES || at.and_then(|at| code.procedure_at(at)).is_none() {
                return;
            }
            let next = files.len() as u32;
            let file = *files.entry(file.to_owned()).or_insert(next);
            let (start, end) = (range.start.0, range.end.0);
            let line = *of_line.entry((file, line)).or_insert_with(|| {
                lines.push((start, end, *count));
                (lines.len() - 1) as u32
            });
            if let Some((low, high, _)) = lines.get_mut(line as usize) {
                *low = (*low).min(start);
                *high = (*high).max(end);
            }
            pieces.push((start, end, line));
        })?;
        if pieces.len() > MOST_PIECES {
            anyhow::bail!("{image}: more than {MOST_PIECES} pieces of counted lines");
        }
        pieces.sort_unstable();
        Ok(Self { pieces, lines })
    }

    /// Returns the counts of a procedure's blocks, from lines whose code in the whole image runs
    /// equally often. The counts of other lines (inlined or unrolled more than once, or of several
    /// blocks) cannot be assigned to one place.
    pub fn of(
        &self,
        graph: &FlowGraph,
        classes: &Equivalence,
        period: f64,
    ) -> (Vec<Counted>, UsedLines) {
        let (low, high) = (graph.start.0, graph.end.0);
        let mut blocks: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (index, block) in graph.blocks.iter().enumerate() {
            let (start, end) = (block.start.0, block.end.0);
            // Pieces do not overlap, so that only one can begin before the block and reach into it.
            let first = self.pieces.partition_point(|piece| piece.0 <= start);
            let pieces = self.pieces.get(first.saturating_sub(1)..);
            let within = pieces.unwrap_or_default().iter();
            for piece in within.take_while(|piece| piece.0 < end) {
                if piece.1 > start {
                    blocks.entry(piece.2).or_default().push(index);
                }
            }
        }
        let mut counted = Vec::new();
        let mut used = UsedLines {
            lines: blocks.len(),
            used: 0,
        };
        let mut blocks: Vec<(u32, Vec<usize>)> = blocks.into_iter().collect();
        blocks.sort_unstable();
        for (line, blocks) in blocks {
            let Some((first, last, count)) = self.lines.get(line as usize) else {
                continue;
            };
            let mut of = blocks.iter().filter_map(|block| classes.blocks.get(*block));
            let class = of.next();
            let Some(block) = blocks.first() else {
                continue;
            };
            if *first >= low && *last <= high && of.all(|other| Some(other) == class) {
                used.used += 1;
                counted.push(Counted {
                    block: *block,
                    executions: *count as f64,
                    period,
                    deviation: None,
                });
            }
        }
        (counted, used)
    }
}
