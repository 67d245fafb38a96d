//! Data addresses that follow from registers.

mod slices;

use machine::{CodeInterpreter, ObservedAccess, Registers, Slice, SliceKind, WayObservation};
use profile::ImageAddress;

/// `mov (%rdi),%rax; add $8,%rdi; cmp %rsi,%rdi; jne` back; `mov (%rcx),%rcx; mov 4(%rcx),%rax;
/// push %rax; mov 16(%rip),%rdx; ret`.
const CODE: [u8; 31] = [
    0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf4, 0x48, 0x8b, 0x09, 0x48,
    0x8b, 0x41, 0x04, 0x50, 0x48, 0x8b, 0x15, 0x10, 0, 0, 0, 0xc3, 0x90, 0x90, 0x90,
];

/// Address of the code in the image, and its load bias in the process.
const START: u64 = 0x1000;
const MOVED: u64 = 0x7000_0000;

fn follow(interpreter: &mut CodeInterpreter, at: u64, registers: Registers) -> Vec<WayObservation> {
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
    let each = |one| seen.push(one);
    interpreter.follow(ImageAddress(at), &registers, None, code, |_| None, each);
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
    let mut interpreter = CodeInterpreter::new();
    let accesses: Vec<ObservedAccess> = follow(&mut interpreter, START, registers())
        .into_iter()
        .filter_map(|one| match one {
            WayObservation::Access(access) => Some(access),
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
            // Its base was loaded; pushes do not count; the last one is relative to the code of the
            // process.
            (15, None),
            (20, Some(START + MOVED + 27 + 16)),
        ]
    );
    let room: Vec<bool> = accesses.iter().map(|one| one.has_room).collect();
    // Four branches are half of the maximum.
    assert_eq!(room, [true, true, true, true, false, false, false]);
}

#[test]
fn the_instruction_before_is_known_once_it_was_followed_and_left_its_registers() {
    let mut interpreter = CodeInterpreter::new();
    let before = |seen: &[WayObservation]| match seen.first() {
        Some(WayObservation::Before {
            instruction,
            address,
            ..
        }) => Some((instruction.0 - START, *address)),
        _ => None,
    };
    assert_eq!(
        before(&follow(&mut interpreter, START + 3, registers())),
        None
    );
    follow(&mut interpreter, START, registers());
    let second = follow(&mut interpreter, START + 3, registers());
    assert_eq!(before(&second), Some((0, 0x5000)));
    // The load of `rcx` overwrote its address, and the instruction before the loop is unknown.
    assert_eq!(
        before(&follow(&mut interpreter, START + 15, registers())),
        None
    );
    assert_eq!(before(&follow(&mut interpreter, START, registers())), None);
}

