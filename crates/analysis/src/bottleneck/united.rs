//! Several trees as one, for the search by itself.
//!
//! The paper compares a sequence's costs in two trees, wherever it occurs in each. If it occurs in one
//! of them only, the costs along its path count in full, though the other tree has the same costs on
//! another path: a call that is new below an expensive old method seems to cost as much as that method.
//! An analyst sees that; a search that maximises would look for it. So it compares context by
//! context: one tree with a node for each calling context of any of the profiles, and at each node
//! the weighted sum of its costs.

use super::forest::{Forest, ForestError, Run};
use super::interface::{Profile, Step};
use crate::statistics::{self, Interval};
use profile::{CallTreeBuilder, CallTreeError, DraftNode, ValueType};

/// A forest as one tree.
#[derive(Debug)]
pub(crate) struct United {
    /// Of one tree. Its first value type is the weighted sum of costs, times `scale`; after it comes the
    /// cost in each profile. Its steps are those of the forest.
    pub forest: Forest,
    scale: f64,
}

impl United {
    /// Unites the profiles of a forest.
    ///
    /// # Errors
    /// If there are too many contexts, or the differences are all 0.
    pub fn new(forest: &Forest) -> Result<Self, UniteError> {
        let absolute: f64 = forest
            .indexes()
            .map(|(i, w)| w.abs() * i.absolute() as f64)
            .sum();
        // Fixed point: whole numbers of which a sum of all still fits.
        let scale = 2f64.powi((2f64.powi(58) / absolute.max(1.0)).log2().floor() as i32);
        let value = |name: String| ValueType {
            name,
            unit: String::new(),
        };
        let mut values = vec![value("difference".into())];
        values.extend((0..forest.members().len()).map(|at| value(at.to_string())));
        let mut builder = CallTreeBuilder::new(values);
        let mut methods = Vec::new();
        for method in forest.methods() {
            methods.push(builder.method(&method.name, &method.module)?);
        }
        for (at, (index, weight)) in forest.indexes().enumerate() {
            let view = index.view();
            let mut place = vec![DraftNode::ROOT; index.len()];
            for node in 0..index.len() as u32 {
                if node > 0 {
                    let old = &view.nodes[node as usize];
                    let Step(step) = forest.step_of(at, old.method);
                    let above = place[old.parent as usize];
                    place[node as usize] = builder.child(above, methods[step as usize])?;
                }
                let (cost, here) = (view.cost(node), place[node as usize]);
                if cost != 0 {
                    builder.add(0, here, (weight * scale * cost as f64).round() as i64);
                    builder.add(at + 1, here, cost);
                }
            }
        }
        let run = Run {
            name: String::new(),
            tree: builder.finish()?,
            value: 0,
            work: None,
        };
        let forest = Forest::with_whole(run, forest.whole() * scale, forest.whole_kind())?;
        Ok(Self { forest, scale })
    }

    /// A cost of the united forest as one of the original.
    pub fn unscaled(&self, cost: f64) -> f64 {
        cost / self.scale
    }

    /// Where the cost of the contexts of a path lies, by the runs of `original`.
    pub fn interval(&self, original: &Forest, path: &[Step]) -> Option<Interval> {
        let sequence = self.forest.summary_of(path)?;
        let cover = self.forest.cover(&[&sequence]);
        let nodes = cover.cover().first()?;
        let (index, _) = self.forest.indexes().next()?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (at, member) in original.members().into_iter().enumerate() {
            let cost = member.factor * index.other_cost(at, nodes) as f64;
            if member.first_side {
                a.push(cost)
            } else {
                b.push(cost)
            }
        }
        statistics::interval_of_runs(&a, &b)
    }
}

/// Why trees could not be united.
#[derive(Debug, thiserror::Error)]
pub enum UniteError {
    /// Of the tree.
    #[error(transparent)]
    Tree(#[from] CallTreeError),
    /// Of the forest.
    #[error(transparent)]
    Forest(#[from] ForestError),
}
