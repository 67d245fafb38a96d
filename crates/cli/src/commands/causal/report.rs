//! `vitalfew causal report`.

use super::args::CausalReport as Args;
use super::shown_report::ShownEffects;
use super::{plots, text};
use crate::exit::INCONCLUSIVE;
use crate::output::{shell_words, write_file, write_json};
use crate::screen::{Screen, tell_user, warn_user};
use analysis::causal::{Analysis, EffectVerdict, Options, analyse_profile};
use profile::CausalProfile;
use results::causal::{effects_json, load_profiles};
use results::usage_refusal;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// The number of findings without --all.
const VITAL_FEW: usize = 5;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let profile = load_profiles(&args.files)?;
    let options = Options {
        minimum_speedups: args.min_speedups.into(),
        ..Options::default()
    };
    let mut analysis = analyse_profile(&profile, &options);
    if let Some(point) = &args.point {
        keep_point(&mut analysis, &profile, point)?;
    }
    let count = if args.all { usize::MAX } else { VITAL_FEW };
    let count = count.min(analysis.fragments.len());
    let files = args.files.iter().map(|f| f.display().to_string());
    let files: Vec<String> = files.collect();
    let report = ShownEffects {
        profile: &profile,
        analysis: &analysis,
        shown: analysis.fragments.get(..count).unwrap_or_default(),
        files: shell_words(&files),
        all: args.all,
    };
    if let Some(path) = &args.svg {
        write_file(path, |out| Ok(plots::write_plots(&report, out)?))?;
    }
    let mut out = Screen::open_output(args.json);
    if args.json {
        write_json(&mut out, &effects_json(&profile, &analysis, report.shown))?
    } else {
        text::write_report(&report, &mut out)?
    }
    out.flush()?;
    for warning in &analysis.warnings {
        warn_user(warning);
    }
    Ok(explain_nothing(&report))
}

/// Keeps only the results for one progress point.
fn keep_point(analysis: &mut Analysis, profile: &CausalProfile, point: &str) -> anyhow::Result<()> {
    let points = profile.runs.iter().flat_map(|run| &run.points);
    let names: BTreeSet<&str> = points.map(|point| point.name.as_str()).collect();
    if !names.contains(point) {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(usage_refusal(format!(
            "there is no progress point '{point}'; the profile has: {}",
            names.join(", ")
        )));
    }
    analysis.keep_point(point);
    Ok(())
}

/// Explains why the experiments tell nothing, if so.
fn explain_nothing(report: &ShownEffects<'_>) -> ExitCode {
    let effects = report.analysis.fragments.iter().flat_map(|f| &f.effects);
    if effects
        .clone()
        .any(|effect| effect.verdict != EffectVerdict::Unclear)
    {
        return ExitCode::SUCCESS;
    }
    let profile = report.profile;
    let points: usize = profile.runs.iter().map(|run| run.points.len()).sum();
    let fragments: usize = profile.runs.iter().map(|run| run.fragments.len()).sum();
    let why = if profile.runs.is_empty() {
        "the profile has no run"
    } else if fragments == 0 {
        "nothing in scope was ever sampled"
    } else if points == 0 {
        "no progress point was visited"
    } else if report.analysis.experiments == 0 {
        "no experiment was carried out"
    } else if report.analysis.fragments.is_empty() {
        "there are too few experiments with any line"
    } else {
        "the experiments do not tell yet what any line is worth"
    };
    tell_user(why);
    ExitCode::from(INCONCLUSIVE)
}
