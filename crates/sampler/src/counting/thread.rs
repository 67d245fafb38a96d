//! One counted thread.

use crate::events::breakpoint::execution_attributes;
use crate::events::jitter::Jitter;
use crate::events::perf::{self, Ring, Scope};
use crate::events::records::{ALL_REGISTERS, integer_registers};
use crate::{Error, EventSpec};
use perf_event_open_sys::bindings as pe;
use profile::{CountSample, CountWindow};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Pages of a thread's ring buffer: some seconds of samples.
const PAGES: usize = 64;

/// The counters of a thread, with its windows so far.
pub(super) struct CountedThread {
    clock: OwnedFd,
    ring: Ring,
    places: Vec<CountedPlace>,
    /// The addresses of the procedure.
    procedure: Range<u64>,
    /// CPU time at the end of the last window.
    cpu_ns: u64,
    /// Nanoseconds between samples in this window, and whether they are dense.
    period_ns: u64,
    is_dense: bool,
    jitter: Jitter,
    /// Nanoseconds that dense samples may still take.
    dense_credit: f64,
    /// Samples that came after the last window.
    early: Vec<CountSample>,
    pub windows: Vec<CountWindow>,
}

/// A place with its budget.
struct CountedPlace {
    event: OwnedFd,
    is_counting: bool,
    hits: u64,
    /// Nanoseconds that counting it may still take.
    credit: f64,
}

/// Costs of counting, in nanoseconds, and the share of the CPU time that each place may take.
#[derive(Clone, Copy)]
pub(super) struct CountBudget {
    pub period_ns: u64,
    pub hit_ns: f64,
    pub sample_ns: f64,
    /// The share of the CPU time that dense samples may take.
    pub dense_share: f64,
    pub share: f64,
}

/// Time between samples in windows of dense samples: loops that end sooner than two samples of the
/// usual period are seen in them.
const DENSE_PERIOD_NS: u64 = 100_000;

/// Periods are random, within this many percent of the nominal ones.
const SPREAD_PERCENT: u64 = 40;

/// Nanoseconds of counting that each place of a thread has at first.
const FIRST_CREDIT: f64 = 1e6;

