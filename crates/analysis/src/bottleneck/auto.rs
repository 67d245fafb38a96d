//! The search without an analyst (ours; the paper leaves it to its users).
//!
//! The goal is a few call sequences that together cover as much cost as possible, with overlap
//! counted once. None should merely lead to others: [main] covers everything and says nothing.
//!
//! Greedy: each round takes the method with the largest cost that no sequence before it covers,
//! provided that it is a **cause**, and makes it as specific as that cost allows. Without negative
//! costs, greedy reaches at least 1 − 1/e of the best coverage by the same number of that round's
//! candidates. For comparisons there is no such guarantee.
//!
//! **Cause or container.** Each call of method m has a cost until m is called again below it. That
//! divides the cost of [m] without overlap, even in recursion, into m's own and one share for each
//! callee of m. A callee is *notable* if its share is at least θ of the whole. If the notable
//! callees have half of the cost of [m], m is a container: its callees say more. Otherwise m is a
//! cause: the cost is m's own, or spreads over many small callees that have only m in common.
//!
//! **As specific as its cost allows.** The search extends [m] at the top, then at the bottom, as
//! long as one extension keeps the cutoff (0.95) of the cost, as in zooming.
//!
//! **Several profiles** are compared context by context: a sequence's cost is the sum of the
//! differences at the contexts along and below its paths in any of the profiles. By the paper's
//! definition, a sequence that occurs in one profile only would count the costs along its path in
//! full, although the other profile has them on another path. A search that maximises would find
//! exactly such sequences.
//!
//! **Granularity** is decided by θ. With a small θ the sequences are specific and each covers
//! little; with a large θ they are general and each covers much. The search takes the smallest θ of
//! 1/512, 1/256, … 1/16 whose sequences cover the wanted share (or 0.95 of the best that any θ
//! covers). It then does as many rounds as possible with the next smaller θ. For a difference, the
//! wanted share is a share of the methods' cost increases, if these are less than the whole.
//!
//! **Mostly new.** A method that has less than half of its cost left is no candidate: the rest only
//! surrounds other sequences.
//!
//! **No causes** are methods that only lead to work ([`is_glue`]), and the one call that has most
//! of the program and little cost of its own. A sequence around recursion can end in such a call:
//! it is split into one sequence for each notable callee. A sequence adds at least 1 % of the
//! whole, or the search ends.
//!
//! **Where two profiles part.** A call that only one side makes has all of the cost below it: see
//! [`united`](super::united).

use super::forest::{CallSequence, Forest, Whole};
use super::interface::{Profile, Step};
use super::spans::Spans;
use super::tree::IndexedTree;
pub use super::united::UniteError;
use super::united::United;
use super::view::View;
use crate::statistics::Interval;
use profile::known_code::is_glue;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Options of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Maximum number of sequences. The paper's analysts found 13 or 14 in each program.
    pub count: usize,
    /// The share of the whole that they should cover together, from 0 to 1.
    pub coverage: f64,
    /// The share of its cost that a sequence may not lose by getting longer.
    pub cutoff: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            count: 14,
            coverage: 0.9,
            cutoff: 0.95,
        }
    }
}

/// A sequence that was found.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// The sequence.
    pub sequence: CallSequence,
    /// Its cum, in the profile's unit; of several profiles, compared context by context (see
    /// above).
    pub cost: f64,
    /// Part of its cost that no other sequence in the list has. A shared cost counts for the
    /// sequence that was found first, which is the more specific one.
    pub new: f64,
    /// 95 % confidence interval of the cost, over several runs.
    pub interval: Option<Interval>,
}

/// The sequences found.
#[derive(Clone, Debug, Default)]
pub struct FoundSequences {
    /// Sequences, by the cost that each adds, descending.
    pub bottlenecks: Vec<Bottleneck>,
    /// The cost that stands for 100 %, in the profile's unit: no less than any cost in this list.
    pub whole: f64,
    /// The cost of all sequences together, overlap counted once, in the profile's unit.
    pub covered: f64,
    /// θ: the share of the whole above which a callee is notable.
    pub notable: f64,
    /// True if the search was for methods that got cheaper, because the whole got cheaper.
    pub cheaper: bool,
}

