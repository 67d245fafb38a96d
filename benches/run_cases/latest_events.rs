// events: an event is put into words while the list of events is locked; repaired, before that. latest_events [repaired]
use std::sync::{Arc, Mutex};
use std::thread;

#[inline(never)]
fn describe_event(number: u64) -> String {
    let mut words = String::new();
    let mut sum = number;
    for part in 0..60u64 {
        sum = sum.wrapping_mul(6364136223846793005).wrapping_add(part);
        words.push_str(&(sum >> 40).to_string());
        words.push(' ');
    }
    words
}

struct Events {
    latest: Mutex<Vec<String>>,
    repaired: bool,
}

impl Events {
    #[inline(never)]
    fn record_event(&self, number: u64) {
        let early = self.repaired.then(|| describe_event(number));
        let mut latest = self.latest.lock().unwrap();
        let described = early.unwrap_or_else(|| describe_event(number));
        let at = number as usize % latest.len();
        latest[at] = described;
    }
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let latest = Mutex::new(vec![String::new(); 64]);
    let events = Arc::new(Events { latest, repaired });
    let workers: Vec<_> = (0..2u64)
        .map(|worker| {
            let events = Arc::clone(&events);
            thread::spawn(move || (0..250_000).for_each(|i| events.record_event(i * 2 + worker)))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    println!("{}", events.latest.lock().unwrap()[3].len());
}
