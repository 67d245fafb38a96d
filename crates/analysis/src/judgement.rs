//! The findings of all methods, put together: what a program's user should do first (ours).
//!
//! **One search over all the time.** Running and waiting stand in one call tree, so that the search for
//! bottlenecks ([`crate::bottleneck::auto`]) gives call sequences that share no cost: no time is counted twice.
//!
//! **What a sequence is worth.** Where experiments say what the program gains if code of the sequence gets faster,
//! that, with its interval. Else the sequence's part of the working time, which is the most that removing it can
//! gain; its interval is that of the mean over several runs, or, of one run, that of the count of its samples.
//! Of a program whose threads take turns it is what the run gets shorter by.
//!
//! **Who speaks of a sequence.** A line or function belongs to the sequence in whose time most of its own lies. What
//! interference was seen in functions of no sequence is a finding of its own.
//!
//! **Waiting for a CPU** is no part of the working time: code that runs less waits less, so that it shares that time with all places. It is a
//! finding beside them where other programs, a limit or too few allowed CPUs are the reason. From [`SAID_FIRST`] on it comes first,
//! because then nothing else was measured undisturbed.
//!
//! **Rank** is by the end of the interval that is nearer to 0. What is worth less than [`LEAST`] is not listed.

use crate::bottleneck::auto::{self, FoundSequences};
use crate::bottleneck::forest::{Forest, ForestError, Run};
use crate::bottleneck::interface::Profile;
use profile::{
    AmountBase, AmountUnit, CallTree, Certainty, Claim, CpuTaker, Finding, FindingAmount,
    FindingDoubt, FindingEvidence, FindingPlace, NodeId, PlaceInCode, TimeKind,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The part of the working time, or of the program's speed, below which nothing is worth a sentence.
pub const LEAST: f64 = 0.02;
/// Sequences that are looked for.
const SOUGHT: usize = 8;
/// The part of the time that they should cover: more would buy coverage with what is trivial.
const COVERAGE: f64 = 0.75;
/// The part of the working time from which on waiting for a CPU is a cause.
const STARVED: f64 = 0.1;
/// The part from which on it is said before everything else.
pub const SAID_FIRST: f64 = 0.25;
/// Runs from which on the interval is that of how they differ: two leave it as wide as the whole.
const FEWEST_RUNS: usize = 3;
/// Other programs that are named.
const NAMED_TAKERS: usize = 3;
/// A function of the C library on the way to the kernel is called by one function, if that has so much of the time.
const ONE_CALLER: f64 = 0.8;
/// Functions on the way to the kernel, at most: those of a file's stream are the most.
const LONGEST_WAY_TO_KERNEL: usize = 12;

/// The measurements of all methods.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// Running and costly waits, in nanoseconds: the sum, and one value type for each of [`TimeKind::ALL`].
    pub tree: &'a CallTree,
    /// The same of further runs of the program, to see how runs differ.
    pub more_runs: &'a [CallTree],
    /// Time for which a sample of running threads stands, in nanoseconds.
    pub each_sample: f64,
    /// Ready to run, but without a CPU.
    pub cpu_waits: &'a CpuWaits,
    /// How many CPUs the program may use, and how many there are, if it may not use all.
    pub confined: Option<(u32, u32)>,
    /// Which instructions of the hottest procedures stall.
    pub stalls: &'a [Finding],
    /// Predictions of experiments.
    pub causal: &'a [Finding],
    /// Losses of threads to each other.
    pub interference: &'a [Finding],
    /// The command that shows more of what was sampled.
    pub next: &'a [String],
}

/// Time in which threads were ready to run, but without a CPU, by who ran there last before they did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuWaits {
    /// Threads of the program itself, in nanoseconds.
    pub own_ns: u64,
    /// Nobody, in nanoseconds.
    pub nobody_ns: u64,
    /// Other programs by name, in nanoseconds.
    pub others: BTreeMap<String, u64>,
}

