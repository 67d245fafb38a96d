//! Counts of a recording's samples by image, procedure, line, instruction, process, thread or
//! control group, in the manner of DCPI's Figure 1.

use crate::image_names::image_names;
use crate::place_names::procedure_name;
use crate::selection::{KeySource, ReportBy, SampleFilter};
use crate::wanted::WantedSamples;
use profile::ProcessNames;
use profile::known_code::{FunctionRole, has_role};
use profile::{
    CallGraph, Container, EventId, ImageKind, Location, NameId, Recording, Sample, SymbolTable,
    ThreadCount, Unit, kernel_name,
};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// A row: its key, and its amount of each event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportRow {
    /// The value that the samples share; by [`ReportBy::Image`] the image's path, and so on.
    pub name: String,
    /// The image, if the row is one place in an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// By line and instruction: the procedure. By thread and process: the ids. By control group:
    /// its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The amount of each event of [`SampleReport::events`], in its unit.
    pub amounts: Vec<f64>,
    /// With call stacks: the amount of the first event with this on the stack, itself or its
    /// callees; recursion counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive: Option<f64>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleReport {
    /// The events, first the one that rows are sorted by.
    pub events: Vec<EventTotal>,
    /// The rows, by descending amount of the first event.
    pub rows: Vec<ReportRow>,
    /// The share of call stacks that end too early at the depth to which the kernel follows frame
    /// pointers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_deep_stacks: Option<f64>,
    /// The share of call stacks, by amount of the first event, that reach the start of the program
    /// or thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_stacks: Option<f64>,
}

/// An event in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventTotal {
    /// Its name.
    pub name: String,
    /// The unit of its amounts.
    pub unit: Unit,
    /// The amount in all samples of the report.
    pub total: f64,
    /// The part of it in unknown code.
    pub unknown: f64,
}

/// The first function of goroutines' stacks.
const FIRST_OF_GO: &str = "runtime.goexit";
/// The function of asyncio with which its event loop calls coroutines and callbacks.
const CALLER_OF_COROUTINES: &str = "asyncio.events.Handle._run (";
/// Methods of tasks implemented in Python instead of C.
const TASK_OF_ASYNCIO: &str = "asyncio.tasks.Task.";

/// The key of a row.
type Key = (String, Option<String>, Option<String>);

/// Returns the amount of a sample in the unit of its event, corrected for shared counters.
pub fn sample_amount(recording: &Recording, sample: &Sample) -> f64 {
    recording
        .event(sample.event)
        .amount_of_weight(sample.weight)
}

/// Makes the report.
pub fn make_report(
    recording: &Recording,
    table: &SymbolTable,
    by: ReportBy,
    filter: &SampleFilter,
    first: EventId,
) -> SampleReport {
    let mut order: Vec<EventId> = (0..recording.events.len() as u16).map(EventId).collect();
    order.sort_by_key(|event| *event != first);
    if filter.event.is_some() {
        order = vec![first];
    }
    let mut counter = Counter {
        recording,
        table,
        images: image_names(recording),
        by,
        processes: ProcessNames::of_recording(recording),
        keys: FxHashMap::default(),
        of_location: FxHashMap::default(),
        rows: Vec::new(),
        seen: Vec::new(),
        totals: vec![EventSum::default(); order.len()],
        order,
    };
    let by_thread = by.needs().source == KeySource::Thread && filter.is_of_all_places();
    let stacks = counter.add_samples(filter, by_thread);
    if by_thread {
        counter.add_threads(filter);
    }
    let events = counter.order.iter().zip(&counter.totals);
    let events = events.map(|(event, sum)| {
        let event = recording.event(*event);
        EventTotal {
            name: event.name.clone(),
            unit: event.unit,
            total: sum.total,
            unknown: sum.unknown,
        }
    });
    let has_stacks = stacks.with_stack > 0.0;
    SampleReport {
        events: events.collect(),
        rows: counter.into_rows(recording.call_graph != CallGraph::None && !by_thread),
        too_deep_stacks: has_stacks.then(|| stacks.too_deep / stacks.with_stack),
        complete_stacks: has_stacks.then(|| stacks.complete / stacks.with_stack),
    }
}

