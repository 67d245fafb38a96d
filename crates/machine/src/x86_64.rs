//! x86-64, decoded by iced-x86.

use crate::effect::{AddressSum, Condition, RegisterEffect};
use crate::{
    Error, Flow, Instruction, InstructionForm, InstructionKind, MemoryOperand, Register,
    RegisterSet,
};
use iced_x86::{
    Code, ConditionCode, CpuidFeature, Decoder, DecoderError, DecoderOptions, FlowControl,
    Formatter, GasFormatter, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register as Name,
    UsedMemory,
};
use profile::ImageAddress;

/// Length of the longest instruction.
pub(crate) const MAX_LENGTH: usize = 15;

pub(crate) fn parse_x86_64(
    address: ImageAddress,
    bytes: &[u8],
) -> Result<iced_x86::Instruction, Error> {
    let bytes = bytes.get(..MAX_LENGTH).unwrap_or(bytes);
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE);
    let parsed = decoder.decode();
    match decoder.last_error() {
        DecoderError::None => Ok(parsed),
        DecoderError::NoMoreBytes if bytes.len() < MAX_LENGTH => Err(Error::Truncated(address)),
        _ => Err(Error::Invalid(address)),
    }
}

/// Decoder of one instruction at a time.
#[derive(Debug)]
pub(crate) struct X86_64 {
    info: InstructionInfoFactory,
}

impl X86_64 {
    pub fn new() -> Self {
        Self {
            info: InstructionInfoFactory::new(),
        }
    }

    pub fn decode(&mut self, address: ImageAddress, bytes: &[u8]) -> Result<Instruction, Error> {
        let parsed = parse_x86_64(address, bytes)?;
        let info = self.info.info(&parsed);
        let (mut reads, mut writes) = (RegisterSet::default(), RegisterSet::default());
        for used in info.used_registers() {
            let Some(register) = register_named(used.register()) else {
                continue;
            };
            let access = used.access();
            if is_read(access) {
                reads.insert(register);
            }
            if is_written(access) {
                writes.insert(register);
            }
        }
        if parsed.rflags_read() != 0 {
            reads.insert(Register::FLAGS);
        }
        if parsed.rflags_modified() != 0 {
            writes.insert(Register::FLAGS);
        }
        let mut kind = kind_of(&parsed);
        let mut place = None;
        if !kind.nop {
            for memory in info.used_memory() {
                kind.load |= is_read(memory.access());
                kind.store |= is_written(memory.access());
            }
            let mut all = info.used_memory().iter();
            kind.fixed_address = (kind.load || kind.store) && all.all(is_fixed);
            if let [only] = info.used_memory() {
                place = place_of(only);
            }
        }
        Ok(Instruction {
            address,
            // At most 15.
            length: parsed.len() as u8,
            flow: flow_of(&parsed),
            reads,
            writes,
            kind,
            form: form_of(&parsed),
            place,
            advances: advanced_register(&parsed),
        })
    }
}

fn form_of(parsed: &iced_x86::Instruction) -> InstructionForm {
    let in_memory = (0..parsed.op_count()).any(|op| parsed.op_kind(op) == OpKind::Memory);
    let three_parts = parsed.mnemonic() == Mnemonic::Lea
        && parsed.memory_base() != Name::None
        && parsed.memory_index() != Name::None
        && parsed.memory_displacement64() != 0;
    let variant = if three_parts { 2 } else { u32::from(in_memory) };
    InstructionForm(parsed.code() as u32 * VARIANTS + variant)
}

/// Variants of each opcode: registers only, with memory, with an address of three parts.
const VARIANTS: u32 = 3;

pub(crate) fn form_name(form: u32) -> String {
    let code = Code::try_from((form / VARIANTS) as usize).unwrap_or(Code::INVALID);
    let variant = ["", "+m", "+3"][(form % VARIANTS) as usize];
    format!("{code:?}{variant}")
}

/// Returns the forms with their names.
pub(crate) fn all_forms() -> impl Iterator<Item = (String, InstructionForm)> {
    let all =
        Code::values().flat_map(|code| (0..VARIANTS).map(move |one| code as u32 * VARIANTS + one));
    all.map(|form| (form_name(form), InstructionForm(form)))
}

/// Returns the instruction in the GNU assembler's notation.
pub(crate) fn format_x86_64(address: ImageAddress, bytes: &[u8]) -> Result<String, Error> {
    let parsed = parse_x86_64(address, bytes)?;
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(false);
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    let mut text = String::new();
    formatter.format(&parsed, &mut text);
    Ok(text)
}

