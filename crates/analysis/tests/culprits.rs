//! Section 6.3 on a simulated processor: whether the true cause of each stall is listed, and how
//! many causes are listed.

mod pipeline;
mod window;

use analysis::stall::culprits::{
    Account, Cause, Evidence, Expected, Summary, expectations, find_culprits, mispredicted_at_most,
};
use analysis::stall::{Confidence, Estimate, Frequencies, in_order};
use machine::{
    Block, Edge, EdgeKind, Equivalence, Flow, FlowGraph, Instruction, InstructionKind, Loops,
    Processor, ProcessorModel, Register,
};
use pipeline::{CAUSES, PipelineRun, Program, Random, run};
use profile::ImageAddress;
use std::sync::LazyLock;

/// Returns the program as the analysis sees it.
fn graph(program: &Program) -> FlowGraph {
    let (mut blocks, mut instructions) = (Vec::new(), Vec::new());
    let mut address = pipeline::START;
    for (index, block) in program.blocks.iter().enumerate() {
        let (start, first) = (ImageAddress(address), instructions.len());
        let several = program
            .edges
            .iter()
            .filter(|edge| edge.0 == Some(index))
            .count()
            > 1;
        for (place, one) in block.iter().enumerate() {
            let register = |number: &usize| Register::integer(*number as u8);
            let is_last = place + 1 == block.len();
            instructions.push(Instruction {
                address: ImageAddress(address),
                length: 4,
                flow: if is_last && several {
                    Flow::Branch(start)
                } else {
                    Flow::Next
                },
                reads: one.reads.iter().map(register).collect(),
                // Stores write no register: they have the number of a missing one.
                writes: [one.writes]
                    .iter()
                    .filter(|one| **one < 24)
                    .map(register)
                    .collect(),
                kind: InstructionKind {
                    load: one.kind == pipeline::Kind::Load,
                    store: one.kind == pipeline::Kind::Store,
                    multiply: one.kind == pipeline::Kind::Multiply,
                    ..InstructionKind::default()
                },
                form: machine::InstructionForm::default(),
                place: None,
                advances: None,
            });
            address += 4;
        }
        blocks.push(Block {
            start,
            end: ImageAddress(address),
            instructions: first..instructions.len(),
        });
    }
    let edge = |(from, to): &(Option<usize>, Option<usize>)| Edge {
        from: *from,
        to: *to,
        kind: if from.is_none() {
            EdgeKind::Entry
        } else {
            EdgeKind::Taken
        },
    };
    FlowGraph {
        start: ImageAddress(pipeline::START),
        end: ImageAddress(address),
        blocks,
        edges: program.edges.iter().map(edge).collect(),
        instructions,
        tables: Vec::new(),
        unresolved: Vec::new(),
        invalid: Vec::new(),
        data: Vec::new(),
        overlapping: false,
    }
}

fn expected(program: &Program, run: &PipelineRun) -> Vec<Expected> {
    let pairs = program
        .blocks
        .iter()
        .flatten()
        .zip(run.issues.iter().flatten());
    let one = |(one, issue): (&pipeline::Instruction, &in_order::Issue)| Expected {
        minimum: issue.minimum,
        stall: None,
        latency: match one.kind {
            pipeline::Kind::Load => 2.0,
            pipeline::Kind::Multiply => 8.0,
            _ => 1.0,
        },
        chain: 0.0,
        busy: if one.kind == pipeline::Kind::Multiply {
            4.0
        } else {
            0.0
        },
        uops: 1.0,
    };
    pairs.map(one).collect()
}

/// Returns an in-order processor, two instructions a cycle, with a branch penalty of 6 and an
/// instruction cache in which no loop stays, because the simulated one misses at random.
fn processor() -> Processor {
    Processor {
        mispredict: 6,
        instruction_cache: 0,
        ..*Processor::named("cortex-a53").expect("there")
    }
}

