// counting: words are counted under one lock; repaired, each thread has a map, and they are put together at the end.
// unseen_counting [repaired]
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type Counts = HashMap<String, u64>;

fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |sum, i| {
        std::hint::black_box(0xfedcba9876543210 / (sum | 1) + i)
    })
}

fn word(number: u64) -> String {
    format!("the word of the number {}", digest(number, 20) % 5000)
}

#[inline(never)]
fn count_line(counts: &Mutex<Counts>, line: u64) {
    let mut counts = counts.lock().unwrap();
    for number in 0..200 {
        *counts.entry(word(line * 31 + number)).or_default() += 1;
    }
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let shared = Arc::new(Mutex::new(Counts::new()));
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let own = if repaired {
                    Arc::default()
                } else {
                    Arc::clone(&shared)
                };
                for line in 0..30_000 {
                    digest(line, 2000);
                    count_line(&own, line * 2 + thread);
                }
                if repaired {
                    for (word, count) in own.lock().unwrap().drain() {
                        *shared.lock().unwrap().entry(word).or_default() += count;
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{}", shared.lock().unwrap().values().sum::<u64>());
}
