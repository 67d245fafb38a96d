//! Replays recordings as DAYS days of a machine: `week DATABASE OUT DAYS CPUS`.
//!
//! Each day is an epoch with the places, processes and threads of the recordings in DATABASE. Each
//! has a random count for a day on CPUS processors: a Poisson variable, so that counts are as hard
//! to compress as real ones. Places that only a longer recording would contain are missing.

use profile::{Recording, Sample, ThreadCount};
use std::error::Error;

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)]
mod common;
use common::Random;

const DAY_NS: f64 = 86_400e9;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, days, cpus] = &args[..] else {
        return Err("DATABASE OUT DAYS CPUS".into());
    };
    let (days, cpus): (u64, u32) = (days.parse()?, cpus.parse()?);
    let epochs = store::Database::open(from.as_ref())?.epochs()?;
    let mut recordings = Vec::new();
    for epoch in &epochs {
        recordings.push(epoch.read_recording()?);
    }
    let recorded = store::merge_recordings(&recordings)?;
    let sampled = f64::from(recorded.host.cpus) * recorded.duration_ns as f64;
    let factor = f64::from(cpus) * DAY_NS / sampled;
    let database = store::Database::create(to.as_ref())?;
    let mut random = Random(1);
    for number in 0..days {
        let mut day = replayed(&recorded, factor, &mut random);
        day.host.cpus = cpus;
        day.start_unix_ns = recorded.start_unix_ns + number * DAY_NS as u64;
        day.duration_ns = DAY_NS as u64;
        let written = database.write_recording(&day)?;
        let samples: u64 = day.samples.iter().map(|sample| sample.count).sum();
        println!(
            "{}: {} images, {} rows, {samples} samples, {} bytes",
            written.path.display(),
            day.images.len(),
            day.samples.len(),
            written.bytes
        );
    }
    Ok(())
}

fn replayed(recorded: &Recording, factor: f64, random: &mut Random) -> Recording {
    let mut day = recorded.clone();
    let mut stored = vec![0u64; day.events.len()];
    day.samples = Vec::new();
    for sample in &recorded.samples {
        let count = poisson(random, sample.count as f64 * factor);
        stored[usize::from(sample.event.0)] += count;
        day.samples.push(Sample {
            count,
            weight: count,
            ..*sample
        });
    }
    day.samples.retain(|sample| sample.count > 0);
    for thread in &mut day.threads {
        let count = poisson(random, thread.count as f64 * factor);
        *thread = ThreadCount {
            count,
            weight: count,
            ..*thread
        };
    }
    for (event, stored) in day.events.iter_mut().zip(stored) {
        (event.taken, event.stored, event.dropped, event.lost) = (stored, stored, 0, 0);
    }
    day
}

/// Draws a Poisson variable; approximates it by a normal one where that is accurate.
fn poisson(random: &mut Random, mean: f64) -> u64 {
    if mean > 100.0 {
        let (u, v) = (1.0 - random.unit(), random.unit());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
    }
    let (mut product, mut count) = (random.unit(), 0);
    while product > (-mean).exp() {
        product *= random.unit();
        count += 1;
    }
    count
}
