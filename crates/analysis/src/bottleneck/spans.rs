//! Sets of nodes as disjoint runs of preorder numbers.

/// A set of nodes: ascending, disjoint, non-empty runs `start..end` that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u32, u32)>);

impl Spans {
    /// Returns the union of these runs, which may come in any order and overlap.
    pub fn union(mut runs: Vec<(u32, u32)>) -> Self {
        // The runs are mostly sorted, and a stable sort is fast on such input.
        runs.sort();
        let mut kept = 0;
        for next in 1..runs.len() {
            let (start, end) = runs[next];
            if start <= runs[kept].1 {
                runs[kept].1 = runs[kept].1.max(end);
            } else {
                kept += 1;
                runs[kept] = (start, end);
            }
        }
        runs.truncate(kept + 1);
        Self(runs)
    }

    /// Returns the union of two sets.
    pub fn joined(&self, other: &Self) -> Self {
        Self::union([self.0.as_slice(), &other.0].concat())
    }

    /// Returns the runs.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Returns the cost of the set; `before` gives the sum of the costs of all nodes before a node.
    pub fn cost(&self, before: impl Fn(u32) -> i64) -> i64 {
        self.0.iter().map(|run| cost(&before, *run)).sum()
    }

    /// Returns the first `count` sums `before` a node, without the costs of the set.
    pub fn costs_left(&self, count: usize, before: impl Fn(u32) -> i64) -> Vec<i64> {
        let mut left = Vec::with_capacity(count);
        let mut taken = 0;
        for &(start, end) in &self.0 {
            left.extend((left.len() as u32..start).map(|node| before(node) - taken));
            left.resize(end as usize, before(start) - taken);
            taken += cost(&before, (start, end));
        }
        left.extend((left.len() as u32..count as u32).map(|node| before(node) - taken));
        left
    }
}

/// A set with the cost sums before the ends of its runs. The overlap of two such sets needs no
/// access to the tree, where each access would wait for memory.
#[derive(Clone, Debug, Default)]
pub struct Measured(Vec<NodeRun>);

#[derive(Clone, Copy, Debug)]
struct NodeRun {
    start: u32,
    end: u32,
    before_start: i64,
    before_end: i64,
}

impl Measured {
    /// Measures a set; `before` gives the sum of the costs of all nodes before a node.
    pub fn new(nodes: &Spans, before: impl Fn(u32) -> i64) -> Self {
        let run = |&(start, end): &(u32, u32)| NodeRun {
            start,
            end,
            before_start: before(start),
            before_end: before(end),
        };
        Self(nodes.0.iter().map(run).collect())
    }

    /// Returns the cost that this set shares with `other`.
    pub fn shared_cost(&self, other: &Self) -> i64 {
        let (mut few, mut many) = (self.0.as_slice(), other.0.as_slice());
        if few.len() > many.len() {
            std::mem::swap(&mut few, &mut many);
        }
        let mut sum = 0;
        for one in few {
            many = &many[count_before(many, |run| run.end <= one.start)..];
            for run in many {
                if run.start >= one.end {
                    break;
                }
                let from = if run.start > one.start {
                    run.before_start
                } else {
                    one.before_start
                };
                let to = if run.end < one.end {
                    run.before_end
                } else {
                    one.before_end
                };
                sum += to - from;
            }
        }
        sum
    }
}

fn cost(before: impl Fn(u32) -> i64, (start, end): (u32, u32)) -> i64 {
    before(end) - before(start)
}

/// Returns how many of the first runs are `before`, in time logarithmic in that number.
fn count_before(runs: &[NodeRun], before: impl Fn(&NodeRun) -> bool) -> usize {
    let mut reach = 1;
    while runs.get(reach - 1).is_some_and(&before) {
        reach *= 2;
    }
    let (low, high) = (reach / 2, reach.min(runs.len()));
    low + runs[low..high].partition_point(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(runs: &[(u32, u32)]) -> BTreeSet<u32> {
        runs.iter().flat_map(|(start, end)| *start..*end).collect()
    }

    fn runs() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let run = (0..60_u32, 1..9_u32).prop_map(|(start, length)| (start, start + length));
        prop::collection::vec(run, 0..20)
    }

    proptest! {
        #[test]
        fn unions_and_intersections_are_those_of_sets(a in runs(), b in runs()) {
            let costs: Vec<i64> = (0..70).map(|n| (n * n) % 17 - 3).collect();
            let before = |n: u32| -> i64 { costs[..n as usize].iter().sum() };
            let sum = |nodes: &BTreeSet<u32>| -> i64 { nodes.iter().map(|n| costs[*n as usize]).sum() };
            let (x, y) = (Spans::union(a.clone()), Spans::union(b.clone()));
            prop_assert_eq!(set(x.runs()), set(&a));
            prop_assert!(x.runs().windows(2).all(|w| w[0].1 < w[1].0));
            prop_assert_eq!(x.cost(before), sum(&set(&a)));
            let both = &set(&a) & &set(&b);
            let measured = |spans| Measured::new(spans, before);
            prop_assert_eq!(measured(&x).shared_cost(&measured(&y)), sum(&both));
            prop_assert_eq!(set(x.joined(&y).runs()), &set(&a) | &set(&b));
            let left = x.costs_left(71, before);
            prop_assert_eq!(left.len(), 71);
            for node in 0..70 {
                let expected = if set(&a).contains(&node) { 0 } else { costs[node as usize] };
                prop_assert_eq!(left[node as usize + 1] - left[node as usize], expected);
            }
        }
    }
}
