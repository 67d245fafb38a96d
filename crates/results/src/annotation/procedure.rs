//! Analysis of one procedure, from its samples to its accounts.

use super::branches::{SeenBranches, counts_to_shares, seen_branches};
use super::counts::UsedLines;
use super::evidence::ProcedureEvidence;
use analysis::stall::culprits::{
    Account, Culprit, EventCounts, Evidence, Expected, Summary, expectations, find_culprits,
};
use analysis::stall::out_of_order::Counted;
use analysis::stall::{
    BlockRate, Confidence, CountPlace, CountPlan, CycleTrust, Ends, Estimate, Frequencies,
    FrequencyScale, block_rates, cycle_trust, in_order, loop_rounds, out_of_order, own_seconds,
};
use formats::counts::callgrind::ProcedureCounts;
use machine::{
    Architecture, Equivalence, Flow, FlowGraph, InstructionDecoder, Loops, ProcessorModel,
};
use profile::{Accesses, ImageAddress, ImageOffset};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Number of instruction samples that estimate the number of executed instructions within 5 %.
const LEAST_INSTRUCTIONS: f64 = 400.0;

/// Source of the frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrequencyBasis {
    /// Given exact execution counts.
    Counts,
    /// Counts of source lines, if they apply to one place, and the samples.
    Lines(UsedLines),
    /// The samples, on a processor that issues in order.
    InOrder,
    /// The samples and the counted number of instructions, out of order.
    Instructions,
    /// The samples and executions counted in bursts, out of order.
    Bursts,
    /// The samples, out of order: only rough ratios between blocks.
    OutOfOrder,
}

impl FrequencyBasis {
    /// Returns whether frequencies are comparable with the clock.
    fn is_absolute(self) -> bool {
        self.frequency_scale() >= FrequencyScale::Counted
    }

    fn frequency_scale(self) -> FrequencyScale {
        match self {
            Self::Counts => FrequencyScale::Exact,
            Self::Bursts => FrequencyScale::Counted,
            Self::Lines(_) | Self::Instructions => FrequencyScale::Measured,
            Self::InOrder => FrequencyScale::Modelled,
            Self::OutOfOrder => FrequencyScale::Absent,
        }
    }
}

/// A procedure with its accounts.
pub struct AnnotatedProcedure {
    /// Its name.
    pub name: String,
    /// The path of its image, as recorded.
    pub image: String,
    /// Its graph.
    pub graph: FlowGraph,
    /// Its loops.
    pub loops: Loops,
    /// The text of each instruction.
    pub texts: Vec<String>,
    /// Samples of each instruction.
    pub samples: Vec<f64>,
    /// Samples at no instruction of the graph.
    pub astray: f64,
    /// Execution frequencies of blocks and edges.
    pub frequencies: Frequencies,
    /// The expected cycles of each instruction.
    pub expected: Vec<Expected>,
    /// The observed memory accesses of each instruction.
    pub accesses: Vec<Option<Accesses>>,
    /// The certainty of each block's cycles.
    pub trust: Vec<CycleTrust>,
    /// Cycles of each instruction by cause; `None` if unknown.
    pub accounts: Vec<Option<Account>>,
    /// Possible causes at each instruction whose cycles are unknown.
    pub suspects: Vec<Vec<Culprit>>,
    /// Source of the frequencies.
    pub basis: FrequencyBasis,
    /// Rates of the blocks whose executions were counted in bursts.
    pub rates: Vec<BlockRate>,
    /// Executions for each unit of frequency, if known: the cycles between samples; after a count,
    /// as many as make its samples the time in the counted run.
    pub cycles_per_sample: Option<f64>,
    /// Numbers of stretches between branch records: those that follow no path of the graph, and
    /// all.
    pub contradictions: (u64, u64),
    /// Targets of each indirect call with their shares of its calls, by the call's position among
    /// the graph's instructions.
    pub callees: BTreeMap<usize, Vec<(ImageAddress, f64)>>,
}

impl AnnotatedProcedure {
    /// Returns the sum of its samples.
    pub fn total_samples(&self) -> f64 {
        self.samples.iter().sum::<f64>() + self.astray
    }

    /// Returns the cycles of all its instructions by cause.
    pub fn cycle_summary(&self) -> Summary {
        let mut summary = Summary::new();
        let found = self.accounts.iter().zip(&self.suspects);
        for (samples, (account, suspects)) in self.samples.iter().zip(found) {
            match account {
                Some(account) => summary.add_instruction(*samples, account),
                None => summary.add_suspects(*samples, suspects),
            }
        }
        summary.samples += self.astray;
        summary.unknown += self.astray;
        summary
    }
}

