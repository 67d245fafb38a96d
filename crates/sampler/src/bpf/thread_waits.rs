//! The waits of a process's threads, one by one.

use crate::Error;
use crate::bpf::programs::{self, Events};
use crate::processes::cpus::{UsableCpus, usable_cpus};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::cell::RefCell;

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/waits.bpf.o"));
/// Number that stands for none.
const NONE: u32 = u32::MAX;
/// Activity, for error messages.
const WATCHING: &str = "watching the scheduler";
/// Bytes of a record.
const RECORD: usize = 64;
/// The program that runs when this process calls it, not when the kernel does.
const CHANGE_USABLE: &str = "change_usable";

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
    /// The CPUs that watched threads may use, as far as known; until there is a thread, those that
    /// this process may use.
    usable: RefCell<UsableCpus>,
}

impl Waits {
    /// Begins to watch the scheduler, without any process yet.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel refuses that.
    pub fn watch(layout: FrameLayout) -> Result<Self, Error> {
        let first = usable_cpus(std::process::id()).unwrap_or_default();
        let values = [layout.size, layout.block, layout.base];
        let constants: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let object = programs::load_programs(CODE, &constants, WATCHING)?;
        for cpu in &first {
            set_usable(&object, *cpu, true);
        }
        let links = object
            .progs_mut()
            .filter(|program| program.name() != CHANGE_USABLE)
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
            usable: RefCell::new(UsableCpus::new(&first)),
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

    /// Looks up the CPUs that a thread may use: there it competes with other processes.
    fn look_up_cpus(&self, tid: u32) {
        let Some(cpus) = usable_cpus(tid) else {
            return; // It has ended.
        };
        self.mark_cpus(self.usable.borrow_mut().set_cpus(tid, cpus));
    }

    /// Marks the CPUs that have become usable, and those that are no longer.
    fn mark_cpus(&self, changes: Vec<(u32, bool)>) {
        for (cpu, is_usable) in changes {
            set_usable(&self.object, cpu, is_usable);
        }
    }

    /// Records where a thread keeps its frames.
    pub fn add_thread(&self, tid: u32, address: u64) {
        self.look_up_cpus(tid);
        if let Some(map) = self.map("threads") {
            let _ = map.update(&tid.to_ne_bytes(), &address.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// Forgets a thread.
    pub fn remove_thread(&self, tid: u32) {
        self.mark_cpus(self.usable.borrow_mut().remove_thread(tid));
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
        // Threads bind themselves to CPUs at any time. One is asked again each time.
        let next = self.usable.borrow_mut().next_thread();
        next.into_iter().for_each(|tid| self.look_up_cpus(tid));
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

/// Tells the programs whether watched threads may use a CPU.
fn set_usable(object: &Object, cpu: u32, is_usable: bool) {
    let mut changed = [cpu.to_ne_bytes(), u32::from(is_usable).to_ne_bytes()].concat();
    let input = libbpf_rs::ProgramInput {
        context_in: Some(&mut changed),
        ..Default::default()
    };
    let program = object.progs_mut().find(|p| p.name() == CHANGE_USABLE);
    // Where the kernel refuses that, waits count as the program's own.
    let _ = program.map(|program| program.test_run(input));
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
