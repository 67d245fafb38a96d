//! Sampling: a signal for each millisecond of CPU time, and whose code it hit.
//!
//! The controller has the processors' timers send it where it may ([`Page::by_processor`]). Otherwise every thread has a
//! perf event of its own. Both count user mode only, so that no system call is interrupted.

use crate::{cpu, delay, sys, thread};
use core::ffi::c_void;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use runtime_abi::{Page, Place, Rule, Running, Thread, UNKNOWN, state};

/// The signal.
pub const SIGNAL: libc::c_int = runtime_abi::SIGNAL;
/// Frames that are looked at.
const FRAMES: usize = 64;

/// The first fields of `struct perf_event_attr`, in its first published size.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
/// `exclude_kernel`, `exclude_hv`; both by their position in the bit field.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
const DISABLED: u64 = 1;
const CLOSE_ON_EXEC: usize = 8;
const ENABLE: usize = 0x2400;
const DISABLE: usize = 0x2401;
const PERIOD: usize = 0x4008_2404;
const ID: usize = 0x8008_2407;
const SETSIG: usize = 10;
const SETOWN_EX: usize = 15;

/// Starts sampling this thread.
pub fn begin(page: &Page, thread: &Thread) {
    thread.standing.store(0, Relaxed);
    if by_processor(page) {
        return;
    }
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: TASK_CLOCK,
        period: first_period(page),
        sample_type: 0,
        read_format: 0,
        flags: USER_ONLY | DISABLED,
        wakeup_events: 1,
        breakpoint_type: 0,
        config1: 0,
    };
    let any = usize::MAX;
    let open = [
        &raw const attributes as usize,
        0,
        any,
        any,
        CLOSE_ON_EXEC,
        0,
    ];
    // SAFETY: the attributes live during the call.
    let event = unsafe { sys::call(libc::SYS_perf_event_open, open) };
    if event < 0 {
        page.refused.store(-event as i32, Relaxed);
        return;
    }
    let owner = [0u32, sys::thread_id()]; // F_OWNER_TID
    let mut id = 0u64;
    let event = event as usize;
    let calls = [
        (libc::SYS_fcntl, SETOWN_EX, owner.as_ptr() as usize),
        (libc::SYS_fcntl, SETSIG, SIGNAL as usize),
        (
            libc::SYS_fcntl,
            libc::F_SETFL as usize,
            libc::O_ASYNC as usize,
        ),
        (libc::SYS_ioctl, ID, &raw mut id as usize),
        (libc::SYS_ioctl, ENABLE, 0),
    ];
    for (number, command, argument) in calls {
        // SAFETY: on our own descriptor; what the arguments point to lives during the call.
        unsafe { sys::call(number, [event, command, argument, 0, 0, 0]) };
    }
    thread.event_id.store(id, Relaxed);
    thread.sampled.store(0, Relaxed);
    thread.event.store(event as i32, Relaxed);
}

/// Returns whether the processors are sampled, and not each thread by itself.
fn by_processor(page: &Page) -> bool {
    page.by_processor.load(Relaxed) != 0
}

/// The shortest time to a first sample. The timer goes on at that rate until the signal handler sets the
/// usual period, and where an interrupt costs 20 µs, as on virtual machines, a handler that is interrupted
/// each 10 µs gets nowhere.
const SHORTEST: u64 = 50_000;

/// Time to a thread's first sample: anything within a period. If it were a whole one, threads that live
/// for some periods would be sampled half a time too rarely.
fn first_period(page: &Page) -> u64 {
    let period = page.period_ns.load(Relaxed).max(2);
    SHORTEST + sys::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) % period
}

/// Sets the usual time between samples, behind the first one.
fn set_period(page: &Page, thread: &Thread) {
    let period = page.period_ns.load(Relaxed);
    let event = thread.event.load(Relaxed) as usize;
    let to = &raw const period as usize;
    // SAFETY: the period lives during the call.
    unsafe { sys::call(libc::SYS_ioctl, [event, PERIOD, to, 0, 0, 0]) };
}

