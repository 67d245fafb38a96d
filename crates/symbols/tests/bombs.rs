//! Small files that would take unbounded time or memory if taken literally.

use profile::ImageAddress;
use std::path::Path;
use std::time::{Duration, Instant};
use symbols::{DebugProblem, Error, ImageSymbols, SymbolOptions};

const TIME: Duration = Duration::from_secs(30);
const COMPRESSED: u64 = 0x800;

/// Makes an ELF file with a loaded segment and these sections (name, flags, bytes).
fn elf(sections: &[(&str, u64, Vec<u8>)]) -> Vec<u8> {
    let mut names = vec![0];
    let mut bytes = vec![0; 64 + 56];
    let mut headers = vec![[0_u64; 8]];
    let mut header = |names: &mut Vec<u8>, name: &str, kind, flags, offset: usize, size: usize| {
        headers.push([
            names.len() as u64,
            kind,
            flags,
            0,
            offset as u64,
            size as u64,
            1,
            0,
        ]);
        names.extend(name.bytes().chain([0]));
    };
    for (name, flags, content) in sections {
        header(&mut names, name, 1, *flags, bytes.len(), content.len());
        bytes.extend(content);
    }
    let size = names.len() + ".shstrtab".len() + 1;
    header(&mut names, ".shstrtab", 3, 0, bytes.len(), size);
    bytes.extend(&names);
    let section_table = bytes.len() as u64;
    for [name, kind, flags, address, offset, size, align, entry] in &headers {
        bytes.extend((*name as u32).to_le_bytes());
        bytes.extend((*kind as u32).to_le_bytes());
        for word in [flags, address, offset, size, &0, align, entry] {
            bytes.extend(word.to_le_bytes());
        }
    }
    let mut start = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    start.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0_u64, 64, section_table] {
        start.extend(word.to_le_bytes());
    }
    start.extend([0; 4]);
    let count = headers.len() as u16;
    for half in [64, 56, 1, 64, count, count - 1] {
        start.extend(u16::to_le_bytes(half));
    }
    // PT_LOAD, r-x, the first 64 KiB at address 0.
    start.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0_u64, 0, 0, 0x1_0000, 0x1_0000, 0x1000] {
        start.extend(word.to_le_bytes());
    }
    bytes[..start.len()].copy_from_slice(&start);
    bytes
}

fn uleb(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Code, tag, children, attributes (name, form).
type Declaration<'a> = (u64, u64, bool, &'a [(u64, u64)]);

fn abbreviations(list: &[Declaration<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (code, tag, children, attributes) in list {
        uleb(&mut bytes, *code);
        uleb(&mut bytes, *tag);
        bytes.push(u8::from(*children));
        for (name, form) in *attributes {
            uleb(&mut bytes, *name);
            uleb(&mut bytes, *form);
        }
        bytes.extend([0, 0]);
    }
    bytes.push(0);
    bytes
}

/// Makes a DWARF 4 unit.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend([4, 0, 0, 0, 0, 0, 8]);
    bytes.extend(entries);
    bytes
}

const COMPILE_UNIT: u64 = 0x11;
const SUBPROGRAM: u64 = 0x2e;
const INLINED: u64 = 0x1d;
const RANGES: u64 = 0x55;
/// Address and size of 8 and 4 bytes.
const PLACE: &[(u64, u64)] = &[(0x11, 1), (0x12, 6)];
const AT: [u8; 12] = [0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];

fn look(bytes: Vec<u8>) -> Result<usize, Error> {
    let start = Instant::now();
    let options = SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: None,
    };
    let image = ImageSymbols::from_bytes(Path::new("bomb"), bytes, &options)?;
    let debug = image.debug_info()?.expect("debug information");
    let frames = debug
        .source_frames(ImageAddress(0x1800), None)
        .map(|frames| frames.len());
    let _ = debug.procedure_at(ImageAddress(0x1800));
    let _ = debug.for_each_line(|_, _, _| ());
    assert!(start.elapsed() < TIME, "{:?}", start.elapsed());
    frames
}

fn reason(result: Result<usize, Error>) -> DebugProblem {
    match result {
        Err(Error::Debug { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn nested(depth: usize) -> Vec<u8> {
    let abbreviations = abbreviations(&[
        (1, COMPILE_UNIT, true, PLACE),
        (2, SUBPROGRAM, true, PLACE),
        (3, INLINED, true, PLACE),
    ]);
    let mut entries = Vec::new();
    for (code, count) in [(1, 1), (2, 1), (3, depth)] {
        for _ in 0..count {
            entries.push(code);
            entries.extend(AT);
        }
    }
    entries.resize(entries.len() + depth + 2, 0);
    elf(&[
        (".debug_info", 0, unit(&entries)),
        (".debug_abbrev", 0, abbreviations),
    ])
}

#[test]
fn nesting() {
    assert_eq!(look(nested(50)).unwrap(), 51);
    assert_eq!(reason(look(nested(300_000))), DebugProblem::TooDeep);
}

#[test]
fn one_list_of_ranges_for_every_function() {
    let abbreviations = abbreviations(&[
        (1, COMPILE_UNIT, true, PLACE),
        (2, SUBPROGRAM, false, &[(RANGES, 0x17)]),
    ]);
    let mut entries = vec![1];
    entries.extend(AT);
    for _ in 0..50_000 {
        entries.extend([2, 0, 0, 0, 0]);
    }
    entries.push(0);
    let range = [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat();
    let bytes = elf(&[
        (".debug_info", 0, unit(&entries)),
        (".debug_abbrev", 0, abbreviations),
        (".debug_ranges", 0, range.repeat(30_000)),
    ]);
    assert_eq!(reason(look(bytes)), DebugProblem::TooMuchWork);
}

#[test]
fn attributes_without_end() {
    // DW_FORM_flag_present takes no bytes at all.
    let attributes = vec![(0x3c, 0x19); 300_000];
    let abbreviations = abbreviations(&[
        (1, COMPILE_UNIT, true, PLACE),
        (2, SUBPROGRAM, false, &attributes),
    ]);
    let mut entries = vec![1];
    entries.extend(AT);
    entries.resize(entries.len() + 600_000, 2);
    entries.push(0);
    let bytes = elf(&[
        (".debug_info", 0, unit(&entries)),
        (".debug_abbrev", 0, abbreviations),
    ]);
    assert_eq!(reason(look(bytes)), DebugProblem::TooMuchWork);
}

#[test]
fn one_table_of_abbreviations_for_every_unit() {
    let many: Vec<_> = (1..20_000)
        .map(|code| (code, COMPILE_UNIT, false, PLACE))
        .collect();
    let mut one = vec![1];
    one.extend(AT);
    let bytes = elf(&[
        (".debug_info", 0, unit(&one).repeat(20_000)),
        (".debug_abbrev", 0, abbreviations(&many)),
    ]);
    // Each table is parsed once.
    let _ = look(bytes);
}

#[test]
fn compressed_beyond_reason() {
    for (kind, size) in [(1_u32, 1_u64 << 40), (2, u64::MAX), (7, 16)] {
        let mut section = kind.to_le_bytes().to_vec();
        section.extend([0; 4]);
        section.extend(size.to_le_bytes());
        section.extend(1_u64.to_le_bytes());
        section.extend([0; 64]);
        let result = look(elf(&[(".debug_info", COMPRESSED, section)]));
        assert!(matches!(result, Err(Error::Malformed { .. })), "{result:?}");
    }
}
