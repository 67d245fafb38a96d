//! The probe of each question, and the meanings of its error numbers.

use super::answers::Fix;
use super::diagnose::{Answer, Doctor, Mend, Reason};
use super::facts;
use super::system::{Errno, RING_PAGES, Trial};
use crate::events::perf::{RING_PAGE, page_size};
use std::io::ErrorKind;

/// Returns the remedy for a kernel built without a feature that every distribution enables.
fn other_kernel() -> Fix {
    Fix::Advice("another kernel: every distribution's has it".into())
}

impl Doctor<'_> {
    pub(super) fn ask_clock(&self, trial: Trial, level: i64, mend: Mend) -> Answer {
        self.system.try_event(trial).map_err(|errno| {
            let reason = match errno {
                libc::EACCES | libc::EPERM => self.denied_by_paranoia(errno, level, mend),
                _ => self.unexpected_error(errno, "perf events (CONFIG_PERF_EVENTS)"),
            };
            (reason, Some(errno))
        })
    }

    pub(super) fn ask_bpf(&self) -> Answer {
        let reason = |errno| match errno {
            libc::EPERM | libc::EACCES => self.bpf_denied(errno),
            _ => self.unexpected_error(errno, "BPF (CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS)"),
        };
        let loaded = self.system.load_bpf();
        let tried = loaded.and_then(|()| self.system.attach_bpf());
        tried.map_err(|errno| (reason(errno), Some(errno)))
    }

    fn bpf_denied(&self, errno: Errno) -> Reason {
        let (user, machine) = (&self.user, &self.machine);
        let split = machine.kernel_at_least(5, 8);
        let both = split && user.has_right(facts::BPF) && user.has_right(facts::PERFMON);
        if !both && !user.has_right(facts::SYS_ADMIN) {
            let missing = match split {
                _ if user.seccomp && errno == libc::EPERM => {
                    "a filter of system calls (seccomp) or the lack of cap_bpf refuses bpf".into()
                }
                true => format!("{} has not both cap_bpf and cap_perfmon", self.name_user()),
                false => format!("{} has no cap_sys_admin", self.name_user()),
            };
            return (missing, self.all_rights());
        }
        // Before 5.11, BPF programs and maps counted as locked memory.
        if self.limits.memlock_bytes.is_some() && !machine.kernel_at_least(5, 11) {
            let missing = "the limit of locked memory is too small for this kernel's BPF";
            return (missing.into(), Fix::Command("ulimit -l unlimited".into()));
        }
        let missing = format!("{} refuses BPF", self.refusing_authority());
        let advice = "no right helps; journalctl -k names the one that refused";
        (missing, Fix::Advice(advice.into()))
    }

    pub(super) fn ask_btf(&self) -> Answer {
        const BTF: &str = "/sys/kernel/btf/vmlinux";
        self.system.open_file(BTF).map_err(|error| {
            let reason = if error.kind() == ErrorKind::NotFound {
                let missing = format!("{BTF}: the kernel was built without CONFIG_DEBUG_INFO_BTF");
                (missing, other_kernel())
            } else {
                let fix = self.as_root(&format!("chmod a+r {BTF}"));
                (format!("{BTF}: {error}"), fix)
            };
            (reason, error.raw_os_error())
        })
    }

    fn is_mounted(&self, kind: &str) -> bool {
        let mounts = self.system.read_text("/proc/mounts").unwrap_or_default();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some(kind))
    }

    pub(super) fn bpf_fs(&self) -> Answer {
        if self.is_mounted("bpf") {
            return Ok(());
        }
        let fix = self.as_root("mount -t bpf bpf /sys/fs/bpf");
        Err((("no BPF file system is mounted".into(), fix), None))
    }

    pub(super) fn ring_buffers(&self) -> Answer {
        // Without events no ring can be mapped, and that gap is reported already.
        self.ask_clock(Trial::OwnClock, 2, Mend::Setting)?;
        self.system.map_rings().map_err(|errno| {
            let reason = match errno {
                libc::EPERM => self.rings_too_large(),
                libc::ENOMEM => ("not enough memory".into(), Fix::Advice("free some".into())),
                libc::EACCES => self.denied_by_paranoia(errno, 2, Mend::Setting),
                _ => self.unexpected_error(errno, "ring buffers"),
            };
            (reason, Some(errno))
        })
    }

    fn rings_too_large(&self) -> Reason {
        // The first page of a ring is its control page.
        let needed = ((RING_PAGES * RING_PAGE + page_size()) >> 10) as i64;
        let now = self.limits.mlock_kb.unwrap_or(0);
        let (missing, enough) = if now < needed {
            let missing = format!(
                "kernel.perf_event_mlock_kb is {now}, and a buffer takes {needed} on each CPU"
            );
            (missing, needed)
        } else {
            let missing = format!(
                "the {now} kB a CPU of kernel.perf_event_mlock_kb are taken by your other recordings"
            );
            (missing, now + needed)
        };
        let fix = self.kernel_setting(&format!("kernel.perf_event_mlock_kb={enough}"));
        (missing, fix)
    }

    pub(super) fn ask_pmu(&self) -> Answer {
        let cycles = self.system.try_event(Trial::Cycles);
        let tried = cycles.and_then(|()| self.system.try_event(Trial::Instructions));
        tried.map_err(|errno| (self.missing_hardware(errno), Some(errno)))
    }

    fn missing_hardware(&self, errno: Errno) -> Reason {
        let (missing, advice) = match errno {
            libc::EACCES | libc::EPERM => return self.denied_by_paranoia(errno, 2, Mend::Setting),
            libc::EBUSY => {
                let missing = "another user of the counters has taken them";
                return (missing.into(), self.kernel_setting("kernel.nmi_watchdog=0"));
            }
            libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP => {
                if self.machine.hypervisor {
                    (
                        "this virtual machine shows no performance-monitoring unit",
                        "the hypervisor has to expose one (KVM: -cpu host,pmu=on; clouds: bare-metal instances)",
                    )
                } else {
                    (
                        "the kernel found no performance-monitoring unit that it knows",
                        "a newer kernel, or the firmware's setting for performance counters",
                    )
                }
            }
            _ => return self.unexpected_error(errno, "hardware events"),
        };
        (missing.into(), Fix::Advice(advice.into()))
    }

    pub(super) fn ask_precise(&self, trial: Trial) -> Answer {
        // Without any counter, the PMU itself is missing.
        self.ask_pmu()?;
        self.system.try_event(trial).map_err(|errno| {
            let reason = match errno {
                libc::EACCES | libc::EPERM => self.denied_by_paranoia(errno, 2, Mend::Setting),
                _ if self.machine.hypervisor => {
                    let advice = Fix::Advice("the hypervisor has to expose it".into());
                    (
                        "the counters of this virtual machine cannot do it".into(),
                        advice,
                    )
                }
                _ => {
                    let advice = Fix::Advice("another processor, or a newer kernel".into());
                    ("this processor or its driver cannot do it".into(), advice)
                }
            };
            (reason, Some(errno))
        })
    }

    pub(super) fn kernel_symbols(&self) -> Answer {
        let shown = |line: &str| {
            let address = line.split(' ').next().unwrap_or_default();
            address.bytes().any(|byte| byte != b'0')
        };
        match self.system.read_text("/proc/kallsyms") {
            Ok(text) if text.lines().any(shown) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let missing = "/proc/kallsyms: the kernel was built without CONFIG_KALLSYMS";
                Err(((missing.into(), other_kernel()), error.raw_os_error()))
            }
            other => Err((
                self.hidden_symbols(),
                other.err().and_then(|e| e.raw_os_error()),
            )),
        }
    }

    /// Returns the reason for hidden symbols: the kernel shows addresses to cap_syslog if
    /// `kptr_restrict` is at most 1, and to everybody if it is 0 and everybody may sample the
    /// kernel.
    fn hidden_symbols(&self) -> Reason {
        let restrict = self.limits.kptr_restrict.unwrap_or(1);
        let paranoid = self.limits.perf_event_paranoid.unwrap_or(2);
        let privileged = self.user.has_right(facts::SYSLOG);
        if privileged && restrict > 1 {
            let missing = format!(
                "kernel.kptr_restrict is {restrict}: it hides the addresses even from root"
            );
            return (missing, self.kernel_setting("kernel.kptr_restrict=1"));
        }
        let lacking = format!("{} has no cap_syslog", self.name_user());
        match (restrict, paranoid) {
            _ if privileged => {
                let advice = "run it outside of what hides /proc (a container, a sandbox)";
                (
                    "/proc/kallsyms shows no addresses".into(),
                    Fix::Advice(advice.into()),
                )
            }
            (1, _) => (
                format!("kernel.kptr_restrict is 1, and {lacking}"),
                self.all_rights(),
            ),
            (2.., 2..) => {
                let fix =
                    self.kernel_setting("kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
                (
                    format!("kernel.kptr_restrict is {restrict}, and {lacking}"),
                    fix,
                )
            }
            (2.., _) => {
                let fix = self.kernel_setting("kernel.kptr_restrict=0");
                (
                    format!("kernel.kptr_restrict is {restrict}, and {lacking}"),
                    fix,
                )
            }
            (_, 2..) => {
                let missing = format!("kernel.perf_event_paranoid is {paranoid}, and {lacking}");
                (missing, self.kernel_setting("kernel.perf_event_paranoid=1"))
            }
            _ => (
                format!("/proc/kallsyms shows no addresses, and {lacking}"),
                self.all_rights(),
            ),
        }
    }

    pub(super) fn ask_tracepoints(&self) -> Answer {
        const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let number = |place: &&str| {
            let id = format!("{place}/events/sched/sched_switch/id");
            self.system.read_text(&id).ok()?.trim().parse().ok()
        };
        if let Some(id) = TRACEFS.iter().find_map(number) {
            return self.ask_clock(Trial::Tracepoint(id), -1, Mend::Rights);
        }
        if self.is_mounted("tracefs") {
            let error = self
                .system
                .has_entries(&format!("{}/events", TRACEFS[0]))
                .err();
            let missing = "/sys/kernel/tracing is mounted, but not readable for you".into();
            let fix = self.as_root("mount -o remount,mode=755 /sys/kernel/tracing");
            return Err(((missing, fix), error.and_then(|e| e.raw_os_error())));
        }
        let kinds = self
            .system
            .read_text("/proc/filesystems")
            .unwrap_or_default();
        let known = |line: &str| line.split_whitespace().last() == Some("tracefs");
        if !kinds.lines().any(known) {
            let missing = "the kernel was built without CONFIG_TRACING".into();
            return Err(((missing, other_kernel()), None));
        }
        if self.user.has_right(facts::SYS_ADMIN) {
            return Ok(()); // a recording mounts one when it needs it
        }
        let fix = self.as_root("mount -t tracefs -o mode=755 tracefs /sys/kernel/tracing");
        Err((("tracefs is not mounted".into(), fix), None))
    }

    pub(super) fn ask_breakpoints(&self) -> Answer {
        self.system.try_event(Trial::Breakpoint).map_err(|errno| {
            let (missing, advice) = match errno {
                libc::ENOSPC => (
                    "all breakpoint registers are in use",
                    "end the debugger that uses them",
                ),
                libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => (
                    "the kernel or the processor has no hardware breakpoints",
                    "another machine",
                ),
                libc::EACCES | libc::EPERM => {
                    return (
                        self.denied_by_paranoia(errno, 2, Mend::Setting),
                        Some(errno),
                    );
                }
                _ => {
                    return (
                        self.unexpected_error(errno, "hardware breakpoints"),
                        Some(errno),
                    );
                }
            };
            ((missing.into(), Fix::Advice(advice.into())), Some(errno))
        })
    }

    pub(super) fn ask_uprobes(&self) -> Answer {
        let pmu = self
            .system
            .read_text("/sys/bus/event_source/devices/uprobe/type");
        let Some(pmu) = pmu.ok().and_then(|text| text.trim().parse().ok()) else {
            let missing = "the kernel was built without CONFIG_UPROBE_EVENTS".into();
            return Err(((missing, other_kernel()), None));
        };
        match self.system.try_event(Trial::Uprobe(pmu)) {
            // These errors only say that the probe names no file.
            Ok(()) | Err(libc::EINVAL | libc::EFAULT | libc::ENOENT) => Ok(()),
            // Unlike for other perf features, cap_perfmon does not suffice.
            Err(errno @ (libc::EACCES | libc::EPERM)) if !self.user.has_right(facts::SYS_ADMIN) => {
                let missing = format!("{} has no cap_sys_admin", self.name_user());
                Err(((missing, self.admin_right()), Some(errno)))
            }
            Err(errno @ (libc::EACCES | libc::EPERM)) => Err((
                self.denied_by_paranoia(errno, i64::MIN, Mend::Rights),
                Some(errno),
            )),
            Err(errno) => Err((self.unexpected_error(errno, "uprobes"), Some(errno))),
        }
    }
}
