//! Call-tree profiles, one or several (§2.2).
//!
//! All kinds of profile that the search knows are one: trees with weights. Every number is computed
//! in each tree by the definitions for a single one, and the sum is weighted:
//!
//! - **one profile**: weight 1;
//! - **a comparison** of A with B: weight 1 for A and −w for B, where w makes them comparable
//!   ([`Normalisation`]);
//! - **several runs** of A, or of both: the mean over the runs of A less the mean over those of B.
//!   The runs say how far the difference can be trusted
//!   ([`interval_of`](super::interface::Profile::interval_of): Student's interval for one mean,
//!   Welch's for a difference; the assumption is that runs are independent and their means roughly
//!   normal).
//!
//! A sequence is compared by its methods' names and modules, not by its place in the tree. So a
//! method that was inlined, renamed or moved to another caller in one of the two shows as a loss in
//! one place and a gain in another.

mod primitives;

use super::interface::Step;
use super::paths::Paths;
use super::spans::{Measured, Spans};
use super::tree::IndexedTree;
use super::zoom::End;
use profile::{CallTree, Method, ValueType};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::sync::Arc;

/// One execution's profile.
#[derive(Debug)]
pub struct ProfiledRun {
    /// Its name.
    pub name: String,
    /// The profile.
    pub tree: CallTree,
    /// Value type that is the cost.
    pub value: usize,
    /// The amount of work done, in any unit (requests, bytes, iterations), for
    /// [`Normalisation::Work`].
    pub work: Option<f64>,
}

/// Normalisation that makes profiles of different executions comparable. The first profile is the
/// reference; the costs of every other one are multiplied by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// Costs as measured: all factors are 1.
    None,
    /// Normalisation to equal totals. The difference of the totals is then 0 by definition, and
    /// only shifts of shares are left.
    Total,
    /// Normalisation to equal work: compares the cost of one unit of work.
    Work,
}

/// Reason that profiles cannot be searched.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ForestError {
    /// There is no first profile.
    #[error("there is no profile")]
    NoProfile,
    /// The requested value type is missing.
    #[error("{0}: no value type number {1}")]
    NoSuchValue(String, usize),
    /// The values mean different things.
    #[error("{0} measures {1}, {2} measures {3}: they cannot be compared")]
    Units(String, String, String, String),
    /// The profile has nodes but no cost, or no nodes.
    #[error("{0}: the profile is empty: the sum of {1} is 0")]
    Empty(String, String),
    /// A total that cannot serve as a reference.
    #[error("{0}: the sum of its costs is {1}, so that it cannot be normalised by its total")]
    BadTotal(String, i64),
    /// Work is missing or not positive.
    #[error("{0}: to compare by work, a positive amount of work must be given for each profile")]
    BadWork(String),
}

/// The kind of the [`whole`](super::interface::Profile::whole) of a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The total cost of the profile, or the mean of its runs.
    Total,
    /// The difference of the totals.
    Difference,
    /// The total of the first side, because the difference of the totals is nearly 0.
    FirstTotal,
}

/// Call trees with weights.
#[derive(Debug)]
pub struct Forest {
    members: Vec<Member>,
    methods: Vec<Method>,
    /// Names of the methods that share theirs with one of another module.
    ambiguous: FxHashMap<u32, String>,
    initial: Vec<CallSequence>,
    value_type: ValueType,
    whole: (Whole, f64),
    signed: bool,
}

#[derive(Debug)]
struct Member {
    name: String,
    index: IndexedTree,
    factor: f64,
    /// The factor divided by the number of runs of its side; negative on the second side.
    weight: f64,
    first_side: bool,
    /// The forest's number of each method of the tree, and the reverse.
    global: Vec<u32>,
    local: Vec<u32>,
}

/// The summary of a call sequence: where it lies in each tree (the paper's `a_roots` and
/// `b_roots`), and its metrics there.
#[derive(Clone, Debug)]
pub struct CallSequence {
    path: Arc<[Step]>,
    parts: Arc<[Paths]>,
}

/// The nodes of a list of summaries, by tree.
#[derive(Clone, Debug, Default)]
pub struct CallCover {
    along: Vec<Spans>,
    cover: Vec<Spans>,
    /// Both sets with their costs, by tree; computed on demand.
    measured: OnceCell<Vec<[Measured; 2]>>,
    /// Costs of each tree without those of the cover; computed on demand.
    left: OnceCell<Vec<Left>>,
}

