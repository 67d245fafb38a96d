//! Names that programs give their threads.
//!
//! Up to 3.13 only the interpreter knows them, in objects of the module `threading`: its dictionary
//! `_active` has an object for each thread, with the name and the thread's number in the kernel as
//! attributes. From 3.14 on it names the system's threads.

use super::code::CodeText;
use super::interpreter::Interpreter;
use std::cell::Cell;

/// Maximum number of entries of a dictionary that are read.
const MOST_ENTRIES: u64 = 1 << 16;
/// Maximum number of threads whose names are read.
const MOST_THREADS: usize = 512;
/// Maximum number of reads of one search, because overwritten structures may form cycles. A program
/// of 5,000 modules takes 15,000.
const MOST_READS: u32 = 1 << 16;
/// Length of the longest name that is read, in bytes.
const LONGEST_NAME: u64 = 256;
/// Maximum number of interpreters of a process that are searched.
const MOST_INTERPRETERS: usize = 64;

/// Offsets in objects that are the same in all versions from 3.8 on, in bytes.
const OBJECT_TYPE: u64 = 8;
const TYPE_SIZE: u64 = 32;
const TYPE_FLAGS: u64 = 168;
const TYPE_DICTIONARY: u64 = 288;
const MODULE_DICTIONARY: u64 = 16;
const DICTIONARY_KEYS: u64 = 32;
const TEXT_LENGTH: u64 = 16;
const TEXT_STATE: u64 = 32;
const NUMBER_DIGITS: u64 = 24;
/// The flag of a type whose objects contain the values of their attributes (3.13).
const INLINE_VALUES: u64 = 1 << 2;

/// Reads bytes at an address of a process; returns false if it cannot.
pub type ReadMemory<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Offsets to a version's thread names.
#[derive(Clone, Copy)]
struct Layout {
    minor: u8,
    /// An interpreter's dictionary of modules.
    modules: u64,
    /// The names of attributes that all objects of a type share.
    shared_keys: u64,
}

impl Layout {
    fn of_version(minor: u8) -> Option<Self> {
        let (modules, shared_keys) = match minor {
            8 => (56, 872),
            9 => (856, 864),
            10 => (856, 872),
            11 => (888, 872),
            12 => (944, 880),
            13 => (7656, 880),
            _ => return None,
        };
        Some(Self {
            minor,
            modules,
            shared_keys,
        })
    }
}

/// Finds the names of threads in the memory of a process.
pub struct ThreadNames<'a> {
    interpreter: &'a Interpreter,
    layout: Layout,
    read: &'a ReadMemory<'a>,
    reads_left: Cell<u32>,
}

impl<'a> ThreadNames<'a> {
    /// Prepares a search; `None` for versions that name the system's threads, and for untested
    /// ones.
    pub fn of_interpreter(interpreter: &'a Interpreter, read: &'a ReadMemory<'a>) -> Option<Self> {
        let layout = Layout::of_version(interpreter.version.minor)?;
        Some(Self {
            interpreter,
            layout,
            read,
            reads_left: Cell::new(MOST_READS),
        })
    }

    /// Returns the address of the dictionary of threads of each interpreter, whose image begins at
    /// `base`. There is none before the module is loaded.
    pub fn find_dictionaries(&self, base: u64) -> Vec<u64> {
        let offsets = &self.interpreter.offsets;
        let head = base.wrapping_add(self.interpreter.runtime);
        let mut at = self.word(head.wrapping_add(offsets.interpreters_head.into()));
        let mut found = Vec::new();
        for _ in 0..MOST_INTERPRETERS {
            let Some(one) = at.filter(|at| *at != 0) else {
                break;
            };
            found.extend(self.threads_of_interpreter(one));
            at = self.word(one.wrapping_add(offsets.interpreter_next.into()));
        }
        found
    }

    fn threads_of_interpreter(&self, interpreter: u64) -> Option<u64> {
        let modules = self.word(interpreter.wrapping_add(self.layout.modules))?;
        let module = self.named_item(modules, "threading")?;
        let dictionary = self.word(module.wrapping_add(MODULE_DICTIONARY))?;
        self.named_item(dictionary, "_active")
    }

