//! The likelihood of a flow, and its maximisation.

use super::Ends;
use super::block_evidence::{Evidence, Options};
use super::network::Network;
use super::sparse::Pattern;
use machine::Equivalence;

/// Initial standard deviations, for a class, of the logarithm of its cycles about their
/// expectation, of its visits along stretches (which begin at random times, and so more often in
/// slow code), and of its executions as counted by other tools.
const SPREAD: [f64; KINDS] = [1.0, 0.3, 1.0];

/// Stages of belief in counts of source lines: the standard deviation, and whether counts that are
/// far off are ignored. Most counts are exact, and some are wrong by any factor: the fit begins
/// with all of them, and ends with those that agree.
const COUNT_STAGES: [(f64, bool); 5] = [
    (1.0, false),
    (0.3, false),
    (0.1, false),
    (0.1, true),
    (0.02, true),
];

/// Kinds of levels: cycles, visits, counted executions.
const KINDS: usize = 3;

/// The kind of counted executions.
const COUNTED: usize = 2;

/// Number of samples, visits or executions of a class that carry as much information as one
/// independent one: a stretch goes round the same loop again and again.
const REPEATS: [f64; KINDS] = [1.0, 100.0, 1.0];

/// Number of standard deviations beyond which an observation of a class weighs less and less.
const ROBUST: f64 = 3.0;

/// Pseudo-observations of each edge out of a branch, so that none is impossible.
const PRIOR: f64 = 0.15;

/// Pseudo-observations of edges from the outside into the middle, which are mostly landing pads.
const RARE: f64 = 0.05;

/// Weight of the square of the logarithm by which a ceiling is exceeded.
const CEILING: f64 = 100.0;

/// Weight of branches in the first fit, which hardly uses them.
const FAINT: f64 = 0.01;

/// Branches per sample beyond which more do not reduce the bias: calls and loops repeat themselves.
const DEEPEST: f64 = 10.0;

/// Cost by which one flow must exceed another to be e times less probable. It is above 1 because
/// evidence is not as independent as the likelihood assumes.
const TEMPER: f64 = 4.0;

/// Keeps the system definite where there is no evidence.
const DAMPING: f64 = 1e-3;

const STEPS: usize = 60;

/// A number of samples, visits or counted executions of a class.
struct Level {
    variable: usize,
    kind: usize,
    observed: f64,
    /// Expected number for each execution, up to the factor of its kind.
    cost: f64,
    /// Standard deviation of the logarithm of that number.
    spread: f64,
    /// True if the level is ignored when it is far off.
    redescends: bool,
    /// True for a count of a source line.
    is_of_line: bool,
}

/// A block with several edges out, and their observations.
struct Branch {
    block: usize,
    edges: Vec<(usize, f64)>,
    total: f64,
}

impl Branch {
    /// Returns the same observations with their weight reduced to `FAINT`.
    fn faint(&self) -> Self {
        let faint = |(edge, seen): &(usize, f64)| (*edge, FAINT * seen);
        Self {
            block: self.block,
            edges: self.edges.iter().map(faint).collect(),
            total: FAINT * self.total,
        }
    }
}

pub(super) struct Model {
    network: Network,
    levels: Vec<Level>,
    branches: Vec<Branch>,
    rare: Vec<usize>,
    ceilings: Vec<f64>,
    /// Instructions of each variable, as shares of all instructions.
    shares: Vec<f64>,
    /// The logarithm of the factor of each kind of level.
    factors: [f64; KINDS],
    /// The frequency of each variable.
    pub flow: Vec<f64>,
    pattern: Pattern,
}

