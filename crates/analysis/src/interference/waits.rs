//! The time off the CPU inside an execution, by what it waited for, and the events that were sampled in it.

use super::events::Amounts;
use profile::{EventSample, ThreadIndex, Wait};
use std::sync::Arc;

/// So many different reasons are kept of an execution; the smallest are added up without a reason.
const PARTS: usize = 8;

/// What a wait was for, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reason {
    pub system_call: Option<u32>,
    pub waker: Option<ThreadIndex>,
    pub waker_block: Option<u32>,
    /// The innermost block that it was in.
    pub within: Option<u32>,
}

/// Waits with one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitPart {
    pub reason: Reason,
    /// Blocked, in ticks.
    pub blocked: u64,
    pub n: u64,
}

/// The waits in an execution, in ticks, and the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitSum {
    /// Not ready to run.
    pub blocked: u64,
    /// Ready, without a CPU, after it was blocked.
    pub queued: u64,
    /// Ready, without a CPU, because that was taken away.
    pub preempted: u64,
    /// How often it was taken away.
    pub preemptions: u64,
    /// What it was blocked for; the largest come first.
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
        if wait.preempted {
            return Self {
                preempted: length,
                preemptions: 1,
                ..Self::default()
            };
        }
        let queued = wait.queued.min(length);
        let blocked = length - queued;
        let reason = Reason {
            system_call: wait.system_call,
            waker: wait.waker,
            waker_block: wait.waker_block,
            within: None,
        };
        Self {
            blocked,
            queued,
            parts: vec![WaitPart {
                reason,
                blocked,
                n: 1,
            }],
            ..Self::default()
        }
    }

    /// Says that those waits that are in no block yet were in this one.
    pub fn inside(sum: &mut Arc<Self>, block: u32) {
        if sum.parts.iter().any(|part| part.reason.within.is_none()) {
            for part in &mut Arc::make_mut(sum).parts {
                part.reason.within.get_or_insert(block);
            }
        }
    }

    /// Both together.
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
                known.n += part.n;
            }
            None => to.push(*part),
        }
    }
    if to.len() > most {
        to.sort_by(|a, b| b.blocked.cmp(&a.blocked).then(a.reason.cmp(&b.reason)));
        to.truncate(most);
    }
}
