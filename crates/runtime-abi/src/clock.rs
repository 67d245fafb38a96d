//! The clock of delays.

/// A count of delay within one epoch, in one word, so that a late update for an experiment that has
/// ended cannot affect the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Number of the experiment or of the pause between two.
    pub epoch: u16,
    /// Nanoseconds of delay since its start, less than 2^48.
    pub delay_ns: u64,
}

impl Clock {
    /// Packs the count into a word.
    pub fn pack(self) -> u64 {
        u64::from(self.epoch) << 48 | self.delay_ns & 0xffff_ffff_ffff
    }

    /// Unpacks the word.
    pub fn unpack(word: u64) -> Self {
        Self {
            epoch: (word >> 48) as u16,
            delay_ns: word & 0xffff_ffff_ffff,
        }
    }

    /// Returns the delay in nanoseconds; 0 if the count is of another epoch.
    pub fn delay_in(self, epoch: u16) -> u64 {
        if self.epoch == epoch {
            self.delay_ns
        } else {
            0
        }
    }
}
