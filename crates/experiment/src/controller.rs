//! A run: from the launch to what was measured.

use crate::code::{Code, Known};
use crate::experiments::Experiments;
use crate::memory::Memory;
use crate::points::{Count, Points};
use crate::{Error, Options, launch, search};
use profile::{CausalRun, ExperimentSettings, Fragment, ProfiledImage, ProgressPoint};
use runtime_abi::{Running as Word, state};
use sampler::{Exit, Launched, Ticks};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often to look at the target at least.
const TICK: Duration = Duration::from_millis(10);
/// Samples without one in scope after which there is no use in going on.
const HOPELESS_SAMPLES: u64 = 20_000;
/// Time without a visit of a progress point after which there is no use in going on.
const HOPELESS: Duration = Duration::from_secs(60);

/// What can be said while a run goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Since the start.
    pub elapsed: Duration,
    /// Experiments done.
    pub experiments: usize,
    /// Samples of all threads.
    pub samples: u64,
    /// Fragments in scope that had samples.
    pub fragments: usize,
    /// Progress points with their visits so far.
    pub points: Vec<(String, u64)>,
}

/// What a run has left.
pub struct Outcome {
    /// What was measured.
    pub run: CausalRun,
    /// How the command ended; `None`: it still runs.
    pub exit: Option<Exit>,
    /// The command, to wait for.
    pub running: Option<Launched>,
}

/// Hears how far a run is; the second argument puts together what was measured so far.
pub type Talk<'a> = &'a mut dyn FnMut(&Live, &mut dyn FnMut() -> CausalRun);

/// Runs a command and experiments with it until it ends, `stop` is set, the time is over, or nothing
/// can be learned. `talk` is called some times a second.
///
/// # Errors
/// What makes experiments impossible is an error, and the command has not started then, or not come
/// to its `main`; it is ended in that case. What goes wrong later is a warning in the run.
pub fn run(options: &Options, stop: &AtomicBool, talk: Talk<'_>) -> Result<Outcome, Error> {
    launch::check(&options.command)?;
    let memory = Memory::new()?;
    memory.period_ns.store(options.period_ns, Relaxed);
    let inherited = memory.inheritable()?;
    let environment = launch::environment(&options.runtime, &inherited, runtime_abi::VARIABLE)?;
    let mut launched = Launched::prepare_with(&options.command, &environment)?;
    drop(inherited);
    launched.start()?;
    let mut warnings = Vec::new();
    if !launch::await_runtime(memory.words(), &mut launched, stop) {
        let error = launch::not_loaded(&options.command, launched.pid(), false);
        warnings.push(error.to_string());
        return Ok(unmeasured(options, launched, warnings));
    }
    let prepared = Session::prepare(options, memory, launched.pid());
    let mut session = match prepared {
        Ok(session) => session,
        Err(error) => {
            // It waits before its first own instruction: nothing of it has happened yet.
            launched.signal(libc::SIGKILL);
            launched.wait();
            return Err(error);
        }
    };
    let exit = session.go(&mut launched, stop, talk);
    let run = session.finish(exit, warnings);
    Ok(Outcome {
        run,
        exit,
        running: exit.is_none().then_some(launched),
    })
}

fn unmeasured(options: &Options, mut launched: Launched, warnings: Vec<String>) -> Outcome {
    let exit = launched.try_wait();
    Outcome {
        run: CausalRun {
            command: options.command.clone(),
            host: sampler::host(),
            collector: "vitalfew".into(),
            start_unix_ns: launch::unix_ns(),
            duration_ns: 0,
            undelayed_ns: 0,
            end: launch::end(exit),
            settings: settings(options, false),
            images: Vec::new(),
            points: Vec::new(),
            fragments: Vec::new(),
            experiments: Vec::new(),
            warnings,
        },
        exit,
        running: exit.is_none().then_some(launched),
    }
}

struct Session<'a> {
    options: &'a Options,
    memory: Memory,
    code: Code,
    points: Points,
    experiments: Experiments,
    start: Instant,
    start_unix_ns: u64,
    /// Next unknown place to answer.
    answered: u64,
    unloaded: u32,
    visited: bool,
    stopped: Option<String>,
    /// The timers that sample, if they are the processors'.
    ticks: Option<Ticks>,
}

impl<'a> Session<'a> {
    /// Everything up to the target's first instruction.
    fn prepare(options: &'a Options, memory: Memory, pid: u32) -> Result<Self, Error> {
        let mut code = Code::new(pid, options.by, &options.scope);
        if options.scope.is_empty() {
            let executable = code.executable().to_owned();
            let image = code.image(&executable);
            let known = match options.by {
                profile::Granularity::Line => image.debug.is_some(),
                profile::Granularity::Function => image.symbols.is_some(),
            };
            if !known {
                let program = executable.into();
                return Err(Error::NoDebugInfo { program });
            }
        }
        if let Some(wanted) = &options.fixed_fragment {
            search::fragment(&mut code, options.by, wanted)?;
        }
        let points = Points::open(&options.points, &mut code, pid)?;
        Ok(Self {
            ticks: sample_processors(&memory, options.period_ns),
            experiments: Experiments::new(options),
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
        })
    }

