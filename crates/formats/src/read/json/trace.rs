//! Chromium's trace events: the CPU profiles of V8 among them, or else the durations of the traced
//! events.

use super::chrome::{ChromeNode, CpuProfile, chrome_draft};
use super::value::{JsonColumn, Lenient, Scalar, value_type};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::skipped::Skipped;
use profile::DraftNode;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An event; times are in microseconds.
#[derive(Deserialize)]
pub(super) struct TraceEvent {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    ph: Scalar,
    #[serde(default)]
    pid: Scalar,
    #[serde(default)]
    tid: Scalar,
    #[serde(default)]
    ts: Scalar,
    #[serde(default)]
    dur: Scalar,
    /// Duration in CPU time, the only one in some traces.
    #[serde(default)]
    tdur: Scalar,
    #[serde(default)]
    id: Scalar,
    #[serde(default)]
    args: Lenient<Box<TraceArgs>>,
}

impl TraceEvent {
    /// Returns whether it has an event type.
    pub fn has_phase(&self) -> bool {
        self.ph.as_text().is_some_and(|phase| !phase.is_empty())
    }
}

#[derive(Deserialize)]
struct TraceArgs {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    data: Lenient<Box<ProfileChunk>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProfileChunk {
    cpu_profile: Lenient<CpuPart>,
    time_deltas: JsonColumn<f64>,
    start_time: Scalar,
    end_time: Scalar,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CpuPart {
    nodes: JsonColumn<ChromeNode>,
    samples: JsonColumn<u64>,
    time_deltas: JsonColumn<f64>,
    start_time: Scalar,
    end_time: Scalar,
}

/// Process and thread; for a CPU profile, process and profile id.
type Key = (i64, i64);

/// Thread and process names in the trace.
#[derive(Default)]
struct ThreadNames {
    processes: BTreeMap<i64, String>,
    threads: BTreeMap<Key, String>,
}

pub(super) fn read_trace_events(
    mut events: Vec<TraceEvent>,
    sampled: SampledStacks,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    // Each chunk of a CPU profile continues the previous one in time; the file may have them in
    // another order.
    let start = |event: &TraceEvent| event.ts.as_number().unwrap_or(f64::NEG_INFINITY);
    if !events.is_sorted_by(|a, b| start(a) <= start(b)) {
        events.sort_by(|a, b| start(a).total_cmp(&start(b)));
    }
    let mut names = ThreadNames::default();
    let mut profiles: BTreeMap<(i64, String), (i64, CpuProfile)> = BTreeMap::new();
    let mut spans: BTreeMap<Key, Vec<Span>> = BTreeMap::new();
    for (index, event) in events.into_iter().enumerate() {
        let (pid, tid) = (
            event.pid.as_integer().unwrap_or(0),
            event.tid.as_integer().unwrap_or(0),
        );
        let name = event.name.as_text().unwrap_or("(no name)");
        match (event.ph.as_text().unwrap_or_default(), name) {
            ("M", "process_name" | "thread_name") => {
                let called = event.args.0.as_ref().and_then(|args| args.name.as_text());
                let called = called.unwrap_or_default().to_owned();
                match name {
                    "process_name" => names.processes.insert(pid, called),
                    _ => names.threads.insert((pid, tid), called),
                };
            }
            ("P", "Profile" | "ProfileChunk") => {
                let Some(data) = event.args.0.and_then(|args| args.data.0) else {
                    continue;
                };
                let id = event.id.as_text().unwrap_or_default().to_owned();
                let (_, profile) = profiles
                    .entry((pid, id))
                    .or_insert_with(|| (tid, CpuProfile::default()));
                profile.append_data(*data);
            }
            // Until Chrome 66: a whole profile in one event of its thread.
            ("I", "CpuProfile") => {
                let Some(data) = event.args.0.and_then(|args| args.data.0) else {
                    continue;
                };
                let id = format!("thread {tid} at {index}");
                let (_, profile) = profiles
                    .entry((pid, id))
                    .or_insert_with(|| (tid, CpuProfile::default()));
                profile.append_data(*data);
            }
            (phase @ ("B" | "E" | "X"), name) => {
                let at = index as u64;
                let (Some(start), phase) = (event.ts.as_number(), phase.as_bytes()) else {
                    continue;
                };
                let length = event.dur.as_number().or_else(|| event.tdur.as_number());
                let length = length.map_or(0.0, |length| length.max(0.0));
                spans.entry((pid, tid)).or_default().push(Span {
                    name: if phase == b"E" {
                        None
                    } else {
                        Some(name.to_owned())
                    },
                    start,
                    end: (phase == b"X").then_some(start + length),
                    at,
                });
            }
            _ => {}
        }
    }
    if !profiles.is_empty() {
        return cpu_profiles(profiles, &names, options, used);
    }
    if !sampled.samples.is_empty() {
        return sampled_stacks(&sampled, &names, options, used);
    }
    read_durations(spans, &names, options, used)
}

impl CpuProfile {
    fn append_data(&mut self, data: ProfileChunk) {
        let part = data.cpu_profile.0.unwrap_or_default();
        let start_time = data
            .start_time
            .as_number()
            .or_else(|| part.start_time.as_number());
        if let Some(start_time) = start_time.filter(|time| *time > 0.0) {
            self.start_time = start_time;
        }
        let end_time = data
            .end_time
            .as_number()
            .or_else(|| part.end_time.as_number());
        self.end_time = self.end_time.max(end_time.unwrap_or(0.0));
        self.nodes.extend(part.nodes.0);
        let before = self.samples.len();
        self.samples.extend(part.samples.0);
        let deltas = if data.time_deltas.0.is_empty() {
            part.time_deltas.0
        } else {
            data.time_deltas.0
        };
        // A chunk with fewer times than samples must not shift those of the next one.
        self.time_deltas.resize(before, 0.0);
        self.time_deltas.extend(deltas);
        self.time_deltas.truncate(self.samples.len());
    }
}

/// Samples beside the events, as React Native's Hermes writes them: `samples` and `stackFrames`.
#[derive(Default)]
pub(super) struct SampledStacks {
    pub samples: Vec<TracedSample>,
    pub frames: FxHashMap<String, TraceStackFrame>,
}

/// A sample of a thread; times are in microseconds.
#[derive(Deserialize)]
pub(super) struct TracedSample {
    #[serde(default)]
    pid: Scalar,
    #[serde(default)]
    tid: Scalar,
    #[serde(default)]
    ts: Scalar,
    #[serde(default)]
    weight: Scalar,
    /// The stack frame.
    #[serde(default)]
    sf: Scalar,
}

/// A function, and its caller.
#[derive(Deserialize)]
pub(super) struct TraceStackFrame {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    parent: Scalar,
}

/// Returns the samples beside the events.
fn sampled_stacks(
    sampled: &SampledStacks,
    names: &ThreadNames,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = chrome_draft(options, used)?;
    draft.add_note(
        "the samples beside the events of the trace were read, not the durations of these",
    );
    let mut threads: BTreeMap<Key, Vec<(f64, &TracedSample)>> = BTreeMap::new();
    for sample in &sampled.samples {
        let key = (
            sample.pid.as_integer().unwrap_or(0),
            sample.tid.as_integer().unwrap_or(0),
        );
        let time = sample.ts.as_number().unwrap_or(0.0);
        threads.entry(key).or_default().push((time, sample));
    }
    let mut nodes: FxHashMap<(DraftNode, &str), DraftNode> = FxHashMap::default();
    let mut skipped = Skipped::new("samples");
    let mut read = 0;
    for (key, mut samples) in threads {
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (index, (time, sample)) in samples.iter().enumerate() {
            let at = FilePosition::Row {
                table: "sample",
                row: index as u64,
            };
            let root = draft.group_node(&names.thread_owner(key), at)?;
            let leaf = sample.sf.as_key();
            let Some(node) = sampled.node_of_frame(&mut draft, &mut nodes, root, &leaf, at)? else {
                skipped.skip_part("of a stack frame that is not there", at);
                continue;
            };
            read += 1;
            let weight = sample.weight.as_integer().unwrap_or(1);
            let end = samples.get(index + 1).map_or(*time, |next| next.0);
            draft.add_cost(0, node, weight);
            draft.add_cost(1, node, ((end - time).max(0.0) * 1000.0).round() as i64);
        }
    }
    skipped.note_skipped(read, &mut draft)?;
    Ok(draft)
}

impl SampledStacks {
    /// Returns the node of a stack frame under `root`; `None` if the frame or one of its callers is
    /// missing.
    fn node_of_frame<'s>(
        &'s self,
        draft: &mut TreeDraft,
        nodes: &mut FxHashMap<(DraftNode, &'s str), DraftNode>,
        root: DraftNode,
        leaf: &str,
        at: FilePosition,
    ) -> Result<Option<DraftNode>, ReadFault> {
        let mut missing = Vec::new();
        let mut next = leaf.to_owned();
        let mut node = root;
        while let Some((id, frame)) = self.frames.get_key_value(&next) {
            if let Some(known) = nodes.get(&(root, id.as_str())) {
                node = *known;
                break;
            }
            // A cycle of frames.
            if missing.len() > self.frames.len() {
                return Ok(None);
            }
            missing.push((id, frame));
            if frame.parent == Scalar::None {
                break;
            }
            next = frame.parent.as_key();
        }
        if missing.is_empty() && node == root {
            return Ok(None);
        }
        while let Some((id, frame)) = missing.pop() {
            let name = frame.name.as_text().unwrap_or("(no name)");
            // The format's root becomes the draft's root.
            if name != "[root]" {
                let method = draft.intern_method(name, "")?;
                node = draft.child_node(node, method, at)?;
            }
            nodes.insert((root, id), node);
        }
        Ok(Some(node))
    }
}

impl ThreadNames {
    fn thread_owner(&self, (pid, tid): Key) -> Owner<'_> {
        Owner {
            host: None,
            process: self.processes.get(&pid).map(String::as_str),
            pid: Some(pid),
            thread: self.threads.get(&(pid, tid)).map(String::as_str),
            tid: Some(tid),
            slice: None,
        }
    }
}

fn cpu_profiles(
    profiles: BTreeMap<(i64, String), (i64, CpuProfile)>,
    names: &ThreadNames,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = chrome_draft(options, used)?;
    draft.add_note("the CPU profiles in the trace were read, not the durations of its events");
    let mut beheaded = 0_u64;
    for ((pid, _), (tid, profile)) in &profiles {
        // Its start, with the functions, was before the trace's.
        if !profile.has_root() {
            beheaded += u64::from(!profile.samples.is_empty());
            continue;
        }
        profile.add_to(&mut draft, &names.thread_owner((*pid, *tid)), options)?;
    }
    if beheaded > 0 {
        draft.add_note(format!(
            "{beheaded} CPU profiles began before the trace and were left out: their functions are not known"
        ));
    }
    Ok(draft)
}

/// An event with a start, an end, or both.
struct Span {
    /// `None` for an end.
    name: Option<String>,
    start: f64,
    /// The end of an event that has both.
    end: Option<f64>,
    /// Its index in the file.
    at: u64,
}

/// Reads nested events on one thread as calls, each with its own time.
fn read_durations(
    spans: BTreeMap<Key, Vec<Span>>,
    names: &ThreadNames,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = TreeDraft::new(vec![value_type("time", "nanoseconds")], options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    draft.add_note("costs are the durations of traced events, on a CPU or not");
    for (key, mut spans) in spans {
        let root = draft.group_node(&names.thread_owner(key), FilePosition::Offset(0))?;
        // Among events with the same start, the longer one contains the other.
        spans.sort_by(|a, b| {
            let longer = |span: &Span| span.end.unwrap_or(span.start);
            let complete = a.end.is_some() && b.end.is_some();
            let order = a.start.total_cmp(&b.start);
            order.then(if complete {
                longer(b).total_cmp(&longer(a))
            } else {
                std::cmp::Ordering::Equal
            })
        });
        let mut calls = OpenCalls {
            root,
            open: Vec::new(),
            now: f64::NEG_INFINITY,
        };
        for span in spans {
            calls.enter_span(&mut draft, span)?;
        }
        calls.leave_ended(&mut draft, f64::INFINITY);
        if !calls.open.is_empty() {
            draft.add_note(
                "some events were never ended; they end with the last event of their thread",
            );
        }
    }
    Ok(draft)
}

/// The events around a moment.
struct OpenCalls {
    root: DraftNode,
    /// Open events, each with its end if that is known.
    open: Vec<(DraftNode, Option<f64>)>,
    now: f64,
}

impl OpenCalls {
    fn enter_span(&mut self, draft: &mut TreeDraft, span: Span) -> Result<(), ReadFault> {
        self.leave_ended(draft, span.start);
        self.pass_time(draft, span.start);
        let Some(name) = span.name else {
            if self.open.pop().is_none() {
                draft.add_note("some events end that never began");
            }
            return Ok(());
        };
        let at = FilePosition::Row {
            table: "event",
            row: span.at,
        };
        let method = draft.intern_method(&name, "")?;
        let node = draft.child_node(self.innermost_node(), method, at)?;
        self.open.push((node, span.end));
        Ok(())
    }

    /// Closes the events that end by `now`.
    fn leave_ended(&mut self, draft: &mut TreeDraft, now: f64) {
        while let Some((_, Some(end))) = self.open.last().copied()
            && end <= now
        {
            self.pass_time(draft, end);
            self.open.pop();
        }
    }

    fn innermost_node(&self) -> DraftNode {
        self.open.last().map_or(self.root, |(node, _)| *node)
    }

    fn pass_time(&mut self, draft: &mut TreeDraft, now: f64) {
        let passed = now - self.now;
        if passed > 0.0 && passed.is_finite() && !self.open.is_empty() {
            draft.add_cost(0, self.innermost_node(), (passed * 1000.0).round() as i64);
        }
        self.now = self.now.max(now);
    }
}
