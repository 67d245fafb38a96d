//! Resolution of all locations of a recording.

use crate::detail::{Detail, Warning};
use crate::job::Job;
use crate::search::SymbolOptions;
use profile::{ImageId, ImageOffset, Location, Recording, SymbolTable};
use rustc_hash::FxHashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of [`resolve`].
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// The resolved locations.
    pub table: SymbolTable,
    /// Reasons why locations were not fully resolved, by image.
    pub warnings: Vec<Warning>,
    /// Reason why servers did not deliver all requested debug information.
    pub server_note: Option<String>,
}

/// Finds procedures, and with [`Detail::Lines`] source lines and inlined calls, of locations of a
/// recording.
///
/// Never fails as a whole: an unusable image leaves its locations without names and a warning. An
/// image that was replaced after the recording (another build-id) is not used. Images are read in
/// parallel.
pub fn resolve(
    recording: &Recording,
    locations: impl IntoIterator<Item = Location>,
    detail: Detail,
    options: &SymbolOptions,
) -> Resolved {
    let jobs = jobs_by_image(recording, locations);
    let next = AtomicUsize::new(0);
    let resolved = Mutex::new(Resolved::default());
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = job.resolve_image(detail, options);
            // No thread can panic while it holds the lock, so that it is never really poisoned.
            let mut resolved = resolved.lock().unwrap_or_else(|lock| lock.into_inner());
            resolved.table.extend(done.resolutions);
            resolved.warnings.extend(done.warnings);
        }
    };
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut resolved = resolved
        .into_inner()
        .unwrap_or_else(|lock| lock.into_inner());
    resolved.warnings.sort_by_key(|warning| warning.image);
    resolved.server_note = options
        .debuginfod
        .as_ref()
        .and_then(|client| client.take_note());
    resolved
}

fn jobs_by_image(
    recording: &Recording,
    locations: impl IntoIterator<Item = Location>,
) -> Vec<Job<'_>> {
    let mut offsets: FxHashMap<ImageId, Vec<ImageOffset>> = FxHashMap::default();
    for location in locations {
        offsets
            .entry(location.image)
            .or_default()
            .push(location.offset);
    }
    let end = recording
        .start_unix_ns
        .saturating_add(recording.duration_ns);
    let mut jobs: Vec<Job<'_>> = offsets
        .into_iter()
        .filter_map(|(id, mut offsets)| {
            offsets.sort_unstable();
            offsets.dedup();
            let symbols = &recording.symbols;
            let first = symbols.partition_point(|symbol| symbol.image < id);
            let behind = symbols.partition_point(|symbol| symbol.image <= id);
            Some(Job {
                id,
                image: recording.images.get(id.0 as usize)?,
                end_unix_ns: end,
                embedded: symbols.get(first..behind).unwrap_or_default(),
                offsets,
            })
        })
        .collect();
    // The largest first, so that no single thread works at the end.
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.offsets.len()), job.id));
    jobs
}