fn accounts(
    program: &Program,
    run: &PipelineRun,
    frequencies: &Frequencies,
) -> Vec<Option<Account>> {
    let graph = graph(program);
    let samples: Vec<f64> = run.issues.iter().flatten().map(|one| one.samples).collect();
    let found = find_culprits(&Evidence {
        loops: &Loops::of(&graph),
        graph: &graph,
        processor: &processor(),
        expected: &expected(program, run),
        samples: &samples,
        frequencies,
        period: None,
        events: &[],
        mispredicted: &[],
        kernel: Some(0.0),
        accesses: &[],
        elsewhere: None,
        late: 0,
        trust: &[],
        shared: false,
    });
    found.accounts
}

fn true_frequencies(blocks: &[f64], edges: &[f64]) -> Frequencies {
    let all = |values: &[f64]| {
        let known = values.iter().map(|value| {
            Some(Estimate {
                frequency: *value,
                confidence: Confidence::High,
                deviation: None,
            })
        });
        known.collect()
    };
    Frequencies {
        blocks: all(blocks),
        edges: all(edges),
    }
}

#[derive(Default)]
struct Tally {
    stalls: usize,
    missed: Vec<(Cause, f64)>,
    listed: usize,
    weighted: f64,
    weight: f64,
    /// Stalls by their true cause.
    truly: [usize; CAUSES],
    /// Stalls for which both the data cache and the DTLB are listed, which time does not
    /// distinguish.
    both: usize,
    /// Number of times that a cause (column) was listed when another (row) was true.
    beside: [[usize; CAUSES]; CAUSES],
    summary: Option<Summary>,
}

/// Returns the position of a cause in [`Cause::ALL`].
fn place(of: Cause) -> usize {
    let mut all = Cause::ALL.iter();
    all.position(|one| *one == of).expect("listed")
}

impl Tally {
    fn add_run(&mut self, run: &PipelineRun, accounts: &[Option<Account>]) {
        let samples = run.issues.iter().flatten().map(|issue| issue.samples);
        self.add(run.stalls.iter().flatten().zip(samples), accounts);
    }

    /// Adds the cycles of each instruction by cause, its samples, and its account.
    fn add<'a>(
        &mut self,
        stalls: impl Iterator<Item = (&'a [f64; CAUSES], f64)>,
        accounts: &[Option<Account>],
    ) {
        let summary = self.summary.get_or_insert_with(Summary::new);
        for ((causes, samples), account) in stalls.zip(accounts) {
            match account {
                Some(account) => summary.add_instruction(samples, account),
                None => summary.add_suspects(samples, &[]),
            }
            let Some(account) = account.as_ref().filter(|one| one.stall >= 0.1) else {
                continue;
            };
            let most = causes
                .iter()
                .zip(Cause::ALL)
                .max_by(|a, b| a.0.total_cmp(b.0));
            let (cycles, cause) = most.expect("causes");
            let all: f64 = causes.iter().sum();
            // A stall that mostly was none in truth is sampling error.
            if all / 50.0 < 0.5 * account.stall * account.frequency || *cycles < 0.3 * all {
                continue;
            }
            self.stalls += 1;
            self.truly[place(cause)] += 1;
            self.listed += account.culprits.len();
            for one in &account.culprits {
                self.beside[place(cause)][place(one.cause)] += 1;
            }
            let has = |cause| account.culprits.iter().any(|one| one.cause == cause);
            self.both += usize::from(has(Cause::DataCache) && has(Cause::DataTlb));
            let weight = account.stall * account.frequency;
            self.weight += weight;
            self.weighted += weight * account.culprits.len() as f64;
            // If several causes had the same cycles, any of them is true.
            let truly = causes.iter().zip(Cause::ALL);
            let mut truly = truly.filter(|one| one.0 == cycles).map(|one| one.1);
            if !truly.any(has) {
                self.missed.push((cause, account.stall));
            }
        }
    }

    /// Returns how many times a cause was listed.
    fn listed_as(&self, cause: Cause) -> usize {
        self.beside.iter().map(|row| row[place(cause)]).sum()
    }

