//! The function table of a Go program (`pclntab`): names, lines, inlined calls, and frame sizes.
//! The program needs it at run time, so that stripping keeps it. The form is that of Go 1.18 and
//! later.

use super::image::{GoImage, find_module};
use std::ops::Range;

/// The sections with the table: of programs, and of those that are loaded at any address.
pub const TABLE_SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Size of the largest table that is read, in bytes. Kubernetes has 20 MiB.
pub const MAX_TABLE: u64 = 512 << 20;
/// The first word of the table, by the form of its function data.
const FORMS: [(u32, FunctionForm); 2] = [
    (
        0xffff_fff1,
        FunctionForm {
            head: 44,
            call: 16,
            call_name: 4,
            call_place: 8,
            knows_data: true,
        },
    ),
    // Go 1.18 and 1.19. Their function data are not searched for.
    (
        0xffff_fff0,
        FunctionForm {
            head: 40,
            call: 20,
            call_name: 12,
            call_place: 16,
            knows_data: false,
        },
    ),
];
/// Maximum number of steps through the rows of one function.
const MOST_ROWS: usize = 1 << 20;
/// Maximum depth of inlined calls.
const MOST_INLINED: usize = 256;
/// The row of a function for inlined calls, and its data with their tree.
const INLINED_ROW: u32 = 2;
const INLINED_TREE: usize = 3;
/// Size of the longest description of an inlined call, in bytes.
const MOST_CALL: usize = 20;
/// Bytes between a function's flags and its rows.
const FLAGS_BEFORE_ROWS: usize = 3;
/// Flags of functions.
const TOP_FRAME: u8 = 1;
const WRITES_STACK_POINTER: u8 = 2;

/// The form of a table's data for each function.
#[derive(Clone, Copy, Debug)]
struct FunctionForm {
    /// Bytes of a function's description before its rows.
    head: usize,
    /// Bytes of an inlined call in the tree, and the positions of its name and of its place in the
    /// caller.
    call: usize,
    call_name: usize,
    call_place: usize,
    /// True if the functions' data can be located.
    knows_data: bool,
}

/// The function table of a Go program.
pub struct FunctionTable {
    table: Vec<u8>,
    form: FunctionForm,
    names: usize,
    units: usize,
    files: usize,
    rows: usize,
    functions: usize,
    count: usize,
    /// Bytes of the shortest instruction.
    quantum: u64,
    /// The address to which the addresses of functions are relative.
    text: u64,
    /// The address of the functions' data; `None` if inlined calls are unknown.
    function_data: Option<u64>,
}

impl std::fmt::Debug for FunctionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} functions of Go", self.count)
    }
}

/// A function in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFunction {
    /// Its addresses in the image.
    pub addresses: Range<u64>,
    /// Offset of its description in the table.
    at: usize,
}

/// A function at an address, or one inlined there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFrame {
    /// Its name, with the path of its package.
    pub function: String,
    /// The file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// Kind of a function's frame, by the rule to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoFrameKind {
    /// The return address lies above the frame.
    Ordinary,
    /// The function is the first one of its stack: it has no caller.
    First,
    /// The function sets the stack pointer, so that the table does not give its frame size.
    SwitchesStacks,
}

impl FunctionTable {
    /// Reads the table of an image; `None` if it has another form, or is damaged.
    pub fn of_image(image: &GoImage<'_>, table: Vec<u8>) -> Option<Self> {
        let [1 | 2 | 4, 8] = table.get(6..8)? else {
            return None;
        };
        let word = |index: usize| -> Option<usize> {
            let bytes = table.get(8 + 8 * index..)?.first_chunk::<8>()?;
            usize::try_from(u64::from_le_bytes(*bytes)).ok()
        };
        let magic = u32::from_le_bytes(*table.first_chunk::<4>()?);
        let (_, form) = FORMS.into_iter().find(|(known, _)| *known == magic)?;
        let mut found = Self {
            form,
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
        // All entries must exist before their number is used.
        let end = found.count.checked_mul(8)?.checked_add(found.functions)?;
        found.table.get(found.functions..end)?;
        match find_module(image, found.names as u64) {
            Some(module) => {
                found.text = module.text;
                found.function_data = form.knows_data.then_some(module.function_data);
            }
            // Go 1.26 and later give the address of the code only in the program's description.
            None if found.text == 0 => return None,
            None => {}
        }
        Some(found)
    }

    /// Returns its size in memory, in bytes.
    pub fn size(&self) -> usize {
        self.table.capacity()
    }

    /// Returns all functions, by address.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction> + '_ {
        (0..self.count).filter_map(|index| self.function(index))
    }

