//! The search uses only the interface, so that it gives the same results on the fast implementation
//! and on the definitions. The automatic search keeps its guarantees.

mod common;

use analysis::bottleneck::auto::{self, Options};
use analysis::bottleneck::forest::{Forest, ForestError, Normalisation, ProfiledRun, Whole};
use analysis::bottleneck::interface::{Metric, Metrics, Profile};
use analysis::bottleneck::search::{Details, Listing, Search, SearchError};
use analysis::bottleneck::suggesters::{SUGGESTERS, Suggester};
use common::{Oracle, Stacks, compared, named, run, text, tree};
use proptest::prelude::*;

fn stacks() -> impl Strategy<Value = Stacks> {
    let stack = prop::collection::vec(0..4_u8, 1..8);
    prop::collection::vec((stack, 1..50_i64), 2..12)
}

type Shown = Vec<(String, Metrics, Option<f64>)>;

fn rows<P: Profile>(profile: &P, listing: &Listing<P::Summary>) -> Shown {
    let row = |r: &analysis::bottleneck::search::Row<P::Summary>| {
        (
            format!("{:?} {}", r.relation, text(profile, &r.summary)),
            r.metrics,
            r.new,
        )
    };
    listing.rows.iter().map(row).collect()
}

type Said = (
    String,
    Vec<String>,
    Metrics,
    Vec<(String, Metrics)>,
    Option<Metrics>,
    Shown,
);

fn said<P: Profile>(profile: &P, d: &Details<P::Summary>) -> Said {
    (
        text(profile, &d.summary),
        d.labels.clone(),
        d.metrics,
        d.overlaps.clone(),
        d.labelled,
        rows(profile, &d.nearby),
    )
}

/// Runs a session of the given choices; returns everything shown.
fn session<P: Profile>(profile: &P, choices: &[usize]) -> Vec<(Shown, Option<Said>)> {
    let mut search = Search::new(profile);
    let rankings: Vec<_> = SUGGESTERS.iter().filter_map(|one| one.ranking).collect();
    let mut shown = Vec::new();
    let mut count = 0;
    for (step, choice) in choices.iter().enumerate() {
        search.zooming = choice % 3 != 0;
        if count == 0 || choice % 5 == 0 {
            search.ranking = rankings[choice % rankings.len()];
            let listing = search.suggest();
            count = listing.rows.len();
            shown.push((rows(profile, &listing), None));
            continue;
        }
        let details = search.select(choice % count).unwrap();
        count = details.nearby.rows.len();
        shown.push((Vec::new(), Some(said(profile, &details))));
        if choice % 4 == 1 {
            search.label(["one", "two", "three"][step % 3]).unwrap();
        }
        if choice % 7 == 2
            && let Ok(details) = search.back()
        {
            count = details.nearby.rows.len();
            shown.push((Vec::new(), Some(said(profile, &details))));
        }
    }
    let (labels, total) = search.list_labels();
    let mut last = rows(profile, &labels);
    last.push(("total".into(), total, None));
    shown.push((last, None));
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn sessions_are_the_same(stacks in stacks(), choices in prop::collection::vec(0..100_usize, 1..25)) {
        let fast = Forest::single(run(tree(&stacks))).unwrap();
        // The oracle's whole is 1; only the threshold of notable shares depends on it.
        let slow = Oracle::new(vec![(tree(&stacks), 1.0)]);
        prop_assert_eq!(session(&fast, &choices), session(&slow, &choices));
    }

    #[test]
    fn what_is_found_adds_up(a in stacks(), b in stacks(), count in 1..8_usize, coverage in 0.1..1.0_f64) {
        let options = Options { count, coverage, ..Options::default() };
        let single = Forest::single(run(tree(&a))).unwrap();
        for forest in [single, compared(&a, &b)] {
            let found = auto::search_causes(&forest, &options).unwrap();
            prop_assert!(found.bottlenecks.len() <= count);
            let all: Vec<_> = found.bottlenecks.iter().map(|b| &b.sequence).collect();
            if !forest.is_comparison() {
                prop_assert!((forest.total_cum_of(&all) - found.covered).abs() < 1e-6);
            }
            prop_assert!(found.bottlenecks.is_sorted_by(|a, b| a.new.abs() >= b.new.abs()));
            let new: f64 = found.bottlenecks.iter().map(|b| b.new).sum();
            prop_assert!((new - found.covered).abs() < 1e-6);
            for (at, bottleneck) in found.bottlenecks.iter().enumerate() {
                let new = bottleneck.new;
                prop_assert!(bottleneck.cost.abs() <= found.whole + 1e-6);
                if !forest.is_comparison() {
                    // A sequence adds the cost that it alone has, and has the cost that it adds.
                    let others: Vec<_> = (0..all.len()).filter(|o| *o != at).map(|o| all[o]).collect();
                    let shared = forest.overlap(all[at], &forest.cover(&others)).cum;
                    prop_assert_eq!(bottleneck.cost, forest.cum_of(all[at]));
                    prop_assert!(bottleneck.cost - shared <= new + 1e-6);
                    prop_assert!(new <= bottleneck.cost + 1e-6);
                }
                prop_assert_eq!(found.cheaper, new < 0.0);
            }
        }
    }
}

