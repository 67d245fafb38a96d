//! Path bursts (DCPI section 7: double sampling): at random times the execution of the command is
//! followed for a stretch, and its branches are counted.
//!
//! Only the first thread of a launched command is followed, while it runs. The thread is stopped
//! while the interpreter predicts its next instructions from its registers and its memory. The
//! interpreter keeps its stores to itself; then the process executes the instructions natively.
//! This is a hundred times as fast as single steps, each of which takes two context switches. At an
//! instruction that the interpreter cannot model (a system call, for example), the process runs
//! natively to a hardware breakpoint and is followed from there: code after such places must not be
//! seen more rarely. The first instructions are skipped: a random moment is more likely within slow
//! code than within frequent code.

use crate::processes::ProcessStat;
use crate::processes::tracee::Tracee;
use crate::recording::collection::Collection;
use machine::{CodeInterpreter, Registers, WalkExtent};
use profile::{ImageKind, ProcessAddress};
use std::mem::MaybeUninit;

/// Number of instructions skipped, and followed altogether.
const SKIPPED: usize = 200;
const FOLLOWED: usize = 4_000;

/// System calls that mostly end soon, and may be interrupted if they do not.
const SHORT_CALLS: [libc::c_long; 22] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_stat,
    libc::SYS_newfstatat,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_getpid,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
];

/// Follows a process.
pub(crate) struct Bursts {
    pid: libc::pid_t,
    /// The fraction of the process's time that following may take.
    share: f64,
    /// Nanoseconds that following may take now.
    credit: f64,
    /// CPU time of the process when the credit was last updated.
    used: u64,
    interpreter: CodeInterpreter,
    /// The version of the mappings whose code the interpreter has read.
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
            interpreter: CodeInterpreter::new(),
            version: 0,
            taken: 0,
            steps: 0,
            stopped_ns: 0,
        }
    }

    /// Follows a stretch, if it is due.
    pub fn tick(&mut self, collection: &mut Collection) {
        let Some(used) = cpu_time(self.pid) else {
            return;
        };
        self.credit += self.share * used.saturating_sub(self.used) as f64;
        self.used = used;
        // The process may have fallen asleep since then.
        if self.credit <= 0.0 || !wants_to_run(self.pid) {
            return;
        }
        let now = crate::clock::monotonic_ns();
        let pid = self.pid as u32;
        let mappings = collection.maps.mappings_at(pid, now);
        let version = mappings.map_or(0, |(_, version)| version);
        if version != self.version {
            self.interpreter = CodeInterpreter::new();
            self.version = version;
        }
        let seen = self.follow_stretch();
        let took = crate::clock::monotonic_ns() - now;
        self.credit -= took as f64;
        self.stopped_ns += took;
        self.taken += 1;
        for (branch, target) in seen {
            let branch = collection.locate_address(pid, now, ProcessAddress(branch));
            let target = collection.locate_address(pid, now, ProcessAddress(target));
            if branch.image == target.image
                && collection.images.get(branch.image).kind == ImageKind::File
            {
                let edge = (branch.image, branch.offset, target.offset);
                collection.branches.entry(edge).or_default().1 += 1;
            }
        }
    }

    /// Returns a summary of the bursts, in a sentence.
    pub fn describe_bursts(&self) -> String {
        format!(
            "{} instructions were followed in {} path bursts, for which the command was stopped {:.2} s",
            self.steps,
            self.taken,
            self.stopped_ns as f64 * 1e-9
        )
    }

    /// Follows a stretch and returns its branches with their targets.
    fn follow_stretch(&mut self) -> Vec<(u64, u64)> {
        let mut seen = Vec::new();
        let Some(mut tracee) = Tracee::attach(self.pid) else {
            return seen;
        };
        let mut done = 0;
        while done < FOLLOWED && !tracee.is_signalled() {
            let Some(registers) = tracee.registers() else {
                break;
            };
            let walk = self.interpreter.walk(
                &registers,
                SKIPPED.saturating_sub(done),
                FOLLOWED - done,
                |at, buffer| tracee.read_memory(at, buffer),
                |one| seen.push((one.branch.0, one.target.0)),
            );
            done += walk.steps;
            if done >= FOLLOWED || !run_on(&mut tracee, &registers, &walk) {
                break;
            }
            done += usize::from(walk.steps == 0);
        }
        self.steps += done as u64;
        seen
    }
}

