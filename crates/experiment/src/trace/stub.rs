//! Generator of the trampoline of a traced function.
//!
//! The trampoline calls the function. It keeps the original return address in a frame of our own,
//! and the frame's address in rbx. The unwinding information describes both
//! ([`unwind_information`]). So the processor predicts the returns, and exceptions, cancellation
//! and debuggers pass through.

use iced_x86::BlockEncoderOptions;
use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, byte_ptr, dword_ptr, eax, ebx, edx, qword_ptr, rax, rbx, rcx, rdi,
    rdx, rsp,
};
use runtime_abi::trace::{COUNTS, ENDED, Frame, Local, RECORD, reason, record};
use std::mem::offset_of;

/// Maximum size of the trampoline of one function.
pub(super) const SIZE: usize = 768;

/// Settings that all trampolines of a process share.
pub(super) struct Process {
    /// Offset of a thread's pointer to its [`Local`] from the thread pointer, in bytes.
    pub local: i32,
    /// Address of [`runtime_abi::trace::Memory::periods`] in the target.
    pub periods: u64,
}

/// A traced function, as its trampoline needs it.
pub(super) struct TraceStub {
    pub block: u32,
    /// True if the first argument is recorded.
    pub takes_address: bool,
    /// Address of the function's first instructions.
    pub body: u64,
    /// Address of the jump to the runtime, within reach of a call.
    pub slow: u64,
}

macro_rules! at {
    ($type:ty, $($field:tt)+) => { offset_of!($type, $($field)+) as i32 };
}

/// Distance from a record to the prefetched room of later records, in bytes. That is some
/// executions ahead.
const AHEAD: i32 = 512;

/// Number of bytes below the stack pointer that keep saved registers during a call of the runtime.
const BELOW: i32 = 32;

impl TraceStub {
    /// Encodes the trampoline for an address. Also returns the address to which the function
    /// returns.
    pub fn encode(&self, process: &Process, to: u64) -> Result<(Vec<u8>, u64), IcedError> {
        let mut a = CodeAssembler::new(64)?;
        let mut again = a.create_label();
        let mut traced = a.create_label();
        let mut sampled = a.create_label();
        let mut skip = a.create_label();
        let mut no_frame = a.create_label();
        let mut no_room = a.create_label();
        let mut counted = a.create_label();
        let mut foreign = a.create_label();
        let mut full = a.create_label();
        let mut written = a.create_label();
        let mut returned = a.create_label();
        let local = qword_ptr(process.local).fs();
        let count = dword_ptr(rax + (COUNTS as i32 + self.block as i32 * 4));

        // We may use the red zone below the stack pointer: the function has not executed anything
        // yet.
        a.mov(qword_ptr(rsp - 16), rbx)?;
        a.mov(qword_ptr(rsp - 24), rax)?;
        a.set_label(&mut again)?;
        a.mov(rax, local)?;
        a.cmp(rax, 1)?;
        a.jbe(no_frame)?;
        // On the stack of a coroutine or a signal handler, frames would not end in reverse order.
        a.mov(rbx, rsp)?;
        a.sub(rbx, qword_ptr(rax + at!(Local, stack_low)))?;
        a.cmp(rbx, qword_ptr(rax + at!(Local, stack_size)))?;
        a.jae(foreign)?;
        a.sub(count, 1)?;
        a.js(counted)?;
        // This execution is recorded whatever the period. The next one asks the runtime.
        a.je(traced)?;
        a.mov(rbx, process.periods + u64::from(self.block) * 4)?;
        a.mov(ebx, dword_ptr(rbx))?;
        a.test(ebx, ebx)?;
        a.jne(sampled)?;
        a.set_label(&mut traced)?;
        a.mov(rbx, qword_ptr(rax + at!(Local, top)))?;
        a.cmp(rbx, qword_ptr(rax + at!(Local, limit)))?;
        a.jae(no_room)?;
        self.encode_enter(&mut a)?;
        a.set_label(&mut returned)?;
        self.encode_leave(&mut a, process, full, &mut written)?;

        a.set_label(&mut full)?;
        self.encode_call(&mut a, reason::SEGMENT)?;
        a.jmp(written)?;
        a.set_label(&mut foreign)?;
        a.mov(rbx, qword_ptr(rax + at!(Local, foreign)))?;
        a.add(qword_ptr(rbx), 1)?;
        a.jmp(skip)?;
        a.set_label(&mut sampled)?;
        // The count dates from before the period was set. Without this check the thread would not
        // ask for long.
        a.cmp(count, ebx)?;
        a.jae(counted)?;
        a.set_label(&mut skip)?;
        a.mov(rax, qword_ptr(rsp - 24))?;
        a.mov(rbx, qword_ptr(rsp - 16))?;
        a.jmp(self.body)?;
        for (label, reason, then) in [
            (&mut counted, reason::COUNT, traced),
            (&mut no_room, reason::FRAME, traced),
            (&mut no_frame, reason::FRAME, again),
        ] {
            a.set_label(label)?;
            self.encode_ask(&mut a, reason)?;
            a.je(skip)?;
            // A child that shares the thread's memory (raw clone) may have released the state
            // meanwhile.
            a.mov(rax, local)?;
            a.cmp(rax, 1)?;
            a.ja(then)?;
            a.jmp(skip)?;
        }
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = a.assemble_options(to, options)?;
        let returned = result.label_ip(&returned)?;
        Ok((result.inner.code_buffer, returned))
    }

