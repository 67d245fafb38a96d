//! The caches and tables that determine the delay of data.

/// Cycles by which data come later than from the first-level cache, and translations later than
/// from the first-level table.
#[derive(Clone, Copy, Default)]
pub struct Late {
    pub data: u64,
    pub translation: u64,
}

/// A cache with least-recently-used replacement in each set.
struct Cache {
    sets: u64,
    ways: usize,
    /// Places of each set, the most recently used first.
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

    /// Returns whether it has a place; adds the place if not.
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

/// Caches of data and translations: caches of 32 KiB, 1 MiB and 8 MiB, and tables of 64 and 1,536
/// pages, as Skylake servers have them; and a table of 32 directories of pages (2 MiB each).
pub struct Data {
    caches: [Cache; 3],
    tables: [Cache; 2],
    directories: Cache,
    /// Accesses, those that missed the first-level cache and table, and walks.
    pub counts: [u64; 4],
}

/// Delay in cycles of data from the second level, the third level and memory.
const DATA: [u64; 3] = [10, 40, 200];

/// Delay in cycles of translations from the second table; and of a walk, in addition to the lines
/// of the page table, each of which takes as long as one from the first-level cache, plus its
/// delay.
const SECOND: u64 = 7;
const WALK: u64 = 10;
const FIRST: u64 = 5;

const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Addresses of the tables of pages and of directories: an entry of 8 bytes for each.
const PAGES: u64 = 1 << 50;
const DIRECTORIES: u64 = 1 << 51;

/// The last-level cache.
const CAPACITY: u64 = 8 << 20;

impl Data {
    /// Makes the state after a long run: areas that fit are in the caches, the smallest in the
    /// nearest.
    pub fn new(areas: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut data = Self {
            caches: [
                Cache::new(64, 8),
                Cache::new(1024, 16),
                Cache::new(8192, 16),
            ],
            tables: [Cache::new(16, 4), Cache::new(128, 12)],
            directories: Cache::new(1, 32),
            counts: [0; 4],
        };
        let mut areas: Vec<(u64, u64)> = areas.collect();
        areas.sort_by_key(|(_, bytes)| *bytes);
        let mut room = CAPACITY;
        let fit = areas.iter().take_while(|(_, bytes)| {
            let fits = *bytes <= room;
            room = room.saturating_sub(*bytes);
            fits
        });
        let fit = fit.count();
        for (start, bytes) in areas[..fit].iter().rev() {
            for line in 0..bytes / LINE {
                data.access(start + line * LINE);
            }
        }
        data.counts = [0; 4];
        data
    }

    /// Executes an access.
    pub fn access(&mut self, address: u64) -> Late {
        let translation = match level(&mut self.tables, address / PAGE) {
            0 => 0,
            1 => SECOND,
            _ => SECOND + self.walk(address / PAGE),
        };
        let data = self.fetch(address);
        self.counts[0] += 1;
        self.counts[1] += u64::from(data > 0);
        self.counts[2] += u64::from(translation > 0);
        self.counts[3] += u64::from(translation > SECOND);
        Late { data, translation }
    }

    /// Looks a page up: the entries of the page and of its directory are in lines like data.
    fn walk(&mut self, page: u64) -> u64 {
        let mut cycles = WALK;
        if !self.directories.has(page / 512) {
            cycles += FIRST + self.fetch(DIRECTORIES + page / 512 * 8);
        }
        cycles + FIRST + self.fetch(PAGES + page * 8)
    }

    fn fetch(&mut self, address: u64) -> u64 {
        match level(&mut self.caches, address / LINE) {
            0 => 0,
            missed => DATA[missed - 1],
        }
    }
}

/// Returns how many levels do not have a place, and adds it to them.
fn level(levels: &mut [Cache], place: u64) -> usize {
    let count = levels.len();
    let found = levels.iter_mut().position(|one| one.has(place));
    found.unwrap_or(count)
}