impl CpuWaits {
    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.own_ns + self.nobody_ns + self.others.values().sum::<u64>()
    }

    /// Reduces what waited for nobody until the sum is no more than the scheduler accounted.
    pub fn limit_to(&mut self, accounted: u64) {
        let too_much = self.total().saturating_sub(accounted);
        self.nobody_ns = self.nobody_ns.saturating_sub(too_much);
    }

    /// Returns the part of the waits that is a loss, in nanoseconds, by who had the CPU, the longest first. What threads wait for each other is none
    /// where they use all CPUs.
    fn cpu_losses(&self, confined: Option<(u32, u32)>) -> Vec<(CpuTaker, u64)> {
        let others = self.others.iter();
        let other =
            |(name, ns): (&String, &u64)| (CpuTaker::OtherProgram { name: name.clone() }, *ns);
        let mut losses: Vec<_> = others.map(other).collect();
        losses.push((CpuTaker::Nobody, self.nobody_ns));
        if let Some((allowed, online)) = confined {
            losses.push((CpuTaker::OwnThreads { allowed, online }, self.own_ns));
        }
        losses.retain(|(_, ns)| *ns > 0);
        losses.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        losses
    }
}

/// The vital few.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// The findings, the one that gains most at its conservative end first; before them waiting for a CPU, from [`SAID_FIRST`] on.
    pub findings: Vec<Finding>,
    /// The part of the working time that the sequences among the findings have together.
    pub together: f64,
    /// The working time, in nanoseconds.
    pub working_ns: f64,
    /// The part of the rest that waits.
    pub rest_waiting: f64,
}

/// Puts the findings together.
///
/// # Errors
/// If nothing was measured.
pub fn judge_measured(measured: &Measured<'_>) -> Result<Judgement, ForestError> {
    let run = Run {
        name: "the program".to_owned(),
        tree: measured.tree.clone(),
        value: 0,
        work: None,
    };
    let forest = Forest::single(run)?;
    let options = auto::Options {
        count: SOUGHT,
        coverage: COVERAGE,
        ..auto::Options::default()
    };
    // One tree cannot fail to be united.
    let found = auto::search_causes(&forest, &options).unwrap_or_default();
    let working_ns = (measured.tree.total(0) as f64).max(1.0);
    let mut places = Places::new(measured.tree, working_ns);
    places.take_sequences(&forest, &found);
    places.compare_runs(measured.more_runs);
    Ok(places.choose_and_order(measured))
}

/// A function with its module.
type MethodName = (String, String);

/// A call sequence with the time that no other one has.
struct TimedPlace {
    path: Vec<MethodName>,
    /// By kind, in nanoseconds.
    times: [f64; TimeKind::ALL.len()],
    /// The part of it that each function has by itself.
    functions: FxHashMap<String, f64>,
    /// The part of it that each function has with its callees.
    callers: FxHashMap<String, f64>,
    /// Its part of the working time in each run, if there are several.
    parts: Vec<f64>,
}

struct Places<'a> {
    tree: &'a CallTree,
    working_ns: f64,
    places: Vec<TimedPlace>,
    covered: Vec<bool>,
    /// The part that each function has by itself, everywhere.
    functions: FxHashMap<String, f64>,
    /// The part that each function has with its callees.
    callers: FxHashMap<String, f64>,
}

impl<'a> Places<'a> {
    fn new(tree: &'a CallTree, working_ns: f64) -> Self {
        let mut functions = FxHashMap::default();
        let mut callers = FxHashMap::default();
        for node in (1..tree.len()).map(|node| NodeId(node as u32)) {
            add_to_asker(tree, node, &mut functions);
            add_to_callers(tree, node, &mut callers);
        }
        Self {
            tree,
            working_ns,
            places: Vec::new(),
            covered: vec![false; tree.len()],
            functions,
            callers,
        }
    }

    fn take_sequences(&mut self, forest: &Forest, found: &FoundSequences) {
        // The most specific ones first, as the search counts what two share.
        let mut order: Vec<_> = found.bottlenecks.iter().collect();
        order.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        for bottleneck in order {
            let steps = forest.path_of(&bottleneck.sequence).iter();
            let methods = steps.map(|step| forest.method(*step));
            let path = methods.map(|m| (m.name.clone(), m.module.clone()));
            for path in self.with_askers(path.collect()) {
                self.take_sequence(path);
            }
        }
    }

