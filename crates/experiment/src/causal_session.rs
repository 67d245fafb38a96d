//! A measurement, from the first instruction to the last count.

use crate::attach::HooklessProgram;
use crate::code::{RememberedCode, TargetCode};
use crate::code_set::{SpeedupSet, find_variable};
use crate::experiments::{Choice, Experiments, KnownMeetings};
use crate::fragments::KnownFragment;
use crate::handover::{self, HandoverWatch};
use crate::memory::CausalMemory;
use crate::options::MeasuringEnd;
use crate::outcome::{CausalOutcome, LiveProgress, Talk};
use crate::period::affordable_period;
use crate::points::{PointCount, Points};
use crate::progress_choice::{ProgressChoice, ProgressSearch};
use crate::targets::{Target, TargetEnd};
use crate::wait_watch::{WaitWatch, wait_call};
use crate::{Error, ExperimentOptions, launch, search, spinning};
use profile::{
    CausalRun, CreditRule, Experiment, ExperimentSettings, Fragment, FragmentWait, Granularity,
    ProfiledImage, ProgressPoint,
};
use runtime_abi::{Running as Word, state};
use rustc_hash::FxHashMap;
use sampler::{Exit, Launched, Ticks, WithheldTicks, command_text, program_text};
use std::io;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Longest time between two looks at the target.
const TICK: Duration = Duration::from_millis(10);
/// Longest time between two looks if the end of the target ends an experiment.
const EDGE_TICK: Duration = Duration::from_millis(1);
/// Shortest time between two searches for threads that block the sampling signal.
const BLOCKING_EVERY: Duration = Duration::from_millis(100);
/// The user is warned if more than one in this many samples is missing, because its thread could
/// get no signal.
const MOST_WITHHELD: u64 = 20;
/// Time between two progress reports.
const TOLD_EVERY: Duration = Duration::from_millis(250);
/// Time after which the user is told about a search for a progress point.
const NOTICED: Duration = Duration::from_millis(200);
/// Samples from which on a program that ended without a sample in scope earns a warning.
const FEW_SAMPLES: u64 = 20;
/// Samples without one in scope after which the user is told.
const NOTICED_SAMPLES: u64 = 500;
/// Samples without one in scope after which the run is given up.
const HOPELESS_SAMPLES: u64 = 20_000;
/// Time without a visit of a progress point after which the run is given up.
const HOPELESS: Duration = Duration::from_secs(60);

/// Knowledge of a command from its earlier runs.
#[derive(Default)]
pub(crate) struct EarlierRuns {
    pub code: RememberedCode,
    pub meetings: KnownMeetings,
}

/// A target with its shared memory and the state of its measurement.
pub(crate) struct CausalSession<'a> {
    options: &'a ExperimentOptions,
    memory: CausalMemory,
    code: TargetCode,
    points: Points,
    experiments: Experiments,
    start: Instant,
    start_unix_ns: u64,
    /// Index of the next unknown place to resolve.
    answered: u64,
    unloaded: u32,
    visited: bool,
    stopped: Option<String>,
    /// The search for a progress point, while it lasts.
    search: Option<ProgressSearch>,
    choice: Option<ProgressChoice>,
    /// The processors' sampling timers, if these are used.
    ticks: Option<Ticks>,
    /// Time of the last search for threads that block the sampling signal, and how often such
    /// threads had run by then.
    looked_for_blocking: (Duration, u64),
    /// The watch of system calls: waits for outside events, and running in the kernel.
    waits: Option<WaitWatch>,
    /// The program, if it has no hooks. It is declared after the senders of signals, which must end
    /// first.
    program: Option<HooklessProgram>,
    /// The unit of code that is sped up.
    by: Granularity,
    handover: HandoverWatch,
    /// The process that continues after the command's end.
    in_background: Option<u32>,
    /// A remark for the user about how the program began.
    strange: Option<&'static str>,
    notices: Vec<String>,
    /// The user was told that nothing in scope was sampled.
    scope_noticed: bool,
}

