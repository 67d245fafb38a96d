//! Panics through several frames, in threads and caught.
use std::panic;

#[inline(never)]
fn deep(depth: u32, fails: bool) -> u32 {
    if depth == 0 {
        assert!(!fails, "as asked");
        return 1;
    }
    deep(depth - 1, fails) + 1
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let mut sum = 0;
    for n in 0..300 {
        sum = sum * 3 % 1_000_003 + panic::catch_unwind(|| deep(n % 9, n % 4 == 0)).unwrap_or(77);
    }
    for n in 0..8 {
        sum += std::thread::spawn(move || deep(n, n % 2 == 0)).join().unwrap_or(5);
    }
    println!("{sum}");
    std::process::exit(12);
}
