//! `perf_event_open(2)` and its ring buffers.

use crate::{Error, EventSpec};
use perf_event_open_sys as pe;
use perf_event_open_sys::bindings::perf_event_attr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `PERF_EVENT_IOC_PERIOD` takes a pointer to the period.
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;

/// Returns the attributes of an event, disabled, with times on the monotonic clock.
pub(crate) fn event_attributes(spec: &EventSpec, period: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: spec.perf_type,
        config: spec.config,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = period;
    attr.set_disabled(1);
    attr.set_exclude_user(spec.exclude_user.into());
    attr.set_exclude_kernel(spec.exclude_kernel.into());
    attr.set_exclude_hv(spec.exclude_kernel.into());
    // Clocks run on while a CPU idles. Counters mostly do not, and Arm's refuse this attribute.
    attr.set_exclude_idle((!spec.shares_counters()).into());
    attr.set_precise_ip(spec.precise.into());
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.read_format = u64::from(
        pe::bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | pe::bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
    );
    attr
}

/// Makes an event send a thread a signal for each sample.
pub(crate) fn send_signals(
    event: &OwnedFd,
    thread: libc::pid_t,
    signal: libc::c_int,
) -> io::Result<()> {
    // Command of `fcntl(2)`, missing in the C library's bindings.
    const F_SETSIG: libc::c_int = 10;
    const F_SETOWN_EX: libc::c_int = 15;
    const F_OWNER_TID: libc::c_int = 0;
    let owner = [F_OWNER_TID, thread];
    let fd = event.as_raw_fd();
    // SAFETY: the kernel reads the owner, two numbers, during the call; the others take numbers.
    let done = unsafe {
        libc::fcntl(fd, F_SETSIG, signal) == 0
            && libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()) == 0
            && libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Excludes the kernel, as a user without the right to see it must.
pub(crate) fn user_only(attr: &mut perf_event_attr) {
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
}

/// Returns whether the error is a lack of permission.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Task and CPU of an event; -1: any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub pid: i32,
    pub cpu: i32,
}

/// Opens an event.
pub(crate) fn open_event(attr: &perf_event_attr, scope: Scope) -> io::Result<OwnedFd> {
    open_with_leader(attr, scope, -1)
}

/// Opens an event in the group of another one.
pub(crate) fn open_in_group(
    attr: &perf_event_attr,
    scope: Scope,
    leader: &OwnedFd,
) -> io::Result<OwnedFd> {
    open_with_leader(attr, scope, leader.as_raw_fd())
}

fn open_with_leader(attr: &perf_event_attr, scope: Scope, leader: RawFd) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    // SAFETY: `attr` is a valid perf_event_attr of the size that it states.
    let fd = unsafe {
        pe::perf_event_open(
            &mut attr,
            scope.pid,
            scope.cpu,
            leader,
            pe::bindings::PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check_result(result: libc::c_int, what: &str) -> Result<(), Error> {
    if result < 0 {
        return Err(Error::system(what));
    }
    Ok(())
}

pub(crate) fn enable_event(fd: &OwnedFd) -> Result<(), Error> {
    // SAFETY: an ioctl without an argument on an owned descriptor.
    let result = unsafe { pe::ioctls::ENABLE(fd.as_raw_fd(), 0) };
    check_result(result, "enabling an event")
}

pub(crate) fn disable_event(fd: &OwnedFd) -> Result<(), Error> {
    // SAFETY: as above.
    let result = unsafe { pe::ioctls::DISABLE(fd.as_raw_fd(), 0) };
    check_result(result, "disabling an event")
}

/// Enables an event for one more overflow, after which the kernel disables it. Since Linux 6.10 an
/// overflow does not count if the BPF program on the event returns 0: see
/// `KernelSource::limits_spare_handled`.
pub(crate) fn allow_one_overflow(fd: &OwnedFd) -> Result<(), Error> {
    // SAFETY: an ioctl with a plain number on an owned descriptor.
    let result = unsafe { pe::ioctls::REFRESH(fd.as_raw_fd(), 1) };
    check_result(result, "limiting an event")
}

/// Sets the next period.
pub(crate) fn set_period(fd: &OwnedFd, period: u64) -> Result<(), Error> {
    // SAFETY: the kernel reads eight bytes through the pointer during the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), IOC_PERIOD, &raw const period) };
    check_result(result, "setting an event's period")
}

/// Redirects the records of `fd` to the ring of `to`.
pub(crate) fn set_output(fd: &OwnedFd, to: RawFd) -> Result<(), Error> {
    // SAFETY: an ioctl with a plain number on an owned descriptor.
    let result = unsafe { pe::ioctls::SET_OUTPUT(fd.as_raw_fd(), to) };
    check_result(result, "joining events in one ring buffer")
}

/// Returns the number of an event in its records.
pub(crate) fn event_id(fd: &OwnedFd) -> Result<u64, Error> {
    let mut id = 0;
    // SAFETY: the kernel writes eight bytes through the pointer.
    let result = unsafe { pe::ioctls::ID(fd.as_raw_fd(), &mut id) };
    check_result(result, "asking for an event's id")?;
    Ok(id)
}

/// Returns the count of an event.
pub(crate) fn event_count(fd: &OwnedFd) -> Option<u64> {
    read_values(fd).map(|(values, _)| values[0])
}

/// Returns how long an event was enabled and how long it was counting, in nanoseconds.
pub(crate) fn event_times(fd: &OwnedFd) -> Option<(u64, u64)> {
    read_values(fd).map(|(values, _)| (values[1], values[2]))
}

/// Returns how many samples of an event found no room in its ring buffer; `None` unless
/// [`open_counting_lost`] opened it.
pub(crate) fn lost_samples(fd: &OwnedFd) -> Option<u64> {
    read_values(fd).and_then(|(values, length)| (length == 32).then_some(values[3]))
}

/// Reads value, time enabled, time running, and lost samples if requested; returns their length in
/// bytes, too.
fn read_values(fd: &OwnedFd) -> Option<([u64; 4], isize)> {
    let mut values = [0u64; 4];
    // SAFETY: the buffer has the 32 bytes that the read format needs at most.
    let length = unsafe { libc::read(fd.as_raw_fd(), values.as_mut_ptr().cast(), 32) };
    (length >= 24).then_some((values, length))
}

/// Opens an event that counts its lost samples, if this kernel supports that (Linux 6.0).
pub(crate) fn open_counting_lost(attr: &perf_event_attr, scope: Scope) -> io::Result<OwnedFd> {
    let mut counting = *attr;
    counting.read_format |= u64::from(pe::bindings::PERF_FORMAT_LOST);
    match open_event(&counting, scope) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open_event(attr, scope),
        result => result,
    }
}

/// Returns time enabled over time running: above 1 if the event had to share a counter.
pub(crate) fn multiplex_scale<'a>(fds: impl IntoIterator<Item = &'a OwnedFd>) -> f64 {
    let (mut enabled, mut running) = (0.0, 0.0);
    for times in fds.into_iter().filter_map(event_times) {
        enabled += times.0 as f64;
        running += times.1 as f64;
    }
    count_scale(enabled, running)
}

