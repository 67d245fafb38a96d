//! A thread of another process, held for a moment in a system call that it waits in, to make calls
//! for vitalfew.
//!
//! The thread gets everything back: registers, vectors, signal mask, and its wait, which the kernel
//! restarts as after a signal without a handler. Calls that the kernel ends instead (`epoll_wait`)
//! are restarted here, so that the program sees no `EINTR`.
//!
//! A copy of its state stands on the thread's own stack, in the form of a signal frame, and the
//! calls that it makes return into that frame ([`super::return_frame`]). So the thread restores
//! itself even if vitalfew is killed at any moment.

use super::borrowable_calls::{can_begin_again, is_plain_wait};
use super::proc_files::ThreadStatus;
use super::refuse::{not_traceable, refusal};
use super::return_frame::{ReturningCall, frame_bytes, frame_size};
use super::urgent::Urgent;
use crate::Error;
use libc::{c_int, c_uint, pid_t, user_regs_struct};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const GET_SIGNAL_MASK: c_uint = 0x420a;
const SET_SIGNAL_MASK: c_uint = 0x420b;
const NT_X86_XSTATE: usize = 0x202;
const PTRACE_O_EXITKILL: c_int = 0x10_0000;
/// The instruction `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// Limit on the size of the vector registers in bytes, above that of any processor.
const VECTORS: usize = 1 << 15;

/// A borrowed thread. On drop it continues.
pub(super) struct BorrowedThread {
    pid: u32,
    tid: pid_t,
    pub memory: File,
    pub registers: user_regs_struct,
    vectors: Vec<u8>,
    pub mask: u64,
    /// The signal mask that the thread continues with, if it changes.
    new_mask: Option<u64>,
    held: Held,
    /// The thread's own way back, once it is prepared.
    way_back: Option<WayBack>,
    /// Raised priority until the thread continues.
    _urgent: Urgent,
}

/// A thread's way back to its own code, should vitalfew be killed.
#[derive(Clone, Copy)]
struct WayBack {
    code: ReturningCall,
    /// Stack address that the call returns through: some words in front of a
    /// [`super::return_frame`].
    top: u64,
}

/// The purpose for which a thread is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// Calls of the C library's functions: the thread must wait in a system call.
    CallFunctions,
    /// System calls only: the thread may also be anywhere in its own code.
    MakeCalls,
}

/// State of a borrowed thread, relative to the state in which it was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The thread is as it was stopped.
    Unchanged,
    /// The thread made calls.
    Used,
    /// The thread is no longer traced.
    Gone,
}

impl BorrowedThread {
    /// Stops a thread. `None`: it has ended, or does not suit the errand.
    pub fn stop_thread(pid: u32, tid: u32, to_do: Errand) -> Result<Option<Self>, Error> {
        let Some(mut thread) = Self::seize_thread(pid, tid)? else {
            return Ok(None);
        };
        let stopped = thread.wait_for(Stop::Event) && thread.read_state().is_some();
        let status = ThreadStatus::read(pid, tid);
        let quiet = status.is_some_and(|status| !status.is_signalled());
        let usable = stopped
            && quiet
            && match to_do {
                Errand::CallFunctions => thread.stands_in_call() && thread.is_of_c_library(),
                Errand::MakeCalls => thread.stands_in_call() || thread.runs_own_code(),
            };
        Ok(usable.then_some(thread))
    }

    /// Traces a child process until it has executed its command. If vitalfew ends before that, the
    /// child ends too.
    pub fn follow_child(pid: u32) -> Result<Self, Error> {
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
        let child = Self::seize(pid, pid, options as usize)?;
        child.ok_or_else(|| refusal(pid, "it has ended"))
    }

    /// Waits until the child has executed its command, and stops it before the command's first
    /// instruction. `None`: it has ended.
    pub fn stop_at_first_instruction(mut self) -> Result<Option<Self>, Error> {
        if !self.wait_for(Stop::Exec) {
            return Ok(None);
        }
        // The descriptor of the former memory is useless after the execution.
        let path = format!("/proc/{}/mem", self.pid);
        let memory = File::options().read(true).write(true).open(path);
        self.memory = memory.map_err(|error| not_traceable(self.pid, &error))?;
        // At the first stop the result of the call would still be written to the registers.
        let stopped = self.interrupt_again() && self.read_state().is_some();
        Ok(stopped.then_some(self))
    }

