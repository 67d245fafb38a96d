//! Writes a made-up week of a database, for figures: `week DIRECTORY EPOCHS SAMPLES`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("DIRECTORY EPOCHS SAMPLES")?;
    let epochs: u64 = args.next().ok_or("EPOCHS")?.parse()?;
    let samples: usize = args.next().ok_or("SAMPLES")?.parse()?;
    let database = store::Database::create(directory.as_ref())?;
    let mut recording = common::compile_job(samples);
    for epoch in 0..epochs {
        recording.start_unix_ns = 1_795_230_900_000_000_000 + epoch * 86_400_000_000_000;
        println!("{:?}", database.write(&recording)?);
    }
    Ok(())
}
