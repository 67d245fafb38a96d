//! Recordings to write, and the expected results by a naive calculation.
#![allow(dead_code, reason = "each test program uses its part")]

use profile::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stack as names, outermost first, with its process in front.
pub type Named = Vec<String>;

pub fn event(name: &str, unit: Unit, period: u64, scale: f64) -> Event {
    Event {
        frequency: Some(1000.0),
        multiplex_scale: scale,
        ..Event::new(name, unit, period)
    }
}

pub fn image(kind: ImageKind, path: &str) -> Image {
    Image {
        kind,
        path: path.to_owned(),
        build_id: BuildId::new(&[0xab; 20]).filter(|_| kind == ImageKind::File),
        file: None,
        gone: false,
    }
}

pub fn at(image: u32, offset: u64) -> Location {
    Location {
        image: ImageId(image),
        offset: ImageOffset(offset),
    }
}

pub fn empty() -> Recording {
    let host = Host {
        name: "box".to_owned(),
        kernel: "6.18.0".to_owned(),
        machine: "x86_64".to_owned(),
        cpu_model: Some("Model".to_owned()),
        cpu_id: None,
        clock_hz: None,
        cpus: 2,
    };
    let target = Target::Command(vec!["./tool".to_owned(), "--fast".to_owned()]);
    let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::FramePointer);
    recording.start_unix_ns = 1_700_000_000_000_000_000;
    recording.duration_ns = 2_000_000_000;
    recording
}

pub fn sample(event: u16, process: NameId, stack: StackId, count: u64) -> Sample {
    Sample::new(EventId(event), process, stack, count)
}

pub fn source(function: &str, line: u32) -> SourceFrame {
    SourceFrame {
        function: Arc::from(function),
        file: Some(Arc::from("/src/tool.rs")),
        line: Some(line),
    }
}

pub fn resolution(procedure: &str, start: u64, inlined: Vec<SourceFrame>) -> Resolution {
    Resolution {
        procedure: Some(Procedure {
            name: Arc::from(procedure),
            start: ImageOffset(start),
            size: 0x100,
        }),
        inlined,
    }
}

/// Makes a small recording with all features: inlined calls, a kernel frame, a place without
/// symbol, two events, a wait with a waker.
pub fn small() -> (Recording, SymbolTable) {
    let mut recording = empty();
    recording.warnings.push("no hardware counters".to_owned());
    recording.events = vec![
        event("cpu-clock", Unit::Samples, 1_000_000, 1.0),
        event("off-cpu", Unit::Nanoseconds, 1, 1.0),
    ];
    recording.images = vec![
        image(ImageKind::Kernel, "[kernel]"),
        image(ImageKind::File, "/usr/bin/tool"),
        image(ImageKind::File, "/lib/libc.so.6"),
        Image::unknown(),
    ];
    let tool = recording.names.intern("tool");
    let other = recording.names.intern("kworker/0:1");
    let stacks = &mut recording.stacks;
    let hot = stacks
        .intern_stack(&[at(1, 0x1234), at(1, 0x1010)])
        .unwrap();
    let libc = stacks.intern_stack(&[at(2, 0x88), at(1, 0x1010)]).unwrap();
    let wait = stacks.intern_stack(&[at(0, 0x500), at(1, 0x1010)]).unwrap();
    let unknown = stacks.intern_stack(&[at(3, 0xdead)]).unwrap();
    let wake = stacks.intern_stack(&[at(0, 0x700), at(0, 0x600)]).unwrap();
    recording.samples = vec![
        Sample {
            pid: Some(70),
            tid: Some(70),
            ..sample(0, tool, hot, 30)
        },
        Sample {
            pid: Some(70),
            tid: Some(71),
            ..sample(0, tool, hot, 12)
        },
        sample(0, tool, libc, 5),
        sample(0, other, unknown, 3),
        Sample {
            waker: Some(Waker {
                process: other,
                tid: 9,
                stack: Some(wake),
            }),
            weight: 1_500_000,
            ..sample(1, tool, wait, 2)
        },
    ];
    let mut symbols = SymbolTable::new();
    let inlined = vec![source("<T as Add>::add", 7), source("hot(int)", 41)];
    symbols.insert(at(1, 0x1234), resolution("hot(int)", 0x1200, inlined));
    let inlined = vec![source("main", 99)];
    symbols.insert(at(1, 0x1010), resolution("main", 0x1000, inlined));
    symbols.insert(at(0, 0x500), resolution("schedule", 0x480, vec![]));
    symbols.insert(at(0, 0x600), resolution("do_softirq", 0x580, vec![]));
    symbols.insert(at(0, 0x700), resolution("try_to_wake_up", 0x680, vec![]));
    (recording, symbols)
}

