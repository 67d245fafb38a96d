//! Messages about samples that are not in a recording.

use crate::output::group_digits;
use profile::Recording;

/// The fraction of an event's samples that may be missing without a warning.
const WORTH_A_WARNING: f64 = 0.01;

/// Warnings for the first line, where it is enough to change what the figures mean.
pub(crate) fn loss_warnings(recording: &Recording) -> impl Iterator<Item = String> + '_ {
    let events = recording.events.iter();
    let missing = events.filter(|event| event.missing_fraction() >= WORTH_A_WARNING);
    missing.map(|event| {
        format!(
            "{:.1} % of the {} samples of {} were lost, and every share is of the rest: record again at a lower rate (-F), or with fewer other programs running",
            100.0 * event.missing_fraction(),
            group_digits(event.taken),
            event.name,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Event, Host, Target, Unit};

    #[test]
    fn a_warning_comes_from_one_percent_on() {
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Ring,
            CallGraph::None,
        );
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        let mut warnings = |stored: u64, dropped: u64, lost: u64| {
            let event = &mut recording.events[0];
            event.taken = stored + dropped + lost;
            (event.stored, event.dropped, event.lost) = (stored, dropped, lost);
            loss_warnings(&recording).collect::<Vec<_>>()
        };
        assert!(warnings(0, 0, 0).is_empty());
        assert!(warnings(1000, 0, 10).is_empty());
        assert!(warnings(990, 5, 5)[0].starts_with("1.0 % of the 1,000 samples of cpu-clock"));
        assert_eq!(warnings(0, 7, 0).len(), 1);
    }
}
