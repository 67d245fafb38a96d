//! Nesting of executions. Keeps a thread's executions, in the order of their ends, that no later one has contained yet.
//!
//! An execution contains the earlier ones that began after it did. They stand at the top, so that each item is looked
//! at once. Items that no traced block ever contains (those in a thread's main loop) would pile up. When there are too
//! many, the older half is joined in pairs. The hash of a joined sequence follows from the hashes of its parts, so a
//! block that contains all of a joined pair loses nothing.

use super::node::{NO_BLOCK, Node, TRANSPARENT};
use super::pairs::Pairs;
use super::sequences::{Collapsed, Sequence};
use super::wait_sum::WaitSum;
use std::sync::Arc;

/// Maximum number of items side by side. When it is reached, the older half is joined.
const CAPACITY: usize = 2048;

/// Details that most nodes do not have.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    /// In place of the kinds, where it is not one execution.
    pub sequences: Option<(Sequence, Collapsed)>,
    pub waits: Option<Arc<WaitSum>>,
    /// Something was lost in it.
    pub hole: bool,
}

/// Contents of an execution that contains nothing but calls: the words of their sequences, the number of executions,
/// and their duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub exact: u64,
    pub collapsed: u64,
    pub count: u64,
    pub net: u64,
}

/// Contents of an execution.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    pub exact: Sequence,
    pub collapsed: Collapsed,
    /// Executions.
    pub count: u64,
    /// Duration of its direct callees.
    pub net: u64,
    pub waits: Option<Arc<WaitSum>>,
    /// True if its contents are not completely known.
    pub ragged: bool,
}

impl Inside {
    const NOTHING: Self = Self {
        exact: Sequence::EMPTY,
        collapsed: Collapsed::EMPTY,
        count: 0,
        net: 0,
        waits: None,
        ragged: false,
    };

    #[inline]
    fn add(&mut self, node: &Node) {
        self.exact = self.exact.then(Sequence::one(node.exact));
        self.collapsed.push(node.collapsed);
        self.add_times(node);
    }

    #[inline]
    fn add_times(&mut self, node: &Node) {
        self.count += node.count;
        self.net = self.net.saturating_add(node.net);
    }

    fn add_all(&mut self, nodes: &[Node], more: &mut impl Iterator<Item = More>) {
        for node in nodes {
            match node.more.then(|| more.next()).flatten() {
                None => self.add(node),
                Some(more) => self.add_more(node, more),
            }
        }
    }

    fn add_more(&mut self, node: &Node, more: More) {
        match more.sequences {
            Some((exact, collapsed)) => {
                self.exact = self.exact.then(exact);
                self.collapsed = self.collapsed.then(collapsed);
                self.add_times(node);
            }
            None => self.add(node),
        }
        self.ragged |= more.hole;
        if more.waits.is_some() {
            self.waits = WaitSum::join(self.waits.take(), more.waits);
        }
    }
}

/// The items of a thread that nothing has contained yet, in order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    nodes: Vec<Node>,
    /// Details of the nodes with `more` set, in their order.
    more: Vec<More>,
    /// Empty: room for `more` to be rewritten.
    spare: Vec<More>,
    /// Moment after which a new execution contains nothing.
    leaves_after: u64,
    /// Position from which on nodes have no details.
    calls_from: usize,
}

impl Pending {
    /// Returns whether an execution that began at `enter` contains nothing, and nothing else is to be said of it.
    #[inline]
    pub fn is_leaf(&self, enter: u64) -> bool {
        enter > self.leaves_after
    }

    /// Takes the contents of an execution that began at `enter`, if they are nothing but calls, and at least one.
    #[inline(never)]
    pub fn take_calls(&mut self, enter: u64, pairs: &mut Pairs) -> Option<Calls> {
        let (before, calls) = self.nodes.split_at_checked(self.calls_from)?;
        if before
            .last()
            .is_some_and(|last| last.leave > enter || last.enter >= enter)
        {
            return None;
        }
        let (last, others) = calls.split_last().filter(|(last, _)| last.enter >= enter)?;
        let (mut exact, mut collapsed) = (Sequence::one(last.exact), Sequence::one(last.collapsed));
        let (mut count, mut net, mut before) = (last.count, last.net, last.collapsed);
        let mut first = others.len();
        for call in others.iter().rev().take_while(|call| call.enter >= enter) {
            exact = Sequence::one(call.exact).then(exact);
            if call.collapsed != before {
                collapsed = Sequence::one(call.collapsed).then(collapsed);
            }
            before = call.collapsed;
            count += call.count;
            net = net.saturating_add(call.net);
            first -= 1;
        }
        let calls = calls.get(first..).unwrap_or_default();
        let mut call = calls.first()?;
        for next in calls.get(1..).unwrap_or_default() {
            pairs.add_calls(call, next);
            call = next;
        }
        self.nodes.truncate(self.calls_from + first);
        self.leaves_after = self.leaves_after();
        Some(Calls {
            exact: exact.word(),
            collapsed: collapsed.word(),
            count,
            net,
        })
    }

