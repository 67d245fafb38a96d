//! Traces on disk: round trips, damage, length.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use profile::*;
use proptest::prelude::*;
use simulate::*;
use std::fs;
use std::path::Path;
use store::{StoreError, TraceReader, TraceWriter};

fn write(trace: &Trace, batches: &[TraceBatch], path: &Path) -> u64 {
    let mut writer = TraceWriter::create_file(path).unwrap();
    for batch in batches {
        writer.write_batch(batch).unwrap();
    }
    writer.finish_trace(&trace.head).unwrap().bytes
}

fn read(path: &Path) -> Result<(TraceHead, Vec<TraceBatch>), StoreError> {
    let mut reader = TraceReader::open_trace(path)?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        batches.push(batch.clone());
    }
    Ok((reader.head().clone(), batches))
}

/// Returns the items in order, without their division into batches.
fn items(batches: &[TraceBatch]) -> Vec<(u32, &TraceItem)> {
    let items = |batch: &'_ TraceBatch| batch.thread;
    batches
        .iter()
        .flat_map(|b| b.items.iter().map(move |i| (items(b), i)))
        .collect()
}

#[test]
fn what_was_written_comes_back_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/run.trace");
    let mut trace = contended_lock(4, 20_000, 12 * US, 4 * US);
    trace.items[0].push(TraceItem::Lost(7));
    trace.items[1].push(TraceItem::Period {
        block: 1,
        period: 64,
    });
    let batches = trace.batches(TICKS_PER_SECOND / 10, 1000);
    let bytes = write(&trace, &batches, &path);
    assert_eq!(bytes, fs::metadata(&path).unwrap().len());
    let (head, read) = read(&path).unwrap();
    assert_eq!(head, trace.head);
    assert_eq!(items(&read), items(&batches));
    // The directory has no other file.
    assert_eq!(
        fs::read_dir(directory.path().join("new")).unwrap().count(),
        1
    );
}

#[test]
fn an_event_takes_at_most_a_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let trace = realistic(4, 20_000);
    let bytes = write(
        &trace,
        &trace.batches(TICKS_PER_SECOND / 10, usize::MAX),
        &path,
    );
    let events = 2 * trace.items.iter().map(Vec::len).sum::<usize>();
    let each = bytes as f64 / events as f64;
    println!("{each:.3} bytes an event, of {events}");
    assert!(each < 1.0, "{each}");
}

#[test]
fn a_writer_that_did_not_end_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let trace = contended_lock(2, 10, US, US);
    let mut writer = TraceWriter::create_file(&path).unwrap();
    writer
        .write_batch(&trace.batches(u64::MAX / 2, 100)[0])
        .unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A file cut anywhere or with any bit changed gives an error that names the file and a place in
/// it.
#[test]
fn damage_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let mut trace = contended_lock(2, 200, US, US);
    trace.head.blocks.truncate(2);
    let batches = trace.batches(TICKS_PER_SECOND, 100);
    write(&trace, &batches, &path);
    let bytes = fs::read(&path).unwrap();
    let bad = directory.path().join("bad.trace");
    for length in 0..bytes.len() {
        fs::write(&bad, &bytes[..length]).unwrap();
        let error = read(&bad).expect_err("it was cut").to_string();
        assert!(
            error.contains("bad.trace")
                && (error.contains("offset") || error.contains("not a recording")),
            "{error}"
        );
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&bad, &changed).unwrap();
        match read(&bad) {
            // The word that is not used yet.
            Ok((head, read)) => {
                assert!((12..16).contains(&at), "{at}");
                assert_eq!((head, items(&read)), (trace.head.clone(), items(&batches)));
            }
            Err(error) => assert!(error.to_string().contains("bad.trace"), "{error}"),
        }
    }
    fs::write(&bad, [&bytes[..8], &[6], &bytes[9..]].concat()).unwrap();
    assert!(matches!(read(&bad), Err(StoreError::Newer { .. })));
    fs::write(&bad, "text").unwrap();
    assert!(read(&bad).is_err());
}

/// The trace of `version4.trace`, which has samples of events and more arguments besides.
fn old_trace() -> Trace {
    let mut trace = Trace::new("./old --threads 2");
    let lock = trace.block("pthread_mutex_lock");
    let wait = trace.block("pthread_cond_wait");
    let work = trace.block("work");
    let places = vec![trace.place("add", 17)];
    trace.thread("main", 0);
    trace.thread("worker", 0);
    for n in 0..3 {
        for t in 0..2 {
            let start = 10_000 * (n + 1) + 100 * t as u64;
            let places = places.clone();
            trace.items[t].push(TraceItem::Stack {
                block: lock,
                places,
            });
            let slept = Wait {
                queued: 40,
                taken: 30,
                held: 20,
                ..futex(start + 10, start + 200, 1 - t, Some(lock))
            };
            trace.wait(t, slept);
            trace.execute_with(t, lock, start, 300, 0x7fff_5000 + 64 * n);
            trace.execute_with(t, wait, start + 350, 100, 0x6000);
            trace.execute(t, work, start + 500, 1000 + n);
        }
    }
    trace.items[0].push(TraceItem::Period {
        block: work,
        period: 64,
    });
    trace.items[1].push(TraceItem::Lost(7));
    trace.end();
    trace
}

