//! Strategies for arbitrary recordings.

use profile::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Returns numbers, among them those that often break things.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..5u64,
        any::<u64>(),
        Just(u64::MAX),
        Just(1 << 63),
        0..1_000_000u64
    ]
}

fn count() -> impl Strategy<Value = u64> {
    number().prop_map(|n| n >> 1)
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![0..5u32, any::<u32>(), Just(u32::MAX)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,3}", "\\PC{0,20}", Just("[unknown]".to_owned())]
}

fn event() -> impl Strategy<Value = Event> {
    let unit = prop_oneof![Just(Unit::Samples), Just(Unit::Nanoseconds)];
    let scale = -1e300..1e300f64;
    let accounts = (number(), number(), number(), number(), number());
    (
        name(),
        unit,
        option::of(any::<f64>().prop_filter("finite", |f| f.is_finite())),
        scale,
        any::<bool>(),
        accounts,
    )
        .prop_map(
            |(
                name,
                unit,
                frequency,
                multiplex_scale,
                mixed_periods,
                (period, taken, stored, dropped, lost),
            )| {
                Event {
                    name,
                    unit,
                    period,
                    frequency,
                    mixed_periods,
                    multiplex_scale,
                    taken,
                    stored,
                    dropped,
                    lost,
                }
            },
        )
}

fn task_times() -> impl Strategy<Value = TaskTimes> {
    let maybe = || option::of(number());
    (number(), maybe(), maybe(), maybe(), maybe()).prop_map(
        |(cpu_ns, waiting_ns, blocked_ns, idle_ns, threads)| TaskTimes {
            cpu_ns,
            waiting_ns,
            blocked_ns,
            idle_ns,
            threads,
        },
    )
}

fn image() -> impl Strategy<Value = Image> {
    use ImageKind::*;
    let kind = prop::sample::select(vec![
        File,
        Kernel,
        KernelModule,
        Vdso,
        Jit,
        Anonymous,
        Unknown,
    ]);
    let file = (id(), id(), number(), number()).prop_map(|(major, minor, inode, generation)| {
        FileIdentity {
            major,
            minor,
            inode,
            generation,
        }
    });
    let build_id = vec(any::<u8>(), 1..25).prop_map(|bytes| BuildId::new(&bytes));
    let build_id = prop_oneof![Just(None), build_id];
    (kind, name(), build_id, option::of(file), any::<bool>()).prop_map(
        |(kind, path, build_id, file, gone)| Image {
            kind,
            path,
            build_id,
            file,
            gone,
        },
    )
}

type Index = prop::sample::Index;
/// Locations, innermost first: image, and place in it.
type Frames = Vec<(Index, u64)>;

/// A sample, as indexes into tables that will be made.
#[derive(Clone, Debug)]
struct Raw {
    event: Index,
    process: Index,
    pid: Option<u32>,
    tid: Option<u32>,
    stack: Frames,
    waker: Option<(Index, u32, Frames)>,
    count: u64,
    weight: Option<u64>,
}

fn stack() -> impl Strategy<Value = Frames> {
    vec((any::<Index>(), number()), 0..5)
}

fn sample() -> impl Strategy<Value = Raw> {
    let waker = option::of((any::<Index>(), id(), stack()));
    let who = (
        any::<Index>(),
        any::<Index>(),
        option::of(id()),
        option::of(id()),
    );
    (who, stack(), waker, count(), option::of(count())).prop_map(
        |((event, process, pid, tid), stack, waker, count, weight)| Raw {
            event,
            process,
            pid,
            tid,
            stack,
            waker,
            count,
            weight,
        },
    )
}

fn frames(recording: &mut Recording, stack: &[(Index, u64)]) -> Option<StackId> {
    let locate = |(image, offset): &(Index, u64)| Location {
        image: ImageId(image.index(recording.images.len()) as u32),
        offset: ImageOffset(*offset),
    };
    let locations: Vec<Location> = stack.iter().map(locate).collect();
    recording.stacks.intern_stack(&locations)
}

fn head() -> impl Strategy<Value = Recording> {
    let target = prop_oneof![
        vec(name(), 0..3).prop_map(Target::Command),
        id().prop_map(Target::Process),
        Just(Target::Machine)
    ];
    let host = (name(), name(), name(), option::of(name()), id()).prop_map(
        |(name, kernel, machine, cpu_model, cpus)| Host {
            name,
            kernel,
            machine,
            cpu_id: cpu_model.clone(),
            clock_hz: cpu_model.as_ref().map(|model| model.len() as u64),
            cpu_model,
            cpus,
        },
    );
    let how = (
        prop::sample::select(vec![Collector::Bpf, Collector::Ring, Collector::Import]),
        prop::sample::select(vec![
            CallGraph::None,
            CallGraph::FramePointer,
            CallGraph::Dwarf,
        ]),
    );
    (
        host,
        target,
        how,
        number(),
        number(),
        any::<bool>(),
        vec(name(), 0..3),
        option::of(task_times()),
    )
        .prop_map(
            |(host, target, (collector, call_graph), start, duration, kernel, warnings, times)| {
                let mut recording = Recording::new(host, target, collector, call_graph);
                recording.start_unix_ns = start;
                recording.duration_ns = duration;
                recording.task_times = times;
                recording.slice_ns = Some(100_000_000);
                recording.kernel = kernel;
                recording.warnings = warnings;
                recording
            },
        )
}

