//! Cache lines that threads pass to and fro, from the data addresses at samples.

use crate::{ImageAddress, ImageId, Location};
use rustc_hash::FxHashMap;

/// Bytes of a cache line, and of a part of it that is told apart.
const LINE: u64 = 64;
const PART: u64 = 8;
/// Maximum numbers of lines, of places in the code, of lines of a place, and of threads of a line.
const MOST_LINES: usize = 1 << 16;
const MOST_PLACES: usize = 1 << 14;
const MOST_OF_PLACE: usize = 16;
const MOST_THREADS: usize = 16;
/// Fewest samples at which a thread uses a line that it shares.
const FEWEST: u32 = 3;

/// An access to data near a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAccess {
    /// The address in the process.
    pub address: u64,
    /// True if the access writes.
    pub writes: bool,
    /// The address in the image, if it is a variable of the image that accesses it.
    pub variable: Option<(ImageId, ImageAddress)>,
}

/// The uses of cache lines at samples: by which threads, and from which code.
#[derive(Clone, Debug, Default)]
pub struct SharedLines {
    lines: FxHashMap<(u32, u64), LineUse>,
    places: FxHashMap<Location, PlaceUse>,
}

/// The use of a cache line by threads.
#[derive(Clone, Debug, Default)]
struct LineUse {
    threads: Vec<ThreadUse>,
    /// The last thread that used it, and how often another one had used it before.
    last: u64,
    turns: u32,
    variable: Option<(ImageId, ImageAddress)>,
}

/// The use of a cache line by a thread, in samples.
#[derive(Clone, Copy, Debug)]
struct ThreadUse {
    thread: u64,
    samples: u32,
    writes: u32,
    /// The parts of the line that it used, as bits.
    parts: u8,
}

/// The samples at a place in the code with known data addresses, and those at each line.
#[derive(Clone, Debug, Default)]
struct PlaceUse {
    samples: u32,
    lines: Vec<((u32, u64), u32)>,
}

/// The samples at a place in the code, and those that access a cache line that threads pass to and
/// fro: of several lines, the one that they access most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingCode {
    /// The place of the samples.
    pub place: Location,
    /// Samples there with a known data address.
    pub samples: u64,
    /// Samples among them that access the line.
    pub shared: u64,
    /// Threads that use the line.
    pub threads: u64,
    /// True if these use different parts of it (false sharing).
    pub is_false: bool,
    /// The variable in the line, if it belongs to the image of the code: its image and address.
    pub variable: Option<(ImageId, ImageAddress)>,
}

impl SharedLines {
    /// Adds a sample of a thread: its place in the code and the data accessed near it.
    pub fn add_sample(
        &mut self,
        pid: u32,
        thread: u64,
        place: Location,
        accesses: impl Iterator<Item = DataAccess>,
    ) {
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(&place) {
            return;
        }
        let mut visited: Vec<(u32, u64)> = Vec::new();
        for access in accesses {
            let key = (pid, access.address / LINE);
            if self.lines.len() >= MOST_LINES && !self.lines.contains_key(&key) {
                continue;
            }
            let line = self.lines.entry(key).or_default();
            let is_first = !visited.contains(&key);
            line.add(thread, &access, is_first);
            if is_first {
                visited.push(key);
            }
        }
        if visited.is_empty() {
            return;
        }
        let of_place = self.places.entry(place).or_default();
        of_place.samples += 1;
        for key in visited {
            let known = of_place.lines.iter().position(|(other, _)| *other == key);
            if known.is_none() && of_place.lines.len() < MOST_OF_PLACE {
                of_place.lines.push((key, 1));
            } else if let Some((_, samples)) = known.and_then(|at| of_place.lines.get_mut(at)) {
                *samples += 1;
            }
        }
    }

    /// Returns the places in the code.
    pub fn into_sharing_code(self) -> impl Iterator<Item = SharingCode> {
        let Self { lines, places } = self;
        let apart = LineUse::default();
        places.into_iter().map(move |(place, of_place)| {
            let shared = of_place.lines.iter().filter_map(|(key, samples)| {
                let line = lines.get(key).filter(|line| line.is_shared())?;
                Some((*samples, line))
            });
            let most = shared.max_by_key(|(samples, _)| *samples);
            let (shared, line) = most.unwrap_or((0, &apart));
            SharingCode {
                place,
                samples: u64::from(of_place.samples),
                shared: u64::from(shared),
                threads: line.users().count() as u64,
                is_false: line.is_false(),
                variable: line.variable,
            }
        })
    }
}