    /// Encodes a question to the runtime: is this execution traced? The bytes below the stack
    /// pointer are kept.
    fn encode_ask(&self, a: &mut CodeAssembler, reason: u32) -> Result<(), IcedError> {
        a.lea(rsp, qword_ptr(rsp - BELOW))?;
        self.encode_call(a, reason)?;
        a.lea(rsp, qword_ptr(rsp + BELOW))?;
        a.test(eax, eax)
    }

    /// Encodes a call of the runtime, which changes only rax.
    fn encode_call(&self, a: &mut CodeAssembler, reason: u32) -> Result<(), IcedError> {
        a.mov(rax, u64::from(reason) << 32 | u64::from(self.block))?;
        a.call(self.slow)
    }

    /// Encodes the entry: fills the frame and calls the function. rax has the thread's [`Local`],
    /// and rbx a frame.
    fn encode_enter(&self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        // The frame is taken first, so that a signal handler takes the next one.
        a.add(qword_ptr(rax + at!(Local, top)), size_of::<Frame>() as i32)?;
        a.mov(qword_ptr(rbx + at!(Frame, local)), rax)?;
        a.mov(rax, qword_ptr(rsp - 16))?;
        a.mov(qword_ptr(rbx + at!(Frame, rbx)), rax)?;
        a.mov(rax, qword_ptr(rsp - 24))?;
        a.mov(qword_ptr(rbx + at!(Frame, rax)), rax)?;
        a.pop(qword_ptr(rbx + at!(Frame, return_address)))?;
        a.mov(qword_ptr(rbx + at!(Frame, stack)), rsp)?;
        a.mov(qword_ptr(rbx + at!(Frame, block)), self.block as i32)?;
        a.mov(qword_ptr(rbx + at!(Frame, rdx)), rdx)?;
        if self.takes_address {
            a.mov(qword_ptr(rbx + at!(Frame, address)), rdi)?;
        }
        a.rdtsc()?;
        a.shl(rdx, 32)?;
        a.or(rax, rdx)?;
        a.mov(qword_ptr(rbx + at!(Frame, enter)), rax)?;
        a.mov(rdx, qword_ptr(rbx + at!(Frame, rdx)))?;
        a.mov(rax, qword_ptr(rbx + at!(Frame, rax)))?;
        a.call(self.body)
    }

