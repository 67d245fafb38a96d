//! Evaluation of a row's rules: from the registers of a frame to those of its caller.

use crate::failure::{UnwindFailure, UnwindStop};
use crate::module::{Slice, TableKind};
use crate::rows::UnwindRow;
use crate::stack::Missing;
use crate::{ModuleData, StackMemory, UnwindMachine, UnwindRegisters};
use gimli::{
    CfaRule, Evaluation, EvaluationResult, EvaluationStorage, Expression, Location, Piece, Reader,
    RegisterRule, UnwindExpression, Value,
};

/// Maximum number of operations of an expression, because loops are legal.
const MAX_OPERATIONS: u32 = 1000;

/// Storage for evaluating an expression without allocation.
struct OnStack;

impl<R: Reader> EvaluationStorage<R> for OnStack {
    type Stack = [Value; 64];
    type ExpressionStack = [(R, R); 1];
    type Result = [Piece<R>; 1];
}

/// One frame, and the known data at its address.
pub(crate) struct EvaluatedFrame<'a> {
    pub(crate) module: &'a ModuleData,
    pub(crate) row: &'a UnwindRow,
    pub(crate) registers: &'a UnwindRegisters,
    pub(crate) stack: StackMemory<'a>,
    /// True if the frame is the innermost one, or was interrupted by a signal, so that it is
    /// anywhere in its function and not after a call.
    pub(crate) interrupted: bool,
}

