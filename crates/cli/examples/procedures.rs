//! `procedures IMAGE...`: measures the analysis time of every procedure of some images, with
//! samples in each of them (section 6.2). Its results are in `benches/RESULTS.md`.
//!
//! The samples are synthetic: one on every third instruction, and every branch goes both ways. That
//! leaves more to estimate than a recording does, in which most procedures have no samples.

#[path = "../../machine/examples/loaded/mod.rs"]
mod loaded;

use analysis::stall::culprits::{Evidence, expectations, find_culprits};
use analysis::stall::out_of_order::{self, EdgeEvidence, Observed, Options};
use loaded::Loaded;
use machine::{Architecture, Equivalence, FlowGraph, Loops, ProcessorModel};
use profile::ImageAddress;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Analysis time of one procedure, with its size and name.
struct Took {
    time: Duration,
    blocks: usize,
    name: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let processor = machine::Processor::named("zen3").ok_or("no model")?;
    let model = ProcessorModel::new(processor);
    let (mut bytes, mut all) = (0, Vec::new());
    let (mut graphs, mut wall) = (0, Duration::ZERO);
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path)?;
        let file = object::File::parse(&*data)?;
        let (image, found) = Loaded::of(&file)?;
        let found: Vec<_> = found.into_iter().collect();
        bytes += data.len();
        graphs += found.len();
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        let work = || {
            let mut took = Vec::new();
            while let Some((start, (size, name))) = found.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let started = Instant::now();
                if let Some(blocks) = procedure(&image, &model, *start, *size) {
                    took.push(Took {
                        time: started.elapsed(),
                        blocks,
                        name: (*name).to_owned(),
                    });
                }
            }
            took
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(work);
            all.extend(work());
            all.extend(other.join().unwrap_or_default());
        });
        wall += started.elapsed();
    }
    all.sort_by_key(|one: &Took| std::cmp::Reverse(one.time));
    let within = all.iter().filter(|one| one.time.as_millis() < 100).count();
    println!("files {:.1} MB", bytes as f64 * 1e-6);
    println!("procedures {graphs}, analysed {}", all.len());
    println!("wall {:.2} s, two threads", wall.as_secs_f64());
    let cpu: Duration = all.iter().map(|one| one.time).sum();
    println!("sum of procedures {:.2} s", cpu.as_secs_f64());
    println!(
        "under 100 ms {:.3} %",
        100.0 * within as f64 / all.len() as f64
    );
    for one in all.iter().take(8) {
        println!(
            "longest {:.3} s, {} blocks: {}",
            one.time.as_secs_f64(),
            one.blocks,
            one.name
        );
    }
    Ok(())
}

/// Runs the whole analysis of `annotate` on one procedure; returns its number of blocks.
fn procedure(image: &Loaded<'_>, model: &ProcessorModel, start: u64, size: u64) -> Option<usize> {
    let bytes = image.bytes(start, size)?;
    let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(start), bytes, image).ok()?;
    let count = graph.instructions.len();
    let samples: Vec<f64> = (0..count)
        .map(|index| f64::from(u8::from(index % 3 == 0)))
        .collect();
    let classes = Equivalence::of(&graph);
    let loops = Loops::of(&graph);
    let edges: Vec<EdgeEvidence> = (0..graph.edges.len())
        .map(|index| EdgeEvidence {
            observed: (index % 7) as f64,
            walked: (index % 11) as f64,
            ..EdgeEvidence::default()
        })
        .collect();
    let costs: Vec<f64> = (graph.blocks.iter())
        .map(|block| model.bounds(graph.instructions_of(block)).cycles())
        .collect();
    let observed = Observed {
        samples: &samples,
        costs: Some(&costs),
        edges: &edges,
        counted: &[],
        instructions: None,
    };
    let found = out_of_order::estimate_procedure(&graph, &classes, &observed, &Options::default());
    let expected = expectations(&graph, model, &samples, &found.frequencies);
    let accounts = find_culprits(&Evidence {
        graph: &graph,
        loops: &loops,
        processor: model.processor(),
        expected: &expected,
        samples: &samples,
        frequencies: &found.frequencies,
        period: None,
        events: &[],
        mispredicted: &[],
        kernel: None,
        accesses: &[],
        elsewhere: None,
        late: 0,
        trust: &[],
        shared: false,
    });
    std::hint::black_box(accounts);
    Some(graph.blocks.len())
}
