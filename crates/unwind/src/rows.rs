//! A cache of the unwind rules at addresses: samples hit the same places of a program again and
//! again, in any process.

use crate::module::{MAX_ENTRY, Slice, TableKind, UnwindTable, table_vendor};
use crate::{ModuleData, UnwindMachine};
use gimli::{
    CfaRule, DebugFrame, EhFrame, Encoding, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};

/// The rules of one address.
#[derive(Clone, Debug)]
pub(crate) struct UnwindRow {
    pub(crate) cfa: CfaRule<usize>,
    /// Rules of registers.
    pub(crate) registers: Box<[(usize, RegisterRule<usize>)]>,
    /// The column with the return address.
    pub(crate) return_address: usize,
    /// True if the code returns from a signal handler: the caller was interrupted, and called
    /// nothing.
    pub(crate) signal: bool,
    pub(crate) encoding: Encoding,
    /// The module's table that contains it, for its expressions.
    pub(crate) table: usize,
}

/// Rows by module and address, and the memory for evaluating tables.
pub(crate) struct RowCache {
    /// Slots, each shared by many addresses.
    slots: Box<[Option<Slot>]>,
    context: UnwindContext<usize>,
}

struct Slot {
    module: u64,
    address: u64,
    /// `None` if the tables do not cover the address.
    row: Option<UnwindRow>,
}

/// Number of slots, as a power of two: a few thousand addresses are hot in a whole machine.
const SLOT_BITS: u32 = 13;

impl RowCache {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..1 << SLOT_BITS).map(|_| None).collect(),
            context: UnwindContext::new(),
        }
    }

    /// Returns the rules of `module` at `address` (an image address).
    pub(crate) fn row_at(&mut self, module: &ModuleData, address: u64) -> Option<&UnwindRow> {
        let key = (address ^ module.id << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(key >> (64 - SLOT_BITS)) as usize];
        let hit = |s: &Slot| s.module == module.id && s.address == address;
        if !slot.as_ref().is_some_and(hit) {
            *slot = Some(Slot {
                module: module.id,
                address,
                row: find_row(module, address, &mut self.context),
            });
        }
        slot.as_ref()?.row.as_ref()
    }
}

fn find_row(
    module: &ModuleData,
    address: u64,
    context: &mut UnwindContext<usize>,
) -> Option<UnwindRow> {
    let machine = module.machine?;
    module
        .tables
        .iter()
        .enumerate()
        .find_map(|(n, table)| match table.kind {
            TableKind::EhFrame => table.with_eh_frame(machine, |s| {
                table_row(s, n, table, machine, address, context)
            }),
            TableKind::DebugFrame => table.with_debug_frame(machine, |s| {
                table_row(s, n, table, machine, address, context)
            }),
        })
}

impl UnwindTable {
    pub(crate) fn with_eh_frame<'a, T>(
        &'a self,
        machine: UnwindMachine,
        f: impl FnOnce(&EhFrame<Slice<'a>>) -> T,
    ) -> T {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(table_vendor(machine));
        f(&section)
    }

    pub(crate) fn with_debug_frame<'a, T>(
        &'a self,
        machine: UnwindMachine,
        f: impl FnOnce(&DebugFrame<Slice<'a>>) -> T,
    ) -> T {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(table_vendor(machine));
        f(&section)
    }
}

fn table_row<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    number: usize,
    table: &UnwindTable,
    machine: UnwindMachine,
    address: u64,
    context: &mut UnwindContext<usize>,
) -> Option<UnwindRow> {
    let offset = S::Offset::from(table.entry_offset(address)?);
    let entry = section
        .fde_from_offset(&table.bases, offset, S::cie_from_offset)
        .ok()?;
    let cie = entry.cie();
    let (length, encoding) = (entry.entry_len().max(cie.entry_len()), cie.encoding());
    if !entry.contains(address) || length > MAX_ENTRY || encoding.address_size != 8 {
        return None;
    }
    let found = entry
        .unwind_info_for_address(section, &table.bases, context, address)
        .ok()?;
    // Vector registers have rules, too, which are not needed.
    let matters = |register: Register| usize::from(register.0) <= machine.pc_column();
    let registers = found.registers().filter(|(r, _)| matters(*r));
    Some(UnwindRow {
        cfa: found.cfa().clone(),
        registers: registers
            .map(|(r, rule)| (usize::from(r.0), rule.clone()))
            .collect(),
        return_address: usize::from(cie.return_address_register().0),
        signal: entry.is_signal_trampoline(),
        encoding,
        table: number,
    })
}
