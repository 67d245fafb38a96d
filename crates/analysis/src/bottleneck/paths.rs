//! The paths of one call sequence in one tree, and how they grow.
//!
//! The last node of a path determines the path, upwards. So a path is stored as its last node
//! (`finals`, the paper's final(s)), in preorder, with its first node (`roots`).
//!
//! A final is **maximal** if no other final is above it. The subtrees of maximal finals are
//! disjoint and hold all of descendants(s) and final(s). The rest of the cum are nodes along the
//! paths above the maximal finals. This equals the two sums of §2.2, without a look at the
//! ancestors of each node. In a sweep over the finals in preorder, where `g` is the last maximal
//! final so far, a node along the path of the current final is above all maximal finals exactly if
//! its number is less than `g`: it is an ancestor of `g` or lies in `g`'s subtree.

use super::spans::Spans;
use super::view::View;
use std::cell::RefMut;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The number of callers whose callees are fetched together.
const AHEAD: usize = 256;

/// Paths of one length: the last and the first node of each, and the cost of its nodes without the
/// last.
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

    /// Returns the last node, the first node, the cost above the last.
    fn path(&self, at: usize) -> (u32, u32, i64) {
        let last = self.finals[at];
        let root = self.roots.get(at).copied().unwrap_or(last);
        (last, root, self.above.get(at).copied().unwrap_or(0))
    }

    /// Puts these paths in order.
    fn sort(&mut self) {
        let mut paths: Vec<_> = (0..self.finals.len()).map(|at| self.path(at)).collect();
        paths.sort_unstable_by_key(|path| path.0);
        for (at, (last, root, above)) in paths.into_iter().enumerate() {
            (self.finals[at], self.roots[at], self.above[at]) = (last, root, above);
        }
    }
}

/// The paths of a call sequence in a tree, and their metrics by the tree's own cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    found: Arc<Found>,
    range: Range<usize>,
    pub cum: i64,
    /// Computed on demand: most sequences are looked at for their cum only.
    base: OnceLock<i64>,
}

/// A method by which paths can be extended, and the extended paths.
pub(crate) type Extension = (u32, Paths);

impl Paths {
    /// Makes the paths of a range, which have `length` steps. `cum` is their cum, if no two share a
    /// node.
    fn new(
        view: View<'_>,
        found: Arc<Found>,
        range: Range<usize>,
        length: usize,
        cum: Option<i64>,
    ) -> Self {
        let mut paths = Self {
            found,
            range,
            ..Self::default()
        };
        paths.cum = match cum {
            Some(cum) if view.share_no_node(&paths, length) => cum,
            _ => view.cum_with(&paths, length, |_, above| above),
        };
        paths
    }

    /// Makes all of the paths.
    pub fn of_all(view: View<'_>, found: Found, length: usize) -> Self {
        let range = 0..found.finals.len();
        Self::new(view, Arc::new(found), range, length, None)
    }

    /// Makes paths whose metrics are known.
    pub fn measured(found: Arc<Found>, range: Range<usize>, (base, cum): (i64, i64)) -> Self {
        Self {
            found,
            range,
            cum,
            base: base.into(),
        }
    }

    /// Returns the base of these paths of `length` steps; `view` is of their tree.
    pub fn base(&self, view: View<'_>, length: usize) -> i64 {
        *self.base.get_or_init(|| {
            if view.share_no_node(self, length) {
                let costs = self.iter().map(|(last, _, above)| above + view.cost(last));
                return costs.sum();
            }
            let mut along = Along::default();
            view.sweep_paths(self, length, &mut along);
            along.base
        })
    }

    pub fn finals(&self) -> &[u32] {
        &self.found.finals[self.range.clone()]
    }

