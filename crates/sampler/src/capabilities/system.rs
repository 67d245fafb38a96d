//! The system calls of the probes behind a trait: tests answer them with recorded error numbers.

use crate::EventSpec;
use crate::events::perf::{self, Ring, Scope};
use crate::events::records::{BRANCH_SAMPLE, BRANCHES};
use crate::host::online_cpus;
use perf_event_open_sys as pe;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Pages of a recording's ring buffer on each CPU.
pub(super) const RING_PAGES: usize = 128;

/// An error number.
pub(super) type Errno = i32;

/// An event to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Trial {
    /// `cpu-clock` of this process, in user space.
    OwnClock,
    /// `cpu-clock` of this process, also in the kernel.
    KernelClock,
    /// `cpu-clock` of all processes on each CPU.
    MachineClock,
    /// `cpu-clock` of process 1.
    InitClock,
    Cycles,
    Instructions,
    /// Cycles, at the precise instruction.
    Precise,
    /// Branches, with the last ones taken.
    Branches,
    /// An execution breakpoint in this process.
    Breakpoint,
    /// `sched:sched_switch`, by its number.
    Tracepoint(u64),
    /// A probe that names no file: only a caller with the right to probe gets the error for that.
    Uprobe(u32),
}

/// Questions that the probes ask the system.
pub(super) trait System {
    /// Reads a file, or the start of a long one.
    fn read_text(&self, path: &str) -> io::Result<String>;
    /// Opens a file, to see whether that is allowed.
    fn open_file(&self, path: &str) -> io::Result<()>;
    /// Returns whether a directory can be listed, and has something in it.
    fn has_entries(&self, path: &str) -> io::Result<bool>;
    /// Returns the target of a symbolic link.
    fn read_link(&self, path: &str) -> io::Result<String>;
    /// Returns the effective user id.
    fn euid(&self) -> u32;
    /// Returns the number of CPUs online.
    fn online_cpus(&self) -> usize;
    /// Returns `RLIMIT_MEMLOCK` in bytes; `None`: unlimited.
    fn memlock_limit(&self) -> Option<u64>;
    /// Opens an event, and closes it again.
    fn try_event(&self, trial: Trial) -> Result<(), Errno>;
    /// Maps a ring buffer for each CPU, all at the same time.
    fn map_rings(&self) -> Result<(), Errno>;
    /// Loads an empty BPF program.
    fn load_bpf(&self) -> Result<(), Errno>;
    /// Loads an empty BPF program and attaches it to `cpu-clock` of this process.
    fn attach_bpf(&self) -> Result<(), Errno>;
}

/// This machine.
pub(super) struct Live;

