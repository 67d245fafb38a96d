//! Experiments of all runs, put together by fragment, progress point and speedup (Coz, §2).

use super::clients::ClientWaits;
use super::disturbance::{self, Losses};
use super::effect::{Effect, FragmentEffects, Lack, Measure};
use super::meetings::Bound;
use super::phase::Phase;
use profile::{CausalProfile, CausalRun, Experiment, OtherLoad, Progress, RunEnd};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The experiments of a profile.
pub(super) struct Combined {
    fragments: Vec<Fragment>,
    points: Vec<Point>,
    /// Experiments by fragment and progress point, in the order of their first experiment.
    pub groups: Vec<Group>,
    pub experiments: usize,
    pub without_sample: usize,
    pub disturbed: usize,
    /// Number of different speedups that could have been measured, 0 included.
    pub speedups_asked_for: usize,
    pub warnings: Vec<String>,
    run_ns: f64,
    undelayed_ns: f64,
    /// Experiments with a speedup of 0, of all fragments.
    baselines: usize,
}

/// A fragment in all runs.
struct Fragment {
    name: String,
    detail: String,
    image: Option<String>,
    /// The system call that it waits in, if its waits are sped up.
    waiting: Option<String>,
    for_work: bool,
    /// The line of which it is one of several copies. The line's samples include those of the copy.
    copy_of: Option<String>,
    samples: u64,
    undelayed_samples: u64,
    /// Samples and duration of each baseline experiment with it.
    observed: Vec<(f64, f64)>,
}

/// Part of a line that a fragment covers.
pub(super) struct LineShare<'a> {
    /// The line, and whether its waits are sped up.
    pub line: (&'a str, bool),
    /// True if it is only a part of the line.
    pub is_copy: bool,
    pub samples: f64,
}

/// A progress point in all runs.
pub(super) struct Point {
    pub name: String,
    pub measure: Measure,
    visits: u64,
    departures: u64,
}

/// The experiments with one fragment, as one progress point saw them.
pub(super) struct Group {
    pub fragment: usize,
    pub point: usize,
    /// Levels by speedup in percent.
    levels: BTreeMap<u8, Level>,
}

/// Experiments with one speedup.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// 0 to 1.
    pub speedup: f64,
    pub experiments: Vec<Observation>,
    pub visits: u64,
    /// Visits that count: those of down-weighted experiments count in part.
    counted: f64,
    amount: f64,
    /// Its period (or latency) divided by that of the baseline.
    pub ratio: f64,
}

/// The observation of one progress point by one experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// Effective duration in nanoseconds, without time lost to others; for latency, times the mean
    /// number in flight.
    pub amount: f64,
    /// Visits, or arrivals.
    pub visits: f64,
    /// Number of the run.
    pub run: u32,
    /// The middle of the experiment, in seconds since the start of the run.
    pub time: f64,
    /// Weight of the experiment; amount and visits are already multiplied by it.
    pub weight: f64,
}

/// The levels of a group with enough data.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    pub baseline: Level,
    pub baseline_period: f64,
    above: Vec<Level>,
    /// Fraction of the degrees of freedom that is left after adjustments estimated from the same
    /// experiments.
    pub freedom: f64,
}

impl Level {
    fn seen(&self) -> bool {
        self.counted > 0.0 && self.amount > 0.0
    }

    /// Returns the visits that count.
    pub fn counted_visits(&self) -> f64 {
        self.counted
    }

    fn keep(&self, kept: impl Fn(usize) -> bool) -> Self {
        let numbered = self.experiments.iter().enumerate();
        let numbered = numbered.filter(|(number, _)| kept(*number));
        self.with(numbered.map(|(_, one)| *one).collect())
    }

    /// Returns the same level with these experiments.
    fn with(&self, experiments: Vec<Observation>) -> Self {
        let visits = experiments.iter().map(|one| one.visits).sum::<f64>();
        let amount = experiments.iter().map(|one| one.amount).sum();
        Self {
            visits: visits.round() as u64,
            counted: visits,
            amount,
            experiments,
            ..*self
        }
    }
}