/// A file that version 4 wrote: its samples of events and further arguments are skipped. The
/// versions before it had the same layout. Version 2 stored periods when they were set, for all
/// threads: it is unknown what the executions of such a trace stand for.
#[test]
fn older_traces_are_read_if_all_calls_are_in_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let of_version = |bytes: &[u8], version: u8| {
        let mut bytes = bytes.to_vec();
        bytes[8] = version;
        fs::write(&path, bytes).unwrap();
        read(&path)
    };
    let old = include_bytes!("../../../tests/traces/version4.trace");
    let trace = old_trace();
    for version in 1..=4 {
        let (head, read) = of_version(old, version).unwrap();
        assert_eq!(head, trace.head);
        assert_eq!(items(&read), items(&trace.batches(12_000, 5)));
    }
    let mut sampled = trace.clone();
    sampled.head.blocks[1].period = 64;
    write(&sampled, &[], &path);
    let bytes = fs::read(&path).unwrap();
    assert!(of_version(&bytes, 3).is_ok());
    let error = of_version(&bytes, 2).expect_err("its figures would be wrong");
    assert!(
        matches!(&error, StoreError::Outdated { version: 2, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("trace the program again"),
        "{error}"
    );
}

/// Right checksums around any content: an error, no panic, bounded memory.
#[test]
fn hostile_chunks_are_survived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let trace = contended_lock(2, 100, US, US);
    write(&trace, &trace.batches(TICKS_PER_SECOND, 100), &path);
    let bytes = fs::read(&path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (packed, unpacked) = (word(20), word(24));
    let chunk = zstd::bulk::decompress(&bytes[32..32 + packed], unpacked).unwrap();
    let mut chance = Chance::new(9);
    let bad = directory.path().join("bad.trace");
    let mut refused = 0;
    for _ in 0..3_000 {
        let mut chunk = chunk.clone();
        for _ in 0..1 + chance.below(4) {
            let at = chance.below(chunk.len() as u64) as usize;
            chunk[at] = chance.below(256) as u8;
        }
        let packed = zstd::bulk::compress(&chunk, 1).unwrap();
        let mut file = bytes[..16].to_vec();
        let mut start = Vec::new();
        for value in [1, packed.len() as u32, chunk.len() as u32] {
            start.extend(value.to_le_bytes());
        }
        let crc32 = crc32fast::hash(&[&start[..], &packed].concat());
        file.extend(start);
        file.extend(crc32.to_le_bytes());
        file.extend(packed);
        let head_at = file.len() as u64;
        let old = u64::from_le_bytes(bytes[bytes.len() - 8..].try_into().unwrap()) as usize;
        file.extend(&bytes[old..bytes.len() - 8]);
        file.extend(head_at.to_le_bytes());
        fs::write(&bad, &file).unwrap();
        match read(&bad) {
            Ok((head, batches)) => {
                // The items that are read can be analysed.
                let items = batches.iter().map(|batch| batch.items.len()).sum::<usize>();
                assert!(items <= chunk.len() && head == trace.head);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("at offset 16"), "{error}");
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

fn item() -> impl Strategy<Value = TraceItem> {
    let time = 0u64..1 << 61;
    let option = || proptest::option::of(0u32..2);
    prop_oneof![
        (
            0u32..2,
            any::<bool>(),
            time.clone(),
            any::<u64>(),
            any::<u64>()
        )
            .prop_map(
                |(block, unwound, leave, duration, address)| TraceItem::Execution(Execution {
                    block,
                    unwound,
                    leave,
                    duration: duration % (leave + 1),
                    address,
                })
            ),
        (
            time.clone(),
            time,
            any::<u64>(),
            any::<u64>(),
            any::<bool>(),
            option(),
            option(),
            option()
        )
            .prop_map(
                |(start, end, queued, taken, preempted, system_call, waker, waker_block)| {
                    TraceItem::Wait(Wait {
                        start,
                        end,
                        queued,
                        taken: taken % 3,
                        held: taken % 5 / 3,
                        preempted,
                        system_call,
                        waker,
                        waker_block,
                    })
                }
            ),
        (0u32..2, proptest::collection::vec(0u32..1, 0..5))
            .prop_map(|(block, places)| TraceItem::Stack { block, places }),
        (0u32..2, any::<u32>()).prop_map(|(block, period)| TraceItem::Period {
            block,
            period: period.max(1) - 1
        }),
        any::<u64>().prop_map(TraceItem::Lost),
        (
            proptest::collection::vec(any::<u64>(), 6),
            any::<bool>(),
            0u32..9
        )
            .prop_map(|(times, placebo, busy)| TraceItem::Solo(SoloInterval {
                before: (times[0], times[1]),
                alone: (times[2], times[3]),
                after: (times[4], times[5]),
                placebo,
                busy,
            })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_items_come_back(batches in proptest::collection::vec((0u32..2, proptest::collection::vec(item(), 1..50)), 0..10)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.trace");
        let trace = contended_lock(2, 1, US, US);
        let batches = batches.into_iter().map(|(thread, items)| TraceBatch { thread, items });
        let batches: Vec<TraceBatch> = batches.collect();
        write(&trace, &batches, &path);
        let (_, read) = read(&path).unwrap();
        prop_assert_eq!(items(&read), items(&batches));
    }
}