impl Model {
    /// Makes a model of `total` instructions, or of about `total` if the number is `free`. `None`
    /// if no instruction can be executed.
    pub fn new(
        edges: &[Ends],
        classes: &Equivalence,
        evidence: &Evidence,
        options: &Options,
        total: f64,
        free: bool,
    ) -> Option<Self> {
        let network = Network::new(edges, classes);
        let mut instructions = vec![0.0; network.variables];
        let mut ceilings = vec![f64::INFINITY; network.variables];
        let mut weights = vec![0.0; network.variables];
        for (block, class) in evidence.blocks.iter().zip(&classes.blocks) {
            instructions[*class] += block.instructions;
            // Blocks overlap in out-of-order execution, and counts are surer.
            if !evidence.has_counted_lines() {
                ceilings[*class] = ceilings[*class].min(block.at_most);
            }
            weights[*class] += block.samples;
        }
        for (weight, instructions) in weights.iter_mut().zip(&instructions) {
            *weight = (*weight + 0.01) / (instructions + 1.0);
        }
        let branches = observed_branches(edges, classes, evidence, options);
        let mut flow = network.positive_flow(&weights);
        let sum: f64 = flow.iter().zip(&instructions).map(|(f, n)| f * n).sum();
        if sum <= 0.0 || !sum.is_finite() {
            return None;
        }
        flow.iter_mut().for_each(|f| *f *= total / sum);
        let rare: Vec<usize> = (edges.iter().zip(&classes.edges))
            .filter(|((from, _), _)| from.is_none())
            .map(|(_, class)| *class)
            .collect();
        // Counts set the scale: a fixed number of instructions would contradict them.
        let fixed = if free { 0.0 } else { 1.0 };
        let shares: Vec<f64> = instructions.iter().map(|n| fixed * n / total).collect();
        let levels = evidence_levels(edges, classes, evidence);
        let pattern = Pattern::new(
            network.variables + network.nodes + 1,
            &system_places(&network, &branches, &shares),
        );
        Some(Self {
            network,
            levels,
            branches,
            rare,
            ceilings,
            shares,
            factors: [0.0; KINDS],
            flow,
            pattern,
        })
    }

    /// Finds the most probable flow; returns the variance of the logarithm of each variable.
    ///
    /// Counts of lines make several flows probable, because any of the counts may be wrong, and the
    /// result depends on the start of the search. So the search starts twice: with all evidence,
    /// and with the branches nearly left out. If the two disagree and neither is far more probable,
    /// their difference is part of the variance.
    pub fn fit_flow(&mut self) -> Option<Vec<f64>> {
        if !self.levels.iter().any(|level| level.is_of_line) {
            self.newton_descent()?;
            return self.log_variances();
        }
        let start = self.flow.clone();
        self.fit_in_stages(&COUNT_STAGES)?;
        let first = (self.flow.clone(), self.factors, self.flow_cost(&self.flow));
        self.flow = start;
        self.factors = [0.0; KINDS];
        let branches = std::mem::take(&mut self.branches);
        self.branches = branches.iter().map(Branch::faint).collect();
        let without = self.fit_in_stages(&COUNT_STAGES);
        self.branches = branches;
        without?;
        self.fit_in_stages(&COUNT_STAGES[COUNT_STAGES.len() - 1..])?;
        let mut other = (self.flow.clone(), self.factors, self.flow_cost(&self.flow));
        let mut best = first;
        if other.2 < best.2 {
            std::mem::swap(&mut best, &mut other);
        }
        let odds = (-(other.2 - best.2) / TEMPER).exp();
        let share = odds / (1.0 + odds);
        (self.flow, self.factors) = (best.0, best.1);
        let mut variance = self.log_variances()?;
        for ((variance, flow), other) in variance.iter_mut().zip(&self.flow).zip(&other.0) {
            let apart = (flow / other).ln();
            // The variance of a mixture of both: the other flow may be the right one, by its odds.
            *variance += share * apart * apart;
        }
        Some(variance)
    }

    /// Fits through stages of belief in counts.
    fn fit_in_stages(&mut self, stages: &[(f64, bool)]) -> Option<()> {
        for (spread, redescends) in stages {
            for level in self.levels.iter_mut().filter(|one| one.is_of_line) {
                (level.spread, level.redescends) = (*spread, *redescends);
            }
            self.newton_descent()?;
        }
        Some(())
    }

    fn log_variances(&self) -> Option<Vec<f64>> {
        let (_, values) = self.newton_system();
        let factor = self.pattern.decompose(&values)?;
        let mut variance = factor.inverse_diagonal();
        variance.truncate(self.network.variables);
        Some(variance)
    }

    /// Minimises by Newton's method.
    fn newton_descent(&mut self) -> Option<()> {
        for _ in 0..STEPS {
            self.fit_factors();
            let (gradient, values) = self.newton_system();
            let factor = self.pattern.decompose(&values)?;
            let mut right: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
            right.extend(self.node_imbalance());
            let mut step = factor.solve(&right);
            step.truncate(self.network.variables);
            self.keep_balance(&mut step);
            let decrease: f64 = step.iter().zip(&gradient).map(|(x, g)| x * g).sum();
            if !decrease.is_finite() {
                return None;
            }
            if decrease > -1e-4 || !self.advance_along(&step, decrease) {
                break;
            }
        }
        Some(())
    }

