//! One counted thread.

use super::places::CountedPlaces;
use super::uprobe::{CountingUprobe, parse_registers};
use crate::events::jitter::Jitter;
use crate::events::perf::{self, Ring, Scope};
use crate::events::records::ALL_REGISTERS;
use crate::{Error, EventSpec};
use perf_event_open_sys::bindings as pe;
use profile::{CountSample, CountWindow, PlaceHits};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Pages of a thread's ring buffer: some seconds of samples.
const PAGES: usize = 64;

/// The counters of a thread, with its windows so far.
pub(super) struct CountedThread {
    number: u32,
    clock: OwnedFd,
    cpu_time: File,
    ring: Ring,
    /// The counted image, as this program can open it, and the addresses of the procedure.
    image: CString,
    procedure: Range<u64>,
    /// A uprobe for each place that is counted.
    uprobes: Vec<Option<CountingUprobe>>,
    /// CPU time at the end of the last window.
    cpu_ns: u64,
    /// Nanoseconds between samples, and whether they are dense.
    period_ns: u64,
    is_dense: bool,
    /// CPU time since the period was chosen.
    since_ns: u64,
    jitter: Jitter,
    /// Nanoseconds that dense samples may still take.
    dense_credit: f64,
    /// Samples that came after the last window.
    early: Vec<CountSample>,
    pub windows: Vec<CountWindow>,
}

/// What samples cost, and may cost.
#[derive(Clone, Copy)]
pub(super) struct SampleBudget {
    /// Nanoseconds between samples.
    pub period_ns: u64,
    /// Nanoseconds that one takes.
    pub sample_ns: f64,
    /// The share of the CPU time that dense samples may take.
    pub dense_share: f64,
}

/// Time between samples in windows of dense samples: loops that end sooner than two samples of the
/// usual period are seen in them.
const DENSE_PERIOD_NS: u64 = 100_000;

/// Periods are random, within this many percent of the nominal ones, and change after so many.
const SPREAD_PERCENT: u64 = 40;
const PERIODS: u64 = 20;

impl CountedThread {
    /// Opens the clock of a thread.
    pub fn open(
        number: u32,
        image: CString,
        procedure: Range<u64>,
        budget: SampleBudget,
    ) -> io::Result<Self> {
        let scope = Scope {
            pid: number as i32,
            cpu: -1,
        };
        let mut attr = perf::event_attributes(&EventSpec::cpu_clock(), budget.period_ns);
        attr.sample_type =
            u64::from(pe::PERF_SAMPLE_IP | pe::PERF_SAMPLE_READ | pe::PERF_SAMPLE_REGS_USER);
        attr.sample_regs_user = ALL_REGISTERS;
        attr.read_format = 0;
        perf::user_only(&mut attr);
        let clock = perf::open_event(&attr, scope)?;
        let ring = Ring::map(&clock, PAGES)?;
        perf::enable_event(&clock).map_err(|_| io::Error::last_os_error())?;
        Ok(Self {
            number,
            cpu_time: clock.try_clone()?.into(),
            clock,
            ring,
            image,
            procedure,
            uprobes: Vec::new(),
            cpu_ns: 0,
            period_ns: budget.period_ns,
            is_dense: false,
            since_ns: 0,
            jitter: Jitter::new(u64::from(number)),
            dense_credit: 0.0,
            early: Vec::new(),
            windows: Vec::new(),
        })
    }

