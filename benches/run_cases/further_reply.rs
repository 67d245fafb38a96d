// reply: who waits for a reply looks for it every 2 ms; repaired, it is told. further_reply [repaired]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

#[inline(never)]
fn wait_for_reply(is_there: &AtomicBool, replies: &mpsc::Receiver<u64>, repaired: bool) -> u64 {
    if !repaired {
        while !is_there.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(2));
        }
    }
    let reply = replies.recv().unwrap();
    is_there.store(false, Ordering::Release);
    reply
}

#[inline(never)]
fn answer(request: u64) -> u64 {
    let mut sum = request;
    for step in 0..40_000u64 {
        sum = std::hint::black_box(0xfedcba9876543210 / (sum | 1) + step);
    }
    sum
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let is_there = Arc::new(AtomicBool::new(false));
    let (ask, asked) = mpsc::channel::<u64>();
    let (reply, replies) = mpsc::channel();
    let set = Arc::clone(&is_there);
    let server = thread::spawn(move || {
        for request in asked {
            reply.send(answer(request)).unwrap();
            set.store(true, Ordering::Release);
        }
    });
    let mut sum = 0;
    for request in 0..700 {
        ask.send(request ^ sum).unwrap();
        sum = wait_for_reply(&is_there, &replies, repaired);
    }
    drop(ask);
    server.join().unwrap();
    println!("{sum}");
}
