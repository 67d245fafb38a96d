//! One experiment after the other (sections 2 and 3.2).

use crate::allocation::{self, Candidate};
use crate::choose::{Dice, Tried};
use crate::code::TargetCode;
use crate::fragments;
use crate::host::{Accounts, shares_processors};
use crate::period::affordable_period;
use crate::points::PointCount;
use crate::trials::Trials;
use crate::wait_watch::wait_call;
use crate::{ExperimentOptions, Hint};
use profile::{CountedBy, Experiment, OtherLoad, Progress, ProgressPoint};
use runtime_abi::{Clock, Page, Running};
use rustc_hash::FxHashMap;
use sampler::ExternalWaits;
use std::rc::Weak;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// Pause between two experiments.
pub(crate) const COOLOFF: Duration = Duration::from_millis(10);
/// Least number of visits that an experiment should have (section 2: five).
const FEW: u64 = 5;
/// Limit on the length of experiments, in units of the shortest.
const LONGEST: u32 = 16;
/// Time between two looks for the visit that an experiment begins or ends with.
const EDGE_TICK: Duration = Duration::from_millis(1);
/// Visits per second above which one visit more or less does not matter.
const OFTEN: f64 = 1000.0;
/// Threads are delayed at the pace of the line if they run for fewer sampling periods than this
/// between two synchronisations. Tuned with the simulation of
/// `crates/runtime-abi/tests/line_pace.rs`.
const OFTEN_MET: f64 = 2.0;

/// The weight of waits that have shown no gain. They get its square root, a tenth, of their
/// experiments.
const DULL: f64 = 0.01;

/// The program runs with delays for one part in this many of an experiment before counting starts,
/// so that full queues can run empty first (`queue` of `tests/programs/causal/meetings.c`: 12
/// points).
const SETTLING: u32 = 8;

/// The current phase.
enum ExperimentPhase {
    /// A pause until this time.
    Pause(Duration),
    /// Delays have begun; counting starts at this time.
    Settle(Duration),
    /// About to begin with a visit of a point: the start of that wait, the point's index, its count
    /// then.
    Begin(Duration, usize, u64),
    /// In an experiment until this time.
    Run(Duration),
    /// About to end with a visit of a point: the start of that wait, the point's index, its count
    /// then.
    End(Duration, usize, u64),
}

/// The subject of an experiment: a fragment's running time, or its waits for outside events. Both
/// are numbered in one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Number of the fragment.
    pub fragment: u32,
    /// True if the fragment's waits are sped up, not its running time.
    pub waiting: bool,
}

impl Choice {
    /// Returns the choice with this number.
    pub fn numbered(number: usize) -> Self {
        Self {
            fragment: (number / 2) as u32,
            waiting: !number.is_multiple_of(2),
        }
    }

    /// Returns the choice of the whole line, if the fragment is one of several copies of a line.
    fn line_as_a_whole(self, code: &TargetCode) -> Option<Self> {
        let fragment = code.fragments().whole_of(self.fragment)?;
        Some(Self { fragment, ..self })
    }

    /// Returns the choice's number.
    pub fn number(self) -> usize {
        2 * self.fragment as usize + usize::from(self.waiting)
    }
}

/// The current experiment.
struct Current {
    choice: Choice,
    speedup: f64,
    /// Start of the delays, with the samples until then.
    settles: Duration,
    sampled_before: Vec<u64>,
    /// Start of counting, with the counts and delays until then.
    start: Duration,
    counts: Vec<PointCount>,
    samples: Vec<u64>,
    delayed_before: u64,
    /// In-flight visits of each point, summed over time in nanoseconds, without delays.
    in_flight: Vec<f64>,
    /// Counts at the last look, and the delay until then.
    looked: Duration,
    last: Vec<PointCount>,
    delay_ns: u64,
    /// The machine's accounts at the experiment's start, and at its end if that came before this
    /// process looked.
    accounts: Option<Accounts>,
    ended: Option<Accounts>,
    /// Number of synchronisations until the start, and of samples in busy-waiting code.
    meetings: u64,
    spinning: u64,
    /// True if delays are charged at the pace of the line.
    at_pace: bool,
}