    /// Counts the places that are to be counted, and no others; then begins a window. Gives up
    /// those at which the kernel sets no uprobe, and returns why.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn count_places(&mut self, places: &mut CountedPlaces) -> io::Result<Option<io::Error>> {
        let mut refused = None;
        self.uprobes.resize_with(places.places.len(), || None);
        for (index, uprobe) in self.uprobes.iter_mut().enumerate() {
            let place = &places.places[index];
            if !place.is_counted {
                *uprobe = None;
            } else if uprobe.is_none() {
                match CountingUprobe::open(self.number, &self.image, place.offset) {
                    Ok(opened) => *uprobe = Some(opened),
                    Err(error) if !is_alive(self.number) => return Err(error),
                    Err(error) => {
                        places.give_up(index);
                        refused = Some(error);
                    }
                }
            }
        }
        // What came while uprobes were set or taken away is of no window.
        for uprobe in self.uprobes.iter_mut().flatten() {
            uprobe.take_registers();
        }
        (self.cpu_ns, _) = self.take_counts()?;
        let mut dropped = std::mem::take(&mut self.early);
        self.drain_samples(&mut dropped);
        self.early = dropped.split_off(dropped.partition_point(|one| one.cpu_ns <= self.cpu_ns));
        Ok(refused)
    }

    /// Ends a window and begins the next. Returns the CPU time of the one that ended, in
    /// nanoseconds, and adds the executions of each place to `hits`.
    pub fn next_window(&mut self, budget: SampleBudget, hits: &mut [u64]) -> Result<u64, Error> {
        // At the same moment, so that no sample falls between a window and its period.
        let period_ns = self.period_ns as f64;
        let was_dense = self.is_dense;
        let is_chosen = self.choose_period(budget)?;
        let taken = self.take_counts();
        let (cpu_ns, counts) = taken.map_err(|source| Error::System {
            what: "reading counts".to_owned(),
            source,
        })?;
        let mut own = Vec::with_capacity(counts.len());
        for ((uprobe, count), sum) in self.uprobes.iter_mut().zip(counts).zip(hits) {
            *sum += count;
            own.push(match uprobe {
                Some(uprobe) => {
                    uprobe.choose_period(count)?;
                    let registers = uprobe.take_registers();
                    Some(PlaceHits { count, registers })
                }
                None => None,
            });
        }
        let mut samples = std::mem::take(&mut self.early);
        self.drain_samples(&mut samples);
        let later = samples.partition_point(|one| one.cpu_ns <= cpu_ns);
        self.early = samples.split_off(later);
        let begin_ns = std::mem::replace(&mut self.cpu_ns, cpu_ns);
        let spent = cpu_ns.saturating_sub(begin_ns);
        self.since_ns += spent;
        self.dense_credit += budget.dense_share * spent as f64;
        if was_dense {
            self.dense_credit -= budget.sample_ns / period_ns * spent as f64;
        }
        // A new period begins at once, on average in the middle of the last one.
        let lost_ns = if is_chosen { period_ns / 2.0 } else { 0.0 };
        if spent > 0 {
            self.windows.push(CountWindow {
                begin_ns,
                cpu_ns: spent,
                period_ns,
                sampled_ns: (spent as f64 - lost_ns).max(0.0),
                hits: own,
                samples,
            });
        }
        Ok(spent)
    }

    /// Sets a random period, if the last one has had its samples: what a loop's counter gains in
    /// periods of one length looks the same, whether the loop was entered again or not.
    fn choose_period(&mut self, budget: SampleBudget) -> Result<bool, Error> {
        let is_dense = self.dense_credit > 0.0;
        if is_dense == self.is_dense && self.since_ns < PERIODS * self.period_ns {
            return Ok(false);
        }
        self.since_ns = 0;
        self.is_dense = is_dense;
        let nominal = if is_dense {
            DENSE_PERIOD_NS
        } else {
            budget.period_ns
        };
        self.period_ns = self.jitter.period_within(nominal, SPREAD_PERCENT);
        perf::set_period(&self.clock, self.period_ns)?;
        Ok(true)
    }

    /// Reads the CPU time, and at the same moment the executions of each place since the last call.
    fn take_counts(&mut self) -> io::Result<(u64, Vec<u64>)> {
        let mut time = [0; 8];
        self.cpu_time.read_exact(&mut time)?;
        let count =
            |one: &mut Option<CountingUprobe>| one.as_mut().map_or(Ok(0), |it| it.take_count());
        let counts: io::Result<Vec<u64>> = self.uprobes.iter_mut().map(count).collect();
        Ok((u64::from_ne_bytes(time), counts?))
    }

    fn drain_samples(&mut self, samples: &mut Vec<CountSample>) {
        let procedure = self.procedure.clone();
        self.ring.read(|kind, _, body| {
            if kind == pe::PERF_RECORD_SAMPLE {
                samples.extend(parse_sample(body, &procedure));
            }
        });
    }
}

/// Returns whether a thread exists.
pub(super) fn is_alive(thread: u32) -> bool {
    Path::new(&format!("/proc/{thread}/stat")).exists()
}

/// Parses a sample: the address, the CPU time, and the registers.
fn parse_sample(body: &[u8], procedure: &Range<u64>) -> Option<CountSample> {
    let (address, rest) = body.split_first_chunk()?;
    let (cpu_ns, registers) = rest.split_first_chunk()?;
    let address = u64::from_ne_bytes(*address);
    Some(CountSample {
        cpu_ns: u64::from_ne_bytes(*cpu_ns),
        into: procedure
            .contains(&address)
            .then(|| address - procedure.start),
        registers: parse_registers(registers)?,
    })
}
