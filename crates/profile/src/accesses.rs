//! Data addresses: the memory that an instruction accesses, as far as registers at samples
//! determine it.

use crate::{ImageId, ImageOffset};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Bytes of a cache line, and of a page.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Maximum number of lines and pages with counted visits, for each instruction.
pub const KEPT: usize = 32;

/// Number of other lines in the same cache set (one in 64), and of other pages, that may be
/// accessed between two executions of an instruction. With more, the second access counts as one to
/// a new line or page.
const BESIDE_LINE: usize = 3;
const BESIDE_PAGE: usize = 15;

/// Majority of votes that a stride needs to be believed.
const SURE: u64 = 4;

/// Visits of a place in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Visits {
    /// Visits in the executions that were followed after samples.
    pub seen: u64,
    /// Visits right before samples.
    pub waited: u64,
}

impl Visits {
    fn add_visits(&mut self, other: Self) {
        self.seen = self.seen.saturating_add(other.seen);
        self.waited = self.waited.saturating_add(other.waited);
    }
}

/// The places in memory that an instruction accessed: a random choice of at most [`KEPT`], with all
/// visits of each. The choice takes the least hashes (*k minimum values*), so that choices from the
/// same places agree, and two can be joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Footprint(Vec<(u64, Visits)>);

impl Footprint {
    /// The empty footprint.
    pub const EMPTY: Self = Self(Vec::new());

    /// Counts visits of a place, by its hash.
    pub fn add(&mut self, hash: u64, visits: Visits) {
        match self.0.binary_search_by_key(&hash, |one| one.0) {
            Ok(at) => self.0[at].1.add_visits(visits),
            Err(at) if at < KEPT => {
                self.0.insert(at, (hash, visits));
                self.0.truncate(KEPT);
            }
            Err(_) => {}
        }
    }

    /// Adds another footprint.
    pub fn join(&mut self, other: &Self) {
        for (hash, visits) in &other.0 {
            self.add(*hash, *visits);
        }
    }

    /// Returns the chosen places, by hash, with their visits.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Visits)> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Returns whether all places were chosen.
    pub fn is_complete(&self) -> bool {
        self.0.len() < KEPT
    }

    /// Returns the number of places: exact if small, else with a standard deviation of 18 %.
    pub fn distinct(&self) -> f64 {
        match self.0.last() {
            Some((last, _)) if !self.is_complete() => {
                (KEPT - 1) as f64 / ((*last as f64 + 1.0) / 2.0_f64.powi(64))
            }
            _ => self.0.len() as f64,
        }
    }
}

/// Memory accesses observed at an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accesses {
    /// Samples followed by an execution of the instruction with a known address; the first one
    /// after each sample is in [`Self::pages`] and [`Self::lines`].
    pub known: u64,
    /// Samples followed by an execution whose address did not follow from the registers.
    pub unknown: u64,
    /// Executions after samples that were followed for long enough.
    pub origins: u64,
    /// Origins after which the next execution was not seen to access the same line, or too many
    /// other lines were accessed in between.
    pub new_line: u64,
    /// Like `new_line`, for pages.
    pub new_page: u64,
    /// Origins after which the next address was one stride further, with few accesses in between.
    pub strided: u64,
    /// The most frequent distance to the next address in bytes, by a majority vote.
    pub stride: i64,
    /// Votes for that distance.
    pub votes: u64,
    /// Samples right after it at which the address still followed from the registers.
    pub waited: u64,
    /// Samples among `waited` at which the execution before had accessed another line, by the
    /// stride.
    pub waited_line: u64,
    /// Like `waited_line`, for pages.
    pub waited_page: u64,
    /// Pages that it accessed.
    pub pages: Footprint,
    /// Lines that it accessed.
    pub lines: Footprint,
}

impl Accesses {
    /// The names of the counts.
    pub const COUNTS: [&str; 9] = [
        "known",
        "unknown",
        "origins",
        "new_line",
        "new_page",
        "strided",
        "waited",
        "waited_line",
        "waited_page",
    ];

    /// Returns the counts, in the order of their names.
    pub fn counts(&self) -> [u64; 9] {
        [
            self.known,
            self.unknown,
            self.origins,
            self.new_line,
            self.new_page,
            self.strided,
            self.waited,
            self.waited_line,
            self.waited_page,
        ]
    }

    /// Returns the counts in the same order, mutable.
    pub fn counts_mut(&mut self) -> [&mut u64; 9] {
        [
            &mut self.known,
            &mut self.unknown,
            &mut self.origins,
            &mut self.new_line,
            &mut self.new_page,
            &mut self.strided,
            &mut self.waited,
            &mut self.waited_line,
            &mut self.waited_page,
        ]
    }

