//! Names stored in a recording, which make it readable without its images.

use crate::detail::Detail;
use crate::resolve::resolve;
use crate::search::SymbolOptions;
use profile::{EmbeddedSymbol, ImageId, ImageOffset, Location, Recording};
use std::collections::BTreeSet;

/// Stores the name of every procedure with samples in the recording.
///
/// When the recording is read, its files may have been replaced by newer builds, and the reader may
/// be another machine. Images with stored names stay unchanged: the names came from a file that is
/// not at its path.
pub fn embed_procedures(recording: &mut Recording, options: &SymbolOptions) {
    let carried: BTreeSet<ImageId> = recording.symbols.iter().map(|s| s.image).collect();
    let wanted = |location: &Location| {
        recording.image(location.image).is_file() && !carried.contains(&location.image)
    };
    let frames = recording.stacks.frames().iter();
    let locations: BTreeSet<_> = frames.map(|frame| frame.location).filter(wanted).collect();
    let places = locations.iter().copied();
    let found = resolve(recording, places, Detail::Procedures, options);
    let mut kept: BTreeSet<EmbeddedSymbol> = recording.symbols.drain(..).collect();
    kept.extend(locations.iter().filter_map(|location| {
        let procedure = found.table.procedure(*location)?;
        Some(EmbeddedSymbol {
            image: location.image,
            start: procedure.start,
            end: ImageOffset(procedure.start.0.saturating_add(procedure.size)),
            name: procedure.name.to_string(),
        })
    }));
    recording.symbols = kept.into_iter().collect();
}
