//! Memory of the simulated program: variables, arrays, tables, linked lists.

use super::super::pipeline::Random;
use rustc_hash::FxHashMap;

const PAGE: u64 = 4096;

/// Addresses of the stack pointer, of variables whose address is in the code, and of the first
/// array.
pub const STACK: u64 = 0x7fff_ffff_d800;
pub const VARIABLES: u64 = 0x60_0000;
const ARRAYS: u64 = 1 << 32;

/// Contents of an array's words.
#[derive(Clone, Copy)]
pub enum Words {
    /// Any numbers.
    Numbers,
    /// Addresses of objects, each of `bytes` bytes, `2^log` in all from `to` on.
    Pointers { to: u64, log: u32, bytes: u64 },
    /// Objects, each of `bytes` bytes, `2^log` in all, that begin with the next one's address.
    List { log: u32, bytes: u64 },
}

#[derive(Clone)]
struct Array {
    start: u64,
    bytes: u64,
    words: Words,
}

/// The memory of a program. Arrays keep their contents, which are drawn by the address; stores do
/// not change them. Variables and the stack do change.
#[derive(Clone, Default)]
pub struct Contents {
    arrays: Vec<Array>,
    variables: FxHashMap<u64, u64>,
    end: u64,
}

fn mixed(value: u64) -> u64 {
    Random(value).next()
}

impl Contents {
    /// Makes a new array; returns its start.
    pub fn array(&mut self, random: &mut Random, bytes: u64, words: Words) -> u64 {
        let start = self.end.max(ARRAYS);
        // Allocators do not put all arrays at the same place of a page.
        let start = start + 64 * random.below(64) as u64;
        self.arrays.push(Array {
            start,
            bytes,
            words,
        });
        self.end = (start + bytes).next_multiple_of(PAGE) + PAGE * random.below(16) as u64;
        start
    }

    /// Returns all arrays, and the pages of variables and of the stack, as start and length.
    pub fn areas(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let few = [VARIABLES, STACK & !(PAGE - 1)].map(|start| (start, PAGE));
        let arrays = self.arrays.iter().map(|one| (one.start, one.bytes));
        arrays.chain(few)
    }

    pub fn write(&mut self, address: u64, value: u64) {
        if !(ARRAYS..1 << 46).contains(&address) {
            self.variables.insert(address, value);
        }
    }

    pub fn read(&self, address: u64) -> u64 {
        if let Some(value) = self.variables.get(&address) {
            return *value;
        }
        let after = self.arrays.partition_point(|one| one.start <= address);
        let array = after.checked_sub(1).map(|index| &self.arrays[index]);
        let Some(array) = array.filter(|one| address < one.start + one.bytes) else {
            return mixed(address);
        };
        let at = address - array.start;
        match array.words {
            Words::Pointers { to, log, bytes } => to + (mixed(address) & ((1 << log) - 1)) * bytes,
            Words::List { log, bytes } if at.is_multiple_of(bytes) => {
                // A generator of full period: all objects are in one cycle.
                let next = (at / bytes).wrapping_mul(0x5851_f42d_4c95_7f2d);
                array.start + (next.wrapping_add(0x1405_7b7e_f767_814f) & ((1 << log) - 1)) * bytes
            }
            _ => mixed(address),
        }
    }
}
