//! Counting the samples of a recording by image, procedure, line, instruction, process or thread,
//! in the manner of DCPI's Figure 1.

use crate::selection::{ReportBy, SampleFilter};
use profile::{
    CallGraph, EventId, ImageKind, Location, Recording, Sample, SymbolTable, ThreadCount, Unit,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row: what it counts, and how much of each event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportRow {
    /// What the samples have in common; by [`ReportBy::Image`] the image's path, and so on.
    pub name: String,
    /// The image, where the row is of one place in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// By line and instruction: the procedure. By thread and process: the ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The amount of each event of [`Report::events`], in its unit.
    pub amounts: Vec<f64>,
    /// With call stacks: the amount of the first event while this was on the stack, itself or
    /// something it called; recursion counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive: Option<f64>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The events, the one that sorts first.
    pub events: Vec<EventTotal>,
    /// The rows, by descending amount of the first event.
    pub rows: Vec<ReportRow>,
    /// Of call stacks: the share that does not reach it and is as deep as the kernel follows frame
    /// pointers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_deep_stacks: Option<f64>,
    /// Of call stacks: the share, by amount of the first event, that reaches the start of the
    /// program or thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_stacks: Option<f64>,
}

/// An event in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventTotal {
    /// Its name.
    pub name: String,
    /// What its amounts are in.
    pub unit: Unit,
    /// The amount in all samples that the report is about.
    pub total: f64,
    /// The part of it in code of which nothing is known.
    pub unknown: f64,
}

/// What a row is about.
type Key = (String, Option<String>, Option<String>);

/// The amount of a sample in the unit of its event, corrected for shared counters.
pub fn sample_amount(recording: &Recording, sample: &Sample) -> f64 {
    scaled(recording, sample.event, sample.count, sample.weight)
}

fn scaled(recording: &Recording, event: EventId, count: u64, weight: u64) -> f64 {
    let event = recording.event(event);
    match event.unit {
        Unit::Samples => count as f64 * event.multiplex_scale,
        Unit::Nanoseconds => weight as f64,
    }
}

/// Returns whether a sample is one that is asked for.
pub fn is_wanted(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    s: &Sample,
) -> bool {
    let location = recording.stacks.frame(s.stack).location;
    let has = |text: &str, part: &Option<String>| part.as_ref().is_none_or(|p| text.contains(p));
    has(recording.names.get(s.process), &filter.process)
        && has(&recording.image(location.image).path, &filter.image)
        && filter.pid.is_none_or(|pid| s.pid == Some(pid))
        && (filter.procedure.is_none() || has(&procedure(table, location), &filter.procedure))
}

fn procedure(table: &SymbolTable, location: Location) -> String {
    table
        .procedure(location)
        .map_or_else(String::new, |procedure| procedure.name.to_string())
}

