//! The paths of one call sequence in one tree, and how they grow.
//!
//! The last node of a path determines the path, upwards. So paths are kept as their last nodes
//! (`finals`, the paper's final(s)) in preorder, each with its first node (`roots`).
//!
//! A final is **maximal** if no other final is above it. The subtrees of maximal finals are disjoint
//! and hold all of descendants(s) and final(s). What is left of the cum are nodes along the paths
//! above the maximal finals; this equals the two sums of §2.2, without looking at the ancestors of
//! each node. In a sweep over the finals in preorder, where `g` is the last maximal final so far, a node
//! along the path of the current final is above all maximal finals just if its number is less than
//! `g`: it is an ancestor of `g` or lies in `g`'s subtree.

use super::spans::Spans;
use super::tree::View;
use std::ops::Range;
use std::sync::Arc;

/// The paths of a call sequence in a tree, and their metrics (by the cost of the view that made them).
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    finals: Arc<Vec<u32>>,
    roots: Arc<Vec<u32>>,
    range: Range<usize>,
    pub base: i64,
    pub cum: i64,
    /// Whether some finals are below others.
    pub nested: bool,
}

/// A method by which paths can be extended, and the extended paths.
pub(crate) type Extension = (u32, Paths);

impl Paths {
    /// Paths of `length` steps.
    pub fn new(
        view: View<'_>,
        finals: Arc<Vec<u32>>,
        roots: Arc<Vec<u32>>,
        range: Range<usize>,
        length: usize,
    ) -> Self {
        let mut paths = Self {
            finals,
            roots,
            range,
            ..Self::default()
        };
        let mut sums = Sums::default();
        paths.nested = view.sweep(paths.finals(), length, &mut sums);
        (paths.base, paths.cum) = (sums.base, sums.cum);
        paths
    }

    pub fn finals(&self) -> &[u32] {
        &self.finals[self.range.clone()]
    }

