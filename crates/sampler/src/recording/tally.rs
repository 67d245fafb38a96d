//! Samples, aggregated as they come in.

use profile::{
    EventId, Location, NameId, NameSet, RareStacks, Recording, Sample, StackId, StackTable,
    ThreadCount, Waker, stack_importance,
};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU32;

/// Key of samples that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SampleKey {
    pub event: EventId,
    pub process: NameId,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub cgroup: Option<NameId>,
    pub labels: Option<NameId>,
    pub stack: StackId,
    pub slice: Option<u32>,
    pub waker: Option<Waker>,
}

/// Key of samples without a call stack that are counted together. A compilation leaves a hundred
/// thousand of these, and every drain looks up most of them: they are kept small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlaceKey {
    pub location: Location,
    pub event: EventId,
    pub process: NameId,
    pub pid: Option<NonZeroU32>,
    pub tid: Option<NonZeroU32>,
    pub cgroup: NameId,
    /// Number of the slice plus one.
    pub slice: Option<NonZeroU32>,
}

/// Key of samples of the same thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadKey {
    pub event: EventId,
    pub pid: u32,
    pub tid: u32,
    pub process: NameId,
    pub cgroup: Option<NameId>,
}

/// Number of samples, and their weight in the unit of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub count: u64,
    pub weight: u64,
}

/// The samples so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub names: NameSet,
    pub stacks: StackTable,
    samples: FxHashMap<SampleKey, Amount>,
    places: FxHashMap<PlaceKey, u64>,
    threads: FxHashMap<ThreadKey, Amount>,
}

impl Tally {
    pub fn count_sample(&mut self, key: SampleKey, amount: Amount) {
        add_amount(self.samples.entry(key), amount);
    }

    /// Counts samples without a call stack, of an event without weights.
    pub fn count_at_place(&mut self, key: PlaceKey, count: u64) {
        *self.places.entry(key).or_default() += count;
    }

    pub fn count_in_thread(&mut self, key: ThreadKey, amount: Amount) {
        add_amount(self.threads.entry(key), amount);
    }

    /// Doubles the length of slices: two neighbours become one.
    pub fn join_slices(&mut self) {
        for (mut key, amount) in std::mem::take(&mut self.samples) {
            key.slice = key.slice.map(|slice| slice / 2);
            add_amount(self.samples.entry(key), amount);
        }
        for (mut key, count) in std::mem::take(&mut self.places) {
            let joined = key.slice.map(|slice| (slice.get() - 1) / 2 + 1);
            key.slice = joined.and_then(NonZeroU32::new);
            *self.places.entry(key).or_default() += count;
        }
    }

    /// Drops every second sample of the events that `is_thinned` accepts, and returns the remaining
    /// number of samples of each of `events` events. Which place's and thread's samples belong
    /// together is unknown, so each is as likely to stay.
    pub fn thin_out(
        &mut self,
        events: usize,
        is_thinned: impl Fn(EventId) -> bool,
        seed: u64,
    ) -> Vec<u64> {
        let mut left = vec![0; events];
        let mut rest: Vec<u64> = (0..events as u64)
            .map(|event| seed >> (event & 63) & 1)
            .collect();
        let mut halve = |event: EventId, amount: &mut Amount| {
            if is_thinned(event) {
                let rest = &mut rest[usize::from(event.0)];
                // Every second one in a row, across the places.
                let kept = (amount.count + *rest) / 2;
                *rest = (amount.count + *rest) % 2;
                *amount = Amount {
                    count: kept,
                    weight: kept,
                };
            }
            amount.count > 0
        };
        self.samples.retain(|key, amount| halve(key.event, amount));
        for (key, amount) in &self.samples {
            left[usize::from(key.event.0)] += amount.count;
        }
        self.threads.retain(|key, amount| halve(key.event, amount));
        left
    }

