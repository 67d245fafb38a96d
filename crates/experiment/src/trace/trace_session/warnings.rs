//! Warnings for the reader of a trace's result.

use super::TraceSession;
use crate::host::MachineUsage;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of programs that are named.
const NAMED: usize = 5;
/// Least part of the machine's time that is worth a warning.
const SLIGHT: f64 = 0.01;

impl TraceSession<'_> {
    /// Adds the warnings about the run.
    pub(super) fn warn(&mut self) {
        self.warn_of_programs();
        self.warnings
            .extend(stolen_warning(self.host, MachineUsage::read_machine()));
        if let Some(error) = &self.waiting.refused {
            self.warnings.push(format!(
                "nothing is known of locks and of waits for work, so that causes are less certain: {error}"
            ));
        }
        let shared = &self.shared;
        let step = shared.failed_step.load(Relaxed);
        if step != 0 {
            let error = std::io::Error::from_raw_os_error(shared.failed_errno.load(Relaxed));
            self.warnings.push(format!(
                "code could not be put in place (step {step}): {error}"
            ));
        }
        for number in self.planner.unmatched() {
            if let Some(pattern) = self.options.functions.get(number) {
                let text = pattern.text();
                self.warnings
                    .push(format!("no library with {text} was loaded"));
            }
        }
        if shared.filtered.load(Relaxed) != 0 {
            self.warnings.push(
                "the program restricted its system calls (seccomp): from then on no stacks were taken, and neither new threads nor new libraries were traced"
                    .to_owned(),
            );
        }
        let unseen = self.waiting.lost();
        let mut count = |number: u64, what: &str| {
            if number > 0 {
                self.warnings.push(format!("{number} {what}"));
            }
        };
        count(
            unseen,
            "waits were not recorded, because they came faster than they could be read",
        );
        count(
            shared.untraced.load(Relaxed),
            "threads were not traced: there are too many at a time, or system calls are restricted",
        );
        let foreign = shared.foreign.iter().map(|calls| calls.load(Relaxed)).sum();
        count(
            foreign,
            "calls were not traced, because they ran on another stack than their thread's: coroutines, or signal handlers",
        );
        count(
            shared.unordered.load(Relaxed),
            "executions were not recorded, because they ended before one that they had called: functions that switch stacks, or jump out of several at once",
        );
        count(
            shared.too_deep.load(Relaxed),
            "executions were not traced because they nest too deep",
        );
    }

    /// Warns of programs that processes of the target have executed.
    fn warn_of_programs(&mut self) {
        let programs = self.waiting.programs();
        let mut all: Vec<(&String, &u64)> = programs.iter().collect();
        all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let named = all.iter().take(NAMED).map(|(path, times)| match times {
            1 => (*path).clone(),
            times => format!("{path} ({times} times)"),
        });
        let mut named: Vec<String> = named.collect();
        if all.len() > NAMED {
            named.push(format!("{} more", all.len() - NAMED));
        }
        if !named.is_empty() {
            self.warnings.push(format!(
                "programs that it executed are not traced: {}; trace one of them by itself",
                named.join(", ")
            ));
        }
    }
}

/// Returns a warning about the CPU time that a virtual machine's host has taken, if it is at least
/// [`SLIGHT`].
fn stolen_warning(before: Option<MachineUsage>, now: Option<MachineUsage>) -> Option<String> {
    let share = now?.stolen_since(before?);
    (share >= SLIGHT).then(|| {
        format!(
            "the host took {:.0} % of the CPUs' time from this virtual machine: executions that it interrupted seem to run longer",
            100.0 * share
        )
    })
}

#[cfg(test)]
mod tests {
    use super::stolen_warning;
    use crate::host::parse_proc_stat;

    #[test]
    fn what_the_host_takes_is_said() {
        let of = |text: &str| parse_proc_stat(text, 100).map(|(usage, _)| usage);
        let before = of("cpu  100 0 100 800 0 0 0 0 5 5\ncpu0 1 2\n");
        let after = of("cpu  150 0 100 830 0 0 0 20 5 5\n");
        let said = stolen_warning(before, after).expect("a fifth");
        assert!(said.contains("20 %"), "{said}");
        assert_eq!(stolen_warning(before, before), None);
        for damaged in ["", "cpu", "cpu x", "intr 5"] {
            assert_eq!(stolen_warning(before, of(damaged)), None);
        }
    }
}
