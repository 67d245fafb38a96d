//! A call tree of time, with an index of each function's nodes: lookups need no walk over the tree.

use super::libraries::{
    is_language_library, is_nameless, is_of_go_library, is_of_others, is_script_function,
    leads_to_work,
};
use profile::known_code::is_c_library;
use profile::{CallTree, Method, MethodId, NodeId, plain_name};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The module of the frames that stand for the kernel.
pub(super) const KERNEL: &str = "[kernel]";

/// The frame that stands for starting and ending processes, in a program that starts many.
pub const PROCESS_START: &str = "starting and ending processes";
/// The same for threads.
pub const THREAD_START: &str = "starting and ending threads";

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
    /// The role of each method.
    roles: Vec<CodeRole>,
}

/// Origin of a function, which says whether it works for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeRole {
    Kernel,
    /// The language's libraries and runtime, which work for their callers.
    Library,
    /// The program itself, the start of threads, code without a name, or a framework that calls the
    /// program back.
    Leading,
    /// A shared library or an installed package.
    OfOthers,
    /// Written for the program.
    Program,
}

impl CodeRole {
    fn works_for_caller(self) -> bool {
        matches!(self, Self::Kernel | Self::Library)
    }
}

/// The part of a function's time in the program's own functions above which it only leads to these.
const LEADS: f64 = 0.5;

