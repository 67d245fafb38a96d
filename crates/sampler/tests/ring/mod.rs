//! Records as the kernel writes them to ring buffers, on a machine with branch records.
#![allow(dead_code)] // each test binary uses a part

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Type, misc and body.
pub type Record = (u32, u16, Vec<u8>);

/// The process of all records, which does not exist on this machine.
pub const PID: u32 = 4_194_305;
const USER: u16 = 2;
const MMAP2: u32 = 10;
const SAMPLE: u32 = 9;
/// `PERF_BR_SPEC_WRONG_PATH`, at its place in the flags of an entry.
pub const WRONG_PATH: u64 = 1 << 24;
/// The flags of a predicted and of a mispredicted entry.
pub const PREDICTED: u64 = 2;
pub const MISPREDICTED: u64 = 1;

/// The numbers of the time event, of the one with branch stacks, and of another one.
pub const TIME: u64 = 1;
pub const BRANCHES: u64 = 2;
pub const OTHER: u64 = 3;

fn words(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

fn task() -> u64 {
    u64::from(PID) << 32 | u64::from(PID)
}

/// Returns a record of a file mapped as a whole at an address.
pub fn mapped(file: &Path, address: u64, length: u64) -> Record {
    let meta = std::fs::metadata(file).expect("the file");
    let (major, minor) = (libc_major(meta.dev()), libc_minor(meta.dev()));
    let mut body = Vec::new();
    words(&mut body, &[task(), address, length, 0]);
    words(
        &mut body,
        &[minor << 32 | major, meta.ino(), 0, 2 << 32 | 5],
    );
    body.extend(file.as_os_str().as_encoded_bytes());
    body.resize(body.len().next_multiple_of(8) + 8, 0);
    // Every record of events with `sample_id_all` ends with these fields.
    words(&mut body, &[task(), 0, TIME]);
    (MMAP2, USER, body)
}

fn libc_major(dev: u64) -> u64 {
    dev >> 32 & 0xffff_f000 | dev >> 8 & 0xfff
}

fn libc_minor(dev: u64) -> u64 {
    dev >> 12 & 0xffff_ff00 | dev & 0xff
}

/// Returns a sample of an event without branch stacks.
pub fn sample(event: u64, time: u64, ip: u64) -> Record {
    let mut body = Vec::new();
    words(&mut body, &[event, ip, task(), time]);
    (SAMPLE, USER, body)
}

/// Returns a sample with a branch stack of (from, to, flags), newest first.
pub fn stack(time: u64, ip: u64, entries: &[(u64, u64, u64)]) -> Record {
    let mut body = Vec::new();
    words(
        &mut body,
        &[BRANCHES, ip, task(), time, entries.len() as u64],
    );
    for (from, to, flags) in entries {
        words(&mut body, &[*from, *to, *flags]);
    }
    (SAMPLE, USER, body)
}
