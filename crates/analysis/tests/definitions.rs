//! The fast implementation equals the definitions, on trees with heavy recursion.

mod common;

use analysis::bottleneck::forest::{Forest, Normalisation};
use analysis::bottleneck::interface::{Metrics, Profile, overlap_by_totals};
use analysis::bottleneck::zoom::{End, zoom, zoom_trim};
use common::{Oracle, Stacks, compared, named, run, text, tree};
use proptest::prelude::*;

/// Returns the number of cases: more with PROPTEST_CASES; ten thousand of each have been tried.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(100)
}

/// Generates few methods in deep stacks, so that nearly every path recurs.
fn stacks() -> impl Strategy<Value = Stacks> {
    let stack = (1..5_u8).prop_flat_map(|letters| prop::collection::vec(0..letters, 0..9));
    prop::collection::vec((stack, 0..50_i64), 1..16)
}

fn with_cost(mut stacks: Stacks) -> Stacks {
    stacks.push((vec![0], 1));
    stacks
}

fn sorted<P: Profile>(profile: &P, summaries: &[P::Summary]) -> Vec<String> {
    let mut texts: Vec<String> = summaries.iter().map(|s| text(profile, s)).collect();
    texts.sort();
    texts
}

/// Compares all metrics of a summary with the definitions.
fn same(fast: &Forest, slow: &Oracle, path: &str) -> Result<(), TestCaseError> {
    let (f, s) = (named(fast, path), named(slow, path));
    prop_assert_eq!(f.is_some(), s.is_some(), "{}", path);
    let (Some(f), Some(s)) = (f, s) else {
        return Ok(());
    };
    prop_assert_eq!(fast.metrics_of(&f), slow.metrics_of(&s), "{}", path);
    let (top, bottom) = (fast.extended_top(&f), fast.extended_bottom(&f));
    prop_assert_eq!(sorted(fast, &top), sorted(slow, &slow.extended_top(&s)));
    prop_assert_eq!(
        sorted(fast, &bottom),
        sorted(slow, &slow.extended_bottom(&s))
    );
    for extended in top.iter().chain(&bottom) {
        let path = text(fast, extended);
        let other = named(slow, &path).unwrap();
        prop_assert_eq!(
            fast.metrics_of(extended),
            slow.metrics_of(&other),
            "{}",
            path
        );
        let step = fast.path_of(extended);
        let one = if path.ends_with(&text(fast, &f)) && step.len() == text(fast, &f).len() + 1 {
            fast.extend_top(&f, step[0])
        } else {
            fast.extend_bottom(&f, step[step.len() - 1])
        };
        prop_assert_eq!(
            one.map(|s| fast.metrics_of(&s)),
            Some(fast.metrics_of(extended))
        );
    }
    for (fast_trim, slow_trim) in [
        (fast.trim_top(&f), slow.trim_top(&s)),
        (fast.trim_bottom(&f), slow.trim_bottom(&s)),
    ] {
        let fast_trim = fast_trim.map(|t| (text(fast, &t), fast.metrics_of(&t)));
        prop_assert_eq!(
            fast_trim,
            slow_trim.map(|t| (text(slow, &t), slow.metrics_of(&t)))
        );
    }
    for cutoff in [0.3, 0.95, 1.0] {
        for end in [End::Top, End::Bottom] {
            let texts = |list: Vec<String>| list;
            let fast_zoom = zoom(fast, &f, end, cutoff).result();
            let slow_zoom = zoom(slow, &s, end, cutoff).result();
            let fast_zoom: Vec<String> = fast_zoom.iter().map(|z| text(fast, z)).collect();
            let slow_zoom: Vec<String> = slow_zoom.iter().map(|z| text(slow, z)).collect();
            prop_assert_eq!(texts(fast_zoom), slow_zoom, "{} {:?} {}", path, end, cutoff);
            let fast_trim = zoom_trim(fast, &f, end, cutoff).map(|t| text(fast, &t));
            let slow_trim = zoom_trim(slow, &s, end, cutoff).map(|t| text(slow, &t));
            prop_assert_eq!(fast_trim, slow_trim);
        }
    }
    Ok(())
}

