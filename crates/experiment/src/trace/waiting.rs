//! Waits of the target's threads, converted to the time of its records.

use super::clock::{TimePair, TscClock};
use profile::{ThreadIndex, TraceItem, TracedCpuUser, Wait};
use runtime_abi::trace::{Frame, Local};
use rustc_hash::FxHashMap;
use sampler::{FrameLayout, ThreadWait, Waits};
use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;

/// Maximum number of waits of one thread that are kept until its records show their place.
const KEPT: usize = 1 << 16;
/// Maximum number of threads with kept waits. They may have no records.
const STRANGERS: usize = 1 << 14;

/// Observer of the scheduler, if the kernel permits it.
pub(super) struct ThreadWaits {
    waits: Option<Waits>,
    /// Error if the scheduler cannot be observed.
    pub refused: Option<sampler::Error>,
    clock: TscClock,
    kept: FxHashMap<u32, VecDeque<ThreadWait>>,
    /// Number of waits that were read.
    pub seen: u64,
    /// Programs that the target has executed, each with its number of executions.
    programs: BTreeMap<String, u64>,
}

impl ThreadWaits {
    pub fn new(pid: u32) -> Self {
        let layout = FrameLayout {
            size: size_of::<Frame>() as u32,
            block: offset_of!(Frame, block) as u32,
            base: offset_of!(Local, base) as u32,
        };
        let (waits, refused) = match Waits::watch(layout) {
            Ok(waits) => (Some(waits), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(waits) = &waits {
            waits.add_process(pid);
        }
        let now = TimePair::read_closest();
        Self {
            waits,
            refused,
            clock: TscClock {
                first: now,
                last: now,
            },
            kept: FxHashMap::default(),
            seen: 0,
            programs: BTreeMap::new(),
        }
    }

    /// Returns whether waits are observed.
    pub fn works(&self) -> bool {
        self.waits.is_some()
    }

    /// Returns the processes that had the CPUs while the target's threads were ready.
    pub fn cpu_users(&self) -> Vec<TracedCpuUser> {
        const NAMED: usize = 16;
        let mut users: Vec<TracedCpuUser> = Vec::new();
        for user in self.waits.iter().flat_map(Waits::cpu_users) {
            // The threads of this process are added up.
            let is_own = user.pid == std::process::id();
            let known = users
                .iter_mut()
                .find(|known| is_own && known.pid == user.pid);
            if let Some(known) = known {
                known.ns += user.ns;
                continue;
            }
            users.push(TracedCpuUser {
                pid: user.pid,
                name: if is_own {
                    "vitalfew itself".to_owned()
                } else {
                    user.name
                },
                target: user.watched,
                ns: user.ns,
            });
        }
        users.sort_by_key(|user| std::cmp::Reverse(user.ns));
        users.truncate(NAMED);
        users
    }

    /// Returns the number of waits that were lost for lack of room.
    pub fn lost(&self) -> u64 {
        self.waits.as_ref().map_or(0, Waits::lost)
    }

    /// Returns the programs that processes of the target have executed, with their counts. Nothing
    /// in these programs is traced.
    pub fn programs(&mut self) -> &BTreeMap<String, u64> {
        const PROGRAMS: usize = 256;
        let new = self.waits.as_ref().and_then(|waits| waits.executed().ok());
        for program in new.into_iter().flatten() {
            if self.programs.len() < PROGRAMS || self.programs.contains_key(&program) {
                *self.programs.entry(program).or_default() += 1;
            }
        }
        &self.programs
    }

    /// Returns the time at which the last thread of a process ended, in ticks. `None` if the
    /// scheduler did not report it.
    pub fn ended(&self, pid: u32) -> Option<u64> {
        let ns = self.waits.as_ref()?.ended(pid)?;
        Some(self.ticks_at(ns))
    }

    /// Begins to trace a thread.
    pub fn begin(&self, pid: u32, tid: u32, local: u64) {
        if let Some(waits) = &self.waits {
            waits.add_process(pid);
            waits.add_thread(tid, local);
        }
    }

    /// Ends the tracing of a thread.
    pub fn end(&mut self, tid: u32) {
        self.kept.remove(&tid);
        if let Some(waits) = &self.waits {
            waits.remove_thread(tid);
        }
    }

    /// Reads both clocks again.
    pub fn tick(&mut self) {
        self.clock.last = TimePair::read_closest();
    }

    /// Returns the time-stamp counter at a time of the kernel's clock.
    pub fn ticks_at(&self, ns: u64) -> u64 {
        self.clock.ticks_at(ns)
    }

    /// Adds waits that the scheduler does not see: those of threads that kept their CPUs while they
    /// were held.
    pub fn add_held(&mut self, held: Vec<ThreadWait>) {
        for wait in held {
            let kept = self.kept.entry(wait.tid).or_default();
            let at = kept.partition_point(|other| other.end_ns <= wait.end_ns);
            kept.insert(at, wait);
        }
    }

    /// Merges the waits of a thread into its items, in the order of their ends. Waits that ended
    /// after the last record are kept. The records must have been read before the waits.
    pub fn merge(
        &mut self,
        tid: u32,
        items: &mut Vec<TraceItem>,
        threads: &FxHashMap<u32, ThreadIndex>,
    ) {
        let new = self.waits.as_ref().and_then(|waits| waits.read().ok());
        for wait in new.into_iter().flatten() {
            self.seen += 1;
            if self.kept.len() < STRANGERS || self.kept.contains_key(&wait.tid) {
                let kept = self.kept.entry(wait.tid).or_default();
                if kept.len() >= KEPT {
                    kept.pop_front();
                }
                kept.push_back(wait);
            }
        }
        let Some(mut kept) = self.kept.remove(&tid) else {
            return;
        };
        let mut merged = Vec::with_capacity(items.len() + kept.len());
        for item in items.drain(..) {
            if let TraceItem::Execution(execution) = &item {
                while let Some(wait) = kept.front() {
                    let end = self.ticks_at(wait.end_ns);
                    if end > execution.leave {
                        break;
                    }
                    merged.push(TraceItem::Wait(self.wait_of_thread(wait, end, threads)));
                    kept.pop_front();
                }
            }
            merged.push(item);
        }
        *items = merged;
        self.kept.insert(tid, kept);
    }

    fn wait_of_thread(
        &self,
        wait: &ThreadWait,
        end: u64,
        threads: &FxHashMap<u32, ThreadIndex>,
    ) -> Wait {
        let start = self.ticks_at(wait.start_ns);
        let length = |ns: u64| {
            let start = self.ticks_at(wait.end_ns.saturating_sub(ns));
            self.ticks_at(wait.end_ns).saturating_sub(start)
        };
        let ready = self.ticks_at(wait.end_ns.saturating_sub(wait.queued_ns));
        Wait {
            start,
            end,
            queued: end.saturating_sub(ready),
            taken: length(wait.taken_ns),
            held: length(wait.held_ns),
            preempted: wait.preempted,
            system_call: wait.system_call,
            waker: wait.waker.and_then(|tid| threads.get(&tid).copied()),
            waker_block: wait.waker_block,
        }
    }
}