    /// Makes the sequences of one that begins in the kernel begin with who asked: its caller, and on through the C library, which only
    /// hands the call on. Of several callers each is a sequence of its own, if it has enough time.
    fn with_askers(&self, path: Vec<MethodName>) -> Vec<Vec<MethodName>> {
        let mut done = Vec::new();
        let mut open = vec![path];
        while let Some(path) = open.pop() {
            let in_kernel = path[0].1 == "[kernel]";
            if path.len() > LONGEST_WAY_TO_KERNEL || !in_kernel && !is_way_to_kernel(&path) {
                done.push(path);
                continue;
            }
            let callers = self.callers_of(&path);
            let all: f64 = callers.values().sum();
            let most = callers.values().copied().fold(0.0, f64::max);
            // One below the root has no caller.
            let enough = match in_kernel {
                true => LEAST * self.working_ns,
                false => ONE_CALLER * all,
            };
            let mut callers: Vec<_> = callers.into_iter().collect();
            callers.retain(|(caller, time)| caller.is_some() && *time >= enough);
            if most <= 0.0 || callers.is_empty() {
                done.push(path);
                continue;
            }
            callers.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            callers.truncate(SOUGHT);
            open.extend(callers.into_iter().filter_map(|(caller, _)| {
                let caller = std::iter::once(caller?);
                Some(caller.chain(path.iter().cloned()).collect())
            }));
        }
        done
    }

    /// The time of the calls of a sequence by who makes them; `None` is the root.
    fn callers_of(&self, path: &[MethodName]) -> FxHashMap<Option<MethodName>, f64> {
        let mut callers = FxHashMap::default();
        for node in (1..self.tree.len()).map(|node| NodeId(node as u32)) {
            if !self.ends_at(path, node) {
                continue;
            }
            let mut first = node;
            for _ in 1..path.len() {
                first = self.tree.parent(first).unwrap_or(first);
            }
            let caller = self.tree.parent(first).and_then(|caller| {
                let name = name_of(self.tree, caller)?;
                let module = module_of(self.tree, caller)?;
                Some((name.to_owned(), module.to_owned()))
            });
            let below = node.0..self.tree.end(node).0;
            let time: i64 = below.map(|node| self.tree.cost(0, NodeId(node))).sum();
            *callers.entry(caller).or_insert(0.0) += time as f64;
        }
        callers
    }

