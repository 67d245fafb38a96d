//! Names of places from earlier tables, so that files are not read again for each table.

use profile::{BuildId, Image, ImageId, ImageKind, ImageOffset};
use profile::{Location, Recording, Resolution, SymbolTable};
use results::{RecordingSource, name_locations};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use symbols::Detail;

/// Maximum number of remembered places, after which all are forgotten.
const MOST_PLACES: usize = 1 << 20;

/// Names of places in files and in the kernel, and places without a name. Equal build-ids have
/// equal names.
#[derive(Default)]
pub struct KnownNames {
    by_place: FxHashMap<(ImageKey, ImageOffset), Option<Resolution>>,
}

/// Identity of an image across recordings: the kernel's places are valid until a reboot, which
/// `top` does not survive.
#[derive(Clone, PartialEq, Eq, Hash)]
enum ImageKey {
    File(BuildId),
    Kernel(String),
}

/// Unknown places of one image.
pub struct UnnamedPlaces {
    /// Number of frames with these places: the most frequent image is named first.
    stacks: usize,
    locations: Vec<Location>,
}

impl KnownNames {
    /// Names all places of a recording.
    pub fn name_all(&mut self, recording: &Recording, source: &RecordingSource) {
        for places in self.find_unnamed(recording) {
            self.name_places(recording, source, places);
        }
    }

    /// Returns the known names, and those of places that no later recording has.
    pub fn names_of(&self, recording: &Recording, source: &RecordingSource) -> SymbolTable {
        let mut table = SymbolTable::new();
        let mut passing = Vec::new();
        for location in locations_of(recording) {
            match place_of(recording, location) {
                None => passing.push(location),
                Some(place) => {
                    let known = self.by_place.get(&place).cloned().flatten();
                    table.extend(known.map(|resolution| (location, resolution)));
                }
            }
        }
        let found = name_locations(
            recording,
            passing.iter().copied(),
            Detail::Procedures,
            source,
        );
        for location in passing {
            let resolution = found.table.get(location).cloned();
            table.extend(resolution.map(|resolution| (location, resolution)));
        }
        table
    }

    /// Returns the places that are still to be named, image by image, the most frequent image
    /// first.
    pub fn find_unnamed(&self, recording: &Recording) -> Vec<UnnamedPlaces> {
        let mut by_image: BTreeMap<ImageId, UnnamedPlaces> = BTreeMap::new();
        for location in locations_of(recording) {
            let place = place_of(recording, location);
            if place.is_some_and(|place| !self.by_place.contains_key(&place)) {
                let places = by_image.entry(location.image).or_insert(UnnamedPlaces {
                    stacks: 0,
                    locations: Vec::new(),
                });
                places.locations.push(location);
            }
        }
        for frame in recording.stacks.frames() {
            if let Some(places) = by_image.get_mut(&frame.location.image) {
                places.stacks += 1;
            }
        }
        let mut images: Vec<UnnamedPlaces> = by_image.into_values().collect();
        images.sort_by_key(|places| std::cmp::Reverse(places.stacks));
        images
    }

    /// Names the places of an image by reading its file.
    pub fn name_places(
        &mut self,
        recording: &Recording,
        source: &RecordingSource,
        places: UnnamedPlaces,
    ) {
        let locations = places.locations.iter().copied();
        let found = name_locations(recording, locations, Detail::Procedures, source).table;
        if self.by_place.len() + places.locations.len() > MOST_PLACES {
            self.by_place.clear();
        }
        for location in places.locations {
            if let Some(place) = place_of(recording, location) {
                self.by_place.insert(place, found.get(location).cloned());
            }
        }
    }
}

fn locations_of(recording: &Recording) -> FxHashSet<Location> {
    let frames = recording.stacks.frames().iter();
    frames.map(|frame| frame.location).collect()
}

/// Returns the identity of a place across recordings.
fn place_of(recording: &Recording, location: Location) -> Option<(ImageKey, ImageOffset)> {
    let image: &Image = recording.image(location.image);
    let key = match image.kind {
        ImageKind::File => ImageKey::File(image.build_id.clone()?),
        ImageKind::Kernel => ImageKey::Kernel(image.path.clone()),
        _ => return None,
    };
    Some((key, location.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Host, ImageKind, MapsLine, Target};

    /// Returns a recording with a place of this program, and that place.
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
        // Nothing is read before it is requested.
        assert!(!named(&names.names_of(&recording, &source)));
        names.name_all(&recording, &source);
        assert!(named(&names.names_of(&recording, &source)));
        // The same program, without a readable file.
        recording.images[location.image.0 as usize].path = "/nowhere".into();
        assert!(names.find_unnamed(&recording).is_empty());
        assert!(named(&names.names_of(&recording, &source)));
        let mut others = KnownNames::default();
        others.name_all(&recording, &source);
        assert!(!named(&others.names_of(&recording, &source)));
    }
}
