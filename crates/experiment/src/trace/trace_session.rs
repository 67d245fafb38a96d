//! A tracing session, from the launch to the last record.

mod warnings;

use super::drain::{Reading, TraceDrain};
use super::ending::Ending;
use super::functions::TracedImage;
use super::memory::TraceMemory;
use super::plan::Planner;
use super::read_tsc;
use super::select::FunctionPattern;
use super::solo::Solo;
use super::stacks::TracedStacks;
use super::throttling::Throttling;
use super::trace_budget::{SeenExecutions, TraceBudget};
use super::waiting::ThreadWaits;
use crate::host::MachineUsage;
use crate::memory::wake_waiters;
use crate::{Error, launch};
use profile::{TraceBatch, TraceHead, TracedBlock};
use runtime_abi::state;
use sampler::process_file;
use sampler::{Exit, Launched, command_text};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Longest time between two reads of the buffers.
const TICK: Duration = Duration::from_millis(5);
/// Time limit for reading records after the end of tracing, if tracing has a time limit. The limit
/// is the longer of this and [`READING_AFTER_PART`] of the tracing time. Later records are counted
/// as lost.
const READING_AFTER: Duration = Duration::from_secs(1);
const READING_AFTER_PART: f64 = 0.1;

/// Options of a trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The process to trace instead of launching a command. `command` is then the process's
    /// command.
    pub attach: Option<u32>,
    /// The library to preload, found by [`crate::find_runtime`].
    pub runtime: PathBuf,
    /// Functions to trace. A function that no image has is an error.
    pub functions: Vec<FunctionPattern>,
    /// Further functions, which may be absent.
    pub also: Vec<FunctionPattern>,
    /// Memory for unread records in bytes, at most 2 GiB. Records without room are counted as lost.
    pub room: u64,
    /// Time limit of tracing. `None` traces until the target ends.
    pub duration: Option<Duration>,
    /// Part of the target's time that tracing may take. Above it, only one execution in many is
    /// traced. `None` sets no limit.
    pub budget: Option<f64>,
    /// Sampling period from the start (section 3.2.3): one execution in this many is traced.
    pub every: u32,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceLive {
    /// The traced process.
    pub process: u32,
    /// Time since the start.
    pub elapsed: Duration,
    /// Number of traced functions.
    pub blocks: usize,
    /// Number of threads so far.
    pub threads: usize,
    /// Number of executions so far.
    pub executions: u64,
    /// Number of lost executions.
    pub lost: u64,
}

/// The result of a run.
pub struct Traced {
    /// The trace without its events, which went to the sink.
    pub head: TraceHead,
    /// Exit status of the command. `None` if it still runs.
    pub exit: Option<Exit>,
    /// The running command, to wait for.
    pub running: Option<Launched>,
}

/// Refuses a command that cannot be traced with any functions, without starting it.
///
/// # Errors
/// [`Error::NotPreloadable`].
pub fn check_traced_command(command: &[OsString]) -> Result<(), Error> {
    launch::check_preloadable(command)?;
    for file in launch::files_of_start(command) {
        let image = TracedImage::open_image(&file.to_string_lossy(), &file);
        if let Some(hazard) = image.ok().and_then(|image| image.hazard) {
            return Err(hazard.refuse_image(file));
        }
    }
    Ok(())
}

/// Traces a command, as [`trace`](super::trace) describes.
pub(super) fn trace_command(
    options: &TraceOptions,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
    talk: &mut dyn FnMut(&TraceLive),
) -> Result<Traced, Error> {
    launch::check_preloadable(&options.command)?;
    let shared = TraceMemory::new(options.room)?;
    let inherited = shared.inheritable_descriptor()?;
    let environment =
        launch::target_environment(&options.runtime, &inherited, runtime_abi::trace::VARIABLE)?;
    let mut launched = Launched::fork_waiting_with(&options.command, &environment)?;
    drop(inherited);
    shared.pid.store(launched.pid(), Release);
    launched.start()?;
    launch::await_runtime(shared.wait_words(), &options.command, &mut launched, stop)?;
    let prepared = TraceSession::prepare_target(options, shared, launched.pid(), false);
    let mut session = match prepared {
        Ok(session) => session,
        Err(error) => {
            // The target waits before its first instruction, so it has done nothing yet.
            launched.send_signal(libc::SIGKILL);
            launched.wait();
            return Err(error);
        }
    };
    let exit = session.run_target(&mut launched, stop, sink, talk);
    let head = session.finish_trace(exit, sink);
    Ok(Traced {
        head,
        exit,
        running: exit.is_none().then_some(launched),
    })
}

