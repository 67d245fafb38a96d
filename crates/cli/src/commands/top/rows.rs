//! Rows of `vitalfew top`, made from a recording of the last seconds.

use crate::call_tree_order::children_shown;
use profile::known_code::is_c_library;
use profile::{
    EventId, ImageKind, Location, NodeId, ProcessNames, Recording, Sample, SymbolTable, plain_name,
};
use results::{ReportBy, SampleFilter, SystemCallName, amount_of_cost, call_tree, make_report};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Calls below this share of the total are left out of the tree.
const LEAST_SHOWN: f64 = 0.01;

/// A way to look at what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TopView {
    /// Procedures
    Procedures,
    /// Call paths, outermost first
    Paths,
    /// Processes
    Processes,
    /// Threads
    Threads,
    /// Waits, with who ended them
    Waits,
}

impl TopView {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 5] = [
        Self::Procedures,
        Self::Paths,
        Self::Processes,
        Self::Threads,
        Self::Waits,
    ];

    /// Returns the name of the view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Procedures => "procedures",
            Self::Paths => "call paths",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Waits => "waits",
        }
    }

    /// Returns the headings of the two numbers and of the detail.
    pub fn headings(self) -> [&'static str; 3] {
        match self {
            Self::Procedures => ["SELF %", "TOTAL %", "IMAGE"],
            Self::Paths => ["SELF %", "TOTAL %", ""],
            Self::Processes => ["CPU %", "READY %", "PID"],
            Self::Threads => ["CPU %", "READY %", "PID/TID"],
            Self::Waits => ["WAIT %", "WAITS/S", "ENDED BY"],
        }
    }
}

/// Recording of the last seconds, with names.
#[derive(Debug)]
pub struct TopSnapshot {
    /// The samples.
    pub recording: Arc<Recording>,
    /// Their names.
    pub table: SymbolTable,
    /// Earlier snapshot of the recording that this one continues, if any: only newer samples are
    /// shown.
    pub before: Option<Arc<TopSnapshot>>,
    /// False while files are read for more names.
    pub is_named: bool,
}

impl TopSnapshot {
    /// Returns the length of the shown time, in seconds.
    pub fn seconds(&self) -> f64 {
        let before = self.before.as_ref().map_or(0, |b| b.recording.duration_ns);
        self.recording.duration_ns.saturating_sub(before) as f64 / 1e9
    }
}

/// A process that is shown alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoomedProcess {
    /// Its name.
    pub name: String,
    /// Its id, if the recording separates processes.
    pub pid: Option<u32>,
}

/// A row. Numbers are percents of one CPU, or of one thread's time; for waits the second one is
/// their number a second.
#[derive(Clone, Debug, PartialEq)]
pub struct TopRow {
    /// The name.
    pub name: String,
    /// Text of the detail column.
    pub detail: String,
    /// Depth in the tree.
    pub depth: usize,
    /// The numbers of the columns.
    pub numbers: [f64; 2],
    /// The process that Enter shows alone.
    pub process: Option<ZoomedProcess>,
}

/// Amounts of a recording by row, in the order of rows.
type RowAmounts = Vec<(String, TopRow)>;

/// Returns the rows of a view, the largest first; call paths as a tree.
pub fn rows_of(snapshot: &TopSnapshot, view: TopView, zoom: Option<&ZoomedProcess>) -> Vec<TopRow> {
    let mut rows = amounts_of(snapshot, view, zoom);
    if let Some(before) = &snapshot.before {
        let before: BTreeMap<String, TopRow> = amounts_of(before, view, zoom).into_iter().collect();
        for (key, row) in &mut rows {
            if let Some(old) = before.get(key) {
                row.numbers[0] -= old.numbers[0];
                row.numbers[1] -= old.numbers[1];
            }
        }
    }
    let seconds = snapshot.seconds().max(1e-3);
    let mut rows: Vec<TopRow> = rows.into_iter().map(|(_, row)| row).collect();
    for row in &mut rows {
        row.numbers = row.numbers.map(|number| number.max(0.0) / seconds);
    }
    rows.retain(|row| row.numbers.iter().any(|number| *number > 0.0));
    rows
}

/// Returns rows with percents times seconds.
fn amounts_of(snapshot: &TopSnapshot, view: TopView, zoom: Option<&ZoomedProcess>) -> RowAmounts {
    match view {
        TopView::Procedures => procedures(snapshot, zoom),
        TopView::Paths => paths(snapshot, zoom),
        TopView::Processes => threads(snapshot, zoom, false),
        TopView::Threads => threads(snapshot, zoom, true),
        TopView::Waits => waits(snapshot, zoom),
    }
}

