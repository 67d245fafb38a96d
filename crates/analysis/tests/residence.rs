//! Bounds on misses in a small loop from code and data addresses.

use analysis::stall::culprits::{Cause, Evidence, expectations, find_culprits};
use analysis::stall::{Confidence, Estimate, Frequencies};
use machine::{Architecture, FlowGraph, Loops, NoImage, Processor, ProcessorModel};
use profile::{Accesses, ImageAddress, OnWay, Visits, add_way};
use rustc_hash::FxHashMap;

/// `mov (%rbx,%rax,8),%rax; add %rax,%rcx; mov 0x1000(%rip),%rdx; add %rdx,%rcx; dec %rsi; jne`
/// back; `ret`.
const LOOP: [u8; 23] = [
    0x48, 0x8b, 0x04, 0xc3, 0x48, 0x01, 0xc1, 0x48, 0x8b, 0x15, 0, 0x10, 0, 0, 0x48, 0x01, 0xd1,
    0x48, 0xff, 0xce, 0x75, 0xea, 0xc3,
];

/// The same loop, but with a call instead of the second addition.
const CALLING: [u8; 25] = [
    0x48, 0x8b, 0x04, 0xc3, 0x48, 0x01, 0xc1, 0x48, 0x8b, 0x15, 0, 0x10, 0, 0, 0xe8, 0, 1, 0, 0,
    0x48, 0xff, 0xce, 0x75, 0xe8, 0xc3,
];

/// Returns the misses listed after the first load and after the second: both take a hundred cycles.
fn listed(code: &[u8], seen: Option<&Accesses>, elsewhere: Option<f64>) -> [String; 2] {
    let model = ProcessorModel::new(Processor::named("skylake").expect("there"));
    let start = ImageAddress(0x40_1000);
    let graph = FlowGraph::new(Architecture::X86_64, start, code, &NoImage).expect("a procedure");
    let loops = Loops::of(&graph);
    assert_eq!(loops.loops.len(), 1);
    let estimate = |frequency| {
        Some(Estimate {
            frequency,
            confidence: Confidence::High,
            deviation: None,
        })
    };
    // A hundred thousand rounds for each entry.
    let often = |block: Option<usize>| block.is_some_and(|one| loops.innermost[one].is_some());
    let frequency = |is_often| estimate(if is_often { 20.0 } else { 2e-4 });
    let blocks = 0..graph.blocks.len();
    let edges = graph.edges.iter();
    let frequencies = Frequencies {
        blocks: blocks.map(|block| frequency(often(Some(block)))).collect(),
        edges: edges
            .map(|edge| frequency(often(edge.from) && often(edge.to)))
            .collect(),
    };
    let mut samples = vec![0.0; graph.instructions.len()];
    (samples[1], samples[3]) = (2000.0, 2000.0);
    let mut accesses = vec![None; graph.instructions.len()];
    accesses[0] = seen;
    let found = find_culprits(&Evidence {
        expected: &expectations(&graph, &model, &samples, &frequencies),
        graph: &graph,
        loops: &loops,
        processor: model.processor(),
        samples: &samples,
        frequencies: &frequencies,
        period: None,
        events: &[],
        mispredicted: &[],
        kernel: Some(0.0),
        accesses: if seen.is_some() { &accesses } else { &[] },
        elsewhere,
        late: 0,
        trust: &[],
        shared: false,
    });
    [1, 3].map(|index| {
        let account = found.accounts[index].as_ref().expect("it ran");
        assert!(account.stall > 90.0);
        let misses = account.culprits.iter().map(|one| one.cause);
        let data = misses.filter(|cause| matches!(cause, Cause::DataCache | Cause::DataTlb));
        data.map(Cause::letter).collect()
    })
}

/// Returns the evidence of `samples` samples about a load whose n-th address is `address(n)`: four
/// executions after each sample, and the one before it.
fn seen(samples: u64, address: impl Fn(u64) -> u64) -> Accesses {
    let mut table: FxHashMap<(), Accesses> = FxHashMap::default();
    for sample in 0..samples {
        // A prime distance apart.
        let first = 1 + sample * 1013;
        if let Some(seen) = table.get_mut(&()) {
            seen.wait(0, address(first - 1));
        }
        let way: Vec<OnWay<()>> = (0..5)
            .map(|next| OnWay {
                instruction: (),
                address: Some(address(first + next)),
                has_room: next < 4,
            })
            .collect();
        add_way(0, &way, 1, &mut table);
    }
    table.remove(&()).expect("samples")
}

