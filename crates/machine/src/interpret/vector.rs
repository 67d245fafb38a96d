//! Vector registers, as far as branches of common code depend on them: logic, and comparisons of
//! bytes as in string functions. `moves.rs` moves them, `numbers.rs` has floating-point numbers.

use super::decoded::Decoded;
use super::lanes::{
    self, LANES, Vector, ZERO as NOTHING, compare_elements, each_element, each_lane,
    each_sixteen_bytes, with_low,
};
use super::masks;
use super::memory::InterpretedMemory;
use super::moves::{half_moved, masked_move, moved_bytes};
use super::names::{CARRY, OVERFLOW, SIGN, ZERO, integer_index, vector_index, width_mask};
use super::numbers::truncate_float;
use super::state::State;
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register as Name};

/// The operands of an instruction on vectors.
struct Operands {
    a: Vector,
    b: Vector,
    /// Number of its lanes of 8 bytes.
    lanes: usize,
}

/// Comparison of two elements by an instruction.
type Comparison = fn(u64, u64) -> bool;

impl State {
    /// Executes an instruction on vector registers; returns `false` if it is not modelled, and
    /// `None` if nothing is known after it.
    pub fn execute_vector(
        &mut self,
        one: &Decoded,
        memory: &mut impl InterpretedMemory,
    ) -> Option<bool> {
        let instruction = &one.instruction;
        if instruction.mnemonic() == Mnemonic::Vzeroupper {
            for register in self.vector.iter_mut().take(16) {
                register[2..].fill(Some(0));
            }
            return Some(true);
        }
        if self.execute_mask(instruction, memory) {
            return Some(true);
        }
        let masked = instruction.op_mask() != Name::None;
        let Some(lanes) = widest_lanes(instruction) else {
            return Some(false);
        };
        if masked && let Some(width) = masked_move(instruction) {
            return Some(self.moves_some(instruction, lanes, width, memory));
        }
        if !masked && let Some(bytes) = moved_bytes(instruction) {
            return self.execute_move(instruction, bytes.unwrap_or(8 * lanes), memory);
        }
        if let Some(half) = half_moved(instruction) {
            return self.moves_half(instruction, half, memory);
        }
        let legacy = instruction.encoding() == EncodingKind::Legacy;
        // With two operands, the first is a source too.
        let writes = instruction.mnemonic() != Mnemonic::Vpcmpistri;
        let first = u32::from(!legacy && writes && instruction.op_count() > 2);
        let operands = Operands {
            a: self.vector_operand(instruction, first, lanes, memory),
            b: self.vector_operand(instruction, first + 1, lanes, memory),
            lanes,
        };
        if self.execute_compare(instruction, &operands)
            || self.gives_integer(instruction, &operands)
        {
            return Some(true);
        }
        let to = (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register());
        if masked || to.and_then(vector_index).is_none() {
            return Some(false);
        }
        let result = match self.vector_result(instruction, &operands, memory) {
            Some(result) => result,
            None => return Some(false),
        };
        self.set_vector(instruction, lanes, result);
        Some(true)
    }

    /// Writes a vector register. Legacy encodings keep the lanes above, others clear them.
    pub fn set_vector(&mut self, instruction: &Instruction, lanes: usize, value: Vector) {
        if let Some(index) = vector_index(instruction.op0_register()) {
            let register = &mut self.vector[index];
            if instruction.encoding() != EncodingKind::Legacy {
                *register = NOTHING;
            }
            register[..lanes].copy_from_slice(&value[..lanes]);
        }
    }

    /// Returns the value that is written to the first operand, a vector register.
    fn vector_result(
        &self,
        instruction: &Instruction,
        operands: &Operands,
        memory: &mut impl InterpretedMemory,
    ) -> Option<Vector> {
        bitwise_result(instruction, operands)
            .or_else(|| self.ternary_result(instruction, operands))
            .or_else(|| arranged_result(instruction, operands))
            .or_else(|| self.float_vector(instruction, operands, memory))
    }

