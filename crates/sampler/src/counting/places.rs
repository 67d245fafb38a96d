//! The counted places of a process and its children.

use super::cost::HitCost;
use profile::{ImageOffset, ProbedKind};

/// An instruction to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// Its offset in the image.
    pub offset: ImageOffset,
    /// What a uprobe there costs.
    pub kind: ProbedKind,
}

/// Nanoseconds of counting that each place has at first.
const FIRST_CREDIT: f64 = 2e6;

/// The places with their budgets. Each is counted in all threads or in none, because a uprobe slows
/// all threads of a process.
pub(super) struct CountedPlaces {
    pub places: Vec<CountedPlace>,
    /// The share of the CPU time that each place may take.
    share: f64,
}

/// A place with its budget.
pub(super) struct CountedPlace {
    pub offset: ImageOffset,
    pub hit_ns: f64,
    pub is_counted: bool,
    /// Nanoseconds that counting it may still take.
    credit: f64,
}

impl CountedPlaces {
    /// Makes the budgets; all places together may take this share of the CPU time.
    pub fn new(places: &[ProbePlace], cost: HitCost, share: f64) -> Self {
        let place = |one: &ProbePlace| CountedPlace {
            offset: one.offset,
            hit_ns: match one.kind {
                ProbedKind::Jump => cost.jump_ns,
                ProbedKind::Nop => cost.nop_ns,
                ProbedKind::Other => cost.other_ns,
            },
            is_counted: false,
            credit: FIRST_CREDIT,
        };
        Self {
            places: places.iter().map(place).collect(),
            share: share / places.len().max(1) as f64,
        }
    }

    /// Settles a window of all threads; `hits` are the executions of each place. If counting is
    /// possible, the places with credit are counted in the next. Returns whether they are others.
    pub fn settle_window(&mut self, cpu_ns: f64, hits: &[u64], is_possible: bool) -> bool {
        let mut is_changed = false;
        for (place, own) in self.places.iter_mut().zip(hits) {
            place.credit += self.share * cpu_ns - place.hit_ns * *own as f64;
            let is_wanted = is_possible && place.credit > 0.0;
            is_changed |= is_wanted != place.is_counted;
            place.is_counted = is_wanted;
        }
        is_changed
    }

    /// Counts a place no longer.
    pub fn give_up(&mut self, place: usize) {
        self.places[place].credit = f64::NEG_INFINITY;
        self.places[place].is_counted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_place_is_counted_as_often_as_its_budget_allows() {
        let hot = ProbePlace {
            offset: ImageOffset(0),
            kind: ProbedKind::Jump,
        };
        let rare = ProbePlace {
            offset: ImageOffset(8),
            kind: ProbedKind::Other,
        };
        let cost = HitCost {
            jump_ns: 1000.0,
            nop_ns: 1000.0,
            other_ns: 5000.0,
        };
        let mut places = CountedPlaces::new(&[hot, rare], cost, 0.01);
        let (mut hot_ns, mut counted) = (0.0, [0, 0]);
        for _ in 0..1000 {
            // In 10 ms, 5000 executions of the one, each counted, and a single one of the other.
            let hits = [5000, 1].map(|hits: u64| hits);
            let seen: Vec<u64> = (places.places.iter().zip(hits))
                .map(|(one, hits)| if one.is_counted { hits } else { 0 })
                .collect();
            hot_ns += seen[0] as f64 * 1000.0;
            for (sum, one) in counted.iter_mut().zip(&places.places) {
                *sum += u32::from(one.is_counted);
            }
            places.settle_window(1e7, &seen, true);
        }
        assert!(hot_ns < 2e6 + 0.005 * 1e10 + 5e6, "{hot_ns}");
        assert!(hot_ns > 0.004 * 1e10, "{hot_ns}");
        assert_eq!(counted[1], 999);
    }
}
