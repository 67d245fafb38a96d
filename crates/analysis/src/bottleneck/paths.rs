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

/// Paths of one length: the last and the first node of each, and what its nodes cost but for the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    finals: Vec<u32>,
    /// Empty for paths of one node.
    roots: Vec<u32>,
    /// Empty for paths of one node.
    above: Vec<i64>,
}

impl Found {
    /// Paths of one node each.
    pub fn single_nodes(nodes: Vec<u32>) -> Self {
        Self {
            finals: nodes,
            ..Self::default()
        }
    }

    pub fn push(&mut self, last: u32, root: u32, above: i64) {
        self.finals.push(last);
        self.roots.push(root);
        self.above.push(above);
    }

    pub fn finals(&self) -> &[u32] {
        &self.finals
    }

    /// The last node, the first node, the cost above the last.
    fn path(&self, at: usize) -> (u32, u32, i64) {
        let last = self.finals[at];
        let root = self.roots.get(at).copied().unwrap_or(last);
        (last, root, self.above.get(at).copied().unwrap_or(0))
    }

    /// Puts these paths in order.
    fn sort(&mut self, range: Range<usize>) {
        let mut paths: Vec<_> = range.clone().map(|at| self.path(at)).collect();
        paths.sort_unstable_by_key(|path| path.0);
        for (at, (last, root, above)) in range.zip(paths) {
            (self.finals[at], self.roots[at], self.above[at]) = (last, root, above);
        }
    }
}

/// The paths of a call sequence in a tree, and their metrics (by the cost of the view that made them).
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    found: Arc<Found>,
    range: Range<usize>,
    pub base: i64,
    pub cum: i64,
}

/// A method by which paths can be extended, and the extended paths.
pub(crate) type Extension = (u32, Paths);

impl Paths {
    /// These of the paths, which have `length` steps. `sums` is of them, if they share no node.
    fn new(
        view: View<'_>,
        found: Arc<Found>,
        range: Range<usize>,
        length: usize,
        sums: Option<Sums>,
    ) -> Self {
        let mut paths = Self::unmeasured(found, range);
        let sums = if view.share_no_node(&paths, length) {
            sums.unwrap_or_else(|| {
                let mut sums = Sums::default();
                paths.iter().for_each(|path| sums.add(&view, path));
                sums
            })
        } else {
            let mut sums = Sums::default();
            view.sweep(paths.finals(), length, &mut sums);
            sums
        };
        (paths.base, paths.cum) = (sums.base, sums.cum);
        paths
    }

    /// All of them.
    pub fn of_all(view: View<'_>, found: Found, length: usize) -> Self {
        let range = 0..found.finals.len();
        Self::new(view, Arc::new(found), range, length, None)
    }

    /// Without metrics.
    pub fn unmeasured(found: Arc<Found>, range: Range<usize>) -> Self {
        Self {
            found,
            range,
            ..Self::default()
        }
    }

    pub fn finals(&self) -> &[u32] {
        &self.found.finals[self.range.clone()]
    }

    /// See [`Found::path`].
    fn iter(&self) -> impl Iterator<Item = (u32, u32, i64)> + '_ {
        self.range.clone().map(|at| self.found.path(at))
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
    /// The end of a path.
    fn next_path(&mut self) {}
}

#[derive(Clone, Copy, Default)]
struct Sums {
    base: i64,
    cum: i64,
    /// The end of the subtree of the last maximal final.
    end: u32,
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

impl Sums {
    /// Adds the next path, where no two share a node. One that ends below another one's final is then wholly
    /// below it.
    fn add(&mut self, view: &View<'_>, (last, _, above): (u32, u32, i64)) {
        self.base += above + view.cost(last);
        if last >= self.end {
            self.end = view.nodes[last as usize].end;
            self.cum += above + view.cum_cost(last);
        }
    }
}

#[derive(Default)]
struct Runs {
    along: Vec<(u32, u32)>,
    cover: Cover,
    path: usize,
}

impl Visitor for Runs {
    fn maximal(&mut self, view: &View<'_>, node: u32) {
        self.cover.maximal(view, node);
    }

    fn along(&mut self, view: &View<'_>, node: u32, bare: bool) {
        self.along.push((node, node + 1));
        self.cover.along(view, node, bare);
    }

    fn next_path(&mut self) {
        self.along[self.path..].reverse();
        self.path = self.along.len();
        self.cover.next_path();
    }
}

/// along(s) ∪ descendants(s), as subtrees and single nodes; those of each path from above, so that all are
/// nearly sorted.
#[derive(Default)]
struct Cover {
    parts: Vec<(u32, u32)>,
    path: usize,
}

impl Visitor for Cover {
    fn maximal(&mut self, view: &View<'_>, node: u32) {
        self.parts.push((node, view.nodes[node as usize].end));
    }