    /// Returns the names, each followed by a zero.
    pub fn names(&self) -> &[u8] {
        let names = self.table.get(self.names..self.units.max(self.names));
        names.unwrap_or_default()
    }

    /// Returns the offset of a function's name in [`Self::names`].
    pub fn name_offset(&self, function: &GoFunction) -> Option<u32> {
        self.half(function.at + 4)
    }

    /// Returns the kind of a function's frame.
    pub fn frame_kind(&self, function: &GoFunction) -> GoFrameKind {
        let flags = function.at + self.form.head - FLAGS_BEFORE_ROWS;
        match self.table.get(flags).copied().unwrap_or(0) {
            flags if flags & TOP_FRAME != 0 => GoFrameKind::First,
            flags if flags & WRITES_STACK_POINTER != 0 => GoFrameKind::SwitchesStacks,
            _ => GoFrameKind::Ordinary,
        }
    }

    /// Returns the function at an address; `None` if there is none.
    pub fn function_at(&self, address: u64) -> Option<GoFunction> {
        let offset = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let function = self.function(self.index_of(offset)?)?;
        function.addresses.contains(&address).then_some(function)
    }

    /// Returns the addresses of a function by its frame size there, in bytes without the return
    /// address. Damaged rows end the list.
    pub fn frame_sizes(&self, function: &GoFunction) -> Vec<(Range<u64>, i32)> {
        let mut sizes = Vec::new();
        let (start, end) = (function.addresses.start, function.addresses.end);
        if let Some(mut rows) = self.half(function.at + 16).and_then(|at| self.rows_at(at)) {
            while let Some((places, size)) = rows.next_row() {
                let place = |offset: u64| start.saturating_add(offset).min(end);
                sizes.push((place(places.start)..place(places.end), size));
                if start.saturating_add(places.end) >= end {
                    break;
                }
            }
        }
        sizes
    }