/// The costs of a tree without those of a cover.
#[derive(Clone, Debug)]
struct Left {
    prefix: Vec<i64>,
    /// Base and cum of each method.
    methods: Vec<(i64, i64)>,
}

/// Description of one of the profiles, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberInfo {
    /// [`ProfiledRun::name`]
    pub name: String,
    /// True if it is of the first side.
    pub first_side: bool,
    /// Sum of its costs.
    pub total: i64,
    /// Factor that multiplies its costs.
    pub factor: f64,
    /// The number of its nodes, without the root.
    pub nodes: usize,
}

/// Marks a method that is absent from a tree.
const ABSENT: u32 = u32::MAX;

impl Forest {
    /// Makes the profile of one execution.
    ///
    /// # Errors
    /// If it is empty or has no such value.
    pub fn single(run: ProfiledRun) -> Result<Self, ForestError> {
        Self::new(vec![run], Vec::new(), Normalisation::None)
    }

    /// Makes one profile whose percentages refer to a cost other than its total.
    pub(crate) fn with_whole(
        run: ProfiledRun,
        whole: f64,
        kind: Whole,
    ) -> Result<Self, ForestError> {
        let mut forest = Self::build(vec![run], 1, Normalisation::None)?;
        forest.whole = (kind, whole);
        Ok(forest)
    }

    /// Makes the mean of the runs `a`, less that of the runs `b` if there are any.
    ///
    /// # Errors
    /// If they measure different things, or their measured total is 0.
    pub fn new(
        a: Vec<ProfiledRun>,
        b: Vec<ProfiledRun>,
        by: Normalisation,
    ) -> Result<Self, ForestError> {
        let first = a.len();
        let mut forest = Self::build(a.into_iter().chain(b).collect(), first, by)?;
        forest.whole = whole_cost(&forest.members, &forest.value_type)?;
        Ok(forest)
    }

    /// Builds a forest; the first runs are the first side.
    fn build(
        runs: Vec<ProfiledRun>,
        first_side: usize,
        by: Normalisation,
    ) -> Result<Self, ForestError> {
        let sides = (first_side, runs.len() - first_side);
        let first = runs.first().ok_or(ForestError::NoProfile)?;
        let value_type = value_type(first)?;
        for run in &runs {
            let other = self::value_type(run)?;
            if other != value_type {
                let text = |v: &ValueType| format!("{} in {}", v.name, v.unit);
                return Err(ForestError::Units(
                    first.name.clone(),
                    text(&value_type),
                    run.name.clone(),
                    text(&other),
                ));
            }
        }
        let factors = run_factors(&runs, by)?;
        let mut methods = MethodTable::default();
        let mut members = Vec::with_capacity(runs.len());
        for (at, (run, factor)) in runs.into_iter().zip(factors).enumerate() {
            let first_side = at < sides.0;
            let share = if first_side {
                sides.0 as f64
            } else {
                -(sides.1 as f64)
            };
            let global = run
                .tree
                .methods()
                .iter()
                .map(|m| methods.method_number(m))
                .collect();
            members.push(Member {
                name: run.name,
                index: IndexedTree::new(run.tree, run.value),
                factor,
                weight: factor / share,
                first_side,
                global,
                local: Vec::new(),
            });
        }
        let methods = methods.methods;
        for member in &mut members {
            member.local = vec![ABSENT; methods.len()];
            for (local, global) in member.global.iter().enumerate() {
                member.local[*global as usize] = local as u32;
            }
        }
        let signed = sides.1 > 0 || members.iter().any(|m| m.index.has_negative_cost());
        let mut forest = Self {
            whole: (Whole::Total, 1.0),
            ambiguous: ambiguous_names(&methods),
            initial: Vec::new(),
            members,
            methods,
            value_type,
            signed,
        };
        forest.initial = forest.single_steps();
        Ok(forest)
    }

