//! Functions that cannot be patched, traced by the kernel's probes: some hundred times slower, by choice.

use super::waiting::ThreadWaits;
use profile::{BlockId, Execution, TRACED_ARGUMENTS, TraceItem, TracedBlock};
use rustc_hash::FxHashMap;
use sampler::{Calls, ProbedCall};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

/// Executions of one thread that are kept until its records are read.
const KEPT: usize = 1 << 16;
/// Threads with such executions.
const THREADS: usize = 1 << 14;

/// The executions of a thread that have not been handed over.
#[derive(Default)]
pub(super) struct KeptCall {
    pub pid: u32,
    /// Executions in the order of their ends.
    calls: VecDeque<Execution>,
    /// Number of the first ones that are complete: the thread's earlier records can be read.
    ripe: usize,
}

/// The kernel's probes in the target.
pub(super) struct Probes {
    pid: u32,
    calls: Option<Calls>,
    /// Reason that there are no probes.
    refused: Option<String>,
    kept: FxHashMap<u32, KeptCall>,
    /// The recorded arguments of each block.
    arguments: FxHashMap<BlockId, Vec<u8>>,
    /// The cost of an execution, in ticks.
    pub cost: u64,
    /// Executions so far.
    pub executions: u64,
    /// Executions for which there was no room.
    dropped: u64,
}

impl Probes {
    /// No probes yet in the process `pid`.
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            calls: None,
            refused: None,
            kept: FxHashMap::default(),
            arguments: FxHashMap::default(),
            cost: 0,
            executions: 0,
            dropped: 0,
        }
    }

    /// Returns how many functions are probed.
    pub fn functions(&self) -> usize {
        self.arguments.len()
    }

    /// Executions for which there was no room.
    pub fn lost(&self) -> u64 {
        self.dropped + self.calls.as_ref().map_or(0, Calls::lost)
    }

    /// Probes a function that was refused, or adds to that reason why it cannot be.
    pub fn add(&mut self, block: &mut TracedBlock, number: BlockId, file: &Path) {
        if self.calls.is_none() && self.refused.is_none() {
            match Calls::new() {
                Ok(calls) => self.calls = Some(calls),
                Err(error) => self.refused = Some(error.to_string()),
            }
            self.cost = measure_cost().unwrap_or(0);
        }
        let done = match (&mut self.calls, &self.refused) {
            (Some(calls), _) => calls
                .probe(self.pid, file, block.offset.0, number)
                .map_err(|error| error.to_string()),
            (None, refused) => Err(refused.clone().unwrap_or_default()),
        };
        match done {
            Ok(()) => {
                block.refused = None;
                block.probe_ticks = self.cost.max(1);
                self.arguments.insert(number, block.arguments.clone());
            }
            Err(error) => {
                block.arguments.clear();
                let reason = block.refused.take().unwrap_or_default();
                block.refused = Some(format!("{reason}, and cannot be probed: {error}"));
            }
        }
    }

    /// Reads the executions that have ended, and makes all known ones ripe: whoever reads the records of threads after
    /// this finds all that come before them.
    pub fn ripen(&mut self, waiting: &ThreadWaits) {
        if self.calls.is_some() {
            self.read_calls(waiting);
            for kept in self.kept.values_mut() {
                kept.ripe = kept.calls.len();
            }
        }
    }

    fn read_calls(&mut self, waiting: &ThreadWaits) {
        let new = self.calls.as_ref().and_then(|calls| calls.read().ok());
        for call in new.into_iter().flatten() {
            self.executions += 1;
            let room = self.kept.len() < THREADS || self.kept.contains_key(&call.tid);
            let kept = room.then(|| self.kept.entry(call.tid).or_default());
            let Some(kept) = kept.filter(|kept| kept.calls.len() < KEPT) else {
                self.dropped += 1;
                continue;
            };
            kept.pid = call.pid;
            let arguments = self.arguments.get(&call.block);
            let arguments = arguments.map_or(&[][..], Vec::as_slice);
            kept.calls
                .push_back(execution_of_call(&call, arguments, waiting));
        }
    }

    /// Threads with ripe executions.
    pub fn threads(&self) -> Vec<(u32, u32)> {
        let ripe = self.kept.iter().filter(|(_, kept)| kept.ripe > 0);
        let mut threads: Vec<_> = ripe.map(|(tid, kept)| (*tid, kept.pid)).collect();
        threads.sort_unstable();
        threads
    }

    /// Puts the executions of a thread among its records, which were read since [`Probes::ripen`].
    pub fn merge(&mut self, tid: u32, items: &mut Vec<TraceItem>, waiting: &ThreadWaits) {
        if self.calls.is_none() {
            return;
        }
        // What ended between two of its records was perhaps not known before they were read.
        self.read_calls(waiting);
        let Some(kept) = self
            .kept
            .get_mut(&tid)
            .filter(|kept| !kept.calls.is_empty())
        else {
            return;
        };
        let mut merged = Vec::with_capacity(items.len() + kept.ripe);
        for item in items.drain(..) {
            if let TraceItem::Execution(execution) = &item {
                while let Some(call) = kept.next_before(execution.leave) {
                    merged.push(TraceItem::Execution(call));
                }
            }
            merged.push(item);
        }
        while kept.ripe > 0
            && let Some(call) = kept.next_before(u64::MAX)
        {
            merged.push(TraceItem::Execution(call));
        }
        *items = merged;
    }

    /// Forgets a thread.
    pub fn end(&mut self, tid: u32) {
        self.kept.remove(&tid);
    }

    /// No more executions from now on.
    pub fn stop(&mut self) {
        if let Some(calls) = &mut self.calls {
            calls.stop();
        }
    }
}

