//! Events in the threads of a process, one by one: cache misses, instructions, page faults.
//!
//! They are sampled only in the process and its children, through perf's ring buffers: that needs
//! no right to use BPF.

use crate::events::cost;
use crate::events::perf::{self, Scope};
use crate::events::records::Body;
use crate::events::rings::{self, Rings};
use crate::host::online_cpus;
use crate::processes::threads::threads_or_process;
use crate::{Error, EventKind, EventSpec};
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_SAMPLE_PERIOD, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use rustc_hash::FxHashMap;
use std::io;

/// Samples a second of an event in a thread, unless a period was requested.
const HERTZ: u64 = 1000;
/// Page faults, one in a hundred: a sample takes 15 to 20 µs on a virtual machine, and with a rate
/// the kernel begins by sampling each fault.
const FAULTS: &str = "page-faults:100";
/// Ring pages for each CPU: the limit of an unprivileged user.
const PAGES: usize = 128;

/// Index of the reference event, which tells how long the others could have counted.
const REFERENCE: usize = usize::MAX;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// Time, on the monotonic clock, in nanoseconds.
    pub ns: u64,
    /// Thread.
    pub tid: u32,
    /// Index of the event among the requested ones.
    pub event: usize,
    /// Number of occurrences that the sample stands for.
    pub amount: u64,
}

/// Returns the events that separate page faults, memory and work, as far as this machine counts
/// them, and the reason if it does not count those of the processor.
pub fn usual_thread_events() -> (Vec<EventSpec>, Option<String>) {
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    let near = ["L1-dcache-load-misses", "cache-misses", "instructions:u"];
    let far = ["node-loads", "node-load-misses"];
    let far = far.iter().filter(|_| nodes.trim() != "0");
    let (mut events, mut reason) = (Vec::new(), None);
    for name in [FAULTS].iter().chain(&near).chain(far) {
        let Ok(spec) = EventSpec::parse(name) else {
            continue;
        };
        match try_to_open(&spec) {
            Ok(()) => events.push(spec),
            Err(source) if near.contains(name) && reason.is_none() => {
                reason = Some(crate::events::advice::unasked_refused(&spec, source));
            }
            Err(_) => {}
        }
    }
    let counts = |spec: &EventSpec| spec.shares_counters();
    let reason = reason.filter(|_| !events.iter().any(counts));
    (events, reason)
}

/// Checks whether an event can be sampled in this user's threads.
///
/// # Errors
/// [`Error::EventRefused`].
pub fn check_thread_event(spec: &EventSpec) -> Result<(), Error> {
    try_to_open(spec).map_err(|source| crate::events::advice::event_refused(spec, source))
}

/// Opens an event in this thread for a moment.
fn try_to_open(spec: &EventSpec) -> io::Result<()> {
    let own = Scope { pid: 0, cpu: -1 };
    as_allowed(spec, |attr| perf::open_event(attr, own).map(drop))
}

/// Opens an event, for user mode only if more is not allowed.
fn as_allowed<T>(
    spec: &EventSpec,
    mut open: impl FnMut(&perf_event_attr) -> io::Result<T>,
) -> io::Result<T> {
    let mut attr = sampling_attributes(spec);
    match open(&attr) {
        Err(error) if perf::is_refused(&error) && !spec.exclude_kernel => {
            perf::user_only(&mut attr);
            open(&attr)
        }
        result => result,
    }
}

/// Returns the attributes of an event. Only clocks have a known rate: for other events the kernel
/// adapts the periods, and states them in the samples.
fn sampling_attributes(spec: &EventSpec) -> perf_event_attr {
    let mut attr = rings::sampling(spec, spec.period_at(HERTZ));
    attr.sample_type |= u64::from(PERF_SAMPLE_PERIOD);
    if spec.kind != EventKind::Clock && spec.period.is_none() {
        attr.set_freq(1);
        attr.__bindgen_anon_1.sample_freq = HERTZ;
    }
    attr.set_inherit(1);
    attr
}

/// Events that are being sampled.
pub struct ThreadEvents {
    rings: Rings,
    /// Index of the event, by the kernel's id.
    numbers: FxHashMap<u64, usize>,
    lost: Vec<u64>,
}

impl ThreadEvents {
    /// Opens the events for the threads of a process, and for its later threads and children. They
    /// count from [`enable`](Self::enable) on.
    ///
    /// # Errors
    /// [`Error::EventRefused`].
    pub fn open(events: &[EventSpec], pid: u32) -> Result<Self, Error> {
        let mut opened = Self {
            rings: Rings::new([PAGES; 2]),
            numbers: FxHashMap::default(),
            lost: vec![0; events.len()],
        };
        let threads = threads_or_process(pid);
        let several = threads.len() > 1;
        for thread in threads {
            match opened.open_thread(events, thread) {
                // Threads may have ended meanwhile.
                Err(Error::EventRefused { source, .. })
                    if several && source.raw_os_error() == Some(libc::ESRCH) => {}
                result => result?,
            }
        }
        Ok(opened)
    }

