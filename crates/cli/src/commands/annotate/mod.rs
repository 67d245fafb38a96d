//! `vitalfew annotate`.

mod cfg;
mod count;
mod cycles;
mod data;
mod json;
mod listing;
mod script;
mod summary;

use crate::args::{Annotate as Args, Source};
use crate::output::{clean_name, group_digits, write_file};
use crate::screen::{Screen, tell_user, warn_user};
use crate::source;
use crate::wrapped::Signals;
use orchestration::refuse_late_samples;
use profile::{Collector, Unit};
use results::annotation::{
    AnnotatedProcedure, AnnotationOptions, AnnotationSetting, Annotator, FrequencyBasis,
    NamedFunctions, OmittedProcedure, SampleSelection,
};
use results::{event_named, inconclusive_refusal, usage_refusal};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use store::Wanted;
use symbols::ImageSymbols;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (wanted, source) = split_arguments(args);
    let signals = args.count.then(Signals::catch_signals).transpose()?;
    let recording = match &signals {
        Some(signals) if !count::is_recorded(args) => count::record_target(args, signals)?,
        _ => source::open_source(&source, Wanted::ALL)?,
    };
    if recording.collector == Collector::Import {
        return Err(usage_refusal(format!(
            "this is a profile of another tool ({}), without instructions; vitalfew bottlenecks and vitalfew report read it",
            source.path.unwrap_or_default().display()
        )));
    }
    let event = event_named(&recording, args.event.as_deref())?;
    if recording.event(event).unit != Unit::Samples {
        return Err(usage_refusal(format!(
            "{} measures waiting; annotate needs samples of time",
            recording.event(event).name
        )));
    }
    let options = AnnotationOptions {
        processor: args.cpu.as_deref(),
        clock_ghz: args.clock,
        counts: &args.counts,
    };
    let recording_source = source.recording_source();
    let mut setting = AnnotationSetting::new(&options, &recording_source, &recording, event)?;
    let selection = SampleSelection::new(&recording, event, args.image.as_deref());
    setting.total = selection.total;
    if selection.total <= 0.0 {
        return Err(inconclusive_refusal(format!(
            "the recording has no samples of {}",
            setting.event
        )));
    }
    setting.late = refuse_late_samples(&recording, &setting, &warn_user)?;
    let annotator = Annotator {
        recording: &recording,
        setting: &setting,
        selection: &selection,
    };
    if let Some(path) = &args.autofdo {
        return write_compiler_profile(path, &annotator);
    }
    let Some(wanted) = wanted else {
        return show_whole(args, &annotator);
    };
    let found = match selection.choose_procedure(&wanted, &source.debug_dir)? {
        NamedFunctions::Compiled(found) => found,
        NamedFunctions::Scripts(names) => {
            script::show_lines(args, &recording, event, &names, &recording_source)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    for other in &found.others {
        tell_user(&format!(
            "also '{}' of {}, {} samples",
            other.name,
            recording.image(other.image).path,
            group_digits(other.samples as u64)
        ));
    }
    let code = annotator.open_image(&found.chosen)?;
    let measured = signals
        .map(|signals| count::count_procedure(args, &signals, &annotator, &found.chosen, &code))
        .transpose()?;
    let (measured, refused) = measured.unzip();
    setting.measured = measured;
    let annotator = Annotator {
        recording: &recording,
        setting: &setting,
        selection: &selection,
    };
    let annotated = annotator.annotate_procedure(&found.chosen, &code)?;
    show_procedure(args, &setting, &annotated, &code)?;
    match &setting.measured {
        Some(measured) => {
            count::warn_without_rates(measured, &annotated, refused.flatten().as_ref());
        }
        None => {
            let advice = listing::scale_advice(&recording.target, &annotated);
            advice.iter().for_each(|advice| tell_user(advice));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_procedure(
    args: &Args,
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
    code: &ImageSymbols,
) -> anyhow::Result<()> {
    if let Some(path) = &args.cfg {
        return cfg::write_graph(path, analysed);
    }
    let mut out = Screen::open_output(args.json);
    if args.json {
        json::write_procedure(&mut out, setting, analysed, args.source.path.as_deref())?;
    } else {
        listing::write_head(&mut out, setting, analysed)?;
        if args.summary {
            summary::write_summary(&mut out, &analysed.cycle_summary())?;
        } else {
            let lines = if args.lines {
                listing::Lines::of(code, analysed)
            } else {
                listing::Lines::default()
            };
            listing::write_listing(&mut out, setting, analysed, &lines, args.all)?;
        }
    }
    out.flush()?;
    warn_of_doubts(setting, analysed);
    Ok(())
}

/// Prints the summary of all procedures.
fn show_whole(args: &Args, annotator: &Annotator<'_>) -> anyhow::Result<ExitCode> {
    let whole = annotator.summarize_procedures()?;
    let setting = annotator.setting;
    let mut out = Screen::open_output(args.json);
    if args.json {
        json::write_summary(&mut out, setting, &whole.summary, whole.procedures)?;
    } else {
        listing::whole_head(&mut out, setting, whole.procedures, whole.basis)?;
        summary::write_summary(&mut out, &whole.summary)?;
    }
    out.flush()?;
    warn_of(&whole.failures);
    Ok(ExitCode::SUCCESS)
}

/// Warns of the first few procedures that could not be analysed.
fn warn_of(failures: &[String]) {
    for failure in failures.iter().take(5) {
        warn_user(failure);
    }
    if failures.len() > 5 {
        let more = failures.len() - 5;
        warn_user(&format!("and {more} more like these"));
    }
}

/// Writes a sample profile for a compiler, for the image with the most samples.
fn write_compiler_profile(path: &Path, annotator: &Annotator<'_>) -> anyhow::Result<ExitCode> {
    let made = annotator.compiler_profile()?;
    let functions = &made.profile.functions;
    write_file(path, |out| {
        Ok(formats::write::autofdo::write_autofdo(functions, out)?)
    })?;
    let total = annotator.selection.total;
    let share = 100.0 * made.profile.named / total;
    tell_user(&format!(
        "{}: {} functions of {}, {share:.1} % of the samples",
        path.display(),
        functions.len(),
        clean_name(&made.image),
    ));
    warn_omitted(&made.omitted, total);
    warn_of(&made.failures);
    Ok(ExitCode::SUCCESS)
}

/// Names the procedures that a profile for a compiler leaves out, by reason.
fn warn_omitted(omitted: &[OmittedProcedure], total: f64) {
    let mut by_reason: BTreeMap<&str, (f64, Vec<String>)> = BTreeMap::new();
    for one in omitted {
        let (sum, names) = by_reason.entry(one.reason).or_default();
        *sum += one.samples;
        names.push(clean_name(&one.name));
    }
    for (why, (samples, names)) in by_reason {
        warn_user(&format!(
            "left out, for {why}: {} ({:.1} % of the samples); the compiler uses its own estimate there",
            names.join(", "),
            100.0 * samples / total
        ));
    }
}

/// Interprets the arguments: a single one that is a file is the recording.
fn split_arguments(args: &Args) -> (Option<String>, Source) {
    let mut source = args.source.clone();
    let mut wanted = args.procedure.clone();
    let is_file = |name: &String| std::path::Path::new(name).exists();
    let of_all = args.summary || args.autofdo.is_some();
    if of_all && source.path.is_none() && wanted.as_ref().is_some_and(is_file) {
        source.path = wanted.take().map(Into::into);
    }
    (wanted, source)
}

/// Warns of facts that make the result doubtful.
fn warn_of_doubts(setting: &AnnotationSetting, analysed: &AnnotatedProcedure) {
    let say = |what: &str| warn_user(what);
    let graph = &analysed.graph;
    if graph.misses_edges() {
        say(
            "some jumps of this procedure are not understood: ways through it are missing, so that neither cycles nor least \
             shares are given (--counts of callgrind gives cycles)",
        );
    }
    if graph.overlapping {
        say("instructions of this procedure overlap");
    }
    let counts = &setting.counts;
    if counts.instructions.is_some() && analysed.basis != FrequencyBasis::Counts {
        say("the counts have no such procedure; frequencies are estimated");
    }
    if counts.lines.is_some()
        && !matches!(
            analysed.basis,
            FrequencyBasis::Lines(_) | FrequencyBasis::Counts
        )
    {
        say(
            "no counted line belongs to one place of this procedure alone; frequencies are estimated",
        );
    }
    let (contradictions, stretches) = analysed.contradictions;
    if setting.records && stretches == 0 && analysed.basis != FrequencyBasis::Counts {
        say(
            "no branch record belongs to this procedure (in an image with the recording's build-id)",
        );
    }
    if contradictions as f64 > 0.01 * stretches as f64 {
        say(&format!(
            "{contradictions} of {stretches} paths between branch records do not exist in this code: records are missing"
        ));
    }
    let astray = analysed.astray / analysed.total_samples().max(f64::MIN_POSITIVE);
    if astray > 0.01 {
        say(&format!(
            "{:.1} % of the samples are between instructions, in data",
            100.0 * astray
        ));
    }
}
