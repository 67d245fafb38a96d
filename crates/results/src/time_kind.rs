//! Activity of a thread, by the names on its stack.

use crate::swapping::MemoryWork;
use analysis::interference::waits_for;
use profile::known_code::{CodeKind, FunctionRole, KnownCode, has_role};
use profile::{
    ANSWERING_CALLS, CauseKind, GIL_WAIT, Location, Recording, SocketUse, TimeKind, plain_name,
};

/// Part of a program's samples above which a system call that answers requests counts its work: a
/// call of 20 us is then made 250 times a second.
const ANSWERED: f64 = 0.005;
/// Maximum number of frames of a stack's user part, from the innermost, whose names identify a
/// wait.
const NAMED_FRAMES: usize = 8;
/// The same limit with inlined functions, of which C++'s barrier consists.
const INLINED_FRAMES: usize = 16;

/// A wait that brings no gain if shortened: another part of the program, or its user, decides how
/// long it takes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum IdleKind {
    /// Waiting for requests: epoll, accept, poll.
    Requests,
    /// Waiting for other threads: a condition, a semaphore, the end of a thread.
    Threads,
    /// Waiting for other processes: a child, the other end of a pipe.
    Processes,
    /// Waiting for input at a terminal.
    Terminal,
    /// Waiting for CPUs that other threads of the program had, if these may use all CPUs.
    Cpus,
    /// Waiting for its next turn: a thread that sleeps nearly always, beside others that work.
    Turn,
    /// Waiting for a CPU that vitalfew used for measuring.
    Profiler,
}

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// A wait that the program could do without.
    Costly(TimeKind),
    /// A wait that is no loss.
    Idle(IdleKind),
}

/// The name of a system call, as in the kernel's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCallName<'a>(pub &'a str);

impl<'a> SystemCallName<'a> {
    /// Returns the system call of a kernel function. If several are nested, the outer one may not
    /// be on the stack, because it ends with the call of the inner one.
    pub fn of_function(name: &'a str) -> Option<Self> {
        let prefixes = [
            "__x64_sys_",
            "__arm64_sys_",
            "__ia32_sys_",
            "__se_sys_",
            "__do_sys_",
            "__sys_",
            "ksys_",
        ];
        let mut names = prefixes.iter().filter_map(|p| name.strip_prefix(p));
        names.next().map(Self)
    }

    /// Returns the system call of a stack's kernel part, innermost first, whose own function is
    /// missing: usually the outermost function after the entry, such as `do_futex`, has its name.
    pub fn of_kernel_part(kernel: &[&'a str]) -> Option<Self> {
        let mut outermost = kernel.iter().rev();
        let inside = outermost.find(|name| !is_entry(name))?;
        Some(Self(inside.strip_prefix("do_").unwrap_or(inside)))
    }
}

/// Returns whether a kernel function only leads to that of a system call.
fn is_entry(name: &str) -> bool {
    has_role(name, FunctionRole::KernelEntry)
}

/// Returns the answering system call that has most samples of running threads, if the program
/// spends notable time in it.
pub fn answering_call(recording: &Recording) -> Option<&'static str> {
    let mut samples = [0; ANSWERING_CALLS.len()];
    let mut all = 0;
    for sample in recording.samples.iter().filter(|s| s.event.0 == 0) {
        all += sample.count;
        let locations = recording.stacks.locations(sample.stack);
        let mut names = locations.filter_map(|at| kernel_name(recording, at));
        let call = names.find_map(SystemCallName::of_function);
        let known = call.and_then(|call| ANSWERING_CALLS.iter().position(|name| *name == call.0));
        if let Some(at) = known {
            samples[at] += sample.count;
        }
    }
    let counted = samples.into_iter().zip(ANSWERING_CALLS);
    let (most, call) = counted.max_by_key(|(count, _)| *count)?;
    (most as f64 >= ANSWERED * all as f64 && most > 0).then_some(call)
}

/// Returns whether a thread of a program waited for input at a terminal.
pub fn waits_for_typing(recording: &Recording) -> bool {
    recording.samples.iter().any(|sample| {
        recording.event(sample.event).name == "off-cpu"
            && (recording.stacks.locations(sample.stack))
                .any(|at| kernel_name(recording, at) == Some("n_tty_read"))
    })
}

