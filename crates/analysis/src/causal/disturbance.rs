//! Experiments during which the machine worked for others.
//!
//! Each experiment records the time that a hypervisor gave to other machines and the time that
//! other processes used. An experiment in which that was much more than in most of the run is set
//! aside: the disturbance has nothing to do with the speedup. A constant disturbance does not
//! cancel out in a comparison: delays are subtracted from one side only, so that the same loss
//! falls into less remaining time. So the program's loss is subtracted from both sides
//! ([`Losses`]).

use profile::{CausalRun, Experiment, OtherLoad, Progress, TargetTime};

/// Part of the machine's time used by others above which a warning says so.
const MUCH: f64 = 0.2;

/// Fewest baselines from which the program's loss to the hypervisor is estimated.
const LEAST_BASELINES: usize = 6;
/// Standard deviation of the prior for the part of the stolen time that a program loses.
const PRIOR_ERROR: f64 = 0.3;

/// The loss of a run to other machines and other processes.
pub(super) struct Losses {
    /// Wall time that the program loses for each nanosecond that the hypervisor gave to other
    /// machines, 0 to 1.
    of_stolen: f64,
}

impl Losses {
    /// Estimates, from experiments without delays, how much the hypervisor costs the program on a
    /// machine with `cpus` processors. (The distribution of stolen time over processors is unknown:
    /// on two processors, one thread lost 0.2 to 0.7 of it, two that meet lost 0.5 to 1, and not in
    /// proportion to their running time.)
    pub fn of<'a>(cpus: u32, experiments: impl Iterator<Item = &'a Experiment> + Clone) -> Self {
        let cpus = f64::from(cpus.max(1));
        let undelayed = || experiments.clone().filter(|it| it.speedup == 0.0);
        let (used, time) = undelayed().fold((0.0, 0.0), |(used, time), it| {
            let target = it.disturbance.and_then(|it| it.target);
            let wanted = target.map_or(it.duration_ns, |it| it.ran_ns.saturating_add(it.waited_ns));
            (used + wanted as f64, time + it.duration_ns as f64)
        });
        // Assumes that the hypervisor steals from all processors alike, in use or not.
        let prior = (used / f64::max(time, 1.0)).min(1.0) / cpus;
        let of_stolen = measured_loss(undelayed()).map_or(prior, |(loss, error)| {
            let (prior_weight, weight) = (PRIOR_ERROR.powi(-2), error.max(1e-3).powi(-2));
            (prior * prior_weight + loss * weight) / (prior_weight + weight)
        });
        Self {
            of_stolen: of_stolen.clamp(0.0, 1.0),
        }
    }

    /// Returns how long the program stood still for others during an experiment, in nanoseconds of
    /// wall time: the hypervisor's part, and the threads' waits for processors in use by other
    /// processes. Without recorded waits only the hypervisor counts: others may use free processors
    /// and take nothing from the program.
    pub fn time_lost(&self, experiment: &Experiment) -> f64 {
        let Some(it) = experiment.disturbance.filter(|it| it.idle_ns.is_some()) else {
            return 0.0;
        };
        let duration = (experiment.duration_ns as f64).max(1.0);
        let stolen = self.of_stolen * it.stolen_ns as f64;
        let Some(target) = it.target else {
            return stolen;
        };
        // The time in which a thread stands still for a delay is no loss.
        let standing = target.standing.map_or(0.0, |it| {
            let (at_a_time, _) = at_a_time(target, duration);
            (it.total_ns as f64 / (at_a_time * duration)).min(1.0)
        });
        stolen * (1.0 - standing) + waited_in(experiment)
    }
}

