//! Requests of the controller's trampolines to the runtime.

use super::pointer::{self, BUSY, replace};
use super::shared::shared_memory;
use super::{calls, frames, local, segment, unwind};
use crate::sys;
use core::arch::{global_asm, x86_64::__cpuid};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::trace::{ENDED, Frame, Local, Memory, RECORD, STACK, reason, record, state};

// A trampoline calls this code with a request in rax. Only rax changes. The code saves everything
// that compiled code or system calls could change, including vector registers: the call may come
// before any function, and these registers may have arguments.
global_asm!(
    ".globl vitalfew_trace_slow",
    ".hidden vitalfew_trace_slow",
    ".type vitalfew_trace_slow, %function",
    "vitalfew_trace_slow:",
    "push rbp",
    "mov rbp, rsp",
    "push rbx", "push rcx", "push rdx", "push rsi", "push rdi",
    "push r8", "push r9", "push r10", "push r11",
    "push r12", "push r13", "push r14", "push r15",
    "mov r12, rax",
    "sub rsp, 2816",
    "and rsp, -64",
    "cmp byte ptr [rip + {xsave}], 0",
    "je 2f",
    // xsave writes only the first word of its header, and xrstor rejects a header with other
    // content.
    "xor eax, eax",
    "mov [rsp + 512], rax", "mov [rsp + 520], rax", "mov [rsp + 528], rax", "mov [rsp + 536], rax",
    "mov [rsp + 544], rax", "mov [rsp + 552], rax", "mov [rsp + 560], rax", "mov [rsp + 568], rax",
    // x87, SSE, AVX and AVX-512 state. Our code does not change protection keys.
    "mov eax, 0xe7", "xor edx, edx",
    "xsave64 [rsp]",
    "jmp 3f",
    "2: fxsave64 [rsp]",
    "3: cld",
    "mov rdi, r12",
    "mov rsi, rbp",
    "call {slow}",
    "mov r12, rax",
    "cmp byte ptr [rip + {xsave}], 0",
    "je 4f",
    "mov eax, 0xe7", "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 5f",
    "4: fxrstor64 [rsp]",
    "5: mov rax, r12",
    "lea rsp, [rbp - 104]",
    "pop r15", "pop r14", "pop r13", "pop r12",
    "pop r11", "pop r10", "pop r9", "pop r8",
    "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rbx",
    "pop rbp",
    "ret",
    ".size vitalfew_trace_slow, . - vitalfew_trace_slow",
    xsave = sym XSAVE,
    slow = sym handle_request,
);

unsafe extern "C" {
    fn vitalfew_trace_slow();
}

/// True if the processor has `xsave` and the system has enabled it. There may then be more vector
/// state than `fxsave` saves.
static XSAVE: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Distance in bytes from the frame of the code above to the stack pointer at the function's entry.
const TO_STACK: u64 = 16 + 32;

/// Publishes the addresses that the controller needs.
pub fn publish_addresses(memory: &Memory) {
    const OSXSAVE: u32 = 1 << 27;
    XSAVE.store(__cpuid(1).ecx & OSXSAVE != 0, Relaxed);
    memory.local.store(pointer::offset(), Relaxed);
    memory
        .slow
        .store(vitalfew_trace_slow as *const () as u64, Relaxed);
    unwind::tell_unwinder(memory);
    memory
        .personality
        .store(unwind::drop_passed_frame as *const () as u64, Relaxed);
}

/// Handles a request: the reason is in the upper half, and the block in the lower. Returns whether
/// the execution is traced.
unsafe extern "C-unwind" fn handle_request(request: u64, frame: u64) -> u64 {
    let (why, block) = ((request >> 32) as u32, request as u32);
    let own = replace(BUSY);
    let traced = match shared_memory() {
        // SAFETY: see the functions.
        Some(memory) => unsafe { answer_request(memory, own, why, block, frame) },
        None => {
            replace(own);
            false
        }
    };
    u64::from(traced)
}