/// Stops sampling this thread.
pub fn end(thread: &Thread) {
    close_event(thread);
    thread.event.store(-1, Relaxed);
}

/// Closes the descriptor of a thread's event, if it still is what it was: a program may close
/// descriptors that it does not know, and get their numbers again.
pub fn close_event(thread: &Thread) {
    let event = thread.event.load(Relaxed);
    if event < 0 {
        return;
    }
    let mut id = 0u64;
    // SAFETY: asks a descriptor, whatever it is, for an event's id; the pointer is to eight bytes.
    let asked = unsafe {
        let id = &raw mut id as usize;
        sys::call(libc::SYS_ioctl, [event as usize, ID, id, 0, 0, 0])
    };
    if asked == 0 && id == thread.event_id.load(Relaxed) {
        sys::close(event);
    }
}

/// Does something that takes CPU time which is not the program's.
pub fn without_samples(thread: &Thread, work: impl FnOnce()) {
    let event = thread.event.load(Relaxed);
    let switch = |command: usize| {
        // SAFETY: without an argument; on another descriptor than ours it is an error.
        unsafe { sys::call(libc::SYS_ioctl, [event as usize, command, 0, 0, 0, 0]) }
    };
    if event >= 0 {
        switch(DISABLE);
    }
    standing(thread, work);
    if event >= 0 {
        switch(ENABLE);
    }
}

/// Does something during which samples of the processor are nobody's.
pub fn standing(thread: &Thread, work: impl FnOnce()) {
    thread.standing.store(1, Relaxed);
    work();
    thread.standing.store(0, Relaxed);
}

/// Less of a processor's time than this is left to the sample after it: one that was due while this thread stood still in
/// the handler comes right behind.
const LEAST: u64 = 50_000;

/// Returns how much time a sample stands for, in nanoseconds; `None`: it is none. What a processor has done since its last sample, but not what a
/// thread stood still since then, as nobody is sampled meanwhile.
fn span(page: &Page, thread: &Thread) -> Option<u64> {
    if !by_processor(page) {
        if thread.sampled.swap(1, Relaxed) == 0 {
            set_period(page, thread);
        }
        return Some(page.period_ns.load(Relaxed));
    }
    // Not the thread's: of a process that has just been forked, or a thread made behind the C library's back.
    let other = !sys::filtered() && sys::thread_id() != thread.tid.load(Relaxed);
    if other || thread.standing.load(Relaxed) != 0 {
        return None;
    }
    let Some(cpu) = cpu::current(page) else {
        return Some(page.period_ns.load(Relaxed));
    };
    let now = sys::now();
    let since = now.saturating_sub(cpu.sampled.load(Relaxed));
    if since < LEAST {
        return None;
    }
    cpu.sampled.store(now, Relaxed);
    Some(since.min(cpu.period_ns.load(Relaxed)))
}

/// Where a thread was interrupted.
struct Frame {
    pc: u64,
    sp: u64,
    fp: u64,
    lr: u64,
}

/// The signal handler.
pub unsafe extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let (Some(page), Some(thread)) = (thread::page(), thread::this()) else {
        return;
    };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a `ucontext_t`.
    let frame = unsafe { registers(context.cast()) };
    if page.state.load(Relaxed) == state::OFF {
        return end(thread);
    }
    let Some(span) = span(page, thread) else {
        return;
    };
    page.samples.0.fetch_add(1, Relaxed);
    cpu::take_over(page, thread);
    if let Some(fragment) = owner(page, thread, frame) {
        if let Some(count) = page.fragments.get(fragment as usize) {
            count.fetch_add(1, Relaxed);
        }
        let running = Running::unpack(page.experiment.0.load(Acquire));
        if running.fragment == fragment && running.delay_ns > 0 {
            let period = page.period_ns.load(Relaxed).max(1);
            delay::hit(page, thread, u64::from(running.delay_ns) * span / period);
        }
    }
    let paid = thread.waits.load(Relaxed) == 0 && delay::pay(thread);
    if paid && let Some(cpu) = cpu::current(page) {
        cpu.sampled.store(sys::now(), Relaxed);
    }
    cpu::leave_word(page, thread);
    cpu::remember(page, thread);
}

