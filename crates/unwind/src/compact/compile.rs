//! Compiler from the tables of an image to compact rules.

use super::expression::{self, Operand};
use super::rule::{BASE_LOST, CompactFrame, CompactKind, CompactReturn, CompactRule};
use super::table::CompactTable;
use crate::caller_rule::CallerRule;
use crate::code_frames::{CodeFrames, CodeRule};
use crate::module::{MAX_ENTRY, Slice, TableKind, UnwindTable, sorted_entries};
use crate::{Error, ModuleData, UnwindMachine};
use gimli::{
    CfaRule, FrameDescriptionEntry, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow,
};
use languages::go::{FunctionTable, GoFrameKind};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Limit on the bytes of table entries that are executed. Each entry executes its common
/// instructions again, so that damaged tables could take hours; real ones take twice their size.
const MOST_WORK: usize = 512 << 20;
/// Number of entries between two checks whether to go on.
const ENTRIES_AT_ONCE: usize = 256;
/// Maximum number of rule changes in one image.
const MOST_CHANGES: usize = 8 << 20;
/// Maximum size of the code in one image, in bytes.
const MOST_CODE: u64 = 1 << 30;

/// A stretch of code in the file, and the difference between image addresses and file offsets.
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
        Self::compile_while(name, module, &|| true).map(Option::unwrap_or_default)
    }

    /// Compiles the unwind tables of an image while `go_on` returns true, with some thousand calls
    /// for a large image. Returns `None` if it returned false.
    ///
    /// # Errors
    /// As those of [`compile`](Self::compile).
    pub fn compile_while(
        name: &str,
        module: &ModuleData,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, Error> {
        let refused = |reason| Error::TooComplex {
            name: name.to_owned(),
            reason,
        };
        let Some(machine) = module.machine else {
            return Ok(Some(Self::default()));
        };
        let mut compiler = Compiler {
            go_on,
            machine,
            code: code_ranges(module),
            rules: Vec::new(),
            numbers: FxHashMap::default(),
            done: Vec::new(),
            stretches: Vec::new(),
            work: 0,
        };
        if compiler.code_size() > MOST_CODE {
            return Err(refused("more code than 1 GiB"));
        }
        // If tables overlap, the first one counts.
        if let Some(code) = module.signal_return {
            compiler.take_signal_return(code);
        }
        for table in &module.tables {
            compiler.take_table(table).map_err(refused)?;
        }
        if !go_on() {
            return Ok(None);
        }
        if let Some(functions) = &module.go_functions
            && machine == UnwindMachine::X86_64
        {
            compiler.take_go_functions(functions).map_err(refused)?;
        }
        if !compiler.take_code_frames(&module.code_frames) {
            return Err(refused("more rows than 8 million"));
        }
        let table = Self::pack_changes(&compiler.rule_changes());
        let table = table.map_err(|_| refused("more rows than 16 million"))?;
        // Checked last: after a refusal, entries are missing.
        Ok(go_on().then_some(table))
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
#[derive(Clone, Copy, Debug)]
struct RuleStretch {
    start: u64,
    /// Length in bytes; an image has less than 4 GiB of code.
    length: u32,
    rule: u32,
}

impl RuleStretch {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    /// Returns the part in a range; `None` if there is none.
    fn clip_to_range(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (self.start.max(start), self.end().min(end));
        (start < end).then(|| Self {
            start,
            length: (end - start) as u32,
            ..*self
        })
    }
}

struct Compiler<'a> {
    /// Callback that returns whether to go on. After it has returned false, the result is
    /// discarded.
    go_on: &'a dyn Fn() -> bool,
    machine: UnwindMachine,
    code: Vec<CodeRange>,
    rules: Vec<CompactRule>,
    numbers: FxHashMap<CompactRule, u32>,
    /// Stretches of the tables so far: sorted, disjoint.
    done: Vec<RuleStretch>,
    /// The rule stretches of the current table.
    stretches: Vec<RuleStretch>,
    work: usize,
}

impl Compiler<'_> {
    fn code_size(&self) -> u64 {
        let sizes = self.code.iter().map(|c| c.offsets.end - c.offsets.start);
        sizes.fold(0, u64::saturating_add)
    }

    fn take_table(&mut self, table: &UnwindTable) -> Result<(), &'static str> {
        let machine = self.machine;
        match table.kind {
            TableKind::EhFrame => {
                table.with_eh_frame(machine, |section| self.take_section(section, table))?;
            }
            TableKind::DebugFrame => {
                table.with_debug_frame(machine, |section| self.take_section(section, table))?;
            }
        }
        self.finish_table();
        Ok(())
    }

    /// Adds the stretches of a table outside of those before.
    fn finish_table(&mut self) {
        self.stretches.sort_by_key(|stretch| stretch.start);
        let more = std::mem::take(&mut self.stretches);
        self.done = fill_gaps(std::mem::take(&mut self.done), &more);
    }

    fn take_section<'a, S>(&mut self, section: &S, table: &UnwindTable) -> Result<(), &'static str>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let entries = sorted_entries(section, &table.bases);
        let mut context = UnwindContext::new();
        for (n, (_, offset)) in entries.iter().enumerate() {
            if n % ENTRIES_AT_ONCE == 0 && !(self.go_on)() {
                return Ok(());
            }
            let next = entries.get(n + 1).map_or(u64::MAX, |(start, _)| *start);
            let offset = S::Offset::from(*offset as usize);
            let entry = section.fde_from_offset(&table.bases, offset, S::cie_from_offset);
            let Ok(entry) = entry else { continue };
            self.work += entry.entry_len() + entry.cie().entry_len();
            if self.work > MOST_WORK {
                return Err("tables that take too long to run through");
            }
            self.take_entry(section, table, &entry, next, &mut context);
            if self.stretches.len() > MOST_CHANGES {
                return Err("more rows than 8 million");
            }
        }
        Ok(())
    }

    fn take_entry<'a, S>(
        &mut self,
        section: &S,
        table: &UnwindTable,
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
        // A damaged entry is used as far as it can be read.
        while let Ok(Some(row)) = rows.next_row() {
            let from = row.start_address();
            let to = row.end_address().min(entry.end_address()).min(next);
            let parse = |code: &UnwindExpression<usize>| {
                let code = code.get(section).ok()?;
                expression::parse_expression(code.0.slice(), machine)
            };
            let translator = Translator {
                parse: &parse,
                machine,
                returns,
                signal,
                row,
            };
            let rule = translator.translate_rule();
            self.add_rule(from..to, rule);
            if self.stretches.len() > MOST_CHANGES {
                return;
            }
        }
    }

    /// Adds the kernel's signal return code, if the tables do not mark it.
    fn take_signal_return(&mut self, code: u64) {
        let rule = CompactRule::bare(CompactKind::SignalReturn);
        self.add_rule(code.saturating_sub(1)..code.saturating_add(8), rule);
        self.finish_table();
    }

    /// Adds the frame sizes of a Go program. Its frames have the caller's frame pointer on top.
    fn take_go_functions(&mut self, functions: &FunctionTable) -> Result<(), &'static str> {
        for function in functions.functions() {
            match functions.frame_kind(&function) {
                GoFrameKind::First => {
                    let root = CompactRule::bare(CompactKind::Root);
                    self.add_rule(function.addresses, root);
                }
                GoFrameKind::Ordinary => {
                    for (addresses, size) in functions.frame_sizes(&function) {
                        self.add_rule(addresses, go_rule(size));
                    }
                }
                GoFrameKind::SwitchesStacks => {
                    let switch = CompactRule::bare(CompactKind::StackSwitch);
                    self.add_rule(function.addresses, switch);
                }
            }
            if self.stretches.len() > MOST_CHANGES {
                return Err("more rows than 8 million");
            }
        }
        self.finish_table();
        Ok(())
    }

    /// Adds the frames of code without tables; returns false if there are too many.
    fn take_code_frames(&mut self, frames: &CodeFrames) -> bool {
        for (addresses, rule) in frames.rules() {
            match rule {
                CodeRule::Caller(rule) => self.add_rule(addresses, offset_rule(rule)),
                CodeRule::Root => self.add_rule(addresses, CompactRule::bare(CompactKind::Root)),
                CodeRule::SignalReturn => {
                    let rule = CompactRule::bare(CompactKind::SignalReturn);
                    self.add_rule(addresses, rule);
                }
                CodeRule::Unknown => {}
            }
        }
        self.finish_table();
        self.done.len() <= MOST_CHANGES
    }

    fn add_rule(&mut self, addresses: Range<u64>, rule: CompactRule) {
        let next = self.rules.len() as u32;
        let rule = *self.numbers.entry(rule).or_insert_with(|| {
            self.rules.push(rule);
            next
        });
        for code in &self.code {
            let size = code.offsets.end - code.offsets.start;
            let within = |address: u64| address.saturating_sub(code.address).min(size);
            let (start, end) = (within(addresses.start), within(addresses.end));
            if start < end {
                self.stretches.push(RuleStretch {
                    start: code.offsets.start + start,
                    length: (end - start) as u32,
                    rule,
                });
            }
        }
    }

    /// Returns the addresses at which the rule changes, each with the rule from there on.
    fn rule_changes(self) -> Vec<(u64, CompactRule)> {
        let mut changes = Vec::with_capacity(self.done.len() + 1);
        let uncovered = CompactRule::bare(CompactKind::Uncovered);
        let mut end = None;
        let mut last = uncovered;
        for stretch in &self.done {
            if let Some(end) = end.filter(|end| *end < stretch.start) {
                changes.push((end, uncovered));
                last = uncovered;
            }
            let rule = self.rules[stretch.rule as usize];
            if rule != last || changes.is_empty() {
                changes.push((stretch.start, rule));
                last = rule;
            }
            end = Some(stretch.end());
        }
        changes.extend(end.map(|end| (end, uncovered)));
        changes
    }
}

