//! Commands that hand their work over to another program or process, which is not measured.

use crate::code::executable_of;
use runtime_abi::Page;
use sampler::ProcessStat;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Time between two looks at the process. Until the first samples every call looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time for which a just forked child may not be known yet.
const TO_BEGIN: Duration = Duration::from_millis(3);
/// Number of samples that show that the program itself works.
const WORKS: u64 = 50;
/// A command that used less processor time than this needs no remark.
const LITTLE: Duration = Duration::from_millis(100);
/// Fraction of the processor time that must have been sampled. Delays are not sampled, and take at
/// most half.
const SAMPLED_PART: f64 = 0.1;

/// Watches one process.
pub(crate) struct HandoverWatch {
    pid: u32,
    executable: String,
    next_look: Duration,
    /// The program of a child that was seen.
    child: Option<String>,
    /// Processor time of children that had ended before.
    used_before: Duration,
}

impl HandoverWatch {
    /// Makes a watch of a process that runs this program.
    pub fn new(pid: u32, executable: &str) -> Self {
        Self {
            pid,
            executable: executable.to_owned(),
            next_look: Duration::ZERO,
            child: None,
            used_before: time_of_children(),
        }
    }

    /// Looks at the process if it is time. Returns the program that it has executed in its own
    /// place, if any.
    pub fn find_executed(&mut self, now: Duration, samples: u64) -> Option<String> {
        if now < self.next_look {
            return None;
        }
        if samples >= WORKS {
            self.next_look = now + INTERVAL;
        } else {
            self.child = first_child_program(self.pid, &self.executable).or(self.child.take());
        }
        executable_of(self.pid).filter(|program| *program != self.executable)
    }

    /// Returns a remark after the end of the process if programs that it started used most of its
    /// time.
    pub fn describe_children(&self, command: &str, sampled: Duration) -> Option<String> {
        let used = time_of_children().saturating_sub(self.used_before);
        if used < LITTLE || sampled.as_secs_f64() > SAMPLED_PART * used.as_secs_f64() {
            return None;
        }
        let such = (self.child.as_ref()).map_or_else(String::new, |child| format!(" ({child})"));
        let part = 100.0 * (1.0 - sampled.as_secs_f64() / used.as_secs_f64());
        Some(format!(
            "{part:.0} % of the processor time is that of programs that {command} started{such}, which are not measured: \
             name the program that does the work as the command"
        ))
    }
}

/// Returns the remark about a command that executed another program in its own place.
pub(crate) fn describe_executed(command: &str, program: &str) -> String {
    format!(
        "{command} has executed {program}, which is not measured: name that program as the command"
    )
}

/// Finds a measured process that was forked by the ended program `pid` and still runs.
pub(crate) fn background_process(page: &Page, pid: u32) -> Option<u32> {
    // A program that forks and ends at once leaves its child no time to take a slot.
    let find = || measured_process(page, pid);
    find().or_else(|| {
        std::thread::sleep(TO_BEGIN);
        find()
    })
}

fn measured_process(page: &Page, pid: u32) -> Option<u32> {
    let used = page.used.load(Acquire) as usize;
    let threads = page.threads.iter().take(used);
    let living = threads.filter(|thread| thread.tid.load(Acquire) != 0);
    let mut others = living.map(|thread| thread.pid.load(Relaxed));
    others.find(|other| *other != pid && is_running(*other))
}

/// Returns the remark about a process in the background.
pub(crate) fn describe_background(command: &str, pid: u32) -> String {
    format!(
        "{command} ended, and went on in the background as process {pid}, which is measured no longer: start it in the \
         foreground (look for an option such as --foreground, -D or --no-daemon)"
    )
}

/// Returns whether a process exists and is no zombie.
fn is_running(pid: u32) -> bool {
    ProcessStat::read_process(pid).is_some_and(|stat| stat.is_alive())
}

/// Returns the program of a process's first child, if it differs from `executable`.
fn first_child_program(pid: u32, executable: &str) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let mut children = children
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    children.find_map(|child| executable_of(child).filter(|program| program != executable))
}

/// Returns the user-mode processor time of children that have ended, with their own children's.
fn time_of_children() -> Duration {
    // SAFETY: numbers, all of which may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the usage is written through the pointer.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = Duration::from_secs(usage.ru_utime.tv_sec.unsigned_abs());
    seconds + Duration::from_micros(usage.ru_utime.tv_usec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_executes_another_program_is_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let program = executable_of(child.id()).unwrap();
        let mut same = HandoverWatch::new(child.id(), &program);
        assert_eq!(same.find_executed(Duration::ZERO, 0), None);
        let mut other = HandoverWatch::new(child.id(), "/usr/bin/env");
        assert_eq!(other.find_executed(Duration::ZERO, 0), Some(program));
        assert!(is_running(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }
}