/// A target of tracing.
pub(super) trait TracedTarget {
    /// Returns the process id.
    fn pid(&self) -> u32;
    /// Returns the end of the target if it has ended, with the exit status if that is known.
    fn try_end(&mut self) -> Option<Option<Exit>>;
}

impl TracedTarget for Launched {
    fn pid(&self) -> u32 {
        Launched::pid(self)
    }

    fn try_end(&mut self) -> Option<Option<Exit>> {
        self.try_wait().map(Some)
    }
}

pub(super) struct TraceSession<'a> {
    options: &'a TraceOptions,
    patterns: Vec<FunctionPattern>,
    pub(super) shared: TraceMemory,
    pub(super) planner: Planner,
    drain: TraceDrain,
    stacks: TracedStacks,
    waiting: ThreadWaits,
    throttling: Throttling,
    trace_budget: TraceBudget,
    solo: Solo,
    start: Instant,
    start_ticks: u64,
    /// End of the process or of tracing, in ticks.
    end_ticks: u64,
    start_unix_ns: u64,
    answered: u32,
    pub(super) warnings: Vec<String>,
    /// Usage of the machine at the start.
    host: Option<MachineUsage>,
}

impl<'a> TraceSession<'a> {
    /// Prepares tracing up to the target's first instruction, or up to the first change of a
    /// running process.
    pub(super) fn prepare_target(
        options: &'a TraceOptions,
        shared: TraceMemory,
        pid: u32,
        runs: bool,
    ) -> Result<Self, Error> {
        let executable = std::fs::read_link(process_file(pid, "exe"));
        let executable = executable.map_or(String::new(), |path| {
            let path = path.to_string_lossy().into_owned();
            path.strip_suffix(" (deleted)")
                .map_or(path.clone(), str::to_owned)
        });
        let patterns = [options.functions.clone(), options.also.clone()].concat();
        let mut planner = Planner::new(&shared, &executable, patterns.len());
        planner.keeps_jumps = runs;
        let trace_budget = TraceBudget::new(
            options.budget.unwrap_or(f64::INFINITY),
            call_overhead(),
            read_tsc(),
        );
        let mut session = Self {
            options,
            patterns,
            shared,
            planner,
            drain: TraceDrain::new(),
            stacks: TracedStacks::new(pid, &options.runtime),
            waiting: ThreadWaits::new(pid),
            throttling: Throttling::of(pid),
            trace_budget,
            solo: Solo::default(),
            start: Instant::now(),
            start_ticks: read_tsc(),
            end_ticks: 0,
            start_unix_ns: 0,
            answered: 0,
            warnings: Vec::new(),
            host: MachineUsage::read_machine(),
        };
        session.plan_mappings()?;
        session.check_traceable(&executable)?;
        Ok(session)
    }

