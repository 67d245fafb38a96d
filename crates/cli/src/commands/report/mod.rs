//! `vitalfew report`.

mod report_table;

use crate::args::{ReportArgs as Args, ReportOrder};
use crate::call_tree_order::children_shown;
use crate::exit::INCONCLUSIVE;
use crate::losses::loss_warnings;
use crate::output::{clean_name, group_digits, shorten_middle, write_json};
use crate::runtimes::runtime_advice;
use crate::screen::{Screen, tell_user, terminal_width, warn_user, wrap_sentence};
use crate::source;
use crate::times::{main_event, time_advice, time_line};
use profile::{
    CallGraph, CallTree, Collector, EventId, Location, NodeId, Recording, SymbolTable, Target,
    TaskTimes, Unit,
};
use report_table::{amount_text, percent_text, report_table};
use results::{
    KeySource, NamesNeeded, Refusal, RefusalReason, ReportBy, SampleReport, WantedSamples,
    call_tree, callers_tree, event_named, join_hosts, make_report, name_locations, usage_refusal,
};
use serde::Serialize;
use std::cmp::Ordering;
use std::io::Write;
use std::process::ExitCode;
use store::{TimeRange, Wanted};
use symbols::{Detail, Resolved};

/// Nodes of the call tree below this share of the total are left out.
const TREE_CUTOFF: f64 = 0.005;

/// Maximum number of levels by which frames of the call tree are indented.
const DEEPEST_INDENT: usize = 60;

