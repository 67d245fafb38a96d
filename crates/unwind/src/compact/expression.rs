//! The few DWARF expressions in the unwind tables of real programs.

use crate::UnwindMachine;

/// The result of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Register and offset.
    Register { register: usize, offset: i64 },
    /// The word at register and offset, plus `added`.
    Memory {
        register: usize,
        offset: i64,
        added: u8,
    },
    /// The linker's expression for stubs: stack pointer and offset, plus 8 from byte `threshold` of
    /// 16 on.
    Stub { offset: i64, threshold: u8 },
}

const DEREF: u8 = 0x06;
const AND: u8 = 0x1a;
const PLUS: u8 = 0x22;
const PLUS_UCONST: u8 = 0x23;
const SHL: u8 = 0x24;
const GE: u8 = 0x2a;
const LIT0: u8 = 0x30;
const LIT3: u8 = 0x33;
const LIT15: u8 = 0x3f;
const LIT31: u8 = 0x4f;
const BREG0: u8 = 0x70;
const BREG31: u8 = 0x8f;
const BREGX: u8 = 0x92;

/// Parses an expression; `None` for one of another form.
pub(crate) fn parse_expression(code: &[u8], machine: UnwindMachine) -> Option<Operand> {
    let mut code = ExpressionCode(code);
    let (register, offset) = code.read_register()?;
    match code.read_byte() {
        None => Some(Operand::Register { register, offset }),
        Some(DEREF) => Some(Operand::Memory {
            register,
            offset,
            added: code.read_added()?,
        }),
        Some(next) if register == machine.sp_column() => {
            let (counter, 0) = code.register_at(next)? else {
                return None;
            };
            let (lit15, and) = (code.read_byte()?, code.read_byte()?);
            let (threshold, rest) = (code.read_byte()?, code.0);
            let known = (counter, lit15, and) == (machine.pc_column(), LIT15, AND)
                && (LIT0..=LIT15).contains(&threshold)
                && rest == [GE, LIT3, SHL, PLUS];
            // Only after the threshold is known to be no less.
            known.then(|| Operand::Stub {
                offset,
                threshold: threshold - LIT0,
            })
        }
        Some(_) => None,
    }
}

struct ExpressionCode<'a>(&'a [u8]);

impl ExpressionCode<'_> {
    fn read_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn read_register(&mut self) -> Option<(usize, i64)> {
        let operation = self.read_byte()?;
        self.register_at(operation)
    }

    fn register_at(&mut self, operation: u8) -> Option<(usize, i64)> {
        let register = match operation {
            BREG0..=BREG31 => usize::from(operation - BREG0),
            BREGX => usize::try_from(self.read_unsigned()?).ok()?,
            _ => return None,
        };
        Some((register, self.read_signed()?))
    }

    /// Returns the number that the end of the expression adds.
    fn read_added(&mut self) -> Option<u8> {
        let added = match self.read_byte() {
            None => return Some(0),
            Some(PLUS_UCONST) => self.read_unsigned()?,
            Some(literal @ LIT0..=LIT31) if self.read_byte()? == PLUS => u64::from(literal - LIT0),
            Some(_) => return None,
        };
        self.0.is_empty().then_some(u8::try_from(added).ok()?)
    }

    fn read_unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.read_byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    fn read_signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let byte = self.read_byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                let sign = byte & 0x40 != 0 && shift < 64;
                return Some(if sign { value | -1 << shift } else { value });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86(code: &[u8]) -> Option<Operand> {
        parse_expression(code, UnwindMachine::X86_64)
    }

    #[test]
    fn what_linkers_and_compilers_write_is_known() {
        let stub = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let expected = Operand::Stub {
            offset: 8,
            threshold: 11,
        };
        assert_eq!(x86(&stub), Some(expected));
        let realigned = Operand::Memory {
            register: 6,
            offset: -8,
            added: 0,
        };
        assert_eq!(x86(&[0x76, 0x78, 0x06]), Some(realigned));
        let saved = Operand::Memory {
            register: 7,
            offset: 152,
            added: 8,
        };
        assert_eq!(x86(&[0x77, 0x98, 0x01, 0x06, 0x23, 8]), Some(saved));
        assert_eq!(x86(&[0x77, 0x98, 0x01, 0x06, 0x38, 0x22]), Some(saved));
        let plain = Operand::Register {
            register: 6,
            offset: 0,
        };
        assert_eq!(x86(&[0x76, 0]), Some(plain));
    }

    #[test]
    fn a_stub_with_another_byte_is_read_or_refused() {
        let stub = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        for byte in 0..=u8::MAX {
            for position in 0..stub.len() {
                let mut changed = stub;
                changed[position] = byte;
                let is_stub = matches!(x86(&changed), Some(Operand::Stub { .. }));
                let may_vary = match position {
                    // The offset of the stack pointer, in one byte.
                    1 => byte < 0x80,
                    6 => (LIT0..=LIT15).contains(&byte),
                    _ => byte == stub[position],
                };
                assert_eq!(is_stub, may_vary, "{byte:#x} at {position}");
            }
        }
    }

    #[test]
    fn other_and_cut_expressions_are_not() {
        let stub = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert!(
            (1..stub.len())
                .filter(|end| *end != 2)
                .all(|end| x86(&stub[..end]).is_none())
        );
        assert_eq!(x86(&[0x77, 0x80]), None);
        assert_eq!(x86(&[0x03, 1, 2, 3, 4, 5, 6, 7, 8]), None);
        assert_eq!(x86(&[0x76, 0x78, 0x06, 0x23, 0x80, 0x02]), None);
        let endless = [
            0x77, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1,
        ];
        assert_eq!(x86(&endless), None);
    }
}
