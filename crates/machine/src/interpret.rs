//! Where the next branches go, from the registers at a sample (section 7: *interpretation*).
//!
//! Instructions are followed forward from the program counter as far as what they compute follows
//! from the registers alone. What is read from memory is unknown, and so is everything computed
//! from it; the first branch on something unknown ends it, as does whatever leads where only memory
//! says.

use crate::x86_64::parse;
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register as Name, RflagsBits,
};
use profile::ImageAddress;
use rustc_hash::FxHashMap;

/// Registers of interrupted x86-64 code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The integer registers in the order of their encoding: `rax`, `rcx`, `rdx`, `rbx`, `rsp`,
    /// `rbp`, `rsi`, `rdi`, `r8` to `r15`.
    pub integer: [u64; 16],
    /// `rflags`.
    pub flags: u64,
    /// The program counter, as the process sees it.
    pub counter: u64,
}

/// A branch, conditional or through a register, and where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Observation {
    /// The branch.
    pub branch: ImageAddress,
    /// The instruction that was executed next.
    pub target: ImageAddress,
}

/// Instructions followed from one sample.
const MAX_STEPS: usize = 96;

/// Branches observed at one sample.
const MAX_BRANCHES: usize = 8;

/// Instructions remembered.
const MAX_DECODED: usize = 1 << 20;

/// Follows execution through one image. Addresses are in whatever space the code is given in.
#[derive(Debug, Default)]
pub struct Interpreter {
    decoded: FxHashMap<u64, Option<Decoded>>,
}

#[derive(Clone, Debug)]
struct Decoded {
    instruction: Instruction,
    /// The integer registers that it writes, as bits.
    writes: u16,
    /// The flags that it changes.
    flags: u8,
}

impl Interpreter {
    /// Nothing decoded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands to `each` the branches after `start` whose way follows from the registers. `code`
    /// fills a buffer with what stands at an address, and says how much that is.
    pub fn follow(
        &mut self,
        start: ImageAddress,
        registers: &Registers,
        mut code: impl FnMut(ImageAddress, &mut [u8]) -> usize,
        mut each: impl FnMut(Observation),
    ) {
        let moved = registers.counter.wrapping_sub(start.0);
        let mut state = State::new(registers, moved);
        let (mut at, mut branches) = (start, 0);
        let mut callers = Vec::new();
        for _ in 0..MAX_STEPS {
            let Some(decoded) = self.decode(at, &mut code) else {
                return;
            };
            let instruction = &decoded.instruction;
            let next = ImageAddress(instruction.next_ip());
            let target = ImageAddress(instruction.near_branch_target());
            match instruction.flow_control() {
                FlowControl::Next => {
                    state.execute(decoded);
                    at = next;
                }
                FlowControl::UnconditionalBranch => at = target,
                // What a call stores is read by nothing but its return.
                FlowControl::Call if instruction.is_call_near() => {
                    callers.push(next);
                    at = target;
                }
                FlowControl::Return => match callers.pop() {
                    Some(caller) => at = caller,
                    None => return,
                },
                FlowControl::ConditionalBranch | FlowControl::IndirectBranch => {
                    let target = if instruction.flow_control() == FlowControl::IndirectBranch {
                        state
                            .operand(instruction, 0)
                            .map(|to| to.wrapping_sub(moved))
                    } else {
                        let taken = state.condition(instruction.condition_code());
                        taken.map(|taken| if taken { target.0 } else { next.0 })
                    };
                    let Some(target) = target else { return };
                    let observation = Observation {
                        branch: at,
                        target: ImageAddress(target),
                    };
                    each(observation);
                    branches += 1;
                    if branches == MAX_BRANCHES {
                        return;
                    }
                    at = observation.target;
                }
                _ => return,
            }
        }
    }

    fn decode(
        &mut self,
        at: ImageAddress,
        code: &mut impl FnMut(ImageAddress, &mut [u8]) -> usize,
    ) -> Option<&Decoded> {
        if self.decoded.len() >= MAX_DECODED {
            self.decoded.clear();
        }
        let decode = || {
            let mut bytes = [0; crate::x86_64::MAX_LENGTH];
            let length = code(at, &mut bytes);
            let instruction = parse(at, bytes.get(..length)?).ok()?;
            let mut writes = 0;
            let mut factory = InstructionInfoFactory::new();
            for used in factory.info(&instruction).used_registers() {
                if crate::x86_64::is_written(used.access())
                    && let Some(index) = integer(used.register())
                {
                    writes |= 1 << index;
                }
            }
            Some(Decoded {
                writes,
                flags: flags_of(instruction.rflags_modified()),
                instruction,
            })
        };
        self.decoded.entry(at.0).or_insert_with(decode).as_ref()
    }
}

