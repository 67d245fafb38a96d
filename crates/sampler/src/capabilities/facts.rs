//! Facts about the user, the machine, and the kernel's settings.

use super::system::System;
use crate::Error;
use crate::host::{CpuFacts, own_pid_namespace, parse_namespace};
use serde::Serialize;
use std::path::Path;

/// A relevant right of a process: its name, and its bit in `/proc/self/status`.
pub(super) type Right = (&'static str, u32);

pub(super) const IPC_LOCK: Right = ("cap_ipc_lock", 14);
pub(super) const SYS_PTRACE: Right = ("cap_sys_ptrace", 19);
pub(super) const SYS_ADMIN: Right = ("cap_sys_admin", 21);
pub(super) const SYS_RESOURCE: Right = ("cap_sys_resource", 24);
pub(super) const SYSLOG: Right = ("cap_syslog", 34);
pub(super) const PERFMON: Right = ("cap_perfmon", 38);
pub(super) const BPF: Right = ("cap_bpf", 39);

const RIGHTS: [Right; 7] = [
    IPC_LOCK,
    SYS_PTRACE,
    SYS_ADMIN,
    SYS_RESOURCE,
    SYSLOG,
    PERFMON,
    BPF,
];

/// User that runs this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct User {
    /// Effective user id.
    pub uid: u32,
    /// Relevant effective capabilities.
    pub capabilities: Vec<&'static str>,
    /// Relevant capabilities in the bounding set, which the process could be given.
    pub bounding: Vec<&'static str>,
    /// True if executing a file cannot add rights (`no_new_privs`).
    pub no_new_privileges: bool,
    /// True in a user namespace, whose root the kernel does not treat as root.
    pub user_namespace: bool,
    /// True if `/proc/sys` is mounted read-only, so that not even root can write to it.
    pub settings_read_only: bool,
    /// True if a filter refuses some system calls of the process.
    pub seccomp: bool,
    /// Evidence that the process is in a container; `None` if there is none.
    pub container: Option<String>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub architecture: &'static str,
    /// CPUs online.
    pub cpus: usize,
    /// True if the machine runs under a hypervisor.
    pub hypervisor: bool,
}

/// The kernel's settings; `None` for a setting that it lacks or hides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`, in samples a second.
    pub max_sample_rate: Option<i64>,
    /// `kernel.perf_cpu_time_max_percent`: sampling is slowed down above it.
    pub cpu_time_max_percent: Option<i64>,
    /// `kernel.perf_event_max_stack`, in frames.
    pub max_stack: Option<i64>,
    /// `kernel.perf_event_mlock_kb`: memory for ring buffers, per user and CPU.
    pub mlock_kb: Option<i64>,
    /// `RLIMIT_MEMLOCK` in bytes; `None`: unlimited.
    pub memlock_bytes: Option<u64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i64>,
    /// The level of kernel lockdown, unless it is `none`.
    pub lockdown: Option<String>,
}

impl User {
    pub(super) fn read(system: &dyn System) -> Self {
        let status = system.read_text("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.map(str::trim).unwrap_or_default()
        };
        let rights = |name| {
            let bits = u64::from_str_radix(field(name), 16).unwrap_or(0);
            let has = RIGHTS.iter().filter(move |(_, bit)| bits >> bit & 1 == 1);
            has.map(|(name, _)| *name).collect()
        };
        let map = system.read_text("/proc/self/uid_map").unwrap_or_default();
        let map: Vec<&str> = map.split_whitespace().collect();
        Self {
            uid: system.euid(),
            capabilities: rights("CapEff:"),
            bounding: rights("CapBnd:"),
            no_new_privileges: field("NoNewPrivs:") == "1",
            user_namespace: !map.is_empty() && map != ["0", "0", "4294967295"],
            settings_read_only: settings_read_only(system),
            seccomp: field("Seccomp:") == "2",
            container: container_sign(system),
        }
    }

    /// Returns whether the user has the right as the kernel checks it: in the first user namespace.
    pub(super) fn has_right(&self, right: Right) -> bool {
        self.capabilities.contains(&right.0) && !self.user_namespace
    }

    pub(super) fn may_get(&self, right: Right) -> bool {
        self.bounding.contains(&right.0)
    }

    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }
}

fn settings_read_only(system: &dyn System) -> bool {
    let mounts = system.read_text("/proc/mounts").unwrap_or_default();
    let mut fields = mounts.lines().map(|line| line.split(' '));
    fields.any(|mut mount| {
        let read_only = |options: &str| options.split(',').any(|option| option == "ro");
        mount.nth(1) == Some("/proc/sys") && mount.nth(1).is_some_and(read_only)
    })
}

