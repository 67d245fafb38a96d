//! Totals of the cycles by cause (the paper's Figure 4).

use super::cause::{Cause, Culprit, Static};
use super::evidence::Account;

/// A range of samples: at least those that nothing else can explain, at most all that the cause may
/// explain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// The part that only this cause can explain.
    pub least: f64,
    /// The most that the cause can explain.
    pub most: f64,
}

/// The cycles of some instructions, in samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// All samples.
    pub samples: f64,
    /// Instructions executed, divided by the cycles between samples.
    pub executed: f64,
    /// Samples of instructions whose cycles are unknown.
    pub unknown: f64,
    /// The best case, static stalls included.
    pub best: f64,
    /// Dynamic stalls, for each of [`Cause::ALL`].
    pub dynamic: Vec<Line>,
    /// Stalls that no cause can explain.
    pub unexplained_stall: f64,
    /// The time below the best case, as a negative number.
    pub unexplained_gain: f64,
    /// All dynamic stalls, less the gain.
    pub subtotal_dynamic: f64,
    /// Static stalls, for each of [`Static::ALL`].
    pub statics: Vec<f64>,
    /// All static stalls.
    pub subtotal_static: f64,
    /// Execution time without any stall.
    pub execution: f64,
    /// Differences that sampling error explains.
    pub error: f64,
}

impl Summary {
    /// Returns an empty summary.
    pub fn new() -> Self {
        Self {
            dynamic: vec![Line::default(); Cause::ALL.len()],
            statics: vec![0.0; Static::ALL.len()],
            ..Self::default()
        }
    }

    /// Adds an instruction with its samples.
    pub fn add_instruction(&mut self, samples: f64, account: &Account) {
        self.samples += samples;
        let frequency = account.frequency;
        self.executed += frequency;
        self.best += account.minimum * frequency;
        let explained = account.stall - account.unexplained;
        let listed: f64 = account.culprits.iter().map(|one| one.most).sum();
        for (cause, line) in Cause::ALL.iter().zip(&mut self.dynamic) {
            let own = account.culprits.iter().filter(|one| one.cause == *cause);
            let own: f64 = own.map(|one| one.most).sum();
            let most = own.min(explained);
            line.most += most * frequency;
            // Causes that are not listed, because each can have little, can have that little.
            let others = listed - own + account.minor;
            if account.sure {
                line.least += (explained - others).clamp(0.0, most) * frequency;
            }
        }
        self.unexplained_stall += account.unexplained * frequency;
        self.unexplained_gain -= account.gain * frequency;
        self.subtotal_dynamic += (account.stall - account.gain) * frequency;
        let (reason, held) = account.static_stall.unzip();
        let held = held.unwrap_or(0.0);
        for (one, sum) in Static::ALL.iter().zip(&mut self.statics) {
            *sum += if Some(*one) == reason {
                held * frequency
            } else {
                0.0
            };
        }
        self.subtotal_static += held * frequency;
        self.execution += (account.minimum - held) * frequency;
        let difference = account.cycles - account.minimum - account.stall + account.gain;
        self.error += difference * frequency;
    }

    /// Adds an instruction whose cycles are unknown and which may have waited for some causes: any
    /// part of its samples may be theirs.
    pub fn add_suspects(&mut self, samples: f64, suspects: &[Culprit]) {
        self.samples += samples;
        self.unknown += samples;
        for (cause, line) in Cause::ALL.iter().zip(&mut self.dynamic) {
            if suspects.iter().any(|one| one.cause == *cause) {
                line.most += samples;
            }
        }
    }

    /// Adds another summary.
    pub fn join(&mut self, other: &Self) {
        self.samples += other.samples;
        self.executed += other.executed;
        self.unknown += other.unknown;
        self.best += other.best;
        for (line, more) in self.dynamic.iter_mut().zip(&other.dynamic) {
            line.least += more.least;
            line.most += more.most;
        }
        self.unexplained_stall += other.unexplained_stall;
        self.unexplained_gain += other.unexplained_gain;
        self.subtotal_dynamic += other.subtotal_dynamic;
        for (sum, more) in self.statics.iter_mut().zip(&other.statics) {
            *sum += more;
        }
        self.subtotal_static += other.subtotal_static;
        self.execution += other.execution;
        self.error += other.error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn culprit(cause: usize, most: f64) -> Culprit {
        Culprit {
            cause: Cause::ALL[cause],
            at: Vec::new(),
            most,
        }
    }

    fn account(stall: f64, causes: &[(usize, f64)]) -> Account {
        let mut account = Account {
            frequency: 1.0,
            sure: true,
            cycles: stall,
            minimum: 0.0,
            static_stall: None,
            stall,
            culprits: Vec::new(),
            minor: 0.0,
            unexplained: 0.0,
            gain: 0.0,
            error: 0.0,
        };
        account.charge_culprits(
            causes
                .iter()
                .map(|(cause, most)| culprit(*cause, *most))
                .collect(),
        );
        account
    }

    /// Regression: the rest of a stall was counted as certain, although unlisted causes may explain
    /// it, each of which can have little: 10 to 9.3.
    #[test]
    fn what_is_not_listed_can_have_the_rest() {
        let mut summary = Summary::new();
        summary.add_instruction(10.0, &account(10.0, &[(2, 9.3), (6, 0.9)]));
        let line = summary.dynamic[2];
        assert!((line.least - 9.1).abs() < 1e-9 && (line.most - 9.3).abs() < 1e-9);
    }

    proptest! {
        /// For any listed causes, no range runs backwards, and none exceeds the stalls.
        #[test]
        fn ranges_run_forwards(
            stalls in prop::collection::vec(
                (0.0_f64..100.0, prop::collection::vec((0_usize..12, 0.0_f64..200.0), 0..6), any::<bool>()),
                1..8,
            ),
        ) {
            let mut summary = Summary::new();
            let mut all = 0.0;
            for (stall, causes, sure) in &stalls {
                let account = Account { sure: *sure, ..account(*stall, causes) };
                summary.add_instruction(*stall, &account);
                all += stall;
            }
            for line in &summary.dynamic {
                prop_assert!(0.0 <= line.least && line.least <= line.most);
                prop_assert!(line.most <= all + 1e-9);
            }
        }
    }
}
