//! The user half of the BPF collector: loads it, flips its tables and drains them.

use crate::bpf::followed::target_entry;
use crate::bpf::go::LabelRecords;
use crate::bpf::layout::Waiting;
use crate::bpf::load_failure::{explain_load, listen_to_loader};
use crate::bpf::programs;
use crate::bpf::python::{CODE_RECORDS, CodeRecords, PythonCounts};
use crate::bpf::tables::{Tables, wait_for_running_programs};
use crate::events::perf::{self, Scope};
use crate::processes::cgroups::are_by_memory;
use crate::processes::jvm::NamedJvms;
use crate::{Error, EventKind, EventSpec};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject, PerfEventOpts, TracepointOpts};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[allow(
    clippy::all,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/collect.skel.rs"));
}
use skel::{CollectSkel, CollectSkelBuilder};

/// Flag in `Control::active` that stops the programs.
const STOPPED: u32 = 0x8000_0000;
/// Entries of a table for each CPU. On few CPUs they hold the samples of a compilation for 15 s. On
/// many CPUs they hold the samples between two checks of the fill level (100 ms).
const ROOM_PER_CPU: usize = 32768;
const ROOM_LEAST: usize = 65536;
const ROOM_MOST: usize = 262_144;
/// Least number of slots for places on a CPU; each CPU has its own slots.
const PLACES_LEAST: usize = 4096;
/// `CACHE_ENTRIES` of collect.bpf.c.
const CACHE_ENTRIES: usize = 256;
/// `WALK_CACHE` of unwind_state.h.
const WALK_CACHE: usize = 128;

/// Settings of the collector; fixed when it is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setting {
    pub only_targets: bool,
    pub stacks: bool,
    /// True if user stacks are walked by unwind tables, as far as the kernel can do that.
    pub tables: bool,
    pub per_process: bool,
    pub per_thread: bool,
    pub off_cpu: bool,
    /// True if there is a tracepoint among the events.
    pub tracepoints: bool,
    /// Event numbers of sleeping and of waiting for a CPU.
    pub off_events: [u16; 2],
    /// True if the collector runs permanently: its tables of stacks are half as large.
    pub lasting: bool,
}

/// Memory of the loader, which must live as long as the collector.
pub(crate) type LoaderMemory = MaybeUninit<OpenObject>;

/// The tables that stack walks use (unwind_tables.h).
pub(crate) struct WalkMaps {
    pub rows: MapHandle,
    pub rules: MapHandle,
    pub numbers: MapHandle,
    pub tables: MapHandle,
    pub counts: MapHandle,
    pub state: MapHandle,
    pub wanted: MapHandle,
    pub interpreters: MapHandle,
    pub image_interpreters: MapHandle,
    pub rubies: MapHandle,
    pub image_rubies: MapHandle,
    pub v8_engines: MapHandle,
    pub image_v8_engines: MapHandle,
    pub go_programs: MapHandle,
    pub hotspots: MapHandle,
}

/// The collector, loaded.
pub(crate) struct Kernel<'memory> {
    skel: CollectSkel<'memory>,
    links: Vec<Link>,
    cpus: usize,
    off_cpu: bool,
    with_stacks: bool,
    /// Slots for places, for each CPU and buffer.
    place_slots: usize,
    /// Number of entries in all tables from which on one table could run out of room.
    comfortable: u64,
}

