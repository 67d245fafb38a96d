//! Causal profiles: what would speeding this code up be worth?
//!
//! The method of Coz (Curtsinger, Berger: *Coz: FragmentEffects Code that Counts with Causal Profiling*, SOSP
//! 2015), §2 and "Adjusting for phases". A [`profile::CausalProfile`] holds the experiments: a fragment
//! of code was virtually sped up by a fraction `s`, which delayed all else, and visits of progress
//! points were counted. What is estimated, for each fragment and progress point:
//!
//! - **The period** `p_s`: experiments with the same fragment and speedup are combined by adding their
//!   effective durations (wall time less delays) and their visits; `p_s` is the quotient. For a pair of
//!   begin and end it is the latency by Little's law, `W = L/λ`, which is the same quotient with `L`
//!   times the duration above and arrivals below.
//! - **The program speedup** `1 − p_s/p_0`, by the baseline `p_0` of the same fragment and point. A
//!   shorter latency is a speedup, as a shorter period is.
//! - **The phase correction**: all of it times `t_A/T`, the part of the run time in which the fragment
//!   runs (eq. 5–8, [`Phase`]).
//! - **The curve** through these points: the smooth one that explains the experiments best
//!   (`curve`). Its band is where the truth is with 95 %.
//! - **The slope** of the regression through the origin, by which fragments are ranked, with standard
//!   errors by a bootstrap over the experiments (`bootstrap`).
//!
//! # Assumptions
//!
//! Experiments are independent given the fragment and the machine's speed at the time, which is a random walk that
//! experiments with all fragments see alike (`drift`). The variance of an experiment's
//! visits is in proportion to how many are expected. Little's law needs as many departures as arrivals
//! ([`Analysis::warnings`] says where that is not so); the phase correction takes latencies in
//! other phases to be in flight as much as in this one.
//!
//! Intervals allow for what virtual speedups are off by themselves (`METHOD`), as far as that was ever measured.
//!
//! Experiments in which the fragment had no sample say nothing of it and are left out; so are those during which the
//! machine did much for others (`disturbance`), and a few more that are far from all others (`outliers`).

mod bootstrap;
mod claims;
mod combine;
mod curve;
mod disturbance;
mod drift;
mod outliers;
mod phase;
mod verdict;

pub use claims::findings;
pub use phase::Phase;
pub use verdict::Verdict;

use crate::statistics::{Interval, benjamini_hochberg};
use combine::{Combined, Group, Levels};
use profile::CausalProfile;

/// By how much a virtual speedup is not a real one, however long it is measured: a standard deviation, as a part of the effect. Code
/// that is really faster also waits less often, and its threads meet in another order. Of programs whose lines can really be sped up
/// (`benches/causal.py`); intervals with the value of the others held nine of ten truths of each left out in turn.
const METHOD: f64 = 0.04;

/// What is reported.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Fragments with fewer different speedups, 0 among them, are left out (§2: 5). Where fewer were asked
    /// for, fewer are enough.
    pub minimum_speedups: usize,
    /// Fewest visits of the progress point in all baselines, and in all experiments with a speedup.
    pub minimum_visits: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            minimum_speedups: 5,
            minimum_visits: 5,
        }
    }
}

/// What the experiments say.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The fragments of which something can be said, the most worth it first.
    pub fragments: Vec<FragmentEffects>,
    /// Fragments with experiments of which nothing can be said, and why.
    pub left_out: Vec<LeftOut>,
    /// Experiments that were carried out.
    pub experiments: usize,
    /// Those among them in which the fragment had no sample; they count for nothing.
    pub without_sample: usize,
    /// Those of the others during which the machine did so much else that they do not count.
    pub disturbed: usize,
    /// What the reader should know: each a sentence.
    pub warnings: Vec<String>,
}

impl Analysis {
    /// Leaves nothing but what is said of one progress point.
    pub fn keep_point(&mut self, point: &str) {
        for fragment in &mut self.fragments {
            fragment.effects.retain(|effect| effect.point == point);
        }
        let fragments = &mut self.fragments;
        fragments.retain(|fragment| !fragment.effects.is_empty());
        fragments.sort_by(verdict::rank);
        self.left_out.retain(|left_out| left_out.point == point);
    }
}

/// What speeding a fragment up does.
#[derive(Clone, Debug)]
pub struct FragmentEffects {
    /// `path:line`, or the function.
    pub name: String,
    /// The function of a line; the place of a function.
    pub detail: String,
    /// The image, where it is known.
    pub image: Option<String>,
    /// Its share of the samples of all fragments, over the whole run.
    pub share: f64,
    /// For each progress point, the one with the largest effect first; at least one.
    pub effects: Vec<Effect>,
}

/// What a fragment is not reported for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The fragment.
    pub name: String,
    /// The progress point.
    pub point: String,
    /// Why.
    pub why: Lack,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// No experiment with a speedup of 0, or only ones without a sample.
    Baseline,
    /// Fewer different speedups than asked for.
    Speedups(usize),
    /// Too few visits of the progress point.
    Visits(u64),
    /// As many experiments as different speedups or fewer: there is no telling how much they vary.
    Experiments(usize),
}

/// What is measured at a progress point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// The time between visits.
    Throughput,
    /// The time between a begin and its end, by Little's law.
    Latency,
}

