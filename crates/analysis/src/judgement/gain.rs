//! The bounds of what the run gains by a change at a place (ours).
//!
//! A program's run is as long as its longest chain of work and waits. What is removed from a place shortens a chain by the place's time at
//! most, whatever thread it lies in: the upper end is that time, as a part of the run's duration and not of what all threads took.
//! The change may also be made at the function that asks for the place, and spare what that does besides: its time, with all that it calls, is the
//! bound then. How much of its time a change removes nobody knows. Where one thread does the work, the lower end assumes that it is [`SPARED`]
//! at least; where more do, it is 0, as others may have the longest chain; it is below 0 where experiments say so.

use super::asker::find_asker;
use super::libraries::is_language_library;
use super::sequences::Sequences;
use super::timed_tree::{KERNEL, MethodName};
use profile::{AmountBase, Finding, FindingEvidence, plain_name};

/// Room for what chance and other programs add to the duration of a run.
const MARGIN: f64 = 0.02;
/// The part of a place's time that a change there spares at least, as it is assumed: of 37 programs with one thread that
/// `benches/run_cases.py` had measured when this was chosen, the repair of 35 gained half of the first finding's part or more.
const SPARED: f64 = 0.5;

/// The duration of a run, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndisturbedRun {
    duration_ns: f64,
    /// One thread does the work, so that what it does not do makes the run shorter.
    in_turn: bool,
}

impl UndisturbedRun {
    /// Takes waits for CPUs off the duration, as much as they are of the working time together with them. Without a known duration, that of a program whose
    /// threads take turns.
    pub(super) fn new(run_ns: f64, working_ns: f64, cpu_waits_ns: f64, threads: usize) -> Self {
        let duration = if run_ns > 0.0 { run_ns } else { working_ns };
        Self {
            duration_ns: (duration * working_ns / (working_ns + cpu_waits_ns)).max(1.0),
            in_turn: threads == 1,
        }
    }

    /// Returns the gain of a change at a sequence. `further_ns` is the time of what only exists because of it, in nanoseconds.
    pub(super) fn gain_of_sequence(
        self,
        sequences: &Sequences<'_>,
        number: usize,
        finding: &Finding,
        further_ns: f64,
    ) -> Option<FindingEvidence> {
        let sequence = sequences.sequences.get(number)?;
        let own = sequence.time();
        let asker = find_asker(sequences, number).map(|(asker, _)| asker);
        let function = asker.or_else(|| asking_function(&sequence.path).cloned());
        let below = function
            .as_ref()
            .map_or(0.0, |function| sequences.time_of_function(function));
        let removed = own.max(below).max(further_ns);
        let chance = finding.amount.interval.map_or(1.0, |[_, high]| {
            let is_part = finding.amount.relative_to == AmountBase::WorkingTime;
            let value = finding.amount.value.max(f64::MIN_POSITIVE);
            if is_part {
                (high / value).max(1.0)
            } else {
                1.0
            }
        });
        let part = |ns: f64| (ns / self.duration_ns * chance + MARGIN).min(1.0);
        let (low, most, spared) = match predicted_bounds(finding) {
            Some((low, high, line)) => {
                // Of waits, the part is one of all waits: these are the sequence's.
                let sped_up = match is_of_waits(finding) {
                    true => own - sequence.time_running(),
                    false => line * sequences.working_ns,
                };
                let beside = (removed - sped_up).max(0.0);
                let most = (high.max(0.0) + beside / self.duration_ns).min(1.0);
                (low.min(0.0), most, None)
            }
            None => {
                let low = if self.in_turn {
                    (SPARED * own / self.duration_ns / chance - MARGIN).max(0.0)
                } else {
                    0.0
                };
                (low, part(removed), (low > 0.0).then_some(SPARED))
            }
        };
        let is_place = |function: &MethodName| sequence.path.last() == Some(function);
        let function = function.filter(|of| !is_place(of) && below > own * (1.0 + MARGIN));
        Some(FindingEvidence::RunGain {
            interval: [low, most],
            with: function.map(|(name, _)| plain_name(&name).to_owned()),
            spared,
        })
    }

    /// Returns the gain of a change that spares a part of all threads' time.
    pub(super) fn gain_of_part(self, finding: &Finding, whole_ns: f64) -> FindingEvidence {
        let high = finding
            .amount
            .interval
            .map_or(finding.amount.value, |i| i[1]);
        FindingEvidence::RunGain {
            interval: [
                0.0,
                (high * whole_ns / self.duration_ns + MARGIN).clamp(0.0, 1.0),
            ],
            with: None,
            spared: None,
        }
    }
}

/// Returns what experiments predict, low and high, with the part of all samples that the line has which they speed up.
fn predicted_bounds(finding: &Finding) -> Option<(f64, f64, f64)> {
    let [low, high] = finding.amount.interval?;
    let share = finding
        .evidence
        .iter()
        .find_map(|evidence| match evidence {
            FindingEvidence::SampleShare { share } => Some(*share),
            _ => None,
        })?;
    (finding.amount.relative_to != AmountBase::WorkingTime).then_some((low, high, share))
}

/// Returns the function that a path's time is asked for by: the last one outside the kernel and the libraries that work for others.
pub(super) fn asking_function(path: &[MethodName]) -> Option<&MethodName> {
    let mut path = path.iter().rev();
    path.find(|function| function.1 != KERNEL && !is_language_library(function))
}

/// Returns whether a prediction is of a place's waits, and not of its running.
pub(super) fn is_of_waits(finding: &Finding) -> bool {
    let of_waits =
        |evidence: &FindingEvidence| matches!(evidence, FindingEvidence::SpedUpWaits { .. });
    finding.evidence.iter().any(of_waits)
}