fn integer(name: Name) -> Option<usize> {
    let index = (name.full_register() as usize).checked_sub(Name::RAX as usize)?;
    (index < 16).then_some(index)
}

/// The flags that conditions are about, as bits of a mask and their places in `rflags`.
const CARRY: u8 = 1;
const PARITY: u8 = 2;
const ZERO: u8 = 4;
const SIGN: u8 = 8;
const OVERFLOW: u8 = 16;
const PLACES: [(u8, u32, u32); 5] = [
    (CARRY, 0, RflagsBits::CF),
    (PARITY, 2, RflagsBits::PF),
    (ZERO, 6, RflagsBits::ZF),
    (SIGN, 7, RflagsBits::SF),
    (OVERFLOW, 11, RflagsBits::OF),
];

fn flags_of(bits: u32) -> u8 {
    let of = |(flag, _, bit): (u8, u32, u32)| if bits & bit != 0 { flag } else { 0 };
    PLACES.into_iter().map(of).sum()
}

/// What is known.
struct State {
    /// By how much the process sees addresses moved.
    moved: u64,
    integer: [Option<u64>; 16],
    flags: u8,
    known: u8,
}

/// The result of an operation of some bits: what is known of it, and of the flags.
#[derive(Default)]
struct Outcome {
    value: Option<u64>,
    flags: u8,
    known: u8,
}

impl State {
    fn new(registers: &Registers, moved: u64) -> Self {
        let flags = PLACES.into_iter().map(|(flag, place, _)| {
            if registers.flags >> place & 1 == 1 {
                flag
            } else {
                0
            }
        });
        Self {
            moved,
            integer: registers.integer.map(Some),
            flags: flags.sum(),
            known: CARRY | PARITY | ZERO | SIGN | OVERFLOW,
        }
    }

    fn flag(&self, flag: u8) -> Option<bool> {
        (self.known & flag != 0).then_some(self.flags & flag != 0)
    }

    fn condition(&self, code: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let or = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let less = || Some(self.flag(SIGN)? != self.flag(OVERFLOW)?);
        let (value, negated) = match code {
            C::o => (self.flag(OVERFLOW), false),
            C::no => (self.flag(OVERFLOW), true),
            C::b => (self.flag(CARRY), false),
            C::ae => (self.flag(CARRY), true),
            C::e => (self.flag(ZERO), false),
            C::ne => (self.flag(ZERO), true),
            C::be => (or(self.flag(CARRY), self.flag(ZERO)), false),
            C::a => (or(self.flag(CARRY), self.flag(ZERO)), true),
            C::s => (self.flag(SIGN), false),
            C::ns => (self.flag(SIGN), true),
            C::p => (self.flag(PARITY), false),
            C::np => (self.flag(PARITY), true),
            C::l => (less(), false),
            C::ge => (less(), true),
            C::le => (or(less(), self.flag(ZERO)), false),
            C::g => (or(less(), self.flag(ZERO)), true),
            // `jrcxz` and `loop` are on no flag.
            C::None => (None, false),
        };
        value.map(|value| value != negated)
    }

    /// Executes an instruction that goes on at the next one.
    fn execute(&mut self, decoded: &Decoded) {
        let instruction = &decoded.instruction;
        let result = self.evaluate(instruction);
        let first = (instruction.op0_kind() == OpKind::Register)
            .then(|| instruction.op0_register())
            .filter(|name| name.is_gpr());
        let before = first.and_then(|name| self.integer[integer(name)?]);
        for (index, register) in self.integer.iter_mut().enumerate() {
            if decoded.writes >> index & 1 == 1 {
                *register = None;
            }
        }
        self.known &= !decoded.flags;
        let Some(result) = result else { return };
        self.known |= result.known;
        self.flags = self.flags & !result.known | result.flags & result.known;
        if let Some(name) = first
            && let Some(index) = integer(name)
            && decoded.writes >> index & 1 == 1
        {
            self.integer[index] = merge(name, before, result.value);
        }
    }