/// The code of a procedure, decoded.
struct DecodedProcedure {
    start: ImageAddress,
    graph: FlowGraph,
    texts: Vec<String>,
    /// Index of each instruction, by its address.
    indices: FxHashMap<ImageAddress, usize>,
}

impl DecodedProcedure {
    fn read_code(
        given: &ProcedureEvidence<'_>,
        architecture: Architecture,
    ) -> anyhow::Result<Self> {
        let (name, image) = (&given.name, given.code.0.path().display());
        let start = given.code.0.address_of(given.start);
        let start = start.ok_or_else(|| anyhow::anyhow!("{image}: {name} is not in the file"))?;
        let bytes = given.code.bytes(start, given.size);
        let bytes = bytes.ok_or_else(|| {
            anyhow::anyhow!(
                "{image}: the {} bytes of {name} are not all in the file",
                given.size
            )
        })?;
        let graph = FlowGraph::new(architecture, start, &bytes, &given.code)
            .map_err(|error| anyhow::anyhow!("{image}: {name}: {error}"))?;
        let decoder = InstructionDecoder::new(architecture);
        let text = |at: ImageAddress| {
            let from = usize::try_from(at.0 - start.0).ok()?;
            decoder.text(at, bytes.get(from..)?).ok()
        };
        let instructions = graph.instructions.iter();
        let texts = instructions
            .clone()
            .map(|one| text(one.address).unwrap_or_default());
        Ok(Self {
            start,
            texts: texts.collect(),
            indices: instructions.map(|one| one.address).zip(0..).collect(),
            graph,
        })
    }

    /// Returns the instruction that starts `bytes` bytes after the procedure's start.
    fn index_at(&self, bytes: u64) -> Option<usize> {
        let address = ImageAddress(self.start.0.wrapping_add(bytes));
        self.indices.get(&address).copied()
    }

    /// Returns the weight of each instruction, and the weight between instructions.
    fn spread_samples(
        &self,
        given: &ProcedureEvidence<'_>,
        by_offset: &FxHashMap<ImageOffset, f64>,
    ) -> (Vec<f64>, f64) {
        let mut weights = vec![0.0; self.graph.instructions.len()];
        let mut astray = 0.0;
        for into in 0..given.size as u64 {
            let Some(weight) = by_offset.get(&ImageOffset(given.start.0.wrapping_add(into))) else {
                continue;
            };
            match self.index_at(into) {
                Some(index) => weights[index] += weight,
                None => astray += weight,
            }
        }
        (weights, astray)
    }

    /// Returns the observed memory accesses of each instruction.
    fn accesses_seen(&self, given: &ProcedureEvidence<'_>) -> Vec<Option<Accesses>> {
        let mut accesses = vec![None; self.graph.instructions.len()];
        for one in &given.accesses {
            let into = one.instruction.0.wrapping_sub(given.start.0);
            if let Some(index) = self.index_at(into) {
                accesses[index] = Some(one.accesses.clone());
            }
        }
        accesses
    }
}