/// Makes the process execute natively the instruction that could not be interpreted. `false` if
/// that is not possible.
fn run_on(tracee: &mut Tracee, registers: &Registers, walk: &WalkExtent) -> bool {
    let Some(blocked) = walk.blocked else {
        return false;
    };
    if walk.steps > 0 {
        return tracee.run_to(blocked.at, blocked.passed);
    }
    let comes_back =
        !blocked.calls_system || SHORT_CALLS.contains(&(registers.integer[0] as libc::c_long));
    match blocked.next {
        Some(next) => comes_back && tracee.run_to(next, 0),
        None => false,
    }
}

/// Returns the CPU time of a process, in nanoseconds.
fn cpu_time(pid: libc::pid_t) -> Option<u64> {
    let mut clock = 0;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: on success both calls write their results through the pointers.
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

/// Returns whether a process is running or runnable.
fn wants_to_run(pid: libc::pid_t) -> bool {
    let stat = u32::try_from(pid).ok().and_then(ProcessStat::read_process);
    stat.is_some_and(|stat| stat.state == 'R')
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
            if !scanned && wants_to_run(pid as libc::pid_t) {
                collection.maps.scan_process(pid, &mut collection.images);
                scanned = true;
            }
            bursts.tick(&mut collection);
        }
        assert_eq!(child.wait().expect("a child").code(), Some(7));
        assert!(bursts.steps > 0, "{}", bursts.describe_bursts());
        let walked: u64 = collection.branches.values().map(|count| count.1).sum();
        assert!(walked > 0);
    }

    /// Compares the execution, step by step, with the interpreter's prediction. Returns the mean
    /// number of instructions predicted from each of `places` places.
    fn compare(command: &mut Command, places: usize) -> f64 {
        let mut child = command.spawn().expect("a command");
        let pid = child.id() as libc::pid_t;
        let (mut compared, mut walked) = (0, 0);
        for _ in 0..places {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let Some(mut tracee) = Tracee::attach(pid) else {
                break;
            };
            let start = tracee.registers().expect("registers");
            let mut said = Vec::new();
            let read = |at, buffer: &mut [u8]| tracee.read_memory(at, buffer);
            let walk = CodeInterpreter::new().walk(&start, 0, 2000, read, |one| {
                said.push((one.branch.0, one.target.0));
            });
            walked += walk.steps;
            let (mut at, mut said) = (start.counter, said.into_iter().peekable());
            for _ in 0..walk.steps {
                // A step of a repeating instruction is one of its rounds.
                let mut next = at;
                while next == at {
                    // On a busy machine the process may not run for long.
                    if !tracee.step() {
                        said = Vec::new().into_iter().peekable();
                        break;
                    }
                    next = tracee.registers().expect("registers").counter;
                    if said.peek().is_some_and(|(branch, _)| *branch == at) {
                        break;
                    }
                }
                if let Some((_, target)) = said.next_if(|(branch, _)| *branch == at) {
                    assert_eq!(target, next, "after {at:x}");
                    compared += 1;
                }
                at = next;
            }
            assert_eq!(said.next(), None);
        }
        let _ = child.kill();
        child.wait().expect("waited for");
        assert!(
            compared > 200,
            "{command:?}: {compared} branches in {walked} steps"
        );
        walked as f64 / places as f64
    }

    #[test]
    fn what_is_interpreted_is_what_happens() {
        let script = "i=0; a=x; while [ $i -lt 600000 ]; do i=$((i+1)); a=\"$a.$((i*7%10))\"; case $a in *.3.?) a=y;; esac; done";
        compare(Command::new("sh").args(["-c", script]), 30);
        // Floating-point numbers.
        let script = "BEGIN { for (i = 0; i < 20000000; i++) if (i * 0.37 > x) x += 1.5 * i / 3 }";
        compare(Command::new("awk").arg(script), 30);
    }

    /// The C library's string functions, in variants for this and for lesser processors.
    #[test]
    fn strings_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("strings");
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/programs/strings.c"
        );
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", source, "-o"]).arg(&program);
        assert!(compiler.status().expect("gcc").success());
        for without in [
            "",
            "-AVX512VL,-AVX512BW",
            "-AVX512VL,-AVX2",
            "-AVX512VL,-AVX2,-SSE4_2",
        ] {
            let tunables = format!("glibc.cpu.hwcaps={without}");
            let mut command = Command::new(&program);
            command
                .env("GLIBC_TUNABLES", tunables)
                .stdout(std::process::Stdio::null());
            let followed = compare(&mut command, 25);
            assert!(
                followed > 1000.0,
                "{followed} instructions without {without:?}"
            );
        }
    }
}