/// A program with known causes: the search finds them, as specific as possible, and not their
/// callers.
#[test]
fn known_causes_are_found() {
    let stack = |path: &str, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    // x and y call the path p q r from different places; s is called from everywhere; the rest
    // leads there.
    let stacks = vec![
        stack("abxpqr", 250),
        stack("acypqr", 150),
        stack("abxs", 100),
        stack("acys", 110),
        stack("azs", 120),
        stack("azt", 200),
        stack("a", 10),
    ];
    let forest = Forest::single(run(tree(&stacks))).unwrap();
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let paths: Vec<String> = found
        .bottlenecks
        .iter()
        .map(|b| text(&forest, &b.sequence))
        .collect();
    assert_eq!(paths, ["pqr", "s", "azt"]);
    assert_eq!(found.covered, 400.0 + 330.0 + 210.0);
}

/// A new call below an expensive old method has its own cost, and not the method's.
#[test]
fn differences_are_found_context_by_context() {
    let stack = |path: &str, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    let plain = vec![stack("abq", 1000), stack("acq", 1000), stack("a", 50)];
    let mut checked = plain.clone();
    checked.extend([stack("abqs", 140), stack("acqs", 150)]);
    let forest = compared(&checked, &plain);
    let paper = named(&forest, "abqs").unwrap();
    assert_eq!(forest.cum_of(&paper), 1000.0 + 50.0 + 140.0);
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let paths: Vec<(String, f64)> = found
        .bottlenecks
        .iter()
        .map(|b| (text(&forest, &b.sequence), b.cost.round()))
        .collect();
    assert_eq!(paths, [("qs".to_owned(), 290.0)]);
    assert_eq!(found.covered.round(), 290.0);
}

/// A call that only one side makes is named, although all of its cost is in methods that both sides
/// call, below a walk whose recursion has as many contexts as the program has nodes.
#[test]
fn the_first_method_in_which_two_profiles_part_is_named() {
    let stack = |path: String, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    let mut plain = Vec::new();
    for depth in 1..40 {
        let walk = format!("m{}", "w".repeat(depth));
        plain.push(stack(format!("{walk}xhu"), 30));
        plain.push(stack(format!("{walk}xhv"), 20));
    }
    let mut checked = plain.clone();
    for depth in 1..40 {
        // The check c calls the helpers h, u and v, which x calls, too.
        let walk = format!("m{}", "w".repeat(depth));
        checked.push(stack(format!("{walk}chu"), 3));
        checked.push(stack(format!("{walk}chv"), 4));
    }
    // Something else got cheaper, by more than half of it.
    plain.push(stack("mz".into(), 1000));
    checked.push(stack("mz".into(), 850));
    let forest = compared(&checked, &plain);
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let paths = found.bottlenecks.iter().map(|b| text(&forest, &b.sequence));
    assert_eq!(paths.collect::<Vec<_>>(), ["wc"]);
    assert_eq!(found.bottlenecks[0].cost.round(), 39.0 * 7.0);
    assert!(found.whole >= found.bottlenecks[0].cost && forest.whole() < found.whole);
}

/// An iterator called on every level (Ruby's `times`) has its own cost in all of them. The search
/// does not return the outermost call, which is the program, but its callees.
#[test]
fn the_call_around_a_recursive_method_is_split_where_the_program_forks() {
    let stack = |path: &str, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    let stacks = vec![
        stack("atbxt", 87),
        stack("atbxtx", 53),
        stack("atbyt", 34),
        stack("atbyty", 21),
    ];
    let forest = Forest::single(run(tree(&stacks))).unwrap();
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let paths = found.bottlenecks.iter();
    let paths: Vec<String> = paths.map(|b| text(&forest, &b.sequence)).collect();
    assert_eq!(paths, ["atbx", "atby"]);
    assert_eq!(found.covered, 195.0);
}

/// The work is linear in the depth, so that this ends; a path has no method twice.
#[test]
fn deep_recursion_is_searched() {
    let stacks = vec![
        ((0..64_000).map(|n| (n % 5) as u8).collect(), 1),
        (vec![7], 1),
    ];
    let forest = Forest::single(run(tree(&stacks))).unwrap();
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    for bottleneck in &found.bottlenecks {
        let path = text(&forest, &bottleneck.sequence);
        assert!(path.len() <= 5, "{path}");
    }
    let mut search = Search::new(&forest);
    assert!(!search.suggest().rows.is_empty());
    assert!(search.select(0).is_ok());
}