    /// Looks for the same sequences in further runs, in the same order, so that they share no time there either.
    fn compare_runs(&mut self, more: &[CallTree]) {
        let paths: Vec<_> = self.places.iter().map(|place| place.path.clone()).collect();
        let part = |places: &Places<'_>, at: usize| {
            places.places[at].times.iter().sum::<f64>() / places.working_ns
        };
        let mut parts: Vec<Vec<f64>> = (0..paths.len()).map(|at| vec![part(self, at)]).collect();
        for tree in more {
            let mut other = Places::new(tree, (tree.total(0) as f64).max(1.0));
            paths
                .iter()
                .for_each(|path| other.take_sequence(path.clone()));
            for (at, parts) in parts.iter_mut().enumerate() {
                parts.push(part(&other, at));
            }
        }
        for (place, parts) in self.places.iter_mut().zip(parts) {
            place.parts = parts;
        }
    }

    /// Adds the time below all calls of a sequence that no other one has taken.
    fn take_sequence(&mut self, path: Vec<MethodName>) {
        let mut place = TimedPlace {
            path,
            times: [0.0; TimeKind::ALL.len()],
            functions: FxHashMap::default(),
            callers: FxHashMap::default(),
            parts: Vec::new(),
        };
        let mut node = 1;
        while node < self.tree.len() {
            let here = NodeId(node as u32);
            if !self.ends_at(&place.path, here) {
                node += 1;
                continue;
            }
            let end = self.tree.end(here).0 as usize;
            for below in node..end {
                self.take_node(&mut place, below);
            }
            node = end;
        }
        self.places.push(place);
    }

    fn take_node(&mut self, place: &mut TimedPlace, node: usize) {
        if std::mem::replace(&mut self.covered[node], true) {
            return;
        }
        let node = NodeId(node as u32);
        for (at, time) in place.times.iter_mut().enumerate() {
            *time += self.tree.cost(1 + at, node) as f64;
        }
        add_to_asker(self.tree, node, &mut place.functions);
        add_to_callers(self.tree, node, &mut place.callers);
    }

    fn ends_at(&self, path: &[MethodName], node: NodeId) -> bool {
        let mut at = Some(node);
        path.iter().rev().all(|(name, module)| {
            let Some(node) = at else { return false };
            at = self.tree.parent(node);
            name_of(self.tree, node) == Some(name) && module_of(self.tree, node) == Some(module)
        })
    }

    fn choose_and_order(self, measured: &Measured<'a>) -> Judgement {
        let mut findings = Vec::new();
        let mut together = 0.0;
        let with_place = |findings: &'a [Finding]| -> Vec<(Option<usize>, &'a Finding)> {
            let findings = findings.iter();
            findings
                .map(|found| (self.place_of(found), found))
                .collect()
        };
        let causal = with_place(measured.causal);
        let interference = with_place(measured.interference);
        let stalls = with_place(measured.stalls);
        for (number, place) in self.places.iter().enumerate() {
            let about = |(at, found): &(Option<usize>, &'a Finding)| {
                (*at == Some(number)).then_some(*found)
            };
            let predicted = causal.iter().filter_map(about);
            let seen = interference.iter().filter_map(about);
            let mut finding = self.judge_place(place, measured, predicted, seen);
            if finding.spent_on() == Some(TimeKind::Computing)
                && let Some(stalled) = stalls.iter().find_map(about)
            {
                finding.evidence.extend(stalled.evidence.iter().cloned());
            }
            if finding.amount.conservative() >= LEAST {
                together += place.times.iter().sum::<f64>() / self.working_ns;
                findings.push(finding);
            }
        }
        let elsewhere = interference
            .iter()
            .filter(|(at, finding)| at.is_none() && finding.amount.conservative() >= LEAST);
        findings.extend(elsewhere.map(|(_, finding)| (*finding).clone()));
        findings.extend(self.no_cpu(measured));
        let disturbs = |finding: &Finding| {
            finding.spent_on() == Some(TimeKind::NoCpu) && finding.amount.value >= SAID_FIRST
        };
        let worth = |finding: &Finding| finding.amount.conservative();
        let order = |a: &Finding, b: &Finding| worth(b).total_cmp(&worth(a));
        findings.sort_by(|a, b| disturbs(b).cmp(&disturbs(a)).then(order(a, b)));
        Judgement {
            findings,
            together,
            working_ns: self.working_ns,
            rest_waiting: self.waiting_elsewhere(),
        }
    }

    /// The part of the working time that waits and is in no sequence.
    fn waiting_elsewhere(&self) -> f64 {
        let left = (0..self.tree.len()).filter(|node| !self.covered[*node]);
        let waiting = left.map(|node| {
            let kinds = TimeKind::ALL.iter().enumerate();
            let waits = kinds.filter(|(_, kind)| !is_running(**kind));
            let node = NodeId(node as u32);
            waits
                .map(|(at, _)| self.tree.cost(1 + at, node))
                .sum::<i64>()
        });
        waiting.sum::<i64>() as f64 / self.working_ns
    }

    /// The sequence that most of what a finding speaks of lies in: of a line its own time, of what threads lose in a
    /// function also what it calls.
    fn place_of(&self, finding: &Finding) -> Option<usize> {
        let with_callees = finding.claim == Claim::LosesTime;
        let times =
            |own: &'_ FxHashMap<String, f64>, all: &'_ FxHashMap<String, f64>, name: &str| {
                let map = if with_callees { all } else { own };
                map.get(name).copied().unwrap_or(0.0)
            };
        let procedure = match &finding.place.what {
            PlaceInCode::Line { procedure, .. }
            | PlaceInCode::Procedure { name: procedure }
            | PlaceInCode::Instruction { procedure, .. }
            | PlaceInCode::Lock { procedure } => procedure,
            _ => return None,
        };
        let procedure = plain_name(procedure);
        let all = times(&self.functions, &self.callers, procedure);
        let own = |place: &TimedPlace| times(&place.functions, &place.callers, procedure);
        let places = self.places.iter().enumerate();
        let (at, most) = places
            .map(|(at, place)| (at, own(place)))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most > 0.0 && most >= all / 2.0).then_some(at)
    }

    /// A sequence, with what experiments predict of code in it and what threads were seen to lose there.
    fn judge_place<'f>(
        &self,
        place: &TimedPlace,
        measured: &Measured<'_>,
        predicted: impl Iterator<Item = &'f Finding>,
        seen: impl Iterator<Item = &'f Finding>,
    ) -> Finding {
        let worth = |finding: &&Finding| finding.amount.conservative().abs();
        let predicted = predicted.max_by(|a, b| worth(a).total_cmp(&worth(b)));
        let mut finding = self.time_of_place(place, measured);
        if let Some(predicted) = predicted {
            finding.evidence.extend(predicted.evidence.iter().cloned());
            match predicted.claim {
                Claim::SpeedupUnclear => finding.doubts.push(FindingDoubt::IntervalHoldsZero),
                // A prediction is of code that runs; what waits is not its.
                _ if finding.spent_on().is_some_and(is_running) => {
                    finding.claim = predicted.claim;
                    finding.place = predicted.place.clone();
                    finding.amount = predicted.amount.clone();
                    finding.doubts.clone_from(&predicted.doubts);
                    finding.next.clone_from(&predicted.next);
                }
                _ => {}
            }
        }
        for seen in seen {
            finding.evidence.extend(seen.evidence.iter().cloned());
            finding.doubts.extend(seen.doubts.iter().cloned());
        }
        finding
    }

    /// A sequence as its part of the working time.
    fn time_of_place(&self, place: &TimedPlace, measured: &Measured<'_>) -> Finding {
        let time: f64 = place.times.iter().sum();
        let kinds = TimeKind::ALL.iter().zip(place.times);
        let running: f64 = kinds
            .clone()
            .filter(|(kind, _)| is_running(**kind))
            .map(|(_, time)| time)
            .sum();
        let samples = running / measured.each_sample.max(1.0);
        let (low, high) = crate::statistics::interval_of_count(samples);
        let waiting = time - running;
        let part = |time: f64| (time / self.working_ns).clamp(0.0, 1.0);
        let mut spent: Vec<(TimeKind, f64)> = kinds.map(|(kind, time)| (*kind, time)).collect();
        spent.sort_by(|a, b| b.1.total_cmp(&a.1));
        let evidence = spent.into_iter().filter(|(_, at)| *at >= 0.05 * time);
        let one_run = FindingAmount {
            value: part(time),
            interval: Some([
                part(low * measured.each_sample + waiting),
                part(high * measured.each_sample + waiting),
            ]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::WorkingTime,
            certainty: Certainty::UpperBound,
        };
        let several = match place.parts.len() {
            FEWEST_RUNS.. => crate::statistics::interval_of_runs(&place.parts, &[]),
            _ => None,
        };
        let path = without_wrappers(&place.path);
        let asker = path.iter().rev().find(|(_, module)| module != "[kernel]");
        let image = asker.map(|(_, module)| module.clone());
        Finding {
            claim: Claim::TakesTime,
            place: FindingPlace {
                image,
                what: PlaceInCode::CallPath {
                    path: path.iter().map(|(name, _)| name.clone()).collect(),
                },
            },
            amount: match several {
                Some(runs) => FindingAmount {
                    value: runs.estimate,
                    interval: Some([runs.low.max(0.0), runs.high.min(1.0)]),
                    ..one_run
                },
                None => one_run,
            },
            evidence: evidence
                .map(|(on, at)| FindingEvidence::TimeSpent {
                    on,
                    part: at / time,
                })
                .collect(),
            doubts: match several {
                Some(_) => Vec::new(),
                None => vec![FindingDoubt::OneRun],
            },
            next: measured.next.to_vec(),
        }
    }

    /// Waiting for a CPU, if that is a loss and much, as a part of the working time with it.
    fn no_cpu(&self, measured: &Measured<'_>) -> Option<Finding> {
        let losses = measured.cpu_waits.cpu_losses(measured.confined);
        let lost = losses.iter().map(|(_, ns)| *ns as f64).sum::<f64>();
        let part = lost / (self.working_ns + lost);
        let takers = losses.into_iter().take(NAMED_TAKERS);
        let takers = takers.map(|(by, ns)| FindingEvidence::CpuTaken {
            by,
            part: ns as f64 / lost,
        });
        let spent = FindingEvidence::TimeSpent {
            on: TimeKind::NoCpu,
            part: 1.0,
        };
        (part >= STARVED).then(|| Finding {
            claim: Claim::TakesTime,
            place: FindingPlace::default(),
            amount: FindingAmount {
                value: part,
                interval: Some([part, part]),
                unit: AmountUnit::Fraction,
                relative_to: AmountBase::WorkingTime,
                certainty: Certainty::UpperBound,
            },
            evidence: std::iter::once(spent).chain(takers).collect(),
            doubts: vec![FindingDoubt::OneRun],
            next: command_for_whole_machine(),
        })
    }
}

