//! Memory reads of the code after a sample, as a function of its registers: a small program that
//! runs at the next sample in the same place, while memory still has the values that the code will
//! read.
//!
//! Whether a value is known depends on the code and the path, not on data. Copying only the bytes
//! near each register would bias the result: only a table's first entries would be known, and
//! branches on the others never seen.

use super::decoded::Decoded;
use super::names::{integer_index, width_mask};
use super::registers::Registers;
use iced_x86::{Instruction, Mnemonic as M, OpKind, Register as Name};
use rustc_hash::FxHashMap;

/// Maximum number of operations of a slice.
pub const MAX_OPERATIONS: usize = 48;

/// Number of successive paths without new operations after which learning stops: their reads cannot
/// be computed.
const FRUITLESS: u8 = 32;

const THREAD: usize = Slice::THREAD;
const NOTHING: usize = Slice::NOTHING;
const FIRST: usize = Slice::FIRST;

const STACK: usize = 4;
const FRAME: usize = 5;

/// Operations on values `a` and `b` and a constant. Their order is an interface: interpreters may
/// use it as a number.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// `width` bytes of memory at `a` plus the constant.
    Load,
    /// `a` plus `b`.
    Add,
    /// `a` plus the constant.
    AddConstant,
    /// `a` minus `b`.
    Subtract,
    /// Bits set in both `a` and `b`.
    And,
    /// Bits set in both `a` and the constant.
    AndConstant,
    /// `a` shifted left by the constant.
    ShiftLeft,
    /// `a` shifted right by the constant, with zeros from above.
    ShiftRight,
    /// The low `width` bytes of `a`, sign-extended.
    SignExtend,
}

/// An operation of a [`Slice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The operation.
    pub kind: OperationKind,
    /// Number of bytes, for loads and extensions.
    pub width: u8,
    /// The number of the first value ([`Slice::FIRST`]).
    pub a: u8,
    /// The number of the second.
    pub b: u8,
    /// The constant.
    pub constant: u64,
}

/// The operations that compute the memory read by the code after some place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    operations: Vec<Operation>,
    /// Number of successive paths that added nothing.
    fruitless: u8,
}

impl Slice {
    /// The number of the value with the start of the thread's own memory. Smaller numbers are the
    /// integer registers, in the order of their encoding.
    pub const THREAD: usize = 16;
    /// The number of the value 0.
    pub const NOTHING: usize = 17;
    /// The number of the first operation's result.
    pub const FIRST: usize = 18;

    /// Returns the operations: each uses values of earlier ones only.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Calls `each` with the address, the width in bytes and the value of each load. `values` are
    /// the results of the operations; `None` for those that failed.
    pub(super) fn replay_loads(
        &self,
        registers: &Registers,
        values: &[Option<u64>],
        mut each: impl FnMut(u64, usize, u64),
    ) {
        for (one, value) in self.operations.iter().zip(values) {
            let Some(value) = value.filter(|_| one.kind == OperationKind::Load) else {
                continue;
            };
            let a = usize::from(one.a);
            let base = match a {
                0..THREAD => registers.integer.get(a).copied(),
                THREAD => registers.thread,
                NOTHING => Some(0),
                _ => values.get(a - FIRST).copied().flatten(),
            };
            if let Some(base) = base {
                each(
                    base.wrapping_add(one.constant),
                    usize::from(one.width),
                    value,
                );
            }
        }
    }

    /// Returns whether there may be more to learn.
    pub(super) fn can_learn(&self) -> bool {
        self.operations.len() < MAX_OPERATIONS && self.fruitless < FRUITLESS
    }

    /// Adds the memory reads of a path's instructions. `moved` is the load bias of the process.
    pub(super) fn learn_way<'a>(&mut self, moved: u64, way: impl Iterator<Item = &'a Decoded>) {
        let before = self.operations.len();
        let mut tracer = Tracer::new(self, moved);
        for one in way {
            tracer.trace_instruction(&one.instruction, one.integer);
        }
        let fruitless = (self.operations.len() == before).then(|| self.fruitless + 1);
        self.fruitless = fruitless.unwrap_or(0);
    }

    /// Returns the number of an operation's result; adds the operation if there is room.
    fn number_operation(&mut self, one: Operation) -> Option<usize> {
        let found = self.operations.iter().position(|other| *other == one);
        if found.is_none() {
            if self.operations.len() >= MAX_OPERATIONS {
                return None;
            }
            self.operations.push(one);
        }
        Some(FIRST + found.unwrap_or(self.operations.len() - 1))
    }
}

/// Symbolic register contents after some instructions, as values of operations.
struct Tracer<'a> {
    slice: &'a mut Slice,
    /// Load bias of the process.
    moved: u64,
    /// Operations of the path; the slice gets those that loads need.
    way: Vec<Operation>,
    numbers: FxHashMap<usize, Option<usize>>,
    registers: [Option<usize>; 16],
}

