//! Processes that cannot be attached to, and the reasons.

use super::proc_files::ThreadStatus;
use crate::launch::{ProgramKind, is_go_program, program_kind};
use crate::{Error, maps};
use sampler::process_file;
use sampler::{has_running_threads, thread_ids};
use std::path::Path;

/// The kind of code that is brought into a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WayIn {
    /// The runtime, a library.
    Library,
    /// Only the handler of a signal.
    Handler,
}

/// Refuses processes that the runtime cannot be loaded into, or could not leave unharmed.
pub(super) fn check_process(pid: u32, way: WayIn) -> Result<(), Error> {
    let no = |reason: &str| Err(refusal(pid, reason));
    if !cfg!(target_arch = "x86_64") {
        return no("processes that run can be measured on x86-64 only; start it with `causal run`");
    }
    if pid == std::process::id() {
        return no("that is vitalfew itself");
    }
    let executable = process_file(pid, "exe");
    if let Err(error) = std::fs::metadata(&executable) {
        return match error.kind() {
            std::io::ErrorKind::PermissionDenied => no(NOT_ALLOWED),
            _ => no("it is a thread of the kernel, or has ended"),
        };
    }
    match program_kind(Path::new(&executable)) {
        Some(ProgramKind::Static) if way == WayIn::Library => {
            return no(
                "it is statically linked, so that no library can be loaded into it; link it dynamically",
            );
        }
        Some(ProgramKind::Small) => {
            return no("it is a 32-bit program; only 64-bit programs can be measured");
        }
        Some(ProgramKind::OtherMachine) => {
            return no("it is a program for another processor");
        }
        Some(ProgramKind::OtherLibrary) if way == WayIn::Library => {
            return no(
                "it uses another C library than glibc (musl, Bionic), which the runtime is not made for; build it for glibc",
            );
        }
        Some(_) | None => {}
    }
    check_libraries(pid, way)?;
    for tid in thread_ids(pid) {
        if let Some(status) = ThreadStatus::read(pid, tid) {
            check_thread(pid, &status)?;
        }
    }
    Ok(())
}

const NOT_ALLOWED: &str = "this user may not trace it: run vitalfew as root or with CAP_SYS_PTRACE (kernel.yama.ptrace_scope may forbid it, too)";

fn check_libraries(pid: u32, way: WayIn) -> Result<(), Error> {
    for mapping in maps::read_mappings(pid) {
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        let reason = if name.starts_with("libvitalfew_runtime") {
            "it was started by vitalfew, with the runtime in it; start it without"
        } else if way == WayIn::Library
            && ["libasan.so", "libtsan.so", "libmsan.so"]
                .iter()
                .any(|sanitizer| name.starts_with(sanitizer))
        {
            "it runs under a sanitizer, which stands in front of the same functions; build it without -fsanitize"
        } else {
            continue;
        };
        return Err(refusal(pid, reason));
    }
    if way == WayIn::Library && is_go_program(Path::new(&process_file(pid, "exe"))) {
        return Err(refusal(
            pid,
            "it is a Go program: its runtime does not expect functions of ours, and goroutines are no threads",
        ));
    }
    Ok(())
}

fn check_thread(pid: u32, status: &ThreadStatus) -> Result<(), Error> {
    let no = |reason: &str| Err(refusal(pid, reason));
    if let Some(tracer) = status.field("TracerPid").filter(|tracer| *tracer != "0") {
        return Err(refusal(
            pid,
            &format!("process {tracer} traces it already (a debugger, strace)"),
        ));
    }
    if status.field("Seccomp").is_some_and(|mode| mode != "0") {
        return no(
            "it has restricted its system calls (seccomp), and ours could end it; start it without that",
        );
    }
    let features = status.field("x86_Thread_features").unwrap_or_default();
    if features.contains("shstk") {
        return no(
            "it uses a shadow stack, on which our return addresses are missing; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
        );
    }
    match status.field("State").and_then(|state| state.chars().next()) {
        Some('T' | 't') => no("it is stopped; let it go on first (kill -CONT)"),
        // After the end of the first thread others may run on.
        Some('Z' | 'X') if !has_running_threads(pid) => no("it has ended"),
        _ => Ok(()),
    }
}

/// Returns the error for a thread that the kernel does not let this process trace.
pub(super) fn not_traceable(pid: u32, source: &std::io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM) => refusal(pid, NOT_ALLOWED),
        _ => refusal(pid, &format!("a thread of it cannot be traced: {source}")),
    }
}

/// Returns the error for a process that is unchanged.
pub(crate) fn refusal(pid: u32, reason: &str) -> Error {
    Error::NotAttachable {
        pid,
        reason: reason.to_owned(),
    }
}