/// Makes the report.
pub fn make_report(
    recording: &Recording,
    table: &SymbolTable,
    by: ReportBy,
    filter: &SampleFilter,
    first: EventId,
) -> Report {
    let mut order: Vec<EventId> = (0..recording.events.len() as u16).map(EventId).collect();
    order.sort_by_key(|event| *event != first);
    if filter.event.is_some() {
        order = vec![first];
    }
    let column = |event: EventId| order.iter().position(|e| *e == event);
    let mut counter = Counter {
        recording,
        table,
        by,
        keys: FxHashMap::default(),
        of_location: FxHashMap::default(),
        rows: Vec::new(),
        seen: Vec::new(),
        columns: order.len(),
    };
    let mut totals = vec![(0.0, 0.0); order.len()];
    let (mut complete, mut with_stack, mut too_deep) = (0.0, 0.0, 0.0);
    let by_thread = matches!(by, ReportBy::Thread | ReportBy::Process) && filter.is_of_all_places();
    for (number, sample) in recording.samples.iter().enumerate() {
        let Some(column) = column(sample.event) else {
            continue;
        };
        if !by_thread && !is_wanted(recording, table, filter, sample) {
            continue;
        }
        let amount = sample_amount(recording, sample);
        if !by_thread {
            totals[column].0 += amount;
            counter.add(sample, column, amount, number + 1);
        }
        let leaf = recording.stacks.frame(sample.stack).location;
        let kind = recording.image(leaf.image).kind;
        if matches!(kind, ImageKind::Unknown | ImageKind::Anonymous) {
            totals[column].1 += amount;
        }
        if column == 0 && recording.call_graph != CallGraph::None {
            with_stack += amount;
            if reaches_start(recording, table, sample) {
                complete += amount;
            } else if recording.stacks.locations(sample.stack).count() >= DEEPEST {
                too_deep += amount;
            }
        }
    }
    if by_thread {
        for thread in &recording.threads {
            let Some(column) = column(thread.event) else {
                continue;
            };
            let name = recording.names.get(thread.process);
            if filter.process.as_ref().is_none_or(|p| name.contains(p))
                && filter.pid.is_none_or(|pid| thread.pid == pid)
            {
                totals[column].0 += counter.add_thread(thread, column);
            }
        }
    }
    let events = order.iter().zip(totals).map(|(event, (total, unknown))| {
        let event = recording.event(*event);
        EventTotal {
            name: event.name.clone(),
            unit: event.unit,
            total,
            unknown,
        }
    });
    Report {
        events: events.collect(),
        rows: counter.into_rows(recording.call_graph != CallGraph::None && !by_thread),
        too_deep_stacks: (with_stack > 0.0).then(|| too_deep / with_stack),
        complete_stacks: (with_stack > 0.0).then(|| complete / with_stack),
    }
}

/// One report of the reports of several hosts, each of one row or none.
pub fn join_hosts(hosts: Vec<Report>) -> Report {
    let mut all = Report {
        events: Vec::new(),
        rows: Vec::new(),
        too_deep_stacks: None,
        complete_stacks: None,
    };
    for host in hosts {
        let mut columns = Vec::new();
        for event in &host.events {
            let same = |other: &EventTotal| other.name == event.name && other.unit == event.unit;
            columns.push(match all.events.iter().position(same) {
                Some(column) => column,
                None => {
                    all.events.push(EventTotal {
                        total: 0.0,
                        unknown: 0.0,
                        ..event.clone()
                    });
                    all.events.len() - 1
                }
            });
        }
        for (column, event) in columns.iter().zip(&host.events) {
            all.events[*column].total += event.total;
            all.events[*column].unknown += event.unknown;
        }
        all.rows.extend(host.rows.into_iter().map(|row| {
            let mut amounts = vec![0.0; all.events.len()];
            for (column, amount) in columns.iter().zip(row.amounts) {
                amounts[*column] = amount;
            }
            ReportRow { amounts, ..row }
        }));
    }
    for row in &mut all.rows {
        row.amounts.resize(all.events.len(), 0.0); // events that only later hosts have
    }
    sort(&mut all.rows);
    all
}

/// Adds up rows.
struct Counter<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    by: ReportBy,
    keys: FxHashMap<Key, usize>,
    of_location: FxHashMap<Location, usize>,
    rows: Vec<ReportRow>,
    /// By row: the last sample whose stack had it.
    seen: Vec<usize>,
    columns: usize,
}

