//! `vitalfew annotate`.

mod autofdo;
mod branches;
mod cfg;
mod code;
mod counts;
mod cycles;
mod data;
mod json;
mod listing;
mod procedure;
mod select;
mod summary;

use crate::args::Annotate as Args;
use crate::commands::skid;
use crate::exit::{Coded, INCONCLUSIVE, USAGE};
use crate::output::{printable, write_file};
use crate::screen::{Screen, tell_user, warn_user};
use crate::source;
use analysis::stall::culprits::Summary;
use autofdo::SampleProfile;
use code::Code;
use counts::{Given as Counts, Lines};
use machine::{Model, PROCESSORS, Processor};
use procedure::{Analysed, Basis, Given, analyse};
use profile::{Collector, ImageOffset, Recording, Seen, Stretch, Unit};
use select::{Chosen, Selection};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use store::Wanted;
use symbols::ImageSymbols;

/// Of a whole profile, procedures with less than this share of the samples are not looked into.
const LEAST: f64 = 0.001;

/// What holds for all procedures of a recording.
pub struct Setting {
    /// The model of the processor.
    pub model: Model,
    /// The name of the time event.
    pub event: String,
    /// Cycles between samples, where the clock is known.
    pub period: Option<f64>,
    /// All samples of the event.
    pub total: f64,
    /// What other tools counted.
    counts: Counts,
    /// Whether there are branch records, recorded or given.
    records: bool,
    /// The path of the image of what is shown.
    pub image: String,
    /// Instructions by which its samples may come late on this machine.
    late: usize,
    /// Directories with debug information.
    options: symbols::Options,
}

