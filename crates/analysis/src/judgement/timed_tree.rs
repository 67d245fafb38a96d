//! A call tree of time, with an index of where each function stands: places are looked up without a walk over the tree.

use super::libraries::is_c_library;
use super::runtime_work::RuntimeWork;
use profile::{CallTree, Method, MethodId, NodeId, plain_name};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// The module of the frames that stand for the kernel.
pub(super) const KERNEL: &str = "[kernel]";

/// The frame that stands for what it takes to start and end processes, of a program that starts many.
pub const PROCESS_START: &str = "starting and ending processes";

/// A function with its module.
pub(super) type MethodName = (String, String);

/// Called functions, each with the time of its calls in nanoseconds and their nodes.
pub(super) type Callees = BTreeMap<MethodName, (f64, Vec<NodeId>)>;

/// A call tree, indexed by function.
pub(super) struct TimedTree<'a> {
    tree: &'a CallTree,
    /// The nodes of each method, in order.
    nodes: Vec<Vec<u32>>,
    by_name: FxHashMap<(&'a str, &'a str), usize>,
    by_plain_name: FxHashMap<&'a str, Vec<usize>>,
}

/// A call of a sequence of functions: the nodes that its first and its last function have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequenceCall {
    first: NodeId,
    pub(super) last: NodeId,
}

impl<'a> TimedTree<'a> {
    pub(super) fn new(tree: &'a CallTree) -> Self {
        let methods = tree.methods();
        let mut nodes = vec![Vec::new(); methods.len()];
        for node in 1..tree.len() as u32 {
            let method = tree.method(NodeId(node)).map_or(0, |method| method.0);
            if let Some(nodes) = nodes.get_mut(method as usize) {
                nodes.push(node);
            }
        }
        let named = methods.iter().enumerate();
        let name = |(at, method): (usize, &'a Method)| {
            ((method.name.as_str(), method.module.as_str()), at)
        };
        let by_name = named.clone().map(name).collect();
        let mut by_plain_name: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (at, method) in named {
            let name = plain_name(&method.name);
            by_plain_name.entry(name).or_default().push(at);
        }
        Self {
            tree,
            nodes,
            by_name,
            by_plain_name,
        }
    }

