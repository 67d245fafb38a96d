//! Parts of an epoch with call stacks: merged, closed, and beside parts without.

use profile::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{Database, PartId};

/// Samples of one stack: a process, its frames from the outermost (image and offset), their number.
type Stack = (u8, Vec<(u8, u64)>, u64);
/// Counts of samples in a recording: by process and frames, images by their paths.
type Counts = BTreeMap<(String, Vec<(String, u64)>), u64>;

/// Makes a recording of these samples, which numbers images, names and stacks in order of
/// appearance.
fn recording(stacks: &[Stack], call_graph: CallGraph) -> Recording {
    let host = Host {
        name: "h".into(),
        ..Host::default()
    };
    let mut made = Recording::new(host, Target::Machine, Collector::Bpf, call_graph);
    made.duration_ns = 1;
    let sum = stacks.iter().map(|(_, _, count)| count).sum();
    let mut event = Event::new("cpu-clock", Unit::Samples, 1_000_000);
    (event.taken, event.stored) = (sum, sum);
    made.events.push(event);
    for (process, frames, count) in stacks {
        let process = made.names.intern(&format!("p{process}"));
        let stack = frames.iter().fold(None, |caller, (image, offset)| {
            let path = format!("/lib/{image}");
            let known = made.images.iter().position(|known| known.path == path);
            let index = known.unwrap_or_else(|| {
                made.images.push(Image {
                    kind: ImageKind::File,
                    path,
                    build_id: BuildId::new(&[*image, 1]),
                    file: None,
                    gone: false,
                });
                made.images.len() - 1
            });
            let location = Location {
                image: ImageId(index as u32),
                offset: ImageOffset(*offset),
            };
            Some(made.stacks.intern(location, caller))
        });
        let stack = stack.expect("a frame");
        made.samples
            .push(Sample::new(EventId(0), process, stack, *count));
    }
    if call_graph == CallGraph::Tables {
        made.set_walks(Some(StackWalks {
            stacks: sum,
            by_table: 2 * sum,
            complete: sum,
            ..StackWalks::default()
        }));
    }
    made
}

fn counts(recording: &Recording) -> Counts {
    let mut counts = Counts::new();
    for sample in &recording.samples {
        let frames = recording.stacks.locations(sample.stack);
        let frames = frames.map(|at| (recording.image(at.image).path.clone(), at.offset.0));
        let mut frames: Vec<(String, u64)> = frames.collect();
        frames.reverse();
        let process = recording.names.get(sample.process).to_owned();
        *counts.entry((process, frames)).or_default() += sample.count;
    }
    counts
}

fn part(drain: usize) -> PartId {
    PartId {
        collector: 7,
        drain: drain as u32,
    }
}

fn any_stack() -> impl Strategy<Value = Stack> {
    let frame = (0u8..4, 0u64..9);
    (0u8..3, prop::collection::vec(frame, 1..12), 1u64..1000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn merged_parts_say_what_one_recording_of_their_samples_says(
        stacks in prop::collection::vec(any_stack(), 1..80),
        cuts in prop::collection::vec(1usize..20, 1..8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path()).unwrap();
        let open = database.begin_epoch("h", 0).unwrap();
        let mut rest = &stacks[..];
        for (drain, length) in cuts.iter().cycle().enumerate() {
            if rest.is_empty() {
                break;
            }
            let (own, others) = rest.split_at((*length).min(rest.len()));
            open.add_part(part(drain), &recording(own, CallGraph::Tables)).unwrap();
            rest = others;
            if drain % 3 == 2 {
                open.merge_parts(false, |_| {}).unwrap();
            }
        }
        let whole = recording(&stacks, CallGraph::Tables);
        let read = |epochs: &[store::Epoch]| epochs[0].read_recording().unwrap();
        let unmerged = read(&database.epochs().unwrap());
        prop_assert_eq!(counts(&unmerged), counts(&whole));
        open.close_epoch(&database, |_| {}).unwrap().unwrap();
        let closed = read(&database.epochs().unwrap());
        prop_assert_eq!(counts(&closed), counts(&whole));
        // Equal stacks of parts become one row.
        prop_assert_eq!(closed.samples.len(), counts(&whole).len());
        prop_assert_eq!(closed.call_graph, CallGraph::Tables);
        // Outcomes of walks are stored once for all parts.
        prop_assert_eq!(closed.walks, whole.walks);
        prop_assert_eq!(&closed.warnings, &whole.warnings);
        prop_assert_eq!(closed.events[0].stored, whole.events[0].stored);
    }
}

#[test]
fn parts_without_stacks_stand_beside_parts_with() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path()).unwrap();
    let open = database.begin_epoch("h", 0).unwrap();
    let flat: Vec<Stack> = vec![(0, vec![(1, 5)], 3)];
    let deep: Vec<Stack> = vec![(0, vec![(0, 1), (1, 5)], 4)];
    open.add_part(part(0), &recording(&flat, CallGraph::None))
        .unwrap();
    open.add_part(part(1), &recording(&deep, CallGraph::Tables))
        .unwrap();
    open.close_epoch(&database, |_| {}).unwrap().unwrap();
    let closed = database.epochs().unwrap()[0].read_recording().unwrap();
    let mut both = counts(&recording(&flat, CallGraph::None));
    both.extend(counts(&recording(&deep, CallGraph::Tables)));
    assert_eq!(counts(&closed), both);
    assert_eq!(closed.call_graph, CallGraph::Tables);
    let said = |w: &String| w.contains("differ in how call stacks were recorded");
    assert!(closed.warnings.iter().any(said), "{:?}", closed.warnings);
}
