// ledger: a booking is answered when it is on the disk, one by one; repaired, forty at a time. newest_ledger [repaired]
use std::fs::{self, File};
use std::io::Write;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;

struct Booking {
    amount: u64,
    answer: Sender<u64>,
}

#[inline(never)]
fn append_bookings(file: &mut File, bookings: &[Booking]) {
    for booking in bookings {
        writeln!(file, "{}", booking.amount).unwrap();
    }
    file.sync_data().unwrap();
}

fn keep_ledger(mut file: File, from: Receiver<Booking>, at_once: usize) {
    loop {
        let bookings: Vec<Booking> = from.iter().take(at_once).collect();
        if bookings.is_empty() {
            return;
        }
        append_bookings(&mut file, &bookings);
        bookings.iter().for_each(|booking| booking.answer.send(booking.amount).unwrap());
    }
}

#[inline(never)]
fn check_amount(number: u64) -> u64 {
    (0..40_000).fold(number, |sum, step| std::hint::black_box(0xfedcba9876543210 / (sum | 1) + step))
}

fn main() {
    let at_once = if std::env::args().count() > 1 { 40 } else { 1 };
    let name = format!("newest_ledger_{}", std::process::id());
    let file = File::create(&name).unwrap();
    fs::remove_file(&name).unwrap();
    let (to, from) = channel();
    let keeper = thread::spawn(move || keep_ledger(file, from, at_once));
    let (answer, answers) = channel();
    for number in 0..1600 {
        to.send(Booking { amount: check_amount(number), answer: answer.clone() }).unwrap();
        // As many are under way as are written at once.
        if number % at_once as u64 == at_once as u64 - 1 {
            answers.iter().take(at_once).for_each(drop);
        }
    }
    drop((to, answer));
    println!("{}", answers.iter().count());
    keeper.join().unwrap();
}
