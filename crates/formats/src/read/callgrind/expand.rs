//! Expands the graph to a tree.
//!
//! A function `f` passes on `T_f = own_f + Σ_g call_{f→g}`, the sum of its callers' payments. A
//! call path that ends in `f` with the amount `A` keeps `A · own_f / T_f` itself, and the path one
//! call longer `A · call_{f→g} / T_f`. So the costs of a function's paths add up to its own cost,
//! even with cycles of calls (the shares form a geometric series).

use super::graph::{CostGraph, GraphFunction};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use profile::DraftNode;
use std::collections::BinaryHeap;

/// Maximum number of separate call paths, the most expensive first: [`PATHS_PER_CALL`] for each
/// call of the graph, because the graph contains no more information, and at most [`PATHS`].
const PATHS_PER_CALL: usize = 200;
const PATHS: usize = 500_000;
/// Maximum depth: cycles may have no own cost to end in.
const DEPTH: u32 = 1000;
/// Name of the function that gets the cost of all other paths.
const REST: &str = "[further calls]";

/// A call path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CallPath {
    /// Costs by event; compared first.
    amounts: Vec<i64>,
    function: u32,
    node: DraftNode,
    depth: u32,
}

/// Adds the call paths of `graph` to `draft`.
pub(crate) fn expand_call_paths(
    graph: &CostGraph,
    draft: &mut TreeDraft,
    end: FilePosition,
) -> Result<(), ReadFault> {
    let roots = root_costs(graph, end)?;
    let root = draft.group_node(&Owner::default(), end)?;
    let mut pending = BinaryHeap::new();
    for (index, amounts) in roots.into_iter().enumerate() {
        push_path(
            &mut pending,
            graph,
            draft,
            (index as u32, amounts, root, 0),
            end,
        )?;
    }
    let calls: usize = graph
        .functions
        .iter()
        .map(|function| 1 + function.calls.len())
        .sum();
    let most = calls.saturating_mul(PATHS_PER_CALL).min(PATHS);
    let (mut paths, mut rest) = (0, 0_i64);
    let mut total = 0_i64;
    while let Some(path) = pending.pop() {
        let Some(function) = graph.functions.get(path.function as usize) else {
            continue;
        };
        paths += 1;
        let told = paths <= most && path.depth < DEPTH;
        let mut shares = Shares::new(function, &path.amounts);
        let own = shares.next_share(&function.own);
        for (value, cost) in own.iter().enumerate() {
            draft.add_cost(value, path.node, *cost);
        }
        total = total.saturating_add(own.first().copied().unwrap_or(0));
        if told {
            for (callee, costs) in &function.calls {
                let amounts = shares.next_share(costs);
                let entry = (*callee, amounts, path.node, path.depth + 1);
                push_path(&mut pending, graph, draft, entry, end)?;
            }
            continue;
        }
        let amounts = shares.remaining_costs();
        if amounts.iter().any(|amount| *amount > 0) {
            let method = draft.intern_method(REST, "")?;
            let node = draft.child_node(path.node, method, end)?;
            for (value, cost) in amounts.iter().enumerate() {
                draft.add_cost(value, node, *cost);
            }
            rest = rest.saturating_add(amounts.first().copied().unwrap_or(0));
        }
    }
    if rest > 0 {
        let share = 100.0 * rest as f64 / (total as f64 + rest as f64);
        draft.add_note(format!(
            "only the {most} dearest call paths were told apart; {share:.2} % of the cost is in {REST}"
        ));
    }
    Ok(())
}

fn push_path(
    pending: &mut BinaryHeap<CallPath>,
    graph: &CostGraph,
    draft: &mut TreeDraft,
    (function, amounts, caller, depth): (u32, Vec<i64>, DraftNode, u32),
    end: FilePosition,
) -> Result<(), ReadFault> {
    if amounts.iter().all(|amount| *amount == 0) {
        return Ok(());
    }
    let Some(callee) = graph.functions.get(function as usize) else {
        return Ok(());
    };
    let (name, module) = graph.function_label(callee);
    let method = draft.intern_method(name, module)?;
    let node = draft.child_node(caller, method, end)?;
    pending.push(CallPath {
        amounts,
        function,
        node,
        depth,
    });
    Ok(())
}

/// Returns the costs of each function that no caller paid for.
fn root_costs(graph: &CostGraph, end: FilePosition) -> Result<Vec<Vec<i64>>, ReadFault> {
    let mut roots = graph.passed_costs(end)?;
    for function in &graph.functions {
        for (callee, costs) in &function.calls {
            let Some(root) = roots.get_mut(*callee as usize) else {
                continue;
            };
            for (left, cost) in root.iter_mut().zip(costs) {
                *left = left.saturating_sub(*cost);
            }
        }
    }
    for amount in roots.iter_mut().flatten() {
        // The remainder of callers that paid too much (`CostGraph::reconcile_calls`).
        *amount = (*amount).max(0);
    }
    Ok(roots)
}

/// Divides the amounts of a path among a function and its callees without losing a unit to
/// rounding.
struct Shares<'a> {
    amounts: &'a [i64],
    totals: Vec<i128>,
    /// The exact amounts, and the amounts given so far.
    asked: Vec<i128>,
    given: Vec<i64>,
}

impl<'a> Shares<'a> {
    fn new(function: &GraphFunction, amounts: &'a [i64]) -> Self {
        let mut totals = vec![0; amounts.len()];
        for costs in std::iter::once(&function.own).chain(function.calls.iter().map(|c| &c.1)) {
            for (total, cost) in totals.iter_mut().zip(costs) {
                *total += i128::from(*cost);
            }
        }
        Self {
            amounts,
            totals,
            asked: vec![0; amounts.len()],
            given: vec![0; amounts.len()],
        }
    }

    /// Returns the share of one of the costs that make up the total.
    fn next_share(&mut self, costs: &[i64]) -> Vec<i64> {
        let mut shares = vec![0; self.amounts.len()];
        for (index, share) in shares.iter_mut().enumerate() {
            let (Some(amount), Some(total), Some(asked), Some(given)) = (
                self.amounts.get(index),
                self.totals.get(index),
                self.asked.get_mut(index),
                self.given.get_mut(index),
            ) else {
                continue;
            };
            *asked += i128::from(costs.get(index).copied().unwrap_or(0));
            let up_to = match *total {
                0 => *amount,
                total => (i128::from(*amount) * *asked / total) as i64,
            };
            *share = up_to - *given;
            *given = up_to;
        }
        shares
    }

    /// Returns the remaining costs.
    fn remaining_costs(&self) -> Vec<i64> {
        self.amounts
            .iter()
            .zip(&self.given)
            .map(|(amount, given)| amount - given)
            .collect()
    }
}
