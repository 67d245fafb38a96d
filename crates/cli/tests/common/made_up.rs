//! Synthetic recordings, of events that this machine may lack, at places that a test chooses.

use profile::{
    CallGraph, Collector, Event, EventId, Host, Image, ImageId, ImageKind, ImageOffset, Location,
    Recording, Sample, Target, Unit,
};
use std::collections::BTreeMap;
use std::path::Path;
use symbols::build_id_of_file;

/// Makes a recording of a program: its events, each with its period and the number of samples at
/// each place.
pub fn recording(program: &Path, events: &[(&str, f64, &BTreeMap<u64, u64>)]) -> Recording {
    let target = Target::Command(vec!["made up".to_owned()]);
    let mut made = Recording::new(Host::default(), target, Collector::Ring, CallGraph::None);
    made.images = vec![Image {
        kind: ImageKind::File,
        path: program.to_str().expect("a name").to_owned(),
        build_id: build_id_of_file(program).expect("it can be read"),
        file: None,
        gone: false,
    }];
    let process = made.names.intern("made up");
    for (number, (name, period, samples)) in events.iter().enumerate() {
        let mut event = Event::new(name, Unit::Samples, *period as u64);
        event.taken = samples.values().sum();
        event.stored = event.taken;
        made.events.push(event);
        for (at, count) in *samples {
            let place = Location {
                image: ImageId(0),
                offset: ImageOffset(*at),
            };
            let (event, stack) = (EventId(number as u16), made.stacks.intern(place, None));
            made.samples
                .push(Sample::new(event, process, stack, *count));
        }
    }
    made
}