    /// Returns the functions at an address with their lines, innermost inlined call first; empty
    /// outside of functions. `read` fills a buffer with the data loaded at an address, and returns
    /// whether it could.
    pub fn frames_at(&self, address: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Vec<GoFrame> {
        self.find_frames(address, read).unwrap_or_default()
    }

    fn find_frames(
        &self,
        address: u64,
        read: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Option<Vec<GoFrame>> {
        let GoFunction { addresses, at } = self.function_at(address)?;
        let mut place = address - addresses.start;
        let mut frames = Vec::new();
        let FunctionForm {
            call: size,
            call_name,
            call_place,
            ..
        } = self.form;
        let part = |call: &[u8], at: usize| {
            let bytes = call.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let tree = self.inlined_tree(at);
        for _ in 0..MOST_INLINED {
            let rows = self.rows_of_kind(at, INLINED_ROW);
            let inlined = tree.zip(rows).and_then(|(tree, rows)| {
                let index = u64::try_from(self.row_value(rows, place)?).ok()?;
                let from = tree.checked_add(index.checked_mul(size as u64)?)?;
                let mut call = [0; MOST_CALL];
                read(from, &mut call[..size]).then_some(call)
            });
            let name = match inlined {
                Some(call) => part(&call, call_name)?,
                None => self.half(at + 4)?,
            };
            frames.push(GoFrame {
                function: self.text_at(self.names.checked_add(name as usize)?)?,
                file: self.file_at(at, place),
                line: self.line_at(at, place),
            });
            let Some(call) = inlined else { break };
            // The place in the caller of the inlined call.
            place = u64::from(part(&call, call_place)?);
        }
        Some(frames)
    }

    fn half(&self, at: usize) -> Option<u32> {
        let bytes = self.table.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Returns the last function that begins at or before an offset in the code.
    fn index_of(&self, offset: u32) -> Option<usize> {
        let (mut first, mut behind) = (0, self.count);
        while first < behind {
            let middle = first + (behind - first) / 2;
            if self.half(self.functions + 8 * middle)? <= offset {
                first = middle + 1
            } else {
                behind = middle
            }
        }
        first.checked_sub(1)
    }

    fn function(&self, index: usize) -> Option<GoFunction> {
        let entry = self.functions.checked_add(8 * index)?;
        let (start, end) = (self.half(entry)?, self.half(entry + 8)?);
        let at = self.functions.checked_add(self.half(entry + 4)? as usize)?;
        let address = |offset: u32| self.text.checked_add(offset.into());
        let addresses = address(start)?..address(end)?;
        (start < end).then_some(GoFunction { addresses, at })
    }

    fn text_at(&self, at: usize) -> Option<String> {
        let rest = self.table.get(at..)?;
        let text = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn line_at(&self, function: usize, at: u64) -> Option<u32> {
        let rows = self.half(function + 24)?;
        u32::try_from(self.row_value(rows, at)?).ok()
    }

    fn file_at(&self, function: usize, at: u64) -> Option<String> {
        let number = u32::try_from(self.row_value(self.half(function + 20)?, at)?).ok()?;
        let unit = self.half(function + 32)?.checked_add(number)?;
        let entry = self.half(self.units.checked_add(4 * unit as usize)?)?;
        if entry == u32::MAX {
            return None;
        }
        self.text_at(self.files.checked_add(entry as usize)?)
    }

    /// Returns the start of a function's rows of a kind; `None` if it has none.
    fn rows_of_kind(&self, function: usize, kind: u32) -> Option<u32> {
        let count = self.half(function + 28)?;
        let rows = self.half(function + self.form.head + 4 * kind as usize)?;
        (kind < count && rows > 0).then_some(rows)
    }

    fn inlined_tree(&self, function: usize) -> Option<u64> {
        let data = self.function_data?;
        let rows = self.half(function + 28)? as usize;
        let trees = *self.table.get(function + self.form.head - 1)?;
        if usize::from(trees) <= INLINED_TREE {
            return None;
        }
        let place = rows.checked_add(INLINED_TREE)?.checked_mul(4)?;
        let offset = self.half(place.checked_add(function + self.form.head)?)?;
        (offset != u32::MAX).then(|| data.checked_add(offset.into()))?
    }

    /// Returns the value of some rows at this distance from the start of a function.
    fn row_value(&self, rows: u32, at: u64) -> Option<i32> {
        let mut rows = self.rows_at(rows)?;
        loop {
            let (places, value) = rows.next_row()?;
            if at < places.end {
                return Some(value);
            }
        }
    }

    fn rows_at(&self, rows: u32) -> Option<Rows<'_>> {
        Some(Rows {
            bytes: self.table.get(self.rows.checked_add(rows as usize)?..)?,
            quantum: self.quantum,
            value: -1,
            place: 0,
            count: 0,
        })
    }
}

/// Values along a function, as pairs of differences: of the value and of the place.
struct Rows<'a> {
    bytes: &'a [u8],
    quantum: u64,
    value: i32,
    place: u64,
    count: usize,
}

impl Rows<'_> {
    fn next_row(&mut self) -> Option<(Range<u64>, i32)> {
        let change = take_number(&mut self.bytes)?;
        self.count += 1;
        if (change == 0 && self.count > 1) || self.count > MOST_ROWS {
            return None;
        }
        let signed = (change >> 1) as i32 ^ -((change & 1) as i32);
        self.value = self.value.wrapping_add(signed);
        let start = self.place;
        self.place += u64::from(take_number(&mut self.bytes)?) * self.quantum;
        Some((start..self.place, self.value))
    }
}

/// Removes a number of 7 bits a byte from the front.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a table of two functions of 16 bytes, `main.a` and `main.b`; the second one has the
    /// lines 7 and, from the eighth byte on, 9 of `a.go`.
    fn table() -> FunctionTable {
        table_of(FORMS[0].1)
    }

    fn table_of(form: FunctionForm) -> FunctionTable {
        let mut table = vec![0; 8];
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
        // Frames of 8 and of 16 bytes.
        table.extend([18, 8, 16, 8, 0]);
        let functions = table.len();
        // A head, and a row for inlined calls that has none.
        let described = form.head as u32 + 4;
        for word in [0_u32, 20, 16, 20 + described, 32] {
            table.extend(word.to_le_bytes());
        }
        for (start, name) in [(0_u32, 0_u32), (16, 7)] {
            for word in [start, name, 0, 0, 9, 1, 4, 0, 0] {
                table.extend(word.to_le_bytes());
            }
            table.resize(table.len() + form.head + 4 - 36, 0);
        }
        FunctionTable {
            table,
            form,
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
        for (_, form) in FORMS {
            assert_names_and_lines(&table_of(form));
        }
    }

    fn assert_names_and_lines(table: &FunctionTable) {
        let at = |address| {
            let frames = table.frames_at(address, |_, _| false);
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
        let all: Vec<_> = table.functions().collect();
        assert_eq!(all.len(), 2);
        let name = table.name_offset(&all[1]).unwrap() as usize;
        assert!(table.names()[name..].starts_with(b"main.b\0"));
        assert_eq!(table.frame_kind(&all[1]), GoFrameKind::Ordinary);
        let sizes = table.frame_sizes(&all[1]);
        assert_eq!(sizes, [(0x1010..0x1018, 8), (0x1018..0x1020, 16)]);
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
            table.frames_at(address, |_, call| { call.fill(0); true });
            for function in table.functions() {
                table.frame_sizes(&function);
                table.frame_kind(&function);
            }
        }
    }
}