    pub(super) fn tree(&self) -> &'a CallTree {
        self.tree
    }

    /// Returns the calls of a sequence, those inside of another one left out.
    pub(super) fn calls_of(&self, path: &[MethodName]) -> Vec<SequenceCall> {
        let last = path.last().and_then(|(name, module)| {
            let method = self.by_name.get(&(name.as_str(), module.as_str()))?;
            self.nodes.get(*method)
        });
        let mut calls = Vec::new();
        let mut end = 0;
        for node in last.into_iter().flatten().copied().filter(|node| *node > 0) {
            if node < end {
                continue;
            }
            if let Some(first) = self.begin_of(path, NodeId(node)) {
                let last = NodeId(node);
                end = self.tree.end(last).0;
                calls.push(SequenceCall { first, last });
            }
        }
        calls
    }

    /// Returns the node of a sequence's first function, if the sequence ends at this one.
    fn begin_of(&self, path: &[MethodName], last: NodeId) -> Option<NodeId> {
        let mut first = last;
        let mut at = Some(last);
        for (name, module) in path.iter().rev() {
            first = at?;
            let method = self.method_at(first)?;
            if method.name != *name || method.module != *module {
                return None;
            }
            at = self.tree.parent(first);
        }
        Some(first)
    }

    /// Returns the caller of a sequence's call, and the call with that in front; `None` below the root.
    pub(super) fn with_caller(&self, call: SequenceCall) -> Option<(MethodName, SequenceCall)> {
        let first = self.tree.parent(call.first)?;
        let name = self.name_at(first)?;
        Some((name, SequenceCall { first, ..call }))
    }

    /// Returns the time of a call, with all that it calls, in nanoseconds.
    pub(super) fn time_of(&self, call: SequenceCall) -> f64 {
        self.tree.cum_cost(0, call.last) as f64
    }

    /// Returns what some nodes call.
    pub(super) fn callees_of(&self, nodes: &[NodeId]) -> Callees {
        let mut callees = Callees::new();
        for callee in nodes.iter().flat_map(|node| self.tree.children(*node)) {
            if let Some(name) = self.name_at(callee) {
                let (time, nodes) = callees.entry(name).or_default();
                *time += self.tree.cum_cost(0, callee) as f64;
                nodes.push(callee);
            }
        }
        callees
    }

    /// Returns the nodes of a call, with all that it calls.
    pub(super) fn nodes_of(&self, call: SequenceCall) -> Range<usize> {
        call.last.0 as usize..self.tree.end(call.last).0 as usize
    }

    /// Returns the nodes of a function with all that it calls: a range for each call that is in no other one of it.
    pub(super) fn nodes_below(&self, plain: &str) -> Vec<Range<usize>> {
        self.outermost_ranges(&self.nodes_named(plain))
    }

    /// The same of a function of one image.
    pub(super) fn nodes_of_function(&self, (name, module): &MethodName) -> Vec<Range<usize>> {
        let method = self.by_name.get(&(name.as_str(), module.as_str()));
        let nodes = method.and_then(|method| self.nodes.get(*method));
        let nodes: Vec<usize> = nodes.into_iter().flatten().map(|n| *n as usize).collect();
        self.outermost_ranges(&nodes)
    }

    /// Returns the calls of a function that are in no other one of it.
    pub(super) fn outermost_calls(&self, function: &MethodName) -> Vec<NodeId> {
        let ranges = self.nodes_of_function(function).into_iter();
        ranges.map(|nodes| NodeId(nodes.start as u32)).collect()
    }

    /// Returns the nodes of all garbage collectors.
    pub(super) fn nodes_of_collectors(&self) -> Vec<Range<usize>> {
        self.nodes_of_methods(|method| {
            let work = RuntimeWork::of_frame(&method.name, &method.module);
            work.is_some_and(|work| work.is_collection)
        })
    }

    /// Returns the nodes of all methods of a kind, with all that they call.
    pub(super) fn nodes_of_methods(&self, is_kind: impl Fn(&Method) -> bool) -> Vec<Range<usize>> {
        let methods = self.tree.methods().iter().zip(&self.nodes);
        let methods = methods.filter(|(method, _)| is_kind(method));
        let nodes = methods.flat_map(|(_, nodes)| nodes);
        let mut nodes: Vec<usize> = nodes.map(|node| *node as usize).collect();
        nodes.sort_unstable();
        self.outermost_ranges(&nodes)
    }

    fn outermost_ranges(&self, nodes: &[usize]) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for node in nodes.iter().copied() {
            let inside = ranges.last().is_some_and(|range| range.contains(&node));
            if !inside {
                ranges.push(node..self.tree.end(NodeId(node as u32)).0 as usize);
            }
        }
        ranges
    }

    /// Returns a node and its callers, the outermost last.
    pub(super) fn callers_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let tree = self.tree;
        std::iter::successors(Some(node), |at| tree.parent(*at))
            .take_while(|at| *at != NodeId::ROOT)
    }

    /// Returns the function at a node; `None` at the root.
    pub(super) fn name_at(&self, node: NodeId) -> Option<MethodName> {
        let method = self.method_at(node)?;
        Some((method.name.clone(), method.module.clone()))
    }

    /// Returns the nodes in which a function runs itself, with the kernel's work for it.
    pub(super) fn nodes_running(&self, plain: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for node in self.nodes_named(plain) {
            ranges.push(node..node + 1);
            let called = self.tree.children(NodeId(node as u32));
            let in_kernel = called.filter(|called| self.is_kernel(*called));
            ranges.extend(
                in_kernel.map(|called| called.0 as usize..self.tree.end(called).0 as usize),
            );
        }
        ranges
    }

    /// The nodes of a function, in order.
    fn nodes_named(&self, plain: &str) -> Vec<usize> {
        let methods = self.by_plain_name.get(plain).into_iter().flatten();
        let nodes = methods.filter_map(|method| self.nodes.get(*method));
        let mut nodes: Vec<usize> = nodes.flatten().map(|node| *node as usize).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the function that called what a node stands for in the kernel or the C library, or that it stands for.
    pub(super) fn function_at(&self, node: NodeId) -> String {
        let mut at = Some(node);
        while let Some(node) = at {
            match self.method_at(node) {
                Some(method) if method.module == KERNEL || is_c_library(&method.module) => {}
                Some(method) => return plain_name(&method.name).to_owned(),
                None => break,
            }
            at = self.tree.parent(node);
        }
        "unknown code".to_owned()
    }

    fn method_at(&self, node: NodeId) -> Option<&'a Method> {
        let MethodId(method) = self.tree.method(node)?;
        self.tree.methods().get(method as usize)
    }

    fn is_kernel(&self, node: NodeId) -> bool {
        self.method_at(node)
            .is_some_and(|method| method.module == KERNEL)
    }
}
