//! The call sequences that have a program's time, each with the time that no other one has.

use super::libraries::{is_nameless, is_shared_library, says_little};
use super::timed_tree::{KERNEL, MethodName, PROCESS_START, SequenceCall, THREAD_START, TimedTree};
use crate::bottleneck::auto::FoundSequences;
use crate::bottleneck::forest::Forest;
use crate::bottleneck::interface::Profile;
use profile::known_code::{LOCKING, is_glue, is_lock_operation};
use profile::{CallTree, Method, NodeId, TimeKind, plain_name};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The part of the working time, or of the program's speed, below which nothing is reported.
pub const LEAST: f64 = 0.02;
/// Number of sequences that the search looks for.
pub(super) const SOUGHT: usize = 8;
/// The part of the time of a C library function on the way to the kernel that one caller must have
/// to be its only caller.
const ONE_CALLER: f64 = 0.8;
/// The part of the working time above which a function is the program, rather than a part of it.
pub(super) const PROGRAM: f64 = 0.95;
/// The part above which a function is descended into only if one callee has most of it.
pub(super) const DRIVER: f64 = 0.8;
/// The part of a function's time above which one callee says more than the function.
pub(super) const DOMINATES: f64 = 0.8;
/// The part of a function's time that must be its own if it is a loop around small callees, and not
/// a list of stages.
pub(super) const OWN_WORK: f64 = 0.05;
/// The part of a sequence's time above which one callee is a sequence of its own.
const LARGE: f64 = 0.25;
/// The part of its time that a function must lock or unlock to do nothing else.
const ONLY_LOCKS: f64 = 0.9;
/// Maximum number of functions on the way to the kernel: Rust's standard library has the most.
const LONGEST_WAY_TO_KERNEL: usize = 40;

/// The part of a shared library's functions without names above which it has no symbols. Tuned by
/// `benches/run_cases.py`.
const STRIPPED: f64 = 0.25;
/// Maximum number of paths through libraries by which one function asks for a sequence.
const MOST_WAYS: usize = 32;

/// A call sequence with the time that no other one has. It includes the time of the language's
/// libraries that its functions call.
pub(super) struct TimedSequence {
    /// Call path of the place, without those libraries.
    pub(super) path: Vec<MethodName>,
    /// The time in functions of these libraries, or in united sequences, by name, in nanoseconds.
    pub(super) in_callees: BTreeMap<String, f64>,
    /// Time of each kind, in nanoseconds.
    pub(super) times: [f64; TimeKind::ALL.len()],
    /// The time of functions on the path, outside of the calls to the place, in nanoseconds.
    pub(super) along: f64,
    /// The time of its calls that other sequences have, by their numbers, in nanoseconds.
    pub(super) shared: FxHashMap<usize, f64>,
    /// True if its time is spread over many callees: one callee says little about the whole.
    pub(super) is_united: bool,
    /// Its part of the working time in each run, if there are several.
    pub(super) parts: Vec<f64>,
}

impl TimedSequence {
    fn at_place(path: Vec<MethodName>) -> Self {
        Self {
            path,
            in_callees: BTreeMap::new(),
            is_united: false,
            times: [0.0; TimeKind::ALL.len()],
            along: 0.0,
            shared: FxHashMap::default(),
            parts: Vec::new(),
        }
    }

    /// Returns whether nearly all of its time is the C library's locking and unlocking.
    fn is_locking(&self, tree: &TimedTree<'_>) -> bool {
        let called = self
            .in_callees
            .iter()
            .filter(|(name, _)| is_lock_operation(name));
        let called: f64 = called.map(|(_, time)| *time).sum();
        let mut path = self.path.iter();
        let is_operation = |function: &MethodName| {
            let (name, module) = function;
            let kernel = module == KERNEL && name.starts_with("futex");
            kernel || tree.is_library(function) && is_lock_operation(plain_name(name))
        };
        called > 0.0 && called >= ONE_CALLER * self.time() || path.any(is_operation)
    }

    /// Returns whether it stands for starting and ending processes or threads.
    pub(super) fn is_process_start(&self) -> bool {
        let last = self.path.last().filter(|(_, module)| module == KERNEL);
        last.is_some_and(|(name, _)| [PROCESS_START, THREAD_START].contains(&name.as_str()))
    }

