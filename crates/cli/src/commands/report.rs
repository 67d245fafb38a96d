//! `vitalfew report`.

use crate::args::Report as Args;
use crate::exit::{Coded, INCONCLUSIVE, USAGE};
use crate::losses::loss_warnings;
use crate::output::{Align, Table, grouped, printable, shortened, time};
use crate::runtimes::runtime_advice;
use crate::screen::{Emphasis, Screen, sentence, tell_user, warn_user, width};
use crate::source;
use crate::times::{main_event, time_advice, time_line};
use profile::{CallGraph, Collector, EventId, Location, Recording, Target, TaskTimes, Unit};
use results::{
    CallNode, EventTotal, Report, ReportBy, call_tree, event_named, join_hosts, make_report,
    symbolize,
};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use store::{Range, Wanted};
use symbols::{Detail, Resolved};

/// Nodes of the call tree below this share of the total are left out.
const TREE_CUTOFF: f64 = 0.005;

/// Frames of the call tree are indented for so many levels at most.
const DEEPEST_INDENT: usize = 60;

/// The most of a command line that the footer repeats, in characters.
const LONGEST_COMMAND: usize = 160;

/// Shares of the first event: rows above are coloured, rows below are faint.
const HOT: f64 = 0.1;
const FAINT: f64 = 0.005;

/// The widest name in a table, in characters.
const WIDEST: usize = 72;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let by_thread = matches!(args.by, ReportBy::Process | ReportBy::Thread);
    let wanted = Wanted {
        processes: by_thread || args.by == ReportBy::Waker || args.filter.process.is_some(),
        ids: by_thread || args.filter.pid.is_some(),
        callers: true,
        threads: by_thread,
    };
    let mut chosen = args.source.clone();
    if args.by == ReportBy::Host
        && chosen.epoch.is_none()
        && chosen.recording_source().is_database()
    {
        chosen.epoch = Some(Range::default()); // all epochs: the last is of one host
    }
    let recording = source::open(&chosen, wanted)?;
    if recording.events.is_empty() {
        anyhow::bail!("the recording has no events");
    }
    let event = event(&recording, args)?;
    let resolved = resolve(&recording, args);
    let filter = args.filter.sample_filter();
    // What changes what the table means comes before it.
    recording
        .warnings
        .iter()
        .filter(|warning| !is_summary(warning))
        .for_each(|warning| warn_user(warning));
    let mut out = Screen::open(args.shown.json);
    if !args.shown.json {
        for warning in loss_warnings(&recording) {
            writeln!(out, "warning: {}", printable(&warning))?;
        }
    }
    if args.tree {
        print_head(&mut out, &recording)?;
        let root = call_tree(&recording, &resolved.table, &filter, event);
        print_tree(&mut out, &recording, &root, event)?;
    } else {
        let mut report = match args.by {
            ReportBy::Host => by_host(args, wanted)?,
            _ => make_report(&recording, &resolved.table, args.by, &filter, event),
        };
        let rows = report.rows.len();
        if !args.shown.all {
            report.rows.truncate(args.shown.limit);
        }
        if args.shown.json {
            print_json(&mut out, &recording, &report, rows)?;
        } else {
            print_head(&mut out, &recording)?;
            print_table(&mut out, args.by, &report, rows, args.shown.wide)?;
            print_footer(&mut out, &recording, &report)?;
        }
        if report.rows.is_empty() {
            drop(out);
            tell_user("no sample is of what was asked for");
            return Ok(ExitCode::from(INCONCLUSIVE));
        }
    }
    out.flush()?;
    drop(out);
    source::warn_of_gaps(&recording, event, &resolved, args.shown.all);
    for advice in runtime_advice(&recording, &resolved.table, event) {
        tell_user(&advice);
    }
    Ok(ExitCode::SUCCESS)
}

/// The report by host: what is merged no longer says which host it is of.
fn by_host(args: &Args, wanted: Wanted) -> anyhow::Result<Report> {
    let mut hosts = Vec::new();
    for recording in source::open_by_host(&args.source, wanted)? {
        // A host of a database may be without the event that is asked for.
        let Ok(event) = event(&recording, args) else {
            continue;
        };
        let resolved = resolve(&recording, args);
        hosts.push(make_report(
            &recording,
            &resolved.table,
            args.by,
            &args.filter.sample_filter(),
            event,
        ));
    }
    Ok(join_hosts(hosts))
}

