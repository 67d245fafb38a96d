//! A Go program's description of itself (`runtime.moduledata`).

use std::ops::Range;

/// Maximum size of writable data that are searched for the description, in bytes.
const MAX_DATA: u64 = 256 << 20;
const SEARCH_STEP: u64 = 1 << 16;
/// Words of the description before the address of the first code, and before that of the functions'
/// data.
const TEXT_WORD: u64 = 22;
const FUNCTION_DATA_WORD: u64 = 40;
/// `r_info` of a relocation that adds the load address: on x86-64, on AArch64.
const RELATIVE: [u64; 2] = [8, 1027];

/// The parts of an image that describe a Go program.
pub struct GoImage<'a> {
    /// The address of its function table.
    pub table_address: u64,
    /// Relocations with addends (`.rela.dyn`; Go's linker calls it `.rela`).
    pub relocations: &'a [u8],
    /// Addresses of its data, as far as the file contains them.
    pub data: &'a [Range<u64>],
    /// Fills a buffer with the file's bytes for an address; returns false if it lacks any of them.
    pub read: &'a dyn Fn(u64, &mut [u8]) -> bool,
}

/// Contents of the description.
pub(super) struct GoModule {
    /// The address of the first code.
    pub text: u64,
    /// Address to which the functions' data are relative.
    pub function_data: u64,
}

/// Finds the description: it begins with the address of the function table, then that of the
/// table's names.
pub(super) fn find_module(image: &GoImage<'_>, names: u64) -> Option<GoModule> {
    let start = [image.table_address, image.table_address.checked_add(names)?];
    relocated_module(image, start).or_else(|| stored_module(image, start))
}

/// Finds the description of a program that is loaded at any address: its words are relocations.
fn relocated_module(image: &GoImage<'_>, start: [u64; 2]) -> Option<GoModule> {
    let number = |entry: &[u8], at: usize| {
        let bytes = entry.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let entries = || {
        let entries = image.relocations.chunks_exact(24);
        entries.filter_map(|entry| {
            let info = number(entry, 8)?;
            let relative = RELATIVE.contains(&info);
            relative.then_some((number(entry, 0)?, number(entry, 16)?))
        })
    };
    let word = |address: u64| Some(entries().find(|(at, _)| *at == address)?.1);
    let mut found = entries().filter(|(_, value)| *value == start[0]);
    let (module, _) = found.find(|(at, _)| word(at.saturating_add(8)) == Some(start[1]))?;
    Some(GoModule {
        text: word(module.checked_add(8 * TEXT_WORD)?)?,
        function_data: word(module.checked_add(8 * FUNCTION_DATA_WORD)?)?,
    })
}

fn stored_module(image: &GoImage<'_>, start: [u64; 2]) -> Option<GoModule> {
    let mut left = MAX_DATA;
    for range in image.data {
        let mut address = range.start.checked_next_multiple_of(8)?;
        while address < range.end && left > 0 {
            let size = SEARCH_STEP.min(range.end - address).min(left);
            left -= size;
            let mut bytes = vec![0; size as usize];
            if !(image.read)(address, &mut bytes) {
                break;
            }
            let words = (address..).step_by(8).zip(bytes.chunks_exact(8));
            let first = start[0].to_le_bytes();
            let mut found = words.filter(|(_, word)| *word == first);
            if let Some(module) = found.find_map(|(at, _)| module_at(image, at, start)) {
                return Some(module);
            }
            address = address.checked_add(size)?;
        }
    }
    None
}

fn module_at(image: &GoImage<'_>, address: u64, start: [u64; 2]) -> Option<GoModule> {
    let mut bytes = [0; 8 * (FUNCTION_DATA_WORD as usize + 1)];
    if !(image.read)(address, &mut bytes) {
        return None;
    }
    let word = |index: u64| {
        let word = bytes.get(8 * index as usize..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*word))
    };
    (word(1)? == start[1]).then_some(GoModule {
        text: word(TEXT_WORD)?,
        function_data: word(FUNCTION_DATA_WORD)?,
    })
}
