//! parking: two threads and parking_lot's RwLock, which one writes and the other reads; repaired, each has its own.
use parking_lot::RwLock;
use std::hint::black_box;
use std::sync::Arc;

#[inline(never)]
fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |seed, n| black_box(0xfedc_ba98_7654_3210 / (seed | 1) + n))
}

#[inline(never)]
fn replace(table: &RwLock<Vec<u64>>, at: u64) {
    let mut table = table.write();
    table[at as usize % 64] = digest(at, 10_000);
}

#[inline(never)]
fn sum_up(table: &RwLock<Vec<u64>>, at: u64) -> u64 {
    let table = table.read();
    table.iter().fold(at, |sum, value| sum ^ digest(*value, 150))
}

fn main() {
    let repaired = std::env::args().nth(1).is_some();
    let tables: Vec<_> = (0..2).map(|_| Arc::new(RwLock::new(vec![0; 64]))).collect();
    let table = |number: usize| tables[if repaired { number } else { 0 }].clone();
    let (written, read) = (table(0), table(1));
    let writer = std::thread::spawn(move || (0..12_000).for_each(|n| replace(&written, n)));
    let reader = std::thread::spawn(move || (0..12_000).for_each(|n| _ = sum_up(&read, n)));
    writer.join().unwrap();
    reader.join().unwrap();
}
