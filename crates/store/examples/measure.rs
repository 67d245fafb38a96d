//! Prints what a recording of a compile job takes on disk and in time.
//!
//! `cargo run --release -p store --example measure [SAMPLES]`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let samples = match std::env::args().nth(1) {
        Some(samples) => samples.parse()?,
        None => 600_000,
    };
    let recording = common::compile_job(samples);
    let directory = tempfile::tempdir()?;
    let database = store::Database::create(directory.path())?;
    let start = Instant::now();
    let written = database.write(&recording)?;
    let wrote = start.elapsed();
    let epoch = database.latest()?.ok_or("no epoch")?;
    let start = Instant::now();
    let read = epoch.read()?;
    let took = start.elapsed();
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
    Ok(())
}