    /// The value of a register or a part of it.
    fn register(&self, name: Name) -> Option<u64> {
        let value = self.integer[integer(name)?]?;
        Some(match name {
            Name::AH | Name::BH | Name::CH | Name::DH => value >> 8 & 0xff,
            name => value & mask(name.size()),
        })
    }

    fn operand(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        match instruction.try_op_kind(operand).ok()? {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => None,
            _ => instruction.try_immediate(operand).ok(),
        }
    }

    /// The bytes of the first operand, where it is a register or memory.
    fn width(instruction: &Instruction) -> usize {
        match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register().size(),
            _ => instruction.memory_size().size(),
        }
    }

    /// What an instruction computes; `None` if it is not modelled.
    fn evaluate(&self, instruction: &Instruction) -> Option<Outcome> {
        let width = Self::width(instruction);
        if !matches!(width, 1 | 2 | 4 | 8) {
            return None;
        }
        let a = || self.operand(instruction, 0);
        let b = || Some(self.operand(instruction, 1)? & mask(width));
        let same = || {
            instruction.op0_kind() == OpKind::Register
                && instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == instruction.op1_register()
        };
        let value = |value| {
            Some(Outcome {
                value,
                ..Outcome::default()
            })
        };
        match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx => value(self.operand(instruction, 1)),
            Mnemonic::Movsx | Mnemonic::Movsxd if instruction.op1_kind() == OpKind::Register => {
                let from = instruction.op1_register();
                value(self.register(from).map(|v| extend(v, from.size())))
            }
            Mnemonic::Cdqe => value(self.register(Name::EAX).map(|v| extend(v, 4))),
            Mnemonic::Lea => value(self.address(instruction)),
            Mnemonic::Xor | Mnemonic::Sub if same() => Some(logic(0, width)),
            Mnemonic::Add => Some(add(a(), b(), false, width)),
            Mnemonic::Sub => Some(subtract(a(), b(), false, width)),
            Mnemonic::Cmp if same() => Some(logic(0, width)),
            Mnemonic::Cmp => Some(subtract(a(), b(), false, width)),
            Mnemonic::Adc => Some(add(a(), b(), self.flag(CARRY)?, width)),
            Mnemonic::Sbb => Some(subtract(a(), b(), self.flag(CARRY)?, width)),
            Mnemonic::And | Mnemonic::Test => Some(logic_of(a(), b(), width, |a, b| a & b)),
            Mnemonic::Or => Some(logic_of(a(), b(), width, |a, b| a | b)),
            Mnemonic::Xor => Some(logic_of(a(), b(), width, |a, b| a ^ b)),
            Mnemonic::Inc => Some(add(a(), Some(1), false, width).but_carry()),
            Mnemonic::Dec => Some(subtract(a(), Some(1), false, width).but_carry()),
            Mnemonic::Neg => Some(subtract(Some(0), a(), false, width)),
            Mnemonic::Not => value(a().map(|a| !a & mask(width))),
            Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar => self.shift(instruction, a(), width),
            Mnemonic::Imul => value(self.product(instruction, width)),
            Mnemonic::Bt => {
                let bit = b()? % (8 * width as u64);
                let carry = if a()? >> bit & 1 == 1 { CARRY } else { 0 };
                Some(Outcome {
                    value: None,
                    flags: carry,
                    known: CARRY,
                })
            }
            _ => self.conditional(instruction, width),
        }
    }

    /// `cmovcc` and `setcc`.
    fn conditional(&self, instruction: &Instruction, width: usize) -> Option<Outcome> {
        let code = instruction.condition_code();
        let holds = || self.condition(code);
        let value = match (code, instruction.op_count()) {
            (ConditionCode::None, _) => return None,
            (_, 1) => holds().map(u64::from),
            _ if holds()? => self.operand(instruction, 1).map(|v| v & mask(width)),
            _ => self.operand(instruction, 0),
        };
        Some(Outcome {
            value,
            ..Outcome::default()
        })
    }

    /// The address of the memory operand, where no segment is in it.
    fn address(&self, instruction: &Instruction) -> Option<u64> {
        let part = |name: Name| match name {
            Name::None => Some(0),
            // The displacement has the program counter in it already.
            Name::RIP => Some(self.moved),
            name if name.is_gpr64() => self.register(name),
            _ => None,
        };
        let base = part(instruction.memory_base())?;
        let index = part(instruction.memory_index())?;
        let scaled = index.wrapping_mul(instruction.memory_index_scale().into());
        let sum = base.wrapping_add(scaled);
        Some(sum.wrapping_add(instruction.memory_displacement64()))
    }

    fn shift(&self, instruction: &Instruction, a: Option<u64>, width: usize) -> Option<Outcome> {
        let count = match instruction.op1_kind() {
            OpKind::Register => self.register(Name::CL)?,
            _ => instruction.try_immediate(1).ok()?,
        } & if width == 8 { 63 } else { 31 };
        if count == 0 || count >= 8 * width as u64 {
            return None;
        }
        let a = a?;
        let (value, carry) = match instruction.mnemonic() {
            Mnemonic::Shl => (a << count, a >> (8 * width as u64 - count) & 1),
            Mnemonic::Shr => (a >> count, a >> (count - 1) & 1),
            _ => {
                let wide = extend(a, width).cast_signed();
                ((wide >> count).cast_unsigned(), a >> (count - 1) & 1)
            }
        };
        let mut outcome = logic(value & mask(width), width);
        outcome.known &= !OVERFLOW;
        outcome.flags |= if carry == 1 { CARRY } else { 0 };
        Some(outcome)
    }

    fn product(&self, instruction: &Instruction, width: usize) -> Option<u64> {
        let factor = |operand| self.operand(instruction, operand);
        let (a, b) = match instruction.op_count() {
            2 => (factor(0)?, factor(1)?),
            3 => (factor(1)?, factor(2)?),
            _ => return None,
        };
        Some(a.wrapping_mul(b) & mask(width))
    }
}

