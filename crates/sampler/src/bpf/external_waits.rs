//! Waits of a program's threads for what is outside of it.

use crate::Error;
use crate::bpf::programs::{self, read_u32, read_u64};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/external_waits.bpf.o"));
const WHAT: &str = "watching what the program waits for";
/// Bytes of a `struct external_wait`.
const RECORD: usize = 56;

/// A thread that waits in a system call and has not been woken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// Thread.
    pub tid: u32,
    /// Since when, by the monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// Code address behind its system call.
    pub pc: u64,
    /// Its stack pointer there.
    pub sp: u64,
}

/// Watches the threads of one program, until it is dropped.
pub struct ExternalWaits {
    _links: Vec<Link>,
    object: Object,
}

impl ExternalWaits {
    /// Sends SIGSTKFLT to a thread whose system call is complete in which it waited for 20 µs or more for something outside of the program, if
    /// its process has that signal handled at address `handler`. The signal's value is a [`runtime_abi::wait::ExternalWait`].
    /// On x86-64; elsewhere it sends none.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel does not allow it, or is older than 6.13.
    ///
    /// [`runtime_abi::wait::ExternalWait`]: https://docs.rs/runtime-abi
    pub fn watch(handler: u64) -> Result<Self, Error> {
        let object = programs::load_programs(CODE, &handler.to_ne_bytes(), WHAT)?;
        let links = object
            .progs_mut()
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::bpf(WHAT))?;
        Ok(Self {
            _links: links,
            object,
        })
    }

    /// The waits that last still, for whatever.
    pub fn pending(&self) -> Vec<PendingWait> {
        let Some(map) = self.object.maps().find(|map| map.name() == "waiting") else {
            return Vec::new();
        };
        let keys = map.keys();
        let waits = keys.filter_map(|key| {
            let record = map.lookup(&key, MapFlags::ANY).ok()??;
            parse_wait(&key, &record)
        });
        waits.collect()
    }
}

/// A wait as the programs keep it; `None` if it is over.
fn parse_wait(key: &[u8], record: &[u8]) -> Option<PendingWait> {
    let (since_ns, woken_ns) = (read_u64(record, 0), read_u64(record, 8));
    let lasts = record.len() >= RECORD && since_ns > 0 && woken_ns == 0;
    lasts.then(|| PendingWait {
        tid: read_u32(key, 0),
        since_ns,
        pc: read_u64(record, 16),
        sp: read_u64(record, 24),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_are_over_are_not_pending() {
        let record = |since: u64, woken: u64| {
            let words = [since, woken, 0x1234, 0x7fff_0000, 0, 0, 0];
            words
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<_>>()
        };
        let key = 17u32.to_ne_bytes();
        let pending = parse_wait(&key, &record(5, 0));
        assert_eq!(
            pending,
            Some(PendingWait {
                tid: 17,
                since_ns: 5,
                pc: 0x1234,
                sp: 0x7fff_0000
            })
        );
        assert_eq!(parse_wait(&key, &record(5, 6)), None);
        assert_eq!(parse_wait(&key, &record(0, 0)), None);
        assert_eq!(parse_wait(&key, &record(5, 0)[..40]), None);
        assert_eq!(parse_wait(&[], &[]), None);
    }
}
