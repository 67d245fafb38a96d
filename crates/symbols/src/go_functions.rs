//! Functions of a Go program by its own table, `pclntab`, which it needs at run time, so that stripping leaves it: names, lines and inlined
//! calls. The form is that of Go 1.20 and later.

use crate::contents::{self, Relocations};
use crate::elf::Elf;
use crate::symtab::{Binding, SymbolCandidate, SymbolExtent};
use crate::tables::{RawSymbols, SectionCompression};
use profile::{ImageAddress, SourceFrame};
use std::ops::Range;
use std::sync::Arc;

/// The sections that have the table: of programs, and of those that are loaded at any address.
pub(crate) const TABLE_SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// The first word of the table.
const MAGIC: u32 = 0xffff_fff1;
/// The largest table that is read. Kubernetes has 20 MiB.
const MAX_TABLE: u64 = 512 << 20;
/// The most writable data that are searched for the description of the program.
const MAX_DATA: u64 = 256 << 20;
const SEARCH_STEP: u64 = 1 << 16;
/// The most steps through the rows of one function.
const MOST_ROWS: usize = 1 << 20;
/// The deepest nesting of inlined calls.
const MOST_INLINED: usize = 256;
/// Words of `runtime.moduledata`: how many are before the address of the first code, and before that of the functions' data.
const MODULE_TEXT: usize = 22;
const MODULE_FUNCTION_DATA: usize = 40;
/// The row of a function for inlined calls, and its data with the tree of them.
const INLINED_ROW: u32 = 2;
const INLINED_TREE: usize = 3;
/// Bytes of a function's description before its rows.
const FUNCTION_HEAD: usize = 44;
/// Bytes of an inlined call in the tree.
const INLINED_CALL: u64 = 16;

/// The function table of a Go program.
pub(crate) struct GoFunctions {
    table: Vec<u8>,
    names: usize,
    units: usize,
    files: usize,
    rows: usize,
    functions: usize,
    count: usize,
    /// Bytes of the shortest instruction.
    quantum: u64,
    /// The address that those of functions count from.
    text: u64,
    /// The address of the functions' data; `None`: inlined calls are not known.
    function_data: Option<u64>,
}

impl std::fmt::Debug for GoFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} functions of Go", self.count)
    }
}

impl GoFunctions {
    /// Reads the table of an image; `None` if it has none of this form, or a damaged one.
    pub fn read(elf: &Elf, relocations: &Relocations) -> Option<Self> {
        let section = TABLE_SECTIONS
            .iter()
            .find_map(|name| elf.section_named(name))
            .filter(|section| section.compression == SectionCompression::None)
            .filter(|section| elf.little_endian && section.size <= MAX_TABLE)?;
        let table = elf.input.read_range(section.offset, section.size).ok()?;
        let [1 | 2 | 4, 8] = table.get(6..8)? else {
            return None;
        };
        let word = |index: usize| -> Option<usize> {
            let bytes = table.get(8 + 8 * index..)?.first_chunk::<8>()?;
            usize::try_from(u64::from_le_bytes(*bytes)).ok()
        };
        let mut found = Self {
            names: word(3)?,
            units: word(4)?,
            files: word(5)?,
            rows: word(6)?,
            functions: word(7)?,
            count: word(0)?,
            quantum: u64::from(table[6]),
            text: word(2)? as u64,
            function_data: None,
            table,
        };
        if found.half(0)? != MAGIC {
            return None;
        }
        // The first function has to lie in the table before anything is made of their number.
        let end = found.count.checked_mul(8)?.checked_add(found.functions)?;
        found.table.get(found.functions..end)?;
        let module = find_module(elf, relocations, section.address, found.names);
        if let Some(module) = module {
            found.text = module.text;
            found.function_data = Some(module.function_data);
        } else if found.text == 0 {
            // Go 1.26 and later say it in the program's description only.
            return None;
        }
        Some(found)
    }

    /// Adds the functions to the symbols of an image.
    pub fn add_symbols(&self, symbols: &mut RawSymbols) {
        let base = symbols.names.len() as u64;
        let names = self.table.get(self.names..self.units.max(self.names));
        symbols.names.extend(names.unwrap_or_default());
        symbols.names.push(0);
        for index in 0..self.count {
            let Some((range, function)) = self.function(index) else {
                continue;
            };
            let Some(name) = self.half(function + 4) else {
                continue;
            };
            symbols.candidates.push(SymbolCandidate {
                start: range.start,
                size: range.end - range.start,
                limit: range.end,
                name: base + u64::from(name),
                extent: SymbolExtent::Known,
                binding: Binding::Global,
            });
        }
    }