/// Values of θ.
const NOTABLE: [f64; 6] = [
    1. / 512.,
    1. / 256.,
    1. / 128.,
    1. / 64.,
    1. / 32.,
    1. / 16.,
];
/// The share of a container's cost that its notable callees have.
const CONTAINED: f64 = 0.5;
/// The share of the largest coverage that is enough, if the wanted coverage cannot be reached.
const NEAR: f64 = 0.95;
/// The share of a sequence's cost that must be new: otherwise the sequence only surrounds others.
const NEW: f64 = 0.5;
/// The share of the whole that a sequence must add.
const LEAST: f64 = 0.01;
/// The share of the whole above which one call of a method is the program rather than a part of it.
const PHASE: f64 = 0.5;

/// Searches for causes.
///
/// # Errors
/// If several profiles have too many contexts together.
pub fn search_causes(forest: &Forest, options: &Options) -> Result<FoundSequences, UniteError> {
    if forest.indexes().nth(1).is_none() {
        return Ok(search_one(forest, options, &|_| true));
    }
    let united = United::new(forest)?;
    let sign = search_direction(&united.forest);
    // A summary whose cost may be chance is no starting point.
    let real = |s: &CallSequence| {
        let interval = united.cost_interval(forest, united.forest.path_of(s));
        interval.is_none_or(|i| i.conservative() * sign > 0.0)
    };
    let mut found = search_one(&united.forest, options, &real);
    found.covered = united.original_cost(found.covered);
    found.whole = united.original_cost(found.whole);
    for bottleneck in &mut found.bottlenecks {
        let path = united.forest.path_of(&bottleneck.sequence).to_vec();
        bottleneck.cost = united.original_cost(bottleneck.cost);
        bottleneck.new = united.original_cost(bottleneck.new);
        bottleneck.interval = united.cost_interval(forest, &path);
        if let Some(sequence) = forest.summary_of(&path) {
            bottleneck.sequence = sequence;
        }
    }
    Ok(found)
}

fn search_one(
    forest: &Forest,
    options: &Options,
    real: &dyn Fn(&CallSequence) -> bool,
) -> FoundSequences {
    let Some((index, _)) = forest.indexes().next() else {
        return FoundSequences::default();
    };
    let (whole, notable_of) = whole_costs(forest);
    let run = |level: usize, finer: usize| {
        let mut greedy = Greedy::new(forest, index, options, notable_of, real);
        if level > 0 {
            greedy.add_causes(NOTABLE[level - 1], finer);
        }
        greedy.add_causes(NOTABLE[level], options.count);
        greedy.found
    };
    // The finest level that covers enough; if none does, one that comes near the best.
    let mut levels: Vec<FoundSequences> = (0..NOTABLE.len()).map(|level| run(level, 0)).collect();
    let most = levels
        .iter()
        .map(|found| found.covered.abs())
        .fold(0.0, f64::max);
    let wanted = (options.coverage * coverable_cost(forest)).min(NEAR * most);
    let enough = |found: &FoundSequences| found.covered.abs() >= wanted;
    let level = levels.iter().position(enough).unwrap_or(0);
    let mut best = levels.swap_remove(level);
    if level > 0 {
        // As many rounds as possible at the level below.
        let (mut low, mut high) = (0, options.count);
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            let found = run(level, middle);
            if enough(&found) {
                (low, best) = (middle, found)
            } else {
                high = middle
            }
        }
    }
    best.order_by_gain(whole);
    best
}

/// Returns the cost that sequences can cover: the whole, but for differences no more than the
/// methods' cost increases.
fn coverable_cost(forest: &Forest) -> f64 {
    dearer_cost(forest).min(forest.whole())
}

/// Returns the sum of the methods' own cost changes in the direction of the search.
fn dearer_cost(forest: &Forest) -> f64 {
    let sign = search_direction(forest);
    let initial = forest.initial().iter();
    initial
        .map(|s| (sign * forest.base_of(s)).max(0.0))
        .sum::<f64>()
}

/// Returns the cost that stands for 100 %, and the cost of which a notable callee has the share θ.
/// For a difference, both are the sum of the cost increases if that exceeds the net difference: one
/// cause could be any multiple of the net difference. If the difference is next to nothing, 100 %
/// is the first side's total, and θ still refers to the increases.
fn whole_costs(forest: &Forest) -> (f64, f64) {
    let whole = forest.whole();
    match forest.whole_kind() {
        Whole::Total => (whole, whole),
        Whole::Difference => {
            let dearer = whole.max(dearer_cost(forest));
            (dearer, dearer)
        }
        Whole::FirstTotal => (whole, dearer_cost(forest).min(whole)),
    }
}

