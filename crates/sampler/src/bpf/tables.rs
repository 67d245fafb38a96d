//! The collector's tables, by descriptor: those of this process's collector, and those of one left
//! behind.

use crate::Error;
use crate::bpf::layout::{
    Accounting, CgroupPath, Count, CpuRun, Frames, MAX_EVENTS, OffKey, Place, Plain, StackKey,
    ThreadKey, Wait,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Size of the part of a table that is mapped at once, in bytes: a multiple of any page size.
const PIECE: usize = 1 << 20;

/// Half of the entries of `cgroups`.
const CGROUPS_KEPT: usize = 1024;

/// The tables of one buffer, which no program fills while they are read.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    /// Places of both buffers.
    pub places: BorrowedFd<'a>,
    /// Number of places of a CPU in each buffer.
    pub place_slots: usize,
    pub threads: BorrowedFd<'a>,
    pub runs: BorrowedFd<'a>,
    pub accounts: BorrowedFd<'a>,
    /// Control groups of both buffers.
    pub cgroups: BorrowedFd<'a>,
    /// Table of sampled stacks, if samples are counted by stack, not by place.
    pub stacks: Option<BorrowedFd<'a>>,
    /// The frames of stacks, by the numbers in the keys of stacks and waits, if there are stacks.
    pub frames: Option<BorrowedFd<'a>>,
    /// Table of waits, if time off the CPU is counted.
    pub waits: Option<BorrowedFd<'a>>,
    pub buffer: u32,
    pub cpus: usize,
    /// True if what is read is cleared.
    pub clears: bool,
}