impl<'a> CausalSession<'a> {
    /// Prepares everything up to the target's first instruction.
    pub fn prepare_target(
        options: &'a ExperimentOptions,
        memory: CausalMemory,
        pid: u32,
        known: EarlierRuns,
        program: Option<HooklessProgram>,
    ) -> Result<Self, Error> {
        let mut code = TargetCode::new(pid, options.by, &options.scope, known.code);
        if matches!(options.set, Some(SpeedupSet::Sequence(_))) {
            code.name_all_images();
        }
        let mut notices = Vec::new();
        let by = choose_granularity(options, &mut code, &mut notices)?;
        if let Some(wanted) = &options.fixed_fragment {
            search::check_fragment(&mut code, by, wanted)?;
        }
        let points = Points::open_points(&options.points, &mut code, pid)?;
        if let Some(set) = &options.set {
            prepare_set(&memory, &mut code, set)?;
            if !options.choose_point {
                begin_set(&memory, &mut code, set);
            }
        }
        for (address, place) in code.known_places() {
            spinning::set_place(&memory, &mut code, address, place);
        }
        // A waiting goroutine is not a waiting thread.
        let goroutines = program.as_ref().is_some_and(|program| program.go);
        let hookless = program.is_some();
        let watch = || WaitWatch::start(&memory, hookless, !goroutines);
        let waits = options.waits.then(watch).flatten();
        let ticks = sample_processors(&memory, affordable_period(), hookless, &waits);
        let waits = waits.filter(|_| ticks.is_some());
        let watched = waits.as_ref().filter(|watch| watch.speeds_up);
        let client_waits = watched.map_or_else(Weak::new, |watch| Rc::downgrade(&watch.waits));
        Ok(Self {
            by,
            handover: HandoverWatch::new(pid, code.executable()),
            in_background: None,
            strange: None,
            notices,
            scope_noticed: false,
            ticks,
            looked_for_blocking: (Duration::ZERO, 0),
            waits,
            experiments: Experiments::new(options, program.is_none(), client_waits, known.meetings),
            program,
            options,
            memory,
            code,
            points,
            start: Instant::now(),
            start_unix_ns: launch::unix_ns(),
            answered: 0,
            unloaded: 0,
            visited: false,
            stopped: None,
            search: options
                .choose_point
                .then(|| ProgressSearch::new(options.attach.is_some())),
            choice: None,
        })
    }

    /// Runs the target until it ends or the measurement does.
    pub fn run_target(
        &mut self,
        target: &mut dyn Target,
        until: MeasuringEnd<'_>,
        talk: Talk<'_>,
    ) -> Option<Exit> {
        self.start = Instant::now();
        self.start_unix_ns = launch::unix_ns();
        if let Some(hints) = &self.options.end_to_end {
            self.experiments
                .begin_whole(&self.memory, &mut self.code, hints);
        }
        // Before sampling starts: samples ask for places, and no answers come until the target is
        // released.
        self.strange = target.release();
        self.memory
            .wait_words()
            .set_state(state::READY, state::RUNNING);
        if until.at.is_some_and(|at| Instant::now() >= at) {
            self.stopped = Some(NO_TIME_LEFT.into());
        }
        let mut said = Duration::ZERO;
        let tick = match self.options.end_to_end {
            // The end of a whole run ends its experiment.
            Some(_) => EDGE_TICK,
            None => TICK,
        };
        loop {
            let seen = self.memory.news.load(Acquire);
            self.answer_questions();
            self.count_meetings();
            self.points.discover_points(&self.memory);
            if self.options.attach.is_some() {
                self.code.find_stacks(&self.memory);
            }
            let now = self.start.elapsed();
            self.unblock_signal(now);
            if target.has_ended() {
                self.experiments.note_end(&self.memory);
            }
            match target.try_wait() {
                Some(TargetEnd::Exit(exit)) => return Some(exit),
                Some(TargetEnd::Gone) => return None,
                None => {}
            }
            if until.is_reached() || self.is_hopeless(now) {
                return None;
            }
            if self.is_searching(now) {
                if now >= said {
                    self.notice_search(now);
                    let counts = self.points.read_counts(&self.memory, &self.code);
                    talk(&self.live_progress(now, &counts), &mut || {
                        self.so_far(now, &counts)
                    });
                    said = now + TOLD_EVERY;
                }
                self.memory.wait_words().wait_for_news(seen, TICK);
                continue;
            }
            // Reading other processors' events interrupts them, so it is done only when due.
            let mut next = self.experiments.time_to_rest(now);
            if next.is_zero() || now >= said || self.points.has_latency() {
                let counts = self.points.read_counts(&self.memory, &self.code);
                let done = self.experiments.done.len();
                next = (self.experiments).advance_to(&self.memory, &self.code, &counts, now);
                // A finished experiment is reported at once: the listener saves it.
                if now >= said || self.experiments.done.len() > done {
                    self.visited |= counts.iter().any(|count| count.visit_count() > 0);
                    let live = self.live_progress(now, &counts);
                    talk(&live, &mut || self.so_far(now, &counts));
                    said = now + TOLD_EVERY;
                }
            }
            self.rest(seen, next.min(tick));
        }
    }