impl FoundSequences {
    /// Puts the sequences that add most first. Their order of finding says only how specific they
    /// are.
    fn order_by_gain(&mut self, whole: f64) {
        let gain = |b: &Bottleneck| b.new.abs();
        self.bottlenecks.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        let largest = self.bottlenecks.iter().map(|b| b.cost.abs());
        self.whole = largest.fold(whole.max(self.covered.abs()), f64::max);
    }
}

struct Greedy<'a> {
    forest: &'a Forest,
    /// The forest's only tree.
    index: &'a IndexedTree,
    options: &'a Options,
    real: &'a dyn Fn(&CallSequence) -> bool,
    /// 1, or −1 if the search is for cheaper methods.
    sign: f64,
    /// The cost of which a notable callee has the share θ.
    whole: f64,
    /// The covered nodes, and the prefix sums of the costs outside of them.
    covered: Spans,
    left: Vec<i64>,
    found: FoundSequences,
}

impl<'a> Greedy<'a> {
    fn new(
        forest: &'a Forest,
        index: &'a IndexedTree,
        options: &'a Options,
        whole: f64,
        real: &'a dyn Fn(&CallSequence) -> bool,
    ) -> Self {
        let sign = search_direction(forest);
        Self {
            found: FoundSequences {
                cheaper: sign < 0.0,
                ..FoundSequences::default()
            },
            forest,
            index,
            options,
            real,
            sign,
            whole,
            covered: Spans::default(),
            left: index.view().costs_left(&Spans::default()),
        }
    }