impl Current {
    /// Makes an experiment whose delays begin now.
    fn new(choice: Choice, speedup: f64, now: Duration) -> Self {
        Self {
            choice,
            speedup,
            settles: now,
            sampled_before: Vec::new(),
            start: now,
            counts: Vec::new(),
            samples: Vec::new(),
            delayed_before: 0,
            in_flight: Vec::new(),
            looked: now,
            last: Vec::new(),
            delay_ns: 0,
            accounts: None,
            ended: None,
            meetings: 0,
            spinning: 0,
            at_pace: false,
        }
    }

    /// Returns the progress of each point since the start of an experiment, of which `effective`
    /// nanoseconds are without delays.
    fn progress_until(&self, counts: &[PointCount], effective: f64) -> Vec<Progress> {
        let progress = counts.iter().enumerate().map(|(number, count)| {
            match (*count, self.counts.get(number)) {
                (PointCount::Visits(after), Some(PointCount::Visits(before))) => {
                    Progress::Visits(after.saturating_sub(*before))
                }
                (PointCount::Visits(after), _) => Progress::Visits(after),
                (PointCount::Latency(begins, ends, _), before) => {
                    let (b, e) = match before {
                        Some(PointCount::Latency(b, e, _)) => (*b, *e),
                        _ => (0, 0),
                    };
                    let sum = self.in_flight.get(number).copied().unwrap_or(0.0);
                    Progress::Latency {
                        arrivals: begins.saturating_sub(b),
                        departures: ends.saturating_sub(e),
                        in_flight: (sum / effective).max(0.0),
                    }
                }
            }
        });
        progress.collect()
    }
}

/// Frequency of the program's synchronisations, kept from one run of a command to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownMeetings {
    /// Running time of a thread between two synchronisations, in nanoseconds, in the last
    /// experiment without delays.
    every_ns: Option<f64>,
    /// True once synchronisations were frequent: delays are charged at the pace of the line from
    /// then on.
    at_pace: bool,
}

/// The experiments of a run.
pub(crate) struct Experiments {
    /// Completed experiments. The fragment is the number of a [`Choice`].
    pub done: Vec<Experiment>,
    dice: Dice,
    fixed_fragment: Option<String>,
    fixed_speedup: Option<f64>,
    most_delay: Option<f64>,
    period_ns: u64,
    shortest: Duration,
    length: Duration,
    phase: ExperimentPhase,
    current: Option<Current>,
    epoch: u16,
    /// Samples by choice when the last experiment began.
    before: Vec<u64>,
    /// Number of the machine's processors.
    cpus: u32,
    /// The choice and speedup of the first experiment of a pair, while the second is due.
    first: Option<(usize, f64)>,
    /// Samples by choice in experiments with delays, and the duration of those.
    delayed: Vec<u64>,
    delayed_time: Duration,
    /// Sum of all delays.
    delay_ns: u64,
    meetings: KnownMeetings,
    /// True if hooks see the program's operations.
    hooks: bool,
    /// The watch of waits, while it exists.
    waits: Weak<ExternalWaits>,
}

