//! The waits of a process's threads, one by one.

use crate::Error;
use crate::bpf::programs::{self, Events};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/waits.bpf.o"));
/// In place of a number: none.
const NONE: u32 = u32::MAX;
/// What is done.
const WATCHING: &str = "watching the scheduler";
/// Bytes of a record.
const RECORD: usize = 48;

/// A time that a thread was off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadWait {
    /// Thread.
    pub tid: u32,
    /// From when, by the monotonic clock, in nanoseconds.
    pub start_ns: u64,
    /// To when: it ran again.
    pub end_ns: u64,
    /// How much of that, at its end, it was ready and waited for a CPU.
    pub queued_ns: u64,
    /// It was ready all the time: the CPU was taken from it.
    pub preempted: bool,
    /// The system call that it waited in.
    pub system_call: Option<u32>,
    /// The thread of a watched process that woke it.
    pub waker: Option<u32>,
    /// The block that one was in.
    pub waker_block: Option<u32>,
}

/// Where a thread of a traced program keeps the frames of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Size of a frame.
    pub size: u32,
    /// Of the block's number in a frame.
    pub block: u32,
    /// Of the first frame's address in what a thread keeps; the first word there is one behind the last.
    pub base: u32,
}

/// Watches the scheduler.
pub struct Waits {
    object: Object,
    _links: Vec<Link>,
    waits: Events<ThreadWait>,
    programs: Events<String>,
}

impl Waits {
    /// Begins to watch the threads of no process.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel refuses that.
    pub fn watch(layout: FrameLayout) -> Result<Self, Error> {
        let values = [layout.size, layout.block, layout.base];
        let constants: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let object = programs::load(CODE, &constants, WATCHING)?;
        let links = object
            .progs_mut()
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::bpf(WATCHING))?;
        let waits = Events::new(&object, "waits", "reading the scheduler's events", parse)?;
        let reading = "reading which programs were executed";
        let programs = Events::new(&object, "programs", reading, |bytes| {
            let path = bytes.split(|byte| *byte == 0).next();
            Some(String::from_utf8_lossy(path?).into_owned())
        })?;
        Ok(Self {
            object,
            _links: links,
            waits,
            programs,
        })
    }

    fn map(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == name)
    }

    /// Watches the threads of a process.
    pub fn add_process(&self, pid: u32) {
        if let Some(map) = self.map("processes") {
            // Full: what comes later is not seen, as everything before it was added.
            let _ = map.update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// When the last thread of a watched process ended, by the monotonic clock.
    pub fn ended(&self, pid: u32) -> Option<u64> {
        let map = self.map("ended")?;
        let value = map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(u64::from_ne_bytes(value.try_into().ok()?))
    }

    /// Says where a thread keeps its frames.
    pub fn add_thread(&self, tid: u32, address: u64) {
        if let Some(map) = self.map("threads") {
            let _ = map.update(&tid.to_ne_bytes(), &address.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// Forgets a thread.
    pub fn remove_thread(&self, tid: u32) {
        if let Some(map) = self.map("threads") {
            let _ = map.delete(&tid.to_ne_bytes());
        }
    }

    /// The waits that have ended since the last time, in the order of their ends on each CPU.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn read(&self) -> Result<Vec<ThreadWait>, Error> {
        self.waits.read()
    }

    /// The programs that watched processes, or processes started by them, have executed since the last time: they
    /// are not watched from then on.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn executed(&self) -> Result<Vec<String>, Error> {
        self.programs.read()
    }

    /// Waits that found no room.
    pub fn lost(&self) -> u64 {
        programs::lost(&self.object)
    }
}

fn parse(bytes: &[u8]) -> Option<ThreadWait> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let (long, short) = (
        |at| programs::long(bytes, at),
        |at| programs::short(bytes, at),
    );
    let some = |value: u32| (value != NONE).then_some(value);
    Some(ThreadWait {
        start_ns: long(0),
        end_ns: long(8),
        queued_ns: long(16),
        tid: short(24),
        system_call: some(short(28)),
        waker: Some(short(32)).filter(|tid| *tid != 0),
        waker_block: some(short(36)),
        preempted: short(40) != 0,
    })
}
