//! The frame by which a thread restores itself, as from a signal handler: registers, signal mask
//! and vectors in the form of a signal frame (`struct ucontext`).

use libc::user_regs_struct;

/// Code in the target by which a thread makes a system call and then returns from a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReturningCall {
    /// Address of a `syscall` instruction with a return after it.
    pub call: u64,
    /// The code that returns from the handler after the call.
    pub back: WayOfReturning,
}

/// Code that returns from a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayOfReturning {
    /// Address of the call that returns.
    Call(u64),
    /// Address of `pop rax; ret`, which loads the number of that call for the first `syscall`.
    PopNumber(u64),
}

/// `rt_sigreturn`.
const RETURN: u64 = 15;

impl ReturningCall {
    /// Finds both in the bytes of a C library's code. The first is the end of `syscall`, which
    /// compares the result with the largest error.
    pub fn find_code(code: &[u8]) -> Option<(u64, u64)> {
        const CALL: &[u8] = b"\x0f\x05\x48\x3d\x01\xf0\xff\xff\x73\x01\xc3";
        const LEAVE: &[u8] = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";
        let find = |wanted: &[u8]| code.windows(wanted.len()).position(|it| it == wanted);
        Some((find(CALL)? as u64, find(LEAVE)? as u64))
    }

    /// Returns the return addresses and popped words in front of the frame: the call returns to the
    /// first one.
    pub fn words_before_frame(&self) -> Vec<u64> {
        match self.back {
            WayOfReturning::Call(leave) => vec![leave],
            WayOfReturning::PopNumber(pop) => vec![pop, RETURN, self.call],
        }
    }
}

/// Searches the code of any program for such code, piece by piece.
#[derive(Default)]
pub(super) struct ReturningCodeSearch {
    call: Option<u64>,
    pop: Option<u64>,
}

impl ReturningCodeSearch {
    /// Searches code that stands at an address.
    pub fn search_code(&mut self, code: &[u8], address: u64) {
        let find = |wanted: &[u8]| {
            let at = code.windows(wanted.len()).position(|it| it == wanted)?;
            Some(address + at as u64)
        };
        self.call = self.call.or_else(|| find(b"\x0f\x05\xc3"));
        self.pop = self.pop.or_else(|| find(b"\x58\xc3"));
    }

    /// Returns the code, once all of it is found.
    pub fn found_code(&self) -> Option<ReturningCall> {
        Some(ReturningCall {
            call: self.call?,
            back: WayOfReturning::PopNumber(self.pop?),
        })
    }
}

/// Offset of the vectors in a frame. They are aligned to 64 bytes if the frame is.
const VECTORS: u64 = 1024;

/// Returns the size of a frame with these vectors, in bytes.
pub(super) fn frame_size(vectors: &[u8]) -> u64 {
    VECTORS + vectors.len() as u64 + 4
}

/// Returns the bytes of a frame for address `at`.
pub(super) fn frame_bytes(
    registers: &user_regs_struct,
    mask: u64,
    vectors: &[u8],
    at: u64,
) -> Vec<u8> {
    // The frame has the extended state and the stack segment. Its alternative stack is invalid, so
    // the kernel leaves the thread's unchanged.
    const PARTS: u64 = 7;
    const NO_STACK: u64 = 0x7f;
    let segments = registers.cs | registers.ss << 48;
    let vectors_at = at + VECTORS;
    let words = [
        PARTS,
        0,
        0,
        NO_STACK,
        0,
        registers.r8,
        registers.r9,
        registers.r10,
        registers.r11,
        registers.r12,
        registers.r13,
        registers.r14,
        registers.r15,
        registers.rdi,
        registers.rsi,
        registers.rbp,
        registers.rbx,
        registers.rdx,
        registers.rax,
        registers.rcx,
        registers.rsp,
        registers.rip,
        registers.eflags,
        segments,
        0,
        0,
        0,
        0,
        vectors_at,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        mask,
    ];
    let mut frame: Vec<u8> = words
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    frame.resize(VECTORS as usize, 0);
    frame.extend(signal_vectors(vectors));
    frame
}

/// Returns the extended state in the form of a signal frame, with a header and an end mark.
fn signal_vectors(state: &[u8]) -> Vec<u8> {
    const FIRST: u32 = 0x4650_5853;
    const SECOND: u32 = 0x4650_5845;
    const OWN: usize = 464;
    let mut vectors = state.to_vec();
    // There the kernel tells debuggers which parts are present.
    let parts: Vec<u8> = state.get(OWN..OWN + 8).unwrap_or_default().to_vec();
    let size = state.len() as u32;
    let mut own = Vec::new();
    own.extend(FIRST.to_le_bytes());
    own.extend((size + 4).to_le_bytes());
    own.extend(parts);
    own.extend(size.to_le_bytes());
    if let Some(place) = vectors.get_mut(OWN..OWN + own.len()) {
        place.copy_from_slice(&own);
    }
    vectors.extend(SECOND.to_le_bytes());
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_returns_is_found_or_not() {
        let mut code = vec![0x90; 5];
        code.extend(b"\x0f\x05\x48\x3d\x01\xf0\xff\xff\x73\x01\xc3");
        assert_eq!(ReturningCall::find_code(&code), None);
        code.extend(b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05");
        assert_eq!(ReturningCall::find_code(&code), Some((5, 16)));
        assert_eq!(ReturningCall::find_code(&[]), None);
    }

    #[test]
    fn any_program_has_a_way_back_somewhere() {
        let mut search = ReturningCodeSearch::default();
        search.search_code(b"\x90\x58\xc3", 0x1000);
        assert_eq!(search.found_code(), None);
        search.search_code(b"\x58\xc3\x0f\x05\xc3", 0x2000);
        let found = search.found_code().unwrap();
        assert_eq!(found.call, 0x2002);
        assert_eq!(found.words_before_frame(), [0x1001, 15, 0x2002]);
    }

    #[test]
    fn a_frame_has_what_the_kernel_reads() {
        // SAFETY: zeros are registers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rip, registers.rsp) = (0x1234, 0x5678);
        let vectors = vec![7; 832];
        let frame = frame_bytes(&registers, 0xf0, &vectors, 0x10_0000);
        assert_eq!(frame.len() as u64, frame_size(&vectors));
        let word = |number: usize| u64::from_le_bytes(frame[8 * number..][..8].try_into().unwrap());
        assert_eq!([word(20), word(21)], [0x5678, 0x1234]);
        assert_eq!(word(28), 0x10_0400);
        assert_eq!(word(37), 0xf0);
    }
}
