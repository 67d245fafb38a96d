//! Data addresses, and the caches and tables that decide which of them are late.

use super::super::pipeline::Random;
use machine::Graph;

/// How much later than from the first-level cache data, and than from the first-level table their
/// translation, are there.
#[derive(Clone, Copy, Default)]
pub struct Late {
    pub data: u64,
    pub translation: u64,
}

/// Where an instruction's addresses come from.
#[derive(Clone, Copy)]
enum Pattern {
    /// A variable, or a field of what is used all the time.
    Place,
    /// An array, one element after the other, and again from its start.
    Stride(u64),
    /// Anywhere.
    Random,
}

#[derive(Clone, Copy)]
struct Stream {
    pattern: Pattern,
    start: u64,
    bytes: u64,
    next: u64,
}

/// A cache of which each set gives up what was used longest ago.
struct Cache {
    sets: u64,
    ways: usize,
    /// By set, the last used first.
    places: Vec<Vec<u64>>,
}

impl Cache {
    fn new(sets: u64, ways: usize) -> Self {
        Self {
            sets,
            ways,
            places: vec![Vec::new(); sets as usize],
        }
    }

    /// Whether it has a place; it has it then.
    fn has(&mut self, place: u64) -> bool {
        let set = &mut self.places[(place % self.sets) as usize];
        let found = set.iter().position(|one| *one == place);
        match found {
            Some(at) => set[..=at].rotate_right(1),
            None => {
                set.truncate(self.ways - 1);
                set.insert(0, place);
            }
        }
        found.is_some()
    }
}

/// The streams of a procedure's instructions, and what holds them: caches of 32 KiB, 1 MiB and 8 MiB,
/// tables of 64 and 1,536 pages, as Skylake servers have them.
pub struct Data {
    streams: Vec<Option<Stream>>,
    caches: [Cache; 3],
    tables: [Cache; 2],
}

/// Cycles by which data of the second, the third level and of memory are late; translations of the
/// second table, and those that have to be looked up.
const DATA: [u64; 3] = [10, 40, 200];
const TRANSLATIONS: [u64; 2] = [7, 30];

const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// All variables together.
const VARIABLES: u64 = 16 << 10;

impl Data {
    /// Two accesses in three are to variables: most that programs do are in the first-level cache. The others
    /// are of arrays, as often strided as random, where elements (4 bytes to a page) and arrays (a line to
    /// 256 MiB) are as often of one power of two as of another.
    pub fn new(graph: &Graph, random: &mut Random) -> Self {
        let mut start = 1 << 32;
        let mut stream = || {
            let bytes = (LINE as f64 * 2.0_f64.powf(22.0 * random.unit())) as u64;
            let pattern = match random.below(6) {
                0 => Pattern::Random,
                1 => Pattern::Stride(4 << random.below(11)),
                _ => Pattern::Place,
            };
            let first = start;
            let next = match pattern {
                Pattern::Place => 8 * random.below(VARIABLES as usize / 8) as u64,
                _ => {
                    start += bytes.next_multiple_of(PAGE) + PAGE * random.below(64) as u64;
                    0
                }
            };
            Stream {
                pattern,
                start: first,
                bytes,
                next,
            }
        };
        let of = |one: &machine::Instruction| (one.kind.load || one.kind.store).then(&mut stream);
        Self {
            streams: graph.instructions.iter().map(of).collect(),
            caches: [
                Cache::new(64, 8),
                Cache::new(1024, 16),
                Cache::new(8192, 16),
            ],
            tables: [Cache::new(16, 4), Cache::new(128, 12)],
        }
    }

    /// Executes an instruction's access, if it has one.
    pub fn access(&mut self, index: usize, random: &mut Random) -> Option<(u64, Late)> {
        let stream = self.streams[index].as_mut()?;
        let address = match stream.pattern {
            Pattern::Place => stream.next,
            Pattern::Stride(by) => {
                let at = stream.next;
                stream.next = (at + by) % stream.bytes;
                stream.start + at
            }
            Pattern::Random => stream.start + ((random.next() % stream.bytes) & !7),
        };
        let translation = late(&mut self.tables, &TRANSLATIONS, address / PAGE);
        let data = late(&mut self.caches, &DATA, address / LINE);
        Some((address, Late { data, translation }))
    }
}

/// How late a place is, that the first of some levels to have it gives.
fn late(levels: &mut [Cache], cycles: &[u64], place: u64) -> u64 {
    let mut late = 0;
    for (level, later) in levels.iter_mut().zip(cycles) {
        if level.has(place) {
            break;
        }
        late = *later;
    }
    late
}