    /// Returns the result of `vpternlog`: a table of three bits, of the register before and two
    /// operands.
    fn ternary_result(&self, instruction: &Instruction, operands: &Operands) -> Option<Vector> {
        if !matches!(
            instruction.mnemonic(),
            Mnemonic::Vpternlogd | Mnemonic::Vpternlogq
        ) {
            return None;
        }
        let Operands { a, b, .. } = operands;
        let before = vector_index(instruction.op0_register()).map(|index| self.vector[index])?;
        let table = instruction.immediate8();
        Some(std::array::from_fn(|lane| match table {
            0 => Some(0),
            0xff => Some(u64::MAX),
            _ => Some(lanes::ternary_logic(
                before[lane]?,
                a[lane]?,
                b[lane]?,
                table,
            )),
        }))
    }

    /// Returns elements that are repeated or computed as floating-point numbers.
    fn float_vector(
        &self,
        instruction: &Instruction,
        operands: &Operands,
        memory: &mut impl InterpretedMemory,
    ) -> Option<Vector> {
        use Mnemonic as M;
        let Operands { a, b, .. } = operands;
        Some(match instruction.mnemonic() {
            M::Vpbroadcastb => self.repeat_element(instruction, 1, memory),
            M::Vpbroadcastw => self.repeat_element(instruction, 2, memory),
            M::Vpbroadcastd => self.repeat_element(instruction, 4, memory),
            M::Vpbroadcastq => self.repeat_element(instruction, 8, memory),
            M::Addsd | M::Subsd | M::Mulsd | M::Divsd | M::Minsd | M::Maxsd | M::Sqrtsd => {
                with_low(a, [self.float_result(instruction, a[0].zip(b[0])), a[1]])
            }
            M::Vaddsd | M::Vsubsd | M::Vmulsd | M::Vdivsd | M::Vminsd | M::Vmaxsd | M::Vsqrtsd => {
                with_low(a, [self.float_result(instruction, a[0].zip(b[0])), a[1]])
            }
            M::Addss | M::Subss | M::Mulss | M::Divss | M::Cvtss2sd | M::Cvtsd2ss => {
                with_low(a, [self.float_result(instruction, a[0].zip(b[0])), a[1]])
            }
            M::Cvtsi2sd | M::Vcvtsi2sd | M::Cvtsi2ss | M::Vcvtsi2ss => with_low(
                a,
                [self.converted_to_float(instruction, a[0], memory), a[1]],
            ),
            _ => return None,
        })
    }

    /// Returns a vector that repeats an element of `width` bytes.
    fn repeat_element(
        &self,
        instruction: &Instruction,
        width: usize,
        memory: &mut impl InterpretedMemory,
    ) -> Vector {
        let element = match (
            instruction.op1_kind(),
            vector_index(instruction.op1_register()),
        ) {
            (OpKind::Register, Some(index)) => self.vector[index][0],
            (OpKind::Register, None) => self.register(instruction.op1_register()),
            _ => self
                .address(instruction)
                .and_then(|at| memory.load_value(at, width)),
        };
        let lane = element.map(|element| {
            (0..8 / width).fold(0, |all, index| {
                all | (element & width_mask(width)) << (8 * width * index)
            })
        });
        [lane; LANES]
    }

