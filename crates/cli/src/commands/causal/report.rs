//! `vitalfew causal report`.

use super::args::CausalReport as Args;
use super::{json, load, svg, text};
use crate::exit::{Coded, INCONCLUSIVE, USAGE};
use crate::output::write_file;
use crate::screen::{Screen, tell_user, warn_user};
use analysis::causal::{Analysis, FragmentEffects, Options, Verdict, analyse};
use profile::CausalProfile;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// So many findings without --all.
const VITAL_FEW: usize = 5;

/// What is reported, from which profile.
pub struct Report<'a> {
    /// The experiments.
    pub profile: &'a CausalProfile,
    /// What they say.
    pub analysis: &'a Analysis,
    /// The findings that are shown.
    pub shown: &'a [FragmentEffects],
    /// The files as they would be named again on a command line.
    pub files: String,
    /// Everything was asked for.
    pub all: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (profile, _) = load::load(&args.source)?;
    let options = Options {
        minimum_speedups: args.min_speedups.into(),
        ..Options::default()
    };
    let mut analysis = analyse(&profile, &options);
    if let Some(point) = &args.point {
        only(&mut analysis, &profile, point)?;
    }
    let count = if args.all { usize::MAX } else { VITAL_FEW };
    let count = count.min(analysis.fragments.len());
    let files = args.source.files.iter().map(|f| f.display().to_string());
    let report = Report {
        profile: &profile,
        analysis: &analysis,
        shown: analysis.fragments.get(..count).unwrap_or_default(),
        files: files.collect::<Vec<_>>().join(" "),
        all: args.all,
    };
    if let Some(path) = &args.svg {
        write_file(path, |out| Ok(svg::write(&report, out)?))?;
    }
    let mut out = Screen::open(args.json);
    match args.json {
        true => json::write(&report, &mut out)?,
        false => text::write(&report, &mut out)?,
    }
    out.flush()?;
    for warning in &analysis.warnings {
        warn_user(warning);
    }
    Ok(conclude(&report))
}

/// Leaves nothing but what is said of one progress point.
fn only(analysis: &mut Analysis, profile: &CausalProfile, point: &str) -> Result<(), Coded> {
    let points = profile.runs.iter().flat_map(|run| &run.points);
    let names: BTreeSet<&str> = points.map(|point| point.name.as_str()).collect();
    if !names.contains(point) {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(Coded {
            code: USAGE,
            message: format!(
                "there is no progress point '{point}'; the profile has: {}",
                names.join(", ")
            ),
        });
    }
    analysis.keep_point(point);
    Ok(())
}

/// Says why, if the experiments do not tell anything.
fn conclude(report: &Report<'_>) -> ExitCode {
    let effects = report.analysis.fragments.iter().flat_map(|f| &f.effects);
    if effects
        .clone()
        .any(|effect| effect.verdict != Verdict::Unclear)
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