    /// Changes a step so that every node stays balanced. If far more passes through a node than
    /// flows from there into a corner of the graph, the system alone does not resolve the corner's
    /// losses.
    fn keep_balance(&self, step: &mut [f64]) {
        let moved = step.iter().zip(&self.flow);
        let mut change: Vec<f64> = moved.map(|(step, flow)| step * flow).collect();
        self.network.balance_change(&self.flow, &mut change);
        for ((step, change), flow) in step.iter_mut().zip(change).zip(&self.flow) {
            *step = change / flow;
        }
    }

    /// Returns the imbalance of each node, divided by its largest flow, and that of the total. Each
    /// step corrects these rounding errors.
    fn node_imbalance(&self) -> Vec<f64> {
        let mut missing = vec![0.0; self.network.nodes + 1];
        for (arc, flow) in self.network.arcs.iter().zip(&self.flow) {
            for (node, sign) in balanced_nodes(&self.network, *arc) {
                missing[node] -= sign * flow;
            }
        }
        for (missing, passing) in missing.iter_mut().zip(self.largest_passing()) {
            *missing /= passing;
        }
        let shares = self.shares.iter().zip(&self.flow);
        let executed: f64 = shares.map(|(share, flow)| share * flow).sum();
        if executed > 0.0 {
            missing[self.network.nodes] = 1.0 - executed;
        }
        missing
    }

    /// Returns the largest flow at each node.
    fn largest_passing(&self) -> Vec<f64> {
        let mut passing = vec![f64::MIN_POSITIVE; self.network.nodes];
        for ((from, to), flow) in self.network.arcs.iter().zip(&self.flow) {
            passing[*from] = passing[*from].max(*flow);
            passing[*to] = passing[*to].max(*flow);
        }
        passing
    }

    /// Follows a step as far as the cost decreases; returns `false` if it does not.
    fn advance_along(&mut self, step: &[f64], decrease: f64) -> bool {
        let most_taken = step.iter().map(|step| -step).fold(0.0, f64::max);
        // A step by -1 would empty an arc, and no flow is 0.
        let mut length = 0.95 / most_taken.max(0.95);
        let before = self.flow_cost(&self.flow);
        for _ in 0..30 {
            let moved = self.flow.iter().zip(step);
            let flow: Vec<f64> = moved.map(|(f, x)| f * (1.0 + length * x)).collect();
            if self.flow_cost(&flow) <= before + 1e-4 * length * decrease {
                // Computed anew: rounding errors of a value must not stay as large as the value
                // was.
                self.flow.clone_from(&flow);
                self.network.balance_change(&flow, &mut self.flow);
                return true;
            }
            length *= 0.5;
        }
        false
    }

    /// Fits the mean stall, and the number of visits for each execution, to the flow.
    fn fit_factors(&mut self) {
        let (mut sums, mut weights) = ([0.0; KINDS], [0.0; KINDS]);
        for level in &self.levels {
            let at = level.at(self.flow[level.variable], &self.factors);
            sums[level.kind] += at.weight * at.slope * at.residual;
            weights[level.kind] += at.weight * at.slope * at.slope;
        }
        // Counts need no factor.
        for kind in 0..COUNTED {
            if weights[kind] > 0.0 {
                self.factors[kind] += (sums[kind] / weights[kind]).clamp(-3.0, 3.0);
            }
        }
    }

    fn flow_cost(&self, flow: &[f64]) -> f64 {
        let levels = self.levels.iter();
        let mut cost: f64 = levels
            .map(|level| level.at(flow[level.variable], &self.factors).cost)
            .sum();
        for branch in &self.branches {
            let edges = branch.edges.iter();
            cost -= edges.map(|(edge, n)| n * flow[*edge].ln()).sum::<f64>();
            cost += branch.total * flow[branch.block].ln();
        }
        cost -= self
            .rare
            .iter()
            .map(|edge| RARE * flow[*edge].ln())
            .sum::<f64>();
        for (flow, ceiling) in flow.iter().zip(&self.ceilings) {
            let over = (flow / ceiling).ln().max(0.0);
            cost += 0.5 * CEILING * over * over;
        }
        cost
    }

