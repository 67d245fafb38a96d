//! Random choice of the next fragment and speedup (section 3.2): at random, so that the choice
//! cannot bias the result.

/// Choices.
pub(crate) struct Dice {
    state: u64,
}

/// Speedups besides 0: 5 % to 100 % in steps of 5 %.
const STEPS: u64 = 20;

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

    /// A speedup as a fraction: 0 in half of the cases; otherwise `fixed`, or any.
    pub fn choose_speedup(&mut self, fixed: Option<f64>) -> f64 {
        if self.next_random() & 1 == 0 {
            return 0.0;
        }
        self.above_zero(fixed)
    }

    /// A speedup above 0.
    pub fn above_zero(&mut self, fixed: Option<f64>) -> f64 {
        let step = self.next_random() % STEPS + 1;
        fixed.unwrap_or(step as f64 / STEPS as f64)
    }

    /// One of the positions, with a probability in proportion to its weight; `None` if all are 0.
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
