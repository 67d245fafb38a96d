//! Branch predictor.

/// A counter of two bits; 2 and 3 predict taken.
#[derive(Clone, Copy)]
struct Counter(u8);

impl Counter {
    fn says(self) -> bool {
        self.0 >= 2
    }

    fn learn(&mut self, taken: bool) {
        self.0 = if taken {
            (self.0 + 1).min(3)
        } else {
            self.0.saturating_sub(1)
        };
    }
}

/// Maximum number of past branches that a prediction depends on, and number of remembered
/// predictions.
const HISTORY: u32 = 12;
const ENTRIES: usize = 4096;

/// Two predictions, like the simplest of the TAGE family: by the branch alone, and by the branch
/// with its recent history, if that was seen before.
pub struct Predictor {
    history: u64,
    plain: Vec<Counter>,
    /// Each with its branch and history.
    tagged: Vec<(u64, Counter)>,
}

impl Predictor {
    pub fn new() -> Self {
        Self {
            history: 0,
            plain: vec![Counter(1); ENTRIES],
            tagged: vec![(0, Counter(1)); ENTRIES],
        }
    }

    /// Returns whether a branch is predicted correctly.
    pub fn predicts(&mut self, branch: u64, taken: bool) -> bool {
        let tag = branch << HISTORY | self.history;
        let place = (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % ENTRIES;
        let plain = &mut self.plain[branch as usize % ENTRIES];
        let (of, counter) = &mut self.tagged[place];
        let known = *of == tag;
        let said = if known { counter.says() } else { plain.says() };
        if known {
            counter.learn(taken);
        } else if said != taken {
            (*of, *counter) = (tag, Counter(1 + u8::from(taken)));
        }
        plain.learn(taken);
        self.history = (self.history << 1 | u64::from(taken)) & ((1 << HISTORY) - 1);
        said == taken
    }
}
