//! Recorded stacks of both machines, whole and damaged in every way.
#![allow(missing_docs)]

use object::{Object, ObjectSection, ObjectSymbol};
use profile::{FileIdentity, ProcessAddress};
use proptest::prelude::*;
use std::sync::Arc;
use unwind::{
    AddressSpace, CompactUnwinder, Error, MAX_FRAMES, ModuleCache, ModuleData, StackMemory,
    UnwindFailure, UnwindMachine, UnwindOutcome, UnwindRegisters, Unwinder,
};

struct Recorded {
    machine: UnwindMachine,
    elf: &'static [u8],
    registers: UnwindRegisters,
    stack: &'static [u8],
}

impl Recorded {
    fn new(machine: UnwindMachine, elf: &'static [u8], written: &'static [u8]) -> Self {
        let (values, stack) = written.split_at(33 * 8);
        let values = values
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let values: Vec<u64> = values.collect();
        let (start, count) = match machine {
            UnwindMachine::X86_64 => (
                UnwindRegisters::x86_64(values[32], values[7], values[6]),
                16,
            ),
            UnwindMachine::Aarch64 => (
                UnwindRegisters::aarch64(values[32], values[31], values[29], values[30]),
                32,
            ),
        };
        let all = (0..count).zip(&values);
        Self {
            machine,
            elf,
            registers: all.fold(start, |regs, (n, value)| regs.with(n, *value)),
            stack,
        }
    }

    fn aarch64() -> Self {
        let stack = include_bytes!("fixtures/aarch64.stack");
        Self::new(
            UnwindMachine::Aarch64,
            include_bytes!("fixtures/aarch64"),
            stack,
        )
    }

    /// Returns the same program with frame records, and without signed return addresses.
    fn aarch64_with_records() -> Self {
        let stack = include_bytes!("fixtures/aarch64-records.stack");
        Self::new(
            UnwindMachine::Aarch64,
            include_bytes!("fixtures/aarch64-records"),
            stack,
        )
    }

    fn x86_64() -> Self {
        let stack = include_bytes!("fixtures/x86_64.stack");
        Self::new(
            UnwindMachine::X86_64,
            include_bytes!("fixtures/x86_64"),
            stack,
        )
    }

    fn all() -> [Self; 3] {
        [
            Self::aarch64(),
            Self::aarch64_with_records(),
            Self::x86_64(),
        ]
    }

    /// Maps the program's only executable segment at its own address.
    fn space(&self, module: ModuleData) -> AddressSpace {
        let (range, offset) = match self.machine {
            UnwindMachine::X86_64 => (0x40_1000..0x40_2000, 0x1000),
            UnwindMachine::Aarch64 => (0x40_0000..0x40_1000, 0),
        };
        let mut space = AddressSpace::new();
        let range = ProcessAddress(range.start)..ProcessAddress(range.end);
        space.add_module(range, offset, Arc::new(module));
        space
    }

    fn whole(&self) -> AddressSpace {
        self.space(ModuleData::from_bytes("recorded", self.elf).unwrap())
    }

    fn stack(&self) -> StackMemory<'static> {
        StackMemory::new(self.registers.sp(), self.stack)
    }

    /// Addresses of a function.
    fn code_of(&self, name: &str) -> std::ops::Range<ProcessAddress> {
        let file = object::File::parse(self.elf).unwrap();
        let symbol = file.symbols().find(|s| s.name() == Ok(name)).unwrap();
        ProcessAddress(symbol.address())..ProcessAddress(symbol.address() + symbol.size())
    }

    fn names(&self, frames: &[ProcessAddress]) -> Vec<String> {
        let file = object::File::parse(self.elf).unwrap();
        let mut symbols: Vec<_> = file
            .symbols()
            .map(|s| (s.address(), s.name().unwrap()))
            .collect();
        symbols.retain(|(address, name)| *address != 0 && !name.starts_with('$'));
        symbols.sort_unstable();
        let name = |at: &ProcessAddress| {
            let behind = symbols.partition_point(|(start, _)| *start <= at.0);
            symbols[behind - 1].1.to_owned()
        };
        frames.iter().map(name).collect()
    }
}

