//! `vitalfew record`.

use crate::args::{CallGraphArg, CollectorArg, Record};
use crate::losses::loss_warnings;
use crate::output::{create_private_files, format_bytes, format_ns, group_digits};
use crate::screen::{tell_user, warn_user};
use crate::times::{time_advice, time_line};
use crate::wrapped::{self, Line, Signals};
use orchestration::{make_tables_later, making_note, table_directory};
use profile::{CallGraph, Collector, Recording};
use sampler::{EventSpec, Options, Path, Progress, Rate, Separation, TargetSpec};
use std::process::ExitCode;
use std::time::Instant;
use store::{Database, WrittenFile};

/// Runs the command.
pub fn run(args: &Record) -> anyhow::Result<ExitCode> {
    let options = record_options(args)?;
    // Checked before anything runs: whether the recording can be stored.
    if args.all && !args.shared {
        // Only here, because a command that is started would create its files so, too.
        create_private_files();
    }
    let database = match &args.output {
        Some(file) => check_writable(file).map(|()| None)?,
        None => Some(results::create_database()?),
    };
    let signals = Signals::catch_signals()?;
    let mut talk = Talk::new(args.quiet);
    let mut outcome = sampler::record(&options, &signals.stop, &mut |progress| {
        talk.take_progress(progress)
    })?;
    talk.line.show("naming functions");
    if let Some(cgroup) = &args.cgroup {
        results::keep_cgroup(&mut outcome.recording, cgroup);
        if outcome.recording.samples.is_empty() {
            warn_user(&format!(
                "no sample was in a control group or container with '{cgroup}' in its name: vitalfew record -a, then report --by cgroup, lists them"
            ));
        }
    }
    // Now, because a rebuild replaces files in place, and the reader may be another machine.
    symbols::embed_procedures(&mut outcome.recording, &symbols::SymbolOptions::default());
    if args.keep_images {
        keep_images(&mut outcome.recording, database.as_ref(), args);
    }
    let recording = &outcome.recording;
    talk.line.clear();
    let stored = match (&database, &args.output) {
        (Some(database), _) => store::store_recording(database, recording),
        (None, Some(file)) => store::write_file(recording, file),
        (None, None) => unreachable!("either a file or a database"),
    };
    let written = stored.or_else(|error| keep_elsewhere(recording, error))?;
    if !args.quiet {
        summarize(recording, &written, outcome.own_cpu_ns, args, &talk.notes);
    }
    if make_tables_later(&outcome.without_tables) && !args.quiet {
        tell_user(&making_note(&outcome.without_tables));
    }
    signals.pass_on(outcome.running.as_ref());
    let exit = outcome
        .exit
        .or_else(|| wrapped::wait_for_saved_command(outcome.running, &signals, args.quiet));
    wrapped::tell_signal(exit, args.quiet);
    Ok(match exit {
        None if args.pid.is_some() || args.all => ExitCode::SUCCESS,
        exit => wrapped::exit_code(exit),
    })
}

/// Keeps the code beside the recording. If that fails, the recording says so, because the recording
/// matters more.
fn keep_images(recording: &mut Recording, database: Option<&Database>, args: &Record) {
    let directory = match (database, &args.output) {
        (Some(database), _) => results::in_database(&store::written_database(database.path())),
        (None, Some(file)) => results::beside_file(file),
        (None, None) => return,
    };
    let warnings = results::keep_images(recording, &directory);
    let warnings = warnings.unwrap_or_else(|error| vec![format!("{error:#}")]);
    recording.warnings.extend(warnings);
}

