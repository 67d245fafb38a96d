//! AArch64 (A64), decoded by disarm64. The role of an operand's register follows from its position:
//! the assembler writes the destination first, except in stores, comparisons and branches.

use crate::effect::{AddressSum, Condition, RegisterEffect};
use crate::{Error, Flow, Instruction, InstructionForm, InstructionKind, Register, RegisterSet};
use disarm64::decoder::{self, Opcode};
use disarm64::format_insn::format_insn_pc;
use disarm64_defn::defn::{Insn, InsnOpcode, InsnOperand};
use disarm64_defn::{InsnClass, InsnOperandClass, InsnOperandKind};
use profile::ImageAddress;

/// Bytes of every instruction.
pub(crate) const LENGTH: usize = 4;

const LINK: Register = Register::integer(30);

fn instruction_word(address: ImageAddress, bytes: &[u8]) -> Result<u32, Error> {
    let bytes = bytes.first_chunk::<LENGTH>();
    bytes
        .map(|bytes| u32::from_le_bytes(*bytes))
        .ok_or(Error::Truncated(address))
}

fn parse_aarch64(address: ImageAddress, bytes: &[u8]) -> Result<(u32, Opcode), Error> {
    let word = instruction_word(address, bytes)?;
    let opcode = decoder::decode(word).filter(|_| !is_reserved(word));
    let opcode = opcode.ok_or(Error::Invalid(address))?;
    Ok((word, opcode))
}

/// Returns whether a scalar shift by immediate has a zero field `immh`. That is no instruction, but
/// disarm64 decodes it, and its formatter subtracts below zero. Of all 2^32 words these are the
/// only ones on which it panics.
fn is_reserved(word: u32) -> bool {
    word & 0xdff8_0400 == 0x5f00_0400
}

pub(crate) fn decode_aarch64(address: ImageAddress, bytes: &[u8]) -> Result<Instruction, Error> {
    let (word, opcode) = parse_aarch64(address, bytes)?;
    let definition = opcode.definition();
    let kind = kind_of(word, definition);
    let flow = flow_of(address, word, definition);
    let (reads, writes) = registers_of(word, definition, kind, flow);
    Ok(Instruction {
        address,
        length: LENGTH as u8,
        flow,
        reads,
        writes,
        kind,
        // A table entry covers an operand size only if that has another opcode.
        form: if is_unshifted(word) {
            InstructionForm(word & X_OR_W | ADD_IMMEDIATE)
        } else {
            InstructionForm(word & (definition.mask | SIZES))
        },
        place: None,
        advances: None,
    })
}

/// Returns whether the second operand of an addition, subtraction or logical instruction is an
/// unshifted register. Such an instruction costs the same as with an immediate operand, and the
/// table only has those that shift.
fn is_unshifted(word: u32) -> bool {
    let logical = word & 0x1f00_0000 == 0x0a00_0000;
    let addition = word & 0x1f20_0000 == 0x0b00_0000;
    (logical || addition) && bit_field(word, 10, 6) == 0
}

const X_OR_W: u32 = 0x8000_0000;
const ADD_IMMEDIATE: u32 = 0x1100_0000;

/// The bits that usually hold the size of the operands: 31 (X or W), 30 (Q), 23 and 22 (type).
const SIZES: u32 = 0xc0c0_0000;

/// Returns the instruction in Arm's notation.
pub(crate) fn format_aarch64(address: ImageAddress, bytes: &[u8]) -> Result<String, Error> {
    let (_, opcode) = parse_aarch64(address, bytes)?;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = format_insn_pc(address.0, &mut text, &opcode);
    Ok(text)
}

/// Returns the `width` bits from `low`.
fn bit_field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// Returns such a field as a signed number, times four.
fn signed_offset(word: u32, low: u32, width: u32) -> i64 {
    let unused = 32 - width;
    i64::from((bit_field(word, low, width) << unused) as i32 >> unused) * 4
}

