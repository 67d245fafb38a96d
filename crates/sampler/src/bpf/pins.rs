//! Collectors that outlive the process: their tables and the links of their programs, pinned in
//! the BPF file system. The next process finds them, takes over, and reads their counts.

use crate::Error;
use crate::bpf::kernel::{Kernel, of_buffer};
use crate::bpf::labels::ImageLabels;
use crate::bpf::layout::{
    Accounting, CgroupPath, Control, Count, CpuRun, Frames, MAX_EVENTS, Place, StackKey, ThreadKey,
};
use crate::bpf::python::{CODE_RECORDS, CodeRecords, FrameCode, ScriptFrame};
use crate::bpf::tables::{Tables, wait_for_running_programs};
use crate::clock::monotonic_ns;
use crate::processes::jvm::NamedJvms;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use profile::{Event, FileIdentity};
use rustc_hash::FxHashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Usual mount point of the BPF file system.
const USUAL: &str = "/sys/fs/bpf";
/// Mount point of vitalfew's own BPF file system, if there is no other.
const OWN: &str = "/run/vitalfew/bpf";
const BPF_FS_MAGIC: i128 = 0xcafe_4a11;
/// Prefix of the names of links.
const LINK: &str = "link";
/// Name of the table with the events' description: JSON, padded with spaces.
const EVENTS: &str = "events";
const DESCRIPTION: usize = 32 << 10;
/// Name of the table of the images' labels, where there are stacks.
const LABELS: &str = "labels";
/// Key of the only value of a table.
const FIRST: [u8; 4] = [0; 4];
/// `STOPPED` of collect.bpf.c, in the highest byte of `control.active`.
const STOPPED: u8 = 0x80;

/// Returns the BPF file system of this machine, if there is one.
pub fn mounted_bpf_file_system() -> Option<PathBuf> {
    let mut known = [USUAL, OWN].map(PathBuf::from).into_iter();
    known.find(|path| is_bpf_file_system(path))
}

/// Returns the BPF file system of this machine; mounts one if there is none.
///
/// # Errors
/// [`Error::System`], without the right to mount one.
pub fn bpf_file_system() -> Result<PathBuf, Error> {
    if let Some(mounted) = mounted_bpf_file_system() {
        return Ok(mounted);
    }
    let failed = |what: &str| Error::system(format!("{what} a BPF file system on {OWN}"));
    std::fs::create_dir_all(OWN).map_err(|source| Error::System {
        what: format!("creating {OWN}"),
        source,
    })?;
    let target = CString::new(OWN).unwrap_or_default();
    // SAFETY: the strings live through the call; the kernel reads nothing else.
    let result = unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            target.as_ptr(),
            c"bpf".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            c"mode=700".as_ptr().cast(),
        )
    };
    match result {
        0 => Ok(OWN.into()),
        _ => Err(failed("mounting")),
    }
}

fn is_bpf_file_system(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills in the structure, which is read only after success.
    unsafe {
        libc::statfs(path.as_ptr(), stat.as_mut_ptr()) == 0
            && i128::from(stat.assume_init().f_type) == BPF_FS_MAGIC
    }
}

/// Pins a collector in the directory, which is created; with stacks, the files of their labels,
/// too.
pub(crate) fn pin_collector(
    kernel: &Kernel<'_>,
    labels: Option<&ImageLabels>,
    directory: &Path,
) -> Result<(), Error> {
    std::fs::create_dir_all(directory).map_err(|source| Error::System {
        what: format!("creating {}", directory.display()),
        source,
    })?;
    let pinned = |name: &str, fd: BorrowedFd<'_>| {
        let path = directory.join(name);
        let failed = || Error::system(format!("pinning {}", path.display()));
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed())?;
        // SAFETY: the path lives through the call.
        match unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) } {
            0 => Ok(()),
            _ => Err(failed()),
        }
    };
    // Links last: once a link exists, all tables must exist.
    for (name, fd) in kernel.named_tables() {
        pinned(name, fd)?;
    }
    if let Some(labels) = labels {
        pinned(LABELS, labels.as_fd())?;
    }
    let events = new_description()?;
    pinned(EVENTS, events.as_fd())?;
    let mut links = kernel.links().enumerate();
    links.try_for_each(|(number, fd)| pinned(&format!("{LINK}{number}"), fd))
}

/// Makes a table for the description of events: a BPF file system has no files, and the database
/// may be removed.
fn new_description() -> Result<MapHandle, Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let size = DESCRIPTION as u32;
    MapHandle::create(MapType::Array, Some("vf_events"), 4, size, 1, &options)
        .map_err(Error::bpf("making a table for the events"))
}

