//! Diagnosis: which capabilities follow from the system's answers.

use super::answers::{Capabilities, Fix, Gap, Probe, Question, SCHEMA};
use super::facts::{self, Limits, Machine, User};
use super::system::{Errno, System, Trial};

/// Remedy for a missing right, if there are several.
#[derive(Clone, Copy)]
pub(super) enum Mend {
    /// A lower `kernel.perf_event_paranoid` suffices.
    Setting,
    /// Only additional rights help.
    Rights,
}

/// Cause of a gap, and its remedy.
pub(super) type Reason = (String, Fix);

pub(super) struct Doctor<'a> {
    pub(super) system: &'a dyn System,
    pub(super) user: User,
    pub(super) machine: Machine,
    pub(super) limits: Limits,
}

pub(super) fn capabilities(system: &dyn System) -> Capabilities {
    let doctor = Doctor {
        system,
        user: User::read(system),
        machine: Machine::read(system),
        limits: Limits::read(system),
    };
    let probe = |question| Probe {
        question,
        gap: doctor.ask_question(question),
    };
    let probes = Question::ALL.map(probe).to_vec();
    Capabilities {
        schema: SCHEMA,
        user: doctor.user,
        machine: doctor.machine,
        limits: doctor.limits,
        probes,
    }
}

fn lost_without(question: Question) -> &'static str {
    match question {
        Question::OwnPrograms => "everything: nothing can be sampled",
        Question::Kernel => "what system calls cost: samples of your programs stop at the kernel",
        Question::WholeMachine => "record -a, the daemon, and who else used the CPU",
        Question::OtherUsers => "record -p of a process that is not yours",
        Question::Bpf => "low overhead: each sample is read one by one from ring buffers",
        Question::Btf => "counting samples in the kernel: the BPF programs cannot be fitted to it",
        Question::BpfFs => "samples since the last flush, if the daemon is killed",
        Question::RingBuffers => "samples in bursts: smaller buffers overflow earlier",
        Question::Pmu => "cycles, instructions, cache misses: cpu-clock samples time only",
        Question::Precise => "events that name the slow instruction itself",
        Question::Branches => {
            "record --branches: how often code runs, as the processor itself saw it"
        }
        Question::KernelSymbols => "names in the kernel: its samples are one row",
        Question::Tracepoints => "off-CPU time by sched events, and -e CATEGORY:NAME",
        Question::Breakpoints => "progress points at unmodified programs without stopping them",
        Question::Uprobes => "counting calls of functions without rebuilding",
    }
}