    fn along(&mut self, _: &View<'_>, node: u32, bare: bool) {
        if bare {
            self.parts.push((node, node + 1));
        }
    }

    fn next_path(&mut self) {
        self.parts[self.path..].reverse();
        self.path = self.parts.len();
    }
}

impl View<'_> {
    /// Whether no two of the paths have a node in common, because the first step does not come again. (Of two
    /// paths that have, one begins on the other. A caller has one callee for each method, so that they
    /// cannot begin at the same node.)
    fn share_no_node(&self, paths: &Paths, length: usize) -> bool {
        let Some((last, root, _)) = paths.iter().next() else {
            return true;
        };
        let first = self.nodes[root as usize].method;
        let mut below = self.callers(last, length - 1);
        below.all(|node| self.nodes[node as usize].method != first)
    }

    /// Visits the paths of `length` steps that end in `finals`.
    fn sweep(&self, finals: &[u32], length: usize, visitor: &mut impl Visitor) {
        let epoch = self.begin(length);
        // A node's stamp says at which place of the path, counted from its end, it was visited. What
        // is above it was visited then if it comes at the same place again; with recursion, it can come
        // at another place, and the path then reaches up to another root.
        let (mut maximal, mut end) = (0, 0);
        for &last in finals {
            if last >= end {
                (maximal, end) = (last, self.nodes[last as usize].end);
                visitor.maximal(self, last);
            }
            for (node, place) in self.callers(last, length).zip(epoch..) {
                let stamp = &self.nodes[node as usize].stamp;
                let seen = stamp.replace(place);
                if seen == place {
                    break;
                }
                if seen < epoch {
                    visitor.along(self, node, node < maximal);
                }
            }
            visitor.next_path();
        }
    }

    /// along(s), and along(s) ∪ descendants(s), of paths of `length` steps.
    pub fn sets(&self, paths: &Paths, length: usize) -> (Spans, Spans) {
        let mut runs = Runs::default();
        self.sweep(paths.finals(), length, &mut runs);
        (Spans::union(runs.along), Spans::union(runs.cover.parts))
    }

    /// The cum of paths of `length` steps by this view's cost.
    pub fn cum(&self, paths: &Paths, length: usize) -> i64 {
        let mut sums = Sums::default();
        if !self.share_no_node(paths, length) {
            self.sweep(paths.finals(), length, &mut sums);
            return sums.cum;
        }
        let mut end = 0;
        for &last in paths.finals() {
            if last >= end {
                end = self.nodes[last as usize].end;
                let above = self.callers(last, length).skip(1);
                sums.cum += self.cum_cost(last) + above.map(|n| self.cost(n)).sum::<i64>();
            }
        }
        sums.cum
    }

    /// What each of these lists of paths of `length` steps adds to the cum of those before it: each node's
    /// cost goes to the first list that has it. They are extensions of one sequence at one side, so that no
    /// node is a final of two of them.
    ///
    /// One sweep over all finals in preorder, with a stack of the finals around the place where it is. It gives
    /// each subtree to the first list of those finals, and takes it from the one that had it; then likewise
    /// the single nodes above a final, which the stamp says the owner of.
    pub fn ranked_costs(&self, list: &[&Paths], length: usize) -> Vec<i64> {
        // In one number, for a fast sort: the final and the rank.
        let ranked = |(rank, paths): (usize, &&Paths)| {
            let finals = paths.finals().to_vec().into_iter();
            finals.map(move |last| u64::from(last) << 32 | rank as u64)
        };
        let mut finals: Vec<u64> = list.iter().enumerate().flat_map(ranked).collect();
        // Stable, because that knows to merge sorted runs.
        finals.sort();
        let epoch = self.begin(list.len());
        let mut costs = vec![0; list.len()];
        let mut give = |to: u32, from: Option<u32>, cost: i64| {
            costs[to as usize] += cost;
            if let Some(from) = from {
                costs[from as usize] -= cost;
            }
        };
        let mut around: Vec<(u32, u32)> = Vec::new();
        for entry in finals {
            let (last, rank) = ((entry >> 32) as u32, entry as u32);
            while around
                .last()
                .is_some_and(|(n, _)| self.nodes[*n as usize].end <= last)
            {
                around.pop();
            }
            let mut outer = around.iter().rev().peekable();
            let owner = outer.peek().map(|(_, rank)| *rank);
            let is_first = owner.is_none_or(|owner| rank < owner);
            if is_first {
                give(rank, owner, self.cum_cost(last));
            }
            for node in self.callers(last, length).skip(1) {
                while outer.next_if(|(n, _)| *n > node).is_some() {}
                let stamp = &self.nodes[node as usize].stamp;
                let owner = match stamp.get().checked_sub(epoch) {
                    Some(owner) => Some(owner),
                    None => outer.peek().map(|(_, rank)| *rank),
                };
                if owner.is_none_or(|owner| rank < owner) {
                    give(rank, owner, self.cost(node));
                    stamp.set(epoch + rank);
                }
            }
            if is_first {
                around.push((last, rank));
            }
        }
        costs
    }