impl Levels {
    fn new(baseline: Level, mut above: Vec<Level>) -> Option<Self> {
        let baseline_period = baseline.amount / baseline.counted;
        for level in &mut above {
            level.ratio = level.amount / level.counted / baseline_period;
        }
        let enough = baseline.seen() && !above.is_empty();
        enough.then_some(Self {
            baseline,
            baseline_period,
            above,
            freedom: 1.0,
        })
    }

    /// Returns levels whose experiments have a weight and a factor on their expected visits.
    /// `factors` has the factor and the weight of each experiment, by ascending speedup. `None` if
    /// too little is left.
    pub fn scale_experiments(&self, factors: &[(f64, f64)], freedom: f64) -> Option<Self> {
        let mut factors = factors.iter();
        let mut scale = |level: &Level| {
            let experiments = level.experiments.iter().zip(factors.by_ref());
            let experiments = experiments.map(|(one, (speed, weight))| Observation {
                amount: one.amount * speed * weight,
                visits: one.visits * weight,
                weight: *weight,
                ..*one
            });
            level.with(experiments.collect())
        };
        let baseline = scale(&self.baseline);
        let above = self.above.iter().map(scale).collect();
        let levels = Self::new(baseline, above)?;
        Some(Self { freedom, ..levels })
    }

    /// Returns the weight of an experiment, by the numbers of its level and its own.
    pub fn experiment_weight(&self, level: usize, number: usize) -> f64 {
        let level = self.all().nth(level);
        let one = level.and_then(|level| level.experiments.get(number));
        one.map_or(1.0, |one| one.weight)
    }

    /// Returns levels with only the `kept` experiments, by the numbers of level and experiment;
    /// `None` if too little is left.
    pub fn keep(&self, kept: impl Fn(usize, usize) -> bool) -> Option<Self> {
        let baseline = self.baseline.keep(|number| kept(0, number));
        let above = self.above.iter().enumerate();
        let above = above.map(|(level, it)| it.keep(|number| kept(level + 1, number)));
        let levels = Self::new(baseline, above.filter(Level::seen).collect())?;
        Some(Self {
            freedom: self.freedom,
            ..levels
        })
    }

    /// Returns the levels with a speedup above 0, ascending.
    pub fn speedups(&self) -> std::slice::Iter<'_, Level> {
        self.above.iter()
    }

    pub fn all(&self) -> impl Iterator<Item = &Level> {
        std::iter::once(&self.baseline).chain(&self.above)
    }

    pub fn experiments(&self) -> usize {
        self.all().map(|level| level.experiments.len()).sum()
    }
}

impl Group {
    /// Returns the levels with visits, or what is missing.
    pub fn levels_with_visits(
        &self,
        minimum_speedups: usize,
        minimum_visits: u64,
    ) -> Result<Levels, Lack> {
        let baseline = self.levels.get(&0).ok_or(Lack::Baseline)?.clone();
        if self.levels.len() < minimum_speedups.max(2) {
            return Err(Lack::Speedups(self.levels.len()));
        }
        let mut above: Vec<Level> = self.levels.values().skip(1).cloned().collect();
        above.retain(Level::seen);
        let visits = above.iter().map(|level| level.visits);
        let visits = visits.fold(0, u64::saturating_add);
        let least = visits.min(baseline.visits);
        if least < minimum_visits.max(1) {
            return Err(Lack::Visits(least));
        }
        let levels = Levels::new(baseline, above).ok_or(Lack::Visits(least))?;
        // The curve's start and slope, two numbers, are estimated at least, and levels of a single
        // experiment show no variation.
        let repeated = levels.all().any(|level| level.experiments.len() > 1);
        match levels.experiments() {
            n if n < 4 || !repeated => Err(Lack::Experiments(n)),
            _ => Ok(levels),
        }
    }
}

/// Numbers of fragments and points, by the properties that identify them across runs.
#[derive(Default)]
struct Index {
    fragments: FxHashMap<(String, Option<String>, bool), usize>,
    points: FxHashMap<(String, Measure), usize>,
    groups: FxHashMap<(usize, usize), usize>,
}