/// Returns whether an address does not depend on computed values: it is relative to the code, or in
/// the thread's own memory.
fn is_fixed(memory: &UsedMemory) -> bool {
    let base = matches!(memory.base(), Name::None | Name::RIP | Name::EIP);
    base && memory.index() == Name::None
}

/// Returns the place of an operand, if general registers alone determine it.
fn place_of(memory: &UsedMemory) -> Option<MemoryOperand> {
    let known = |name: Name| match name {
        Name::None | Name::RIP | Name::EIP => Some(None),
        name if name.is_gpr64() => integer_register(name).map(Some),
        _ => None,
    };
    let index = known(memory.index())?;
    Some(MemoryOperand {
        base: known(memory.base())?,
        // At most 8.
        index: index.map(|index| (index, memory.scale() as u8)),
        displacement: memory.displacement() as i64,
        bytes: memory.memory_size().size() as u32,
    })
}

/// Returns the register to which an instruction adds a constant, all of it or its low half.
fn advanced_register(parsed: &iced_x86::Instruction) -> Option<(Register, i64)> {
    let to = parsed.op0_register();
    let whole = parsed.op0_kind() == OpKind::Register && (to.is_gpr64() || to.is_gpr32());
    let constant = || match parsed.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(parsed.immediate(1) as i64),
        OpKind::Immediate8to32 | OpKind::Immediate32 => Some(i64::from(parsed.immediate(1) as i32)),
        _ => None,
    };
    let by = match parsed.mnemonic() {
        Mnemonic::Inc => 1,
        Mnemonic::Dec => -1,
        Mnemonic::Add => constant()?,
        Mnemonic::Sub => constant()?.checked_neg()?,
        Mnemonic::Lea => {
            let alone = parsed.memory_index() == Name::None;
            let same = parsed.memory_base().full_register() == to.full_register();
            (alone && same).then_some(parsed.memory_displacement64() as i64)?
        }
        _ => return None,
    };
    Some((integer_register(to).filter(|_| whole)?, by))
}

pub(crate) fn is_read(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

pub(crate) fn is_written(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn register_named(name: Name) -> Option<Register> {
    let number = |bank: u8, first: Name, width: usize| {
        let index = (name as usize).checked_sub(first as usize)?;
        (index < width).then(|| Register::new(bank, index as u8))
    };
    if name.is_gpr() {
        return integer_register(name);
    }
    if name.is_vector_register() {
        let full = name.full_register();
        let index = (full as usize).checked_sub(Name::ZMM0 as usize)?;
        return (index < 32).then(|| Register::new(Register::VECTOR, index as u8));
    }
    number(Register::MASK, Name::K0, 8)
        .or_else(|| number(Register::X87, Name::ST0, 8))
        .or_else(|| number(Register::X87, Name::MM0, 8))
}

fn integer_register(name: Name) -> Option<Register> {
    let index = (name.full_register() as usize).checked_sub(Name::RAX as usize)?;
    (index < 16).then(|| Register::integer(index as u8))
}

fn flow_of(parsed: &iced_x86::Instruction) -> Flow {
    let target = ImageAddress(parsed.near_branch_target());
    match parsed.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::ConditionalBranch => Flow::Branch(target),
        FlowControl::UnconditionalBranch => Flow::Jump(target),
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::Call if is_system_call(parsed.code()) => Flow::Next,
        FlowControl::Call => Flow::Call(target),
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        // Compilers put `int3` where execution never comes; other interrupts return.
        FlowControl::Interrupt if parsed.code() == Code::Int3 => Flow::Stop,
        FlowControl::Interrupt => Flow::Next,
        FlowControl::XbeginXabortXend if parsed.mnemonic() == Mnemonic::Xbegin => {
            Flow::Branch(target)
        }
        FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::Exception => Flow::Stop,
    }
}

fn is_system_call(code: Code) -> bool {
    matches!(
        code,
        Code::Syscall | Code::Sysenter | Code::Int_imm8 | Code::Vmcall | Code::Vmmcall
    )
}

fn kind_of(parsed: &iced_x86::Instruction) -> InstructionKind {
    let mnemonic = parsed.mnemonic();
    let name = format!("{mnemonic:?}");
    let integer_operands = parsed.op0_kind() != OpKind::Register || parsed.op0_register().is_gpr();
    let vector = is_vector(parsed);
    // An exchange with memory locks by itself.
    let exchanges = mnemonic == Mnemonic::Xchg
        && (parsed.op0_kind() == OpKind::Memory || parsed.op1_kind() == OpKind::Memory);
    let divide = [
        "Div", "Idiv", "Fdiv", "Fidiv", "Vdiv", "Sqrt", "Vsqrt", "Fsqrt",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix));
    InstructionKind {
        divide,
        multiply: matches!(mnemonic, Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Mulx)
            && integer_operands,
        vector,
        locked: parsed.has_lock_prefix() || exchanges,
        serialising: is_system_call(parsed.code()) || is_serialising(mnemonic),
        system_call: is_system_call(parsed.code()),
        repeated: (parsed.has_rep_prefix() || parsed.has_repne_prefix())
            && parsed.is_string_instruction(),
        prefetch: name.starts_with("Prefetch"),
        nop: matches!(
            mnemonic,
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Endbr32
        ) || name.starts_with("Reservednop"),
        fusible_branch: parsed.is_jcc_short_or_near(),
        fusible_flags: is_fusible_with_branch(parsed),
        renamed: is_renamed(parsed),
        ..InstructionKind::default()
    }
}

