//! Makes recordings from given records, as if they had been in the ring buffers.

use crate::host::read_host;
use crate::recording::branches;
use crate::recording::collection::Collection;
use crate::recording::ring_source::RingSource;
use crate::{Error, EventSpec, Options};
use profile::{CallGraph, Collector, Event, Recording, Target, Unit};

/// A record of a ring buffer: type, misc and body, as perf_event_open(2) has them.
pub type RingRecord<'a> = (u32, u16, &'a [u8]);

/// Makes a recording from records without open events: runs all of [`record`](crate::record) except
/// the kernel, to test features that this processor lacks. In the records the first event has the
/// number 1. Their samples have no call stacks.
///
/// # Errors
/// If the attributes of the events cannot be understood.
#[doc(hidden)]
pub fn replay<'a>(
    events: &[EventSpec],
    records: impl IntoIterator<Item = RingRecord<'a>>,
) -> Result<Recording, Error> {
    let target = crate::TargetSpec::Machine;
    let mut source = RingSource::pretended(&Options::new(target), events)?;
    let mut collection = Collection::new(events.len());
    for (kind, misc, body) in records {
        source.pretend(kind, misc, body);
    }
    source.finish(&mut collection)?;
    let mut recording = Recording::new(
        read_host(),
        Target::Machine,
        Collector::Ring,
        CallGraph::None,
    );
    for (spec, total) in events.iter().zip(&collection.totals) {
        recording.events.push(Event {
            taken: total.taken + total.lost,
            stored: total.stored,
            dropped: total.dropped,
            lost: total.lost,
            ..Event::new(&spec.name, Unit::Samples, spec.period_at(1000))
        });
    }
    recording
        .warnings
        .extend(branches::summary(&collection.stretches));
    crate::recording::finish::finish_recording(collection, &mut recording, None);
    Ok(recording)
}