fn flow_of(address: ImageAddress, word: u32, definition: &Insn) -> Flow {
    let target = |low, width| {
        ImageAddress(
            address
                .0
                .wrapping_add_signed(signed_offset(word, low, width)),
        )
    };
    match definition.class {
        InsnClass::BRANCH_IMM if word >> 31 == 1 => Flow::Call(target(0, 26)),
        InsnClass::BRANCH_IMM => Flow::Jump(target(0, 26)),
        // The conditions 14 and 15 are always true.
        InsnClass::CONDBRANCH if word & 0xe == 0xe => Flow::Jump(target(5, 19)),
        InsnClass::CONDBRANCH | InsnClass::COMPBRANCH => Flow::Branch(target(5, 19)),
        InsnClass::TESTBRANCH => Flow::Branch(target(5, 14)),
        InsnClass::BRANCH_REG => match definition.mnemonic {
            name if name.starts_with("blr") => Flow::IndirectCall,
            name if name.starts_with("br") => Flow::IndirectJump,
            _ => Flow::Return,
        },
        InsnClass::EXCEPTION if is_system_call(definition) => Flow::Next,
        InsnClass::EXCEPTION => Flow::Stop,
        _ => Flow::Next,
    }
}

fn is_system_call(definition: &Insn) -> bool {
    matches!(definition.mnemonic, "svc" | "hvc" | "smc")
}

fn has_memory(definition: &Insn) -> bool {
    definition.operands.iter().any(|operand| {
        operand.class == InsnOperandClass::ADDRESS
            && !matches!(
                operand.kind,
                InsnOperandKind::ADDR_ADRP
                    | InsnOperandKind::ADDR_PCREL14
                    | InsnOperandKind::ADDR_PCREL21
                    | InsnOperandKind::ADDR_PCREL26
            )
            && !matches!(
                definition.class,
                InsnClass::CONDBRANCH | InsnClass::COMPBRANCH
            )
    })
}

fn kind_of(word: u32, definition: &Insn) -> InstructionKind {
    use InsnClass::{DP_2SRC, DP_3SRC, IC_SYSTEM, LDSTEXCL, LSE_ATOMIC, LSE128_ATOMIC};
    let name = definition.mnemonic;
    let prefetch = name.starts_with("prf") || name.starts_with("rprfm");
    let memory = has_memory(definition) && !prefetch;
    let atomic = matches!(definition.class, LSE_ATOMIC | LSE128_ATOMIC)
        && !name.starts_with("ld64b")
        && !name.starts_with("st64b");
    let exclusive = definition.class == LDSTEXCL && name.contains('x') && !name.ends_with("lr");
    let hint = definition.class == IC_SYSTEM && word & 0xffff_f01f == 0xd503_201f;
    InstructionKind {
        load: memory && (atomic || !name.starts_with("st")),
        store: memory && (atomic || name.starts_with("st")),
        divide: definition.class == DP_2SRC && name.ends_with("div")
            || name.starts_with("fdiv")
            || name.starts_with("fsqrt"),
        multiply: definition.class == DP_3SRC,
        vector: definition.operands.iter().any(is_vector),
        locked: atomic || exclusive,
        serialising: is_system_call(definition)
            || matches!(name, "dmb" | "dsb" | "isb" | "sb" | "mrs" | "msr")
            // wfe, wfi, yield
            || hint && matches!(bit_field(word, 5, 7), 1..=3),
        system_call: is_system_call(definition),
        prefetch,
        nop: hint && !matches!(bit_field(word, 5, 7), 1..=3),
        ..InstructionKind::default()
    }
}

fn is_vector(operand: &InsnOperand) -> bool {
    use InsnOperandClass::{
        FP_REG, SIMD_ELEMENT, SIMD_REG, SIMD_REGLIST, SISD_REG, SVE_REG, SVE_REGLIST,
    };
    matches!(
        operand.class,
        FP_REG | SIMD_ELEMENT | SIMD_REG | SIMD_REGLIST | SISD_REG | SVE_REG | SVE_REGLIST
    )
}

fn registers_of(
    word: u32,
    definition: &Insn,
    kind: InstructionKind,
    flow: Flow,
) -> (RegisterSet, RegisterSet) {
    let (mut reads, mut writes) = (RegisterSet::default(), RegisterSet::default());
    let destinations = count_destinations(definition, kind, flow);
    for (position, operand) in definition.operands.iter().enumerate() {
        if operand.class == InsnOperandClass::ADDRESS {
            reads = reads.union(address_registers(word, operand));
            continue;
        }
        let named = operand_registers(word, operand);
        if position < destinations {
            writes = writes.union(named);
        }
        if position >= destinations || reads_destination(definition) {
            reads = reads.union(named);
        }
    }
    if kind.locked && kind.store && !definition.mnemonic.starts_with("cas") {
        // `stxr` writes its success to its first register; `ldadd` returns the old value in its
        // second.
        let register = if definition.class == InsnClass::LDSTEXCL {
            16
        } else {
            0
        };
        writes = writes.union(
            integer_register(bit_field(word, register, 5), false)
                .into_iter()
                .collect(),
        );
    }
    if has_write_back(word, definition) {
        writes = writes.union(
            integer_register(bit_field(word, 5, 5), true)
                .into_iter()
                .collect(),
        );
    }
    if flow.is_call() {
        writes.insert(LINK);
    }
    let (flags_read, flags_written) = flags_used(definition);
    if flags_read && !matches!(flow, Flow::Jump(_)) {
        reads.insert(Register::FLAGS);
    }
    if flags_written {
        writes.insert(Register::FLAGS);
    }
    (reads, writes)
}

