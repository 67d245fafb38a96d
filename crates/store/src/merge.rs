//! Several recordings as one.

use crate::accesses::{self, Found};
use crate::decode::SampleSum;
use crate::encode::check_storable;
use crate::error::StoreError;
use crate::manifest::MAX_EVENTS;
use crate::rare_stacks::fold_rare_stacks;
use profile::{
    BranchCount, BuildId, CallGraph, Collector, EmbeddedSymbol, Event, EventId, Host, Image,
    ImageId, ImageKind, ImageOffset, Location, NameId, Recording, Sample, StackId, StackWalks,
    Stretch, StretchCount, StretchSightings, Target, TaskTimes, ThreadCount, Unit, Waker,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Merges recordings into one with the samples of all.
///
/// Images are the same if they have the same build-id or, without one, the same path on the same
/// host and kernel. Events are the same if they have the same name and unit; if their periods
/// differ, samples are weighed in units of the event ([`Event::mixed_periods`]). The result begins
/// when the first recording began and ends when the last one ended. If recordings disagree on what
/// they measured and how, a warning says so.
///
/// # Errors
/// [`StoreError::Unmergeable`] if there is no recording, or too many events;
/// [`StoreError::Unstorable`] if a recording contradicts itself.
pub fn merge_recordings(recordings: &[Recording]) -> Result<Recording, StoreError> {
    let first = recordings.first().ok_or_else(nothing_to_merge)?;
    let mut merger = Merger::new(empty_merged(first, recordings));
    for recording in recordings {
        check_storable(recording)?;
        merger.add_recording(recording)?;
    }
    Ok(merger.finish_recording())
}

/// Maximum number of frames, beside one for each place, of several epochs that are read together.
pub(crate) const MOST_CALLERS_READ: usize = 1 << 20;

/// Merges recordings as [`merge_recordings`] does, one after the other and in bounded memory: rare
/// stacks lose callers ([`fold_rare_stacks`]) before the number of frames exceeds its limit.
pub(crate) struct BoundedMerger {
    /// The parts without their tables.
    heads: Vec<Recording>,
    merger: Merger,
    most_callers: usize,
    /// Number of frames above which stacks are folded next.
    fold_at: usize,
}

impl BoundedMerger {
    /// Makes an empty merger with at most `most_callers` frames of callers.
    pub fn new(most_callers: usize) -> Self {
        let (host, target) = (Host::default(), Target::Machine);
        let merged = Recording::new(host, target, Collector::Bpf, CallGraph::None);
        Self {
            heads: Vec::new(),
            merger: Merger::new(merged),
            most_callers,
            fold_at: most_callers,
        }
    }

    /// Makes a merger of samples that keep their slices: a slice stands for the same time in all
    /// recordings. A slice is as long as the longest recording.
    pub fn of_slices(most_callers: usize) -> Self {
        let mut merger = Self::new(most_callers);
        merger.merger.merged.slice_ns = Some(1);
        merger
    }

    /// Returns whether no recording was added.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn add_part(&mut self, part: &Recording) -> Result<(), StoreError> {
        check_storable(part)?;
        self.merger.add_recording(part)?;
        self.heads.push(head_of(part));
        if self.merger.merged.stacks.len() > self.fold_at {
            self.merger.fold_stacks(self.most_callers);
            // Leaves room, so that not each part folds again.
            self.fold_at = self.merger.merged.stacks.len() + self.most_callers / 2;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Recording, StoreError> {
        let first = self.heads.first().ok_or_else(nothing_to_merge)?;
        let head = empty_merged(first, &self.heads);
        self.merger.fold_stacks(self.most_callers);
        let merged = self.merger.finish_recording();
        let mut warnings = head.warnings;
        warnings.extend(merged.warnings);
        let lengths = self.heads.iter().map(|head| head.duration_ns);
        let longest = lengths.max().unwrap_or(0).max(1);
        Ok(Recording {
            warnings,
            slice_ns: merged.slice_ns.map(|_| longest),
            walks: merged.walks,
            events: merged.events,
            images: merged.images,
            names: merged.names,
            stacks: merged.stacks,
            samples: merged.samples,
            threads: merged.threads,
            symbols: merged.symbols,
            branches: merged.branches,
            stretches: merged.stretches,
            accesses: merged.accesses,
            ..head
        })
    }
}

/// Returns a recording without its tables.
fn head_of(recording: &Recording) -> Recording {
    let (host, target) = (recording.host.clone(), recording.target.clone());
    let mut head = Recording::new(host, target, recording.collector, recording.call_graph);
    head.start_unix_ns = recording.start_unix_ns;
    head.duration_ns = recording.duration_ns;
    head.task_times = recording.task_times;
    head.sockets = recording.sockets;
    head.kernel = recording.kernel;
    head
}

fn nothing_to_merge() -> StoreError {
    StoreError::Unmergeable {
        what: "there is none".to_owned(),
    }
}

/// Makes one recording with the sums of all, by event, place and process. The recordings have no
/// samples.
pub(crate) fn merge_sums(parts: Vec<(Recording, Vec<SampleSum>)>) -> Result<Recording, StoreError> {
    let (recordings, parts): (Vec<Recording>, Vec<Vec<SampleSum>>) = parts.into_iter().unzip();
    let first = recordings.first().ok_or_else(nothing_to_merge)?;
    let mut merger = Merger::new(empty_merged(first, &recordings));
    let mut sums = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    let ids = recordings
        .iter()
        .map(|recording| merger.add_all_but_samples(recording));
    let ids: Vec<MergedIds> = ids.collect::<Result<_, _>>()?;
    // Only now the events with mixed periods are known.
    for ((recording, part), ids) in recordings.iter().zip(parts).zip(ids) {
        sums.extend(part.into_iter().map(|sum| SampleSum {
            image: ids.images[sum.image.0 as usize],
            event: ids.events[usize::from(sum.event.0)],
            process: ids.names[sum.process.0 as usize],
            cgroup: sum.cgroup.map(|cgroup| ids.names[cgroup.0 as usize]),
            weight: merger.merged_weight(recording.event(sum.event), sum.event, &ids, sum.weight),
            ..sum
        }));
    }
    // Each recording is sorted already, which makes this sort fast.
    sums.sort_by_key(SampleSum::sort_key);
    let mut merged = merger.finish_recording();
    let mut last = None;
    for same in sums.chunk_by(|a, b| a.sort_key() == b.sort_key()) {
        let Some(sum) = same.first() else { continue };
        let SampleSum { image, offset, .. } = *sum;
        let location = Location { image, offset };
        let stack = match last {
            Some((last, stack)) if last == location => stack,
            _ => merged.stacks.push_leaf(location),
        };
        last = Some((location, stack));
        let add =
            |amount: fn(&SampleSum) -> u64| same.iter().map(amount).fold(0, u64::saturating_add);
        merged.samples.push(Sample {
            event: sum.event,
            process: sum.process,
            pid: None,
            tid: None,
            cgroup: sum.cgroup,
            labels: None,
            stack,
            slice: None,
            waker: None,
            count: add(|sum| sum.count),
            weight: add(|sum| sum.weight),
        });
    }
    Ok(merged)
}

/// Makes the merged recording without contents.
fn empty_merged(first: &Recording, all: &[Recording]) -> Recording {
    let mut warnings = Vec::new();
    let mut agree = |same: &dyn Fn(&Recording) -> bool, on: &str| {
        let agree = all.iter().all(same);
        if !agree {
            warnings.push(format!("the merged recordings differ in {on}"));
        }
        agree
    };
    let target = if agree(&|other| other.target == first.target, "their target") {
        first.target.clone()
    } else {
        Target::Machine
    };
    agree(
        &|r| r.collector == first.collector,
        "how samples were collected",
    );
    agree(
        &|r| r.kernel == first.kernel,
        "whether the kernel was recorded",
    );
    agree(
        &|r| r.call_graph == first.call_graph,
        "how call stacks were recorded",
    );
    let call_graph = all
        .iter()
        .map(|r| r.call_graph)
        .find(|g| *g != CallGraph::None);
    let call_graph = call_graph.unwrap_or(CallGraph::None);
    let mut merged = Recording::new(merged_host(first, all), target, first.collector, call_graph);
    let end = |r: &Recording| r.start_unix_ns.saturating_add(r.duration_ns);
    merged.start_unix_ns = all.iter().map(|r| r.start_unix_ns).min().unwrap_or(0);
    let end = all.iter().map(end).max().unwrap_or(0);
    merged.duration_ns = end.saturating_sub(merged.start_unix_ns);
    let times = all.iter().map(|r| r.task_times);
    let add = |sum: Option<TaskTimes>, next: Option<TaskTimes>| Some(sum?.plus(next?));
    merged.task_times = times.reduce(add).flatten();
    merged.sockets = all.iter().filter_map(|r| r.sockets).max();
    merged.kernel = all.iter().any(|r| r.kernel);
    merged.slice_ns = first.slice_ns.filter(|_| all.len() == 1);
    merged.warnings = warnings;
    merged
}

/// Returns the host of all recordings; for several hosts their names, all their CPUs, and their
/// common properties.
fn merged_host(first: &Recording, all: &[Recording]) -> Host {
    let mut host = first.host.clone();
    let mut seen = FxHashSet::from_iter([first.host.name.as_str()]);
    for other in all.iter().map(|recording| &recording.host) {
        if host.kernel != other.kernel {
            host.kernel.clear();
        }
        if host.machine != other.machine {
            host.machine.clear();
        }
        if host.cpu_model != other.cpu_model {
            host.cpu_model = None;
        }
        if host.cpu_id != other.cpu_id {
            host.cpu_id = None;
        }
        if host.clock_hz != other.clock_hz {
            host.clock_hz = None;
        }
        if seen.insert(&other.name) {
            host.name.push(',');
            host.name.push_str(&other.name);
            host.cpus = host.cpus.saturating_add(other.cpus);
        }
    }
    host
}

/// The properties that make two images the same.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Program(ImageKind, BuildId),
    /// An image without a build-id is local to its host: host name, kernel release, image.
    Local(String, String, Image),
}

/// The ids of a recording's parts in the merged one.
struct MergedIds {
    events: Vec<EventId>,
    names: Vec<NameId>,
    images: Vec<ImageId>,
}

struct Merger {
    merged: Recording,
    images: FxHashMap<Identity, ImageId>,
    /// Indexes of samples, by samples with counts of 0.
    samples: FxHashMap<Sample, usize>,
    /// Indexes of threads, likewise, by host: thread numbers have no meaning on another one.
    threads: FxHashMap<(String, ThreadCount), usize>,
    symbols: BTreeSet<EmbeddedSymbol>,
    /// Observed and interpreted transfers, by branch and target.
    branches: BTreeMap<(ImageId, ImageOffset, ImageOffset), (u64, u64)>,
    stretches: BTreeMap<(ImageId, Stretch), StretchSightings>,
    accesses: Found,
    walks: Option<StackWalks>,
}

impl Merger {
    fn new(merged: Recording) -> Self {
        Self {
            merged,
            walks: None,
            images: FxHashMap::default(),
            samples: FxHashMap::default(),
            threads: FxHashMap::default(),
            symbols: BTreeSet::new(),
            branches: BTreeMap::new(),
            stretches: BTreeMap::new(),
            accesses: Found::new(),
        }
    }

    fn add_recording(&mut self, recording: &Recording) -> Result<(), StoreError> {
        let ids = self.add_all_but_samples(recording)?;
        let stacks = self.map_stacks(recording, &ids);
        for sample in &recording.samples {
            let event = recording.event(sample.event);
            let weight = self.merged_weight(event, sample.event, &ids, sample.weight);
            let sample = Sample { weight, ..*sample };
            self.add_sample(&sample, &ids, &stacks);
        }
        Ok(())
    }

    fn add_all_but_samples(&mut self, recording: &Recording) -> Result<MergedIds, StoreError> {
        // Sentences on stack walks cover all recordings together.
        let said = recording.walks.map_or_else(Vec::new, StackWalks::sentences);
        for warning in recording.warnings.iter().filter(|w| !said.contains(w)) {
            if !self.merged.warnings.contains(warning) {
                self.merged.warnings.push(warning.clone());
            }
        }
        if let Some(walks) = recording.walks {
            self.walks = Some(self.walks.unwrap_or_default().plus(walks));
        }
        let ids = self.map_ids(recording)?;
        for thread in &recording.threads {
            let event = recording.event(thread.event);
            let weight = self.merged_weight(event, thread.event, &ids, thread.weight);
            let thread = ThreadCount { weight, ..*thread };
            self.add_thread(&thread, &ids, &recording.host.name);
        }
        self.symbols
            .extend(recording.symbols.iter().map(|symbol| EmbeddedSymbol {
                image: ids.images[symbol.image.0 as usize],
                ..symbol.clone()
            }));
        for branch in &recording.branches {
            let image = ids.images[branch.image.0 as usize];
            let counts = self.branches.entry((image, branch.branch, branch.target));
            let (observed, walked) = counts.or_default();
            *observed = observed.saturating_add(branch.observed);
            *walked = walked.saturating_add(branch.walked);
        }
        for one in &recording.stretches {
            let image = ids.images[one.image.0 as usize];
            let seen = self.stretches.entry((image, one.stretch)).or_default();
            seen.join(one.seen);
        }
        for one in &recording.accesses {
            let image = ids.images[one.image.0 as usize];
            let found = self.accesses.entry((image, one.instruction));
            found.or_default().join(&one.accesses);
        }
        Ok(ids)
    }

    fn map_ids(&mut self, recording: &Recording) -> Result<MergedIds, StoreError> {
        let events = recording.events.iter().map(|event| self.merge_event(event));
        let events = events.collect::<Result<_, _>>()?;
        let names = recording
            .names
            .iter()
            .map(|name| self.merged.names.intern(name));
        let names = names.collect();
        let images = recording.images.iter();
        let images: Vec<_> = images
            .map(|image| self.merge_image(image, &recording.host))
            .collect();
        Ok(MergedIds {
            events,
            names,
            images,
        })
    }

    /// Returns the merged stack of each stack of the recording.
    fn map_stacks(&mut self, recording: &Recording, ids: &MergedIds) -> Vec<StackId> {
        let mut stacks: Vec<StackId> = Vec::with_capacity(recording.stacks.len());
        for frame in recording.stacks.frames() {
            let location = Location {
                image: ids.images[frame.location.image.0 as usize],
                ..frame.location
            };
            // A caller comes before its callee.
            let caller = frame.caller.map(|caller| stacks[caller.0 as usize]);
            stacks.push(self.merged.stacks.intern(location, caller));
        }
        stacks
    }

    fn merge_event(&mut self, event: &Event) -> Result<EventId, StoreError> {
        let events = &mut self.merged.events;
        let same = |other: &Event| other.name == event.name && other.unit == event.unit;
        let position = events.iter().position(same).unwrap_or(events.len());
        let id = u16::try_from(position).map_err(|_| StoreError::Unmergeable {
            what: format!("they have more than {MAX_EVENTS} events"),
        })?;
        match events.get_mut(position) {
            None => events.push(event.clone()),
            Some(merged) => {
                let id = EventId(id);
                let differs = merged.period != event.period || event.mixed_periods;
                if event.unit == Unit::Samples && differs {
                    let per_weight = merged.units_per_weight();
                    merged.mixed_periods = true;
                    let samples = self.merged.samples.iter_mut();
                    let samples = samples.filter(|sample| sample.event == id);
                    let threads = self.merged.threads.iter_mut();
                    let threads = threads.filter(|thread| thread.event == id);
                    let weights = samples.map(|sample| &mut sample.weight);
                    for weight in weights.chain(threads.map(|thread| &mut thread.weight)) {
                        *weight = weight.saturating_mul(per_weight);
                    }
                    let warning = format!(
                        "{} was recorded at different rates: samples count as the time or events that each stands for",
                        event.name
                    );
                    if !self.merged.warnings.contains(&warning) {
                        self.merged.warnings.push(warning);
                    }
                }
                merge_event(merged, event);
            }
        }
        Ok(EventId(id))
    }

    /// Returns the weight of an event's samples in the merged recording.
    fn merged_weight(&self, event: &Event, id: EventId, ids: &MergedIds, weight: u64) -> u64 {
        let merged = self.merged.event(ids.events[usize::from(id.0)]);
        if merged.mixed_periods {
            weight.saturating_mul(event.units_per_weight())
        } else {
            weight
        }
    }

    fn merge_image(&mut self, image: &Image, host: &Host) -> ImageId {
        let identity = match &image.build_id {
            Some(id) => Identity::Program(image.kind, id.clone()),
            None => {
                let mut image = image.clone();
                image.gone = false;
                Identity::Local(host.name.clone(), host.kernel.clone(), image)
            }
        };
        let images = &mut self.merged.images;
        let id = *self.images.entry(identity).or_insert_with(|| {
            images.push(image.clone());
            ImageId((images.len() - 1) as u32)
        });
        let merged = &mut images[id.0 as usize];
        if image.build_id.is_none() {
            merged.gone |= image.gone;
        } else if merged.gone || !image.gone {
            // The same program at another path: the latest path is the most likely to exist.
            merged.clone_from(image);
        }
        id
    }

    fn add_sample(&mut self, sample: &Sample, ids: &MergedIds, stacks: &[StackId]) {
        let stack = |stack: StackId| stacks[stack.0 as usize];
        let key = Sample {
            event: ids.events[usize::from(sample.event.0)],
            process: ids.names[sample.process.0 as usize],
            cgroup: sample.cgroup.map(|cgroup| ids.names[cgroup.0 as usize]),
            labels: sample.labels.map(|labels| ids.names[labels.0 as usize]),
            stack: stack(sample.stack),
            waker: sample.waker.map(|waker| Waker {
                process: ids.names[waker.process.0 as usize],
                tid: waker.tid,
                stack: waker.stack.map(stack),
            }),
            // Slices of several recordings stand for different times.
            slice: sample.slice.filter(|_| self.merged.slice_ns.is_some()),
            count: 0,
            weight: 0,
            ..*sample
        };
        let samples = &mut self.merged.samples;
        let position = *self.samples.entry(key).or_insert_with(|| {
            samples.push(key);
            samples.len() - 1
        });
        let merged = &mut samples[position];
        merged.count = merged.count.saturating_add(sample.count);
        merged.weight = merged.weight.saturating_add(sample.weight);
    }

    fn add_thread(&mut self, thread: &ThreadCount, ids: &MergedIds, host: &str) {
        let key = ThreadCount {
            event: ids.events[usize::from(thread.event.0)],
            process: ids.names[thread.process.0 as usize],
            cgroup: thread.cgroup.map(|cgroup| ids.names[cgroup.0 as usize]),
            count: 0,
            weight: 0,
            ..*thread
        };
        let threads = &mut self.merged.threads;
        let position = *self
            .threads
            .entry((host.to_owned(), key))
            .or_insert_with(|| {
                threads.push(key);
                threads.len() - 1
            });
        let merged = &mut threads[position];
        merged.count = merged.count.saturating_add(thread.count);
        merged.weight = merged.weight.saturating_add(thread.weight);
    }

    /// Limits the stacks so far to `most_callers` frames of callers.
    fn fold_stacks(&mut self, most_callers: usize) {
        if self.merged.stacks.len() <= most_callers {
            return;
        }
        self.samples = FxHashMap::default();
        self.merged.symbols = std::mem::take(&mut self.symbols).into_iter().collect();
        fold_rare_stacks(&mut self.merged, most_callers);
        self.symbols = self.merged.symbols.drain(..).collect();
        let samples = self.merged.samples.iter().enumerate();
        let counted_as = |(position, sample): (usize, &Sample)| {
            let key = Sample {
                count: 0,
                weight: 0,
                ..*sample
            };
            (key, position)
        };
        self.samples = samples.map(counted_as).collect();
    }

    fn finish_recording(mut self) -> Recording {
        self.merged.set_walks(self.walks);
        self.merged.symbols = self.symbols.into_iter().collect();
        let branches = self.branches.into_iter();
        self.merged.branches = branches
            .map(
                |((image, branch, target), (observed, walked))| BranchCount {
                    image,
                    branch,
                    target,
                    observed,
                    walked,
                },
            )
            .collect();
        let stretches = self.stretches.into_iter();
        self.merged.stretches = stretches
            .map(|((image, stretch), seen)| StretchCount {
                image,
                stretch,
                seen,
            })
            .collect();
        accesses::attach_accesses(self.accesses, &mut self.merged);
        self.merged
    }
}

/// Adds the accounting of an event to that of the same event.
fn merge_event(merged: &mut Event, event: &Event) {
    let rates = merged.frequency.zip(event.frequency);
    let first_period = merged.period as f64;
    let stored = merged.stored as f64 + event.stored as f64;
    if merged.period != event.period && stored > 0.0 {
        let units = |event: &Event| event.period as f64 * event.stored as f64;
        merged.period = ((units(merged) + units(event)) / stored).round() as u64;
    }
    merged.frequency = rates.map(|(rate, other)| {
        if merged.mixed_periods {
            rate * first_period / merged.period.max(1) as f64
        } else {
            (rate + other) / 2.0
        }
    });
    let (mine, theirs) = (merged.taken as f64, event.taken as f64);
    if mine + theirs > 0.0 {
        let scaled = merged.multiplex_scale * mine + event.multiplex_scale * theirs;
        merged.multiplex_scale = scaled / (mine + theirs);
    }
    for (sum, more) in [
        (&mut merged.taken, event.taken),
        (&mut merged.stored, event.stored),
        (&mut merged.dropped, event.dropped),
        (&mut merged.lost, event.lost),
    ] {
        *sum = sum.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a recording of stacks of twenty frames that differ from those of other seeds.
    fn recording_of(seed: u64) -> Recording {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        recording.duration_ns = 1_000 + seed;
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        recording.images = vec![Image::unknown()];
        let process = recording.names.intern("x");
        for number in 0..40 {
            let frames: Vec<Location> = (0..20)
                .map(|frame| Location {
                    image: ImageId(0),
                    offset: ImageOffset(match frame {
                        0 => number % 4,
                        _ => seed << 32 | number << 16 | frame,
                    }),
                })
                .collect();
            let stack = recording.stacks.intern_stack(&frames);
            let sample = Sample::new(EventId(0), process, stack.expect("frames"), 1);
            recording.samples.push(sample);
        }
        recording
    }

    #[test]
    fn many_recordings_are_merged_within_bounds() {
        for mut merger in [BoundedMerger::new(2000), BoundedMerger::of_slices(2000)] {
            for seed in 0..50 {
                merger.add_part(&recording_of(seed)).unwrap();
                let frames = merger.merger.merged.stacks.len();
                assert!(frames <= 2000 + 1000 + 800 + 4, "{frames} frames");
            }
            let has_slices = merger.merger.merged.slice_ns.is_some();
            let merged = merger.finish().unwrap();
            assert!(merged.stacks.len() <= 2004, "{}", merged.stacks.len());
            assert_eq!(merged.slice_ns, has_slices.then_some(1_049));
            let mut places = [0; 4];
            for sample in &merged.samples {
                let location = merged.stacks.frame(sample.stack).location;
                places[location.offset.0 as usize] += sample.count;
            }
            assert_eq!(places, [500; 4]);
            assert!(merged.rare_stacks_share() > 0.9);
        }
    }

    /// Makes a recording of one event at a period; `counts` are offsets and the samples at each.
    fn recording_at(period: u64, counts: &[(u64, u64)]) -> Recording {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::None);
        let stored = counts.iter().map(|(_, count)| count).sum();
        recording.events = vec![Event {
            frequency: Some(1e9 / period as f64),
            taken: stored,
            stored,
            ..Event::new("cpu-clock", Unit::Samples, period)
        }];
        recording.images = vec![Image::unknown()];
        let process = recording.names.intern("x");
        for &(offset, count) in counts {
            let (image, offset) = (ImageId(0), ImageOffset(offset));
            let stack = recording.stacks.push_leaf(Location { image, offset });
            let sample = Sample::new(EventId(0), process, stack, count);
            recording.threads.push(ThreadCount {
                event: EventId(0),
                pid: 1,
                tid: 1,
                process,
                cgroup: None,
                count,
                weight: count,
            });
            recording.samples.push(sample);
        }
        recording
    }

    /// Returns the time at an offset in nanoseconds and mean samples of the event.
    fn amounts_at(merged: &Recording, offset: u64) -> (u64, f64) {
        let event = merged.event(EventId(0));
        let at = |sample: &&Sample| merged.stacks.frame(sample.stack).location.offset.0 == offset;
        let weight = merged.samples.iter().filter(at).map(|one| one.weight).sum();
        (
            event.units_of_weight(weight),
            event.amount_of_weight(weight),
        )
    }

    /// The place with fewer samples has more time: each of its samples stands for four times as
    /// much.
    #[test]
    fn samples_of_unlike_periods_are_added_as_time() {
        let often = recording_at(1_000_000, &[(1, 300), (2, 100)]);
        let seldom = recording_at(4_000_000, &[(2, 60)]);
        let mut bounded = BoundedMerger::new(2000);
        for part in [&often, &seldom, &often] {
            bounded.add_part(part).unwrap();
        }
        let sums = [&often, &seldom, &often].map(|part| {
            let samples = part.samples.iter();
            let sums = samples.map(|sample| SampleSum::new(part, sample)).collect();
            let mut head = part.clone();
            head.samples.clear();
            (head, sums)
        });
        let bounded = bounded.finish().unwrap();
        // The result can be merged again.
        let again = merge_recordings(&[often.clone(), seldom.clone()]).unwrap();
        let again = merge_recordings(&[again, often.clone()]).unwrap();
        let turned = merge_recordings(&[seldom.clone(), often.clone(), often.clone()]).unwrap();
        for merged in [bounded, merge_sums(sums.into()).unwrap(), again, turned] {
            let event = merged.event(EventId(0));
            assert!(event.mixed_periods);
            assert_eq!(event.stored, 860);
            assert_eq!(event.period, 1_209_302, "of the mean sample");
            let rate = event.frequency.expect("a rate");
            assert!((rate * event.period as f64 - 1e9).abs() < 1e4, "{rate}");
            let (one, one_samples) = amounts_at(&merged, 1);
            let (two, two_samples) = amounts_at(&merged, 2);
            assert_eq!((one, two), (600_000_000, 440_000_000));
            assert!((one_samples + two_samples - 860.0).abs() < 0.01);
            let threads: u64 = merged.threads.iter().map(|thread| thread.weight).sum();
            assert_eq!(event.units_of_weight(threads), 1_040_000_000);
        }
        let alike = merge_recordings(&[often.clone(), often]).unwrap();
        assert!(!alike.event(EventId(0)).mixed_periods);
        assert_eq!(alike.samples[0].weight, alike.samples[0].count);
        assert_eq!(amounts_at(&alike, 1), (600_000_000, 600.0));
    }
}