/// Returns whether it may be fused with a conditional branch right after it (not with each
/// condition, and not on each processor).
fn is_fusible_with_branch(parsed: &iced_x86::Instruction) -> bool {
    use Mnemonic::{Add, And, Cmp, Dec, Inc, Sub, Test};
    matches!(parsed.mnemonic(), Add | And | Cmp | Dec | Inc | Sub | Test)
        && !parsed.is_ip_rel_memory_operand()
        && !(parsed.op0_kind() == OpKind::Memory
            && (is_immediate(parsed.op1_kind()) || !matches!(parsed.mnemonic(), Cmp | Test)))
}

fn is_immediate(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Register | OpKind::Memory)
}

fn is_renamed(parsed: &iced_x86::Instruction) -> bool {
    use Mnemonic::{
        Mov, Movapd, Movaps, Movdqa, Movdqu, Movupd, Movups, Pxor, Sub, Vmovapd, Vmovaps, Vmovdqa,
        Vmovdqu, Vmovupd, Vmovups, Vpxor, Vpxord, Vpxorq, Vxorpd, Vxorps, Xor, Xorpd, Xorps,
    };
    let last = parsed.op_count().saturating_sub(1);
    let registers = (0..parsed.op_count()).all(|op| parsed.op_kind(op) == OpKind::Register);
    if !registers || last == 0 {
        return false;
    }
    let copies = parsed.op0_register().size() >= 4
        && parsed.op1_register().size() >= 4
        && (parsed.op0_register().is_gpr() && parsed.op1_register().is_gpr()
            || parsed.op0_register().is_vector_register()
                && parsed.op1_register().is_vector_register());
    match parsed.mnemonic() {
        Mov | Movaps | Movapd | Movups | Movupd | Movdqa | Movdqu | Vmovaps | Vmovapd | Vmovups
        | Vmovupd | Vmovdqa | Vmovdqu => copies,
        Xor | Sub => {
            parsed.op0_register() == parsed.op1_register() && parsed.op0_register().size() >= 4
        }
        Xorps | Xorpd | Pxor | Vxorps | Vxorpd | Vpxor | Vpxord | Vpxorq => {
            parsed.op_register(last) == parsed.op_register(last - 1)
        }
        _ => false,
    }
}

fn is_vector(parsed: &iced_x86::Instruction) -> bool {
    (0..parsed.op_count()).any(|operand| {
        parsed.op_kind(operand) == OpKind::Register && {
            let register = parsed.op_register(operand);
            register.is_vector_register() || register.is_st() || register.is_mm()
        }
    }) || parsed
        .cpuid_features()
        .iter()
        .any(|feature| matches!(feature, CpuidFeature::FPU))
}

fn is_serialising(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cpuid, Iret, Iretd, Iretq, Lfence, Mfence, Pause, Rdtsc, Rdtscp, Serialize, Sfence, Wbinvd,
        Wrmsr, Xgetbv,
    };
    matches!(
        mnemonic,
        Cpuid
            | Iret
            | Iretd
            | Iretq
            | Lfence
            | Mfence
            | Pause
            | Rdtsc
            | Rdtscp
            | Serialize
            | Sfence
            | Wbinvd
            | Wrmsr
            | Xgetbv
    )
}

/// Returns the effect of an instruction on addresses.
pub(crate) fn register_effect(
    address: ImageAddress,
    bytes: &[u8],
) -> Result<RegisterEffect, Error> {
    let parsed = parse_x86_64(address, bytes)?;
    Ok(effect_of(&parsed).unwrap_or(RegisterEffect::Other))
}