/// Analyses a procedure.
///
/// # Errors
/// If its code cannot be read or decoded.
pub fn analyse_procedure(
    given: &ProcedureEvidence<'_>,
    model: &ProcessorModel,
) -> anyhow::Result<AnnotatedProcedure> {
    let code = DecodedProcedure::read_code(given, model.processor().architecture)?;
    let (samples, astray) = code.spread_samples(given, given.samples);
    let events = given.events.iter().map(|(cause, counts)| EventCounts {
        cause: *cause,
        counts: code.spread_samples(given, counts).0,
    });
    let events: Vec<EventCounts> = events.collect();
    let accesses = code.accesses_seen(given);
    let DecodedProcedure { graph, texts, .. } = code;
    let loops = Loops::of(&graph);
    let mut seen = seen_branches(given, &graph);
    add_rounds(&mut seen, given, &graph, &loops);
    let rates = measured_rates(given, &graph, &loops);
    let measured = counts_at_rates(&rates, given, &graph, &loops, &samples);
    let (frequencies, basis) =
        estimate_frequencies(given, model, &graph, &samples, &seen, measured);
    let own: f64 = samples.iter().sum();
    let expected = expectations(&graph, model, &samples, &frequencies);
    let best = graph.blocks.iter().map(|block| {
        let expected = expected[block.instructions.clone()].iter();
        expected.map(|one| one.minimum).sum()
    });
    let best: Vec<f64> = best.collect();
    let trust = cycle_trust(
        &graph,
        basis.frequency_scale(),
        &best,
        &samples,
        &frequencies,
    );
    let elsewhere = given.everywhere.map(|all| (all - own).max(0.0));
    let is_scaled = basis.frequency_scale() != FrequencyScale::Absent;
    let found = find_culprits(&Evidence {
        graph: &graph,
        loops: &loops,
        processor: model.processor(),
        expected: &expected,
        samples: &samples,
        frequencies: &frequencies,
        period: given.period.filter(|_| basis.is_absolute()),
        events: &events,
        mispredicted: &seen.mispredicted,
        kernel: given.kernel,
        accesses: &accesses.iter().map(Option::as_ref).collect::<Vec<_>>(),
        // Time elsewhere is comparable with frequencies only if these have a scale; a time of 0
        // always is.
        elsewhere: elsewhere.filter(|time| is_scaled || *time == 0.0),
        late: given.late,
        trust: &trust,
        shared: given.shared,
    });
    Ok(AnnotatedProcedure {
        name: given.name.clone(),
        image: given.image.clone(),
        loops,
        texts,
        samples,
        astray,
        frequencies,
        expected,
        accesses,
        trust,
        accounts: found.accounts,
        suspects: found.suspects,
        basis,
        cycles_per_sample: cycles_per_sample(given, basis, own),
        rates,
        contradictions: seen.contradictions,
        callees: indirect_callees(given, &graph, basis, seen.callees),
        graph,
    })
}

/// Returns the targets of indirect calls: from exact counts if these are the basis, else as
/// observed.
fn indirect_callees(
    given: &ProcedureEvidence<'_>,
    graph: &FlowGraph,
    basis: FrequencyBasis,
    seen: BTreeMap<usize, Vec<(ImageAddress, f64)>>,
) -> BTreeMap<usize, Vec<(ImageAddress, f64)>> {
    let counts = given
        .counts
        .and_then(|counts| counts.counts_of_procedure(&given.name, graph.start));
    let Some(counts) = counts.filter(|_| basis == FrequencyBasis::Counts) else {
        return seen;
    };
    let calls = graph.instructions.iter().enumerate();
    let calls = calls.filter(|(_, one)| one.flow == Flow::IndirectCall);
    let targets = |(index, one): (usize, &machine::Instruction)| {
        let mut targets: Vec<_> = counts.calls_from(one.address).collect();
        counts_to_shares(&mut targets);
        (index, targets)
    };
    calls.map(targets).collect()
}

fn estimate_frequencies(
    given: &ProcedureEvidence<'_>,
    model: &ProcessorModel,
    graph: &FlowGraph,
    samples: &[f64],
    seen: &SeenBranches,
    measured: Vec<Counted>,
) -> (Frequencies, FrequencyBasis) {
    let edges: Vec<Ends> = graph
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    if let Some((counts, period)) = given.counts.zip(given.period)
        && let Some(counts) = counts.counts_of_procedure(&given.name, graph.start)
    {
        return (
            exact_frequencies(graph, &counts, period),
            FrequencyBasis::Counts,
        );
    }
    let classes = Equivalence::of(graph);
    let lines = given.lines.zip(given.period);
    let (mut counted, used) = lines
        .map(|(lines, period)| lines.of(graph, &classes, period))
        .unwrap_or_default();
    if model.processor().in_order && counted.is_empty() && given.stretches.is_empty() {
        let blocks: Vec<Vec<in_order::Issue>> = graph
            .blocks
            .iter()
            .map(|block| {
                let schedule = model.schedule(graph.instructions_of(block));
                let samples = samples.get(block.instructions.clone()).unwrap_or_default();
                let issue = |(scheduled, samples): (machine::Scheduled, &f64)| in_order::Issue {
                    samples: *samples,
                    minimum: f64::from(scheduled.minimum),
                    waits_for: match scheduled.held {
                        machine::Held::Operand(by) | machine::Held::Unit(by) => Some(by),
                        _ => None,
                    },
                };
                schedule.into_iter().zip(samples).map(issue).collect()
            })
            .collect();
        return (
            in_order::frequencies(&blocks, &edges, &classes),
            FrequencyBasis::InOrder,
        );
    }
    let costs = best_cycles(model, graph);
    let has_lines = !counted.is_empty();
    let has_measured = !measured.is_empty();
    counted.extend(measured);
    let observed = observe(given, samples, &costs, seen, &counted);
    let options = out_of_order::Options::default();
    let mut found =
        out_of_order::estimate_procedure(graph, &classes, &observed, &options).frequencies;
    let basis = match observed.instructions {
        _ if has_lines => FrequencyBasis::Lines(used),
        Some(_) => FrequencyBasis::Instructions,
        None if has_measured => FrequencyBasis::Bursts,
        None => FrequencyBasis::OutOfOrder,
    };
    if !basis.is_absolute() {
        rescale_guess(graph, samples, &costs, &mut found);
    }
    (found, basis)
}

