//! The places in memory that instructions access: pages or lines.

use profile::{Accesses, Footprint, Visits};
use rustc_hash::FxHashMap;

/// Most cycles that a miss served by memory costs on average.
pub(super) const MEMORY: f64 = 600.0;

/// The unit that is counted: pages or lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Unit {
    Page,
    Line,
}

/// Returns the largest share that `count` of `of` observations allow for: two standard deviations
/// more, and three if there was none.
pub(super) fn at_most(count: f64, of: f64) -> f64 {
    let most = count + 2.0 * count.sqrt() + 3.0;
    if of > 0.0 { (most / of).min(1.0) } else { 1.0 }
}

/// An instruction that accesses memory.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// Its frequency.
    pub rate: f64,
    /// True if it always accesses one place.
    pub fixed: bool,
    /// The highest rate at which it accesses a new page, and a new line, by the code.
    pub new: [f64; 2],
    pub seen: Option<&'a Accesses>,
}

impl<'a> Access<'a> {
    /// Returns an upper bound on the share of executions with an unknown address.
    pub fn unknown_share(&self) -> f64 {
        self.seen.map_or(1.0, |seen| {
            let unknown = seen.unknown as f64;
            let all = seen.known.saturating_add(seen.unknown).max(1) as f64;
            ((unknown + 2.0 * unknown.sqrt()) / all).min(1.0)
        })
    }

    pub fn footprint(&self, unit: Unit) -> &'a Footprint {
        static NONE: Footprint = Footprint::EMPTY;
        self.seen.map_or(&NONE, |seen| match unit {
            Unit::Page => &seen.pages,
            Unit::Line => &seen.lines,
        })
    }

    /// Returns the largest share of executions that can access another place than the one before.
    pub fn share_moving(&self, unit: Unit) -> f64 {
        let Some(seen) = self.seen.filter(|_| !self.fixed) else {
            return if self.fixed { 0.0 } else { 1.0 };
        };
        let new = match unit {
            Unit::Page => seen.new_page,
            Unit::Line => seen.new_line,
        };
        let unknown = self.unknown_share();
        unknown + (1.0 - unknown) * at_most(new as f64, seen.origins as f64)
    }

    /// Returns the largest number of places.
    pub fn most_places(&self, unit: Unit) -> f64 {
        let footprint = self.footprint(unit);
        let surely = if footprint.is_complete() { 1.0 } else { 1.6 };
        surely * footprint.distinct().max(1.0)
    }

    /// Returns the largest share of the executions that can miss, if other code evicts the accessed
    /// places no faster than in `time`: each place is missed at most once in that time.
    pub fn share_missing(&self, unit: Unit, time: f64) -> f64 {
        let each = 1.0 / (self.rate * time);
        let Some(seen) = self.seen.filter(|seen| seen.known > 0 && !self.fixed) else {
            return if self.fixed { each.min(1.0) } else { 1.0 };
        };
        // Executions with an unknown address may access any of these places.
        let (known, unknown) = (seen.known as f64, self.unknown_share());
        let share = |visits: Visits| match visits.seen {
            0 => 1.0,
            seen => (unknown + (1.0 - unknown) * seen as f64 / known).min(1.0),
        };
        let footprint = self.footprint(unit).iter();
        let missed = footprint.clone().map(|(_, visits)| share(visits).min(each));
        let covered = footprint.map(|(_, visits)| visits.seen as f64 / known);
        // A sample of places stands for the others.
        (missed.sum::<f64>() / covered.sum::<f64>().min(1.0)).min(1.0)
    }

    /// Returns the most cycles that accesses to unseen places can have cost each time. The places
    /// seen once estimate these (Good and Turing): on the ways after samples, or among the samples
    /// right after the instruction.
    pub fn cycles_unseen(&self, unit: Unit, after: Option<f64>) -> f64 {
        if self.fixed {
            return 0.0;
        }
        let share = |of: fn(&Visits) -> u64| {
            let counts = self.footprint(unit).iter().map(|(_, visits)| of(&visits));
            let all: f64 = counts.clone().map(|count| count as f64).sum();
            at_most(counts.filter(|count| *count == 1).count() as f64, all)
        };
        let executed = MEMORY * (self.unknown_share() + share(|visits| visits.seen));
        let waited = after.map_or(MEMORY, |cycles| cycles * share(|visits| visits.waited));
        executed.min(waited)
    }
}

