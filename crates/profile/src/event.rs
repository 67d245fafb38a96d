use serde::{Deserialize, Serialize};

/// Index of an [`Event`] in [`crate::Recording::events`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct EventId(pub u16);

/// The unit of a [`crate::Sample`]'s weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Samples: the weight is the number of samples, or units of the event with
    /// [`Event::mixed_periods`].
    Samples,
    /// Nanoseconds of measured time (off-CPU time), not of samples.
    Nanoseconds,
}

/// A recorded event, and the accounting of its samples.
///
/// The collector checks `taken == stored + dropped` at every drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The name as a user would type it after `-e`: `cpu-clock`, `cycles`, `sched:sched_switch`.
    pub name: String,
    /// The unit of its samples' weights.
    pub unit: Unit,
    /// The nominal mean period between two samples, in units of the event (nanoseconds for
    /// `cpu-clock`, occurrences otherwise); 1 where every occurrence was recorded.
    pub period: u64,
    /// The nominal rate in samples a second per CPU, for events sampled at a rate.
    pub frequency: Option<f64>,
    /// True if samples of different periods were added up. Their weights are then in units of the
    /// event, because counts of unlike samples have no meaning; `period` and `frequency` are those
    /// of the mean sample.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed_periods: bool,
    /// Time enabled divided by time running, if the kernel multiplexed the event with others on too
    /// few counters; 1.0 if it always ran. Counts are comparable after multiplication by it.
    pub multiplex_scale: f64,
    /// Samples that the kernel took for the target.
    pub taken: u64,
    /// Samples that are in the recording.
    pub stored: u64,
    /// Samples that were taken and then given up (full table, unreadable stack), counted where it
    /// happened.
    pub dropped: u64,
    /// Samples of the target without room in a ring buffer, as the kernel counts them.
    pub lost: u64,
}

impl Event {
    /// Returns the fraction of taken samples that are not in the recording: given up, or lost in a
    /// full ring buffer.
    pub fn missing_fraction(&self) -> f64 {
        let missing = self.dropped.saturating_add(self.lost);
        missing as f64 / self.taken.max(1) as f64
    }

    /// Returns the weight of one sample; of the mean sample, if periods are mixed.
    pub fn sample_weight(&self) -> f64 {
        if self.mixed_periods {
            self.period.max(1) as f64
        } else {
            1.0
        }
    }

    /// Returns the amount of a weight: nanoseconds of measured time, or samples as if the event had
    /// not shared its counter.
    pub fn amount_of_weight(&self, weight: u64) -> f64 {
        match self.unit {
            Unit::Samples => weight as f64 / self.sample_weight() * self.multiplex_scale,
            Unit::Nanoseconds => weight as f64,
        }
    }

    /// Returns a weight in units of the event, which can be summed over recordings with any period:
    /// nanoseconds of a clock or of measured time, else occurrences.
    pub fn units_of_weight(&self, weight: u64) -> u64 {
        let units = weight.saturating_mul(self.units_per_weight());
        match self.unit {
            Unit::Samples if self.multiplex_scale != 1.0 => {
                (units as f64 * self.multiplex_scale).round() as u64
            }
            _ => units,
        }
    }

    /// Returns the units of the event that each unit of its samples' weights stands for.
    pub fn units_per_weight(&self) -> u64 {
        match self.unit {
            Unit::Samples if !self.mixed_periods => self.period.max(1),
            _ => 1,
        }
    }

    /// Makes an event that always ran, without a rate and samples.
    pub fn new(name: &str, unit: Unit, period: u64) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            period,
            frequency: None,
            mixed_periods: false,
            multiplex_scale: 1.0,
            taken: 0,
            stored: 0,
            dropped: 0,
            lost: 0,
        }
    }
}
