//! Registers at samples in user mode, and what the code that comes next reads of memory.

use crate::{Error, events};
use libbpf_rs::{Link, MapCore, MapFlags, Object, PerfEventOpts, RingBuffer};
use machine::{MAX_OPERATIONS, Registers, Slice, SliceKind, SliceOperation};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;

/// The compiled program.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bpf.o"));
const WHAT: &str = "reading memory at samples";

/// Places in the code of which is told what they read.
const PLACES: usize = 16_384;

/// The layout of a record.
const KNOWN: usize = 40;
const VALUES: usize = 48;
/// The number of the thread's own memory among values, and of what the first operation gave.
const THREAD: usize = 16;
const FIRST: usize = 18;
const RECORD: usize = VALUES + 128 * 8;

/// What was known of a thread at a sample.
pub(crate) struct Snapshot {
    /// When, by the monotonic clock, in nanoseconds.
    pub time: u64,
    pub pid: u32,
    pub registers: Registers,
    /// What the operations of the place's slice gave.
    pub values: Vec<Option<u64>>,
}

impl Snapshot {
    fn of(record: &[u8]) -> Self {
        let long = |at| events::long(record, at);
        let value = |number: usize| long(VALUES + 8 * number);
        let known = long(KNOWN);
        let count = (long(KNOWN - 8) as usize).min(MAX_OPERATIONS);
        let given = |place| (known >> place & 1 == 1).then(|| value(FIRST + place));
        Self {
            time: long(0),
            pid: events::short(record, 8),
            registers: Registers {
                integer: std::array::from_fn(value),
                counter: long(16),
                flags: long(24),
                thread: Some(value(THREAD)),
                vector: None,
            },
            values: (0..count).map(given).collect(),
        }
    }
}

/// Takes snapshots at the samples of events.
pub(crate) struct Snapshots {
    object: Object,
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<Snapshot>>>,
    /// By place in the code.
    slices: FxHashMap<u64, Slice>,
}

impl Snapshots {
    /// Of no event yet.
    ///
    /// # Errors
    /// [`Error::Bpf`], where the kernel does not allow it.
    pub fn new() -> Result<Self, Error> {
        let object = events::load(CODE, &[], WHAT)?;
        let read = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&read);
        let ring = events::ring(&object, "snapshots", WHAT, move |bytes| {
            if bytes.len() >= RECORD {
                to.borrow_mut().push(Snapshot::of(bytes));
            }
        })?;
        Ok(Self {
            object,
            links: Vec::new(),
            ring,
            read,
            slices: FxHashMap::default(),
        })
    }

    /// At the samples of an event, and of those that inherit it.
    pub fn attach(&mut self, event: &OwnedFd) -> Result<(), Error> {
        for program in self.object.progs_mut() {
            let link = events::attach(&program, event, PerfEventOpts::default(), WHAT)?;
            self.links.push(link);
        }
        Ok(())
    }

    /// The descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.ring.epoll_fd()
    }

    /// The snapshots up to a time, in order of time.
    pub fn take(&mut self, until: u64) -> Vec<Snapshot> {
        // What cannot be read now can be read later.
        let _ = self.ring.consume();
        let mut read = self.read.borrow_mut();
        read.sort_by_key(|one| one.time);
        let later = read.partition_point(|one| one.time <= until);
        read.drain(..later).collect()
    }

    /// Has `each` see, and extend, what is to be read at later samples in a place; `None` where there
    /// are too many.
    pub fn learn(&mut self, place: u64, each: impl FnOnce(Option<&mut Slice>)) {
        if self.slices.len() >= PLACES && !self.slices.contains_key(&place) {
            return each(None);
        }
        let slice = self.slices.entry(place).or_default();
        let before = slice.operations().len();
        each(Some(slice));
        if slice.operations().len() > before {
            let map = self.object.maps().find(|map| map.name() == "slices");
            // Without it less is known, and nothing wrong.
            let _ = map.map(|map| map.update(&place.to_ne_bytes(), &encoded(slice), MapFlags::ANY));
        }
    }

    /// What is missing.
    pub fn warnings(&self) -> impl Iterator<Item = String> + use<> {
        let lost = events::lost(&self.object);
        let lost = (lost > 0).then(|| {
            format!("the registers at {lost} samples were lost: nobody read them in time")
        });
        let full = (self.slices.len() >= PLACES).then(|| {
            format!(
                "what code reads of memory is known for the first {PLACES} places where samples fell"
            )
        });
        lost.into_iter().chain(full)
    }
}

/// A slice as the kernel's side has it.
fn encoded(slice: &Slice) -> Vec<u8> {
    let mut bytes = (slice.operations().len() as u64).to_ne_bytes().to_vec();
    for one in slice.operations() {
        let SliceOperation {
            kind,
            width,
            a,
            b,
            constant,
        } = *one;
        let kind = match kind {
            SliceKind::Load => 0,
            SliceKind::Add => 1,
            SliceKind::AddConstant => 2,
            SliceKind::Subtract => 3,
            SliceKind::And => 4,
            SliceKind::AndConstant => 5,
            SliceKind::ShiftLeft => 6,
            SliceKind::ShiftRight => 7,
            SliceKind::SignExtend => 8,
        };
        bytes.extend([kind, width, a, b, 0, 0, 0, 0]);
        bytes.extend(constant.to_ne_bytes());
    }
    bytes.resize(8 + 16 * MAX_OPERATIONS, 0);
    bytes
}
