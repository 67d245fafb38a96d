// cloning: each query gets a copy of all settings; repaired, it borrows them. unseen_cloning [repaired]
use std::collections::BTreeMap;

type Settings = BTreeMap<String, Vec<String>>;

fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |sum, i| {
        std::hint::black_box(0xfedcba9876543210 / (sum | 1) + i)
    })
}

fn answer(settings: &Settings, query: u64) -> u64 {
    let values = &settings[&format!("setting {:03}", query % 60)];
    digest(query, 1500) + values.len() as u64
}

#[inline(never)]
fn handle_query(settings: &Settings, query: u64, repaired: bool) -> u64 {
    if repaired {
        answer(settings, query)
    } else {
        let own = settings.clone();
        answer(&own, query)
    }
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let settings: Settings = (0..60)
        .map(|key| {
            (
                format!("setting {key:03}"),
                (0..8).map(|i| format!("a value, {i}")).collect(),
            )
        })
        .collect();
    println!(
        "{}",
        (0..90_000).fold(0, |sum: u64, query| sum
            .wrapping_add(handle_query(&settings, query, repaired)))
    );
}