impl Combined {
    /// Combines the runs.
    pub fn of(profile: &CausalProfile) -> Self {
        let mut combined = Self {
            fragments: Vec::new(),
            points: Vec::new(),
            groups: Vec::new(),
            experiments: 0,
            without_sample: 0,
            disturbed: 0,
            speedups_asked_for: speedups_asked_for(profile),
            warnings: Vec::new(),
            run_ns: 0.0,
            undelayed_ns: 0.0,
            baselines: 0,
        };
        let mut index = Index::default();
        for (number, run) in (0..).zip(&profile.runs) {
            combined.add_run(run, number, &mut index);
        }
        combined.add_warnings(profile);
        combined
    }

    fn add_run(&mut self, run: &CausalRun, number: u32, index: &mut Index) {
        self.run_ns += run.duration_ns as f64;
        self.undelayed_ns += run.undelayed_ns as f64;
        let fragments: Vec<usize> = run
            .fragments
            .iter()
            .map(|fragment| {
                let image = fragment.image.and_then(|i| run.images.get(i as usize));
                let image = image.map(|image| image.path.clone());
                let waiting = fragment.waiting.as_ref();
                let key = (fragment.name.clone(), image, waiting.is_some());
                let position = *index.fragments.entry(key).or_insert_with_key(|key| {
                    self.fragments.push(Fragment {
                        name: key.0.clone(),
                        detail: fragment.detail.clone(),
                        image: key.1.clone(),
                        waiting: waiting.map(|it| it.call.clone()),
                        for_work: waiting.is_some_and(|it| it.for_work),
                        copy_of: fragment.copy_of.clone(),
                        samples: 0,
                        undelayed_samples: 0,
                        observed: Vec::new(),
                    });
                    self.fragments.len() - 1
                });
                if let Some(all) = self.fragments.get_mut(position) {
                    all.samples = all.samples.saturating_add(fragment.samples);
                    let undelayed = fragment.undelayed_samples;
                    all.undelayed_samples = all.undelayed_samples.saturating_add(undelayed);
                }
                position
            })
            .collect();
        let cpus = run.host.cpus;
        let limit = OtherLoad::during(&run.experiments, cpus).limit();
        let counts = |it: &Experiment| it.samples > 0 && it.part_of_others(cpus) <= limit;
        // Keeping to the pace costs time, which both sides must have. (Older profiles have no such
        // baselines.)
        let keeps_pace = run
            .experiments
            .iter()
            .any(|it| it.at_pace && it.speedup == 0.0);
        let is_alike = |it: &Experiment| it.at_pace || !keeps_pace;
        let alike = run.experiments.iter().filter(|it| is_alike(it));
        let losses = Losses::of(run.host.cpus, alike.clone());
        let counted = alike.filter(|it| counts(it));
        let clients = ClientWaits::of(run, counted.map(|it| (it, own_ns(&losses, it))));
        for experiment in &run.experiments {
            self.experiments += 1;
            self.baselines += usize::from(experiment.speedup == 0.0);
            let fragment = fragments.get(experiment.fragment as usize).copied();
            // Includes experiments that do not count below: a disturbance is in the run's samples
            // too.
            if experiment.speedup == 0.0
                && experiment.samples > 0
                && let Some(fragment) = fragment.and_then(|at| self.fragments.get_mut(at))
            {
                let (samples, time) = (experiment.samples as f64, experiment.duration_ns as f64);
                fragment.observed.push((samples, time));
            }
            if !is_alike(experiment) {
                continue;
            }
            let own = own_ns(&losses, experiment);
            if experiment.samples == 0 || experiment.effective_ns() == 0 {
                self.without_sample += 1;
            } else if experiment.part_of_others(cpus) > limit || own <= 0.0 {
                self.disturbed += 1;
            } else if let Some(fragment) = fragment {
                self.observe((run, number), (experiment, own), &clients, fragment, index);
            }
        }
    }

