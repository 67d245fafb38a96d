//! The cost of collecting, measured while it runs.

use crate::governor::{RateGovernor, RateVerdict, WindowCost};
use crate::options::DaemonOptions;
use std::time::{Duration, Instant};

/// The time over which costs are summed before the rate is judged.
const WINDOW: Duration = Duration::from_secs(30);

/// Measures costs for the governor.
pub(crate) struct CostMeter {
    governor: RateGovernor,
    window: Duration,
    /// Start of the window, and the CPU times at that moment, in nanoseconds.
    since: Instant,
    own_ns: u64,
    children_ns: u64,
    /// Counted CPU time of making unwind tables, and the part in this window.
    tables_ns: (u64, u64),
    /// Cost of following processes in this window.
    processes_ns: u64,
    /// Number of samples taken in this window.
    pub taken: u64,
    /// The cost of samples in the last window, as a share of the machine.
    pub sampling: f64,
    /// Cost of the daemon in the last window, with its child processes, whose cost is averaged.
    pub own: f64,
}

impl CostMeter {
    /// Begins at a rate, which is also the highest.
    pub(crate) fn new(options: &DaemonOptions, rate: u64) -> Self {
        let cpus = sampler::read_host().cpus;
        Self {
            governor: RateGovernor::new(
                options.budget_percent() / 100.0,
                cpus,
                rate,
                options.rate_is_free(),
            ),
            window: WINDOW.min(options.interval * 2),
            since: Instant::now(),
            own_ns: 0,
            children_ns: 0,
            tables_ns: (0, 0),
            processes_ns: 0,
            taken: 0,
            sampling: 0.0,
            own: 0.0,
        }
    }

    /// Begins a window.
    pub(crate) fn begin_window(&mut self) {
        self.since = Instant::now();
        self.own_ns = sampler::own_cpu_ns();
        self.children_ns = sampler::children_cpu_ns();
        self.tables_ns.1 = 0;
        (self.processes_ns, self.taken) = (0, 0);
    }

    /// Measures the CPU time of work that does not depend on the rate.
    pub(crate) fn of_processes<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = sampler::thread_cpu_ns();
        let result = work();
        self.processes_ns += sampler::thread_cpu_ns().saturating_sub(begin);
        result
    }

    /// Counts the cost of child processes that have ended since the last call, spread evenly over a
    /// time.
    pub(crate) fn add_lump(&mut self, over: Duration) {
        let now = sampler::children_cpu_ns();
        let spent = now.saturating_sub(self.children_ns);
        self.children_ns = now;
        self.governor.add_lump(spent, over);
    }

    /// Counts the cost of making unwind tables so far, spread evenly over a time: tables are kept,
    /// not made for each sample.
    pub(crate) fn add_tables(&mut self, so_far_ns: u64, over: Duration) {
        let spent = so_far_ns.saturating_sub(self.tables_ns.0);
        self.tables_ns = (so_far_ns, self.tables_ns.1 + spent);
        self.governor.add_lump(spent, over);
    }

    /// Returns the share of the machine that led to the last verdict.
    pub(crate) fn judged_share(&self) -> f64 {
        self.governor.judged_share()
    }

    /// Returns the verdict on the rate, at the end of a window.
    pub(crate) fn judge_rate(&mut self, sample_cost_ns: u64) -> Option<RateVerdict> {
        let passed = self.since.elapsed();
        if passed < self.window {
            return None;
        }
        let own_ns = sampler::own_cpu_ns().saturating_sub(self.own_ns);
        let own_ns = own_ns.saturating_sub(self.tables_ns.1);
        let taking_ns = self.taken * sample_cost_ns;
        let machine_ns = passed.as_nanos() as f64 * f64::from(sampler::read_host().cpus.max(1));
        self.sampling = taking_ns as f64 / machine_ns;
        self.own = own_ns as f64 / machine_ns + self.governor.lumps_share();
        let verdict = self.governor.judge_window(WindowCost {
            passed,
            samples_ns: taking_ns + own_ns.saturating_sub(self.processes_ns),
            processes_ns: self.processes_ns,
        });
        let children_ns = self.children_ns;
        self.begin_window();
        self.children_ns = children_ns;
        Some(verdict)
    }
}