    /// Returns the number (in its own namespace) and the name of each thread in a dictionary of
    /// threads, without the main thread, whose name is always the same.
    pub fn read_names(&self, dictionary: u64) -> Vec<(u32, String)> {
        let mut names = Vec::new();
        for (_, thread) in self.dictionary_items(dictionary).take(MOST_THREADS) {
            let (mut number, mut name) = (None, None);
            for (key, value) in self.attributes(thread) {
                match self.text(key).as_deref() {
                    Some("_native_id") => number = self.small_number(value),
                    Some("_name") => name = self.text(value),
                    _ => {}
                }
            }
            if let (Some(number), Some(name)) = (number, name)
                && name != "MainThread"
            {
                names.push((number, name));
            }
        }
        names
    }

    /// Returns the attributes of an object without slots.
    fn attributes(&self, object: u64) -> Vec<(u64, u64)> {
        let found = || -> Option<Vec<(u64, u64)>> {
            let class = self.word(object.wrapping_add(OBJECT_TYPE))?;
            let shared = || self.word(class.wrapping_add(self.layout.shared_keys));
            // From 3.11 on, the object's own data are before it.
            let dictionary = match self.layout.minor {
                ..=10 => {
                    let offset = self.word(class.wrapping_add(TYPE_DICTIONARY))?;
                    self.word(object.wrapping_add(offset))?
                }
                11 => match self.word(object.wrapping_sub(32))? {
                    0 => self.word(object.wrapping_sub(24))?,
                    values => return Some(self.items(shared()?, Some(values)).collect()),
                },
                12 => match self.word(object.wrapping_sub(24))? {
                    values if values & 1 == 1 => {
                        let values = values.wrapping_add(1);
                        return Some(self.items(shared()?, Some(values)).collect());
                    }
                    dictionary => dictionary,
                },
                _ => match self.word(object.wrapping_sub(24))? {
                    0 if self.word(class.wrapping_add(TYPE_FLAGS))? & INLINE_VALUES != 0 => {
                        let size = self.word(class.wrapping_add(TYPE_SIZE))?;
                        let values = object.wrapping_add(size).wrapping_add(8);
                        return Some(self.items(shared()?, Some(values)).collect());
                    }
                    dictionary => dictionary,
                },
            };
            Some(self.dictionary_items(dictionary).collect())
        };
        found().unwrap_or_default()
    }

    fn named_item(&self, dictionary: u64, name: &str) -> Option<u64> {
        let mut items = self.dictionary_items(dictionary);
        let (_, value) = items.find(|(key, _)| self.text(*key).as_deref() == Some(name))?;
        Some(value)
    }

    fn dictionary_items(&self, dictionary: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let keys = self.word(dictionary.wrapping_add(DICTIONARY_KEYS));
        let values = self.word(dictionary.wrapping_add(DICTIONARY_KEYS + 8));
        // The values of 3.13 have a head of some bytes.
        let head = if self.layout.minor >= 13 { 8 } else { 0 };
        let values = values.filter(|values| *values != 0);
        let values = values.map(|values| values.wrapping_add(head));
        keys.into_iter()
            .flat_map(move |keys| self.items(keys, values))
    }

    /// Returns the keys and values of a table of keys; the values are in a separate array if many
    /// dictionaries share the keys.
    fn items(&self, keys: u64, values: Option<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (entries, count, size) = self.key_table(keys).unwrap_or((0, 0, 24));
        let pairs = (0..count).map_while(move |index| {
            let entry = entries.wrapping_add(index * size);
            // The key's hash may precede it.
            let key = self.word(entry.wrapping_add(size - 16))?;
            let value = match values {
                Some(values) => self.word(values.wrapping_add(8 * index))?,
                None => self.word(entry.wrapping_add(size - 8))?,
            };
            Some((key, value))
        });
        pairs.filter(|(key, value)| *key != 0 && *value != 0)
    }

