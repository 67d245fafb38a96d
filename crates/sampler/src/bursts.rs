//! Path bursts (DCPI section 7: double sampling): at random times the execution of the command is
//! followed for a stretch, and the branches on the way are counted.
//!
//! Only what we started ourselves is followed, its first thread, while it runs. It is stopped for as
//! long as it takes to interpret what it is about to do, from its registers and its memory; the
//! interpreter keeps what it stores to itself, and the process then does it on its own. That is a
//! hundred times as fast as single steps, each of which is a switch there and back. A stretch ends at
//! what the interpreter does not know: system calls, and branches on vectors. The first instructions
//! are passed over: a random moment is more likely within slow code than within code that is
//! executed often.

use crate::collection::Collection;
use machine::{Interpreter, Registers};
use profile::{ImageKind, ProcessAddress};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

/// Instructions that are passed over, and followed altogether.
const SKIPPED: usize = 200;
const FOLLOWED: usize = 4_000;

/// Follows a process.
pub(crate) struct Bursts {
    pid: libc::pid_t,
    /// The share of its time that following may take.
    share: f64,
    /// Nanoseconds that may be taken now.
    credit: f64,
    /// Its CPU time when the credit was last reckoned.
    used: u64,
    interpreter: Interpreter,
    /// The version of the mappings that the interpreter has seen code of.
    version: u64,
    taken: u64,
    steps: u64,
    stopped_ns: u64,
}

impl Bursts {
    pub fn new(pid: u32, percent: f64) -> Self {
        Self {
            pid: pid as libc::pid_t,
            share: percent / 100.0,
            credit: 0.0,
            used: 0,
            interpreter: Interpreter::new(),
            version: 0,
            taken: 0,
            steps: 0,
            stopped_ns: 0,
        }
    }

    /// Follows a stretch, if it is time to.
    pub fn tick(&mut self, collection: &mut Collection) {
        let Some(used) = cpu_time(self.pid) else {
            return;
        };
        self.credit += self.share * used.saturating_sub(self.used) as f64;
        self.used = used;
        // It may have fallen asleep since it used that time.
        if self.credit <= 0.0 || !runs(self.pid) {
            return;
        }
        let now = crate::clock::monotonic_ns();
        let pid = self.pid as u32;
        let mappings = collection.maps.mappings_at(pid, now);
        let version = mappings.map_or(0, |(_, version)| version);
        if version != self.version {
            self.interpreter = Interpreter::new();
            self.version = version;
        }
        let seen = self.follow();
        let took = crate::clock::monotonic_ns() - now;
        self.credit -= took as f64;
        self.stopped_ns += took;
        self.taken += 1;
        for (branch, target) in seen {
            let branch = collection.locate(pid, now, ProcessAddress(branch));
            let target = collection.locate(pid, now, ProcessAddress(target));
            if branch.image == target.image
                && collection.images.get(branch.image).kind == ImageKind::File
            {
                let edge = (branch.image, branch.offset, target.offset);
                collection.branches.entry(edge).or_default().1 += 1;
            }
        }
    }

    /// What there was, in a sentence.
    pub fn summary(&self) -> String {
        format!(
            "{} instructions were followed in {} path bursts, for which the command was stopped {:.2} s",
            self.steps,
            self.taken,
            self.stopped_ns as f64 * 1e-9
        )
    }

    /// The branches of a stretch, and where they went.
    fn follow(&mut self) -> Vec<(u64, u64)> {
        let mut seen = Vec::new();
        let Ok(memory) = File::open(format!("/proc/{}/mem", self.pid)) else {
            return seen;
        };
        if !ptrace(libc::PTRACE_SEIZE, self.pid, 0) {
            return seen;
        }
        if ptrace(libc::PTRACE_INTERRUPT, self.pid, 0)
            && let Some(signal) = stop(self.pid)
        {
            if let Some(registers) = registers(self.pid) {
                let walked = self.interpreter.walk(
                    &registers,
                    SKIPPED,
                    FOLLOWED,
                    |at, buffer| memory.read_exact_at(buffer, at).is_ok(),
                    |one| seen.push((one.branch.0, one.target.0)),
                );
                self.steps += walked as u64;
            }
            // A signal that it stopped for is delivered when we leave.
            ptrace(libc::PTRACE_DETACH, self.pid, signal);
        }
        seen
    }
}