/// Returns the name of a kernel function. Recordings carry these names sorted by image and start.
fn kernel_name(recording: &Recording, at: Location) -> Option<&str> {
    let symbols = &recording.symbols;
    let behind = symbols.partition_point(|one| (one.image, one.start) <= (at.image, at.offset));
    let symbol = symbols.get(behind.checked_sub(1)?)?;
    (symbol.image == at.image).then_some(&*symbol.name)
}

/// Returns whether the kernel's names show a system call, of any name.
fn is_system_call(kernel: &[&str]) -> bool {
    let is_call = |name: &&str| SystemCallName::of_function(name).is_some() || is_entry(name);
    kernel.iter().any(is_call)
}

/// Parts of the names of kernel functions in which threads wait for a disk: for a page, for a
/// block, for the whole of a direct read, for the flush of a synchronous write.
const DISK_WAITS: [&str; 12] = [
    "fsync_range",
    "sync_file",
    "wait_commit",
    "issue_flush",
    "submit_bio",
    "io_schedule",
    "folio_",
    "bit_wait",
    "_dio_",
    "direct_IO",
    "_file_read_iter",
    "_file_write_iter",
];

/// Kernel functions that wake a thread at the end of its time, and at a signal.
const TIMER: &str = "hrtimer_wakeup";
const SIGNAL: &str = "signal_wake_up_state";

/// Reason of a wake-up that is not the awaited event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakingKind {
    /// Its time was over.
    Timer,
    /// A signal, such as the end of a child.
    Signal,
}

impl WakingKind {
    /// Returns the waking event, by the kernel's names on the waker's stack.
    pub fn of_waker(kernel: &[&str]) -> Option<Self> {
        if kernel.contains(&TIMER) {
            return Some(Self::Timer);
        }
        kernel.contains(&SIGNAL).then_some(Self::Signal)
    }
}

/// Parts of the names of OpenMP functions that wait.
const OPENMP_WAITS: [&str; 3] = ["barrier", "wait", "spin"];

/// Returns whether a running thread spins until the other threads of its team are done: the
/// innermost user function is OpenMP's, and no OpenMP function that called it hands out work.
/// `user` has the names with their files, innermost first. Nameless OpenMP code counts as waiting.
pub fn spins_for_team(user: &[(&str, &str)]) -> bool {
    let is_openmp =
        |path: &str| KnownCode::of_file(path).is_some_and(|code| code.kind == CodeKind::Team);
    let inside: Vec<&str> = user
        .iter()
        .take_while(|(_, path)| is_openmp(path))
        .map(|(name, _)| *name)
        .collect();
    let waits = |name: &str| {
        let lower = name.to_ascii_lowercase();
        name.starts_with('[') || OPENMP_WAITS.iter().any(|part| lower.contains(part))
    };
    let hands_out = |name: &&str| has_role(name, FunctionRole::HandsOut);
    inside.first().is_some_and(|name| waits(name)) && !inside.iter().any(hands_out)
}

/// Circumstances of the waits at one place: their ends, and other activity meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitSurroundings {
    /// True if the program has no other thread that could work meanwhile.
    pub alone: bool,
    /// What the program's sockets are for, if known. A client waits for answers, a server for
    /// requests.
    pub sockets: Option<SocketUse>,
    /// True if only timers and signals end waits there.
    pub only_timers: bool,
    /// True if the program swaps.
    pub swaps: bool,
}