    /// The paths extended by each of their roots' callers, or by one of them only. `length` is the
    /// length of `paths`.
    pub fn extended_top(&self, paths: &Paths, length: usize, only: Option<u32>) -> Vec<Extension> {
        let mut groups = Groups::default();
        let mut slot = self.scratch.slot.borrow_mut();
        for (last, root, above) in paths.iter() {
            let caller = self.nodes[root as usize].parent;
            let method = self.nodes[caller as usize].method;
            if caller != 0 && only.is_none_or(|m| m == method) {
                let above = above + self.cost(caller);
                groups.add(self, &mut slot, method, (last, caller, above));
            }
        }
        groups.finish(self, &mut slot, length + 1)
    }

    /// The paths extended by each method that their finals call, or by one of them only.
    pub fn extended_bottom(
        &self,
        paths: &Paths,
        length: usize,
        only: Option<u32>,
    ) -> Vec<Extension> {
        let mut groups = Groups::default();
        let mut slot = self.scratch.slot.borrow_mut();
        for (last, root, above) in paths.iter() {
            let above = above + self.cost(last);
            for child in self.children(last) {
                let method = self.nodes[child as usize].method;
                if only.is_none_or(|m| m == method) {
                    groups.add(self, &mut slot, method, (child, root, above));
                }
            }
        }
        groups.finish(self, &mut slot, length + 1)
    }

    /// The paths extended by one method that their finals call.
    pub fn callees(&self, paths: &Found, method: u32) -> Found {
        let mut found = Found::default();
        for (last, root, above) in (0..paths.finals.len()).map(|at| paths.path(at)) {
            let is_called = |child: &u32| self.nodes[*child as usize].method == method;
            if let Some(callee) = self.children(last).find(is_called) {
                found.push(callee, root, above + self.cost(last));
            }
        }
        if !found.finals.is_sorted() {
            found.sort(0..found.finals.len());
        }
        found
    }
}

/// Paths by the method that extends them.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    /// The group of each path, and the path.
    entries: Vec<(u32, (u32, u32, i64))>,
}

struct Group {
    method: u32,
    count: usize,
    /// The last final.
    last: u32,
    /// Whether the finals are in order.
    sorted: bool,
    /// Of what was added, if it was in order and shares no node.
    sums: Sums,
}

impl Groups {
    /// `slot` is the number of each method's group plus one, or 0.
    fn add(&mut self, view: &View<'_>, slot: &mut [u32], method: u32, path: (u32, u32, i64)) {
        let slot = &mut slot[method as usize];
        if *slot == 0 {
            self.groups.push(Group {
                method,
                count: 0,
                last: 0,
                sorted: true,
                sums: Sums::default(),
            });
            *slot = self.groups.len() as u32;
        }
        let group = &mut self.groups[*slot as usize - 1];
        group.count += 1;
        group.sorted &= group.last < path.0;
        group.last = path.0;
        // Now, while the node is at hand.
        group.sums.add(view, path);
        self.entries.push((*slot - 1, path));
    }

    fn finish(self, view: &View<'_>, slot: &mut [u32], length: usize) -> Vec<Extension> {
        let Self { groups, entries } = self;
        let mut next = Vec::with_capacity(groups.len());
        let mut count = 0;
        for group in &groups {
            slot[group.method as usize] = 0;
            next.push(count);
            count += group.count;
        }
        let mut found = Found {
            finals: vec![0; count],
            roots: vec![0; count],
            above: vec![0; count],
        };
        for (group, path) in entries {
            let at = next[group as usize];
            (found.finals[at], found.roots[at], found.above[at]) = path;
            next[group as usize] += 1;
        }
        for (group, end) in groups.iter().zip(&next) {
            if !group.sorted {
                found.sort(end - group.count..*end);
            }
        }
        let found = Arc::new(found);
        let extension = |(group, end): (&Group, &usize)| {
            let range = end - group.count..*end;
            let sums = group.sorted.then_some(group.sums);
            let paths = Paths::new(*view, found.clone(), range, length, sums);
            (group.method, paths)
        };
        groups.iter().zip(&next).map(extension).collect()
    }
}