/// Returns the loss for each nanosecond of stolen time with its standard error, by least squares:
/// visits are in proportion to the time that is left. `None` if too little was stolen, or too few
/// experiments show it.
fn measured_loss<'a>(undelayed: impl Iterator<Item = &'a Experiment>) -> Option<(f64, f64)> {
    let rows: Vec<[f64; 3]> = undelayed
        .filter_map(|it| {
            let stolen = it.disturbance?.stolen_ns as f64;
            let time = it.duration_ns as f64 - waited_in(it);
            Some([time, stolen, most_visits(it)? as f64])
        })
        .collect();
    if rows.len() < LEAST_BASELINES {
        return None;
    }
    let sum = |of: fn(&[f64; 3]) -> f64| rows.iter().map(of).sum::<f64>();
    let (time2, both, stolen2) = (
        sum(|it| it[0] * it[0]),
        sum(|it| it[0] * it[1]),
        sum(|it| it[1] * it[1]),
    );
    let (by_time, by_stolen) = (sum(|it| it[0] * it[2]), sum(|it| it[1] * it[2]));
    let determinant = time2 * stolen2 - both * both;
    // Nothing was stolen, or the same part in all.
    if determinant <= 1e-6 * time2 * stolen2 || by_time <= 0.0 {
        return None;
    }
    let rate = (by_time * stolen2 - by_stolen * both) / determinant;
    let lost = (time2 * by_stolen - both * by_time) / determinant;
    let residual = |it: &[f64; 3]| (it[2] - rate * it[0] - lost * it[1]).powi(2);
    let variance = rows.iter().map(residual).sum::<f64>() / (rows.len() - 2) as f64;
    (rate > 0.0).then(|| (-lost / rate, (variance * time2 / determinant).sqrt() / rate))
}

/// Returns the visits of an experiment's busiest progress point; `None` without points.
pub(super) fn most_visits(experiment: &Experiment) -> Option<u64> {
    let visits = experiment.counts.iter().map(|count| match *count {
        Progress::Visits(visits) => visits,
        Progress::Latency { departures, .. } => departures,
    });
    visits.max()
}

/// Returns the wall time of an experiment for which the program waited for processors in use by
/// other processes.
fn waited_in(experiment: &Experiment) -> f64 {
    let Some((it, target)) = experiment.disturbance.and_then(|it| Some((it, it.target?))) else {
        return 0.0;
    };
    let duration = (experiment.duration_ns as f64).max(1.0);
    let delayed = experiment.delay_ns as f64 / duration;
    waited_for_others(target, it.others_ns as f64, duration, delayed)
}

/// Returns the wall time that waits for processors in use by other processes cost a program. Its
/// threads wait for each other too: a thread finds another process, or another thread of its own
/// program, on the processor in proportion to their use of it. As many threads as run at a time
/// share the loss. A wait while the thread stands still for a delay is no loss. If that was not
/// counted, all threads but the one that causes delays are taken to stand still for the part
/// `delayed` of the time.
fn waited_for_others(target: TargetTime, others: f64, duration: f64, delayed: f64) -> f64 {
    let (at_a_time, siblings) = at_a_time(target, duration);
    let for_others = others / (others + siblings).max(1.0);
    let waited = match target.standing {
        Some(standing) => target.waited_ns.saturating_sub(standing.waited_ns) as f64,
        None => target.waited_ns as f64 * (1.0 - delayed * (1.0 - 1.0 / at_a_time)),
    };
    waited * for_others / at_a_time
}

/// Returns how many threads run or want to run at a time, and the running time of the other threads
/// beside each of them.
pub(super) fn at_a_time(target: TargetTime, duration: f64) -> (f64, f64) {
    let (ran, waited) = (target.ran_ns as f64, target.waited_ns as f64);
    let at_a_time = ((ran + waited) / duration).max(1.0);
    (at_a_time, ran * (1.0 - 1.0 / at_a_time))
}

/// Returns how long the program's threads waited for processors in use by its other threads, in
/// nanoseconds summed over threads.
pub(super) fn waited_for_siblings(experiment: &Experiment) -> f64 {
    let known = experiment.disturbance.and_then(|it| Some((it, it.target?)));
    let Some((it, target)) = known else {
        return 0.0;
    };
    let (_, siblings) = at_a_time(target, (experiment.duration_ns as f64).max(1.0));
    target.waited_ns as f64 * siblings / (it.others_ns as f64 + siblings).max(1.0)
}

/// Returns a warning if the machine was busy with something else most of the time, in any of the
/// runs.
pub(super) fn busy_warning(runs: &[CausalRun]) -> Option<String> {
    let load = |run: &CausalRun| OtherLoad::during(&run.experiments, run.host.cpus).typical;
    let middles = runs.iter().map(load);
    let most = middles.fold(0.0, f64::max);
    (most > MUCH).then(|| {
        format!(
            "while half of the experiments ran, the machine gave {:.0} % of its processors or more to other processes or \
             machines: what they take varies, and intervals are wider",
            100.0 * most
        )
    })
}