/// Makes a tree of about a million frames, up to some hundred deep, with every leaf sampled.
pub fn large() -> (Recording, SymbolTable) {
    const FRAMES: u32 = 1_000_000;
    let mut recording = empty();
    recording.events = vec![event("cpu-clock", Unit::Samples, 1_000_000, 1.0)];
    recording.images = vec![image(ImageKind::File, "/usr/bin/tool")];
    let name = recording.names.intern("tool");
    let mut random = 1_u64;
    let mut stack = None;
    let mut depth = 0;
    let mut symbols = SymbolTable::new();
    while recording.stacks.len() < FRAMES as usize {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let offset = (random >> 33) % 200_000;
        let id = recording.stacks.intern(at(0, offset), stack);
        if offset & 3 != 0 {
            let inlined = vec![source(&format!("f{}", offset / 64), 1)];
            symbols.insert(at(0, offset), resolution("p", 0, inlined));
        }
        depth += 1;
        if depth % 16 == 0 {
            recording.samples.push(sample(0, name, id, 1 + random % 5));
            // Back up to some caller, and on from there.
            stack = recording.stacks.frames()[(id.0 - (random >> 40) as u32 % 8) as usize].caller;
        } else {
            stack = Some(id);
        }
        if depth % 128 == 0 {
            stack = None;
        }
    }
    (recording, symbols)
}

/// Returns the names of a location, innermost first, as the documentation specifies.
fn names(recording: &Recording, symbols: &SymbolTable, inline: bool, l: Location) -> Vec<String> {
    let image = &recording.images[l.image.0 as usize];
    let base = if image.path.starts_with('[') {
        image.path.clone()
    } else {
        image.path.split('/').next_back().unwrap().to_owned()
    };
    let fallback = match image.kind {
        ImageKind::Unknown => "[unknown]".to_owned(),
        _ if base.is_empty() => format!("[unknown]+{:#x}", l.offset.0),
        _ => format!("{base}+{:#x}", l.offset.0),
    };
    let resolution = symbols.get(l).cloned().unwrap_or_default();
    let inlined: Vec<String> = resolution
        .inlined
        .iter()
        .map(|f| f.function.to_string())
        .collect();
    let procedure = resolution.procedure.map(|p| p.name.to_string());
    let chosen = match (inline, procedure) {
        (true, _) if !inlined.is_empty() => inlined,
        (_, Some(procedure)) => vec![procedure],
        (_, None) => inlined.last().cloned().into_iter().collect(),
    };
    let mut chosen = if chosen.is_empty() {
        vec![String::new()]
    } else {
        chosen
    };
    for name in &mut chosen {
        if name.is_empty() {
            *name = fallback.clone();
        }
    }
    chosen
}

/// Returns a stack's names, outermost first.
pub fn stack_names(r: &Recording, s: &SymbolTable, inline: bool, stack: StackId) -> Named {
    let mut all: Named = r
        .stacks
        .locations(stack)
        .flat_map(|l| names(r, s, inline, l))
        .collect();
    all.reverse();
    all
}

/// Returns the name of a process.
pub fn process(recording: &Recording, name: NameId) -> String {
    match recording.names.get(name) {
        "" => "[unknown]".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the value of samples of an event that were counted together.
pub fn value(event: &Event, count: u64, weight: u64) -> u64 {
    match event.unit {
        Unit::Samples => (count as f64 * event.multiplex_scale).round() as u64,
        Unit::Nanoseconds => weight,
    }
}

/// Sums samples of an event by a key, and drops keys with the value 0.
pub fn totals<K: Ord>(
    recording: &Recording,
    id: EventId,
    key: impl Fn(&Sample) -> K,
) -> BTreeMap<K, u64> {
    let mut sums: BTreeMap<K, (u64, u64)> = BTreeMap::new();
    for sample in recording.samples.iter().filter(|s| s.event == id) {
        let sum = sums.entry(key(sample)).or_default();
        *sum = (sum.0 + sample.count, sum.1 + sample.weight);
    }
    let event = recording.event(id);
    sums.into_iter()
        .map(|(key, (count, weight))| (key, value(event, count, weight)))
        .filter(|(_, value)| *value > 0)
        .collect()
}

/// Returns names with characters that are special in some format.
fn odd_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[a-c;\" \\\\\n\r\t\0/<>:_0-9\u{85}\u{2028}\u{fffd}\u{202e}é🦀]{0,8}",
        Just("x 12".to_owned()),
        Just("--".to_owned()),
    ]
}

fn kind() -> impl Strategy<Value = ImageKind> {
    prop::sample::select(vec![
        ImageKind::File,
        ImageKind::Kernel,
        ImageKind::KernelModule,
        ImageKind::Vdso,
        ImageKind::Jit,
        ImageKind::Anonymous,
        ImageKind::Unknown,
    ])
}

fn any_event() -> impl Strategy<Value = Event> {
    let name = prop_oneof![
        Just("cpu-clock".to_owned()),
        Just("task-clock:u".to_owned()),
        Just("cycles".to_owned()),
        odd_name(),
    ];
    let unit = prop_oneof![3 => Just(Unit::Samples), 1 => Just(Unit::Nanoseconds)];
    let scale = prop_oneof![Just(1.0), 0.0..4.0];
    (name, unit, 0..5_000_000_u64, scale)
        .prop_map(|(name, unit, period, scale)| event(&name, unit, period, scale))
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..64_u64, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => 0x7fff_0000_0000..0x7fff_0000_1000_u64]
}