/// Where the time went, before what the samples say of a part of it.
fn print_head(out: &mut impl Write, recording: &Recording) -> anyhow::Result<()> {
    if recording.collector == Collector::Import && recording.duration_ns == 0 {
        return Ok(()); // other tools' profiles mostly do not say
    }
    write!(out, "{}", sentence(&printable(&time_line(recording))))?;
    if let Some(advice) = time_advice(recording) {
        write!(out, "{}", sentence(&printable(&advice)))?;
    }
    Ok(())
}

/// The event that is reported: without a name that which took most; of the wakers, one that
/// measures waiting.
fn event(recording: &Recording, args: &Args) -> anyhow::Result<EventId> {
    let named = match &args.filter.event {
        None => EventId(main_event(recording) as u16),
        name => event_named(recording, name.as_deref())?,
    };
    let waits = |event: &EventId| recording.events[event.0 as usize].unit == Unit::Nanoseconds;
    if args.by != ReportBy::Waker || waits(&named) {
        return Ok(named);
    }
    let first = (0..recording.events.len() as u16).map(EventId).find(waits);
    match (first, &args.filter.event) {
        (Some(event), None) => Ok(event),
        (_, name) => Err(Coded {
            code: USAGE,
            message: format!(
                "nobody ends a wait in samples of {}: record with --off-cpu to see who wakes whom",
                name.as_deref().unwrap_or(&recording.events[0].name)
            ),
        }
        .into()),
    }
}

/// Looks up no more than the report shows.
fn resolve(recording: &Recording, args: &Args) -> Resolved {
    let detail = match args.by {
        ReportBy::Line => Detail::Lines,
        _ => Detail::Procedures,
    };
    let stacks = &recording.stacks;
    let all = args.tree || args.by == ReportBy::Waker || recording.call_graph != CallGraph::None;
    let locations: Vec<Location> = if all {
        stacks.frames().iter().map(|f| f.location).collect()
    } else if matches!(
        args.by,
        ReportBy::Image | ReportBy::Process | ReportBy::Thread | ReportBy::Host
    ) && args.filter.procedure.is_none()
    {
        Vec::new()
    } else {
        let leaf = |s: &profile::Sample| stacks.frame(s.stack).location;
        let image = |l: &Location| recording.image(l.image).path.as_str();
        let wanted = |l: &Location| {
            let part = args.filter.image.as_deref();
            part.is_none_or(|part| image(l).contains(part))
        };
        recording.samples.iter().map(leaf).filter(wanted).collect()
    };
    symbolize(
        recording,
        locations,
        detail,
        &args.source.recording_source(),
    )
}

fn show(event: &EventTotal, amount: f64) -> String {
    match event.unit {
        Unit::Samples => grouped(amount.round() as u64),
        Unit::Nanoseconds => time(amount),
    }
}

fn percent(part: f64, total: f64) -> String {
    if total > 0.0 {
        format!("{:.2}%", 100.0 * part / total)
    } else {
        "-".to_owned()
    }
}