const CALLERS: [&str; 9] = [
    "interrupted",
    "busy",
    "recurse",
    "recurse",
    "recurse",
    "recurse",
    "recurse",
    "recurse",
    "begin",
];

#[test]
fn programs_of_both_machines_reach_their_root() {
    for recorded in Recorded::all() {
        let mut frames = Vec::new();
        let space = recorded.whole();
        let outcome =
            Unwinder::new().unwind(&space, &recorded.registers, recorded.stack(), &mut frames);
        let names = recorded.names(&frames);
        let mut expected = vec!["capture", "deepest", "handler"];
        if recorded.machine == UnwindMachine::Aarch64 {
            expected.push("signal_return");
        }
        expected.extend(CALLERS);
        expected.push("_start");
        assert_eq!(
            (outcome, names),
            (
                UnwindOutcome::Complete,
                expected.into_iter().map(str::to_owned).collect()
            )
        );
    }
}

/// A function without tables among others: generated code, or an image whose table is not ready
/// yet. The stack pointer of its caller is unknown, and the caller's own rules are relative to it.
#[test]
fn frame_records_lead_through_a_function_without_tables() {
    let recorded = Recorded::aarch64_with_records();
    let mut whole = vec!["capture", "deepest", "handler", "signal_return"];
    whole.extend(CALLERS);
    whole.push("_start");
    // After a handler without tables, the place of the interrupted function's registers is unknown,
    // but its frame record is known. If the function has no frame, only the link register leads to
    // the caller.
    for (without, lost) in [
        ("deepest", ""),
        ("handler", "interrupted"),
        ("interrupted", "busy"),
        ("busy", ""),
        ("recurse", ""),
    ] {
        let mut space = recorded.whole();
        let tableless = Arc::new(ModuleData::without_tables());
        space.add_module(recorded.code_of(without), 0, tableless);
        let expected: Vec<&str> = whole.iter().copied().filter(|n| *n != lost).collect();
        let (mut frames, mut compact) = (Vec::new(), Vec::new());
        let (registers, stack) = (&recorded.registers, recorded.stack());
        let outcome = Unwinder::new().unwind(&space, registers, stack, &mut frames);
        let by_rows = CompactUnwinder::new().unwind(&space, registers, stack, &mut compact);
        assert_eq!(recorded.names(&frames), expected, "{without}: {outcome:?}");
        assert_eq!(
            (outcome, by_rows, compact),
            (UnwindOutcome::Complete, outcome, frames)
        );
    }
}

#[test]
fn without_section_headers_the_segments_lead_to_the_tables() {
    let recorded = Recorded::x86_64();
    let mut elf = recorded.elf.to_vec();
    elf[40..48].fill(0); // e_shoff
    let space = recorded.space(ModuleData::from_bytes("stripped", &elf).unwrap());
    let mut frames = Vec::new();
    let outcome =
        Unwinder::new().unwind(&space, &recorded.registers, recorded.stack(), &mut frames);
    assert_eq!((outcome, frames.len()), (UnwindOutcome::Complete, 13));
}

#[test]
fn a_shorter_copy_of_the_stack_gives_fewer_frames_of_the_same() {
    for recorded in Recorded::all() {
        let (space, mut unwinder) = (recorded.whole(), Unwinder::new());
        let (mut whole, mut frames) = (Vec::new(), Vec::new());
        unwinder.unwind(&space, &recorded.registers, recorded.stack(), &mut whole);
        let mut longest = 0;
        for length in 0..recorded.stack.len() {
            let stack = StackMemory::new(recorded.registers.sp(), &recorded.stack[..length]);
            let outcome = unwinder.unwind(&space, &recorded.registers, stack, &mut frames);
            assert!(whole.starts_with(&frames), "{length}");
            assert!(frames.len() >= longest, "{length}");
            assert_eq!(
                outcome == UnwindOutcome::Truncated,
                frames.len() < whole.len(),
                "{length}: {outcome:?}"
            );
            longest = frames.len();
        }
    }
}

