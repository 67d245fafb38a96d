// device: a thread reads a slow device and hands what it read to one that computes; repaired, the device is read in larger pieces.
// later_device [repaired]
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

const PIECES: u64 = 480;

fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |sum, i| {
        std::hint::black_box(0xfedcba9876543210 / (sum | 1) + i)
    })
}

#[inline(never)]
fn read_device(number: u64, repaired: bool) -> u64 {
    // The answer takes three milliseconds, of however many pieces.
    if !repaired || number % 8 == 0 {
        thread::sleep(Duration::from_millis(3));
    }
    number * 7919
}

fn read_pieces(to: SyncSender<u64>, repaired: bool) {
    for number in 0..PIECES {
        to.send(read_device(number, repaired)).unwrap();
    }
}

fn compute(from: Receiver<u64>) -> u64 {
    from.iter().fold(0, |sum, piece| sum ^ digest(piece, 60_000))
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let (to, from) = sync_channel(4);
    let reader = thread::spawn(move || read_pieces(to, repaired));
    let sum = compute(from);
    reader.join().unwrap();
    println!("{sum}");
}
