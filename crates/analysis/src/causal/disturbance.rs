//! Experiments during which the machine worked for others.
//!
//! What a hypervisor gave to other machines and what other processes used is recorded with each experiment.
//! If it was much more than in most experiments of the run, that one is set aside: it has nothing to do with what
//! was sped up. What goes on all the time is not the same on both sides of a comparison: delays are subtracted from
//! one of them, and the program that is left has lost its time in less. So what the program lost is subtracted from
//! both ([`time_lost`]).

use profile::{CausalRun, Experiment, OtherLoad, TargetTime};

/// A machine that does so much else is said to.
const MUCH: f64 = 0.2;

/// Returns how long the program stood still for others during an experiment, in nanoseconds of wall time: by what the
/// hypervisor took from the processors in use, and by how long its threads waited for processors that other processes had.
/// Where its waits were not recorded only the hypervisor counts: others may use processors beside it and take nothing from it.
pub(super) fn time_lost(run: &CausalRun, experiment: &Experiment) -> f64 {
    let known = experiment
        .disturbance
        .and_then(|it| Some((it, it.idle_ns? as f64)));
    let Some((it, idle)) = known else {
        return 0.0;
    };
    let cpus = f64::from(run.host.cpus.max(1));
    let duration = (experiment.duration_ns as f64).max(1.0);
    let busy = (cpus * duration - idle).max(1.0);
    let stolen = it.stolen_ns as f64 / busy * duration;
    let Some(target) = it.target else {
        return stolen;
    };
    let delayed = experiment.delay_ns as f64 / duration;
    let waited = waited_for_others(target, it.others_ns as f64, duration, delayed);
    // Time of a thread that stands still is nobody's loss.
    let standing = target.standing.map_or(0.0, |it| {
        let (at_a_time, _) = at_a_time(target, duration);
        (it.total_ns as f64 / (at_a_time * duration)).min(1.0)
    });
    stolen * (1.0 - standing) + waited
}

/// Wall time that waits for processors in use by other processes cost a program. Its threads wait for each other
/// too: a thread finds another process or another thread of its own on the processor in proportion to what these use.
/// As many threads as run at a time share the loss. What a thread waits while it stands still for a delay is no loss; where that was
/// not counted, all but the one that causes delays are taken to stand still for the part `delayed` of the time.
fn waited_for_others(target: TargetTime, others: f64, duration: f64, delayed: f64) -> f64 {
    let (at_a_time, siblings) = at_a_time(target, duration);
    let for_others = others / (others + siblings).max(1.0);
    let waited = match target.standing {
        Some(standing) => target.waited_ns.saturating_sub(standing.waited_ns) as f64,
        None => target.waited_ns as f64 * (1.0 - delayed * (1.0 - 1.0 / at_a_time)),
    };
    waited * for_others / at_a_time
}

/// Returns how many threads run or want to run at a time, and the running time of the others beside each of them.
fn at_a_time(target: TargetTime, duration: f64) -> (f64, f64) {
    let (ran, waited) = (target.ran_ns as f64, target.waited_ns as f64);
    let at_a_time = ((ran + waited) / duration).max(1.0);
    (at_a_time, ran * (1.0 - 1.0 / at_a_time))
}

/// Returns how long the program's threads waited for processors that others of them had, in nanoseconds summed over threads.
pub(super) fn waited_for_siblings(experiment: &Experiment) -> f64 {
    let known = experiment.disturbance.and_then(|it| Some((it, it.target?)));
    let Some((it, target)) = known else {
        return 0.0;
    };
    let (_, siblings) = at_a_time(target, (experiment.duration_ns as f64).max(1.0));
    target.waited_ns as f64 * siblings / (it.others_ns as f64 + siblings).max(1.0)
}

/// Returns a warning if the machine was busy with something else most of the time, in any of the runs.
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
