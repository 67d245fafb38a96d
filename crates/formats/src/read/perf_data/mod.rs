//! perf's own `perf.data`, from a file or a pipe, compressed by it or not.
//!
//! The file is read twice: first for mappings and thread names, then for the samples, in any order.
//! The samples become a recording, whose names come from the images found on this machine.

mod branches;
mod embedded;
mod file;
mod maps;
mod unwinding;
mod wire;

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::{GroupBy, ReadLimits, ReadOptions};
use super::perf_script::event_value_types;
use super::recording;
use super::time_axis::{TimeRange, TimeSlices};
use file::{EventDesc, Facts, PerfRecord};
use maps::{Maps, Space};
use profile::{
    CallGraph, Collector, Event, EventId, Host, ImageId, ImageKind, ImageOffset, NameId, Recording,
    StackId, Target, Unit,
};
use rustc_hash::FxHashMap;
use std::path::Path;
use symbols::Detail;
use unwinding::PerfStackReader;
use wire::{PerfSample, ProcessChange, SAMPLE};

/// Number of samples between two checks of the memory.
const CHECK_EVERY: u64 = 1024;
/// perf's markers in call chains are the numbers from here on.
const MARKS: u64 = -4096_i64 as u64;
const MARK_USER: u64 = -512_i64 as u64;
const MARK_KERNEL: u64 = -128_i64 as u64;
const MAX_EVENTS: usize = 10_000;

pub use branches::BranchStacks;

/// Does the first pass: reads everything except the samples.
fn read_changes(
    path: &Path,
    limits: &ReadLimits,
    with_times: bool,
) -> Result<(Facts, Maps, TimeRange), ReadFault> {
    let mut maps = Maps::new();
    let mut range = TimeRange::default();
    let facts = file::scan_records(
        &mut ProfileInput::open_file(path, limits)?,
        limits,
        |record, facts| {
            if record.kind == SAMPLE {
                if with_times && let Some(ns) = facts.sample_time(record.body) {
                    range.add_time(ns as f64);
                }
                return Ok(());
            }
            // All events have the same fields in such records.
            let first = facts.events.first();
            let time = first.and_then(|event| event.attr.trailing_time(record.body));
            let build_ids = facts.events.iter().any(|event| event.attr.build_ids());
            if let Some(change) =
                ProcessChange::read_change(record.kind, record.misc, build_ids, record.body)
            {
                maps.apply_change(time.unwrap_or(0), change);
            }
            if maps.size > limits.memory {
                Err(ReadFault::too_large(
                    "its mappings need more memory than the limit allows",
                    record.at,
                ))
            } else {
                Ok(())
            }
        },
    )?;
    if facts.events.len() > MAX_EVENTS {
        let what = format!("{} events", facts.events.len());
        return Err(ReadFault::too_large(what, FilePosition::Offset(0)));
    }
    maps.sort_changes(&facts.build_ids);
    Ok((facts, maps, range))
}

pub(crate) fn read_perf_data(path: &Path, options: &ReadOptions) -> Result<TreeDraft, ReadFault> {
    let limits = &options.limits;
    let by_time = options.group_by.contains(&GroupBy::Slice);
    let (facts, maps, range) = read_changes(path, limits, by_time)?;
    let mut symbol_options = symbols::SymbolOptions::default();
    symbol_options
        .debug_dirs
        .splice(0..0, options.debug_dirs.iter().cloned());
    let mut samples = PerfSamples::new(&facts, maps, &symbol_options, options);
    samples.slices = range.slices_of_samples();
    file::scan_records(
        &mut ProfileInput::open_file(path, limits)?,
        limits,
        |record, _| match record.kind {
            SAMPLE => samples.add_sample(&record),
            _ => Ok(()),
        },
    )?;
    samples.finish_draft(&symbol_options)
}

/// Key of samples: event, name, process, thread, stack, slice of time.
type Key = (usize, NameId, u32, u32, StackId, Option<u32>);

struct PerfSamples<'o> {
    facts: &'o Facts,
    options: &'o ReadOptions,
    maps: Maps,
    stacks: PerfStackReader<'o>,
    recording: Recording,
    /// The time axis, if samples are separated by time.
    slices: Option<TimeSlices>,
    /// Number of samples, and sum of their periods.
    rows: FxHashMap<Key, (u64, u64)>,
    ids: FxHashMap<u64, usize>,
    seen: u64,
    damaged: u64,
}

