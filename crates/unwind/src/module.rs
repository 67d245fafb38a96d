use crate::caller_rule::CallerRule;
use crate::code_frames::{CodeFrames, CodeRule};
use crate::elf::{ElfBytes, ElfLayout, ElfReader, ElfSegment, ElfSource};
use crate::{Error, UnwindMachine};
use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, LittleEndian,
    UnwindSection, Vendor,
};
use languages::go::{FunctionTable, GoFrameKind};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The unwind tables of one image: an executable, a shared library, or the vDSO.
///
/// All processes that map the image share it; it does not depend on the address of the mapping.
#[derive(Debug)]
pub struct ModuleData {
    /// Distinguishes it from all others of this program, including freed ones.
    pub(crate) id: u64,
    pub(crate) machine: Option<UnwindMachine>,
    /// Segments in the order of the program headers.
    pub(crate) segments: Vec<ElfSegment>,
    pub(crate) tables: Vec<UnwindTable>,
    /// The functions of a Go program with the sizes of their frames.
    pub(crate) go_functions: Option<FunctionTable>,
    /// Frames of code without tables, from its instructions.
    pub(crate) code_frames: CodeFrames,
    /// Image address of the kernel's signal return code, if it is needed.
    pub(crate) signal_return: Option<u64>,
}

/// `.eh_frame` or `.debug_frame`, and its index of entries.
#[derive(Debug)]
pub(crate) struct UnwindTable {
    pub(crate) bytes: Vec<u8>,
    pub(crate) bases: BaseAddresses,
    pub(crate) kind: TableKind,
    index: TableIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    EhFrame,
    DebugFrame,
}

#[derive(Debug)]
enum TableIndex {
    /// The linker's index: `.eh_frame_hdr`.
    Header(Vec<u8>),
    /// Our index: first address and offset of each entry, sorted.
    Sorted(Vec<(u64, u64)>),
}

/// Maximum length of a usable table entry. Entries are executed from the start, and a damaged
/// length must not make every frame expensive; real ones have some kilobytes.
pub(crate) const MAX_ENTRY: usize = 256 << 10;

/// Gaps between functions with tables below this size are padding up to the next multiple of 16.
const LEAST_CODE: u64 = 16;

/// Gaps above this size, in images with tables for most code, are interpreters that keep frame
/// pointers and jump through tables (V8 has 1 to 2 MiB, JavaScriptCore more than 100 KiB).
const MOST_ASSEMBLY: u64 = 64 << 10;

/// `mov x8, #139; svc #0`: AArch64's return from a signal handler.
const SIGNAL_RETURN_AARCH64: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

