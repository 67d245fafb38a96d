use crate::order;
use crate::{CallTree, CallTreeError, Method, MethodId, ValueType};
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// A node of a [`CallTreeBuilder`], in the order of creation; the finished tree has other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftNode(u32);

impl DraftNode {
    /// See [`NodeId::ROOT`](crate::NodeId::ROOT).
    pub const ROOT: Self = Self(0);

    /// Returns the node's position in the order of creation.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Makes a [`CallTree`] out of call stacks, in any order.
///
/// A stack is added from its outermost frame: `child(child(ROOT, main), f)`, and its cost added to
/// the last node. Until [`finish`](Self::finish) a node takes about 20 bytes and 8 for each value
/// type.
#[derive(Debug)]
pub struct CallTreeBuilder {
    methods: Vec<Method>,
    method_index: FxHashMap<Method, MethodId>,
    value_types: Vec<ValueType>,
    method: Vec<u32>,
    parent: Vec<u32>,
    /// The nodes by (parent, method).
    index: HashTable<u32>,
    /// By value type, by node.
    costs: Vec<Vec<i64>>,
    overflow: Option<usize>,
}

impl CallTreeBuilder {
    /// Makes a builder with only the root, and a cost of each of `value_types` at each node.
    pub fn new(value_types: Vec<ValueType>) -> Self {
        Self {
            methods: Vec::new(),
            method_index: FxHashMap::default(),
            costs: vec![vec![0]; value_types.len()],
            value_types,
            method: vec![u32::MAX],
            parent: vec![0],
            index: HashTable::new(),
            overflow: None,
        }
    }

    /// Returns the method of this name in this module; adds it if it is new.
    ///
    /// # Errors
    /// [`CallTreeError::TooLarge`]
    pub fn method(&mut self, name: &str, module: &str) -> Result<MethodId, CallTreeError> {
        let method = Method {
            name: name.to_owned(),
            module: module.to_owned(),
        };
        if let Some(id) = self.method_index.get(&method) {
            return Ok(*id);
        }
        let id = MethodId(next_number(self.methods.len())?);
        self.methods.push(method.clone());
        self.method_index.insert(method, id);
        Ok(id)
    }

    /// Returns the methods so far; the position is the [`MethodId`].
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the node of `method` called from `parent`; adds it if it is new.
    ///
    /// # Errors
    /// [`CallTreeError::TooLarge`]
    ///
    /// # Panics
    /// If `parent` belongs to another builder.
    pub fn child(
        &mut self,
        parent: DraftNode,
        method: MethodId,
    ) -> Result<DraftNode, CallTreeError> {
        let hash = |parent: u32, method: u32| FxBuildHasher.hash_one((parent, method));
        let (parents, methods) = (&self.parent, &self.method);
        let wanted = (parent.0, method.0);
        let same = |n: &u32| (parents[*n as usize], methods[*n as usize]) == wanted;
        if let Some(node) = self.index.find(hash(wanted.0, wanted.1), same) {
            return Ok(DraftNode(*node));
        }
        assert!((parent.0 as usize) < self.parent.len());
        let node = next_number(self.parent.len())?;
        self.index
            .insert_unique(hash(wanted.0, wanted.1), node, |n| {
                hash(parents[*n as usize], methods[*n as usize])
            });
        self.parent.push(parent.0);
        self.method.push(method.0);
        for cost in &mut self.costs {
            cost.push(0);
        }
        Ok(DraftNode(node))
    }

    /// Adds `cost` of the value type at position `value` to `node`.
    pub fn add(&mut self, value: usize, node: DraftNode, cost: i64) {
        let entry = &mut self.costs[value][node.0 as usize];
        match entry.checked_add(cost) {
            Some(sum) => *entry = sum,
            None => self.overflow = Some(value),
        }
    }

    /// Adds a value type, for profiles that do not declare theirs beforehand; returns its position.
    pub fn add_value_type(&mut self, value_type: ValueType) -> usize {
        self.value_types.push(value_type);
        self.costs.push(vec![0; self.parent.len()]);
        self.costs.len() - 1
    }

    /// Returns the number of nodes so far, with the root.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Returns whether the root is the only node.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Finishes the tree, with children in the order in which they were first added.
    ///
    /// # Errors
    /// If the sums of the costs do not fit in an `i64`, and [`CallTreeError::Invalid`] if
    /// [`child`](Self::child) was called with a method of another builder.
    pub fn finish(self) -> Result<CallTree, CallTreeError> {
        Ok(self.finish_numbered()?.0)
    }

