//! Verdicts of a causal profile, and their order.

use super::effect::{Effect, EffectVerdict, Estimate, FragmentEffects};
use std::cmp::Ordering;

/// The allowed rate of false discoveries among claimed effects.
const FALSE_DISCOVERIES: f64 = 0.05;

/// Program speedup that nobody would optimise for and no method measures: one point.
const SLIGHT: f64 = 0.01;

/// The largest effect that "no effect" may hide: five points.
const HIDDEN: f64 = 0.05;

/// Returns the verdict on an effect whose slope and q-value are known.
pub(super) fn judge_effect(effect: &Effect) -> EffectVerdict {
    let by_program = |a: &&Estimate, b: &&Estimate| a.program.total_cmp(&b.program);
    let peak = effect.peak();
    let trough = effect.curve.iter().min_by(by_program);
    let last = effect.curve.last();
    let (Some(peak), Some(trough), Some(last)) = (peak, trough, last) else {
        return EffectVerdict::Unclear;
    };
    let slope = effect.slope;
    let sure = effect.q <= FALSE_DISCOVERIES;
    // A hill: first up, then down below its start, or well below its top.
    let hill = peak.low > SLIGHT && last.high < 0.5 * peak.low;
    if hill {
        EffectVerdict::WorthItUpTo(*peak)
    } else if sure && slope.low > SLIGHT {
        EffectVerdict::WorthIt(*peak)
    } else if sure && slope.high < -SLIGHT {
        EffectVerdict::Contention(*trough)
    } else if slope.low > -HIDDEN && slope.high < HIDDEN {
        EffectVerdict::NoEffect
    } else {
        EffectVerdict::Unclear
    }
}

/// Orders effects by certainty: effects worth it, then contention, then none; unclear ones come
/// last. Within each group, the conservative end of the slope decides.
pub(super) fn rank_effects(a: &Effect, b: &Effect) -> Ordering {
    let class = |effect: &Effect| match effect.verdict {
        EffectVerdict::WorthIt(_) | EffectVerdict::WorthItUpTo(_) => 0,
        EffectVerdict::Contention(_) => 1,
        EffectVerdict::NoEffect => 2,
        EffectVerdict::Unclear => 3,
    };
    let sure = |effect: &Effect| match effect.verdict {
        EffectVerdict::WorthItUpTo(peak) => peak.low.max(0.0),
        _ => effect.slope.conservative().abs(),
    };
    let size = |effect: &Effect| effect.slope.estimate.abs();
    class(a)
        .cmp(&class(b))
        .then_with(|| sure(b).total_cmp(&sure(a)))
        .then_with(|| size(b).total_cmp(&size(a)))
}

/// Orders fragments by their largest effect.
pub(super) fn by_largest_effect(a: &FragmentEffects, b: &FragmentEffects) -> Ordering {
    match (a.effects.first(), b.effects.first()) {
        (Some(x), Some(y)) => rank_effects(x, y).then_with(|| a.name.cmp(&b.name)),
        (x, y) => y.is_some().cmp(&x.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::effect::Measure;
    use crate::causal::phase::Phase;
    use crate::statistics::Interval;

    fn effect_with(verdict: EffectVerdict, slope: f64) -> Effect {
        Effect {
            point: String::new(),
            measure: Measure::Throughput,
            baseline_ns: 1.0,
            points: Vec::new(),
            curve: Vec::new(),
            slope: Interval {
                estimate: slope,
                low: slope - 0.01,
                high: slope + 0.01,
                p: 0.01,
            },
            q: 1.0,
            phase: Phase::ALWAYS,
            experiments: 0,
            set_aside: 0,
            visits: 0,
            meetings_every_ns: None,
            verdict,
        }
    }

    #[test]
    fn what_is_known_comes_before_what_is_unclear() {
        let unclear = effect_with(EffectVerdict::Unclear, -0.38);
        let known = [
            effect_with(EffectVerdict::WorthIt(Estimate::default()), 0.1),
            effect_with(EffectVerdict::Contention(Estimate::default()), -0.1),
            effect_with(EffectVerdict::NoEffect, 0.0),
        ];
        for effect in &known {
            assert_eq!(rank_effects(effect, &unclear), Ordering::Less);
        }
    }
}