    /// Drops callers of rare stacks if there are more than `most_callers` frames beside one for
    /// each place; `marker` stands for them. Returns whether it did, which renumbers stacks.
    pub fn fold_rare_stacks(
        &mut self,
        most_callers: usize,
        marker: impl FnOnce() -> Location,
    ) -> bool {
        let uses: Vec<(StackId, u64)> = used_stacks(&self.samples).collect();
        let stacks = std::mem::take(&mut self.stacks);
        let rare = match RareStacks::find_rare(stacks, &uses, most_callers) {
            Ok(rare) => rare,
            Err(stacks) => {
                self.stacks = stacks;
                return false;
            }
        };
        drop(uses);
        let mut folded = rare.fold(marker());
        for (mut key, amount) in std::mem::take(&mut self.samples) {
            key.stack = folded.place_stack(key.stack);
            if let Some(waker) = &mut key.waker {
                waker.stack = waker.stack.map(|stack| folded.place_stack(stack));
            }
            add_amount(self.samples.entry(key), amount);
        }
        self.stacks = folded.finish();
        true
    }

    /// Moves all samples into the recording, in no order; `moved` maps each location to its final
    /// one.
    pub fn move_into(self, recording: &mut Recording, mut moved: impl FnMut(Location) -> Location) {
        let mut stacks = StackTable::new();
        let mut ids: Vec<StackId> = Vec::with_capacity(self.stacks.len());
        for frame in self.stacks.into_frames() {
            // A caller has a smaller id than its callee, so it exists already.
            let caller = frame.caller.map(|caller| ids[caller.0 as usize]);
            ids.push(stacks.intern(moved(frame.location), caller));
        }
        let id = |stack: StackId| ids[stack.0 as usize];
        recording.samples = self
            .samples
            .into_iter()
            .map(|(key, amount)| Sample {
                event: key.event,
                process: key.process,
                pid: key.pid,
                tid: key.tid,
                cgroup: key.cgroup,
                labels: key.labels,
                stack: id(key.stack),
                slice: key.slice,
                waker: key.waker.map(|waker| Waker {
                    stack: waker.stack.map(id),
                    ..waker
                }),
                count: amount.count,
                weight: amount.weight,
            })
            .collect();
        add_places(recording, self.places, &mut stacks, moved);
        recording.threads = self
            .threads
            .into_iter()
            .map(|(key, amount)| ThreadCount {
                event: key.event,
                pid: key.pid,
                tid: key.tid,
                process: key.process,
                cgroup: key.cgroup,
                count: amount.count,
                weight: amount.weight,
            })
            .collect();
        recording.names = self.names;
        recording.stacks = stacks;
    }
}

/// Returns the stacks of samples and of wakers, with their importance.
fn used_stacks(
    samples: &FxHashMap<SampleKey, Amount>,
) -> impl Iterator<Item = (StackId, u64)> + '_ {
    samples.iter().flat_map(|(key, amount)| {
        let importance = stack_importance(amount.count, amount.weight);
        let waker = key.waker.and_then(|waker| waker.stack);
        let stacks = [Some(key.stack), waker].into_iter().flatten();
        stacks.map(move |stack| (stack, importance))
    })
}

/// Adds the samples without a call stack. No table of frames is made, to keep a daemon small.
fn add_places(
    recording: &mut Recording,
    places: FxHashMap<PlaceKey, u64>,
    stacks: &mut StackTable,
    mut moved: impl FnMut(Location) -> Location,
) {
    let mut places: Vec<(PlaceKey, u64)> = places.into_iter().collect();
    places.sort_unstable_by_key(|(key, _)| {
        let Location { image, offset } = key.location;
        let ids = (key.pid, key.tid, key.cgroup, key.slice);
        (image, offset, key.event, key.process, ids)
    });
    recording.samples.reserve_exact(places.len());
    let mut last: Option<(Location, StackId)> = None;
    for (key, count) in places {
        let stack = match last {
            Some((location, stack)) if location == key.location => stack,
            _ => stacks.push_leaf(moved(key.location)),
        };
        last = Some((key.location, stack));
        recording.samples.push(Sample {
            event: key.event,
            process: key.process,
            pid: key.pid.map(NonZeroU32::get),
            tid: key.tid.map(NonZeroU32::get),
            cgroup: Some(key.cgroup),
            labels: None,
            stack,
            slice: key.slice.map(|slice| slice.get() - 1),
            waker: None,
            count,
            weight: count,
        });
    }
}

fn add_amount<K>(entry: Entry<'_, K, Amount>, amount: Amount) {
    let total = entry.or_default();
    total.count += amount.count;
    total.weight += amount.weight;
}
