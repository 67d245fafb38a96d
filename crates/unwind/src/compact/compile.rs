//! From the tables of an image to compact rules.

use super::expression::{self, Operand};
use super::rule::{BASE_LOST, CompactFrame, CompactKind, CompactReturn, CompactRule};
use super::table::CompactTable;
use crate::module::{Kind, MAX_ENTRY, Slice, Table};
use crate::{Error, Machine, ModuleData};
use gimli::{
    CfaRule, CieOrFde, FrameDescriptionEntry, Register, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow,
};
use std::ops::Range;

/// The most bytes of table entries that are run through. Each entry has the first instructions of
/// its kind run again, so that damaged tables could take hours; real ones take twice their size.
const MOST_WORK: usize = 512 << 20;
/// The most changes of the rule in one image.
const MOST_CHANGES: usize = 8 << 20;
/// The most code in one image, in bytes.
const MOST_CODE: u64 = 1 << 30;

/// A stretch of code in the file, and what to add to an offset to get the image's address.
#[derive(Clone, Debug)]
struct CodeRange {
    offsets: Range<u64>,
    address: u64,
}

impl CompactTable {
    /// Compiles the unwind tables of an image.
    ///
    /// # Errors
    /// [`Error::TooComplex`] if they are larger than any real program's, or take too long.
    pub fn compile(name: &str, module: &ModuleData) -> Result<Self, Error> {
        let refused = |reason| Error::TooComplex {
            name: name.to_owned(),
            reason,
        };
        let Some(machine) = module.machine else {
            return Ok(Self::pack(&[]).unwrap_or_else(|_| unreachable!()));
        };
        let mut compiler = Compiler {
            machine,
            code: code_ranges(module),
            stretches: Vec::new(),
            work: 0,
        };
        if compiler.code_size() > MOST_CODE {
            return Err(refused("more code than 1 GiB"));
        }
        for (number, table) in module.tables.iter().enumerate() {
            compiler.take_table(number, table).map_err(refused)?;
        }
        if let Some(code) = module.signal_return {
            compiler.take_signal_return(code);
        }
        Self::pack(&compiler.changes()).map_err(|_| refused("more rows than 16 million"))
    }
}

fn code_ranges(module: &ModuleData) -> Vec<CodeRange> {
    let executable = module.segments.iter().filter(|segment| segment.executable);
    let ranges = executable.map(|segment| CodeRange {
        offsets: segment.offset..segment.offset.saturating_add(segment.size),
        address: segment.address,
    });
    ranges.collect()
}

/// Code with one rule.
#[derive(Clone, Debug)]
struct Stretch {
    offsets: Range<u64>,
    /// Lower ones win where stretches overlap.
    table: usize,
    rule: CompactRule,
}

struct Compiler {
    machine: Machine,
    code: Vec<CodeRange>,
    stretches: Vec<Stretch>,
    work: usize,
}

impl Compiler {
    fn code_size(&self) -> u64 {
        let sizes = self.code.iter().map(|c| c.offsets.end - c.offsets.start);
        sizes.fold(0, u64::saturating_add)
    }

