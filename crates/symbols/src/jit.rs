//! Code generated at run time, as the generator describes it: perf maps and jitdump files.

use crate::error::Error;
use profile::ProcessAddress;
use std::collections::BTreeMap;
use std::path::Path;

/// A procedure in the address space of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSymbol {
    /// First byte.
    pub start: ProcessAddress,
    /// First byte after it.
    pub end: ProcessAddress,
    /// Its name, not demangled.
    pub name: String,
}

/// Bytes of a page: a procedure of unknown size is assumed to end with its page.
const PAGE: u64 = 4096;

/// Procedures that do not overlap: generated code is discarded and its place reused, so that a new
/// procedure takes the bytes that it overlaps from older ones.
#[derive(Default)]
struct GeneratedCode(BTreeMap<u64, (u64, String)>);

impl GeneratedCode {
    fn load_code(&mut self, start: u64, size: u64, name: String) {
        let Some(end) = start.checked_add(size).filter(|end| *end > start) else {
            return;
        };
        while let Some((&old, &(old_end, _))) = self.0.range(..end).next_back() {
            if old_end <= start {
                break;
            }
            let Some((_, old_name)) = self.0.remove(&old) else {
                break;
            };
            if old_end > end {
                self.0.insert(end, (old_end, old_name.clone()));
            }
            if old < start {
                self.0.insert(old, (start, old_name));
                break;
            }
        }
        self.0.insert(start, (end, name));
    }

    /// Adds procedures of unknown size where no other one is.
    fn load_unsized(&mut self, mut unsized_code: Vec<(u64, &str)>) {
        // The later of two at one place counts: the sort is stable, and the last is taken
        // first.
        unsized_code.sort_by_key(|(start, _)| *start);
        for (start, name) in unsized_code.into_iter().rev() {
            let before = self.0.range(..=start).next_back();
            if before.is_some_and(|(_, (end, _))| *end > start) {
                continue;
            }
            let page_end = (start | (PAGE - 1)).saturating_add(1);
            let next = self.0.range(start..).next().map_or(page_end, |(at, _)| *at);
            let end = next.min(page_end);
            if end > start {
                self.0.insert(start, (end, name.to_owned()));
            }
        }
    }

    fn remove_code(&mut self, start: u64) -> Option<String> {
        self.0.remove(&start).map(|(_, name)| name)
    }

    fn finish_symbols(self) -> Vec<ProcessSymbol> {
        let symbols = self
            .0
            .into_iter()
            .map(|(start, (end, name))| ProcessSymbol {
                start: ProcessAddress(start),
                end: ProcessAddress(end),
                name,
            });
        symbols.collect()
    }
}

/// Parses a perf map (`/tmp/perf-PID.map`): lines of `START SIZE NAME`, the numbers hexadecimal.
/// Returns the procedures by address.
///
/// If two overlap, the later line counts; the rest of the older one stays. A procedure of size 0
/// ends where the next one begins, at the latest with its page. The process may be writing the file
/// meanwhile, and some writers make mistakes: malformed lines are skipped, and counted in the
/// second value.
pub fn parse_perf_map(text: &str) -> (Vec<ProcessSymbol>, usize) {
    let mut code = GeneratedCode::default();
    let (mut bad, mut unsized_code) = (0, Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        match perf_map_line(line) {
            Some((start, 0, name)) => unsized_code.push((start, name)),
            Some((start, size, name)) => code.load_code(start, size, name.to_owned()),
            None => bad += 1,
        }
    }
    code.load_unsized(unsized_code);
    (code.finish_symbols(), bad)
}

fn perf_map_line(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).ok()
    };
    let name = name.trim_end();
    (!name.is_empty()).then_some((hex(start)?, hex(size)?, name))
}

/// `JiTD`, in the writer's byte order.
const MAGIC: u32 = 0x4a69_5444;
const HEADER: usize = 40;
const RECORD: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const CODE_CLOSE: u32 = 3;

/// Parses a jitdump file (`jit-PID.dump`) and returns the procedures by address, in their final
/// state. A truncated record at the end is ignored: the process may still be writing it.
///
/// # Errors
/// If the file is not a jitdump file, or a record contradicts itself.
pub fn parse_jitdump(path: &Path, bytes: &[u8]) -> Result<Vec<ProcessSymbol>, Error> {
    let error = |what: &str, offset: usize, reason: &str| Error::Malformed {
        path: path.to_owned(),
        what: what.to_owned(),
        offset: offset as u64,
        reason: reason.to_owned(),
    };
    let magic = bytes
        .first_chunk::<4>()
        .map(|magic| u32::from_le_bytes(*magic));
    let big_endian = match magic {
        Some(MAGIC) => false,
        Some(magic) if magic.swap_bytes() == MAGIC => true,
        _ => return Err(error("jitdump header", 0, "not a jitdump file")),
    };
    let fields = Fields { bytes, big_endian };
    let header = fields.u32_at(8).filter(|size| *size as usize >= HEADER);
    let header = header.ok_or_else(|| error("jitdump header", 8, "too short"))?;
    let mut code = GeneratedCode::default();
    let mut at = header as usize;
    while let (Some(kind), Some(size)) = (fields.u32_at(at), fields.u32_at(at + 4)) {
        let size = size as usize;
        if size < RECORD {
            return Err(error("jitdump record", at, "shorter than its own header"));
        }
        let Some(end) = at.checked_add(size).filter(|end| *end <= bytes.len()) else {
            break;
        };
        let record = Fields {
            bytes: &bytes[at + RECORD..end],
            big_endian,
        };
        match kind {
            CODE_LOAD => record
                .load_event(&mut code)
                .ok_or_else(|| error("jitdump code load record", at, "too short"))?,
            CODE_MOVE => record
                .relocate_event(&mut code)
                .ok_or_else(|| error("jitdump code move record", at, "too short"))?,
            CODE_CLOSE => break,
            // Lines, unwinding tables, and unknown records.
            _ => {}
        }
        at = end;
    }
    Ok(code.finish_symbols())
}

#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl Fields<'_> {
    fn u32_at(self, at: usize) -> Option<u32> {
        let field = *self.bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian {
            u32::from_be_bytes(field)
        } else {
            u32::from_le_bytes(field)
        })
    }

    fn u64_at(self, at: usize) -> Option<u64> {
        let field = *self.bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self.big_endian {
            u64::from_be_bytes(field)
        } else {
            u64::from_le_bytes(field)
        })
    }

    /// Loads code from a record: pid, tid, vma, code_addr, code_size, code_index, name, code.
    fn load_event(self, code: &mut GeneratedCode) -> Option<()> {
        let (start, size) = (self.u64_at(16)?, self.u64_at(24)?);
        let name = self.bytes.get(40..)?;
        let name = &name[..memchr::memchr(0, name)?];
        code.load_code(start, size, String::from_utf8_lossy(name).into_owned());
        Some(())
    }

    /// Moves code by a record: pid, tid, vma, old_code_addr, new_code_addr, code_size, code_index.
    fn relocate_event(self, code: &mut GeneratedCode) -> Option<()> {
        let (old, new, size) = (self.u64_at(16)?, self.u64_at(24)?, self.u64_at(32)?);
        if let Some(name) = code.remove_code(old) {
            code.load_code(new, size, name);
        }
        Some(())
    }
}