/// Returns the rule of a function without tables that saves no register but the frame pointer at a
/// known place.
fn offset_rule(rule: CallerRule) -> CompactRule {
    let small = |offset: i64| i32::try_from(offset).ok();
    let kind = if rule.from_frame_pointer {
        CompactKind::FramePointer
    } else {
        CompactKind::StackPointer
    };
    let (Some(cfa_offset), Some(frame_offset)) =
        (small(rule.cfa), small(rule.frame_pointer.unwrap_or(0)))
    else {
        return CompactRule::bare(CompactKind::Unsupported);
    };
    CompactRule {
        cfa_offset,
        return_offset: -8,
        frame: match rule.frame_pointer {
            None => CompactFrame::Same,
            Some(_) => CompactFrame::AtCfa,
        },
        frame_offset,
        base_slot: BASE_LOST,
        ..CompactRule::bare(kind)
    }
}

/// Returns the rule of a frame of `size` bytes without the return address.
fn go_rule(size: i32) -> CompactRule {
    if size < 0 {
        return CompactRule::bare(CompactKind::Unsupported);
    }
    CompactRule {
        cfa_offset: size.saturating_add(8),
        return_offset: -8,
        frame: match size {
            0 => CompactFrame::Same,
            _ => CompactFrame::AtCfa,
        },
        frame_offset: -16,
        base_slot: BASE_LOST,
        ..CompactRule::bare(CompactKind::StackPointer)
    }
}