impl<'a> Tracer<'a> {
    fn new(slice: &'a mut Slice, moved: u64) -> Self {
        Self {
            slice,
            moved,
            way: Vec::new(),
            numbers: FxHashMap::default(),
            registers: std::array::from_fn(Some),
        }
    }

    /// Advances by an instruction that writes the registers in `written`, as bits.
    fn trace_instruction(&mut self, instruction: &Instruction, written: u16) {
        let address = self.memory_address(instruction);
        let loaded = self.loaded_value(instruction, address);
        let result = self.result_value(instruction, address, loaded);
        let old = self.registers;
        for (index, value) in self.registers.iter_mut().enumerate() {
            if written >> index & 1 == 1 {
                *value = None;
            }
        }
        let to = match instruction.mnemonic() {
            M::Cdqe => Name::RAX,
            _ => instruction.op0_register(),
        };
        if let Some((index, value)) = integer_index(to).zip(result) {
            self.registers[index] = Some(value);
        }
        if instruction.mnemonic() == M::Leave {
            self.registers[STACK] = old[FRAME].and_then(|frame| self.add_constant(frame, 8));
        } else if instruction.is_stack_instruction() && instruction.op0_register() != Name::RSP {
            let by = i64::from(instruction.stack_pointer_increment()).cast_unsigned();
            self.registers[STACK] = old[STACK].and_then(|stack| self.add_constant(stack, by));
        }
    }

    fn make_operation(
        &mut self,
        kind: OperationKind,
        (a, b): (usize, usize),
        constant: u64,
        width: u8,
    ) -> Option<usize> {
        self.way.push(Operation {
            kind,
            width,
            a: u8::try_from(a).ok()?,
            b: u8::try_from(b).ok()?,
            constant,
        });
        Some(FIRST + self.way.len() - 1)
    }

    fn add_constant(&mut self, a: usize, constant: u64) -> Option<usize> {
        if constant == 0 {
            return Some(a);
        }
        match a.checked_sub(FIRST).and_then(|place| self.way.get(place)) {
            Some(one) if one.kind == OperationKind::AddConstant => {
                let (a, sum) = (usize::from(one.a), one.constant.wrapping_add(constant));
                self.make_operation(OperationKind::AddConstant, (a, NOTHING), sum, 0)
            }
            _ => self.make_operation(OperationKind::AddConstant, (a, NOTHING), constant, 0),
        }
    }

    fn combine_values(&mut self, kind: OperationKind, a: usize, b: usize) -> Option<usize> {
        self.make_operation(kind, (a, b), 0, 0)
    }

    fn of_constant(&mut self, kind: OperationKind, a: usize, constant: u64) -> Option<usize> {
        self.make_operation(kind, (a, NOTHING), constant, 0)
    }

    /// Returns the low bytes of a value.
    fn low_part(&mut self, a: usize, width: usize) -> Option<usize> {
        let fits = match a.checked_sub(FIRST).and_then(|place| self.way.get(place)) {
            Some(one) if one.kind == OperationKind::Load => usize::from(one.width) <= width,
            Some(one) if one.kind == OperationKind::AndConstant => {
                one.constant <= width_mask(width)
            }
            _ => false,
        };
        if width >= 8 || fits || a == NOTHING {
            return Some(a);
        }
        self.of_constant(OperationKind::AndConstant, a, width_mask(width))
    }

    /// Returns the value of a register or its low part.
    fn register_value(&mut self, name: Name) -> Option<usize> {
        if matches!(name, Name::AH | Name::BH | Name::CH | Name::DH) {
            return None;
        }
        let whole = self.registers[integer_index(name)?]?;
        self.low_part(whole, name.size())
    }

    /// Returns the address of the memory operand, as a value and a constant to add.
    fn memory_address(&mut self, instruction: &Instruction) -> Option<(usize, u64)> {
        let mut constant = instruction.memory_displacement64();
        let base = match instruction.memory_base() {
            Name::None => NOTHING,
            Name::RIP => {
                constant = constant.wrapping_add(self.moved);
                NOTHING
            }
            name if name.is_gpr64() => self.registers[integer_index(name)?]?,
            _ => return None,
        };
        let mut sum = base;
        if instruction.memory_index() != Name::None {
            let index = instruction.memory_index();
            let index = self.registers[integer_index(index).filter(|_| index.is_gpr64())?]?;
            let shift = instruction.memory_index_scale().trailing_zeros();
            let scaled = match shift {
                0 => index,
                _ => self.of_constant(OperationKind::ShiftLeft, index, shift.into())?,
            };
            sum = match base {
                NOTHING => scaled,
                base => self.combine_values(OperationKind::Add, base, scaled)?,
            };
        }
        match instruction.segment_prefix() {
            Name::None => Some((sum, constant)),
            Name::FS if sum == NOTHING => Some((THREAD, constant)),
            _ => None,
        }
    }

