//! Folded stacks: a reader's sums equal the recording.

mod common;

use common::*;
use formats::write::{WriteError, WriteOptions, folded};
use profile::{EventId, ImageKind, Recording, Sample, StackId, SymbolTable, Unit};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Write =
    fn(&Recording, &SymbolTable, &WriteOptions, &mut dyn std::io::Write) -> Result<(), WriteError>;

const WRITERS: [Write; 4] = [
    folded::write_folded,
    formats::write::pprof::write_pprof,
    formats::write::firefox::write_firefox,
    formats::write::speedscope::write_speedscope,
];

fn write(recording: &Recording, symbols: &SymbolTable, options: &WriteOptions) -> String {
    let mut out = Vec::new();
    folded::write_folded(recording, symbols, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Reads strictly: every line is frames, one space, a number; no line repeats.
fn read(text: &str) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for line in text.split_terminator('\n') {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        let stack: Vec<String> = stack.split(';').map(str::to_owned).collect();
        assert!(stack.iter().all(|frame| !frame.is_empty()), "{line:?}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        let last = stack.last().unwrap().trim_end().rsplit_once(' ');
        assert!(
            last.is_none_or(
                |(_, word)| word.parse::<f64>().is_err() || word.contains(char::is_alphabetic)
            ),
            "differential: {line:?}"
        );
        let value = value.parse::<u64>().unwrap();
        assert_eq!(stacks.insert(stack, value), None, "twice: {line:?}");
    }
    stacks
}

#[test]
fn the_small_recording_reads_as_a_person_would_write_it() {
    let (recording, symbols) = small();
    let options = WriteOptions {
        mark_kernel: true,
        ..WriteOptions::default()
    };
    assert_eq!(
        write(&recording, &symbols, &options),
        "tool;main;hot(int);<T as Add>::add 42\n\
         tool;main;libc.so.6+0x88 5\n\
         kworker/0:1;[unknown] 3\n"
    );
    let options = WriteOptions {
        inline: false,
        ..options
    };
    assert!(write(&recording, &symbols, &options).starts_with("tool;main;hot(int) 42\n"));
    let options = WriteOptions {
        event: EventId(1),
        wakers: true,
        ..options
    };
    assert_eq!(
        write(&recording, &symbols, &options),
        "tool;main;schedule_[k];--;try_to_wake_up_[k];do_softirq_[k];kworker/0:1 1500000\n"
    );
    let options = WriteOptions {
        wakers: false,
        mark_kernel: false,
        ..options
    };
    assert_eq!(
        write(&recording, &symbols, &options),
        "tool;main;schedule 1500000\n"
    );
}

#[test]
fn an_empty_recording_is_an_empty_file() {
    assert_eq!(
        write(&empty(), &SymbolTable::new(), &WriteOptions::default()),
        ""
    );
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let (good, symbols) = small();
    let refused = |recording: &Recording, options: &WriteOptions| {
        let mut out = Vec::new();
        folded::write_folded(recording, &symbols, options, &mut out)
            .unwrap_err()
            .to_string()
    };
    let options = WriteOptions {
        event: EventId(2),
        ..WriteOptions::default()
    };
    assert_eq!(
        refused(&good, &options),
        "there is no event 2: the recording has 2"
    );
    let options = WriteOptions::default();
    let mut bad = good.clone();
    bad.samples[3].stack = StackId(1000);
    let message = refused(&bad, &options);
    assert_eq!(
        message,
        "sample 3 refers to stack 1000, but the recording has 7"
    );
    let mut bad = good.clone();
    bad.images.truncate(2);
    assert!(refused(&bad, &options).contains("refers to image 2"));
    for scale in [f64::NAN, f64::INFINITY, -1.0] {
        let mut bad = good.clone();
        bad.events[1].multiplex_scale = scale;
        assert!(refused(&bad, &options).contains("multiplexing scale of event off-cpu"));
    }
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (recording, symbols) = small();
    let options = WriteOptions {
        gzip: true,
        ..WriteOptions::default()
    };
    for write in WRITERS {
        let error = write(&recording, &symbols, &options, &mut Full).unwrap_err();
        assert!(matches!(error, WriteError::Io { .. }), "{error}");
    }
}

#[test]
fn inferno_draws_it() {
    let (recording, symbols) = small();
    let options = WriteOptions {
        mark_kernel: true,
        ..WriteOptions::default()
    };
    let text = write(&recording, &symbols, &options);
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    for title in [
        "all (50 samples, 100%)",
        "main (47 samples, 94.00%)",
        "hot(int) (42 samples, 84.00%)",
    ] {
        assert!(svg.contains(title), "{title} is not in the drawing");
    }
}

#[test]
fn a_million_frames_are_written_in_seconds() {
    let (recording, symbols) = large();
    let start = std::time::Instant::now();
    let text = write(&recording, &symbols, &WriteOptions::default());
    let total: u64 = read(&text).values().sum();
    assert_eq!(
        total,
        recording.samples.iter().map(|s| s.count).sum::<u64>()
    );
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn a_stack_as_deep_as_a_runaway_recursion_is_no_trouble_to_any_format() {
    let mut recording = empty();
    recording.events = vec![event("cpu-clock", Unit::Samples, 1, 1.0)];
    recording.images = vec![image(ImageKind::File, "/usr/bin/tool")];
    let name = recording.names.intern("tool");
    let deep: Vec<_> = (0..100_000).map(|depth| at(0, depth)).collect();
    let stack = recording.stacks.intern_stack(&deep).unwrap();
    recording.samples = vec![sample(0, name, stack, 1)];
    let (symbols, options) = (SymbolTable::new(), WriteOptions::default());
    for write in WRITERS {
        let mut out = Vec::new();
        write(&recording, &symbols, &options, &mut out).unwrap();
        assert!(out.len() > deep.len());
    }
}

proptest! {
    #[test]
    fn stacks_add_up((recording, symbols) in recordings(), inline: bool, wakers: bool) {
        for event in 0..recording.events.len() {
            let event = EventId(event as u16);
            let options = WriteOptions { event, inline, wakers, ..WriteOptions::default() };
            let key = |s: &Sample| {
                let name = |id| safe(&process(&recording, id));
                let stack = |id| stack_names(&recording, &symbols, inline, id);
                let mut key = vec![name(s.process)];
                key.extend(stack(s.stack).iter().map(|n| safe(n)));
                if let Some(waker) = s.waker.filter(|_| wakers) {
                    key.push("--".to_owned());
                    key.extend(waker.stack.iter().flat_map(|id| stack(*id)).rev().map(|n| safe(&n)));
                    key.push(name(waker.process));
                }
                key
            };
            let text = write(&recording, &symbols, &options);
            prop_assert_eq!(read(&text), totals(&recording, event, key));
            let samples: Vec<&str> = text.lines().collect();
            if !samples.is_empty() {
                let mut svg = Vec::new();
                let mut options = inferno::flamegraph::Options::default();
                inferno::flamegraph::from_lines(&mut options, samples, &mut svg).unwrap();
            }
        }
    }
}