fn mixed(value: u64) -> u64 {
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

#[test]
fn an_address_in_the_code_needs_no_samples() {
    // Wherever the first load goes, the second's line is accessed again before 255 others.
    assert_eq!(listed(&LOOP, None, None), ["dD", ""]);
    // Not if the loop calls unknown code.
    assert_eq!(listed(&CALLING, None, None)[1], "dD");
    // Unless hardly anything else was executed.
    assert_eq!(listed(&CALLING, None, Some(0.0))[1], "");
    assert_eq!(listed(&CALLING, None, Some(4000.0))[1], "dD");
}

/// Returns the loop with another first load, and something else instead of the second addition.
fn looping(load: [u8; 4], then: &[u8]) -> Vec<u8> {
    let mut code = LOOP[..14].to_vec();
    code[..4].copy_from_slice(&load);
    code.extend(then);
    code.extend([0x48, 0xff, 0xce, 0x75]);
    code.push((-(code.len() as i64 + 1)) as u8);
    code.push(0xc3);
    code
}

#[test]
fn the_code_says_what_stays_and_what_moves_on() {
    let first = |load: [u8; 4], then: &[u8]| listed(&looping(load, then), None, None)[0].clone();
    // mov 8(%rbx),%rax; and mov (%rbx,%rsi,8),%rax, where the loop has dec %rsi.
    let (field, element) = ([0x48, 0x8b, 0x43, 8], [0x48, 0x8b, 0x04, 0xf3]);
    assert_eq!(first(field, &[]), "");
    // A line each eighth time, a page each 512th; so too with sub $64,%rbx, each time and each
    // 64th.
    assert_eq!(first(element, &[]), "d");
    assert_eq!(first(field, &[0x48, 0x83, 0xeb, 64]), "d");
    // sub $0x1000,%rbx: a page each time, and for eight a line of the page table.
    assert_eq!(first(field, &[0x48, 0x81, 0xeb, 0, 0x10, 0, 0]), "dD");
    // mov %rax,%rbx: the loaded value is the next address. add %rcx,%rbx: the step is unknown.
    assert_eq!(first(field, &[0x48, 0x89, 0xc3]), "dD");
    assert_eq!(first(field, &[0x48, 0x01, 0xcb]), "dD");
    // The callee may write the register.
    let mut calling = CALLING;
    calling[..4].copy_from_slice(&field);
    assert_eq!(listed(&calling, None, None)[0], "dD");
}

#[test]
fn the_stack_is_in_the_cache_and_forwards_what_was_stored_whole() {
    // mov (%rsp),%rax; and then mov %rcx,(%rsp), mov %cl,(%rsp), mov %cl,8(%rsp), lea (%rsp),%rdx.
    let first = |then: &[u8]| {
        let code = looping([0x48, 0x8b, 0x04, 0x24], then);
        listed(&code, None, None)[0].clone()
    };
    assert_eq!(first(&[]), "");
    assert_eq!(first(&[0x48, 0x89, 0x0c, 0x24]), "");
    assert_eq!(first(&[0x88, 0x0c, 0x24]), "d");
    assert_eq!(first(&[0x88, 0x4c, 0x24, 8]), "");
    assert_eq!(first(&[0x48, 0x8d, 0x14, 0x24]), "d");
}

#[test]
fn repetitions_miss_where_the_repeated_instruction_is_sampled() {
    // mov %rdx,%rcx; rep movsb, rep stosb or nop; add %rax,%r8; add %rdx,%r8; dec %r9; jne; ret.
    let around = |middle: &[u8]| {
        let mut code = vec![0x48, 0x89, 0xd1];
        code.extend(middle);
        code.extend([0x49, 0x01, 0xc0, 0x49, 0x01, 0xd0, 0x49, 0xff, 0xc9, 0x75]);
        code.push((-(code.len() as i64 + 1)) as u8);
        code.push(0xc3);
        code
    };
    assert_eq!(listed(&around(&[0xf3, 0xa4]), None, None), ["dD", ""]);
    // A store only waits for its address translation.
    assert_eq!(listed(&around(&[0xf3, 0xaa]), None, None), ["D", ""]);
    assert_eq!(listed(&around(&[0x90]), None, None), ["", ""]);
}

#[test]
fn a_place_that_never_changes_is_in_the_cache() {
    assert_eq!(listed(&LOOP, Some(&seen(2000, |_| 64)), None)[0], "");
    // Ten samples are no evidence.
    assert_eq!(listed(&LOOP, Some(&seen(10, |_| 64)), None)[0], "dD");
}

#[test]
fn a_stream_misses_the_cache_and_not_the_dtlb() {
    let stream = seen(2000, |n| 8 * n);
    assert_eq!((stream.stride, stream.strided), (8, 8000));
    assert_eq!(listed(&LOOP, Some(&stream), None)[0], "d");
    // Unless the waits are at the starts of pages.
    let mut waited = stream;
    (waited.waited_line, waited.waited_page) = (1500, 1500);
    let mut found = listed(&LOOP, Some(&waited), None);
    assert_eq!(found[0], "d", "a walk costs so much only once in 512 times");
    waited.new_page = 1500;
    found = listed(&LOOP, Some(&waited), None);
    assert_eq!(found[0], "dD");
}

#[test]
fn few_pages_are_in_the_dtlb_and_many_are_not() {
    let few = seen(5000, |n| mixed(n) % (20 << 12));
    assert_eq!(few.pages.distinct(), 20.0);
    assert_eq!(listed(&LOOP, Some(&few), None)[0], "d");
    let many = seen(5000, |n| mixed(n) % (1 << 30));
    assert_eq!(listed(&LOOP, Some(&many), None)[0], "dD");
}

#[test]
fn numbers_that_no_recorder_wrote_are_survived() {
    let mut odd = Accesses {
        known: u64::MAX,
        unknown: u64::MAX,
        strided: u64::MAX,
        new_page: u64::MAX,
        waited_page: u64::MAX,
        ..Accesses::default()
    };
    for seen in [0, 1, u64::MAX] {
        let visits = Visits {
            seen,
            waited: u64::MAX,
        };
        odd.pages.add(seen, visits);
        odd.lines.add(seen, visits);
        listed(&LOOP, Some(&odd), Some(1e9));
    }
    let never = Accesses::default();
    assert_eq!(listed(&LOOP, Some(&never), Some(0.0))[0], "dD");
}