    /// Encodes the exit: writes the record and returns. rbx has the frame.
    fn encode_leave(
        &self,
        a: &mut CodeAssembler,
        process: &Process,
        full: CodeLabel,
        written: &mut CodeLabel,
    ) -> Result<(), IcedError> {
        let mut unordered = a.create_label();
        let mut recorded = a.create_label();
        a.mov(qword_ptr(rbx + at!(Frame, rax)), rax)?;
        a.mov(qword_ptr(rbx + at!(Frame, rdx)), rdx)?;
        a.mov(qword_ptr(rbx + at!(Frame, rcx)), rcx)?;
        // Only the last frame of this thread may be popped.
        a.mov(rcx, qword_ptr(process.local).fs())?;
        a.cmp(rcx, qword_ptr(rbx + at!(Frame, local)))?;
        a.jne(unordered)?;
        a.lea(rdx, qword_ptr(rbx + size_of::<Frame>() as i32))?;
        a.cmp(rdx, qword_ptr(rcx + at!(Local, top)))?;
        a.jne(unordered)?;
        a.set_label(&mut recorded)?;
        a.rdtsc()?;
        a.shl(rdx, 32)?;
        a.or(rax, rdx)?;
        a.mov(rcx, qword_ptr(rbx + at!(Frame, local)))?;
        // A single instruction claims the room, so that a signal handler claims other room.
        let first = if self.takes_address { RECORD as i32 } else { 0 };
        a.mov(edx, first + RECORD as i32)?;
        a.xadd(qword_ptr(rcx + at!(Local, head)), rdx)?;
        // The controller has cleared the room on another CPU. The prefetch fetches its cache line
        // in time.
        a.prefetchw(byte_ptr(rdx + AHEAD))?;
        a.mov(rcx, rax)?;
        a.sub(rcx, qword_ptr(rbx + at!(Frame, enter)))?;
        a.mov(qword_ptr(rdx + (first + 8)), rcx)?;
        a.shl(rax, record::TAG)?;
        a.or(rax, self.block as i32)?;
        if self.takes_address {
            a.mov(rcx, qword_ptr(rbx + at!(Frame, address)))?;
            a.mov(qword_ptr(rdx + 8), rcx)?;
            a.mov(qword_ptr(rdx), record::ADDRESS as i32)?;
        }
        a.mov(qword_ptr(rdx + first), rax)?;
        a.mov(rcx, qword_ptr(rbx + at!(Frame, local)))?;
        a.cmp(rdx, qword_ptr(rcx + at!(Local, end)))?;
        a.jae(full)?;
        a.set_label(written)?;
        // The remaining values go to the stack before the frame is released.
        a.push(qword_ptr(rbx + at!(Frame, return_address)))?;
        a.push(qword_ptr(rbx + at!(Frame, rbx)))?;
        a.push(qword_ptr(rbx + at!(Frame, rcx)))?;
        a.mov(rdx, qword_ptr(rbx + at!(Frame, rdx)))?;
        a.mov(rax, qword_ptr(rbx + at!(Frame, rax)))?;
        a.mov(rcx, qword_ptr(rbx + at!(Frame, local)))?;
        a.mov(qword_ptr(rcx + at!(Local, top)), rbx)?;
        a.pop(rcx)?;
        a.pop(rbx)?;
        a.ret()?;
        a.set_label(&mut unordered)?;
        self.encode_call(a, reason::RETURN)?;
        a.test(eax, eax)?;
        a.jne(recorded)?;
        // The frame stays in place until all later frames have ended.
        a.push(qword_ptr(rbx + at!(Frame, return_address)))?;
        a.push(qword_ptr(rbx + at!(Frame, rbx)))?;
        a.mov(rcx, qword_ptr(rbx + at!(Frame, rcx)))?;
        a.mov(rdx, qword_ptr(rbx + at!(Frame, rdx)))?;
        a.mov(rax, qword_ptr(rbx + at!(Frame, rax)))?;
        a.mov(qword_ptr(rbx + at!(Frame, block)), ENDED as i32)?;
        a.pop(rbx)?;
        a.ret()
    }
}

/// Returns code that notifies the runtime of a library, and continues at `body`.
pub(super) fn library_stub(body: u64, slow: u64, to: u64) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    a.lea(rsp, qword_ptr(rsp - BELOW))?;
    a.mov(rax, u64::from(reason::LIBRARY) << 32)?;
    a.call(slow)?;
    a.lea(rsp, qword_ptr(rsp + BELOW))?;
    a.jmp(body)?;
    let result = a.assemble_options(to, BlockEncoderOptions::NONE)?;
    Ok(result.inner.code_buffer)
}

/// Size of an entry of [`unwind_information`], in bytes.
pub(super) const UNWIND_ENTRY: usize = 32;

/// Returns the unwinding information for the return addresses of traced functions. While a traced
/// function runs, rbx has the address of its frame. At other instructions of a trampoline rbx is
/// the program's, and unwinding ends there: a thread can be cancelled anywhere.
///
/// The trampoline's frame has its own canonical frame address, four bytes above the stack pointer,
/// because unwinders identify frames by it. The caller's rbx is given as a value, not as a place:
/// traced personality routines reuse the next frame.
pub(super) fn unwind_information(personality: u64, returns: &[u64]) -> Vec<u8> {
    const FIELD: u8 = 0x73; // DW_OP_breg3: rbx and an offset
    let mut cie = vec![1];
    cie.extend(b"zP\0");
    cie.extend([1, 0x78, 16]); // code alignment 1, data alignment -8, the return address is column 16
    cie.extend([9, 0]); // the personality, an absolute address
    cie.extend(personality.to_le_bytes());
    cie.extend([0x0c, 7, 4]); // DW_CFA_def_cfa: rsp + 4
    cie.extend([0x10, 16, 2, FIELD, at!(Frame, return_address) as u8]); // DW_CFA_expression
    cie.extend([0x16, 3, 3, FIELD, at!(Frame, rbx) as u8, 0x06]); // DW_CFA_val_expression
    cie.extend([0x16, 7, 2, 0x77, 0]); // rsp is unchanged
    let mut all = frame_entry(0, &cie);
    for returned in returns {
        // Unwinders look up the byte before the return address.
        let mut fde = (returned - 1).to_le_bytes().to_vec();
        fde.extend(1u64.to_le_bytes());
        fde.push(0);
        let pointer = all.len() as u32 + 4;
        all.extend(frame_entry(pointer, &fde));
    }
    all.extend([0; 4]);
    all
}

fn frame_entry(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut entry = kind.to_le_bytes().to_vec();
    entry.extend(content);
    while !(entry.len() + 4).is_multiple_of(8) {
        entry.push(0); // DW_CFA_nop
    }
    let mut all = (entry.len() as u32).to_le_bytes().to_vec();
    all.extend(entry);
    all
}
