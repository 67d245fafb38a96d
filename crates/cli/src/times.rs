//! Time by state, independent of samples: on a CPU, waiting for one, or blocked.

use crate::output::{format_ns, group_digits, shell_words, shorten_middle};
use profile::{Collector, Recording, Target, TaskTimes, Unit};

/// Maximum length of a command line in advice, in characters.
const LONGEST_COMMAND: usize = 60;

/// Returns the first line of every report.
pub fn time_line(recording: &Recording) -> String {
    let wall = format_ns(recording.duration_ns as f64);
    let Some(times) = recording.task_times else {
        return format!("{wall} wall");
    };
    let ns = |ns: u64| format_ns(ns as f64);
    if let Some(idle) = times.idle_ns {
        let waiting = times.waiting_ns.map_or(String::new(), |waiting| {
            format!("; threads waited {} for a CPU", ns(waiting))
        });
        let cpus = recording.host.cpus;
        let busy = ns(times.cpu_ns);
        return format!(
            "{wall} wall on {cpus} CPUs: {busy} busy, {} idle{waiting}",
            ns(idle)
        );
    }
    let mut text = format!("{wall} wall: {} CPU", ns(times.cpu_ns));
    if let Some(waiting) = times.waiting_ns {
        text += &format!(", {} waiting for a CPU", ns(waiting));
    }
    if let Some(blocked) = times.blocked_ns {
        text += &format!(", {} blocked", ns(blocked));
    }
    match times.threads {
        Some(1) => text + ", 1 thread",
        Some(threads) => format!("{text}, {} threads", group_digits(threads)),
        None => text,
    }
}

/// Returns advice if most of the time is not in the samples: the command to type, and the reason.
pub fn time_advice(recording: &Recording) -> Option<String> {
    let times = recording.task_times?;
    let target = match &recording.target {
        Target::Command(command) => {
            format!(
                "-- {}",
                shorten_middle(&shell_words(command), LONGEST_COMMAND)
            )
        }
        Target::Process(pid) => format!("-p {pid}"),
        Target::Machine => return None,
    };
    let wall = recording.duration_ns;
    let starved = |waiting: &u64| *waiting > times.cpu_ns && *waiting > wall / 4;
    if let Some(waiting) = times.waiting_ns.filter(starved) {
        return Some(starved_advice(recording, times, waiting));
    }
    if recording.events.iter().any(|e| e.unit == Unit::Nanoseconds) {
        return None; // time off the CPU was recorded
    }
    // Without the kernel's account of waits for a CPU, or the right to see waits, the rest is
    // unknown.
    if times.waiting_ns.is_none() || recording.collector != Collector::Bpf {
        return None;
    }
    let still = wall.saturating_sub(times.ready_ns());
    if still > wall / 2 {
        return Some(format!(
            "for at least {} of it nothing ran: vitalfew record --off-cpu {target} shows what it waited for",
            format_ns(still as f64)
        ));
    }
    let blocked = mostly_blocked(recording, times)?;
    Some(format!(
        "its threads were blocked for {:.0}% of their time: vitalfew record --off-cpu {target} shows on what",
        100.0 * blocked
    ))
}

/// Returns advice if threads mostly waited for a CPU. It depends on the share of the CPUs that the
/// target used.
fn starved_advice(recording: &Recording, times: TaskTimes, waiting_ns: u64) -> String {
    let cpus = recording.host.cpus.max(1);
    let alive = times.cpu_ns + waiting_ns + times.blocked_ns.unwrap_or(0);
    let waited = 100.0 * waiting_ns as f64 / alive as f64;
    let available = recording.duration_ns.max(1) as f64 * f64::from(cpus);
    let used = times.cpu_ns as f64 / available;
    let (names, shows) = if used >= MOSTLY_ITS_OWN {
        ("report --by thread", "which ran")
    } else {
        ("record -a --for 10s", "who had the rest")
    };
    let used = 100.0 * used;
    format!(
        "its threads waited for a CPU for {waited:.0}% of their time and used {used:.0}% of the {cpus} CPUs: vitalfew {names} shows {shows}"
    )
}

/// Share of the machine's CPUs from which on the threads of a target mostly waited for each other.
const MOSTLY_ITS_OWN: f64 = 0.8;

/// Returns the share of the threads' time in which they were blocked, if that left CPUs unused.
fn mostly_blocked(recording: &Recording, times: TaskTimes) -> Option<f64> {
    let blocked = times.blocked_ns? as f64;
    let ready = times.ready_ns() as f64;
    let wall = recording.duration_ns.max(1) as f64;
    let threads_at_once = (ready + blocked) / wall;
    let usable = wall * threads_at_once.min(f64::from(recording.host.cpus.max(1)));
    (blocked > ready && ready < usable / 2.0).then(|| blocked / (blocked + ready))
}

