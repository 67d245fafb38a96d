// registry: an entry is rated while the registry is locked; repaired, before that. newest_registry [repaired]
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;

struct Registry {
    entries: Mutex<HashMap<u64, u64>>,
    repaired: bool,
}

#[inline(never)]
fn rate_entry(number: u64) -> u64 {
    let mut rating = number;
    for step in 0..6_000u64 {
        rating = std::hint::black_box(0xfedcba9876543210 / (rating | 1) + step);
    }
    rating
}

impl Registry {
    #[inline(never)]
    fn register_entry(&self, number: u64) {
        if self.repaired {
            let rating = rate_entry(number);
            self.entries.lock().unwrap().insert(number % 512, rating);
        } else {
            let mut entries = self.entries.lock().unwrap();
            entries.insert(number % 512, rate_entry(number));
        }
    }
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let registry = Arc::new(Registry { entries: Mutex::new(HashMap::new()), repaired });
    let workers: Vec<_> = (0..2u64)
        .map(|worker| {
            let registry = Arc::clone(&registry);
            thread::spawn(move || (0..28_000).for_each(|i| registry.register_entry(i * 2 + worker)))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    println!("{}", registry.entries.lock().unwrap().len());
}
