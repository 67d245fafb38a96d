use super::*;
use proptest::prelude::*;

fn frames(bytes: &[u8], entry: u64) -> CodeFrames {
    let part = ElfBytes {
        address: 0x1000,
        bytes: bytes.to_vec(),
    };
    CodeFrames::follow_code(&[part], entry)
}

fn by_stack(cfa: i64, frame_pointer: Option<i64>) -> CodeRule {
    CodeRule::Caller(CallerRule {
        from_frame_pointer: false,
        cfa,
        return_address: Some(-8),
        frame_pointer,
    })
}

fn rules(bytes: &[u8], places: &[u64]) -> Vec<CodeRule> {
    let frames = frames(bytes, 0);
    places
        .iter()
        .map(|at| frames.rule_at(0x1000 + at))
        .collect()
}

#[test]
fn the_stack_pointer_is_followed_and_a_set_frame_pointer_serves_where_it_is_lost() {
    // push %rbp; mov %rsp,%rbp; push %rbx; sub %rax,%rsp; nop; lea -8(%rbp),%rsp; pop %rbx; pop
    // %rbp; ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x29, 0xc4, 0x90, 0x48, 0x8d, 0x65, 0xf8, 0x5b, 0x5d,
        0xc3,
    ];
    let by_pointer = CodeRule::Caller(CallerRule::WITH_FRAME_POINTER);
    let saved = Some(-16);
    assert_eq!(
        rules(&code, &[0, 1, 5, 8, 13, 14, 15, 16]),
        [
            by_stack(8, None),
            by_stack(16, saved),
            by_stack(24, saved),
            by_pointer,
            by_stack(24, saved),
            by_stack(16, saved),
            by_stack(8, None),
            CodeRule::Unknown,
        ]
    );
}

#[test]
fn a_function_behind_a_call_that_does_not_return_is_another_one() {
    // push %rbx; test %edi,%edi; je +6; call 0x100c; pop %rbx; ret; (0x100c) hlt; (0x100d) push
    // %rcx; pop %rcx; ret
    let code = [
        0x53, 0x85, 0xff, 0x74, 0x05, 0xe8, 0x02, 0, 0, 0, 0x5b, 0xc3, 0xf4, 0x51, 0x59, 0xc3,
    ];
    assert_eq!(
        rules(&code, &[5, 10, 12, 13, 14]),
        [16, 16, 8, 8, 16].map(|cfa| by_stack(cfa, None))
    );
    // push %rbx; call 0x100a; (0x1006) push %rcx; pop %rcx; ret; nop; (0x100a) ud2: the first
    // function does not return.
    let code = [
        0x53, 0xe8, 0x04, 0, 0, 0, 0x51, 0x59, 0xc3, 0x90, 0x0f, 0x0b,
    ];
    assert_eq!(
        rules(&code, &[1, 6, 7]),
        [16, 8, 16].map(|cfa| by_stack(cfa, None))
    );
}

#[test]
fn blocks_behind_a_jump_through_a_table_are_of_its_function() {
    // push %rbx; jmp *(,%rdi,8); nop %rax...: xor %eax,%eax; pop %rbx; ret
    let code = [
        0x53, 0xff, 0x24, 0xfd, 0, 0x20, 0, 0, 0x31, 0xc0, 0x5b, 0xc3,
    ];
    assert_eq!(
        rules(&code, &[8, 10, 11]),
        [16, 16, 8].map(|cfa| by_stack(cfa, None))
    );
}

#[test]
fn first_functions_and_returns_of_signal_handlers_are_known() {
    // xor %ebp,%ebp; pop %rdi; call *%r9; ret; mov $15,%eax; syscall
    let code = [
        0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1, 0xc3, 0xb8, 15, 0, 0, 0, 0x0f, 0x05,
    ];
    let root = CodeRule::Root;
    assert_eq!(
        rules(&code, &[0, 2, 5, 6, 7, 13]),
        [
            by_stack(8, None),
            root,
            root,
            CodeRule::SignalReturn,
            CodeRule::SignalReturn,
            CodeRule::SignalReturn
        ]
    );
    assert_eq!(frames(&code, 0x1000).rule_at(0x1000), root);
}

proptest! {
    #[test]
    fn any_code_has_sorted_rules(bytes in prop::collection::vec(any::<u8>(), 0..600), entry in 0x0ff0u64..0x1300) {
        let frames = frames(&bytes, entry);
        let end = 0x1000 + bytes.len() as u64;
        prop_assert!(frames.changes.is_sorted_by_key(|(at, _)| *at));
        prop_assert_eq!(frames.rule_at(0xfff), CodeRule::Unknown);
        prop_assert_eq!(frames.rule_at(end), CodeRule::Unknown);
    }
}
