//! Conversion of the sums into the result: functions with their losses and waits.

use super::analyser::{Analyser, FunctionState};
use super::functions::{ends_waits_of, waits_for};
use super::waits::{WaitSum, kind_of_wait};
use profile::{
    BlockId, CauseKind, Contention, FunctionLoss, FunctionStack, FunctionThread, FunctionWaits,
    Interference, LeftOutFunction, SoloReport, SoloVerdict, TraceHead, TracedBlock, TracedFunction,
    TracedThread, WaitEnder,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Maximum number of threads, stacks, and functions that ended waits, in the result of a function.
const THREADS: usize = 64;
const STACKS: usize = 8;
const ENDERS: usize = 6;
/// Least part of a function's loss that a kind of wait accounts for, to be named as the cause.
const MOST: f64 = 0.5;
/// Least part of a function's time in waits for other threads, to count as contention.
const SOME: f64 = 0.1;
/// Least part of the threads' time in waits for locks that must show in a thread that runs alone.
const WAITED: f64 = 0.05;

impl Analyser {
    /// Returns the result of the analysis. `head` has the threads and the names.
    pub fn finish(mut self, head: &TraceHead) -> Interference {
        let names = ResultNames::new(head, self.aarch64, self.turns.by_function());
        let ticks = |t: &TracedThread| t.end.saturating_sub(t.start) as f64;
        let thread_time = head.threads.iter().map(ticks).sum::<f64>().max(1.0);
        let mut functions = Vec::new();
        let mut left_out = Vec::new();
        for (number, block) in head.blocks.iter().enumerate() {
            let state = self.functions.get(number);
            let Some(state) = state.filter(|state| state.recorded > 0) else {
                left_out.push(leave_out(block));
                continue;
            };
            let number = number as BlockId;
            functions.push((number, names.describe_function(number, block, state)));
        }
        let contended = functions.iter().filter_map(|(number, function)| {
            contention_kind(function)?;
            Some(*number)
        });
        let contended: FxHashSet<BlockId> = contended.collect();
        let mut solo = std::mem::take(&mut self.solos).finish(head, &contended);
        let mut contention = None;
        if let Some(loss) = solo.contention {
            let own = functions.iter().filter(|(number, _)| {
                contended.contains(number) && solo.losses.contains_key(number)
            });
            contention = describe_contention(own.map(|(_, function)| function), loss);
        }
        let functions = functions.into_iter().map(|(number, mut function)| {
            if let Some(losses) = solo.losses.remove(&number) {
                function.cause = cause_of_loss(&function, &losses.function);
                function.loss = Some(losses.function);
                function.locks = losses.locks;
            }
            function
        });
        let mut functions: Vec<TracedFunction> = functions.collect();
        let lost = |function: &TracedFunction| match function.loss {
            Some(loss) if loss.solo.is_claimed => loss.solo.loss.estimate,
            _ => 0.0,
        };
        let waited = |function: &TracedFunction| function.waits.iter().map(|w| w.ns).sum::<f64>();
        functions.sort_by(|a, b| {
            let by_loss = lost(b).total_cmp(&lost(a));
            let by_waits = || waited(b).total_cmp(&waited(a));
            by_loss
                .then_with(by_waits)
                .then_with(|| b.total_ns.total_cmp(&a.total_ns))
        });
        let thread_time_ns = thread_time * names.ns;
        let mut report = solo.report;
        doubt_by_waits(&mut report, &functions, thread_time_ns);
        Interference {
            command: head.command.clone(),
            host: head.host.clone(),
            start_unix_ns: head.start_unix_ns,
            duration_ns: head.duration as f64 * names.ns,
            end: head.end,
            executions: self.executions,
            lost: head.lost.max(self.lost),
            threads: head.threads.len() as u64,
            thread_time_ns,
            waits: head.waits,
            machine: self.machine_load(head),
            solo: report,
            contention,
            functions,
            left_out,
            warnings: self.warnings(head),
        }
    }

    fn warnings(&self, head: &TraceHead) -> Vec<String> {
        let mut warnings = head.warnings.clone();
        let lost = head.lost.max(self.lost);
        if lost > 0 {
            let share = 100.0 * lost as f64 / (self.executions.max(1) + lost) as f64;
            warnings.push(format!(
                "{lost} executions ({share:.1} %) were lost, because buffers were full or there was no time to read them: use --overhead or \
                 --every, or trace fewer functions"
            ));
        }
        if self.contradictory > 0 {
            let n = self.contradictory;
            warnings.push(format!(
                "{n} items contradict the clock (the CPUs' time-stamp counters differ, or the trace is damaged): left out"
            ));
        }
        if self.unknown > 0 {
            let n = self.unknown;
            warnings.push(format!(
                "{n} items are of functions that are not described: left out"
            ));
        }
        warnings
    }
}

/// Takes it back that no interference was found, if threads wait for locks for more than the loss
/// can be. Such waits have time limits, as those for Python's lock do, and count as sleeps.
fn doubt_by_waits(report: &mut SoloReport, functions: &[TracedFunction], thread_time_ns: f64) {
    let waits = functions.iter().flat_map(|function| &function.waits);
    let at_locks = waits.filter(|waits| waits.kind == CauseKind::Lock);
    let part = at_locks.map(|waits| waits.ns).sum::<f64>() / thread_time_ns.max(1.0);
    let most = report.program.map_or(0.0, |program| program.loss.high);
    if report.verdict == SoloVerdict::NotFound && part > most.max(WAITED) {
        report.verdict = SoloVerdict::NotMeasured;
        report.refused = Some(format!(
            "threads wait for locks for {:.0} % of their time, which does not show in a thread that runs alone",
            100.0 * part
        ));
    }
}

/// Returns the kind of contention in a function. The longest waits that the kernel saw decide. The
/// function's name decides for a lock function that spins.
fn contention_kind(function: &TracedFunction) -> Option<CauseKind> {
    let longest = function.waits.first();
    let longest = longest.filter(|waits| waits.ns >= SOME * function.total_ns);
    let name = &function.name;
    let by_name = waits_for(name).or_else(|| ends_waits_of(name));
    let kind = longest.map(|waits| waits.kind).or(by_name);
    kind.filter(|kind| kind.is_contention())
}

/// Returns the cause of a function's loss: contention, or the kind of wait that accounts for most
/// of it, or the cache line that it shares with other threads.
fn cause_of_loss(function: &TracedFunction, loss: &FunctionLoss) -> Option<CauseKind> {
    let lost = loss.solo.loss.estimate / loss.share.max(f64::MIN_POSITIVE);
    let longest = function.waits.first().filter(|_| lost > 0.0);
    let longest = longest.filter(|waits| waits.ns >= MOST * lost * function.total_ns);
    let shared = (function.shared_line.as_ref()).map(|_| CauseKind::SharedLine);
    (contention_kind(function))
        .or(longest.map(|waits| waits.kind))
        .or(shared)
}

/// Describes contention in several functions by the kind for which threads wait longest, and by the
/// function of that kind in which they do. Functions that a program calls come before the C
/// library's inner functions, which say less.
fn describe_contention<'a>(
    functions: impl Iterator<Item = &'a TracedFunction>,
    loss: FunctionLoss,
) -> Option<Contention> {
    let functions: Vec<(&TracedFunction, CauseKind)> = functions
        .filter_map(|function| Some((function, contention_kind(function)?)))
        .collect();
    let waiting = |function: &TracedFunction| function.waits.first().map_or(0.0, |w| w.ns);
    let mut by_kind: BTreeMap<CauseKind, f64> = BTreeMap::new();
    for (function, kind) in &functions {
        *by_kind.entry(*kind).or_default() += waiting(function);
    }
    let (cause, _) = by_kind.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let of_cause = functions.iter().filter(|(_, kind)| *kind == cause);
    let (longest, _) = of_cause.max_by(|(a, _), (b, _)| {
        let is_called = |function: &TracedFunction| !function.name.starts_with("__");
        let by_name = is_called(a).cmp(&is_called(b));
        by_name
            .then_with(|| waiting(a).total_cmp(&waiting(b)))
            .then_with(|| a.total_ns.total_cmp(&b.total_ns))
    })?;
    Some(Contention {
        function: longest.name.clone(),
        image: longest.image.clone(),
        cause,
        functions: functions.len() as u64,
        loss,
    })
}