/// Maximum length of the command line in the footer, in characters.
const LONGEST_COMMAND: usize = 160;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let needs = args.by.needs();
    let filter = args.filter.sample_filter();
    let trees = args.tree || args.callers.is_some();
    let wanted = Wanted {
        processes: needs.processes || filter.names_threads() || trees,
        cgroups: needs.cgroups || filter.cgroup.is_some(),
        ids: needs.ids || filter.pid.is_some(),
        callers: true,
        threads: needs.source == KeySource::Thread || filter.process.is_some() || trees,
    };
    let mut chosen = args.source.clone();
    if args.by == ReportBy::Host
        && chosen.epoch.is_none()
        && chosen.recording_source().is_database()
    {
        chosen.epoch = Some(TimeRange::default()); // all epochs: the last one is of a single host
    }
    let mut recording = source::open_source(&chosen, wanted)?;
    if !args.runtime_frames {
        profile::fold_interpreter_frames(&mut recording);
    }
    if recording.events.is_empty() {
        anyhow::bail!("the recording has no events");
    }
    let event = choose_event(&recording, args)?;
    let resolved = resolve_shown(&recording, args);
    // Warnings that change the meaning of the table come before it.
    recording.problems().for_each(|warning| warn_user(warning));
    let mut out = Screen::open_output(args.shown.json);
    if !args.shown.json {
        for warning in loss_warnings(&recording) {
            writeln!(out, "warning: {}", clean_name(&warning))?;
        }
    }
    if let Some(warning) = warn_of_shared_threads(&recording, args) {
        warn_user(&warning);
    }
    if trees {
        if !print_trees(&mut out, &recording, args, &resolved.table, event)? {
            drop(out);
            tell_user("no stack has a procedure of that name");
            return Ok(ExitCode::from(INCONCLUSIVE));
        }
    } else {
        let mut report = match args.by {
            ReportBy::Host => by_host(args, wanted)?,
            _ => make_report(&recording, &resolved.table, args.by, &filter, event),
        };
        if args.sort == ReportOrder::Total {
            sort_by_total(&mut report, &recording)?;
        }
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
            tell_user("no sample matches the event and filters");
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

/// Sorts the rows by what they took with all that they called.
///
/// # Errors
/// If the rows have no such amount.
fn sort_by_total(report: &mut SampleReport, recording: &Recording) -> anyhow::Result<()> {
    let has_total = report.rows.iter().any(|row| row.inclusive.is_some());
    if !has_total && !report.rows.is_empty() {
        let why = match recording.call_graph {
            CallGraph::None => {
                "the recording has none: vitalfew record keeps them unless --no-stacks is given"
            }
            _ => "rows of this kind have no total beside their own samples",
        };
        return Err(usage_refusal(format!(
            "--sort total needs call stacks; {why}"
        )));
    }
    report.rows.sort_by(|a, b| {
        b.inclusive
            .partial_cmp(&a.inclusive)
            .unwrap_or(Ordering::Equal)
    });
    Ok(())
}

/// Warns of samples that may belong to processes other than the requested ones.
fn warn_of_shared_threads(recording: &Recording, args: &Args) -> Option<String> {
    let (filter, table) = (args.filter.sample_filter(), SymbolTable::default());
    let by_thread = args.by.needs().source == KeySource::Thread && filter.is_of_all_places();
    let shared = WantedSamples::new(recording, &table, &filter).shared_threads();
    let (first, more) = shared.split_first().filter(|_| !by_thread)?;
    let others = match more.len() {
        0 => String::new(),
        others => format!(" and {others} more names"),
    };
    Some(format!(
        "other processes, too, have threads named {first}{others}, whose samples are in these figures: record --per-process tells them apart"
    ))
}

/// Makes the report by host. Each host is read separately: merged recordings do not name their
/// hosts.
fn by_host(args: &Args, wanted: Wanted) -> anyhow::Result<SampleReport> {
    let mut hosts = Vec::new();
    for mut recording in source::open_by_host(&args.source, wanted)? {
        if !args.runtime_frames {
            profile::fold_interpreter_frames(&mut recording);
        }
        // A host of a database may lack the requested event.
        let Ok(event) = choose_event(&recording, args) else {
            continue;
        };
        let resolved = resolve_shown(&recording, args);
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

/// Prints the line about where the time went, which precedes the samples.
fn print_head(out: &mut impl Write, recording: &Recording) -> anyhow::Result<()> {
    if recording.collector == Collector::Import && recording.duration_ns == 0 {
        return Ok(()); // other tools' profiles mostly lack them
    }
    write!(out, "{}", wrap_sentence(&clean_name(&time_line(recording))))?;
    if let Some(advice) = time_advice(recording) {
        write!(out, "{}", wrap_sentence(&clean_name(&advice)))?;
    }
    Ok(())
}

/// Chooses the event to report: the named one, or the main event. By waker, it is one that measures
/// waiting.
fn choose_event(recording: &Recording, args: &Args) -> anyhow::Result<EventId> {
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
        (_, name) => Err(Refusal {
            reason: RefusalReason::Usage,
            message: format!(
                "samples of {} have no wakers: record with --off-cpu to see who wakes whom",
                name.as_deref().unwrap_or(&recording.events[0].name)
            ),
        }
        .into()),
    }
}

/// Resolves only the names that the report shows.
fn resolve_shown(recording: &Recording, args: &Args) -> Resolved {
    let trees = args.tree || args.callers.is_some();
    let detail = match args.by {
        ReportBy::Line => Detail::Lines,
        _ if trees && !args.no_inline => Detail::Lines,
        _ => Detail::Procedures,
    };
    let stacks = &recording.stacks;
    let names = args.by.needs().names;
    let all = trees || names == NamesNeeded::Stacks || recording.call_graph != CallGraph::None;
    let locations: Vec<Location> = if all {
        stacks.frames().iter().map(|f| f.location).collect()
    } else if names == NamesNeeded::Nothing && args.filter.procedure.is_none() {
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
    name_locations(
        recording,
        locations,
        detail,
        &args.source.recording_source(),
    )
}

fn print_table(
    out: &mut impl Write,
    by: ReportBy,
    report: &SampleReport,
    rows: usize,
    wide: bool,
) -> anyhow::Result<()> {
    let totals: Vec<String> = report
        .events
        .iter()
        .map(|event| format!("{} = {}", event.name, amount_text(event, event.total)))
        .collect();
    let totals = format!("Total samples for event type {}", totals.join(", "));
    writeln!(out, "{}", wrap_sentence(&totals))?;
    write!(out, "{}", report_table(by, report, wide).render())?;
    if rows > report.rows.len() {
        writeln!(out, "{} more with --all", rows - report.rows.len())?;
    }
    Ok(())
}

fn print_footer(
    out: &mut impl Write,
    recording: &Recording,
    report: &SampleReport,
) -> anyhow::Result<()> {
    writeln!(out)?;
    print_accounts(out, recording, report)?;
    print_stack_quality(out, recording, report)?;
    print_source(out, recording)?;
    let clock = report
        .events
        .iter()
        .any(|e| e.name.starts_with("cpu-clock"));
    if clock {
        let meaning = "cpu-clock: a timer, not the processor's cycles; code that runs with interrupts off is counted where they are enabled again";
        write!(out, "{}", wrap_sentence(meaning))?;
    }
    Ok(())
}

/// Prints for each event the number of samples taken, stored and lost.
fn print_accounts(
    out: &mut impl Write,
    recording: &Recording,
    report: &SampleReport,
) -> anyhow::Result<()> {
    for total in &report.events {
        let Some(event) = recording.events.iter().find(|e| e.name == total.name) else {
            continue;
        };
        let rate = event.frequency.map_or(String::new(), |hz| {
            format!(" at {} Hz", group_digits(hz as u64))
        });
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
            group_digits(event.taken),
            group_digits(event.stored),
            group_digits(event.dropped),
            group_digits(event.lost),
            percent_text(total.unknown, total.total),
        );
        write!(out, "{}", wrap_sentence(&clean_name(&accounts)))?;
    }
    Ok(())
}

/// Prints how many call stacks are whole, with a remedy if too few are.
fn print_stack_quality(
    out: &mut impl Write,
    recording: &Recording,
    report: &SampleReport,
) -> anyhow::Result<()> {
    let complete = report.complete_stacks;
    let Some(share) = complete.filter(|_| recording.collector != Collector::Import) else {
        return Ok(());
    };
    let way = match recording.call_graph {
        CallGraph::Dwarf => "unwind tables",
        CallGraph::Tables => "unwind tables and frame pointers",
        _ => "frame pointers",
    };
    let reach = format!(
        "call stacks by {way}: {:.1}% reach the start of their program or thread",
        100.0 * share
    );
    write!(out, "{}", wrap_sentence(&reach))?;
    for summary in recording.warnings.iter().filter(|w| is_summary(w)) {
        write!(out, "{}", wrap_sentence(&clean_name(summary)))?;
    }
    let too_deep = report.too_deep_stacks.unwrap_or(0.0);
    if too_deep > 0.01 {
        writeln!(
            out,
            "{:.1}% are deeper than the {} frames that are followed",
            100.0 * too_deep,
            recording.call_graph.deepest()
        )?;
    }
    if share + too_deep < 0.5 && recording.call_graph == CallGraph::FramePointer {
        let advice = "most call stacks end early, as in code without frame pointers: record -g unwinds that where BPF may be loaded, --call-graph dwarf elsewhere";
        write!(out, "{}", wrap_sentence(advice))?;
    }
    Ok(())
}

/// Prints the target, the machine and the way of recording.
fn print_source(out: &mut impl Write, recording: &Recording) -> anyhow::Result<()> {
    let what = match &recording.target {
        Target::Command(command) => shorten_middle(&command.join(" "), LONGEST_COMMAND),
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
    write!(out, "{}", wrap_sentence(&clean_name(&source)))?;
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
    /// Times of the target's threads by state; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_times: Option<TaskTimes>,
    collector: Collector,
    call_graph: CallGraph,
    recorded_events: &'a [profile::Event],
    warnings: &'a [String],
    #[serde(flatten)]
    report: &'a SampleReport,
    rows_total: usize,
}

fn print_json(
    out: &mut impl Write,
    recording: &Recording,
    report: &SampleReport,
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
    Ok(write_json(out, &json)?)
}

/// Prints the requested tree; returns `false` if it has no sample.
fn print_trees(
    out: &mut impl Write,
    recording: &Recording,
    args: &Args,
    table: &SymbolTable,
    event: EventId,
) -> anyhow::Result<bool> {
    let (filter, inlined) = (args.filter.sample_filter(), !args.no_inline);
    let name = &recording.event(event).name;
    let (tree, whole, heading) = match &args.callers {
        Some(procedure) => {
            let tree = callers_tree(
                recording,
                table,
                &filter,
                event,
                inlined,
                procedure,
                TREE_CUTOFF,
            )?;
            if tree.children(NodeId::ROOT).next().is_none() {
                return Ok(false);
            }
            let whole = tree.total(0) - tree.cost(0, NodeId::ROOT);
            let heading = format!("callers of {procedure}, by {name}");
            (tree, whole, ("total%", "of it", heading))
        }
        None => {
            let tree = call_tree(recording, table, &filter, event, inlined)?;
            let whole = tree.total(0);
            (
                tree,
                whole,
                ("total%", "self%", format!("call tree of {name}")),
            )
        }
    };
    print_head(out, recording)?;
    let (first, second, title) = heading;
    writeln!(out, "{first:>8} {second:>8}  {}\n", clean_name(&title))?;
    let part = |node: NodeId| match args.callers {
        Some(_) => tree.cum_cost(0, node),
        None => tree.cost(0, node),
    };
    print_tree(out, &tree, whole, part)?;
    Ok(true)
}

/// Prints a tree: each node's share of all samples, and the share of `whole` that `part` is.
fn print_tree(
    out: &mut impl Write,
    tree: &CallTree,
    whole: i64,
    part: impl Fn(NodeId) -> i64,
) -> anyhow::Result<()> {
    let widest = terminal_width();
    let percent = |part: i64, of: i64| percent_text(part as f64, of as f64);
    // Depth first with an explicit stack: targets recurse deeper than this program's stack allows.
    let mut open = vec![(NodeId::ROOT, 0usize)];
    while let Some((node, depth)) = open.pop() {
        if let Some(method) = tree.method(node) {
            // The indentation leaves room for names.
            let deepest = widest.map_or(DEEPEST_INDENT, |widest| widest / 4);
            let indent = "  ".repeat((depth - 1).min(deepest));
            let room = widest.map_or(usize::MAX, |all| all.saturating_sub(19 + indent.len()));
            let name = clean_name(&tree.methods()[method.0 as usize].name);
            writeln!(
                out,
                "{:>8} {:>8}  {indent}{}",
                percent(tree.cum_cost(0, node), tree.total(0)),
                percent(part(node), whole),
                shorten_middle(&name, room),
            )?;
        }
        let children = children_shown(tree, node, TREE_CUTOFF * whole as f64);
        open.extend(children.into_iter().map(|child| (child, depth + 1)));
    }
    writeln!(
        out,
        "\nparts below {:.1}% of the whole are left out",
        100.0 * TREE_CUTOFF
    )?;
    Ok(())
}

/// Returns whether a warning is the line about how stacks were found, which comes last.
fn is_summary(warning: &str) -> bool {
    warning.starts_with(profile::FRAMES_SUMMARY)
}
