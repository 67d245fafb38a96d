//! Progress points (section 3.3): counted by the program, by breakpoints, by probes, by samples.

use crate::Error;
use crate::code::TargetCode;
use crate::options::{PointKind, PointSpec};
use crate::scope::path_ends_with;
use crate::search::{self, Spot};
use perf_event_open_sys::bindings::{self as pe, perf_event_attr};
use profile::CountedBy;
use runtime_abi::{Counter, Page};
use sampler::ProcessStat;
use sampler::process_file;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Limit on the nesting of processes, in case their table changes while it is read.
const MOST_ANCESTORS: usize = 1000;

/// Counts of a progress point so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointCount {
    /// Visits.
    Visits(u64),
    /// Begins and ends. Where the runtime can tell, also the number in flight, summed over the
    /// nanoseconds of delay (wraps around).
    Latency(u64, u64, Option<u64>),
}

impl PointCount {
    /// Returns the visits; for a latency pair, those of its end.
    pub fn visit_count(self) -> u64 {
        match self {
            Self::Visits(visits) => visits,
            Self::Latency(_, ends, _) => ends,
        }
    }

    /// Returns whether the counts are of a latency pair.
    pub fn is_latency(&self) -> bool {
        matches!(self, Self::Latency(..))
    }
}

/// A progress point.
pub(crate) struct OpenPoint {
    pub name: String,
    pub counted_by: CountedBy,
    source: PointSource,
}

enum PointSource {
    /// Indexes of counters: visits; begins and ends. Counters of one name add up.
    Counters([Vec<usize>; 3]),
    /// Events whose counts add up.
    Events(Vec<OwnedFd>),
    /// Events of begins, and events of ends, whose counts add up.
    Pair(Vec<OwnedFd>, Vec<OwnedFd>),
    /// Samples in fragments whose name ends like this.
    Samples(String),
}

/// All progress points.
#[derive(Default)]
pub(crate) struct Points {
    pub list: Vec<OpenPoint>,
    /// Number of the page's counters that belong to a point.
    known: usize,
}

impl Points {
    /// Opens the points of the command line, on a process that has not begun to work.
    pub fn open_points(
        specs: &[PointSpec],
        code: &mut TargetCode,
        pid: u32,
    ) -> Result<Self, Error> {
        let mut points = Self::default();
        for spec in specs {
            let (counted_by, source) = open_source(spec, code, pid)?;
            points.list.push(OpenPoint {
                name: spec.name.clone(),
                counted_by,
                source,
            });
        }
        Ok(points)
    }

    /// Opens another point, on a process that may have threads already.
    pub fn add_point(&mut self, spec: &PointSpec, code: &mut TargetCode) -> Result<(), Error> {
        let pid = code.pid();
        let (counted_by, source) = open_source(spec, code, pid)?;
        self.list.push(OpenPoint {
            name: spec.name.clone(),
            counted_by,
            source,
        });
        Ok(())
    }

    /// Closes the points on functions that `keep` rejects.
    pub fn keep_functions(&mut self, keep: impl Fn(&str) -> bool) {
        self.list
            .retain(|point| !matches!(point.source, PointSource::Events(_)) || keep(&point.name));
    }

    /// Adds the progress points that the program has reached since the last call.
    pub fn discover_points(&mut self, page: &Page) {
        while let Some(counter) = page.counters.get(self.known) {
            if counter.state.load(Acquire) != 2 {
                return;
            }
            let index = self.known;
            self.known += 1;
            // Kinds of `coz.h`: 1 throughput, 2 begin, 3 end.
            let Some(kind) = (counter.kind.load(Relaxed) as usize)
                .checked_sub(1)
                .filter(|k| *k < 3)
            else {
                continue;
            };
            let name = counter_name(counter);
            let same = |point: &&mut OpenPoint| match &point.source {
                PointSource::Counters([visits, _, _]) => {
                    point.name == name && visits.is_empty() == (kind != 0)
                }
                _ => false,
            };
            if let Some(OpenPoint {
                source: PointSource::Counters(positions),
                ..
            }) = self.list.iter_mut().find(same)
            {
                positions[kind].push(index);
                continue;
            }
            let mut positions = [const { Vec::new() }; 3];
            positions[kind].push(index);
            self.list.push(OpenPoint {
                name,
                counted_by: CountedBy::Source,
                source: PointSource::Counters(positions),
            });
        }
    }

