//! Code that no compiler wrote: no panic, bounded work, and a consistent graph.

mod support;

mod slices;

use machine::{
    Architecture, CodeInterpreter, Edge, EdgeKind, Error, FlowGraph, InstructionDecoder,
    LoadedImage, MAX_PROCEDURE, NoImage, Registers, Slice, WayObservation,
};
use profile::ImageAddress;
use proptest::prelude::*;
use support::Fixture;

const START: ImageAddress = ImageAddress(0x1000);

/// An image with data everywhere, so that tables are everywhere.
struct Anything(u64);

impl LoadedImage for Anything {
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        let value = (address.0 ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        buffer.fill(0);
        if let Some(first) = buffer.first_mut() {
            *first = value as u8;
        }
        true
    }

    fn never_returns(&self, target: ImageAddress) -> bool {
        target.0 & 7 == self.0 & 7
    }
}

fn check(graph: &FlowGraph) {
    let mut starts = graph.blocks.iter().map(|block| block.start);
    assert!(graph.blocks.is_sorted_by_key(|block| block.start));
    assert_eq!(starts.next().map(|first| first >= graph.start), Some(true));
    let mut instructions = 0;
    for (index, block) in graph.blocks.iter().enumerate() {
        let own = graph.instructions_of(block);
        assert!(!own.is_empty() && block.end <= graph.end && block.start < block.end);
        instructions += own.len();
        for pair in own.windows(2) {
            assert_eq!(pair[0].end(), pair[1].address);
        }
        assert_eq!(graph.block_at(block.start), Some(index));
        assert!(graph.edges.iter().any(|edge| edge.from == Some(index)));
        assert!(graph.edges.iter().any(|edge| edge.to == Some(index)));
    }
    assert_eq!(instructions, graph.instructions.len());
    assert!(graph.edges.is_sorted());
    let ends = |edge: &Edge| edge.from.into_iter().chain(edge.to);
    assert!(
        graph
            .edges
            .iter()
            .flat_map(ends)
            .all(|end| end < graph.blocks.len())
    );
    assert_eq!(
        graph.unresolved.is_empty(),
        graph
            .edges
            .iter()
            .all(|edge| edge.kind != EdgeKind::Unresolved)
    );
}

fn both() -> impl Strategy<Value = Architecture> {
    prop_oneof![Just(Architecture::X86_64), Just(Architecture::Aarch64)]
}