impl KeptCall {
    fn next_before(&mut self, end: u64) -> Option<Execution> {
        self.calls.front().filter(|call| call.leave <= end)?;
        self.ripe = self.ripe.saturating_sub(1);
        self.calls.pop_front()
    }
}

fn execution_of_call(call: &ProbedCall, arguments: &[u8], waiting: &ThreadWaits) -> Execution {
    let leave = waiting.ticks_at(call.leave_ns);
    let duration = leave.saturating_sub(waiting.ticks_at(call.enter_ns));
    let value = |at: usize| {
        let number = usize::from(*arguments.get(at)?).checked_sub(1)?;
        let bits = if at == 0 { 44 } else { 32 };
        Some(*call.arguments.get(number)? & ((1 << bits) - 1))
    };
    let mut values = [0; TRACED_ARGUMENTS];
    for (at, to) in values.iter_mut().enumerate() {
        *to = value(at).unwrap_or(0);
    }
    Execution {
        block: call.block,
        unwound: false,
        leave,
        duration,
        arguments: values,
    }
}

#[inline(never)]
extern "C" fn probed_block(number: u64) -> u64 {
    std::hint::black_box(number)
}

/// Returns what an execution of a probed function costs here, in ticks: tried on a function of ours.
fn measure_cost() -> Option<u64> {
    const CALLS: u64 = 100;
    let address = probed_block as *const () as u64;
    let mappings = crate::maps::read_mappings(std::process::id());
    let mapping = crate::maps::mapping_at(&mappings, address)?;
    let mut calls = Calls::new().ok()?;
    let file = Path::new("/proc/self/exe");
    let offset = mapping.file_offset(address).0;
    calls.probe(std::process::id(), file, offset, 0).ok()?;
    let mut least = u64::MAX;
    let end = Instant::now() + std::time::Duration::from_millis(50);
    for number in 0..CALLS {
        let before = super::read_tsc();
        std::hint::black_box(probed_block(number));
        least = least.min(super::read_tsc() - before);
        if Instant::now() > end {
            break;
        }
    }
    // The events are of no interest, but without them the function was not probed.
    (!calls.read().ok()?.is_empty()).then_some(least)
}