    /// Finishes the tree; also returns the number of each node in it, by its position in the order
    /// of creation.
    ///
    /// # Errors
    /// See [`finish`](Self::finish).
    pub fn finish_numbered(self) -> Result<(CallTree, Vec<u32>), CallTreeError> {
        if let Some(value) = self.overflow {
            return Err(CallTreeError::SumOverflows(
                self.value_types[value].name.clone(),
            ));
        }
        drop((self.index, self.method_index));
        let order = order::nodes_in_preorder(&self.parent);
        let number = order::inverse_permutation(&order);
        let method = order.iter().map(|n| self.method[*n as usize]).collect();
        let parent = order
            .iter()
            .map(|n| number[self.parent[*n as usize] as usize])
            .collect();
        drop((self.method, self.parent));
        let costs = self
            .costs
            .into_iter()
            .map(|cost| order.iter().map(|n| cost[*n as usize]).collect())
            .collect();
        let tree = CallTree::new(self.methods, self.value_types, method, parent, costs)?;
        Ok((tree, number))
    }
}

fn next_number(len: usize) -> Result<u32, CallTreeError> {
    match u32::try_from(len) {
        Ok(number) if number < u32::MAX - 1 => Ok(number),
        _ => Err(CallTreeError::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;
    use proptest::prelude::*;

    fn samples() -> Vec<ValueType> {
        vec![ValueType {
            name: "cpu".into(),
            unit: "samples".into(),
        }]
    }

    /// Generates stacks, outermost frame first, of methods that recur often.
    fn stacks() -> impl Strategy<Value = Vec<(Vec<u8>, i64)>> {
        let stack = prop::collection::vec(0..4_u8, 0..7);
        prop::collection::vec((stack, -3..100_i64), 0..60)
    }

    fn built(stacks: &[(Vec<u8>, i64)]) -> CallTree {
        let mut builder = CallTreeBuilder::new(samples());
        for (stack, cost) in stacks {
            let mut node = DraftNode::ROOT;
            for method in stack {
                let method = builder.method(&method.to_string(), "").unwrap();
                node = builder.child(node, method).unwrap();
            }
            builder.add(0, node, *cost);
        }
        builder.finish().unwrap()
    }

    fn path(tree: &CallTree, mut node: NodeId) -> Vec<u8> {
        let mut path = Vec::new();
        while let Some(method) = tree.method(node) {
            let name = &tree.methods()[method.0 as usize].name;
            path.push(name.parse().unwrap());
            node = tree.parent(node).unwrap();
        }
        path.reverse();
        path
    }

    proptest! {
        #[test]
        fn a_tree_has_each_context_once_and_all_the_cost(stacks in stacks()) {
            let tree = built(&stacks);
            let nodes: Vec<_> = (0..tree.len() as u32).map(NodeId).collect();
            let paths: Vec<_> = nodes.iter().map(|n| path(&tree, *n)).collect();
            let mut distinct = paths.clone();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), paths.len());
            for (node, path) in nodes.iter().zip(&paths) {
                let of = |test: &dyn Fn(&Vec<u8>) -> bool| -> i64 {
                    stacks.iter().filter(|(s, _)| test(s)).map(|(_, c)| c).sum()
                };
                prop_assert_eq!(tree.cost(0, *node), of(&|s| s == path));
                prop_assert_eq!(tree.cum_cost(0, *node), of(&|s| s.starts_with(path)));
                let children: Vec<_> = tree.children(*node).collect();
                let expected: Vec<_> = nodes[1..].iter().copied()
                    .filter(|n| tree.parent(*n) == Some(*node)).collect();
                prop_assert_eq!(children, expected);
            }
        }

        #[test]
        fn only_trees_in_preorder_with_each_context_once_are_taken(
            nodes in prop::collection::vec((0..9_u32, 0..4_u32), 1..9),
        ) {
            let (parents, method): (Vec<u32>, Vec<u32>) = nodes.into_iter().unzip();
            let nodes = parents.len();
            let named = |m: u32| Method { name: m.to_string(), module: String::new() };
            let taken = CallTree::new((0..4).map(named).collect(), samples(), method.clone(),
                parents.clone(), vec![vec![1; nodes]]);
            // By definition: every node comes after its parent, and only descendants of the parent
            // are between the two.
            let below = |mut node: usize, ancestor: usize| loop {
                if node == ancestor { break true }
                if node == 0 { break false }
                node = parents[node] as usize;
            };
            let in_order = (1..nodes).all(|n| (parents[n] as usize) < n)
                && (1..nodes).all(|n| {
                    let above = parents[n] as usize;
                    (above..n).all(|between| below(between, above))
                });
            let twice = |a: usize, b: usize| (parents[a], method[a]) == (parents[b], method[b]);
            let once = (1..nodes).all(|n| (1..n).all(|other| !twice(n, other)));
            prop_assert_eq!(taken.is_ok(), in_order && once, "{:?}", taken);
        }
    }

    #[test]
    fn value_types_may_come_late() {
        let mut builder = CallTreeBuilder::new(samples());
        let m = builder.method("m", "").unwrap();
        let node = builder.child(DraftNode::ROOT, m).unwrap();
        builder.add(0, node, 1);
        let late = ValueType {
            name: "late".into(),
            unit: "bytes".into(),
        };
        assert_eq!(builder.add_value_type(late), 1);
        builder.add(1, node, 2);
        let tree = builder.finish().unwrap();
        assert_eq!((tree.total(0), tree.total(1)), (1, 2));
    }

    #[test]
    fn sums_that_overflow_are_refused() {
        let mut builder = CallTreeBuilder::new(samples());
        builder.add(0, DraftNode::ROOT, i64::MAX);
        let m = builder.method("m", "").unwrap();
        let node = builder.child(DraftNode::ROOT, m).unwrap();
        builder.add(0, node, -1);
        let error = CallTreeError::SumOverflows("cpu".into());
        assert_eq!(builder.finish().unwrap_err(), error);
        let mut builder = CallTreeBuilder::new(samples());
        builder.add(0, DraftNode::ROOT, i64::MAX);
        builder.add(0, DraftNode::ROOT, 1);
        assert_eq!(builder.finish().unwrap_err(), error);
    }

    #[test]
    fn a_chain_of_a_million_calls_is_no_danger() {
        let mut builder = CallTreeBuilder::new(samples());
        let m = builder.method("m", "").unwrap();
        let mut node = DraftNode::ROOT;
        for _ in 0..1_000_000 {
            node = builder.child(node, m).unwrap();
        }
        builder.add(0, node, 7);
        let tree = builder.finish().unwrap();
        assert_eq!(tree.cum_cost(0, NodeId(1)), 7);
        assert_eq!(tree.end(NodeId::ROOT), NodeId(1_000_001));
    }
}