#[test]
fn reserved_shifts_are_no_instructions() {
    // shl, sli, sqshl, sqshlu, uqshl of a scalar, with the size field zero
    for word in [
        0x5f00_5400_u32,
        0x7f07_57ff,
        0x5f00_7400,
        0x7f00_6400,
        0x7f07_77ff,
    ] {
        let bytes = word.to_le_bytes();
        let mut decoder = InstructionDecoder::new(Architecture::Aarch64);
        assert!(decoder.decode(START, &bytes).is_err());
        assert!(decoder.text(START, &bytes).is_err());
    }
    // shl d0, d0, #1
    let bytes = 0x5f41_5400_u32.to_le_bytes();
    let text = InstructionDecoder::new(Architecture::Aarch64).text(START, &bytes);
    assert_eq!(text.as_deref(), Ok("shl\t\td0, d0, #1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes(architecture in both(), code in prop::collection::vec(any::<u8>(), 1..600), seed: u64) {
        for image in [&NoImage as &dyn LoadedImage, &Anything(seed)] {
            if let Ok(graph) = FlowGraph::new(architecture, START, &code, image) {
                check(&graph);
            }
        }
    }

    /// Mostly short jumps and branches, to make a tangled graph.
    #[test]
    fn random_jumps(code in prop::collection::vec((0_u8..6, any::<i8>()), 1..300), seed: u64) {
        let mut bytes = Vec::new();
        for (kind, offset) in code {
            match kind {
                0 => bytes.extend([0xeb, offset as u8]),
                1 | 2 => bytes.extend([0x75, offset as u8]),
                3 => bytes.extend([0xe8, offset as u8, 0, 0, 0]),
                // jmp *0x100(,%rax,8)
                4 => bytes.extend([0xff, 0x24, 0xc5, 0, 1, 0, 0]),
                _ => bytes.push(offset as u8),
            }
        }
        if let Ok(graph) = FlowGraph::new(Architecture::X86_64, START, &bytes, &Anything(seed)) {
            check(&graph);
        }
    }

    #[test]
    fn every_word_is_an_instruction_or_an_error(words in prop::collection::vec(any::<u32>(), 1..200)) {
        let mut decoder = InstructionDecoder::new(Architecture::Aarch64);
        for word in words {
            let bytes = word.to_le_bytes();
            let decoded = decoder.decode(START, &bytes);
            prop_assert_eq!(decoded.is_ok(), decoder.text(START, &bytes).is_ok());
        }
    }

    #[test]
    fn flipped_bits(which in 0_usize..3, position: prop::sample::Index, bit in 0_u8..8) {
        let name = ["switch.gcc-O2", "switch.clang-O2", "switch.aarch64-gcc-O2"][which];
        let fixture = Fixture::open(name);
        for symbol in fixture.procedures() {
            let mut code = fixture.code(&symbol);
            let at = position.index(code.len());
            code[at] ^= 1 << bit;
            let start = ImageAddress(symbol.start);
            if let Ok(graph) = FlowGraph::new(fixture.architecture(), start, &code, &fixture) {
                check(&graph);
            }
        }
    }
}

#[test]
fn truncated_at_every_length() {
    for name in ["switch.clang-O2", "switch.aarch64-gcc-O2"] {
        let fixture = Fixture::open(name);
        for symbol in fixture.procedures() {
            let code = fixture.code(&symbol);
            for length in 0..code.len() {
                let start = ImageAddress(symbol.start);
                let graph =
                    FlowGraph::new(fixture.architecture(), start, &code[..length], &fixture);
                match graph {
                    Ok(graph) => check(&graph),
                    Err(error) => assert!(
                        matches!(error, Error::Empty(at) | Error::Truncated(at) if at == start),
                        "{name} {}[..{length}]: {error}",
                        symbol.name
                    ),
                }
            }
        }
    }
}

#[test]
fn what_is_no_procedure_is_refused() {
    let graph = |start, code: &[u8]| {
        FlowGraph::new(Architecture::X86_64, ImageAddress(start), code, &NoImage)
    };
    assert_eq!(graph(0x10, &[]), Err(Error::Empty(ImageAddress(0x10))));
    assert_eq!(
        graph(u64::MAX, &[0x90, 0xc3]),
        Err(Error::Wraps(ImageAddress(u64::MAX)))
    );
    // 0x06 is no instruction in 64-bit mode.
    assert_eq!(graph(0, &[6, 0xc3]), Err(Error::Invalid(ImageAddress(0))));
    let size = MAX_PROCEDURE as u64 + 1;
    let too_large = Err(Error::TooLarge { start: START, size });
    assert_eq!(graph(START.0, &vec![0xc3; MAX_PROCEDURE + 1]), too_large);
}

#[test]
fn a_jump_past_a_prefix_overlaps() {
    // je +1; lock cmpxchg %ecx,(%rdi); ret
    let code = [0x74, 0x01, 0xf0, 0x0f, 0xb1, 0x0f, 0xc3];
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    check(&graph);
    assert!(graph.overlapping && !graph.misses_edges());
    let starts: Vec<u64> = graph
        .blocks
        .iter()
        .map(|block| block.start.0 - START.0)
        .collect();
    assert_eq!(starts, [0, 2, 3, 6]);
    assert!(graph.instructions_of(&graph.blocks[1])[0].kind.locked);
    assert!(!graph.instructions_of(&graph.blocks[2])[0].kind.locked);
}

#[test]
fn the_end_of_a_procedure_runs_on_into_the_next() {
    // cmp %rax,%rdx; jb outside
    let code = [0x48, 0x39, 0xc2, 0x0f, 0x82, 0, 1, 0, 0];
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    check(&graph);
    assert!(!graph.misses_edges() && graph.returns());
    assert!(
        graph
            .edges
            .iter()
            .any(|edge| edge.kind == EdgeKind::TailCall)
    );
}

#[test]
fn a_jump_through_a_slot_is_a_tail_call() {
    // jmp *0x10(%rip); inc %eax; ret
    let code = [0xff, 0x25, 0x10, 0, 0, 0, 0xff, 0xc0, 0xc3];
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    check(&graph);
    assert!(!graph.misses_edges());
}

#[test]
fn data_in_the_text_is_data() {
    // jmp +8; eight bytes that are no code; ret
    let mut code = vec![0xeb, 0x08];
    code.extend([0x06; 8]);
    code.push(0xc3);
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    check(&graph);
    assert_eq!(graph.data, [ImageAddress(0x1002)..ImageAddress(0x100a)]);
    assert_eq!(graph.blocks.len(), 2);
}

#[test]
fn an_indirect_jump_beside_unreached_code_is_unresolved() {
    // jmp *%rax; inc %eax; ret
    let code = [0xff, 0xe0, 0xff, 0xc0, 0xc3];
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    check(&graph);
    assert!(graph.misses_edges());
    assert_eq!(graph.unresolved, [START]);
    assert!(
        graph
            .edges
            .iter()
            .any(|edge| edge.kind == EdgeKind::UnknownEntry)
    );
}

#[test]
fn a_hundred_thousand_blocks() {
    // test %eax,%eax; je +0 (100,000 times); ret
    let mut code = [0x85, 0xc0, 0x74, 0x00].repeat(100_000);
    code.push(0xc3);
    let graph = FlowGraph::new(Architecture::X86_64, START, &code, &NoImage).expect("a graph");
    assert_eq!(graph.blocks.len(), 100_001);
    assert_eq!(graph.edges.len(), 200_002);
}

/// Generates the first bytes of instructions on vectors and strings, which are rare among random
/// bytes.
fn start_of_instruction() -> impl Strategy<Value = Vec<u8>> {
    let known = |of: &[u8]| Just(of.to_vec()).boxed();
    prop_oneof![
        known(&[]),
        known(&[0x66, 0x0f]),
        known(&[0xf2, 0x0f]),
        known(&[0xf3, 0x0f]),
        known(&[0xf3]),
        known(&[0x66, 0x0f, 0x38]),
        known(&[0x66, 0x0f, 0x3a]),
        (0xc4_u8..=0xc5).prop_map(|first| vec![first]),
        any::<[u8; 3]>().prop_map(|payload| vec![
            0x62,
            payload[0] & 0xf3 | 1,
            payload[1] | 4,
            payload[2] & 0x7f
        ]),
        Just(vec![0xc5, 0xf8]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Interprets any code, with any memory, without a panic.
    #[test]
    fn any_code_is_interpreted_without_a_panic(
        code in proptest::collection::vec(
            (start_of_instruction(), proptest::collection::vec(any::<u8>(), 1..9)), 1..12),
        integer in proptest::array::uniform16(prop_oneof![0_u64..0x3000, any::<u64>()]),
        vector in proptest::option::of(any::<[[u64; 2]; 16]>()),
        flags in any::<u64>(),
    ) {
        let code: Vec<u8> = code.into_iter().flat_map(|(first, rest)| [first, rest].concat()).collect();
        let registers = Registers { integer, flags, counter: START.0, thread: Some(0x2000), vector };
        let read = |at: u64, buffer: &mut [u8]| {
            for (index, byte) in buffer.iter_mut().enumerate() {
                let at = at.wrapping_add(index as u64);
                let of = at.checked_sub(START.0).and_then(|offset| code.get(offset as usize));
                *byte = of.copied().unwrap_or(at as u8);
            }
            at < 0x4000
        };
        let mut walked = Vec::new();
        let walk = CodeInterpreter::new().walk(&registers, 0, 200, read, |one| walked.push(one));
        prop_assert!(walk.steps <= 200);
        let code = |at: ImageAddress, buffer: &mut [u8]| {
            if read(at.0, buffer) { buffer.len() } else { 0 }
        };
        let memory = |at: u64| {
            let mut byte = [0];
            read(at, &mut byte).then_some(byte[0])
        };
        // Memory reads learned at one sample lead further at the next, and never astray.
        let (mut slice, mut before) = (Slice::default(), 0);
        for _ in 0..4 {
            let values = slices::carry_out(&slice, &registers, memory);
            let known = Some((&mut slice, values.as_slice()));
            let mut followed = Vec::new();
            let each = |one| {
                if let WayObservation::Branch(one) = one {
                    followed.push(one);
                }
            };
            CodeInterpreter::new().follow(START, &registers, known, code, |_| None, each);
            let both = followed.len().min(walked.len());
            prop_assert_eq!(&followed[..both], &walked[..both]);
            prop_assert!(followed.len() >= before);
            before = followed.len();
        }
    }
}