impl<'memory> Kernel<'memory> {
    /// Loads the programs; nothing is counted yet.
    pub fn load(memory: &'memory mut LoaderMemory, setting: Setting) -> Result<Self, Error> {
        listen_to_loader();
        let mut open = CollectSkelBuilder::default()
            .open(memory)
            .map_err(Error::bpf("reading the collector"))?;
        programs::set_pid_namespace(open.open_object_mut());
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::bpf("counting the CPUs"))?;
        let whole_room = (cpus * ROOM_PER_CPU).clamp(ROOM_LEAST, ROOM_MOST);
        let room = if setting.lasting && setting.stacks {
            whole_room / 2
        } else {
            whole_room
        };
        let place_slots = if setting.stacks {
            1
        } else {
            (room / cpus.max(1)).max(PLACES_LEAST).next_power_of_two()
        };
        if let Some(data) = open.maps.rodata_data.as_deref_mut() {
            data.cpus = cpus as u32;
            data.place_slots = place_slots as u32;
            data.only_targets = setting.only_targets;
            data.with_stacks = setting.stacks;
            data.by_tables = setting.tables;
            data.per_process = setting.per_process;
            data.per_thread = setting.per_thread;
            data.cgroups_by_memory = are_by_memory();
            data.backing_flag = backing_flag(&kernel_release());
            data.page_shift = perf::page_size().trailing_zeros();
            data.sleep_event = setting.off_events[0];
            data.queue_event = setting.off_events[1];
        }
        let follow = setting.only_targets;
        open.progs.on_fork.set_autoload(follow);
        open.progs.on_exec.set_autoload(follow);
        open.progs.on_free.set_autoload(follow);
        open.progs.on_map.set_autoload(can_watch_mappings());
        // Verifying takes most of the time to load, so unused programs are skipped.
        open.progs.on_tracepoint.set_autoload(setting.tracepoints);
        open.progs.on_switch.set_autoload(setting.off_cpu);
        open.progs.on_waking.set_autoload(setting.off_cpu);
        // Tables that this setting never fills need no room.
        let sized = |map: &mut libbpf_rs::OpenMapMut<'_>, room: Option<usize>| {
            map.set_max_entries(room.map_or(1, |room| room as u32))
        };
        let stacks = setting.stacks || setting.off_cpu;
        let maps = &mut open.maps;
        for (map, room) in [
            (&mut maps.places, Some(2 * cpus * place_slots)),
            (&mut maps.mapping_cache, Some(cpus * CACHE_ENTRIES)),
            (&mut maps.stacks0, setting.stacks.then_some(room)),
            (&mut maps.stacks1, setting.stacks.then_some(room)),
            (&mut maps.threads0, Some(room / 2)),
            (&mut maps.threads1, Some(room / 2)),
            (&mut maps.frames0, stacks.then_some(room / 2)),
            (&mut maps.frames1, stacks.then_some(room / 2)),
            (&mut maps.waits0, setting.off_cpu.then_some(room)),
            (&mut maps.waits1, setting.off_cpu.then_some(room)),
            (&mut maps.waiting, setting.off_cpu.then_some(ROOM_MOST)),
            (
                &mut maps.walk_cache,
                setting.tables.then_some(cpus * WALK_CACHE),
            ),
            (&mut maps.targets, follow.then_some(ROOM_MOST)),
        ] {
            sized(map, room).map_err(Error::bpf("sizing the collector's tables"))?;
        }
        let skel = open
            .load()
            .map_err(explain_load("loading the collector into the kernel"))?;
        Ok(Self {
            skel,
            links: Vec::new(),
            cpus,
            off_cpu: setting.off_cpu,
            with_stacks: setting.stacks,
            place_slots,
            comfortable: (if stacks { whole_room / 5 } else { room * 2 / 5 }) as u64,
        })
    }

    /// Makes a process, or with `armed` false the program it is about to execute, a target.
    pub fn add_target(&self, tgid: u32, armed: bool) -> Result<(), Error> {
        self.skel
            .maps
            .targets
            .update(&tgid.to_ne_bytes(), &target_entry(armed), MapFlags::ANY)
            .map_err(Error::bpf("naming the target"))
    }

    /// Returns whether a process is a target.
    pub fn is_target(&self, tgid: u32) -> bool {
        let entry = self
            .skel
            .maps
            .targets
            .lookup(&tgid.to_ne_bytes(), MapFlags::ANY);
        entry.is_ok_and(|entry| entry.is_some())
    }

    /// Takes a process out of the targets.
    pub fn remove_target(&self, tgid: u32) {
        // The entry is gone if the process has ended.
        let _ = self.skel.maps.targets.delete(&tgid.to_ne_bytes());
    }

    /// Attaches the programs that follow the target's children, and those that watch the scheduler.
    pub fn attach_tracing(&mut self) -> Result<(), Error> {
        let progs = &self.skel.progs;
        let all = [
            &progs.on_fork,
            &progs.on_exec,
            &progs.on_free,
            &progs.on_map,
            &progs.on_waking,
            &progs.on_switch,
        ];
        for program in all {
            if program.autoload() {
                let link = program
                    .attach()
                    .map_err(Error::bpf("attaching to tracepoints of processes"))?;
                self.links.push(link);
            }
        }
        Ok(())
    }

    /// Attaches the collector to an open event; `nothing` attaches the empty program instead.
    pub fn attach_event(&mut self, fd: &OwnedFd, event: u16, nothing: bool) -> Result<(), Error> {
        let program = if nothing {
            &self.skel.progs.on_nothing
        } else {
            &self.skel.progs.on_sample
        };
        let options = PerfEventOpts {
            cookie: event.into(),
            ..Default::default()
        };
        let what = "attaching the collector to an event";
        self.links
            .push(programs::attach_program(program, fd, options, what)?);
        Ok(())
    }

    /// Attaches the collector to a tracepoint.
    pub fn attach_tracepoint(
        &mut self,
        spec: &EventSpec,
        event: u16,
        period: u64,
    ) -> Result<(), Error> {
        let Some((category, name)) = &spec.tracepoint else {
            return Ok(());
        };
        let options = TracepointOpts {
            cookie: u64::from(event) | period << 8,
            ..Default::default()
        };
        let category = libbpf_rs::TracepointCategory::Custom(category.clone());
        let link = self
            .skel
            .progs
            .on_tracepoint
            .attach_tracepoint_with_opts(category, name, options)
            .map_err(Error::bpf(format!("attaching to tracepoint {}", spec.name)))?;
        self.links.push(link);
        Ok(())
    }

    /// Lets pinned programs run on after this value is dropped.
    pub fn leave_running(&mut self) {
        self.links.iter_mut().for_each(Link::disconnect);
    }

    /// Stops counting.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns whether the tables that are being filled should be drained soon.
    pub fn is_filling_up(&self, events: usize) -> Result<bool, Error> {
        let entries = self
            .buffer_tables(self.active_buffer())
            .inserted_counts(events)?;
        let most = entries.iter().copied().max().unwrap_or(0);
        // A search gives up after 32 slots: a fuller table would drop samples.
        let crowded = self.place_slots > 1 && most >= self.place_slots as u64 * 2 / 5;
        Ok(crowded || entries.iter().sum::<u64>() >= self.comfortable)
    }

    fn active_buffer(&self) -> u32 {
        self.fill_number() & 1
    }

    /// Returns how often the tables were flipped: the number of the current fill.
    pub fn fill_number(&self) -> u32 {
        let data = self.skel.maps.bss_data.as_deref();
        data.map_or(0, |data| data.control.active & !STOPPED)
    }

    /// Stops the programs' counting, or resumes it.
    pub fn hold_programs(&mut self, stopped: bool) {
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            let running = data.control.active & !STOPPED;
            data.control.active = running | if stopped { STOPPED } else { 0 };
        }
        wait_for_running_programs();
    }

    /// Moves the time ahead after which programs stop sampling.
    pub fn expect_until(&mut self, until_ns: u64) {
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.control.until_ns = until_ns;
        }
    }

    /// Returns when a program first found that this time had passed. `None` if none has since the
    /// last call.
    pub fn take_ceased(&mut self) -> Option<u64> {
        let data = self.skel.maps.bss_data.as_deref_mut()?;
        Some(std::mem::take(&mut data.control.ceased_ns)).filter(|&ceased| ceased > 0)
    }

    /// Switches the programs to the other tables, waits until none writes to these any more, and
    /// returns the number of these.
    pub fn flip_buffers(&mut self) -> u32 {
        let old = self.active_buffer();
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.control.active = data.control.active.wrapping_add(1);
        }
        // A program that read the number before still writes to the old tables.
        wait_for_running_programs();
        old
    }

    /// Returns the tables of a buffer.
    pub fn buffer_tables(&self, buffer: u32) -> Tables<'_> {
        let maps = &self.skel.maps;
        Tables {
            places: maps.places.as_fd(),
            place_slots: self.place_slots,
            threads: of_buffer(buffer, [&maps.threads0, &maps.threads1]),
            runs: maps.runs.as_fd(),
            accounts: maps.accounts.as_fd(),
            cgroups: maps.cgroups.as_fd(),
            stacks: (self.with_stacks).then(|| of_buffer(buffer, [&maps.stacks0, &maps.stacks1])),
            frames: (self.with_stacks || self.off_cpu)
                .then(|| of_buffer(buffer, [&maps.frames0, &maps.frames1])),
            waits: (self.off_cpu).then(|| of_buffer(buffer, [&maps.waits0, &maps.waits1])),
            buffer,
            cpus: self.cpus,
            clears: false,
        }
    }

    /// Returns the tables that outlive this process if they are pinned, by name.
    pub fn named_tables(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        let maps = &self.skel.maps;
        let mut named = vec![
            ("places", maps.places.as_fd()),
            ("threads0", maps.threads0.as_fd()),
            ("threads1", maps.threads1.as_fd()),
            ("runs", maps.runs.as_fd()),
            ("accounts", maps.accounts.as_fd()),
            ("cgroups", maps.cgroups.as_fd()),
            ("state", maps.bss.as_fd()),
        ];
        if self.with_stacks {
            named.extend([
                ("stacks0", maps.stacks0.as_fd()),
                ("stacks1", maps.stacks1.as_fd()),
                ("frames0", maps.frames0.as_fd()),
                ("frames1", maps.frames1.as_fd()),
                (CODE_RECORDS, maps.code_records.as_fd()),
            ]);
        }
        named
    }

    /// Returns the tables that stack walks use.
    pub fn walk_maps(&self) -> Result<WalkMaps, Error> {
        let maps = &self.skel.maps;
        let shared = Error::bpf("sharing the collector's tables");
        let all = || -> libbpf_rs::Result<WalkMaps> {
            Ok(WalkMaps {
                rows: MapHandle::try_from(&maps.rows)?,
                rules: MapHandle::try_from(&maps.rules)?,
                numbers: MapHandle::try_from(&maps.image_numbers)?,
                tables: MapHandle::try_from(&maps.image_tables)?,
                counts: MapHandle::try_from(&maps.walk_counts)?,
                state: MapHandle::try_from(&maps.walk_state)?,
                wanted: MapHandle::try_from(&maps.walk_wanted)?,
                interpreters: MapHandle::try_from(&maps.interpreters)?,
                image_interpreters: MapHandle::try_from(&maps.image_interpreters)?,
                rubies: MapHandle::try_from(&maps.rubies)?,
                image_rubies: MapHandle::try_from(&maps.image_rubies)?,
                v8_engines: MapHandle::try_from(&maps.v8_engines)?,
                image_v8_engines: MapHandle::try_from(&maps.image_v8_engines)?,
                go_programs: MapHandle::try_from(&maps.go_programs)?,
                hotspots: MapHandle::try_from(&maps.hotspots)?,
            })
        };
        all().map_err(shared)
    }

    /// Returns the reader of the programs' records of code objects.
    pub fn code_records(&self, jvms: NamedJvms) -> Result<CodeRecords, Error> {
        CodeRecords::new(&self.skel.maps.code_records, jvms)
    }

    /// Makes the programs describe every code object again.
    pub fn tell_functions_anew(&self) -> Result<(), Error> {
        let told = &self.skel.maps.python_codes;
        let slots = told.max_entries();
        let keys: Vec<u8> = (0..slots).flat_map(u32::to_ne_bytes).collect();
        let values = vec![0; 8 * slots as usize];
        told.update_batch(&keys, &values, slots, MapFlags::ANY, MapFlags::ANY)
            .map_err(Error::bpf("having functions told anew"))
    }

    /// Returns the reader of the programs' records of goroutine labels.
    pub fn label_records(&self) -> Result<LabelRecords, Error> {
        LabelRecords::new(&self.skel.maps.label_records)
    }

    /// Returns warnings about the walks through interpreters.
    pub fn interpreter_notes(&self) -> Vec<String> {
        let languages = ["Python", "Ruby", "JavaScript"].into_iter().zip(0..);
        let counts = |number| PythonCounts::read_sums(&self.skel.maps.python_counts, number);
        languages
            .filter_map(|(name, number)| counts(number).warn_of_missing(name))
            .collect()
    }

    /// Returns the links of the programs. Pinned links keep the programs running after this
    /// process.
    pub fn links(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.links.iter().map(AsFd::as_fd)
    }

    /// Visits the threads that are off the CPU now.
    pub fn each_waiting(&self, mut each: impl FnMut(&Waiting)) {
        if !self.off_cpu {
            return;
        }
        let map = &self.skel.maps.waiting;
        for key in map.keys() {
            if let Ok(Some(bytes)) = map.lookup(&key, MapFlags::ANY)
                && bytes.len() == size_of::<Waiting>()
            {
                // SAFETY: the slice has the size of the type, and any bytes are a valid value
                // (Plain).
                each(&unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<Waiting>()) });
            }
        }
    }
}