    /// Returns the value that is read: the operand in memory, or a word of the stack.
    fn loaded_value(
        &mut self,
        instruction: &Instruction,
        address: Option<(usize, u64)>,
    ) -> Option<usize> {
        let of_memory = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let (at, width) = match instruction.mnemonic() {
            M::Lea | M::Nop => return None,
            // Its operand is only written.
            M::Mov if instruction.op0_kind() == OpKind::Memory => return None,
            M::Pop | M::Ret => ((self.registers[STACK]?, 0), 8),
            M::Leave => ((self.registers[FRAME]?, 0), 8),
            _ if of_memory => (address?, instruction.memory_size().size()),
            _ => return None,
        };
        if !matches!(width, 1 | 2 | 4 | 8) {
            return None;
        }
        let load = self.make_operation(OperationKind::Load, (at.0, NOTHING), at.1, width as u8)?;
        self.emit_operation(load);
        Some(load)
    }

    /// Returns the value that is written to the first operand.
    fn result_value(
        &mut self,
        instruction: &Instruction,
        address: Option<(usize, u64)>,
        loaded: Option<usize>,
    ) -> Option<usize> {
        let (count, to) = (instruction.op_count(), instruction.op0_register());
        if instruction.mnemonic() == M::Cdqe {
            let a = self.register_value(Name::EAX)?;
            return self.make_operation(OperationKind::SignExtend, (a, NOTHING), 0, 4);
        }
        // Writes of 8 and 16 bits keep the upper part.
        if count == 0 || !(to.is_gpr32() || to.is_gpr64()) {
            return None;
        }
        let last = count - 1;
        let second = match instruction.try_op_kind(last).ok()? {
            OpKind::Register => self.register_value(instruction.op_register(last)),
            OpKind::Memory => loaded,
            _ => None,
        };
        let constant = instruction.try_immediate(last).ok();
        let width = match instruction.try_op_kind(last).ok()? {
            OpKind::Memory => instruction.memory_size().size(),
            _ => instruction.op_register(last).size(),
        };
        let value = match instruction.mnemonic() {
            M::Mov => match constant {
                Some(constant) => self.add_constant(NOTHING, constant),
                None => second,
            },
            M::Movzx => second,
            M::Movsx | M::Movsxd => {
                let a = second?;
                self.make_operation(OperationKind::SignExtend, (a, NOTHING), 0, width as u8)
            }
            M::Lea => {
                let (sum, constant) = address?;
                self.add_constant(sum, constant)
            }
            M::Pop => loaded,
            M::Xor | M::Sub if second.is_some() && to == instruction.op_register(last) => {
                Some(NOTHING)
            }
            mnemonic => {
                let a = self.register_value(to)?;
                match (mnemonic, constant, second) {
                    (M::Add, Some(by), _) => self.add_constant(a, by),
                    (M::Sub, Some(by), _) => self.add_constant(a, by.wrapping_neg()),
                    (M::And, Some(bits), _) => {
                        self.of_constant(OperationKind::AndConstant, a, bits)
                    }
                    (M::Shl, Some(by), _) => self.of_constant(OperationKind::ShiftLeft, a, by & 63),
                    (M::Shr, Some(by), _) => {
                        self.of_constant(OperationKind::ShiftRight, a, by & 63)
                    }
                    (M::Inc, ..) => self.add_constant(a, 1),
                    (M::Dec, ..) => self.add_constant(a, u64::MAX),
                    (M::Add, None, Some(b)) => self.combine_values(OperationKind::Add, a, b),
                    (M::Sub, None, Some(b)) => self.combine_values(OperationKind::Subtract, a, b),
                    (M::And, None, Some(b)) => self.combine_values(OperationKind::And, a, b),
                    _ => None,
                }
            }
        }?;
        self.low_part(value, to.size())
    }

    /// Puts the operations that compute a value into the slice; returns its number there. Operands
    /// precede their operations.
    fn emit_operation(&mut self, value: usize) -> Option<usize> {
        let mut needed = vec![value];
        while let Some(last) = needed.last().copied() {
            let Some(one) = last
                .checked_sub(FIRST)
                .and_then(|place| self.way.get(place).copied())
            else {
                self.numbers.insert(last, Some(last));
                needed.pop();
                continue;
            };
            let (a, b) = (usize::from(one.a), usize::from(one.b));
            let missing = [a, b]
                .into_iter()
                .find(|used| !self.numbers.contains_key(used));
            if let Some(missing) = missing {
                needed.push(missing);
                continue;
            }
            let number = self.numbers[&a].zip(self.numbers[&b]).and_then(|(a, b)| {
                self.slice.number_operation(Operation {
                    a: u8::try_from(a).ok()?,
                    b: u8::try_from(b).ok()?,
                    ..one
                })
            });
            self.numbers.insert(last, number);
            needed.pop();
        }
        self.numbers[&value]
    }
}