/// The rate of accesses to a place, and the number of sightings.
#[derive(Clone, Copy, Default)]
struct Rate {
    rate: f64,
    times: u64,
}

/// One instruction's accesses to many places.
struct Wide {
    /// Its frequency, and the rate at which it moves to another place.
    rate: f64,
    moves: f64,
    /// The number of places that each sampled one stands for, and how often each is accessed.
    weight: f64,
    chosen: Vec<Rate>,
}

/// The places that some code accesses.
#[derive(Default)]
pub(super) struct Places {
    /// Rates by hash, for instructions that access few places each.
    few: FxHashMap<u64, Rate>,
    many: Vec<Wide>,
    /// Rates of accesses and of accesses that reach a new place by the code, for all instructions
    /// and for those without observations; and the rate of observed accesses to any place.
    all: Vec<(f64, f64)>,
    unknown: Vec<(f64, f64)>,
    anywhere: f64,
    /// The uncertainty of the share elsewhere: the variance, and the part that was never seen.
    variance: f64,
    unseen: f64,
}

impl Places {
    pub fn new(accesses: &[Access<'_>], unit: Unit) -> Self {
        let mut places = Self::default();
        for one in accesses {
            let by_code = (one.rate, one.new[unit as usize]);
            places.all.push(by_code);
            match one.seen {
                Some(seen) if seen.known > 0 && !one.fixed => places.add(one, seen, unit),
                _ => places.unknown.push(by_code),
            }
        }
        places
    }

    fn add(&mut self, one: &Access<'_>, seen: &Accesses, unit: Unit) {
        let footprint = one.footprint(unit);
        let unknown = one.unknown_share();
        self.anywhere += one.rate * unknown;
        let each = one.rate * (1.0 - unknown) / seen.known as f64;
        let once = footprint
            .iter()
            .filter(|(_, visits)| visits.seen == 1 && visits.waited == 0);
        self.variance += each * each * once.count() as f64;
        // Includes places seen right after it: their frequency is unknown, and is taken as if on
        // the ways.
        let rates = footprint.iter().map(|(hash, visits)| {
            let times = visits.seen.saturating_add(visits.waited);
            let rate = each * times as f64;
            (hash, Rate { rate, times })
        });
        self.unseen = self.unseen.max((3.0 * each).min(one.rate));
        if footprint.is_complete() {
            for (hash, rate) in rates {
                let sum = self.few.entry(hash).or_default();
                sum.rate += rate.rate;
                sum.times = sum.times.saturating_add(rate.times);
            }
            return;
        }
        let chosen: Vec<Rate> = rates.map(|(_, rate)| rate).collect();
        let covered = footprint.iter().map(|(_, visits)| visits.seen as f64);
        let weight = seen.known as f64 / covered.sum::<f64>().max(f64::MIN_POSITIVE);
        self.many.push(Wide {
            rate: one.rate,
            moves: one.share_moving(unit),
            weight: weight.max(1.0),
            chosen,
        });
    }

    /// Returns the maximum number of different places accessed in a time. Places seen once estimate
    /// the unseen ones (Good and Turing): each access is to another place.
    pub fn touched_within(&self, time: f64) -> f64 {
        let of = |rate: &Rate| match rate.times {
            0 | 1 => rate.rate * time,
            _ => (rate.rate * time).min(1.0),
        };
        let few: f64 = self.few.values().map(of).sum();
        let many = self.many.iter().map(|one| {
            let chosen: f64 = one.chosen.iter().map(of).sum();
            let moved = 1.0 + one.rate * one.moves * time;
            (chosen * one.weight).min(moved).min(one.rate * time)
        });
        let by_code = |all: &[(f64, f64)]| -> f64 {
            let each = all
                .iter()
                .map(|(rate, new)| (rate * time).min(1.0 + new * time));
            each.sum()
        };
        let error = 2.0 * self.variance.sqrt() + self.unseen;
        let seen = few + many.sum::<f64>() + (self.anywhere + error) * time;
        by_code(&self.all).min(seen + by_code(&self.unknown))
    }
}