/// The command that shows who has the CPUs.
fn command_for_whole_machine() -> Vec<String> {
    let words = ["vitalfew", "record", "-a", "--for", "10s"];
    words.map(str::to_owned).to_vec()
}

/// A path to the kernel, without the C library's functions that only hand the call on.
fn without_wrappers(path: &[MethodName]) -> Vec<MethodName> {
    let mut path = path.to_vec();
    let is_kernel = |(_, module): &MethodName| module == "[kernel]";
    let mut at = path.iter().position(is_kernel).unwrap_or(0);
    while at > 1 && is_c_library(&path[at - 1].1) {
        at -= 1;
        path.remove(at);
    }
    path
}

/// Returns whether a path leads through the C library alone into the kernel.
fn is_way_to_kernel(path: &[MethodName]) -> bool {
    let (last, before) = path.split_last().expect("paths are not empty");
    last.1 == "[kernel]" && before.iter().all(|(_, module)| is_c_library(module))
}

fn is_c_library(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    let libraries = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"];
    libraries.iter().any(|library| file.starts_with(library))
}

fn is_running(kind: TimeKind) -> bool {
    matches!(
        kind,
        TimeKind::Computing | TimeKind::SystemCalls | TimeKind::PageFaults
    )
}

/// Adds the node's own time to its function; what the kernel does is its caller's, too.
fn add_to_asker(tree: &CallTree, node: NodeId, times: &mut FxHashMap<String, f64>) {
    let own = tree.cost(0, node) as f64;
    let mut at = Some(node).filter(|_| own > 0.0);
    while let Some(node) = at {
        if let Some(name) = name_of(tree, node) {
            *times.entry(plain_name(name).to_owned()).or_insert(0.0) += own;
        }
        let is_kernel = module_of(tree, node) == Some("[kernel]");
        at = tree.parent(node).filter(|_| is_kernel);
    }
}