    fn take_table(&mut self, number: usize, table: &Table) -> Result<(), &'static str> {
        let machine = self.machine;
        match table.kind {
            Kind::EhFrame => {
                table.with_eh_frame(machine, |section| self.take_section(number, section, table))
            }
            Kind::DebugFrame => {
                table.with_debug_frame(machine, |section| self.take_section(number, section, table))
            }
        }
    }

    fn take_section<'a, S>(
        &mut self,
        number: usize,
        section: &S,
        table: &Table,
    ) -> Result<(), &'static str>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let mut entries = entries_of(section, table);
        entries.sort_by_key(|entry| entry.initial_address());
        let mut context = UnwindContext::new();
        for (n, entry) in entries.iter().enumerate() {
            let next = entries.get(n + 1).map_or(u64::MAX, |e| e.initial_address());
            self.work += entry.entry_len() + entry.cie().entry_len();
            if self.work > MOST_WORK {
                return Err("tables that take too long to run through");
            }
            self.take_entry(number, section, table, entry, next, &mut context);
            if self.stretches.len() > MOST_CHANGES {
                return Err("more rows than 8 million");
            }
        }
        Ok(())
    }

    fn take_entry<'a, S>(
        &mut self,
        number: usize,
        section: &S,
        table: &Table,
        entry: &FrameDescriptionEntry<Slice<'a>>,
        next: u64,
        context: &mut UnwindContext<usize>,
    ) where
        S: UnwindSection<Slice<'a>>,
    {
        let machine = self.machine;
        let returns = usize::from(entry.cie().return_address_register().0);
        let signal = entry.is_signal_trampoline();
        let length = entry.entry_len().max(entry.cie().entry_len());
        if length > MAX_ENTRY || entry.cie().encoding().address_size != 8 {
            return;
        }
        let Ok(mut rows) = entry.rows(section, &table.bases, context) else {
            return;
        };
        // A damaged entry holds as far as it can be read.
        while let Ok(Some(row)) = rows.next_row() {
            let from = row.start_address();
            let to = row.end_address().min(entry.end_address()).min(next);
            let parse = |code: &UnwindExpression<usize>| {
                let code = code.get(section).ok()?;
                expression::parse(code.0.slice(), machine)
            };
            let translator = Translator {
                parse: &parse,
                machine,
                returns,
                signal,
                row,
            };
            let rule = translator.rule();
            self.add(number, from..to, rule);
            if self.stretches.len() > MOST_CHANGES {
                return;
            }
        }
    }

    /// The kernel's code that returns from a signal handler, where the tables do not say so.
    fn take_signal_return(&mut self, code: u64) {
        for stretch in &mut self.stretches {
            stretch.table += 1;
        }
        let rule = CompactRule::bare(CompactKind::SignalReturn);
        self.add(0, code.saturating_sub(1)..code.saturating_add(8), rule);
    }

    fn add(&mut self, table: usize, addresses: Range<u64>, rule: CompactRule) {
        for code in &self.code {
            let size = code.offsets.end - code.offsets.start;
            let within = |address: u64| address.saturating_sub(code.address).min(size);
            let offsets = code.offsets.start + within(addresses.start)
                ..code.offsets.start + within(addresses.end);
            if offsets.start < offsets.end {
                self.stretches.push(Stretch {
                    offsets,
                    table,
                    rule,
                });
            }
        }
    }

    /// Where the rule changes. Of stretches that overlap, those of the first table count, and of
    /// these the one that begins last.
    fn changes(mut self) -> Vec<(u64, CompactRule)> {
        self.stretches
            .sort_by_key(|stretch| (stretch.table, stretch.offsets.start));
        let mut all: Vec<Stretch> = Vec::new();
        let mut rest = &self.stretches[..];
        while let Some(first) = rest.first() {
            let table = first.table;
            let (own, others) = rest.split_at(rest.partition_point(|s| s.table == table));
            all = fill_gaps(all, own);
            rest = others;
        }
        let mut changes = Vec::with_capacity(all.len() + 1);
        let uncovered = CompactRule::bare(CompactKind::Uncovered);
        let mut end = None;
        for stretch in all {
            if let Some(end) = end.filter(|end| *end < stretch.offsets.start) {
                changes.push((end, uncovered));
            }
            changes.push((stretch.offsets.start, stretch.rule));
            end = Some(stretch.offsets.end);
        }
        changes.extend(end.map(|end| (end, uncovered)));
        changes
    }
}

/// Adds the parts of `more`, sorted, that `first`, sorted and disjoint, leaves uncovered.
fn fill_gaps(first: Vec<Stretch>, more: &[Stretch]) -> Vec<Stretch> {
    let mut added: Vec<Stretch> = Vec::with_capacity(more.len());
    let mut n = 0;
    for (index, stretch) in more.iter().enumerate() {
        let next = more.get(index + 1).map_or(u64::MAX, |s| s.offsets.start);
        let (mut start, end) = (stretch.offsets.start, stretch.offsets.end.min(next));
        while n < first.len() && first[n].offsets.end <= start {
            n += 1;
        }
        let mut at = n;
        while start < end {
            let Some(cover) = first.get(at).filter(|cover| cover.offsets.start < end) else {
                added.push(stretch.within(start..end));
                break;
            };
            added.push(stretch.within(start..cover.offsets.start.max(start)));
            start = cover.offsets.end.max(start);
            at += 1;
        }
    }
    added.retain(|stretch| stretch.offsets.start < stretch.offsets.end);
    let mut all = first;
    all.append(&mut added);
    all.sort_by_key(|stretch| stretch.offsets.start);
    all
}

impl Stretch {
    fn within(&self, offsets: Range<u64>) -> Self {
        Self {
            offsets,
            ..self.clone()
        }
    }
}

fn entries_of<'a, S>(section: &S, table: &Table) -> Vec<FrameDescriptionEntry<Slice<'a>>>
where
    S: UnwindSection<Slice<'a>>,
{
    let mut found = Vec::new();
    let mut entries = section.entries(&table.bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(S::cie_from_offset)
            && entry.len() > 0
        {
            found.push(entry);
        }
    }
    found
}

/// Makes a compact rule of a row.
struct Translator<'a> {
    parse: &'a dyn Fn(&UnwindExpression<usize>) -> Option<Operand>,
    machine: Machine,
    /// The column of the return address.
    returns: usize,
    signal: bool,
    row: &'a UnwindTableRow<usize>,
}