fn effect_of(parsed: &iced_x86::Instruction) -> Option<RegisterEffect> {
    let (first, second) = (first_register(parsed), second_register(parsed));
    let immediate = || parsed.try_immediate(1).ok();
    let wide = || parsed.op0_register().size() >= 4;
    Some(match parsed.mnemonic() {
        Mnemonic::Lea => match memory_address(parsed)? {
            AddressSum {
                base: None,
                index: None,
                displacement,
                ..
            } => RegisterEffect::Constant {
                to: first?,
                value: displacement,
            },
            sum => RegisterEffect::Add { to: first?, sum },
        },
        Mnemonic::Mov if wide() && parsed.op1_kind() != OpKind::Memory => match parsed.op1_kind() {
            OpKind::Register => copy_effect(parsed, false)?,
            _ => RegisterEffect::Constant {
                to: first?,
                value: match parsed.op0_register().size() {
                    4 => immediate()? & 0xffff_ffff,
                    _ => immediate()?,
                },
            },
        },
        Mnemonic::Mov if wide() => load_effect(parsed, false)?,
        Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
            let signed = parsed.mnemonic() != Mnemonic::Movzx;
            match parsed.op1_kind() {
                OpKind::Memory => load_effect(parsed, signed)?,
                _ => copy_effect(parsed, signed)?,
            }
        }
        Mnemonic::Cdqe => RegisterEffect::Copy {
            to: Register::integer(0),
            from: Register::integer(0),
            bits: 32,
            signed: true,
        },
        Mnemonic::Add if parsed.op0_register().size() == 8 => RegisterEffect::Add {
            to: first?,
            sum: AddressSum {
                base: first,
                index: second,
                shift: 0,
                bits: 64,
                signed: false,
                displacement: if second.is_none() { immediate()? } else { 0 },
            },
        },
        Mnemonic::And if wide() => RegisterEffect::And {
            to: first?,
            from: first?,
            mask: immediate()?,
        },
        Mnemonic::Cmp => RegisterEffect::Compare {
            register: first?,
            value: immediate()?,
        },
        _ => jump_effect(parsed)?,
    })
}

fn first_register(parsed: &iced_x86::Instruction) -> Option<Register> {
    (parsed.op0_kind() == OpKind::Register).then(|| integer_register(parsed.op0_register()))?
}

fn second_register(parsed: &iced_x86::Instruction) -> Option<Register> {
    (parsed.op1_kind() == OpKind::Register).then(|| integer_register(parsed.op1_register()))?
}

fn copy_effect(parsed: &iced_x86::Instruction, signed: bool) -> Option<RegisterEffect> {
    Some(RegisterEffect::Copy {
        to: first_register(parsed)?,
        from: second_register(parsed)?,
        bits: (parsed.op1_register().size() * 8) as u8,
        signed,
    })
}

fn jump_effect(parsed: &iced_x86::Instruction) -> Option<RegisterEffect> {
    if parsed.is_jcc_short_or_near() {
        return Some(RegisterEffect::Branch(match parsed.condition_code() {
            ConditionCode::a => Condition::Above,
            ConditionCode::ae => Condition::AboveOrEqual,
            ConditionCode::b => Condition::Below,
            ConditionCode::be => Condition::BelowOrEqual,
            _ => Condition::Other,
        }));
    }
    match (parsed.mnemonic(), parsed.op0_kind()) {
        (Mnemonic::Jmp, OpKind::Register) => {
            Some(RegisterEffect::JumpRegister(first_register(parsed)?))
        }
        (Mnemonic::Jmp, OpKind::Memory) => {
            Some(RegisterEffect::JumpMemory(memory_address(parsed)?))
        }
        _ => None,
    }
}

fn load_effect(parsed: &iced_x86::Instruction, signed: bool) -> Option<RegisterEffect> {
    let width = parsed.memory_size().size();
    Some(RegisterEffect::Load {
        to: integer_register(parsed.op0_register())?,
        address: memory_address(parsed)?,
        width: u8::try_from(width).ok().filter(|width| *width <= 8)?,
        signed,
    })
}

/// Returns the address of the memory operand; `None` if it is relative to a segment or not of 64
/// bits.
fn memory_address(parsed: &iced_x86::Instruction) -> Option<AddressSum> {
    if matches!(parsed.segment_prefix(), Name::FS | Name::GS) {
        return None;
    }
    let part = |name: Name| match name {
        Name::None | Name::RIP => Some(None),
        name if name.is_gpr64() => integer_register(name).map(Some),
        _ => None,
    };
    Some(AddressSum {
        base: part(parsed.memory_base())?,
        index: part(parsed.memory_index())?,
        shift: parsed.memory_index_scale().trailing_zeros() as u8,
        bits: 64,
        signed: false,
        // The instruction pointer is already added, if the address is relative to it.
        displacement: parsed.memory_displacement64(),
    })
}