    /// Returns its time, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        self.times.iter().sum()
    }

    /// Returns its time without waits for other threads' work, in nanoseconds.
    pub(super) fn time_working(&self) -> f64 {
        self.time_of_kinds(is_work)
    }

    /// Returns its running time, in nanoseconds.
    pub(super) fn time_running(&self) -> f64 {
        self.time_of_kinds(TimeKind::is_running)
    }

    /// Returns its time that is known by samples and not measured, in nanoseconds.
    pub(super) fn time_sampled(&self) -> f64 {
        self.time_of_kinds(TimeKind::is_sampled)
    }

    /// Returns its time of some kinds, in nanoseconds.
    pub(super) fn time_of_kinds(&self, is_kind: impl Fn(TimeKind) -> bool) -> f64 {
        let kinds = TimeKind::ALL.into_iter().zip(self.times);
        let of_kinds = kinds.filter(|(kind, _)| is_kind(*kind));
        of_kinds.map(|(_, time)| time).sum()
    }
}

/// Returns whether time of a kind is work. Waits for a lock or at a barrier are not: the thread
/// that ends them works meanwhile.
fn is_work(kind: TimeKind) -> bool {
    !matches!(kind, TimeKind::Locks | TimeKind::Barriers)
}

/// A library's function through which another one asks the kernel. Its own time, as for entering
/// the kernel, belongs to that call.
#[derive(Clone)]
struct WayToKernel {
    asker: MethodName,
    library: MethodName,
    /// The sequence of the call.
    path: Vec<MethodName>,
}

impl WayToKernel {
    fn of_path(path: &[MethodName], tree: &TimedTree<'_>) -> Option<Self> {
        let kernel = path.iter().position(|(_, module)| module == KERNEL)?;
        let before = &path[..kernel];
        let is_library = |function: &&MethodName| tree.is_library(function);
        let library = kernel - before.iter().rev().take_while(is_library).count();
        if library == kernel {
            return None;
        }
        Some(Self {
            asker: before.get(library.checked_sub(1)?)?.clone(),
            library: before[library].clone(),
            path: path.to_vec(),
        })
    }
}

/// The part of calls that a place takes.
enum TakenPart {
    All,
    /// The own work of the last function, without calls back from libraries.
    OwnWork,
    /// The own work of functions on the path to the last one, by their numbers.
    Along(Range<usize>),
}

/// Calls whose time a place has taken.
struct TakenCalls {
    path: Vec<MethodName>,
    place: Vec<MethodName>,
    /// The library's function that the place calls.
    callee: Option<String>,
    part: TakenPart,
}

/// A place with the sequences that belong to it.
pub(super) struct UnitedPlace {
    pub(super) path: Vec<MethodName>,
    pub(super) inside: Vec<usize>,
}

/// Sequences that have no time in common.
pub(super) struct Sequences<'a> {
    pub(super) tree: TimedTree<'a>,
    /// The sum of all time, in nanoseconds; never 0.
    pub(super) working_ns: f64,
    pub(super) sequences: Vec<TimedSequence>,
    /// The calls in the order in which they were taken, the most specific ones first.
    taken: Vec<TakenCalls>,
    ways: Vec<WayToKernel>,
    united: Vec<UnitedPlace>,
    /// Shared libraries without symbols.
    stripped: BTreeSet<&'a str>,
    /// The sequence that has each node.
    owners: Vec<Option<usize>>,
}

impl<'a> Sequences<'a> {
    pub(super) fn new(tree: &'a CallTree) -> Self {
        Self {
            tree: TimedTree::new(tree),
            working_ns: (tree.total(0) as f64).max(1.0),
            sequences: Vec::new(),
            taken: Vec::new(),
            ways: Vec::new(),
            united: Vec::new(),
            stripped: stripped_libraries(tree),
            owners: vec![None; tree.len()],
        }
    }

    /// Takes the sequences that a search found. If threads lose time at locks, what is below lock
    /// operations is the price of that contention, whoever calls them, and is taken first.
    pub(super) fn take_found(
        &mut self,
        forest: &Forest,
        found: &FoundSequences,
        are_locks_contended: bool,
    ) {
        // The most specific ones first, because the search counts shared time for these.
        let mut order: Vec<_> = found.bottlenecks.iter().collect();
        order.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let paths = order.into_iter().flat_map(|bottleneck| {
            let steps = forest.path_of(&bottleneck.sequence).iter();
            let methods = steps.map(|step| forest.method(*step));
            let path = methods.map(|m| (m.name.clone(), m.module.clone()));
            self.with_askers(path.collect())
        });
        let mut paths: Vec<Vec<MethodName>> = paths.collect();
        paths.retain(|path| !self.only_leads(path));
        let callees = paths.iter().flat_map(|path| self.large_callees(path));
        // A sequence found by the search has all calls of its function, also those by others.
        let is_found = |callee: &Vec<MethodName>| paths.iter().any(|p| p.last() == callee.last());
        let callees: Vec<_> = callees.filter(|callee| !is_found(callee)).collect();
        // The more specific sequences first.
        paths.splice(0..0, callees);
        if are_locks_contended {
            paths.splice(0..0, self.lock_operations());
        }
        // The own time of a function that two calls share belongs to the call that takes more.
        let ways = paths.iter().rev();
        self.ways = ways
            .filter_map(|p| WayToKernel::of_path(p, &self.tree))
            .collect();
        for path in &paths {
            self.take_sequence(path.clone());
        }
        // Other work of a library's function for the same caller belongs to this sequence, too.
        let library_calls = paths
            .iter()
            .filter_map(|path| self.first_library_call(path));
        for call in library_calls.collect::<Vec<_>>() {
            self.take_own_work(call);
        }
        for way in self.ways.clone() {
            self.take_own_work(vec![way.asker, way.library]);
        }
        for path in &paths {
            self.take_work_along(path);
        }
        self.unite_locking();
    }