impl LineUse {
    fn add(&mut self, thread: u64, access: &DataAccess, is_first: bool) {
        let index = self.threads.iter().position(|one| one.thread == thread);
        let index = index.unwrap_or(self.threads.len());
        if index == self.threads.len() {
            if index == MOST_THREADS {
                return;
            }
            self.threads.push(ThreadUse {
                thread,
                samples: 0,
                writes: 0,
                parts: 0,
            });
        }
        self.variable = self.variable.or(access.variable);
        let Some(one) = self.threads.get_mut(index) else {
            return;
        };
        one.parts |= 1 << (access.address % LINE / PART);
        one.writes += u32::from(access.writes);
        if is_first {
            one.samples += 1;
            self.turns += u32::from(self.last != thread);
            self.last = thread;
        }
    }

    /// The threads that use it more than by chance.
    fn users(&self) -> impl Iterator<Item = &ThreadUse> {
        self.threads.iter().filter(|one| one.samples >= FEWEST)
    }

    /// Returns whether several threads use the line by turns, and one of them writes. Data that one
    /// thread hands over to another changes its user once.
    fn is_shared(&self) -> bool {
        let samples = self.users().map(|one| one.samples);
        let (count, sum, most) = samples.fold((0, 0, 0), |(count, sum, most), samples| {
            (count + 1, sum + samples, samples.max(most))
        });
        count >= 2 && self.users().any(|one| one.writes >= FEWEST) && self.turns > (sum - most) / 2
    }

    /// Returns whether the threads use different parts of the line.
    fn is_false(&self) -> bool {
        let mut seen = 0;
        self.users().all(|one| {
            let is_apart = seen & one.parts == 0;
            seen |= one.parts;
            is_apart
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageOffset;

    const PLACE: Location = Location {
        image: ImageId(1),
        offset: ImageOffset(0x10),
    };

    /// Adds samples at a place, each a thread, an address, and whether it writes.
    fn found(samples: &[(u64, u64, bool)]) -> SharingCode {
        let mut lines = SharedLines::default();
        for (thread, address, writes) in samples {
            let access = DataAccess {
                address: *address,
                writes: *writes,
                variable: None,
            };
            lines.add_sample(7, *thread, PLACE, [access, access].into_iter());
        }
        let found: Vec<SharingCode> = lines.into_sharing_code().collect();
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        one.clone()
    }

    fn by_turns(addresses: [u64; 2], writes: [bool; 2]) -> Vec<(u64, u64, bool)> {
        let of = |n: u64| (n, addresses[n as usize], writes[n as usize]);
        (0..20).map(|n| of(n % 2)).collect()
    }

    #[test]
    fn threads_that_write_parts_of_a_line_by_turns_share_it_falsely() {
        let one = found(&by_turns([0x1000, 0x1008], [true, true]));
        assert_eq!((one.place, one.samples, one.shared), (PLACE, 20, 20));
        assert_eq!((one.threads, one.is_false), (2, true));
    }

    #[test]
    fn one_writer_is_enough_and_the_same_part_is_true_sharing() {
        let one = found(&by_turns([0x1000, 0x1000], [true, false]));
        assert_eq!((one.shared, one.is_false), (20, false));
    }

    #[test]
    fn read_only_lines_lines_apart_and_data_handed_over_are_not_shared() {
        let shared = |samples: &[(u64, u64, bool)]| found(samples).shared;
        assert_eq!(shared(&by_turns([0x1000, 0x1008], [false, false])), 0);
        assert_eq!(shared(&by_turns([0x1000, 0x1040], [true, true])), 0);
        let mut handed_over = by_turns([0x1000, 0x1000], [true, true]);
        handed_over.sort_unstable();
        assert_eq!(shared(&handed_over), 0);
    }

    #[test]
    fn tables_are_bounded() {
        let mut lines = SharedLines::default();
        for n in 0..2 * MOST_LINES as u64 {
            let access = DataAccess {
                address: n * LINE,
                writes: true,
                variable: None,
            };
            let place = Location {
                offset: ImageOffset(n),
                ..PLACE
            };
            lines.add_sample(7, n, place, std::iter::once(access));
        }
        assert!(lines.lines.len() <= MOST_LINES && lines.places.len() <= MOST_PLACES);
    }
}
