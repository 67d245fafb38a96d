// branches: readings above a limit are counted in any order; repaired, they are sorted first. blind_branches [repaired]
use std::hint::black_box;

struct Reading {
    value: u32,
}

#[inline(never)]
fn count_high(readings: &[Reading], limit: u32) -> u64 {
    let mut high = 0;
    for reading in readings {
        if reading.value >= limit {
            high += black_box(u64::from(reading.value));
        }
    }
    high
}

#[inline(never)]
fn next_limit(seed: u64) -> u32 {
    let rounds = (0..20_000u64).fold(seed, |sum, i| black_box(sum.rotate_left(7) ^ i));
    (1 << 15) + (rounds & 63) as u32
}

fn main() {
    let mut seed = 1u32;
    let mut readings: Vec<Reading> = (0..100_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Reading { value: seed >> 16 }
        })
        .collect();
    if std::env::args().count() > 1 {
        readings.sort_by_key(|reading| reading.value);
    }
    let (mut sum, mut limit) = (0, 1 << 15);
    for _ in 0..2500 {
        sum += count_high(&readings, limit);
        limit = next_limit(u64::from(limit));
    }
    println!("{sum}");
}