    /// Returns the sequences of the C library's locking and unlocking that other code asks for.
    fn lock_operations(&self) -> Vec<Vec<MethodName>> {
        let is_operation = |method: &Method| is_lock_operation(plain_name(&method.name));
        let calls = self.tree.nodes_of_methods(is_operation).into_iter();
        let asked = calls.filter_map(|nodes| {
            let mut functions = self.tree.callers_of(NodeId(nodes.start as u32));
            let operation = self.tree.name_at(functions.next()?)?;
            let caller = self.tree.name_at(functions.next()?)?;
            // The C library's own locks, as of an allocator, are a part of what it does.
            let is_asked = self.tree.is_library(&operation) && caller.1 != operation.1;
            is_asked.then_some(operation)
        });
        let operations: BTreeSet<MethodName> = asked.collect();
        let operations = operations.into_iter();
        operations
            .flat_map(|operation| self.with_askers(vec![operation]))
            .collect()
    }

    /// Takes the own work of the functions on the path of a sequence, which the search counts as a
    /// part of it. It goes to the function's place, or becomes a sequence of its own if it is large
    /// enough.
    fn take_work_along(&mut self, path: &[MethodName]) {
        let mut end = path.len();
        for at in (0..path.len()).rev() {
            let is_library = |at: usize| path.get(at).is_some_and(|f| self.tree.is_library(f));
            let caller = at.checked_sub(1);
            // A library works for its caller, unless the caller's name says little.
            let is_for_caller = is_library(at)
                && caller.is_some_and(|caller| is_library(caller) || !says_little(&path[caller].0));
            if is_for_caller {
                continue;
            }
            let numbers = at..end;
            end = at;
            let nodes = self.tree.nodes_along(path, numbers.clone()).into_iter();
            let free = nodes.filter(|node| self.owner_of(*node).is_none());
            let free: i64 = free.map(|node| self.tree.tree().cost(0, node)).sum();
            let place = &path[at..=at];
            let place = if self.sequences.iter().any(|known| known.path == place) {
                place
            } else if free as f64 >= LEAST * self.working_ns && !is_glue(&path[at].0) {
                &path[..=at]
            } else {
                continue;
            };
            let (place, _) = self.place_of(place);
            let called = numbers.start + 1..numbers.end;
            let callee = path.get(called.start).filter(|_| !called.is_empty());
            let callee = callee.map(|(name, _)| name.clone());
            let itself = (place.clone(), None);
            self.take_calls(path.to_vec(), itself, TakenPart::Along(at..at + 1));
            self.take_calls(path.to_vec(), (place, callee), TakenPart::Along(called));
        }
    }

    /// Returns whether a sequence is all of `main`, or of a script's statements, which only call
    /// others.
    fn only_leads(&self, path: &[MethodName]) -> bool {
        let [function] = path else { return false };
        let is_program = says_little(&function.0) && !is_nameless(&function.0);
        let own = self.tree.nodes_running(plain_name(&function.0));
        let own: f64 = own.iter().map(|nodes| self.time_of(nodes)).sum();
        is_program && own < OWN_WORK * self.time_of_function(function)
    }

    /// Returns the large callees of a sequence that is the whole program, or its `main`, each as a
    /// sequence of its own, because they say more.
    fn large_callees(&self, path: &[MethodName]) -> Vec<Vec<MethodName>> {
        let calls = self.tree.calls_of(path);
        let all: f64 = calls.iter().map(|call| self.tree.time_of(*call)).sum();
        // Beside `main` a runtime may work, such as a compiler.
        let is_program = |(name, _): &&MethodName| {
            all >= PROGRAM * self.working_ns || says_little(name) && !is_nameless(name)
        };
        let Some(last) = path.last().filter(is_program) else {
            return Vec::new();
        };
        let nodes: Vec<NodeId> = calls.iter().map(|call| call.last).collect();
        let callees = self.tree.callees_of(&nodes).into_iter();
        let large = callees.filter(|(callee, (time, _))| {
            *time >= LARGE * all && callee != last && callee.1 != KERNEL
        });
        large
            .map(|(callee, _)| vec![last.clone(), callee])
            .collect()
    }

