//! The rules of a place in a form that needs no evaluation of tables.

use crate::caller_rule::CallerRule;
use crate::code_frames::CodeRule;
use crate::evaluate::EvaluatedFrame;
use crate::{ModuleData, StackMemory, UnwindRegisters, Unwinder};
use gimli::RegisterRule;

impl Unwinder {
    /// Returns the rule at a position in a module's file; `None` if the tables do not cover it,
    /// mark it as the root, or need more than a [`CallerRule`] can express.
    pub fn caller_rule(&mut self, module: &ModuleData, file_offset: u64) -> Option<CallerRule> {
        let machine = module.machine?;
        let address = module.image_address(file_offset)?;
        let Some(row) = self.rows.row_at(module, address) else {
            return match module.tableless_rule(address) {
                CodeRule::Caller(rule) => Some(rule),
                _ => None,
            };
        };
        if row.signal {
            return None;
        }
        // The canonical frame address for made-up registers shows the base that it moves with. That
        // covers expressions too (the linker's stubs have one that only depends on the place).
        let cfa = |sp: u64, fp: u64| {
            let registers = match machine {
                crate::UnwindMachine::X86_64 => UnwindRegisters::x86_64(address, sp, fp),
                crate::UnwindMachine::Aarch64 => UnwindRegisters::aarch64(address, sp, fp, 0),
            };
            let frame = EvaluatedFrame {
                module,
                row,
                registers: &registers,
                stack: StackMemory::new(sp, &[]),
                interrupted: true,
            };
            frame.evaluate_cfa().ok()
        };
        const SP: u64 = 1 << 40;
        const FP: u64 = 1 << 41;
        const STEP: u64 = 1 << 30;
        let (at, by_sp, by_fp) = (cfa(SP, FP)?, cfa(SP + STEP, FP)?, cfa(SP, FP + STEP)?);
        let (from_frame_pointer, base) = match (by_sp.wrapping_sub(at), by_fp.wrapping_sub(at)) {
            (STEP, 0) => (false, SP),
            (0, STEP) => (true, FP),
            _ => return None,
        };
        let rule = |column: usize| row.registers.iter().find(|(c, _)| *c == column);
        let return_address = match rule(row.return_address).map(|(_, rule)| rule) {
            Some(RegisterRule::Offset(offset)) => Some(*offset),
            None | Some(RegisterRule::SameValue)
                if machine.lr_column() == Some(row.return_address) =>
            {
                None
            }
            _ => return None,
        };
        let frame_pointer = match rule(machine.fp_column()).map(|(_, rule)| rule) {
            Some(RegisterRule::Offset(offset)) => Some(*offset),
            _ => None,
        };
        Some(CallerRule {
            from_frame_pointer,
            cfa: at.wrapping_sub(base) as i64,
            return_address,
            frame_pointer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn somewhere(n: u64) -> u64 {
        std::hint::black_box(n) + 1
    }

    #[test]
    fn a_function_begins_behind_its_return_address() {
        let address = somewhere as fn(u64) -> u64 as usize as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut mappings = profile::MapsLine::parse_all(&maps);
        let offset = mappings.find_map(|line| line.file_offset_of(address));
        let module = ModuleData::open(&std::env::current_exe().unwrap()).unwrap();
        let rule = Unwinder::new()
            .caller_rule(&module, offset.unwrap().0)
            .unwrap();
        let expected = if cfg!(target_arch = "x86_64") {
            (8, Some(-8))
        } else {
            (0, None)
        };
        assert!(!rule.from_frame_pointer);
        assert_eq!(
            (rule.cfa, rule.return_address, rule.frame_pointer),
            (expected.0, expected.1, None)
        );
        assert_eq!(Unwinder::new().caller_rule(&module, u64::MAX), None);
        assert_eq!(somewhere(1), 2);
    }
}