/// Returns the event that took most of a command's or process's time, if time off the CPU was
/// recorded; its report begins with this event.
pub fn main_event(recording: &Recording) -> usize {
    let waits = |number: usize| recording.events[number].unit == Unit::Nanoseconds;
    if recording.target == Target::Machine {
        return 0; // most threads of a machine always sleep
    }
    let mut amounts = vec![0_u64; recording.events.len()];
    for sample in &recording.samples {
        if let Some(amount) = amounts.get_mut(usize::from(sample.event.0)) {
            *amount = amount.saturating_add(sample.weight);
        }
    }
    let longest = (0..amounts.len())
        .filter(|number| waits(*number))
        .max_by_key(|number| amounts[*number]);
    let Some(longest) = longest else { return 0 };
    let ran = match recording.task_times {
        Some(times) => times.cpu_ns as f64,
        None => {
            let first = &recording.events[0];
            let samples = amounts[0] as f64 / first.sample_weight();
            first
                .frequency
                .map_or(f64::INFINITY, |hz| samples * 1e9 / hz)
        }
    };
    if amounts[longest] as f64 > ran {
        longest
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Event, Host};

    fn recording(wall: u64, times: TaskTimes) -> Recording {
        let host = Host {
            cpus: 2,
            ..Host::default()
        };
        let command = Target::Command(vec!["sleep".to_owned(), "9".to_owned()]);
        let mut recording = Recording::new(host, command, Collector::Bpf, CallGraph::None);
        recording.duration_ns = wall;
        recording.task_times = Some(times);
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1_000_000)];
        recording
    }

    fn times(cpu_ns: u64, waiting: u64, blocked: u64) -> TaskTimes {
        TaskTimes {
            cpu_ns,
            waiting_ns: Some(waiting),
            blocked_ns: Some(blocked),
            idle_ns: None,
            threads: Some(1),
        }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_program_that_slept_is_told_to_look_off_the_cpu() {
        let slept = recording(9 * S, times(S, 0, 8 * S));
        assert_eq!(
            time_line(&slept),
            "9.00 s wall: 1.00 s CPU, 0 s waiting for a CPU, 8.00 s blocked, 1 thread"
        );
        let advice = time_advice(&slept).expect("advice");
        assert!(advice.contains("8.00 s") && advice.contains("record --off-cpu -- sleep 9"));
        let ran = recording(9 * S, times(8 * S, 0, S));
        assert_eq!(time_advice(&ran), None);
        // Unknown waits for a CPU, or waits that cannot be recorded.
        let unknown = TaskTimes {
            waiting_ns: None,
            ..times(S, 0, 8 * S)
        };
        assert_eq!(time_advice(&recording(9 * S, unknown)), None);
        let mut through_rings = slept;
        through_rings.collector = Collector::Ring;
        assert_eq!(time_advice(&through_rings), None);
    }

    #[test]
    fn a_program_without_a_cpu_is_told_to_look_at_the_machine() {
        let starved = recording(9 * S, times(3 * S, 6 * S, 0));
        let advice = time_advice(&starved).expect("advice");
        assert_eq!(
            advice,
            "its threads waited for a CPU for 67% of their time and used 17% of the 2 CPUs: vitalfew record -a --for 10s shows who had the rest"
        );
        // It waited a little, and slept.
        let slept = recording(9 * S, times(S / 100, S / 10, 8 * S));
        assert!(time_advice(&slept).is_some_and(|text| text.contains("--off-cpu")));
    }

    #[test]
    fn threads_that_wait_for_each_other_are_told_apart_from_those_that_wait_for_others() {
        let crowded = recording(3 * S, times(5 * S, 600 * S, S));
        let advice = time_advice(&crowded).expect("advice");
        assert!(
            advice.contains(
                "99% of their time and used 83% of the 2 CPUs: vitalfew report --by thread"
            ),
            "{advice}"
        );
    }

    #[test]
    fn threads_that_help_now_and_then_are_no_reason_for_advice() {
        // One works all the time, while on two CPUs three wait for it.
        let helped = recording(4 * S, times(4 * S, 0, 12 * S));
        assert_eq!(time_advice(&helped), None);
        // Four take turns.
        let turns = recording(4 * S, times(3 * S, 0, 13 * S));
        assert!(time_advice(&turns).is_some_and(|text| text.contains("81%")));
    }

    #[test]
    fn of_a_machine_it_says_how_idle_it_was() {
        let mut machine = recording(4 * S, times(3 * S, S, 0));
        machine.target = Target::Machine;
        machine.task_times = Some(TaskTimes {
            blocked_ns: None,
            idle_ns: Some(5 * S),
            ..times(3 * S, S, 0)
        });
        assert_eq!(
            time_line(&machine),
            "4.00 s wall on 2 CPUs: 3.00 s busy, 5.00 s idle; threads waited 1.00 s for a CPU"
        );
        assert_eq!(time_advice(&machine), None);
    }

    #[test]
    fn without_accounts_there_is_the_wall_time() {
        let mut old = recording(2 * S, TaskTimes::default());
        old.task_times = None;
        assert_eq!(time_line(&old), "2.00 s wall");
        assert_eq!(time_advice(&old), None);
        old.task_times = Some(TaskTimes {
            cpu_ns: S,
            ..TaskTimes::default()
        });
        assert_eq!(time_line(&old), "2.00 s wall: 1.00 s CPU");
    }
}