impl ModuleData {
    /// Reads the tables of the ELF file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is no ELF image of a known machine.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::from_file(&path.to_string_lossy(), &file)
    }

    /// Reads the tables of an open ELF file; `name` is for messages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_file(name: &str, file: &File) -> Result<Self, Error> {
        let source = ElfSource::File(file);
        Self::read(&ElfReader { name, source })
    }

    /// Reads the tables of an ELF image in memory, such as the vDSO; `name` is for messages.
    ///
    /// # Errors
    /// If it is no ELF image of a known machine, or ends too early.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let source = ElfSource::Bytes(bytes);
        let mut new = Self::read(&ElfReader { name, source })?;
        if new.machine == Some(UnwindMachine::Aarch64) {
            new.signal_return = find_signal_return(&new.segments, bytes);
        }
        Ok(new)
    }

    /// Makes an image without tables: generated code, or an unreadable file. Its frames are walked
    /// by frame pointers.
    pub fn without_tables() -> Self {
        Self {
            id: next_id(),
            machine: None,
            segments: Vec::new(),
            tables: Vec::new(),
            go_functions: None,
            code_frames: CodeFrames::default(),
            signal_return: None,
        }
    }

    fn read(reader: &ElfReader<'_>) -> Result<Self, Error> {
        let layout = reader.read_layout()?;
        let (entry, is_static) = (layout.entry, layout.is_static && layout.entry != 0);
        let mut new = Self::new(layout);
        if let Some(machine @ UnwindMachine::X86_64) = new.machine
            && new.go_functions.is_none()
        {
            let code = reader.read_code(&new.segments, &new.uncovered_code(machine, is_static));
            new.code_frames = CodeFrames::follow_code(&code, entry);
        }
        Ok(new)
    }

    /// Returns the code without tables whose instructions are followed instead.
    fn uncovered_code(&self, machine: UnwindMachine, is_static: bool) -> Vec<Range<u64>> {
        let executable = self.segments.iter().filter(|segment| segment.executable);
        let mut free: Vec<_> = executable
            .map(|segment| segment.address..segment.address.saturating_add(segment.size))
            .collect();
        free.sort_unstable_by_key(|range| range.start);
        let total = |ranges: &[Range<u64>]| -> u64 {
            let sizes = ranges.iter().map(|range| range.end - range.start);
            sizes.fold(0, u64::saturating_add)
        };
        let whole = total(&free);
        for table in &self.tables {
            free = remove_ranges(&free, &mut table.covered_code(machine));
        }
        let all = is_static || total(&free) > whole / 2;
        free.retain(|range| {
            let size = range.end - range.start;
            size >= LEAST_CODE && (all || size <= MOST_ASSEMBLY)
        });
        free
    }

    fn new(layout: ElfLayout) -> Self {
        let bases = BaseAddresses::default()
            .set_text(layout.text)
            .set_got(layout.got);
        let eh_frame = layout
            .eh_frame
            .map(|section| UnwindTable::eh_frame(section, layout.eh_frame_hdr, bases.clone()));
        let debug_frame = layout
            .debug_frame
            .map(|section| UnwindTable::debug_frame(section, layout.machine, bases));
        Self {
            machine: Some(layout.machine),
            segments: layout.segments,
            go_functions: layout.go_functions,
            tables: eh_frame.into_iter().chain(debug_frame).collect(),
            ..Self::without_tables()
        }
    }

    /// Returns whether [`crate::Unwinder::caller_rule`] covers its code: by unwind tables, by a Go
    /// program's function table, or by its instructions.
    pub fn has_caller_rules(&self) -> bool {
        self.has_tables() || self.go_functions.is_some() || !self.code_frames.is_empty()
    }

    /// Returns whether it has unwind tables.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Returns its size in memory, in bytes.
    pub fn size(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<ElfSegment>();
        let tables: usize = self.tables.iter().map(UnwindTable::memory_size).sum();
        let functions = self.go_functions.as_ref().map_or(0, FunctionTable::size);
        size_of::<Self>() + segments + tables + functions + self.code_frames.size()
    }

    /// Returns the rule at an address without tables: from a Go program's function table, or from
    /// the code itself.
    pub(crate) fn tableless_rule(&self, address: u64) -> CodeRule {
        match self.go_caller_rule(address) {
            Some(rule) => CodeRule::Caller(rule),
            None => self.code_frames.rule_at(address),
        }
    }

    /// Returns the rule of a Go function, whose frame has the caller's frame pointer on top.
    fn go_caller_rule(&self, address: u64) -> Option<CallerRule> {
        let functions = self.go_functions.as_ref()?;
        let function = functions.function_at(address)?;
        if self.machine != Some(UnwindMachine::X86_64)
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

    /// Returns the image's address of the byte at `offset` of its file. Segments can share a page
    /// of the file; code is in the executable one.
    pub(crate) fn image_address(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&ElfSegment| offset.checked_sub(s.offset).is_some_and(|o| o < s.size);
        let mut found = self.segments.iter().filter(inside);
        let first = found
            .clone()
            .find(|s| s.executable)
            .or_else(|| found.next());
        first.and_then(|s| s.address.checked_add(offset - s.offset))
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn find_signal_return(segments: &[ElfSegment], bytes: &[u8]) -> Option<u64> {
    segments.iter().filter(|s| s.executable).find_map(|s| {
        let start = usize::try_from(s.offset).ok()?;
        let end = start.checked_add(usize::try_from(s.size).ok()?)?;
        let code = bytes.get(start..end)?;
        let at = (0..code.len())
            .step_by(4)
            .find(|at| code[*at..].starts_with(&SIGNAL_RETURN_AARCH64))?;
        s.address.checked_add(at as u64)
    })
}

impl UnwindTable {
    fn eh_frame(section: ElfBytes, hdr: Option<ElfBytes>, bases: BaseAddresses) -> Self {
        let mut bases = bases.set_eh_frame(section.address);
        let mut index = None;
        if let Some(hdr) = hdr {
            bases = bases.set_eh_frame_hdr(hdr.address);
            let parsed = EhFrameHdr::new(&hdr.bytes, LittleEndian).parse(&bases, 8);
            // An index that points elsewhere would be worse than none.
            let own = |p: &gimli::ParsedEhFrameHdr<Slice<'_>>| {
                p.table().is_some() && p.eh_frame_ptr().direct() == Ok(section.address)
            };
            if parsed.as_ref().is_ok_and(own) {
                index = Some(TableIndex::Header(hdr.bytes));
            }
        }
        let index = index.unwrap_or_else(|| {
            let mut entries = EhFrame::new(&section.bytes, LittleEndian);
            entries.set_address_size(8);
            TableIndex::Sorted(sorted_entries(&entries, &bases))
        });
        Self {
            bytes: section.bytes,
            bases,
            kind: TableKind::EhFrame,
            index,
        }
    }

    fn debug_frame(section: ElfBytes, machine: UnwindMachine, bases: BaseAddresses) -> Self {
        let mut entries = DebugFrame::new(&section.bytes, LittleEndian);
        entries.set_address_size(8);
        entries.set_vendor(table_vendor(machine));
        let index = TableIndex::Sorted(sorted_entries(&entries, &bases));
        Self {
            bytes: section.bytes,
            bases,
            kind: TableKind::DebugFrame,
            index,
        }
    }

    /// Returns the code with entries.
    fn covered_code(&self, machine: UnwindMachine) -> Vec<Range<u64>> {
        let entries = match self.kind {
            TableKind::EhFrame => self.with_eh_frame(machine, |s| table_entries(s, &self.bases)),
            TableKind::DebugFrame => {
                self.with_debug_frame(machine, |s| table_entries(s, &self.bases))
            }
        };
        entries.into_iter().map(|(code, _)| code).collect()
    }

    fn memory_size(&self) -> usize {
        let index = match &self.index {
            TableIndex::Header(bytes) => bytes.capacity(),
            TableIndex::Sorted(entries) => entries.capacity() * size_of::<(u64, u64)>(),
        };
        size_of::<Self>() + self.bytes.capacity() + index
    }

    /// Returns the offset of the last entry that starts at or before `address`, which need not
    /// reach it.
    pub(crate) fn entry_offset(&self, address: u64) -> Option<usize> {
        let offset = match &self.index {
            TableIndex::Header(bytes) => {
                let hdr = EhFrameHdr::new(bytes, LittleEndian);
                let hdr = hdr.parse(&self.bases, 8).ok()?;
                let entry = hdr.table()?.lookup(address, &self.bases).ok()?;
                let start = hdr.eh_frame_ptr().direct().ok()?;
                entry.direct().ok()?.checked_sub(start)?
            }
            TableIndex::Sorted(entries) => {
                let behind = entries.partition_point(|(start, _)| *start <= address);
                entries[..behind].last()?.1
            }
        };
        usize::try_from(offset)
            .ok()
            .filter(|o| *o < self.bytes.len())
    }
}

/// Returns the vendor whose extensions the tables use.
pub(crate) fn table_vendor(machine: UnwindMachine) -> Vendor {
    match machine {
        UnwindMachine::X86_64 => Vendor::Default,
        UnwindMachine::Aarch64 => Vendor::AArch64,
    }
}

/// Returns an index of our own. Entries after a damaged one cannot be found and are left out.
pub(crate) fn sorted_entries<'a, S>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64)>
where
    S: UnwindSection<Slice<'a>>,
{
    let entries = table_entries(section, bases).into_iter();
    let mut index: Vec<_> = entries.map(|(code, offset)| (code.start, offset)).collect();
    index.sort_unstable();
    index.shrink_to_fit();
    index
}

/// Returns the code of each entry, and the entry's offset.
fn table_entries<'a, S>(section: &S, bases: &BaseAddresses) -> Vec<(Range<u64>, u64)>
where
    S: UnwindSection<Slice<'a>>,
{
    let mut index = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(S::cie_from_offset)
            && entry.len() > 0
        {
            // An empty one belongs to a function that the linker discarded.
            let code = entry.initial_address()..entry.end_address();
            index.push((code, entry.offset() as u64));
        }
    }
    index
}

/// Returns the parts of sorted, disjoint ranges outside of `others`.
fn remove_ranges(ranges: &[Range<u64>], others: &mut [Range<u64>]) -> Vec<Range<u64>> {
    others.sort_unstable_by_key(|other| other.start);
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        let first = others
            .partition_point(|other| other.start < range.start)
            .saturating_sub(1);
        for other in others[first..]
            .iter()
            .take_while(|other| other.start < range.end)
        {
            if start < other.start {
                left.push(start..other.start);
            }
            start = start.max(other.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}