impl Counter<'_> {
    fn add(&mut self, sample: &Sample, column: usize, amount: f64, number: usize) {
        let leaf = self.recording.stacks.frame(sample.stack).location;
        let row = match self.by {
            ReportBy::Process | ReportBy::Thread => {
                let name = self.recording.names.get(sample.process).to_owned();
                let id = if self.by == ReportBy::Thread {
                    sample.tid
                } else {
                    sample.pid
                };
                self.row((name, None, id.map(|id| id.to_string())))
            }
            ReportBy::Waker => {
                let key = self.waker(sample);
                self.row(key)
            }
            ReportBy::Host => self.row((self.recording.host.name.clone(), None, None)),
            _ => self.row_at(leaf),
        };
        self.rows[row].amounts[column] += amount;
        let places = !matches!(
            self.by,
            ReportBy::Process | ReportBy::Thread | ReportBy::Waker | ReportBy::Host
        );
        if column == 0 && places && self.recording.call_graph != CallGraph::None {
            let recording = self.recording;
            for location in recording.stacks.locations(sample.stack) {
                let row = self.row_at(location);
                if self.seen[row] != number {
                    self.seen[row] = number;
                    *self.rows[row].inclusive.get_or_insert(0.0) += amount;
                }
            }
        }
    }

    fn add_thread(&mut self, thread: &ThreadCount, column: usize) -> f64 {
        let name = self.recording.names.get(thread.process).to_owned();
        let ids = match self.by {
            ReportBy::Thread => format!("pid {} tid {}", thread.pid, thread.tid),
            _ => format!("pid {}", thread.pid),
        };
        let row = self.row((name, None, Some(ids)));
        let amount = scaled(self.recording, thread.event, thread.count, thread.weight);
        self.rows[row].amounts[column] += amount;
        amount
    }

    fn row_at(&mut self, location: Location) -> usize {
        if let Some(row) = self.of_location.get(&location) {
            return *row;
        }
        let key = self.key_at(location);
        let row = self.row(key);
        self.of_location.insert(location, row);
        row
    }

    fn row(&mut self, key: Key) -> usize {
        if let Some(row) = self.keys.get(&key) {
            return *row;
        }
        let row = self.rows.len();
        self.rows.push(ReportRow {
            name: key.0.clone(),
            image: key.1.clone(),
            detail: key.2.clone(),
            amounts: vec![0.0; self.columns],
            inclusive: None,
        });
        self.seen.push(0);
        self.keys.insert(key, row);
        row
    }

    fn key_at(&self, location: Location) -> Key {
        let image = self.recording.image(location.image);
        let path = image.path.clone();
        if self.by == ReportBy::Image {
            return (path, None, None);
        }
        if image.kind == ImageKind::Unknown {
            return (path, None, None);
        }
        let resolution = self.table.get(location);
        let procedure = resolution.and_then(|r| r.procedure.as_ref());
        let name = procedure.map_or_else(|| "[no symbol]".to_owned(), |p| p.name.to_string());
        match self.by {
            ReportBy::Line => {
                let frame = resolution.and_then(|r| r.inlined.first());
                let line = frame.and_then(|f| Some((f.file.as_ref()?, f.line?)));
                match (line, frame) {
                    (Some((file, line)), Some(frame)) => (
                        format!("{file}:{line}"),
                        Some(path),
                        Some(frame.function.to_string()),
                    ),
                    _ => ("[no line]".to_owned(), Some(path), Some(name)),
                }
            }
            ReportBy::Instruction => {
                let within = procedure.map_or(String::new(), |p| {
                    let distance = location.offset.0.wrapping_sub(p.start.0);
                    format!("{}+{distance:#x}", p.name)
                });
                (
                    format!("{:#x}", location.offset.0),
                    Some(path),
                    Some(within),
                )
            }
            _ => (name, Some(path), None),
        }
    }

    /// Returns who ended a wait: the process, and where in its own code it was.
    fn waker(&self, sample: &Sample) -> Key {
        let Some(waker) = sample.waker else {
            return ("[nobody yet]".to_owned(), None, None);
        };
        let name = self.recording.names.get(waker.process).to_owned();
        let Some(stack) = waker.stack else {
            return (name, None, None);
        };
        let in_kernel = |location: &Location| {
            let kind = self.recording.image(location.image).kind;
            matches!(kind, ImageKind::Kernel | ImageKind::KernelModule)
        };
        let mut locations = self.recording.stacks.locations(stack);
        let first = self.recording.stacks.frame(stack).location;
        let location = locations.find(|l| !in_kernel(l)).unwrap_or(first);
        let image = self.recording.image(location.image).path.clone();
        let place = procedure(self.table, location);
        (name, Some(image), Some(place))
    }

    fn into_rows(self, inclusive: bool) -> Vec<ReportRow> {
        let mut rows = self.rows;
        if !inclusive {
            rows.retain(|row| row.amounts.iter().any(|amount| *amount > 0.0));
        }
        sort(&mut rows);
        rows
    }
}

