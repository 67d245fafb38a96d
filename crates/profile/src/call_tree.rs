use crate::order;
use serde::{Deserialize, Serialize};

/// Index of a [`Method`] in a [`CallTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId(pub u32);

/// A node of a [`CallTree`]: its position in preorder. [`NodeId::ROOT`] is above all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node above the outermost frames. It stands for no method; its cost is that of samples
    /// without a call stack.
    pub const ROOT: Self = Self(0);
}

/// A call tree node's label: a procedure, as the profile names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Method {
    /// The name, demangled where it was mangled.
    pub name: String,
    /// The library, executable or package that it belongs to; empty if the profile does not say.
    pub module: String,
}

/// The name and unit of one cost of a call tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ValueType {
    /// Name of the value, such as `cpu-clock`, `cpu`, `alloc_space`.
    pub name: String,
    /// Unit of the value, such as `samples`, `nanoseconds`, `bytes`.
    pub unit: String,
}

/// A call-tree profile (BOTTLENECKS §2.2): one node for each calling context, labelled with a
/// method, and with a cost for each value type.
///
/// Nodes are numbered in preorder from the root, so the descendants of a node are the numbers after
/// it up to [`end`](Self::end), and the cost of any run of nodes is a difference of two prefix
/// sums. A node takes 12 bytes and 8 for each value type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTree {
    pub(crate) methods: Vec<Method>,
    pub(crate) value_types: Vec<ValueType>,
    pub(crate) method: Vec<u32>,
    pub(crate) parent: Vec<u32>,
    pub(crate) end: Vec<u32>,
    /// Prefix sums by value type; entry `n` is the sum of the costs of the nodes before `n`.
    pub(crate) prefix: Vec<Vec<i64>>,
}

/// The columns of a [`CallTree`], in the order of the node numbers.
#[derive(Clone, Debug)]
pub struct CallTreeColumns {
    /// [`CallTree::methods`]
    pub methods: Vec<Method>,
    /// [`CallTree::value_types`]
    pub value_types: Vec<ValueType>,
    /// The position of each node's method; meaningless for the root.
    pub method: Vec<u32>,
    /// The caller of each node; for the root, the root.
    pub parent: Vec<u32>,
    /// [`CallTree::end`] of each node.
    pub end: Vec<u32>,
    /// Prefix sums by value type; entry `n` is the sum of the costs of the nodes before `n`. One
    /// entry more than nodes.
    pub prefix: Vec<Vec<i64>>,
}

/// Reason why data is no valid call tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallTreeError {
    /// More nodes or methods than their numbers allow.
    #[error("more than {} nodes or methods", u32::MAX - 1)]
    TooLarge,
    /// The costs of one value type, without their signs, add up to more than 2⁶³ − 1.
    #[error("the sum of the values of {0:?} does not fit in 63 bits")]
    SumOverflows(String),
    /// Arrays of different lengths, a parent after its child, a method that is not in the table or
    /// occurs twice below one node.
    #[error("not a call tree: {0}")]
    Invalid(&'static str),
}