    /// Returns the gradient by the logarithms of the variables, and the elements of the system in
    /// the order of [`system_places`].
    fn newton_system(&self) -> (Vec<f64>, Vec<f64>) {
        let variables = self.network.variables;
        let mut gradient = vec![0.0; variables];
        let mut values = Vec::new();
        let mut diagonal = vec![DAMPING; variables];
        for level in &self.levels {
            let at = level.at(self.flow[level.variable], &self.factors);
            gradient[level.variable] -= at.weight * at.slope * at.residual;
            diagonal[level.variable] += at.weight * at.slope * at.slope;
        }
        for edge in &self.rare {
            gradient[*edge] -= RARE;
            diagonal[*edge] += RARE;
        }
        for (variable, (flow, ceiling)) in self.flow.iter().zip(&self.ceilings).enumerate() {
            let over = (flow / ceiling).ln();
            if over > 0.0 {
                gradient[variable] += CEILING * over;
                diagonal[variable] += CEILING;
            }
        }
        let mut coupled = Vec::new();
        for branch in &self.branches {
            gradient[branch.block] += branch.total;
            for (edge, observed) in &branch.edges {
                gradient[*edge] -= observed;
                // Fisher's information: expected numbers, not observed ones.
                let expected = branch.total * self.flow[*edge] / self.flow[branch.block];
                diagonal[*edge] += expected;
                diagonal[branch.block] += expected;
                coupled.push(-expected);
            }
        }
        values.append(&mut diagonal);
        values.append(&mut coupled);
        // The constraints, each divided by the flow through its node.
        let nodes = self.network.nodes;
        let passing = self.largest_passing();
        // Not 0: a quasi-definite system has a decomposition in every order, a semi-definite one
        // does not.
        values.extend(std::iter::repeat_n(-1e-11, nodes + 1));
        for (arc, flow) in self.network.arcs.iter().zip(&self.flow) {
            for (node, sign) in balanced_nodes(&self.network, *arc) {
                values.push(sign * flow / passing[node]);
            }
        }
        for (share, flow) in self.shares.iter().zip(&self.flow) {
            if *share > 0.0 {
                values.push(share * flow);
            }
        }
        (gradient, values)
    }
}

/// Returns the nodes whose balance includes an arc.
fn balanced_nodes(network: &Network, arc: (usize, usize)) -> impl Iterator<Item = (usize, f64)> {
    let outside = network.outside;
    let ends = [(arc.0, -1.0), (arc.1, 1.0)];
    let loops = arc.0 == arc.1;
    ends.into_iter()
        .filter(move |(node, _)| !loops && *node != outside)
}

/// Returns the positions of the system's elements: variables first, then the nodes, then the number
/// of instructions.
fn system_places(network: &Network, branches: &[Branch], shares: &[f64]) -> Vec<(usize, usize)> {
    let variables = network.variables;
    let mut places: Vec<(usize, usize)> = (0..variables).map(|i| (i, i)).collect();
    for branch in branches {
        places.extend(branch.edges.iter().map(|(edge, _)| (*edge, branch.block)));
    }
    places.extend((variables..variables + network.nodes + 1).map(|i| (i, i)));
    for (variable, arc) in network.arcs.iter().enumerate() {
        places.extend(balanced_nodes(network, *arc).map(|(node, _)| (variable, variables + node)));
    }
    let total = variables + network.nodes;
    let executed = (0..variables).filter(|variable| shares[*variable] > 0.0);
    places.extend(executed.map(|variable| (variable, total)));
    places
}

/// Terms of the cost of a level at a frequency.
struct At {
    cost: f64,
    residual: f64,
    /// Decrease of the residual as the logarithm of the frequency grows.
    slope: f64,
    weight: f64,
}

impl Level {
    fn at(&self, frequency: f64, factors: &[f64; KINDS]) -> At {
        let expected = frequency * self.cost * factors[self.kind].exp();
        // Half an observation more on both sides, so that zero has a logarithm too.
        let observed = self.observed + 0.5;
        let residual = observed.ln() - (expected + 0.5).ln();
        let weight = 1.0 / (self.spread * self.spread + REPEATS[self.kind] / observed);
        let deviation = residual.abs() * weight.sqrt();
        let beyond = deviation / ROBUST;
        let (cost, robust) = match beyond {
            _ if self.redescends => {
                let more = beyond * beyond;
                (0.5 * ROBUST * ROBUST * more.ln_1p(), 1.0 / (1.0 + more))
            }
            _ if beyond <= 1.0 => (0.5 * deviation * deviation, 1.0),
            _ => (ROBUST * (deviation - 0.5 * ROBUST), 1.0 / beyond),
        };
        At {
            cost,
            residual,
            slope: expected / (expected + 0.5),
            weight: weight * robust,
        }
    }
}