    /// Executes comparisons whose result is a mask.
    fn execute_compare(&mut self, instruction: &Instruction, operands: &Operands) -> bool {
        use Mnemonic as M;
        let to = instruction.op0_kind() == OpKind::Register;
        let Some(to) = masks::mask_index(instruction.op0_register()).filter(|_| to) else {
            return false;
        };
        let by = instruction.immediate8();
        let (width, of): (usize, Comparison) = match instruction.mnemonic() {
            M::Vpcmpeqb => (1, |a, b| a == b),
            M::Vpcmpeqw => (2, |a, b| a == b),
            M::Vpcmpeqd => (4, |a, b| a == b),
            M::Vpcmpeqq => (8, |a, b| a == b),
            M::Vptestmb => (1, |a, b| a & b != 0),
            M::Vptestmw => (2, |a, b| a & b != 0),
            M::Vptestmd => (4, |a, b| a & b != 0),
            M::Vptestmq => (8, |a, b| a & b != 0),
            M::Vptestnmb => (1, |a, b| a & b == 0),
            M::Vptestnmw => (2, |a, b| a & b == 0),
            M::Vptestnmd => (4, |a, b| a & b == 0),
            M::Vptestnmq => (8, |a, b| a & b == 0),
            M::Vpcmpub => (1, unsigned_comparison(by)),
            M::Vpcmpuw => (2, unsigned_comparison(by)),
            M::Vpcmpud => (4, unsigned_comparison(by)),
            M::Vpcmpuq => (8, unsigned_comparison(by)),
            // As unsigned comparisons, if the sign makes no difference.
            M::Vpcmpb if matches!(by & 3, 0 | 3) => (1, unsigned_comparison(by)),
            M::Vpcmpd if matches!(by & 3, 0 | 3) => (4, unsigned_comparison(by)),
            M::Vpcmpq if matches!(by & 3, 0 | 3) => (8, unsigned_comparison(by)),
            _ => return false,
        };
        let within = match masks::mask_index(instruction.op_mask()) {
            None => Some(u64::MAX),
            Some(index) => self.masks[index],
        };
        self.masks[to] = within.and_then(|within| {
            let a = self.loaded_vector(instruction, width, within);
            let a = a.unwrap_or(&operands.a);
            compare_elements(a, &operands.b, operands.lanes, width, within, of)
        });
        true
    }

    /// Returns the first of two compared vectors, if only the part that the comparison needs is
    /// known.
    fn loaded_vector(
        &self,
        instruction: &Instruction,
        width: usize,
        within: u64,
    ) -> Option<&Vector> {
        let partly = self.partly.as_ref()?;
        let same = vector_index(instruction.op1_register()) == Some(partly.register);
        (same && partly.width == width && within & !partly.elements == 0).then_some(&partly.loaded)
    }

    /// Executes an instruction whose result is an integer, or flags. Returns whether it was one.
    fn gives_integer(&mut self, instruction: &Instruction, operands: &Operands) -> bool {
        use Mnemonic as M;
        let Operands { a, b, lanes } = operands;
        let to = instruction.op0_register();
        let value = match instruction.mnemonic() {
            M::Ptest | M::Vptest => {
                let pairs: Option<Vec<(u64, u64)>> = a
                    .iter()
                    .zip(b)
                    .take(*lanes)
                    .map(|(a, b)| (*a).zip(*b))
                    .collect();
                let result = pairs.map(|pairs| {
                    let carry = pairs.iter().all(|(a, b)| !a & b == 0);
                    (carry, pairs.iter().all(|(a, b)| a & b == 0))
                });
                self.tested(result);
                return true;
            }
            M::Pcmpistri | M::Vpcmpistri => {
                let halves = |of: &Vector| Some([of[0]?, of[1]?]);
                let found = halves(a)
                    .zip(halves(b))
                    .map(|(a, b)| lanes::string_index(a, b, instruction.immediate8()));
                self.integer[COUNTER] = found.map(|(index, _)| index);
                self.tested(None);
                if let Some((_, flags)) = found {
                    self.known |= CARRY | ZERO;
                    for (flag, set) in [CARRY, ZERO, SIGN, OVERFLOW].into_iter().zip(flags) {
                        self.flags |= if set { flag } else { 0 };
                    }
                } else {
                    self.known &= !(SIGN | OVERFLOW);
                }
                return true;
            }
            M::Comisd | M::Ucomisd | M::Vcomisd | M::Vucomisd => {
                let numbers = a[0].zip(b[0]);
                self.set_float_flags(numbers.map(|(a, b)| (f64::from_bits(a), f64::from_bits(b))));
                return true;
            }
            M::Comiss | M::Ucomiss | M::Vcomiss | M::Vucomiss => {
                let number = |bits: u64| f64::from(f32::from_bits(bits as u32));
                self.set_float_flags(a[0].zip(b[0]).map(|(a, b)| (number(a), number(b))));
                return true;
            }
            M::Pmovmskb | M::Vpmovmskb => {
                compare_elements(b, b, *lanes, 1, u64::MAX, |byte, _| byte & 0x80 != 0)
            }
            M::Cvttsd2si | M::Vcvttsd2si => {
                b[0].map(|bits| truncate_float(f64::from_bits(bits), to.size()))
            }
            M::Cvttss2si | M::Vcvttss2si => {
                b[0].map(|bits| truncate_float(f32::from_bits(bits as u32).into(), to.size()))
            }
            _ => return false,
        };
        if let Some(index) = integer_index(to) {
            self.integer[index] = value;
        }
        true
    }

