//! A process stopped by ptrace: its registers, its memory, and running it to a place.

use crate::events::breakpoint::{Breakpoint, is_ours, signal_for};
use machine::Registers;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Longest time for a process to reach a place.
const PATIENCE: Duration = Duration::from_millis(10);

/// Time for which its stop is polled without sleeping, and the length of each sleep after that.
const EAGER: Duration = Duration::from_micros(300);

/// Maximum number of earlier passes of a place: each is an exception.
const MOST_PASSES: u32 = 100;

/// Flag (RF) with which a process continues from a breakpoint without stopping there again.
const RESUMES: u64 = 1 << 16;

/// Bits of the vector control register (MXCSR) that set the rounding mode and flush denormals to
/// zero.
const UNUSUAL: u32 = 0xe040;

/// A stopped process. On drop it continues, with the signal that it stopped for. It also continues
/// unharmed if vitalfew is killed: the breakpoints' signals end no process.
pub(crate) struct Tracee {
    pid: libc::pid_t,
    memory: File,
    /// The signal to deliver when tracing ends.
    signal: libc::c_int,
    /// True if it is stopped; otherwise it has ended.
    stopped: bool,
    /// Breakpoint for the place to run to, once there was one.
    breakpoint: Option<Breakpoint>,
}

impl Tracee {
    /// Stops a process. `None` if it cannot be traced, or has ended.
    pub fn attach(pid: libc::pid_t) -> Option<Self> {
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        if !ptrace(libc::PTRACE_SEIZE, pid, 0, 0) {
            return None;
        }
        let mut tracee = Self {
            pid,
            memory,
            signal: 0,
            stopped: false,
            breakpoint: None,
        };
        if !tracee.interrupt_process() {
            return None;
        }
        Some(tracee)
    }

    /// Returns whether a signal is pending for delivery; the process must not run before that.
    pub fn is_signalled(&self) -> bool {
        self.signal != 0
    }

    /// Reads its memory; `false` if the address is not mapped.
    pub fn read_memory(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.memory.read_exact_at(buffer, at).is_ok()
    }

    fn integer_registers(&self) -> Option<libc::user_regs_struct> {
        let mut all = MaybeUninit::<libc::user_regs_struct>::zeroed();
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request fills the structure, which is plain data.
        unsafe {
            let done = libc::ptrace(libc::PTRACE_GETREGS, self.pid, nothing, all.as_mut_ptr());
            (done == 0).then(|| all.assume_init())
        }
    }

    /// Reads its registers.
    pub fn registers(&self) -> Option<Registers> {
        let all = self.integer_registers()?;
        Some(Registers {
            integer: [
                all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8,
                all.r9, all.r10, all.r11, all.r12, all.r13, all.r14, all.r15,
            ],
            flags: all.eflags,
            counter: all.rip,
            thread: Some(all.fs_base),
            vector: self.vector_registers(),
        })
    }

    /// Reads its vector registers; `None` if it uses an unusual rounding mode.
    fn vector_registers(&self) -> Option<[[u64; 2]; 16]> {
        let mut all = MaybeUninit::<libc::user_fpregs_struct>::zeroed();
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request fills the structure, which is plain data.
        let all = unsafe {
            let done = libc::ptrace(libc::PTRACE_GETFPREGS, self.pid, nothing, all.as_mut_ptr());
            (done == 0).then(|| all.assume_init())?
        };
        let quarter = |index: usize| u64::from(all.xmm_space.get(index).copied().unwrap_or(0));
        let half = |index: usize| quarter(index) | quarter(index + 1) << 32;
        (all.mxcsr & UNUSUAL == 0)
            .then(|| std::array::from_fn(|index| [half(4 * index), half(4 * index + 2)]))
    }

    /// Runs it to a hardware breakpoint until it has passed a place `passes` times and reaches it
    /// once more. `false` if it does not arrive, or cannot be waited for.
    pub fn run_to(&mut self, place: u64, passes: u32) -> bool {
        if passes > MOST_PASSES {
            return false;
        }
        let Some(now) = self.integer_registers() else {
            return false;
        };
        // A breakpoint at the current instruction stops it there first.
        let held = now.rip == place && now.eflags & RESUMES == 0;
        let times = u64::from(passes) + 1 + u64::from(held);
        let set = match &mut self.breakpoint {
            Some(breakpoint) => breakpoint.move_to(place, times).is_ok(),
            none => {
                let signal = signal_for(self.pid);
                *none = signal
                    .and_then(|of| Breakpoint::set_breakpoint(self.pid, place, times, of).ok());
                none.is_some()
            }
        };
        if !set {
            return false;
        }
        self.resume_until_stop(libc::PTRACE_CONT)
            && self.integer_registers().is_some_and(|now| now.rip == place)
    }

