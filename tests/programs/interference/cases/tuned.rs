// mutex: two threads and a lock that is seldom free; repaired, each has its own.
use std::hint::black_box;
use std::sync::{Arc, Mutex};

#[inline(never)]
fn compute(turns: u64) -> u64 {
    (0..turns).fold(turns | 1, |product, _| black_box(product.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[inline(never)]
fn add_entry(table: &Mutex<Vec<u64>>, number: u64) {
    let mut table = table.lock().unwrap();
    let value = compute(12_000);
    table[number as usize % 64] = value;
}

fn main() {
    let repaired = std::env::args().nth(1).is_some();
    let tables: Vec<_> = (0..2).map(|_| Arc::new(Mutex::new(vec![0; 64]))).collect();
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let table = tables[if repaired { number } else { 0 }].clone();
            std::thread::spawn(move || {
                for n in 0..20_000 {
                    add_entry(&table, n);
                    compute(1_000);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