impl Translator<'_> {
    fn rule(&self) -> CompactRule {
        let unsupported = CompactRule::bare(CompactKind::Unsupported);
        if self.signal {
            return CompactRule::bare(CompactKind::SignalReturn);
        }
        match self.returning_rule() {
            Ok(rule) => rule,
            Err(Untranslated::Root) => CompactRule::bare(CompactKind::Root),
            Err(Untranslated::TooHard) => unsupported,
        }
    }

    fn returning_rule(&self) -> Result<CompactRule, Untranslated> {
        let (link, return_offset) = self.link()?;
        let mut rule = self.cfa()?;
        (rule.link, rule.return_offset) = (link, return_offset);
        if let Some(RegisterRule::ValOffset(0)) | None = self.register(self.machine.sp()) {
        } else {
            return Err(Untranslated::TooHard);
        }
        (rule.frame, rule.frame_offset) = self.frame();
        rule.base_slot = self.base_slot();
        Ok(rule)
    }

    fn register(&self, column: usize) -> Option<RegisterRule<usize>> {
        self.row.register(Register(column as u16))
    }

    fn link(&self) -> Result<(CompactReturn, i16), Untranslated> {
        match self.register(self.returns) {
            Some(RegisterRule::Offset(offset)) => {
                let offset = i16::try_from(offset).map_err(|_| Untranslated::TooHard)?;
                Ok((CompactReturn::AtCfa, offset))
            }
            None | Some(RegisterRule::SameValue) if self.machine.lr() == Some(self.returns) => {
                Ok((CompactReturn::InLink, 0))
            }
            None | Some(RegisterRule::Undefined) => Err(Untranslated::Root),
            _ => Err(Untranslated::TooHard),
        }
    }

    fn cfa(&self) -> Result<CompactRule, Untranslated> {
        let (kind, extra, offset) = match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.register_kind(usize::from(register.0), *offset)?
            }
            CfaRule::Expression(expression) => match self.parse(expression)? {
                Operand::Register { register, offset } => self.register_kind(register, offset)?,
                Operand::Memory {
                    register,
                    offset,
                    added,
                } => (self.memory_kind(register)?, added, offset),
                Operand::Stub { offset, threshold } => {
                    (CompactKind::LinkageStub, threshold, offset)
                }
            },
        };
        Ok(CompactRule {
            extra,
            cfa_offset: small(offset)?,
            ..CompactRule::bare(kind)
        })
    }

    fn register_kind(
        &self,
        register: usize,
        offset: i64,
    ) -> Result<(CompactKind, u8, i64), Untranslated> {
        let kind = match register {
            _ if register == self.machine.sp() => CompactKind::StackPointer,
            _ if register == self.machine.fp() => CompactKind::FramePointer,
            _ if Some(register) == self.machine.base() => CompactKind::BaseRegister,
            _ if register < self.machine.pc() => {
                return Ok((CompactKind::Register, register as u8, offset));
            }
            _ => return Err(Untranslated::TooHard),
        };
        Ok((kind, 0, offset))
    }

    fn memory_kind(&self, register: usize) -> Result<CompactKind, Untranslated> {
        match register {
            _ if register == self.machine.sp() => Ok(CompactKind::StackMemory),
            _ if register == self.machine.fp() => Ok(CompactKind::FrameMemory),
            _ => Err(Untranslated::TooHard),
        }
    }

    fn frame(&self) -> (CompactFrame, i32) {
        let lost = (CompactFrame::Lost, 0);
        match self.register(self.machine.fp()) {
            None | Some(RegisterRule::SameValue) => (CompactFrame::Same, 0),
            Some(RegisterRule::Offset(offset)) => {
                small(offset).map_or(lost, |offset| (CompactFrame::AtCfa, offset))
            }
            Some(RegisterRule::Expression(expression)) => match self.parse(&expression) {
                Ok(Operand::Register { register, offset }) if register == self.machine.fp() => {
                    small(offset).map_or(lost, |offset| (CompactFrame::AtFrame, offset))
                }
                _ => lost,
            },
            _ => lost,
        }
    }

    fn base_slot(&self) -> u16 {
        let rule = self.machine.base().map(|base| self.register(base));
        match rule.flatten() {
            None | Some(RegisterRule::SameValue) => 0,
            Some(RegisterRule::Offset(offset)) if offset < 0 && offset % 8 == 0 => {
                u16::try_from(-(offset / 8)).unwrap_or(BASE_LOST)
            }
            Some(_) => BASE_LOST,
        }
    }

    fn parse(&self, expression: &UnwindExpression<usize>) -> Result<Operand, Untranslated> {
        (self.parse)(expression).ok_or(Untranslated::TooHard)
    }
}

/// Why a row has no ordinary rule.
enum Untranslated {
    Root,
    TooHard,
}

fn small(offset: i64) -> Result<i32, Untranslated> {
    i32::try_from(offset).map_err(|_| Untranslated::TooHard)
}