    /// Unblocks the sampling signal in threads of a program without hooks, such as daemons, that
    /// block it.
    fn unblock_signal(&mut self, now: Duration) {
        let (last, seen) = self.looked_for_blocking;
        if self.program.is_none() || now.saturating_sub(last) < BLOCKING_EVERY {
            return;
        }
        let blocked = self.withheld_ticks().blocked;
        if let Some(program) = self.program.as_mut().filter(|_| blocked > seen) {
            program.unblock_signal();
        }
        self.looked_for_blocking = (now, blocked);
    }

    /// Returns how often threads ran that could not get the sampling signal.
    fn withheld_ticks(&self) -> WithheldTicks {
        self.ticks.as_ref().map(Ticks::withheld).unwrap_or_default()
    }

    /// Copies the kernel's count of synchronisations, in programs without hooks.
    fn count_meetings(&self) {
        if let Some(program) = &self.program {
            let meetings = program.credits.meetings();
            self.memory.meetings.0.store(meetings, Relaxed);
        }
    }

    /// Returns the session if the processors are sampled. Otherwise each thread would have to
    /// create its own timer.
    pub fn sampled_by_processor(self, pid: u32) -> Result<Self, Error> {
        let by_processor = self.ticks.is_some();
        by_processor.then_some(self).ok_or(Error::NotAttachable {
            pid,
            reason: "its threads can be sampled by the processors' timers only, which takes the right to load BPF (vitalfew doctor)".into(),
        })
    }

    /// Returns the fraction of samples at places that were still unknown.
    fn unknown_part(&self) -> f64 {
        let samples = self.memory.samples.0.load(Relaxed).max(1) as f64;
        self.memory.misses.load(Relaxed) as f64 / samples
    }

    /// Assembles the results of a command's run.
    pub fn end_command(
        mut self,
        exit: Option<Exit>,
        launched: Launched,
        remembered: &mut EarlierRuns,
    ) -> CausalOutcome {
        let outcome = self.end_measuring(exit, Some(launched));
        *remembered = EarlierRuns {
            meetings: self.experiments.known_meetings(),
            code: self.code.into_remembered(),
        };
        outcome
    }

    /// Measures a running process.
    pub fn measure_process(
        &mut self,
        mut process: impl Target,
        until: MeasuringEnd<'_>,
        talk: Talk<'_>,
    ) -> CausalOutcome {
        self.run_target(&mut process, until, talk);
        self.end_measuring(None, None)
    }

    fn end_measuring(&mut self, exit: Option<Exit>, launched: Option<Launched>) -> CausalOutcome {
        let choice = self.choice.take();
        CausalOutcome {
            run: self.finish_run(exit),
            choice,
            in_background: self.in_background.is_some(),
            unknown_part: self.unknown_part(),
            exit,
            running: launched.filter(|_| exit.is_none()),
        }
    }