impl<'o> PerfSamples<'o> {
    fn new(
        facts: &'o Facts,
        maps: Maps,
        symbols: &'o symbols::SymbolOptions,
        options: &'o ReadOptions,
    ) -> Self {
        let host = Host {
            name: facts.host.clone().unwrap_or_default(),
            machine: facts.machine.clone().unwrap_or_default(),
            ..Host::default()
        };
        let mut recording =
            Recording::new(host, Target::Machine, Collector::Import, CallGraph::None);
        recording.images.clone_from(&maps.images);
        Self {
            facts,
            options,
            maps,
            stacks: PerfStackReader::new(facts.machine.as_deref(), symbols),
            recording,
            slices: None,
            rows: FxHashMap::default(),
            ids: facts.event_positions(),
            seen: 0,
            damaged: 0,
        }
    }

    fn add_sample(&mut self, record: &PerfRecord<'_>) -> Result<(), ReadFault> {
        let Some((index, event)) = self.facts.event_of(record.body, &self.ids) else {
            return Err(ReadFault::damaged("a sample, but no event", record.at));
        };
        self.seen += 1;
        let Some(sample) = event.attr.read_sample(record.body) else {
            self.damaged += 1;
            return Ok(());
        };
        let stack = self.sample_stack(&sample, event);
        let name = self.maps.thread_name(sample.tid, sample.time);
        let name = match (&name, sample.tid) {
            (Some(name), _) => self.recording.names.intern(name),
            (None, 0) => self.recording.names.intern("swapper"),
            (None, tid) => self.recording.names.intern(&format!("tid {tid}")),
        };
        // Ungrouped samples need not be separated.
        let (pid, tid) = if self.options.group_by.is_empty() {
            (0, 0)
        } else {
            (sample.pid, sample.tid)
        };
        let slice = self.slices.map(|axis| axis.slice_at(sample.time as f64));
        let key = (index, name, pid, tid, stack, slice);
        let row = self.rows.entry(key).or_default();
        let period = sample.period.or(event.attr.fixed_period()).unwrap_or(1);
        *row = (row.0.saturating_add(1), row.1.saturating_add(period));
        if self.seen.is_multiple_of(CHECK_EVERY) {
            let size = 64 * self.recording.stacks.len() + 96 * self.rows.len();
            if size as u64 + self.maps.size > self.options.limits.memory {
                let what = "its stacks need more memory than the limit allows";
                return Err(ReadFault::too_large(what, record.at));
            }
        }
        Ok(())
    }

    fn sample_stack(&mut self, sample: &PerfSample<'_>, event: &EventDesc) -> StackId {
        let space = self.maps.space_at(sample.pid, sample.time);
        let mut locations = Vec::new();
        let mut kernel = false;
        let mut exact = true;
        for address in &sample.callchain {
            if *address >= MARKS {
                kernel = matches!(*address, MARK_KERNEL);
                exact = true;
                // The copy of the stack is more precise.
                if *address == MARK_USER && !sample.stack.is_empty() {
                    break;
                }
                continue;
            }
            // A caller's address is behind its call, but its line is that of the call.
            let at = address.wrapping_sub(u64::from(!exact));
            exact = false;
            locations.push(self.maps.locate_address(&space, at, kernel));
        }
        if !sample.stack.is_empty() {
            self.unwind_sample(&space, sample, event, &mut locations);
        }
        if locations.is_empty() {
            let ip = sample.ip.unwrap_or(0);
            locations.push(self.maps.locate_address(&space, ip, ip >> 63 == 1));
        }
        let location = profile::Location {
            image: ImageId(0),
            offset: ImageOffset(0),
        };
        let stacks = &mut self.recording.stacks;
        stacks
            .intern_stack(&locations)
            .unwrap_or_else(|| stacks.intern(location, None))
    }

    fn unwind_sample(
        &mut self,
        space: &Space,
        sample: &PerfSample<'_>,
        event: &EventDesc,
        locations: &mut Vec<profile::Location>,
    ) {
        let mask = event.attr.user_registers;
        let frames = self.stacks.unwind_sample(&self.maps, space, sample, mask);
        for frame in frames.unwrap_or_default() {
            locations.push(self.maps.locate_address(space, frame.0, false));
        }
    }

