//! Chromium's trace events: V8's CPU profiles among them, else the durations of what was traced.

use super::chrome::{CpuProfile, Node, draft};
use super::firefox::value_type;
use super::value::{Column, Lenient, Scalar, Text};
use crate::tree::draft::{Draft, Owner};
use crate::tree::error::{Fault, Place};
use crate::tree::options::ReadOptions;
use profile::DraftNode;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An event; times are in microseconds.
#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    name: Scalar,
    ph: Text,
    #[serde(default)]
    pid: Scalar,
    #[serde(default)]
    tid: Scalar,
    #[serde(default)]
    ts: Scalar,
    #[serde(default)]
    dur: Scalar,
    #[serde(default)]
    id: Scalar,
    #[serde(default)]
    args: Lenient<Box<Args>>,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    data: Lenient<Box<Data>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Data {
    cpu_profile: Lenient<CpuPart>,
    time_deltas: Column<f64>,
    start_time: f64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CpuPart {
    nodes: Column<Node>,
    samples: Column<u64>,
    end_time: f64,
}

/// Process and thread; of a CPU profile, process and the profile's id.
type Key = (i64, i64);

/// Names that the trace gives.
#[derive(Default)]
struct Names {
    processes: BTreeMap<i64, String>,
    threads: BTreeMap<Key, String>,
}

pub(super) fn read(events: Vec<Event>, options: &ReadOptions, used: u64) -> Result<Draft, Fault> {
    let mut names = Names::default();
    let mut profiles: BTreeMap<(i64, String), (i64, CpuProfile)> = BTreeMap::new();
    let mut spans: BTreeMap<Key, Vec<Span>> = BTreeMap::new();
    for (index, event) in events.into_iter().enumerate() {
        let (pid, tid) = (
            event.pid.integer().unwrap_or(0),
            event.tid.integer().unwrap_or(0),
        );
        let name = event.name.text().unwrap_or("(no name)");
        let Text(phase) = &event.ph;
        match (phase.as_str(), name) {
            ("M", "process_name" | "thread_name") => {
                let called = event.args.0.as_ref().and_then(|args| args.name.text());
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
                let id = event.id.text().unwrap_or_default().to_owned();
                let (_, profile) = profiles
                    .entry((pid, id))
                    .or_insert_with(|| (tid, CpuProfile::default()));
                profile.append(*data);
            }
            (phase @ ("B" | "E" | "X"), name) => {
                let at = index as u64;
                let (Scalar::Number(start), phase) = (event.ts, phase.as_bytes()) else {
                    continue;
                };
                let length = match event.dur {
                    Scalar::Number(length) if phase == b"X" => length.max(0.0),
                    _ => 0.0,
                };
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
    durations(spans, &names, options, used)
}

impl CpuProfile {
    fn append(&mut self, data: Data) {
        if data.start_time > 0.0 {
            self.start_time = data.start_time;
        }
        let part = data.cpu_profile.0.unwrap_or_default();
        self.nodes.extend(part.nodes.0);
        self.samples.extend(part.samples.0);
        self.time_deltas.extend(data.time_deltas.0);
        self.end_time = self.end_time.max(part.end_time);
    }
}

impl Names {
    fn owner(&self, (pid, tid): Key) -> Owner<'_> {
        Owner {
            host: None,
            process: self.processes.get(&pid).map(String::as_str),
            pid: Some(pid),
            thread: self.threads.get(&(pid, tid)).map(String::as_str),
            tid: Some(tid),
        }
    }
}

fn cpu_profiles(
    profiles: BTreeMap<(i64, String), (i64, CpuProfile)>,
    names: &Names,
    options: &ReadOptions,
    used: u64,
) -> Result<Draft, Fault> {
    let mut draft = draft(options, used)?;
    draft.note("the CPU profiles in the trace were read, not the durations of its events");
    for ((pid, _), (tid, profile)) in &profiles {
        profile.add_to(&mut draft, &names.owner((*pid, *tid)), options)?;
    }
    Ok(draft)
}

/// An event that begins, ends, or does both.
struct Span {
    /// `None` of an end.
    name: Option<String>,
    start: f64,
    /// Of one that does both.
    end: Option<f64>,
    /// Its position in the file.
    at: u64,
}

/// Events that lie in each other on one thread as calls, each with the time that it does not share.
fn durations(
    spans: BTreeMap<Key, Vec<Span>>,
    names: &Names,
    options: &ReadOptions,
    used: u64,
) -> Result<Draft, Fault> {
    let mut draft = Draft::new(vec![value_type("time", "nanoseconds")], options);
    draft.hold(used, Place::Offset(0))?;
    draft.note("costs are the durations of traced events, on a CPU or not");
    for (key, mut spans) in spans {
        let root = draft.group(&names.owner(key), Place::Offset(0))?;
        // Of events that begin together, the longer one is around the other.
        spans.sort_by(|a, b| {
            let longer = |span: &Span| span.end.unwrap_or(span.start);
            let complete = a.end.is_some() && b.end.is_some();
            let order = a.start.total_cmp(&b.start);
            order.then(match complete {
                true => longer(b).total_cmp(&longer(a)),
                false => std::cmp::Ordering::Equal,
            })
        });
        let mut calls = Calls {
            root,
            open: Vec::new(),
            now: f64::NEG_INFINITY,
        };
        for span in spans {
            calls.enter(&mut draft, span)?;
        }
        calls.leave(&mut draft, f64::INFINITY);
        if !calls.open.is_empty() {
            draft
                .note("some events were never ended; they end with the last event of their thread");
        }
    }
    Ok(draft)
}

/// The events around a moment.
struct Calls {
    root: DraftNode,
    /// With the end, where it is known.
    open: Vec<(DraftNode, Option<f64>)>,
    now: f64,
}

impl Calls {
    fn enter(&mut self, draft: &mut Draft, span: Span) -> Result<(), Fault> {
        self.leave(draft, span.start);
        self.pass(draft, span.start);
        let Some(name) = span.name else {
            if self.open.pop().is_none() {
                draft.note("some events end that never began");
            }
            return Ok(());
        };
        let at = Place::Row {
            table: "event",
            row: span.at,
        };
        let method = draft.method(&name, "")?;
        let node = draft.child(self.top(), method, at)?;
        self.open.push((node, span.end));
        Ok(())
    }

    /// Ends the events that end by `now`.
    fn leave(&mut self, draft: &mut Draft, now: f64) {
        while let Some((_, Some(end))) = self.open.last().copied()
            && end <= now
        {
            self.pass(draft, end);
            self.open.pop();
        }
    }

    fn top(&self) -> DraftNode {
        self.open.last().map_or(self.root, |(node, _)| *node)
    }

    fn pass(&mut self, draft: &mut Draft, now: f64) {
        let passed = now - self.now;
        if passed > 0.0 && passed.is_finite() && !self.open.is_empty() {
            draft.add(0, self.top(), (passed * 1000.0).round() as i64);
        }
        self.now = self.now.max(now);
    }
}
