//! What lies in what: the executions of a thread, in the order of their ends, that no later one has
//! contained yet.
//!
//! An execution contains those before it that began after it did. They stand at the top, so that each
//! item is looked at once. What no traced block ever contains (a thread's main loop) would pile up:
//! when there are too many, the older half is joined in pairs. The hash of a sequence is made so that
//! those of its parts give it, and a block that contains all of a joined pair is none the worse.

use super::pairs::Pairs;
use super::sequences::{Collapsed, Sequence};
use super::waits::WaitSum;
use std::sync::Arc;

/// So many items stand side by side before the older half is joined.
const CAPACITY: usize = 2048;

/// An item, or several joined. As small as can be: there is one for each execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The first one's beginning.
    pub enter: u64,
    /// The last one's end.
    pub leave: u64,
    /// The kinds of an execution, for the sequences of what contains it and for pairs of siblings.
    pub exact: u64,
    pub collapsed: u64,
    /// Executions in it.
    pub count: u64,
    /// How long they took, without what tracing added to them; 0 of a wait.
    pub net: u64,
    /// Its block, if it is one execution that pairs count; else [`NO_BLOCK`] or [`TRANSPARENT`].
    pub block: u32,
    /// There is [`More`] of it.
    more: bool,
    /// It is several items: it cannot be divided any more.
    joined: bool,
}

/// Not an execution that is followed: what stands before it and behind it are no neighbours.
pub(super) const NO_BLOCK: u32 = u32::MAX - 1;
/// Only waiting: what stands before it and behind it are neighbours.
pub(super) const TRANSPARENT: u32 = u32::MAX;

/// What most nodes have not got.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    /// In place of the kinds, where it is not one execution.
    pub sequences: Option<(Sequence, Collapsed)>,
    pub waits: Option<Arc<WaitSum>>,
    /// What probes of the kernel have added to what contains it, in ticks.
    pub probes: u64,
    /// Something was lost in it.
    pub hole: bool,
}

impl Node {
    /// What is no single execution, or none that is followed.
    fn other(enter: u64, leave: u64, block: u32, count: u64) -> Self {
        Self {
            enter,
            leave,
            exact: 0,
            collapsed: 0,
            count,
            net: 0,
            block,
            more: true,
            joined: false,
        }
    }
}

/// What an execution contains.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    pub exact: Sequence,
    pub collapsed: Collapsed,
    /// Executions.
    pub count: u64,
    /// How long those took that it called itself.
    pub net: u64,
    pub waits: Option<Arc<WaitSum>>,
    /// What probes of the kernel in it have added, in ticks.
    pub probes: u64,
    /// Not all of it is known.
    pub ragged: bool,
}

impl Inside {
    const NOTHING: Self = Self {
        exact: Sequence::EMPTY,
        collapsed: Collapsed::EMPTY,
        count: 0,
        net: 0,
        waits: None,
        probes: 0,
        ragged: false,
    };

    /// Calls alone.
    #[inline]
    fn of_calls(calls: &[Node], pairs: &mut Pairs) -> Self {
        let mut inside = Self::NOTHING;
        for (before, call) in calls.iter().zip(calls.iter().skip(1)) {
            pairs.add_calls(before, call);
        }
        calls.iter().for_each(|call| inside.add(call));
        inside
    }

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
        self.probes = self.probes.saturating_add(more.probes);
        if more.waits.is_some() {
            self.waits = WaitSum::join(self.waits.take(), more.waits);
        }
    }
}

/// The items of a thread that nothing has contained yet, in order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    nodes: Vec<Node>,
    /// What there is more of those nodes that say so, in their order.
    more: Vec<More>,
    /// What begins from then on contains nothing.
    leaves_from: u64,
}

impl Pending {
    /// Whether an execution that began at `enter` contains nothing, and nothing else is to be said of it.
    #[inline]
    pub fn is_leaf(&self, enter: u64) -> bool {
        enter >= self.leaves_from
    }

    /// Takes what an execution that began at `enter` contains.
    #[inline]
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
        let mut inside = match with_more {
            0 => Inside::of_calls(nodes, pairs),
            _ => {
                let at = self.more.len().saturating_sub(with_more);
                add_pairs(nodes, pairs);
                let mut inside = Inside::NOTHING;
                inside.add_all(nodes, &mut self.more.drain(at..));
                inside
            }
        };
        inside.ragged |= ragged;
        self.nodes.truncate(first);
        self.leaves_from = match self.nodes.last() {
            None => 0,
            Some(last) if last.joined => u64::MAX,
            Some(last) => last.enter.saturating_add(1),
        };
        inside
    }

    /// There is no more.
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
        self.leaves_from = enter.saturating_add(1);
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

    /// Says more of the last execution: that there was waiting in it, or what probes have added.
    pub fn say_more(&mut self, waits: Option<Arc<WaitSum>>, probes: u64) {
        if let Some(node) = self.nodes.last_mut() {
            node.more = true;
            self.more.push(More {
                waits,
                probes,
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
        self.more.push(more);
    }

    #[cold]
    fn join_older(&mut self, pairs: &mut Pairs) {
        let older = self.nodes.len() / 2;
        let nodes = self.nodes.get(..older + 1).unwrap_or_default();
        add_pairs(nodes, pairs);
        let rest = self.nodes.split_off(older);
        let nodes = std::mem::replace(&mut self.nodes, Vec::with_capacity(CAPACITY));
        let mut more = std::mem::take(&mut self.more).into_iter();
        for two in nodes.chunks(2) {
            let (Some(first), Some(last)) = (two.first(), two.last()) else {
                continue;
            };
            let mut inside = Inside::NOTHING;
            inside.add_all(two, &mut more);
            let transparent = two.iter().all(|node| node.block == TRANSPARENT);
            let block = if transparent { TRANSPARENT } else { NO_BLOCK };
            self.nodes.push(Node {
                net: inside.net,
                joined: true,
                ..Node::other(first.enter, last.leave, block, inside.count)
            });
            self.more.push(More {
                sequences: Some((inside.exact, inside.collapsed)),
                waits: inside.waits,
                probes: inside.probes,
                hole: inside.ragged,
            });
        }
        self.nodes.extend(rest);
        self.more.extend(more);
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