    /// Returns the moment after which a new execution contains nothing.
    #[inline]
    fn leaves_after(&self) -> u64 {
        match self.nodes.last() {
            None => 0,
            Some(last) if last.joined => u64::MAX,
            Some(last) => last.enter,
        }
    }

    /// Takes what an execution that began at `enter` contains.
    pub fn take(&mut self, enter: u64, pairs: &mut Pairs) -> Inside {
        let (mut first, mut with_more) = (self.nodes.len(), 0);
        let mut ragged = false;
        for node in self.nodes.iter().rev() {
            if node.enter < enter {
                // It began in the middle of what was joined.
                ragged = node.joined && node.leave > enter;
                break;
            }
            first -= 1;
            with_more += usize::from(node.more);
        }
        let nodes = self.nodes.get(first..).unwrap_or_default();
        let at = self.more.len().saturating_sub(with_more);
        add_pairs(nodes, pairs);
        let mut inside = Inside::NOTHING;
        inside.add_all(nodes, &mut self.more.drain(at..));
        inside.ragged |= ragged;
        self.nodes.truncate(first);
        self.calls_from = self.calls_from.min(first);
        self.leaves_after = self.leaves_after();
        inside
    }

    /// Ends the thread: no more items follow.
    pub fn end(&mut self, pairs: &mut Pairs) {
        add_pairs(&self.nodes, pairs);
        *self = Self::default();
    }

    /// Makes room for one more, which begins at `enter`.
    #[inline]
    fn make_room(&mut self, enter: u64, pairs: &mut Pairs) {
        if self.nodes.len() >= CAPACITY {
            self.join_older(pairs);
        }
        self.leaves_after = enter;
    }

    /// Adds an execution of these kinds, with `count` in it and itself, that took `net`.
    #[inline]
    pub fn push(
        &mut self,
        (enter, leave): (u64, u64),
        block: u32,
        (exact, collapsed): (u64, u64),
        (count, net): (u64, u64),
        pairs: &mut Pairs,
    ) {
        self.make_room(enter, pairs);
        self.nodes.push(Node {
            enter,
            leave,
            exact,
            collapsed,
            count,
            net,
            block,
            more: false,
            joined: false,
        });
    }

    /// Adds its waits to the last execution.
    pub fn say_more(&mut self, waits: Option<Arc<WaitSum>>) {
        if let Some(node) = self.nodes.last_mut() {
            node.more = true;
            self.calls_from = self.nodes.len();
            self.more.push(More {
                waits,
                ..More::default()
            });
        }
    }

    /// Adds something that is no part of the kinds of what contains it, but for the sequences in it.
    pub fn push_other(
        &mut self,
        (enter, leave): (u64, u64),
        block: u32,
        (count, net): (u64, u64),
        more: More,
        pairs: &mut Pairs,
    ) {
        self.make_room(enter, pairs);
        self.nodes.push(Node {
            net,
            ..Node::other(enter, leave, block, count)
        });
        self.calls_from = self.nodes.len();
        self.more.push(more);
    }

    /// Joins the older half, in place.
    #[cold]
    fn join_older(&mut self, pairs: &mut Pairs) {
        let older = self.nodes.len() / 2;
        add_pairs(self.nodes.get(..older + 1).unwrap_or_default(), pairs);
        let mut before = std::mem::replace(&mut self.more, std::mem::take(&mut self.spare));
        let mut more = before.drain(..);
        let mut joined = 0;
        for at in (0..older).step_by(2) {
            let two = self.nodes.get(at..older.min(at + 2)).unwrap_or_default();
            let (Some(first), Some(last)) = (two.first(), two.last()) else {
                continue;
            };
            let mut inside = Inside::NOTHING;
            inside.add_all(two, &mut more);
            let transparent = two.iter().all(|node| node.block == TRANSPARENT);
            let block = if transparent { TRANSPARENT } else { NO_BLOCK };
            let node = Node {
                net: inside.net,
                joined: true,
                ..Node::other(first.enter, last.leave, block, inside.count)
            };
            if let Some(to) = self.nodes.get_mut(joined) {
                *to = node;
            }
            joined += 1;
            self.more.push(More {
                sequences: Some((inside.exact, inside.collapsed)),
                waits: inside.waits,
                hole: inside.ragged,
            });
        }
        self.more.extend(more);
        self.spare = before;
        self.nodes.drain(joined..older);
        self.calls_from = joined + self.calls_from.saturating_sub(older);
    }
}

/// Adds all neighbours, whatever was waited for between them.
fn add_pairs(nodes: &[Node], pairs: &mut Pairs) {
    let mut before: Option<&Node> = None;
    for node in nodes.iter().filter(|node| node.block != TRANSPARENT) {
        if let Some(before) = before {
            pairs.add(before, node);
        }
        before = Some(node);
    }
}
