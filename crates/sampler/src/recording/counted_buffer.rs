//! Adds what the kernel counted in one buffer to a collection, for recordings and for the daemon.

use crate::Error;
use crate::bpf::kernel::Setting;
use crate::bpf::layout::{
    self, Accounting, Count, MAX_EVENTS, PLACE_FILE, PLACE_KERNEL, Place, StackKey,
};
use crate::bpf::tables::Tables;
use crate::recording::collection::{Collection, kernel_location};
use crate::recording::tally::{self, Amount, SampleKey, ThreadKey};
use crate::recording::walked_stacks::DrainedFrames;
use profile::{EventId, FileIdentity, ImageOffset, Location, ProcessAddress, StackId};
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Number of stacks of a buffer that are counted between two checks of the number of frames.
const STACKS_AT_ONCE: usize = 4096;

/// Adds the samples and threads of a buffer. Returns the frames of its stacks, and the number of
/// stored samples of each event.
///
/// # Errors
/// [`Error::System`].
pub(crate) fn count_samples(
    collection: &mut Collection,
    tables: &Tables<'_>,
    setting: Setting,
) -> Result<(DrainedFrames, Vec<u64>), Error> {
    let mut stored = vec![0; MAX_EVENTS];
    collection.add_cgroups(tables)?;
    tables.read_places(|place| {
        if let Some(stored) = stored.get_mut(usize::from(place.event)) {
            *stored += u64::from(place.count);
            count_place(collection, setting, place);
        }
    })?;
    let frames = DrainedFrames::read(|each| tables.read_frames(each))?;
    let mut counts = Vec::new();
    tables.read_stacks(|key, count| counts.push((*key, count)))?;
    count_stacks(collection, setting, &counts, &frames, &mut stored);
    tables.read_threads(|key, count| count_thread(collection, key, count))?;
    Ok((frames, stored))
}

/// Returns the accounts of the events, each with the number of samples that were really stored.
/// Warns of losses that the programs did not count.
///
/// # Errors
/// [`Error::System`].
pub(crate) fn check_accounts(
    collection: &mut Collection,
    tables: &Tables<'_>,
    events: usize,
    stored: &[u64],
) -> Result<Vec<Accounting>, Error> {
    let mut accounts = tables.sum_accounts(events)?;
    for (event, (account, stored)) in accounts.iter_mut().zip(stored).enumerate() {
        account.stored = *stored;
        let Accounting { taken, dropped, .. } = *account;
        if taken != stored + dropped {
            collection.warnings.insert(format!(
                "accounting: in one drain {taken} samples of event {event} were taken, {stored} stored and {dropped} dropped"
            ));
        }
    }
    Ok(accounts)
}

/// Counts the samples of stacks, whose frames are all of the same buffer.
fn count_stacks(
    collection: &mut Collection,
    setting: Setting,
    counts: &[(StackKey, Count)],
    frames: &DrainedFrames,
    stored: &mut [u64],
) {
    for counts in counts.chunks(STACKS_AT_ONCE) {
        if setting.tables {
            collection.add_walked_users(counts.iter().map(|(key, _)| key.user), frames);
        }
        let mut resolved = FxHashMap::default();
        for (key, count) in counts {
            let Some(stored) = stored.get_mut(usize::from(key.event)) else {
                continue;
            };
            let known = collection.known_stack(key.user, key.kernel, frames);
            let stack = known.unwrap_or_else(|| {
                let place = (key.user, key.kernel, key.tgid, key.space);
                let words = (frames.frames_of(key.user), frames.frames_of(key.kernel));
                let stack = || collection.stack_of_words(setting, key.tgid, count.first_ns, words);
                *resolved.entry(place).or_insert_with(stack)
            });
            // A collector without room for the frames has dropped the sample.
            if let Some(stack) = stack {
                count_stack(collection, setting, key, stack, count.count);
                *stored += count.count;
            }
        }
        collection.bound_stacks();
    }
}

/// Counts the samples of a stack.
fn count_stack(
    collection: &mut Collection,
    setting: Setting,
    key: &StackKey,
    stack: StackId,
    count: u64,
) {
    let process = collection.field_name(&key.name);
    let key = SampleKey {
        event: EventId(key.event),
        process,
        pid: setting.per_process.then_some(key.tgid),
        tid: setting.per_thread.then_some(key.tid),
        cgroup: Some(collection.cgroup(key.cgroup)),
        labels: collection.goroutine_labels(key.labels),
        stack,
        slice: collection.slice(),
        waker: None,
    };
    collection.tally.count_sample(key, amount_of_samples(count));
}

fn amount_of_samples(count: u64) -> Amount {
    Amount {
        count,
        weight: count,
    }
}

/// Counts the samples of a place.
fn count_place(collection: &mut Collection, setting: Setting, place: &Place) {
    let key = tally::PlaceKey {
        location: place_location(collection, place),
        event: EventId(place.event.into()),
        process: collection.field_name(&place.name),
        pid: NonZeroU32::new(place.tgid).filter(|_| setting.per_process),
        tid: NonZeroU32::new(place.tid), // set only if samples are separated by thread
        cgroup: collection.cgroup(place.cgroup()),
        slice: collection
            .slice()
            .and_then(|slice| NonZeroU32::new(slice + 1)),
    };
    collection.tally.count_at_place(key, place.count.into());
}

/// Counts the samples of a thread.
fn count_thread(collection: &mut Collection, key: &layout::ThreadKey, count: Count) {
    let key = ThreadKey {
        event: EventId(key.event),
        pid: key.tgid,
        tid: key.tid,
        process: collection.field_name(&key.name),
        cgroup: Some(collection.cgroup(key.cgroup)),
    };
    collection
        .tally
        .count_in_thread(key, amount_of_samples(count.count));
}

/// Returns the location of a counted place.
fn place_location(collection: &mut Collection, place: &Place) -> Location {
    match place.kind {
        PLACE_KERNEL => kernel_location(place.offset),
        PLACE_FILE => Location {
            image: collection.images.file_without_path(FileIdentity {
                major: place.device >> 20,
                minor: place.device & 0xf_ffff,
                inode: place.inode,
                generation: place.generation().into(),
            }),
            offset: ImageOffset(place.offset),
        },
        _ => {
            let address = ProcessAddress(place.offset);
            collection.maps.locate_address(
                place.tgid,
                place.first_ns(),
                address,
                &mut collection.images,
            )
        }
    }
}
