//! `accuracy IMAGE CALLGRIND RECORDING [LINES]`: the accuracy of estimated frequencies against
//! callgrind's counts (the metric of Figures 8 and 9). Used by `benches/instructions.py`.
//!
//! IMAGE is loaded at its link address (`-static -no-pie`). CALLGRIND is made with
//! `--dump-instr=yes --collect-jumps=yes --compress-pos=no --compress-strings=no`. LINES are counts
//! of source lines of the same work, by gcov or llvm-cov.

#[path = "../../machine/examples/loaded/mod.rs"]
mod loaded;

use analysis::stall::out_of_order::{self, Counted, EdgeEvidence, Observed, Options};
use analysis::stall::{Confidence, Estimate};
use loaded::Loaded;
use machine::{Architecture, EdgeKind, Equivalence, Flow, FlowGraph};
use object::{Object, ObjectSegment};
use profile::ImageAddress;
use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

type Failure = Box<dyn Error>;

/// Executions of each instruction, and of each jump by its target, as callgrind counted them.
#[derive(Default)]
struct Truth {
    executed: HashMap<u64, f64>,
    jumps: HashMap<(u64, u64), f64>,
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

impl Truth {
    fn read(path: &str) -> Result<Self, Failure> {
        let mut truth = Self::default();
        // The line after `calls=` is the cost of the callee, the one after a jump has none.
        let (mut call, mut jump) = (false, None);
        for line in std::fs::read_to_string(path)?.lines() {
            let mut fields = line.split([' ', '=']);
            let first = fields.next().unwrap_or_default();
            match first {
                "calls" => call = true,
                "jcnd" | "jump" => {
                    let count = fields.next().and_then(|count| count.split('/').next());
                    let target = fields.next().and_then(hexadecimal);
                    jump = count
                        .and_then(|count| count.parse::<f64>().ok())
                        .zip(target);
                }
                _ if first.starts_with("0x") => {
                    let address = hexadecimal(first).ok_or("an address")?;
                    if std::mem::take(&mut call) {
                        continue;
                    }
                    if let Some((count, target)) = jump.take() {
                        *truth.jumps.entry((address, target)).or_default() += count;
                    } else if let Some(cost) = fields.nth(1).and_then(|cost| cost.parse().ok()) {
                        let cost: f64 = cost;
                        *truth.executed.entry(address).or_default() += cost;
                    }
                }
                _ => {}
            }
        }
        Ok(truth)
    }

    fn block(&self, graph: &FlowGraph, block: usize) -> f64 {
        let start = graph.blocks[block].start.0;
        self.executed.get(&start).copied().unwrap_or(0.0)
    }

    fn edge(&self, graph: &FlowGraph, edge: usize) -> f64 {
        let edge = graph.edges[edge];
        let Some(from) = edge.from else {
            return edge.to.map_or(0.0, |to| self.block(graph, to));
        };
        let block = &graph.blocks[from];
        let last = graph.instructions_of(block).last();
        let executed = self.block(graph, from);
        let Some(last) = last else { return executed };
        let jump = |to: u64| self.jumps.get(&(last.address.0, to)).copied();
        let target = edge.to.map(|to| graph.blocks[to].start.0);
        match (last.flow, edge.kind) {
            (Flow::Branch(to), EdgeKind::Fall) => executed - jump(to.0).unwrap_or(0.0),
            (Flow::Branch(to), _) => jump(to.0).unwrap_or(0.0),
            (Flow::IndirectJump, _) => target.and_then(jump).unwrap_or(0.0),
            _ => executed,
        }
    }
}

/// Weight of the estimates within 5, 10, 15 and 25 % of the truth.
#[derive(Default)]
struct Shares {
    total: f64,
    within: [f64; 4],
}

impl Shares {
    fn add(&mut self, weight: f64, truth: f64, estimate: f64) {
        self.total += weight;
        let error = (estimate / truth - 1.0).abs();
        for (within, limit) in self.within.iter_mut().zip([0.05, 0.10, 0.15, 0.25]) {
            *within += if error <= limit { weight } else { 0.0 };
        }
    }

    fn percent(&self) -> String {
        let shares = self.within.iter().map(|within| 100.0 * within / self.total);
        shares.map(|share| format!("{share:6.1}")).collect()
    }
}

struct Procedure<'a> {
    name: &'a str,
    graph: FlowGraph,
    classes: Equivalence,
    samples: Vec<f64>,
    edges: Vec<EdgeEvidence>,
    counted: Vec<Counted>,
}