impl Setting {
    /// The counted lines of an image, if lines were counted.
    fn lines(&self, code: &ImageSymbols) -> anyhow::Result<Option<Lines>> {
        let counts = self.counts.lines.as_ref();
        counts.map(|counts| Lines::new(code, counts)).transpose()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (wanted, source) = positional(args);
    let recording = source::open(&source, Wanted::ALL)?;
    if recording.collector == Collector::Import {
        return Err(usage(format!(
            "this is a profile of another tool ({}), without instructions; vitalfew bottlenecks and vitalfew report read it",
            source.path.unwrap_or_default().display()
        )));
    }
    let event = source::event(&recording, args.event.as_deref())?;
    if recording.event(event).unit != Unit::Samples {
        return Err(usage(format!(
            "{} measures waiting; annotate is about time samples",
            recording.event(event).name
        )));
    }
    let mut setting = setting(args, &source, &recording, event)?;
    let selection = Selection::new(&recording, event, args.image.as_deref());
    setting.total = selection.total;
    if selection.total <= 0.0 {
        return Err(inconclusive(format!(
            "the recording has no samples of {}",
            setting.event
        )));
    }
    setting.late = trust(&recording, &setting)?;
    if let Some(path) = &args.autofdo {
        return optimiser(path, &recording, &setting, &selection);
    }
    let Some(wanted) = wanted else {
        return whole(args, &recording, &setting, &selection);
    };
    let chosen = selection.choose(&wanted, &source)?;
    setting
        .image
        .clone_from(&recording.image(chosen.image).path);
    let code = open_checked(&recording, &chosen, &setting)?;
    let lines = setting.lines(&code)?;
    let given = given(
        &recording,
        &setting,
        &selection,
        &chosen,
        &code,
        lines.as_ref(),
    )?;
    let analysed = analyse(&given, &setting.model)?;
    if analysed.total() <= 0.0 {
        return Err(inconclusive(format!("no sample is in {}", analysed.name)));
    }
    show(args, &setting, &analysed, &code)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses samples that say nothing about single instructions; by how many they may be late.
fn trust(recording: &Recording, setting: &Setting) -> anyhow::Result<usize> {
    match skid::of_recording(&recording.host, &setting.event) {
        Some(skid) if !skid.is_one_instruction() => Err(inconclusive(format!(
            "on this machine samples of {} do not fall right after the slow instruction (only {}), so that nothing can be said \
             about single ones",
            setting.event,
            skid::describe(&skid)
        ))),
        Some(skid) if skid.is_sharp() => Ok(0),
        Some(_) => Ok(setting.model.processor().width as usize),
        None => {
            warn_user(&format!(
                "this machine cannot tell where {} samples fall on {}; run vitalfew doctor on that machine",
                setting.event, recording.host.name
            ));
            Ok(0)
        }
    }
}

fn show(
    args: &Args,
    setting: &Setting,
    analysed: &Analysed,
    code: &ImageSymbols,
) -> anyhow::Result<()> {
    if let Some(path) = &args.cfg {
        let text = cfg::render(path, analysed).ok_or_else(|| {
            usage(format!(
                "{}: write to a name that ends in .svg or .dot",
                path.display()
            ))
        })?;
        return write_file(path, |out| Ok(out.write_all(text.as_bytes())?));
    }
    let mut out = Screen::open(args.json);
    if args.json {
        json::write(&mut out, setting, analysed)?;
    } else {
        listing::head(&mut out, setting, analysed)?;
        if args.summary {
            summary::write(&mut out, &analysed.summary())?;
        } else {
            let lines = if args.lines {
                listing::Lines::of(code, analysed)
            } else {
                listing::Lines::default()
            };
            listing::write(&mut out, setting, analysed, &lines, args.all)?;
        }
    }
    out.flush()?;
    warn(setting, analysed);
    Ok(())
}

/// The summary of all procedures.
fn whole(
    args: &Args,
    recording: &Recording,
    setting: &Setting,
    selection: &Selection<'_>,
) -> anyhow::Result<ExitCode> {
    let mut sum = Summary::new();
    let mut basis = None;
    let mut procedures = 0;
    let mut records = 0;
    let mut failures = Vec::new();
    for (_, mut chosen) in selection.by_image() {
        chosen.retain(|one| one.samples >= LEAST * selection.total);
        let Some(first) = chosen.first() else {
            continue;
        };
        let code = match open_checked(recording, first, setting) {
            Ok(code) => code,
            Err(error) => {
                failures.push(error.to_string());
                continue;
            }
        };
        failures.extend(each(
            recording,
            setting,
            selection,
            &code,
            &chosen,
            |analysed| {
                basis = basis.or(Some(analysed.basis));
                procedures += 1;
                records += analysed.contradictions.1;
                sum.join(&analysed.summary());
                Ok(())
            },
        ));
    }
    let outside = selection.total - sum.samples;
    sum.samples += outside;
    sum.unknown += outside;
    if procedures == 0 {
        let why = failures
            .first()
            .map_or("no procedure is known", String::as_str);
        return Err(inconclusive(format!("nothing can be said: {why}")));
    }
    let mut out = Screen::open(args.json);
    if args.json {
        json::write_summary(&mut out, setting, &sum, procedures)?;
    } else {
        listing::whole_head(
            &mut out,
            setting,
            procedures,
            basis.map(|basis| (basis, records)),
        )?;
        summary::write(&mut out, &sum)?;
    }
    out.flush()?;
    warn_of(&failures);
    Ok(ExitCode::SUCCESS)
}

/// The first few of what could not be analysed.
fn warn_of(failures: &[String]) {
    for failure in failures.iter().take(5) {
        warn_user(failure);
    }
    if failures.len() > 5 {
        let more = failures.len() - 5;
        warn_user(&format!("and {more} more like these"));
    }
}

/// Analyses procedures of one image; what could not be.
fn each(
    recording: &Recording,
    setting: &Setting,
    selection: &Selection<'_>,
    code: &ImageSymbols,
    chosen: &[Chosen],
    mut visit: impl FnMut(&Analysed) -> anyhow::Result<()>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let lines = setting.lines(code).unwrap_or_else(|error| {
        failures.push(error.to_string());
        None
    });
    for one in chosen {
        let analysed = given(recording, setting, selection, one, code, lines.as_ref())
            .and_then(|given| analyse(&given, &setting.model))
            .and_then(|analysed| visit(&analysed));
        failures.extend(analysed.err().map(|error| error.to_string()));
    }
    failures
}

/// A sample profile for a compiler, of the image with most samples.
fn optimiser(
    path: &Path,
    recording: &Recording,
    setting: &Setting,
    selection: &Selection<'_>,
) -> anyhow::Result<ExitCode> {
    let samples = |chosen: &[Chosen]| chosen.iter().map(|one| one.samples).sum::<f64>();
    let images = selection.by_image().into_iter();
    let files = images.filter(|(image, _)| recording.image(*image).is_file());
    let most = files.max_by(|a, b| samples(&a.1).total_cmp(&samples(&b.1)));
    let Some((image, chosen)) = most else {
        return Err(inconclusive(
            "no sample is in a procedure of a file".to_owned(),
        ));
    };
    let image = printable(&recording.image(image).path);
    let code = open_checked(recording, &chosen[0], setting)?;
    let debug = code.debug_info()?.ok_or_else(|| {
        inconclusive(format!(
            "{image}: no debug information; compile it with -g1 -fdebug-info-for-profiling, and record again"
        ))
    })?;
    let mut profile = SampleProfile::default();
    let mut omitted = Vec::new();
    let failures = each(recording, setting, selection, &code, &chosen, |analysed| {
        match autofdo::omission_reason(analysed) {
            Some(why) => omitted.push((analysed.name.clone(), analysed.total(), why)),
            None => profile.add(analysed, &code, &debug, setting)?,
        }
        Ok(())
    });
    if profile.functions.is_empty() {
        let why = failures.first().map(String::as_str);
        let why = why.or(omitted.first().map(|one| one.2));
        let why = why.unwrap_or("the debug information names no place with samples");
        return Err(inconclusive(format!("{image}: {why}")));
    }
    write_file(path, |out| {
        Ok(formats::write::autofdo::write(&profile.functions, out)?)
    })?;
    let share = 100.0 * profile.named / selection.total;
    tell_user(&format!(
        "{}: {} functions of {image}, {share:.1} % of the samples",
        path.display(),
        profile.functions.len(),
    ));
    warn_omitted(&omitted, selection.total);
    warn_of(&failures);
    Ok(ExitCode::SUCCESS)
}

/// Names the procedures that a profile for a compiler leaves out, by reason.
fn warn_omitted(omitted: &[(String, f64, &'static str)], total: f64) {
    let mut by_reason: BTreeMap<&str, (f64, Vec<String>)> = BTreeMap::new();
    for (name, samples, why) in omitted {
        let (sum, names) = by_reason.entry(why).or_default();
        *sum += samples;
        names.push(printable(name));
    }
    for (why, (samples, names)) in by_reason {
        warn_user(&format!(
            "left out, for {why}: {} ({:.1} % of the samples); the compiler goes by its own guess there",
            names.join(", "),
            100.0 * samples / total
        ));
    }
}

/// What the arguments mean: a lone one that is a file is the recording.
fn positional(args: &Args) -> (Option<String>, crate::args::Source) {
    let source = &args.source;
    let mut source = crate::args::Source {
        path: source.path.clone(),
        epoch: source.epoch.clone(),
        host: source.host.clone(),
        debug_dir: source.debug_dir.clone(),
    };
    let mut wanted = args.procedure.clone();
    let is_file = |name: &String| std::path::Path::new(name).exists();
    let of_all = args.summary || args.autofdo.is_some();
    if of_all && source.path.is_none() && wanted.as_ref().is_some_and(is_file) {
        source.path = wanted.take().map(Into::into);
    }
    (wanted, source)
}

fn setting(
    args: &Args,
    source: &crate::args::Source,
    recording: &Recording,
    event: profile::EventId,
) -> anyhow::Result<Setting> {
    let event = recording.event(event);
    let host = &recording.host;
    let names = || {
        PROCESSORS
            .iter()
            .map(|one| one.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let processor = match (&args.cpu, &host.cpu_id) {
        (Some(name), _) => Processor::named(name).ok_or_else(|| {
            usage(format!("there is no model of '{name}'; there are: {}", names()))
        })?,
        (None, Some(id)) => Processor::of_machine(id).ok_or_else(|| {
            usage(format!(
                "there is no model of the recording's processor ({}); choose the nearest with --cpu: {}",
                printable(id),
                names()
            ))
        })?,
        (None, None) => {
            return Err(usage(format!(
                "the recording does not say which processor it is of; say it with --cpu: {}",
                names()
            )));
        }
    };
    let clock = args
        .clock
        .map(|clock| clock * 1e9)
        .or(host.clock_hz.map(|hz| hz as f64));
    let period = match event.name.split(':').next() {
        Some("cpu-clock" | "task-clock") => clock.map(|hz| event.period as f64 * hz / 1e9),
        Some("cycles" | "cpu-cycles") => Some(event.period as f64),
        _ => None,
    };
    let counts = Counts::read(&args.counts)?;
    if counts.has_executions() && period.is_none() {
        return Err(usage(
            "counts compare with time only if the clock is known: --clock GHZ".to_owned(),
        ));
    }
    Ok(Setting {
        model: Model::new(processor),
        event: event.name.clone(),
        period: period.filter(|period| *period > 0.0),
        total: 0.0,
        records: counts.branches.is_some() || !recording.stretches.is_empty(),
        counts,
        image: String::new(),
        late: 0,
        options: crate::kept::symbol_options(source),
    })
}

/// Opens an image that the model is of.
fn open_checked(
    recording: &Recording,
    chosen: &Chosen,
    setting: &Setting,
) -> anyhow::Result<ImageSymbols> {
    let code = open_image(recording, chosen, &setting.options)?;
    check(&code, &setting.model)?;
    Ok(code)
}

fn open_image(
    recording: &Recording,
    chosen: &Chosen,
    options: &symbols::Options,
) -> anyhow::Result<ImageSymbols> {
    let image = recording.image(chosen.image);
    if !image.is_file() {
        return Err(inconclusive(format!(
            "{} is not a file: its code cannot be read",
            printable(&image.path)
        )));
    }
    let keep = "put the recorded file back, or record again with --keep-images";
    let code = ImageSymbols::of_recording(image, options).map_err(|error| match error {
        symbols::Error::Replaced { .. } | symbols::Error::Gone { .. } => {
            let id = image.build_id.as_ref();
            let id = id.map_or(String::new(), |id| format!(" (build-id {id})"));
            anyhow::anyhow!("{error}{id}; its samples mean nothing in another file: {keep}")
        }
        error => error.into(),
    })?;
    if !code.has_code() {
        anyhow::bail!("{}: a debug file without code", code.path().display());
    }
    Ok(code)
}

fn check(code: &ImageSymbols, model: &Model) -> anyhow::Result<()> {
    let processor = model.processor();
    match (Code(code)).architecture() {
        Some(architecture) if architecture == processor.architecture => Ok(()),
        Some(_) => Err(usage(format!(
            "{} is not for {}: choose another with --cpu",
            code.path().display(),
            processor.name
        ))),
        None => anyhow::bail!(
            "{}: only x86-64 and AArch64 are decoded",
            code.path().display()
        ),
    }
}

fn given<'a>(
    recording: &'a Recording,
    setting: &'a Setting,
    selection: &'a Selection<'_>,
    chosen: &Chosen,
    code: &'a ImageSymbols,
    lines: Option<&'a Lines>,
) -> anyhow::Result<Given<'a>> {
    let size = usize::try_from(chosen.size).unwrap_or(usize::MAX);
    if size > machine::MAX_PROCEDURE {
        anyhow::bail!(
            "{}: {} is said to have {} bytes; at most {} are analysed",
            code.path().display(),
            chosen.name,
            chosen.size,
            machine::MAX_PROCEDURE
        );
    }
    if size == 0 {
        anyhow::bail!(
            "{}: the size of {} is not known; give START..END",
            code.path().display(),
            chosen.name
        );
    }
    let stacks = setting.counts.branches.as_ref();
    let image = recording.image(chosen.image);
    let within = |at: ImageOffset| (at.0.wrapping_sub(chosen.start.0)) < chosen.size;
    let own = recording.stretches.iter();
    let own = own.filter(|one| one.image == chosen.image);
    let own = own.map(|one| (one.stretch, one.seen));
    let given = stacks.into_iter().flat_map(|stacks| stacks.of(image));
    let inside = |(one, _): &(Stretch, Seen)| within(one.start) && within(one.branch);
    Ok(Given {
        name: chosen.name.clone(),
        code: Code(code),
        start: chosen.start,
        size,
        samples: selection.samples(chosen.image),
        events: selection.events(chosen.image),
        branches: recording
            .branches
            .iter()
            .filter(|one| one.image == chosen.image)
            .collect(),
        stretches: own.chain(given).filter(inside).collect(),
        accesses: recording
            .accesses
            .iter()
            .filter(|one| one.image == chosen.image && within(one.instruction))
            .collect(),
        everywhere: recording.kernel.then_some(selection.everywhere),
        counts: setting.counts.instructions.as_ref(),
        lines,
        instructions: selection.instructions(chosen),
        period: setting.period,
        kernel: recording.kernel.then_some(selection.kernel),
        late: setting.late,
        // Only a lone thread is known to share nothing.
        shared: recording.task_times.and_then(|times| times.threads) != Some(1),
    })
}

/// What makes the result doubtful.
fn warn(setting: &Setting, analysed: &Analysed) {
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
    if counts.instructions.is_some() && analysed.basis != Basis::Counts {
        say("the counts have no such procedure; frequencies are estimated");
    }
    if counts.lines.is_some() && !matches!(analysed.basis, Basis::Lines(_) | Basis::Counts) {
        say(
            "the counts have no line that is in one place of this procedure only; frequencies are estimated",
        );
    }
    let (contradictions, stretches) = analysed.contradictions;
    if setting.records && stretches == 0 && analysed.basis != Basis::Counts {
        say("no branch record is of this procedure (in an image with the recording's build-id)");
    }
    if contradictions as f64 > 0.01 * stretches as f64 {
        say(&format!(
            "{contradictions} of {stretches} ways between branch records are none of this code: records are missing"
        ));
    }
    let astray = analysed.astray / analysed.total().max(f64::MIN_POSITIVE);
    if astray > 0.01 {
        say(&format!(
            "{:.1} % of the samples are between instructions, in data",
            100.0 * astray
        ));
    }
}

fn usage(message: String) -> anyhow::Error {
    Coded {
        code: USAGE,
        message,
    }
    .into()
}

fn inconclusive(message: String) -> anyhow::Error {
    Coded {
        code: INCONCLUSIVE,
        message,
    }
    .into()
}