impl Tables<'_> {
    /// Returns the same tables, of which what is read is cleared.
    pub fn clearing_reads(self) -> Self {
        Self {
            clears: true,
            ..self
        }
    }

    /// Reads the counts of sampled stacks.
    pub fn read_stacks(&self, each: impl FnMut(&StackKey, Count)) -> Result<(), Error> {
        self.stacks.map_or(Ok(()), |map| self.read_table(map, each))
    }

    /// Reads the frames.
    pub fn read_frames(&self, each: impl FnMut(&u64, Frames)) -> Result<(), Error> {
        self.frames.map_or(Ok(()), |map| self.read_table(map, each))
    }

    /// Reads the waits that have ended.
    pub fn read_waits(&self, each: impl FnMut(&OffKey, Wait)) -> Result<(), Error> {
        self.waits.map_or(Ok(()), |map| self.read_table(map, each))
    }

    fn read_table<K: Plain, V: Plain>(
        &self,
        map: BorrowedFd<'_>,
        each: impl FnMut(&K, V),
    ) -> Result<(), Error> {
        if self.clears {
            walk_table(map, libbpf_sys::bpf_map_lookup_and_delete_batch, each)
        } else {
            walk_table(map, libbpf_sys::bpf_map_lookup_batch, each)
        }
    }

    fn index(&self, event: u32) -> u32 {
        self.buffer * MAX_EVENTS as u32 + event
    }

    /// Reads the places: none if samples are counted by stack.
    pub fn read_places(&self, mut each: impl FnMut(&Place)) -> Result<(), Error> {
        if self.stacks.is_some() {
            return Ok(());
        }
        self.walk_places(|places| {
            for place in places.iter_mut().filter(|place| place.count > 0) {
                each(place);
                if self.clears {
                    *place = Place::default();
                }
            }
        })
    }

    /// Reads the control groups by their numbers; clears them only when room runs short.
    pub fn read_cgroups(&self, mut each: impl FnMut(u32, &CgroupPath)) -> Result<(), Error> {
        let mut count = 0;
        let step = libbpf_sys::bpf_map_lookup_batch;
        walk_table(self.cgroups, step, |number: &u32, path: CgroupPath| {
            count += 1;
            each(*number, &path);
        })?;
        if count > CGROUPS_KEPT {
            let clearing = self.clearing_reads();
            clearing.read_table(self.cgroups, |_: &u32, _: CgroupPath| ())
        } else {
            Ok(())
        }
    }

    /// Reads the threads.
    pub fn read_threads(&self, mut each: impl FnMut(&ThreadKey, Count)) -> Result<(), Error> {
        self.last_runs(&mut each)?;
        self.read_table(self.threads, each)
    }

    /// Visits all slots for places, a piece at a time: mapped pieces count as this process's
    /// memory.
    fn walk_places(&self, mut each: impl FnMut(&mut [Place])) -> Result<(), Error> {
        const { assert!(size_of::<Place>() == 64) };
        let size = self.cpus * self.place_slots * size_of::<Place>();
        let begin = self.buffer as usize * size;
        for from in (begin..begin + size).step_by(PIECE) {
            let length = PIECE.min(begin + size - from);
            let mut piece =
                Mapping::new(self.places, from, length).map_err(|source| Error::System {
                    what: "mapping the collector's tables".into(),
                    source,
                })?;
            each(piece.places());
        }
        Ok(())
    }

    /// Reads the thread that each CPU sampled last, which is not in the table yet.
    fn last_runs(&self, each: &mut impl FnMut(&ThreadKey, Count)) -> Result<(), Error> {
        for event in 0..MAX_EVENTS as u32 {
            let last = of_each_cpu::<CpuRun>(self.cpus, self.runs, self.index(event))?;
            for run in last.iter().filter(|run| run.count.count > 0) {
                each(&run.thread, run.count);
            }
            if self.clears {
                clear_each_cpu::<CpuRun>(self.cpus, self.runs, self.index(event))?;
            }
        }
        Ok(())
    }

    /// Returns the accounting of the first `events` events, summed over the CPUs.
    pub fn sum_accounts(&self, events: usize) -> Result<Vec<Accounting>, Error> {
        (0..events.min(MAX_EVENTS) as u32)
            .map(|event| {
                let values = self.cpu_accounts(event)?;
                let sum = |sum: Accounting, value: &Accounting| Accounting {
                    taken: sum.taken + value.taken,
                    stored: sum.stored + value.stored,
                    dropped: sum.dropped + value.dropped,
                    inserted: sum.inserted + value.inserted,
                    spent_ns: sum.spent_ns + value.spent_ns,
                };
                Ok(values.iter().fold(Accounting::default(), sum))
            })
            .collect()
    }

    /// Returns the number of entries that each CPU added.
    pub fn inserted_counts(&self, events: usize) -> Result<Vec<u64>, Error> {
        let mut inserted = vec![0; self.cpus];
        for event in 0..events.min(MAX_EVENTS) as u32 {
            for (sum, account) in inserted.iter_mut().zip(self.cpu_accounts(event)?) {
                *sum += account.inserted;
            }
        }
        Ok(inserted)
    }

    /// Returns the accounting of each CPU.
    fn cpu_accounts(&self, event: u32) -> Result<Vec<Accounting>, Error> {
        of_each_cpu(self.cpus, self.accounts, self.index(event))
    }

    /// Sets the accounting to zero.
    pub fn clear_accounts(&self) -> Result<(), Error> {
        (0..MAX_EVENTS as u32).try_for_each(|event| {
            clear_each_cpu::<Accounting>(self.cpus, self.accounts, self.index(event))
        })
    }

    /// Clears the tables and the accounting.
    pub fn clear(&self) -> Result<(), Error> {
        let tables = self.clearing_reads();
        tables.read_places(|_| ())?;
        tables.read_stacks(|_, _| ())?;
        tables.read_frames(|_, _| ())?;
        tables.read_waits(|_, _| ())?;
        tables.read_threads(|_, _| ())?;
        tables.clear_accounts()
    }
}

/// A piece of the places, mapped.
struct Mapping {
    start: NonNull<Place>,
    length: usize,
}