    fn finish_draft(
        mut self,
        symbol_options: &symbols::SymbolOptions,
    ) -> Result<TreeDraft, ReadFault> {
        let mut notes = self.loss_notes();
        let mut value_types = Vec::new();
        let mut numbers = FxHashMap::default();
        for (index, event) in self.facts.events.iter().enumerate() {
            if !self.rows.keys().any(|key| key.0 == index) {
                continue;
            }
            let name = event
                .name
                .clone()
                .unwrap_or_else(|| event_name(event, index));
            numbers.insert(index, value_types.len());
            for (value_type, unit) in event_value_types(&name)
                .into_iter()
                .zip([Unit::Samples, Unit::Nanoseconds])
            {
                // The second is a weight of an arbitrary unit.
                self.recording
                    .events
                    .push(Event::new(&value_type.name, unit, 0));
                value_types.push(value_type);
            }
        }
        for (key, (count, period)) in std::mem::take(&mut self.rows) {
            let (event, process, pid, tid, stack, slice) = key;
            let Some(first) = numbers.get(&event) else {
                continue;
            };
            for (offset, weight) in [count, period].into_iter().enumerate() {
                let event = EventId((first + offset) as u16);
                self.recording.samples.push(profile::Sample {
                    pid: Some(pid),
                    tid: Some(tid),
                    slice,
                    weight,
                    ..profile::Sample::new(event, process, stack, count)
                });
            }
        }
        // In the same order each time.
        self.recording.samples.sort_unstable();
        self.embed_symbols(&mut notes);
        let detail = if self.options.inline || self.options.lines {
            Detail::Lines
        } else {
            Detail::Procedures
        };
        let locations = self
            .recording
            .stacks
            .frames()
            .iter()
            .map(|frame| frame.location);
        let resolved = symbols::resolve(&self.recording, locations, detail, symbol_options);
        notes.extend(resolved.warnings.iter().map(ToString::to_string));
        let mut draft = TreeDraft::new(value_types, self.options);
        draft.set_time_axis(self.slices);
        for note in notes {
            draft.add_note(note);
        }
        recording::fill_from_recording(&mut draft, &self.recording, &resolved.table, self.options)?;
        Ok(draft)
    }

    fn loss_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.facts.unfinished {
            notes.push("perf was ended before it could finish the file: names of events and build-ids are missing".to_owned());
        }
        if self.maps.lost > 0 {
            notes.push(format!("perf lost {} samples or records", self.maps.lost));
        }
        if self.damaged > 0 {
            notes.push(format!(
                "{} of {} samples are damaged and were left out",
                self.damaged, self.seen
            ));
        }
        let stacks = &self.stacks;
        for (count, how) in [
            (stacks.truncated, "longer than their copies"),
            (stacks.failed, "not to be unwound to the end"),
        ] {
            if count > 0 {
                notes.push(format!(
                    "{count} of {} stacks were {how}: their callers are missing",
                    stacks.unwound
                ));
            }
        }
        notes
    }

    /// Embeds the symbols of code without a file: of the kernel, if the same one runs here, and of
    /// generated code.
    fn embed_symbols(&mut self, notes: &mut Vec<String>) {
        let mut hit: Vec<ImageId> = self
            .recording
            .stacks
            .frames()
            .iter()
            .map(|frame| frame.location.image)
            .collect();
        hit.sort_unstable();
        hit.dedup();
        let mut kernel = None;
        let mut embedded = Vec::new();
        for id in hit {
            let Some(image) = self.maps.images.get(id.0 as usize) else {
                continue;
            };
            match image.kind {
                ImageKind::Kernel | ImageKind::KernelModule => {
                    let known = kernel.get_or_insert_with(|| {
                        let found = embedded::running_kernel(&self.facts.build_ids);
                        if let Err(why) = &found {
                            notes.push(format!("functions of the kernel have no names: {why}"));
                        }
                        found.ok()
                    });
                    if let Some(known) = known {
                        embedded.extend(embedded::kernel_symbols(known, id, &image.path));
                    }
                }
                ImageKind::Jit => {
                    let pid = image.path.trim_start_matches("[jit ").trim_end_matches(']');
                    let path = format!("/tmp/perf-{pid}.map");
                    if let Some(found) = embedded::perf_map(&path, id) {
                        notes.push(format!("generated code was named by {path}, which may be of another process by now"));
                        embedded.extend(found);
                    }
                }
                _ => {}
            }
        }
        embedded.sort_unstable();
        self.recording.symbols = embedded;
    }
}

/// Returns the name of an event that the file does not name.
fn event_name(event: &EventDesc, index: usize) -> String {
    let name = perf_event_name(event.attr.kind, event.attr.config);
    name.map_or_else(|| format!("event {}", index + 1), str::to_owned)
}

/// Returns perf's name of a hardware or software event, by its type and configuration.
pub fn perf_event_name(perf_type: u32, config: u64) -> Option<&'static str> {
    const HARDWARE: &[&str] = &[
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: &[&str] = &[
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ];
    let names = match perf_type {
        0 => HARDWARE,
        1 => SOFTWARE,
        _ => &[],
    };
    names.get(usize::try_from(config).ok()?).copied()
}