/// # Safety
/// `own` is this thread's pointer, which is [`BUSY`] now. `frame` is the frame of the code above.
unsafe fn answer_request(
    memory: &'static Memory,
    own: usize,
    why: u32,
    block: u32,
    frame: u64,
) -> bool {
    if why == reason::LIBRARY {
        super::steps::ask_controller(memory);
        replace(own);
        return false;
    }
    let runs = memory.state.load(Acquire) == state::RUNNING;
    if own == BUSY || own == 0 && (!runs || why == reason::RETURN) {
        replace(own);
        return false;
    }
    if own == 0 {
        return local::begin_thread(memory);
    }
    // SAFETY: this thread's own, which stays.
    let local = unsafe { &mut *(own as *mut Local) };
    let traced = match why {
        reason::SEGMENT => {
            segment::go_on(memory, local);
            true
        }
        // SAFETY: the controller's code has its frame in rbx, which was pushed first.
        reason::RETURN => unsafe {
            let ended = &mut *(*((frame - 8) as *const u64) as *mut Frame);
            frames::is_last(memory, local, ended)
        },
        reason::COUNT if !runs => {
            calls::let_calls_pass(memory, local, block);
            false
        }
        _ if !runs => false,
        reason::FRAME => {
            let reclaimed = frames::reclaim_ended(local);
            if !reclaimed {
                memory.too_deep.fetch_add(1, Relaxed);
            }
            reclaimed
        }
        // SAFETY: see the caller.
        reason::COUNT => unsafe { count_expired(memory, local, block, frame) },
        _ => false,
    };
    replace(own);
    traced
}

/// Handles a count that has run out. The execution may be recorded, and its stack may be recorded.
///
/// # Safety
/// As [`answer_request`].
unsafe fn count_expired(memory: &Memory, local: &mut Local, block: u32, frame: u64) -> bool {
    let turn = calls::decide_turn(memory, local, block);
    if sys::calls_restricted() {
        memory.filtered.store(1, Relaxed);
    } else if turn.stack {
        // SAFETY: see the caller.
        unsafe { put_stack(local, block, frame) };
    }
    turn.recorded
}

/// Writes the caller's registers and its stack as they would be without tracing.
///
/// # Safety
/// As [`answer_request`].
unsafe fn put_stack(local: &mut Local, block: u32, frame: u64) {
    const REGISTERS: usize = 8;
    let stack = frame + TO_STACK;
    let records = 1 + (REGISTERS + STACK) / 2;
    if local.head + (records * RECORD) as u64 > local.end {
        return; // the next one will find room
    }
    // A claim before the copy would leave a gap if the stack is shorter.
    let words = local.head + RECORD as u64;
    let to = words + REGISTERS as u64 * 8;
    let read = copy_memory(sys::process_id() as usize, stack, to, STACK * 8) / 8;
    if read == 0 {
        return;
    }
    restore_returns(local, stack, to, read);
    // SAFETY: what the code above has pushed, and the word that the controller's code has kept of
    // the caller below the stack pointer; room was checked.
    unsafe {
        let word = |at: u64| *(at as *const u64);
        let registers = [
            word(stack),
            stack + 8,
            word(frame),
            word(stack - 16),
            word(frame - 80),
            word(frame - 88),
            word(frame - 96),
            word(frame - 104),
        ];
        core::ptr::copy_nonoverlapping(registers.as_ptr(), words as *mut u64, REGISTERS);
    }
    let count = REGISTERS + read;
    let at = segment::claim_records(local, 1 + count.div_ceil(2));
    segment::write_record(
        at,
        (count as u64) << record::TAG | record::STACK,
        u64::from(block),
    );
}

/// Copies memory of this process that may end anywhere. Returns the number of bytes copied.
fn copy_memory(pid: usize, from: u64, to: u64, length: usize) -> usize {
    let (to, from) = ([to as usize, length], [from as usize, length]);
    let arguments = [pid, to.as_ptr() as usize, 1, from.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes to the room that the caller has checked.
    let copied = unsafe { sys::call(libc::SYS_process_vm_readv, arguments) };
    copied.max(0) as usize
}

/// Restores the original return addresses in a copy of the stack.
fn restore_returns(local: &Local, stack: u64, copy: u64, words: usize) {
    let mut at = local.top;
    while at > local.base {
        at -= size_of::<Frame>() as u64;
        // SAFETY: a frame of this thread's, between the first and the last in use.
        let frame = unsafe { &*(at as *const Frame) };
        if frames::is_marked(frame) || frame.block == ENDED {
            continue;
        }
        let Some(offset) = (frame.stack - 8).checked_sub(stack) else {
            continue;
        };
        if offset / 8 >= words as u64 {
            break;
        }
        // SAFETY: a word of the copy.
        unsafe { *((copy + offset) as *mut u64) = frame.return_address };
    }
}