    /// Refuses a target that cannot be traced, or that has none of the requested functions.
    fn check_traceable(&mut self, executable: &str) -> Result<(), Error> {
        if let Some((image, hazard)) = self.planner.hazard.take() {
            return Err(hazard.refuse_image(image.into()));
        }
        if self.shared.state.load(Acquire) != state::READY {
            return Err(Error::NotPreloadable {
                program: executable.into(),
                reason: "reading its symbols took longer than the 30 s for which it waits before main, and it ran on without being traced: \
                         try again when the machine has less to do"
                    .to_owned(),
            });
        }
        let unmatched: Vec<usize> = self.planner.unmatched().collect();
        for number in unmatched {
            if let Some(pattern) = self.options.functions.get(number)
                && self.planner.could_match(pattern)
            {
                return Err(Error::NoSuchPlace {
                    what: pattern.text(),
                    program: executable.into(),
                    near: self.planner.near(pattern),
                });
            }
        }
        let later = self
            .options
            .functions
            .iter()
            .any(|p| !self.planner.could_match(p));
        let none = self
            .planner
            .blocks
            .iter()
            .all(|block| block.refused.is_some());
        if none && !later {
            let reason = self
                .planner
                .blocks
                .iter()
                .find_map(|block| Some(format!("{}: {}", block.name, block.refused.as_ref()?)));
            return Err(Error::NothingTraceable {
                program: executable.into(),
                reason: reason.unwrap_or_else(|| "no function was asked for".into()),
            });
        }
        Ok(())
    }

    /// Plans patches for new mappings.
    fn plan_mappings(&mut self) -> Result<(), Error> {
        let known = self.planner.blocks.len();
        self.planner.plan(&self.shared, &self.patterns)?;
        if self.options.every > 1 {
            for block in known..self.planner.blocks.len() {
                TraceBudget::set(
                    &self.shared,
                    &mut self.planner.blocks,
                    block,
                    self.options.every,
                );
            }
        }
        Ok(())
    }

    /// Lets the target run until it ends or tracing ends.
    pub(super) fn run_target(
        &mut self,
        target: &mut dyn TracedTarget,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
        talk: &mut dyn FnMut(&TraceLive),
    ) -> Option<Exit> {
        // What the caller prepares must not take CPU time from the program.
        talk(&self.live_progress(target.pid(), Duration::ZERO));
        self.start = Instant::now();
        self.start_ticks = read_tsc();
        self.start_unix_ns = launch::unix_ns();
        self.host = MachineUsage::read_machine();
        let ending = Ending::watch_child(target.pid());
        self.shared
            .wait_words()
            .set_state(state::READY, state::RUNNING);
        self.solo = Solo::start(&self.shared, target.pid());
        let (mut said, mut looked) = (Duration::ZERO, TICK);
        let mut is_behind = false;
        loop {
            let seen = self.shared.news.load(Acquire);
            let end = target.try_end();
            self.answer_target();
            // Reading takes CPU time. It must not differ between the compared times of an interval.
            if is_behind || !self.solo.is_under_way() {
                is_behind = self.read_records(Reading::Some, sink);
            }
            let now = self.start.elapsed();
            let over = self.options.duration.is_some_and(|end| now >= end);
            if end.is_some() || over || stop.load(Relaxed) {
                self.end_ticks = match end {
                    Some(_) => ending.end_ticks(&self.shared, &mut self.waiting),
                    None => read_tsc(),
                };
                self.solo.stop();
                return end.flatten();
            }
            if now >= looked {
                looked = now + TICK;
                self.look_at_cost();
            }
            if now >= said {
                said = now + Duration::from_millis(250);
                talk(&self.live_progress(target.pid(), now));
            }
            if !is_behind {
                self.shared.wait_words().wait_for_news(seen, TICK);
            }
        }
    }

    /// Reads records. Returns whether more can be read.
    fn read_records(
        &mut self,
        how: Reading,
        sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
    ) -> bool {
        let blocks = &self.planner.blocks;
        self.drain.set_blocks(blocks.len());
        self.drain.read_threads(
            &self.shared,
            &mut self.stacks,
            &mut self.waiting,
            &self.solo,
            how,
            &mut |batch| sink(blocks, batch),
        )
    }

