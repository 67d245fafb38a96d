//! The pipeline in Rust, with the standard library's Mutex and Condvar (futexes without the C library).
#[macro_use]
mod causal;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Queue(Mutex<u32>, Condvar);

impl Queue {
    fn put(&self) {
        let mut items = self.1.wait_while(self.0.lock().unwrap(), |items| *items == 8).unwrap();
        *items += 1;
        self.1.notify_all();
    }

    fn take(&self) {
        let mut items = self.1.wait_while(self.0.lock().unwrap(), |items| *items == 0).unwrap();
        *items -= 1;
        self.1.notify_all();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let percent: u64 = arguments.get(2).map_or(0, |a| a.parse().unwrap());
    let seconds: f64 = arguments.get(3).map_or(10.0, |a| a.parse().unwrap());
    let of = |line: &str, n: u64| if arguments.get(1).is_some_and(|a| a == line) { n * (100 - percent) / 100 } else { n };
    let (first, last) = (of("first", 300_000), of("last", 600_000));
    let (queue, visits) = (&*Box::leak(Box::new(Queue::default())), &*Box::leak(Box::new(AtomicU64::new(0))));
    std::thread::spawn(move || loop {
        work!(first); // line: first
        queue.put();
    });
    std::thread::spawn(move || loop {
        queue.take();
        work!(last); // line: last
        causal::count_visit(c"item");
        visits.fetch_add(1, Ordering::Relaxed);
    });
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    println!("rate {:.4}", visits.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    std::io::stdout().flush().unwrap();
    std::process::exit(0);
}