    /// Lets the target run, to its end or ours.
    fn go(&mut self, launched: &mut Launched, stop: &AtomicBool, talk: Talk<'_>) -> Option<Exit> {
        self.start = Instant::now();
        self.start_unix_ns = launch::unix_ns();
        if let Some(hints) = &self.options.end_to_end {
            self.experiments
                .begin_whole(&self.memory, &mut self.code, hints);
        }
        self.memory.words().set_state(state::READY, state::RUNNING);
        let mut said = Duration::ZERO;
        loop {
            let seen = self.memory.news.load(Acquire);
            self.answer();
            self.points.discover(&self.memory);
            let now = self.start.elapsed();
            if let Some(exit) = launched.try_wait() {
                return Some(exit);
            }
            let over = self.options.duration.is_some_and(|end| now >= end);
            if over || stop.load(Relaxed) || self.is_hopeless(now) {
                return None;
            }
            // To read events of other processors interrupts them: only when something is to be done.
            let mut next = self.experiments.rest(now);
            if next.is_zero() || now >= said || self.points.has_latency() {
                let counts = self.points.read(&self.memory, &self.code);
                next = (self.experiments).step(&self.memory, &self.code, &counts, now);
                if now >= said {
                    self.visited |= counts.iter().any(|count| count.progress() > 0);
                    let live = self.live(now, &counts);
                    talk(&live, &mut || self.so_far(now, &counts));
                    said = now + Duration::from_millis(250);
                }
            }
            self.memory.words().wait(seen, next.min(TICK));
        }
    }

    /// Answers the runtime's questions.
    fn answer(&mut self) {
        let unloaded = self.memory.unloaded.load(Acquire);
        if unloaded != self.unloaded {
            self.unloaded = unloaded;
            for (address, place) in self.code.again() {
                self.memory.set_place(address, place);
            }
        }
        let head = self.memory.unknown_head.0.load(Acquire);
        let ring = self.memory.unknown.len() as u64;
        // A sample that finds no room is asked about again by the next one there.
        let first = self.answered.max(head.saturating_sub(ring));
        for at in first..head {
            let Some(entry) = self.memory.unknown.get((at % ring) as usize) else {
                continue;
            };
            let address = entry.swap(0, Acquire);
            if address != 0 && self.memory.place(address).is_none() {
                let place = self.code.place(address);
                self.memory.set_place(address, place);
            }
        }
        self.answered = head;
    }

    fn live(&self, elapsed: Duration, counts: &[Count]) -> Live {
        let names = self.points.list.iter().map(|point| point.name.clone());
        Live {
            elapsed,
            experiments: self.experiments.done.len(),
            samples: self.memory.samples.0.load(Relaxed),
            fragments: self.code.fragments().len(),
            points: names
                .zip(counts.iter().map(|count| count.progress()))
                .collect(),
        }
    }

