//! Tests of the properties of decoded instructions: registers read and written, and kinds.

use machine::{Architecture, Flow, Instruction, InstructionDecoder, Register};
use profile::ImageAddress;

fn decode(architecture: Architecture, bytes: &[u8]) -> Instruction {
    let decoded = InstructionDecoder::new(architecture).decode(ImageAddress(0x1000), bytes);
    decoded.unwrap_or_else(|error| panic!("{bytes:x?}: {error}"))
}

fn x86(bytes: &[u8]) -> Instruction {
    decode(Architecture::X86_64, bytes)
}

fn arm(word: u32) -> Instruction {
    decode(Architecture::Aarch64, &word.to_le_bytes())
}

/// Returns the registers read and written, by name.
fn registers(instruction: &Instruction) -> (String, String) {
    let names = |set: machine::RegisterSet| {
        let names: Vec<String> = set.iter().map(|register| register.to_string()).collect();
        names.join(" ")
    };
    (names(instruction.reads), names(instruction.writes))
}

fn expect(instruction: Instruction, reads: &str, writes: &str) -> Instruction {
    assert_eq!(registers(&instruction), (reads.into(), writes.into()));
    instruction
}

#[test]
fn places_and_constants() {
    let place = |bytes: &[u8]| {
        let place = x86(bytes).place.expect("a place");
        let name = |register: Register| register.to_string();
        (
            place.base.map(name),
            place.index.map(|(index, scale)| (name(index), scale)),
            place.displacement,
            place.bytes,
        )
    };
    // mov %rax,8(%rdi,%rcx,4); mov %al,-1(%rsp); mov 0x10(%rip),%rax
    let (base, index) = (Some("r7".into()), Some(("r1".into(), 4)));
    assert_eq!(place(&[0x48, 0x89, 0x44, 0x8f, 0x08]), (base, index, 8, 8));
    let base = Some(Register::stack_pointer(Architecture::X86_64).to_string());
    assert_eq!(place(&[0x88, 0x44, 0x24, 0xff]), (base, None, -1, 1));
    let beside = place(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]);
    assert_eq!(beside, (None, None, 0x1017, 8));
    // push %rax with (%rbx): two places. lea: none.
    assert_eq!(x86(&[0xff, 0x33]).place, None);
    assert_eq!(x86(&[0x48, 0x8d, 0x07]).place, None);
    let by = |bytes: &[u8]| {
        let advances = x86(bytes).advances;
        advances.map(|(register, by)| (register.to_string(), by))
    };
    let rbx = |by: i64| Some(("r3".to_owned(), by));
    // add $8,%rbx; sub $0x1000,%rbx; inc %ebx; dec %rbx; lea -16(%rbx),%rbx; sub $1,%ebx
    assert_eq!(by(&[0x48, 0x83, 0xc3, 8]), rbx(8));
    assert_eq!(by(&[0x48, 0x81, 0xeb, 0, 0x10, 0, 0]), rbx(-0x1000));
    assert_eq!(by(&[0xff, 0xc3]), rbx(1));
    assert_eq!(by(&[0x48, 0xff, 0xcb]), rbx(-1));
    assert_eq!(by(&[0x48, 0x8d, 0x5b, 0xf0]), rbx(-16));
    assert_eq!(by(&[0x83, 0xeb, 1]), rbx(-1));
    // add %rax,%rbx; inc %bl; lea 8(%rax),%rbx; addq $8,(%rbx)
    for other in [
        &[0x48, 0x01, 0xc3][..],
        &[0xfe, 0xc3],
        &[0x48, 0x8d, 0x58, 8],
        &[0x48, 0x83, 0x03, 8],
    ] {
        assert_eq!(by(other), None, "{other:x?}");
    }
}

#[test]
fn x86_instructions() {
    // mov (%rdi),%rax
    let load = expect(x86(&[0x48, 0x8b, 0x07]), "r7", "r0");
    assert!(load.kind.load && !load.kind.store && load.length == 3);
    // mov %rax,8(%rdi,%rcx,4)
    let store = expect(x86(&[0x48, 0x89, 0x44, 0x8f, 0x08]), "r0 r1 r7", "");
    assert!(store.kind.store && !store.kind.load);
    // div %rcx
    assert!(x86(&[0x48, 0xf7, 0xf1]).kind.divide);
    // lock xadd %eax,(%rdi)
    let atomic = x86(&[0xf0, 0x0f, 0xc1, 0x07]).kind;
    assert!(atomic.locked && atomic.load && atomic.store);
    // sqrtsd %xmm1,%xmm0; mfence; syscall; nopl (%rax); rep stosb
    assert!(x86(&[0xf2, 0x0f, 0x51, 0xc1]).kind.divide);
    assert!(x86(&[0x0f, 0xae, 0xf0]).kind.serialising);
    let call = x86(&[0x0f, 0x05]);
    assert!(call.kind.system_call && call.flow == Flow::Next);
    let nop = x86(&[0x0f, 0x1f, 0x00]).kind;
    assert!(nop.nop && !nop.load);
    assert!(x86(&[0xf3, 0xaa]).kind.repeated);
    // jne +2; call +0; ret; ud2
    let branch = expect(x86(&[0x75, 0x02]), "flags", "");
    assert_eq!(branch.flow, Flow::Branch(ImageAddress(0x1004)));
    assert_eq!(
        x86(&[0xe8, 0, 0, 0, 0]).flow,
        Flow::Call(ImageAddress(0x1005))
    );
    assert_eq!(x86(&[0xc3]).flow, Flow::Return);
    assert_eq!(x86(&[0x0f, 0x0b]).flow, Flow::Stop);
}

#[test]
fn aarch64_instructions() {
    // ldr x0, [x1, x2, lsl #3]
    let load = expect(arm(0xf862_7820), "r1 r2", "r0");
    assert!(load.kind.load && !load.kind.store);
    // stp x29, x30, [sp, #-16]!
    let store = expect(arm(0xa9bf_7bfd), "r29 r30 r31", "r31");
    assert!(store.kind.store && !store.kind.load);
    // ldp x29, x30, [sp], #16
    expect(arm(0xa8c1_7bfd), "r31", "r29 r30 r31");
    // udiv x0, x1, x2; fmadd d0, d1, d2, d3
    assert!(expect(arm(0x9ac2_0820), "r1 r2", "r0").kind.divide);
    assert!(expect(arm(0x1f42_0c20), "v1 v2 v3", "v0").kind.vector);
    // cmp w0, #5; csel w0, w1, w2, eq
    expect(arm(0x7100_141f), "r0", "flags");
    expect(arm(0x1a82_0020), "r1 r2 flags", "r0");
    // ldaxr w0, [x1]; stlxr w2, w0, [x1]; dmb ish
    assert!(expect(arm(0x885f_fc20), "r1", "r0").kind.locked);
    let exclusive = expect(arm(0x8802_fc20), "r0 r1", "r2");
    assert!(exclusive.kind.locked && exclusive.kind.store);
    assert!(arm(0xd503_3bbf).kind.serialising);
    // cbz x0, +8; bl +4; br x16; ret
    assert_eq!(arm(0xb400_0040).flow, Flow::Branch(ImageAddress(0x1008)));
    assert_eq!(arm(0x9400_0001).flow, Flow::Call(ImageAddress(0x1004)));
    assert_eq!(arm(0xd61f_0200).flow, Flow::IndirectJump);
    assert_eq!(arm(0xd65f_03c0).flow, Flow::Return);
}
