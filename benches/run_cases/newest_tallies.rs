// tallies: two threads each count in a tally of their own, side by side in memory; repaired, apart. newest_tallies [repaired]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

static TALLIES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

#[inline(never)]
fn tally_words(tally: &AtomicU64, words: u64) -> u64 {
    let mut vowels = 0;
    for word in 0..words {
        vowels += word & 3;
        tally.fetch_add(1 + (word & 1), Relaxed);
    }
    vowels
}

fn main() {
    let apart = if std::env::args().count() > 1 { 32 } else { 1 };
    let counters = [0, apart].map(|at| thread::spawn(move || (0..300).map(|_| tally_words(&TALLIES[at], 400_000)).sum::<u64>()));
    let vowels: u64 = counters.into_iter().map(|counter| counter.join().unwrap()).sum();
    println!("{vowels}");
}