/// A call of a sequence of functions: the nodes of its first and its last function.
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
        let mut known = Self {
            tree,
            nodes,
            by_name,
            by_plain_name,
            roles: Vec::new(),
        };
        let roles = (0..methods.len()).map(|method| known.find_role(method));
        known.roles = roles.collect();
        known.serve_scripts();
        for method in known.find_frameworks() {
            known.roles[method] = CodeRole::Leading;
        }
        known
    }

    /// In a program of scripts, what native libraries do belongs to the scripts: a database's
    /// engine works for the line that asks it.
    fn serve_scripts(&mut self) {
        let methods = self.tree.methods();
        let mut known = self.roles.iter().zip(methods);
        let is_own = |(role, method): (&CodeRole, &Method)| {
            *role == CodeRole::Program && is_script_function(&method.name)
        };
        if !known.any(is_own) {
            return;
        }
        for (role, method) in self.roles.iter_mut().zip(methods) {
            if *role == CodeRole::OfOthers && !is_script_function(&method.name) {
                *role = CodeRole::Library;
            }
        }
    }

    /// Returns the methods of others that mostly call the program's functions back, by number.
    fn find_frameworks(&self) -> Vec<usize> {
        let tree = self.tree;
        // At and below each node, the time in the program's functions and their callees.
        let mut in_program = vec![0; tree.len()];
        for node in (1..tree.len() as u32).rev().map(NodeId) {
            if self.role_at(node) == Some(CodeRole::Program) {
                in_program[node.0 as usize] = tree.cum_cost(0, node);
            }
            let caller = tree.parent(node).unwrap_or(NodeId::ROOT);
            in_program[caller.0 as usize] += in_program[node.0 as usize];
        }
        let is_framework = |nodes: &[u32]| {
            let nodes: Vec<usize> = nodes.iter().map(|node| *node as usize).collect();
            let calls = self.outermost_ranges(&nodes).into_iter();
            let (all, inside) = calls.fold((0, 0), |(all, inside), call| {
                let time = tree.cum_cost(0, NodeId(call.start as u32));
                (all + time, inside + in_program[call.start])
            });
            inside > 0 && inside as f64 >= LEADS * all as f64
        };
        let methods = self.roles.iter().zip(&self.nodes).enumerate();
        let others = methods.filter(|(_, (role, _))| **role == CodeRole::OfOthers);
        let found = others.filter(|(_, (_, nodes))| is_framework(nodes));
        found.map(|(method, _)| method).collect()
    }

    fn find_role(&self, number: usize) -> CodeRole {
        let method = &self.tree.methods()[number];
        let function = (method.name.clone(), method.module.clone());
        match &function {
            (_, module) if module == KERNEL => CodeRole::Kernel,
            _ if is_language_library(&function) || self.is_assembly_of_go(number) => {
                CodeRole::Library
            }
            _ if leads_to_work(&function) => CodeRole::Leading,
            _ if is_of_others(&function) => CodeRole::OfOthers,
            _ => CodeRole::Program,
        }
    }

    /// Returns whether a method is assembly code of Go's standard library: its name has no package,
    /// and only functions of that library call it.
    fn is_assembly_of_go(&self, number: usize) -> bool {
        let method = &self.tree.methods()[number];
        let is_called_by_go = |node: &u32| {
            let caller = self.tree.parent(NodeId(*node));
            let caller = caller.and_then(|caller| self.method_at(caller));
            caller.is_some_and(|c| c.module == method.module && is_of_go_library(&c.name))
        };
        let has_package = method.name.contains('.') || is_nameless(&method.name);
        let nodes = &self.nodes[number];
        !has_package && !nodes.is_empty() && nodes.iter().all(is_called_by_go)
    }

    fn role_of(&self, (name, module): &MethodName) -> Option<CodeRole> {
        let method = self.by_name.get(&(name.as_str(), module.as_str()))?;
        self.roles.get(*method).copied()
    }

    fn role_at(&self, node: NodeId) -> Option<CodeRole> {
        let MethodId(method) = self.tree.method(node)?;
        self.roles.get(method as usize).copied()
    }

    /// Returns whether a function only works for its callers.
    pub(super) fn is_library(&self, function: &MethodName) -> bool {
        self.role_of(function) == Some(CodeRole::Library)
    }

    /// Returns whether a function only leads to work, as a framework that calls the program back.
    pub(super) fn leads_to_work(&self, function: &MethodName) -> bool {
        matches!(
            self.role_of(function),
            Some(CodeRole::Library | CodeRole::Leading)
        )
    }

    /// Returns those of some functions that do not only lead to work, the program's before others'.
    pub(super) fn known_to_author(
        &self,
        functions: impl Iterator<Item = MethodName>,
    ) -> Vec<MethodName> {
        let works = functions.filter(|f| f.1 != KERNEL && !self.leads_to_work(f));
        let (own, others): (Vec<_>, Vec<_>) =
            works.partition(|f| self.role_of(f) == Some(CodeRole::Program));
        [own, others].concat()
    }

    /// Returns the functions that some nodes call. A callee that only leads to work is replaced by
    /// the functions that it leads to.
    pub(super) fn work_called_by(&self, nodes: &[NodeId]) -> Callees {
        let mut work = Callees::new();
        let mut open = vec![nodes.to_vec()];
        while let Some(nodes) = open.pop() {
            for (function, (time, nodes)) in self.callees_of(&nodes) {
                if self.leads_to_work(&function) {
                    open.push(nodes);
                } else {
                    let (all, known) = work.entry(function).or_default();
                    *all += time;
                    known.extend(nodes);
                }
            }
        }
        work
    }

    /// Returns the last function of a path that is neither a library's nor the kernel's: the one
    /// that asks for its time.
    pub(super) fn asking_function<'p>(&self, path: &'p [MethodName]) -> Option<&'p MethodName> {
        let mut path = path.iter().rev();
        path.find(|function| function.1 != KERNEL && !self.is_library(function))
    }

    /// Returns the nodes of a call's path and below that are its last function's own work: the
    /// function itself, the libraries that it calls and the kernel's work for both, without calls
    /// back from libraries. A call inside of another one works, too.
    pub(super) fn own_work(&self, path: &[MethodName]) -> BTreeSet<NodeId> {
        let mut open: Vec<NodeId> = self.all_calls_of(path).map(|call| call.last).collect();
        let mut own = BTreeSet::new();
        while let Some(node) = open.pop() {
            if own.insert(node) {
                open.extend(self.tree.children(node).filter(|child| {
                    let is_again = self.tree.method(*child) == self.tree.method(node);
                    is_again || self.role_at(*child).is_some_and(CodeRole::works_for_caller)
                }));
            }
        }
        own
    }

    /// Returns the nodes of some functions of a path, by their numbers, on its complete
    /// occurrences.
    pub(super) fn nodes_along(
        &self,
        path: &[MethodName],
        numbers: Range<usize>,
    ) -> BTreeSet<NodeId> {
        let calls = self.all_calls_of(path);
        let nodes = calls.flat_map(|call| {
            let callers = self.callers_of(call.last).skip(path.len() - numbers.end);
            callers.take(numbers.len())
        });
        nodes.collect()
    }

    fn nodes_of_method(&self, (name, module): &MethodName) -> &[u32] {
        let method = self.by_name.get(&(name.as_str(), module.as_str()));
        let nodes = method.and_then(|method| self.nodes.get(*method));
        nodes.map_or(&[], Vec::as_slice)
    }

    pub(super) fn tree(&self) -> &'a CallTree {
        self.tree
    }

    /// Returns the calls of a sequence, without those inside of another one.
    pub(super) fn calls_of(&self, path: &[MethodName]) -> Vec<SequenceCall> {
        let mut end = NodeId(0);
        let outermost = self.all_calls_of(path).filter(|call| {
            let is_outside = call.last >= end;
            if is_outside {
                end = self.tree.end(call.last);
            }
            is_outside
        });
        outermost.collect()
    }

    /// Returns the calls of a sequence, also those inside of another one.
    fn all_calls_of(&self, path: &[MethodName]) -> impl Iterator<Item = SequenceCall> {
        let last = path.last().map_or(&[][..], |f| self.nodes_of_method(f));
        let last = last.iter().map(|node| NodeId(*node));
        last.filter(|last| last.0 > 0).filter_map(|last| {
            let first = self.begin_of(path, last)?;
            Some(SequenceCall { first, last })
        })
    }

    /// Returns the node of a sequence's first function, if the sequence ends at `last`.
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

    /// Returns the caller of a sequence's call, and the call extended by the caller; `None` below
    /// the root.
    pub(super) fn with_caller(&self, call: SequenceCall) -> Option<(MethodName, SequenceCall)> {
        let first = self.tree.parent(call.first)?;
        let name = self.name_at(first)?;
        Some((name, SequenceCall { first, ..call }))
    }

    /// Returns the time of a call and its callees, in nanoseconds.
    pub(super) fn time_of(&self, call: SequenceCall) -> f64 {
        self.tree.cum_cost(0, call.last) as f64
    }

    /// Returns the functions that some nodes call.
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

    /// Returns the nodes of a call and its callees.
    pub(super) fn nodes_of(&self, call: SequenceCall) -> Range<usize> {
        call.last.0 as usize..self.tree.end(call.last).0 as usize
    }

    /// Returns the nodes of a function and its callees: a range for each outermost call.
    pub(super) fn nodes_below(&self, plain: &str) -> Vec<Range<usize>> {
        self.outermost_ranges(&self.nodes_named(plain))
    }

    /// Returns the nodes of a function of one image and its callees: a range for each outermost
    /// call.
    pub(super) fn nodes_of_function(&self, function: &MethodName) -> Vec<Range<usize>> {
        let nodes = self.nodes_of_method(function);
        let nodes: Vec<usize> = nodes.iter().map(|n| *n as usize).collect();
        self.outermost_ranges(&nodes)
    }

    /// Returns the outermost calls of a function.
    pub(super) fn outermost_calls(&self, function: &MethodName) -> Vec<NodeId> {
        let ranges = self.nodes_of_function(function).into_iter();
        ranges.map(|nodes| NodeId(nodes.start as u32)).collect()
    }

    /// Returns the nodes of all methods of a kind, with their callees.
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

    /// Returns the nodes of a function, in order.
    fn nodes_named(&self, plain: &str) -> Vec<usize> {
        let methods = self.by_plain_name.get(plain).into_iter().flatten();
        let nodes = methods.filter_map(|method| self.nodes.get(*method));
        let mut nodes: Vec<usize> = nodes.flatten().map(|node| *node as usize).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the function at a node; in the kernel or the C library, the function that called it.
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