impl EvaluatedFrame<'_> {
    /// Returns the registers of the caller; `None` if there is none.
    pub(crate) fn caller_registers(&self) -> Result<Option<UnwindRegisters>, UnwindStop> {
        let machine = self.registers.machine();
        // At the root no register is needed, and some may be unknown.
        if self.is_root() {
            return Ok(None);
        }
        let cfa = self.evaluate_cfa()?;
        let mut caller = *self.registers;
        caller.set_column(machine.sp_column(), cfa);
        for (column, rule) in &self.row.registers {
            if *column != self.row.return_address {
                self.recover_register(*column, rule, cfa, &mut caller);
            }
        }
        let Some(pc) = self.return_address(cfa)? else {
            return Ok(None);
        };
        if self.row.return_address != machine.pc_column() {
            caller.set_column(self.row.return_address, pc);
        }
        caller.set_column(machine.pc_column(), pc);
        Ok(Some(caller))
    }

    /// Returns whether the row puts the return address into a register, as in `vfork`.
    pub(crate) fn returns_by_register(&self) -> bool {
        let mut rules = self.row.registers.iter();
        rules.any(|(column, rule)| {
            *column == self.row.return_address && matches!(rule, RegisterRule::Register(_))
        })
    }

    /// Returns whether the row marks a function without a caller.
    fn is_root(&self) -> bool {
        let (address, undefined) = (self.row.return_address, RegisterRule::Undefined);
        let mut rules = self.row.registers.iter();
        rules.any(|(column, rule)| *column == address && *rule == undefined)
    }

    pub(crate) fn evaluate_cfa(&self) -> Result<u64, UnwindStop> {
        let sp = self.registers.machine().sp_column() as u16;
        let unknown = UnwindStop::from(UnwindFailure::UnknownRegister(sp));
        let found = match &self.row.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.registers.get_column(usize::from(register.0));
                base.map(|base| base.wrapping_add_signed(*offset))
                    .ok_or(UnwindFailure::UnknownRegister(register.0).into())
            }
            CfaRule::Expression(expression) => self.evaluate_expression(expression, None),
        };
        if found == Err(unknown) {
            self.cfa_by_record().ok_or(unknown)
        } else {
            found
        }
    }

    /// Returns the canonical frame address of a function with a frame record, which the frame
    /// pointer locates while the function waits for a callee.
    fn cfa_by_record(&self) -> Option<u64> {
        let fp = self.registers.machine().fp_column();
        let rule_of = |column: usize| self.row.registers.iter().find(|(c, _)| *c == column);
        let (Some((_, RegisterRule::Offset(frame))), Some((_, RegisterRule::Offset(link)))) =
            (rule_of(fp), rule_of(self.row.return_address))
        else {
            return None;
        };
        let frame_pointer = self.registers.get_column(fp)?;
        (*link == frame.checked_add(8)?).then(|| frame_pointer.wrapping_sub(*frame as u64))
    }

    /// Recovers a register. An unrecoverable one is only missed if a caller needs it.
    fn recover_register(
        &self,
        column: usize,
        rule: &RegisterRule<usize>,
        cfa: u64,
        caller: &mut UnwindRegisters,
    ) {
        match self.register_value(column, rule, cfa) {
            Ok(Some(value)) => caller.set_column(column, value),
            // An epilogue has already popped it, which tables do not always say.
            Err(UnwindStop::Missing(Missing::Below)) if self.interrupted => {}
            Ok(None) | Err(_) => caller.forget_column(column),
        }
    }

    fn return_address(&self, cfa: u64) -> Result<Option<u64>, UnwindStop> {
        let machine = self.registers.machine();
        let column = self.row.return_address;
        let rule = self.row.registers.iter().find(|(c, _)| *c == column);
        let pc = match rule.map(|(_, rule)| rule) {
            // Still in the link register, if no call of this frame has overwritten it. On machines
            // without one, its place is unknown, and this is the root.
            None | Some(RegisterRule::SameValue) if machine.lr_column() == Some(column) => {
                let kept = self
                    .registers
                    .get_column(column)
                    .filter(|_| self.interrupted);
                Some(kept.ok_or(UnwindFailure::NotAdvancing)?)
            }
            None => None,
            Some(rule) => self.register_value(column, rule, cfa)?,
        };
        Ok(pc.map(|pc| strip_signature(machine, pc)))
    }

    /// Returns the caller's value of a register; `None` if the rule says that it has none.
    fn register_value(
        &self,
        column: usize,
        rule: &RegisterRule<usize>,
        cfa: u64,
    ) -> Result<Option<u64>, UnwindStop> {
        let value = match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::SameValue => return Ok(self.registers.get_column(column)),
            RegisterRule::Offset(offset) => {
                self.stack.read_word(cfa.wrapping_add_signed(*offset))?
            }
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(*offset),
            RegisterRule::Register(other) => {
                return Ok(self.registers.get_column(usize::from(other.0)));
            }
            RegisterRule::Expression(expression) => self
                .stack
                .read_word(self.evaluate_expression(expression, Some(cfa))?)?,
            RegisterRule::ValExpression(expression) => {
                self.evaluate_expression(expression, Some(cfa))?
            }
            RegisterRule::Constant(value) => *value,
            _ => return Err(UnwindFailure::BadTable.into()),
        };
        Ok(Some(value))
    }

    /// Evaluates an expression of the tables, with `first` on its stack.
    fn evaluate_expression(
        &self,
        expression: &UnwindExpression<usize>,
        first: Option<u64>,
    ) -> Result<u64, UnwindStop> {
        let bad = |_| UnwindStop::from(UnwindFailure::BadTable);
        let code = self.expression_code(expression)?;
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
                    let value = self.registers.get_column(usize::from(register.0));
                    let value = value.ok_or(UnwindFailure::UnknownRegister(register.0))?;
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
                    let value = self.stack.read_value(address, size)?;
                    evaluation
                        .resume_with_memory(Value::Generic(value))
                        .map_err(bad)?
                }
                _ => return Err(UnwindFailure::BadTable.into()),
            };
        }
        match evaluation.as_result() {
            [
                Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => Ok(*address),
            _ => Err(UnwindFailure::BadTable.into()),
        }
    }

    fn expression_code(
        &self,
        expression: &UnwindExpression<usize>,
    ) -> Result<Expression<Slice<'_>>, UnwindStop> {
        let table = self
            .module
            .tables
            .get(self.row.table)
            .ok_or(UnwindFailure::BadTable)?;
        let machine = self.registers.machine();
        let code = match table.kind {
            TableKind::EhFrame => table.with_eh_frame(machine, |section| expression.get(section)),
            TableKind::DebugFrame => {
                table.with_debug_frame(machine, |section| expression.get(section))
            }
        };
        Ok(code.map_err(|_| UnwindFailure::BadTable)?)
    }
}

/// Returns the address in a return address that may be signed: AArch64 stores a signature above the
/// 48 bits of a code address.
pub(crate) fn strip_signature(machine: UnwindMachine, address: u64) -> u64 {
    match machine {
        UnwindMachine::X86_64 => address,
        UnwindMachine::Aarch64 => address & ((1 << 48) - 1),
    }
}
