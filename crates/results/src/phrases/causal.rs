//! The words for what experiments predict.

use analysis::causal::{Effect, EffectVerdict, Estimate};

/// Returns the verdict on an effect, with the speed of the program behind it.
pub fn effect_verdict(effect: &Effect) -> String {
    let last = effect.curve.last();
    let at_last = |words: &str| match last {
        Some(last) => format!("{words}: {}", format_estimate(last)),
        None => words.to_owned(),
    };
    match &effect.verdict {
        EffectVerdict::WorthIt(at) => format!("worth it, up to {}", format_estimate(at)),
        EffectVerdict::WorthItUpTo(top) => {
            let last = last.map(|last| {
                let (sped_up, program) = (sped_up(last), format_interval(last));
                format!("; {sped_up}, only {program}")
            });
            let top = format_estimate(top);
            format!("worth it up to a point: {top}{}", last.unwrap_or_default())
        }
        EffectVerdict::Contention(at) => {
            format!(
                "contention: optimising this hurts, down to {}",
                format_estimate(at)
            )
        }
        EffectVerdict::NoEffect => at_last("no effect"),
        EffectVerdict::Unclear => at_last("unclear"),
    }
}

/// Formats `+21.3% [+18.0%, +24.5%] (sped up by 75%)`.
fn format_estimate(at: &Estimate) -> String {
    format!("{} ({})", format_interval(at), sped_up(at))
}

fn format_interval(at: &Estimate) -> String {
    let [middle, low, high] = [at.program, at.low, at.high].map(|x| format!("{:+.1}%", 100.0 * x));
    format!("{middle} [{low}, {high}]")
}

fn sped_up(at: &Estimate) -> String {
    format!("sped up by {:.0}%", 100.0 * at.speedup)
}
