//! Compact tables against the unwinder that evaluates the original tables.
#![allow(missing_docs)]

use object::{Object, ObjectSymbol};
use profile::ProcessAddress;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use unwind::{
    AddressSpace, CallerRule, CompactFrame, CompactKind, CompactReturn, CompactRule, CompactTable,
    CompactUnwinder, ModuleData, StackMemory, UnwindFailure, UnwindMachine, UnwindOutcome,
    UnwindRegisters, Unwinder,
};

fn fixtures() -> [(UnwindMachine, &'static [u8]); 3] {
    let records = include_bytes!("fixtures/aarch64-records");
    [
        (UnwindMachine::X86_64, include_bytes!("fixtures/x86_64")),
        (UnwindMachine::Aarch64, include_bytes!("fixtures/aarch64")),
        (UnwindMachine::Aarch64, records),
    ]
}

/// Returns the file offset and size of a function in a fixture for AArch64, whose first segment
/// contains all code.
fn place_of(elf: &[u8], name: &str) -> (u64, u64) {
    let file = object::File::parse(elf).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(name)).unwrap();
    (symbol.address() - 0x40_0000, symbol.size())
}

/// Returns the rule as a [`CallerRule`], if it can be expressed so.
fn in_offsets(rule: CompactRule) -> Option<CallerRule> {
    let from_frame_pointer = match rule.kind {
        CompactKind::StackPointer => false,
        CompactKind::FramePointer => true,
        _ => return None,
    };
    let frame_pointer = (rule.frame == CompactFrame::AtCfa).then_some(rule.frame_offset.into());
    Some(CallerRule {
        from_frame_pointer,
        cfa: rule.cfa_offset.into(),
        return_address: match rule.link {
            CompactReturn::AtCfa => Some(rule.return_offset.into()),
            CompactReturn::InLink => None,
            CompactReturn::InRegister => return None,
        },
        frame_pointer,
    })
}

/// Compares each place in the code, and counts those with an ordinary rule.
fn compare(name: &str, module: &ModuleData, offsets: impl Iterator<Item = u64>) -> usize {
    let table = CompactTable::compile(name, module).unwrap();
    let mut unwinder = Unwinder::new();
    let mut ordinary = 0;
    for offset in offsets {
        let rule = table.find_rule(offset);
        let expected = unwinder.caller_rule(module, offset);
        // The linker's stubs have their own rules here, and offsets there.
        if rule.kind != CompactKind::LinkageStub {
            assert_eq!(
                in_offsets(rule),
                expected,
                "{name} at {offset:#x}: {rule:?}"
            );
        }
        ordinary += usize::from(expected.is_some());
    }
    ordinary
}

#[test]
fn every_place_of_the_fixtures_has_the_same_rule() {
    for (machine, elf) in fixtures() {
        let module = ModuleData::from_bytes("fixture", elf).unwrap();
        let ordinary = compare("fixture", &module, 0..elf.len() as u64);
        assert!(ordinary > 200, "{machine:?}: {ordinary}");
    }
}

/// The return address is first in the link register, and then, signed or not, on the stack.
#[test]
fn functions_of_aarch64_begin_in_the_link_register() {
    for (records, (_, elf)) in [(false, fixtures()[1]), (true, fixtures()[2])] {
        let module = ModuleData::from_bytes("fixture", elf).unwrap();
        let table = CompactTable::compile("fixture", &module).unwrap();
        let (start, size) = place_of(elf, "busy");
        let first = table.find_rule(start);
        let innermost = CompactRule {
            link: CompactReturn::InLink,
            ..CompactRule::bare(CompactKind::StackPointer)
        };
        assert_eq!(first, innermost);
        // Compilers end functions with a jump or return, before which the frame is already removed.
        let middle = table.find_rule(start + size / 2 / 4 * 4);
        assert_eq!(
            (middle.kind, middle.link),
            (CompactKind::StackPointer, CompactReturn::AtCfa)
        );
        assert!(middle.cfa_offset >= 16, "{middle:?}");
        let record = (CompactFrame::AtCfa, i32::from(middle.return_offset) - 8);
        let has_record = (middle.frame, middle.frame_offset) == record;
        assert_eq!(has_record, records, "{middle:?}");
    }
}