    /// Leaves a process without hooks. Returns a remark if that failed.
    pub fn leave_process(mut self) -> Option<&'static str> {
        // From here on no signal is sent.
        self.ticks = None;
        self.waits = None;
        let left = self.program.take().is_none_or(HooklessProgram::leave);
        (!left).then_some(
            "the handler of the sampling signal (SIGSTKFLT) is still the process's: no thread of it could be used to put its own back; it does nothing",
        )
    }

    /// Sleeps until the runtime has news, at most `at_most`. Charges lasting waits meanwhile.
    fn rest(&mut self, seen: u32, at_most: Duration) {
        let words = self.memory.wait_words();
        let Some(waits) = &mut self.waits else {
            return words.wait_for_news(seen, at_most);
        };
        let begin = Instant::now();
        while let Some(every) = waits.charge_every(&self.memory) {
            let left = at_most.saturating_sub(begin.elapsed());
            if left.is_zero() || words.news.load(Acquire) != seen {
                return;
            }
            words.wait_for_news(seen, left.min(every));
            waits.charge_pending(&self.memory);
        }
        words.wait_for_news(seen, at_most);
    }

    /// Advances the search for a progress point. Returns whether it still lasts.
    fn is_searching(&mut self, now: Duration) -> bool {
        let Some(search) = &mut self.search else {
            return false;
        };
        self.choice = search.advance_search(&self.memory, &mut self.code, &mut self.points, now);
        if self.choice.is_some() {
            self.search = None;
            if let Some(set) = &self.options.set {
                begin_set(&self.memory, &mut self.code, set);
            }
        }
        self.search.is_some()
    }

    /// Resolves the places that the runtime asks for.
    fn answer_questions(&mut self) {
        let unloaded = self.memory.unloaded.load(Acquire);
        if unloaded != self.unloaded {
            self.unloaded = unloaded;
            for (address, place) in self.code.resolve_all_again() {
                spinning::set_place(&self.memory, &mut self.code, address, place);
            }
        }
        for (address, place) in self.code.places_read_meanwhile() {
            spinning::set_place(&self.memory, &mut self.code, address, place);
        }
        let head = self.memory.unknown_head.0.load(Acquire);
        let ring = self.memory.unknown.len() as u64;
        // A sample that finds the ring full is repeated by the next one at its place.
        let first = self.answered.max(head.saturating_sub(ring));
        for at in first..head {
            let Some(entry) = self.memory.unknown.get((at % ring) as usize) else {
                continue;
            };
            let address = entry.swap(0, Acquire);
            if address != 0
                && self.memory.place(address).is_none()
                && let Some(place) = self.code.place_if_read(address)
            {
                spinning::set_place(&self.memory, &mut self.code, address, place);
            }
        }
        self.answered = head;
    }

    fn live_progress(&self, elapsed: Duration, counts: &[PointCount]) -> LiveProgress {
        let names = self.points.list.iter().map(|point| point.name.clone());
        LiveProgress {
            elapsed,
            experiments: self.experiments.done.len(),
            samples: self.memory.samples.0.load(Relaxed),
            fragments: self.code.fragments().all().len(),
            points: names
                .zip(counts.iter().map(|count| count.visit_count()))
                .collect(),
            choice: self.choice.clone(),
            notices: self.notices.clone(),
        }
    }

    /// Tells the user that a progress point is searched for, if the program has none of its own.
    fn notice_search(&mut self, now: Duration) {
        let in_source = self.points.list.iter().any(|point| point.in_source());
        let said = !self.notices.iter().any(|notice| notice == SEARCHING);
        if now >= NOTICED && said && !in_source {
            self.notices.push(SEARCHING.into());
        }
    }

    /// Returns the command's first word.
    fn command_name(&self) -> String {
        program_text(&self.options.command)
    }

    /// Returns whether nothing can be learned, however long the run takes; adds a notice with the
    /// reason.
    fn is_hopeless(&mut self, now: Duration) -> bool {
        let samples = self.memory.samples.0.load(Relaxed);
        let refused = self.memory.refused.load(Relaxed);
        let in_scope = !self.code.fragments().all().is_empty();
        let is_known = !self.scope_noticed && !self.code.is_reading();
        if samples > NOTICED_SAMPLES && !in_scope && is_known {
            self.scope_noticed = true;
            let notice = self.nothing_in_scope();
            self.notices.push(notice);
        }
        let reason = if refused != 0 && samples == 0 {
            let source = io::Error::from_raw_os_error(refused);
            Error::SamplingRefused { source }.to_string()
        } else if let Some(program) = self.handover.find_executed(now, samples) {
            handover::describe_executed(&self.command_name(), &program)
        } else if samples > HOPELESS_SAMPLES && !in_scope && !self.code.is_reading() {
            format!("stopped early: {}", self.nothing_in_scope())
        } else if now > HOPELESS && !self.visited && self.options.end_to_end.is_none() {
            let none = self.points.list.is_empty();
            let what = if self.choice == Some(ProgressChoice::EndToEnd) {
                "none of its functions that take time is called 20 to 5000 times a second, and it did not end"
            } else if none {
                "there is no progress point"
            } else {
                "no progress point was visited"
            };
            format!(
                "stopped early: {what} in {} s; mark one in the source (vitalfew.h or coz.h) or name one with --progress",
                HOPELESS.as_secs()
            )
        } else {
            return false;
        };
        self.stopped = Some(reason);
        true
    }

    /// Ends measuring and assembles the results.
    fn finish_run(&mut self, exit: Option<Exit>) -> CausalRun {
        let duration = self.start.elapsed();
        if !self.options.is_last_run {
            self.code.finish_reading();
        }
        self.answer_questions();
        self.points.discover_points(&self.memory);
        let counts = self.points.read_counts(&self.memory, &self.code);
        let whole = exit.is_some() && self.options.end_to_end.is_some();
        self.experiments
            .end_run(&self.memory, &self.code, &counts, duration, whole);
        self.memory.experiment.0.store(Word::NONE.pack(), Relaxed);
        if exit.is_some() && self.options.end_to_end.is_none() {
            self.in_background = handover::background_process(&self.memory, self.code.pid());
        }
        self.memory.state.store(state::OFF, Relaxed);
        let mut run = self.so_far(duration, &counts);
        if whole {
            run.points.insert(0, Experiments::end_to_end_point());
        }
        run.end = launch::run_end(exit);
        self.add_warnings(&mut run.warnings, exit);
        run
    }

    /// Returns the measurements so far.
    fn so_far(&mut self, now: Duration, counts: &[PointCount]) -> CausalRun {
        let mut images: Vec<ProfiledImage> = Vec::new();
        let (fragments, experiments) = self.measured_fragments(&mut images);
        let named = self.points.list.iter().zip(counts);
        let points = named.map(|(point, count)| ProgressPoint {
            name: point.name.clone(),
            counted_by: point.counted_by,
            visits: match *count {
                PointCount::Visits(n) | PointCount::Latency(n, ..) => n,
            },
        });
        let nanos = now.as_nanos() as u64;
        CausalRun {
            command: command_text(&self.options.command),
            asked: self.options.asked.clone(),
            host: sampler::read_host(),
            collector: "vitalfew".into(),
            start_unix_ns: self.start_unix_ns,
            duration_ns: nanos,
            undelayed_ns: nanos.saturating_sub(self.experiments.delayed_ns()),
            end: launch::run_end(None),
            settings: ExperimentSettings {
                waits: self.waits.as_ref().is_some_and(|watch| watch.speeds_up),
                kernel_time: self.waits.is_some(),
                credits: match self.program {
                    Some(_) => CreditRule::Kernel,
                    None => CreditRule::Hooks,
                },
                ..experiment_settings(self.options, self.by, self.ticks.is_some())
            },
            images,
            points: points.collect(),
            fragments,
            experiments,
            warnings: Vec::new(),
        }
    }

    /// Returns the fragments with their samples, a second time for their waits if they waited, and
    /// the experiments on them.
    fn measured_fragments(
        &mut self,
        images: &mut Vec<ProfiledImage>,
    ) -> (Vec<Fragment>, Vec<Experiment>) {
        let known = self.code.fragments().all().to_vec();
        let mut fragments = Vec::new();
        let mut position_of = FxHashMap::default();
        for number in 0..2 * known.len() {
            let choice = Choice::numbered(number);
            let at = choice.fragment as usize;
            let waiting = choice
                .waiting
                .then(|| wait_call(&self.memory, &self.code, choice.fragment))
                .flatten();
            let Some(fragment) = known
                .get(at)
                .filter(|_| choice.waiting == waiting.is_some())
            else {
                continue;
            };
            position_of.insert(number as u32, fragments.len() as u32);
            let samples = crate::experiments::samples_of(&self.memory, &self.code, choice);
            let delayed = self.experiments.delayed_samples(&self.code, choice);
            let is_copy = self.code.fragments().whole_of(choice.fragment).is_some();
            fragments.push(Fragment {
                name: self.code.fragments().shown_name(choice.fragment),
                detail: fragment.detail.clone(),
                image: self.image_position(images, fragment),
                samples,
                undelayed_samples: samples.saturating_sub(delayed),
                waiting: waiting.map(|it| FragmentWait {
                    call: it.name,
                    for_work: it.for_work,
                }),
                copy_of: is_copy.then(|| fragment.name.clone()),
            });
        }
        let placed = self.experiments.done.iter().filter_map(|it| {
            let fragment = *position_of.get(&it.fragment)?;
            Some(Experiment {
                fragment,
                ..it.clone()
            })
        });
        (fragments, placed.collect())
    }

    /// Returns the index of a fragment's image in the run's list.
    fn image_position(
        &mut self,
        images: &mut Vec<ProfiledImage>,
        fragment: &KnownFragment,
    ) -> Option<u32> {
        if fragment.image.is_empty() {
            return None;
        }
        let known = images.iter().position(|image| image.path == fragment.image);
        let at = known.unwrap_or_else(|| {
            let symbols = &self.code.image_of(&fragment.image).symbols;
            images.push(ProfiledImage {
                path: fragment.image.clone(),
                build_id: symbols.as_ref().and_then(|s| s.build_id().cloned()),
            });
            images.len() - 1
        });
        u32::try_from(at).ok()
    }

    /// Adds warnings about failed or missing measurements.
    fn add_warnings(&mut self, warnings: &mut Vec<String>, exit: Option<Exit>) {
        warnings.extend(self.stopped.clone());
        let samples = self.memory.samples.0.load(Relaxed);
        let outside = self.memory.outside.load(Relaxed);
        let unmeasured = self.memory.unmeasured.load(Relaxed);
        let refused = self.memory.refused.load(Relaxed);
        let WithheldTicks {
            blocked,
            without_room,
        } = self.withheld_ticks();
        let all = samples + blocked + without_room;
        for (ticks, reason) in [
            (blocked, "its threads block all signals then"),
            (
                without_room,
                "the stacks of its threads have no room for a signal then",
            ),
        ] {
            if ticks * MOST_WITHHELD > all.max(FEW_SAMPLES) {
                let share = 100.0 * ticks as f64 / all as f64;
                warnings.push(format!(
                    "{share:.0} % of the program's time is not sampled: {reason}; vitalfew record measures them"
                ));
            }
        }
        if unmeasured > 0 {
            warnings.push(format!(
                "{unmeasured} threads were not measured: more than {} at a time",
                runtime_abi::THREADS
            ));
        }
        if self.memory.kernel_timers.load(Relaxed) > 0 {
            warnings.push(
                "the program has set timers of the kernel, which go on while it is delayed: do not believe what they \
                 set the pace of (its other clocks stand still meanwhile)"
                    .into(),
            );
        }
        if refused != 0 && samples > 0 {
            let source = io::Error::from_raw_os_error(refused);
            warnings.push(format!("some threads could not be sampled: {source}"));
        }
        if let Some(Exit::Signal(signal)) = exit {
            warnings.push(format!(
                "the program was ended by signal {signal}; what was measured until then is kept"
            ));
        }
        let command = self.command_name();
        let sampled = Duration::from_nanos(all * affordable_period());
        let others = exit.and_then(|_| self.handover.describe_children(&command, sampled));
        if let Some(strange) = self.strange {
            warnings.push(strange.into());
        } else if let Some(pid) = self.in_background {
            warnings.push(handover::describe_background(&command, pid));
        } else if let Some(others) = others {
            warnings.push(others);
        } else if samples == 0 && all > 0 {
            warnings.push("nothing was sampled".into());
        } else if samples == 0 && exit.is_none() && self.stopped.is_none() {
            warnings.push("nothing was sampled: the program did not run meanwhile".into());
        } else if samples == 0 && refused == 0 && self.stopped.is_none() {
            warnings.push(
                "nothing was sampled: the program took too little time; --runs N repeats it".into(),
            );
        } else if self.code.is_reading() && self.stopped.is_none() {
            warnings.push(
                "the program ended before its symbols had been read; --runs N repeats it".into(),
            );
        } else if self.code.fragments().all().is_empty() && self.stopped.is_none() {
            // This few samples say nothing about the scope, which only the program's symbols could
            // explain.
            warnings.push(match exit {
                Some(_) if samples < FEW_SAMPLES => TOO_SHORT.into(),
                _ => self.nothing_in_scope(),
            });
        } else if outside * 2 > samples {
            let share = 100.0 * outside as f64 / samples as f64;
            warnings.push(format!(
                "{share:.0} % of the samples have nothing in scope in their call chain"
            ));
        }
        warnings.extend(self.empty_set());
        let wanted = self.options.end_to_end.is_none() && !self.options.choose_point;
        if self.stopped.is_none() && !self.visited_any() && wanted {
            warnings.push(
                "no progress point was visited: mark one in the source (vitalfew.h or coz.h), name one with --progress, or use --end-to-end".into(),
            );
        }
    }

    /// Returns a warning if no sample was in the requested set of code.
    fn empty_set(&self) -> Option<String> {
        let set = self.options.set.as_ref()?;
        let samples = self.memory.samples.0.load(Relaxed);
        let counts = [&self.memory.fragments, &self.memory.waited];
        let selected = counts.map(|counts| counts.first().map_or(0, |it| it.load(Relaxed)));
        if samples == 0 || selected != [0, 0] {
            return None;
        }
        Some(match set {
            SpeedupSet::Sequence(_) => format!(
                "of {samples} samples none has this call sequence in its stack: where others may be between two of its functions (inlined, or \
                 jumped to at the end of another), put … there"
            ),
            SpeedupSet::Lock(name) => format!(
                "no sample was taken while {name} was held by pthread_mutex_lock or its like; locks that the C library does not know \
                 (Rust's, Go's, those of parking_lot) are not seen"
            ),
        })
    }

    /// Returns the reason that no sample has a fragment, with a remedy.
    fn nothing_in_scope(&mut self) -> String {
        let samples = self.memory.samples.0.load(Relaxed);
        if self.options.scope.is_empty() {
            let program = self.code.executable().to_owned();
            if !self.code.image_of(&program).has_all_symbols() {
                return format!(
                    "{program} has no symbols, and no unwind tables for the code that runs: link it without -s, or name the \
                     libraries that work with --scope"
                );
            }
            return format!(
                "of {samples} samples none is in a known function of {program} or called by one: name the libraries that \
                 work with --scope"
            );
        }
        match search::unmatched_pattern(&mut self.code, &self.options.scope) {
            Some((pattern, near)) => format!(
                "--scope {pattern} fits no file that is mapped and no source{}; a plugin counts from when it is loaded",
                crate::error::near_matches(&near)
            ),
            None => format!("of {samples} samples none is in scope; widen it with --scope"),
        }
    }

    fn visited_any(&self) -> bool {
        let counts = self.points.read_counts(&self.memory, &self.code);
        counts.iter().any(|count| count.visit_count() > 0)
    }
}