    /// Extends the top of a sequence that begins in the kernel or in a library of the language, up
    /// to the caller that asked for it. Steps through these libraries are included, because they
    /// only work for others. Each of several callers that ask the kernel is a sequence of its own,
    /// if it has enough time.
    fn with_askers(&self, path: Vec<MethodName>) -> Vec<Vec<MethodName>> {
        let mut done = Vec::new();
        let calls = self.tree.calls_of(&path);
        let mut open = vec![(path, calls)];
        while let Some((path, calls)) = open.pop() {
            let in_kernel = path.first().is_some_and(|(_, module)| module == KERNEL);
            // A library without symbols between the asking function and the kernel gives no hint
            // what to change.
            let in_kernel_call = path.last().is_some_and(|(_, module)| module == KERNEL);
            let in_library = path.first().is_some_and(|first| {
                self.tree.is_library(first) || in_kernel_call && self.is_in_stripped(first)
            });
            if path.len() > LONGEST_WAY_TO_KERNEL || !in_kernel && !in_library {
                done.push(path);
                continue;
            }
            let all: f64 = calls.iter().map(|call| self.tree.time_of(*call)).sum();
            let asks_kernel = path.last().is_some_and(|(_, module)| module == KERNEL);
            let enough = if asks_kernel {
                LEAST * self.working_ns
            } else {
                ONE_CALLER * all
            };
            let callers = self.callers_of(&calls, enough);
            let made = callers.iter().flat_map(|(_, calls)| calls);
            let known: f64 = made.map(|call| self.tree.time_of(*call)).sum();
            if callers.is_empty() || !in_kernel && known < ONE_CALLER * all {
                if is_glue(&path[0].0) {
                    done.push(self.without_glue(path));
                } else {
                    done.extend(self.ways_from_one_asker(&path, &calls));
                }
                continue;
            }
            open.extend(callers.into_iter().map(|(caller, calls)| {
                let caller = std::iter::once(caller);
                (caller.chain(path.iter().cloned()).collect(), calls)
            }));
        }
        done
    }

    /// Returns the paths by which one function asks for most of a sequence within libraries,
    /// through several library functions, such as constructors and destructors that allocate.
    /// Returns the sequence itself if no function does.
    fn ways_from_one_asker(
        &self,
        path: &[MethodName],
        calls: &[SequenceCall],
    ) -> Vec<Vec<MethodName>> {
        let mut askers: BTreeMap<MethodName, (f64, BTreeMap<Vec<MethodName>, f64>)> =
            BTreeMap::new();
        for call in calls {
            let time = self.tree.time_of(*call);
            let mut way = path.to_vec();
            let mut at = *call;
            let asker = loop {
                let Some((caller, with_caller)) = self.tree.with_caller(at) else {
                    break None;
                };
                way.insert(0, caller.clone());
                if !self.tree.is_library(&caller) {
                    let is_place = !is_glue(&caller.0) && !says_little(&caller.0);
                    break is_place.then_some(caller);
                }
                at = with_caller;
            };
            if let Some(asker) = asker.filter(|_| way.len() <= LONGEST_WAY_TO_KERNEL) {
                let (all, ways) = askers.entry(asker).or_default();
                *all += time;
                *ways.entry(way).or_default() += time;
            }
        }
        let all: f64 = calls.iter().map(|call| self.tree.time_of(*call)).sum();
        let most = askers.into_values().max_by(|a, b| a.0.total_cmp(&b.0));
        match most.filter(|(time, _)| all > 0.0 && *time >= ONE_CALLER * all) {
            Some((_, ways)) => {
                let mut ways: Vec<_> = ways.into_iter().collect();
                ways.sort_by(|a, b| b.1.total_cmp(&a.1));
                let ways = ways.into_iter().take(MOST_WAYS);
                ways.map(|(way, _)| way).collect()
            }
            None => vec![path.to_vec()],
        }
    }