/// Adds the node's own time to all functions on its path, once to each.
fn add_to_callers(tree: &CallTree, node: NodeId, times: &mut FxHashMap<String, f64>) {
    let own = tree.cost(0, node) as f64;
    let mut seen: Vec<&str> = Vec::new();
    let mut at = Some(node).filter(|_| own > 0.0);
    while let Some(node) = at {
        if let Some(name) = name_of(tree, node).map(plain_name)
            && !seen.contains(&name)
        {
            seen.push(name);
            *times.entry(name.to_owned()).or_insert(0.0) += own;
        }
        at = tree.parent(node);
    }
}

/// Strips what C libraries put in front of the same function: `___pthread_mutex_lock`, `__GI_fsync`, `__libc_write`.
pub fn plain_name(name: &str) -> &str {
    let plain = name.trim_start_matches('_');
    let plain = plain.strip_prefix("GI_").unwrap_or(plain);
    let plain = plain.trim_start_matches('_');
    match name.starts_with('_') {
        true => plain.strip_prefix("libc_").unwrap_or(plain),
        false => plain,
    }
}

fn name_of(tree: &CallTree, node: NodeId) -> Option<&str> {
    let method = tree.methods().get(tree.method(node)?.0 as usize)?;
    Some(&method.name)
}

fn module_of(tree: &CallTree, node: NodeId) -> Option<&str> {
    let method = tree.methods().get(tree.method(node)?.0 as usize)?;
    Some(&method.module)
}

#[cfg(test)]
mod tests;
