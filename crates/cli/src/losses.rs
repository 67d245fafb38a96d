//! Messages about samples that are missing from a recording.

use crate::output::group_digits;
use profile::{RARE_STACKS, Recording};

/// The fraction of an event's samples that may be missing without a warning.
const WORTH_A_WARNING: f64 = 0.01;

/// Returns warnings for the first line, if enough is missing to change the figures' meaning.
pub(crate) fn loss_warnings(recording: &Recording) -> impl Iterator<Item = String> + '_ {
    let events = recording.events.iter();
    let missing = events.filter(|event| event.missing_fraction() >= WORTH_A_WARNING);
    let lost = missing.map(|event| {
        format!(
            "{:.1} % of the {} samples of {} were lost, and every share is of the rest: record again at a lower rate (-F), or with fewer other programs running",
            100.0 * event.missing_fraction(),
            group_digits(event.taken),
            event.name,
        )
    });
    lost.chain(rare_stacks_warning(recording))
}

/// Returns the number of samples whose callers were left out, as a warning.
fn rare_stacks_warning(recording: &Recording) -> Option<String> {
    let share = recording.rare_stacks_share();
    (share >= WORTH_A_WARNING).then(|| {
        format!(
            "{:.1} % of the samples lack callers, because there were more different stacks than memory is to hold: places are exact, and {RARE_STACKS} stands for what is left out",
            100.0 * share,
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

    #[test]
    fn callers_that_were_left_out_are_said_with_their_share() {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        recording.images = vec![profile::rare_stacks_image()];
        let process = recording.names.intern("x");
        let at = |offset| profile::Location {
            image: profile::ImageId(0),
            offset: profile::ImageOffset(offset),
        };
        let stack = recording.stacks.intern(at(0), None);
        let sample = profile::Sample::new(profile::EventId(0), process, stack, 5);
        recording.samples.push(sample);
        let warnings: Vec<String> = loss_warnings(&recording).collect();
        assert!(warnings[0].starts_with("100.0 % of the samples lack callers"));
    }
}
