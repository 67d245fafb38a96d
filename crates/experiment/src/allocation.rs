//! Chooses the line or wait that the next pair of experiments speeds up.
//!
//! The error of an estimate depends on the number of its experiments, not on the line's share of
//! the time. Coz chooses in proportion to samples, so that a line of 3 % has no experiment after
//! half a minute. Here the number grows with the square root of the samples, and lines that have
//! begun come first, because fewer than four speedups give no estimate. No choice depends on the
//! outcome of an experiment, which would bias the result.

use crate::choose::Dice;
use crate::trials::Trials;

/// Smallest share of the run's time at which a line is chosen on its own account. The program gains
/// no more than that share.
const WORTHY: f64 = 0.03;
/// Number of different speedups above 0 that an estimate needs.
const ESTIMATED: u32 = 4;

/// Returns how many experiments with a speedup an estimate of a line needs, if only one speedup is
/// tried or several.
pub(crate) fn needed_for_estimate(one_speedup: bool) -> u32 {
    if one_speedup { 1 } else { ESTIMATED }
}

/// Number of experiments after which a line that has a sample in few of them no longer comes first.
const GIVEN_UP: u32 = 8;
/// One in this many choices is among all lines. The others are among the lines that have begun.
const FINISHED_FIRST: u64 = 4;

/// Smallest share of a line's samples at which one of its copies is measured separately. The other
/// copies together need this share too. Neither tuned nor measured.
const ONE_OF_SEVERAL: f64 = 0.1;

/// Returns whether a copy of a line is measured separately too, by its share of the run's time and
/// of the line's samples.
pub(crate) fn is_copy_worthy(part: f64, of_line: f64) -> bool {
    part >= WORTHY && (ONE_OF_SEVERAL..=1.0 - ONE_OF_SEVERAL).contains(&of_line)
}

/// A line or wait that can be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Number of recent samples.
    pub recent: u64,
    /// Share of the run's time so far, summed over threads.
    pub part: f64,
    /// Experiments so far.
    pub trials: Trials,
}

impl Candidate {
    fn is_begun(&self, needed: u32) -> bool {
        let (attempts, tried) = (self.trials.attempts(), self.trials.tried().sum());
        attempts > 0 && tried < needed && attempts < GIVEN_UP
    }

    fn is_worthy(&self) -> bool {
        self.part >= WORTHY
    }
}

/// Picks the index of a candidate; `None` if none had recent samples. Each candidate needs `needed`
/// experiments with a speedup. Even indexes are running lines, odd ones are waits. The two kinds
/// also share experiments by the square root of their samples, or many sleeping threads would take
/// most of them.
pub(crate) fn pick_needed(dice: &mut Dice, candidates: &[Candidate], needed: u32) -> Option<usize> {
    let kinds = [0, 1].map(|kind| {
        let of_kind = candidates.iter().skip(kind).step_by(2);
        let (recent, attempts) = of_kind.fold((0u64, 0u32), |(recent, attempts), it| {
            (
                recent.saturating_add(it.recent),
                attempts.saturating_add(it.trials.attempts()),
            )
        });
        need(recent, attempts)
    });
    let kind = dice.pick_weighted(&kinds)?;
    let finishing = !dice.is_one_of(FINISHED_FIRST);
    let weights = weights_of_kind(candidates, kind);
    let begun: Vec<u64> = weights
        .iter()
        .zip(candidates)
        .map(|(weight, it)| if it.is_begun(needed) { *weight } else { 0 })
        .collect();
    let begun = finishing.then(|| dice.pick_weighted(&begun)).flatten();
    begun.or_else(|| dice.pick_weighted(&weights))
}

/// Returns the weight of each candidate of a kind, and 0 for the other kind. Candidates below
/// [`WORTHY`] count as one line together.
fn weights_of_kind(candidates: &[Candidate], kind: usize) -> Vec<u64> {
    let is_of_kind = |number: usize| number % 2 == kind;
    let small = candidates.iter().enumerate();
    let small = small.filter(|(number, it)| is_of_kind(*number) && !it.is_worthy());
    let attempts = small.map(|(_, it)| it.trials.attempts());
    let of_small = attempts.fold(0, u32::saturating_add);
    let weights = candidates.iter().enumerate().map(|(number, it)| {
        let attempts = if it.is_worthy() {
            it.trials.attempts()
        } else {
            of_small
        };
        if is_of_kind(number) {
            need(it.recent, attempts)
        } else {
            0
        }
    });
    weights.collect()
}