fn leave_out(block: &TracedBlock) -> LeftOutFunction {
    let why = match &block.refused {
        Some(why) => why.clone(),
        None if block.unfinished > 0 => format!(
            "never finished: {} calls were left by longjmp or ended with their thread",
            block.unfinished
        ),
        None => "never called".to_owned(),
    };
    LeftOutFunction {
        name: block.name.clone(),
        image: block.image.clone(),
        why,
    }
}

/// Names and units for the result of a run.
struct ResultNames<'a> {
    head: &'a TraceHead,
    aarch64: bool,
    turns: FxHashMap<BlockId, CauseKind>,
    /// Nanoseconds in a tick.
    ns: f64,
}

/// Waits of one kind, in ticks.
#[derive(Default)]
struct KindSum {
    sum: WaitSum,
    /// Ticks of these waits by the function that ended them, in total and for each thread.
    enders: BTreeMap<Option<BlockId>, (u64, BTreeMap<u32, u64>)>,
}

impl<'a> ResultNames<'a> {
    fn new(head: &'a TraceHead, aarch64: bool, turns: FxHashMap<BlockId, CauseKind>) -> Self {
        Self {
            head,
            aarch64,
            turns,
            ns: 1e9 / head.ticks_per_second.max(1) as f64,
        }
    }

