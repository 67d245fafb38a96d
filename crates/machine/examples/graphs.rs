//! `graphs FILE…`: prints statistics of the graphs, classes and loops of all procedures of images
//! with a symbol table, and the procedures whose graphs miss edges.

mod loaded;

use loaded::Loaded;
use machine::{Architecture, EdgeKind, Equivalence, FlowGraph, Loops};
use object::Object;
use profile::ImageAddress;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        report(&path)?;
    }
    Ok(())
}

fn report(path: &str) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let architecture = match file.architecture() {
        object::Architecture::X86_64 => Architecture::X86_64,
        object::Architecture::Aarch64 => Architecture::Aarch64,
        other => return Err(format!("{path}: {other:?} is not decoded").into()),
    };
    let (loaded, procedures) = Loaded::of(&file)?;
    let started = Instant::now();
    let (mut graphs, mut code, mut blocks, mut loops, mut classes) = (0, 0, 0, 0, 0);
    let (mut tables, mut unbounded, mut unresolved, mut invalid, mut refused) = (0, 0, 0, 0, 0);
    let mut slowest = (0.0, "");
    for (start, (size, name)) in &procedures {
        let Some(bytes) = loaded.bytes(*start, *size) else {
            continue;
        };
        let before = started.elapsed().as_secs_f64();
        let Ok(graph) = FlowGraph::new(architecture, ImageAddress(*start), bytes, &loaded) else {
            refused += 1;
            println!("{path}: {name}: refused");
            continue;
        };
        graphs += 1;
        code += size;
        blocks += graph.blocks.len();
        classes += Equivalence::of(&graph).classes;
        loops += Loops::of(&graph).loops.len();
        tables += graph.tables.len();
        unbounded += graph.tables.iter().filter(|table| !table.bounded).count();
        if !graph.unresolved.is_empty() {
            println!("{path}: {name}: unresolved {:x?}", graph.unresolved);
            unresolved += 1;
        }
        if !graph.invalid.is_empty()
            || graph
                .edges
                .iter()
                .any(|edge| edge.kind == EdgeKind::Invalid)
        {
            println!("{path}: {name}: invalid {:x?}", graph.invalid);
            invalid += 1;
        }
        let took = started.elapsed().as_secs_f64() - before;
        if took > slowest.0 {
            slowest = (took, name);
        }
    }
    println!(
        "{path}: {code} bytes in {graphs} procedures, {blocks} blocks, {classes} classes, {loops} loops; \
         {tables} jump tables ({unbounded} without a bound); edges missing in {unresolved} (jumps) and \
         {invalid} (no code), {refused} refused; {:.2} s, of which {} took {:.3} s",
        started.elapsed().as_secs_f64(),
        slowest.1,
        slowest.0
    );
    Ok(())
}