fn record_options(args: &Record) -> anyhow::Result<Options> {
    let target = match (args.all, args.pid) {
        (true, _) => TargetSpec::Machine,
        (_, Some(pid)) => TargetSpec::Process(pid),
        _ => TargetSpec::Command(args.command.clone()),
    };
    let mut options = Options::new(target);
    options.events = args
        .events
        .iter()
        .flat_map(|list| list.split(','))
        .map(EventSpec::parse)
        .collect::<Result<_, _>>()?;
    options.rate = args
        .frequency
        .map_or(Rate::Overhead(args.overhead), Rate::Frequency);
    match args.call_graph {
        Some(CallGraphArg::Dwarf(bytes)) => {
            options.call_graph = CallGraph::Dwarf;
            options.stack_bytes = bytes;
        }
        Some(CallGraphArg::FramePointer) => options.call_graph = CallGraph::FramePointer,
        Some(CallGraphArg::Auto) => options.call_graph = CallGraph::Tables,
        None if has_stacks(args, &options.events) => options.call_graph = CallGraph::Tables,
        None => {}
    }
    options.table_memory = (args.unwind_memory as usize) << 20;
    options.table_directory = table_directory();
    options.ask_runtimes = !args.no_attach;
    options.off_cpu = args.off_cpu;
    options.registers = args.registers;
    options.branches = args.branches;
    options.path_bursts = args.path_bursts;
    options.duration = args.duration;
    options.timeline = args.timeline;
    options.separation = match (args.per_thread || args.timeline, args.per_process) {
        (true, _) => Separation::Threads,
        (_, true) => Separation::Processes,
        _ => Separation::Names,
    };
    options.path = match args.collector {
        CollectorArg::Auto => Path::Best,
        CollectorArg::Bpf => Path::Kernel,
        CollectorArg::Ring => Path::Rings,
    };
    Ok(options)
}

/// Returns whether call stacks are recorded if no way is given. Samples with registers or branch
/// records come one by one through ring buffers and have no room for stacks, unless these are
/// requested.
fn has_stacks(args: &Record, events: &[EventSpec]) -> bool {
    let one_by_one = args.registers || args.branches || events.iter().any(|event| event.branches);
    args.stacks || !(args.no_stacks || one_by_one)
}

fn check_writable(file: &std::path::Path) -> anyhow::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => std::path::Path::new("."),
    };
    if !directory.is_dir() {
        anyhow::bail!("{}: there is no such directory", directory.display());
    }
    if file.is_dir() {
        anyhow::bail!("{}: is a directory; --db stores into one", file.display());
    }
    Ok(())
}

/// Stores the recording elsewhere if its place is full or gone, because a measurement cannot be
/// repeated at will.
fn keep_elsewhere(recording: &Recording, error: store::StoreError) -> anyhow::Result<WrittenFile> {
    let name = format!("vitalfew-{}.vf", recording.start_unix_ns);
    let path = std::env::temp_dir().join(name);
    match store::write_file(recording, &path) {
        Ok(written) => {
            tell_user(&format!(
                "{error}; the recording is in {} instead",
                path.display()
            ));
            Ok(written)
        }
        Err(_) => Err(error.into()),
    }
}

/// Messages while recording, on standard error.
struct Talk {
    quiet: bool,
    line: Line,
    start: Instant,
    said: Instant,
    /// Notes printed at the start, which need not be repeated.
    notes: Vec<String>,
}

impl Talk {
    fn new(quiet: bool) -> Self {
        let now = Instant::now();
        Self {
            quiet,
            line: Line::new(quiet),
            start: now,
            said: now,
            notes: Vec::new(),
        }
    }

    fn take_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Started {
                events,
                collector,
                sample_cost_ns,
                notes,
            } if !self.quiet => {
                let events: Vec<String> = events
                    .into_iter()
                    .map(|(name, rate)| match rate {
                        Some(rate) => format!("{name} at {} Hz", group_digits(rate)),
                        None => name,
                    })
                    .collect();
                let way = match collector {
                    Collector::Ring => " through ring buffers",
                    _ => "",
                };
                let cost = sample_cost_ns.map_or(String::new(), |ns| {
                    format!(" (a sample costs {} here)", format_ns(ns as f64))
                });
                tell_user(&format!("recording {}{way}{cost}", events.join(", ")));
                notes.iter().for_each(|note| tell_user(note));
                self.notes = notes;
            }
            Progress::Samples(samples) if self.said.elapsed().as_millis() >= 500 => {
                self.said = Instant::now();
                let seconds = self.start.elapsed().as_secs();
                let samples = group_digits(samples);
                let text = format!("{seconds} s, {samples} samples");
                self.line.show(&text);
            }
            _ => {}
        }
    }
}