impl Experiments {
    /// Makes the experiments of a run. `hooks`: hooks see the program's operations, so that delays
    /// can be charged at the pace of the line.
    pub fn new(
        options: &ExperimentOptions,
        hooks: bool,
        waits: Weak<ExternalWaits>,
        meetings: KnownMeetings,
    ) -> Self {
        let seed = options.seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            let now = now.duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| now.as_nanos() as u64)
        });
        let whole = options.end_to_end.is_some();
        Self {
            done: Vec::new(),
            dice: Dice::new(seed),
            fixed_fragment: match &options.set {
                Some(set) => Some(set.set_name()),
                None => options.fixed_fragment.clone(),
            },
            fixed_speedup: options.fixed_speedup,
            most_delay: options.most_delay,
            period_ns: affordable_period(),
            shortest: options.shortest,
            length: options.shortest,
            phase: ExperimentPhase::Pause(if whole { Duration::MAX } else { COOLOFF }),
            current: None,
            epoch: 0,
            before: Vec::new(),
            cpus: sampler::read_host().cpus,
            first: None,
            delayed: Vec::new(),
            delayed_time: Duration::ZERO,
            delay_ns: 0,
            meetings,
            hooks,
            waits,
        }
    }

    /// Reads the accounts of the machine and the program's threads; `None` where the kernel has
    /// none.
    fn read_accounts(&self, page: &Page) -> Option<Accounts> {
        Accounts::read_now(page, self.waits.upgrade().as_deref())
    }

    /// Returns the time until the next action, if no visits in flight have to be watched.
    pub fn time_to_rest(&self, now: Duration) -> Duration {
        match self.phase {
            ExperimentPhase::Pause(end)
            | ExperimentPhase::Settle(end)
            | ExperimentPhase::Run(end) => end.saturating_sub(now),
            ExperimentPhase::Begin(..) | ExperimentPhase::End(..) => Duration::ZERO,
        }
    }

    /// Carries out the actions that are due; returns the time until the next.
    pub fn advance_to(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
    ) -> Duration {
        self.watch_in_flight(page, counts, now);
        let rest = self.time_to_rest(now);
        if !rest.is_zero() {
            let watched = matches!(self.phase, ExperimentPhase::Run(_))
                && counts.iter().any(PointCount::is_latency);
            return if watched {
                EDGE_TICK
            } else {
                rest.max(EDGE_TICK)
            };
        }
        match self.phase {
            ExperimentPhase::Pause(_) => self.begin_experiment(page, code, counts, now),
            ExperimentPhase::Settle(_) => match edge_point(counts, now) {
                Some(point) => {
                    self.phase =
                        ExperimentPhase::Begin(now, point, progress_of_point(counts, point))
                }
                None => self.begin_counting(page, code, counts, now),
            },
            ExperimentPhase::Begin(since, point, count) => {
                if progress_of_point(counts, point) == count && now < since + self.length {
                    return EDGE_TICK;
                }
                self.begin_counting(page, code, counts, now);
            }
            ExperimentPhase::Run(_) => match edge_point(counts, now) {
                Some(point) => {
                    self.phase = ExperimentPhase::End(now, point, progress_of_point(counts, point))
                }
                None => self.finish_experiment(page, code, counts, now),
            },
            ExperimentPhase::End(since, point, count) => {
                if progress_of_point(counts, point) == count && now < since + self.length {
                    return EDGE_TICK;
                }
                self.finish_experiment(page, code, counts, now);
            }
        }
        EDGE_TICK
    }

    /// Starts an experiment on a fragment that runs now.
    fn begin_experiment(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
    ) {
        let samples = samples_by_choice(page, code);
        let candidates = self.candidates(page, code, &samples, now);
        let Some((choice, mut speedup)) = self.choose_fragment(&candidates) else {
            self.phase = ExperimentPhase::Pause(now + COOLOFF);
            return;
        };
        let passed = now.as_nanos() as f64;
        // The delay so far does not depend on this experiment's outcome.
        let is_too_much = |most| self.delay_ns as f64 > most * passed;
        if self.most_delay.is_some_and(is_too_much) {
            speedup = 0.0;
            self.first = None;
        }
        self.before.clone_from(&samples);
        let choice = Choice::numbered(choice);
        self.current = Some(Current {
            sampled_before: samples,
            at_pace: self.is_at_pace(counts),
            ..Current::new(choice, speedup, now)
        });
        self.set_experiment(page, choice, speedup);
        self.phase = ExperimentPhase::Settle(now + self.length / SETTLING);
    }

    /// Starts counting, after the program has settled.
    fn begin_counting(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
    ) {
        if let Some(current) = self.current.take() {
            let delayed = Clock::unpack(page.global.0.load(Acquire)).delay_ns;
            self.current = Some(Current {
                start: now,
                counts: counts.to_vec(),
                samples: samples_by_choice(page, code),
                delayed_before: delayed,
                in_flight: vec![0.0; counts.len()],
                looked: now,
                last: counts.to_vec(),
                delay_ns: delayed,
                accounts: self.read_accounts(page),
                meetings: page.meetings.0.load(Acquire),
                spinning: page.spinning.0.load(Acquire),
                ..current
            });
        }
        self.phase = ExperimentPhase::Run(now + self.length);
    }

    /// Returns all choices with their samples since the last experiment began; a pause between two
    /// would be too short for a line of a few percent, or for a long wait. Waits for work get none.
    /// Waits together get no more than running code, and waits that have shown no gain get few.
    fn candidates(
        &self,
        page: &Page,
        code: &TargetCode,
        samples: &[u64],
        now: Duration,
    ) -> Vec<Candidate> {
        let passed = now.as_nanos().max(1) as f64;
        let part_of = |samples: u64| samples as f64 * self.period_ns as f64 / passed;
        let samples_of = |number: usize| samples.get(number).copied().unwrap_or(0);
        let may = |number: usize| match &self.fixed_fragment {
            Some(fixed) => code.fragments().is_meant(number as u32 / 2, fixed),
            None => Choice::numbered(number)
                .line_as_a_whole(code)
                .is_none_or(|whole| {
                    let (copy, line) = (samples_of(number), samples_of(whole.number()));
                    allocation::is_copy_worthy(part_of(copy), copy as f64 / line.max(1) as f64)
                }),
        };
        let counted = samples.iter().enumerate().map(|(number, count)| {
            let Choice { fragment, waiting } = Choice::numbered(number);
            let before = self.before.get(number).copied().unwrap_or(0);
            let gained = count.saturating_sub(before);
            let for_work = || wait_call(page, code, fragment).is_none_or(|call| call.for_work);
            if gained == 0 || !may(number) || (waiting && for_work()) {
                return 0.0;
            }
            gained as f64
        });
        let mut recent: Vec<f64> = counted.collect();
        let sum_of = |recent: &[f64], first| recent.iter().skip(first).step_by(2).sum::<f64>();
        let (ran, waited) = (sum_of(&recent, 0), sum_of(&recent, 1));
        let most = if ran > 0.0 {
            (ran / waited).min(1.0)
        } else {
            1.0
        };
        let trials = self.trials();
        let trials = |number: usize| trials.get(&number).copied().unwrap_or_default();
        for (number, it) in recent.iter_mut().enumerate().skip(1).step_by(2) {
            *it *= most
                * if trials(number).show_nothing() {
                    DULL
                } else {
                    1.0
                };
        }
        let candidate = |(number, (recent, samples)): (usize, (&f64, &u64))| Candidate {
            // Any sample at all makes a choice possible.
            recent: recent.ceil() as u64,
            part: part_of(*samples),
            trials: trials(number),
        };
        recent
            .iter()
            .zip(samples)
            .enumerate()
            .map(candidate)
            .collect()
    }

    /// Returns the next line or wait to speed up, with the speedup. Experiments come in pairs on
    /// one fragment, one with a speedup and one without, in random order right after each other:
    /// slow changes (a neighbour, the processor's clock) affect both. If the fragment no longer
    /// runs, another pair begins.
    fn choose_fragment(&mut self, candidates: &[Candidate]) -> Option<(usize, f64)> {
        let tried = |number: usize| candidates.get(number).map(|it| it.trials.tried());
        if let Some((fragment, speedup)) = self.first.take()
            && candidates.get(fragment).is_some_and(|it| it.recent > 0)
        {
            let other = match speedup {
                0.0 => self.choose_above_zero(tried(fragment)),
                _ => 0.0,
            };
            return Some((fragment, other));
        }
        let needed = allocation::needed_for_estimate(self.fixed_speedup.is_some());
        let fragment = allocation::pick_needed(&mut self.dice, candidates, needed)?;
        // The first experiment measures how often threads synchronise, which decides how the others
        // charge delays.
        let speedup = if self.meetings.every_ns.is_none() || self.dice.is_baseline() {
            0.0
        } else {
            self.choose_above_zero(tried(fragment))
        };
        self.first = Some((fragment, speedup));
        Some((fragment, speedup))
    }

    /// Returns a speedup above 0 for a choice: one of those it has had least often.
    fn choose_above_zero(&mut self, tried: Option<Tried>) -> f64 {
        let tried = tried.unwrap_or_default();
        self.dice.above_zero(self.fixed_speedup, &tried)
    }

    /// Returns the experiments of each choice so far. An experiment that the report will not count,
    /// because the machine was busy with other work, is repeated.
    fn trials(&self) -> FxHashMap<usize, Trials> {
        let limit = OtherLoad::during(&self.done, self.cpus).limit();
        let mut trials: FxHashMap<usize, Trials> = FxHashMap::default();
        for done in &self.done {
            let counts = done.part_of_others(self.cpus) <= limit;
            let of_choice = trials.entry(done.fragment as usize).or_default();
            of_choice.add(done, counts);
        }
        trials
    }

    /// Makes the whole run one experiment on one of the fragments of earlier runs, if there are
    /// any.
    pub fn begin_whole(&mut self, page: &Page, code: &mut TargetCode, hints: &[Hint]) {
        let fixed = self.fixed_fragment.as_ref();
        // There are few runs: copies of a line are tried only on request.
        let wanted = |hint: &Hint| match fixed {
            Some(fixed) => fragments::is_meant(&hint.name, fixed),
            None => fragments::split_copy(&hint.name).is_none(),
        };
        let weights: Vec<u64> = hints
            .iter()
            .map(|hint| if wanted(hint) { hint.samples } else { 0 })
            .collect();
        let Some(hint) = self
            .dice
            .pick_weighted(&weights)
            .and_then(|at| hints.get(at))
        else {
            return;
        };
        let Some(fragment) = code.fragments_mut().number_named(&hint.name) else {
            return;
        };
        let choice = Choice {
            fragment,
            waiting: hint.waiting,
        };
        let speedup = self.dice.choose_speedup(self.fixed_speedup);
        self.current = Some(Current {
            accounts: self.read_accounts(page),
            meetings: page.meetings.0.load(Acquire),
            spinning: page.spinning.0.load(Acquire),
            ..Current::new(choice, speedup, Duration::ZERO)
        });
        self.set_experiment(page, choice, speedup);
    }

    /// Returns the progress point of an experiment that is a whole run.
    pub fn end_to_end_point() -> ProgressPoint {
        ProgressPoint {
            name: "end-to-end".into(),
            counted_by: CountedBy::EndToEnd,
            visits: 1,
        }
    }

    /// Starts an experiment in the runtime, with a new delay count.
    fn set_experiment(&mut self, page: &Page, choice: Choice, speedup: f64) {
        self.next_epoch(page);
        let running = Running {
            fragment: choice.fragment,
            waiting: choice.waiting,
            delay_ns: (speedup * self.period_ns as f64).round() as u32,
        };
        let ahead = sampler::clock_ahead_of(page.pid.load(Acquire));
        let now = sampler::monotonic_ns().wrapping_add_signed(ahead);
        page.experiment_since.store(now, Release);
        let at_pace = self.current.as_ref().is_some_and(|it| it.at_pace);
        page.at_pace.store(u32::from(at_pace), Release);
        page.experiment.0.store(running.pack(), Release);
    }

    /// Returns whether the next experiment charges delays at the pace of the line. Baselines do so
    /// too: the pace costs time at each operation (two threads that took a lock at each allocation
    /// did a third less), which has to be on both sides of a comparison. Latencies forbid it: a
    /// request may be over before the operation at which its delay is charged, and the number in
    /// flight is recorded with the delay (for `server` of `tests/programs/causal` half of the true
    /// effect was found).
    fn is_at_pace(&mut self, counts: &[PointCount]) -> bool {
        let often = OFTEN_MET * self.period_ns as f64;
        let is_often = self.meetings.every_ns.is_some_and(|every| every < often);
        self.meetings.at_pace |= self.hooks && is_often;
        self.meetings.at_pace && !counts.iter().any(PointCount::is_latency)
    }

    /// Begins a new delay count; returns the last epoch's delay in nanoseconds.
    fn next_epoch(&mut self, page: &Page) -> u64 {
        self.epoch = self.epoch.wrapping_add(1);
        page.begin_epoch(self.epoch)
    }

    fn finish_experiment(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
    ) {
        let done = self.close_experiment(page, code, counts, now);
        let most = done
            .as_ref()
            .and_then(|done| done.counts.iter().map(|p| visits_of(*p)).max());
        let most = most.unwrap_or(0);
        // Few visits: longer experiments from now on; many: shorter ones again. The point that is
        // visited most decides, so that a rare one does not silence the others.
        if most < FEW {
            self.length = (self.length * 2).min(self.shortest * LONGEST);
        } else if most > 4 * FEW && self.length > self.shortest {
            self.length /= 2;
        }
        self.done.extend(done);
        self.phase = ExperimentPhase::Pause(now + COOLOFF);
    }

    /// Ends the run: drops an experiment that it cuts off, unless the whole run was one.
    pub fn end_run(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
        whole: bool,
    ) {
        let mut done = self.close_experiment(page, code, counts, now);
        if let Some(done) = done.as_mut().filter(|_| whole) {
            done.counts.insert(0, Progress::Visits(1));
        }
        self.done.extend(done.filter(|_| whole));
    }

    /// Records that the program has ended. Its usage can be read until it is waited for.
    pub fn note_end(&mut self, page: &Page) {
        let ended = self.current.as_ref().and_then(|_| self.read_accounts(page));
        if let Some(current) = &mut self.current {
            current.ended = ended;
        }
    }

    /// Ends the current experiment.
    fn close_experiment(
        &mut self,
        page: &Page,
        code: &TargetCode,
        counts: &[PointCount],
        now: Duration,
    ) -> Option<Experiment> {
        let mut current = self.current.take()?;
        page.experiment.0.store(Running::NONE.pack(), Release);
        page.at_pace.store(0, Release);
        let accounts = current.ended.take().or_else(|| self.read_accounts(page));
        let meetings = page.meetings.0.load(Acquire);
        let spinning = page.spinning.0.load(Acquire);
        let delayed = self.next_epoch(page);
        let delay_ns = delayed.saturating_sub(current.delayed_before);
        let length = now.saturating_sub(current.start);
        self.delay_ns += delayed;
        let effective = (length.as_nanos() as f64 - delay_ns as f64).max(1.0);
        let behind = samples_by_choice(page, code);
        let gained = |before: &[u64], number: usize| {
            let before = before.get(number).copied().unwrap_or(0);
            behind
                .get(number)
                .map_or(0, |after| after.saturating_sub(before))
        };
        if current.speedup > 0.0 {
            self.delayed_time += now.saturating_sub(current.settles);
            self.delayed.resize(behind.len(), 0);
            for (number, sum) in self.delayed.iter_mut().enumerate() {
                *sum += gained(&current.sampled_before, number);
            }
        }
        let counts = current.progress_until(counts, effective);
        let disturbance = accounts.zip(current.accounts);
        let disturbance = disturbance.map(|(after, before)| after.disturbance_since(&before));
        let shared = disturbance.is_some_and(|it| shares_processors(&it, length));
        page.shared.store(u32::from(shared), Release);
        let meetings = meetings.saturating_sub(current.meetings);
        if current.speedup == 0.0 {
            let ran = disturbance.and_then(|it| it.target).map(|it| it.ran_ns);
            let ran = ran.unwrap_or(length.as_nanos() as u64);
            self.meetings.every_ns = Some(ran as f64 / meetings as f64);
        }
        Some(Experiment {
            fragment: current.choice.number() as u32,
            speedup: current.speedup,
            start_ns: current.start.as_nanos() as u64,
            duration_ns: length.as_nanos() as u64,
            delay_ns,
            samples: gained(&current.samples, current.choice.number()),
            counts,
            disturbance,
            meetings: Some(meetings),
            spinning: Some(spinning.saturating_sub(current.spinning)),
            at_pace: current.at_pace,
        })
    }

    /// Sums up the visits in flight, for Little's law, over the time that would have passed without
    /// delays. A visit in flight stays so during a delay.
    fn watch_in_flight(&mut self, page: &Page, counts: &[PointCount], now: Duration) {
        let Some(current) = &mut self.current else {
            return;
        };
        let passed = now.saturating_sub(current.looked).as_nanos() as f64;
        current.looked = now;
        let clock = Clock::unpack(page.global.0.load(Acquire));
        let before = std::mem::replace(&mut current.delay_ns, clock.delay_ns);
        let delay = clock.delay_ns.saturating_sub(before) as f64;
        current.in_flight.resize(counts.len(), 0.0);
        for (point, (sum, count)) in current.in_flight.iter_mut().zip(counts).enumerate() {
            let PointCount::Latency(begins, ends, delayed) = *count else {
                continue;
            };
            let last = match current.last.get(point) {
                Some(PointCount::Latency(begins, ends, delayed)) => (*begins, *ends, *delayed),
                _ => (0, 0, Some(0)),
            };
            // If the number in flight at each delay is unknown, the mean of before and after is
            // used.
            let mean = (begins.saturating_sub(ends) + last.0.saturating_sub(last.1)) as f64 / 2.0;
            let in_delay = match (delayed, last.2) {
                (Some(now), Some(before)) => now.wrapping_sub(before) as i64 as f64,
                _ => mean * delay,
            };
            *sum += mean * passed - in_delay;
        }
        current.last = counts.to_vec();
    }

    /// Returns the samples of a choice in experiments with delays. A line got its own number only
    /// with its second copy, so its copies' samples are added.
    pub fn delayed_samples(&self, code: &TargetCode, choice: Choice) -> u64 {
        let of_fragment = |fragment: u32| {
            let number = Choice { fragment, ..choice }.number();
            self.delayed.get(number).copied().unwrap_or(0)
        };
        let mut copies = code
            .fragments()
            .numbers_of(choice.fragment)
            .skip(1)
            .peekable();
        match copies.peek() {
            None => of_fragment(choice.fragment),
            Some(_) => copies.map(of_fragment).sum(),
        }
    }

    /// Returns the frequency of synchronisations.
    pub fn known_meetings(&self) -> KnownMeetings {
        self.meetings
    }

    /// Returns the duration of experiments with delays, in nanoseconds.
    pub fn delayed_ns(&self) -> u64 {
        self.delayed_time.as_nanos() as u64
    }
}