/// Returns the least cycles of each block, by the model of the processor.
fn best_cycles(model: &ProcessorModel, graph: &FlowGraph) -> Vec<f64> {
    let blocks = graph.blocks.iter();
    blocks
        .map(|block| model.bounds(graph.instructions_of(block)).cycles())
        .collect()
}

/// Gathers what was observed of a procedure, for the estimate out of order.
fn observe<'a>(
    given: &ProcedureEvidence<'_>,
    samples: &'a [f64],
    costs: &'a [f64],
    seen: &'a SeenBranches,
    counted: &'a [Counted],
) -> out_of_order::Observed<'a> {
    // The procedure needs enough samples of its own for an estimate of their number.
    let (instructions, samples_of) = given.instructions;
    let instructions = given.period.map(|period| instructions / period);
    out_of_order::Observed {
        samples,
        // Branch records give better bounds, because blocks overlap.
        costs: Some(costs).filter(|_| given.stretches.is_empty()),
        edges: &seen.edges,
        counted,
        instructions: instructions.filter(|_| samples_of >= LEAST_INSTRUCTIONS),
    }
}

/// Plans which blocks of a procedure to count. Returns the offsets of the places in the image, too.
///
/// # Errors
/// If its code cannot be read or decoded.
pub(super) fn plan_procedure(
    given: &ProcedureEvidence<'_>,
    model: &ProcessorModel,
) -> anyhow::Result<(CountPlan, Vec<ImageOffset>)> {
    let architecture = model.processor().architecture;
    let code = DecodedProcedure::read_code(given, architecture)?;
    let (samples, _) = code.spread_samples(given, given.samples);
    let graph = code.graph;
    let loops = Loops::of(&graph);
    let classes = Equivalence::of(&graph);
    let seen = seen_branches(given, &graph);
    let costs = best_cycles(model, &graph);
    let observed = observe(given, &samples, &costs, &seen, &[]);
    let options = out_of_order::Options::default();
    let evidence = out_of_order::gather_evidence(&graph, &classes, &observed, &options);
    let plan = CountPlan::new(architecture, &graph, &loops, &classes, &evidence, &options);
    let offset = |place: &CountPlace| {
        let into = place.address.0.wrapping_sub(code.start.0);
        ImageOffset(given.start.0.wrapping_add(into))
    };
    let places = plan.places.iter().map(offset).collect();
    Ok((plan, places))
}

/// Adds the counted rounds of loops to what was seen of the edges.
fn add_rounds(
    seen: &mut SeenBranches,
    given: &ProcedureEvidence<'_>,
    graph: &FlowGraph,
    loops: &Loops,
) {
    let Some(measured) = given.measured else {
        return;
    };
    let classes = Equivalence::of(graph);
    for one in loop_rounds(&measured.plan, graph, loops, &classes, &measured.counts) {
        let (on, off) = one.edges;
        // As many ends as leave a ratio with this deviation.
        let ends = 1.0 / (one.deviation * one.deviation);
        seen.edges[on].counted += ends * (one.rounds - 1.0).max(0.0);
        seen.edges[off].counted += ends;
    }
}

fn measured_rates(
    given: &ProcedureEvidence<'_>,
    graph: &FlowGraph,
    loops: &Loops,
) -> Vec<BlockRate> {
    let measured = given.measured.iter();
    measured
        .flat_map(|measured| block_rates(&measured.plan, graph, loops, &measured.counts))
        .collect()
}

/// Returns the cycles that a sample stands for. What was counted in another run than the recorded
/// one is said of the counted run: two runs of the same work may take different times.
fn cycles_per_sample(
    given: &ProcedureEvidence<'_>,
    basis: FrequencyBasis,
    samples: f64,
) -> Option<f64> {
    let period = given.period?;
    let counted = given.measured.filter(|_| basis == FrequencyBasis::Bursts);
    let counted = counted.zip(given.sample_ns).map(|(measured, sample_ns)| {
        let recorded = samples * sample_ns * 1e-9;
        period * own_seconds(&measured.counts) / recorded
    });
    Some(counted.unwrap_or(period))
}

