//! Converts other tools' profiles to recordings, for commands that only handle recordings.

use super::tree_profile::TreeProfile;
use profile::{
    CallGraph, Collector, EmbeddedSymbol, Event, EventId, Host, Image, ImageId, ImageKind,
    ImageOffset, Location, NodeId, Recording, Sample, StackId, Target, Unit,
};
use rustc_hash::FxHashMap;

/// Returns a profile's tree as a recording: an image for each module, a procedure for each method,
/// an event for each value type. The value type that the profile itself would show first comes
/// first.
///
/// Addresses, processes and the elapsed time are unknown. Costs below zero are left out; a warning
/// says so.
pub fn to_recording(profile: &TreeProfile) -> Recording {
    let tree = &profile.tree;
    let host = Host::default();
    let target = Target::Command(vec![profile.format.to_owned()]);
    let mut recording = Recording::new(host, target, Collector::Import, CallGraph::FramePointer);
    recording.warnings.clone_from(&profile.notes);
    let methods = place_methods(profile, &mut recording);
    let mut order: Vec<usize> = (0..tree.value_types().len()).collect();
    order.sort_by_key(|value| *value != profile.default_value);
    for value in &order {
        let value = &tree.value_types()[*value];
        let unit = match value.unit.as_str() {
            "nanoseconds" => Unit::Nanoseconds,
            _ => Unit::Samples,
        };
        let name = match (value.unit.as_str(), value.name.as_str()) {
            ("samples" | "nanoseconds" | "" | "count", name) => name.to_owned(),
            (unit, name) if unit == name => name.to_owned(),
            (unit, name) => format!("{name} ({unit})"),
        };
        recording.events.push(Event::new(&name, unit, 1));
    }
    let process = recording.names.intern("");
    let mut stacks: Vec<Option<StackId>> = vec![None; tree.len()];
    let mut negative = 0_u64;
    for number in 0..tree.len() {
        let node = NodeId(number as u32);
        let caller = tree.parent(node).and_then(|p| stacks[p.0 as usize]);
        let location = tree.method(node).map_or_else(
            || no_stack(recording.images.len() - 1),
            |method| methods[method.0 as usize],
        );
        let costs: Vec<i64> = order.iter().map(|value| tree.cost(*value, node)).collect();
        if node == NodeId::ROOT && costs.iter().all(|cost| *cost == 0) {
            continue;
        }
        let stack = recording.stacks.intern(location, caller);
        if node != NodeId::ROOT {
            stacks[number] = Some(stack);
        }
        for (event, cost) in costs.into_iter().enumerate() {
            negative += u64::from(cost < 0);
            let Ok(weight @ 1..) = u64::try_from(cost) else {
                continue;
            };
            let total = &mut recording.events[event];
            // For measured time the number of measurements is unknown.
            let count = if total.unit == Unit::Samples {
                weight
            } else {
                1
            };
            total.taken += count;
            total.stored += count;
            recording.samples.push(Sample {
                weight,
                ..Sample::new(EventId(event as u16), process, stack, count)
            });
        }
    }
    if negative > 0 {
        recording.warnings.push(format!(
            "{negative} call paths cost less than nothing and are left out"
        ));
    }
    recording
}

/// Assigns each method a place: a number in the image of its module. The last image has the costs
/// without a call stack.
fn place_methods(profile: &TreeProfile, recording: &mut Recording) -> Vec<Location> {
    let mut modules: FxHashMap<&str, (ImageId, u64)> = FxHashMap::default();
    let image = |path: &str, kind| Image {
        kind,
        path: path.to_owned(),
        build_id: None,
        file: None,
        gone: false,
    };
    let mut places = Vec::with_capacity(profile.tree.methods().len());
    for method in profile.tree.methods() {
        let (id, next) = modules.entry(&method.module).or_insert_with(|| {
            let id = ImageId(recording.images.len() as u32);
            let path = match method.module.as_str() {
                "" => format!("[{}]", profile.format),
                module => module.to_owned(),
            };
            recording
                .images
                .push(image(&path, kind_of_module(&method.module)));
            (id, 0)
        });
        let location = Location {
            image: *id,
            offset: ImageOffset(*next),
        };
        *next += 1;
        recording.symbols.push(EmbeddedSymbol {
            image: *id,
            start: location.offset,
            end: ImageOffset(*next),
            name: method.name.clone(),
        });
        places.push(location);
    }
    recording.symbols.sort_unstable();
    recording
        .images
        .push(image("[no stack]", ImageKind::Unknown));
    places
}

/// Returns the kind of a module: the kernel by perf's brackets. For all others only names are
/// known, as for generated code.
fn kind_of_module(module: &str) -> ImageKind {
    const OF_PROCESSES: [&str; 6] = ["[unknown", "[jit", "[anon", "[heap", "[stack", "[v"];
    match module.strip_prefix('[') {
        Some(name) if name.starts_with("kernel") || name.starts_with("guest.kernel") => {
            ImageKind::Kernel
        }
        Some(_) if !OF_PROCESSES.iter().any(|other| module.starts_with(other)) => {
            ImageKind::KernelModule
        }
        _ => ImageKind::Jit,
    }
}

fn no_stack(image: usize) -> Location {
    Location {
        image: ImageId(image as u32),
        offset: ImageOffset(0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadOptions, read_profile};
    use super::*;

    #[test]
    fn an_imported_tree_keeps_its_costs_and_names() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("vitalfew-imported-{}.folded", std::process::id()));
        std::fs::write(&path, "main;a;b 3\nmain;a 2\nmain;c;a 5\n").expect("written");
        let profile = read_profile(&path, &ReadOptions::default()).expect("folded stacks");
        std::fs::remove_file(&path).expect("removed");
        let recording = to_recording(&profile);
        assert_eq!(recording.events[0].stored, 10);
        let name = |location: Location| {
            let mut symbols = recording.symbols.iter();
            let symbol = symbols.find(|s| (s.image, s.start) == (location.image, location.offset));
            symbol.expect("a name").name.clone()
        };
        let mut paths: Vec<(String, u64)> = Vec::new();
        for sample in &recording.samples {
            let names: Vec<String> = recording.stacks.locations(sample.stack).map(name).collect();
            paths.push((names.join("<"), sample.count));
        }
        paths.sort();
        let expected = [("a<c<main", 5), ("a<main", 2), ("b<a<main", 3)];
        assert_eq!(
            paths,
            expected.map(|(path, count)| (path.to_owned(), count))
        );
    }
}
