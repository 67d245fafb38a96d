//! Effects of causal profiles as JSON; the form is documented in docs/json.md.

use super::again::run_again;
use super::profiles::load_profiles;
use crate::claims::JsonClaims;
use crate::command::command_words;
use crate::phrases::effect_verdict;
use analysis::causal::{
    Analysis, Effect, EffectVerdict, Estimate, FragmentEffects, Lack, LeftOut, Measure, Options,
    Point, analyse_profile,
};
use profile::CausalProfile;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// Speedups for which the curve's value is given.
pub const CURVE_SPEEDUPS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    runs: Vec<JsonRun<'a>>,
    experiments: usize,
    experiments_without_sample: usize,
    experiments_disturbed: usize,
    confidence: f64,
    warnings: &'a [String],
    findings_total: usize,
    findings: Vec<JsonFinding<'a>>,
    claims: JsonClaims,
    left_out: Vec<JsonLeftOut<'a>>,
}

#[derive(Serialize)]
struct JsonRun<'a> {
    command: &'a [String],
    host: &'a str,
    collector: &'a str,
    start_unix_ns: u64,
    duration_ns: u64,
    end: profile::RunEnd,
    experiments: usize,
    points: &'a [profile::ProgressPoint],
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    name: &'a str,
    detail: &'a str,
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_in: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_of: Option<&'a str>,
    share: f64,
    effects: Vec<JsonEffect<'a>>,
}

#[derive(Serialize)]
struct JsonEffect<'a> {
    point: &'a str,
    measure: &'static str,
    verdict: &'static str,
    /// The verdict in words.
    words: String,
    up_to: Option<JsonEstimate>,
    slope: f64,
    slope_low: f64,
    slope_high: f64,
    q: f64,
    baseline_ns: f64,
    phase: f64,
    phase_error: f64,
    experiments: usize,
    set_aside: usize,
    visits: u64,
    at: Vec<JsonEstimate>,
    curve: Vec<JsonEstimate>,
    points: Vec<JsonPoint>,
}

#[derive(Serialize)]
struct JsonEstimate {
    speedup: f64,
    program: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct JsonPoint {
    speedup: f64,
    program: f64,
    error: f64,
    experiments: usize,
    visits: u64,
}

#[derive(Serialize)]
struct JsonLeftOut<'a> {
    name: &'a str,
    point: &'a str,
    lack: &'static str,
    have: u64,
}

/// Returns what `causal report --all --json` says of the runs of all files together.
///
/// # Errors
/// If one cannot be read.
pub fn analyse_files(files: &[PathBuf]) -> anyhow::Result<Value> {
    let profile = load_profiles(files)?;
    let analysis = analyse_profile(&profile, &Options::default());
    let json = effects_json(&profile, &analysis, &analysis.fragments);
    Ok(serde_json::to_value(json)?)
}

/// Returns the documented form; `shown` are the fragments that it has.
pub fn effects_json<'a>(
    profile: &'a CausalProfile,
    analysis: &'a Analysis,
    shown: &'a [FragmentEffects],
) -> impl Serialize {
    let runs = profile.runs.iter().map(|run| JsonRun {
        command: &run.command,
        host: &run.host.name,
        collector: &run.collector,
        start_unix_ns: run.start_unix_ns,
        duration_ns: run.duration_ns,
        end: run.end,
        experiments: run.experiments.len(),
        points: &run.points,
    });
    // More experiments with one fragment alone.
    let next = |fragment: &FragmentEffects| {
        let last = profile.runs.last();
        let again = last.and_then(|run| run_again(run, Some(&fragment.name), None));
        again.unwrap_or_else(|| command_words(&["causal", "run", "--fixed-line", &fragment.name]))
    };
    Json {
        schema: "vitalfew.causal/1",
        runs: runs.collect(),
        experiments: analysis.experiments,
        experiments_without_sample: analysis.without_sample,
        experiments_disturbed: analysis.disturbed,
        confidence: 0.95,
        warnings: &analysis.warnings,
        findings_total: analysis.fragments.len(),
        findings: shown.iter().map(json_finding).collect(),
        claims: JsonClaims::of_findings(analysis::causal::findings(shown, next)),
        left_out: analysis.left_out.iter().map(left_out).collect(),
    }
}

fn json_finding(finding: &FragmentEffects) -> JsonFinding<'_> {
    JsonFinding {
        name: &finding.name,
        detail: &finding.detail,
        image: finding.image.as_deref(),
        waiting_in: finding.waiting.as_deref(),
        copy_of: finding.copy_of.as_deref(),
        share: finding.share,
        effects: finding.effects.iter().map(json_effect).collect(),
    }
}

fn json_effect(effect: &Effect) -> JsonEffect<'_> {
    let (verdict, up_to) = match effect.verdict {
        EffectVerdict::WorthIt(at) => ("worth_it", Some(at)),
        EffectVerdict::WorthItUpTo(at) => ("worth_it_up_to", Some(at)),
        EffectVerdict::Contention(at) => ("contention", Some(at)),
        EffectVerdict::NoEffect => ("no_effect", None),
        EffectVerdict::Unclear => ("unclear", None),
    };
    JsonEffect {
        point: &effect.point,
        measure: measure_name(effect.measure),
        verdict,
        words: effect_verdict(effect),
        up_to: up_to.map(json_estimate),
        slope: effect.slope.estimate,
        slope_low: effect.slope.low,
        slope_high: effect.slope.high,
        q: effect.q,
        baseline_ns: effect.baseline_ns,
        phase: effect.phase.of,
        phase_error: effect.phase.error,
        experiments: effect.experiments,
        set_aside: effect.set_aside,
        visits: effect.visits,
        at: CURVE_SPEEDUPS
            .iter()
            .filter_map(|s| effect.at(*s))
            .map(json_estimate)
            .collect(),
        curve: effect.curve.iter().copied().map(json_estimate).collect(),
        points: effect.points.iter().map(json_point).collect(),
    }
}

/// Returns the name of a measure.
pub fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Throughput => "throughput",
        Measure::Latency => "latency",
    }
}

fn json_estimate(estimate: Estimate) -> JsonEstimate {
    JsonEstimate {
        speedup: estimate.speedup,
        program: estimate.program,
        low: estimate.low,
        high: estimate.high,
    }
}

fn json_point(point: &Point) -> JsonPoint {
    JsonPoint {
        speedup: point.speedup,
        program: point.program,
        error: point.error,
        experiments: point.experiments,
        visits: point.visits,
    }
}

fn left_out(left_out: &LeftOut) -> JsonLeftOut<'_> {
    let (lack, have) = match left_out.why {
        Lack::Baseline => ("baseline", 0),
        Lack::Speedups(have) => ("speedups", have as u64),
        Lack::Visits(have) => ("visits", have),
        Lack::Experiments(have) => ("experiments", have as u64),
    };
    JsonLeftOut {
        name: &left_out.name,
        point: &left_out.point,
        lack,
        have,
    }
}