/// Message for a run whose time was used up by reading symbols.
const NO_TIME_LEFT: &str = "nothing was measured: the time was over when the program's symbols had been read; give it more (--for)";

/// Message for a program that ended before a sample was in one of its functions.
const TOO_SHORT: &str =
    "no function of the program was sampled: it took too little time; --runs N repeats it";

/// Message while a progress point is looked for.
const SEARCHING: &str =
    "no progress point was given: looking for a function that is called steadily, for some seconds";

/// Checks that a set of code exists, and starts counting holds of its lock.
fn prepare_set(
    memory: &CausalMemory,
    code: &mut TargetCode,
    set: &SpeedupSet,
) -> Result<(), Error> {
    match set {
        SpeedupSet::Sequence(sequence) => {
            let mut names = sequence.names();
            names.try_for_each(|name| search::check_fragment(code, Granularity::Function, name))
        }
        SpeedupSet::Lock(name) => {
            let (start, end) = find_variable(code.pid(), code.executable().as_ref(), name)?;
            memory.selection.watch_locks(start, end);
            Ok(())
        }
    }
}

/// Starts separating samples of the set from all others.
fn begin_set(memory: &CausalMemory, code: &mut TargetCode, set: &SpeedupSet) {
    code.begin_set(set);
    if let SpeedupSet::Sequence(sequence) = set {
        for (address, answer) in code.resolve_all_again() {
            spinning::set_place(memory, code, address, answer);
        }
        memory.selection.select_sequence(sequence.len() as u8);
    } else {
        memory.selection.select_lock();
    }
    // Samples taken while places were looked up were counted for lines.
    let counts = memory.fragments.iter().chain(&memory.waited);
    counts.for_each(|count| count.store(0, Relaxed));
}