fn mask(width: usize) -> u64 {
    if width >= 8 {
        u64::MAX
    } else {
        (1 << (8 * width)) - 1
    }
}

fn extend(value: u64, width: usize) -> u64 {
    let unused = 64 - 8 * width.clamp(1, 8);
    (value << unused)
        .cast_signed()
        .wrapping_shr(unused as u32)
        .cast_unsigned()
}

/// A register after a part of it was written.
fn merge(name: Name, before: Option<u64>, value: Option<u64>) -> Option<u64> {
    let value = value?;
    match name {
        Name::AH | Name::BH | Name::CH | Name::DH => Some(before? & !0xff00 | (value & 0xff) << 8),
        name if name.size() >= 4 => Some(value & mask(name.size())),
        name => Some(before? & !mask(name.size()) | value & mask(name.size())),
    }
}

/// The flags of a result, of which carry and overflow are cleared.
fn logic(value: u64, width: usize) -> Outcome {
    let mut flags = 0;
    if value == 0 {
        flags |= ZERO;
    }
    if value >> (8 * width - 1) & 1 == 1 {
        flags |= SIGN;
    }
    if (value as u8).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    Outcome {
        value: Some(value),
        flags,
        known: CARRY | PARITY | ZERO | SIGN | OVERFLOW,
    }
}

fn logic_of(a: Option<u64>, b: Option<u64>, width: usize, of: impl Fn(u64, u64) -> u64) -> Outcome {
    match a.zip(b) {
        Some((a, b)) => logic(of(a, b) & mask(width), width),
        // Carry and overflow are cleared whatever the operands are.
        None => Outcome {
            value: None,
            flags: 0,
            known: CARRY | OVERFLOW,
        },
    }
}

fn add(a: Option<u64>, b: Option<u64>, carry: bool, width: usize) -> Outcome {
    let Some((a, b)) = a.zip(b) else {
        return Outcome::default();
    };
    let wide = u128::from(a) + u128::from(b) + u128::from(carry);
    let value = wide as u64 & mask(width);
    let mut outcome = logic(value, width);
    if wide > u128::from(mask(width)) {
        outcome.flags |= CARRY;
    }
    if (a ^ value) & (b ^ value) & sign(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn subtract(a: Option<u64>, b: Option<u64>, borrow: bool, width: usize) -> Outcome {
    let Some((a, b)) = a.zip(b) else {
        return Outcome::default();
    };
    let value = a.wrapping_sub(b).wrapping_sub(borrow.into()) & mask(width);
    let mut outcome = logic(value, width);
    if u128::from(a) < u128::from(b) + u128::from(borrow) {
        outcome.flags |= CARRY;
    }
    if (a ^ b) & (a ^ value) & sign(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn sign(width: usize) -> u64 {
    1 << (8 * width - 1)
}

impl Outcome {
    fn but_carry(mut self) -> Self {
        self.known &= !CARRY;
        self
    }
}