#[test]
fn frame_pointers_lead_through_code_without_tables() {
    // Three frames of generated code: (next frame pointer, return address), and a null one.
    let words = [
        0u64,
        0x7000_0030,
        0x5555_1111,
        0,
        0,
        0,
        0x7000_0060,
        0x5555_2222,
        0,
        0,
        0,
        0,
        0,
        0x5555_3333,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let stack = StackMemory::new(0x7000_0000, &bytes);
    let space = AddressSpace::new();
    let expected = [0x5555_0000, 0x5555_1110, 0x5555_2221, 0x5555_3332].map(ProcessAddress);
    for registers in [
        UnwindRegisters::x86_64(0x5555_0000, 0x7000_0000, 0x7000_0008),
        UnwindRegisters::aarch64(0x5555_0000, 0x7000_0000, 0x7000_0008, 1),
    ] {
        let mut frames = Vec::new();
        let outcome = Unwinder::new().unwind(&space, &registers, stack, &mut frames);
        assert_eq!(
            (outcome, &frames[..]),
            (UnwindOutcome::Complete, &expected[..])
        );
    }
    let none = UnwindRegisters::x86_64(0x5555_0000, 0x7000_0000, 0);
    let outcome = Unwinder::new().unwind(&space, &none, stack, &mut Vec::new());
    assert_eq!(outcome, UnwindOutcome::Failed(UnwindFailure::NoTable));
}

/// A function without tables may use the frame pointer's register for numbers: its zero is no root.
#[test]
fn a_null_that_no_frame_record_led_to_is_no_root() {
    let recorded = Recorded::x86_64();
    let mut space = recorded.whole();
    let tableless = Arc::new(ModuleData::without_tables());
    space.add_module(recorded.code_of("deepest"), 0, tableless);
    let registers = recorded.registers.with(6, 0);
    let (mut frames, mut compact) = (Vec::new(), Vec::new());
    let outcome = Unwinder::new().unwind(&space, &registers, recorded.stack(), &mut frames);
    let by_rows = CompactUnwinder::new().unwind(&space, &registers, recorded.stack(), &mut compact);
    assert_eq!(recorded.names(&frames), ["capture", "deepest"]);
    let lost = UnwindOutcome::Failed(UnwindFailure::NoTable);
    assert_eq!((outcome, by_rows, compact), (lost, lost, frames));
}

#[test]
fn endless_recursion_is_cut() {
    let words: Vec<u64> = (1..2000)
        .flat_map(|n| [0x7000_0000 + 16 * n, 0x5555_0000])
        .collect();
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let registers = UnwindRegisters::x86_64(0x5555_0000, 0x7000_0000, 0x7000_0000);
    let mut frames = Vec::new();
    let stack = StackMemory::new(0x7000_0000, &bytes);
    let outcome = Unwinder::new().unwind(&AddressSpace::new(), &registers, stack, &mut frames);
    assert_eq!(
        (outcome, frames.len()),
        (UnwindOutcome::TooDeep, MAX_FRAMES)
    );
}

#[test]
fn truncated_files_are_named_with_the_offset() {
    for recorded in Recorded::all() {
        for length in 0..recorded.elf.len() {
            match ModuleData::from_bytes("short.so", &recorded.elf[..length]) {
                Err(e) => assert!(e.to_string().starts_with("short.so: "), "{e}"),
                Ok(_) => {
                    panic!("{length} bytes are not the whole file: its headers are at the end")
                }
            }
        }
    }
    let error = ModuleData::from_bytes("short.so", &Recorded::x86_64().elf[..5000]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Read {
                what: "the section headers",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("at offset 0x"), "{error}");
    let error = ModuleData::from_bytes("text", &[b'x'; 100]).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { offset: 0, .. }),
        "{error}"
    );
}

#[test]
fn a_file_that_claims_too_much_costs_no_memory() {
    let mut elf = Recorded::x86_64().elf.to_vec();
    let headers = u64::from_le_bytes(elf[40..48].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(elf[60..62].try_into().unwrap()));
    for section in 1..count {
        let size = headers + 64 * section + 32;
        elf[size..size + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    }
    let error = ModuleData::from_bytes("huge", &elf).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooBig {
                size: 0x100_0000_0000,
                ..
            }
        ),
        "{error}"
    );
}

