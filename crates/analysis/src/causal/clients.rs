//! Work that other processes bring: a load generator, the program before in a pipe.
//!
//! A virtual speedup delays the threads of the program, and not its clients. While the program
//! stands still, clients go on: the program then finds more work and waits less for the next. The
//! line has no part in that: a server's sleeping background thread was predicted to be worth 57 %
//! (`benches/RESULTS.md`). So each visit of a progress point is assumed to wait for other
//! processes' work as long as without delays.

use profile::{CausalRun, Experiment, Progress};

/// Greatest part of the program's own time that such waits can take.
const MOST: f64 = 0.9;

/// Waits for other processes' work at each visit without delays, in nanoseconds of wall time by
/// progress point.
pub(super) struct ClientWaits(Vec<f64>);

impl ClientWaits {
    /// Computes the waits of a run from these experiments, each with its own time in nanoseconds.
    pub fn of<'a>(run: &CausalRun, counted: impl Iterator<Item = (&'a Experiment, f64)>) -> Self {
        let mut sums = vec![(0.0, 0.0); run.points.len()];
        for (experiment, own) in counted.filter(|(it, _)| it.speedup == 0.0) {
            for (sum, count) in sums.iter_mut().zip(&experiment.counts) {
                if let Progress::Visits(visits) = *count {
                    sum.0 += client_wait(experiment, own);
                    sum.1 += visits as f64;
                }
            }
        }
        let each = |(waited, visits): (f64, f64)| if visits > 0.0 { waited / visits } else { 0.0 };
        Self(sums.into_iter().map(each).collect())
    }

    /// Returns an experiment's own time as if clients stood still together with the program.
    pub fn own_time(&self, point: usize, experiment: &Experiment, own: f64, visits: u64) -> f64 {
        let each = self.0.get(point).copied().unwrap_or(0.0);
        own - client_wait(experiment, own) + each * visits as f64
    }
}

/// Returns how long an experiment with this own time waited for clients; 0 if that was not
/// measured.
fn client_wait(experiment: &Experiment, own: f64) -> f64 {
    let target = experiment.disturbance.and_then(|it| it.target);
    let waited = target.and_then(|it| it.for_clients_ns).unwrap_or(0) as f64;
    waited.min(MOST * own)
}
