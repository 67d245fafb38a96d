//! Prints how fast traces are analysed and how long they are, on a made-up trace that looks like a
//! server's: `cargo run --release -p analysis --example interference [REQUESTS]`. It prints the
//! least CPU time of several runs.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::Analyser;
use profile::{TraceBatch, TraceItem};
use simulate::{TICKS_PER_SECOND, realistic};
use std::hint::black_box;
use std::time::Duration;
use store::{TraceReader, TraceWriter};

fn main() {
    let requests = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let trace = realistic(4, requests.unwrap_or(60_000));
    let batches = trace.batches(TICKS_PER_SECOND / 20, 4096);
    let calls: usize = batches.iter().map(|batch| batch.items.len()).sum();
    println!(
        "{} events: {calls} executions of {} functions",
        2 * calls,
        trace.head.blocks.len()
    );
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.trace");

    let passing = least(|| {
        let mut sum = 0u64;
        for item in batches.iter().flat_map(|batch| &batch.items) {
            if let TraceItem::Execution(execution) = item {
                sum = sum.wrapping_add(execution.leave - execution.duration);
            }
        }
        black_box(sum);
    });
    let analysing = least(|| {
        let mut analyser = Analyser::new(&trace.head.blocks, false);
        batches.iter().for_each(|batch| analyser.push(batch));
        black_box(analyser);
    });
    let finishing = least(|| {
        let mut analyser = Analyser::new(&trace.head.blocks, false);
        batches.iter().for_each(|batch| analyser.push(batch));
        black_box(analyser.finish(&trace.head));
    });
    let mut bytes = 0;
    let writing = least(|| bytes = write(&trace.head, &batches, &path));
    let reading = least(|| {
        read(&path, |batch| {
            black_box(batch.items.len());
        });
    });
    let both = least(|| {
        let mut analyser = Analyser::new(&trace.head.blocks, false);
        read(&path, |batch| analyser.push(batch));
        black_box(analyser.finish(&trace.head));
    });
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / calls as f64;
    let rate = |time: Duration| 2.0 * calls as f64 / time.as_secs_f64() / 1e6;
    println!("looking at each in memory    {:6.1} ns a call", ns(passing));
    println!(
        "analysing                    {:6.1} ns a call, {:.0} M events/s",
        ns(analysing),
        rate(analysing)
    );
    println!(
        "the same with the result     {:6.1} ns a call, {:.0} M events/s",
        ns(finishing),
        rate(finishing)
    );
    println!(
        "writing a trace              {:6.1} ns a call, {:.2} bytes an event",
        ns(writing),
        bytes as f64 / (2 * calls) as f64
    );
    println!(
        "reading a trace              {:6.1} ns a call, {:.0} M events/s",
        ns(reading),
        rate(reading)
    );
    println!(
        "from the file to the result  {:6.1} ns a call, {:.0} M events/s",
        ns(both),
        rate(both)
    );
}

fn write(head: &profile::TraceHead, batches: &[TraceBatch], path: &std::path::Path) -> u64 {
    let mut writer = TraceWriter::create_file(path).expect("a file");
    batches
        .iter()
        .for_each(|batch| writer.write_batch(batch).expect("room"));
    writer.finish_trace(head).expect("room").bytes
}

fn read(path: &std::path::Path, mut each: impl FnMut(&TraceBatch)) {
    let mut reader = TraceReader::open_trace(path).expect("a trace");
    while let Some(batch) = reader.next_batch().expect("a chunk") {
        each(batch);
    }
}

/// Returns the least CPU time of five runs.
fn least(mut run: impl FnMut()) -> Duration {
    let times = (0..5).map(|_| {
        let before = cpu_time();
        run();
        cpu_time() - before
    });
    times.min().unwrap_or_default()
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}