/// Compares totals and overlaps of lists with the definitions.
fn same_lists(fast: &Forest, slow: &Oracle, paths: &[String]) -> Result<(), TestCaseError> {
    let f: Vec<_> = paths.iter().filter_map(|p| named(fast, p)).collect();
    let s: Vec<_> = paths.iter().filter_map(|p| named(slow, p)).collect();
    let (f, s): (Vec<_>, Vec<_>) = (f.iter().collect(), s.iter().collect());
    prop_assert_eq!(f.len(), s.len());
    prop_assert_eq!(fast.total_base_of(&f), slow.total_base_of(&s));
    prop_assert_eq!(fast.total_cum_of(&f), slow.total_cum_of(&s));
    let (Some((f, fs)), Some((s, ss))) = (f.split_first(), s.split_first()) else {
        return Ok(());
    };
    let overlap: Metrics = fast.overlap(f, &fast.cover(fs));
    prop_assert_eq!(overlap, overlap_by_totals(fast, f, fs));
    prop_assert_eq!(overlap, overlap_by_totals(slow, s, ss));
    Ok(())
}

/// Returns paths that occur (parts of stacks), and some that need not.
fn paths_of(stacks: &Stacks, cuts: &[(usize, usize, usize)]) -> Vec<String> {
    let cut = |&(at, from, length): &(usize, usize, usize)| {
        let stack = &stacks[at % stacks.len()].0;
        let from = from.min(stack.len());
        let to = (from + length).min(stack.len());
        stack[from..to]
            .iter()
            .map(|m| char::from(b'a' + m))
            .collect()
    };
    let mut paths: Vec<String> = cuts.iter().map(cut).collect();
    paths.extend(["a", "aa", "ab", "aba", "abab", "bb"].map(String::from));
    paths.retain(|path: &String| !path.is_empty());
    paths
}

fn cuts() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    prop::collection::vec((0..30_usize, 0..6_usize, 1..6_usize), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn single_profiles(stacks in stacks(), cuts in cuts()) {
        let stacks = with_cost(stacks);
        let fast = Forest::single(run(tree(&stacks))).unwrap();
        let slow = Oracle::new(vec![(tree(&stacks), 1.0)]);
        prop_assert_eq!(
            sorted(&fast, &fast.initial_summaries()),
            sorted(&slow, &slow.initial_summaries())
        );
        let paths = paths_of(&stacks, &cuts);
        for path in &paths {
            same(&fast, &slow, path)?;
        }
        same_lists(&fast, &slow, &paths)?;
    }

    #[test]
    fn comparisons(a in stacks(), b in stacks(), cuts in cuts()) {
        let (a, b) = (with_cost(a), with_cost(b));
        let fast = compared(&a, &b);
        let slow = Oracle::new(vec![(tree(&a), 1.0), (tree(&b), -1.0)]);
        let mut paths = paths_of(&a, &cuts);
        paths.extend(paths_of(&b, &cuts));
        for path in &paths {
            same(&fast, &slow, path)?;
        }
        same_lists(&fast, &slow, &paths)?;
    }

    /// The mean of equal runs is the run, and its interval has no width.
    #[test]
    fn runs(stacks in stacks(), cuts in cuts()) {
        let stacks = with_cost(stacks);
        let runs = || (0..2).map(|_| run(tree(&stacks))).collect::<Vec<_>>();
        let mean = Forest::new(runs(), Vec::new(), Normalisation::Total).unwrap();
        let difference = Forest::new(runs(), runs(), Normalisation::None).unwrap();
        let one = Forest::single(run(tree(&stacks))).unwrap();
        for path in paths_of(&stacks, &cuts) {
            let Some(s) = named(&one, &path) else { continue };
            let mean_s = named(&mean, &path).unwrap();
            prop_assert_eq!(mean.metrics_of(&mean_s), one.metrics_of(&s));
            let interval = mean.interval_of(&mean_s, analysis::bottleneck::interface::Metric::Cum);
            let interval = interval.unwrap();
            prop_assert_eq!((interval.low, interval.high), (one.cum_of(&s), one.cum_of(&s)));
            let difference_s = named(&difference, &path).unwrap();
            prop_assert_eq!(difference.metrics_of(&difference_s), Metrics::default());
        }
    }
}