    /// Returns whether any point is a pair of begin and end.
    pub fn has_latency(&self) -> bool {
        self.list.iter().any(|point| match &point.source {
            PointSource::Counters([visits, _, _]) => visits.is_empty(),
            PointSource::Pair(..) => true,
            PointSource::Events(_) | PointSource::Samples(_) => false,
        })
    }

    /// Returns the counts of all points.
    pub fn read_counts(&self, page: &Page, code: &TargetCode) -> Vec<PointCount> {
        self.list
            .iter()
            .map(|point| point.read_count(page, code))
            .collect()
    }
}

impl OpenPoint {
    /// Returns whether the program itself counts the point.
    pub fn in_source(&self) -> bool {
        self.counted_by == CountedBy::Source
    }

    fn read_count(&self, page: &Page, code: &TargetCode) -> PointCount {
        match &self.source {
            PointSource::Counters([visits, begins, ends]) => {
                let add = |positions: &[usize], of: &dyn Fn(&Counter) -> u64| -> u64 {
                    let counters = positions.iter().filter_map(|at| page.counters.get(*at));
                    counters.map(of).fold(0, u64::wrapping_add)
                };
                let count = |counter: &Counter| counter.count.load(Relaxed);
                let delayed = |counter: &Counter| counter.delayed.load(Relaxed);
                if visits.is_empty() {
                    // Ends first: a visit that ends meanwhile has begun before.
                    let (ended, late) = (add(ends, &count), add(ends, &delayed));
                    let in_flight = add(begins, &delayed).wrapping_sub(late);
                    PointCount::Latency(add(begins, &count), ended, Some(in_flight))
                } else {
                    PointCount::Visits(add(visits, &count))
                }
            }
            PointSource::Events(events) => PointCount::Visits(sum_events(events)),
            PointSource::Pair(begins, ends) => {
                let ends = sum_events(ends);
                PointCount::Latency(sum_events(begins), ends, None)
            }
            PointSource::Samples(end) => {
                let named = code.fragments().all().iter().zip(&page.fragments);
                let named = named.filter(|(fragment, _)| path_ends_with(&fragment.name, end));
                PointCount::Visits(named.map(|(_, samples)| samples.load(Relaxed)).sum())
            }
        }
    }
}

