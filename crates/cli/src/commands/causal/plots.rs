//! `vitalfew causal report --svg`: the curves with their bands, one plot a line and progress point.

use super::shown_report::ShownEffects;
use crate::svg::{self, AxisTick, SvgPlot, shorten_start};
use analysis::causal::{Effect, EffectVerdict, Estimate, FragmentEffects};
use results::causal::measure_name;
use results::phrases::effect_verdict;
use std::io::Write;

/// Writes the plots.
pub fn write_plots(report: &ShownEffects<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let pairs = report.shown.iter().flat_map(|finding| {
        let effects = finding.effects.iter();
        effects.map(move |effect| (finding, effect))
    });
    let pairs: Vec<(&FragmentEffects, &Effect)> = pairs.collect();
    // One scale, so that plots can be compared.
    let scale = SpeedupScale::of(pairs.iter().map(|(_, effect)| *effect));
    svg::write_plots(&pairs, out, |(finding, effect), out| {
        plot_effect(finding, effect, &scale, out)
    })
}

/// Program speedups on the vertical axis.
struct SpeedupScale {
    low: f64,
    high: f64,
    step: f64,
}

impl SpeedupScale {
    fn of<'a>(effects: impl Iterator<Item = &'a Effect>) -> Self {
        let (mut low, mut high): (f64, f64) = (-0.02, 0.05);
        for effect in effects {
            let measured = effect.points.iter().map(|point| point.program);
            let band = effect.curve.iter().flat_map(|at| [at.low, at.high]);
            for value in measured.chain(band) {
                low = low.min(value);
                high = high.max(value);
            }
        }
        // Values worse than twice as slow are cut off.
        let (low, high) = (low.max(-1.0), high.min(1.0));
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
        let step = steps.into_iter().find(|step| (high - low) / step <= 8.0);
        let step = step.unwrap_or(0.5);
        Self {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            step,
        }
    }

    fn ticks(&self) -> impl Iterator<Item = AxisTick> {
        let count = ((self.high - self.low) / self.step).round() as i32;
        (0..=count).map(|number| {
            let value = self.low + f64::from(number) * self.step;
            let is_zero = value.abs() < self.step / 2.0;
            AxisTick {
                value,
                label: if is_zero {
                    "0%".to_owned()
                } else {
                    format!("{:+.0}%", 100.0 * value)
                },
                is_dark: is_zero,
            }
        })
    }
}

fn plot_effect(
    finding: &FragmentEffects,
    effect: &Effect,
    scale: &SpeedupScale,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let color = match effect.verdict {
        EffectVerdict::WorthIt(_) | EffectVerdict::WorthItUpTo(_) => "#238b45",
        EffectVerdict::Contention(_) => "#cb181d",
        EffectVerdict::NoEffect | EffectVerdict::Unclear => "#555",
    };
    let slope = effect.slope;
    let measured = format!(
        "{} of {}: slope {:+.2} [{:+.2}, {:+.2}]",
        measure_name(effect.measure),
        shorten_start(&effect.point, 32),
        slope.estimate,
        slope.low,
        slope.high
    );
    let lines = [(&*measured, "#555"), (&effect_verdict(effect), color)];
    let range = (scale.low, scale.high);
    let mut plot = SvgPlot::begin(out, &finding.shown_name(), &lines, range)?;
    let caption = "speedup of the line; up: of the program";
    plot.draw_axes(scale.ticks(), caption)?;
    let origin = Estimate::default();
    let curve: Vec<&Estimate> = std::iter::once(&origin).chain(&effect.curve).collect();
    let upper = curve.iter().map(|e| plot.point(e.speedup, e.high));
    let lower = curve.iter().rev().map(|e| plot.point(e.speedup, e.low));
    let band: Vec<String> = upper.chain(lower).collect();
    let line = curve.iter().map(|e| plot.point(e.speedup, e.program));
    let line: Vec<String> = line.collect();
    plot.draw_curve(&band, &line)?;
    for point in &effect.points {
        let x = plot.x(point.speedup);
        let [center, low, high] =
            [0.0, -point.error, point.error].map(|off| plot.y(point.program + off));
        writeln!(
            plot.out,
            r##"<path d="M{x:.1} {low:.1}V{high:.1}" stroke="#999"/><circle cx="{x:.1}" cy="{center:.1}" r="2.5" fill="#555"/>"##
        )?;
    }
    Ok(())
}
