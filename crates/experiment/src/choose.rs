//! Random choice of the next fragment and speedup (section 3.2), so that the choice cannot bias the
//! result.

/// A random number generator for choices.
pub(crate) struct Dice {
    state: u64,
}

/// Number of speedups besides 0: 5 % to 100 % in steps of 5 %.
const STEPS: usize = 20;
/// Steps between two of the speedups that are tried first: 25, 50, 75 and 100 %.
const QUARTER: usize = STEPS / 4;

/// Number of trials of each speedup above 0 of a choice. A curve ends at the greatest speedup that
/// was tried, and needs a few different ones. Drawn independently, a dozen speedups leave 100 % out
/// in half of the cases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    times: [u32; STEPS],
}

impl Tried {
    /// Adds an experiment.
    pub fn add_speedup(&mut self, speedup: f64) {
        let step = (speedup * STEPS as f64).round() as usize;
        if let Some(times) = step.checked_sub(1).and_then(|at| self.times.get_mut(at)) {
            *times = times.saturating_add(1);
        }
    }

    /// Returns the number of experiments with a speedup above 0.
    pub fn sum(&self) -> u32 {
        self.times
            .iter()
            .fold(0, |sum, times| sum.saturating_add(*times))
    }

    /// Returns a weight for each step: the least tried ones, quarters first.
    fn step_weights(&self) -> [u64; STEPS] {
        let least = self.times.iter().min().copied().unwrap_or(0);
        let is_quarter = |step: usize| (step + 1).is_multiple_of(QUARTER);
        let is_due = |step: usize| self.times.get(step) == Some(&least);
        let quarters = (0..STEPS).any(|step| is_due(step) && is_quarter(step));
        std::array::from_fn(|step| u64::from(is_due(step) && (is_quarter(step) || !quarters)))
    }
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next_random(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a speedup as a fraction: 0 in half of the cases; otherwise `fixed`, or any.
    pub fn choose_speedup(&mut self, fixed: Option<f64>) -> f64 {
        if self.is_baseline() {
            return 0.0;
        }
        let step = self.next_random() % STEPS as u64 + 1;
        fixed.unwrap_or(step as f64 / STEPS as f64)
    }

    /// Returns whether an experiment is without a speedup: half of them are.
    pub fn is_baseline(&mut self) -> bool {
        self.next_random() & 1 == 0
    }

    /// Returns any number between two.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        let part = (self.next_random() >> 11) as f64 / (1u64 << 53) as f64;
        low + (high - low) * part
    }

    /// Returns true in one of `cases` cases.
    pub fn is_one_of(&mut self, cases: u64) -> bool {
        self.next_random()
            .checked_rem(cases)
            .is_none_or(|rest| rest == 0)
    }

    /// Draws a speedup above 0: `fixed`, or one of the least tried.
    pub fn above_zero(&mut self, fixed: Option<f64>, tried: &Tried) -> f64 {
        let step = self.pick_weighted(&tried.step_weights());
        let step = step.map_or(STEPS, |step| step + 1);
        fixed.unwrap_or(step as f64 / STEPS as f64)
    }

    /// Picks an index with a probability in proportion to its weight; `None` if all are 0.
    pub fn pick_weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let total = weights
            .iter()
            .fold(0u64, |sum, weight| sum.saturating_add(*weight));
        let mut left = self.next_random().checked_rem(total)?;
        weights
            .iter()
            .position(|weight| match left.checked_sub(*weight) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_speedups_are_zero_and_the_others_even() {
        let mut dice = Dice::new(7);
        let mut seen = [0u32; 21];
        for _ in 0..40_000 {
            seen[(dice.choose_speedup(None) * 20.0).round() as usize] += 1;
        }
        assert!((19_500..20_500).contains(&seen[0]), "{seen:?}");
        assert!(
            seen[1..].iter().all(|n| (850..1150).contains(n)),
            "{seen:?}"
        );
    }

    #[test]
    fn quarters_come_first_then_all_others_then_all_again() {
        for seed in 0..200 {
            let (mut dice, mut tried) = (Dice::new(seed), Tried::default());
            let mut round = || {
                let steps = (0..STEPS).map(|_| {
                    let speedup = dice.above_zero(None, &tried);
                    tried.add_speedup(speedup);
                    (speedup * 20.0).round() as usize
                });
                steps.collect::<Vec<_>>()
            };
            for _ in 0..3 {
                let steps = round();
                let mut quarters = steps[..4].to_vec();
                quarters.sort_unstable();
                assert_eq!(quarters, [5, 10, 15, 20], "{steps:?}");
                let mut all = steps.clone();
                all.sort_unstable();
                assert_eq!(all, (1..=20).collect::<Vec<_>>(), "{steps:?}");
            }
        }
    }

    #[test]
    fn the_order_is_left_to_chance() {
        let mut first = [0u32; 21];
        for seed in 0..4000 {
            let speedup = Dice::new(seed).above_zero(None, &Tried::default());
            first[(speedup * 20.0).round() as usize] += 1;
        }
        for step in [5, 10, 15, 20] {
            assert!((850..1150).contains(&first[step]), "{first:?}");
        }
    }

    #[test]
    fn an_experiment_that_did_not_count_is_made_again() {
        let mut tried = Tried::default();
        for speedup in [0.25, 0.5, 1.0] {
            tried.add_speedup(speedup);
        }
        // The experiment at 75 % was not added.
        let mut dice = Dice::new(1);
        assert_eq!(dice.above_zero(None, &tried), 0.75);
        assert_eq!(dice.above_zero(Some(0.3), &tried), 0.3);
        // A speedup of 0 changes nothing.
        tried.add_speedup(0.0);
        tried.add_speedup(1.5);
        assert_eq!(dice.above_zero(None, &tried), 0.75);
    }

    #[test]
    fn picks_go_by_weight() {
        let mut dice = Dice::new(1);
        let mut seen = [0u32; 4];
        for _ in 0..10_000 {
            seen[dice.pick_weighted(&[0, 1, 3, 0]).unwrap()] += 1;
        }
        assert_eq!((seen[0], seen[3]), (0, 0));
        assert!((2_300..2_700).contains(&seen[1]), "{seen:?}");
        assert_eq!(dice.pick_weighted(&[0, 0]), None);
        assert_eq!(dice.pick_weighted(&[]), None);
    }
}