    /// Returns the callers of a sequence's calls that have enough time, with their calls, by
    /// descending time.
    fn callers_of(
        &self,
        calls: &[SequenceCall],
        enough: f64,
    ) -> Vec<(MethodName, Vec<SequenceCall>)> {
        let mut callers: BTreeMap<MethodName, (f64, Vec<SequenceCall>)> = BTreeMap::new();
        // A call below the root has no caller.
        for call in calls {
            if let Some((caller, with_caller)) = self.tree.with_caller(*call) {
                let (time, calls) = callers.entry(caller).or_default();
                *time += self.tree.time_of(*call);
                calls.push(with_caller);
            }
        }
        let mut callers: Vec<_> = callers.into_iter().collect();
        callers.retain(|(_, (time, _))| *time > 0.0 && *time >= enough);
        callers.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        callers.truncate(SOUGHT);
        let calls = callers.into_iter();
        calls.map(|(caller, (_, calls))| (caller, calls)).collect()
    }

    /// Unites the sequences of locking and unlocking, if there are several and all of them only
    /// lock or unlock.
    fn unite_locking(&mut self) {
        let sequences = self.sequences.iter().enumerate();
        let locks: Vec<_> = sequences
            .filter(|(_, known)| known.is_locking(&self.tree))
            .collect();
        let does_nothing_else = |known: &TimedSequence| {
            let Some(first) = known.path.first().filter(|f| !self.tree.is_library(f)) else {
                return true;
            };
            let own = locks
                .iter()
                .filter(|(_, other)| other.path.first() == Some(first));
            let own: f64 = own.map(|(_, other)| other.time()).sum();
            own >= ONLY_LOCKS * self.time_of_function(first)
        };
        let inside = locks.iter().filter(|(_, known)| does_nothing_else(known));
        let inside: Vec<usize> = inside.map(|(at, _)| *at).collect();
        if inside.len() > 1 {
            let path = vec![(LOCKING.to_owned(), String::new())];
            self.unite_all(vec![UnitedPlace { path, inside }]);
        }
    }

    /// Unites the sequences of each of some places.
    pub(super) fn unite_all(&mut self, places: Vec<UnitedPlace>) {
        for place in places {
            self.unite(&place);
            self.united.push(place);
        }
    }

    /// Makes a place and the sequences that belong to it one sequence.
    fn unite(&mut self, place: &UnitedPlace) {
        let own = self.take_nodes(&TakenCalls {
            path: place.path.clone(),
            place: place.path.clone(),
            callee: None,
            part: TakenPart::All,
        });
        for inside in place.inside.iter().copied().filter(|at| *at != own) {
            let empty = TimedSequence::at_place(self.sequences[inside].path.clone());
            let gone = std::mem::replace(&mut self.sequences[inside], empty);
            let united = &mut self.sequences[own];
            for (time, more) in united.times.iter_mut().zip(gone.times) {
                *time += more;
            }
            let mut path = gone.path.iter().rev();
            let function = path.find(|(_, module)| module != KERNEL);
            let is_same = gone.path.last() == place.path.last();
            if let Some(function) = function.filter(|at| !is_same && place.path.last() != Some(at))
            {
                let name = plain_name(&function.0).to_owned();
                *united.in_callees.entry(name).or_default() += gone.time();
            }
            united.shared.remove(&inside);
            let owners = self
                .owners
                .iter_mut()
                .filter(|owner| **owner == Some(inside));
            owners.for_each(|owner| *owner = Some(own));
        }
        self.sequences[own].is_united = true;
    }

    /// Looks for the same sequences in further runs, in the same order, so that no time is shared
    /// there either.
    pub(super) fn compare_runs(&mut self, more: &[CallTree]) {
        let part = |run: &Sequences<'_>, at: usize| run.sequences[at].time() / run.working_ns;
        let count = 0..self.sequences.len();
        let mut parts: Vec<Vec<f64>> = count.map(|at| vec![part(self, at)]).collect();
        for tree in more {
            let mut other = Sequences::new(tree);
            for taken in &self.taken {
                other.take_nodes(taken);
            }
            for place in &self.united {
                other.unite(place);
            }
            for (at, parts) in parts.iter_mut().enumerate() {
                parts.push(part(&other, at));
            }
        }
        for (sequence, parts) in self.sequences.iter_mut().zip(parts) {
            sequence.parts = parts;
        }
    }

    /// Returns the place of a path, and the library function that the place calls.
    fn place_of(&self, path: &[MethodName]) -> (Vec<MethodName>, Option<String>) {
        let is_on_way = |way: &&WayToKernel| {
            let mut asked = path.windows(2);
            asked.any(|calls| calls[0] == way.asker && calls[1] == way.library)
        };
        let in_library = path.last().is_some_and(|last| self.tree.is_library(last));
        if let Some(way) = self.ways.iter().find(is_on_way).filter(|_| in_library) {
            return (way.path.clone(), None);
        }
        if let Some(place) = self.without_stripped(path) {
            return (place, None);
        }
        let (place, library) = self.place_and_library(path);
        (place.to_vec(), library.map(str::to_owned))
    }

