//! Samples of events of the processor or the kernel, put among what the target's threads executed.

use super::clock::TscClock;
use profile::{EventSample, TraceItem, TracedEvent, TracedEventId};
use rustc_hash::FxHashMap;
use sampler::{Error, EventSpec, ThreadEvent, ThreadEvents};
use std::collections::VecDeque;

/// Samples that are kept until records show where they belong.
const KEPT: usize = 1 << 18;

/// The events of a run.
pub(super) struct TracedEvents {
    events: Option<ThreadEvents>,
    all: Vec<TracedEvent>,
    /// Events by thread, in the order of time.
    kept: FxHashMap<u32, VecDeque<ThreadEvent>>,
}

impl TracedEvents {
    /// Opens them for the process.
    pub fn open_events(asked: &[(EventSpec, u64)], pid: u32) -> Result<Self, Error> {
        let specs: Vec<EventSpec> = asked.iter().map(|(spec, _)| spec.clone()).collect();
        let events = match specs.is_empty() {
            true => None,
            false => Some(ThreadEvents::open(&specs, pid)?),
        };
        let all = asked.iter().map(|(spec, cost)| TracedEvent {
            name: spec.name.clone(),
            samples: 0,
            lost: 0,
            cost: *cost,
            scale: 1.0,
        });
        Ok(Self {
            events,
            all: all.collect(),
            kept: FxHashMap::default(),
        })
    }

    /// Starts counting.
    pub fn enable_counting(&self) -> Result<(), Error> {
        self.events.as_ref().map_or(Ok(()), ThreadEvents::enable)
    }

    fn read_samples(&mut self) {
        let Some(events) = &mut self.events else {
            return;
        };
        let samples = events.read();
        if samples.is_empty() {
            return;
        }
        let mut room = KEPT.saturating_sub(self.kept.values().map(VecDeque::len).sum());
        for sample in samples {
            if room > 0 {
                room -= 1;
                self.kept.entry(sample.tid).or_default().push_back(sample);
            } else if let Some(event) = self.all.get_mut(sample.event) {
                event.lost += 1;
            }
        }
    }

    /// Puts the samples of a thread among its items, each before the first execution or wait that ended later: what lies in an
    /// execution must follow what came before it. The records were read before.
    pub fn merge_samples(&mut self, tid: u32, items: &mut Vec<TraceItem>, clock: TscClock) {
        self.read_samples();
        let Some(mut kept) = self.kept.remove(&tid).filter(|kept| !kept.is_empty()) else {
            return;
        };
        let mut merged = Vec::with_capacity(items.len() + kept.len());
        for item in items.drain(..) {
            let end = match &item {
                TraceItem::Execution(execution) => Some(execution.leave),
                TraceItem::Wait(wait) => Some(wait.end),
                _ => None,
            };
            if let Some(end) = end {
                while let Some(sample) = kept.front() {
                    let at = clock.ticks_at(sample.ns);
                    if at > end {
                        break;
                    }
                    if let Some(event) = self.all.get_mut(sample.event) {
                        event.samples += 1;
                    }
                    merged.push(TraceItem::Event(EventSample {
                        at,
                        event: sample.event as TracedEventId,
                        amount: sample.amount,
                    }));
                    kept.pop_front();
                }
            }
            merged.push(item);
        }
        *items = merged;
        self.kept.insert(tid, kept);
    }

    /// Forgets what happened in threads that are not traced. A thread that has begun to be traced since `start`, when the
    /// threads were looked at, is not known yet.
    pub fn forget_others(&mut self, traced: impl Fn(u32) -> bool, start: u64) {
        self.kept.retain(|tid, kept| {
            if !traced(*tid) {
                kept.retain(|sample| sample.ns >= start);
            }
            !kept.is_empty() || traced(*tid)
        });
    }

    /// Samples that found no room, in a sentence.
    pub fn loss_warning(&self) -> Option<String> {
        let in_kernel = |number| self.events.as_ref().map_or(0, |events| events.lost(number));
        let all = self.all.iter().enumerate();
        let lost: u64 = all.map(|(n, event)| event.lost + in_kernel(n)).sum();
        (lost > 0).then(|| {
            format!("{lost} samples of events were lost, because they came faster than they could be read: ask for a longer period")
        })
    }

    /// Ends sampling, and returns the events with their lost samples and scales.
    pub fn finish_events(mut self) -> Vec<TracedEvent> {
        if let Some(events) = &self.events {
            for (number, event) in self.all.iter_mut().enumerate() {
                event.lost += events.lost(number);
                event.scale = events.scale(number);
            }
        }
        self.all
    }
}
