//! Threads that meet by what Rust's own library has, written when the method had been tuned:
//!
//!     standard [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
//!
//! KIND is `channel` (one sends, one receives), `many_senders` (two send), `scope` (threads that live for one piece),
//! `parking` (two take turns by `park`), `read_write` (RwLock) or `meeting` (Barrier).
#[macro_use]
mod causal;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

static VISITS: AtomicU64 = AtomicU64::new(0);

fn count_piece() {
    causal::count_visit(c"piece");
    VISITS.fetch_add(1, Ordering::Relaxed);
}

#[derive(Clone)]
struct Knob {
    line: String,
    percent: u64,
    units: u64,
}

impl Knob {
    fn part_of(&self, line: &str, percent: u64) -> u64 {
        let n = self.units * percent / 100;
        if self.line == line { n * (100 - self.percent) / 100 } else { n }
    }
}

fn send_items(knob: &Knob) {
    let (sender, receiver) = mpsc::sync_channel::<u64>(4);
    let (sending, receiving) = (knob.part_of("sending", 45), knob.part_of("receiving", 70));
    thread::spawn(move || loop {
        work!(sending); // line: sending
        sender.send(1).unwrap();
    });
    thread::spawn(move || loop {
        receiver.recv().unwrap();
        work!(receiving); // line: receiving
        count_piece();
    });
}

fn many_senders(knob: &Knob) {
    let (sender, receiver) = mpsc::sync_channel::<u64>(2);
    let (making, collecting) = (knob.part_of("making", 110), knob.part_of("collecting", 35));
    for _ in 0..2 {
        let sender = sender.clone();
        thread::spawn(move || loop {
            work!(making); // line: making
            sender.send(1).unwrap();
        });
    }
    thread::spawn(move || loop {
        receiver.recv().unwrap();
        work!(collecting); // line: collecting
        count_piece();
    });
}

fn join_threads(knob: &Knob) {
    let (left, right, merging) = (knob.part_of("left", 60), knob.part_of("right", 40), knob.part_of("merging", 25));
    thread::spawn(move || loop {
        thread::scope(|scope| {
            scope.spawn(|| {
                work!(left); // line: left
            });
            work!(right); // line: right
        });
        work!(merging); // line: merging
        count_piece();
    });
}

fn take_turns(knob: &Knob) {
    let (serve, answer) = (knob.part_of("serve", 55), knob.part_of("answer", 30));
    let turn = Arc::new(Mutex::new(0));
    let (first_turn, second_turn) = (turn.clone(), turn);
    let second = thread::spawn(move || {
        let first: thread::Thread = loop {
            thread::park();
            if let Some(first) = FIRST.lock().unwrap().clone() {
                break first;
            }
        };
        loop {
            while *second_turn.lock().unwrap() == 0 {
                thread::park();
            }
            work!(answer); // line: answer
            *second_turn.lock().unwrap() = 0;
            first.unpark();
        }
    });
    static FIRST: Mutex<Option<thread::Thread>> = Mutex::new(None);
    thread::spawn(move || {
        *FIRST.lock().unwrap() = Some(thread::current());
        loop {
            work!(serve); // line: serve
            *first_turn.lock().unwrap() = 1;
            second.thread().unpark();
            while *first_turn.lock().unwrap() == 1 {
                thread::park();
            }
            count_piece();
        }
    });
}

fn read_write(knob: &Knob) {
    let table = Arc::new(RwLock::new(0));
    let (reading, thinking) = (knob.part_of("reading", 35), knob.part_of("thinking", 55));
    let (writing, resting) = (knob.part_of("writing", 30), knob.part_of("resting", 60));
    for _ in 0..2 {
        let table = table.clone();
        thread::spawn(move || loop {
            let held = table.read().unwrap();
            work!(reading); // line: reading
            drop(held);
            work!(thinking); // line: thinking
            count_piece();
        });
    }
    thread::spawn(move || loop {
        let held = table.write().unwrap();
        work!(writing); // line: writing
        drop(held);
        work!(resting); // line: resting
    });
}

fn meet_others(knob: &Knob) {
    let barrier = Arc::new(Barrier::new(2));
    let (longer, shorter) = (knob.part_of("longer", 80), knob.part_of("shorter", 55));
    let other = barrier.clone();
    thread::spawn(move || loop {
        work!(longer); // line: longer
        barrier.wait();
        count_piece();
    });
    thread::spawn(move || loop {
        work!(shorter); // line: shorter
        other.wait();
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize, other: &str| arguments.get(at).map_or(other, |it| it).to_owned();
    let knob = Knob {
        line: argument(1, "none"),
        percent: argument(2, "0").parse().unwrap(),
        units: 1000 * argument(5, "1000").parse::<u64>().unwrap(),
    };
    match argument(4, "channel").as_str() {
        "channel" => send_items(&knob),
        "many_senders" => many_senders(&knob),
        "scope" => join_threads(&knob),
        "parking" => take_turns(&knob),
        "read_write" => read_write(&knob),
        _ => meet_others(&knob),
    }
    let start = Instant::now();
    thread::sleep(Duration::from_secs_f64(argument(3, "10").parse().unwrap()));
    println!("rate {:.4}", VISITS.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    std::io::stdout().flush().unwrap();
    std::process::exit(0);
}