/// Returns the x86-64 program with other tables: one entry for all its code, with these
/// instructions.
fn with_tables(instructions: &[u8]) -> ModuleData {
    let recorded = Recorded::x86_64();
    let file = object::File::parse(recorded.elf).unwrap();
    let range = |name| {
        let section = file.section_by_name(name).unwrap();
        let (start, size) = section.file_range().unwrap();
        start as usize..(start + size) as usize
    };
    // A CIE of version 1: code alignment 1, data alignment -8, return address in column 16.
    let mut cie = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16];
    cie.extend(instructions);
    let mut fde = (cie.len() as u32 + 8).to_le_bytes().to_vec();
    fde.extend(0x40_1000u64.to_le_bytes());
    fde.extend(0x1000u64.to_le_bytes());
    let mut table = Vec::new();
    for entry in [cie, fde] {
        table.extend((entry.len() as u32).to_le_bytes());
        table.extend(entry);
    }
    let mut elf = recorded.elf.to_vec();
    elf[range(".eh_frame")].fill(0);
    let start = range(".eh_frame").start;
    elf[start..start + table.len()].copy_from_slice(&table);
    elf[range(".eh_frame_hdr")].fill(0xff);
    ModuleData::from_bytes("other tables", &elf).unwrap()
}

#[test]
fn expressions_of_the_tables_are_bounded() {
    let recorded = Recorded::x86_64();
    let mut frames = Vec::new();
    let mut outcome = |instructions: &[u8]| {
        let space = recorded.space(with_tables(instructions));
        let stack = recorded.stack();
        Unwinder::new().unwind(&space, &recorded.registers, stack, &mut frames)
    };
    // CFA = rsp + 8; return address at CFA - 8: right for the innermost frame only.
    assert_ne!(
        outcome(&[0x0c, 7, 8, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::BadTable)
    );
    // CFA by an expression that jumps to its own start.
    assert_eq!(
        outcome(&[0x0f, 3, 0x2f, 0xfd, 0xff, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::BadTable)
    );
    // By one that pushes without end, and one that pops a missing value.
    assert_eq!(
        outcome(&[0x0f, 4, 0x31, 0x2f, 0xfc, 0xff, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::BadTable)
    );
    assert_eq!(
        outcome(&[0x0f, 1, 0x22, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::BadTable)
    );
    // By a register that was not recorded, and by memory outside of the stack.
    assert_eq!(
        outcome(&[0x0c, 32, 8, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::UnknownRegister(32))
    );
    assert_eq!(
        outcome(&[0x0f, 3, 0x08, 0x10, 0x06, 0x90, 1]),
        UnwindOutcome::Failed(UnwindFailure::NotAdvancing)
    );
    // Root: the return address is undefined.
    assert_eq!(outcome(&[0x0c, 7, 8, 0x07, 16]), UnwindOutcome::Complete);
}

fn identity(inode: u64) -> FileIdentity {
    FileIdentity {
        major: 8,
        minor: 1,
        inode,
        generation: 0,
    }
}

#[test]
fn files_are_read_once_and_memory_is_bounded() {
    let load = || ModuleData::from_bytes("recorded", Recorded::x86_64().elf);
    let mut cache = ModuleCache::new(usize::MAX);
    let held = cache.get(identity(1), load).unwrap();
    let one = cache.size();
    assert!(one > held.size());
    let again = cache.get(identity(1), || panic!("read twice")).unwrap();
    assert!(Arc::ptr_eq(&held, &again));
    assert!(
        cache
            .get(identity(2), || ModuleData::from_bytes("bad", b""))
            .is_err()
    );
    assert!(cache.get(identity(2), || panic!("read twice")).is_err());

    let mut cache = ModuleCache::new(3 * one);
    let held = cache.get(identity(0), load).unwrap();
    for inode in 1..100 {
        cache.get(identity(inode), load).unwrap();
        assert!(cache.size() <= 3 * one && cache.len() <= 3);
    }
    let again = cache
        .get(identity(0), || panic!("dropped while in use"))
        .unwrap();
    assert!(Arc::ptr_eq(&held, &again));
    let kept: Vec<_> = (200..202)
        .map(|inode| cache.get(identity(inode), load).unwrap())
        .collect();
    let full = cache.get(identity(300), load).unwrap_err();
    assert!(matches!(*full, Error::CacheFull { .. }), "{full}");
    drop(kept);
    cache.get(identity(400), load).unwrap();
}

/// Generates registers that mostly point to mapped places.
fn registers(recorded: &Recorded) -> impl Strategy<Value = UnwindRegisters> + use<> {
    let (sp, pc) = (recorded.registers.sp(), recorded.registers.pc() & !0xfff);
    let value = prop_oneof![
        any::<u64>(),
        (0u64..0x2000).prop_map(move |o| sp - 0x100 + o),
        (0u64..0x1000).prop_map(move |o| pc + o),
        prop::sample::select(vec![
            0,
            1,
            7,
            8,
            u64::MAX,
            u64::MAX - 7,
            i64::MAX as u64,
            1 << 63
        ]),
    ];
    let machine = recorded.machine;
    prop::collection::vec(value, 33).prop_map(move |v| {
        let start = match machine {
            UnwindMachine::X86_64 => UnwindRegisters::x86_64(v[32], v[7], v[6]),
            UnwindMachine::Aarch64 => UnwindRegisters::aarch64(v[32], v[31], v[29], v[30]),
        };
        (0..16).fold(start, |regs, n| {
            if n == 6 || n == 7 {
                regs
            } else {
                regs.with(n, v[n as usize])
            }
        })
    })
}

fn hostile(recorded: &'static Recorded) -> impl Strategy<Value = (UnwindRegisters, u64, Vec<u8>)> {
    let sp = recorded.registers.sp();
    let at = prop_oneof![
        Just(sp),
        any::<u64>(),
        (0u64..0x100).prop_map(move |o| sp - 0x80 + o),
        Just(u64::MAX - 100)
    ];
    let code = recorded.registers.pc() & !0xfff;
    let word = prop_oneof![
        any::<u64>(),
        (0u64..0x1000).prop_map(move |o| code + o),
        (0u64..0x2000).prop_map(move |o| sp + o),
    ];
    let stack = prop::collection::vec(word, 0..300);
    let stack = stack.prop_map(|words| words.iter().flat_map(|w| w.to_le_bytes()).collect());
    (registers(recorded), at, stack)
}

static ALL: std::sync::LazyLock<[Recorded; 3]> = std::sync::LazyLock::new(Recorded::all);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_stack_ends((which, registers, at, stack) in (0usize..3).prop_flat_map(|which| {
        hostile(&ALL[which]).prop_map(move |(r, at, s)| (which, r, at, s))
    })) {
        let mut frames = Vec::new();
        let outcome = Unwinder::new().unwind(&ALL[which].whole(), &registers, StackMemory::new(at, &stack), &mut frames);
        prop_assert!(!frames.is_empty() && frames.len() <= MAX_FRAMES);
        prop_assert_eq!(outcome == UnwindOutcome::TooDeep, false, "{} frames", frames.len());
    }

    /// Bits of the file flip, mostly in its headers and tables; the stack is real or not.
    #[test]
    fn damaged_tables_do_no_harm(
        (which, registers, at, stack) in (0usize..3).prop_flat_map(|which| {
            hostile(&ALL[which]).prop_map(move |(r, at, s)| (which, r, at, s))
        }),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..40),
    ) {
        let recorded = &ALL[which];
        let file = object::File::parse(recorded.elf).unwrap();
        let tables: Vec<usize> = [".eh_frame", ".eh_frame_hdr"].iter()
            .filter_map(|name| file.section_by_name(name)?.file_range())
            .flat_map(|(start, size)| start as usize..(start + size) as usize)
            .collect();
        let mut elf = recorded.elf.to_vec();
        for (index, bits, in_tables) in flips {
            let at = if in_tables { tables[index.index(tables.len())] } else { index.index(elf.len()) };
            elf[at] ^= bits;
        }
        if let Ok(module) = ModuleData::from_bytes("damaged", &elf) {
            let (space, mut unwinder, mut frames) = (recorded.space(module), Unwinder::new(), Vec::new());
            unwinder.unwind(&space, &registers, StackMemory::new(at, &stack), &mut frames);
            prop_assert!(frames.len() <= MAX_FRAMES);
            unwinder.unwind(&space, &recorded.registers, recorded.stack(), &mut frames);
            prop_assert!(frames.len() <= MAX_FRAMES);
        }
    }

    #[test]
    fn random_bytes_are_no_image(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(ModuleData::from_bytes("random", &bytes).is_err());
    }
}
