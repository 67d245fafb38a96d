//! The time off the CPU inside an execution, by what it waited for, and the events that were sampled in it.

use super::events::Amounts;
use super::functions::{self, CallTarget};
use super::shape::Waited;
use profile::{CauseKind, EventSample, ThreadIndex, Wait};
use std::sync::Arc;

/// Maximum number of different reasons that are kept for an execution. The smallest are added up without a reason.
const PARTS: usize = 8;

/// Reason of a wait, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reason {
    pub system_call: Option<u32>,
    pub waker: Option<ThreadIndex>,
    pub waker_block: Option<u32>,
    /// True if the thread was ready all the time: the thread `waker`, which it had woken from `system_call`, took its
    /// CPU.
    pub handed_over: bool,
    /// The innermost block that it was in.
    pub within: Option<u32>,
}

/// Role of a wait in the execution around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Lost to others, all of it: without them the execution would not have waited.
    Lost,
    /// The execution asked for the wait (a time, or something from outside of the program): neither lost nor compared.
    Asked,
    /// Part of the execution's own work: longer ones are compared with shorter ones.
    Compared,
}

impl Reason {
    /// Returns the role of a wait with this reason, in a block that waits for `own` by its name.
    pub fn fate(&self, own: Option<CauseKind>, aarch64: bool) -> Fate {
        let woken = self.waker.is_some();
        let by_woken = if woken { Fate::Lost } else { Fate::Asked };
        let Some(number) = self.system_call else {
            // In a page fault: for the memory map that another thread changes, or for a disk.
            return if woken { Fate::Lost } else { Fate::Compared };
        };
        match functions::find_system_call(number, aarch64).map(|call| call.waits_for) {
            Some(CallTarget::Futex) => match own {
                Some(CauseKind::Lock | CauseKind::Barrier | CauseKind::Allocator) => Fate::Lost,
                _ => by_woken,
            },
            Some(CallTarget::Poll) => by_woken,
            Some(CallTarget::File | CallTarget::Network) if woken => Fate::Lost,
            Some(CallTarget::Sleep | CallTarget::Child) => Fate::Asked,
            Some(CallTarget::FileLock | CallTarget::AddressSpace | CallTarget::Yield) => Fate::Lost,
            Some(CallTarget::File | CallTarget::Disk | CallTarget::Network) | None => {
                Fate::Compared
            }
        }
    }
}

/// Time off the CPU in an execution, in ticks, by its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    /// Blocked.
    pub lost: u64,
    /// Ready, without a CPU.
    pub ready: u64,
    pub asked: u64,
    pub compared: u64,
}

impl Fates {
    /// Returns what an execution took that waited so.
    pub fn of(&self, net: u64) -> Waited {
        let taken = net - self.asked.min(net);
        let others = self.lost.saturating_add(self.ready);
        Waited {
            whole: net,
            taken,
            unhindered: taken - others.min(taken),
        }
    }
}

/// Waits with one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitPart {
    pub reason: Reason,
    /// Blocked, in ticks.
    pub blocked: u64,
    /// Ready after that, without a CPU, in ticks.
    pub queued: u64,
    /// The part of `queued` in which other processes had the CPUs.
    pub taken: u64,
    /// The part of `blocked` in which they had the CPU of the thread that ended the wait.
    pub held: u64,
    pub n: u64,
}

/// The waits in an execution, in ticks, and the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitSum {
    /// Blocked: not ready to run.
    pub blocked: u64,
    /// Ready, without a CPU, after it was blocked.
    pub queued: u64,
    /// Ready, without a CPU, because that was taken away.
    pub preempted: u64,
    /// Number of preemptions.
    pub preemptions: u64,
    /// The part of `queued` and `preempted` in which other processes had the CPUs.
    pub taken: u64,
    /// Blocked time by reason, the largest first.
    pub parts: Vec<WaitPart>,
    pub events: Amounts,
}

impl WaitSum {
    /// A sample of an event: no wait.
    pub fn of_event(sample: &EventSample) -> Self {
        Self {
            events: Amounts::of(sample),
            ..Self::default()
        }
    }

    /// The time off the CPU.
    pub fn off(&self) -> u64 {
        let off = self.blocked.saturating_add(self.queued);
        off.saturating_add(self.preempted)
    }