/// Evidence in addition to the samples.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// The instructions of each procedure, and whether there are observed and walked branches.
    Anchored(bool, bool),
    /// The instructions of the program, likewise.
    Free(bool, bool),
    /// Counts of lines, likewise.
    Lines(bool, bool),
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (image, truth, recording, counts) = match arguments.as_slice() {
        [image, truth, recording] => (image, truth, recording, None),
        [image, truth, recording, counts] => (image, truth, recording, Some(counts)),
        _ => return Err("accuracy IMAGE CALLGRIND RECORDING [LINES]".into()),
    };
    let bytes = std::fs::read(image)?;
    let file = object::File::parse(&*bytes)?;
    let truth = Truth::read(truth)?;
    let recording = store::read_file(recording.as_ref())?;
    let is_image = |id: profile::ImageId| recording.image(id).path == *image;
    // Converts offsets in the file to addresses.
    let address = |offset: profile::ImageOffset| {
        file.segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            let within = offset
                .0
                .checked_sub(start)
                .filter(|within| *within < size)?;
            Some(segment.address() + within)
        })
    };
    let mut at: HashMap<u64, f64> = HashMap::new();
    for sample in &recording.samples {
        let location = recording.stacks.frame(sample.stack).location;
        if is_image(location.image)
            && let Some(address) = address(location.offset)
        {
            *at.entry(address).or_default() += sample.count as f64;
        }
    }
    let mut seen: HashMap<(u64, u64), EdgeEvidence> = HashMap::new();
    for branch in recording.branches.iter().filter(|one| is_image(one.image)) {
        if let Some(ends) = address(branch.branch).zip(address(branch.target)) {
            let evidence = seen.entry(ends).or_default();
            evidence.observed += branch.observed as f64;
            evidence.walked += branch.walked as f64;
        }
    }
    for warning in &recording.warnings {
        println!("{warning}");
    }
    let mut procedures = procedures(&file, &at, &seen)?;
    if let Some(counts) = counts {
        count(&mut procedures, image, counts)?;
    }
    report(&procedures, &truth, counts.is_some());
    Ok(())
}

fn procedures<'a>(
    file: &object::File<'a>,
    at: &HashMap<u64, f64>,
    seen: &HashMap<(u64, u64), EdgeEvidence>,
) -> Result<Vec<Procedure<'a>>, Failure> {
    let (loaded, found) = Loaded::of(file)?;
    let mut procedures = Vec::new();
    for (start, (size, name)) in found {
        let total: f64 = (start..start + size)
            .filter_map(|address| at.get(&address))
            .sum();
        let Some(bytes) = loaded.bytes(start, size).filter(|_| total >= 50.0) else {
            continue;
        };
        let Ok(graph) = FlowGraph::new(Architecture::X86_64, ImageAddress(start), bytes, &loaded)
        else {
            continue;
        };
        let of = |address: ImageAddress| at.get(&address.0).copied().unwrap_or(0.0);
        let samples = graph
            .instructions
            .iter()
            .map(|one| of(one.address))
            .collect();
        let edge = |edge: &machine::Edge| {
            let block = edge.from.and_then(|from| graph.blocks.get(from))?;
            let branch = graph.instructions_of(block).last()?;
            let target = match (edge.to, branch.flow) {
                (Some(to), _) => graph.blocks.get(to)?.start,
                (None, Flow::Branch(target)) if edge.kind == EdgeKind::TailCall => target,
                _ => return None,
            };
            // Two edges to one block are counted once.
            seen.get(&(branch.address.0, target.0)).copied()
        };
        let edges = graph
            .edges
            .iter()
            .map(|one| edge(one).unwrap_or_default())
            .collect();
        procedures.push(Procedure {
            name,
            classes: Equivalence::of(&graph),
            samples,
            edges,
            graph,
            counted: Vec::new(),
        });
    }
    Ok(procedures)
}

