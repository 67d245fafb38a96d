//! The machine's speed, as it changes during a run.
//!
//! Neighbours come and go, the processor's clock follows the load, memory is laid out differently.
//! So the periods of one program differ between two runs, or two minutes of one run, by more than
//! the effects sought, and experiments near each other differ less than those far apart. The
//! machine's speed is modelled as a random walk in time, one for each run, which affects all
//! experiments alike: with `x_i = V_i/E_i − 1`, the visits of an experiment against what the curve
//! of its fragment expects, `u` minimises
//!
//! `Σ_i E_i (x_i − u_i)² + (1/q) Σ_i (u_{i+1} − u_i)²/Δt_i`
//!
//! where `q` is the variance of the walk in a second over that of a visit; each of a grid of `q`
//! counts by its restricted likelihood, as the curve's roughness does (`curve`). The expected
//! visits are multiplied by `1 + u`, and curves and walk are fitted again, a few times: a mixed
//! model fitted by alternation. The controller alternates experiments with and without a speedup,
//! so most of the drift is on both sides.
//!
//! The residuals have long tails. An experiment further from its expectation than twice the typical
//! distance counts as if it were at that distance (Huber 1964).

use super::combine::Levels;
use super::curve;

/// Rounds of fitting curves and walk by turns, because each depends on the other.
const ROUNDS: usize = 4;
/// Values of `q`, as the variance of a typical step divided by that of a typical experiment: from
/// hardly any walk to one whose neighbours say little about each other.
const WALKS: [f64; 8] = [1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];
/// Typical distances (median, scaled as for a normal distribution) beyond which an experiment
/// counts less.
const FAR: f64 = 2.0;
/// Fewest experiments of a run from which a walk is estimated.
const FEW: usize = 6;
/// Largest factor by which a machine's speed changes.
const MOST: f64 = 5.0;

/// An experiment with an expectation.
struct Seen {
    group: usize,
    level: usize,
    number: usize,
    run: u32,
    time: f64,
    /// Visits expected at the machine's usual speed.
    expected: f64,
    visits: f64,
    /// `1 + u`.
    speed: f64,
    weight: f64,
}

/// Takes the machine's changes of speed out of the experiments with one progress point; `groups`
/// are those with the different fragments.
pub(super) fn take_out(groups: &mut [&mut Levels]) {
    let raw: Vec<Levels> = groups.iter().map(|levels| (**levels).clone()).collect();
    for round in 0..ROUNDS {
        let mut seen = gather_seen(&raw, groups);
        if round == 0 {
            weigh_outliers(&mut seen); // so that no walk follows an outlier
        }
        seen.sort_by(|a, b| a.run.cmp(&b.run).then(a.time.total_cmp(&b.time)));
        let mut lost = 0.0;
        for run in seen.chunk_by_mut(|a, b| a.run == b.run) {
            lost += fit_walk(run);
        }
        weigh_outliers(&mut seen);
        let left = 1.0 - lost / (seen.len() as f64).max(1.0);
        for (number, (levels, raw)) in groups.iter_mut().zip(&raw).enumerate() {
            let mut of: Vec<&Seen> = seen.iter().filter(|seen| seen.group == number).collect();
            of.sort_by_key(|seen| (seen.level, seen.number));
            let factors: Vec<(f64, f64)> = of.iter().map(|s| (s.speed, s.weight)).collect();
            if let Some(next) = raw.scale_experiments(&factors, left) {
                **levels = next;
            }
        }
    }
}

/// Returns all experiments, with the expectations of their groups' curves.
fn gather_seen(raw: &[Levels], now: &[&mut Levels]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (group, (raw, now)) in raw.iter().zip(now).enumerate() {
        let curve = curve::fit_curve(now);
        for (level, (of, ratio)) in raw.all().zip(&curve.period).enumerate() {
            let period = ratio * now.baseline_period;
            for (number, one) in of.experiments.iter().enumerate() {
                let weight = now.experiment_weight(level, number);
                seen.push(Seen {
                    group,
                    level,
                    number,
                    run: one.run,
                    time: one.time,
                    expected: (one.amount / period).max(1e-9),
                    visits: one.visits,
                    speed: 1.0,
                    weight,
                });
            }
        }
    }
    seen
}