/// Returns the weight of `recent` samples after `attempts` experiments. Chosen in proportion to
/// `r/n`, `n` grows with `√r`.
fn need(recent: u64, attempts: u32) -> u64 {
    /// Scale that keeps fractions in integers.
    const FINE: u64 = 1 << 20;
    recent
        .saturating_mul(FINE)
        .div_ceil(1 + u64::from(attempts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Experiment, Progress};

    /// Number of experiments with a speedup in 40 s.
    const PAIRS: usize = 35;
    /// Number of samples of two threads since the last experiment began.
    const SAMPLES: f64 = 1200.0;

    /// Makes an experiment of a choice with `samples` samples in it.
    fn experiment(speedup: f64, samples: u64) -> Experiment {
        Experiment {
            fragment: 0,
            speedup,
            start_ns: 0,
            duration_ns: 500_000_000,
            delay_ns: 0,
            samples,
            counts: vec![Progress::Visits(100)],
            disturbance: None,
            meetings: None,
            spinning: None,
            at_pace: false,
        }
    }

    /// Simulates experiments with lines that have these shares of two threads' time at each pair.
    fn simulate(seed: u64, share: impl Fn(usize, usize) -> f64, lines: usize) -> Vec<Trials> {
        simulate_pairs(seed, share, lines, PAIRS, ESTIMATED)
    }

    fn simulate_pairs(
        seed: u64,
        share: impl Fn(usize, usize) -> f64,
        lines: usize,
        pairs: usize,
        needed: u32,
    ) -> Vec<Trials> {
        let mut dice = Dice::new(seed);
        let mut trials = vec![Trials::default(); lines];
        let mut sum = vec![0.0; lines];
        for pair in 0..pairs {
            for (line, sum) in sum.iter_mut().enumerate() {
                *sum += share(line, pair);
            }
            let candidates = (0..lines).map(|line| Candidate {
                recent: (SAMPLES * share(line, pair.saturating_sub(1))).round() as u64,
                part: 2.0 * sum[line] / (pair + 1) as f64,
                trials: trials[line],
            });
            let candidates: Vec<Candidate> = candidates.collect();
            let Some(line) = pick_needed(&mut dice, &candidates, needed) else {
                continue;
            };
            let speedup = dice.above_zero(None, &trials[line].tried());
            let samples = (SAMPLES * share(line, pair) * 0.4).round() as u64;
            trials[line].add(&experiment(speedup, samples), true);
        }
        trials
    }

    /// Returns the fraction of lines without an estimate, over many runs; even lines run.
    fn missing_part(shares: &[f64]) -> f64 {
        let share = |line: usize, _| {
            let of_line = shares.get(line / 2).copied();
            of_line.filter(|_| line.is_multiple_of(2)).unwrap_or(0.0)
        };
        let mut missing = 0;
        for seed in 0..200 {
            let trials = simulate(seed, share, 2 * shares.len());
            let lines = trials.iter().step_by(2);
            missing += lines.filter(|it| it.tried().sum() < ESTIMATED).count();
        }
        missing as f64 / (200 * shares.len()) as f64
    }

    #[test]
    fn lines_have_estimates_after_forty_seconds() {
        for shares in [
            &[0.9, 0.05, 0.03, 0.02][..],
            &[0.6, 0.2, 0.1, 0.05, 0.05],
            &[0.5, 0.45, 0.05],
            &[0.3, 0.3, 0.1, 0.1, 0.1, 0.1],
        ] {
            let missing = missing_part(shares);
            assert!(missing <= 0.05, "{missing} of {shares:?}");
        }
    }

    #[test]
    fn of_one_speedup_all_lines_have_some_after_a_few_seconds() {
        let share = |line: usize, _| if line.is_multiple_of(2) { 0.5 } else { 0.0 };
        let lines_without = |needed: u32| {
            let runs = (0..200).flat_map(|seed| simulate_pairs(seed, share, 4, 5, needed));
            let lines = runs.enumerate().filter(|(number, _)| number % 2 == 0);
            lines.filter(|(_, it)| it.attempts() == 0).count()
        };
        let one = lines_without(needed_for_estimate(true));
        assert!(one <= 4, "{one} of 400");
        // With fewer lines finished, many would have no estimate.
        let four = lines_without(needed_for_estimate(false));
        assert!(four >= 4 * (one + 1), "{four} of 400, and {one}");
    }

    #[test]
    fn in_proportion_to_samples_a_quarter_would_have_none() {
        // Shows that the test above can fail.
        let shares = [600u64, 200, 100, 50, 50];
        let mut missing = 0;
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let mut times = [0u32; 5];
            for _ in 0..PAIRS {
                times[dice.pick_weighted(&shares).unwrap()] += 1;
            }
            missing += times.iter().filter(|n| **n < ESTIMATED).count();
        }
        assert!(missing > 250, "{missing} of 1000");
    }

    /// Returns the mean number of experiments of the first line, over many runs.
    fn mean_of_first(share: impl Fn(usize, usize) -> f64, lines: usize) -> f64 {
        let attempts = (0..200).map(|seed| simulate(seed, &share, lines)[0].attempts());
        f64::from(attempts.sum::<u32>()) / 200.0
    }

    #[test]
    fn many_small_lines_leave_the_large_one_its_experiments() {
        let share = |line: usize, _| match line {
            0 => 0.5,
            line if line.is_multiple_of(2) => 0.005,
            _ => 0.0,
        };
        let large = mean_of_first(share, 202);
        assert!(large >= 0.3 * PAIRS as f64, "{large} of {PAIRS}");
    }

    #[test]
    fn many_that_wait_leave_what_runs_its_experiments() {
        // One line runs, fifty threads sleep.
        let share = |line: usize, _| match line {
            0 => 0.5,
            line if line % 2 == 1 => 0.01,
            _ => 0.0,
        };
        let runs = mean_of_first(share, 100);
        assert!(runs >= 0.4 * PAIRS as f64, "{runs} of {PAIRS}");
    }

    #[test]
    fn what_has_gone_is_neither_waited_for_nor_chosen() {
        // The second line runs only at the start. The third one has a sample now and then, and none
        // right after.
        let share = |line: usize, pair: usize| match line {
            0 => 0.5,
            2 if pair < 3 => 0.5,
            4 if pair.is_multiple_of(3) => 0.1,
            _ => 0.0,
        };
        for seed in 0..200 {
            let trials = simulate(seed, share, 6);
            assert!(trials[2].attempts() <= 4);
            assert!(
                trials[4].attempts() <= GIVEN_UP + 6,
                "{:?}",
                trials[4].attempts()
            );
            assert!(trials[0].attempts() as usize >= PAIRS / 3);
        }
        let nothing = Candidate {
            recent: 0,
            part: 0.5,
            trials: Trials::default(),
        };
        assert_eq!(
            pick_needed(&mut Dice::new(1), &[nothing; 4], ESTIMATED),
            None
        );
        assert_eq!(pick_needed(&mut Dice::new(1), &[], ESTIMATED), None);
    }
}
