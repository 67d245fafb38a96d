//! Names of places that earlier tables had: files are not read anew for each table.

use profile::{BuildId, Image, ImageOffset, Location, Recording, Resolution, SymbolTable};
use results::{RecordingSource, name_locations};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::Detail;

/// Places that are remembered at most: then it begins anew.
const MOST_PLACES: usize = 1 << 20;

/// What is known of places in files, and of which nothing is. The same build-id, the same names.
#[derive(Default)]
pub struct KnownNames {
    by_place: FxHashMap<(BuildId, ImageOffset), Option<Resolution>>,
}

impl KnownNames {
    /// Names all places of a recording.
    pub fn name_all(&mut self, recording: &Recording, source: &RecordingSource) -> SymbolTable {
        let frames = recording.stacks.frames().iter();
        let mut unknown: FxHashSet<Location> = frames.map(|frame| frame.location).collect();
        let mut table = SymbolTable::new();
        unknown.retain(|location| {
            let place = place_of(recording, *location);
            let known = place.and_then(|place| self.by_place.get(&place));
            if let Some(Some(resolution)) = known {
                table.insert(*location, resolution.clone());
            }
            known.is_none()
        });
        let locations = unknown.iter().copied();
        let found = name_locations(recording, locations, Detail::Procedures, source).table;
        if self.by_place.len() + unknown.len() > MOST_PLACES {
            self.by_place.clear();
        }
        for location in unknown {
            let resolution = found.get(location).cloned();
            if let Some(place) = place_of(recording, location) {
                self.by_place.insert(place, resolution.clone());
            }
            table.extend(resolution.map(|resolution| (location, resolution)));
        }
        table
    }
}

/// A place that is the same one in the next recording.
fn place_of(recording: &Recording, location: Location) -> Option<(BuildId, ImageOffset)> {
    let image = Some(recording.image(location.image)).filter(|image| Image::is_file(image))?;
    Some((image.build_id.clone()?, location.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Host, ImageKind, MapsLine, Target};

    /// A recording with a place of this program, and that place.
    fn recording() -> (Recording, Location) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let address = recording as *const () as u64;
        let mut mapped = maps.lines().filter_map(MapsLine::parse);
        let line = mapped.find(|line| line.addresses.contains(&address));
        let line = line.expect("its mapping");
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        recording.images.push(Image {
            kind: ImageKind::File,
            path: line.path.to_owned(),
            build_id: symbols::build_id_of_file(line.path.as_ref()).expect("ELF"),
            ..Image::unknown()
        });
        let location = Location {
            image: profile::ImageId(recording.images.len() as u32 - 1),
            offset: ImageOffset(address - line.addresses.start + line.file_offset),
        };
        recording.stacks.intern_stack(&[location]);
        (recording, location)
    }

    #[test]
    fn a_file_is_read_once() {
        let (mut recording, location) = recording();
        let source = RecordingSource::default();
        let named = |table: &SymbolTable| {
            let procedure = table.procedure(location);
            procedure.is_some_and(|procedure| procedure.name.contains("known_names::tests"))
        };
        let mut names = KnownNames::default();
        assert!(named(&names.name_all(&recording, &source)));
        // The same program, where it cannot be read.
        recording.images[location.image.0 as usize].path = "/nowhere".into();
        assert!(named(&names.name_all(&recording, &source)));
        assert!(!named(&KnownNames::default().name_all(&recording, &source)));
    }
}
