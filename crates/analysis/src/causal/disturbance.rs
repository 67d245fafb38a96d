//! Experiments during which the machine worked for others.
//!
//! What a hypervisor gave to other machines and what other processes used is recorded with each experiment.
//! If it was much more than in most experiments of the run, that one is set aside: it has nothing to do with what
//! was sped up. What goes on all the time is not the same on both sides of a comparison: delays are subtracted from
//! one of them, and the program that is left has lost its time in less. So what the program lost is subtracted from
//! both ([`lost`]).

use profile::{CausalRun, Experiment};

/// Parts of the machine by which experiments differ anyway: it is counted in ticks.
const SLIGHT: f64 = 0.05;
/// As for the typical (median) distance from the median.
const TOO_FAR: f64 = 3.0;
/// A machine that does so much else is said to.
const MUCH: f64 = 0.2;

/// The part of the machine that something else had during an experiment, 0 to 1; 0 where that is not known.
pub(super) fn of(run: &CausalRun, experiment: &Experiment) -> f64 {
    let Some(it) = experiment.disturbance else {
        return 0.0;
    };
    let machine = f64::from(run.host.cpus.max(1)) * experiment.duration_ns as f64;
    let others = it.stolen_ns as f64 + it.others_ns as f64;
    (others / machine.max(1.0)).min(1.0)
}

/// Returns how long the program stood still for others during an experiment, in nanoseconds of wall time. What the hypervisor
/// took, it took from processors that were in use; and others hold the program up with what they did beyond what
/// processors were idle: before that, there was room for them beside it.
pub(super) fn lost(run: &CausalRun, experiment: &Experiment) -> f64 {
    let known = experiment
        .disturbance
        .and_then(|it| Some((it, it.idle_ns? as f64)));
    let Some((it, idle)) = known else {
        return 0.0;
    };
    let cpus = f64::from(run.host.cpus.max(1));
    let duration = experiment.duration_ns as f64;
    let busy = (cpus * duration - idle).max(1.0);
    let stolen = it.stolen_ns as f64 / busy * duration;
    let others = (it.others_ns as f64 - idle).max(0.0) / cpus;
    stolen + others
}

/// Returns what is too much of it, in this run: at most half of the experiments have more.
pub(super) fn limit(run: &CausalRun) -> f64 {
    let (middle, spread) = typical(run);
    middle + SLIGHT.max(TOO_FAR * 1.4826 * spread)
}

/// Says if the machine was busy with something else most of the time.
pub(super) fn warning(run: &CausalRun) -> Option<String> {
    let (middle, _) = typical(run);
    (middle > MUCH).then(|| {
        format!(
            "while half of the experiments ran, the machine gave {:.0} % of its processors or more to other processes or \
             machines: what they take varies, and intervals are wider",
            100.0 * middle
        )
    })
}

/// The median, and the median distance from it.
fn typical(run: &CausalRun) -> (f64, f64) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let parts: Vec<f64> = run.experiments.iter().map(|it| of(run, it)).collect();
    let middle = median(parts.clone());
    let spread = median(parts.iter().map(|part| (part - middle).abs()).collect());
    (middle, spread)
}
