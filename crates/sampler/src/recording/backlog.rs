//! Records copied out of the ring buffers that wait for processing, in order of time.
//!
//! Unwinding a copied stack takes ten times as long as writing it, and tables of a new library take
//! longer still. If records stayed in the rings while they are processed, the rings would fill and
//! samples would be lost.

use crate::events::records::{Body, Record};
use std::collections::BTreeMap;

/// Maximum number of bytes of waiting records; beyond it samples stay in the rings.
const MOST_BYTES: usize = 128 << 20;

/// The waiting records.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Records by time, then by order of arrival.
    records: BTreeMap<(u64, u64), Record>,
    arrived: u64,
    bytes: usize,
    /// No record up to this time is still in a ring.
    complete_until: u64,
}

impl Backlog {
    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        self.bytes += bytes_of(&record);
        self.records.insert((record.time, self.arrived), record);
        self.arrived += 1;
    }

    /// Marks records up to this time as ready: none of them is still in a ring.
    pub fn set_complete_until(&mut self, time: u64) {
        self.complete_until = time;
    }

    /// Removes and returns the oldest record, if it is ready.
    pub fn pop_ready(&mut self) -> Option<Record> {
        let oldest = self.records.first_entry()?;
        if oldest.key().0 > self.complete_until {
            return None;
        }
        let record = oldest.remove();
        self.bytes -= bytes_of(&record);
        Some(record)
    }

    /// Returns whether a record is ready.
    pub fn is_ready(&self) -> bool {
        let oldest = self.records.first_key_value();
        oldest.is_some_and(|((time, _), _)| *time <= self.complete_until)
    }

    /// Returns the time before which every record was handed out.
    pub fn handed_out_until(&self) -> u64 {
        let oldest = self.records.first_key_value();
        oldest.map_or(self.complete_until, |((time, _), _)| {
            time.saturating_sub(1).min(self.complete_until)
        })
    }

    /// Returns whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the used fraction of the memory for records; at most slightly above 1.
    pub fn fullness(&self) -> f64 {
        self.bytes as f64 / MOST_BYTES as f64
    }

    /// Removes the records that `keep` does not accept.
    pub fn retain(&mut self, mut keep: impl FnMut(&Record) -> bool) {
        self.records.retain(|_, record| keep(record));
        self.bytes = self.records.values().map(bytes_of).sum();
    }
}

/// Returns the memory that a record takes.
fn bytes_of(record: &Record) -> usize {
    let more = match &record.body {
        Body::Sample {
            callchain,
            stack,
            registers,
            branches,
            ..
        } => {
            8 * callchain.len()
                + stack
                    .as_ref()
                    .map_or(0, |stack| size_of_val(&**stack) + stack.1.len())
                + registers.as_ref().map_or(0, |all| size_of_val(&**all))
                + branches.as_ref().map_or(0, |all| size_of_val(&**all))
        }
        Body::Mmap { path, .. } => path.len(),
        Body::Comm { name, .. } => name.len(),
        Body::Fork { .. } | Body::Exit | Body::Lost { .. } => 0,
    };
    size_of::<Record>() + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64, tid: u32) -> Record {
        Record {
            time,
            pid: 1,
            tid,
            id: 1,
            body: Body::Exit,
        }
    }

    #[test]
    fn records_come_in_the_order_of_time_once_none_before_them_can_come() {
        let mut backlog = Backlog::default();
        for (time, tid) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            backlog.push(record(time, tid));
        }
        assert!(!backlog.is_ready() && backlog.pop_ready().is_none());
        assert_eq!(backlog.handed_out_until(), 0);
        backlog.set_complete_until(20);
        assert!(backlog.is_ready());
        let ready: Vec<u32> = std::iter::from_fn(|| backlog.pop_ready())
            .map(|one| one.tid)
            .collect();
        assert_eq!(ready, [2, 4, 3]);
        assert_eq!(backlog.handed_out_until(), 20);
        backlog.set_complete_until(u64::MAX);
        assert_eq!(backlog.pop_ready().map(|one| one.tid), Some(1));
        assert!(backlog.is_empty());
        assert_eq!(backlog.fullness(), 0.0);
    }

    #[test]
    fn memory_is_counted() {
        let mut backlog = Backlog::default();
        for time in 0..1000 {
            backlog.push(record(time, 1));
        }
        let before = backlog.fullness();
        let mut number = 0;
        backlog.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        assert!((backlog.fullness() / before - 0.5).abs() < 1e-9);
        assert!((before * MOST_BYTES as f64 - 1000.0 * size_of::<Record>() as f64).abs() < 1.0);
    }
}