impl CallTree {
    /// Makes the tree of these nodes, which are in preorder. Node 0 is the root; its method and
    /// parent are ignored. `costs` has one entry for each value type, with the own cost of each
    /// node.
    ///
    /// # Errors
    /// If the nodes are no tree in preorder, two children of a node have one method, or a number is
    /// out of range. The arguments may come from an untrusted file.
    pub fn new(
        methods: Vec<Method>,
        value_types: Vec<ValueType>,
        mut method: Vec<u32>,
        mut parent: Vec<u32>,
        costs: Vec<Vec<i64>>,
    ) -> Result<Self, CallTreeError> {
        let nodes = method.len();
        if nodes == 0 || parent.len() != nodes || costs.len() != value_types.len() {
            return Err(CallTreeError::Invalid("columns of different lengths"));
        }
        if costs.iter().any(|cost| cost.len() != nodes) {
            return Err(CallTreeError::Invalid("columns of different lengths"));
        }
        if nodes >= u32::MAX as usize || methods.len() >= u32::MAX as usize {
            return Err(CallTreeError::TooLarge);
        }
        method[0] = u32::MAX;
        parent[0] = 0;
        if method[1..].iter().any(|m| *m as usize >= methods.len()) {
            return Err(CallTreeError::Invalid("a node names no method"));
        }
        let end = order::subtree_ends(&parent).ok_or(CallTreeError::Invalid("not in preorder"))?;
        if !siblings_differ(&method, &end, methods.len()) {
            return Err(CallTreeError::Invalid("a calling context comes twice"));
        }
        let prefix = costs
            .into_iter()
            .zip(&value_types)
            .map(|(cost, value)| prefix_sums(cost, value))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            methods,
            value_types,
            method,
            parent,
            end,
            prefix,
        })
    }

    /// Returns the number of nodes, with the root.
    pub fn len(&self) -> usize {
        self.method.len()
    }

    /// Returns whether the root is the only node.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Returns all methods; the position is the [`MethodId`]. A method need not occur in the tree.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the names and units of the costs.
    pub fn value_types(&self) -> &[ValueType] {
        &self.value_types
    }

    /// Returns the method of `node`; `None` for the root.
    ///
    /// # Panics
    /// Like all functions that take a node: if it is not in this tree.
    pub fn method(&self, node: NodeId) -> Option<MethodId> {
        (node != NodeId::ROOT).then(|| MethodId(self.method[node.0 as usize]))
    }

    /// Returns the caller; `None` for the root. The callers of the outermost frames are the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node != NodeId::ROOT).then(|| NodeId(self.parent[node.0 as usize]))
    }

    /// Returns the first node after `node` that is not a descendant of it.
    pub fn end(&self, node: NodeId) -> NodeId {
        NodeId(self.end[node.0 as usize])
    }

    /// Returns the children of `node` in order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.end(node);
        let mut next = NodeId(node.0 + 1);
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.end(child);
                child
            })
        })
    }

    /// Returns the cost of `node` itself, of the value type at position `value`.
    pub fn cost(&self, value: usize, node: NodeId) -> i64 {
        self.cost_of(value, node, NodeId(node.0 + 1))
    }

    /// Returns the cost of `node` and its descendants: its cum-cost (§2.2).
    pub fn cum_cost(&self, value: usize, node: NodeId) -> i64 {
        self.cost_of(value, node, self.end(node))
    }

    /// Returns the cost of the nodes from `start` up to, not including, `end`.
    pub fn cost_of(&self, value: usize, start: NodeId, end: NodeId) -> i64 {
        let prefix = &self.prefix[value];
        prefix[end.0 as usize] - prefix[start.0 as usize]
    }

    /// Returns the cost of the whole tree.
    pub fn total(&self, value: usize) -> i64 {
        self.cum_cost(value, NodeId::ROOT)
    }

    /// Returns the tree with only the value type at position `value`, which must exist.
    pub fn with_only(mut self, value: usize) -> Self {
        self.value_types = vec![self.value_types.swap_remove(value)];
        self.prefix = vec![self.prefix.swap_remove(value)];
        self
    }

    /// Returns the tree as owned columns.
    pub fn into_columns(self) -> CallTreeColumns {
        CallTreeColumns {
            methods: self.methods,
            value_types: self.value_types,
            method: self.method,
            parent: self.parent,
            end: self.end,
            prefix: self.prefix,
        }
    }

    /// Returns the tree as plain columns, in the order of the node numbers: the method of each
    /// node, the parent of each node, and for each value type the prefix sums (one entry more than
    /// nodes).
    pub fn columns(&self) -> (&[u32], &[u32], &[Vec<i64>]) {
        (&self.method, &self.parent, &self.prefix)
    }
}

/// Returns whether no node has two children of one method, so that each calling context is one
/// node.
fn siblings_differ(method: &[u32], end: &[u32], methods: usize) -> bool {
    // For each method, one more than the last node with a child of that method.
    let mut seen = vec![0; methods];
    (0..method.len()).all(|node| {
        let (first, last) = (node + 1, end[node]);
        // Most nodes have no children or one.
        if first as u32 >= last || end[first] == last {
            return true;
        }
        let mark = node as u32 + 1;
        let mut child = first;
        while (child as u32) < last {
            if std::mem::replace(&mut seen[method[child] as usize], mark) == mark {
                return false;
            }
            child = end[child] as usize;
        }
        true
    })
}

fn prefix_sums(mut cost: Vec<i64>, value: &ValueType) -> Result<Vec<i64>, CallTreeError> {
    let overflow = || CallTreeError::SumOverflows(value.name.clone());
    // Sums absolute values, so that no difference of two prefix sums can overflow either.
    cost.iter()
        .try_fold(0_i64, |sum, c| sum.checked_add(c.checked_abs()?))
        .ok_or_else(overflow)?;
    let mut sum = 0;
    for entry in &mut cost {
        sum += std::mem::replace(entry, sum);
    }
    cost.push(sum);
    Ok(cost)
}
