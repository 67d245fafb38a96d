//! From the registers of a frame to those of its caller, by the rules of a row.

use crate::failure::{Failure, Stop};
use crate::module::{Kind, Slice};
use crate::rows::Row;
use crate::stack::Missing;
use crate::{Machine, ModuleData, Registers, Stack};
use gimli::{
    CfaRule, Evaluation, EvaluationResult, EvaluationStorage, Expression, Location, Piece, Reader,
    RegisterRule, UnwindExpression, Value,
};

/// Operations that an expression may take: loops are legal in them.
const MAX_OPERATIONS: u32 = 1000;

/// Room for an expression to evaluate in without allocation.
struct OnStack;

impl<R: Reader> EvaluationStorage<R> for OnStack {
    type Stack = [Value; 64];
    type ExpressionStack = [(R, R); 1];
    type Result = [Piece<R>; 1];
}

/// One frame, and what is known where it stands.
pub(crate) struct Frame<'a> {
    pub(crate) module: &'a ModuleData,
    pub(crate) row: &'a Row,
    pub(crate) registers: &'a Registers,
    pub(crate) stack: Stack<'a>,
    /// It is the innermost frame, or was interrupted by a signal: it stands anywhere in its
    /// function, not behind a call.
    pub(crate) interrupted: bool,
}

impl Frame<'_> {
    /// The registers of the caller; `None` if there is none.
    pub(crate) fn caller(&self) -> Result<Option<Registers>, Stop> {
        let machine = self.registers.machine();
        let cfa = self.cfa()?;
        let mut caller = *self.registers;
        caller.set(machine.sp(), cfa);
        for (column, rule) in &self.row.registers {
            if *column != self.row.return_address {
                self.recover(*column, rule, cfa, &mut caller);
            }
        }
        let Some(pc) = self.return_address(cfa)? else {
            return Ok(None);
        };
        if self.row.return_address != machine.pc() {
            caller.set(self.row.return_address, pc);
        }
        caller.set(machine.pc(), pc);
        Ok(Some(caller))
    }

    pub(crate) fn cfa(&self) -> Result<u64, Stop> {
        match &self.row.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.registers.get(usize::from(register.0));
                let base = base.ok_or(Failure::UnknownRegister(register.0))?;
                Ok(base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    /// A register that cannot be recovered is only missed if a caller needs it.
    fn recover(&self, column: usize, rule: &RegisterRule<usize>, cfa: u64, caller: &mut Registers) {
        match self.value(column, rule, cfa) {
            Ok(Some(value)) => caller.set(column, value),
            // An epilogue has popped it already, and the tables do not always say so.
            Err(Stop::Missing(Missing::Below)) if self.interrupted => {}
            Ok(None) | Err(_) => caller.forget(column),
        }
    }

    fn return_address(&self, cfa: u64) -> Result<Option<u64>, Stop> {
        let machine = self.registers.machine();
        let column = self.row.return_address;
        let rule = self.row.registers.iter().find(|(c, _)| *c == column);
        let pc = match rule.map(|(_, rule)| rule) {
            // Still in the link register, if no call of this frame has overwritten it. Without
            // such a register nothing says where it is, and this is the root.
            None | Some(RegisterRule::SameValue) if machine.lr() == Some(column) => {
                let kept = self.registers.get(column).filter(|_| self.interrupted);
                Some(kept.ok_or(Failure::NotAdvancing)?)
            }
            None => None,
            Some(rule) => self.value(column, rule, cfa)?,
        };
        Ok(pc.map(|pc| strip(machine, pc)))
    }

    /// The caller's value of a register; `None` if the rule says that it has none.
    fn value(
        &self,
        column: usize,
        rule: &RegisterRule<usize>,
        cfa: u64,
    ) -> Result<Option<u64>, Stop> {
        let value = match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::SameValue => return Ok(self.registers.get(column)),
            RegisterRule::Offset(offset) => self.stack.word(cfa.wrapping_add_signed(*offset))?,
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(*offset),
            RegisterRule::Register(other) => return Ok(self.registers.get(usize::from(other.0))),
            RegisterRule::Expression(expression) => {
                self.stack.word(self.evaluate(expression, Some(cfa))?)?
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa))?,
            RegisterRule::Constant(value) => *value,
            _ => return Err(Failure::BadTable.into()),
        };
        Ok(Some(value))
    }

    /// Evaluates an expression of the tables, with `first` on its stack.
    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        first: Option<u64>,
    ) -> Result<u64, Stop> {
        let bad = |_| Stop::from(Failure::BadTable);
        let code = self.code(expression)?;
        let mut evaluation = Evaluation::<_, OnStack>::new_in(code.0, self.row.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut state = evaluation.evaluate().map_err(bad)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.get(usize::from(register.0));
                    let value = value.ok_or(Failure::UnknownRegister(register.0))?;
                    evaluation
                        .resume_with_register(Value::Generic(value))
                        .map_err(bad)?
                }
                EvaluationResult::RequiresMemory {
                    address,
                    size,
                    space: None,
                    ..
                } => {
                    let value = self.stack.read(address, size)?;
                    evaluation
                        .resume_with_memory(Value::Generic(value))
                        .map_err(bad)?
                }
                _ => return Err(Failure::BadTable.into()),
            };
        }
        match evaluation.as_result() {
            [
                Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => Ok(*address),
            _ => Err(Failure::BadTable.into()),
        }
    }

    fn code(&self, expression: &UnwindExpression<usize>) -> Result<Expression<Slice<'_>>, Stop> {
        let table = self
            .module
            .tables
            .get(self.row.table)
            .ok_or(Failure::BadTable)?;
        let machine = self.registers.machine();
        let code = match table.kind {
            Kind::EhFrame => table.with_eh_frame(machine, |section| expression.get(section)),
            Kind::DebugFrame => table.with_debug_frame(machine, |section| expression.get(section)),
        };
        Ok(code.map_err(|_| Failure::BadTable)?)
    }
}

/// The address in a return address that may be signed: AArch64 keeps a signature above the 48 bits
/// of an address of code.
pub(crate) fn strip(machine: Machine, address: u64) -> u64 {
    match machine {
        Machine::X86_64 => address,
        Machine::Aarch64 => address & ((1 << 48) - 1),
    }
}