/// Returns recordings of up to `samples` samples.
pub fn recording(samples: usize) -> impl Strategy<Value = Recording> {
    let tables = (vec(event(), 1..4), vec(image(), 1..6), vec(name(), 1..6));
    let threads = vec(
        (any::<Index>(), any::<Index>(), id(), id(), count(), count()),
        0..10,
    );
    let symbols = vec((any::<Index>(), number(), number(), name()), 0..10);
    let branches = vec(
        (any::<Index>(), number(), number(), count(), count()),
        0..10,
    );
    let place = (number(), number(), option::of(number()));
    let stretches = vec((any::<Index>(), place, count(), count(), count()), 0..10);
    let places = btree_map(number(), (count(), count(), any::<bool>()), 0..5);
    let accesses = btree_map(
        number(),
        (any::<Index>(), any::<i64>(), count(), places),
        0..5,
    );
    let lists = (threads, symbols, branches, stretches, accesses);
    (head(), tables, vec(sample(), 0..=samples), lists).prop_map(
        |(mut recording, (events, images, names), samples, lists)| {
            let (threads, symbols, branches, stretches, accesses) = lists;
            recording.events = events;
            recording.images = images;
            let names: Vec<NameId> = names.iter().map(|n| recording.names.intern(n)).collect();
            let events = recording.events.len();
            for raw in samples {
                let stack = frames(&mut recording, &raw.stack);
                let nowhere = [(raw.process, 0)];
                // Half of the samples are in no group.
                let cgroup = names.get(raw.event.index(2 * names.len())).copied();
                let labels = names.get(raw.process.index(3 * names.len())).copied();
                let sample = Sample {
                    cgroup,
                    labels,
                    event: EventId(raw.event.index(events) as u16),
                    process: names[raw.process.index(names.len())],
                    pid: raw.pid,
                    tid: raw.tid,
                    stack: stack.or_else(|| frames(&mut recording, &nowhere)).unwrap(),
                    slice: raw.tid.filter(|tid| *tid < 1000),
                    waker: raw.waker.map(|(process, tid, stack)| Waker {
                        process: names[process.index(names.len())],
                        tid,
                        stack: frames(&mut recording, &stack),
                    }),
                    count: raw.count,
                    weight: raw.weight.unwrap_or(raw.count),
                };
                recording.samples.push(sample);
            }
            for (event, process, pid, tid, count, weight) in threads {
                recording.threads.push(ThreadCount {
                    cgroup: names.get(process.index(2 * names.len())).copied(),
                    event: EventId(event.index(events) as u16),
                    process: names[process.index(names.len())],
                    pid,
                    tid,
                    count,
                    weight,
                });
            }
            for (image, start, end, name) in symbols {
                recording.symbols.push(EmbeddedSymbol {
                    image: ImageId(image.index(recording.images.len()) as u32),
                    start: ImageOffset(start),
                    end: ImageOffset(end),
                    name,
                });
            }
            for (image, branch, target, observed, walked) in branches {
                recording.branches.push(BranchCount {
                    image: ImageId(image.index(recording.images.len()) as u32),
                    branch: ImageOffset(branch),
                    target: ImageOffset(target),
                    observed,
                    walked,
                });
            }
            for (image, (start, branch, target), times, judged, mispredicted) in stretches {
                recording.stretches.push(StretchCount {
                    image: ImageId(image.index(recording.images.len()) as u32),
                    stretch: Stretch {
                        start: ImageOffset(start),
                        branch: ImageOffset(branch),
                        target: target.map(ImageOffset),
                    },
                    seen: StretchSightings {
                        times,
                        judged,
                        mispredicted,
                    },
                });
            }
            for (instruction, (image, stride, known, places)) in accesses {
                let mut accesses = Accesses {
                    known,
                    stride,
                    votes: known,
                    ..Accesses::default()
                };
                for (hash, (seen, waited, is_line)) in places {
                    let visits = Visits { seen, waited };
                    if is_line {
                        accesses.lines.add(hash, visits)
                    } else {
                        accesses.pages.add(hash, visits)
                    }
                }
                recording.accesses.push(AccessCount {
                    image: ImageId(image.index(recording.images.len()) as u32),
                    instruction: ImageOffset(instruction),
                    accesses,
                });
            }
            recording
        },
    )
}
