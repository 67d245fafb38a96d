//! Limit on reading the names of functions from the memory of programs.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Maximum number of bytes (or characters) in a minute: reading them takes about a second.
const MOST_READ: u64 = 1 << 28;
const MINUTE: Duration = Duration::from_secs(60);

/// Limit for the current minute.
#[derive(Debug, Default)]
pub(crate) struct ReadBudget {
    spent: Cell<u64>,
    since: Cell<Option<Instant>>,
}

impl ReadBudget {
    /// Returns whether more may be read.
    pub fn has_left(&self) -> bool {
        let now = Instant::now();
        if self.since.get().is_none_or(|since| now - since > MINUTE) {
            self.since.set(Some(now));
            self.spent.set(0);
        }
        self.spent.get() <= MOST_READ
    }

    /// Adds to the amount read in this minute.
    pub fn spend(&self, amount: u64) {
        self.spent.set(self.spent.get().saturating_add(amount));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_an_end_to_what_is_read() {
        let budget = ReadBudget::default();
        assert!(budget.has_left());
        budget.spend(MOST_READ);
        assert!(budget.has_left());
        budget.spend(u64::MAX);
        assert!(!budget.has_left());
        budget.since.set(Instant::now().checked_sub(2 * MINUTE));
        assert!(budget.has_left());
    }
}