    fn observe(
        &mut self,
        (run, number): (&CausalRun, u32),
        (it, own): (&Experiment, f64),
        clients: &ClientWaits,
        fragment: usize,
        index: &mut Index,
    ) {
        let percent = (100.0 * it.speedup).round().clamp(0.0, 100.0) as u8;
        for (at, (point, count)) in run.points.iter().zip(&it.counts).enumerate() {
            let (measure, visits, departures, amount) = match *count {
                Progress::Visits(visits) => {
                    let amount = clients.own_time(at, it, own, visits);
                    (Measure::Throughput, visits, visits, amount)
                }
                Progress::Latency {
                    arrivals,
                    departures,
                    in_flight,
                } => (Measure::Latency, arrivals, departures, in_flight * own),
            };
            // More than a century of a thousand million in flight is corrupt data, and would spoil
            // the arithmetic.
            if amount > 1e28 {
                continue;
            }
            let key = (point.name.clone(), measure);
            let position = *index.points.entry(key).or_insert_with_key(|key| {
                self.points.push(Point {
                    name: key.0.clone(),
                    measure,
                    visits: 0,
                    departures: 0,
                });
                self.points.len() - 1
            });
            if let Some(all) = self.points.get_mut(position) {
                all.visits = all.visits.saturating_add(visits);
                all.departures = all.departures.saturating_add(departures);
            }
            let group = *index.groups.entry((fragment, position)).or_insert_with(|| {
                self.groups.push(Group {
                    fragment,
                    point: position,
                    levels: BTreeMap::new(),
                });
                self.groups.len() - 1
            });
            if let Some(group) = self.groups.get_mut(group) {
                let level = group.levels.entry(percent).or_default();
                level.speedup = f64::from(percent) / 100.0;
                level.visits = level.visits.saturating_add(visits);
                level.amount += amount;
                level.counted += visits as f64;
                level.experiments.push(Observation {
                    amount,
                    visits: visits as f64,
                    run: number,
                    time: (it.start_ns as f64 + 0.5 * it.duration_ns as f64) / 1e9,
                    weight: 1.0,
                });
            }
        }
    }

    pub fn fragment_name(&self, fragment: usize) -> String {
        let fragment = self.fragments.get(fragment);
        fragment.map_or_else(String::new, |fragment| match &fragment.waiting {
            Some(_) => format!("{} (waiting)", fragment.name),
            None => fragment.name.clone(),
        })
    }