    /// Stops a thread soon, wherever it is. `None`: it has ended.
    pub fn seize_thread(pid: u32, tid: u32) -> Result<Option<Self>, Error> {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        let Some(mut thread) = Self::seize(pid, tid, options)? else {
            return Ok(None);
        };
        if ptrace(libc::PTRACE_INTERRUPT, thread.tid, 0, 0).is_err() {
            thread.held = Held::Gone;
            return Ok(None);
        }
        Ok(Some(thread))
    }

    /// Begins to trace a thread, which runs on. `None`: it has ended.
    fn seize(pid: u32, tid: u32, options: usize) -> Result<Option<Self>, Error> {
        let path = format!("/proc/{pid}/task/{tid}/mem");
        let memory = match File::options().read(true).write(true).open(path) {
            Ok(memory) => memory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The first thread stays listed after its end.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) => return Err(not_traceable(pid, &error)),
        };
        let tid = tid as pid_t;
        let urgent = Urgent::begin();
        if let Err(error) = ptrace(libc::PTRACE_SEIZE, tid, 0, options) {
            let status = ThreadStatus::read(pid, tid as u32);
            let state = status.as_ref().and_then(|status| status.field("State"));
            let has_ended = state.is_none_or(|state| state.starts_with(['Z', 'X']));
            return match error.raw_os_error() {
                Some(libc::ESRCH) => Ok(None),
                _ if has_ended => Ok(None),
                _ => Err(not_traceable(pid, &error)),
            };
        }
        // SAFETY: zeros are registers.
        let registers = unsafe { MaybeUninit::zeroed().assume_init() };
        Ok(Some(Self {
            pid,
            tid,
            memory,
            registers,
            vectors: Vec::new(),
            mask: 0,
            new_mask: None,
            held: Held::Unchanged,
            way_back: None,
            _urgent: urgent,
        }))
    }

    /// Waits at most `limit` until the thread has stopped, and reads its registers. An ended thread
    /// counts as stopped.
    pub fn stands_within(&mut self, limit: Duration) -> bool {
        const PAUSE: Duration = Duration::from_micros(20);
        let end = Instant::now() + limit;
        while self.held == Held::Unchanged {
            // SAFETY: all zeros are a valid value, and the kernel writes no more than its size.
            let mut info: libc::siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
            let options =
                libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
            // SAFETY: the pointer is that of a value which lives longer.
            let asked =
                unsafe { libc::waitid(libc::P_PID, self.tid as u32, &raw mut info, options) };
            // SAFETY: the kernel has set the process id, or it is zero.
            if asked < 0 || unsafe { info.si_pid() } != 0 {
                if self.wait_for(Stop::Event)
                    && let Some(registers) = self.read_registers()
                {
                    self.registers = registers;
                }
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Returns the thread's id; `None`: the thread has ended.
    pub fn held_id(&self) -> Option<u32> {
        (self.held != Held::Gone).then_some(self.tid as u32)
    }

    fn interrupt_thread(&mut self) -> bool {
        if ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0).is_err() {
            self.held = Held::Gone;
            return false;
        }
        self.wait_for(Stop::Event)
    }

    /// Continues the thread until a stop of this kind.
    fn wait_for(&mut self, wanted: Stop) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: the status is written through the pointer.
            let waited = unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL) };
            if waited < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            if waited != self.tid || !libc::WIFSTOPPED(status) {
                self.held = Held::Gone;
                return false;
            }
            let stop = match (libc::WSTOPSIG(status), status >> 16) {
                (signal, 0) if signal == libc::SIGTRAP | 0x80 => Stop::Call,
                (_, libc::PTRACE_EVENT_STOP) => Stop::Event,
                (_, libc::PTRACE_EVENT_EXEC) => Stop::Exec,
                (signal, _) => Stop::Signal(signal),
            };
            if stop == wanted {
                return true;
            }
            let (how, signal) = match (wanted, stop) {
                (Stop::Call, Stop::Event) => (libc::PTRACE_SYSCALL, 0),
                (Stop::Call, Stop::Signal(signal)) => (libc::PTRACE_SYSCALL, signal as usize),
                (_, Stop::Signal(signal)) => (libc::PTRACE_CONT, signal as usize),
                _ => (libc::PTRACE_CONT, 0),
            };
            if ptrace(how, self.tid, 0, signal).is_err() {
                self.held = Held::Gone;
                return false;
            }
        }
    }

    /// Reads the state that is restored later.
    fn read_state(&mut self) -> Option<()> {
        self.registers = self.read_registers()?;
        let mut vectors = vec![0u8; VECTORS];
        let mut part = libc::iovec {
            iov_base: vectors.as_mut_ptr().cast(),
            iov_len: vectors.len(),
        };
        let part = &raw mut part as usize;
        ptrace(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, part).ok()?;
        // SAFETY: the kernel has written how much there is.
        vectors.truncate(unsafe { (*(part as *const libc::iovec)).iov_len });
        self.vectors = vectors;
        let mask = &raw mut self.mask as usize;
        ptrace(GET_SIGNAL_MASK, self.tid, 8, mask).ok()
    }

    /// Returns the thread's current registers.
    pub fn read_registers(&self) -> Option<user_regs_struct> {
        let mut registers = MaybeUninit::<user_regs_struct>::zeroed();
        let to = registers.as_mut_ptr() as usize;
        ptrace(libc::PTRACE_GETREGS, self.tid, 0, to).ok()?;
        // SAFETY: the kernel has written the registers, of which any value is valid.
        Some(unsafe { registers.assume_init() })
    }

    /// Returns whether the thread is right after a `syscall` instruction of a call that it may be
    /// borrowed in.
    fn stands_in_call(&self) -> bool {
        let registers = &self.registers;
        let mut instruction = [0; 2];
        let call = registers.rip.wrapping_sub(2);
        is_plain_wait(registers.orig_rax as i64, &arguments_of(registers))
            && self.memory.read_exact_at(&mut instruction, call).is_ok()
            && instruction == SYSTEM_CALL
    }

    /// Returns whether the C library created the thread.
    fn is_of_c_library(&self) -> bool {
        let own = self.registers.fs_base;
        self.word_at(own.wrapping_add(16)) == Some(own)
    }

    /// Returns whether the thread is outside of system calls.
    fn runs_own_code(&self) -> bool {
        (self.registers.orig_rax as i64) < 0
    }

    /// Reads a word of the thread's memory.
    pub fn word_at(&self, at: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, at).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn set_mask(&self, mask: u64) -> Result<(), Error> {
        let mask = &raw const mask as usize;
        ptrace(SET_SIGNAL_MASK, self.tid, 8, mask).map_err(|error| not_traceable(self.pid, &error))
    }

    /// Sets the signal mask that the thread continues with.
    pub fn keep_mask(&mut self, mask: u64) {
        self.held = Held::Used;
        self.new_mask = Some(mask);
    }

    /// Returns the frame, for address `at`, by which the thread restores itself.
    pub fn return_frame(&self, at: u64) -> Vec<u8> {
        frame_bytes(&begun_again(&self.registers), self.mask, &self.vectors, at)
    }

    /// Returns an upper bound of the stack that [`Self::prepare_return`] takes, in bytes.
    pub fn needed_stack(&self) -> u64 {
        frame_size(&self.vectors) + 512
    }

    /// Writes the frame by which the thread restores itself to its stack, where a signal handler's
    /// frame would be.
    pub fn prepare_return(&mut self, code: ReturningCall) -> Result<(), Error> {
        const RED_ZONE: u64 = 128;
        let size = frame_size(&self.vectors) + 8;
        let lowest = self.registers.rsp.saturating_sub(RED_ZONE + size);
        // The call's return address stands in front of the frame.
        self.prepare_return_at(code, (lowest & !63) - 64)
    }

    /// Writes the frame to other memory: some words before the address `frame`, a multiple of 64,
    /// and the bytes after it.
    pub fn prepare_return_at(&mut self, code: ReturningCall, frame: u64) -> Result<(), Error> {
        let words = code.words_before_frame();
        let top = frame - 8 * words.len() as u64;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(self.return_frame(frame));
        self.memory.write_all_at(&bytes, top).map_err(|_| {
            refusal(
                self.pid,
                "there is no room on the stack of the thread that was to be used",
            )
        })?;
        self.way_back = Some(WayBack { code, top });
        Ok(())
    }

    /// Makes the thread do a system call, after [`Self::prepare_return`]; the result is negative if
    /// the call failed. From the call on, the thread restores itself should vitalfew be killed.
    pub fn make_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64, Error> {
        let way_back = self.way_back.ok_or_else(|| self.ended())?;
        self.held = Held::Used;
        let mut registers = self.registers;
        let [a, b, c, d, e, f] = arguments;
        (registers.rip, registers.rsp) = (way_back.code.call, way_back.top);
        (registers.rax, registers.orig_rax) = (number as u64, u64::MAX);
        (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
        (registers.r10, registers.r8, registers.r9) = (d, e, f);
        self.set_registers(&registers)?;
        // Only now: the frame holds the original signal mask.
        self.set_mask(u64::MAX)?;
        for _ in ["its beginning", "its end"] {
            let going = ptrace(libc::PTRACE_SYSCALL, self.tid, 0, 0).is_ok();
            if !going || !self.wait_for(Stop::Call) {
                return Err(self.ended());
            }
        }
        let after = self.read_registers().ok_or_else(|| self.ended())?;
        Ok(after.rax as i64)
    }

    /// Runs the thread from `code` on, with all signals blocked.
    pub fn run_from(&mut self, code: u64, stack: u64, data: u64) -> Result<(), Error> {
        const DIRECTION_AND_STEPS: u64 = 0x500;
        self.held = Held::Used;
        let mut registers = self.registers;
        registers.rip = code;
        registers.rsp = stack;
        registers.r15 = data;
        registers.eflags &= !DIRECTION_AND_STEPS;
        registers.orig_rax = u64::MAX;
        self.set_registers(&registers)?;
        self.set_mask(u64::MAX)?;
        ptrace(libc::PTRACE_CONT, self.tid, 0, 0).map_err(|_| self.ended())
    }

    /// Stops the thread again. Returns whether it is in this code; otherwise it has restored itself
    /// and is back in its own.
    pub fn hold_within(&mut self, code: &std::ops::Range<u64>) -> bool {
        if !self.interrupt_thread() {
            return false;
        }
        let within = self
            .read_registers()
            .is_some_and(|now| code.contains(&now.rip));
        if !within {
            self.held = Held::Unchanged;
        }
        within
    }

    /// Detaches the thread while it runs elsewhere; it comes back by itself.
    pub fn leave_running(&mut self) {
        if self.held != Held::Gone && self.interrupt_thread() {
            let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, 0);
        }
        self.held = Held::Gone;
    }

    fn set_registers(&self, registers: &user_regs_struct) -> Result<(), Error> {
        let from = core::ptr::from_ref(registers) as usize;
        ptrace(libc::PTRACE_SETREGS, self.tid, 0, from).map_err(|_| self.ended())
    }

    fn ended(&self) -> Error {
        refusal(self.pid, "a thread of it has ended meanwhile")
    }

    /// Restores the thread and continues it.
    pub fn give_back(mut self) {
        self.go_on();
    }

    fn go_on(&mut self) {
        if self.restore_state() {
            let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, 0);
            self.held = Held::Gone;
        }
    }

    /// Restores everything; false: the thread has ended.
    fn restore_state(&mut self) -> bool {
        let before = self.held;
        if before == Held::Gone {
            return false;
        }
        // Only after this kind of stop the kernel restarts the call.
        if before == Held::Used
            && (!self.interrupt_again()
                || self.restore_vectors().is_err()
                || self.held == Held::Gone)
        {
            return false;
        }
        let mask = self.new_mask.unwrap_or(self.mask);
        if before == Held::Used {
            let _ = self.set_mask(mask);
        }
        if let Some(registers) = self.final_registers(before) {
            let _ = self.set_registers(&registers);
        }
        self.held = Held::Unchanged;
        true
    }

    /// Continues the thread until it tries to change its action of `signal`, and turns that call
    /// into a query. Returns false if the thread ends first, or makes `most_calls` system calls
    /// without that.
    pub fn run_past_action(&mut self, signal: c_int, most_calls: usize) -> bool {
        if !self.restore_state() {
            return false;
        }
        // The state from here on is the thread's own.
        self.new_mask = None;
        for _ in 0..most_calls {
            let Some(before) = self.run_to_call_stop() else {
                return false;
            };
            let changes = before.orig_rax as i64 == libc::SYS_rt_sigaction
                && before.rdi == signal as u64
                && before.rsi != 0;
            if changes {
                let asks = user_regs_struct { rsi: 0, ..before };
                let _ = self.set_registers(&asks);
            }
            let Some(after) = self.run_to_call_stop() else {
                return false;
            };
            if changes {
                let after = user_regs_struct {
                    rsi: before.rsi,
                    ..after
                };
                return self.set_registers(&after).is_ok();
            }
        }
        false
    }

    /// Continues the thread to the start or end of a system call; returns its registers there.
    fn run_to_call_stop(&mut self) -> Option<user_regs_struct> {
        let going = ptrace(libc::PTRACE_SYSCALL, self.tid, 0, 0).is_ok();
        let stopped = going && self.wait_for(Stop::Call);
        let registers = stopped.then(|| self.read_registers()).flatten();
        // The thread later continues from this stop.
        self.registers = registers?;
        registers
    }

    /// Returns the registers that the thread continues with; `None`: its current ones.
    fn final_registers(&self, held: Held) -> Option<user_regs_struct> {
        let interrupted = self.registers.rax as i64 == -i64::from(libc::EINTR)
            && can_begin_again(
                self.registers.orig_rax as i64,
                &arguments_of(&self.registers),
            );
        let status = ThreadStatus::read(self.pid, self.tid as u32);
        // If a signal is pending, `EINTR` is the right result.
        let ours = interrupted && status.is_some_and(|status| !status.is_signalled());
        if ours {
            Some(begun_again(&self.registers))
        } else {
            (held == Held::Used).then_some(self.registers)
        }
    }

    /// Stops the thread by another interrupt, without letting it run.
    fn interrupt_again(&mut self) -> bool {
        let asked = ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0).is_ok()
            && ptrace(libc::PTRACE_CONT, self.tid, 0, 0).is_ok();
        asked && self.wait_for(Stop::Event)
    }

    fn restore_vectors(&mut self) -> io::Result<()> {
        let part = libc::iovec {
            iov_base: self.vectors.as_mut_ptr().cast(),
            iov_len: self.vectors.len(),
        };
        let part = &raw const part as usize;
        ptrace(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, part)
    }
}