#[cfg(target_arch = "x86_64")]
unsafe fn registers(context: *const libc::ucontext_t) -> Frame {
    // SAFETY: see the caller.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    Frame {
        pc: registers[libc::REG_RIP as usize] as u64,
        sp: registers[libc::REG_RSP as usize] as u64,
        fp: registers[libc::REG_RBP as usize] as u64,
        lr: 0,
    }
}

#[cfg(target_arch = "aarch64")]
unsafe fn registers(context: *const libc::ucontext_t) -> Frame {
    // SAFETY: see the caller.
    let context = unsafe { &(*context).uc_mcontext };
    Frame {
        pc: context.pc,
        sp: context.sp,
        fp: context.regs[29],
        lr: context.regs[30],
    }
}

/// The fragment of the first frame in scope (section 3.4.2). The controller has said of each place
/// whose it is or how to find its caller; a place that it has not been asked about yet is put before
/// it, and the sample is nobody's.
fn owner(page: &Page, thread: &Thread, mut frame: Frame) -> Option<u32> {
    let low = thread.stack_low.load(Relaxed);
    let high = thread.stack_high.load(Relaxed);
    let word = |at: u64| -> Option<u64> {
        let on_stack = at >= low && at < high.saturating_sub(7) && at.is_multiple_of(8);
        // SAFETY: between the interrupted stack pointer, checked below, and the end of this
        // thread's stack everything is mapped.
        on_stack.then(|| unsafe { (at as *const u64).read_volatile() })
    };
    let mut address = frame.pc;
    for _ in 0..FRAMES {
        let rule = match page.place(address) {
            Some(Place::Fragment(fragment)) => return Some(fragment),
            Some(Place::Caller(rule)) => rule,
            Some(Place::End) => break,
            None => {
                ask(page, address);
                return None;
            }
        };
        if frame.sp < low || frame.sp >= high {
            break; // a stack that we know nothing of: a coroutine's, or a signal's
        }
        match caller(&rule, &frame, word) {
            Some(next) => frame = next,
            None => break,
        }
        // Inside the call instruction.
        address = frame.pc.wrapping_sub(1);
    }
    page.outside.fetch_add(1, Relaxed);
    None
}

fn caller(rule: &Rule, frame: &Frame, word: impl Fn(u64) -> Option<u64>) -> Option<Frame> {
    let base = if rule.from_frame_pointer {
        frame.fp
    } else {
        frame.sp
    };
    let cfa = base.checked_add(rule.cfa.into())?;
    let saved = |offset: i16| {
        let at = cfa.checked_add_signed(offset.into())?;
        (at >= frame.sp).then(|| word(at)).flatten()
    };
    if cfa < frame.sp {
        return None;
    }
    Some(Frame {
        pc: match rule.return_address {
            Some(offset) => saved(offset)?,
            None => frame.lr,
        },
        sp: cfa,
        fp: match rule.frame_pointer {
            Some(offset) => saved(offset)?,
            None => frame.fp,
        },
        lr: 0,
    })
}

/// Asks the controller what a place is. It looks each few milliseconds: in large programs waking it each time would
/// take more than the sample.
fn ask(page: &Page, address: u64) {
    page.misses.fetch_add(1, Relaxed);
    let at = page.unknown_head.0.fetch_add(1, Relaxed) as usize & (UNKNOWN - 1);
    if let Some(entry) = page.unknown.get(at) {
        entry.store(address, Relaxed);
    }
}

/// Wakes the controller.
pub fn tell(page: &Page) {
    page.news.fetch_add(1, AcqRel);
    if page.waiting.load(Acquire) != 0 {
        sys::wake(&page.news);
    }
}