/// What speeding a fragment up does to one progress point.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The progress point.
    pub point: String,
    /// What is measured at it.
    pub measure: Measure,
    /// The baseline: period between visits, or latency, in nanoseconds of undelayed time.
    pub baseline_ns: f64,
    /// What was measured, by ascending speedup, without the baseline.
    pub points: Vec<Point>,
    /// The curve at the speedups that were measured, by ascending speedup, without 0, where it is 0.
    pub curve: Vec<Estimate>,
    /// Slope of the regression through the origin: program speedup for each speedup of the fragment.
    pub slope: Interval,
    /// The probability of a slope this steep in any of the effects, if none had one: false discoveries
    /// are a fraction `x` of the effects with `q ≤ x`.
    pub q: f64,
    /// The part of the run time that all speedups above are multiplied by.
    pub phase: Phase,
    /// Experiments that this rests on.
    pub experiments: usize,
    /// Further experiments, which are too far from all others to count: something else disturbed them.
    pub set_aside: usize,
    /// Visits (or arrivals) in them that count.
    pub visits: u64,
    /// In words.
    pub verdict: Verdict,
}

impl Effect {
    /// The curve at its highest.
    pub fn peak(&self) -> Option<&Estimate> {
        let by_speedup = |a: &&Estimate, b: &&Estimate| a.program.total_cmp(&b.program);
        self.curve.iter().max_by(by_speedup)
    }

    /// The curve at a speedup of the fragment, which is linear between those measured; `None` beyond them.
    pub fn at(&self, speedup: f64) -> Option<Estimate> {
        let mut before = Estimate::default();
        for estimate in &self.curve {
            if estimate.speedup >= speedup {
                let part = (speedup - before.speedup) / (estimate.speedup - before.speedup);
                let between = |a: f64, b: f64| a + part * (b - a);
                return Some(Estimate {
                    speedup,
                    program: between(before.program, estimate.program),
                    low: between(before.low, estimate.low),
                    high: between(before.high, estimate.high),
                });
            }
            before = *estimate;
        }
        None
    }
}

/// Experiments with one speedup, combined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The fragment's speedup, 0 to 1.
    pub speedup: f64,
    /// The program's, negative where it became slower.
    pub program: f64,
    /// Its standard error (bootstrap).
    pub error: f64,
    /// Number of experiments.
    pub experiments: usize,
    /// Visits (or arrivals) in them.
    pub visits: u64,
}

/// A point of the curve, with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The fragment's speedup, 0 to 1.
    pub speedup: f64,
    /// The program's.
    pub program: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Says what the experiments of a profile mean.
pub fn analyse(profile: &CausalProfile, options: &Options) -> Analysis {
    let combined = Combined::of(profile);
    let mut left_out = Vec::new();
    let mut found: Vec<(usize, Effect)> = Vec::new();
    let mut enough: Vec<(&Group, Levels)> = Vec::new();
    let minimum_speedups = options.minimum_speedups.min(combined.speedups_asked_for);
    for group in &combined.groups {
        match group.levels(minimum_speedups, options.minimum_visits) {
            Ok(levels) => enough.push((group, levels)),
            Err(why) => left_out.push(LeftOut {
                name: combined.fragment_name(group.fragment),
                point: combined.point(group.point).name.clone(),
                why,
            }),
        }
    }
    enough.sort_by_key(|(group, _)| group.point);
    for of_point in enough.chunk_by_mut(|(a, _), (b, _)| a.point == b.point) {
        let mut groups: Vec<&mut Levels> = of_point.iter_mut().map(|(_, l)| l).collect();
        drift::take_out(&mut groups);
    }
    for (group, levels) in enough {
        found.push((group.fragment, effect(&combined, group, levels)));
    }
    let p: Vec<Option<f64>> = found.iter().map(|(_, e)| Some(e.slope.p)).collect();
    for ((_, effect), q) in found.iter_mut().zip(benjamini_hochberg(&p)) {
        effect.q = q.unwrap_or(1.0);
        effect.verdict = verdict::judge(effect);
    }
    let mut fragments = combined.fragments_with(found);
    fragments.sort_by(verdict::rank);
    Analysis {
        fragments,
        left_out,
        experiments: combined.experiments,
        without_sample: combined.without_sample,
        disturbed: combined.disturbed,
        warnings: combined.warnings,
    }
}

fn effect(combined: &Combined, group: &Group, levels: Levels) -> Effect {
    let phase = combined.phase(group);
    let (levels, curve, set_aside) = outliers::set_aside(levels);
    let bootstrap = bootstrap::errors(&levels, &curve);
    let point = combined.point(group.point);
    let points = levels.speedups().zip(&bootstrap.points);
    let visits = levels.all().map(|level| level.visits);
    Effect {
        point: point.name.clone(),
        measure: point.measure,
        baseline_ns: levels.baseline_period,
        points: points
            .map(|(level, error)| Point {
                speedup: level.speedup,
                program: phase.of * (1.0 - level.ratio),
                error: phase.of * error,
                experiments: level.experiments.len(),
                visits: level.visits,
            })
            .collect(),
        curve: curve.estimates(&phase),
        slope: phase.interval(bootstrap.slope, bootstrap.slope_error, curve.freedom),
        q: 1.0,
        phase,
        experiments: levels.experiments(),
        set_aside,
        visits: visits.fold(0, u64::saturating_add),
        verdict: Verdict::Unclear,
    }
}