#[test]
fn places_all_over_real_images_have_the_same_rule() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut images: Vec<&str> = profile::MapsLine::parse_all(&maps)
        .map(|line| line.path)
        .filter(|path| path.starts_with('/'))
        .collect();
    images.sort_unstable();
    images.dedup();
    let mut ordinary = 0;
    for path in images {
        let Ok(module) = ModuleData::open(Path::new(path)) else {
            continue;
        };
        let size = std::fs::metadata(path).unwrap().len();
        let step = (size / 30_000).max(1);
        ordinary += compare(path, &module, (0..size / step).map(|n| n * step));
    }
    assert!(ordinary > 10_000, "{ordinary}");
}

#[derive(Debug)]
struct Made {
    space: AddressSpace,
    registers: UnwindRegisters,
    words: Vec<u8>,
}

/// Generates a stack of random words, many of them addresses of code and of the stack itself.
fn made() -> impl Strategy<Value = Made> {
    let word = prop_oneof![
        (0u64..0x2000).prop_map(|n| 0x40_0000 + n),
        (0u64..600).prop_map(|n| 0x7000_0000 + 8 * n),
        Just(0u64),
        any::<u64>(),
    ];
    let words = prop::collection::vec(word, 1..500);
    let place = (0usize..3, 0u64..0x2000, 0u64..600, any::<u64>());
    (words, place).prop_map(|(words, (which, pc, fp, other))| {
        let (machine, elf) = fixtures()[which];
        let (pc, sp, fp) = (0x40_0000 + pc, 0x7000_0000, 0x7000_0000 + 8 * fp);
        let registers = match machine {
            UnwindMachine::X86_64 => UnwindRegisters::x86_64(pc, sp, fp).with(3, other),
            UnwindMachine::Aarch64 => UnwindRegisters::aarch64(pc, sp, fp, pc ^ (other & 0xff0)),
        };
        let mut space = AddressSpace::new();
        let (range, offset) = match machine {
            UnwindMachine::X86_64 => (0x40_1000..0x40_2000, 0x1000),
            UnwindMachine::Aarch64 => (0x40_0000..0x40_1000, 0),
        };
        let module = Arc::new(ModuleData::from_bytes("fixture", elf).unwrap());
        let range = ProcessAddress(range.start)..ProcessAddress(range.end);
        space.add_module(range, offset, module);
        Made {
            space,
            registers,
            words: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Frames agree as far as compact rules go, for any stack contents.
    #[test]
    fn made_up_stacks_unwind_alike(made in made()) {
        let Made { space, registers, words } = made;
        let stack = StackMemory::new(0x7000_0000, &words);
        let (mut whole, mut compact) = (Vec::new(), Vec::new());
        let expected = Unwinder::new().unwind(&space, &registers, stack, &mut whole);
        let outcome = CompactUnwinder::new().unwind(&space, &registers, stack, &mut compact);
        match outcome {
            UnwindOutcome::Failed(UnwindFailure::BadTable | UnwindFailure::UnknownRegister(_)) => {
                prop_assert!(whole.starts_with(&compact), "{whole:?} {compact:?}");
            }
            _ => prop_assert_eq!((&compact, outcome), (&whole, expected)),
        }
    }

    /// Damaged images are refused, or give a table in which every search ends.
    #[test]
    fn damaged_images_give_sound_tables(
        which in 0usize..3, at in any::<prop::sample::Index>(), bytes: [u8; 6], asked in 0u64..0x3000,
    ) {
        let mut elf = fixtures()[which].1.to_vec();
        let at = at.index(elf.len() - bytes.len());
        elf[at..at + bytes.len()].copy_from_slice(&bytes);
        if let Ok(module) = ModuleData::from_bytes("damaged", &elf)
            && let Ok(table) = CompactTable::compile("damaged", &module)
        {
            table.find_rule(asked);
            prop_assert_eq!(CompactTable::from_bytes(&table.to_bytes()), Some(table));
        }
    }
}

/// The table of an image is no larger than its code.
#[test]
fn an_entry_for_all_addresses_covers_the_code_that_there_is() {
    let elf = fixtures()[0].1;
    let module = ModuleData::from_bytes("fixture", elf).unwrap();
    let table = CompactTable::compile("fixture", &module).unwrap();
    assert!(u64::from(table.blocks()) * 256 <= elf.len() as u64 + 256);
    assert_eq!(table.find_rule(u64::MAX).kind, CompactKind::Uncovered);
}

/// A table for a recording that has ended need not be complete.
#[test]
fn a_table_is_whole_or_not_made() {
    let module = ModuleData::open(&std::env::current_exe().unwrap()).unwrap();
    let compile = |most: usize| {
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= most
        };
        let table = CompactTable::compile_while("this program", &module, &go_on);
        (table.unwrap(), asked.get())
    };
    let (whole, all) = compile(usize::MAX);
    assert!(all > 10, "{all}");
    assert_eq!(
        whole,
        Some(CompactTable::compile("this program", &module).unwrap())
    );
    for most in [0, 1, all / 2, all - 1] {
        let (none, asked) = compile(most);
        assert_eq!(none, None);
        // It stops soon: each of its tables checks at most once more, and so does the end.
        assert!(asked <= most + 4, "{asked} after {most}");
    }
}

/// The child of `vfork` overwrites the stack, so that glibc keeps the return address in a register
/// meanwhile. The caller's stack pointer is the callee's there.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_return_address_in_a_register_leads_to_the_caller() {
    const RDI: u16 = 5;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines: Vec<_> = profile::MapsLine::parse_all(&maps).collect();
    let Some(libc) = lines.iter().find(|line| line.path.ends_with("/libc.so.6")) else {
        return; // another C library than the one that the test is about
    };
    let bytes = std::fs::read(libc.path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = file.dynamic_symbols().find(|s| s.name() == Ok("vfork"));
    let module = Arc::new(ModuleData::open(Path::new(libc.path)).unwrap());
    let address = symbol.expect("vfork").address();
    let mut space = AddressSpace::new();
    let start = 0x7f00_0000_0000;
    // As if the file were mapped unchanged: offsets of code are addresses in glibc's library.
    let range = ProcessAddress(start)..ProcessAddress(start + bytes.len() as u64);
    space.add_module(range, 0, module.clone());
    let (sp, caller) = (0x7000_0000, start + address + 64);
    // After `pop %rdi; mov $58, %eax; syscall`.
    let pc = start + address + 8;
    let table = CompactTable::compile("libc", &module).unwrap();
    let rule = table.find_rule(address + 8);
    assert_eq!(
        (rule.link, rule.return_offset),
        (CompactReturn::InRegister, 5)
    );
    assert_eq!(CompactRule::from_bytes(rule.to_bytes()), Some(rule));
    let words = [0u8; 8];
    let stack = StackMemory::new(sp, &words);
    for (known, expected) in [(true, 2), (false, 1)] {
        let mut registers = UnwindRegisters::x86_64(pc, sp, 0);
        if known {
            registers = registers.with(RDI, caller);
        }
        let (mut whole, mut compact) = (Vec::new(), Vec::new());
        Unwinder::new().unwind(&space, &registers, stack, &mut whole);
        CompactUnwinder::new().unwind(&space, &registers, stack, &mut compact);
        assert_eq!(whole, compact);
        assert!(whole.len() >= expected && (known || whole.len() == 1));
        assert!(!known || whole[1] == ProcessAddress(caller - 1));
    }
}