fn counter_name(counter: &Counter) -> String {
    let bytes: Vec<u8> = counter.name.iter().map(|byte| byte.load(Relaxed)).collect();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn sum_events(events: &[OwnedFd]) -> u64 {
    events.iter().map(event_count).sum()
}

fn event_count(event: &OwnedFd) -> u64 {
    let mut value = 0u64;
    // SAFETY: reads eight bytes into a number.
    let read = unsafe { libc::read(event.as_raw_fd(), (&raw mut value).cast(), 8) };
    if read == 8 { value } else { 0 }
}

fn open_source(
    spec: &PointSpec,
    code: &mut TargetCode,
    pid: u32,
) -> Result<(CountedBy, PointSource), Error> {
    match &spec.what {
        PointKind::Samples(end) => Ok((CountedBy::Samples, PointSource::Samples(end.clone()))),
        PointKind::Latency(begin, end) => {
            let (counted_by, begins) = open_events(begin, code, pid)?;
            let (_, ends) = open_events(end, code, pid)?;
            Ok((counted_by, PointSource::Pair(begins, ends)))
        }
        _ => {
            let (counted_by, events) = open_events(spec, code, pid)?;
            Ok((counted_by, PointSource::Events(events)))
        }
    }
}

/// Opens the events of a point that is neither a pair nor counted by samples.
fn open_events(
    spec: &PointSpec,
    code: &mut TargetCode,
    pid: u32,
) -> Result<(CountedBy, Vec<OwnedFd>), Error> {
    let spots = match &spec.what {
        PointKind::Syscall(name) => {
            return Ok((CountedBy::Syscall, open_syscall(spec, name, pid)?));
        }
        PointKind::Probe { provider, name } => {
            let probes = crate::probes::find_probes(code, provider, name)?;
            let places = probes.iter().map(|(spot, semaphore)| (spot, *semaphore));
            return Ok((CountedBy::Usdt, open_uprobes(spec, places)?));
        }
        PointKind::Line { file, line } => search::find_line(code, file, *line)?,
        PointKind::Function(name) => search::find_function(code, name)?,
        PointKind::Samples(_) | PointKind::Latency(..) => Vec::new(), // never parts of a pair
    };
    if let Some(events) = open_in_program(&spots, code, pid) {
        return Ok((CountedBy::Uprobe, events));
    }
    // Later threads inherit the event from the existing ones.
    let threads = sampler::threads_or_process(pid);
    let places = spots
        .iter()
        .flat_map(|spot| threads.iter().map(move |tid| (spot, *tid)));
    let hardware: io::Result<Vec<_>> = places
        .map(|(spot, tid)| open_breakpoint(spot, tid))
        .collect();
    match hardware {
        Ok(events) => Ok((CountedBy::Breakpoint, events)),
        // The processor's four are in use: the kernel can write a breakpoint into the code.
        Err(_) => {
            let places = spots.iter().map(|spot| (spot, 0));
            Ok((CountedBy::Uprobe, open_uprobes(spec, places)?))
        }
    }
}

/// Opens breakpoints that the kernel writes into the program's code, if it can and only the program
/// and its descendants run that code.
///
/// The processor's breakpoints are a bad choice near a loop: some processors (AMD's, measured) run
/// all code within the same 64 bytes at a third of the speed while one is set.
fn open_in_program(spots: &[Spot], code: &TargetCode, pid: u32) -> Option<Vec<OwnedFd>> {
    let own = |spot: &Spot| spot.path == code.executable();
    if spots.is_empty() || !spots.iter().all(own) || is_run_by_others(pid) {
        return None;
    }
    // The file itself, even if another process sees it in another mount namespace.
    let file = process_file(pid, "exe");
    let opened = spots
        .iter()
        .map(|spot| open_uprobe(&file, spot.offset.0, 0));
    let events: io::Result<Vec<_>> = opened.collect();
    Some(events.ok()?.into_iter().flatten().collect())
}

/// Returns whether processes other than this one and its descendants run its file.
fn is_run_by_others(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file_of = |process: u32| {
        let file = std::fs::metadata(process_file(process, "exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let own = file_of(pid);
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut others = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    own.is_none() || others.any(|other| file_of(other) == own && !is_descendant(other, pid))
}

/// Returns whether `process` is `of` or a descendant of it.
fn is_descendant(process: u32, of: u32) -> bool {
    let parents = std::iter::successors(Some(process), |process| {
        let stat = ProcessStat::read_process(*process)?;
        (stat.parent != 0).then_some(stat.parent)
    });
    parents.take(MOST_ANCESTORS).any(|process| process == of)
}

fn refused_point(spec: &PointSpec, source: io::Error) -> Error {
    let reason = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "only root may count these; mark the place in the source (vitalfew.h) or run as root"
        }
        _ => "this kernel has no such event",
    };
    Error::PointRefused {
        name: spec.name.clone(),
        reason: reason.into(),
        source,
    }
}

/// Returns the attributes of an event that counts in a process and its descendants.
fn counting_attributes(kind: u32) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: kind,
        ..Default::default()
    };
    attr.set_inherit(1);
    attr
}

