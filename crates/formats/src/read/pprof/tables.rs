//! Strings, functions, locations and mappings.

use super::wire::{Message, WireValue};
use crate::read::error::ReadFault;
use rustc_hash::FxHashMap;

/// Map from the ids of a file, which may be any numbers, to indexes.
#[derive(Default)]
pub(super) struct IdTable {
    /// Index + 1 by id; most writers count from 1.
    small: Vec<u32>,
    large: FxHashMap<u64, u32>,
    len: u32,
}

impl IdTable {
    const SMALL: u64 = 1 << 16;

    /// Returns the index of an id; a new one gets the next index.
    pub fn index_of(&mut self, id: u64) -> u32 {
        // The vector holds ids as long as they are dense.
        let dense = Self::SMALL.max(2 * u64::from(self.len));
        if id < dense {
            let id = id as usize;
            if id >= self.small.len() {
                self.small.resize(id + 1, 0);
            }
            if let Some(entry) = self.small.get_mut(id) {
                if *entry == 0 {
                    *entry = match self.large.get(&(id as u64)) {
                        Some(index) => index + 1,
                        None => {
                            self.len += 1;
                            self.len
                        }
                    };
                }
                return *entry - 1;
            }
        }
        *self.large.entry(id).or_insert_with(|| {
            self.len += 1;
            self.len - 1
        })
    }

    pub fn get(&self, id: u64) -> Option<u32> {
        let small = usize::try_from(id).ok().and_then(|id| self.small.get(id));
        match small {
            Some(index) if *index > 0 => Some(index - 1),
            _ => self.large.get(&id).copied(),
        }
    }
}

/// The string table.
#[derive(Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    pub fn get(&self, index: u64) -> Option<&[u8]> {
        let index = usize::try_from(index).ok()?;
        let end = *self.ends.get(index)?;
        let before = index.checked_sub(1).and_then(|b| self.ends.get(b));
        self.bytes.get(before.copied().unwrap_or(0)..end)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn memory_size(&self) -> u64 {
        (self.bytes.capacity() + 8 * self.ends.capacity()) as u64
    }
}

/// A function; indexes of strings.
#[derive(Clone, Copy, Default)]
pub(super) struct FunctionEntry {
    pub id: u64,
    pub name: u64,
    pub system_name: u64,
}

impl FunctionEntry {
    pub fn read_function(mut message: Message<'_>) -> Result<Self, ReadFault> {
        let mut function = Self::default();
        while let Some((field, value)) = message.next_field()? {
            match field {
                1 => function.id = value.as_number(),
                2 => function.name = value.as_number(),
                3 => function.system_name = value.as_number(),
                _ => {}
            }
        }
        Ok(function)
    }
}

/// A mapped file.
#[derive(Clone, Copy, Default)]
pub(super) struct MappingEntry {
    pub id: u64,
    pub start: u64,
    pub offset: u64,
    pub filename: u64,
}

impl MappingEntry {
    pub fn read_mapping(mut message: Message<'_>) -> Result<Self, ReadFault> {
        let mut mapping = Self::default();
        while let Some((field, value)) = message.next_field()? {
            match field {
                1 => mapping.id = value.as_number(),
                2 => mapping.start = value.as_number(),
                4 => mapping.offset = value.as_number(),
                5 => mapping.filename = value.as_number(),
                _ => {}
            }
        }
        Ok(mapping)
    }
}

/// A place in the program.
#[derive(Clone, Copy, Default)]
pub(super) struct LocationEntry {
    pub mapping: u64,
    pub address: u64,
    /// Its lines, as a range in [`Locations::lines_of`].
    lines: (u32, u32),
    /// True if the file defines it, false if it only refers to it.
    pub defined: bool,
}

/// A function at a source line.
#[derive(Clone, Copy, Default)]
pub(super) struct LineEntry {
    pub function: u64,
    pub line: i64,
}

/// All locations, by their index in [`IdTable`].
#[derive(Default)]
pub(super) struct Locations {
    pub ids: IdTable,
    all: Vec<LocationEntry>,
    lines: Vec<LineEntry>,
}

impl Locations {
    pub fn read_location(&mut self, mut message: Message<'_>) -> Result<(), ReadFault> {
        let at = message.file_position();
        let (mut id, mut location) = (0, LocationEntry::default());
        let first = self.lines.len();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, value) => id = value.as_number(),
                (2, value) => location.mapping = value.as_number(),
                (3, value) => location.address = value.as_number(),
                (4, WireValue::Bytes(line)) => self.lines.push(read_line(line)?),
                _ => {}
            }
        }
        let range = (u32::try_from(first), u32::try_from(self.lines.len()));
        let (Ok(first), Ok(end)) = range else {
            return Err(ReadFault::too_large("more than 2^32 lines", at));
        };
        location.lines = (first, end);
        location.defined = true;
        let index = self.ids.index_of(id) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, LocationEntry::default());
        }
        match self.all.get_mut(index) {
            Some(known) if known.defined => {
                let what = format!("location {id} comes a second time");
                Err(ReadFault::damaged(what, at))
            }
            Some(known) => {
                *known = location;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn get(&self, index: u32) -> LocationEntry {
        self.all.get(index as usize).copied().unwrap_or_default()
    }

    /// Returns the functions at a location, innermost inlined call first.
    pub fn lines_of(&self, location: &LocationEntry) -> &[LineEntry] {
        let (first, end) = location.lines;
        self.lines
            .get(first as usize..end as usize)
            .unwrap_or_default()
    }

    pub fn memory_size(&self) -> u64 {
        let (locations, lines) = (self.all.capacity(), self.lines.capacity());
        let ids = 4 * self.ids.small.capacity() + 16 * self.ids.large.capacity();
        (size_of::<LocationEntry>() * locations + size_of::<LineEntry>() * lines + ids) as u64
    }
}

fn read_line(mut message: Message<'_>) -> Result<LineEntry, ReadFault> {
    let mut line = LineEntry::default();
    while let Some((field, value)) = message.next_field()? {
        match field {
            1 => line.function = value.as_number(),
            2 => line.line = value.as_number() as i64,
            _ => {}
        }
    }
    Ok(line)
}