    /// Reads the remaining records after the end, within a time limit.
    fn read_the_rest(&mut self, sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch)) {
        let limit = self
            .options
            .duration
            .map(|end| end + READING_AFTER.max(end.mul_f64(READING_AFTER_PART)));
        while self.read_records(Reading::Some, sink) {
            if limit.is_some_and(|limit| self.start.elapsed() >= limit) {
                self.read_records(Reading::Discard, sink);
                return;
            }
        }
        self.read_records(Reading::Last, sink);
    }

    /// Answers the target, which waits after it has loaded a library or marked a block.
    fn answer_target(&mut self) {
        let asked = self.shared.asked.load(Acquire);
        if asked == self.answered {
            return;
        }
        self.answered = asked;
        if let Err(error) = self.plan_mappings() {
            self.warnings.push(format!(
                "a library that was loaded later is not traced: {error}"
            ));
        }
        if let Some((image, hazard)) = &self.planner.hazard {
            let reason = hazard.describe_hazard();
            self.warnings.push(format!(
                "nothing was traced from when {image} was loaded: it {reason}"
            ));
            self.let_go();
        }
        self.stacks.refresh();
        self.shared.answered.store(asked, Release);
        wake_waiters(&self.shared.answered);
    }

    fn look_at_cost(&mut self) {
        if self.options.budget.is_none() {
            return;
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.drain.active_threads().min(cpus);
        let now = read_tsc();
        let elapsed = self.start.elapsed().as_nanos().max(1) as f64;
        self.trace_budget.step(
            &self.shared,
            &mut self.planner.blocks,
            &SeenExecutions {
                executions: &self.drain.current,
                waits: self.waiting.seen,
                threads,
                read: self.drain.records_read,
                unread: self.drain.unread_records(&self.shared),
            },
            now,
            now.saturating_sub(self.start_ticks) as f64 / elapsed,
        );
    }

    /// Ends the tracing of calls: later calls of traced functions pass through.
    pub(super) fn let_go(&mut self) {
        self.shared.state.store(state::OFF, Release);
        for block in 0..self.planner.blocks.len() {
            if let Some(word) = self.shared.periods.get(block) {
                word.store(u32::MAX, Relaxed);
            }
        }
    }

    fn live_progress(&self, process: u32, elapsed: Duration) -> TraceLive {
        TraceLive {
            process,
            elapsed,
            blocks: self
                .planner
                .blocks
                .iter()
                .filter(|b| b.refused.is_none())
                .count(),
            threads: self.drain.threads.len(),
            executions: self.drain.executions.iter().sum::<u64>(),
            lost: self.drain.lost,
        }
    }

    /// Ends tracing, and returns the head of the trace.
    pub(super) fn finish_trace(
        mut self,
        exit: Option<Exit>,
        sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
    ) -> TraceHead {
        let solo = self.solo.stop();
        if exit.is_none() {
            self.let_go();
        }
        self.read_the_rest(sink);
        let elapsed = self.start.elapsed().as_secs_f64();
        // The rate is measured over the longest time. The program may have ended long before.
        let rate = read_tsc().saturating_sub(self.start_ticks) as f64 / elapsed.max(1e-9);
        let end = self.end_ticks;
        self.drain.settle_counts(end, &mut self.planner.blocks);
        self.warn();
        // The first thread waits for the start, which is no time of the run.
        for thread in &mut self.drain.threads {
            thread.start = thread.start.max(self.start_ticks);
        }
        TraceHead {
            command: command_text(&self.options.command),
            host: sampler::read_host(),
            start_unix_ns: self.start_unix_ns,
            ticks_per_second: rate as u64,
            duration: end.saturating_sub(self.start_ticks),
            end: launch::run_end(exit),
            blocks: self.planner.blocks,
            threads: self.drain.threads,
            places: self.stacks.named(),
            lost: self.drain.lost,
            waits: self.waiting.works(),
            cpu_users: self.waiting.cpu_users(),
            throttled: self.throttling.since(),
            solo,
            call_ticks: self.trace_budget.cost,
            warnings: self.warnings,
        }
    }
}

/// Returns the cost of one traced execution on this machine, in ticks: two time stamps, and a
/// quarter of their cost for the rest (`benches/interference.py` measures it).
fn call_overhead() -> u64 {
    const PAIRS: u64 = 1000;
    let pairs = || {
        let start = read_tsc();
        for _ in 0..2 * PAIRS {
            std::hint::black_box(read_tsc());
        }
        read_tsc().saturating_sub(start) / PAIRS
    };
    let least = (0..20).map(|_| pairs()).min().unwrap_or(0);
    least + least / 4
}