/// Returns the reason of a blocked thread's wait. `user` and `kernel` are the names on its stack,
/// innermost first, `inlined` those of the user part with inlined functions.
pub fn wait_kind(
    user: &[&str],
    inlined: &[&str],
    kernel: &[&str],
    around: WaitSurroundings,
) -> WaitKind {
    use IdleKind::{Processes, Requests, Terminal, Threads};
    use WaitKind::{Costly, Idle};
    if user.first() == Some(&GIL_WAIT) {
        return Costly(TimeKind::Locks);
    }
    // Before locks, because the kernel takes some of its own on the path to a page.
    if MemoryWork::is_swapping(kernel, around.swaps) {
        return Costly(TimeKind::Swapping);
    }
    let in_kernel = |part: &str| kernel.iter().any(|name| name.contains(part));
    let call = kernel
        .iter()
        .find_map(|name| SystemCallName::of_function(name));
    let call = match call {
        Some(SystemCallName(call)) => call,
        None if in_kernel("fault") => return Costly(TimeKind::Disk),
        // The call's own function may be missing on the stack: usually the caller is the C
        // library's function of its name.
        None => user.first().map_or("", |name| plain_name(name)),
    };
    let mut inner = user.iter().take(NAMED_FRAMES);
    if inner.any(|name| has_role(name, FunctionRole::RuntimeWait)) {
        return Idle(Threads);
    }
    let by_name = || {
        let names = user.iter().take(NAMED_FRAMES);
        let mut names = names.chain(inlined.iter().take(INLINED_FRAMES));
        names.find_map(|name| waits_for(name))
    };
    let (network, event) = match around.sockets {
        Some(SocketUse::Client) => (Costly(TimeKind::Network), Costly(TimeKind::Network)),
        None if around.alone => (Costly(TimeKind::Network), Idle(Requests)),
        _ => (Idle(Requests), Idle(Requests)),
    };
    if in_kernel("rwsem_down") || in_kernel("mmap_lock") || in_kernel("mutex_lock") {
        return Costly(TimeKind::Locks);
    }
    match call {
        "nanosleep" | "clock_nanosleep" | "timerfd_read" => Costly(TimeKind::Sleeping),
        "futex" | "futex_wait" | "futex_waitv" => match by_name() {
            Some(CauseKind::Barrier) => Costly(TimeKind::Barriers),
            Some(CauseKind::Lock | CauseKind::Allocator) => Costly(TimeKind::Locks),
            _ => Idle(Threads),
        },
        "flock" | "fcntl" => Costly(TimeKind::Locks),
        "accept" | "accept4" | "io_getevents" => Idle(Requests),
        // Some languages sleep like this: only timers end these waits.
        "poll" | "ppoll" | "select" | "pselect6" if around.only_timers => {
            Costly(TimeKind::Sleeping)
        }
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" => event,
        "wait4" | "waitid" | "vfork" | "rt_sigtimedwait" | "rt_sigsuspend" | "pause" => {
            Idle(Processes)
        }
        "recvfrom" | "recvmsg" | "recvmmsg" => network,
        "sendto" | "sendmsg" | "sendmmsg" | "connect" => Costly(TimeKind::Network),
        _ if in_kernel("pipe_") => Idle(Processes),
        _ if in_kernel("n_tty_") || in_kernel("tty_") => Idle(Terminal),
        _ if in_kernel("timerfd_") => Costly(TimeKind::Sleeping),
        _ if in_kernel("eventfd_") => Idle(Threads),
        _ if in_kernel("sock_") || in_kernel("tcp_") || in_kernel("unix_stream_") => network,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => {
            Costly(TimeKind::Disk)
        }
        _ if DISK_WAITS.iter().any(|part| in_kernel(part)) => Costly(TimeKind::Disk),
        _ => Costly(TimeKind::OtherWaits),
    }
}