/// Fits the walk through the experiments of one run, in their order; returns the degrees of freedom
/// that it takes.
fn fit_walk(run: &mut [Seen]) -> f64 {
    let n = run.len();
    if n < FEW {
        return 0.0;
    }
    let weights: Vec<f64> = run.iter().map(|seen| seen.weight * seen.expected).collect();
    let off = |seen: &Seen| (seen.visits / seen.expected - 1.0).clamp(-1.0, MOST);
    let off: Vec<f64> = run.iter().map(off).collect();
    let gaps: Vec<f64> = run
        .windows(2)
        // A step in no time would have an infinite penalty.
        .map(|two| (two[1].time - two[0].time).max(1e-3))
        .collect();
    let typical = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(1.0)
    };
    let (gap, weight) = (typical(&gaps), typical(&weights));
    let solved: Vec<Walk> = WALKS
        .iter()
        .filter_map(|step| Walk::solve(&weights, &off, &gaps, weight * gap / step))
        .collect();
    let Some(best) = solved.iter().map(|s| s.badness).min_by(f64::total_cmp) else {
        return 0.0;
    };
    let share = |s: &Walk| (-0.5 * (s.badness - best)).exp();
    let all: f64 = solved.iter().map(share).sum();
    let mean =
        |of: &dyn Fn(&Walk) -> f64| -> f64 { solved.iter().map(|s| share(s) / all * of(s)).sum() };
    for (at, seen) in run.iter_mut().enumerate() {
        let u = mean(&|s| s.u.get(at).copied().unwrap_or(0.0));
        seen.speed = (1.0 + u).clamp(1.0 / MOST, MOST);
    }
    mean(&|s| s.freedom).clamp(0.0, 0.8 * n as f64)
}

/// A walk with a given `q`.
struct Walk {
    u: Vec<f64>,
    /// Degrees of freedom that the walk takes.
    freedom: f64,
    /// Twice the negative log of the restricted likelihood, up to a constant.
    badness: f64,
}

impl Walk {
    /// Solves the tridiagonal system `(W + λK) u = W x`, eliminated from the front.
    fn solve(weights: &[f64], off: &[f64], gaps: &[f64], lambda: f64) -> Option<Self> {
        let n = weights.len();
        let link = |at: Option<usize>| {
            let gap = at.and_then(|at| gaps.get(at));
            gap.map_or(0.0, |gap| lambda / gap)
        };
        let (mut pivots, mut right) = (Vec::with_capacity(n), Vec::<f64>::with_capacity(n));
        for (i, (w, x)) in weights.iter().zip(off).enumerate() {
            let before = link(i.checked_sub(1));
            let (mut pivot, mut value) = (w + before + link(Some(i)), w * x);
            if let (Some(last), Some(carried)) = (pivots.last(), right.last()) {
                pivot -= before * before / last;
                value += before / last * carried;
            }
            pivots.push(pivot);
            right.push(value);
        }
        // Back substitution: the solution, and the diagonal of the inverse.
        let (mut u, mut inverse) = (vec![0.0; n], vec![0.0; n]);
        let (mut next, mut below) = (0.0, 0.0);
        for i in (0..n).rev() {
            let part = link(Some(i)) / pivots[i];
            next = right[i] / pivots[i] + part * next;
            below = 1.0 / pivots[i] + part * part * below;
            (u[i], inverse[i]) = (next, below);
        }
        let misfit = weights.iter().zip(off.iter().zip(&u));
        let misfit: f64 = misfit.map(|(w, (x, u))| w * (x - u) * (x - u)).sum();
        let steps = u.windows(2).zip(gaps);
        let steps: f64 = steps
            .map(|(two, gap)| (two[1] - two[0]) * (two[1] - two[0]) / gap)
            .sum();
        let unit = (misfit + lambda * steps) / (n as f64 - 1.0);
        let determinant: f64 = pivots.iter().map(|pivot| pivot.ln()).sum();
        let badness = (n as f64 - 1.0) * (unit.max(1e-300).ln() - lambda.ln()) + determinant;
        let freedom = weights.iter().zip(&inverse).map(|(w, i)| w * i).sum();
        badness.is_finite().then_some(Self {
            u,
            freedom,
            badness,
        })
    }
}

/// Gives experiments that are far from their expectation less weight.
fn weigh_outliers(seen: &mut [Seen]) {
    let distance = |seen: &Seen| {
        let expected = seen.expected * seen.speed;
        (seen.visits - expected).abs() / expected.sqrt()
    };
    let mut sorted: Vec<f64> = seen.iter().map(distance).collect();
    sorted.sort_by(f64::total_cmp);
    let typical = 1.4826 * sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    for seen in seen {
        let far = distance(seen) / typical;
        seen.weight = if typical > 0.0 && far > FAR {
            (FAR / far).max(1e-3)
        } else {
            1.0
        };
    }
}
