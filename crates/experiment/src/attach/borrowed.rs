//! A thread of another process that is held for a moment, in a system call that it waits in, to do something for us.
//!
//! It gets everything back: registers, vectors, signal mask, and its wait, which the kernel begins again as after a signal
//! without a handler. Calls that the kernel ends then (`epoll_wait`) are begun again by us, so that the program sees no `EINTR`.
//!
//! A copy of what it gets back stands on its own stack, in the form in which the kernel keeps it there for a signal handler, and the calls that it
//! makes for us return into that ([`super::return_frame`]). So the thread puts everything back by itself if we are killed, whenever that is.

use super::proc_files::ThreadStatus;
use super::refuse::{not_traceable, refusal};
use super::return_frame::{ReturningCall, frame_bytes, frame_size};
use super::urgent::Urgent;
use super::waits::{can_begin_again, is_plain_wait};
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
/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// More than any processor's.
const VECTORS: usize = 1 << 15;

/// The thread. Dropped, it goes on.
pub(super) struct BorrowedThread {
    pid: u32,
    tid: pid_t,
    pub memory: File,
    pub registers: user_regs_struct,
    vectors: Vec<u8>,
    pub mask: u64,
    /// The signals that it blocks from now on, if others.
    new_mask: Option<u64>,
    held: Held,
    /// The way back without us, from when it is used.
    way_back: Option<WayBack>,
    /// Until it goes on.
    _urgent: Urgent,
}

/// A thread's way back to what it did, if we are killed.
#[derive(Clone, Copy)]
struct WayBack {
    code: ReturningCall,
    /// Address of its [`super::return_frame`], on its stack.
    frame: u64,
}

/// How far the thread is from where it was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// It stands where it was.
    Unchanged,
    /// It was used.
    Used,
    /// It is ours no longer.
    Gone,
}

impl BorrowedThread {
    /// Stops a thread. `None`: it is gone, or does not stand in a system call that can be begun again.
    pub fn stop_thread(pid: u32, tid: u32) -> Result<Option<Self>, Error> {
        let Some(mut thread) = Self::seize_thread(pid, tid)? else {
            return Ok(None);
        };
        let stopped = thread.wait_for(Stop::Event) && thread.read_state().is_some();
        let status = ThreadStatus::read(pid, tid);
        let quiet = status.is_some_and(|status| !status.is_signalled());
        Ok((stopped && quiet && thread.stands_in_call()).then_some(thread))
    }

    /// Has a thread stop soon, wherever it is. `None`: it is gone.
    pub fn seize_thread(pid: u32, tid: u32) -> Result<Option<Self>, Error> {
        let path = format!("/proc/{pid}/task/{tid}/mem");
        let memory = match File::options().read(true).write(true).open(path) {
            Ok(memory) => memory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(not_traceable(pid, &error)),
        };
        let tid = tid as pid_t;
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
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
        let mut thread = Self {
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
        };
        if ptrace(libc::PTRACE_INTERRUPT, thread.tid, 0, 0).is_err() {
            thread.held = Held::Gone;
            return Ok(None);
        }
        Ok(Some(thread))
    }