    pub fn roots(&self) -> &[u32] {
        &self.roots[self.range.clone()]
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// What a sweep over paths meets, each node once.
trait Visitor {
    /// A maximal final.
    fn maximal(&mut self, view: &View<'_>, node: u32);
    /// A node along the paths; `bare` if it is in the cum but in no maximal final's subtree.
    fn along(&mut self, view: &View<'_>, node: u32, bare: bool);
}

#[derive(Default)]
struct Sums {
    base: i64,
    cum: i64,
}

impl Visitor for Sums {
    fn maximal(&mut self, view: &View<'_>, node: u32) {
        self.cum += view.cum_cost(node);
    }

    fn along(&mut self, view: &View<'_>, node: u32, bare: bool) {
        let cost = view.cost(node);
        self.base += cost;
        if bare {
            self.cum += cost;
        }
    }
}

#[derive(Default)]
struct Runs {
    along: Vec<(u32, u32)>,
    cover: Vec<(u32, u32)>,
}

impl Visitor for Runs {
    fn maximal(&mut self, view: &View<'_>, node: u32) {
        self.cover.push((node, view.end[node as usize]));
    }

    fn along(&mut self, _: &View<'_>, node: u32, bare: bool) {
        self.along.push((node, node + 1));
        if bare {
            self.cover.push((node, node + 1));
        }
    }
}

/// along(s) ∪ descendants(s), as subtrees and single nodes.
#[derive(Default)]
struct Cover(Vec<(u32, u32)>);

impl Visitor for Cover {
    fn maximal(&mut self, view: &View<'_>, node: u32) {
        self.0.push((node, view.end[node as usize]));
    }

    fn along(&mut self, _: &View<'_>, node: u32, bare: bool) {
        if bare {
            self.0.push((node, node + 1));
        }
    }
}

impl View<'_> {
    /// Visits the paths of `length` steps that end in `finals`; returns whether some are nested.
    fn sweep(&self, finals: &[u32], length: usize, visitor: &mut impl Visitor) -> bool {
        let mut scratch = self.scratch.borrow_mut();
        let (stamp, epoch) = scratch.begin(length);
        self.sweep_on(finals, length, stamp, epoch, visitor)
    }

    /// The same, but for nodes that were visited since `epoch` began.
    fn sweep_on(
        &self,
        finals: &[u32],
        length: usize,
        stamp: &mut [u32],
        epoch: u32,
        visitor: &mut impl Visitor,
    ) -> bool {
        // A node's stamp says at which place of the path, counted from its end, it was visited. What
        // is above it was visited then if it comes at the same place again; with recursion, it can come
        // at another place, and the path then reaches up to another root.
        let (mut maximal, mut end, mut nested) = (0, 0, false);
        for &last in finals {
            if last >= end {
                (maximal, end) = (last, self.end[last as usize]);
                visitor.maximal(self, last);
            } else {
                nested = true;
            }
            let mut node = last;
            for place in epoch..epoch + length as u32 {
                let seen = &mut stamp[node as usize];
                if *seen == place {
                    break;
                }
                if *seen < epoch {
                    visitor.along(self, node, node < maximal);
                }
                *seen = place;
                node = self.parent[node as usize];
            }
        }
        nested
    }

    /// along(s), and along(s) ∪ descendants(s), of paths of `length` steps.
    pub fn sets(&self, paths: &Paths, length: usize) -> (Spans, Spans) {
        let mut runs = Runs::default();
        self.sweep(paths.finals(), length, &mut runs);
        (Spans::union(runs.along), Spans::union(runs.cover))
    }

    /// along(s) ∪ descendants(s), of paths of `length` steps.
    pub fn cover(&self, paths: &Paths, length: usize) -> Spans {
        let mut runs = Cover::default();
        self.sweep(paths.finals(), length, &mut runs);
        Spans::union(runs.0)
    }

    /// What each of these adds to the cum of those before it. They have been made by extending
    /// the same paths at the same side to `length` steps; none of their finals is below another one's, and
    /// no method comes twice in any of them.
    pub fn disjoint_costs(&self, list: &[&Paths], length: usize) -> Vec<i64> {
        let mut scratch = self.scratch.borrow_mut();
        let (stamp, epoch) = scratch.begin(length);
        let cost = |paths: &&Paths| {
            let mut sums = Sums::default();
            self.sweep_on(paths.finals(), length, stamp, epoch, &mut sums);
            sums.cum
        };
        list.iter().map(cost).collect()
    }

    /// What each of these paths of `length` steps adds to the cum of those before it.
    ///
    /// Their covers consist of subtrees and single nodes, so that any two parts are nested or disjoint. In a
    /// sweep over all parts, each node goes to the first of the lists that has it.
    pub fn ranked_costs(&self, list: &[&Paths], length: usize) -> Vec<i64> {
        // In one number, for a fast sort: the start, whether it is a single node, the rank.
        const SINGLE: u64 = 1 << 31;
        let mut parts: Vec<u64> = Vec::new();
        for (rank, paths) in list.iter().enumerate() {
            let mut runs = Cover::default();
            self.sweep(paths.finals(), length, &mut runs);
            let part = |(start, end): &(u32, u32)| {
                let single = *end != self.end[*start as usize];
                u64::from(*start) << 32 | if single { SINGLE } else { 0 } | rank as u64
            };
            parts.extend(runs.0.iter().map(part));
        }
        parts.sort_unstable();
        let mut costs = vec![0; list.len()];
        // The parts around the place where the sweep is, each with the first rank of it and those around it.
        let mut around: Vec<(u32, usize)> = Vec::new();
        let mut at = 0;
        let mut take = |until: u32, rank: Option<&(u32, usize)>| {
            if let Some((_, rank)) = rank {
                costs[*rank] += self.prefix[until as usize] - self.prefix[at as usize];
            }
            at = until;
        };
        for part in parts {
            let (start, rank) = ((part >> 32) as u32, (part & (SINGLE - 1)) as usize);
            while let Some(inner) = around.last().filter(|inner| inner.0 <= start) {
                take(inner.0, Some(inner));
                around.pop();
            }
            let outer = around.last().map_or(usize::MAX, |(_, outer)| *outer);
            if outer <= rank {
                continue;
            }
            take(start, around.last());
            let end = match part & SINGLE {
                0 => self.end[start as usize],
                _ => start + 1,
            };
            around.push((end, rank));
        }
        while let Some(inner) = around.pop() {
            take(inner.0, Some(&inner));
        }
        costs
    }

    /// The paths extended by each of their roots' callers, or by one of them only. `length` is the
    /// length of `paths`.
    pub fn extended_top(&self, paths: &Paths, length: usize, only: Option<u32>) -> Vec<Extension> {
        let mut groups = Groups::default();
        let mut scratch = self.scratch.borrow_mut();
        for (last, root) in paths.finals().iter().zip(paths.roots()) {
            let caller = self.parent[*root as usize];
            if caller == 0 {
                continue;
            }
            let method = self.method[caller as usize];
            if only.is_none_or(|m| m == method) {
                groups.add(&mut scratch.slot, method, *last, caller);
            }
        }
        drop(scratch);
        groups.finish(self, length + 1)
    }

    /// The paths extended by each method that their finals call, or by one of them only.
    pub fn extended_bottom(
        &self,
        paths: &Paths,
        length: usize,
        only: Option<u32>,
    ) -> Vec<Extension> {
        let mut groups = Groups::default();
        let mut scratch = self.scratch.borrow_mut();
        for (last, root) in paths.finals().iter().zip(paths.roots()) {
            let (mut child, end) = (last + 1, self.end[*last as usize]);
            while child < end {
                let method = self.method[child as usize];
                if only.is_none_or(|m| m == method) {
                    groups.add(&mut scratch.slot, method, child, *root);
                }
                child = self.end[child as usize];
            }
        }
        drop(scratch);
        groups.finish(self, length + 1)
    }
}

/// Paths by the method that extends them.
#[derive(Default)]
struct Groups {
    /// By group: the method, the number of paths, the last final, whether the finals are in order.
    groups: Vec<Group>,
    /// The group, final and root of each path.
    entries: Vec<(u32, u32, u32)>,
}

struct Group {
    method: u32,
    count: usize,
    last: u32,
    sorted: bool,
}

impl Groups {
    /// `slot` is the number of each method's group plus one, or 0.
    fn add(&mut self, slot: &mut [u32], method: u32, last: u32, root: u32) {
        let slot = &mut slot[method as usize];
        if *slot == 0 {
            self.groups.push(Group {
                method,
                count: 0,
                last: 0,
                sorted: true,
            });
            *slot = self.groups.len() as u32;
        }
        let group = &mut self.groups[*slot as usize - 1];
        group.count += 1;
        group.sorted &= group.last < last;
        group.last = last;
        self.entries.push((*slot - 1, last, root));
    }

    fn finish(self, view: &View<'_>, length: usize) -> Vec<Extension> {
        let Self { groups, entries } = self;
        {
            let slot = &mut view.scratch.borrow_mut().slot;
            for group in &groups {
                slot[group.method as usize] = 0;
            }
        }
        let mut next = Vec::with_capacity(groups.len());
        let mut count = 0;
        for group in &groups {
            next.push(count);
            count += group.count;
        }
        let (mut finals, mut roots) = (vec![0; count], vec![0; count]);
        for (group, last, root) in entries {
            let at = next[group as usize];
            (finals[at], roots[at]) = (last, root);
            next[group as usize] += 1;
        }
        for (group, end) in groups.iter().zip(&next) {
            if !group.sorted {
                sort(
                    &mut finals[end - group.count..*end],
                    &mut roots[end - group.count..*end],
                );
            }
        }
        let (finals, roots) = (Arc::new(finals), Arc::new(roots));
        let extension = |(group, end): (&Group, &usize)| {
            let range = end - group.count..*end;
            (
                group.method,
                Paths::new(*view, finals.clone(), roots.clone(), range, length),
            )
        };
        groups.iter().zip(&next).map(extension).collect()
    }
}

/// Sorts both by the finals; as one number each, which sorts faster than a pair.
fn sort(finals: &mut [u32], roots: &mut [u32]) {
    let pairs = finals.iter().zip(&*roots);
    let mut pairs: Vec<u64> = pairs
        .map(|(last, root)| u64::from(*last) << 32 | u64::from(*root))
        .collect();
    pairs.sort_unstable();
    for (at, pair) in pairs.into_iter().enumerate() {
        (finals[at], roots[at]) = ((pair >> 32) as u32, pair as u32);
    }
}