    fn describe_function(
        &self,
        number: BlockId,
        block: &TracedBlock,
        state: &FunctionState,
    ) -> TracedFunction {
        // Threads count all calls. The recorded calls are scaled up to that count.
        let exact = match (block.calls, block.represented) {
            (0, _) | (_, 0) => 1.0,
            (calls, represented) => calls as f64 / represented as f64,
        };
        let total = state.ticks as f64 * exact * self.ns;
        let calls = state.calls as f64 * exact;
        TracedFunction {
            name: block.name.clone(),
            image: block.image.clone(),
            kind: block.kind,
            loss: None,
            locks: Vec::new(),
            cause: None,
            shared_line: (block.shared_line.clone())
                .filter(|line| line.shared as f64 >= MOST * line.samples as f64),
            waits: self.describe_waits(number, block, state, exact),
            calls: calls.round() as u64,
            recorded: state.recorded,
            period: block.period,
            unwound: state.unwound,
            total_ns: total,
            mean_ns: total / calls.max(1.0),
            max_ns: state.longest as f64 * self.ns,
            threads: self.describe_threads(state),
            threads_total: state.threads.len() as u64,
            stacks: self.describe_stacks(state),
        }
    }

    fn describe_waits(
        &self,
        number: BlockId,
        block: &TracedBlock,
        state: &FunctionState,
        exact: f64,
    ) -> Vec<FunctionWaits> {
        let turn = self.turns.get(&number).copied();
        let mut kinds: BTreeMap<CauseKind, KindSum> = BTreeMap::new();
        for (reason, sum) in &state.waits.by_reason {
            let waker = reason.waker_block.and_then(|at| self.function_name(at));
            let kind = kind_of_wait(reason, &block.name, waker, turn, self.aarch64);
            let of_kind = kinds.entry(kind).or_default();
            of_kind.sum.ticks = of_kind.sum.ticks.saturating_add(sum.ticks);
            of_kind.sum.waits += sum.waits;
            if let Some(thread) = reason.waker.filter(|_| !reason.handed_over) {
                let ender = of_kind.enders.entry(reason.waker_block).or_default();
                ender.0 = ender.0.saturating_add(sum.ticks);
                *ender.1.entry(thread).or_default() += sum.ticks;
            }
        }
        let ns = |ticks: u64| ticks as f64 * exact * self.ns;
        let mut waits: Vec<FunctionWaits> = (kinds.into_iter())
            .map(|(kind, of)| FunctionWaits {
                kind,
                ns: ns(of.sum.ticks),
                waits: (of.sum.waits as f64 * exact).round() as u64,
                ended_by: self.describe_enders(&of, &ns),
            })
            .collect();
        waits.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        waits
    }

    fn describe_enders(&self, of: &KindSum, ns: &dyn Fn(u64) -> f64) -> Vec<WaitEnder> {
        let enders = of.enders.iter().map(|(block, (ticks, threads))| {
            let most = threads.iter().max_by_key(|(_, ticks)| **ticks);
            let thread = most.and_then(|(at, _)| self.head.threads.get(*at as usize));
            let function = block.and_then(|at| self.function_name(at));
            WaitEnder {
                function: function.map(str::to_owned),
                ns: ns(*ticks),
                thread: thread.map(|thread| self.thread_label(thread)),
            }
        });
        let mut enders: Vec<WaitEnder> = enders.collect();
        enders.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        enders.truncate(ENDERS);
        enders
    }