/// Refuses to sample where `/proc` is of another PID namespace than this process: its process ids
/// differ from those of system calls and samples.
pub(crate) fn check_process_ids() -> Result<(), Error> {
    match std::fs::read_link("/proc/self") {
        Ok(own) if own != Path::new(&std::process::id().to_string()) => Err(Error::Refused {
            what: "sampling".to_owned(),
            reason: "/proc is of another PID namespace than vitalfew, so that its numbers are of other processes; mount it \
                     anew for this namespace (unshare --mount-proc)"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses to watch a whole machine from a PID namespace other than the first, which sees its own
/// processes only.
pub(crate) fn check_first_pid_namespace() -> Result<(), Error> {
    match own_pid_namespace() {
        Some(_) => Err(Error::Refused {
            what: "sampling the whole machine all the time".to_owned(),
            reason: "vitalfew runs in a PID namespace of its own (a container) and sees no other processes; run it on the host, or \
                     give the container the host's PID namespace (--pid=host)"
                .to_owned(),
        }),
        None => Ok(()),
    }
}

/// Returns the evidence of a container: files and cgroups of the usual ones, and a PID namespace of
/// its own.
fn container_sign(system: &dyn System) -> Option<String> {
    let files = [
        ("/.dockerenv", "Docker"),
        ("/run/.containerenv", "Podman"),
        ("/run/systemd/container", "systemd-nspawn or alike"),
    ];
    let file = files
        .iter()
        .find(|(path, _)| system.open_file(path).is_ok())
        .map(|(path, name)| format!("{name} ({path})"));
    let cgroups = system.read_text("/proc/self/cgroup").unwrap_or_default();
    let marks = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    let mark = marks.iter().find(|mark| cgroups.contains(**mark));
    let runtime = file.or_else(|| Some(format!("{} (/proc/self/cgroup)", mark?)));
    let namespace = system.read_link("/proc/self/ns/pid").ok();
    let own_namespace = namespace
        .is_some_and(|namespace| parse_namespace(Path::new(&namespace)).is_some())
        .then(|| "a PID namespace of its own".to_owned());
    let signs: Vec<String> = runtime.into_iter().chain(own_namespace).collect();
    (!signs.is_empty()).then(|| signs.join(", "))
}

impl Machine {
    pub(super) fn read(system: &dyn System) -> Self {
        let text = |path| system.read_text(path).unwrap_or_default();
        let hypervisor = CpuFacts::parse(&text("/proc/cpuinfo"), "").hypervisor;
        // AArch64 processors do not report a hypervisor, but the usual ones name their devices.
        let product = text("/sys/class/dmi/id/sys_vendor").to_lowercase();
        let vendors = [
            "qemu",
            "amazon ec2",
            "google",
            "vmware",
            "xen",
            "microsoft corporation",
        ];
        let named = cfg!(target_arch = "aarch64") && vendors.iter().any(|v| product.contains(v));
        Self {
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            architecture: std::env::consts::ARCH,
            cpus: system.online_cpus(),
            hypervisor: hypervisor || named,
        }
    }

    /// Returns whether the kernel has at least this version.
    pub(super) fn kernel_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self
            .kernel
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse);
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        (next(), next()) >= (major, minor)
    }
}

impl Limits {
    pub(super) fn read(system: &dyn System) -> Self {
        let number = |name: &str| {
            let text = system.read_text(&format!("/proc/sys/kernel/{name}")).ok()?;
            text.trim().parse().ok()
        };
        // The level in force stands in brackets.
        let lockdown = system
            .read_text("/sys/kernel/security/lockdown")
            .unwrap_or_default();
        let level = lockdown.split(['[', ']']).nth(1).unwrap_or("none");
        Self {
            perf_event_paranoid: number("perf_event_paranoid"),
            max_sample_rate: number("perf_event_max_sample_rate"),
            cpu_time_max_percent: number("perf_cpu_time_max_percent"),
            max_stack: number("perf_event_max_stack"),
            mlock_kb: number("perf_event_mlock_kb"),
            memlock_bytes: system.memlock_limit(),
            kptr_restrict: number("kptr_restrict"),
            ptrace_scope: number("yama/ptrace_scope"),
            lockdown: (level != "none").then(|| level.to_owned()),
        }
    }
}
