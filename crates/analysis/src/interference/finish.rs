//! The result: scores with intervals, floors, causes and doubts.

use super::analyser::Analyser;
use super::block_score::{TracedExecutions, score_block};
use super::known::{AnalysedRun, Cells};
use super::solo_findings::follow_solo;
use super::standing::ranked;
use super::turns::{mark_turns, turns_of};
use profile::{
    BlockId, Interference, LeftOutBlock, SequenceScore, TraceHead, TracedBlock, TracedThread,
};
use rustc_hash::FxHashMap;

/// Maximum number of block sequences that are named.
const SEQUENCES_NAMED: usize = 16;

impl Analyser {
    /// Returns the result of the analysis. Threads and names are the head's.
    pub fn finish(mut self, head: &TraceHead) -> Interference {
        let mut cells: Cells = FxHashMap::default();
        for (thread, own) in self.settle() {
            for cell in own {
                cells.entry(cell.kind).or_default().push((thread, cell));
            }
        }
        mark_turns(&mut self.kinds.all, &cells, &head.blocks, &self.blocks);
        let run = self.describe_run(head);
        let kinds_of = self.kinds_by_block();
        let mut drafts = Vec::new();
        let mut left_out = Vec::new();
        for (number, block) in head.blocks.iter().enumerate() {
            let kinds = kinds_of.get(number).filter(|kinds| !kinds.is_empty());
            match (self.blocks.get_mut(number), kinds) {
                (Some(state), Some(kinds)) => {
                    state.instants.settle();
                    let traced = TracedExecutions {
                        number: number as BlockId,
                        block,
                        state,
                        kinds,
                    };
                    drafts.push(score_block(&run, &traced, &self.kinds.all, &cells));
                }
                (state, _) => left_out.push(leave_out(block, state.is_some_and(|s| s.excluded))),
            }
        }
        let mut findings = ranked(&run, drafts);
        let machine = self.machine_load(head);
        let solo = std::mem::take(&mut self.solos).finish(&head.blocks, &head.solo);
        follow_solo(&solo, &mut findings);
        Interference {
            command: head.command.clone(),
            host: head.host.clone(),
            start_unix_ns: head.start_unix_ns,
            duration_ns: head.duration as f64 * run.ns,
            end: head.end,
            executions: self.tallies.executions,
            lost: head.lost.max(self.tallies.lost),
            threads: head.threads.len() as u64,
            thread_time_ns: run.thread_time * run.ns,
            empty_ns: head.empty_duration as f64 * run.ns,
            waits: head.waits,
            events: head.events.clone(),
            no_events: head.no_events.clone(),
            sequences: self.sequences(&run),
            warnings: self.warnings(head),
            machine,
            solo,
            findings,
            left_out,
        }
    }