    fn function_name(&self, at: BlockId) -> Option<&'a str> {
        Some(self.head.blocks.get(at as usize)?.name.as_str())
    }

    /// Returns a thread's name, with its thread id if other threads have the same name.
    fn thread_label(&self, thread: &TracedThread) -> String {
        let namesakes = self.head.threads.iter().filter(|t| t.name == thread.name);
        match namesakes.count() {
            0 | 1 => thread.name.clone(),
            _ => format!("{} ({})", thread.name, thread.tid),
        }
    }

    fn describe_threads(&self, state: &FunctionState) -> Vec<FunctionThread> {
        let threads = state.threads.iter().filter_map(|(at, sum)| {
            let thread = self.head.threads.get(*at as usize)?;
            Some(FunctionThread {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                calls: sum.calls,
                total_ns: sum.ticks as f64 * self.ns,
            })
        });
        let mut threads: Vec<FunctionThread> = threads.collect();
        threads.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns).then(a.tid.cmp(&b.tid)));
        threads.truncate(THREADS);
        threads
    }

    fn describe_stacks(&self, state: &FunctionState) -> Vec<FunctionStack> {
        let frame = |place: &u32| {
            let Some(place) = self.head.places.get(*place as usize) else {
                return "?".to_owned();
            };
            match (&place.line, place.function.as_str()) {
                (_, "") => format!("{}+{:#x}", place.image, place.offset.0),
                (Some((file, line)), function) => format!("{function} {file}:{line}"),
                (None, function) => function.to_owned(),
            }
        };
        let stacks = state.stacks.iter().map(|stack| FunctionStack {
            frames: stack.places.iter().map(frame).collect(),
            count: stack.count,
            mean_ns: stack.ticks as f64 / stack.count.max(1) as f64 * self.ns,
        });
        let mut stacks: Vec<FunctionStack> = stacks.collect();
        let time = |stack: &FunctionStack| stack.count as f64 * stack.mean_ns;
        stacks.sort_by(|a, b| {
            time(b)
                .total_cmp(&time(a))
                .then_with(|| a.frames.cmp(&b.frames))
        });
        stacks.truncate(STACKS);
        stacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Between, BlockKind, SoloLoss};

    fn waiting_function(name: &str, kind: CauseKind, waited: f64) -> TracedFunction {
        TracedFunction {
            name: name.to_owned(),
            image: String::new(),
            kind: BlockKind::Function,
            loss: None,
            locks: Vec::new(),
            cause: None,
            shared_line: None,
            waits: vec![FunctionWaits {
                kind,
                ns: waited,
                waits: 1,
                ended_by: Vec::new(),
            }],
            calls: 1,
            recorded: 1,
            period: 1,
            unwound: 0,
            total_ns: 100.0,
            mean_ns: 100.0,
            max_ns: 100.0,
            threads: Vec::new(),
            threads_total: 1,
            stacks: Vec::new(),
        }
    }

    /// The C library waits for a lock in an inner function: the lock function that the program
    /// calls has the name, and not one that waits a little for something else.
    #[test]
    fn contention_is_named_by_what_threads_wait_for_longest() {
        let functions = [
            waiting_function("mprotect", CauseKind::AddressSpace, 20.0),
            waiting_function("pthread_mutex_lock", CauseKind::Lock, 0.0),
            waiting_function("__lll_lock_wait", CauseKind::Lock, 60.0),
        ];
        let loss = Between {
            estimate: 0.3,
            low: 0.2,
            high: 0.4,
        };
        let loss = FunctionLoss {
            share: 0.5,
            solo: SoloLoss {
                loss,
                placebo: None,
                is_claimed: true,
            },
        };
        let contention = describe_contention(functions.iter(), loss).expect("contention");
        assert_eq!(contention.function, "pthread_mutex_lock");
        assert_eq!(contention.cause, CauseKind::Lock);
        assert_eq!(contention.functions, 3);
    }

    /// Waits for Python's lock have time limits, and count as sleeps in which nothing is lost.
    #[test]
    fn waits_for_locks_that_do_not_show_are_not_nothing() {
        let verdict = |kind: CauseKind, waited: f64, high: f64| {
            let loss = Between {
                estimate: 0.0,
                low: -high,
                high,
            };
            let mut report = SoloReport {
                verdict: SoloVerdict::NotFound,
                program: Some(SoloLoss {
                    loss,
                    placebo: None,
                    is_claimed: false,
                }),
                ..SoloReport::default()
            };
            let functions = [waiting_function("take_gil", kind, waited)];
            doubt_by_waits(&mut report, &functions, 100.0);
            report.verdict
        };
        assert_eq!(
            verdict(CauseKind::Lock, 24.0, 0.08),
            SoloVerdict::NotMeasured
        );
        assert_eq!(verdict(CauseKind::Lock, 24.0, 0.3), SoloVerdict::NotFound);
        assert_eq!(verdict(CauseKind::Lock, 4.0, 0.01), SoloVerdict::NotFound);
        assert_eq!(verdict(CauseKind::Pool, 24.0, 0.08), SoloVerdict::NotFound);
    }
}