    fn print(&self) {
        let letters: String = Cause::ALL
            .iter()
            .map(|one| format!("{:>5}", one.letter()))
            .collect();
        println!("listed: {letters}");
        for (row, cause) in self.beside.iter().zip(Cause::ALL) {
            let counts: String = row.iter().map(|count| format!("{count:>5}")).collect();
            let truly = self.truly[place(cause)];
            println!("true {}: {counts} of {truly}", cause.letter());
        }
        let summary = self.summary.as_ref().expect("runs");
        println!(
            "{} stalls; not listed: {:?}; {:.3} listed on average ({:.2} with d and D as one), by weight {:.2}",
            self.stalls,
            self.missed,
            self.listed as f64 / self.stalls as f64,
            (self.listed - self.both) as f64 / self.stalls as f64,
            self.weighted / self.weight
        );
        println!(
            "unexplained stall {:.1} %, gain {:.1} %",
            100.0 * summary.unexplained_stall / summary.samples,
            100.0 * summary.unexplained_gain / summary.samples
        );
    }
}

#[test]
fn the_true_culprit_is_always_listed() {
    let mut tally = Tally::default();
    for seed in 100..112 {
        let mut random = Random(seed);
        let mut program = Program::random(&mut random);
        program.trouble(&mut random);
        let run = run(&program, &mut random, 3_000_000, 50);
        tally.add_run(
            &run,
            &accounts(&program, &run, &true_frequencies(&run.blocks, &run.edges)),
        );
    }
    tally.print();
    let summary = tally.summary.as_ref().expect("runs");
    assert!(tally.stalls > 300);
    assert!(tally.missed.is_empty());
    assert!(tally.listed as f64 <= 2.5 * tally.stalls as f64);
    assert!(summary.unexplained_stall <= 0.1 * summary.samples);
    // Every sample is accounted for.
    let tallied = summary.subtotal_dynamic
        + summary.subtotal_static
        + summary.execution
        + summary.error
        + summary.unknown;
    assert!((tallied / summary.samples - 1.0).abs() < 1e-6);
}

#[test]
fn estimated_frequencies_leave_little_unexplained() {
    let mut tally = Tally::default();
    for seed in 100..112 {
        let mut random = Random(seed);
        let mut program = Program::random(&mut random);
        program.trouble(&mut random);
        let run = run(&program, &mut random, 3_000_000, 50);
        let classes = Equivalence::new(program.blocks.len(), &program.edges);
        let found = in_order::frequencies(&run.issues, &program.edges, &classes);
        tally.add_run(&run, &accounts(&program, &run, &found));
    }
    tally.print();
    let summary = tally.summary.as_ref().expect("runs");
    assert!(summary.unexplained_stall <= 0.1 * summary.samples);
    assert!(tally.missed.len() as f64 <= 0.02 * tally.stalls as f64);
}

/// A program on the processor that executes out of order.
struct Simulated {
    graph: machine::FlowGraph,
    run: window::WindowRun,
}

fn model() -> ProcessorModel {
    ProcessorModel::new(Processor::named("skylake").expect("there"))
}

fn simulated(seeds: std::ops::Range<u64>) -> Vec<Simulated> {
    let of = |seed| {
        let model = model();
        let mut random = Random(seed);
        let program = window::program(&mut random);
        let run = window::run(&program, &model, &mut random, 3_000_000, 50);
        let graph = program.graph;
        Simulated { graph, run }
    };
    let all: Vec<Simulated> = std::thread::scope(|scope| {
        let each: Vec<_> = seeds.map(|seed| scope.spawn(move || of(seed))).collect();
        let joined = each.into_iter().map(|one| one.join().expect("a program"));
        joined.collect()
    });
    let sum = |of: usize| all.iter().map(|one| one.run.counts[of]).sum::<u64>() as f64;
    let instructions: usize = all.iter().map(|one| one.graph.instructions.len()).sum();
    println!(
        "{} instructions each; of all accesses {:.1} % miss the cache, {:.1} % the table of translations, and {:.1} % are walks",
        instructions / all.len(),
        100.0 * sum(1) / sum(0),
        100.0 * sum(2) / sum(0),
        100.0 * sum(3) / sum(0)
    );
    all
}

