//! Causal profiles: what would speeding this code up be worth?
//!
//! The method of Coz (Curtsinger, Berger: *Coz: Finding Code that Counts with Causal Profiling*,
//! SOSP 2015), §2 and "Adjusting for phases". A [`profile::CausalProfile`] holds the experiments: a
//! fragment of code was virtually sped up by a fraction `s`, which delayed everything else, and
//! visits of progress points were counted. The estimates, for each fragment and progress point:
//!
//! - **The period** `p_s`: experiments with the same fragment and speedup are combined by adding
//!   their effective durations (wall time less delays) and their visits; `p_s` is the quotient. For
//!   a pair of begin and end it is the latency by Little's law, `W = L/λ`, which is the same
//!   quotient with `L` times the duration above and arrivals below.
//! - **The program speedup** `1 − p_s/p_0`, by the baseline `p_0` of the same fragment and point. A
//!   shorter latency is a speedup, as a shorter period is.
//! - **The phase correction**: everything times `t_A/T`, the part of the run time in which the
//!   fragment runs (eq. 5–8, [`Phase`]).
//! - **The curve** through these points: the smooth one that explains the experiments best
//!   (`curve`). Its band contains the truth with a probability of 95 %.
//! - **The slope** of the regression through the origin, by which fragments are ranked, with
//!   standard errors by a bootstrap over the experiments (`bootstrap`).
//!
//! # Assumptions
//!
//! Experiments are independent given the fragment and the machine's speed at the time, which is a
//! random walk that experiments with all fragments see alike (`drift`). The variance of an
//! experiment's visits is in proportion to how many are expected. Little's law needs as many
//! departures as arrivals ([`Analysis::warnings`] says where that fails); the phase correction
//! assumes that as many requests are in flight in other phases.
//!
//! Intervals include the measured error of the method beside chance (`method_error`).
//!
//! # Why an experiment is set aside
//!
//! - `combine`: the fragment had no sample in it.
//! - `disturbance`: the machine did much other work meanwhile.
//! - `outliers`: it is far from the curve, and few are.
//!
//! A fragment and point with too few experiments left have no effect, but a reason ([`Lack`]). The
//! command counts the experiments set aside in `cli/src/commands/causal/text.rs`.
//!
//! # From experiments to a curve
//!
//! `analyse_profile` takes these steps, a file each:
//!
//! 1. `combine` groups experiments by fragment, progress point and speedup.
//! 2. `drift` takes the machine's changing speed out.
//! 3. `curve` smooths the ratios of periods and computes their band; `bootstrap` gives the errors
//!    of points and slope.
//! 4. `phase` scales both to the whole run. `verdict` classifies the effect.
//!
//! The result is `Effect::curve` (`effect`): an `Estimate` for each speedup. The command reads
//! profiles by `store::read_causal` or `formats::coz`, and draws the curve as text, SVG and JSON
//! (`cli/src/commands/causal`); the page draws it in `web/src/views/causal.tsx`.

mod bootstrap;
mod claims;
mod clients;
mod combine;
mod copies;
mod curve;
mod disturbance;
mod drift;
mod effect;
mod meetings;
mod method_error;
mod outliers;
mod phase;
mod verdict;

pub use claims::findings;
pub use effect::{Effect, EffectVerdict, Estimate, FragmentEffects, Lack, LeftOut, Measure, Point};
pub use phase::Phase;

use crate::statistics::benjamini_hochberg;
use combine::{Combined, Group, Levels};
use meetings::FrequentMeetings;
use profile::CausalProfile;

/// Options of the report.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Fewest different speedups of a fragment, 0 included (§2: 5); fragments with fewer are left
    /// out. If fewer were requested, fewer are enough.
    pub minimum_speedups: usize,
    /// Fewest visits of the progress point in all baselines, and in all experiments with a speedup.
    pub minimum_visits: u64,
    /// True if intervals cover chance alone, and not the error of the method that programs with a
    /// measured truth show.
    pub chance_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            minimum_speedups: 5,
            minimum_visits: 5,
            chance_only: false,
        }
    }
}

/// Results of the experiments.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Fragments with an effect, those most worth it first.
    pub fragments: Vec<FragmentEffects>,
    /// Fragments with experiments but without an effect, and the reason.
    pub left_out: Vec<LeftOut>,
    /// Number of experiments carried out.
    pub experiments: usize,
    /// Experiments in which the fragment had no sample; they do not count.
    pub without_sample: usize,
    /// Other experiments that do not count, because the machine did too much other work meanwhile.
    pub disturbed: usize,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