/// Adds the parts of `more`, sorted, that `first`, sorted and disjoint, leaves uncovered. If
/// stretches of `more` overlap, the one that begins last counts.
fn fill_gaps(first: Vec<RuleStretch>, more: &[RuleStretch]) -> Vec<RuleStretch> {
    let mut all: Vec<RuleStretch> = Vec::with_capacity(first.len() + more.len());
    let mut covers = first.into_iter().peekable();
    for (index, stretch) in more.iter().enumerate() {
        let next = more.get(index + 1).map_or(u64::MAX, |s| s.start);
        let (mut start, end) = (stretch.start, stretch.end().min(next));
        while let Some(cover) = covers.peek().filter(|cover| cover.start < end) {
            all.extend(stretch.clip_to_range(start, end.min(cover.start)));
            start = start.max(cover.end());
            if cover.end() > end {
                break;
            }
            all.extend(covers.next());
        }
        all.extend(stretch.clip_to_range(start, end));
    }
    all.extend(covers);
    all
}

/// Translator from a row to a compact rule.
struct Translator<'a> {
    parse: &'a dyn Fn(&UnwindExpression<usize>) -> Option<Operand>,
    machine: UnwindMachine,
    /// The column of the return address.
    returns: usize,
    signal: bool,
    row: &'a UnwindTableRow<usize>,
}