    /// Returns whether nothing can be learned, however long it takes; says why.
    fn is_hopeless(&mut self, now: Duration) -> bool {
        let samples = self.memory.samples.0.load(Relaxed);
        let refused = self.memory.refused.load(Relaxed);
        let reason = if refused != 0 && samples == 0 {
            let source = io::Error::from_raw_os_error(refused);
            Error::SamplingRefused { source }.to_string()
        } else if samples > HOPELESS_SAMPLES && self.code.fragments().is_empty() {
            format!("stopped early: {}", self.nothing_in_scope())
        } else if now > HOPELESS && !self.visited && self.options.end_to_end.is_none() {
            let none = self.points.list.is_empty();
            let what = if none {
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

    /// Ends measuring and puts together what was measured.
    fn finish(mut self, exit: Option<Exit>, mut warnings: Vec<String>) -> CausalRun {
        let duration = self.start.elapsed();
        self.answer();
        self.points.discover(&self.memory);
        let counts = self.points.read(&self.memory, &self.code);
        let whole = exit.is_some() && self.options.end_to_end.is_some();
        self.experiments
            .end(&self.memory, &self.code, &counts, duration, whole);
        self.memory.experiment.0.store(Word::NONE.pack(), Relaxed);
        self.memory.state.store(state::OFF, Relaxed);
        self.warn(&mut warnings, exit);
        let mut run = self.so_far(duration, &counts);
        if whole {
            run.points.insert(0, Experiments::end_to_end_point());
        }
        run.end = launch::end(exit);
        run.warnings = warnings;
        run
    }

    /// Returns what was measured until now.
    fn so_far(&mut self, now: Duration, counts: &[Count]) -> CausalRun {
        let mut images: Vec<ProfiledImage> = Vec::new();
        let mut fragments = Vec::new();
        let known = self.code.fragments().to_vec();
        for (number, fragment) in known.iter().enumerate() {
            let image = self.image(&mut images, fragment);
            let samples = self
                .memory
                .fragments
                .get(number)
                .map_or(0, |n| n.load(Relaxed));
            let delayed = self.experiments.delayed_samples(number);
            fragments.push(Fragment {
                name: fragment.name.clone(),
                detail: fragment.detail.clone(),
                image,
                samples,
                undelayed_samples: samples.saturating_sub(delayed),
            });
        }
        let named = self.points.list.iter().zip(counts);
        let points = named.map(|(point, count)| ProgressPoint {
            name: point.name.clone(),
            counted_by: point.counted_by,
            visits: match *count {
                Count::Visits(n) | Count::Latency(n, ..) => n,
            },
        });
        let nanos = now.as_nanos() as u64;
        CausalRun {
            command: self.options.command.clone(),
            host: sampler::host(),
            collector: "vitalfew".into(),
            start_unix_ns: self.start_unix_ns,
            duration_ns: nanos,
            undelayed_ns: nanos.saturating_sub(self.experiments.delayed_ns()),
            end: launch::end(None),
            settings: settings(self.options, self.ticks.is_some()),
            images,
            points: points.collect(),
            fragments,
            experiments: self.experiments.done.clone(),
            warnings: Vec::new(),
        }
    }

    /// The position of a fragment's image in the run's list.
    fn image(&mut self, images: &mut Vec<ProfiledImage>, fragment: &Known) -> Option<u32> {
        if fragment.image.is_empty() {
            return None;
        }
        let known = images.iter().position(|image| image.path == fragment.image);
        let at = known.unwrap_or_else(|| {
            let symbols = &self.code.image(&fragment.image).symbols;
            images.push(ProfiledImage {
                path: fragment.image.clone(),
                build_id: symbols.as_ref().and_then(|s| s.build_id().cloned()),
            });
            images.len() - 1
        });
        u32::try_from(at).ok()
    }

    /// Says what went wrong or is missing.
    fn warn(&mut self, warnings: &mut Vec<String>, exit: Option<Exit>) {
        warnings.extend(self.stopped.clone());
        let samples = self.memory.samples.0.load(Relaxed);
        let outside = self.memory.outside.load(Relaxed);
        let unmeasured = self.memory.unmeasured.load(Relaxed);
        let refused = self.memory.refused.load(Relaxed);
        if unmeasured > 0 {
            warnings.push(format!(
                "{unmeasured} threads were not measured: more than {} at a time",
                runtime_abi::THREADS
            ));
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
        if samples == 0 && refused == 0 {
            warnings.push(
                "nothing was sampled: the program took too little time; --runs N repeats it".into(),
            );
        } else if self.code.fragments().is_empty() && self.stopped.is_none() {
            warnings.push(self.nothing_in_scope());
        } else if outside * 2 > samples {
            let share = 100.0 * outside as f64 / samples as f64;
            warnings.push(format!(
                "{share:.0} % of the samples have nothing in scope in their call chain"
            ));
        }
        if self.stopped.is_none() && !self.visited_any() && self.options.end_to_end.is_none() {
            warnings.push(
                "no progress point was visited: mark one in the source (vitalfew.h or coz.h), name one with --progress, or use --end-to-end".into(),
            );
        }
    }

    /// Why no sample has a fragment, and what mends it.
    fn nothing_in_scope(&mut self) -> String {
        let samples = self.memory.samples.0.load(Relaxed);
        let executable = self.code.executable().to_owned();
        let image = self.code.image(&executable);
        let stripped = (image.symbols.as_ref()).is_none_or(|symbols| !symbols.is_complete());
        if stripped && self.options.scope.is_empty() {
            return format!(
                "of {samples} samples none has a name: the program has no symbols (it is stripped); build it with -g, or name libraries with --scope"
            );
        }
        format!("of {samples} samples none is in scope; widen it with --scope")
    }

    fn visited_any(&self) -> bool {
        let counts = self.points.read(&self.memory, &self.code);
        counts.iter().any(|count| count.progress() > 0)
    }
}

/// Samples by the processors' timers. Without the right to it every thread samples itself, which takes more of its time
/// where threads change often.
fn sample_processors(memory: &Memory, period_ns: u64) -> Option<Ticks> {
    let handler = memory.handler.load(Relaxed);
    if handler == 0 {
        return None;
    }
    let ticks = Ticks::start(handler, period_ns).ok()?;
    for &(cpu, period) in ticks.periods() {
        if let Some(cpu) = memory.cpus.get(cpu as usize) {
            cpu.0.period_ns.store(period, Relaxed);
        }
    }
    memory.by_processor.store(1, Relaxed);
    Some(ticks)
}

fn settings(options: &Options, by_processor: bool) -> ExperimentSettings {
    ExperimentSettings {
        by: options.by,
        sample_period_ns: options.period_ns,
        by_processor,
        batch: 1,
        cooloff_ns: crate::experiments::COOLOFF.as_nanos() as u64,
        end_to_end: options.end_to_end.is_some(),
        scope: options.scope.clone(),
        fixed_fragments: options.fixed_fragment.iter().cloned().collect(),
        fixed_speedups: options.fixed_speedup.iter().copied().collect(),
    }
}