    /// Returns the tree with the costs that are not covered.
    fn uncovered_view(&self) -> View<'_> {
        self.index.view_with(&self.left)
    }

    /// Adds causes at the level `notable`, until there are `count`.
    fn add_causes(&mut self, notable: f64, count: usize) {
        self.found.notable = notable;
        while self.found.bottlenecks.len() < count {
            let Some(start) = self.next_cause() else {
                break;
            };
            let before = self.found.bottlenecks.len();
            for sequence in self.most_specific(start) {
                if self.found.bottlenecks.len() < count {
                    self.add_sequence(sequence);
                }
            }
            if self.found.bottlenecks.len() == before {
                break;
            }
        }
    }

    /// Adds a sequence, unless it adds too little.
    fn add_sequence(&mut self, sequence: CallSequence) {
        let new = self.cover_sequence(&sequence);
        // The start had enough cost, and the sequence keeps nearly all of it.
        if new * self.sign < self.options.cutoff * LEAST * self.whole {
            return;
        }
        self.found.covered += new;
        self.found.bottlenecks.push(Bottleneck {
            cost: self.forest.cum_of(&sequence),
            sequence,
            new,
            interval: None,
        });
    }

    /// Returns the cause with the most cost left.
    fn next_cause(&self) -> Option<CallSequence> {
        let mut by_step = vec![0.0; self.forest.methods().len()];
        for (method, (_, cum)) in (0..).zip(self.uncovered_view().metrics_of_methods()) {
            let Step(step) = self.forest.step_of(0, method);
            by_step[step as usize] = self.sign * cum as f64;
        }
        let initial = self.forest.initial().iter();
        let gains = initial.map(|s| (by_step[self.forest.path_of(s)[0].0 as usize], s));
        let mut gains: Vec<_> = gains
            .filter(|(gain, _)| *gain >= LEAST * self.whole)
            .collect();
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        let cause = |(gain, s): &(f64, &CallSequence)| {
            let mostly_new = *gain >= NEW * self.sign * self.forest.cum_of(s);
            let step = self.forest.path_of(s)[0];
            mostly_new
                && !is_glue(&self.forest.method(step).name)
                && (self.real)(s)
                && !self.is_phase(s)
                && !self.is_container(s, *gain)
        };
        gains.into_iter().find(cause).map(|(_, s)| s.clone())
    }

    /// Returns the cost left below calls that end at these nodes, given in preorder: that of the
    /// outermost calls.
    fn gain_of_calls(&self, finals: impl Iterator<Item = u32>) -> f64 {
        let view = self.uncovered_view();
        let mut sum = OutermostSum::default();
        finals.for_each(|node| sum.add(view, node));
        self.sign * sum.cost as f64
    }

    /// Returns whether a method is the program's main phase: it has most of the whole in one call,
    /// and the cost is not its own. Differences have no such phases, because the work that both
    /// sides do cancels out.
    fn is_phase(&self, single: &CallSequence) -> bool {
        let cost = self.forest.cum_of(single);
        if self.forest.is_signed() || cost < PHASE * self.whole {
            return false;
        }
        let view = self.index.view();
        let mut end = 0;
        let outermost = single.parts()[0].finals().iter().filter(|node| {
            let is_outermost = **node >= end;
            end = end.max(view.nodes[**node as usize].end);
            is_outermost
        });
        outermost.take(2).count() == 1 && self.forest.base_of(single) < CONTAINED * cost
    }

    fn is_container(&self, single: &CallSequence, gain: f64) -> bool {
        let view = self.uncovered_view();
        let end = |node: u32| view.nodes[node as usize].end;
        let mut shares: FxHashMap<u32, f64> = FxHashMap::default();
        let mut add = |callee: u32, cost: i64| {
            let method = view.nodes[callee as usize].method;
            *shares.entry(method).or_default() += self.sign * cost as f64;
        };
        // The calls around the current node, each with the callee that may contain the current
        // node.
        let mut around: Vec<(u32, u32)> = Vec::new();
        for &node in single.parts()[0].finals() {
            for child in view.children(node) {
                add(child, view.cum_cost(child));
            }
            while around.last().is_some_and(|(outer, _)| end(*outer) <= node) {
                around.pop();
            }
            if let Some((_, callee)) = around.last_mut() {
                // The cost of an inner call does not count for its outer call's callee.
                while end(*callee) <= node {
                    *callee = end(*callee);
                }
                add(*callee, -view.cum_cost(node));
            }
            around.push((node, node + 1));
        }
        let least = self.found.notable * self.whole;
        let notable: f64 = shares.into_values().filter(|share| *share >= least).sum();
        notable >= CONTAINED * gain
    }

    /// Returns the longest sequence around `start` that keeps its cost. No method occurs twice,
    /// because recursion would add steps and no information; so the work is linear in the tree.
    ///
    /// Around a recursive method the sequence can end where the program forks: then there is one
    /// sequence for each notable callee.
    fn most_specific(&self, start: CallSequence) -> Vec<CallSequence> {
        let view = self.uncovered_view();
        let finals = start.parts()[0].finals();
        let goal = self.options.cutoff * self.gain_of_calls(finals.iter().copied());
        let mut path: VecDeque<u32> = finals
            .iter()
            .take(1)
            .map(|node| view.nodes[*node as usize].method)
            .collect();
        let mut methods: FxHashSet<u32> = path.iter().copied().collect();
        // The last and the first node of each path.
        let mut ends: Vec<(u32, u32)> = finals.iter().map(|node| (*node, *node)).collect();
        loop {
            let caller = |(_, root): &(u32, u32)| view.nodes[*root as usize].parent;
            let called = ends.iter().filter(|ends| caller(ends) != 0);
            let Some(method) = self.best_method(called.map(|e| (e.0, caller(e))), goal, &methods)
            else {
                break;
            };
            let is_method = |node: u32| node != 0 && view.nodes[node as usize].method == method;
            ends.retain(|e| is_method(caller(e)));
            for (_, root) in &mut ends {
                *root = view.nodes[*root as usize].parent;
            }
            path.push_front(method);
            methods.insert(method);
        }
        let finals: Vec<u32> = ends.into_iter().map(|(last, _)| last).collect();
        let mut sequences = Vec::new();
        self.lengthen_down(path, finals, methods, goal, &mut sequences);
        if sequences.is_empty() {
            sequences.push(start);
        }
        sequences
    }

    /// Extends a path at its end as long as it keeps its cost, and adds the result.
    fn lengthen_down(
        &self,
        mut path: VecDeque<u32>,
        mut finals: Vec<u32>,
        mut methods: FxHashSet<u32>,
        goal: f64,
        sequences: &mut Vec<CallSequence>,
    ) {
        let view = self.uncovered_view();
        loop {
            let mut callees: Vec<u32> = finals.iter().flat_map(|n| view.children(*n)).collect();
            callees.sort();
            let pairs = callees.iter().map(|callee| (*callee, *callee));
            let Some(method) = self.best_method(pairs, goal, &methods) else {
                break;
            };
            callees.retain(|callee| view.nodes[*callee as usize].method == method);
            finals = callees;
            path.push_back(method);
            methods.insert(method);
        }
        let ways = self.ways_on(&finals, &methods);
        if ways.is_empty() {
            sequences.extend(self.without_glue(path));
            return;
        }
        for (gain, method, callees) in ways {
            let (mut longer, mut known) = (path.clone(), methods.clone());
            longer.push_back(method);
            known.insert(method);
            let goal = self.options.cutoff * gain;
            self.lengthen_down(longer, callees, known, goal, sequences);
        }
    }

    /// Returns the notable callees of a call that has most of the program, if they have most of its
    /// cost: the largest first, with their nodes.
    fn ways_on(&self, finals: &[u32], has: &FxHashSet<u32>) -> Vec<(f64, u32, Vec<u32>)> {
        let cost = self.gain_of_calls(finals.iter().copied());
        let [call] = finals else { return Vec::new() };
        if self.forest.is_signed() || cost < PHASE * self.whole {
            return Vec::new();
        }
        let view = self.uncovered_view();
        let mut by_method: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for callee in view.children(*call) {
            let method = view.nodes[callee as usize].method;
            if !has.contains(&method) {
                by_method.entry(method).or_default().push(callee);
            }
        }
        let mut ways: Vec<(f64, u32, Vec<u32>)> = by_method
            .into_iter()
            .map(|(method, nodes)| (self.gain_of_calls(nodes.iter().copied()), method, nodes))
            .filter(|(gain, ..)| *gain >= self.found.notable * self.whole)
            .collect();
        if ways.iter().map(|(gain, ..)| gain).sum::<f64>() < CONTAINED * cost {
            return Vec::new();
        }
        ways.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ways
    }

    /// Returns the method that extends paths without losing more than down to `goal`, unless the
    /// paths already contain it. `extended` are the paths' last nodes, in preorder, each with the
    /// node that extends the path.
    fn best_method(
        &self,
        extended: impl Iterator<Item = (u32, u32)>,
        goal: f64,
        has: &FxHashSet<u32>,
    ) -> Option<u32> {
        let view = self.uncovered_view();
        let mut sums: FxHashMap<u32, OutermostSum> = FxHashMap::default();
        for (last, node) in extended {
            let method = view.nodes[node as usize].method;
            sums.entry(method).or_default().add(view, last);
        }
        let gain = |sum: &OutermostSum| self.sign * sum.cost as f64;
        // Among equal gains, take the smaller number, so that the choice is always the same.
        let best = sums
            .iter()
            .max_by(|a, b| gain(a.1).total_cmp(&gain(b.1)).then(b.0.cmp(a.0)));
        let (method, sum) = best?;
        (gain(sum) >= goal && !has.contains(method)).then_some(*method)
    }

    /// Returns the sequence of these methods, without the glue at both ends.
    fn without_glue(&self, mut path: VecDeque<u32>) -> Option<CallSequence> {
        let step = |method: &u32| self.forest.step_of(0, *method);
        let is_glue = |method: &u32| is_glue(&self.forest.method(step(method)).name);
        while path.front().is_some_and(is_glue) {
            path.pop_front();
        }
        while path.back().is_some_and(is_glue) {
            path.pop_back();
        }
        let steps: Vec<Step> = path.iter().map(step).collect();
        self.forest.summary_of(&steps)
    }

    /// Covers the sequence, and returns how much of it was not covered before.
    fn cover_sequence(&mut self, sequence: &CallSequence) -> f64 {
        let cover = self.forest.cover(&[sequence]);
        let nodes = &cover.covered_spans()[0];
        let new = self.uncovered_view().cost_of(nodes) as f64;
        self.covered = self.covered.joined(nodes);
        self.left = self.index.view().costs_left(&self.covered);
        new
    }
}

/// Sums the costs of nodes given in preorder, with everything below them, each node once.
#[derive(Default)]
struct OutermostSum {
    end: u32,
    cost: i64,
}

impl OutermostSum {
    fn add(&mut self, view: View<'_>, node: u32) {
        if node >= self.end {
            self.end = view.nodes[node as usize].end;
            self.cost += view.cum_cost(node);
        }
    }
}

/// Returns the direction of the search: more cost, unless the whole difference is that the first
/// side is cheaper.
fn search_direction(forest: &Forest) -> f64 {
    let difference = forest.whole_kind() == Whole::Difference;
    if difference && forest.total() < 0.0 {
        -1.0
    } else {
        1.0
    }
}