impl Translator<'_> {
    fn translate_rule(&self) -> CompactRule {
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
        let (link, return_offset) = self.translate_return()?;
        let mut rule = self.translate_cfa()?;
        (rule.link, rule.return_offset) = (link, return_offset);
        if let Some(RegisterRule::ValOffset(0)) | None =
            self.register_rule(self.machine.sp_column())
        {
        } else {
            return Err(Untranslated::TooHard);
        }
        (rule.frame, rule.frame_offset) = self.translate_frame();
        rule.base_slot = self.base_slot();
        Ok(rule)
    }

    fn register_rule(&self, column: usize) -> Option<RegisterRule<usize>> {
        self.row.register(Register(column as u16))
    }

    fn translate_return(&self) -> Result<(CompactReturn, i16), Untranslated> {
        match self.register_rule(self.returns) {
            Some(RegisterRule::Offset(offset)) => {
                let offset = i16::try_from(offset).map_err(|_| Untranslated::TooHard)?;
                Ok((CompactReturn::AtCfa, offset))
            }
            None | Some(RegisterRule::SameValue)
                if self.machine.lr_column() == Some(self.returns) =>
            {
                Ok((CompactReturn::InLink, 0))
            }
            Some(RegisterRule::Register(register))
                if usize::from(register.0) < self.machine.pc_column() =>
            {
                Ok((CompactReturn::InRegister, register.0 as i16))
            }
            None | Some(RegisterRule::Undefined) => Err(Untranslated::Root),
            _ => Err(Untranslated::TooHard),
        }
    }

    fn translate_cfa(&self) -> Result<CompactRule, Untranslated> {
        let (kind, extra, offset) = match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.register_kind(usize::from(register.0), *offset)?
            }
            CfaRule::Expression(expression) => match self.parse_operand(expression)? {
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
            cfa_offset: to_small_offset(offset)?,
            ..CompactRule::bare(kind)
        })
    }

    fn register_kind(
        &self,
        register: usize,
        offset: i64,
    ) -> Result<(CompactKind, u8, i64), Untranslated> {
        let kind = match register {
            _ if register == self.machine.sp_column() => CompactKind::StackPointer,
            _ if register == self.machine.fp_column() => CompactKind::FramePointer,
            _ if Some(register) == self.machine.base_column() => CompactKind::BaseRegister,
            _ if register < self.machine.pc_column() => {
                return Ok((CompactKind::Register, register as u8, offset));
            }
            _ => return Err(Untranslated::TooHard),
        };
        Ok((kind, 0, offset))
    }

    fn memory_kind(&self, register: usize) -> Result<CompactKind, Untranslated> {
        match register {
            _ if register == self.machine.sp_column() => Ok(CompactKind::StackMemory),
            _ if register == self.machine.fp_column() => Ok(CompactKind::FrameMemory),
            _ => Err(Untranslated::TooHard),
        }
    }

    fn translate_frame(&self) -> (CompactFrame, i32) {
        let lost = (CompactFrame::Lost, 0);
        match self.register_rule(self.machine.fp_column()) {
            None | Some(RegisterRule::SameValue) => (CompactFrame::Same, 0),
            Some(RegisterRule::Offset(offset)) => {
                to_small_offset(offset).map_or(lost, |offset| (CompactFrame::AtCfa, offset))
            }
            Some(RegisterRule::Expression(expression)) => match self.parse_operand(&expression) {
                Ok(Operand::Register { register, offset })
                    if register == self.machine.fp_column() =>
                {
                    to_small_offset(offset).map_or(lost, |offset| (CompactFrame::AtFrame, offset))
                }
                _ => lost,
            },
            _ => lost,
        }
    }

    fn base_slot(&self) -> u16 {
        let rule = self
            .machine
            .base_column()
            .map(|base| self.register_rule(base));
        match rule.flatten() {
            None | Some(RegisterRule::SameValue) => 0,
            Some(RegisterRule::Offset(offset)) if offset < 0 && offset % 8 == 0 => {
                u16::try_from(-(offset / 8)).unwrap_or(BASE_LOST)
            }
            Some(_) => BASE_LOST,
        }
    }

    fn parse_operand(&self, expression: &UnwindExpression<usize>) -> Result<Operand, Untranslated> {
        (self.parse)(expression).ok_or(Untranslated::TooHard)
    }
}

/// Reason why a row has no ordinary rule.
enum Untranslated {
    Root,
    TooHard,
}

fn to_small_offset(offset: i64) -> Result<i32, Untranslated> {
    i32::try_from(offset).map_err(|_| Untranslated::TooHard)
}