/// Joins the reports of several hosts, each of one row or none, into one.
pub fn join_hosts(hosts: Vec<SampleReport>) -> SampleReport {
    let mut all = SampleReport {
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
    sort_rows(&mut all.rows);
    all
}

/// Adds up rows.
struct Counter<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    images: Vec<String>,
    by: ReportBy,
    processes: ProcessNames,
    keys: FxHashMap<Key, usize>,
    of_location: FxHashMap<Location, usize>,
    rows: Vec<ReportRow>,
    /// By row: the last sample whose stack had it.
    seen: Vec<usize>,
    /// The events, by column.
    order: Vec<EventId>,
    /// Sums by column.
    totals: Vec<EventSum>,
}

/// The amount of an event in all samples, and the part of it in unknown code.
#[derive(Clone, Copy, Debug, Default)]
struct EventSum {
    total: f64,
    unknown: f64,
}

/// Amounts of the first event, by the reach of its stacks.
#[derive(Clone, Copy, Debug, Default)]
struct StackReach {
    with_stack: f64,
    complete: f64,
    too_deep: f64,
}

impl Counter<'_> {
    fn column_of(&self, event: EventId) -> Option<usize> {
        self.order.iter().position(|known| *known == event)
    }

    /// Adds all samples that pass the filter. By thread, the threads' own counts make the rows: the
    /// samples then only give unknown code and the reach of stacks.
    fn add_samples(&mut self, filter: &SampleFilter, by_thread: bool) -> StackReach {
        let recording = self.recording;
        let wanted = WantedSamples::new(recording, self.table, filter);
        let mut reach = StackReach::default();
        let deepest = recording.call_graph.deepest();
        for (number, sample) in recording.samples.iter().enumerate() {
            let Some(column) = self.column_of(sample.event) else {
                continue;
            };
            if !by_thread && !wanted.has_sample(sample) {
                continue;
            }
            let amount = sample_amount(recording, sample);
            if !by_thread {
                self.totals[column].total += amount;
                self.add_sample(sample, column, amount, number + 1);
            }
            let leaf = recording.stacks.frame(sample.stack).location;
            let image = recording.image(leaf.image);
            if matches!(image.kind, ImageKind::Unknown | ImageKind::Anonymous)
                || image.is_nameless()
            {
                self.totals[column].unknown += amount;
            }
            if column == 0 && recording.call_graph != CallGraph::None {
                reach.with_stack += amount;
                if reaches_start(recording, self.table, sample) {
                    reach.complete += amount;
                } else if recording.stacks.locations(sample.stack).count() >= deepest {
                    reach.too_deep += amount;
                }
            }
        }
        reach
    }

    /// Adds the threads' own counts.
    fn add_threads(&mut self, filter: &SampleFilter) {
        let recording = self.recording;
        let wanted = WantedSamples::new(recording, self.table, filter);
        for thread in &recording.threads {
            let Some(column) = self.column_of(thread.event) else {
                continue;
            };
            // Threads without samples only name processes.
            if thread.count > 0 && wanted.has_thread(thread) {
                self.totals[column].total += self.add_thread(thread, column);
            }
        }
    }

    fn add_sample(&mut self, sample: &Sample, column: usize, amount: f64, number: usize) {
        let leaf = self.recording.stacks.frame(sample.stack).location;
        let row = match self.by {
            ReportBy::Process | ReportBy::Thread => {
                let name = self.recording.names.get(sample.process).to_owned();
                let id = if self.by == ReportBy::Thread {
                    sample.tid
                } else {
                    sample.pid
                };
                self.find_row((name, None, id.map(|id| id.to_string())))
            }
            ReportBy::Waker => {
                let key = self.waker_key(sample);
                self.find_row(key)
            }
            ReportBy::Cgroup | ReportBy::Container => {
                let key = self.cgroup_key(sample.cgroup);
                self.find_row(key)
            }
            ReportBy::Host => self.find_row((self.recording.host.name.clone(), None, None)),
            ReportBy::Labels => {
                let labels = sample
                    .labels
                    .map(|id| self.recording.names.get(id).to_owned());
                let none = || "[no labels]".to_owned();
                self.find_row((labels.unwrap_or_else(none), None, None))
            }
            ReportBy::Goroutine => {
                let key = self.goroutine_key(sample);
                self.find_row(key)
            }
            ReportBy::Coroutine => {
                let key = self.coroutine_key(sample);
                self.find_row(key)
            }
            ReportBy::Image | ReportBy::Procedure | ReportBy::Line | ReportBy::Instruction => {
                self.row_at(leaf)
            }
        };
        self.rows[row].amounts[column] += amount;
        let places = self.by.needs().source == KeySource::Place;
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
        let key = match self.by {
            ReportBy::Cgroup | ReportBy::Container => self.cgroup_key(thread.cgroup),
            ReportBy::Thread => {
                let ids = format!("pid {} tid {}", thread.pid, thread.tid);
                (name, None, Some(ids))
            }
            ReportBy::Process => {
                let process = self.processes.name_of_thread(thread);
                let process = kernel_name(self.recording.names.get(process)).to_owned();
                (process, None, Some(format!("pid {}", thread.pid)))
            }
            // Threads' own counts do not have these.
            ReportBy::Image
            | ReportBy::Procedure
            | ReportBy::Line
            | ReportBy::Instruction
            | ReportBy::Goroutine
            | ReportBy::Coroutine
            | ReportBy::Labels
            | ReportBy::Waker
            | ReportBy::Host => (name, None, None),
        };
        let row = self.find_row(key);
        let event = self.recording.event(thread.event);
        let amount = event.amount_of_weight(thread.weight);
        self.rows[row].amounts[column] += amount;
        amount
    }

    /// Returns the key of a control group with its container, or of the container alone.
    fn cgroup_key(&self, cgroup: Option<NameId>) -> Key {
        let Some(cgroup) = cgroup else {
            return ("[not recorded]".to_owned(), None, None);
        };
        let path = self.recording.names.get(cgroup);
        let container = Container::of_cgroup(path).map(|container| container.to_string());
        match self.by {
            ReportBy::Container => {
                let none = || "[no container]".to_owned();
                (container.unwrap_or_else(none), None, None)
            }
            _ => (path.to_owned(), None, container),
        }
    }

    fn row_at(&mut self, location: Location) -> usize {
        if let Some(row) = self.of_location.get(&location) {
            return *row;
        }
        let key = self.key_at(location);
        let row = self.find_row(key);
        self.of_location.insert(location, row);
        row
    }

    fn find_row(&mut self, key: Key) -> usize {
        if let Some(row) = self.keys.get(&key) {
            return *row;
        }
        let row = self.rows.len();
        self.rows.push(ReportRow {
            name: key.0.clone(),
            image: key.1.clone(),
            detail: key.2.clone(),
            amounts: vec![0.0; self.order.len()],
            inclusive: None,
        });
        self.seen.push(0);
        self.keys.insert(key, row);
        row
    }

    fn key_at(&self, location: Location) -> Key {
        let image = self.recording.image(location.image);
        let path = self.images[location.image.0 as usize].clone();
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
            ReportBy::Procedure
            | ReportBy::Image
            | ReportBy::Process
            | ReportBy::Thread
            | ReportBy::Cgroup
            | ReportBy::Container
            | ReportBy::Goroutine
            | ReportBy::Coroutine
            | ReportBy::Labels
            | ReportBy::Waker
            | ReportBy::Host => (name, Some(path), None),
        }
    }

    /// Returns the Python function that asyncio's event loop called; for a task, its first
    /// coroutine. The coroutines that it awaits are above it on the stack.
    fn coroutine_key(&self, sample: &Sample) -> Key {
        let locations: Vec<Location> = self.recording.stacks.locations(sample.stack).collect();
        let name = |at: &Location| self.table.procedure(*at).map_or("", |p| &*p.name);
        let called = locations
            .iter()
            .position(|at| name(at).starts_with(CALLER_OF_COROUTINES));
        let above = &locations[..called.unwrap_or(0)];
        let is_own = |at: &&Location| {
            self.recording.image(at.image).kind == ImageKind::Script
                && !name(at).starts_with(TASK_OF_ASYNCIO)
        };
        match above.iter().rfind(is_own) {
            Some(own) => {
                let image = self.images[own.image.0 as usize].clone();
                (name(own).to_owned(), Some(image), None)
            }
            None => ("[no coroutine]".to_owned(), None, None),
        }
    }

    /// Returns the first function of a goroutine: the one below Go's own first function of its
    /// stack.
    fn goroutine_key(&self, sample: &Sample) -> Key {
        let locations: Vec<Location> = self.recording.stacks.locations(sample.stack).collect();
        let name = |location: &Location| self.table.procedure(*location).map(|p| &*p.name);
        let first = locations.last().and_then(name);
        let is_goroutine = first.is_some_and(|name| name.trim_end_matches(".abi0") == FIRST_OF_GO);
        let own = locations.iter().rev().nth(1).filter(|_| is_goroutine);
        match own.and_then(|own| Some((own, name(own)?))) {
            Some((own, name)) => {
                let image = self.images[own.image.0 as usize].clone();
                (name.to_owned(), Some(image), None)
            }
            None => ("[no goroutine]".to_owned(), None, None),
        }
    }

    /// Returns the waker: the process, and the place in its own code.
    fn waker_key(&self, sample: &Sample) -> Key {
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
        let image = self.images[location.image.0 as usize].clone();
        let place = procedure_name(self.table, location);
        (name, Some(image), Some(place))
    }

    fn into_rows(self, inclusive: bool) -> Vec<ReportRow> {
        let mut rows = self.rows;
        if !inclusive {
            rows.retain(|row| row.amounts.iter().any(|amount| *amount > 0.0));
        }
        sort_rows(&mut rows);
        rows
    }
}