/// Returns how often blocks with a rate were executed in the recording's time.
fn counts_at_rates(
    rates: &[BlockRate],
    given: &ProcedureEvidence<'_>,
    graph: &FlowGraph,
    loops: &Loops,
    samples: &[f64],
) -> Vec<Counted> {
    let Some((period, sample_ns)) = given.period.zip(given.sample_ns) else {
        return Vec::new();
    };
    let counted = |rate: &BlockRate| {
        let own = graph.blocks.iter().enumerate().filter(|(index, _)| {
            rate.within
                .is_none_or(|within| loops.has_block(within, *index))
        });
        let own: f64 = own
            .map(|(_, block)| samples[block.instructions.clone()].iter().sum::<f64>())
            .sum();
        Counted {
            block: rate.block,
            executions: rate.per_second * own * sample_ns * 1e-9,
            period,
            deviation: Some(rate.deviation),
        }
    };
    rates.iter().map(counted).collect()
}

/// Corrects the guessed scale if a block would take less than its best case.
fn rescale_guess(graph: &FlowGraph, samples: &[f64], costs: &[f64], found: &mut Frequencies) {
    /// Part of the samples below which a block is ignored.
    const LEAST: f64 = 0.05;
    let total: f64 = samples.iter().sum();
    let mut too_often_by = 1.0_f64;
    for ((block, cost), estimate) in graph.blocks.iter().zip(costs).zip(&found.blocks) {
        let own: f64 = samples[block.instructions.clone()].iter().sum();
        if let Some(estimate) = estimate.filter(|_| own >= LEAST * total && own > 0.0) {
            too_often_by = too_often_by.max(estimate.frequency * cost / own);
        }
    }
    for estimate in found.blocks.iter_mut().chain(&mut found.edges).flatten() {
        estimate.frequency /= too_often_by;
    }
}

/// Returns exact counts as frequencies: executions divided by the cycles between samples.
fn exact_frequencies(graph: &FlowGraph, counts: &ProcedureCounts<'_>, period: f64) -> Frequencies {
    let blocks: Vec<Option<u64>> = (graph.blocks.iter())
        .map(|block| times_executed(graph, block, counts))
        .collect();
    let estimate = |executions: f64| Estimate {
        frequency: executions / period,
        confidence: Confidence::High,
        deviation: Some(0.0),
    };
    let mut edges: Vec<Option<f64>> = vec![None; graph.edges.len()];
    // If only one edge leaves or enters a block, it is taken as often as the block runs; the counts
    // of jumps give the others.
    let (mut leaving, mut entering) = (vec![0; blocks.len()], vec![0; blocks.len()]);
    for edge in &graph.edges {
        if let Some(from) = edge.from {
            leaving[from] += 1;
        }
        if let Some(to) = edge.to {
            entering[to] += 1;
        }
    }
    for (edge, found) in graph.edges.iter().zip(&mut edges) {
        let alone_from = edge.from.filter(|from| leaving[*from] == 1);
        let alone_to = edge.to.filter(|to| entering[*to] == 1);
        let jumped = || {
            let from = &graph.blocks[edge.from?];
            let last = graph.instructions_of(from).last()?.address;
            Some(match edge.kind {
                machine::EdgeKind::Fall => {
                    let times = counts.times_executed(last);
                    times.saturating_sub(counts.times_jumped(last, None))
                }
                _ => counts.times_jumped(last, Some(graph.blocks[edge.to?].start)),
            })
        };
        let times = alone_from
            .or(alone_to)
            .and_then(|block| blocks[block])
            .or_else(jumped);
        *found = times.map(|times| times as f64);
    }
    Frequencies {
        blocks: blocks
            .iter()
            .map(|times| times.map(|times| estimate(times as f64)))
            .collect(),
        edges: edges.into_iter().map(|times| times.map(estimate)).collect(),
    }
}

/// Returns how often a block was executed. A repeated instruction (`rep movs`) has a count for each
/// repetition, and so says nothing about its block. If jumps are not understood, one may lead into
/// the middle of the block, which then has no single count.
fn times_executed(
    graph: &FlowGraph,
    block: &machine::Block,
    counts: &ProcedureCounts<'_>,
) -> Option<u64> {
    let each = graph.instructions_of(block).iter();
    let each = each.filter(|one| !one.kind.repeated);
    let counts = each.map(|one| counts.times_executed(one.address));
    let (least, most) = counts.fold((u64::MAX, None), |(least, most), one| {
        (one.min(least), most.max(Some(one)))
    });
    most.filter(|most| !graph.misses_edges() || least == *most)
}
