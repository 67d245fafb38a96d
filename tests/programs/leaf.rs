//! `outer` and `leaf`, which it calls and which has no frame, run loops of the same length: leaf SECONDS.
use std::time::{Duration, Instant};

#[inline(never)]
fn leaf(mut x: u32) -> u32 {
    for _ in 0..200 {
        x = std::hint::black_box(x.wrapping_mul(1664525).wrapping_add(1013904223));
    }
    x
}

#[inline(never)]
fn outer(mut x: u32) -> u32 {
    for _ in 0..1000 {
        for _ in 0..200 {
            x = std::hint::black_box(x.wrapping_mul(22695477).wrapping_add(1));
        }
        x = leaf(x);
    }
    x
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut sum = 1;
    while Instant::now() < end {
        sum = outer(sum);
    }
    std::process::exit((sum == 1) as i32);
}