    /// Adds other observations of the instruction.
    pub fn join(&mut self, other: &Self) {
        for (sum, more) in self.counts_mut().into_iter().zip(other.counts()) {
            *sum = sum.saturating_add(more);
        }
        self.vote_stride(other.stride, other.votes);
        self.pages.join(&other.pages);
        self.lines.join(&other.lines);
    }

    fn vote_stride(&mut self, stride: i64, votes: u64) {
        if stride == self.stride {
            self.votes = self.votes.saturating_add(votes);
        } else if votes >= self.votes {
            (self.stride, self.votes) = (stride, votes - self.votes);
        } else {
            self.votes -= votes;
        }
    }

    fn visit_address(&mut self, space: u64, address: u64, visits: Visits) {
        self.pages.add(hash_place(space, address / PAGE, 1), visits);
        self.lines.add(hash_place(space, address / LINE, 2), visits);
    }

    /// Counts a sample right after an execution that accessed an address, in an address space.
    pub fn wait(&mut self, space: u64, address: u64) {
        let visits = Visits { seen: 0, waited: 1 };
        self.visit_address(space, address, visits);
        self.waited = self.waited.saturating_add(1);
        let before = address.wrapping_sub(self.stride.cast_unsigned());
        let same = |unit: u64| self.votes >= SURE && before / unit == address / unit;
        let (line, page) = (same(LINE), same(PAGE));
        self.waited_line += u64::from(!line);
        self.waited_page += u64::from(!page);
    }

    /// Counts the sequel of an execution that accessed `from`: the next address, if it is known,
    /// and the accesses in between.
    fn follow_access(&mut self, from: u64, to: Option<u64>, between: &[Option<u64>]) {
        self.origins = self.origins.saturating_add(1);
        let Some(to) = to else {
            self.new_line += 1;
            self.new_page += 1;
            return;
        };
        let stride = to.wrapping_sub(from).cast_signed();
        self.vote_stride(stride, 1);
        let sets = PAGE / LINE;
        let (line, page) = (to / LINE, to / PAGE);
        let beside = |one: u64| one / LINE != line && one / LINE % sets == line % sets;
        let no_line = more_than(BESIDE_LINE, between, LINE, beside);
        let no_page = more_than(BESIDE_PAGE, between, PAGE, |one| one / PAGE != page);
        self.new_line += u64::from(from / LINE != line || no_line);
        self.new_page += u64::from(from / PAGE != page || no_page);
        self.strided += u64::from(stride == self.stride && !no_line && !no_page);
    }
}

/// Returns whether addresses are in more than `most` different lines or pages; each unknown one
/// counts.
fn more_than(
    most: usize,
    addresses: &[Option<u64>],
    unit: u64,
    counts: impl Fn(u64) -> bool,
) -> bool {
    let mut different: Vec<Option<u64>> = Vec::new();
    for address in addresses {
        let place = match address {
            Some(one) if !counts(*one) => continue,
            one => one.map(|one| one / unit),
        };
        if place.is_none() || !different.contains(&place) {
            different.push(place);
        }
        if different.len() > most {
            return true;
        }
    }
    false
}

/// An access on the path after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWay<K> {
    /// The instruction.
    pub instruction: K,
    /// Its address, if it follows from the registers.
    pub address: Option<u64>,
    /// True if the path is long enough to contain the instruction's next execution.
    pub has_room: bool,
}

/// Counts the accesses on the path after a sample, in the order of execution, in an address space.
/// Instructions without room in the table are left out.
pub fn add_way<K: Copy + Eq + Hash>(
    space: u64,
    way: &[OnWay<K>],
    most: usize,
    table: &mut FxHashMap<K, Accesses>,
) {
    let addresses: Vec<Option<u64>> = way.iter().map(|one| one.address).collect();
    for (index, one) in way.iter().enumerate() {
        if table.len() >= most && !table.contains_key(&one.instruction) {
            continue;
        }
        let is_it = |other: &OnWay<K>| other.instruction == one.instruction;
        let is_first = !way[..index].iter().any(is_it);
        if !is_first && !one.has_room {
            continue;
        }
        let found = table.entry(one.instruction).or_default();
        let Some(address) = one.address else {
            found.unknown += u64::from(is_first);
            continue;
        };
        if is_first {
            found.known = found.known.saturating_add(1);
            found.visit_address(space, address, Visits { seen: 1, waited: 0 });
        }
        if one.has_room {
            let rest = index + 1;
            let next = way[rest..].iter().position(is_it).map(|next| next + rest);
            let to = next.and_then(|next| addresses[next]);
            found.follow_access(address, to, &addresses[rest..next.unwrap_or(rest)]);
        }
    }
}

/// Returns a hash of a place in an address space, with all bits mixed (the finaliser of
/// SplitMix64).
fn hash_place(space: u64, place: u64, unit: u64) -> u64 {
    let mix = |value: u64| {
        let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    };
    mix(mix(mix(unit) ^ space) ^ place)
}