    /// Returns the address of the entries of a table of keys, their number, and the size of each.
    fn key_table(&self, keys: u64) -> Option<(u64, u64, u64)> {
        let mut head = [0; 40];
        if !self.read_bytes(keys, &mut head) {
            return None;
        }
        let word = |index: usize| {
            let bytes = head[8 * index..8 * index + 8].try_into();
            bytes.map_or(0, u64::from_le_bytes)
        };
        let (entries, count, size) = if self.layout.minor <= 10 {
            let slots = word(1);
            let index = match slots {
                ..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            };
            (slots.checked_mul(index)?.checked_add(40)?, word(4), 24)
        } else {
            let indices = 1_u64.checked_shl(head[9].into())?;
            let size = if head[10] == 0 { 24 } else { 16 };
            (indices.checked_add(32)?, word(3), size)
        };
        Some((keys.wrapping_add(entries), count.min(MOST_ENTRIES), size))
    }

    fn text(&self, text: u64) -> Option<String> {
        let length = self.word(text.wrapping_add(TEXT_LENGTH))?;
        let mut state = [0];
        if !self.read_bytes(text.wrapping_add(TEXT_STATE), &mut state) {
            return None;
        }
        let kind = (state[0] >> 2) & 7;
        let offsets = &self.interpreter.offsets;
        let data = match state[0] & 0x40 {
            0 => offsets.text_data,
            _ => offsets.ascii_data,
        };
        let bytes = length.checked_mul(kind.into())?;
        if !matches!(kind, 1 | 2 | 4) || bytes > LONGEST_NAME {
            return None;
        }
        let mut characters = vec![0; bytes as usize];
        let whole = self.read_bytes(text.wrapping_add(data.into()), &mut characters);
        let bytes = &characters[..];
        whole.then(|| CodeText { kind, bytes }.to_text())
    }

    /// Returns a number of one digit (30 bits), like those of threads.
    fn small_number(&self, number: u64) -> Option<u32> {
        let digit = self.word(number.wrapping_add(NUMBER_DIGITS))? as u32;
        (digit < 1 << 30).then_some(digit)
    }

    fn read_bytes(&self, address: u64, bytes: &mut [u8]) -> bool {
        let left = self.reads_left.get();
        self.reads_left.set(left.saturating_sub(1));
        left > 0 && (self.read)(address, bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read_bytes(address, &mut bytes)
            .then(|| u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::{Offsets, Version};

    fn interpreter(minor: u8) -> Interpreter {
        let version = Version { major: 3, minor };
        let known = Version {
            major: 3,
            minor: minor.min(12),
        };
        Interpreter {
            version,
            evaluation: Vec::new(),
            runtime: 0,
            code_type: 0,
            offsets: Offsets::of_version(known).expect("is known"),
        }
    }

    /// A program may overwrite its own structures with pointers to anywhere, also in cycles: the
    /// reads end, and return no made-up names.
    #[test]
    fn overwritten_structures_end_the_search() {
        for minor in 8..=13 {
            let interpreter = interpreter(minor);
            for seed in 0..64_u64 {
                let reads = Cell::new(0_u64);
                let read = |address: u64, bytes: &mut [u8]| {
                    reads.set(reads.get() + 1);
                    // All pointers stay within 64 words; some words are small, some huge.
                    for (at, byte) in bytes.iter_mut().enumerate() {
                        let place =
                            (address.wrapping_add(at as u64) & 0x1ff).wrapping_mul(seed | 1);
                        *byte = if at % 8 < 2 || seed % 3 == 0 {
                            place as u8
                        } else {
                            0
                        };
                    }
                    true
                };
                let names = ThreadNames::of_interpreter(&interpreter, &read).expect("was tried");
                let found = names.find_dictionaries(0x1000);
                assert!(found.len() <= MOST_INTERPRETERS);
                assert!(names.read_names(0x2000).len() <= MOST_THREADS);
                assert!(reads.get() <= MOST_READS.into());
            }
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_names() {
        let interpreter = interpreter(11);
        let names = ThreadNames::of_interpreter(&interpreter, &|_, _| false).expect("was tried");
        assert_eq!(names.find_dictionaries(0x1000), []);
        assert_eq!(names.read_names(0x2000), []);
    }
}