/// Programs that the rules were tuned on, and programs for validation.
static KNOWN: LazyLock<Vec<Simulated>> = LazyLock::new(|| simulated(100..112));
static OTHERS: LazyLock<Vec<Simulated>> = LazyLock::new(|| simulated(400..424));

/// Adds the account of a program. In the analysis, no loop stays in the instruction cache, because
/// the simulated one misses at random.
fn add_windowed(tally: &mut Tally, one: &Simulated, records: bool, registers: bool) {
    let Simulated { graph, run } = one;
    let model = model();
    let frequencies = true_frequencies(&run.blocks, &run.edges);
    let processor = Processor {
        instruction_cache: 0,
        ..*model.processor()
    };
    let jumps = run.jumps.iter().filter(|_| records);
    let mispredicted: Vec<_> = jumps
        .map(|(missed, all)| mispredicted_at_most(*missed, *all))
        .collect();
    let accesses = run.accesses.iter().filter(|_| registers);
    let accesses: Vec<_> = accesses.map(Option::as_ref).collect();
    let found = find_culprits(&Evidence {
        loops: &Loops::of(graph),
        graph,
        processor: &processor,
        expected: &expectations(graph, &model, &run.samples, &frequencies),
        samples: &run.samples,
        frequencies: &frequencies,
        period: None,
        events: &[],
        mispredicted: &mispredicted,
        kernel: Some(0.0),
        accesses: &accesses,
        elsewhere: Some(0.0),
        late: 0,
        trust: &[],
        shared: false,
    });
    tally.add(
        run.stalls.iter().zip(run.samples.iter().copied()),
        &found.accounts,
    );
}

/// Tallies some programs, without registers and with them.
fn windowed(programs: &[Simulated]) -> [Tally; 2] {
    [false, true].map(|registers| {
        let mut tally = Tally::default();
        for one in programs {
            add_windowed(&mut tally, one, false, registers);
        }
        println!("data addresses from registers: {registers}");
        tally.print();
        let summary = tally.summary.as_ref().expect("runs");
        assert!(tally.missed.is_empty());
        assert!(summary.unexplained_stall <= 0.1 * summary.samples);
        tally
    })
}

#[test]
fn the_true_culprit_is_always_listed_out_of_order() {
    let [without, with] = windowed(&KNOWN);
    assert!(without.stalls > 300);
    assert_eq!(with.stalls, without.stalls);
    // Measured: 2.40; 2.12 if the two causes that time does not distinguish count as one.
    assert!(without.listed as f64 <= 2.43 * without.stalls as f64);
    assert!((without.listed - without.both) as f64 <= 2.15 * without.stalls as f64);
    assert!(with.listed <= without.listed);
    // Each kind of stall occurred.
    for cause in [
        Cause::InstructionCache,
        Cause::DataCache,
        Cause::DataTlb,
        Cause::StoreBuffer,
        Cause::Synchronisation,
        Cause::Mispredict,
        Cause::Dependency,
        Cause::Unit,
    ] {
        assert!(without.truly[place(cause)] > 0, "{cause:?}");
    }
}

/// Runs on programs that the rules were not tuned on.
#[test]
fn the_true_culprit_is_listed_in_programs_never_seen_before() {
    let [without, with] = windowed(&OTHERS);
    assert!(without.stalls > 600);
    // Measured: 2.505, with registers too.
    assert!(without.listed as f64 <= 2.53 * without.stalls as f64);
    assert!(with.listed <= without.listed);
}

/// Branch records say how many jumps were mispredicted.
#[test]
fn branch_records_rule_out_mispredictions() {
    let (mut without, mut with) = (Tally::default(), Tally::default());
    for one in KNOWN.iter().chain(OTHERS.iter()) {
        add_windowed(&mut without, one, false, false);
        add_windowed(&mut with, one, true, false);
    }
    with.print();
    assert_eq!(with.stalls, without.stalls);
    assert!(with.missed.is_empty());
    let [listed, without] = [&with, &without].map(|tally| tally.listed_as(Cause::Mispredict));
    let truly = with.truly[place(Cause::Mispredict)];
    println!(
        "mispredictions are listed {listed} times, {without} without records, and true {truly} times"
    );
    assert!(listed < without);
}