/// Returns the factor by which counts are multiplied; 1 if the event never ran.
fn count_scale(enabled: f64, running: f64) -> f64 {
    if running > 0.0 && enabled > running {
        enabled / running
    } else {
        1.0
    }
}

/// Returns `kernel.perf_event_max_sample_rate`, which the kernel lowers when interrupts take too
/// long.
pub(crate) fn max_sample_rate() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(100_000)
}

/// Unit of ring sizes in bytes, which may differ from this machine's page size.
pub(crate) const RING_PAGE: usize = 4096;

/// Returns the page size of this machine in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A ring buffer into which the kernel writes records of one CPU.
pub(crate) struct Ring {
    control: NonNull<pe::bindings::perf_event_mmap_page>,
    length: usize,
    page: usize,
    scratch: Vec<u8>,
}

// SAFETY: only this value owns the mapping, which can be used from any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` (a power of two) times 4 KiB for the event, or of one page of this
    /// machine if that is more.
    pub fn map(fd: &OwnedFd, pages: usize) -> io::Result<Self> {
        let page = page_size();
        let length = (pages * RING_PAGE).next_multiple_of(page) + page;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let control = NonNull::new(address.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self {
            control,
            length,
            page,
            scratch: Vec::new(),
        })
    }

    /// Passes the records since the last call to `each`: type, misc, body. Returns how full the
    /// ring was, from 0 to 1.
    pub fn read(&mut self, mut each: impl FnMut(u32, u16, &[u8])) -> f64 {
        let size = (self.length - self.page) as u64;
        // SAFETY: both fields are inside the mapped control page and aligned; the kernel and this
        // process are their only users, by the protocol of perf_event_open(2).
        let (head, tail) = unsafe {
            let control = self.control.as_ptr();
            (
                AtomicU64::from_ptr(&raw mut (*control).data_head),
                AtomicU64::from_ptr(&raw mut (*control).data_tail),
            )
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        let fullness = end.wrapping_sub(at) as f64 / size as f64;
        // SAFETY: the data pages follow the control page in the same mapping.
        let data = unsafe {
            std::slice::from_raw_parts(
                self.control.as_ptr().cast::<u8>().add(self.page),
                size as usize,
            )
        };
        while end.wrapping_sub(at) >= 8 {
            let start = (at % size) as usize;
            // Records are aligned to eight bytes, so a header never wraps around.
            let header = &data[start..start + 8];
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if length < 8 || length as u64 > end.wrapping_sub(at) {
                at = end; // not a record: the bytes behind it cannot be trusted
                break;
            }
            let stop = start + length;
            if stop <= data.len() {
                each(kind, misc, &data[start + 8..stop]);
            } else {
                self.scratch.clear();
                self.scratch.extend_from_slice(&data[start + 8..]);
                self.scratch.extend_from_slice(&data[..stop - data.len()]);
                each(kind, misc, &self.scratch);
            }
            at = at.wrapping_add(length as u64);
        }
        tail.store(at, Ordering::Release);
        fullness
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.control.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::{count_scale, event_attributes};
    use crate::EventSpec;

    #[test]
    fn only_clocks_are_asked_to_leave_out_idle_cpus() {
        let asked = |spec: &EventSpec| event_attributes(spec, 1).exclude_idle();
        assert_eq!(asked(&EventSpec::cpu_clock()), 1);
        assert_eq!(asked(&EventSpec::cycles()), 0);
        assert_eq!(asked(&EventSpec::branch_records()), 0);
    }

    #[test]
    fn counts_are_scaled_by_the_share_of_time_that_was_counted() {
        assert_eq!(count_scale(100.0, 25.0), 4.0);
        assert_eq!(count_scale(100.0, 100.0), 1.0);
        assert_eq!(count_scale(0.0, 0.0), 1.0);
        assert_eq!(count_scale(100.0, 0.0), 1.0);
    }
}