/// Returns the branches followed from the start of `code`, with these known words of memory: the
/// first time, and with the learned slice. Returns the slice, too.
fn ways(code: &[u8], registers: &Registers, known: &[(u64, u64)]) -> ([Vec<(u64, u64)>; 2], Slice) {
    let read = |place: ImageAddress, buffer: &mut [u8]| {
        let rest = code.get((place.0 - START) as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    };
    let byte = |at: u64| {
        let word = known.iter().find(|word| word.0 == at & !7)?;
        Some(word.1.to_le_bytes()[at as usize % 8])
    };
    let registers = Registers {
        counter: START + MOVED,
        ..*registers
    };
    let (mut slice, mut all) = (Slice::default(), Vec::new());
    loop {
        let before = slice.clone();
        let values = slices::carry_out(&slice, &registers, byte);
        let mut seen = Vec::new();
        let each = |one| {
            if let WayObservation::Branch(one) = one {
                seen.push((one.branch.0 - START, one.target.0 - START));
            }
        };
        let learned = Some((&mut slice, values.as_slice()));
        let start = ImageAddress(START);
        CodeInterpreter::new().follow(start, &registers, learned, read, |_| None, each);
        all.push(seen);
        if slice.operations() == before.operations() {
            let last = all.pop().unwrap_or_default();
            let first = all.into_iter().next().unwrap_or_else(|| last.clone());
            return ([first, last], slice);
        }
    }
}

/// `mov 8(%rdi),%rdi; test %rdi,%rdi; jne` back; `mov %rax,(%rbx); mov (%rsi),%rcx; mov
/// %rax,(%rcx); cmp %rax,(%rbx); je` over a `nop`; `ret`.
const LIST: [u8; 25] = [
    0x48, 0x8b, 0x7f, 0x08, 0x48, 0x85, 0xff, 0x75, 0xf7, 0x48, 0x89, 0x03, 0x48, 0x8b, 0x0e, 0x48,
    0x89, 0x01, 0x48, 0x39, 0x03, 0x74, 0x01, 0x90, 0xc3,
];

/// A list is followed as far as memory is known; the function returns to the address on the stack.
#[test]
fn what_the_code_reads_is_learned_and_leads_on() {
    let mut registers = registers();
    registers.integer[3] = 0x8000; // rbx
    registers.integer[4] = 0x7000; // rsp
    let ([first, then], _) = ways(&LIST, &registers, &[]);
    assert_eq!((first, then), (vec![], vec![]));
    let list = [(0x5008, 0x6000), (0x6008, 0x6100)];
    let ([first, then], _) = ways(&LIST, &registers, &list);
    assert_eq!((first, then), (vec![], vec![(7, 0); 2]));
    // The last element has no successor; stored values are known, although an unknown address was
    // written since; and the end of the function leads back to the loop.
    let whole = [list.as_slice(), &[(0x6108, 0), (0x7000, START + MOVED + 4)]];
    let end = [(7, 9), (21, 24)];
    let expected = [[(7, 0); 2], end, end].concat();
    let ([_, then], slice) = ways(&LIST, &registers, &whole.concat());
    assert_eq!(then, expected);
    let loads = slice.operations().iter();
    assert!(loads.filter(|one| one.kind == SliceKind::Load).count() >= 5);
}

/// `cvttsd2si (%rsi),%rax; cmp $3,%rax; je` over a `nop`; `ret`, and the same in single precision.
#[test]
fn numbers_in_memory_are_truncated() {
    for (prefix, number) in [(0xf2, 3.7_f64.to_bits()), (0xf3, 3.7_f32.to_bits().into())] {
        let code = [
            prefix, 0x48, 0x0f, 0x2c, 0x06, 0x48, 0x83, 0xf8, 0x03, 0x74, 0x01, 0x90, 0xc3,
        ];
        let ([_, then], _) = ways(&code, &registers(), &[(0x5020, number)]);
        assert_eq!(then, [(9, 12)]);
    }
}

/// A table is indexed by an entry of another one, as in a parser; and by a shift and a mask, as in
/// a bytecode interpreter.
#[test]
fn addresses_are_computed() {
    let lookup: &[&[u8]] = &[
        &[0x0f, 0xb6, 0x07],             // movzbl (%rdi),%eax
        &[0x0f, 0xbe, 0x44, 0x03, 0x08], // movsbl 8(%rbx,%rax),%eax
        &[0x48, 0x98],                   // cltq
        &[0x48, 0x83, 0x3c, 0xc6, 0x01], // cmpq $1,(%rsi,%rax,8)
        &[0x74, 0x01, 0x90, 0xc3],       // je over a nop; ret
    ];
    let mut registers = registers();
    registers.integer[3] = 0x9000; // rbx
    // The sixth character has class -2.
    let known = [(0x5000, 5), (0x9008, 0xfe << 40), (0x5010, 1)];
    let ([first, then], _) = ways(&lookup.concat(), &registers, &known);
    assert_eq!((first, then), (vec![], vec![(15, 18)]));

    let decode: &[&[u8]] = &[
        &[0x8b, 0x07],             // mov (%rdi),%eax
        &[0x89, 0xc1],             // mov %eax,%ecx
        &[0xc1, 0xe9, 0x07],       // shr $7,%ecx
        &[0x83, 0xe0, 0x7f],       // and $0x7f,%eax
        &[0x0f, 0xb6, 0xc9],       // movzbl %cl,%ecx
        &[0x48, 0xc1, 0xe1, 0x04], // shl $4,%rcx
        &[0x48, 0x01, 0xd9],       // add %rbx,%rcx
        &[0x39, 0x41, 0x08],       // cmp %eax,8(%rcx)
        &[0x74, 0x01, 0x90, 0xc3], // je over a nop; ret
    ];
    let known = [(0x5000, 0x8000_0000 | 3 << 7 | 0x11), (0x9038, 0x11)];
    let ([_, then], _) = ways(&decode.concat(), &registers, &known);
    assert_eq!(then, [(23, 26)]);
}