/// Returns how many of the operands, from the first, are written.
fn count_destinations(definition: &Insn, kind: InstructionKind, flow: Flow) -> usize {
    let compares = matches!(
        definition.class,
        InsnClass::CONDCMP_IMM
            | InsnClass::CONDCMP_REG
            | InsnClass::FLOATCMP
            | InsnClass::FLOATCCMP
    );
    let pair =
        |operand: &InsnOperand| matches!(operand.kind, InsnOperandKind::Rt2 | InsnOperandKind::Ft2);
    if flow != Flow::Next || compares || definition.mnemonic == "msr" {
        0
    } else if definition.mnemonic.starts_with("cas")
        || definition.class == InsnClass::LDSTEXCL && kind.locked && kind.store
    {
        1
    } else if kind.store {
        0
    } else if kind.load && definition.operands.iter().any(pair) {
        2
    } else {
        1
    }
}

/// Returns whether the instruction reads the destination's old value, because it accumulates into
/// it or keeps a part.
fn reads_destination(definition: &Insn) -> bool {
    let name = definition.mnemonic;
    matches!(
        name,
        "movk" | "bfm" | "ins" | "bsl" | "bit" | "bif" | "tbx" | "aese" | "aesd" | "casp"
    ) || ["cas", "sha1", "sha256", "sha512", "sri", "sli"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || definition.class != InsnClass::DP_3SRC
            && ["mla", "mls", "mlal", "mlsl", "dot"]
                .iter()
                .any(|part| name.contains(part))
}

fn has_write_back(word: u32, definition: &Insn) -> bool {
    match definition.class {
        InsnClass::LDSTPAIR_INDEXED | InsnClass::ASISDLSEP | InsnClass::ASISDLSOP => true,
        InsnClass::LDST_IMM9 => bit_field(word, 10, 1) == 1,
        InsnClass::LDST_IMM10 => bit_field(word, 11, 1) == 1,
        _ => false,
    }
}

/// Returns whether the instruction reads the flags, and whether it writes them.
fn flags_used(definition: &Insn) -> (bool, bool) {
    use InsnClass::{
        ADDSUB_CARRY, CONDBRANCH, CONDCMP_IMM, CONDCMP_REG, CONDSEL, FLOATCCMP, FLOATCMP, FLOATSEL,
    };
    let reads = matches!(
        definition.class,
        ADDSUB_CARRY | CONDBRANCH | CONDCMP_IMM | CONDCMP_REG | CONDSEL | FLOATCCMP | FLOATSEL
    );
    let compares = matches!(
        definition.class,
        CONDCMP_IMM | CONDCMP_REG | FLOATCCMP | FLOATCMP
    );
    let sets = matches!(
        definition.mnemonic,
        "adds" | "subs" | "ands" | "bics" | "adcs" | "sbcs" | "ptest"
    ) || definition.mnemonic.starts_with("while");
    (reads, compares || sets)
}

/// Returns the integer register of this number; 31 is the stack pointer or reads as zero.
fn integer_register(number: u32, stack_pointer: bool) -> Option<Register> {
    (number < 31 || stack_pointer).then(|| Register::integer((number & 31) as u8))
}

fn operand_registers(word: u32, operand: &InsnOperand) -> RegisterSet {
    let Some(first) = operand.bit_fields.first() else {
        return RegisterSet::default();
    };
    let number = bit_field(word, first.lsb.into(), u32::from(first.width).clamp(1, 5));
    let numbered = |bank| Register::new(bank, (number & 31) as u8);
    match operand.class {
        InsnOperandClass::INT_REG | InsnOperandClass::MODIFIED_REG => {
            let stack_pointer = format!("{:?}", operand.kind).ends_with("_SP");
            integer_register(number, stack_pointer)
                .into_iter()
                .collect()
        }
        InsnOperandClass::PRED_REG => [Register::new(Register::MASK, (number & 15) as u8)]
            .into_iter()
            .collect(),
        InsnOperandClass::SIMD_REGLIST => (0..list_length(word, operand))
            .map(|next| Register::new(Register::VECTOR, (number.wrapping_add(next) & 31) as u8))
            .collect(),
        _ if is_vector(operand) => [numbered(Register::VECTOR)].into_iter().collect(),
        _ => RegisterSet::default(),
    }
}

/// Returns how many consecutive vector registers a list in braces names.
fn list_length(word: u32, operand: &InsnOperand) -> u32 {
    match operand.kind {
        InsnOperandKind::LVn => bit_field(word, 13, 2) + 1,
        // `ld1` to `ld4` of whole registers: by the opcode.
        InsnOperandKind::LVt => match bit_field(word, 12, 4) {
            0 | 2 => 4,
            4 | 6 => 3,
            7 => 1,
            _ => 2,
        },
        // With one element of each: by the opcode's lowest bit and R.
        _ => (bit_field(word, 13, 1) << 1 | bit_field(word, 21, 1)) + 1,
    }
}

fn address_registers(word: u32, operand: &InsnOperand) -> RegisterSet {
    let kind = format!("{:?}", operand.kind);
    if kind.contains("PCREL") || kind.contains("ADRP") {
        return RegisterSet::default();
    }
    let base = integer_register(bit_field(word, 5, 5), true);
    let index = kind.contains("REGOFF") || kind.contains("_RR") || kind.contains("_RX");
    let index = index
        .then(|| integer_register(bit_field(word, 16, 5), false))
        .flatten();
    base.into_iter().chain(index).collect()
}

/// Returns the effect of an instruction on addresses.
pub(crate) fn register_effect(
    address: ImageAddress,
    bytes: &[u8],
) -> Result<RegisterEffect, Error> {
    let (word, opcode) = parse_aarch64(address, bytes)?;
    Ok(effect_of(address, word, opcode.definition()).unwrap_or(RegisterEffect::Other))
}

fn effect_of(address: ImageAddress, word: u32, definition: &Insn) -> Option<RegisterEffect> {
    let d = integer_register(bit_field(word, 0, 5), false);
    let n = integer_register(bit_field(word, 5, 5), false);
    let m = integer_register(bit_field(word, 16, 5), false);
    Some(match definition.class {
        InsnClass::PCRELADDR => relative_effect(address, word)?,
        InsnClass::ADDSUB_IMM => add_effect(word, definition)?,
        InsnClass::ADDSUB_SHIFT | InsnClass::ADDSUB_EXT
            if definition.mnemonic == "add" && word >> 31 == 1 =>
        {
            RegisterEffect::Add {
                to: d?,
                sum: extended_sum(word, definition, n?, m?)?,
            }
        }
        InsnClass::LOG_SHIFT if word & 0x7fe0_ffe0 == 0x2a00_03e0 => RegisterEffect::Copy {
            to: d?,
            from: m?,
            bits: if word >> 31 == 1 { 64 } else { 32 },
            signed: false,
        },
        InsnClass::MOVEWIDE if definition.mnemonic == "movz" => RegisterEffect::Constant {
            to: d?,
            value: u64::from(bit_field(word, 5, 16)) << (16 * bit_field(word, 21, 2)),
        },
        InsnClass::BITFIELD
            if bit_field(word, 16, 6) == 0 && matches!(bit_field(word, 10, 6), 7 | 15 | 31) =>
        {
            // uxtb, uxth, sxtb, sxth, sxtw
            RegisterEffect::Copy {
                to: d?,
                from: n?,
                bits: (bit_field(word, 10, 6) + 1) as u8,
                signed: definition.mnemonic == "sbfm",
            }
        }
        // Only masks of the lowest bits.
        InsnClass::LOG_IMM
            if definition.mnemonic == "and"
                && bit_field(word, 16, 6) == 0
                && mask_bits(word) < 32 =>
        {
            RegisterEffect::And {
                to: d?,
                from: n?,
                mask: (1 << mask_bits(word)) - 1,
            }
        }
        InsnClass::LDST_REGOFF | InsnClass::LDST_POS => load_effect(word, definition)?,
        InsnClass::BRANCH_REG if definition.mnemonic.starts_with("br") => {
            RegisterEffect::JumpRegister(n?)
        }
        InsnClass::CONDBRANCH => RegisterEffect::Branch(match word & 0xf {
            2 => Condition::AboveOrEqual,
            3 => Condition::Below,
            8 => Condition::Above,
            9 => Condition::BelowOrEqual,
            _ => Condition::Other,
        }),
        _ => return None,
    })
}

/// Returns the effect of `adr` and `adrp`, whose addresses are relative to their own.
fn relative_effect(address: ImageAddress, word: u32) -> Option<RegisterEffect> {
    let d = integer_register(bit_field(word, 0, 5), false);
    // 21 bits; the two low ones are separate.
    let value = bit_field(word, 5, 19) << 2 | bit_field(word, 29, 2);
    let value = i64::from((value << 11) as i32 >> 11);
    Some(RegisterEffect::Constant {
        to: d?,
        value: if word >> 31 == 1 {
            (address.0 & !0xfff).wrapping_add_signed(value << 12)
        } else {
            address.0.wrapping_add_signed(value)
        },
    })
}

/// Returns the effect of adding, subtracting or comparing a constant.
fn add_effect(word: u32, definition: &Insn) -> Option<RegisterEffect> {
    let d = integer_register(bit_field(word, 0, 5), false);
    let n = integer_register(bit_field(word, 5, 5), false);
    let value = u64::from(bit_field(word, 10, 12)) << (12 * bit_field(word, 22, 1));
    Some(match definition.mnemonic {
        "subs" if d.is_none() => RegisterEffect::Compare {
            register: n?,
            value,
        },
        "add" | "sub" if word >> 31 == 1 => RegisterEffect::Add {
            to: d?,
            sum: AddressSum {
                base: Some(n?),
                index: None,
                shift: 0,
                bits: 64,
                signed: false,
                displacement: if definition.mnemonic == "add" {
                    value
                } else {
                    value.wrapping_neg()
                },
            },
        },
        _ => return None,
    })
}

/// Returns the number of ones in the unrotated mask of a logical instruction, if it does not
/// repeat; a number above any mask's if it does.
fn mask_bits(word: u32) -> u32 {
    let (long, ones) = (bit_field(word, 22, 1) == 1, bit_field(word, 10, 6));
    if long || ones < 32 {
        ones + 1
    } else {
        u32::MAX
    }
}

/// Returns `n + extended(m) << shift`.
fn extended_sum(word: u32, definition: &Insn, n: Register, m: Register) -> Option<AddressSum> {
    let extended = definition.class == InsnClass::ADDSUB_EXT;
    if !extended && bit_field(word, 22, 2) != 0 {
        return None;
    }
    let option = bit_field(word, 13, 3);
    Some(AddressSum {
        base: Some(n),
        index: Some(m),
        shift: if extended {
            bit_field(word, 10, 3)
        } else {
            bit_field(word, 10, 6)
        } as u8,
        bits: if extended { 8 << (option & 3) } else { 64 },
        signed: extended && option >= 4,
        displacement: 0,
    })
}

fn load_effect(word: u32, definition: &Insn) -> Option<RegisterEffect> {
    let name = definition.mnemonic;
    let has_integer_operand = definition
        .operands
        .first()
        .is_some_and(|operand| operand.kind == InsnOperandKind::Rt);
    if !name.starts_with("ldr") || !has_integer_operand {
        return None;
    }
    let size = bit_field(word, 30, 2);
    let base = Some(integer_register(bit_field(word, 5, 5), false)?);
    let address = if definition.class == InsnClass::LDST_POS {
        AddressSum {
            base,
            index: None,
            shift: 0,
            bits: 64,
            signed: false,
            displacement: u64::from(bit_field(word, 10, 12)) << size,
        }
    } else {
        let option = bit_field(word, 13, 3);
        AddressSum {
            base,
            index: Some(integer_register(bit_field(word, 16, 5), false)?),
            shift: if bit_field(word, 12, 1) == 1 {
                size as u8
            } else {
                0
            },
            bits: if option & 1 == 1 { 64 } else { 32 },
            signed: option >= 4,
            displacement: 0,
        }
    };
    Some(RegisterEffect::Load {
        to: integer_register(bit_field(word, 0, 5), false)?,
        address,
        width: 1 << size,
        signed: name.starts_with("ldrs"),
    })
}