fn error_number(error: &io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn last_errno() -> Errno {
    error_number(&io::Error::last_os_error())
}

fn clock_attributes(exclude_kernel: bool) -> perf_event_attr {
    let mut attr = hardware_attributes(bindings::PERF_COUNT_SW_CPU_CLOCK);
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.set_exclude_kernel(exclude_kernel.into());
    attr
}

/// Returns attributes of a hardware event in user space, disabled, with a period too long to pass.
fn hardware_attributes(config: u32) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: bindings::PERF_TYPE_HARDWARE,
        config: config.into(),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1 << 40;
    attr.set_disabled(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

fn breakpoint_attributes() -> perf_event_attr {
    // Any instruction of this process will do: the breakpoint is never enabled.
    let here = breakpoint_attributes as fn() -> perf_event_attr as usize as u64;
    let mut attr = hardware_attributes(0);
    attr.type_ = bindings::PERF_TYPE_BREAKPOINT;
    attr.bp_type = bindings::HW_BREAKPOINT_X;
    attr.__bindgen_anon_3.bp_addr = here & !3;
    // Length of an execution breakpoint: that of a `long`, but of an instruction on Arm.
    attr.__bindgen_anon_4.bp_len = if cfg!(target_arch = "x86_64") { 8 } else { 4 };
    attr
}

fn trial_attributes(trial: Trial) -> perf_event_attr {
    match trial {
        Trial::OwnClock | Trial::InitClock => clock_attributes(true),
        Trial::KernelClock | Trial::MachineClock => clock_attributes(false),
        Trial::Cycles => hardware_attributes(bindings::PERF_COUNT_HW_CPU_CYCLES),
        Trial::Instructions => hardware_attributes(bindings::PERF_COUNT_HW_INSTRUCTIONS),
        Trial::Precise => {
            let mut attr = hardware_attributes(bindings::PERF_COUNT_HW_CPU_CYCLES);
            attr.set_precise_ip(1);
            attr
        }
        Trial::Branches => {
            let event = EventSpec::branch_records();
            let mut attr = hardware_attributes(0);
            (attr.type_, attr.config) = (event.perf_type, event.config);
            attr.sample_type = BRANCH_SAMPLE;
            attr.branch_sample_type = BRANCHES;
            attr
        }
        Trial::Breakpoint => breakpoint_attributes(),
        Trial::Tracepoint(id) => {
            let mut attr = clock_attributes(false);
            attr.type_ = bindings::PERF_TYPE_TRACEPOINT;
            attr.config = id;
            attr.sample_type = bindings::PERF_SAMPLE_RAW.into();
            attr
        }
        Trial::Uprobe(pmu) => {
            let mut attr = hardware_attributes(0);
            attr.type_ = pmu;
            attr
        }
    }
}

fn open_event(attr: &perf_event_attr, pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    perf::open_event(attr, Scope { pid, cpu }).map_err(|error| error_number(&error))
}

fn load_program() -> Result<OwnedFd, Errno> {
    const SET_R0: u8 = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K: r0 = 0
    const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT
    let instructions = [SET_R0, EXIT].map(|code| libbpf_sys::bpf_insn {
        code,
        ..Default::default()
    });
    // SAFETY: the strings are terminated and the number of instructions is right; the call keeps
    // none of them, and options may be null.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_PERF_EVENT,
            c"vitalfew_probe".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    if fd < 0 {
        return Err(-fd);
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl System for Live {
    fn read_text(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(path)?.take(1 << 20).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn open_file(&self, path: &str) -> io::Result<()> {
        File::open(path).map(drop)
    }

    fn has_entries(&self, path: &str) -> io::Result<bool> {
        Ok(std::fs::read_dir(path)?.next().is_some())
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        Ok(std::fs::read_link(path)?.to_string_lossy().into_owned())
    }

    fn euid(&self) -> u32 {
        // SAFETY: asks for a number.
        unsafe { libc::geteuid() }
    }

    fn online_cpus(&self) -> usize {
        online_cpus().len()
    }

    fn memlock_limit(&self) -> Option<u64> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel writes the structure that the pointer leads to.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
        (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }

    fn try_event(&self, trial: Trial) -> Result<(), Errno> {
        let attr = trial_attributes(trial);
        match trial {
            Trial::MachineClock => online_cpus()
                .into_iter()
                .try_for_each(|cpu| open_event(&attr, -1, cpu).map(drop)),
            Trial::InitClock => open_event(&attr, 1, -1).map(drop),
            _ => open_event(&attr, 0, -1).map(drop),
        }
    }

    fn map_rings(&self) -> Result<(), Errno> {
        let attr = clock_attributes(true);
        let mut held = Vec::new();
        for cpu in online_cpus() {
            let fd = open_event(&attr, 0, cpu)?;
            let ring = Ring::map(&fd, RING_PAGES).map_err(|error| error_number(&error))?;
            held.push((ring, fd));
        }
        Ok(())
    }

    fn load_bpf(&self) -> Result<(), Errno> {
        load_program().map(drop)
    }

    fn attach_bpf(&self) -> Result<(), Errno> {
        let program = load_program()?;
        let event = open_event(&clock_attributes(true), 0, -1)?;
        let program = program.as_raw_fd() as u32;
        // SAFETY: an ioctl with a plain number on an owned descriptor.
        match unsafe { pe::ioctls::SET_BPF(event.as_raw_fd(), program) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}