fn a_resolution() -> impl Strategy<Value = Resolution> {
    let source = (
        odd_name(),
        prop::option::of(odd_name()),
        prop::option::of(0..99_u32),
    )
        .prop_map(|(function, file, line)| SourceFrame {
            function: Arc::from(function),
            file: file.map(Arc::from),
            line,
        });
    let procedure = (odd_name(), offset(), 0..99_u64).prop_map(|(name, start, size)| Procedure {
        name: Arc::from(name),
        start: ImageOffset(start),
        size,
    });
    (
        prop::option::of(procedure),
        prop::collection::vec(source, 0..3),
    )
        .prop_map(|(procedure, inlined)| Resolution { procedure, inlined })
}

/// Returns arbitrary recordings, with symbols of some of their locations.
pub fn recordings() -> impl Strategy<Value = (Recording, SymbolTable)> {
    let images = prop::collection::vec((kind(), odd_name()), 1..5);
    let names = prop::collection::vec(odd_name(), 1..5);
    let events = prop::collection::vec(any_event(), 1..4);
    let stacks = prop::collection::vec(
        (any::<prop::sample::Index>(), offset(), any::<u32>()),
        1..40,
    );
    let waker = prop::option::of((
        any::<prop::sample::Index>(),
        0..3_u32,
        prop::option::of(any::<prop::sample::Index>()),
    ));
    let samples = prop::collection::vec(
        (
            any::<[prop::sample::Index; 3]>(),
            prop::option::of(0..3_u32),
            prop::option::of(0..3_u32),
            waker,
            0..1_000_000_u64,
            0..1_000_000_000_000_u64,
        ),
        0..60,
    );
    let known = prop::collection::vec((any::<prop::sample::Index>(), a_resolution()), 0..20);
    (images, names, events, stacks, samples, known).prop_map(
        |(images, names, events, stacks, samples, known)| {
            let mut r = empty();
            r.events = events;
            r.images = images
                .iter()
                .map(|(kind, path)| image(*kind, path))
                .collect();
            let names: Vec<NameId> = names.iter().map(|n| r.names.intern(n)).collect();
            let mut ids = Vec::new();
            for (place, offset, caller) in stacks {
                let location = at(place.index(r.images.len()) as u32, offset);
                let caller = ids.get(caller as usize % (ids.len() + 1)).copied();
                ids.push(r.stacks.intern(location, caller));
            }
            for ([event, process, stack], pid, tid, waker, count, weight) in samples {
                let event = event.index(r.events.len());
                let (number, process) = (EventId(event as u16), *process.get(&names));
                r.samples.push(Sample {
                    pid,
                    tid,
                    waker: waker.map(|(process, tid, stack)| Waker {
                        process: *process.get(&names),
                        tid,
                        stack: stack.map(|s| *s.get(&ids)),
                    }),
                    weight: if r.events[event].unit == Unit::Samples {
                        count
                    } else {
                        weight
                    },
                    ..Sample::new(number, process, *stack.get(&ids), count)
                });
            }
            let mut symbols = SymbolTable::new();
            for (stack, resolution) in known {
                symbols.insert(r.stacks.frame(*stack.get(&ids)).location, resolution);
            }
            (r, symbols)
        },
    )
}

/// Replaces special characters, in an independent implementation.
pub fn safe(name: &str) -> String {
    let name = name.replace(';', ":");
    let mut name: Vec<char> = name
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                '_'
            } else {
                c
            }
        })
        .collect();
    let end = name
        .iter()
        .rposition(|c| !c.is_whitespace())
        .map_or(0, |i| i + 1);
    if let Some(space) = name[..end].iter().rposition(|c| *c == ' ')
        && name[space + 1..end]
            .iter()
            .all(|c| c.is_ascii_digit() || *c == '.')
    {
        name[space] = '_';
    }
    let name: String = name.into_iter().collect();
    if name == "--" { "__".to_owned() } else { name }
}