/// Adds the counts of lines.
fn count(procedures: &mut [Procedure<'_>], image: &str, counts: &str) -> Result<(), Failure> {
    let counts =
        match formats::counts::read_counts(counts.as_ref(), &formats::read::ReadLimits::default())?
        {
            formats::counts::ExecutionCounts::Lines(counts) => counts,
            _ => return Err("no counts of lines".into()),
        };
    let code =
        symbols::ImageSymbols::open_image(image.as_ref(), &symbols::SymbolOptions::default())?;
    let lines = results::annotation::CountedLines::new(&code, &counts)?;
    let (mut of, mut used) = (0, 0);
    for one in procedures {
        let (counted, all) = lines.of(&one.graph, &one.classes, 1.0);
        of += all.lines;
        used += all.used;
        one.counted = counted;
    }
    println!("{used} of {of} counted lines in these procedures used");
    Ok(())
}

fn report(procedures: &[Procedure<'_>], truth: &Truth, counted: bool) {
    let taken: f64 = procedures.iter().flat_map(|one| &one.samples).sum();
    let total: f64 = procedures.iter().map(|one| instructions(one, truth)).sum();
    println!("{} procedures, {taken:.0} samples", procedures.len());
    let modes = [
        ("anchored, time only", Mode::Anchored(false, false)),
        ("anchored, registers", Mode::Anchored(true, false)),
        ("anchored, bursts", Mode::Anchored(false, true)),
        ("anchored, registers and bursts", Mode::Anchored(true, true)),
        ("free, registers", Mode::Free(true, false)),
        ("free, registers and bursts", Mode::Free(true, true)),
        ("lines, samples only", Mode::Lines(false, false)),
        ("lines, registers", Mode::Lines(true, false)),
        ("lines, registers and bursts", Mode::Lines(true, true)),
    ];
    let used = |mode: &Mode| counted || !matches!(mode, Mode::Lines(..));
    for (text, mode) in modes.into_iter().filter(|(_, mode)| used(mode)) {
        let started = Instant::now();
        let (mut samples, mut edges) = (Shares::default(), Shares::default());
        let mut classes: [Shares; 3] = Default::default();
        let mut worst = Vec::new();
        for procedure in procedures {
            let mut own = Shares::default();
            let estimates = estimate(procedure, truth, mode, taken / total);
            for (block, estimate) in estimates.blocks.iter().enumerate() {
                let range = procedure.graph.blocks[block].instructions.clone();
                let weight: f64 = procedure.samples[range].iter().sum();
                let real = truth.block(&procedure.graph, block);
                let frequency = estimate.map_or(f64::NAN, |one| one.frequency);
                samples.add(weight, real, frequency);
                own.add(weight, real, frequency);
                let class = estimate.map_or(0, |one: Estimate| match one.confidence {
                    Confidence::Low => 0,
                    Confidence::Medium => 1,
                    Confidence::High => 2,
                });
                classes[class].add(weight, real, frequency);
            }
            for (edge, estimate) in estimates.edges.iter().enumerate() {
                let real = truth.edge(&procedure.graph, edge);
                let frequency = estimate.map_or(f64::NAN, |one| one.frequency);
                edges.add(real, real, frequency);
            }
            worst.push((own.total - own.within[2], procedure, own));
        }
        println!(
            "{text:32}{} edges{} {:.2} s",
            samples.percent(),
            edges.percent(),
            started.elapsed().as_secs_f64()
        );
        for (class, name) in classes.iter().zip(["low", "medium", "high"]).rev() {
            println!(
                "  {name:8}{:5.1} %{}",
                100.0 * class.total / samples.total,
                class.percent()
            );
        }
        if std::env::var_os("WORST").is_some() {
            worst.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, procedure, own) in worst.iter().take(6) {
                println!(
                    "    {:30} {:7.0}{}",
                    procedure.name,
                    own.total,
                    own.percent()
                );
            }
        }
    }
}

fn instructions(procedure: &Procedure<'_>, truth: &Truth) -> f64 {
    let graph = &procedure.graph;
    (0..graph.blocks.len())
        .map(|block| truth.block(graph, block) * graph.blocks[block].instructions.len() as f64)
        .sum()
}

fn estimate(
    procedure: &Procedure<'_>,
    truth: &Truth,
    mode: Mode,
    per_instruction: f64,
) -> analysis::stall::Frequencies {
    let (anchored, registers, bursts) = match mode {
        Mode::Anchored(registers, bursts) => (true, registers, bursts),
        Mode::Free(registers, bursts) | Mode::Lines(registers, bursts) => {
            (false, registers, bursts)
        }
    };
    let edges = procedure.edges.iter().map(|edge| EdgeEvidence {
        observed: if registers { edge.observed } else { 0.0 },
        walked: if bursts { edge.walked } else { 0.0 },
        ..EdgeEvidence::default()
    });
    let observed = Observed {
        samples: &procedure.samples,
        costs: None,
        edges: &edges.collect::<Vec<_>>(),
        counted: match mode {
            Mode::Lines(..) => &procedure.counted,
            _ => &[],
        },
        instructions: anchored.then(|| instructions(procedure, truth)),
    };
    let options = Options {
        cycles_per_instruction: per_instruction,
        ..Options::default()
    };
    out_of_order::estimate_procedure(&procedure.graph, &procedure.classes, &observed, &options)
        .frequencies
}
