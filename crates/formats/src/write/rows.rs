//! Sums of samples by key.

use profile::{Event, EventId, Recording, Sample, Unit};

/// The sum of samples with an equal key.
pub(crate) struct SampleRow<K> {
    /// The key of the samples.
    pub key: K,
    weight: u64,
}

impl<K> SampleRow<K> {
    /// Makes a row of one sample.
    pub fn new(key: K, sample: &Sample) -> Self {
        Self {
            key,
            weight: sample.weight,
        }
    }

    /// Returns the size of the row, for comparison with other rows of the event.
    pub fn magnitude(&self) -> u64 {
        self.weight
    }

    /// Returns the value in the event's unit, rounded once for the row, not for each sample.
    pub fn event_value(&self, event: &Event) -> u64 {
        match event.unit {
            Unit::Nanoseconds => self.weight,
            // Floating point would lose the last digits of large counts needlessly.
            Unit::Samples if event.multiplex_scale == 1.0 && !event.mixed_periods => self.weight,
            Unit::Samples => event.amount_of_weight(self.weight).round() as u64,
        }
    }
}

/// Sorts rows by their keys and merges rows with equal keys.
pub(crate) fn add_up<K: Ord>(mut rows: Vec<SampleRow<K>>) -> Vec<SampleRow<K>> {
    rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    rows.dedup_by(|next, kept| {
        let same = next.key == kept.key;
        if same {
            kept.weight = kept.weight.saturating_add(next.weight);
        }
        same
    });
    rows
}

/// Returns the samples of one event.
pub(crate) fn samples_of(recording: &Recording, event: EventId) -> impl Iterator<Item = &Sample> {
    recording.samples.iter().filter(move |s| s.event == event)
}
