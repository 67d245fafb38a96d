//! Relocation of a function's first instructions.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, MemoryOperand, OpKind, Register,
};

/// Length of the jump that replaces a function's first bytes.
pub(super) const JUMP: usize = 5;

/// Reason that a function cannot be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceRefusal {
    /// The function is too small for a jump, and there is no room after it.
    #[error("is shorter than the jump that would be put at its entry")]
    TooShort,
    /// A jump leads into the bytes that would be replaced.
    #[error("jumps back to its first instructions")]
    JumpsBack,
    /// The function calls another one in its first instructions. That call would have another
    /// return address.
    #[error("calls another function within its first instructions")]
    EarlyCall,
    /// The function has bytes that are no instruction.
    #[error("has bytes that are no instruction")]
    NoInstruction,
    /// The function has no unwinding information. It may be assembly with its own calling
    /// convention.
    #[error("has no unwinding information: it may be assembly with conventions of its own")]
    NoUnwinding,
    /// The function returns more than once, switches stacks, or looks at its return address.
    #[error("returns more than once, switches stacks or looks at its return address")]
    Special,
    /// The symbol is a resolver that only chooses among functions.
    #[error("is an indirect function, chosen when it is first used")]
    Indirect,
    /// The symbol has no size.
    #[error("has no size in the symbol table")]
    NoSize,
    /// No memory is free within reach of a jump.
    #[error("is too far from memory that is free")]
    TooFar,
    /// The limit on the number of blocks is reached.
    #[error("is one too many")]
    TooMany,
}

impl TraceRefusal {}

/// The first instructions of a function.
#[derive(Debug)]
pub(super) struct Prologue {
    /// Address of the jump. It comes after an ENDBR64, which marks a target of indirect jumps.
    pub at: u64,
    /// Number of bytes that the jump replaces.
    pub length: usize,
    instructions: Vec<Instruction>,
}

/// Returns all targets of direct jumps in the code of an image, sorted.
pub(super) fn jump_targets<'a>(functions: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u64> {
    let mut targets = Vec::new();
    let mut instruction = Instruction::default();
    for (address, code) in functions {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.op0_kind() == OpKind::NearBranch64
                && instruction.flow_control() != FlowControl::Call
            {
                targets.push(instruction.near_branch_target());
            }
        }
    }
    targets.sort_unstable();
    targets.dedup();
    targets
}

impl Prologue {
    /// Returns the prologue of a function with this code. `free` bytes of padding follow the
    /// function.
    pub fn of(
        address: u64,
        code: &[u8],
        free: usize,
        targets: &[u64],
    ) -> Result<Self, TraceRefusal> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let skipped = if code.starts_with(&ENDBR64) { 4 } else { 0 };
        let at = address + skipped as u64;
        let body = code.get(skipped..).unwrap_or_default();
        let (instructions, mut length) = replaced_instructions(at, body)?;
        if length < JUMP {
            let rest = body.get(length..).unwrap_or_default();
            // XRay's sleds jump over NOPs, and compilers pad functions with NOPs.
            let idle = leading_nops(rest);
            let room = if length + idle >= body.len() {
                idle + free
            } else {
                idle
            };
            if length + room < JUMP {
                return Err(TraceRefusal::TooShort);
            }
            length = JUMP;
        }
        let inside = |target: u64| target > at && target < at + length as u64;
        let position = targets.partition_point(|target| *target <= at);
        if targets.get(position).is_some_and(|target| inside(*target)) {
            return Err(TraceRefusal::JumpsBack);
        }
        let own = jump_targets(std::iter::once((address, code)));
        if own.iter().any(|target| *target == at || *target == address) {
            return Err(TraceRefusal::JumpsBack);
        }
        let (last, others) = instructions.split_last().ok_or(TraceRefusal::TooShort)?;
        let calls = |i: &Instruction| {
            matches!(
                i.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            )
        };
        // The pushed return address moves the stack pointer, so operands that use RSP would be
        // wrong.
        let indirect = last.flow_control() == FlowControl::IndirectCall;
        let as_jump = last.code() == Code::Call_rm64
            && ![last.memory_base(), last.op0_register()].contains(&Register::RSP);
        if others.iter().any(calls) || indirect && !as_jump {
            return Err(TraceRefusal::EarlyCall);
        }
        Ok(Self {
            at,
            length,
            instructions,
        })
    }

    /// Encodes the instructions for another address, followed by a jump to the rest of the
    /// function.
    pub fn encode(&self, to: u64) -> Result<Vec<u8>, TraceRefusal> {
        // The return address of a call is stored as data before the code.
        let code_at = to + 8;
        let mut instructions = self.instructions.clone();
        let mut return_address = 0;
        if let Some(last) = instructions.last().copied() {
            match last.flow_control() {
                // Calls of a profiler (-pg) are an example.
                FlowControl::Call | FlowControl::IndirectCall => {
                    instructions.pop();
                    return_address = last.next_ip();
                    let place = MemoryOperand::with_base_displ(Register::RIP, to as i64);
                    let push = Instruction::with1(Code::Push_rm64, place);
                    instructions.push(push.map_err(|_| TraceRefusal::EarlyCall)?);
                    instructions.push(match last.flow_control() {
                        FlowControl::Call => encode_jump(last.near_branch_target())?,
                        _ => {
                            let mut jump = last;
                            jump.set_code(Code::Jmp_rm64);
                            jump
                        }
                    });
                }
                FlowControl::Return
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch => {}
                _ => instructions.push(encode_jump(self.at + self.length as u64)?),
            }
        }
        let block = InstructionBlock::new(&instructions, code_at);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
        let mut bytes = u64::to_le_bytes(return_address).to_vec();
        bytes.extend(encoded.map_err(|_| TraceRefusal::TooFar)?.code_buffer);
        Ok(bytes)
    }
}

fn encode_jump(target: u64) -> Result<Instruction, TraceRefusal> {
    Instruction::with_branch(Code::Jmp_rel32_64, target).map_err(|_| TraceRefusal::TooFar)
}

/// Returns the complete instructions that the jump replaces, and their length.
fn replaced_instructions(at: u64, body: &[u8]) -> Result<(Vec<Instruction>, usize), TraceRefusal> {
    let mut decoder = Decoder::with_ip(64, body, at, DecoderOptions::NONE);
    let (mut instructions, mut length) = (Vec::new(), 0);
    while length < JUMP && decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(TraceRefusal::NoInstruction);
        }
        length += instruction.len();
        instructions.push(instruction);
        if matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        ) {
            break;
        }
    }
    Ok((instructions, length))
}

/// Returns the length of the NOPs at the beginning of the bytes.
pub(super) fn leading_nops(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut length = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let idle = matches!(
            instruction.mnemonic(),
            iced_x86::Mnemonic::Nop | iced_x86::Mnemonic::Int3
        );
        if instruction.is_invalid() || !idle {
            break;
        }
        length += instruction.len();
    }
    length
}