impl Drop for BorrowedThread {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// Returns the registers that restart an interrupted call. A completed call stays completed.
fn begun_again(registers: &user_regs_struct) -> user_regs_struct {
    // The kernel's internal results, which programs never see: ERESTARTSYS, ERESTARTNOINTR,
    // ERESTARTNOHAND and ERESTART_RESTARTBLOCK.
    const INTERRUPTED: [i64; 5] = [-(libc::EINTR as i64), -512, -513, -514, -516];
    let mut again = *registers;
    // Outside of a system call, rax holds the program's value.
    let in_call = again.orig_rax as i64 >= 0;
    if in_call && INTERRUPTED.contains(&(again.rax as i64)) {
        again.rip -= 2;
        again.rax = again.orig_rax;
    }
    again.orig_rax = u64::MAX;
    again
}

/// Returns the arguments of the system call that a thread is in.
pub(super) fn arguments_of(registers: &user_regs_struct) -> [u64; 6] {
    [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ]
}

/// Reason of a thread's stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// An interrupt of the tracer.
    Event,
    /// The start or end of a system call.
    Call,
    /// The execution of another program.
    Exec,
    /// A signal that is about to be delivered.
    Signal(c_int),
}

fn ptrace(request: c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: memory of this process that a request reads or writes lives during the call; all
    // callers pass pointers to it.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