impl Doctor<'_> {
    fn ask_question(&self, question: Question) -> Option<Gap> {
        let answer = match question {
            Question::OwnPrograms => self.ask_clock(Trial::OwnClock, 2, Mend::Setting),
            Question::Kernel => self.ask_clock(Trial::KernelClock, 1, Mend::Setting),
            Question::WholeMachine => self.ask_clock(Trial::MachineClock, 0, Mend::Rights),
            Question::OtherUsers => self.ask_clock(Trial::InitClock, i64::MIN, Mend::Rights),
            Question::Bpf => self.ask_bpf(),
            Question::Btf => self.ask_btf(),
            Question::BpfFs => self.bpf_fs(),
            Question::RingBuffers => self.ring_buffers(),
            Question::Pmu => self.ask_pmu(),
            Question::Precise => self.ask_precise(Trial::Precise),
            Question::Branches => self.ask_precise(Trial::Branches),
            Question::KernelSymbols => self.kernel_symbols(),
            Question::Tracepoints => self.ask_tracepoints(),
            Question::Breakpoints => self.ask_breakpoints(),
            Question::Uprobes => self.ask_uprobes(),
        };
        let ((missing, fix), errno) = answer.err()?;
        Some(Gap {
            missing,
            lose: lost_without(question).to_owned(),
            fix,
            errno,
        })
    }

    /// Returns a command for root, in the form for this user.
    pub(super) fn as_root(&self, command: &str) -> Fix {
        match (self.user.user_namespace, self.user.is_root()) {
            (true, _) => Fix::HostCommand(format!("sudo {command}")),
            (false, true) => Fix::Command(command.to_owned()),
            (false, false) => Fix::Command(format!("sudo {command}")),
        }
    }

    /// Returns the remedy for a setting of the kernel, which containers share with their host and
    /// mostly cannot write.
    pub(super) fn kernel_setting(&self, assignment: &str) -> Fix {
        if self.user.settings_read_only {
            Fix::HostCommand(format!("sudo sysctl {assignment}"))
        } else {
            self.as_root(&format!("sysctl {assignment}"))
        }
    }

    /// Returns the remedy that grants all rights that this program can use at once.
    pub(super) fn all_rights(&self) -> Fix {
        let new = self.machine.kernel_at_least(5, 8);
        let main = if new {
            facts::PERFMON
        } else {
            facts::SYS_ADMIN
        };
        if self.user.user_namespace {
            return Fix::Advice(
                "run it outside this user namespace: rights in it do not count for the kernel"
                    .into(),
            );
        }
        if self.user.container.is_some() && !self.user.may_get(main) {
            let rights = if new {
                "PERFMON --cap-add BPF"
            } else {
                "SYS_ADMIN"
            };
            return Fix::HostCommand(format!(
                "docker run --cap-add {rights} --cap-add SYS_PTRACE --cap-add SYSLOG ..."
            ));
        }
        if !self.user.may_get(main) {
            return Fix::Advice(format!(
                "run it where {} is not withheld (systemd: CapabilityBoundingSet=)",
                main.0
            ));
        }
        if self.user.is_root() {
            return Fix::Advice(format!("keep {} when starting it as root", main.0));
        }
        if self.user.no_new_privileges {
            return Fix::Advice("run it as root, outside of what set no_new_privs (a sandbox; systemd: NoNewPrivileges=)".into());
        }
        let rights = if new {
            "cap_perfmon,cap_bpf"
        } else {
            "cap_sys_admin"
        };
        Fix::Command(format!(
            "sudo setcap {rights},cap_sys_ptrace,cap_syslog=ep $(command -v vitalfew)"
        ))
    }

    /// Returns the remedy of full rights, which are too much to give to a file.
    pub(super) fn admin_right(&self) -> Fix {
        let withheld = !self.user.may_get(facts::SYS_ADMIN);
        if self.user.user_namespace || self.user.container.is_none() && withheld {
            Fix::Advice("run it as root where cap_sys_admin is not withheld".into())
        } else if withheld {
            Fix::HostCommand("docker run --cap-add SYS_ADMIN ...".into())
        } else if self.user.is_root() {
            Fix::Advice("keep cap_sys_admin when starting it as root".into())
        } else {
            Fix::Command("sudo vitalfew ...".into())
        }
    }

    fn may_monitor(&self) -> bool {
        self.user.has_right(facts::PERFMON) || self.user.has_right(facts::SYS_ADMIN)
    }

    /// Explains why the kernel refuses events that `kernel.perf_event_paranoid` up to `level` would
    /// allow.
    pub(super) fn denied_by_paranoia(&self, errno: Errno, level: i64, mend: Mend) -> Reason {
        let paranoid = self.limits.perf_event_paranoid.unwrap_or(2);
        // A container's filter comes before the kernel's own checks, and returns EPERM.
        let all = || self.system.try_event(Trial::OwnClock) == Err(libc::EPERM);
        if errno == libc::EPERM && self.user.seccomp && !self.may_monitor() && all() {
            let missing = "a filter of system calls (seccomp) refuses perf_event_open";
            return (missing.into(), self.all_rights());
        }
        if self.may_monitor() || paranoid <= level {
            let advice =
                "no right and no setting of perf helps; journalctl -k names the one that refused";
            let missing = format!("{} refuses it", self.refusing_authority());
            return (missing, Fix::Advice(advice.into()));
        }
        if level == i64::MIN {
            return (
                format!("{} has no cap_perfmon", self.name_user()),
                self.all_rights(),
            );
        }
        let missing = format!(
            "kernel.perf_event_paranoid is {paranoid}, and {} has no cap_perfmon",
            self.name_user()
        );
        let fix = match mend {
            // The same setting wherever a setting suffices.
            Mend::Setting => self.kernel_setting("kernel.perf_event_paranoid=1"),
            Mend::Rights => self.all_rights(),
        };
        (missing, fix)
    }

    /// Returns the authority that refuses where neither rights nor settings do.
    pub(super) fn refusing_authority(&self) -> String {
        match &self.limits.lockdown {
            Some(level) => format!("kernel lockdown ({level})"),
            None if self.user.seccomp => "a filter of system calls (seccomp)".into(),
            None => "a security module of the kernel".into(),
        }
    }

    pub(super) fn name_user(&self) -> String {
        match (self.user.is_root(), self.user.user_namespace) {
            (true, true) => "root of a user namespace".into(),
            (true, false) => "root here".into(),
            (false, _) => format!("user {}", self.user.uid),
        }
    }

    /// Explains other error numbers, for events that every kernel and machine should have.
    pub(super) fn unexpected_error(&self, errno: Errno, what: &str) -> Reason {
        match errno {
            libc::ENOSYS => {
                let missing = format!("the kernel was built without {what}");
                (
                    missing,
                    Fix::Advice("another kernel: every distribution's has it".into()),
                )
            }
            libc::EMFILE | libc::ENFILE => (
                "too many files are open".into(),
                Fix::Command("ulimit -n 65536".into()),
            ),
            _ => {
                let text = std::io::Error::from_raw_os_error(errno);
                (
                    format!("{what}: {text}"),
                    Fix::Advice("none is known for this error".into()),
                )
            }
        }
    }
}

/// Answer to a question: `Ok`, or the reason and the error number.
pub(super) type Answer = Result<(), (Reason, Option<Errno>)>;