    /// Continues it and waits for a stop. `false` if it does not stop, or stops for a signal of its
    /// own.
    fn resume_until_stop(&mut self, how: libc::c_uint) -> bool {
        if self.signal != 0 || !ptrace(how, self.pid, 0, 0) {
            return false;
        }
        self.stopped = false;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            match wait_for_stop(self.pid, libc::WNOHANG) {
                Stop::Not if started.elapsed() < EAGER => {
                    std::thread::yield_now();
                }
                Stop::Not => std::thread::sleep(EAGER),
                Stop::Ended => return false,
                Stop::At(signal) => {
                    self.stopped_for(signal);
                    return self.signal == 0;
                }
            }
        }
        self.interrupt_process();
        false
    }

    fn interrupt_process(&mut self) -> bool {
        if ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0)
            && let Stop::At(signal) = wait_for_stop(self.pid, 0)
        {
            self.stopped_for(signal);
        }
        self.stopped
    }

    /// Records a stop. Breakpoint signals are not delivered to the process.
    fn stopped_for(&mut self, signal: libc::c_int) {
        self.stopped = true;
        let ours = signal != 0 && is_ours(signal, self.signal_code());
        self.signal = if ours { 0 } else { signal };
    }

    /// Returns the code of the signal that it stopped for; 0 if unknown.
    fn signal_code(&self) -> libc::c_int {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request fills the structure, which is plain data.
        unsafe {
            libc::ptrace(
                libc::PTRACE_GETSIGINFO,
                self.pid,
                nothing,
                info.as_mut_ptr(),
            );
            info.assume_init().si_code
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        self.breakpoint = None;
        if self.stopped {
            ptrace(libc::PTRACE_DETACH, self.pid, 0, self.signal as u64);
        }
    }
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, address: usize, data: u64) -> bool {
    // SAFETY: the requests made here access no memory of this process.
    unsafe { libc::ptrace(request, pid, address, data) == 0 }
}

enum Stop {
    Not,
    /// The process has ended; its status is left for a later wait.
    Ended,
    /// The process has stopped for a signal to deliver, or for none (0).
    At(libc::c_int),
}

/// Waits until the process stops.
fn wait_for_stop(pid: libc::pid_t, options: libc::c_int) -> Stop {
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL | options;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the structure is plain data, written through the pointer; waitid fills in the
        // fields for process and status.
        let (done, code, who, status) = unsafe {
            let done = libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), what);
            let info = info.assume_init_ref();
            (done, info.si_code, info.si_pid(), info.si_status())
        };
        if done == 0 {
            return match code {
                _ if who == 0 => Stop::Not,
                // Interrupts of the tracer, which have an event above the signal, are no signals to
                // the process.
                libc::CLD_TRAPPED if status > 0xff => Stop::At(0),
                libc::CLD_TRAPPED => Stop::At(status),
                _ => Stop::Ended,
            };
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Stop::Ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::CodeInterpreter;
    use std::process::Command;

    impl Tracee {
        /// Executes one instruction of it.
        pub fn step(&mut self) -> bool {
            self.breakpoint = None;
            self.resume_until_stop(libc::PTRACE_SINGLESTEP);
            let stepped = self.stopped && self.signal == libc::SIGTRAP;
            if stepped {
                self.signal = 0;
            }
            stepped
        }
    }

    /// A branch that is passed many times: run to one of these times, the process continues as the
    /// interpreter predicts, and ends as it should.
    #[test]
    fn it_runs_to_the_right_time_of_many() {
        // Loops until it is told to end: on a busy machine a fixed number of rounds may end too
        // early.
        let script = "trap 'exit 9' TERM; i=0; while :; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let pid = child.id() as libc::pid_t;
        let (mut repeated, mut compared) = (0, 0);
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(3));
            let Some(mut tracee) = Tracee::attach(pid) else {
                break;
            };
            let start = tracee.registers().expect("registers");
            let mut said = Vec::new();
            let read = |at, buffer: &mut [u8]| tracee.read_memory(at, buffer);
            CodeInterpreter::new().walk(&start, 0, 6000, read, |one| said.push(one));
            let passes = |turn: usize| {
                let branch = said[turn].branch;
                said[..turn]
                    .iter()
                    .filter(|one| one.branch == branch)
                    .count() as u32
            };
            let Some(turn) = (0..said.len())
                .rev()
                .find(|turn| (1..20).contains(&passes(*turn)))
            else {
                continue;
            };
            let (branch, from) = (said[turn].branch.0, &said[turn..]);
            if start.counter == branch || !tracee.run_to(branch, passes(turn)) {
                continue;
            }
            repeated += 1;
            let (mut at, mut from) = (branch, from.iter().take(40).peekable());
            while from.peek().is_some() && tracee.step() {
                let next = tracee.registers().expect("registers").counter;
                if let Some(one) = from.next_if(|one| one.branch.0 == at) {
                    assert_eq!(one.target.0, next, "after {at:x}");
                    compared += 1;
                }
                at = next;
            }
        }
        // SAFETY: a signal to a child of this process.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        assert_eq!(child.wait().expect("waited for").code(), Some(9));
        assert!(repeated > 5, "{repeated} times");
        assert!(compared >= repeated, "{compared} branches");
    }
}