    /// The functions at an address with their lines, innermost inlined call first; none where no function is.
    pub fn source_frames(
        &self,
        address: ImageAddress,
        read: impl Fn(ImageAddress, &mut [u8]) -> bool,
    ) -> Vec<SourceFrame> {
        self.find_frames(address.0, read).unwrap_or_default()
    }

    fn find_frames(
        &self,
        address: u64,
        read: impl Fn(ImageAddress, &mut [u8]) -> bool,
    ) -> Option<Vec<SourceFrame>> {
        let offset = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let index = self.index_of(offset)?;
        let (range, function) = self.function(index)?;
        if !range.contains(&address) {
            return None;
        }
        let mut at = address - range.start;
        let mut frames = Vec::new();
        let tree = self.inlined_tree(function);
        for _ in 0..MOST_INLINED {
            let row = self.rows_of_kind(function, INLINED_ROW);
            let inlined = tree.zip(row).and_then(|(tree, row)| {
                let index = u64::try_from(self.row_value(row, at)?).ok()?;
                let place = tree.checked_add(index.checked_mul(INLINED_CALL)?)?;
                let mut call = [0; INLINED_CALL as usize];
                read(ImageAddress(place), &mut call).then_some(call)
            });
            let name = match inlined {
                Some(call) => u32::from_le_bytes([call[4], call[5], call[6], call[7]]),
                None => self.half(function + 4)?,
            };
            frames.push(SourceFrame {
                function: self.name(name)?,
                file: self.file_at(function, at),
                line: self.line_at(function, at),
            });
            let Some(call) = inlined else { break };
            // The place in the caller from which it was inlined.
            at = u64::from(u32::from_le_bytes([call[8], call[9], call[10], call[11]]));
        }
        Some(frames)
    }

    fn half(&self, at: usize) -> Option<u32> {
        let bytes = self.table.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The last function that begins at or before an offset in the code.
    fn index_of(&self, offset: u32) -> Option<usize> {
        let (mut first, mut behind) = (0, self.count);
        while first < behind {
            let middle = first + (behind - first) / 2;
            match self.half(self.functions + 8 * middle)? <= offset {
                true => first = middle + 1,
                false => behind = middle,
            }
        }
        first.checked_sub(1)
    }

    /// The addresses of a function, and where the table describes it.
    fn function(&self, index: usize) -> Option<(Range<u64>, usize)> {
        let entry = self.functions.checked_add(8 * index)?;
        let (start, end) = (self.half(entry)?, self.half(entry + 8)?);
        let at = self.functions.checked_add(self.half(entry + 4)? as usize)?;
        let address = |offset: u32| self.text.checked_add(offset.into());
        (start < end).then_some((address(start)?..address(end)?, at))
    }

    fn name(&self, offset: u32) -> Option<Arc<str>> {
        self.text_at(self.names.checked_add(offset as usize)?)
    }

    fn text_at(&self, at: usize) -> Option<Arc<str>> {
        let rest = self.table.get(at..)?;
        let text = rest.get(..memchr::memchr(0, rest)?)?;
        Some(String::from_utf8_lossy(text).into())
    }

    fn line_at(&self, function: usize, at: u64) -> Option<u32> {
        let rows = self.half(function + 24)?;
        u32::try_from(self.row_value(rows, at)?).ok()
    }

    fn file_at(&self, function: usize, at: u64) -> Option<Arc<str>> {
        let number = u32::try_from(self.row_value(self.half(function + 20)?, at)?).ok()?;
        let unit = self.half(function + 32)?.checked_add(number)?;
        let entry = self.half(self.units.checked_add(4 * unit as usize)?)?;
        if entry == u32::MAX {
            return None;
        }
        self.text_at(self.files.checked_add(entry as usize)?)
    }

    /// Where the rows of a kind begin; `None` if the function has none.
    fn rows_of_kind(&self, function: usize, kind: u32) -> Option<u32> {
        let count = self.half(function + 28)?;
        let rows = self.half(function + FUNCTION_HEAD + 4 * kind as usize)?;
        (kind < count && rows > 0).then_some(rows)
    }

    fn inlined_tree(&self, function: usize) -> Option<u64> {
        let data = self.function_data?;
        let rows = self.half(function + 28)? as usize;
        let trees = *self.table.get(function + FUNCTION_HEAD - 1)?;
        if usize::from(trees) <= INLINED_TREE {
            return None;
        }
        let place = rows.checked_add(INLINED_TREE)?.checked_mul(4)?;
        let offset = self.half(place.checked_add(function + FUNCTION_HEAD)?)?;
        (offset != u32::MAX).then(|| data.checked_add(offset.into()))?
    }

    /// The value of some rows so far behind the start of a function: pairs of differences of the value and the place.
    fn row_value(&self, rows: u32, at: u64) -> Option<i32> {
        let mut bytes = self.table.get(self.rows.checked_add(rows as usize)?..)?;
        let (mut value, mut place) = (-1_i32, 0_u64);
        for row in 0..MOST_ROWS {
            let change = take_number(&mut bytes)?;
            if change == 0 && row > 0 {
                return None;
            }
            let signed = (change >> 1) as i32 ^ -((change & 1) as i32);
            value = value.wrapping_add(signed);
            place += u64::from(take_number(&mut bytes)?) * self.quantum;
            if at < place {
                return Some(value);
            }
        }
        None
    }
}

/// Takes a number of 7 bits a byte off.
fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..35).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The parts of `runtime.moduledata` that are needed.
struct GoModule {
    text: u64,
    function_data: u64,
}