    /// One wait, as far as it can be believed.
    pub fn of(wait: &Wait) -> Self {
        let length = wait.end.saturating_sub(wait.start);
        // A thread that gave its CPU away in a system call yielded.
        if wait.preempted && wait.system_call.is_none() && wait.waker.is_none() {
            return Self {
                preempted: length,
                preemptions: 1,
                taken: wait.taken.min(length),
                ..Self::default()
            };
        }
        let handed_over = wait.preempted && wait.waker.is_some();
        let queued = match wait.preempted {
            true if handed_over => length,
            true => 0,
            false => wait.queued.min(length),
        };
        let blocked = length - queued;
        let taken = wait.taken.min(queued);
        let held = wait.held.min(blocked);
        let reason = Reason {
            system_call: wait.system_call,
            waker: wait.waker,
            waker_block: wait.waker_block,
            handed_over,
            within: None,
        };
        Self {
            blocked,
            queued,
            taken,
            parts: vec![WaitPart {
                reason,
                blocked,
                queued,
                taken,
                held,
                n: 1,
            }],
            ..Self::default()
        }
    }

    /// Returns the waits by their role in an execution of a block. `fate` maps each reason to its role. Parts without
    /// room are assumed to be distributed like the others.
    pub fn fates(&self, fate: impl Fn(&Reason) -> Fate) -> Fates {
        let mut fates = Fates {
            ready: self.queued.saturating_add(self.preempted),
            ..Fates::default()
        };
        let mut known = 0u64;
        for part in &self.parts {
            known = known.saturating_add(part.blocked);
            let to = match fate(&part.reason) {
                Fate::Lost => &mut fates.lost,
                Fate::Asked => &mut fates.asked,
                Fate::Compared => &mut fates.compared,
            };
            *to = to.saturating_add(part.blocked);
        }
        if known > 0 && known < self.blocked {
            let scale = self.blocked as f64 / known as f64;
            fates.lost = (fates.lost as f64 * scale) as u64;
            fates.asked = (fates.asked as f64 * scale) as u64;
            fates.compared = (self.blocked - fates.lost).saturating_sub(fates.asked);
        }
        fates
    }

    /// Time in which a thread yielded to others, in one execution of a block that does nothing else.
    pub fn yielded(ticks: u64, block: u32) -> Self {
        let reason = Reason {
            system_call: Some(functions::SCHED_YIELD),
            waker: None,
            waker_block: None,
            handed_over: false,
            within: Some(block),
        };
        Self {
            blocked: ticks,
            parts: vec![WaitPart {
                reason,
                blocked: ticks,
                queued: 0,
                taken: 0,
                held: 0,
                n: 1,
            }],
            ..Self::default()
        }
    }

    /// Sets the block of the waits that are in no block yet.
    pub fn inside(sum: &mut Arc<Self>, block: u32) {
        if sum.parts.iter().any(|part| part.reason.within.is_none()) {
            for part in &mut Arc::make_mut(sum).parts {
                part.reason.within.get_or_insert(block);
            }
        }
    }

    /// Returns the sum of both.
    pub fn join(one: Option<Arc<Self>>, other: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let (mut one, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other),
        };
        Arc::make_mut(&mut one).add(&other);
        Some(one)
    }

    fn add(&mut self, other: &Self) {
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.queued = self.queued.saturating_add(other.queued);
        self.preempted = self.preempted.saturating_add(other.preempted);
        self.preemptions += other.preemptions;
        self.taken = self.taken.saturating_add(other.taken);
        add_parts(&mut self.parts, &other.parts, PARTS);
        self.events.add(&other.events, 1);
    }
}

/// Adds waits by reason, and keeps the largest.
pub(super) fn add_parts(to: &mut Vec<WaitPart>, parts: &[WaitPart], most: usize) {
    for part in parts {
        match to.iter_mut().find(|known| known.reason == part.reason) {
            Some(known) => {
                known.blocked = known.blocked.saturating_add(part.blocked);
                known.queued = known.queued.saturating_add(part.queued);
                known.taken = known.taken.saturating_add(part.taken);
                known.held = known.held.saturating_add(part.held);
                known.n += part.n;
            }
            None => to.push(*part),
        }
    }
    if to.len() > most {
        let length = |part: &WaitPart| part.blocked.saturating_add(part.queued);
        to.sort_by(|a, b| length(b).cmp(&length(a)).then(a.reason.cmp(&b.reason)));
        to.truncate(most);
    }
}