fn print_table(
    out: &mut impl Write,
    by: ReportBy,
    report: &Report,
    rows: usize,
    wide: bool,
) -> anyhow::Result<()> {
    let totals: Vec<String> = report
        .events
        .iter()
        .map(|event| format!("{} = {}", event.name, show(event, event.total)))
        .collect();
    let totals = format!("Total samples for event type {}", totals.join(", "));
    writeln!(out, "{}", sentence(&totals))?;
    let inclusive = report.rows.iter().any(|row| row.inclusive.is_some());
    let (name, detail) = match by {
        ReportBy::Image => ("image", None),
        ReportBy::Procedure => ("procedure", None),
        ReportBy::Line => ("line", Some("function")),
        ReportBy::Instruction => ("offset", Some("procedure")),
        ReportBy::Process => ("process", Some("id")),
        ReportBy::Thread => ("thread", Some("ids")),
        ReportBy::Waker => ("waker", Some("procedure")),
        ReportBy::Host => ("host", None),
    };
    let mut columns = vec![];
    let mut spared = vec![];
    for (index, event) in report.events.iter().enumerate() {
        columns.push((event.name.clone(), Align::Right));
        columns.push(("%".to_owned(), Align::Right));
        if index > 0 {
            spared.insert(0, columns.len() - 1);
        }
        if index == 0 {
            spared.push(columns.len());
            columns.push(("cum%".to_owned(), Align::Right));
            if inclusive {
                columns.push(("incl%".to_owned(), Align::Right));
            }
        }
    }
    columns.push((name.to_owned(), Align::Left));
    let details = detail.filter(|_| report.rows.iter().any(|row| row.detail.is_some()));
    columns.extend(details.map(|detail| (detail.to_owned(), Align::Left)));
    let images = report.rows.iter().any(|row| row.image.is_some());
    if images {
        columns.push(("image".to_owned(), Align::Left));
    }
    let mut table = Table::new(columns);
    table.leave_out_first(spared);
    let mut cumulative = 0.0;
    for row in &report.rows {
        let mut cells = vec![];
        for (index, event) in report.events.iter().enumerate() {
            let amount = row.amounts[index];
            cells.push(show(event, amount));
            cells.push(percent(amount, event.total));
            if index == 0 {
                cumulative += amount;
                cells.push(percent(cumulative, event.total));
                if inclusive {
                    cells.push(percent(row.inclusive.unwrap_or(0.0), event.total));
                }
            }
        }
        let cell = |text: &str| shortened(&printable(text), if wide { usize::MAX } else { WIDEST });
        cells.push(cell(&row.name));
        if details.is_some() {
            cells.push(cell(row.detail.as_deref().unwrap_or("")));
        }
        if images {
            cells.push(printable(row.image.as_deref().unwrap_or("")));
        }
        let share = row.amounts[0] / report.events[0].total.max(f64::MIN_POSITIVE);
        let emphasis = match share {
            s if s >= HOT => Emphasis::Hot,
            s if s < FAINT => Emphasis::Faint,
            _ => Emphasis::Plain,
        };
        table.emphasized_row(cells, emphasis);
    }
    write!(out, "{}", table.render())?;
    if rows > report.rows.len() {
        writeln!(out, "{} more with --all", rows - report.rows.len())?;
    }
    Ok(())
}

fn print_footer(
    out: &mut impl Write,
    recording: &Recording,
    report: &Report,
) -> anyhow::Result<()> {
    writeln!(out)?;
    for total in &report.events {
        let Some(event) = recording.events.iter().find(|e| e.name == total.name) else {
            continue;
        };
        let rate = event
            .frequency
            .map_or(String::new(), |hz| format!(" at {} Hz", grouped(hz as u64)));
        let scale = if event.multiplex_scale > 1.0 {
            format!(
                ", counts times {:.2} (shared counter)",
                event.multiplex_scale
            )
        } else {
            String::new()
        };
        let accounts = format!(
            "{}: {} taken{rate}, {} stored, {} dropped, {} lost{scale}; in unknown code {}",
            event.name,
            grouped(event.taken),
            grouped(event.stored),
            grouped(event.dropped),
            grouped(event.lost),
            percent(total.unknown, total.total),
        );
        write!(out, "{}", sentence(&printable(&accounts)))?;
    }
    if let Some(share) = report
        .complete_stacks
        .filter(|_| recording.collector != Collector::Import)
    {
        let way = match recording.call_graph {
            CallGraph::Dwarf => "unwind tables",
            CallGraph::Tables => "unwind tables and frame pointers",
            _ => "frame pointers",
        };
        let reach = format!(
            "call stacks by {way}: {:.1}% reach the start of their program or thread",
            100.0 * share
        );
        write!(out, "{}", sentence(&reach))?;
        for summary in recording.warnings.iter().filter(|w| is_summary(w)) {
            write!(out, "{}", sentence(&printable(summary)))?;
        }
        let too_deep = report.too_deep_stacks.unwrap_or(0.0);
        if too_deep > 0.01 {
            writeln!(
                out,
                "{:.1}% are deeper than the 127 frames that are followed",
                100.0 * too_deep
            )?;
        }
        if share + too_deep < 0.5 && recording.call_graph == CallGraph::FramePointer {
            let advice = "most call stacks end early, as in code without frame pointers: record -g unwinds that where BPF may be loaded, --call-graph dwarf elsewhere";
            write!(out, "{}", sentence(advice))?;
        }
    }
    let what = match &recording.target {
        Target::Command(command) => shortened(&command.join(" "), LONGEST_COMMAND),
        Target::Process(pid) => format!("process {pid}"),
        Target::Machine => "the whole machine".to_owned(),
    };
    let way = match recording.collector {
        Collector::Bpf => "counted in the kernel",
        Collector::Ring => "through ring buffers",
        Collector::Import => "imported",
    };
    let host = match recording.host.name.as_str() {
        "" => String::new(),
        name => format!(" on {name}"),
    };
    let source = format!("{what}{host}, {way}");
    write!(out, "{}", sentence(&printable(&source)))?;
    let clock = report
        .events
        .iter()
        .any(|e| e.name.starts_with("cpu-clock"));
    if clock {
        let meaning = "cpu-clock: a timer, not the processor's cycles; code that runs with interrupts off is seen where they go on again";
        write!(out, "{}", sentence(meaning))?;
    }
    Ok(())
}

