//! Where the cycles went, added up (the paper's Figure 4).

use super::{Account, Cause, Static};

/// A range of samples: at least what nothing else can explain, at most all that it may explain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// What only this cause can explain.
    pub least: f64,
    /// What it can explain at most.
    pub most: f64,
}

/// The cycles of some instructions, in samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// All samples.
    pub samples: f64,
    /// Instructions executed, by the cycles between samples.
    pub executed: f64,
    /// Those of instructions of which the frequency is not known.
    pub unknown: f64,
    /// At best, static stalls included.
    pub best: f64,
    /// Dynamic stalls, for each of [`Cause::ALL`].
    pub dynamic: Vec<Line>,
    /// Stalls that no cause can explain.
    pub unexplained_stall: f64,
    /// What is missing to the best case, as a negative number.
    pub unexplained_gain: f64,
    /// All dynamic stalls, less the gain.
    pub subtotal_dynamic: f64,
    /// Static stalls, for each of [`Static::ALL`].
    pub statics: Vec<f64>,
    /// All static stalls.
    pub subtotal_static: f64,
    /// What executing takes without any stall.
    pub execution: f64,
    /// Differences that are small enough for sampling error.
    pub error: f64,
}

impl Summary {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            dynamic: vec![Line::default(); Cause::ALL.len()],
            statics: vec![0.0; Static::ALL.len()],
            ..Self::default()
        }
    }

    /// Adds an instruction with its samples.
    pub fn add(&mut self, samples: f64, account: Option<&Account>) {
        self.samples += samples;
        let Some(account) = account else {
            self.unknown += samples;
            return;
        };
        let frequency = account.frequency;
        self.executed += frequency;
        self.best += account.minimum * frequency;
        let explained = account.stall - account.unexplained;
        let all: f64 = account.culprits.iter().map(|one| one.most).sum();
        for (cause, line) in Cause::ALL.iter().zip(&mut self.dynamic) {
            for one in account.culprits.iter().filter(|one| one.cause == *cause) {
                line.most += one.most.min(explained) * frequency;
                line.least += (explained - (all - one.most)).max(0.0) * frequency;
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

    /// Adds those of another.
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
