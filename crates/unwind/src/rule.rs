//! The rules of a place in a form for those who cannot evaluate tables.

use crate::evaluate::EvaluatedFrame;
use crate::{ModuleData, StackMemory, UnwindMachine, UnwindRegisters, Unwinder};
use gimli::RegisterRule;
use languages::go::GoFrameKind;

/// The way to the caller from one place in a function, where that takes no more than offsets from
/// the stack pointer or the frame pointer. Almost all places are such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerRule {
    /// True if the canonical frame address counts from the frame pointer, not from the stack pointer.
    pub from_frame_pointer: bool,
    /// Canonical frame address (the caller's stack pointer) less that register, in bytes.
    pub cfa: i64,
    /// Place of the return address, in bytes from the canonical frame address; `None`: in the link
    /// register.
    pub return_address: Option<i64>,
    /// Place of the caller's frame pointer, likewise; `None`: in its register still.
    pub frame_pointer: Option<i64>,
}

impl CallerRule {
    /// The rule of code that keeps a frame pointer.
    pub const WITH_FRAME_POINTER: Self = Self {
        from_frame_pointer: true,
        cfa: 16,
        return_address: Some(-8),
        frame_pointer: Some(-16),
    };
}

impl Unwinder {
    /// The rule at a position in a module's file; `None` where the tables say nothing about it, say
    /// that it has no caller, or need more than a [`CallerRule`] can say.
    pub fn caller_rule(&mut self, module: &ModuleData, file_offset: u64) -> Option<CallerRule> {
        let machine = module.machine?;
        let address = module.image_address(file_offset)?;
        let Some(row) = self.rows.row_at(module, address) else {
            return go_caller_rule(module, address);
        };
        if row.signal {
            return None;
        }
        // The canonical frame address for made-up registers: what it moves with, it counts from.
        // That serves expressions too (the linker's stubs have one that only depends on the place).
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

/// The rule at an address of a Go program without other tables. Its frames have the caller's frame pointer on top.
fn go_caller_rule(module: &ModuleData, address: u64) -> Option<CallerRule> {
    let functions = module.go_functions.as_ref()?;
    let function = functions.function_at(address)?;
    if module.machine != Some(UnwindMachine::X86_64)
        || functions.frame_kind(&function) != GoFrameKind::Ordinary
    {
        return None;
    }
    let mut sizes = functions.frame_sizes(&function).into_iter();
    let (_, size) = sizes.find(|(addresses, _)| addresses.contains(&address))?;
    let size = i64::from(u32::try_from(size).ok()?);
    Some(CallerRule {
        from_frame_pointer: false,
        cfa: size + 8,
        return_address: Some(-8),
        frame_pointer: (size > 0).then_some(-16),
    })
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
        let expected = match cfg!(target_arch = "x86_64") {
            true => (8, Some(-8)),
            false => (0, None),
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
