//! Answers about what can be measured. A negative answer says what is missing, what is lost, and
//! the remedy.

use super::facts::{Limits, Machine, User};
use crate::Error;
use serde::Serialize;
use std::fmt;

/// The version of the JSON form of [`Capabilities`] and [`Program`].
pub const SCHEMA: u32 = 1;

/// Capabilities of this process on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Capabilities {
    /// [`SCHEMA`].
    pub schema: u32,
    /// User that runs this process.
    pub user: User,
    /// The machine.
    pub machine: Machine,
    /// The kernel's settings.
    pub limits: Limits,
    /// Results of the probes, the most important first.
    pub probes: Vec<Probe>,
}

/// Result of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Question that the probe answers.
    pub question: Question,
    /// Reason that the feature cannot be used; `None` if it can.
    pub gap: Option<Gap>,
}

/// Features of the system that vitalfew can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Sampling the user's own programs by the clock, in user space.
    OwnPrograms,
    /// Sampling the kernel too, while it works for these programs.
    Kernel,
    /// Sampling all processes on all CPUs.
    WholeMachine,
    /// Sampling running processes of other users.
    OtherUsers,
    /// Counting samples in the kernel: loading a BPF program and attaching it to an event.
    Bpf,
    /// Type information of the running kernel, to which the BPF programs are fitted.
    Btf,
    /// A BPF file system, in which a collection outlives its collector.
    BpfFs,
    /// Ring buffers of the usual size, on all CPUs.
    RingBuffers,
    /// Counting cycles and instructions.
    Pmu,
    /// Events at the precise instruction: PEBS, IBS, SPE.
    Precise,
    /// The last branches taken: LBR, BRBE.
    Branches,
    /// The names of the kernel's functions.
    KernelSymbols,
    /// The kernel's tracepoints.
    Tracepoints,
    /// Breakpoints in the processor, for progress points.
    Breakpoints,
    /// Probes on functions of programs.
    Uprobes,
}

impl Question {
    /// All questions, the most important first.
    pub const ALL: [Self; 15] = [
        Self::OwnPrograms,
        Self::Kernel,
        Self::WholeMachine,
        Self::OtherUsers,
        Self::Bpf,
        Self::Btf,
        Self::BpfFs,
        Self::RingBuffers,
        Self::Pmu,
        Self::Precise,
        Self::Branches,
        Self::KernelSymbols,
        Self::Tracepoints,
        Self::Breakpoints,
        Self::Uprobes,
    ];
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnPrograms => "sampling your own programs",
            Self::Kernel => "their time in the kernel",
            Self::WholeMachine => "sampling the whole machine",
            Self::OtherUsers => "sampling processes of other users",
            Self::Bpf => "counting samples in the kernel (BPF)",
            Self::Btf => "types of the running kernel (BTF)",
            Self::BpfFs => "BPF file system",
            Self::RingBuffers => "ring buffers on all CPUs",
            Self::Pmu => "counting cycles and instructions",
            Self::Precise => "precise instructions (PEBS, IBS, SPE)",
            Self::Branches => "last branches (LBR, BRBE)",
            Self::KernelSymbols => "names of kernel functions",
            Self::Tracepoints => "tracepoints",
            Self::Breakpoints => "hardware breakpoints",
            Self::Uprobes => "probes on user functions (uprobes)",
        })
    }
}

/// Reason that a feature cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{missing}; without it: {lose}; {fix}")]
pub struct Gap {
    /// Missing right, setting or feature.
    pub missing: String,
    /// Measurements that are impossible without it.
    pub lose: String,
    /// Remedy.
    pub fix: Fix,
    /// The error number of the attempt, if one was made.
    pub errno: Option<i32>,
}

impl Gap {
    /// Returns the refusal of a measurement that needs it.
    pub(crate) fn refuse(&self, what: impl fmt::Display) -> Error {
        Error::Refused {
            what: what.to_string(),
            reason: format!("not permitted, it needs {}", self.need()),
        }
    }

    /// Returns what has to be there for a measurement, with the command that brings it.
    pub fn need(&self) -> String {
        match &self.fix {
            Fix::Command(setcap) if setcap.contains("cap_bpf") => format!(
                "CAP_BPF and CAP_PERFMON: {setcap} (every user of this copy may then record any process), or sudo vitalfew ..."
            ),
            fix => format!(
                "a right or feature that is missing: {}; {fix}",
                self.missing
            ),
        }
    }
}

/// Remedy for a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "text")]
pub enum Fix {
    /// Command to run here.
    Command(String),
    /// Command to run on the host: outside of the container or user namespace.
    HostCommand(String),
    /// Advice where no command helps: what would have to change.
    Advice(String),
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => f.write_str(command),
            Self::HostCommand(command) => write!(f, "on the host: {command}"),
            Self::Advice(advice) => f.write_str(advice),
        }
    }
}

impl Capabilities {
    /// Returns whether a feature can be used.
    ///
    /// # Errors
    /// Returns the gap, if it cannot be used.
    pub fn get(&self, question: Question) -> Result<(), Gap> {
        let gap = self.probes.iter().find(|probe| probe.question == question);
        gap.and_then(|probe| probe.gap.clone()).map_or(Ok(()), Err)
    }

    /// Returns whether samples of all processes can be counted in the kernel.
    ///
    /// # Errors
    /// Returns the first gap, if they cannot.
    pub fn kernel_counts(&self) -> Result<(), Gap> {
        self.system_wide().and(self.bpf())
    }

    /// Returns whether BPF programs can be loaded.
    ///
    /// # Errors
    /// Returns the gap, if the right to load BPF programs is missing, or the kernel's types are.
    pub fn bpf(&self) -> Result<(), Gap> {
        self.get(Question::Bpf)?;
        self.get(Question::Btf)
    }

    /// Returns whether cycles and instructions can be counted.
    ///
    /// # Errors
    /// Returns the gap, if they cannot.
    pub fn pmu(&self) -> Result<(), Gap> {
        self.get(Question::Pmu)
    }

    /// Returns whether all processes on all CPUs can be sampled.
    ///
    /// # Errors
    /// Returns the gap, if they cannot.
    pub fn system_wide(&self) -> Result<(), Gap> {
        self.get(Question::WholeMachine)
    }

    /// Returns whether the kernel's own time can be sampled.
    ///
    /// # Errors
    /// Returns the gap, if it cannot.
    pub fn kernel_samples(&self) -> Result<(), Gap> {
        self.get(Question::Kernel)
    }
}
