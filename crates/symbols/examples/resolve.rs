//! Resolves places spread over all procedures of an executable, as a report would: `resolve FILE
//! procedures|lines [PLACES]`. Measure it under `/usr/bin/time -v`.

use profile::{
    CallGraph, Collector, Host, Image, ImageId, ImageKind, ImageOffset, Location, Recording, Target,
};
use std::path::Path;
use std::time::Instant;
use symbols::{Detail, ImageSymbols, SymbolOptions, resolve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(detail)) = (args.next(), args.next()) else {
        return Err("usage: resolve FILE procedures|lines [PLACES]".into());
    };
    let places: usize = args.next().map_or(Ok(10_000), |count| count.parse())?;
    let detail = match detail.as_str() {
        "lines" => Detail::Lines,
        _ => Detail::Procedures,
    };
    let start = Instant::now();
    let image = ImageSymbols::open_image(Path::new(&path), &SymbolOptions::default())?;
    let procedures: Vec<_> = image.all_procedures().collect();
    let step = (procedures.len() / places).max(1);
    let locations: Vec<Location> = procedures
        .iter()
        .step_by(step)
        .map(|procedure| Location {
            image: ImageId(0),
            offset: ImageOffset(procedure.start.0 + procedure.size / 2),
        })
        .collect();
    println!(
        "{} procedures listed in {:?}",
        procedures.len(),
        start.elapsed()
    );
    let build_id = image.build_id().cloned();
    drop(procedures);
    drop(image);

    let host = Host::default();
    let target = Target::Machine;
    let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::None);
    recording.images.push(Image {
        kind: ImageKind::File,
        path,
        build_id,
        file: None,
        gone: false,
    });
    let start = Instant::now();
    let count = locations.len();
    let resolved = resolve(
        &recording,
        locations.iter().copied(),
        detail,
        &SymbolOptions::default(),
    );
    let known = |location: &&Location| resolved.table.procedure(**location).is_some();
    let frames = |location: &Location| resolved.table.get(*location).map_or(0, |r| r.inlined.len());
    println!(
        "{count} places: {} with a procedure, {} frames, in {:?}",
        locations.iter().filter(known).count(),
        locations.iter().map(frames).sum::<usize>(),
        start.elapsed()
    );
    for warning in resolved.warnings {
        println!("{warning}");
    }
    Ok(())
}