impl CountedThread {
    /// Opens the counters of a thread. Leaves out the last places if there are too few breakpoints.
    pub fn open(
        thread: u32,
        places: &[u64],
        procedure: Range<u64>,
        budget: CountBudget,
    ) -> io::Result<Self> {
        let scope = Scope {
            pid: thread as i32,
            cpu: -1,
        };
        let mut attr = perf::event_attributes(&EventSpec::cpu_clock(), budget.period_ns);
        attr.sample_type =
            u64::from(pe::PERF_SAMPLE_IP | pe::PERF_SAMPLE_READ | pe::PERF_SAMPLE_REGS_USER);
        attr.sample_regs_user = ALL_REGISTERS;
        attr.read_format = pe::PERF_FORMAT_GROUP.into();
        // The events of a group have one clock, and breakpoints that of the kernel.
        attr.set_use_clockid(0);
        attr.clockid = 0;
        perf::user_only(&mut attr);
        let clock = perf::open_event(&attr, scope)?;
        let ring = Ring::map(&clock, PAGES)?;
        let mut counted = Vec::new();
        for place in places {
            let mut attr = execution_attributes(*place);
            attr.set_disabled(1);
            match perf::open_in_group(&attr, scope, &clock) {
                Ok(event) => counted.push(CountedPlace {
                    event,
                    is_counting: false,
                    hits: 0,
                    credit: FIRST_CREDIT,
                }),
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && !counted.is_empty() => {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let mut thread = Self {
            clock,
            ring,
            places: counted,
            procedure,
            cpu_ns: 0,
            period_ns: budget.period_ns,
            is_dense: false,
            jitter: Jitter::new(u64::from(thread)),
            dense_credit: 0.0,
            early: Vec::new(),
            windows: Vec::new(),
        };
        let enabled = perf::enable_event(&thread.clock).and_then(|()| thread.choose_places());
        enabled.map_err(|_| io::Error::last_os_error())?;
        Ok(thread)
    }

    /// Ends a window and begins the next, in which those places are counted that have credit.
    pub fn next_window(&mut self, budget: CountBudget) -> Result<(), Error> {
        let (cpu_ns, passed) = self.read_counts()?;
        let mut samples = std::mem::take(&mut self.early);
        self.drain_samples(&mut samples);
        let later = samples.partition_point(|one| one.cpu_ns <= cpu_ns);
        self.early = samples.split_off(later);
        let spent = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        let mut hits = Vec::with_capacity(self.places.len());
        for (place, passed) in self.places.iter_mut().zip(passed) {
            let own = passed.saturating_sub(place.hits);
            place.hits = passed;
            place.credit += budget.share * spent as f64 - budget.hit_ns * own as f64;
            hits.push(place.is_counting.then_some(own));
        }
        if spent > 0 {
            self.windows.push(CountWindow {
                cpu_ns: spent,
                period_ns: self.period_ns as f64,
                hits,
                samples,
            });
        }
        self.choose_period(spent as f64, budget)?;
        self.choose_places()
    }

    /// Sets a random period for the next window: what a loop's counter gains in periods of one length
    /// looks the same, whether the loop was entered again or not.
    fn choose_period(&mut self, spent: f64, budget: CountBudget) -> Result<(), Error> {
        self.dense_credit += budget.dense_share * spent;
        if self.is_dense {
            self.dense_credit -= budget.sample_ns / self.period_ns as f64 * spent;
        }
        self.is_dense = self.dense_credit > 0.0;
        let nominal = if self.is_dense {
            DENSE_PERIOD_NS
        } else {
            budget.period_ns
        };
        self.period_ns = self.jitter.period_within(nominal, SPREAD_PERCENT);
        perf::set_period(&self.clock, self.period_ns)
    }

    fn choose_places(&mut self) -> Result<(), Error> {
        let is_wanted = |place: &CountedPlace| place.credit > 0.0;
        let mut places = self.places.iter();
        if places.all(|place| is_wanted(place) == place.is_counting) {
            return Ok(());
        }
        // Kernels since 6.2 do not begin to count an event that is enabled in a running group of
        // another kind of events.
        perf::disable_event(&self.clock)?;
        for place in &mut self.places {
            let wanted = is_wanted(place);
            match (wanted, place.is_counting) {
                (true, false) => perf::enable_event(&place.event)?,
                (false, true) => perf::disable_event(&place.event)?,
                _ => {}
            }
            place.is_counting = wanted;
        }
        perf::enable_event(&self.clock)
    }

    /// Reads the CPU time and the executions of each place.
    fn read_counts(&self) -> Result<(u64, Vec<u64>), Error> {
        let mut values = vec![0u64; 2 + self.places.len()];
        // SAFETY: the buffer has room for the number of counts and all counts of the group.
        let length = unsafe {
            libc::read(
                self.clock.as_raw_fd(),
                values.as_mut_ptr().cast(),
                values.len() * 8,
            )
        };
        if length != (values.len() * 8) as isize {
            return Err(Error::system("reading counts"));
        }
        Ok((values[1], values.split_off(2)))
    }

    fn drain_samples(&mut self, samples: &mut Vec<CountSample>) {
        let (count, procedure) = (1 + self.places.len(), self.procedure.clone());
        self.ring.read(|kind, _, body| {
            if kind == pe::PERF_RECORD_SAMPLE {
                samples.extend(parse_sample(body, count, &procedure));
            }
        });
    }
}

/// Parses a sample: the address, the counts of the group, and the registers.
fn parse_sample(body: &[u8], counts: usize, procedure: &Range<u64>) -> Option<CountSample> {
    let mut words = body.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().unwrap_or_default();
        u64::from_ne_bytes(bytes)
    });
    let address = words.next()?;
    if words.next()? != counts as u64 {
        return None;
    }
    let cpu_ns = words.next()?;
    let passed = words.by_ref().take(counts - 1).collect();
    // Without registers in user mode, the ABI is 0.
    let abi = words.next()?;
    let registers: Vec<u64> = words.collect();
    Some(CountSample {
        cpu_ns,
        into: procedure
            .contains(&address)
            .then(|| address - procedure.start),
        registers: (abi != 0).then(|| integer_registers(&registers))??,
        passed,
    })
}
