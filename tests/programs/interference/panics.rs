//! Panics that pass through traced functions, in several threads. Prints always the same.
use std::panic::catch_unwind;

#[inline(never)]
fn fails(x: u64) -> u64 {
    if x % 5 == 0 {
        panic!("a fifth");
    }
    2 * x
}

#[inline(never)]
fn owns(x: u64) -> u64 {
    let values = vec![x; 3];
    fails(values[1]) + values.len() as u64
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let sum: u64 = (0..2000).map(|i| catch_unwind(|| owns(i)).unwrap_or(1)).sum();
    println!("{sum}");
    let threads: Vec<_> = (0..4)
        .map(|k| {
            std::thread::spawn(move || -> u64 {
                (0..1000).map(|i| catch_unwind(|| owns(i + k)).unwrap_or(0)).sum()
            })
        })
        .collect();
    for thread in threads {
        println!("{}", thread.join().unwrap());
    }
}
