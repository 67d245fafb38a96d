//! The waits of a process's threads, one by one.

use crate::Error;
use crate::bpf::programs::{self, Events};
use crate::processes::cpus::usable_cpus;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/waits.bpf.o"));
/// Number that stands for none.
const NONE: u32 = u32::MAX;
/// Activity, for error messages.
const WATCHING: &str = "watching the scheduler";
/// Bytes of a record.
const RECORD: usize = 64;

/// Flags of a CPU, as in `waits.bpf.c`.
const USABLE: u32 = 1;
const USABLE_FIRST: u32 = 2;

/// A period in which a thread was off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadWait {
    /// Thread.
    pub tid: u32,
    /// Start, on the monotonic clock, in nanoseconds.
    pub start_ns: u64,
    /// Time at which it ran again.
    pub end_ns: u64,
    /// Time at the end of the wait for which the thread was ready and waited for a CPU.
    pub queued_ns: u64,
    /// Part of `queued_ns` for which other processes had the CPUs. Waits for the program's own
    /// threads are not in it.
    pub taken_ns: u64,
    /// Time before the thread was ready for which other processes kept its waker from a CPU; a
    /// lower bound.
    pub held_ns: u64,
    /// True if the thread was ready all the time: the kernel preempted it.
    pub preempted: bool,
    /// System call that the thread waited in.
    pub system_call: Option<u32>,
    /// Thread of a watched process that woke this one.
    pub waker: Option<u32>,
    /// Block that the waker was in.
    pub waker_block: Option<u32>,
}

/// A process that used CPUs which watched threads were ready for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuUser {
    /// Process.
    pub pid: u32,
    /// Name of the thread.
    pub name: String,
    /// True for a watched process, or a descendant of one.
    pub watched: bool,
    /// Time for which it used these CPUs, in nanoseconds.
    pub ns: u64,
}

/// Layout of the frames of blocks that a thread of a traced program keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Size of a frame.
    pub size: u32,
    /// Offset of the block's number in a frame.
    pub block: u32,
    /// Offset of the first frame's address in the thread's record. The word at offset 0 points
    /// behind the last frame.
    pub base: u32,
}

/// Watches the scheduler.
pub struct Waits {
    object: Object,
    _links: Vec<Link>,
    waits: Events<ThreadWait>,
    programs: Events<String>,
    /// The CPUs that watched threads may use, as far as known; at first, those that this thread may
    /// use.
    usable: RefCell<BTreeSet<u32>>,
    /// Number of threads whose CPUs were looked up.
    asked: Cell<u64>,
}

impl Waits {
    /// Begins to watch the scheduler, without any process yet.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel refuses that.
    pub fn watch(layout: FrameLayout) -> Result<Self, Error> {
        let own = usable_cpus(std::process::id()).unwrap_or_default();
        let usable: BTreeSet<u32> = own.into_iter().collect();
        let first = usable.len() as u32;
        let values = [layout.size, layout.block, layout.base, first];
        let constants: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let object = programs::load_programs(CODE, &constants, WATCHING)?;
        for cpu in &usable {
            set_usable(&object, *cpu, USABLE | USABLE_FIRST);
        }
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
            usable: RefCell::new(usable),
            asked: Cell::new(0),
        })
    }

    fn map(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == name)
    }

    /// Watches the threads of a process.
    pub fn add_process(&self, pid: u32) {
        if let Some(map) = self.map("processes") {
            // If the table is full, later processes are not watched.
            let _ = map.update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// Returns when the last thread of a watched process ended, on the monotonic clock.
    pub fn ended(&self, pid: u32) -> Option<u64> {
        let map = self.map("ended")?;
        let value = map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(u64::from_ne_bytes(value.try_into().ok()?))
    }

    /// Adds the CPUs that a thread may use: there it competes with other processes.
    fn add_usable_cpus(&self, tid: u32) {
        let Some(cpus) = usable_cpus(tid) else {
            return; // It has ended.
        };
        let mut usable = self.usable.borrow_mut();
        let asked = self.asked.replace(self.asked.get() + 1);
        if asked == 0 {
            // The program may have been bound to fewer CPUs than were known at first.
            for cpu in usable.iter().filter(|cpu| !cpus.contains(cpu)) {
                set_usable(&self.object, *cpu, USABLE_FIRST);
            }
            usable.retain(|cpu| cpus.contains(cpu));
        }
        for cpu in cpus {
            if usable.insert(cpu) {
                // A thread that runs there already counts from its next switch on.
                set_usable(&self.object, cpu, USABLE);
            }
        }
    }

    /// Records where a thread keeps its frames.
    pub fn add_thread(&self, tid: u32, address: u64) {
        self.add_usable_cpus(tid);
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

    /// Returns the waits that have ended since the last call, in the order of their ends on each
    /// CPU.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn read(&self) -> Result<Vec<ThreadWait>, Error> {
        self.waits.read()
    }

    /// Returns the programs that watched processes, or their descendants, have executed since the
    /// last call; such processes are no longer watched.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn executed(&self) -> Result<Vec<String>, Error> {
        self.programs.read()
    }

    /// Returns the processes that used the CPUs for which watched threads were ready, the longest
    /// first.
    pub fn cpu_users(&self) -> Vec<CpuUser> {
        let Some(map) = self.map("takers") else {
            return Vec::new();
        };
        let user = |key: Vec<u8>| {
            let ns = map.lookup(&key, MapFlags::ANY).ok()??;
            let key: &[u8; 24] = key.as_slice().try_into().ok()?;
            let name = key.get(8..)?.split(|byte| *byte == 0).next()?;
            Some(CpuUser {
                pid: programs::read_u32(key, 0),
                watched: programs::read_u32(key, 4) != 0,
                name: String::from_utf8_lossy(name).into_owned(),
                ns: u64::from_ne_bytes(ns.try_into().ok()?),
            })
        };
        let mut users: Vec<CpuUser> = map.keys().filter_map(user).collect();
        users.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        users
    }

    /// Returns the number of waits that found no room.
    pub fn lost(&self) -> u64 {
        programs::lost_records(&self.object)
    }
}

fn set_usable(object: &Object, cpu: u32, flags: u32) {
    if let Some(map) = object.maps().find(|map| map.name() == "usable") {
        // CPUs beyond its end do not exist.
        let _ = map.update(&cpu.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::ANY);
    }
}

fn parse(bytes: &[u8]) -> Option<ThreadWait> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let (long, short) = (
        |at| programs::read_u64(bytes, at),
        |at| programs::read_u32(bytes, at),
    );
    let some = |value: u32| (value != NONE).then_some(value);
    Some(ThreadWait {
        start_ns: long(0),
        end_ns: long(8),
        queued_ns: long(16),
        taken_ns: long(48),
        held_ns: long(56),
        tid: short(24),
        system_call: some(short(28)),
        waker: Some(short(32)).filter(|tid| *tid != 0),
        waker_block: some(short(36)),
        preempted: short(40) != 0,
    })
}