/// Describes the events of the collector that is pinned in this directory.
pub(crate) fn describe_events(directory: &Path, events: &[Event]) -> Result<(), Error> {
    let mut text = serde_json::to_vec(events).unwrap_or_default();
    if text.len() > DESCRIPTION {
        return Err(Error::Refused {
            what: "describing the events".into(),
            reason: format!("their names are longer than {DESCRIPTION} bytes"),
        });
    }
    text.resize(DESCRIPTION, b' ');
    let what = || format!("describing the events in {}", directory.display());
    let map = MapHandle::from_pinned_path(directory.join(EVENTS)).map_err(Error::bpf(what()))?;
    let update = map.update(&FIRST, &text, MapFlags::ANY);
    update.map_err(Error::bpf(what()))
}

/// Removes the pins of a collector; it ends unless another process holds it.
///
/// # Errors
/// [`Error::System`].
pub fn remove_pins(directory: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(directory) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::System {
            what: format!("removing {}", directory.display()),
            source,
        }),
        _ => Ok(()),
    }
}

/// Returns whether a collector may be counting. Its links are pinned last, so one without links
/// either never began, or was taken over already.
pub fn may_count(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(LINK))
}

/// A collector that a former process left behind and that still counts.
pub struct LeftBehind {
    directory: PathBuf,
    places: MapHandle,
    threads: [MapHandle; 2],
    runs: MapHandle,
    accounts: MapHandle,
    cgroups: MapHandle,
    stacks: Option<LeftStacks>,
    state: MapHandle,
    events: MapHandle,
}

/// Its tables of stacks, if it counted by stacks.
struct LeftStacks {
    stacks: [MapHandle; 2],
    frames: [MapHandle; 2],
    labels: ImageLabels,
    /// Descriptions of functions sent since the daemon died; `None` in collectors of older
    /// versions.
    codes: Option<MapHandle>,
}

impl LeftStacks {
    fn fits(&self) -> bool {
        let by = |map: &MapHandle, key: usize, value: usize| {
            (map.key_size() as usize, map.value_size() as usize) == (key, value)
        };
        let (stack, frames) = (size_of::<StackKey>(), size_of::<Frames>());
        self.stacks
            .iter()
            .all(|map| by(map, stack, size_of::<Count>()))
            && self.frames.iter().all(|map| by(map, 8, frames))
    }
}

