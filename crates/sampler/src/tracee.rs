//! A process that is held for a moment: its registers, its memory, and running it on to a place.

use machine::Registers;
use std::fs::File;
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long a process may take on its way to a place.
const PATIENCE: Duration = Duration::from_millis(10);

/// How long it is looked after without sleeping.
const EAGER: Duration = Duration::from_micros(300);

/// Passes of a place before the one that is waited for: each is a stop.
const MOST_PASSES: u32 = 100;

/// Of the control register of vectors: how numbers are rounded, and whether small ones are taken for 0.
const UNUSUAL: u32 = 0xe040;

/// A process of ours that is stopped. Dropped, it goes on, with the signal that it stopped for.
pub(crate) struct Tracee {
    pid: libc::pid_t,
    memory: File,
    /// The signal to be delivered when we leave.
    signal: libc::c_int,
    /// Whether it is stopped; else it has ended.
    stopped: bool,
    /// Whether its debug registers were set.
    watched: bool,
}

impl Tracee {
    /// Stops a process. `None` if it cannot be traced, or ended.
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
            watched: false,
        };
        if !tracee.interrupt() {
            return None;
        }
        Some(tracee)
    }

    /// Whether a signal is to be delivered: it is not to be run before that.
    pub fn is_signalled(&self) -> bool {
        self.signal != 0
    }

    /// Reads its memory; `false` if it is not there.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.memory.read_exact_at(buffer, at).is_ok()
    }

    fn integers(&self) -> Option<libc::user_regs_struct> {
        let mut all = MaybeUninit::<libc::user_regs_struct>::zeroed();
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request fills the structure, which is plain data.
        unsafe {
            let done = libc::ptrace(libc::PTRACE_GETREGS, self.pid, nothing, all.as_mut_ptr());
            (done == 0).then(|| all.assume_init())
        }
    }

    /// Its registers.
    pub fn registers(&self) -> Option<Registers> {
        let all = self.integers()?;
        Some(Registers {
            integer: [
                all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8,
                all.r9, all.r10, all.r11, all.r12, all.r13, all.r14, all.r15,
            ],
            flags: all.eflags,
            counter: all.rip,
            thread: Some(all.fs_base),
            vector: self.vectors(),
        })
    }

    /// Its vector registers, unless it rounds as nobody does.
    fn vectors(&self) -> Option<[[u64; 2]; 16]> {
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

    /// Lets it execute one instruction.
    pub fn step(&mut self) -> bool {
        // A breakpoint where it stands would hold it.
        (!self.watched || self.watch(None)) && self.go(libc::PTRACE_SINGLESTEP) == Some(0)
    }

    /// Lets it run until it has come by a place so many times and comes there once more, with a
    /// breakpoint of the processor. `false` if it does not come, or cannot be waited for.
    pub fn run_to(&mut self, place: u64, passes: u32) -> bool {
        if passes > MOST_PASSES || !self.watch(Some(place)) {
            return false;
        }
        for _ in 0..=passes {
            let arrived = self.go(libc::PTRACE_CONT) == Some(0)
                && self.integers().is_some_and(|now| now.rip == place);
            if !arrived {
                return false;
            }
        }
        true
    }

    /// Sets or clears the breakpoint.
    fn watch(&mut self, place: Option<u64>) -> bool {
        let register = |number: usize| {
            offset_of!(libc::user, u_debugreg) + number * size_of::<libc::c_ulonglong>()
        };
        self.watched = place.is_some();
        let set = |number, value| ptrace(libc::PTRACE_POKEUSER, self.pid, register(number), value);
        match place {
            // The first breakpoint, of this thread only; on execution.
            Some(place) => set(0, place) && set(7, 1),
            None => set(7, 0),
        }
    }

    /// Lets it go on and waits until it stops; gives the signal that it stopped for.
    fn go(&mut self, how: libc::c_uint) -> Option<libc::c_int> {
        if self.signal != 0 || !ptrace(how, self.pid, 0, 0) {
            return None;
        }
        self.stopped = false;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            match stop(self.pid, libc::WNOHANG) {
                Stop::Not if started.elapsed() < EAGER => {
                    std::thread::yield_now();
                }
                Stop::Not => std::thread::sleep(EAGER),
                Stop::Ended => return None,
                Stop::At(signal) => {
                    self.stopped = true;
                    self.signal = signal;
                    return Some(signal);
                }
            }
        }
        if self.interrupt() && is_pending(self.pid, libc::SIGTRAP) {
            // It came to the breakpoint as it was interrupted: that trap is ours, and would kill it.
            self.watch(None);
            if ptrace(libc::PTRACE_CONT, self.pid, 0, 0) {
                self.stopped = false;
                if let Stop::At(signal) = stop(self.pid, 0) {
                    self.stopped = true;
                    self.signal = signal;
                }
            }
        }
        None
    }

    fn interrupt(&mut self) -> bool {
        if ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0)
            && let Stop::At(signal) = stop(self.pid, 0)
        {
            self.stopped = true;
            self.signal = signal;
        }
        self.stopped
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.stopped {
            if self.watched {
                self.watch(None);
            }
            ptrace(libc::PTRACE_DETACH, self.pid, 0, self.signal as u64);
        }
    }
}

/// Whether the thread has a signal that it was not given yet.
fn is_pending(pid: libc::pid_t, signal: libc::c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let mask = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, address: usize, data: u64) -> bool {
    // SAFETY: the requests that are made here neither read nor write our memory.
    unsafe { libc::ptrace(request, pid, address, data) == 0 }
}

enum Stop {
    Not,
    /// Which is left for those who wait for that.
    Ended,
    /// For a signal that it is to be given, or 0.
    At(libc::c_int),
}

/// Waits until the process stops.
fn stop(pid: libc::pid_t, options: libc::c_int) -> Stop {
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL | options;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the structure is written through the pointer, and is plain data; the process
        // and the status are the fields of the kind of information that waitid gives.
        let (done, code, who, status) = unsafe {
            let done = libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), what);
            let info = info.assume_init_ref();
            (done, info.si_code, info.si_pid(), info.si_status())
        };
        if done == 0 {
            return match code {
                _ if who == 0 => Stop::Not,
                // Our own steps and interrupts (with an event above the signal) are no signals to it.
                libc::CLD_TRAPPED if status == libc::SIGTRAP || status > 0xff => Stop::At(0),
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
    use machine::Interpreter;
    use std::process::Command;

    /// A branch that the interpreter comes by many times: run to one of these times, the process
    /// goes on as the interpreter says that it does from then on; and it ends as it should.
    #[test]
    fn it_runs_to_the_right_time_of_many() {
        let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exit 9";
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
            let read = |at, buffer: &mut [u8]| tracee.read(at, buffer);
            Interpreter::new().walk(&start, 0, 6000, read, |one| said.push(one));
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
        assert_eq!(child.wait().expect("waited for").code(), Some(9));
        assert!(repeated > 5, "{repeated} times");
        assert!(compared >= repeated, "{compared} branches");
    }
}
