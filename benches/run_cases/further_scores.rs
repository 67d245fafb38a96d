// scores: a table is locked for writing while a score is worked out; repaired, only while it is put down. further_scores [repaired]
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::thread;

#[inline(never)]
fn work_out(number: u64) -> u64 {
    let mut score = number;
    for step in 0..8_000u64 {
        score = std::hint::black_box(0xfedcba9876543210 / (score | 1) ^ step);
    }
    score
}

#[inline(never)]
fn store_score(table: &RwLock<BTreeMap<u64, u64>>, number: u64, repaired: bool) {
    if repaired {
        let score = work_out(number);
        table.write().unwrap().insert(number % 300, score);
    } else {
        let mut table = table.write().unwrap();
        let score = work_out(number);
        table.insert(number % 300, score);
    }
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let table = Arc::new(RwLock::new(BTreeMap::new()));
    let players: Vec<_> = (0..2u64)
        .map(|player| {
            let table = Arc::clone(&table);
            thread::spawn(move || (0..16_000).for_each(|i| store_score(&table, 2 * i + player, repaired)))
        })
        .collect();
    players.into_iter().for_each(|player| player.join().unwrap());
    println!("{}", table.read().unwrap().len());
}
