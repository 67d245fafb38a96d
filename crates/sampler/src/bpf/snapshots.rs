//! Registers at samples in user mode, and the memory that the next instructions read.

use crate::Error;
use crate::bpf::followed::{FollowedTarget, attach_to_samples, load_following};
use crate::bpf::programs::{self, Events};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use machine::{MAX_OPERATIONS, Registers, Slice, SliceOperation};
use rustc_hash::FxHashMap;
use std::os::fd::{OwnedFd, RawFd};

/// The compiled program.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bpf.o"));
const WHAT: &str = "reading memory at samples";

/// Most places in the code whose reads of memory are recorded.
const PLACES: usize = 16_384;

/// The layout of a record.
const KNOWN: usize = 40;
const VALUES: usize = 48;
const RECORD: usize = VALUES + 128 * 8;
/// Bytes of the ring buffer, and of a record in it with its header.
const RING: usize = 8 << 20;
const RECORD_IN_RING: usize = RECORD + 8;

/// State of a thread at a sample.
pub(crate) struct Snapshot {
    /// Time, on the monotonic clock, in nanoseconds.
    pub time: u64,
    pub pid: u32,
    pub registers: Registers,
    /// Results of the operations of the place's slice.
    pub values: Vec<Option<u64>>,
}

impl Snapshot {
    fn of(record: &[u8]) -> Option<Self> {
        let record = record.get(..RECORD)?;
        let long = |at| programs::read_u64(record, at);
        let value = |number: usize| long(VALUES + 8 * number);
        let known = long(KNOWN);
        let count = (long(KNOWN - 8) as usize).min(MAX_OPERATIONS);
        let given = |place| (known >> place & 1 == 1).then(|| value(Slice::FIRST + place));
        Some(Self {
            time: long(0),
            pid: programs::read_u32(record, 8),
            registers: Registers {
                integer: std::array::from_fn(value),
                counter: long(16),
                flags: long(24),
                thread: Some(value(Slice::THREAD)),
                vector: None,
            },
            values: (0..count).map(given).collect(),
        })
    }
}

/// Takes snapshots at the samples of events.
pub(crate) struct Snapshots {
    object: Object,
    links: Vec<Link>,
    taken: Events<Snapshot>,
    /// Number of snapshots that were read.
    read: u64,
    /// Snapshots that are later than the requested time.
    pending: Vec<Snapshot>,
    /// Slices by code address.
    slices: FxHashMap<u64, Slice>,
}

impl Snapshots {
    /// Creates a reader that is not attached to any event; with `target`, it takes snapshots of
    /// that target only.
    ///
    /// # Errors
    /// [`Error::Bpf`], where the kernel does not allow it.
    pub fn new(target: Option<FollowedTarget>) -> Result<Self, Error> {
        let (object, links) = load_following(CODE, target, WHAT)?;
        let taken = Events::new(&object, "snapshots", WHAT, Snapshot::of)?;
        Ok(Self {
            object,
            links,
            taken,
            read: 0,
            pending: Vec::new(),
            slices: FxHashMap::default(),
        })
    }

    /// Takes snapshots at the samples of an event, and of events that inherit it.
    pub fn attach(&mut self, event: &OwnedFd) -> Result<(), Error> {
        self.links
            .extend(attach_to_samples(&self.object, event, WHAT)?);
        Ok(())
    }

    /// Returns the descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.taken.descriptor()
    }

    /// Empties the ring buffer, and returns how full it was, from 0 to 1.
    pub fn take_in(&mut self) -> f64 {
        // Unreadable snapshots stay for the next call.
        let new = self.taken.read().unwrap_or_default();
        self.read += new.len() as u64;
        let fullness = (new.len() * RECORD_IN_RING) as f64 / RING as f64;
        self.pending.extend(new);
        fullness
    }

    /// Returns the collected snapshots up to a time, in order of time.
    pub fn take_until(&mut self, until: u64) -> Vec<Snapshot> {
        self.pending.sort_by_key(|one| one.time);
        let later = self.pending.partition_point(|one| one.time <= until);
        self.pending.drain(..later).collect()
    }

    /// Lets `each` extend the slice of a place: the memory to read at later samples there. `None`
    /// if there are too many places.
    pub fn extend_slice(&mut self, place: u64, each: impl FnOnce(Option<&mut Slice>)) {
        if self.slices.len() >= PLACES && !self.slices.contains_key(&place) {
            return each(None);
        }
        let slice = self.slices.entry(place).or_default();
        let before = slice.operations().len();
        each(Some(slice));
        if slice.operations().len() > before {
            let map = self.object.maps().find(|map| map.name() == "slices");
            // A failure only loses information.
            let _ = map
                .map(|map| map.update(&place.to_ne_bytes(), &encode_slice(slice), MapFlags::ANY));
        }
    }

    /// Returns warnings about missing registers and memory.
    pub fn warnings(&self) -> impl Iterator<Item = String> + use<> {
        let lost = lost_registers(programs::lost_records(&self.object), self.read);
        let full = (self.slices.len() >= PLACES).then(|| {
            format!(
                "what code reads of memory is known for the first {PLACES} places where samples fell"
            )
        });
        lost.into_iter().chain(full)
    }
}

/// Returns a warning about lost registers. It states a share: a number would depend on the rate,
/// which is lowered when there are too many samples.
fn lost_registers(lost: u64, read: u64) -> Option<String> {
    let share = 100.0 * lost as f64 / (lost + read).max(1) as f64;
    (lost > 0).then(|| {
        format!(
            "the registers at {share:.1} % of the samples were lost, so that fewer branches are seen: nobody read them in time; record at a lower rate (-F)"
        )
    })
}

/// Encodes a slice for the kernel half.
fn encode_slice(slice: &Slice) -> Vec<u8> {
    let mut bytes = (slice.operations().len() as u64).to_ne_bytes().to_vec();
    for one in slice.operations() {
        let SliceOperation {
            kind,
            width,
            a,
            b,
            constant,
        } = *one;
        bytes.extend([kind as u8, width, a, b, 0, 0, 0, 0]);
        bytes.extend(constant.to_ne_bytes());
    }
    bytes.resize(8 + 16 * MAX_OPERATIONS, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_registers_are_a_share_of_the_samples() {
        assert_eq!(lost_registers(0, 10), None);
        let said = lost_registers(416_782, 0).unwrap_or_default();
        assert!(said.contains("at 100.0 % of the samples"), "{said}");
        let said = lost_registers(1, 999).unwrap_or_default();
        assert!(said.contains("at 0.1 % of the samples"), "{said}");
    }
}
