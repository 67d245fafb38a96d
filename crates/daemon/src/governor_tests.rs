//! The governor on simulated machines.

use super::*;

const WINDOW: Duration = Duration::from_secs(30);
const MERGE: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(86_400);

/// A machine of two CPUs, and the costs of collecting on it.
struct Machine {
    sample_ns: f64,
    /// The cost of draining and writing a sample.
    drain_ns: f64,
    /// Cost of processes, in CPUs.
    processes: f64,
    /// The number of busy CPUs.
    busy: f64,
    /// CPU seconds of a merge and of closing an epoch.
    merge_s: f64,
    close_s: f64,
    /// Relative variation of the costs of windows.
    noise: f64,
    random: u64,
}

impl Machine {
    fn quiet() -> Self {
        Self {
            sample_ns: 4000.0,
            drain_ns: 500.0,
            processes: 0.0005,
            busy: 1.5,
            merge_s: 0.2,
            close_s: 10.0,
            noise: 0.2,
            random: 7,
        }
    }

    fn storm() -> Self {
        Self {
            processes: 0.05,
            drain_ns: 8000.0,
            busy: 2.0,
            merge_s: 3.0,
            ..Self::quiet()
        }
    }

    fn vary(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1.0 + self.noise * ((self.random >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    }
}

/// The result of a simulation.
#[derive(Default)]
struct Course {
    /// Time and rate of each change.
    changes: Vec<(Duration, u64)>,
    exceeded: usize,
    /// CPU seconds.
    spent: f64,
}

/// Simulates a machine for a time.
fn simulate(governor: &mut RateGovernor, machine: &mut Machine, time: Duration) -> Course {
    let mut course = Course::default();
    let mut passed = Duration::ZERO;
    while passed < time {
        passed += WINDOW;
        let seconds = WINDOW.as_secs_f64();
        let samples = governor.rate as f64 * machine.busy * seconds;
        let samples_ns = samples * (machine.sample_ns + machine.drain_ns) * machine.vary();
        let processes_ns = machine.processes * seconds * 1e9 * machine.vary();
        course.spent += (samples_ns + processes_ns) / 1e9;
        if passed.as_secs().is_multiple_of(MERGE.as_secs()) {
            governor.add_lump((machine.merge_s * 1e9) as u64, MERGE);
            course.spent += machine.merge_s;
        }
        if passed.as_secs().is_multiple_of(DAY.as_secs()) {
            governor.add_lump((machine.close_s * 1e9) as u64, DAY);
            course.spent += machine.close_s;
        }
        let verdict = governor.judge_window(WindowCost {
            passed: WINDOW,
            samples_ns: samples_ns as u64,
            processes_ns: processes_ns as u64,
        });
        match verdict {
            RateVerdict::Keep => {}
            RateVerdict::Exceeded => course.exceeded += 1,
            RateVerdict::Change(to) => {
                course.changes.push((passed, to));
                // Each change closes an epoch.
                governor.add_lump((machine.close_s * 1e9) as u64, DAY);
                course.spent += machine.close_s;
            }
        }
    }
    course
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

#[test]
fn lumps_within_the_budget_change_nothing() {
    let mut governor = RateGovernor::new(0.01, 2, 1000, true);
    let mut machine = Machine {
        // 0.3 % of the machine on average, 6 % of the window that it falls into.
        merge_s: 1.8,
        // 0.1 % of the machine on average, three times all CPU time of a window.
        close_s: 180.0,
        ..Machine::quiet()
    };
    let course = simulate(&mut governor, &mut machine, 5 * DAY);
    assert_eq!(course.changes, []);
}

#[test]
fn after_a_storm_the_rate_is_back_within_ten_minutes() {
    for (storm, rate) in [(10, 500), (60, 1000), (600, 2000), (30, 500)] {
        let mut governor = RateGovernor::new(0.01, 2, rate, true);
        simulate(&mut governor, &mut Machine::quiet(), minutes(30));
        let before = governor.rate;
        simulate(&mut governor, &mut Machine::storm(), minutes(storm));
        assert!(governor.rate < before / 2, "{} of {before}", governor.rate);
        simulate(&mut governor, &mut Machine::quiet(), minutes(10));
        let after = governor.rate;
        assert!(
            after as f64 > 0.75 * before as f64,
            "{after} of {before} after {storm} min"
        );
    }
}

#[test]
fn a_lower_rate_is_explained_by_what_was_spent_before_it() {
    let mut governor = RateGovernor::new(0.01, 2, 500, true);
    let mut machine = Machine::storm();
    let mut course = Course::default();
    while course.changes.is_empty() {
        course = simulate(&mut governor, &mut machine, WINDOW);
    }
    assert!(
        governor.judged_share() > 0.01,
        "{}",
        governor.judged_share()
    );
}

#[test]
fn from_the_lowest_rate_it_is_ten_minutes_to_the_usual_one() {
    let mut governor = RateGovernor::new(0.01, 2, 500, true);
    governor.rate = LEAST_RATE;
    let course = simulate(&mut governor, &mut Machine::quiet(), minutes(10));
    assert_eq!(governor.rate, 500, "{:?}", course.changes);
}

#[test]
fn a_rate_is_not_given_up_for_what_it_does_not_cost() {
    let mut governor = RateGovernor::new(0.01, 2, 1000, true);
    let course = simulate(&mut governor, &mut Machine::storm(), minutes(600));
    // Processes alone cost 2.5 % of the machine. A fifth of the budget is 2 ms of CPU in each
    // second.
    let machine = Machine::storm();
    let samples =
        governor.rate as f64 * machine.busy * (machine.sample_ns + machine.drain_ns) / 1e9;
    assert!(samples > 0.5 * SAMPLES_LEAST * 0.02, "{}", governor.rate);
    assert!(samples <= 1.1 * SAMPLES_LEAST * 0.02, "{}", governor.rate);
    assert!(course.changes.len() <= 4, "{:?}", course.changes);
}

#[test]
fn a_rate_that_was_asked_for_stays_and_the_excess_is_said_once() {
    let mut governor = RateGovernor::new(0.01, 2, 5000, false);
    let course = simulate(&mut governor, &mut Machine::quiet(), minutes(600));
    assert_eq!((course.changes, course.exceeded), (vec![], 1));
    let mut idle = Machine {
        busy: 0.01,
        ..Machine::quiet()
    };
    assert_eq!(simulate(&mut governor, &mut idle, minutes(60)).exceeded, 0);
    let again = simulate(&mut governor, &mut Machine::quiet(), minutes(60));
    assert_eq!(again.exceeded, 1);
}

#[test]
fn any_steady_machine_keeps_to_the_budget_with_few_changes() {
    for seed in 1..=200u64 {
        let mut dice = Machine {
            noise: 1.0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            ..Machine::quiet()
        };
        // From a half to twenty times, uniform in the logarithm.
        let mut factor = || 0.5 * 40f64.powf(dice.vary() / 2.0);
        let mut machine = Machine {
            sample_ns: 1000.0 * factor(),
            drain_ns: 300.0 * factor(),
            processes: 0.0003 * factor(),
            busy: 0.1 * factor(),
            merge_s: 0.05 * factor(),
            close_s: 3.0 * factor(),
            noise: 0.3,
            random: seed | 1,
        };
        let mut governor = RateGovernor::new(0.01, 2, 5000, true);
        simulate(&mut governor, &mut machine, minutes(60));
        let course = simulate(&mut governor, &mut machine, DAY);
        let share = course.spent / (2.0 * DAY.as_secs_f64());
        assert!(share < 0.0125, "seed {seed}: {share}");
        assert!(
            course.changes.len() <= 12,
            "seed {seed}: {:?}",
            course.changes
        );
        // The remaining budget is used.
        let wasted = share < 0.006 && governor.rate < 5000;
        assert!(!wasted, "seed {seed}: {share} at {} Hz", governor.rate);
    }
}
