//! The search without an analyst (ours; the paper leaves it to its users).
//!
//! Wanted: a few call sequences that together cover as much as can be, overlap counted once, none
//! of which is merely the way to others. [main] covers everything and says nothing.
//!
//! Greedy: each round takes the method with the largest cost that no sequence before it covers,
//! provided that it is a **cause**, and makes it as specific as that cost allows. Of a coverage function
//! without negative costs greedy finds at least 1 − 1/e of the best coverage by as many of the
//! candidates of that round; of comparisons nothing is promised.
//!
//! **Cause or container.** Each call of method m has a cost until m is called again below it. That
//! divides the cost of [m] without overlap, even in recursion, into m's own and one share for each
//! callee of m. A callee is *notable* if its share is at least θ of the whole. If the notable callees
//! have half of the cost of [m], it is a container: they say more. Otherwise the cost is m's own or
//! spreads over so many small callees that m is what they have in common: a cause.
//!
//! **As specific as its cost allows.** From [m], extensions at the top, then at the bottom, are followed as
//! long as one keeps the cutoff (0.95) of the cost, as in zooming.
//!
//! **Several profiles** are compared context by context: a sequence's cost is the sum of the
//! differences at the contexts along and below its paths in any of the profiles. By the paper's
//! definition, a sequence that occurs in one profile only would count the costs along its path in
//! full, though the other profile has them on another path; a search that maximises would find that.
//!
//! **How fine** is decided by θ: small, the sequences are specific and cover little each; large,
//! the other way round. The smallest θ of 1/512, 1/256, … 1/16 is taken with which the sequences
//! cover the share that is wanted (or 0.95 of the best that any θ does), and then as many of the
//! rounds as possible are done with the next smaller θ. Of a difference, the share is of what methods got
//! dearer by, if that is less than the whole.
//!
//! **Mostly new.** A method of which less than half of the cost is left is no candidate: it is what
//! remains around others.

use super::forest::{CallSequence, Forest};
use super::interface::{Profile, Step};
use super::spans::Spans;
pub use super::united::UniteError;
use super::united::United;
use super::zoom::End;
use crate::statistics::Interval;
use rustc_hash::FxHashMap;

/// What to search for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// At most so many sequences. The paper's analysts found 13 or 14 in each program.
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
    /// Its cum, in the profile's unit; of several profiles, compared context by context (see above).
    pub cost: f64,
    /// What it covers that those before it do not.
    pub new: f64,
    /// Where the cost lies with 95 % confidence, of several runs.
    pub interval: Option<Interval>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// In the order of their finding.
    pub bottlenecks: Vec<Bottleneck>,
    /// Their cost together, overlap counted once, in the profile's unit.
    pub covered: f64,
    /// θ: the share of the whole from which on a callee is notable.
    pub notable: f64,
    /// Whether it was searched for what got cheaper, because the whole did.
    pub cheaper: bool,
}

/// The values of θ.
const NOTABLE: [f64; 6] = [
    1. / 512.,
    1. / 256.,
    1. / 128.,
    1. / 64.,
    1. / 32.,
    1. / 16.,
];
/// The share of a container's cost that notable callees have.
const CONTAINED: f64 = 0.5;
/// What of the largest coverage is enough, if what is wanted cannot be had.
const NEAR: f64 = 0.95;
/// The share of a sequence's cost that must be new: else it is what is left around others.
const NEW: f64 = 0.5;
/// The share of the whole that a sequence must add.
const LEAST: f64 = 0.001;

/// Searches.
///
/// # Errors
/// If several profiles have too many contexts together.
pub fn search(forest: &Forest, options: &Options) -> Result<Found, UniteError> {
    if forest.indexes().nth(1).is_none() {
        return Ok(search_one(forest, options, &|_| true));
    }
    let united = United::new(forest)?;
    let sign = direction(&united.forest);
    // What may be chance is no start.
    let real = |s: &CallSequence| {
        let interval = united.interval(forest, united.forest.path_of(s));
        interval.is_none_or(|i| i.conservative() * sign > 0.0)
    };
    let mut found = search_one(&united.forest, options, &real);
    found.covered = united.unscaled(found.covered);
    for bottleneck in &mut found.bottlenecks {
        let path = united.forest.path_of(&bottleneck.sequence).to_vec();
        bottleneck.cost = united.unscaled(bottleneck.cost);
        bottleneck.new = united.unscaled(bottleneck.new);
        bottleneck.interval = united.interval(forest, &path);
        if let Some(sequence) = forest.summary_of(&path) {
            bottleneck.sequence = sequence;
        }
    }
    Ok(found)
}