    /// Returns the line that a fragment is, or is a copy of.
    pub fn line_of(&self, fragment: usize) -> Option<LineShare<'_>> {
        let fragment = self.fragments.get(fragment)?;
        let line = fragment.copy_of.as_ref().unwrap_or(&fragment.name);
        Some(LineShare {
            line: (line, fragment.waiting.is_some()),
            is_copy: fragment.copy_of.is_some(),
            samples: fragment.samples as f64,
        })
    }

    pub fn point(&self, point: usize) -> &Point {
        const NONE: &Point = &Point {
            name: String::new(),
            measure: Measure::Throughput,
            visits: 0,
            departures: 0,
        };
        self.points.get(point).unwrap_or(NONE)
    }

    /// Returns the part of the run time in which the group's fragment runs.
    pub fn group_phase(&self, group: &Group) -> Phase {
        let Some(fragment) = self.fragments.get(group.fragment) else {
            return Phase::ALWAYS;
        };
        let of = fragment.observed.iter();
        Phase::new(
            fragment.undelayed_samples as f64,
            self.undelayed_ns,
            &of.copied().collect::<Vec<_>>(),
            self.baselines,
            self.undelayed_ns / self.run_ns.max(1.0),
        )
    }

    /// Returns the most that the group's fragment can be worth.
    pub fn bound_of(&self, runs: &[CausalRun], group: &Group) -> Bound {
        let fragment = self.fragments.get(group.fragment);
        let samples = fragment.map_or(0, |fragment| fragment.undelayed_samples);
        let measure = self.point(group.point).measure;
        Bound::new(runs, measure, samples, self.undelayed_ns)
    }

    /// Returns the effects by fragment, with the facts about each fragment.
    pub fn fragments_with(&self, effects: Vec<(usize, Effect)>) -> Vec<FragmentEffects> {
        let all_of = |waiting: bool| {
            let is_whole = |it: &&Fragment| it.copy_of.is_none() && !it.for_work;
            let same = |it: &&Fragment| it.waiting.is_some() == waiting && is_whole(it);
            let samples = self.fragments.iter().filter(same).map(|it| it.samples);
            samples.fold(0, u64::saturating_add) as f64
        };
        let (ran, waited) = (all_of(false), all_of(true));
        let mut by_fragment: BTreeMap<usize, Vec<Effect>> = BTreeMap::new();
        for (fragment, effect) in effects {
            by_fragment.entry(fragment).or_default().push(effect);
        }
        let finding = |(fragment, mut effects): (usize, Vec<Effect>)| {
            let fragment = self.fragments.get(fragment)?;
            effects.sort_by(super::verdict::rank_effects);
            Some(FragmentEffects {
                name: fragment.name.clone(),
                detail: fragment.detail.clone(),
                image: fragment.image.clone(),
                waiting: fragment.waiting.clone(),
                copy_of: fragment.copy_of.clone(),
                share: match fragment.waiting {
                    None => fragment.samples as f64 / ran.max(1.0),
                    Some(_) => fragment.samples as f64 / waited.max(1.0),
                },
                effects,
            })
        };
        by_fragment.into_iter().filter_map(finding).collect()
    }

    fn add_warnings(&mut self, profile: &CausalProfile) {
        let mut warnings: BTreeSet<String> = BTreeSet::new();
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        warnings.extend(disturbance::busy_warning(&profile.runs));
        for run in &profile.runs {
            for warning in &run.warnings {
                // Each run's warning has its own numbers; one such warning is enough.
                if kinds.insert(without_numbers(warning)) {
                    warnings.insert(warning.clone());
                }
            }
            let has_pauses = !run.settings.end_to_end && !run.experiments.is_empty();
            if run.undelayed_ns == 0 && has_pauses {
                warnings.insert(
                    "it is not known when nothing was delayed, so nothing is corrected for phases: what \
                     runs in a part of the time is overstated"
                        .to_owned(),
                );
            }
            if let RunEnd::Signalled(signal) = run.end {
                warnings.insert(format!(
                    "signal {signal} ended a run: what was measured until then counts"
                ));
            }
        }
        let differs = |of: &dyn Fn(&CausalRun) -> String| {
            let all: BTreeSet<String> = profile.runs.iter().map(of).collect();
            all.len() > 1
        };
        if was_rebuilt(profile) {
            warnings.insert(
                "the program was built anew between the runs: its lines may have moved".into(),
            );
        }
        if differs(&|run| run.host.name.clone()) {
            warnings.insert("the runs are of different machines".into());
        }
        if differs(&|run| format!("{:?}", run.command)) {
            warnings.insert("the runs are of different commands".into());
        }
        for point in &self.points {
            let (arrivals, departures) = (point.visits, point.departures);
            if arrivals.abs_diff(departures) as f64 > 0.05 * arrivals as f64 {
                warnings.insert(format!(
                    "{}: {arrivals} began in the experiments and {departures} ended: Little's law, by which \
                     the latency is computed, needs as many",
                    point.name
                ));
            }
        }
        self.warnings = warnings.into_iter().collect();
    }
}

/// Least part of an experiment that must be the program's own: below that, the loss is larger than
/// its estimate is good for.
const LEAST_OWN: f64 = 0.1;

/// Returns the effective duration (§2) without time that the program lost to others, in
/// nanoseconds; 0 if hardly anything is left.
fn own_ns(losses: &Losses, experiment: &Experiment) -> f64 {
    let effective = experiment.effective_ns() as f64;
    let own = effective - losses.time_lost(experiment);
    if own < LEAST_OWN * effective {
        0.0
    } else {
        own
    }
}

/// Returns whether an image has different build-ids in different runs.
fn was_rebuilt(profile: &CausalProfile) -> bool {
    let mut known = FxHashMap::default();
    let mut images = profile.runs.iter().flat_map(|run| &run.images);
    images.any(|image| {
        let first = known.entry(&image.path).or_insert(&image.build_id);
        *first != &image.build_id
    })
}

/// Returns how many different speedups the runs could have measured, 0 among them.
fn speedups_asked_for(profile: &CausalProfile) -> usize {
    let mut asked_for = BTreeSet::from([0]);
    for run in &profile.runs {
        if run.settings.fixed_speedups.is_empty() {
            return usize::MAX;
        }
        let fixed = run.settings.fixed_speedups.iter();
        asked_for.extend(fixed.map(|speedup| (100.0 * speedup).round() as i64));
    }
    asked_for.len()
}

/// Returns the text of a warning without its digits.
fn without_numbers(warning: &str) -> String {
    let kept = |letter: &char| !letter.is_ascii_digit();
    warning.chars().filter(kept).collect()
}