    fn describe_run<'h>(&self, head: &'h TraceHead) -> AnalysedRun<'h> {
        let ticks = |t: &TracedThread| t.end.saturating_sub(t.start) as f64;
        AnalysedRun {
            head,
            ns: 1e9 / head.ticks_per_second.max(1) as f64,
            thread_time: head.threads.iter().map(ticks).sum::<f64>().max(1.0),
            enough: self.options.enough.max(1),
            busy: self.busy(head),
            throttled: self.throttled(head),
            taken: self.taken as f64,
            turns: turns_of(&self.kinds.all, head.blocks.len()),
            aarch64: self.options.aarch64,
        }
    }

    /// Returns the kinds of each block that were recorded, by their numbers.
    fn kinds_by_block(&self) -> Vec<Vec<u32>> {
        let mut kinds_of: Vec<Vec<u32>> = vec![Vec::new(); self.blocks.len()];
        for (number, kind) in self.kinds.all.iter().enumerate() {
            if kind.recorded > 0
                && let Some(kinds) = kinds_of.get_mut(kind.block as usize)
            {
                kinds.push(number as u32);
            }
        }
        kinds_of
    }

    fn warnings(&self, head: &TraceHead) -> Vec<String> {
        let mut warnings = head.warnings.clone();
        let tallies = &self.tallies;
        let executions = tallies.executions.max(1) as f64;
        let lost = head.lost.max(tallies.lost);
        if lost > 0 {
            let share = 100.0 * lost as f64 / (executions + lost as f64);
            let means = match head.blocks.iter().any(|block| block.calls > 0) {
                true => {
                    "what is said of functions is scaled up from the others to the calls that the threads counted"
                }
                false => "scores are too low by as much",
            };
            warnings.push(format!(
                "{lost} executions ({share:.1} %) were lost, because buffers were full or there was no time to read them: {means}, and \
                 blocks that they were called from are compared less finely; use --overhead or --every, or trace fewer functions"
            ));
        }
        if tallies.backwards > 0 {
            let n = tallies.backwards;
            warnings.push(format!(
                "{n} items contradict the clock (the CPUs' time-stamp counters differ, or the trace is damaged): left out"
            ));
        }
        if tallies.unknown > 0 {
            let n = tallies.unknown;
            warnings.push(format!(
                "{n} items are of blocks that are not described: left out"
            ));
        }
        if tallies.retired > 0 {
            let n = tallies.retired;
            warnings.push(format!(
                "there were so many threads that {n} could not be told apart to the end: they are not listed, but count"
            ));
        }
        if self.pairs.ignored > 0 {
            let n = self.pairs.ignored;
            warnings.push(format!(
                "{n} pairs of calls were of more kinds than are followed"
            ));
        }
        if !head.waits {
            warnings.push(
                "waits were not measured: what is preemption, blocking or computing is not known, and causes go by names"
                    .to_owned(),
            );
        }
        warnings
    }

    fn sequences(&self, run: &AnalysedRun<'_>) -> Vec<SequenceScore> {
        struct Sum {
            calls: u64,
            excess: f64,
            between: f64,
            ticks: f64,
            /// Total duration and floor of the kind with the largest total duration.
            floor: (u64, u64),
        }
        let mut by_blocks: FxHashMap<(u32, u32), Sum> = FxHashMap::default();
        for pair in self.pairs.all.iter().filter(|pair| pair.n >= run.enough) {
            let floor = pair.whole.smallest.at(4);
            let n = pair.n as f64;
            let between = pair.between.sum as f64 - n * pair.between.smallest.at(4) as f64;
            let sum = by_blocks.entry((pair.first, pair.second)).or_insert(Sum {
                calls: 0,
                excess: 0.0,
                between: 0.0,
                ticks: 0.0,
                floor: (0, 0),
            });
            sum.calls += pair.n;
            sum.excess += pair.whole.sum as f64 - n * floor as f64;
            sum.between += between;
            sum.ticks += pair.whole.sum as f64;
            sum.floor = sum.floor.max((pair.whole.sum, floor));
        }
        let name = |block: u32| {
            let block = run.head.blocks.get(block as usize);
            block.map_or_else(String::new, |block| block.name.clone())
        };
        let scores = by_blocks
            .into_iter()
            .map(|((first, second), sum)| SequenceScore {
                first: name(first),
                second: name(second),
                calls: sum.calls,
                program: sum.excess / run.thread_time,
                between: (sum.between / run.thread_time).max(0.0),
                mean_ns: sum.ticks / sum.calls as f64 * run.ns,
                floor_ns: sum.floor.1 as f64 * run.ns,
            });
        let mut scores: Vec<SequenceScore> = scores.collect();
        scores.sort_by(|a, b| {
            let names = |s: &SequenceScore| (s.first.clone(), s.second.clone());
            b.program
                .total_cmp(&a.program)
                .then_with(|| names(a).cmp(&names(b)))
        });
        scores.truncate(SEQUENCES_NAMED);
        scores
    }
}

fn leave_out(block: &TracedBlock, excluded: bool) -> LeftOutBlock {
    let why = match &block.refused {
        Some(why) => why.clone(),
        None if excluded => "excluded".to_owned(),
        None if block.unfinished > 0 => format!(
            "never finished: {} calls were left by longjmp or ended with their thread, so that nothing is known of their duration",
            block.unfinished
        ),
        None => "never called".to_owned(),
    };
    LeftOutBlock {
        name: block.name.clone(),
        image: block.image.clone(),
        why,
    }
}