fn filter_of(zoom: Option<&ZoomedProcess>) -> SampleFilter {
    let pid = zoom.and_then(|zoom| zoom.pid);
    let by_name = zoom.filter(|_| pid.is_none());
    SampleFilter {
        pid,
        process: by_name.map(|zoom| zoom.name.clone()),
        ..SampleFilter::default()
    }
}

/// Returns the percents times seconds of a unit of the first event.
fn percent_of_sample(recording: &Recording) -> f64 {
    100.0 * results::each_sample(recording) / 1e9
}

fn procedures(snapshot: &TopSnapshot, zoom: Option<&ZoomedProcess>) -> RowAmounts {
    let (recording, table) = (&snapshot.recording, &snapshot.table);
    let percent = percent_of_sample(recording);
    let by = ReportBy::Procedure;
    let report = make_report(recording, table, by, &filter_of(zoom), EventId(0));
    let rows = report.rows.into_iter().map(|row| {
        let own = row.amounts.first().copied().unwrap_or(0.0);
        let image = row.image.unwrap_or_default();
        let file = image.rsplit('/').next().unwrap_or_default();
        let total = row.inclusive.unwrap_or(own);
        let shown = TopRow {
            detail: file.to_owned(),
            depth: 0,
            numbers: [own * percent, total * percent],
            process: None,
            name: name_or_unknown(row.name),
        };
        (format!("{}\0{image}", shown.name), shown)
    });
    rows.collect()
}

fn name_or_unknown(name: String) -> String {
    if name.is_empty() {
        "[no symbol]".to_owned()
    } else {
        name
    }
}

fn paths(snapshot: &TopSnapshot, zoom: Option<&ZoomedProcess>) -> RowAmounts {
    let (recording, table) = (&snapshot.recording, &snapshot.table);
    let tree = call_tree(recording, table, &filter_of(zoom), EventId(0), false);
    // A total that overflows is treated as none.
    let Ok(tree) = tree else { return Vec::new() };
    let percent = percent_of_sample(recording) * amount_of_cost(recording.event(EventId(0)));
    let least = LEAST_SHOWN * tree.total(0) as f64;
    let mut rows = Vec::new();
    // Not by recursion: stacks can be deep.
    let mut open: Vec<(NodeId, usize, String)> = vec![(NodeId::ROOT, 0, String::new())];
    while let Some((node, depth, key)) = open.pop() {
        if let Some(method) = tree.method(node) {
            let costs = [tree.cost(0, node), tree.cum_cost(0, node)];
            let row = TopRow {
                name: tree.methods()[method.0 as usize].name.clone(),
                detail: String::new(),
                depth: depth - 1,
                numbers: costs.map(|cost| cost as f64 * percent),
                process: None,
            };
            rows.push((key.clone(), row));
        }
        let children = children_shown(&tree, node, least).into_iter();
        open.extend(children.map(|child| {
            let method = tree.method(child);
            let name = method.map_or("", |method| &tree.methods()[method.0 as usize].name);
            (child, depth + 1, format!("{key}\0{name}"))
        }));
    }
    rows
}

fn threads(snapshot: &TopSnapshot, zoom: Option<&ZoomedProcess>, apart: bool) -> RowAmounts {
    let recording = &snapshot.recording;
    let percent = percent_of_sample(recording);
    // A daemon's samples know their process only by name.
    let has_pids = recording.samples.iter().any(|sample| sample.pid.is_some());
    let mut rows: BTreeMap<String, TopRow> = BTreeMap::new();
    let processes = ProcessNames::of_recording(recording);
    for thread in recording.threads.iter().filter(|thread| thread.count > 0) {
        let process = recording.names.get(processes.name_of_thread(thread));
        let is_wanted = zoom.is_none_or(|zoom| match zoom.pid {
            Some(pid) => pid == thread.pid,
            None => zoom.name == process,
        });
        let number = match recording.event(thread.event).name.as_str() {
            "run-queue" => Some((1, 100.0 / 1e9)),
            "off-cpu" => None,
            _ => (thread.event == EventId(0)).then_some((0, percent)),
        };
        let Some((at, percent)) = number.filter(|_| is_wanted) else {
            continue;
        };
        let (pid, tid) = (thread.pid, thread.tid);
        let key = if apart {
            format!("{pid}/{tid}")
        } else {
            pid.to_string()
        };
        let name = if apart {
            recording.names.get(thread.process)
        } else {
            process
        };
        let row = rows.entry(key.clone()).or_insert_with(|| TopRow {
            name: name.to_owned(),
            detail: key,
            depth: 0,
            numbers: [0.0; 2],
            process: Some(ZoomedProcess {
                name: process.to_owned(),
                pid: has_pids.then_some(pid),
            }),
        });
        row.numbers[at] += thread.weight as f64 * percent;
    }
    // By name, if the recording does not know its threads.
    by_amount(rows)
}