    /// Returns an operand that is a vector, or a scalar in its lowest lane. From memory, only the
    /// bytes that the instruction reads are known, with 0 above.
    pub fn vector_operand(
        &self,
        instruction: &Instruction,
        operand: u32,
        lanes: usize,
        memory: &mut impl InterpretedMemory,
    ) -> Vector {
        match instruction.try_op_kind(operand) {
            Ok(OpKind::Register) => {
                let from = instruction.op_register(operand);
                match vector_index(from) {
                    Some(index) => self.vector[index],
                    None => with_low(&NOTHING, [self.register(from), Some(0)]),
                }
            }
            Ok(OpKind::Memory) if !instruction.is_broadcast() => {
                let bytes = instruction.memory_size().size().min(8 * lanes);
                let Some(at) = self.address(instruction) else {
                    return [None; LANES];
                };
                let mut value = NOTHING;
                for (lane, from) in value.iter_mut().zip((0..bytes).step_by(8)) {
                    *lane = match bytes - from {
                        4 => memory.load_value(at.wrapping_add(from as u64), 4),
                        8.. => memory.load_value(at.wrapping_add(from as u64), 8),
                        _ => None,
                    };
                }
                value
            }
            _ => [None; LANES],
        }
    }
}

/// `rcx`.
const COUNTER: usize = 1;

/// Returns whether it converts a floating-point number, which may be in memory, to an integer.
pub(super) fn truncates_float(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cvttsd2si | M::Vcvttsd2si | M::Cvttss2si | M::Vcvttss2si
    )
}

/// Returns the lanes of the widest vector register among the operands, or of a number in memory.
fn widest_lanes(instruction: &Instruction) -> Option<usize> {
    let registers = (0..instruction.op_count())
        .filter(|operand| matches!(instruction.try_op_kind(*operand), Ok(OpKind::Register)))
        .map(|operand| instruction.op_register(operand))
        .filter(|name| vector_index(*name).is_some());
    let widest = registers.map(|name| name.size() / 8).max();
    widest.or(truncates_float(instruction).then_some(1))
}

/// Returns the comparison with a number.
fn unsigned_comparison(number: u8) -> Comparison {
    match number & 7 {
        0 => |a, b| a == b,
        1 => |a, b| a < b,
        2 => |a, b| a <= b,
        3 => |_, _| false,
        4 => |a, b| a != b,
        5 => |a, b| a >= b,
        6 => |a, b| a > b,
        _ => |_, _| true,
    }
}