    /// Waits until it stands, at most so long; its registers are known then. A thread that has ended counts.
    pub fn stands_within(&mut self, limit: Duration) -> bool {
        const PAUSE: Duration = Duration::from_micros(20);
        let end = Instant::now() + limit;
        while self.held == Held::Unchanged {
            // SAFETY: all zeros are a value of it, and the kernel writes to no more.
            let mut info: libc::siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
            let options =
                libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
            // SAFETY: the pointer is that of a value which lives longer.
            let asked =
                unsafe { libc::waitid(libc::P_PID, self.tid as u32, &raw mut info, options) };
            // SAFETY: the kernel has written who it is of, or it is zeros.
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

    /// Its id; `None`: it has ended.
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

    /// Lets it go on until it stops like this.
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
                (signal, _) => Stop::Signal(signal),
            };
            if stop == wanted {
                return true;
            }
            let (how, signal) = match (wanted, stop) {
                (Stop::Call, Stop::Event) => (libc::PTRACE_SYSCALL, 0),
                (_, Stop::Signal(signal)) => (libc::PTRACE_CONT, signal as usize),
                _ => (libc::PTRACE_CONT, 0),
            };
            if ptrace(how, self.tid, 0, signal).is_err() {
                self.held = Held::Gone;
                return false;
            }
        }
    }

    /// Reads what it gets back later.
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

    /// Its registers as they are.
    pub fn read_registers(&self) -> Option<user_regs_struct> {
        let mut registers = MaybeUninit::<user_regs_struct>::zeroed();
        let to = registers.as_mut_ptr() as usize;
        ptrace(libc::PTRACE_GETREGS, self.tid, 0, to).ok()?;
        // SAFETY: zeros are registers, and the kernel has written them.
        Some(unsafe { registers.assume_init() })
    }

    /// Returns whether it stands behind the instruction of a call that it can wait in, as a thread of the C library.
    fn stands_in_call(&self) -> bool {
        let registers = &self.registers;
        let mut instruction = [0; 2];
        let mut own = [0; 8];
        let read = |at: u64, buffer: &mut [u8]| self.memory.read_exact_at(buffer, at).is_ok();
        is_plain_wait(registers.orig_rax as i64, &arguments_of(registers))
            && read(registers.rip.wrapping_sub(2), &mut instruction)
            && instruction == SYSTEM_CALL
            && read(registers.fs_base.wrapping_add(16), &mut own)
            && u64::from_le_bytes(own) == registers.fs_base
    }

    fn set_mask(&self, mask: u64) -> Result<(), Error> {
        let mask = &raw const mask as usize;
        ptrace(SET_SIGNAL_MASK, self.tid, 8, mask).map_err(|error| not_traceable(self.pid, &error))
    }

    /// Lets it block other signals from now on.
    pub fn keep_mask(&mut self, mask: u64) {
        self.held = Held::Used;
        self.new_mask = Some(mask);
    }

    /// Returns the frame at address `at` by which it goes on with what it did.
    pub fn return_frame(&self, at: u64) -> Vec<u8> {
        frame_bytes(&begun_again(&self.registers), self.mask, &self.vectors, at)
    }

    /// Puts what it needs to go on without us on its stack, where a signal's handler would have it.
    pub fn prepare_return(&mut self, code: ReturningCall) -> Result<(), Error> {
        const RED_ZONE: u64 = 128;
        let size = frame_size(&self.vectors) + 8;
        let lowest = self.registers.rsp.saturating_sub(RED_ZONE + size);
        // The return address of the call stands in front of the frame.
        let frame = (lowest & !63) - 64;
        let bytes = self.return_frame(frame);
        let written = self
            .memory
            .write_all_at(&code.leave.to_le_bytes(), frame - 8);
        written
            .and_then(|()| self.memory.write_all_at(&bytes, frame))
            .map_err(|_| {
                refusal(
                    self.pid,
                    "there is no room on the stack of the thread that waits",
                )
            })?;
        self.way_back = Some(WayBack { code, frame });
        Ok(())
    }

    /// Has it make a system call, after [`Self::prepare_return`]; the result is negative where that failed. During the call and
    /// behind it the thread is on its way back to what it did, should we be killed.
    pub fn make_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64, Error> {
        let way_back = self.way_back.ok_or_else(|| self.ended())?;
        self.held = Held::Used;
        let mut registers = self.registers;
        let [a, b, c, d, e, f] = arguments;
        (registers.rip, registers.rsp) = (way_back.code.call, way_back.frame - 8);
        (registers.rax, registers.orig_rax) = (number as u64, u64::MAX);
        (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
        (registers.r10, registers.r8, registers.r9) = (d, e, f);
        self.set_registers(&registers)?;
        // Only now: the frame has the signals that it blocked.
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

    /// Lets it run from here, with all signals blocked.
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

    /// Holds it again; whether it stands in this code (else it has gone back to its own by itself).
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

    /// Lets it go while it is somewhere else, from where it comes back by itself.
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

    /// Lets it go on with what it did.
    pub fn give_back(mut self) {
        self.go_on();
    }

    fn go_on(&mut self) {
        let before = self.held;
        if before == Held::Gone {
            return;
        }
        // Only from this kind of stop the kernel begins the call again.
        if before == Held::Used
            && (!self.interrupt_again()
                || self.restore_vectors().is_err()
                || self.held == Held::Gone)
        {
            return;
        }
        let mask = self.new_mask.unwrap_or(self.mask);
        if before == Held::Used {
            let _ = self.set_mask(mask);
        }
        if let Some(registers) = self.final_registers(before) {
            let _ = self.set_registers(&registers);
        }
        let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, 0);
        self.held = Held::Gone;
    }

    /// What it goes on with; `None`: with what it has.
    fn final_registers(&self, held: Held) -> Option<user_regs_struct> {
        let interrupted = self.registers.rax as i64 == -i64::from(libc::EINTR)
            && can_begin_again(
                self.registers.orig_rax as i64,
                &arguments_of(&self.registers),
            );
        let status = ThreadStatus::read(self.pid, self.tid as u32);
        // A signal that came meanwhile ends the call rightly.
        let ours = interrupted && status.is_some_and(|status| !status.is_signalled());
        match ours {
            true => Some(begun_again(&self.registers)),
            false => (held == Held::Used).then_some(self.registers),
        }
    }

    /// Stops it as an interrupt does, without letting it run.
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

/// What makes a call once more that was interrupted; one that had ended stays so.
fn begun_again(registers: &user_regs_struct) -> user_regs_struct {
    // The kernel's own numbers, of which programs see none: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and ERESTART_RESTARTBLOCK.
    const INTERRUPTED: [i64; 5] = [-(libc::EINTR as i64), -512, -513, -514, -516];
    let mut again = *registers;
    if INTERRUPTED.contains(&(again.rax as i64)) {
        again.rip -= 2;
        again.rax = again.orig_rax;
    }
    again.orig_rax = u64::MAX;
    again
}

/// Arguments of the call that a thread stands in.
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

/// Why a thread stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// We have interrupted it.
    Event,
    /// At the beginning or end of a system call.
    Call,
    /// For a signal.
    Signal(c_int),
}

fn ptrace(request: c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: what the requests read or write of ours lives during the call; all callers pass pointers to it.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