fn summarize(
    recording: &Recording,
    written: &WrittenFile,
    own_cpu_ns: u64,
    args: &Record,
    said: &[String],
) {
    let events: Vec<String> = recording
        .events
        .iter()
        .map(|event| {
            let kind = match event.unit {
                profile::Unit::Samples => "samples",
                profile::Unit::Nanoseconds => "waits",
            };
            let mut text = format!("{} {} {kind}", group_digits(event.stored), event.name);
            if event.dropped + event.lost > 0 {
                text += &format!(" ({} lost)", group_digits(event.dropped + event.lost));
            }
            text
        })
        .collect();
    for warning in loss_warnings(recording) {
        warn_user(&warning);
    }
    tell_user(&time_line(recording));
    tell_user(&format!(
        "{}; {} in {}; own CPU time {}",
        events.join(", "),
        format_bytes(written.bytes),
        written.path.display(),
        format_ns(own_cpu_ns as f64),
    ));
    let warnings = recording.warnings.iter();
    for warning in warnings.filter(|w| !said.contains(w)) {
        if warning.starts_with(profile::FRAMES_SUMMARY) {
            tell_user(warning)
        } else {
            warn_user(warning)
        }
    }
    if let Some(advice) = time_advice(recording) {
        tell_user(&advice);
    }
    if recording.samples.is_empty() {
        tell_user(&nothing_sampled(recording));
        return;
    }
    let usual = args.output.is_none() && args.database.db.is_none() && !written.path.is_file();
    let place = if usual {
        String::new()
    } else {
        format!(" {}", written.path.display())
    };
    tell_user(&format!("next: vitalfew report{place}"));
}

/// Explains why there is no sample, with a remedy.
fn nothing_sampled(recording: &Recording) -> String {
    let Some(times) = recording.task_times else {
        return "nothing was sampled; vitalfew doctor says what can be measured here".to_owned();
    };
    let ran = format_ns(times.cpu_ns as f64);
    let timed = recording
        .events
        .iter()
        .find(|event| event.frequency.is_some());
    let Some(rate) = timed.and_then(|event| event.frequency) else {
        return format!("nothing was sampled: in {ran} of CPU time no event of the kind came");
    };
    let every = 1e9 / rate;
    if (times.cpu_ns as f64) < 5.0 * every {
        let least = group_digits((rate * 10.0) as u64);
        return format!(
            "nothing was sampled: it used {ran} of CPU time, and a sample is taken every {}; a higher rate (-F {least}) or more work gives some",
            format_ns(every)
        );
    }
    format!(
        "nothing was sampled of {ran} of CPU time: a set-uid program or one of another user is hidden from this user; record as root"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are the same, so that recordings can be compared with a `perf.data` that names no
    /// events.
    #[test]
    fn hardware_and_software_events_have_the_names_of_perf() {
        const GENERIC: [u32; 2] = [0, 1];
        let mut generic = 0;
        for name in EventSpec::event_names() {
            let event = EventSpec::parse(name).expect(name);
            if !GENERIC.contains(&event.perf_type) {
                continue;
            }
            let of_perf = formats::read::perf_event_name(event.perf_type, event.config);
            let same = EventSpec::parse(of_perf.expect(name)).expect(name);
            assert_eq!(
                (same.perf_type, same.config),
                (event.perf_type, event.config),
                "{name}"
            );
            generic += 1;
        }
        assert!(generic > 15, "{generic}");
    }
}
