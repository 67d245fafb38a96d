//! Claims of a causal profile, in the form that all methods share.

use super::effect::{Effect, EffectVerdict, FragmentEffects, Measure};
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingDoubt,
    FindingEvidence, FindingPlace, PlaceInCode,
};

/// The share of the run time below which a fragment's finding warns that its effect was scaled to
/// the whole run.
const SHORT_PHASE: f64 = 0.95;

/// Returns one finding for each fragment and progress point, in the order of the fragments. `next`
/// is the command that shows more of a fragment.
pub fn findings(
    fragments: &[FragmentEffects],
    next: impl Fn(&FragmentEffects) -> Vec<String>,
) -> Vec<Finding> {
    let of_fragment = |fragment: &FragmentEffects| {
        let next = next(fragment);
        let of_effect = |effect| finding_of(fragment, effect, next.clone());
        fragment.effects.iter().map(of_effect).collect::<Vec<_>>()
    };
    fragments.iter().flat_map(of_fragment).collect()
}

fn finding_of(fragment: &FragmentEffects, effect: &Effect, next: Vec<String>) -> Finding {
    let last = effect.curve.last().copied().unwrap_or_default();
    let (claim, at) = match effect.verdict {
        EffectVerdict::WorthIt(at) | EffectVerdict::WorthItUpTo(at) => (Claim::WorthSpeedup, at),
        EffectVerdict::Contention(at) => (Claim::SpeedupHurts, at),
        EffectVerdict::NoEffect => (Claim::SpeedupWorthless, last),
        EffectVerdict::Unclear => (Claim::SpeedupUnclear, last),
    };
    let point = effect.point.clone();
    let mut doubts = Vec::new();
    if at.low <= 0.0 && at.high >= 0.0 {
        doubts.push(FindingDoubt::IntervalHoldsZero);
    }
    if effect.phase.of + effect.phase.error < SHORT_PHASE {
        let part = effect.phase.of;
        doubts.push(FindingDoubt::ShortPhase { part });
    }
    if let Some(every_ns) = effect.meetings_every_ns {
        doubts.push(FindingDoubt::FrequentMeetings { every_ns });
    }
    Finding {
        claim,
        place: place_of(fragment),
        amount: FindingAmount {
            value: at.program,
            interval: Some([at.low, at.high]),
            unit: AmountUnit::Fraction,
            relative_to: match effect.measure {
                Measure::Throughput => AmountBase::Period(point),
                Measure::Latency => AmountBase::Latency(point),
            },
            certainty: Certainty::Prediction,
        },
        evidence: [
            Some(FindingEvidence::Experiments {
                experiments: effect.experiments,
                set_aside: effect.set_aside,
                visits: effect.visits,
                slope: [effect.slope.estimate, effect.slope.low, effect.slope.high],
                q: effect.q,
                at_speedup: at.speedup,
            }),
            Some(FindingEvidence::SampleShare {
                share: fragment.share,
            }),
            (fragment.waiting.clone()).map(|call| FindingEvidence::SpedUpWaits { call }),
        ]
        .into_iter()
        .flatten()
        .collect(),
        doubts,
        next,
    }
}

/// Returns a line with its function as detail, or a function with its place as detail.
fn place_of(fragment: &FragmentEffects) -> FindingPlace {
    let name = fragment.copy_of.as_ref().unwrap_or(&fragment.name);
    let is_line = name
        .rsplit_once(':')
        .is_some_and(|(path, line)| !path.ends_with(':') && line.parse::<u32>().is_ok());
    let what = if is_line {
        PlaceInCode::Line {
            line: fragment.name.clone(),
            procedure: fragment.detail.clone(),
        }
    } else {
        PlaceInCode::Procedure {
            name: fragment.name.clone(),
        }
    };
    FindingPlace {
        image: fragment.image.clone(),
        what,
    }
}