/// Decides whether lines or functions are sped up, by the program's debug information.
fn choose_granularity(
    options: &ExperimentOptions,
    code: &mut TargetCode,
    notices: &mut Vec<String>,
) -> Result<Granularity, Error> {
    let paths = code.images_in_scope();
    // Reading all of a large program takes half a second; the program must not wait for that.
    let has_lines = |path: &String| launch::has_section(&code.readable_path(path), ".debug_info");
    if paths.iter().any(has_lines) {
        return Ok(options.by);
    }
    let images: Vec<_> = paths.iter().map(|path| code.image_of(path)).collect();
    let has_lines = images.iter().any(|image| image.debug.is_some());
    // Patterns that match no image are patterns of sources.
    let Some(image) = images.first().filter(|_| !has_lines) else {
        return Ok(options.by);
    };
    let stripped = !image.has_all_symbols();
    let program = PathBuf::from(&image.path);
    let by_lines = options.by == Granularity::Line;
    let script = launch::script_of(&options.command, &program);
    if let Some(script) = script.filter(|_| by_lines && options.scope.is_empty()) {
        return Err(Error::IsScript {
            script,
            interpreter: program,
        });
    }
    if by_lines && !options.or_functions {
        return Err(Error::NoDebugInfo { program, stripped });
    }
    if !image.has_functions() {
        return Err(Error::NoSymbols { program });
    }
    if by_lines {
        code.by_function();
    }
    if stripped {
        notices.push(format!(
            "{} is stripped: its functions are known by their addresses ([function at …]); install its debug symbols for names",
            program.display()
        ));
    } else if by_lines {
        notices.push(format!(
            "{} has no debug information: functions are sped up instead of lines; compile it with -g for lines",
            program.display()
        ));
    }
    Ok(Granularity::Function)
}