fn waits(snapshot: &TopSnapshot, zoom: Option<&ZoomedProcess>) -> RowAmounts {
    let recording = &snapshot.recording;
    let mut rows: BTreeMap<String, TopRow> = BTreeMap::new();
    let mut wakers: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
    for sample in &recording.samples {
        let process = recording.names.get(sample.process);
        let is_wanted = zoom.is_none_or(|zoom| match zoom.pid {
            Some(_) => zoom.pid == sample.pid,
            None => zoom.name == process,
        });
        if !is_wanted || recording.event(sample.event).name != "off-cpu" {
            continue;
        }
        let places = recording.stacks.locations(sample.stack);
        let names = places.map(|place| snapshot.table.procedure(place));
        let names = names.map(|procedure| procedure.map_or("", |procedure| &*procedure.name));
        if zoom.is_none() && is_idle_kernel_thread(names) {
            continue;
        }
        let name = format!("{process}: {}", name_of_wait(snapshot, sample));
        let row = rows.entry(name.clone()).or_insert_with(|| TopRow {
            name: name.clone(),
            detail: String::new(),
            depth: 0,
            numbers: [0.0; 2],
            process: Some(ZoomedProcess {
                name: process.to_owned(),
                pid: sample.pid,
            }),
        });
        row.numbers[0] += 100.0 * sample.weight as f64 / 1e9;
        row.numbers[1] += sample.count as f64;
        if let Some(waker) = sample.waker {
            let waker = recording.names.get(waker.process);
            *wakers.entry(name).or_default().entry(waker).or_default() += sample.weight;
        }
    }
    for (name, row) in &mut rows {
        let who = wakers
            .get(name)
            .and_then(|who| who.iter().max_by_key(|(_, ns)| **ns));
        row.detail = who.map_or(String::new(), |(who, _)| (*who).to_owned());
    }
    by_amount(rows)
}

fn by_amount(rows: BTreeMap<String, TopRow>) -> RowAmounts {
    let mut rows: RowAmounts = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.numbers[0].total_cmp(&a.1.numbers[0]));
    rows
}

/// Returns the system call that a thread waits in, and the function that made it, skipping the C
/// library's.
fn name_of_wait(snapshot: &TopSnapshot, sample: &Sample) -> String {
    let recording = &snapshot.recording;
    let name = |location: &Location| {
        let procedure = snapshot.table.procedure(*location);
        procedure.map_or("", |procedure| &*procedure.name)
    };
    let is_kernel = |location: &Location| {
        let kind = recording.image(location.image).kind;
        matches!(kind, ImageKind::Kernel | ImageKind::KernelModule)
    };
    let (kernel, user): (Vec<Location>, Vec<Location>) = recording
        .stacks
        .locations(sample.stack)
        .partition(is_kernel);
    let call = kernel
        .iter()
        .find_map(|l| SystemCallName::of_function(name(l)));
    // The C library only passes a call on.
    let is_program = |location: &&Location| !is_c_library(&recording.image(location.image).path);
    let named = |location: &Location| Some(name(location)).filter(|name| !name.is_empty());
    let asker = user.iter().filter(is_program).find_map(named);
    let asker = asker
        .or_else(|| user.iter().find_map(named))
        .map(plain_name);
    match (call.map(|call| call.0), asker) {
        (Some(call), Some(asker)) if call != asker => format!("{call} of {asker}"),
        (Some(call), _) => call.to_owned(),
        (None, Some(asker)) => asker.to_owned(),
        // A kernel thread is named by its start function.
        (None, None) => kernel
            .iter()
            .rev()
            .map(name)
            .find(|n| !is_entry(n))
            .unwrap_or("kernel")
            .to_owned(),
    }
}

/// Returns whether a stack is that of a kernel thread that waits for work: in work that it was
/// given, it would wait for a device, a lock or a completion.
pub(super) fn is_idle_kernel_thread<'a>(frames: impl Iterator<Item = &'a str>) -> bool {
    const WORK: [&str; 7] = [
        "process_one_work",
        "io_schedule",
        "bit_wait",
        "mutex_lock",
        "rwsem_down",
        "rt_mutex",
        "wait_for_completion",
    ];
    let mut is_kernel_thread = false;
    for name in frames {
        if WORK.iter().any(|work| name.contains(work)) {
            return false;
        }
        is_kernel_thread |= name == "kthread";
    }
    is_kernel_thread
}

fn is_entry(name: &str) -> bool {
    name.is_empty() || name.starts_with("ret_from_fork") || name == "kthread"
}