fn evidence_levels(edges: &[Ends], classes: &Equivalence, evidence: &Evidence) -> Vec<Level> {
    // Observations of one class's blocks are a single observation, because they share their errors.
    let mut sums = vec![[(0.0, 0.0); 2]; classes.classes];
    for (block, class) in evidence.blocks.iter().zip(&classes.blocks) {
        let sum = &mut sums[*class][0];
        *sum = (sum.0 + block.samples, sum.1 + block.cost);
    }
    let mut visits = vec![(0.0, 0.0); classes.blocks.len()];
    for ((from, _), edge) in edges.iter().zip(&evidence.edges) {
        if let Some(from) = from {
            visits[*from].0 += edge.walked;
            visits[*from].1 += 1.0;
        }
    }
    let walked = visits.iter().any(|(walked, _)| *walked > 0.0);
    for ((visits, edges), class) in visits.into_iter().zip(&classes.blocks) {
        if walked && edges > 1.0 {
            let sum = &mut sums[*class][1];
            *sum = (sum.0 + visits, sum.1 + 1.0);
        }
    }
    let of = |(variable, kinds): (usize, [(f64, f64); 2])| {
        kinds
            .into_iter()
            .enumerate()
            .filter(|(_, (_, cost))| *cost > 0.0)
            .map(move |(kind, (observed, cost))| Level {
                variable,
                kind,
                observed,
                cost,
                spread: SPREAD[kind],
                redescends: false,
                is_of_line: false,
            })
    };
    let counted = evidence.counted.iter().map(|one| Level {
        variable: classes.blocks[one.block],
        kind: COUNTED,
        observed: one.executions,
        cost: one.period,
        spread: one.deviation.unwrap_or(SPREAD[COUNTED]),
        redescends: false,
        is_of_line: one.is_of_line(),
    });
    let sums = sums.into_iter().enumerate().flat_map(of);
    sums.chain(counted).collect()
}

/// Returns the number of branches observed for each sample, if it exceeds one.
fn branches_per_sample(evidence: &Evidence) -> f64 {
    let observed: f64 = evidence.edges.iter().map(|edge| edge.observed).sum();
    let samples: f64 = evidence.blocks.iter().map(|block| block.samples).sum();
    (observed / samples.max(1.0)).clamp(1.0, DEEPEST)
}

fn observed_branches(
    edges: &[Ends],
    classes: &Equivalence,
    evidence: &Evidence,
    options: &Options,
) -> Vec<Branch> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); classes.blocks.len()];
    for (edge, (from, _)) in edges.iter().enumerate() {
        if let Some(from) = from {
            out[*from].push(edge);
        }
    }
    let (observed, walked) = options.most_observations;
    let observed = observed * branches_per_sample(evidence);
    // Counts are surer than any number of observations.
    let limits = if evidence.has_counted_lines() {
        [observed, walked.min(observed)]
    } else {
        [observed, walked]
    };
    let branch = |(block, out): (usize, Vec<usize>)| {
        let seen = |edge: &usize| {
            let edge = evidence.edges[*edge];
            [edge.observed, edge.walked]
        };
        let mut weights = [0.0; 2];
        for (kind, limit) in limits.into_iter().enumerate() {
            let total: f64 = out.iter().map(|edge| seen(edge)[kind]).sum();
            weights[kind] = 1.0 / (1.0 + total / limit);
        }
        let edges: Vec<(usize, f64)> = out
            .iter()
            .map(|edge| {
                let [observed, walked] = seen(edge);
                let counted = evidence.edges[*edge].counted;
                let sum = observed * weights[0] + walked * weights[1] + counted;
                (classes.edges[*edge], sum + PRIOR)
            })
            .collect();
        Branch {
            block: classes.blocks[block],
            total: edges.iter().map(|(_, n)| n).sum(),
            edges,
        }
    };
    out.into_iter()
        .enumerate()
        .filter(|(_, out)| out.len() > 1)
        .map(branch)
        .collect()
}