impl Mapping {
    fn new(map: BorrowedFd<'_>, from: usize, length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let offset = libc::off_t::try_from(from).map_err(io::Error::other)?;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                null,
                length,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset,
            )
        };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self {
                start: start.cast(),
                length,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn places(&mut self) -> &mut [Place] {
        let count = self.length / size_of::<Place>();
        // SAFETY: `count` places lie in the mapping, which is page-aligned, and any bytes are a
        // valid value (Plain). No other code uses this buffer now: programs fill the other one, and
        // a database has one daemon.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping that `new` made; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Returns the values of one entry of a per-CPU array.
fn of_each_cpu<V: Plain>(cpus: usize, map: BorrowedFd<'_>, index: u32) -> Result<Vec<V>, Error> {
    const { assert!(size_of::<V>().is_multiple_of(8)) }; // the kernel rounds sizes up to that
    let mut values = vec![V::default(); cpus];
    // SAFETY: the kernel writes one value for each possible CPU, for which `values` has room; every
    // bit pattern is a valid value (Plain).
    let result = unsafe {
        libbpf_sys::bpf_map_lookup_elem(
            map.as_raw_fd(),
            (&raw const index).cast(),
            values.as_mut_ptr().cast(),
        )
    };
    match result {
        0 => Ok(values),
        _ => Err(Error::system("reading the collector's counters")),
    }
}

/// Sets the values of one entry of a per-CPU array to zero.
fn clear_each_cpu<V: Plain>(cpus: usize, map: BorrowedFd<'_>, index: u32) -> Result<(), Error> {
    let zero = vec![V::default(); cpus];
    // SAFETY: the kernel reads one value for each possible CPU from `zero`, each a multiple of 8
    // bytes (as in `of_each_cpu`).
    let result = unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_raw_fd(),
            (&raw const index).cast(),
            zero.as_ptr().cast(),
            libbpf_sys::BPF_ANY.into(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::system("clearing the collector's counters")),
    }
}

/// Waits until every BPF program that was running has ended. Programs run in RCU read-side critical
/// sections, and a global memory barrier waits for those.
pub(crate) fn wait_for_running_programs() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: a system call without pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result != 0 {
        // Kernels with nohz_full CPUs refuse the barrier. A program runs for microseconds, with
        // interrupts off.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Type of `bpf_map_lookup_batch` and similar functions.
type Batch = unsafe extern "C" fn(
    libc::c_int,
    *mut libc::c_void,
    *mut libc::c_void,
    *mut libc::c_void,
    *mut libc::c_void,
    *mut u32,
    *const libbpf_sys::bpf_map_batch_opts,
) -> libc::c_int;

/// Reads a hash table, batch by batch.
fn walk_table<K: Plain, V: Plain>(
    map: BorrowedFd<'_>,
    step: Batch,
    mut each: impl FnMut(&K, V),
) -> Result<(), Error> {
    // Batches of about a megabyte; the kernel needs room for the longest chain of one bucket.
    let batch = ((1 << 20) / (size_of::<K>() + size_of::<V>()).max(1)).clamp(256, 8192);
    let mut keys = vec![K::default(); batch];
    let mut values = vec![V::default(); batch];
    let (mut from, mut to) = (0u64, 0u64); // the cursor: a bucket number
    let mut first = true;
    loop {
        let mut count = batch as u32;
        let start = if first {
            std::ptr::null_mut()
        } else {
            (&raw mut from).cast()
        };
        // SAFETY: `keys` and `values` have room for `count` entries, and every bit pattern is a
        // valid value of both (Plain).
        let result = unsafe {
            step(
                map.as_raw_fd(),
                start,
                (&raw mut to).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                std::ptr::null(),
            )
        };
        let errno = if result < 0 { -result } else { 0 };
        if errno != 0 && errno != libc::ENOENT {
            return Err(Error::System {
                what: "reading the collector's tables".into(),
                source: std::io::Error::from_raw_os_error(errno),
            });
        }
        for (key, value) in keys.iter().zip(&values).take(count as usize) {
            each(key, *value);
        }
        if errno == libc::ENOENT {
            return Ok(());
        }
        (from, first) = (to, false);
    }
}
