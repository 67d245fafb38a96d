//! Experiments that something else disturbed.
//!
//! An experiment in which the program had only a fraction of the machine (a neighbour, a backup, a
//! hypervisor) takes several times longer for each visit than all others, and a few of these decide
//! a mean. An experiment whose visits are further from what the curve expects than five times the
//! typical distance (median, scaled as for a normal distribution, for which that happens once in
//! two million) is set aside and the curve fitted again. If that applies to more than a tenth, the
//! program itself varies, and all count.

use super::combine::{Level, Levels};
use super::curve::{self, Curve};

const TOO_FAR: f64 = 5.0;
const TOO_MANY: f64 = 0.1;

/// Returns the levels without disturbed experiments, their curve, and how many experiments were set
/// aside.
pub(super) fn set_aside(levels: Levels) -> (Levels, Curve, usize) {
    let all = levels.experiments();
    let first = curve::fit_curve(&levels);
    let mut kept: Option<(Levels, Curve)> = None;
    for _ in 0..10 {
        let (now, curve) = kept.as_ref().map_or((&levels, &first), |(l, c)| (l, c));
        let Some(next) = without_outliers(now, curve) else {
            break;
        };
        if ((all - next.experiments()) as f64) > TOO_MANY * all as f64 {
            kept = None;
            break;
        }
        let curve = curve::fit_curve(&next);
        kept = Some((next, curve));
    }
    match kept {
        Some((kept, curve)) => {
            let aside = all - kept.experiments();
            (kept, curve, aside)
        }
        None => (levels, first, 0),
    }
}

/// Returns the levels without values too far from the curve; `None` if there are none.
fn without_outliers(levels: &Levels, curve: &Curve) -> Option<Levels> {
    let off = |level: &Level, ratio: f64| -> Vec<f64> {
        let period = ratio * levels.baseline_period;
        let of = level.experiments.iter();
        of.map(|experiment| {
            let expected = (experiment.amount / period).max(1e-9);
            // Undo the weight: a down-weighted experiment is as far off as before.
            (experiment.visits - expected).abs() / (expected * experiment.weight).sqrt()
        })
        .collect()
    };
    let pairs = levels.all().zip(&curve.period);
    let distances: Vec<Vec<f64>> = pairs.map(|(level, ratio)| off(level, *ratio)).collect();
    let mut sorted: Vec<f64> = distances.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let typical = 1.4826 * sorted.get(sorted.len() / 2)?;
    let most = TOO_FAR * typical;
    if sorted.last()? <= &most || typical == 0.0 {
        return None;
    }
    levels.keep(|level, experiment| {
        let distance = distances.get(level).and_then(|of| of.get(experiment));
        distance.is_none_or(|distance| *distance <= most)
    })
}