/// Returns the result of bitwise operations, comparisons and sums of integers.
fn bitwise_result(instruction: &Instruction, operands: &Operands) -> Option<Vector> {
    use Mnemonic as M;
    let Operands { a, b, .. } = operands;
    let last = instruction.op_count().checked_sub(1)?;
    let same = last > 0
        && instruction.try_op_kind(last).ok()? == OpKind::Register
        && instruction.op_register(last) == instruction.op_register(last - 1);
    let bytes =
        |width, of: fn(u64, u64) -> u64| each_lane(a, b, |a, b| each_element(a, b, width, of));
    let all = |width: usize| bytes(width, |a, b| if a == b { u64::MAX } else { 0 });
    Some(match instruction.mnemonic() {
        M::Pxor | M::Xorps | M::Xorpd if same => NOTHING,
        M::Vpxor | M::Vpxord | M::Vpxorq | M::Vxorps | M::Vxorpd if same => NOTHING,
        M::Pxor | M::Xorps | M::Xorpd => each_lane(a, b, |a, b| a ^ b),
        M::Vpxor | M::Vpxord | M::Vpxorq | M::Vxorps | M::Vxorpd => each_lane(a, b, |a, b| a ^ b),
        M::Pand | M::Andps | M::Andpd => each_lane(a, b, |a, b| a & b),
        M::Vpand | M::Vpandd | M::Vpandq | M::Vandps | M::Vandpd => each_lane(a, b, |a, b| a & b),
        M::Pandn | M::Andnps | M::Andnpd => each_lane(a, b, |a, b| !a & b),
        M::Vpandn | M::Vpandnd | M::Vpandnq | M::Vandnps | M::Vandnpd => {
            each_lane(a, b, |a, b| !a & b)
        }
        M::Por | M::Orps | M::Orpd => each_lane(a, b, |a, b| a | b),
        M::Vpor | M::Vpord | M::Vporq | M::Vorps | M::Vorpd => each_lane(a, b, |a, b| a | b),
        M::Pcmpeqb | M::Vpcmpeqb => all(1),
        M::Pcmpeqw | M::Vpcmpeqw => all(2),
        M::Pcmpeqd | M::Vpcmpeqd => all(4),
        M::Pcmpgtb | M::Vpcmpgtb => bytes(1, |a, b| if (a as i8) > b as i8 { u64::MAX } else { 0 }),
        M::Pminub | M::Vpminub => bytes(1, u64::min),
        M::Pmaxub | M::Vpmaxub => bytes(1, u64::max),
        M::Psubb | M::Vpsubb => bytes(1, u64::wrapping_sub),
        M::Paddb | M::Vpaddb => bytes(1, u64::wrapping_add),
        M::Paddq | M::Vpaddq => each_lane(a, b, u64::wrapping_add),
        M::Paddd | M::Vpaddd => bytes(4, u64::wrapping_add),
        _ => return None,
    })
}

/// Returns the operands' elements in another order.
fn arranged_result(instruction: &Instruction, operands: &Operands) -> Option<Vector> {
    use Mnemonic as M;
    let Operands { a, b, .. } = operands;
    let half = |a: Option<u64>, b: Option<u64>, shift: u32| {
        a.zip(b)
            .map(|(a, b)| a >> shift & width_mask(4) | (b >> shift & width_mask(4)) << 32)
    };
    Some(match instruction.mnemonic() {
        M::Punpcklqdq => with_low(a, [a[0], b[0]]),
        M::Punpckldq => with_low(a, [half(a[0], b[0], 0), half(a[0], b[0], 32)]),
        M::Pshufb | M::Vpshufb => each_sixteen_bytes(a, b, |a, b| {
            b.map(|at| {
                if at & 0x80 == 0 {
                    a[usize::from(at & 15)]
                } else {
                    0
                }
            })
        }),
        M::Palignr | M::Vpalignr => each_sixteen_bytes(a, b, |a, b| {
            let by = usize::from(instruction.immediate8());
            std::array::from_fn(|at| {
                let from = at + by;
                *b.get(from).or(a.get(from.wrapping_sub(16))).unwrap_or(&0)
            })
        }),
        M::Pslldq | M::Psrldq if instruction.op_count() == 2 => {
            let by = usize::from(instruction.immediate8());
            let up = instruction.mnemonic() == M::Pslldq;
            each_sixteen_bytes(a, a, |a, _| {
                std::array::from_fn(|at| {
                    let from = if up { at.wrapping_sub(by) } else { at + by };
                    *a.get(from).unwrap_or(&0)
                })
            })
        }
        M::Punpcklbw | M::Vpunpcklbw => each_sixteen_bytes(a, b, |a, b| {
            std::array::from_fn(|at| if at % 2 == 0 { a[at / 2] } else { b[at / 2] })
        }),
        M::Punpcklwd | M::Vpunpcklwd => each_sixteen_bytes(a, b, |a, b| {
            std::array::from_fn(|at| {
                let from = at / 4 * 2 + at % 2;
                if at % 4 < 2 { a[from] } else { b[from] }
            })
        }),
        M::Pshufd => each_sixteen_bytes(b, b, |b, _| {
            let order = instruction.immediate8();
            std::array::from_fn(|at| b[usize::from(order >> (at / 4 * 2) & 3) * 4 + at % 4])
        }),
        _ => return None,
    })
}
