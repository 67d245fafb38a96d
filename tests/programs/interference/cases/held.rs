// map: two threads count words in a map behind a lock; repaired, each has its own. idle: workers of a channel that has
// little for them.
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, mpsc};

#[inline(never)]
fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |seed, n| black_box(0xfedc_ba98_7654_3210 / (seed | 1) + n))
}

#[inline(never)]
fn count_words(counts: &Mutex<HashMap<u64, u64>>, from: u64) {
    let mut counts = counts.lock().unwrap();
    for n in 0..20 {
        *counts.entry(digest(from + n, 250) % 1000).or_default() += 1;
    }
}

fn map(repaired: bool) {
    let maps: Vec<_> = (0..2).map(|_| Arc::new(Mutex::new(HashMap::new()))).collect();
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let map = maps[if repaired { number } else { 0 }].clone();
            std::thread::spawn(move || {
                for n in 0..15_000 {
                    count_words(&map, n);
                    digest(n, 400);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn idle() {
    let (sender, receiver) = mpsc::channel::<u64>();
    let receiver = Arc::new(Mutex::new(receiver));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            std::thread::spawn(move || {
                loop {
                    let Ok(job) = receiver.lock().unwrap().recv() else { return };
                    digest(job, 3_000);
                }
            })
        })
        .collect();
    for n in 0..8_000 {
        digest(n, 12_000);
        if n % 50 == 0 {
            sender.send(n).unwrap();
        }
    }
    drop(sender);
    for worker in workers {
        worker.join().unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments[1].as_str() {
        "map" => map(arguments.len() > 2),
        _ => idle(),
    }
}
