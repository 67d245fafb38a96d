//! Transforms, compared with their effect on each stack.

mod common;

use analysis::bottleneck::transform::{Transform, apply_transform};
use common::{Stacks, tree};
use profile::{CallTree, NodeId};
use proptest::prelude::*;
use regex::Regex;
use std::collections::BTreeMap;

fn costs(tree: &CallTree) -> BTreeMap<Vec<String>, i64> {
    let mut costs = BTreeMap::new();
    for node in (0..tree.len() as u32).map(NodeId) {
        let mut path = Vec::new();
        let mut at = node;
        while let Some(method) = tree.method(at) {
            path.push(tree.methods()[method.0 as usize].name.clone());
            at = tree.parent(at).unwrap();
        }
        path.reverse();
        if tree.cost(0, node) != 0 {
            assert_eq!(costs.insert(path, tree.cost(0, node)), None);
        }
    }
    costs
}

/// Returns the costs of changed stacks; `None` from `change` drops a stack's cost.
fn by_stack(
    stacks: &Stacks,
    change: impl Fn(Vec<char>) -> Option<Vec<char>>,
) -> BTreeMap<Vec<String>, i64> {
    let mut costs: BTreeMap<Vec<String>, i64> = BTreeMap::new();
    for (stack, cost) in stacks {
        let stack = stack.iter().map(|m| char::from(b'a' + m)).collect();
        if let Some(path) = change(stack) {
            *costs
                .entry(path.iter().map(char::to_string).collect())
                .or_default() += cost;
        }
    }
    costs.retain(|_, cost| *cost != 0);
    costs
}

fn stacks() -> impl Strategy<Value = Stacks> {
    let stack = prop::collection::vec(0..4_u8, 0..9);
    prop::collection::vec((stack, 0..50_i64), 0..25)
}

proptest! {
    #[test]
    fn each_does_to_every_stack_what_it_says(stacks in stacks()) {
        let tree = tree(&stacks);
        let regex = |text| Regex::new(text).unwrap();
        let done = |transform| costs(&apply_transform(&tree, &transform).unwrap());
        prop_assert_eq!(
            done(Transform::HideFunctions(regex("[bc]"))),
            by_stack(&stacks, |mut s| { s.retain(|c| !"bc".contains(*c)); Some(s) })
        );
        prop_assert_eq!(
            done(Transform::MergeFunctions(regex("[bc]"), "m".into())),
            by_stack(&stacks, |mut s| {
                s.iter_mut().for_each(|c| if "bc".contains(*c) { *c = 'm' });
                s.dedup_by(|a, b| *a == 'm' && *b == 'm');
                Some(s)
            })
        );
        prop_assert_eq!(
            done(Transform::Focus(regex("[bc]"))),
            by_stack(&stacks, |s| {
                let from = s.iter().position(|c| "bc".contains(*c))?;
                Some(s[from..].to_vec())
            })
        );
        prop_assert_eq!(
            done(Transform::CollapseRecursion),
            by_stack(&stacks, |s| {
                let mut places: Vec<Vec<char>> = Vec::new();
                for (at, c) in s.iter().enumerate() {
                    let outer = s[..at].iter().position(|other| other == c);
                    let above = places.last().cloned().unwrap_or_default();
                    let new = [above, vec![*c]].concat();
                    places.push(outer.map_or(new, |outer| places[outer].clone()));
                }
                Some(places.pop().unwrap_or_default())
            })
        );
    }
}

#[test]
fn modules_are_hidden_and_merged_by_name() {
    let mut builder = profile::CallTreeBuilder::new(tree(&vec![]).value_types().to_vec());
    let mut node = profile::DraftNode::ROOT;
    for (name, module) in [
        ("main", "app"),
        ("malloc", "libc"),
        ("mmap", "libc"),
        ("f", "app"),
    ] {
        let method = builder.method(name, module).unwrap();
        node = builder.child(node, method).unwrap();
    }
    builder.add(0, node, 5);
    let tree = builder.finish().unwrap();
    let libc = || Regex::new("^libc").unwrap();
    let path = |transform| {
        costs(&apply_transform(&tree, &transform).unwrap())
            .pop_first()
            .unwrap()
            .0
    };
    assert_eq!(path(Transform::HideModules(libc())), ["main", "f"]);
    assert_eq!(path(Transform::MergeModules(libc())), ["main", "libc", "f"]);
}

/// Costs of inner calls go to the outer one: the path to the inner call is no path of the new tree.
#[test]
fn collapsed_recursion_leaves_no_path_without_cost() {
    let stacks = vec![(vec![0, 1, 0, 2], 5), (vec![0, 3], 1)];
    let collapsed = apply_transform(&tree(&stacks), &Transform::CollapseRecursion).unwrap();
    // The root, a, c and d; not b.
    assert_eq!(collapsed.len(), 4);
    assert!((0..4).all(|node| collapsed.cum_cost(0, profile::NodeId(node)) > 0));
}