/// The CPU time of a process, in nanoseconds.
fn cpu_time(pid: libc::pid_t) -> Option<u64> {
    let mut clock = 0;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: both calls write what they promise to where the pointers say, if they succeed.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid, &mut clock) != 0
            || libc::clock_gettime(clock, time.as_mut_ptr()) != 0
        {
            return None;
        }
        time.assume_init()
    };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whether it runs, or wants to.
fn runs(pid: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('R'))
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, data: libc::c_int) -> bool {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests neither read nor write our memory.
    unsafe { libc::ptrace(request, pid, nothing, libc::c_long::from(data)) == 0 }
}

fn registers(pid: libc::pid_t) -> Option<Registers> {
    let mut all = MaybeUninit::<libc::user_regs_struct>::zeroed();
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the request fills the structure, which is plain data.
    let all = unsafe {
        if libc::ptrace(libc::PTRACE_GETREGS, pid, nothing, all.as_mut_ptr()) != 0 {
            return None;
        }
        all.assume_init()
    };
    Some(Registers {
        integer: [
            all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8, all.r9,
            all.r10, all.r11, all.r12, all.r13, all.r14, all.r15,
        ],
        flags: all.eflags,
        counter: all.rip,
        thread: Some(all.fs_base),
    })
}

/// Waits until the process stops; gives the signal that it is to be given. `None` if it ended, which
/// is left for those who wait for that.
fn stop(pid: libc::pid_t) -> Option<libc::c_int> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: the structure is written through the pointer, and is plain data.
        let (done, info) = unsafe {
            let done = libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), what);
            (done, info.assume_init_ref())
        };
        if done == 0 {
            if info.si_code != libc::CLD_TRAPPED {
                return None;
            }
            // SAFETY: the field of the kind of information that waitid gives.
            let status = unsafe { info.si_status() };
            // Our own steps and interrupts (with an event above the signal) are no signals to it.
            return Some(if status == libc::SIGTRAP || status > 0xff {
                0
            } else {
                status
            });
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_followed_and_left_as_it_was() {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 7",
            ])
            .spawn()
            .expect("sh");
        let mut bursts = Bursts::new(child.id(), 50.0);
        let mut collection = Collection::new(1);
        let pid = child.id();
        let mut scanned = false;
        while child.try_wait().expect("a child").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            if !scanned && runs(pid as libc::pid_t) {
                collection.maps.scan_process(pid, &mut collection.images);
                scanned = true;
            }
            bursts.tick(&mut collection);
        }
        assert_eq!(child.wait().expect("a child").code(), Some(7));
        assert!(bursts.steps > 0, "{}", bursts.summary());
        let walked: u64 = collection.branches.values().map(|count| count.1).sum();
        assert!(walked > 0);
    }

    /// Where the process really goes, step by step, and where the interpreter says it would.
    #[test]
    fn what_is_interpreted_is_what_happens() {
        let script = "i=0; a=x; while :; do i=$((i*7+3)); a=\"$a.$((i%10))\"; case $a in *.3.?) a=y;; esac; done";
        let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let pid = child.id() as libc::pid_t;
        let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
        let (mut compared, mut walked) = (0, 0);
        for _ in 0..40 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(ptrace(libc::PTRACE_SEIZE, pid, 0));
            assert!(ptrace(libc::PTRACE_INTERRUPT, pid, 0));
            stop(pid).expect("stopped");
            let start = registers(pid).expect("registers");
            let mut said = Vec::new();
            let read = |at, buffer: &mut [u8]| memory.read_exact_at(buffer, at).is_ok();
            let steps = Interpreter::new().walk(&start, 0, 2000, read, |one| {
                said.push((one.branch.0, one.target.0));
            });
            walked += steps;
            let (mut at, mut said) = (start.counter, said.into_iter().peekable());
            for _ in 0..steps {
                assert!(ptrace(libc::PTRACE_SINGLESTEP, pid, 0));
                stop(pid).expect("stopped");
                let next = registers(pid).expect("registers").counter;
                if let Some((_, target)) = said.next_if(|(branch, _)| *branch == at) {
                    assert_eq!(target, next, "after {at:x}");
                    compared += 1;
                }
                at = next;
            }
            assert_eq!(said.next(), None);
            assert!(ptrace(libc::PTRACE_DETACH, pid, 0));
        }
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(compared > 500, "{compared} branches in {walked} steps");
    }
}
