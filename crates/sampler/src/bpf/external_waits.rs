//! Waits of a program's threads for events outside of the program.

use crate::Error;
use crate::bpf::programs::{self, read_u32, read_u64};
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapHandle, Object};
use std::collections::BTreeMap;

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/external_waits.bpf.o"));
const WHAT: &str = "watching what the program waits for";
/// Bytes of a `struct external_wait`.
const RECORD: usize = 88;
/// Offset of the time for which the thread waited for work from other programs.
const FOR_CLIENTS: usize = 64;
/// Offset of the thread's id.
const TID: usize = 84;
/// Number of words of the set of calls that wait for work.
const CALL_WORDS: usize = 8;
/// Name of the program that signals a thread.
const TELLER: &str = "on_system_call_exit";

/// A thread in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Thread.
    pub tid: u32,
    /// Code address behind its system call.
    pub pc: u64,
    /// Its stack pointer there.
    pub sp: u64,
    /// Start of its wait, on the monotonic clock, in nanoseconds; `None` once it has been woken.
    pub waits_since_ns: Option<u64>,
    /// Number of samples of the thread in this call.
    pub ticks: u32,
    /// Time of the first of these samples, on the same clock.
    pub ran_since_ns: u64,
}

/// Watches the threads of one program, until it is dropped.
pub struct ExternalWaits {
    _links: Vec<Link>,
    object: Object,
}

impl ExternalWaits {
    /// Sends SIGSTKFLT to a thread whose system call is complete, if its process's handler of the
    /// signal is at address `handler`. [`Ticks`](crate::Ticks) must have sampled the thread in the
    /// call, or (with `waits`) the thread waited there for at least 20 µs for an outside event.
    /// With `spares_restricted`, threads that have restricted their system calls are left out. The
    /// signal's value is a [`runtime_abi::wait::CallEnd`]. Only x86-64 sends signals. `work_calls`
    /// are the numbers of system calls in which threads wait for work, for [`Self::for_clients`].
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel does not allow it, or is older than 6.13.
    ///
    /// [`runtime_abi::wait::CallEnd`]: https://docs.rs/runtime-abi
    pub fn watch(
        handler: u64,
        spares_restricted: bool,
        waits: bool,
        work_calls: impl Iterator<Item = u32>,
    ) -> Result<Self, Error> {
        let mut constants = vec![handler, u64::from(spares_restricted)];
        constants.extend(bits_of(work_calls));
        let constants: Vec<u8> = constants.into_iter().flat_map(u64::to_ne_bytes).collect();
        let object = programs::load_programs(CODE, &constants, WHAT)?;
        let links = object
            .progs_mut()
            .filter(|program| waits || program.name() == TELLER)
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::bpf(WHAT))?;
        Ok(Self {
            _links: links,
            object,
        })
    }

    /// Returns the map with the state of each thread's system call.
    pub(super) fn waiting_map(&self) -> Option<MapHandle> {
        MapHandle::try_from(&self.map()?).ok()
    }

    /// Returns how long each thread has waited for work from other programs so far, in nanoseconds,
    /// summed over completed waits.
    pub fn for_clients(&self) -> BTreeMap<u32, u64> {
        self.each_record(|record| Some((read_u32(record, TID), read_u64(record, FOR_CLIENTS))))
    }

    /// Reads the state of each thread's call.
    fn each_record<T, All: FromIterator<T>>(&self, parse: impl Fn(&[u8]) -> Option<T>) -> All {
        let map = self.map();
        let keys = map.iter().flat_map(|map| map.keys());
        let parsed = keys.filter_map(|key| {
            let record = map.as_ref()?.lookup(&key, MapFlags::ANY).ok()??;
            parse(&record)
        });
        parsed.collect()
    }

    fn map(&self) -> Option<Map<'_>> {
        self.object.maps().find(|map| map.name() == "waiting")
    }

    /// Returns the system calls in which threads wait or were sampled.
    pub fn pending(&self) -> Vec<PendingCall> {
        self.each_record(parse_call)
    }
}

/// Returns a set of numbers, one bit each.
fn bits_of(numbers: impl Iterator<Item = u32>) -> [u64; CALL_WORDS] {
    let mut bits = [0; CALL_WORDS];
    for number in numbers {
        if let Some(word) = bits.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }
    bits
}

/// Parses the state of a call; `None` if there was neither a wait nor a sample.
fn parse_call(record: &[u8]) -> Option<PendingCall> {
    let (since_ns, woken_ns) = (read_u64(record, 0), read_u64(record, 8));
    let waits = since_ns > 0 && woken_ns == 0;
    let ticks = read_u32(record, 52);
    (record.len() >= RECORD && (waits || ticks > 0)).then(|| PendingCall {
        tid: read_u32(record, TID),
        pc: read_u64(record, 16),
        sp: read_u64(record, 24),
        waits_since_ns: waits.then_some(since_ns),
        ticks,
        ran_since_ns: read_u64(record, 56),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_a_bit_each() {
        let bits = bits_of([0, 63, 64, 511, 512].into_iter());
        assert_eq!(bits, [1 | 1 << 63, 1, 0, 0, 0, 0, 0, 1 << 63]);
    }

    #[test]
    fn calls_that_are_over_are_not_pending() {
        let record = |since: u64, woken: u64, ticks: u64| {
            let words = [since, woken, 0x1234, 0x7fff_0000, 0, 0, ticks << 32, 9];
            let clients = [0, 0, 17 << 32];
            let bytes = words
                .iter()
                .chain(&clients)
                .flat_map(|word| word.to_ne_bytes());
            bytes.collect::<Vec<_>>()
        };
        let waiting = PendingCall {
            tid: 17,
            pc: 0x1234,
            sp: 0x7fff_0000,
            waits_since_ns: Some(5),
            ticks: 0,
            ran_since_ns: 9,
        };
        assert_eq!(parse_call(&record(5, 0, 0)), Some(waiting));
        assert_eq!(parse_call(&record(5, 6, 0)), None);
        assert_eq!(parse_call(&record(0, 0, 0)), None);
        let running = PendingCall {
            waits_since_ns: None,
            ticks: 3,
            ..waiting
        };
        assert_eq!(parse_call(&record(0, 0, 3)), Some(running));
        assert_eq!(parse_call(&record(5, 0, 0)[..40]), None);
        assert_eq!(parse_call(&[]), None);
    }
}