/// The documented JSON form of a report.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    target: &'a Target,
    host: &'a profile::Host,
    start_unix_ns: u64,
    duration_ns: u64,
    /// How the target's threads spent it; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_times: Option<TaskTimes>,
    collector: Collector,
    call_graph: CallGraph,
    recorded_events: &'a [profile::Event],
    warnings: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
    rows_total: usize,
}

fn print_json(
    out: &mut impl Write,
    recording: &Recording,
    report: &Report,
    rows_total: usize,
) -> anyhow::Result<()> {
    let json = Json {
        schema: "vitalfew.report/1",
        target: &recording.target,
        host: &recording.host,
        start_unix_ns: recording.start_unix_ns,
        duration_ns: recording.duration_ns,
        task_times: recording.task_times,
        collector: recording.collector,
        call_graph: recording.call_graph,
        recorded_events: &recording.events,
        warnings: &recording.warnings,
        report,
        rows_total,
    };
    serde_json::to_writer_pretty(&mut *out, &json).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn print_tree(
    out: &mut impl Write,
    recording: &Recording,
    root: &CallNode,
    event: EventId,
) -> anyhow::Result<()> {
    let event = recording.event(event);
    writeln!(
        out,
        "{:>8} {:>8}  call tree of {}\n",
        "incl%", "self%", event.name
    )?;
    let widest = width();
    // Depth first with a stack of our own: targets recurse deeper than ours is.
    let mut stack = vec![(root, 0usize)];
    while let Some((node, depth)) = stack.pop() {
        if depth > 0 {
            // Deep frames are shown as deep as there is room for their names.
            let deepest = widest.map_or(DEEPEST_INDENT, |widest| widest / 4);
            let indent = "  ".repeat((depth - 1).min(deepest));
            let room = widest.map_or(usize::MAX, |all| all.saturating_sub(19 + indent.len()));
            writeln!(
                out,
                "{:>8} {:>8}  {indent}{}",
                percent(node.inclusive, root.inclusive),
                percent(node.own, root.inclusive),
                shortened(&printable(&node.name), room),
            )?;
        }
        let mut children: Vec<&CallNode> = node
            .children
            .values()
            .filter(|child| child.inclusive >= TREE_CUTOFF * root.inclusive)
            .collect();
        children.sort_by(|a, b| a.inclusive.total_cmp(&b.inclusive));
        stack.extend(children.into_iter().map(|child| (child, depth + 1)));
    }
    writeln!(
        out,
        "\nparts below {:.1}% of the total are left out",
        100.0 * TREE_CUTOFF
    )?;
    Ok(())
}
/// Returns whether a line says how stacks were found, which stands at the end.
fn is_summary(warning: &str) -> bool {
    warning.starts_with(profile::FRAMES_SUMMARY)
}