fn search_one(forest: &Forest, options: &Options, real: &dyn Fn(&CallSequence) -> bool) -> Found {
    let wanted = options.coverage * coverable(forest);
    let run = |level: usize, finer: usize| {
        let mut greedy = Greedy::new(forest, options, real);
        if level > 0 {
            greedy.rounds(NOTABLE[level - 1], finer);
        }
        greedy.rounds(NOTABLE[level], options.count);
        greedy.found
    };
    // The finest level that covers enough; if none does, one that comes near to the best.
    let mut levels: Vec<Found> = (0..NOTABLE.len()).map(|level| run(level, 0)).collect();
    let most = levels
        .iter()
        .map(|found| found.covered.abs())
        .fold(0.0, f64::max);
    let wanted = wanted.min(NEAR * most);
    let enough = |found: &Found| found.covered.abs() >= wanted;
    let level = levels.iter().position(enough).unwrap_or(0);
    let mut best = levels.swap_remove(level);
    if level == 0 {
        return best;
    }
    // As many rounds as possible at the level below.
    let (mut low, mut high) = (0, options.count);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        let found = run(level, middle);
        match enough(&found) {
            true => (low, best) = (middle, found),
            false => high = middle,
        }
    }
    best
}

/// What can be covered: the whole, but of differences no more than what methods got dearer by.
fn coverable(forest: &Forest) -> f64 {
    let sign = direction(forest);
    let dearer = forest
        .initial()
        .iter()
        .map(|s| (sign * forest.base_of(s)).max(0.0));
    dearer.sum::<f64>().min(forest.whole())
}

struct Greedy<'a> {
    forest: &'a Forest,
    options: &'a Options,
    real: &'a dyn Fn(&CallSequence) -> bool,
    /// 1, or −1 if what got cheaper is searched for.
    sign: f64,
    /// What is covered, by tree, and the prefix sums of the costs that are not.
    covered: Vec<Spans>,
    left: Vec<Vec<i64>>,
    found: Found,
}

impl<'a> Greedy<'a> {
    fn new(
        forest: &'a Forest,
        options: &'a Options,
        real: &'a dyn Fn(&CallSequence) -> bool,
    ) -> Self {
        let views = || forest.indexes().map(|(index, _)| index.view());
        let sign = direction(forest);
        Self {
            found: Found {
                bottlenecks: Vec::new(),
                covered: 0.0,
                notable: 0.0,
                cheaper: sign < 0.0,
            },
            forest,
            options,
            real,
            sign,
            covered: views().map(|_| Spans::default()).collect(),
            left: views().map(|view| view.left(&Spans::default())).collect(),
        }
    }

    /// Adds causes at the level `notable`, until there are `count`.
    fn rounds(&mut self, notable: f64, count: usize) {
        self.found.notable = notable;
        while self.found.bottlenecks.len() < count {
            let Some(start) = self.next_cause() else {
                break;
            };
            let sequence = self.specific(start);
            let new = self.cover(&sequence);
            if new * self.sign < LEAST * self.forest.whole() {
                break;
            }
            self.found.covered += new;
            self.found.bottlenecks.push(Bottleneck {
                cost: self.forest.cum_of(&sequence),
                sequence,
                new,
                interval: None,
            });
        }
    }

    /// The cause with the most cost left.
    fn next_cause(&self) -> Option<CallSequence> {
        let whole = self.forest.whole();
        let mut by_step = vec![0.0; self.forest.methods().len()];
        for (at, (index, weight)) in self.forest.indexes().enumerate() {
            let metrics = index.view_with(&self.left[at]).metrics_of_methods();
            for (method, (_, cum)) in (0..).zip(metrics) {
                let Step(step) = self.forest.step_of(at, method);
                by_step[step as usize] += self.sign * weight * cum as f64;
            }
        }
        let initial = self.forest.initial().iter();
        let gains = initial.map(|s| (by_step[self.forest.path_of(s)[0].0 as usize], s));
        let mut gains: Vec<_> = gains.filter(|(gain, _)| *gain >= LEAST * whole).collect();
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        let cause = |(gain, s): &(f64, &CallSequence)| {
            let mostly_new = *gain >= NEW * self.sign * self.forest.cum_of(s);
            mostly_new && (self.real)(s) && !self.is_container(s, *gain)
        };
        gains.into_iter().find(cause).map(|(_, s)| s.clone())
    }