/// The accesses of an instruction of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessCount {
    /// The image.
    pub image: ImageId,
    /// The instruction.
    pub instruction: ImageOffset,
    /// The observed accesses.
    pub accesses: Accesses,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way(accesses: &[(u32, Option<u64>)]) -> Vec<OnWay<u32>> {
        let one = |(instruction, address): &(u32, Option<u64>)| OnWay {
            instruction: *instruction,
            address: *address,
            has_room: true,
        };
        accesses.iter().map(one).collect()
    }

    fn added(accesses: &[(u32, Option<u64>)]) -> FxHashMap<u32, Accesses> {
        let mut table = FxHashMap::default();
        add_way(7, &way(accesses), 100, &mut table);
        table
    }

    #[test]
    fn a_stream_begins_a_line_each_eighth_time() {
        let stream: Vec<_> = (0..33).map(|n| (1, Some(0x1_0000 + 8 * n))).collect();
        let one = &added(&stream)[&1];
        assert_eq!((one.known, one.origins, one.strided), (1, 33, 32));
        assert_eq!((one.stride, one.votes), (8, 32));
        // The next access of the last one is not seen.
        assert_eq!((one.new_line, one.new_page), (4 + 1, 1));
    }

    #[test]
    fn lines_of_one_set_push_each_other_out() {
        let alike = |others: u64| {
            let mut all = vec![(0, Some(0))];
            all.extend((1..=others).map(|n| (n as u32, Some(n * PAGE))));
            all.push((0, Some(8)));
            added(&all)[&0].new_line
        };
        // The next access of the last execution is not seen.
        assert_eq!(alike(BESIDE_LINE as u64), 1);
        assert_eq!(alike(BESIDE_LINE as u64 + 1), 2);
        let unknown = [
            (0, Some(0)),
            (1, None),
            (1, None),
            (1, None),
            (1, None),
            (0, Some(8)),
        ];
        assert_eq!(added(&unknown)[&0].new_line, 2);
    }

    #[test]
    fn what_follows_unseen_is_new() {
        let all = added(&[(1, Some(8)), (2, None), (1, None), (2, Some(64))]);
        assert_eq!(
            (
                all[&1].known,
                all[&1].unknown,
                all[&1].origins,
                all[&1].new_page
            ),
            (1, 0, 1, 1)
        );
        // The first execution counts, known or not.
        assert_eq!((all[&2].known, all[&2].unknown), (0, 1));
    }

    #[test]
    fn a_wait_is_judged_by_the_stride() {
        let mut one = Accesses::default();
        one.wait(1, 0);
        one.stride = 8;
        one.votes = SURE;
        for address in [0x1000, 0x1008, 0x1040] {
            one.wait(1, address);
        }
        assert_eq!((one.waited, one.waited_line, one.waited_page), (4, 3, 2));
    }

    /// The mean of many estimates is right, and a single one is off by the documented standard
    /// deviation.
    #[test]
    fn estimates_of_places_are_right_on_the_whole() {
        let ratio = |space: u64| {
            let mut all = Footprint::default();
            for place in 0..1000 {
                all.add(hash_place(space, place, 1), Visits::default());
            }
            all.distinct() / 1000.0
        };
        let ratios: Vec<f64> = (0..2000).map(ratio).collect();
        let mean = ratios.iter().sum::<f64>() / 2000.0;
        let square = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / 2000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((square.sqrt() - 0.18).abs() < 0.03, "{}", square.sqrt());
    }

    proptest! {
        /// Joining parts equals adding all at once, for any parts.
        #[test]
        fn footprints_join(places in proptest::collection::vec((0_u64..200, 0_usize..3), 0..600)) {
            let (mut all, mut parts) = (Footprint::default(), vec![Footprint::default(); 3]);
            for (place, part) in &places {
                let visits = Visits { seen: 1, waited: 2 };
                all.add(hash_place(0, *place, 1), visits);
                parts[*part].add(hash_place(0, *place, 1), visits);
            }
            let mut joined = Footprint::default();
            parts.iter().for_each(|part| joined.join(part));
            prop_assert_eq!(joined, all);
        }

        /// Few places are counted exactly. Many are counted within an error that one in a thousand
        /// million estimates exceeds: an estimate is inversely proportional to the time of the 32nd
        /// random event.
        #[test]
        fn places_are_counted(count in 0_u64..5000, space: u64) {
            let mut all = Footprint::default();
            for place in 0..count {
                all.add(hash_place(space, place, 1), Visits::default());
            }
            let count = count as f64;
            if count < KEPT as f64 {
                prop_assert_eq!(all.distinct(), count);
            } else {
                let ratio = all.distinct() / count;
                prop_assert!(0.4 < ratio && ratio < 4.2, "{ratio}");
            }
        }
    }
}
