// stages: three threads read, encode and write blocks, and the encoder is the slow one; repaired, it works as fast as the others.
// newest_stages [repaired]
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;

type Block = Vec<u32>;

fn churn(block: &mut Block, rounds: u32) {
    for round in 0..rounds {
        for word in block.iter_mut() {
            *word = word.wrapping_mul(2654435761).rotate_left(round % 7 + 1);
        }
    }
}

#[inline(never)]
fn read_block(number: u32) -> Block {
    let mut block: Block = (0..4096).map(|at| at ^ number).collect();
    churn(&mut block, 3);
    block
}

#[inline(never)]
fn encode_block(mut block: Block, repaired: bool) -> Block {
    for at in 1..block.len() {
        let (mut before, word) = (0u32, block[at]);
        // How often the word came lately.
        let looked_at = if repaired { 8 } else { 400 };
        for other in &block[at.saturating_sub(looked_at)..at] {
            before += u32::from(*other & 255 == word & 255);
        }
        block[at] = word ^ before;
    }
    block
}

#[inline(never)]
fn write_block(mut block: Block) -> u32 {
    churn(&mut block, 3);
    block.iter().fold(0, |sum, word| sum ^ word)
}

fn main() {
    let repaired = std::env::args().count() > 1;
    let (to_encoder, from_reader): (SyncSender<Block>, Receiver<Block>) = sync_channel(4);
    let (to_writer, from_encoder) = sync_channel(4);
    thread::spawn(move || (0..4_000).for_each(|number| to_encoder.send(read_block(number)).unwrap()));
    thread::spawn(move || from_reader.iter().for_each(|block| to_writer.send(encode_block(block, repaired)).unwrap()));
    println!("{}", from_encoder.iter().fold(0, |sum, block| sum ^ write_block(block)));
}