    fn open_thread(&mut self, events: &[EventSpec], thread: u32) -> Result<(), Error> {
        for cpu in online_cpus() {
            let pid = thread.cast_signed();
            let scope = Scope { pid, cpu };
            self.open_reference(scope)?;
            for (number, spec) in events.iter().enumerate() {
                self.open_one(spec, number, scope)?;
            }
        }
        Ok(())
    }

    /// Opens an event that never occurs, and never shares a counter.
    fn open_reference(&mut self, scope: Scope) -> Result<(), Error> {
        let spec = EventSpec::cpu_clock();
        let mut attr = sampling_attributes(&spec);
        attr.type_ = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_DUMMY.into();
        perf::user_only(&mut attr);
        let opened = self.rings.open(&attr, scope).map(perf::event_id);
        let id = opened.map_err(|source| crate::events::advice::event_refused(&spec, source))?;
        self.numbers.insert(id?, REFERENCE);
        Ok(())
    }

    fn open_one(&mut self, spec: &EventSpec, number: usize, scope: Scope) -> Result<(), Error> {
        let opened = as_allowed(spec, |attr| {
            self.rings.open(attr, scope).map(perf::event_id)
        });
        let id = opened.map_err(|source| crate::events::advice::event_refused(spec, source))?;
        self.numbers.insert(id?, number);
        Ok(())
    }

    /// Begins to count.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn enable(&self) -> Result<(), Error> {
        self.rings.enable()
    }

    /// Returns the samples since the last call, in order of time.
    pub fn read(&mut self) -> Vec<ThreadEvent> {
        let (numbers, lost) = (&self.numbers, &mut self.lost);
        let mut samples = Vec::new();
        self.rings.read(u64::MAX, |record| {
            let Some(&event) = numbers.get(&record.id) else {
                return;
            };
            match record.body {
                Body::Sample { period, .. } => samples.push(ThreadEvent {
                    ns: record.time,
                    tid: record.tid,
                    event,
                    amount: period.unwrap_or(1),
                }),
                Body::Lost { count } => {
                    if let Some(lost) = lost.get_mut(event) {
                        *lost += count;
                    }
                }
                _ => {}
            }
        });
        samples
    }

    /// Returns the number of samples of an event that found no room.
    pub fn lost(&self, event: usize) -> u64 {
        self.lost.get(event).copied().unwrap_or(0)
    }

    /// Returns the factor by which an event's amounts are multiplied because it shared a counter.
    /// (An event of a thread on one CPU stays enabled while the thread is on another, so the time
    /// enabled says nothing.)
    pub fn scale(&self, event: usize) -> f64 {
        let counted = |number| {
            let own = |id: &u64| self.numbers.get(id) == Some(&number);
            self.rings.counted(own) as f64
        };
        let (could, did) = (counted(REFERENCE), counted(event));
        if did > 0.0 {
            (could / did).max(1.0)
        } else {
            1.0
        }
    }

    /// Measures the cost of a sample to the thread that it interrupts, in nanoseconds, with samples
    /// of the clock. Takes some milliseconds.
    ///
    /// # Errors
    /// [`Error::EventRefused`].
    pub fn sample_cost() -> Result<u64, Error> {
        let clock = EventSpec {
            period: Some(1_000_000_000 / cost::PROBE_HERTZ),
            ..EventSpec::cpu_clock()
        };
        let mut attr = sampling_attributes(&clock);
        attr.set_inherit(0);
        cost::of_unread(&clock, &attr, PAGES, |_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_a_period_have_a_rate() {
        let of = |text: &str| sampling_attributes(&EventSpec::parse(text).expect("an event"));
        for (text, rate) in [
            ("cache-misses", true),
            ("instructions:u", true),
            ("cache-misses:5000", false),
            ("page-faults", true),
            ("page-faults:1", false),
            ("cpu-clock", false),
        ] {
            assert_eq!(of(text).freq() == 1, rate, "{text}");
        }
        // SAFETY: all values of the union's fields are numbers.
        let period = |text: &str| unsafe { of(text).__bindgen_anon_1.sample_period };
        assert_eq!(period("page-faults:1"), 1);
        assert_eq!(period("cpu-clock"), 1_000_000);
        assert_eq!(period("cache-misses:5000"), 5000);
    }
}
