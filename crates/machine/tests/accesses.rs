//! Data addresses that follow from registers.

use machine::{Access, Interpreter, Registers, Seen};
use profile::ImageAddress;

/// `mov (%rdi),%rax; add $8,%rdi; cmp %rsi,%rdi; jne` back; `mov (%rcx),%rcx; mov 4(%rcx),%rax; push %rax;
/// mov 16(%rip),%rdx; ret`.
const CODE: [u8; 31] = [
    0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf4, 0x48, 0x8b, 0x09, 0x48,
    0x8b, 0x41, 0x04, 0x50, 0x48, 0x8b, 0x15, 0x10, 0, 0, 0, 0xc3, 0x90, 0x90, 0x90,
];

/// Where the code is in the image, and how much further in the process.
const START: u64 = 0x1000;
const MOVED: u64 = 0x7000_0000;

fn follow(interpreter: &mut Interpreter, at: u64, registers: Registers) -> Vec<Seen> {
    let mut seen = Vec::new();
    let registers = Registers {
        counter: at + MOVED,
        ..registers
    };
    let code = |place: ImageAddress, buffer: &mut [u8]| {
        let from = usize::try_from(place.0 - START).expect("in the code");
        let rest = CODE.get(from..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    };
    interpreter.follow(ImageAddress(at), &registers, code, |one| seen.push(one));
    seen
}

fn registers() -> Registers {
    let mut registers = Registers::default();
    registers.integer[1] = 0x9000; // rcx
    registers.integer[6] = 0x5020; // rsi
    registers.integer[7] = 0x5000; // rdi
    registers
}

#[test]
fn a_loop_shows_its_stride_and_a_loaded_pointer_nothing() {
    let mut interpreter = Interpreter::new();
    let accesses: Vec<Access> = follow(&mut interpreter, START, registers())
        .into_iter()
        .filter_map(|one| match one {
            Seen::Access(access) => Some(access),
            _ => None,
        })
        .collect();
    let addresses: Vec<_> = accesses
        .iter()
        .map(|one| (one.instruction.0 - START, one.address))
        .collect();
    assert_eq!(
        addresses,
        [
            (0, Some(0x5000)),
            (0, Some(0x5008)),
            (0, Some(0x5010)),
            (0, Some(0x5018)),
            (12, Some(0x9000)),
            // Its base was loaded; pushes do not count; the last is beside the code of the process.
            (15, None),
            (20, Some(START + MOVED + 27 + 16)),
        ]
    );
    let room: Vec<bool> = accesses.iter().map(|one| one.has_room).collect();
    // Four branches are half of those that are followed.
    assert_eq!(room, [true, true, true, true, false, false, false]);
}

#[test]
fn the_instruction_before_is_known_once_it_was_followed_and_left_its_registers() {
    let mut interpreter = Interpreter::new();
    let before = |seen: &[Seen]| match seen.first() {
        Some(Seen::Before(at, address)) => Some((at.0 - START, *address)),
        _ => None,
    };
    assert_eq!(
        before(&follow(&mut interpreter, START + 3, registers())),
        None
    );
    follow(&mut interpreter, START, registers());
    let second = follow(&mut interpreter, START + 3, registers());
    assert_eq!(before(&second), Some((0, 0x5000)));
    // The load of `rcx` overwrote its address, and what ends in front of the loop is not known.
    assert_eq!(
        before(&follow(&mut interpreter, START + 15, registers())),
        None
    );
    assert_eq!(before(&follow(&mut interpreter, START, registers())), None);
}