fn open_counting(mut attr: perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let flags = pe::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `attr` is a valid perf_event_attr of the size that it states, and its pointers live
    // during the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&mut attr, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn open_breakpoint(spot: &Spot, pid: u32) -> io::Result<OwnedFd> {
    let mut attr = counting_attributes(pe::PERF_TYPE_BREAKPOINT);
    attr.bp_type = pe::HW_BREAKPOINT_X;
    attr.__bindgen_anon_3.bp_addr = spot.address;
    attr.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    open_counting(attr, pid as i32, -1)
}

/// Opens a uprobe. `semaphore`: file offset of a counter that the program reads before the probe;
/// 0: none.
///
/// The event counts on each CPU, not in the process: when a new thread inherits such an event, the
/// kernel reads the path again, at this process's address in the target, and the target gets no
/// thread.
fn open_uprobe(path: &str, offset: u64, semaphore: u64) -> io::Result<Vec<OwnedFd>> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = kind.trim().parse().map_err(io::Error::other)?;
    let path = CString::new(path)?;
    let mut attr = counting_attributes(kind);
    attr.set_inherit(0);
    attr.config = semaphore << 32;
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset;
    // SAFETY: asks for a number.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let opened = (0..cpus as i32).map(|cpu| open_counting(attr, -1, cpu));
    // A CPU that is offline counts nothing.
    let gone = |event: &io::Result<OwnedFd>| {
        event
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
    };
    opened.filter(|event| !gone(event)).collect()
}

/// Opens uprobes at all these places.
fn open_uprobes<'a>(
    spec: &PointSpec,
    places: impl Iterator<Item = (&'a Spot, u64)>,
) -> Result<Vec<OwnedFd>, Error> {
    let mut events = Vec::new();
    for (spot, semaphore) in places {
        let opened = open_uprobe(&spot.path, spot.offset.0, semaphore);
        events.extend(opened.map_err(|source| refused_point(spec, source))?);
    }
    Ok(events)
}

fn open_syscall(spec: &PointSpec, name: &str, pid: u32) -> Result<Vec<OwnedFd>, Error> {
    let events = sampler::tracefs_directory()?.join("events/syscalls");
    let id = std::fs::read_to_string(events.join(format!("sys_enter_{name}/id")));
    let id = id.ok().and_then(|id| id.trim().parse().ok());
    let Some(id) = id else {
        return Err(unknown_syscall(name, &events));
    };
    let mut attr = counting_attributes(pe::PERF_TYPE_TRACEPOINT);
    attr.config = id;
    // Later threads inherit the event from the existing ones.
    let threads = sampler::threads_or_process(pid).into_iter();
    let opened = threads.map(|tid| open_counting(attr, tid as i32, -1));
    let gone = |event: &io::Result<OwnedFd>| {
        event
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    };
    let opened: io::Result<Vec<_>> = opened.filter(|event| !gone(event)).collect();
    opened.map_err(|source| refused_point(spec, source))
}

fn unknown_syscall(name: &str, events: &std::path::Path) -> Error {
    let listed = std::fs::read_dir(events).into_iter().flatten().flatten();
    let names = listed.filter_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        file.strip_prefix("sys_enter_").map(str::to_owned)
    });
    let mut near: Vec<(usize, String)> = names
        .map(|other| (strsim::damerau_levenshtein(&other, name), other))
        .filter(|(distance, _)| *distance <= name.len() / 3 + 1)
        .collect();
    near.sort();
    Error::NoSuchPlace {
        what: format!("system call {name}"),
        program: "this kernel".into(),
        near: near.into_iter().take(5).map(|(_, name)| name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_else_runs_a_file_is_told_from_what_it_has_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sleeper");
        std::fs::copy("/bin/sleep", &file).unwrap();
        let start = || {
            let mut command = std::process::Command::new(&file);
            command.arg("60").spawn().unwrap()
        };
        let mut one = start();
        assert!(!is_run_by_others(one.id()));
        assert!(is_descendant(one.id(), std::process::id()));
        let mut other = start();
        assert!(is_run_by_others(one.id()));
        assert!(!is_descendant(other.id(), one.id()));
        for child in [&mut one, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(
            is_run_by_others(one.id()),
            "of one that is gone nothing is known"
        );
    }
}