/// Returns the activity of a thread on a CPU, by the kernel's names on its stack and whether its
/// program swaps.
pub fn running_kind(kernel: &[&str], program_swaps: bool) -> TimeKind {
    if MemoryWork::is_swapping(kernel, program_swaps) {
        return TimeKind::Swapping;
    }
    if is_system_call(kernel) {
        return TimeKind::SystemCalls;
    }
    if kernel.iter().any(|name| name.contains("page_fault")) {
        TimeKind::PageFaults
    } else {
        TimeKind::Computing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(user: &[&str], kernel: &[&str]) -> WaitKind {
        wait_kind(user, &[], kernel, WaitSurroundings::default())
    }

    #[test]
    fn waits_are_known_by_the_call_and_by_who_made_it() {
        let futex = ["futex_wait_queue", "__x64_sys_futex", "do_syscall_64"];
        let lock = kind(&["__lll_lock_wait", "pthread_mutex_lock", "f"], &futex);
        assert_eq!(lock, WaitKind::Costly(TimeKind::Locks));
        assert_eq!(
            kind(&[GIL_WAIT, "f"], &[]),
            WaitKind::Costly(TimeKind::Locks)
        );
        let barrier = kind(&["pthread_barrier_wait", "f"], &futex);
        assert_eq!(barrier, WaitKind::Costly(TimeKind::Barriers));
        let condition = kind(&["pthread_cond_wait", "f"], &futex);
        assert_eq!(condition, WaitKind::Idle(IdleKind::Threads));
        let saved = kind(&["fsync"], &["folio_wait_bit", "__x64_sys_fsync"]);
        assert_eq!(saved, WaitKind::Costly(TimeKind::Disk));
        let direct = ["__iomap_dio_rw", "vfs_read", "__x64_sys_pread64"];
        let direct = kind(&["pread64"], &direct);
        assert_eq!(direct, WaitKind::Costly(TimeKind::Disk));
        let flushed = ["submit_bio_wait", "blkdev_issue_flush", "ksys_write"];
        let flushed = kind(&["write", "append_entry"], &flushed);
        assert_eq!(flushed, WaitKind::Costly(TimeKind::Disk));
        let piped = kind(&["read"], &["anon_pipe_read", "__x64_sys_read"]);
        assert_eq!(piped, WaitKind::Idle(IdleKind::Processes));
        let received = ["tcp_recvmsg", "__x64_sys_recvfrom"];
        assert_eq!(kind(&[], &received), WaitKind::Idle(IdleKind::Requests));
        let child = kind(&["__GI___wait4", "run_helper"], &["do_wait", "schedule"]);
        assert_eq!(child, WaitKind::Idle(IdleKind::Processes));
        let looks_for_work = ["runtime.usleep.abi0", "runtime.runqgrab"];
        let slept = ["hrtimer_nanosleep", "__x64_sys_nanosleep"];
        let slept = kind(&looks_for_work, &slept);
        assert_eq!(slept, WaitKind::Idle(IdleKind::Threads));
        let stopped = ["syscall", "LinuxWaitBarrier::wait(int)", "work"];
        let stopped = kind(&stopped, &futex);
        assert_eq!(stopped, WaitKind::Idle(IdleKind::Threads));
        let alone = WaitSurroundings {
            alone: true,
            ..WaitSurroundings::default()
        };
        let alone = wait_kind(&[], &[], &received, alone);
        assert_eq!(alone, WaitKind::Costly(TimeKind::Network));
    }

    #[test]
    fn clients_wait_for_answers_and_servers_for_requests() {
        let (received, polled) = (
            ["tcp_recvmsg", "__x64_sys_recvfrom"],
            ["__x64_sys_epoll_wait"],
        );
        let of = |kernel: &[&str], sockets, alone| {
            let around = WaitSurroundings {
                sockets,
                alone,
                ..WaitSurroundings::default()
            };
            wait_kind(&[], &[], kernel, around)
        };
        for kernel in [&received[..], &polled] {
            let client = of(kernel, Some(SocketUse::Client), false);
            assert_eq!(client, WaitKind::Costly(TimeKind::Network));
            let server = of(kernel, Some(SocketUse::Server), true);
            assert_eq!(server, WaitKind::Idle(IdleKind::Requests));
        }
    }

    #[test]
    fn a_barrier_that_was_compiled_into_its_caller_is_known() {
        let futex = ["futex_wait_queue", "__x64_sys_futex", "do_syscall_64"];
        let user = ["syscall", "World::live(bool)"];
        let inlined = [
            "syscall",
            "void std::__detail::__platform_wait<int>(int const*, int)",
            "std::barrier<std::__empty_completion>::arrive_and_wait()",
            "World::live(bool)",
        ];
        let around = WaitSurroundings::default();
        let waits = wait_kind(&user, &inlined, &futex, around);
        assert_eq!(waits, WaitKind::Costly(TimeKind::Barriers));
        let waits = wait_kind(&user, &user, &futex, around);
        assert_eq!(waits, WaitKind::Idle(IdleKind::Threads));
    }

    #[test]
    fn who_spins_in_openmp_waits_for_its_team() {
        let gomp = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0";
        let (nameless, end) = ("[function at 0x1f780]", "[function at 0x1e2d0]");
        let app = ("reduce", "/home/me/app");
        assert!(spins_for_team(&[(nameless, gomp), (end, gomp), app]));
        assert!(spins_for_team(&[("gomp_team_barrier_wait_end", gomp), app]));
        let omp = "/usr/lib/llvm-14/lib/libomp.so.5";
        assert!(spins_for_team(&[("__kmp_flag_64<>::wait", omp)]));
        let next = "GOMP_loop_nonmonotonic_dynamic_next";
        assert!(!spins_for_team(&[(nameless, gomp), (next, gomp), app]));
        assert!(!spins_for_team(&[("GOMP_parallel", gomp), app]));
        assert!(!spins_for_team(&[app, ("GOMP_parallel", gomp)]));
    }

    #[test]
    fn a_poll_that_only_timers_end_is_a_sleep() {
        let waker = ["try_to_wake_up", "hrtimer_wakeup", "hrtimer_interrupt"];
        assert_eq!(WakingKind::of_waker(&waker), Some(WakingKind::Timer));
        let child = ["try_to_wake_up", "signal_wake_up_state", "do_notify_parent"];
        assert_eq!(WakingKind::of_waker(&child), Some(WakingKind::Signal));
        assert_eq!(WakingKind::of_waker(&["try_to_wake_up", "pollwake"]), None);
        let poll = ["do_sys_poll", "__x64_sys_ppoll", "do_syscall_64"];
        let timed = |only_timers| WaitSurroundings {
            alone: true,
            only_timers,
            ..WaitSurroundings::default()
        };
        let slept = wait_kind(&["ppoll", "sleep"], &[], &poll, timed(true));
        assert_eq!(slept, WaitKind::Costly(TimeKind::Sleeping));
        let served = wait_kind(&["ppoll", "serve"], &[], &poll, timed(false));
        assert_eq!(served, WaitKind::Idle(IdleKind::Requests));
    }

    #[test]
    fn interrupts_are_the_time_of_the_code_that_they_interrupt() {
        let tick = running_kind(
            &["run_timer_softirq", "asm_sysvec_apic_timer_interrupt"],
            false,
        );
        assert_eq!(tick, TimeKind::Computing);
        // __x64_sys_write ends with the call of ksys_write.
        let written = ["vfs_write", "ksys_write", "do_syscall_64"];
        assert_eq!(running_kind(&written, false), TimeKind::SystemCalls);
        // __x64_sys_sendto ends with the call of __sys_sendto.
        let sent = SystemCallName::of_function("__sys_sendto");
        assert_eq!(sent, Some(SystemCallName("sendto")));
        assert_eq!(SystemCallName::of_function("___sys_sendmsg"), None);
        let woken = [
            "try_to_wake_up",
            "do_futex",
            "x64_sys_call",
            "do_syscall_64",
        ];
        let futex = SystemCallName::of_kernel_part(&woken);
        assert_eq!(futex, Some(SystemCallName("futex")));
        assert_eq!(SystemCallName::of_kernel_part(&["do_syscall_64"]), None);
        assert_eq!(
            running_kind(&["clear_page", "asm_exc_page_fault"], false),
            TimeKind::PageFaults
        );
    }
    #[test]
    fn swapping_is_neither_a_disk_nor_a_page_fault() {
        let swaps = WaitSurroundings {
            swaps: true,
            ..WaitSurroundings::default()
        };
        let swapped_out = [
            "io_schedule",
            "folio_wait_bit_common",
            "__folio_lock_or_retry",
            "do_swap_page",
            "handle_mm_fault",
            "asm_exc_page_fault",
        ];
        let swapping = WaitKind::Costly(TimeKind::Swapping);
        assert_eq!(wait_kind(&["look_up"], &[], &swapped_out, swaps), swapping);
        let mapped = ["io_schedule", "filemap_fault", "asm_exc_page_fault"];
        let mapped = wait_kind(&["look_up"], &[], &mapped, swaps);
        assert_eq!(mapped, WaitKind::Costly(TimeKind::Disk));
        // Into memory that was swapped out.
        let read = [
            "submit_bio_wait",
            "swap_read_folio",
            "do_swap_page",
            "ksys_read",
        ];
        assert_eq!(wait_kind(&["read"], &[], &read, swaps), swapping);
        let compressed = [
            "lzo1x_decompress_safe",
            "zram_submit_bio",
            "swap_read_folio",
            "do_swap_page",
            "asm_exc_page_fault",
        ];
        assert_eq!(running_kind(&compressed, true), TimeKind::Swapping);
        let freed = ["free_swap_cache", "unmap_page_range", "__x64_sys_munmap"];
        assert_eq!(running_kind(&freed, true), TimeKind::SystemCalls);
    }

    #[test]
    fn making_room_is_swapping_where_the_program_swaps() {
        let fault = [
            "shrink_folio_list",
            "do_try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "asm_exc_page_fault",
        ];
        assert_eq!(running_kind(&fault, true), TimeKind::Swapping);
        assert_eq!(running_kind(&fault, false), TimeKind::PageFaults);
        let written = [
            "try_to_free_mem_cgroup_pages",
            "ksys_write",
            "do_syscall_64",
        ];
        assert_eq!(running_kind(&written, false), TimeKind::SystemCalls);
    }
}