/// Returns whether this kernel supports walks by unwind tables: `bpf_loop` (5.17) and the tree of
/// mappings (6.1).
pub(crate) fn can_walk_by_tables() -> bool {
    let release = kernel_release();
    let mut numbers = kernel_numbers(&release);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 1)
}

fn kernel_numbers(release: &str) -> impl Iterator<Item = u32> + '_ {
    let digits = release.split(|c: char| !c.is_ascii_digit());
    digits.map(|number| number.parse().unwrap_or(0))
}

/// Returns whether this kernel has the tracepoint that `on_map` is attached to.
fn can_watch_mappings() -> bool {
    let kind = libbpf_sys::BPF_TRACE_RAW_TP;
    // SAFETY: the name lives through the call, which only looks it up in the kernel's type
    // information.
    unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(c"vm_unmapped_area".as_ptr(), kind) > 0 }
}

/// Returns the map of a buffer.
pub(crate) fn of_buffer<'a, M: AsFd>(buffer: u32, maps: [&'a M; 2]) -> BorrowedFd<'a> {
    maps[usize::from(buffer != 0)].as_fd()
}

/// Returns `FMODE_BACKING` by the kernel's release, because type information lacks it: bit 25 since
/// 6.5, bit 24 since 6.14.
fn backing_flag(release: &str) -> u32 {
    let mut numbers = kernel_numbers(release);
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
        version if version >= (6, 14) => 1 << 24,
        version if version >= (6, 5) => 1 << 25,
        _ => 0,
    }
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Opens an event on every CPU for the whole machine, and attaches the collector.
pub(crate) fn open_everywhere(
    kernel: &mut Kernel<'_>,
    spec: &EventSpec,
    event: u16,
    period: u64,
    cpus: &[i32],
) -> Result<Vec<OwnedFd>, Error> {
    if spec.kind == EventKind::Tracepoint {
        kernel.attach_tracepoint(spec, event, period)?;
        return Ok(Vec::new());
    }
    let attr = perf::event_attributes(spec, period);
    let mut fds = Vec::with_capacity(cpus.len());
    for &cpu in cpus {
        let fd = perf::open_event(&attr, Scope { pid: -1, cpu })
            .map_err(|source| crate::events::advice::event_refused(spec, source))?;
        kernel.attach_event(&fd, event, false)?;
        fds.push(fd);
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use super::backing_flag;

    #[test]
    fn the_flag_of_stacked_files_moved() {
        assert_eq!(backing_flag("6.18.44-fc"), 1 << 24);
        assert_eq!(backing_flag("6.14.0"), 1 << 24);
        assert_eq!(backing_flag("6.5.0-1-amd64"), 1 << 25);
        assert_eq!(backing_flag("5.10.0"), 0);
        assert_eq!(backing_flag(""), 0);
    }
}