    fn gain_of_calls(&self, single: &CallSequence) -> f64 {
        let parts = self.forest.indexes().zip(single.parts()).zip(&self.left);
        let gain =
            |(((index, weight), part), left): (((&_, f64), &super::paths::Paths), &Vec<i64>)| {
                let view = super::tree::IndexedTree::view_with(index, left);
                let (mut end, mut sum) = (0, 0);
                for node in part.finals() {
                    if *node >= end {
                        end = view.nodes[*node as usize].end;
                        sum += view.cum_cost(*node);
                    }
                }
                weight * sum as f64
            };
        self.sign * parts.map(gain).sum::<f64>()
    }

    fn is_container(&self, single: &CallSequence, gain: f64) -> bool {
        let mut shares: FxHashMap<Step, f64> = FxHashMap::default();
        for (at, (index, weight)) in self.forest.indexes().enumerate() {
            let view = index.view_with(&self.left[at]);
            let mut add = |callee: u32, cost: i64| {
                let step = self.forest.step_of(at, view.nodes[callee as usize].method);
                *shares.entry(step).or_default() += self.sign * weight * cost as f64;
            };
            let mut around: Vec<u32> = Vec::new();
            for &node in single.parts()[at].finals() {
                for child in view.children(node) {
                    add(child, view.cum_cost(child));
                }
                let end = |n: &u32| view.nodes[*n as usize].end;
                while around.last().is_some_and(|n| end(n) <= node) {
                    around.pop();
                }
                if let Some(outer) = around.last() {
                    // What the inner call costs is not its outer's callee's.
                    let mut callee = node;
                    while view.nodes[callee as usize].parent != *outer {
                        callee = view.nodes[callee as usize].parent;
                    }
                    add(callee, -view.cum_cost(node));
                }
                around.push(node);
            }
        }
        let least = self.found.notable * self.forest.whole();
        let notable: f64 = shares.into_values().filter(|share| *share >= least).sum();
        notable >= CONTAINED * gain
    }

    /// The longest sequence around `start` that keeps its cost.
    fn specific(&self, start: CallSequence) -> CallSequence {
        let goal = self.options.cutoff * self.gain_of_calls(&start);
        let mut sequence = start;
        for end in [End::Top, End::Bottom] {
            loop {
                let extended = match end {
                    End::Top => self.forest.extended_top(&sequence),
                    End::Bottom => self.forest.extended_bottom(&sequence),
                };
                // Not the cum: that has the cost of the callers themselves, so that a hot method
                // would be extended by whatever it happened to call.
                let gain = |s: &CallSequence| self.gain_of_calls(s);
                let best = extended
                    .into_iter()
                    .max_by(|a, b| gain(a).total_cmp(&gain(b)));
                match best {
                    Some(longer) if gain(&longer) >= goal => sequence = longer,
                    _ => break,
                }
            }
        }
        sequence
    }

    /// Covers the sequence, and says how much was not covered before.
    fn cover(&mut self, sequence: &CallSequence) -> f64 {
        let cover = self.forest.cover(&[sequence]);
        let mut new = 0.0;
        for (at, (index, weight)) in self.forest.indexes().enumerate() {
            let nodes = &cover.cover()[at];
            new += weight * index.view_with(&self.left[at]).cost_of(nodes) as f64;
            self.covered[at] = self.covered[at].joined(nodes);
            self.left[at] = index.view().left(&self.covered[at]);
        }
        new
    }
}

/// What is searched for: more cost, unless the whole difference is that the first side is cheaper.
fn direction(forest: &Forest) -> f64 {
    let difference = forest.whole_kind() == super::forest::Whole::Difference;
    if difference && forest.total() < 0.0 {
        -1.0
    } else {
        1.0
    }
}