fn sort_rows(rows: &mut [ReportRow]) {
    rows.sort_by(|a, b| {
        b.amounts
            .partial_cmp(&a.amounts)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| {
                let totals = b.inclusive.partial_cmp(&a.inclusive);
                totals.unwrap_or(std::cmp::Ordering::Equal)
            })
            .then_with(|| (&a.name, &a.image).cmp(&(&b.name, &b.image)))
    });
}

/// Maximum number of frames between the outermost one and a program's or thread's start: below it
/// are only the C library's start-up frames.
const START_FRAMES: usize = 4;

/// Returns the part of the first event's samples whose stacks reach the start of their program or
/// thread.
pub fn complete_stacks(recording: &Recording, table: &SymbolTable) -> f64 {
    let first = recording.samples.iter().filter(|s| s.event.0 == 0);
    let (mut all, mut complete) = (0, 0);
    for sample in first {
        all += sample.count;
        if reaches_start(recording, table, sample) {
            complete += sample.count;
        }
    }
    complete as f64 / f64::max(all as f64, 1.0)
}

/// Returns whether the stack reaches the start of the program, thread or kernel thread: one of the
/// outermost frames is `main`, or a function without callers.
fn reaches_start(recording: &Recording, table: &SymbolTable, sample: &Sample) -> bool {
    let locations: Vec<Location> = recording.stacks.locations(sample.stack).collect();
    let outermost = locations.iter().rev().take(START_FRAMES);
    outermost.into_iter().any(|location| {
        table
            .procedure(*location)
            .is_some_and(|p| &*p.name == "main" || has_role(&p.name, FunctionRole::Start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Collector, Event, Host, Image, ImageId, ImageOffset, Target};

    #[test]
    fn code_of_files_without_a_name_is_unknown() {
        let target = Target::Machine;
        let mut recording =
            Recording::new(Host::default(), target, Collector::Bpf, CallGraph::None);
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        let process = recording.names.intern("a");
        for (number, path) in (0..).zip(["/bin/a", "[inode 8:1:6]"]) {
            recording.images.push(Image {
                kind: ImageKind::File,
                path: path.to_owned(),
                ..Image::unknown()
            });
            let place = Location {
                image: ImageId(number),
                offset: ImageOffset(1),
            };
            let stack = recording.stacks.intern(place, None);
            let samples = Sample::new(EventId(0), process, stack, 1 << number);
            recording.samples.push(samples);
        }
        let (table, filter) = (SymbolTable::default(), SampleFilter::default());
        let report = make_report(&recording, &table, ReportBy::Image, &filter, EventId(0));
        assert_eq!(
            (report.events[0].total, report.events[0].unknown),
            (3.0, 2.0)
        );
    }

    #[test]
    fn control_groups_are_rows_and_filters() {
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Bpf,
            CallGraph::None,
        );
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        recording.images = vec![Image::unknown()];
        let id = "3f2a1b4c5d6e".repeat(6);
        let path = format!("/system.slice/docker-{}.scope", &id[..64]);
        let process = recording.names.intern("a");
        let groups = [Some(path.as_str()), Some("/user.slice"), None];
        for (number, group) in (0_u64..).zip(groups) {
            let cgroup = group.map(|group| recording.names.intern(group));
            let place = Location {
                image: ImageId(0),
                offset: ImageOffset(number),
            };
            let (event, count, weight) = (EventId(0), 1 << number, 1 << number);
            let stack = recording.stacks.intern(place, None);
            recording.samples.push(Sample {
                cgroup,
                ..Sample::new(event, process, stack, count)
            });
            recording.threads.push(ThreadCount {
                event,
                pid: 1,
                tid: 1,
                process,
                cgroup,
                count,
                weight,
            });
        }
        let mut kept = recording.clone();
        (kept.events[0].taken, kept.events[0].stored) = (9, 7);
        crate::wanted::keep_cgroup(&mut kept, "docker 3f2a");
        assert_eq!((kept.samples.len(), kept.threads.len()), (1, 1));
        // Dropped samples may belong to any group.
        assert_eq!((kept.events[0].taken, kept.events[0].stored), (3, 1));
        let rows = |by, filter: &SampleFilter| {
            let report = make_report(&recording, &SymbolTable::default(), by, filter, EventId(0));
            let row = |row: ReportRow| (row.name, row.detail, row.amounts[0]);
            report.rows.into_iter().map(row).collect::<Vec<_>>()
        };
        let docker = "docker 3f2a1b4c5d6e".to_owned();
        // By threads' counts, and by those of places.
        for image in [None, Some(String::new())] {
            let filter = SampleFilter {
                image,
                ..SampleFilter::default()
            };
            assert_eq!(
                rows(ReportBy::Cgroup, &filter),
                [
                    ("[not recorded]".to_owned(), None, 4.0),
                    ("/user.slice".to_owned(), None, 2.0),
                    (path.clone(), Some(docker.clone()), 1.0),
                ]
            );
            let containers = rows(ReportBy::Container, &filter);
            assert_eq!(containers[2], (docker.clone(), None, 1.0));
            assert_eq!(containers[1], ("[no container]".to_owned(), None, 2.0));
            for (wanted, amount) in [("docker 3f2a", 1.0), ("slice", 3.0), ("user", 2.0)] {
                let filter = SampleFilter {
                    cgroup: Some(wanted.to_owned()),
                    ..filter.clone()
                };
                for by in [ReportBy::Process, ReportBy::Image] {
                    let sum: f64 = rows(by, &filter).iter().map(|row| row.2).sum();
                    assert_eq!(sum, amount, "{wanted} {by:?}");
                }
            }
        }
    }
}
