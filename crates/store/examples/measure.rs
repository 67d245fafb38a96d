//! Prints the size on disk of a recording of a compile job, and the time that it takes.
//!
//! `cargo run --release -p store --example measure [SAMPLES [DIRECTORY]]`; with a directory, the
//! recording is left there.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::time::Instant;

/// Returns the memory of this process in MB: now, and the peak since the last call.
fn memory() -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| -> Result<u64, Box<dyn std::error::Error>> {
        let line = status.lines().find(|line| line.starts_with(name));
        let kb = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(kb.ok_or("no such field")?.parse::<u64>()? / 1024)
    };
    let memory = (field("VmRSS:")?, field("VmHWM:")?);
    std::fs::write("/proc/self/clear_refs", "5")?;
    Ok(memory)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let samples = match std::env::args().nth(1) {
        Some(samples) => samples.parse()?,
        None => 600_000,
    };
    let recording = common::compile_job(samples);
    let temporary = tempfile::tempdir()?;
    let directory = std::env::args().nth(2).map(PathBuf::from);
    let database = store::Database::create(directory.as_deref().unwrap_or(temporary.path()))?;
    let (before, _) = memory()?;
    let start = Instant::now();
    let written = database.write_recording(&recording)?;
    let wrote = start.elapsed();
    let (between, write_peak) = memory()?;
    let epoch = database.latest_epoch()?.0.ok_or("no epoch")?;
    let start = Instant::now();
    let read = epoch.read_recording()?;
    let took = start.elapsed();
    let (_, read_peak) = memory()?;
    for member in std::fs::read_dir(&written.path)? {
        let member = member?;
        println!(
            "{:9} {}",
            member.metadata()?.len(),
            member.file_name().display()
        );
    }
    println!(
        "{samples} samples in {} rows: {:.3} bytes a sample, {:.2} a row; written in {wrote:.0?}, read in {took:.0?}",
        read.samples.len(),
        written.bytes as f64 / samples as f64,
        written.bytes as f64 / read.samples.len() as f64,
    );
    println!(
        "memory: {before} MB for the recording, {} MB more to write it, {} MB to read it",
        write_peak - before,
        read_peak - between,
    );
    Ok(())
}
