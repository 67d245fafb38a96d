use serde::{Deserialize, Serialize};

/// States of the target's threads during the recording, by the kernel's own accounts and not by
/// samples. They include the time in which no thread ran, which a profile of CPU time cannot show.
///
/// Times are sums over threads, from the recording's start or the thread's to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// On a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Ready to run, but waiting for a CPU; `None` if the kernel did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
    /// Asleep or stopped. `None` if unknown, and for the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ns: Option<u64>,
    /// The whole machine's idle time, summed over its CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<u64>,
    /// Number of threads; `None` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
}

impl TaskTimes {
    /// Returns the sum of both, for recordings that are merged. A value that only one of them knows
    /// is unknown in the sum.
    pub fn plus(self, other: Self) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            waiting_ns: add(self.waiting_ns, other.waiting_ns),
            blocked_ns: add(self.blocked_ns, other.blocked_ns),
            idle_ns: add(self.idle_ns, other.idle_ns),
            threads: add(self.threads, other.threads),
        }
    }

    /// Returns the time in which threads ran or could have run.
    pub fn ready_ns(&self) -> u64 {
        self.cpu_ns.saturating_add(self.waiting_ns.unwrap_or(0))
    }
}
