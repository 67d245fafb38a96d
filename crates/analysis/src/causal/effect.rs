//! The effect on a program of speeding up a fragment of its code.

use super::phase::Phase;
use crate::statistics::Interval;

/// Effects of speeding up a fragment.
#[derive(Clone, Debug)]
pub struct FragmentEffects {
    /// `path:line`, or the function.
    pub name: String,
    /// The function of a line; the place of a function.
    pub detail: String,
    /// The image, if known.
    pub image: Option<String>,
    /// The system call whose waits are sped up; `None`: its running time is sped up.
    pub waiting: Option<String>,
    /// The line of which it is one of several copies; `None` if it is the whole line.
    pub copy_of: Option<String>,
    /// Its share of the samples of all fragments over the whole run; for waits, its share of the
    /// fragments' waiting time, except waiting for work.
    pub share: f64,
    /// For each progress point, the one with the largest effect first; at least one.
    pub effects: Vec<Effect>,
}

impl FragmentEffects {
    /// Returns its name; if its waits are sped up, with the system call.
    pub fn shown_name(&self) -> String {
        match &self.waiting {
            Some(call) => format!("{} (waiting in {call})", self.name),
            None => self.name.clone(),
        }
    }
}

/// A fragment that is not reported, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The fragment.
    pub name: String,
    /// The progress point.
    pub point: String,
    /// The data that are missing.
    pub why: Lack,
}

/// The kind of data that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// No experiment with a speedup of 0, or only ones without a sample.
    Baseline,
    /// Fewer different speedups than required.
    Speedups(usize),
    /// Too few visits of the progress point.
    Visits(u64),
    /// No more experiments than different speedups: their variance is unknown.
    Experiments(usize),
}

/// The quantity measured at a progress point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// The time between visits.
    Throughput,
    /// The time between a begin and its end, by Little's law.
    Latency,
}

/// The effect of speeding up a fragment on one progress point.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The progress point.
    pub point: String,
    /// The quantity measured at it.
    pub measure: Measure,
    /// The baseline: period between visits, or latency, in nanoseconds of undelayed time.
    pub baseline_ns: f64,
    /// Measured points, by ascending speedup, without the baseline.
    pub points: Vec<Point>,
    /// The curve at the measured speedups, ascending, without 0, where it is 0.
    pub curve: Vec<Estimate>,
    /// Slope of the regression through the origin: program speedup per fragment speedup.
    pub slope: Interval,
    /// False-discovery rate: of all effects with `q ≤ x`, a fraction `x` is expected to be chance.
    pub q: f64,
    /// Fraction of the run time that scales all speedups above.
    pub phase: Phase,
    /// Number of experiments behind the effect.
    pub experiments: usize,
    /// Further experiments, set aside as disturbed because they are too far from all others.
    pub set_aside: usize,
    /// Visits (or arrivals) in them that count.
    pub visits: u64,
    /// Running time of a thread between two waits for another thread, in nanoseconds, if it is too
    /// short for delays to follow. The intervals above are then wider than chance alone makes them.
    pub meetings_every_ns: Option<f64>,
    /// The effect's meaning.
    pub verdict: EffectVerdict,
}

impl Effect {
    /// Returns the curve's highest point.
    pub fn peak(&self) -> Option<&Estimate> {
        let by_speedup = |a: &&Estimate, b: &&Estimate| a.program.total_cmp(&b.program);
        self.curve.iter().max_by(by_speedup)
    }

    /// Returns the curve at a speedup of the fragment, linear between measured speedups; `None`
    /// beyond them.
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
    /// The program's speedup, negative where it became slower.
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
    /// The program's speedup.
    pub program: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The meaning of an effect for somebody who wants a faster program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EffectVerdict {
    /// Worth it: the program becomes faster by up to this much.
    WorthIt(Estimate),
    /// Worth it up to here; a greater speedup of the fragment makes the program slower again.
    WorthItUpTo(Estimate),
    /// Contention: speeding up the fragment makes the program slower, by up to this much.
    Contention(Estimate),
    /// No effect of more than five points.
    NoEffect,
    /// Inconclusive experiments: the effect may be more than five points, or none.
    Unclear,
}