impl Analysis {
    /// Keeps the results of one progress point only.
    pub fn keep_point(&mut self, point: &str) {
        for fragment in &mut self.fragments {
            fragment.effects.retain(|effect| effect.point == point);
        }
        let fragments = &mut self.fragments;
        fragments.retain(|fragment| !fragment.effects.is_empty());
        fragments.sort_by(verdict::by_largest_effect);
        self.left_out.retain(|left_out| left_out.point == point);
    }
}

/// Analyses the experiments of a profile.
pub fn analyse_profile(profile: &CausalProfile, options: &Options) -> Analysis {
    let combined = Combined::of(profile);
    let mut left_out = Vec::new();
    let mut found: Vec<(usize, Effect)> = Vec::new();
    let mut enough: Vec<(&Group, Levels)> = Vec::new();
    let minimum_speedups = options.minimum_speedups.min(combined.speedups_asked_for);
    for group in &combined.groups {
        match group.levels_with_visits(minimum_speedups, options.minimum_visits) {
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
    let meetings = FrequentMeetings::of(profile);
    for (group, levels) in enough {
        let mut effect = effect_of_group(&combined, group, levels);
        if !options.chance_only {
            effect.slope = method_error::widen(effect.slope, &mut effect.curve);
        }
        if let Some(meetings) = &meetings {
            let bound = combined.bound_of(&profile.runs, group);
            effect.slope = meetings.widen(bound, effect.slope, &mut effect.curve);
            effect.meetings_every_ns = Some(meetings.every_ns);
        }
        found.push((group.fragment, effect));
    }
    copies::keep_different(&combined, &mut found);
    let p: Vec<Option<f64>> = found.iter().map(|(_, e)| Some(e.slope.p)).collect();
    for ((_, effect), q) in found.iter_mut().zip(benjamini_hochberg(&p)) {
        effect.q = q.unwrap_or(1.0);
        effect.verdict = verdict::judge_effect(effect);
    }
    let mut warnings = combined.warnings.clone();
    match meetings {
        Some(meetings) => warnings.push(meetings.warning(profile)),
        None => warnings.extend(too_frequent(profile, &found)),
    }
    let mut fragments = combined.fragments_with(found);
    fragments.sort_by(verdict::by_largest_effect);
    Analysis {
        fragments,
        left_out,
        experiments: combined.experiments,
        without_sample: combined.without_sample,
        disturbed: combined.disturbed,
        warnings,
    }
}

/// Sampling periods for one step of progress below which progress is more frequent than delays can
/// follow: predictions were right for threads that met every 5 ms, and half of the truth for those
/// that met every millisecond.
const FOLLOWED: f64 = 4.0;

/// Mean number of threads that want to run at a time, up to which a program is taken to have one
/// working thread, which meets nobody.
const ONE_THREAD: f64 = 1.05;

/// Returns whether the program has one working thread; false if the kernel did not say.
fn runs_one_thread(profile: &CausalProfile) -> bool {
    let mut experiments = profile.runs.iter().flat_map(|run| &run.experiments);
    experiments.all(|it| {
        let target = it.disturbance.and_then(|it| it.target);
        target.is_some_and(|target| {
            let (threads, _) = disturbance::at_a_time(target, (it.duration_ns as f64).max(1.0));
            threads <= ONE_THREAD
        })
    })
}

/// Returns a warning if progress is made more often than delays can follow. A delay is as long as a
/// sampling period, and follows a sample: threads that meet in between wait for each other at some
/// meetings, which real speedups would not cause.
fn too_frequent(profile: &CausalProfile, found: &[(usize, Effect)]) -> Option<String> {
    if runs_one_thread(profile) {
        return None;
    }
    let periods = profile.runs.iter().map(|run| run.settings.sample_period_ns);
    let period = periods.max().filter(|period| *period > 0)? as f64;
    let throughputs = found.iter().map(|(_, effect)| effect);
    let fastest = throughputs
        .filter(|effect| effect.measure == Measure::Throughput)
        .min_by(|a, b| a.baseline_ns.total_cmp(&b.baseline_ns))
        .filter(|effect| effect.baseline_ns < FOLLOWED * period)?;
    Some(format!(
        "{}: visited every {:.2} ms, and delays come about every {:.0} ms: if threads meet at each visit, effects are further from the \
         truth than their intervals say, mostly too small",
        fastest.point,
        fastest.baseline_ns / 1e6,
        period / 1e6
    ))
}

fn effect_of_group(combined: &Combined, group: &Group, levels: Levels) -> Effect {
    let phase = combined.group_phase(group);
    let (levels, curve, set_aside) = outliers::set_aside(levels);
    let bootstrap = bootstrap::resample_errors(&levels, &curve);
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
        meetings_every_ns: None,
        verdict: EffectVerdict::Unclear,
    }
}