    fn single_steps(&self) -> Vec<CallSequence> {
        let singles = self
            .members
            .iter()
            .map(|member| member.index.single_paths());
        let singles: Vec<Vec<Paths>> = singles.collect();
        let single = |method: u32| {
            let part = |(member, singles): (&Member, &Vec<Paths>)| {
                let local = member.local[method as usize];
                singles.get(local as usize).cloned().unwrap_or_default()
            };
            CallSequence {
                path: [Step(method)].into(),
                parts: self.members.iter().zip(&singles).map(part).collect(),
            }
        };
        let occurs = |s: &CallSequence| s.parts.iter().any(|part| !part.is_empty());
        let all = (0..self.methods.len() as u32).map(single);
        all.filter(occurs).collect()
    }

    /// Returns the name and unit of the costs.
    pub fn value_type(&self) -> &ValueType {
        &self.value_type
    }

    /// Returns the profiles, the first side's first.
    pub fn members(&self) -> Vec<MemberInfo> {
        let info = |member: &Member| MemberInfo {
            name: member.name.clone(),
            first_side: member.first_side,
            total: member.index.total(),
            factor: member.factor,
            nodes: member.index.len() - 1,
        };
        self.members.iter().map(info).collect()
    }

    /// Returns whether it is a comparison.
    pub fn is_comparison(&self) -> bool {
        self.members.iter().any(|member| !member.first_side)
    }

    /// Returns whether costs may be negative: in a comparison, or if the profile has negative
    /// costs.
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Returns the kind of the cost that is called 100 %.
    pub fn whole_kind(&self) -> Whole {
        self.whole.0
    }

    /// Returns the total cost; for a comparison, the difference of the totals.
    pub fn total(&self) -> f64 {
        let total = |m: &Member| m.weight * m.index.total() as f64;
        self.members.iter().map(total).sum()
    }

    /// Returns the method of a step.
    pub fn method(&self, step: Step) -> &Method {
        &self.methods[step.0 as usize]
    }

    /// Returns all methods, by the numbers of their steps.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns [`initial_summaries`](super::interface::Profile::initial_summaries) without copying
    /// them.
    pub fn initial(&self) -> &[CallSequence] {
        &self.initial
    }

    /// Returns the metrics of a sequence in each of the profiles, before weighting.
    pub fn by_member(&self, sequence: &CallSequence) -> Vec<(i64, i64)> {
        let cums = sequence.parts.iter().map(|part| part.cum);
        self.tree_bases(sequence).zip(cums).collect()
    }

    /// Returns the number of distinct calling contexts that end in the sequence, in all profiles.
    pub fn context_count(&self, sequence: &CallSequence) -> usize {
        sequence.parts.iter().map(|p| p.finals().len()).sum()
    }

    /// Returns which side of a comparison alone has the sequence, `true` for the first; `None` if
    /// both have it.
    pub fn only_in(&self, sequence: &CallSequence) -> Option<bool> {
        let has = |side: bool| {
            let mut parts = self.members.iter().zip(sequence.parts.iter());
            parts.any(|(member, part)| member.first_side == side && !part.is_empty())
        };
        let sides = (has(true), has(false));
        (self.is_comparison() && sides.0 != sides.1).then_some(sides.0)
    }

    fn tree_bases<'a>(&'a self, sequence: &'a CallSequence) -> impl Iterator<Item = i64> + 'a {
        let parts = self.members.iter().zip(sequence.parts.iter());
        parts.map(|(member, part)| part.base(member.index.view(), sequence.path.len()))
    }

    fn weighted_sum(&self, each: impl Iterator<Item = i64>) -> f64 {
        let values = self.members.iter().zip(each);
        values.map(|(m, value)| m.weight * value as f64).sum()
    }

    /// Returns the step of a tree's method.
    pub(crate) fn step_of(&self, member: usize, method: u32) -> Step {
        Step(self.members[member].global[method as usize])
    }