    /// See [`Found::path`].
    fn path(&self, at: usize) -> (u32, u32, i64) {
        self.found.path(self.range.start + at)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32, i64)> + '_ {
        (0..self.range.len()).map(|at| self.path(at))
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// A visitor of a sweep over paths, which meets each node once.
trait Visitor {
    /// True if the visitor needs only maximal finals and bare nodes. A sweep then skips paths
    /// without these.
    const ONLY_BARE: bool = false;
    /// Visits a maximal final.
    fn visit_maximal(&mut self, view: &View<'_>, node: u32);
    /// Visits a node along the paths; `bare` if it is in the cum but in no maximal final's subtree.
    fn visit_along(&mut self, view: &View<'_>, node: u32, bare: bool);
    /// Ends a path.
    fn next_path(&mut self) {}
}

/// Visitor that sums up the base.
#[derive(Default)]
struct Along {
    base: i64,
}

impl Visitor for Along {
    fn visit_maximal(&mut self, _: &View<'_>, _: u32) {}

    fn visit_along(&mut self, view: &View<'_>, node: u32, _: bool) {
        self.base += view.cost(node);
    }
}

/// Visitor that sums up the cum.
#[derive(Default)]
struct Covered {
    cum: i64,
}

impl Visitor for Covered {
    const ONLY_BARE: bool = true;

    fn visit_maximal(&mut self, view: &View<'_>, node: u32) {
        self.cum += view.cum_cost(node);
    }

    fn visit_along(&mut self, view: &View<'_>, node: u32, bare: bool) {
        if bare {
            self.cum += view.cost(node);
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
    fn visit_maximal(&mut self, view: &View<'_>, node: u32) {
        self.cover.visit_maximal(view, node);
    }

    fn visit_along(&mut self, view: &View<'_>, node: u32, bare: bool) {
        self.along.push((node, node + 1));
        self.cover.visit_along(view, node, bare);
    }

    fn next_path(&mut self) {
        self.along[self.path..].reverse();
        self.path = self.along.len();
        self.cover.next_path();
    }
}

/// Visitor that collects along(s) ∪ descendants(s), as subtrees and single nodes. It visits each
/// path from above, so that all are nearly sorted.
#[derive(Default)]
struct Cover {
    parts: Vec<(u32, u32)>,
    path: usize,
}

impl Visitor for Cover {
    fn visit_maximal(&mut self, view: &View<'_>, node: u32) {
        self.parts.push((node, view.nodes[node as usize].end));
    }

    fn visit_along(&mut self, _: &View<'_>, node: u32, bare: bool) {
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
    /// Returns whether no two of the paths share a node, because the first step does not occur
    /// again. (If two paths share a node, one begins on the other. They cannot begin at the same
    /// node, because a caller has one callee for each method.)
    fn share_no_node(&self, paths: &Paths, length: usize) -> bool {
        let Some((last, root, _)) = paths.iter().next() else {
            return true;
        };
        let first = self.nodes[root as usize].method;
        let mut below = self.callers(last, length - 1);
        below.all(|node| self.nodes[node as usize].method != first)
    }

    /// Visits `paths`, which have `length` steps.
    fn sweep_paths<V: Visitor>(&self, paths: &Paths, length: usize, visitor: &mut V) {
        let epoch = self.begin_epoch(length);
        // A node's stamp is its position in the path, counted from the end, when it was visited. If
        // the node comes at the same position again, the nodes above it were visited too. Recursion
        // can bring it at another position, and the path then reaches up to another root.
        let (mut maximal, mut end) = (0, 0);
        for (last, root, _) in paths.iter() {
            if last >= end {
                (maximal, end) = (last, self.nodes[last as usize].end);
                visitor.visit_maximal(self, last);
            }
            // The whole path is in the maximal final's subtree.
            if V::ONLY_BARE && root >= maximal {
                continue;
            }
            for (node, place) in self.callers(last, length).zip(epoch..) {
                let stamp = &self.nodes[node as usize].stamp;
                let seen = stamp.replace(place);
                if seen == place {
                    break;
                }
                if seen < epoch {
                    visitor.visit_along(self, node, node < maximal);
                }
            }
            visitor.next_path();
        }
    }

    /// Returns along(s), and along(s) ∪ descendants(s), of paths of `length` steps.
    pub fn along_and_below(&self, paths: &Paths, length: usize) -> (Spans, Spans) {
        let mut runs = Runs::default();
        self.sweep_paths(paths, length, &mut runs);
        (Spans::union(runs.along), Spans::union(runs.cover.parts))
    }

    /// Returns the cum of paths of `length` steps by this view's cost.
    pub fn cum(&self, paths: &Paths, length: usize) -> i64 {
        self.cum_with(paths, length, |last, _| {
            let above = self.callers(last, length).skip(1);
            above.map(|n| self.cost(n)).sum()
        })
    }

    /// Returns the cum of paths like [`cum`](Self::cum). `above` gives a path's cost without its
    /// last node, from that node and the tree's own cost.
    fn cum_with(&self, paths: &Paths, length: usize, above: impl Fn(u32, i64) -> i64) -> i64 {
        if !self.share_no_node(paths, length) {
            let mut covered = Covered::default();
            self.sweep_paths(paths, length, &mut covered);
            return covered.cum;
        }
        // A path that ends below another one's final lies wholly below it.
        let (mut end, mut cum) = (0, 0);
        for (last, _, own) in paths.iter() {
            if last >= end {
                end = self.nodes[last as usize].end;
                cum += above(last, own) + self.cum_cost(last);
            }
        }
        cum
    }

    /// Returns the cum that each of these lists of paths of `length` steps adds to the lists before
    /// it: each node's cost goes to the first list that has it. The lists extend one sequence at
    /// one side, so that no node is a final in two of them.
    ///
    /// One sweep visits all finals in preorder, with a stack of the finals around the current one.
    /// It gives each subtree to the first list among those finals, and takes it from the previous
    /// owner. It does the same with the single nodes above a final, whose owner is in their stamp.
    pub fn ranked_costs(&self, list: &[&Paths], length: usize) -> Vec<i64> {
        let ranked = |(rank, paths): (u32, &'_ &Paths)| -> Vec<(u32, u32, u32)> {
            let path = |(last, root, _)| (last, rank, root);
            paths.iter().map(path).collect()
        };
        let mut paths: Vec<_> = (0..).zip(list).flat_map(ranked).collect();
        // A stable sort, because it merges sorted runs.
        paths.sort_by_key(|(last, ..)| *last);
        let epoch = self.begin_epoch(list.len());
        let mut costs = vec![0; list.len()];
        let mut give = |to: u32, from: Option<u32>, cost: i64| {
            costs[to as usize] += cost;
            if let Some(from) = from {
                costs[from as usize] -= cost;
            }
        };
        let mut around: Vec<(u32, u32)> = Vec::new();
        for (last, rank, root) in paths {
            while around
                .last()
                .is_some_and(|(n, _)| self.nodes[*n as usize].end <= last)
            {
                around.pop();
            }
            // An earlier list owns a subtree that contains the whole path.
            if around
                .last()
                .is_some_and(|(n, first)| *first <= rank && *n <= root)
            {
                continue;
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

    /// Returns the paths extended by each of their roots' callers, or by the method `only` if
    /// given. `length` is the length of `paths`.
    pub fn extended_top(&self, paths: &Paths, length: usize, only: Option<u32>) -> Vec<Extension> {
        let mut groups = Groups::new(self, only);
        for (last, root, above) in paths.iter() {
            let caller = self.nodes[root as usize].parent;
            if caller != 0 {
                groups.add(caller, (last, caller, above + self.cost(caller)));
            }
        }
        groups.finish(length + 1)
    }

    /// Returns the paths extended by each method that their finals call, or by the method `only` if
    /// given.
    pub fn extended_bottom(
        &self,
        paths: &Paths,
        length: usize,
        only: Option<u32>,
    ) -> Vec<Extension> {
        let mut groups = Groups::new(self, only);
        self.callees_in_order(paths.finals(), |at, callee| {
            let (last, root, above) = paths.path(at);
            groups.add(callee, (callee, root, above + self.cost(last)));
        });
        groups.finish(length + 1)
    }

    /// Visits the callees of `nodes` in preorder, each with the position of its caller in `nodes`,
    /// which are in preorder. If two nodes nest, the inner one's callees come between those of the
    /// outer one.
    fn callees_in_order(&self, nodes: &[u32], mut visit: impl FnMut(usize, u32)) {
        // The callers around: position, next callee, and end of the subtree.
        let mut around: Vec<(usize, u32, u32)> = Vec::new();
        let next_callers = nodes.iter().copied().chain([u32::MAX]);
        for (at, caller) in next_callers.enumerate() {
            if at % AHEAD == 0 {
                self.fetch_callees(&nodes[at..nodes.len().min(at + AHEAD)]);
            }
            while let Some((outer, next, end)) = around.last_mut() {
                while *next < *end && *next <= caller {
                    visit(*outer, *next);
                    *next = self.nodes[*next as usize].end;
                }
                if *end > caller {
                    break;
                }
                around.pop();
            }
            let end = self.nodes.get(caller as usize).map_or(0, |node| node.end);
            if caller.saturating_add(1) < end {
                around.push((at, caller + 1, end));
            }
        }
    }

    /// Fetches the callees of these nodes into the processor's caches, one callee of each node at a
    /// time. The next callee is known only after the one before has come from memory; this way all
    /// nodes wait together, and not one after the other.
    fn fetch_callees(&self, nodes: &[u32]) {
        let end = |node: u32| self.nodes[node as usize].end;
        let mut next: Vec<(u32, u32)> = nodes.iter().map(|node| (node + 1, end(*node))).collect();
        while !next.is_empty() {
            next.retain_mut(|(callee, last)| {
                *callee = if *callee < *last { end(*callee) } else { *last };
                callee < last
            });
        }
        std::hint::black_box(&next);
    }

    /// Returns the paths extended by one method that their finals call.
    pub fn extend_by_callee(&self, paths: &Found, method: u32) -> Found {
        let mut found = Found::default();
        for (last, root, above) in (0..paths.finals.len()).map(|at| paths.path(at)) {
            let is_called = |child: &u32| self.nodes[*child as usize].method == method;
            if let Some(callee) = self.children(last).find(is_called) {
                found.push(callee, root, above + self.cost(last));
            }
        }
        if !found.finals.is_sorted() {
            found.sort();
        }
        found
    }
}

/// Paths by the method that extends them.
struct Groups<'a> {
    view: View<'a>,
    /// The only wanted method.
    only: Option<u32>,
    /// For each method, the number of its group plus one, or 0.
    slot: RefMut<'a, Vec<u32>>,
    groups: Vec<Group>,
    /// The group of each path, and the path.
    entries: Vec<(u32, (u32, u32, i64))>,
}

struct Group {
    method: u32,
    count: usize,
    /// The cum, if no paths share a node.
    cum: i64,
    /// The end of the subtree of the last maximal final.
    end: u32,
}

impl<'a> Groups<'a> {
    fn new(view: &View<'a>, only: Option<u32>) -> Self {
        Self {
            view: *view,
            only,
            slot: view.scratch.slot.borrow_mut(),
            groups: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Adds a path that was extended by `node`. Paths come in the order of their finals.
    fn add(&mut self, node: u32, path: (u32, u32, i64)) {
        let method = self.view.nodes[node as usize].method;
        if self.only.is_some_and(|only| only != method) {
            return;
        }
        let slot = &mut self.slot[method as usize];
        if *slot == 0 {
            self.groups.push(Group {
                method,
                count: 0,
                cum: 0,
                end: 0,
            });
            *slot = self.groups.len() as u32;
        }
        let group = &mut self.groups[*slot as usize - 1];
        group.count += 1;
        // Read now, while the node is in the cache.
        let (last, _, above) = path;
        if last >= group.end {
            group.end = self.view.nodes[last as usize].end;
            group.cum += above + self.view.cum_cost(last);
        }
        self.entries.push((*slot - 1, path));
    }

    /// Returns the extensions, of `length` steps.
    fn finish(mut self, length: usize) -> Vec<Extension> {
        let mut next = Vec::with_capacity(self.groups.len());
        let mut count = 0;
        for group in &self.groups {
            self.slot[group.method as usize] = 0;
            next.push(count);
            count += group.count;
        }
        let mut found = Found {
            finals: vec![0; count],
            roots: vec![0; count],
            above: vec![0; count],
        };
        for (group, path) in &self.entries {
            let at = &mut next[*group as usize];
            (found.finals[*at], found.roots[*at], found.above[*at]) = *path;
            *at += 1;
        }
        let found = Arc::new(found);
        let extension = |(group, end): (&Group, usize)| {
            let range = end - group.count..end;
            let paths = Paths::new(self.view, found.clone(), range, length, Some(group.cum));
            (group.method, paths)
        };
        self.groups.iter().zip(next).map(extension).collect()
    }
}
