//! The words for what threads cost each other.

use super::{count_noun, group_digits};
use profile::{
    Between, CauseKind, Contention, Interference, MachineLoad, SharedLine, SoloLoss, SoloReport,
    SoloVerdict, TracedCpuUser, TracedFunction,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Least part of the threads' time that is worth a line.
pub const LEAST_PART: f64 = 0.01;
/// Maximum number of other processes that are named.
const NAMED: usize = 3;
/// Least part of the other processes' CPU time of one that is named, beside the first.
const LEAST_USER: f64 = 0.1;

/// The words of a result, for those who show its data.
#[derive(Debug, Serialize)]
pub struct InterferenceWords {
    /// The verdict on the program, as a sentence.
    verdict: String,
    /// Sentences about what kept ready threads from CPUs.
    machine: Vec<String>,
    /// The loss to contention for locks, as a sentence; `None` if none is claimed.
    contention: Option<String>,
    /// The cause of each function's loss, in the order of the functions.
    causes: Vec<String>,
    /// Names of the kinds of waits that occur.
    waits: BTreeMap<CauseKind, &'static str>,
}

impl InterferenceWords {
    /// Returns the words of a result.
    pub fn of_result(result: &Interference) -> Self {
        let functions = &result.functions;
        let waits = functions.iter().flat_map(|function| &function.waits);
        Self {
            verdict: verdict_sentence(&result.solo),
            machine: machine_sentences(&result.machine, result.thread_time_ns),
            contention: result.contention.as_ref().and_then(contention_sentence),
            causes: functions.iter().map(function_cause).collect(),
            waits: waits.map(|one| (one.kind, one.kind.label())).collect(),
        }
    }
}

/// Returns the verdict on the program as a sentence.
pub fn verdict_sentence(solo: &SoloReport) -> String {
    let threads = count_noun(solo.threads.round() as u64, "busy thread");
    match (solo.verdict, &solo.program) {
        (SoloVerdict::Interference, Some(program)) => format!(
            "{threads}: each runs at {} of the speed that it has alone",
            speed_beside_others(program)
        ),
        (SoloVerdict::NotFound, Some(program)) => format!(
            "{threads}: no interference found; they lose at most {} of their time to each other",
            whole_percent(program.loss.high.max(0.0))
        ),
        (SoloVerdict::Dependence, _) => format!(
            "{threads} that depend on each other: alone, each soon waits. That is dependence, not interference"
        ),
        (SoloVerdict::OneThread, _) => {
            "one thread is busy at a time: threads cannot slow each other down".to_owned()
        }
        _ => format!("interference was not measured: {}", why_not_measured(solo)),
    }
}

fn why_not_measured(solo: &SoloReport) -> String {
    match &solo.refused {
        Some(reason) => reason.clone(),
        None if solo.intervals + solo.given_up > 0 => format!(
            "too few executions ended while a thread ran alone ({} intervals, {} given up); a longer run has more",
            group_digits(solo.intervals),
            group_digits(solo.given_up)
        ),
        None => "no thread ran alone".to_owned(),
    }
}

fn speed_beside_others(program: &SoloLoss) -> String {
    let Between {
        estimate,
        low,
        high,
    } = program.loss;
    percent_interval(Between {
        estimate: 1.0 - estimate,
        low: 1.0 - high,
        high: 1.0 - low,
    })
}

/// Returns what kept ready threads from CPUs, a sentence each. It depends on the machine at that
/// moment.
pub fn machine_sentences(machine: &MachineLoad, thread_time_ns: f64) -> Vec<String> {
    let part = |ns: f64| {
        let part = ns / thread_time_ns.max(1.0);
        (part >= LEAST_PART).then(|| whole_percent(part))
    };
    let own = part(machine.ready_ns - machine.taken_ns - machine.throttled_ns).map(|part| {
        format!("run queue: {part} of the threads' time, because there are more threads than CPUs")
    });
    let others = part(machine.taken_ns).map(|part| {
        let users = cpu_users(&machine.others).join(", ");
        format!("other programs had the CPUs for {part} of the threads' time: {users}")
    });
    let limit = machine.limit.as_ref().and_then(|limit| {
        let part = part(machine.throttled_ns)?;
        let group = &limit.group;
        Some(format!(
            "the control group {group} was at its CPU limit for {part} of the threads' time"
        ))
    });
    [own, others, limit].into_iter().flatten().collect()
}

/// Names the processes that had most of the CPUs, with their shares.
fn cpu_users(others: &[TracedCpuUser]) -> Vec<String> {
    let all: u64 = others.iter().map(|user| user.ns).sum();
    let is_named = |(rank, user): &(usize, &TracedCpuUser)| {
        *rank == 0 || user.ns as f64 >= LEAST_USER * all as f64
    };
    let named = others.iter().enumerate().filter(is_named).take(NAMED);
    let name = |(_, user): (usize, &TracedCpuUser)| {
        let share = whole_percent(user.ns as f64 / all.max(1) as f64);
        match user.pid {
            // The process has no number in this PID namespace.
            0 => format!("{} (outside of this container) {share}", user.name),
            pid => format!("{} (process {pid}) {share}", user.name),
        }
    };
    named.map(name).collect()
}

/// Returns the loss to contention for locks as a sentence; `None` if none is claimed.
fn contention_sentence(contention: &Contention) -> Option<String> {
    let others = other_functions(contention).map_or(String::new(), |others| format!(" {others}"));
    contention.loss.solo.is_claimed.then(|| {
        format!(
            "lost to {}: {} of the threads' time, in {}{others}",
            contention.cause.label(),
            percent_interval(contention.loss.solo.loss),
            contention.function
        )
    })
}

/// Returns `and 2 other functions` of a loss in several; `None` if there is one.
pub fn other_functions(contention: &Contention) -> Option<String> {
    let others = contention.functions.saturating_sub(1);
    (others > 0).then(|| format!("and {}", count_noun(others, "other function")))
}

/// Returns the cause of a function's loss.
pub fn function_cause(function: &TracedFunction) -> String {
    let cause = function.cause;
    let phrase = cause.map(|cause| cause_phrase(cause, function.shared_line.as_ref()));
    phrase.unwrap_or_else(|| "not known".to_owned())
}

/// Returns the cause of a loss, of a shared cache line with its variable.
pub fn cause_phrase(cause: CauseKind, line: Option<&SharedLine>) -> String {
    let label = cause.label();
    let Some(line) = line.filter(|_| cause == CauseKind::SharedLine) else {
        return label.to_owned();
    };
    let sharing = if line.is_false {
        " (false sharing)"
    } else {
        ""
    };
    let variable = line.variable.as_deref().unwrap_or("heap memory");
    format!("{label}{sharing}: {variable}")
}

/// Returns a part as 12 %.
pub fn whole_percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// Returns a part with its interval, as 12 % (8 to 15).
pub fn percent_interval(part: Between) -> String {
    let [low, high] = [part.low, part.high].map(|end| 100.0 * end);
    format!("{} ({low:.0} to {high:.0})", whole_percent(part.estimate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{FunctionLoss, Throttled};

    #[test]
    fn a_shared_line_has_its_variable() {
        let mut line = SharedLine {
            variable: Some("counts".to_owned()),
            threads: 2,
            is_false: true,
            samples: 9,
            shared: 9,
        };
        let phrase = |line: &SharedLine| cause_phrase(CauseKind::SharedLine, Some(line));
        assert_eq!(phrase(&line), "shared cache line (false sharing): counts");
        (line.variable, line.is_false) = (None, false);
        assert_eq!(phrase(&line), "shared cache line: heap memory");
        assert_eq!(
            cause_phrase(CauseKind::Lock, Some(&line)),
            "lock contention"
        );
    }

    fn loss_of(estimate: f64) -> SoloLoss {
        SoloLoss {
            loss: Between {
                estimate,
                low: estimate - 0.05,
                high: estimate + 0.05,
            },
            placebo: None,
            is_claimed: true,
        }
    }

    #[test]
    fn a_verdict_is_a_sentence() {
        let mut solo = SoloReport {
            intervals: 1200,
            given_up: 3,
            threads: 1.9,
            program: Some(loss_of(0.62)),
            ..SoloReport::default()
        };
        let mut says = |verdict| {
            solo.verdict = verdict;
            verdict_sentence(&solo)
        };
        let slowed = "2 busy threads: each runs at 38 % (33 to 43) of the speed that it has alone";
        assert_eq!(says(SoloVerdict::Interference), slowed);
        assert!(says(SoloVerdict::NotFound).contains("lose at most 67 % of their time"));
        assert!(says(SoloVerdict::Dependence).starts_with("2 busy threads that depend"));
        assert!(says(SoloVerdict::OneThread).starts_with("one thread is busy"));
        assert!(says(SoloVerdict::NotMeasured).contains("(1,200 intervals, 3 given up)"));
        (solo.intervals, solo.given_up) = (0, 0);
        assert!(verdict_sentence(&solo).ends_with("no thread ran alone"));
        solo.refused = Some("no BPF".to_owned());
        let refused = "interference was not measured: no BPF";
        assert_eq!(verdict_sentence(&solo), refused);
    }

    #[test]
    fn contention_is_one_loss_of_several_functions() {
        let mut contention = Contention {
            function: "lock".to_owned(),
            image: "/app".to_owned(),
            cause: CauseKind::Lock,
            functions: 3,
            loss: FunctionLoss {
                share: 0.5,
                solo: loss_of(0.4),
            },
        };
        let several = "lost to lock contention: 40 % (35 to 45) of the threads' time, in lock and 2 other functions";
        assert_eq!(contention_sentence(&contention).as_deref(), Some(several));
        contention.functions = 1;
        assert!(contention_sentence(&contention).is_some_and(|said| said.ends_with("in lock")));
        contention.loss.solo.is_claimed = false;
        assert_eq!(contention_sentence(&contention), None);
    }

    #[test]
    fn what_kept_threads_from_processors_is_said() {
        let user = |pid, name: &str, ns| TracedCpuUser {
            pid,
            name: name.to_owned(),
            target: false,
            ns,
        };
        let mut machine = MachineLoad {
            ready_ns: 320.0,
            taken_ns: 200.0,
            throttled_ns: 100.0,
            others: vec![user(7, "cc", 60), user(0, "other", 39), user(8, "small", 1)],
            limit: Some(Throttled {
                group: "/g".to_owned(),
                times: 1,
                ns: 100,
            }),
        };
        let said = machine_sentences(&machine, 1000.0);
        let expected = [
            "run queue: 2 % of the threads' time, because there are more threads than CPUs",
            "other programs had the CPUs for 20 % of the threads' time: cc (process 7) 60 %, other (outside of this container) 39 %",
            "the control group /g was at its CPU limit for 10 % of the threads' time",
        ];
        assert_eq!(said, expected);
        (machine.ready_ns, machine.throttled_ns, machine.limit) = (200.0, 0.0, None);
        assert_eq!(machine_sentences(&machine, 1000.0).len(), 1);
    }
}