/// Methods that only lead to work, and the one call that has most of the program, are no causes;
/// small ones are left out.
#[test]
fn trivial_sequences_are_not_listed() {
    let value = profile::ValueType {
        name: "cpu".into(),
        unit: "samples".into(),
    };
    let mut builder = profile::CallTreeBuilder::new(vec![value]);
    let mut add = |path: &[&str], cost| {
        let mut node = profile::DraftNode::ROOT;
        for name in path {
            let method = builder.method(name, "").unwrap();
            node = builder.child(node, method).unwrap();
        }
        builder.add(0, node, cost);
    };
    for part in 0..100 {
        let name = format!("part{part}");
        add(&["_start", "main", "compile", &name], 7);
        add(&["_start", "main", "compile", "do_syscall_64", &name], 1);
    }
    add(&["_start", "main", "sort"], 150);
    add(&["_start", "[unknown]"], 45);
    add(&["_start", "main", "rare"], 5);
    let forest = Forest::single(run(builder.finish().unwrap())).unwrap();
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let name = |b: &auto::Bottleneck| {
        forest
            .step_name(*forest.path_of(&b.sequence).last().unwrap())
            .to_owned()
    };
    let names: Vec<String> = found.bottlenecks.iter().map(name).collect();
    assert_eq!(names, ["sort"]);
}

#[test]
fn differences_of_runs_have_intervals_and_noise_is_not_ranked() {
    let stack = |path: &str, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    let side = |x: [i64; 3], y: [i64; 3]| -> Vec<ProfiledRun> {
        let costs = x.into_iter().zip(y);
        costs
            .map(|(x, y)| run(tree(&vec![stack("ax", x), stack("ay", y)])))
            .collect()
    };
    let a = side([1000, 1010, 990], [500, 560, 470]);
    let b = side([700, 705, 690], [520, 460, 540]);
    let forest = Forest::new(a, b, Normalisation::None).unwrap();
    let interval = |path: &str| {
        forest
            .interval_of(&named(&forest, path).unwrap(), Metric::Cum)
            .unwrap()
    };
    assert!(interval("x").low > 280.0 && interval("x").high < 325.0);
    assert_eq!(interval("y").conservative(), 0.0);
    let mut search = Search::new(&forest);
    let high_base = Suggester::named("HighBase").expect("built in");
    search.ranking = high_base.ranking.expect("ranks methods");
    let listing = search.suggest();
    let listed: Vec<String> = listing
        .rows
        .iter()
        .map(|r| text(&forest, &r.summary))
        .collect();
    assert_eq!(listed, ["x"]);
    let found = auto::search_causes(&forest, &Options::default()).unwrap();
    let found: Vec<String> = found
        .bottlenecks
        .iter()
        .map(|b| text(&forest, &b.sequence))
        .collect();
    assert_eq!(found, ["ax"]);
}

#[test]
fn profiles_are_made_comparable_or_refused() {
    let of = |cost: i64| tree(&vec![(vec![0, 1], cost), (vec![0, 2], 100)]);
    let forest = |a: i64, b: i64, by| Forest::new(vec![run(of(a))], vec![run(of(b))], by);
    let total = forest(100, 300, Normalisation::Total).unwrap();
    assert_eq!(total.members()[1].factor, 0.5);
    assert_eq!(
        (total.whole_kind(), total.whole()),
        (Whole::FirstTotal, 200.0)
    );
    let b = named(&total, "b").unwrap();
    assert_eq!(total.cum_of(&b), 100.0 - 150.0);
    let name = "profile".to_owned();
    let refused = forest(100, -100, Normalisation::Total).unwrap_err();
    assert_eq!(refused, ForestError::BadTotal(name.clone(), 0));
    assert_eq!(
        forest(1, 1, Normalisation::Work).unwrap_err(),
        ForestError::BadWork(name)
    );
    let with = |cost, work| ProfiledRun {
        work: Some(work),
        ..run(of(cost))
    };
    let work = Forest::new(
        vec![with(900, 10.0)],
        vec![with(900, 20.0)],
        Normalisation::Work,
    );
    assert_eq!(work.unwrap().total(), 1000.0 - 500.0);
    let empty = Forest::single(run(tree(&vec![]))).unwrap_err();
    assert!(matches!(empty, ForestError::Empty(..)), "{empty}");
    assert_eq!(
        Forest::new(vec![], vec![], Normalisation::None).unwrap_err(),
        ForestError::NoProfile
    );
}

#[test]
fn what_cannot_be_done_is_said() {
    let forest = Forest::single(run(tree(&vec![(vec![0, 1], 5)]))).unwrap();
    let mut search = Search::new(&forest);
    assert!(matches!(
        search.select(0).unwrap_err(),
        SearchError::NoSuchNumber(0, _)
    ));
    assert_eq!(search.label("x").unwrap_err(), SearchError::NoCurrent);
    assert_eq!(search.back().unwrap_err(), SearchError::NoHistory);
    assert_eq!(
        search.unlabel("x").unwrap_err(),
        SearchError::NoSuchLabel("x".into())
    );
    for cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            search.set_cutoff(cutoff).unwrap_err(),
            SearchError::BadCutoff
        );
    }
}