/// Starts sampling by the processors' timers. Without the right to use them every thread samples
/// itself, which takes more time where threads alternate often.
fn sample_processors(
    memory: &CausalMemory,
    period_ns: u64,
    hookless: bool,
    waits: &Option<WaitWatch>,
) -> Option<Ticks> {
    let handler = memory.handler.load(Relaxed);
    if handler == 0 {
        return None;
    }
    let waits = waits.as_ref().map(|waits| &*waits.waits);
    let ticks = Ticks::start(handler, period_ns, hookless, waits).ok()?;
    for &(cpu, period) in ticks.periods() {
        if let Some(cpu) = memory.cpus.get(cpu as usize) {
            cpu.0.period_ns.store(period, Relaxed);
        }
    }
    memory.by_processor.store(1, Relaxed);
    Some(ticks)
}

pub(crate) fn experiment_settings(
    options: &ExperimentOptions,
    by: Granularity,
    by_processor: bool,
) -> ExperimentSettings {
    ExperimentSettings {
        by,
        sample_period_ns: affordable_period(),
        by_processor,
        waits: false,
        kernel_time: false,
        credits: CreditRule::Hooks,
        batch: 1,
        cooloff_ns: crate::experiments::COOLOFF.as_nanos() as u64,
        end_to_end: options.end_to_end.is_some(),
        scope: options.scope.clone(),
        fixed_fragments: match &options.set {
            Some(set) => vec![set.set_name()],
            None => options.fixed_fragment.iter().cloned().collect(),
        },
        fixed_speedups: options.fixed_speedup.iter().copied().collect(),
    }
}