/// Returns the point with whose visit an experiment shall begin and end, if that matters: a point
/// with few visits in an experiment would otherwise be off by up to one visit.
fn edge_point(counts: &[PointCount], now: Duration) -> Option<usize> {
    let (point, most) = counts
        .iter()
        .enumerate()
        .max_by_key(|(_, count)| count.visit_count())?;
    let rate = most.visit_count() as f64 / now.as_secs_f64().max(1e-3);
    (most.visit_count() > 0 && rate < OFTEN).then_some(point)
}

fn progress_of_point(counts: &[PointCount], point: usize) -> u64 {
    counts.get(point).map_or(0, |count| count.visit_count())
}

fn visits_of(progress: Progress) -> u64 {
    match progress {
        Progress::Visits(visits) => visits,
        Progress::Latency { departures, .. } => departures,
    }
}

/// Returns the samples of each choice so far; for waits, their duration in sampling periods.
fn samples_by_choice(page: &Page, code: &TargetCode) -> Vec<u64> {
    let choices = 0..2 * code.fragments().all().len();
    choices
        .map(|number| samples_of(page, code, Choice::numbered(number)))
        .collect()
}

/// Returns the samples of a choice so far.
pub(crate) fn samples_of(page: &Page, code: &TargetCode, choice: Choice) -> u64 {
    let count = |counts: &[AtomicU64]| {
        let numbers = code.fragments().numbers_of(choice.fragment);
        let counts = numbers.filter_map(|number| counts.get(number as usize));
        counts.map(|count| count.load(Acquire)).sum::<u64>()
    };
    if choice.waiting {
        count(&page.waited) / page.period_ns.load(Acquire).max(1)
    } else {
        count(&page.fragments)
    }
}