/// Finds the description of the program in its data: it begins with the address of the table, then that of the names in it.
fn find_module(elf: &Elf, relocations: &Relocations, table: u64, names: usize) -> Option<GoModule> {
    let first_words = [table, table.checked_add(names as u64)?];
    let mut left = MAX_DATA;
    for segment in elf.segments.iter().filter(|segment| !segment.executable) {
        let mut address = segment.address.next_multiple_of(8);
        let end = segment.address.saturating_add(segment.file_size);
        while address < end && left > 0 {
            let size = SEARCH_STEP.min(end - address);
            left = left.saturating_sub(size);
            let mut bytes = vec![0; size as usize];
            if !contents::read_loaded(elf, relocations, ImageAddress(address), &mut bytes) {
                break;
            }
            let matches = bytes
                .chunks_exact(8)
                .enumerate()
                .filter(|(_, word)| word.iter().copied().eq(table.to_le_bytes()));
            for (index, _) in matches {
                let mut module = [0; 8 * (MODULE_FUNCTION_DATA + 1)];
                let at = ImageAddress(address + 8 * index as u64);
                if !contents::read_loaded(elf, relocations, at, &mut module) {
                    continue;
                }
                let word = |index: usize| {
                    let bytes = module.get(8 * index..)?.first_chunk::<8>()?;
                    Some(u64::from_le_bytes(*bytes))
                };
                if word(1)? == first_words[1] {
                    return Some(GoModule {
                        text: word(MODULE_TEXT)?,
                        function_data: word(MODULE_FUNCTION_DATA)?,
                    });
                }
            }
            address += size;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A table of two functions of 16 bytes, `main.a` and `main.b`; in the second one, the lines 7 and, from the eighth byte on, 9 of `a.go`.
    fn table() -> GoFunctions {
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        table.resize(72, 0);
        let names = table.len();
        table.extend(b"main.a\0main.b\0");
        let units = table.len();
        table.extend(0_u32.to_le_bytes());
        let files = table.len();
        table.extend(b"a.go\0");
        let rows = table.len();
        // From -1 to 0, for 16 bytes; to 7, for 8; to 9, for 8.
        table.extend([0, 2, 16, 0, 16, 8, 4, 8, 0]);
        let functions = table.len();
        for word in [0_u32, 20, 16, 20 + 48, 32] {
            table.extend(word.to_le_bytes());
        }
        for (start, name) in [(0_u32, 0_u32), (16, 7)] {
            for word in [start, name, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0] {
                table.extend(word.to_le_bytes());
            }
        }
        GoFunctions {
            table,
            names,
            units,
            files,
            rows,
            functions,
            count: 2,
            quantum: 1,
            text: 0x1000,
            function_data: None,
        }
    }

    #[test]
    fn functions_have_names_files_and_lines() {
        let table = table();
        let at = |address| {
            let frames = table.source_frames(ImageAddress(address), |_, _| false);
            let frame = frames.into_iter().next()?;
            Some(format!(
                "{} {}:{}",
                frame.function, frame.file?, frame.line?
            ))
        };
        assert_eq!(at(0x0fff), None);
        assert_eq!(at(0x1010).as_deref(), Some("main.b a.go:7"));
        assert_eq!(at(0x101f).as_deref(), Some("main.b a.go:9"));
        assert_eq!(at(0x1020), None);
        let mut symbols = RawSymbols::default();
        table.add_symbols(&mut symbols);
        assert_eq!(symbols.candidates.len(), 2);
    }

    proptest! {
        #[test]
        fn damaged_tables_are_survived(
            changes in prop::collection::vec((0_usize..220, any::<u8>()), 0..8),
            length in 0_usize..220,
            address in 0x0ff0_u64..0x1030,
        ) {
            let mut table = table();
            for (at, byte) in changes {
                if let Some(there) = table.table.get_mut(at) {
                    *there = byte;
                }
            }
            table.table.truncate(length);
            table.function_data = Some(0);
            table.source_frames(ImageAddress(address), |_, call| { call.fill(0); true });
            table.add_symbols(&mut RawSymbols::default());
        }
    }
}