    /// Returns the extensions of `s`, or only the one by `only`.
    fn extended_by(&self, s: &CallSequence, only: Option<Step>, end: End) -> Vec<CallSequence> {
        let length = s.path.len();
        let mut found: Vec<(u32, Vec<Paths>)> = Vec::new();
        let mut place: FxHashMap<u32, usize> = FxHashMap::default();
        for (at, (member, part)) in self.members.iter().zip(s.parts.iter()).enumerate() {
            let only = only.map(|step| member.local[step.0 as usize]);
            let view = member.index.view();
            let extensions = match end {
                End::Top => view.extended_top(part, length, only),
                End::Bottom => view.extended_bottom(part, length, only),
            };
            for (method, paths) in extensions {
                let method = member.global[method as usize];
                let index = *place.entry(method).or_insert_with(|| {
                    found.push((method, vec![Paths::default(); self.members.len()]));
                    found.len() - 1
                });
                found[index].1[at] = paths;
            }
        }
        let sequence = |(method, parts): (u32, Vec<Paths>)| {
            let (before, after) = match end {
                End::Top => (Some(Step(method)), None),
                End::Bottom => (None, Some(Step(method))),
            };
            let path = before
                .into_iter()
                .chain(s.path.iter().copied())
                .chain(after);
            CallSequence {
                path: path.collect(),
                parts: parts.into(),
            }
        };
        found.into_iter().map(sequence).collect()
    }

    /// Returns the trees with their weights.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = (&IndexedTree, f64)> {
        self.members.iter().map(|m| (&m.index, m.weight))
    }
}

impl CallSequence {
    pub(crate) fn parts(&self) -> &[Paths] {
        &self.parts
    }
}

impl CallCover {
    /// Returns descendants(S) ∪ along(S), by tree.
    pub(crate) fn covered_spans(&self) -> &[Spans] {
        &self.cover
    }
}

#[derive(Default)]
struct MethodTable {
    methods: Vec<Method>,
    numbers: FxHashMap<Method, u32>,
}

impl MethodTable {
    fn method_number(&mut self, method: &Method) -> u32 {
        if let Some(number) = self.numbers.get(method) {
            return *number;
        }
        let number = self.methods.len() as u32;
        self.methods.push(method.clone());
        self.numbers.insert(method.clone(), number);
        number
    }
}

fn value_type(run: &ProfiledRun) -> Result<ValueType, ForestError> {
    let value = run.tree.value_types().get(run.value);
    value
        .cloned()
        .ok_or_else(|| ForestError::NoSuchValue(run.name.clone(), run.value))
}

fn run_factors(runs: &[ProfiledRun], by: Normalisation) -> Result<Vec<f64>, ForestError> {
    let amount = |run: &ProfiledRun| match by {
        Normalisation::None => Ok(1.0),
        Normalisation::Total => match run.tree.total(run.value) {
            total if total > 0 => Ok(total as f64),
            total => Err(ForestError::BadTotal(run.name.clone(), total)),
        },
        Normalisation::Work => match run.work {
            Some(work) if work > 0.0 && work.is_finite() => Ok(work),
            _ => Err(ForestError::BadWork(run.name.clone())),
        },
    };
    let amounts = runs.iter().map(amount).collect::<Result<Vec<_>, _>>()?;
    let first = amounts.first().copied().unwrap_or(1.0);
    Ok(amounts.into_iter().map(|amount| first / amount).collect())
}

/// The least difference, as a share of the totals, that can stand for 100 %.
const NOTABLE_DIFFERENCE: f64 = 0.01;

fn whole_cost(members: &[Member], value: &ValueType) -> Result<(Whole, f64), ForestError> {
    let comparison = members.iter().any(|m| !m.first_side);
    let side = |first: bool| -> f64 {
        let members = members.iter().filter(|m| m.first_side == first);
        members.map(|m| m.weight * m.index.total() as f64).sum()
    };
    let (first, second) = (side(true), side(false));
    let difference = (first + second).abs();
    let larger = first.abs().max(second.abs());
    if larger == 0.0 {
        let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
        return Err(ForestError::Empty(names.join(", "), value.name.clone()));
    }
    Ok(match comparison {
        false => (Whole::Total, larger),
        true if difference >= NOTABLE_DIFFERENCE * larger => (Whole::Difference, difference),
        true if first != 0.0 => (Whole::FirstTotal, first.abs()),
        true => (Whole::Difference, larger),
    })
}

fn ambiguous_names(methods: &[Method]) -> FxHashMap<u32, String> {
    let mut count: FxHashMap<&str, u32> = FxHashMap::default();
    for method in methods {
        *count.entry(&method.name).or_default() += 1;
    }
    let several = methods
        .iter()
        .enumerate()
        .filter(|(_, m)| count[m.name.as_str()] > 1);
    several
        .map(|(at, m)| match m.module.as_str() {
            "" => (at as u32, m.name.clone()),
            module => (at as u32, format!("{} ({module})", m.name)),
        })
        .collect()
}
