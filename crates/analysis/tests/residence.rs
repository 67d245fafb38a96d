//! What data addresses say of misses, in a small loop.

use analysis::stall::culprits::{Cause, Evidence, culprits, expectations};
use analysis::stall::{Confidence, Estimate, Frequencies};
use machine::{Architecture, Graph, Loops, Model, NoImage, Processor};
use profile::{Accesses, ImageAddress, OnWay, Visits, add_way};
use rustc_hash::FxHashMap;

/// `mov 8(%rbx),%rax; add %rax,%rcx; mov 0x1000(%rip),%rdx; add %rdx,%rcx; dec %rsi; jne` back; `ret`.
const LOOP: [u8; 23] = [
    0x48, 0x8b, 0x43, 0x08, 0x48, 0x01, 0xc1, 0x48, 0x8b, 0x15, 0, 0x10, 0, 0, 0x48, 0x01, 0xd1,
    0x48, 0xff, 0xce, 0x75, 0xea, 0xc3,
];

/// The same, but the loop calls something instead of adding the second time.
const CALLING: [u8; 25] = [
    0x48, 0x8b, 0x43, 0x08, 0x48, 0x01, 0xc1, 0x48, 0x8b, 0x15, 0, 0x10, 0, 0, 0xe8, 0, 1, 0, 0,
    0x48, 0xff, 0xce, 0x75, 0xe8, 0xc3,
];

/// Which misses are listed after the first load and after the second: both take a hundred cycles.
fn listed(code: &[u8], seen: Option<&Accesses>, elsewhere: Option<f64>) -> [String; 2] {
    let model = Model::new(Processor::named("skylake").expect("there"));
    let start = ImageAddress(0x40_1000);
    let graph = Graph::new(Architecture::X86_64, start, code, &NoImage).expect("a procedure");
    let loops = Loops::of(&graph);
    assert_eq!(loops.loops.len(), 1);
    let estimate = |frequency| {
        Some(Estimate {
            frequency,
            confidence: Confidence::High,
        })
    };
    // A hundred thousand times for each time that it is entered.
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
    let accounts = culprits(&Evidence {
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
    });
    [1, 3].map(|index| {
        let account = accounts[index].as_ref().expect("it ran");
        assert!(account.stall > 90.0);
        let misses = account.culprits.iter().map(|one| one.cause);
        let data = misses.filter(|cause| matches!(cause, Cause::DataCache | Cause::DataTlb));
        data.map(Cause::letter).collect()
    })
}

/// What so many samples show of a load whose n-th address is this one: four executions after each, and
/// the one before it.
fn seen(samples: u64, address: impl Fn(u64) -> u64) -> Accesses {
    let mut table: FxHashMap<(), Accesses> = FxHashMap::default();
    for sample in 0..samples {
        // Some prime apart.
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
    // Whatever the first load accesses, the second's line is accessed again before 255 others.
    assert_eq!(listed(&LOOP, None, None), ["dD", ""]);
    // Not if the loop calls what nobody knows.
    assert_eq!(listed(&CALLING, None, None)[1], "dD");
    // Unless hardly anything else was executed.
    assert_eq!(listed(&CALLING, None, Some(0.0))[1], "");
    assert_eq!(listed(&CALLING, None, Some(4000.0))[1], "dD");
}

#[test]
fn a_place_that_never_changes_is_in_the_cache() {
    assert_eq!(listed(&LOOP, Some(&seen(2000, |_| 64)), None)[0], "");
    // Ten samples say nothing.
    assert_eq!(listed(&LOOP, Some(&seen(10, |_| 64)), None)[0], "dD");
}

#[test]
fn a_stream_misses_the_cache_and_not_the_dtlb() {
    let stream = seen(2000, |n| 8 * n);
    assert_eq!((stream.stride, stream.strided), (8, 8000));
    assert_eq!(listed(&LOOP, Some(&stream), None)[0], "d");
    // Unless it is at the starts of pages that was waited.
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