fn sort(rows: &mut [ReportRow]) {
    rows.sort_by(|a, b| {
        b.amounts
            .partial_cmp(&a.amounts)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| (&a.name, &a.image).cmp(&(&b.name, &b.image)))
    });
}

/// The frames that the collector follows in the kernel.
const DEEPEST: usize = 127;

/// How deep from the outermost frame the start of a program or thread may lie: below it there are
/// only the C library's own start-up frames.
const START_FRAMES: usize = 4;

/// Returns whether the stack reaches the start of the program, thread or kernel thread: one of the
/// outermost frames is a function that nothing calls, or `main`.
fn reaches_start(recording: &Recording, table: &SymbolTable, sample: &Sample) -> bool {
    const STARTS: &[&str] = &[
        "_start",
        "main",
        "start_thread",
        "thread_start",
        "clone",
        "__clone",
        "clone3",
        "__clone3",
        "__clone_internal",
        "_dl_start_user",
        "runtime.goexit",
        "runtime.mstart",
        "runtime.rt0_go",
        "runtime.mcall",
        "runtime.morestack",
        "runtime.systemstack",
        "ret_from_fork",
        "ret_from_fork_asm",
        "secondary_startup_64_no_verify",
        "cpu_startup_entry",
    ];
    let locations: Vec<Location> = recording.stacks.locations(sample.stack).collect();
    let outermost = locations.iter().rev().take(START_FRAMES);
    outermost.into_iter().any(|location| {
        table.procedure(*location).is_some_and(|p| {
            // Go's assembly functions carry their calling convention.
            let name = p.name.trim_end_matches(".abi0");
            STARTS.contains(&name) || name.starts_with("__libc_start_")
        })
    })
}

/// A node of the call tree.
pub struct CallNode {
    /// The procedure.
    pub name: String,
    /// The amount of the event in it and what it called.
    pub inclusive: f64,
    /// The amount in itself.
    pub own: f64,
    /// What it called.
    pub children: BTreeMap<(String, String), CallNode>,
}

/// The call tree from the outermost frames down, by procedure.
pub fn call_tree(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    event: EventId,
) -> CallNode {
    let mut root = CallNode::new(String::new());
    for sample in &recording.samples {
        if sample.event != event || !is_wanted(recording, table, filter, sample) {
            continue;
        }
        let amount = sample_amount(recording, sample);
        let mut locations: Vec<Location> = recording.stacks.locations(sample.stack).collect();
        locations.reverse();
        root.inclusive += amount;
        let process = recording.names.get(sample.process).to_owned();
        let mut node = root.child(format!("process {process}"), String::new());
        node.inclusive += amount;
        for location in locations {
            let name = match procedure(table, location) {
                name if name.is_empty() => "[no symbol]".to_owned(),
                name => name,
            };
            let image = recording.image(location.image).path.clone();
            node = node.child(name, image);
            node.inclusive += amount;
        }
        node.own += amount;
    }
    root
}

impl CallNode {
    fn new(name: String) -> Self {
        Self {
            name,
            inclusive: 0.0,
            own: 0.0,
            children: BTreeMap::new(),
        }
    }

    fn child(&mut self, name: String, image: String) -> &mut Self {
        self.children
            .entry((name.clone(), image.clone()))
            .or_insert_with(|| Self::new(name))
    }
}

impl Drop for CallNode {
    /// Deep recursion in the target must not become deep recursion in us.
    fn drop(&mut self) {
        let mut stack: Vec<CallNode> = std::mem::take(&mut self.children).into_values().collect();
        while let Some(mut node) = stack.pop() {
            stack.extend(std::mem::take(&mut node.children).into_values());
        }
    }
}
