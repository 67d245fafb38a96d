//! Assigns address ranges to images.
//!
//! A recording has places in images, pprof needs addresses in mappings. Each image gets a range of
//! its own, as if the pages with samples, from the first to the last, were mapped there from its
//! file. From that pprof computes the file's own addresses, so that its disassembly finds the code.
//! (Mapping the whole file from offset 0 would fail: pprof would take such a mapping for the
//! segment at the start of the file, which holds no code in most programs.)

use crate::frame::base_name;
use indexmap::IndexSet;
use profile::{ImageId, Location, Recording, Target};
use rustc_hash::{FxBuildHasher, FxHashMap};

const PAGE: u64 = 0x1000;
/// Address of the first image. pprof takes a mapping at 0 for "not relocated".
const FIRST: u64 = 0x40_0000;
/// Images with a larger spread are laid out by rank: no file is that large, so these are addresses
/// of processes (generated code, anonymous memory).
const LARGEST: u64 = 1 << 40;
/// Upper bound of addresses laid out by offset. pprof treats those from 2^63 on as the kernel's.
const END: u64 = 1 << 62;

/// The range of an image.
pub(super) struct Range {
    pub image: ImageId,
    pub start: u64,
    /// First address behind the range.
    pub limit: u64,
    /// The image offset at `start`.
    pub file_offset: u64,
}

/// The ranges of all images with samples, and the addresses of all locations.
pub(super) struct Layout {
    /// Ranges in the order of their addresses.
    pub ranges: Vec<Range>,
    /// Index into `ranges` and address, for each location in order.
    pub places: Vec<(usize, u64)>,
}

impl Layout {
    pub fn new(recording: &Recording, locations: &IndexSet<Location, FxBuildHasher>) -> Self {
        let images = images_main_first(recording, locations);
        let indices: FxHashMap<ImageId, usize> =
            images.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut extents: Vec<Option<(u64, u64)>> = vec![None; images.len()];
        let mut count = vec![0_u64; images.len()];
        for location in locations {
            let image = indices[&location.image];
            let offset = location.offset.0;
            let (low, high) = extents[image].unwrap_or((offset, offset));
            extents[image] = Some((low.min(offset), high.max(offset)));
            count[image] += 1;
        }
        let mut next = FIRST;
        let mut by_rank = Vec::with_capacity(images.len());
        let mut ranges = Vec::with_capacity(images.len());
        for (index, image) in images.iter().enumerate() {
            let (low, high) = extents[index].unwrap_or_default();
            let first = low - low % PAGE;
            let spread = high - first;
            let fits = spread < LARGEST && next + spread < END;
            let bytes = if fits { spread + 1 } else { count[index] };
            let limit = next + bytes.next_multiple_of(PAGE);
            ranges.push(Range {
                image: *image,
                start: next,
                limit,
                file_offset: if fits { first } else { 0 },
            });
            by_rank.push(!fits);
            next = limit;
        }
        let mut rank = vec![0; images.len()];
        let places = locations
            .iter()
            .map(|location| {
                let image = indices[&location.image];
                let within = if by_rank[image] {
                    rank[image] += 1;
                    rank[image] - 1
                } else {
                    location.offset.0 - ranges[image].file_offset
                };
                (image, ranges[image].start + within)
            })
            .collect();
        Self { ranges, places }
    }
}

/// Returns the images of the locations; the target command's comes first, because pprof takes it
/// for the main program.
fn images_main_first(
    recording: &Recording,
    locations: &IndexSet<Location, FxBuildHasher>,
) -> Vec<ImageId> {
    let used: IndexSet<ImageId, FxBuildHasher> = locations.iter().map(|l| l.image).collect();
    let mut images: Vec<ImageId> = used.into_iter().collect();
    if let Target::Command(words) = &recording.target
        && let Some(program) = words.first().and_then(|word| word.rsplit('/').next())
        && let Some(main) = images.iter().position(|id| {
            let image = recording.image(*id);
            image.is_file() && base_name(image) == program
        })
    {
        images[..=main].rotate_right(1);
    }
    images
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Host, Image, ImageKind, ImageOffset};

    fn layout(kinds: &[ImageKind], locations: &[(u32, u64)]) -> Layout {
        let target = Target::Command(vec!["/usr/bin/b".to_owned()]);
        let mut recording =
            Recording::new(Host::default(), target, Collector::Bpf, CallGraph::None);
        for (index, kind) in kinds.iter().enumerate() {
            recording.images.push(Image {
                kind: *kind,
                path: format!("/x/{}", ["a", "b", "c"][index]),
                ..Image::unknown()
            });
        }
        let locations = locations.iter().map(|(image, offset)| Location {
            image: ImageId(*image),
            offset: ImageOffset(*offset),
        });
        Layout::new(&recording, &locations.collect())
    }

    #[test]
    fn files_are_mapped_from_the_first_page_and_the_program_comes_first() {
        let kinds = [ImageKind::File, ImageKind::File];
        let layout = layout(&kinds, &[(0, 0x10), (1, 0x3fff), (1, 0x2001)]);
        let ids: Vec<u32> = layout.ranges.iter().map(|r| r.image.0).collect();
        assert_eq!(ids, [1, 0]);
        assert_eq!(layout.ranges[0].start, FIRST);
        assert_eq!(layout.ranges[0].limit, FIRST + 0x2000);
        assert_eq!(layout.ranges[0].file_offset, 0x2000);
        let places = [(1, FIRST + 0x2010), (0, FIRST + 0x1fff), (0, FIRST + 1)];
        assert_eq!(layout.places, places);
    }

    #[test]
    fn places_of_any_size_stay_different_and_inside() {
        let kinds = [ImageKind::Unknown, ImageKind::File, ImageKind::Jit];
        let all = [(0, u64::MAX), (0, 0), (1, LARGEST), (1, 7), (2, END)];
        let layout = layout(&kinds, &all);
        let addresses: IndexSet<u64> = layout.places.iter().map(|(_, a)| *a).collect();
        assert_eq!(addresses.len(), all.len());
        for (range, address) in &layout.places {
            let range = &layout.ranges[*range];
            assert!((range.start..range.limit).contains(address));
        }
        for pair in layout.ranges.windows(2) {
            assert!(pair[0].limit <= pair[1].start);
        }
    }
}