impl LeftBehind {
    /// Opens the collector in this directory.
    ///
    /// # Errors
    /// [`Error::Bpf`]; [`Error::Refused`] if it is of another version, with other tables.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let map = |name: &str| {
            let path = directory.join(name);
            let what = format!("opening {}", path.display());
            MapHandle::from_pinned_path(&path).map_err(Error::bpf(what))
        };
        let stacks = if directory.join("stacks0").exists() {
            Some(LeftStacks {
                stacks: [map("stacks0")?, map("stacks1")?],
                frames: [map("frames0")?, map("frames1")?],
                labels: ImageLabels::of_map(map(LABELS)?),
                codes: map(CODE_RECORDS).ok(),
            })
        } else {
            None
        };
        let left = Self {
            directory: directory.to_owned(),
            stacks,
            places: map("places")?,
            threads: [map("threads0")?, map("threads1")?],
            runs: map("runs")?,
            accounts: map("accounts")?,
            cgroups: map("cgroups")?,
            state: map("state")?,
            events: map(EVENTS)?,
        };
        let sizes = |map: &MapHandle| (map.key_size() as usize, map.value_size() as usize);
        let count = size_of::<Count>();
        let fits = sizes(&left.places).1 == size_of::<Place>()
            && left
                .threads
                .iter()
                .all(|m| sizes(m) == (size_of::<ThreadKey>(), count))
            && sizes(&left.runs).1 == size_of::<CpuRun>()
            && sizes(&left.accounts).1 == size_of::<Accounting>()
            && sizes(&left.cgroups).1 == size_of::<CgroupPath>()
            && sizes(&left.state).1 == size_of::<Control>()
            && left.stacks.as_ref().is_none_or(LeftStacks::fits);
        if fits {
            Ok(left)
        } else {
            Err(Error::Refused {
                what: format!("taking over the collector in {}", directory.display()),
                reason: "it is of another version, with other tables".into(),
            })
        }
    }

    /// Stops its counting at once: links end some time after they are closed.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn halt_counting(&self) -> Result<(), Error> {
        let mut state = self.read_control()?;
        if let Some(highest) = state.get_mut(3) {
            *highest |= STOPPED;
        }
        let update = self.state.update(&FIRST, &state, MapFlags::ANY);
        update.map_err(Error::bpf("stopping a collector"))
    }

    /// Stops its programs; the tables stay.
    ///
    /// # Errors
    /// [`Error::Bpf`], [`Error::System`].
    pub fn stop_programs(&self) -> Result<(), Error> {
        self.halt_counting()?;
        // Running programs still count; the tables are read after these have ended.
        wait_for_running_programs();
        let failed = |source| Error::System {
            what: format!("stopping the collector in {}", self.directory.display()),
            source,
        };
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(LINK) {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Reads the programs' `control`, their only variable.
    fn read_control(&self) -> Result<Vec<u8>, Error> {
        let state = self.state.lookup(&FIRST, MapFlags::ANY);
        let state = state.map_err(Error::bpf("reading the collector's state"))?;
        Ok(state.unwrap_or_default())
    }

    /// Returns the number of the current fill.
    pub(crate) fn fill_number(&self) -> Result<u32, Error> {
        let state = self.read_control()?;
        let word = state.get(..4).and_then(|bytes| bytes.try_into().ok());
        let stopped = u32::from(STOPPED) << 24;
        Ok(word.map_or(0, u32::from_ne_bytes) & !stopped)
    }

    fn long_of_state(&self, at: usize) -> Result<u64, Error> {
        let state = self.read_control()?;
        let word = state.get(at..at + 8).and_then(|word| word.try_into().ok());
        Ok(word.map_or(0, u64::from_ne_bytes))
    }

    /// Returns how long ago it stopped by itself for lack of a daemon; `None` while it counts.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn ceased_ago_ns(&self) -> Result<Option<u64>, Error> {
        let ceased_ns = self.long_of_state(std::mem::offset_of!(Control, ceased_ns))?;
        Ok((ceased_ns > 0).then(|| monotonic_ns().saturating_sub(ceased_ns)))
    }

    /// Returns the number of interrupts since then: one of each event, where the kernel ends them.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn overdue_interrupts(&self) -> Result<u64, Error> {
        self.long_of_state(std::mem::offset_of!(Control, overdue))
    }

    /// Returns its events, as its recording has them, without counts.
    ///
    /// # Errors
    /// [`Error::Bpf`]; [`Error::Refused`] if it was ended before it had described them.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        let text = self.events.lookup(&FIRST, MapFlags::ANY);
        let text = text.map_err(Error::bpf("reading the collector's events"))?;
        serde_json::from_slice(&text.unwrap_or_default()).map_err(|error| Error::Refused {
            what: format!("reading the events of {}", self.directory.display()),
            reason: error.to_string(),
        })
    }

    /// Returns the number of samples in its tables.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn samples_held(&self) -> Result<u64, Error> {
        let mut taken = 0;
        for buffer in [0, 1] {
            let accounts = self.buffer_tables(buffer)?.sum_accounts(MAX_EVENTS)?;
            taken += accounts.iter().map(|account| account.taken).sum::<u64>();
        }
        Ok(taken)
    }

    pub(crate) fn buffer_tables(&self, buffer: u32) -> Result<Tables<'_>, Error> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(Error::bpf("counting the CPUs"))?;
        let stacks = self.stacks.as_ref();
        Ok(Tables {
            places: self.places.as_fd(),
            place_slots: self.places.max_entries() as usize / (2 * cpus.max(1)),
            threads: of_buffer(buffer, self.threads.each_ref()),
            runs: self.runs.as_fd(),
            accounts: self.accounts.as_fd(),
            cgroups: self.cgroups.as_fd(),
            stacks: stacks.map(|left| of_buffer(buffer, left.stacks.each_ref())),
            frames: stacks.map(|left| of_buffer(buffer, left.frames.each_ref())),
            waits: None,
            buffer,
            cpus,
            clears: false,
        })
    }

    /// Returns whether it counted by stacks.
    pub(crate) fn has_stacks(&self) -> bool {
        self.stacks.is_some()
    }

    /// Returns the files of the labels in its stacks, from the first on.
    pub(crate) fn labelled_files(&self) -> Vec<FileIdentity> {
        let stacks = self.stacks.as_ref();
        stacks.map_or_else(Vec::new, |stacks| stacks.labels.read_files())
    }

    /// Returns the numbers of functions of other languages on its stacks.
    pub(crate) fn functions_on_stacks(&self) -> Result<FxHashSet<u64>, Error> {
        let mut numbers = FxHashSet::default();
        for buffer in [0, 1] {
            let tables = self.buffer_tables(buffer)?;
            tables.read_frames(|_, frames: Frames| {
                let functions = frames.addresses().iter().copied();
                let functions = functions.filter_map(ScriptFrame::of_word);
                numbers.extend(functions.map(|frame| frame.code).filter(|code| *code > 0));
            })?;
        }
        Ok(numbers)
    }

    /// Returns the descriptions of functions that its programs sent and no process read, by number.
    pub(crate) fn unread_functions(&self) -> Result<Vec<(u64, FrameCode)>, Error> {
        let codes = self
            .stacks
            .as_ref()
            .and_then(|stacks| stacks.codes.as_ref());
        codes.map_or(Ok(Vec::new()), |codes| {
            Ok(CodeRecords::new(codes, NamedJvms::default())?.take())
        })
    }

    /// Removes it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn remove(self) -> Result<(), Error> {
        remove_pins(&self.directory)
    }
}