    /// Returns the path of the library call with which a path into libraries leaves the program's
    /// own functions.
    fn first_library_call(&self, path: &[MethodName]) -> Option<Vec<MethodName>> {
        let is_library = |function: &&MethodName| self.tree.is_library(function);
        let inside = path.iter().rev().take_while(is_library).count();
        let asker = (path.len() - inside)
            .checked_sub(1)
            .filter(|_| inside > 1)?;
        let is_place = !says_little(&path[asker].0);
        is_place.then(|| path[asker..=asker + 1].to_vec())
    }

    /// Splits a path into its place and, if it ends in a library of the language, the library
    /// function that the place calls. The place is the caller of the library. If that is `main` or
    /// nameless, the library function is part of the place.
    fn place_and_library<'p>(&self, path: &'p [MethodName]) -> (&'p [MethodName], Option<&'p str>) {
        let is_library = |function: &&MethodName| self.tree.is_library(function);
        let inside = path.iter().rev().take_while(is_library).count();
        let Some(asker) = (path.len() - inside).checked_sub(1).filter(|_| inside > 0) else {
            return (path, None);
        };
        let more = usize::from(says_little(&path[asker].0));
        let place = &path[asker..=asker + more];
        let called = path[asker + place.len()..].first();
        (place, called.map(|(called, _)| called.as_str()))
    }

    /// Removes functions that only lead to work, such as the start of a thread, from the beginning
    /// of a path. Within libraries, the function that they call stands for the path.
    fn without_glue(&self, mut path: Vec<MethodName>) -> Vec<MethodName> {
        let begin = path.iter().position(|(name, _)| !is_glue(name));
        if let Some(begin) = begin.filter(|begin| *begin > 0) {
            let in_library = path.iter().all(|function| self.tree.is_library(function));
            path.drain(..begin);
            path.truncate(if in_library { 1 } else { path.len() });
        }
        path
    }

    /// Returns a path to the kernel, without library functions that only pass the call on.
    pub(super) fn without_wrappers(&self, path: &[MethodName]) -> Vec<MethodName> {
        let mut path = path.to_vec();
        let is_kernel = |(_, module): &MethodName| module == KERNEL;
        let mut at = path.iter().position(is_kernel).unwrap_or(0);
        while at > 1 && self.tree.is_library(&path[at - 1]) {
            at -= 1;
            path.remove(at);
        }
        path
    }

    /// Returns whether a function has no name, or is in a shared library without symbols. The
    /// exported names of such a library give no hint what to change.
    fn is_in_stripped(&self, (name, module): &MethodName) -> bool {
        is_nameless(name) || self.stripped.contains(module.as_str())
    }

    /// Returns a path to the kernel from the caller of a library without symbols, without the
    /// library's frames. `None` if there is no such library, or no caller.
    fn without_stripped(&self, path: &[MethodName]) -> Option<Vec<MethodName>> {
        let (last, callers) = path.split_last()?;
        let (asker, way) = callers.split_first()?;
        let is_asker = !self.tree.is_library(asker) && !self.is_in_stripped(asker);
        let is_stripped = |function: &&MethodName| self.stripped.contains(function.1.as_str());
        let is_way =
            |function: &MethodName| self.tree.is_library(function) || self.is_in_stripped(function);
        let is_left_out = last.1 == KERNEL
            && is_asker
            && way.iter().any(|function| is_stripped(&function))
            && way.iter().all(is_way);
        is_left_out.then(|| vec![asker.clone(), last.clone()])
    }

    /// Adds the time below all calls of a sequence that no other one has: to the sequence of its
    /// place, if there is one.
    pub(super) fn take_sequence(&mut self, path: Vec<MethodName>) {
        let place = self.place_of(&path);
        self.take_calls(path, place, TakenPart::All);
    }

    /// Adds only the own work of a sequence's last function.
    fn take_own_work(&mut self, path: Vec<MethodName>) {
        let place = self.place_of(&path);
        self.take_calls(path, place, TakenPart::OwnWork);
    }

    fn take_calls(
        &mut self,
        path: Vec<MethodName>,
        (place, callee): (Vec<MethodName>, Option<String>),
        part: TakenPart,
    ) {
        let taken = TakenCalls {
            path,
            place,
            callee,
            part,
        };
        self.take_nodes(&taken);
        self.taken.push(taken);
    }

    /// Adds taken nodes to a sequence, and returns its number.
    fn take_nodes(&mut self, taken: &TakenCalls) -> usize {
        let mut sequences = self.sequences.iter();
        let known = sequences.position(|known| known.path == taken.place);
        let own = known.unwrap_or(self.sequences.len());
        if known.is_none() {
            let sequence = TimedSequence::at_place(taken.place.clone());
            self.sequences.push(sequence);
        }
        let nodes = match &taken.part {
            TakenPart::OwnWork => self.tree.own_work(&taken.path),
            TakenPart::Along(numbers) => self.tree.nodes_along(&taken.path, numbers.clone()),
            TakenPart::All => {
                let calls = self.tree.calls_of(&taken.path).into_iter();
                let nodes = calls.flat_map(|call| self.tree.nodes_of(call));
                nodes.map(|node| NodeId(node as u32)).collect()
            }
        };
        let sequence = &mut self.sequences[own];
        for node in nodes {
            let time = self.tree.tree().cost(0, node) as f64;
            match &mut self.owners[node.0 as usize] {
                free @ None => {
                    *free = Some(own);
                    if matches!(taken.part, TakenPart::Along(_)) {
                        sequence.along += time;
                    }
                    for (kind, time) in sequence.times.iter_mut().enumerate() {
                        *time += self.tree.tree().cost(1 + kind, node) as f64;
                    }
                    if let Some(callee) = &taken.callee {
                        let name = plain_name(callee).to_owned();
                        *sequence.in_callees.entry(name).or_default() += time;
                    }
                }
                Some(owner) if *owner == own => {}
                Some(owner) => *sequence.shared.entry(*owner).or_default() += time,
            }
        }
        own
    }

    /// Returns the distribution of some nodes' time over sequences, in nanoseconds; `None` stands
    /// for time in no sequence.
    pub(super) fn time_by_owner(&self, nodes: &[Range<usize>]) -> BTreeMap<Option<usize>, f64> {
        let mut times = BTreeMap::new();
        for node in nodes.iter().cloned().flatten() {
            let time = self.tree.tree().cost(0, NodeId(node as u32)) as f64;
            *times.entry(self.owners[node]).or_insert(0.0) += time;
        }
        times
    }

    /// Returns the sequence that has most of the time of some nodes, if it has at least half.
    pub(super) fn main_owner(&self, nodes: &[Range<usize>]) -> Option<usize> {
        let times = self.time_by_owner(nodes);
        let (at, most) = largest_of(&times)?;
        (most >= times.values().sum::<f64>() / 2.0).then_some(at)
    }

    /// Returns the sequence that has most of the time of some nodes, if all sequences together have
    /// at least half.
    pub(super) fn largest_owner(&self, nodes: &[Range<usize>]) -> Option<usize> {
        let times = self.time_by_owner(nodes);
        let all: f64 = times.values().sum();
        let free = times.get(&None).copied().unwrap_or_default();
        let (at, _) = largest_of(&times)?;
        (free <= all / 2.0).then_some(at)
    }

    /// Returns the sequence that has most of the waiting at some nodes, if it has at least half.
    pub(super) fn main_waiter(&self, nodes: &[Range<usize>]) -> Option<usize> {
        self.main_owner_of(nodes, |kind| !kind.is_running())
    }

    /// Returns the sequence that has most of the work at some nodes, if it has at least half. The
    /// holder of a lock works while it holds up others, and has waited for the lock before.
    pub(super) fn main_worker(&self, nodes: &[Range<usize>]) -> Option<usize> {
        self.main_owner_of(nodes, is_work)
    }

    /// Returns the sequence that has most of some nodes' time of a kind, if it has at least half.
    fn main_owner_of(
        &self,
        nodes: &[Range<usize>],
        is_kind: impl Fn(TimeKind) -> bool,
    ) -> Option<usize> {
        let mut times: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        for node in nodes.iter().cloned().flatten() {
            let time = self.time_at(NodeId(node as u32), &is_kind) as f64;
            *times.entry(self.owners[node]).or_default() += time;
        }
        let (at, most) = largest_of(&times)?;
        (most >= times.values().sum::<f64>() / 2.0).then_some(at)
    }

    /// Returns the time that threads waited at a node itself, in nanoseconds.
    fn waiting_at(&self, node: NodeId) -> i64 {
        self.time_at(node, |kind| !kind.is_running())
    }

    /// Returns the time of a kind at a node itself, in nanoseconds.
    fn time_at(&self, node: NodeId, is_kind: impl Fn(TimeKind) -> bool) -> i64 {
        let kinds = TimeKind::ALL.iter().enumerate();
        let of_kind = kinds.filter(|(_, kind)| is_kind(**kind));
        let tree = self.tree.tree();
        of_kind.map(|(at, _)| tree.cost(1 + at, node)).sum()
    }

    /// Returns the most frequent kind of waiting at a node itself, by time.
    pub(super) fn wait_kind_at(&self, node: NodeId) -> Option<TimeKind> {
        let kinds = TimeKind::ALL.iter().enumerate();
        let waits = kinds.filter(|(_, kind)| !kind.is_running());
        let tree = self.tree.tree();
        let costs = waits.map(|(at, kind)| (tree.cost(1 + at, node), *kind));
        let (most, kind) = costs.max_by_key(|(cost, _)| *cost)?;
        (most > 0).then_some(kind)
    }

    /// Returns the sequence that has a node.
    pub(super) fn owner_of(&self, node: NodeId) -> Option<usize> {
        *self.owners.get(node.0 as usize)?
    }

    /// Returns the nodes that a sequence has, with their own time in nanoseconds.
    pub(super) fn nodes_of_sequence(&self, number: usize) -> impl Iterator<Item = (NodeId, i64)> {
        let nodes = (0..).zip(&self.owners);
        let own = nodes.filter(move |(_, owner)| **owner == Some(number));
        own.map(|(node, _)| (NodeId(node), self.tree.tree().cost(0, NodeId(node))))
            .filter(|(_, time)| *time > 0)
    }

    /// Returns the time of a range of nodes, in nanoseconds.
    pub(super) fn time_of(&self, nodes: &Range<usize>) -> f64 {
        let node = |at: usize| NodeId(at as u32);
        let tree = self.tree.tree();
        tree.cost_of(0, node(nodes.start), node(nodes.end)) as f64
    }

    /// Returns the time of all threads without waits for each other's work, in nanoseconds.
    pub(super) fn time_working(&self) -> f64 {
        let kinds = (1..).zip(TimeKind::ALL);
        let work = kinds.filter(|(_, kind)| is_work(*kind));
        work.map(|(value, _)| self.tree.tree().total(value) as f64)
            .sum()
    }

    /// Returns the time of all threads of a kind, in nanoseconds.
    pub(super) fn time_of_kind(&self, kind: TimeKind) -> f64 {
        let values = (1..).zip(TimeKind::ALL);
        let of_kind = values.filter(|(_, known)| *known == kind);
        of_kind
            .map(|(value, _)| self.tree.tree().total(value) as f64)
            .sum()
    }

    /// Returns the time of a function and its callees, in nanoseconds.
    pub(super) fn time_of_function(&self, function: &MethodName) -> f64 {
        let ranges = self.tree.nodes_of_function(function);
        ranges.iter().map(|nodes| self.time_of(nodes)).sum()
    }

    /// Returns whether calls of a function pass most of the program on to one other function that
    /// is in no library. The entry or loop then says less than that callee.
    pub(super) fn is_entry(&self, calls: &[NodeId]) -> bool {
        let tree = self.tree.tree();
        let time: f64 = calls.iter().map(|at| tree.cum_cost(0, *at) as f64).sum();
        let callees = self.tree.work_called_by(calls).into_iter();
        let most = callees.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        most.is_some_and(|(callee, (most, _))| {
            callee.1 != KERNEL && time > DRIVER * self.working_ns && most >= DOMINATES * time
        })
    }

    /// Returns the part of the working time that waits and is in no sequence.
    pub(super) fn waiting_elsewhere(&self) -> f64 {
        let left = (0..self.owners.len()).filter(|node| self.owners[*node].is_none());
        let waiting = left.map(|node| self.waiting_at(NodeId(node as u32)));
        waiting.sum::<i64>() as f64 / self.working_ns
    }
}

/// Returns the sequence with most of some time, and its part; `None` if no sequence has any.
fn largest_of(times: &BTreeMap<Option<usize>, f64>) -> Option<(usize, f64)> {
    let owners = times.iter().filter_map(|(at, time)| Some(((*at)?, *time)));
    let most = owners.max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, most)| *most > 0.0)
}

/// Returns the shared libraries that have only exported symbols: many of their sampled functions
/// have no name.
fn stripped_libraries(tree: &CallTree) -> BTreeSet<&str> {
    let mut functions: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for method in tree.methods() {
        if is_shared_library(&method.module) {
            let (all, nameless) = functions.entry(&method.module).or_default();
            *all += 1.0;
            *nameless += f64::from(u8::from(is_nameless(&method.name)));
        }
    }
    let stripped = functions
        .into_iter()
        .filter(|(_, (all, nameless))| *nameless >= STRIPPED * all);
    stripped.map(|(module, _)| module).collect()
}
