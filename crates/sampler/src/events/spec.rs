//! Events as requested.

use crate::host::CpuFacts;
use perf_event_open_sys::bindings as pe;

/// Kind of an event, which decides how it is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A clock of the kernel (`cpu-clock`): its period is in nanoseconds.
    Clock,
    /// Cycles and instructions of the processor: sampled at a rate, by a fixed period.
    Cycles,
    /// Another event of the performance-monitoring unit.
    Hardware,
    /// A software event of the kernel (`page-faults`): every occurrence counts.
    Software,
    /// A tracepoint: every occurrence counts.
    Tracepoint,
}

/// An event as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The canonical name, with modifiers.
    pub name: String,
    /// Kind of the event.
    pub kind: EventKind,
    /// `perf_event_attr.type`.
    pub perf_type: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// Category and name of a tracepoint.
    pub tracepoint: Option<(String, String)>,
    /// The requested period, in units of the event.
    pub period: Option<u64>,
    /// Excludes user mode (modifier `k`).
    pub exclude_user: bool,
    /// Excludes the kernel (modifier `u`).
    pub exclude_kernel: bool,
    /// `perf_event_attr.precise_ip` (modifier `p`, once a level).
    pub precise: u8,
    /// Records the last branches in user mode with each sample, as far as the processor can
    /// (modifier `b`).
    pub branches: bool,
}

use EventKind::{Clock, Cycles, Hardware, Software};
use pe::*;

impl EventSpec {
    pub(crate) fn new(name: &str, kind: EventKind, perf_type: u32, config: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            perf_type,
            config,
            tracepoint: None,
            period: None,
            exclude_user: false,
            exclude_kernel: false,
            precise: 0,
            branches: false,
        }
    }

    /// Returns the clock that every machine has.
    pub fn cpu_clock() -> Self {
        Self::new(
            "cpu-clock",
            Clock,
            PERF_TYPE_SOFTWARE,
            PERF_COUNT_SW_CPU_CLOCK.into(),
        )
    }

    /// Returns cycles, which need a performance-monitoring unit.
    pub fn cycles() -> Self {
        Self::new(
            "cycles",
            Cycles,
            PERF_TYPE_HARDWARE,
            PERF_COUNT_HW_CPU_CYCLES.into(),
        )
    }

    /// Returns the event of taken branches in user mode, sampled at the rate of cycles, with the
    /// last branches. Time samples favour slow code; samples of all branches, taken or not, favour
    /// code that follows branches. Where this processor's event of taken branches is unknown, all
    /// are sampled (`branch-instructions`).
    pub fn branch_records() -> Self {
        let (name, perf_type, config) = match taken_branches_here() {
            Some(raw) => (format!("r{raw:x}:ub"), PERF_TYPE_RAW, raw),
            None => (
                "branch-instructions:ub".to_owned(),
                PERF_TYPE_HARDWARE,
                PERF_COUNT_HW_BRANCH_INSTRUCTIONS.into(),
            ),
        };
        Self {
            exclude_kernel: true,
            branches: true,
            ..Self::new(&name, Cycles, perf_type, config)
        }
    }

    /// Returns the period at `frequency` samples a second per CPU, unless a period was requested:
    /// nanoseconds for clocks, cycles for cycles.
    ///
    /// Other events of the processor have no rate; the default is a prime period that keeps them
    /// below some thousand samples a second on today's processors. Software events and tracepoints
    /// count every occurrence.
    pub fn period_at(&self, frequency: u64) -> u64 {
        let frequency = frequency.max(1);
        self.period.unwrap_or(match self.kind {
            Clock => (1_000_000_000 / frequency).max(1),
            Cycles => (cpu_hertz() / frequency).max(1000),
            Hardware => 50_021,
            Software | EventKind::Tracepoint => 1,
        })
    }

    /// Returns whether the event is sampled at a rate, with a randomised period.
    pub fn is_timed(&self) -> bool {
        matches!(self.kind, Clock | Cycles)
    }

    /// Returns whether the event shares the processor's counters with others when there are too few
    /// of them.
    pub fn shares_counters(&self) -> bool {
        matches!(self.kind, Cycles | Hardware)
    }
}

fn taken_branches_here() -> Option<u64> {
    let name = std::fs::read_to_string("/sys/bus/event_source/devices/cpu/caps/pmu_name");
    let id = CpuFacts::read().id.unwrap_or_default();
    machine::taken_branches_event(&id, name.unwrap_or_default().trim())
}

/// Returns the clock rate of the first CPU in hertz, or 2 GHz if it is unknown.
fn cpu_hertz() -> u64 {
    CpuFacts::read().clock_hz.unwrap_or(2_000_000_000)
}
