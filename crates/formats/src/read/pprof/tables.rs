//! Strings, functions, locations and mappings.

use super::wire::{Message, Value};
use crate::read::error::Fault;
use rustc_hash::FxHashMap;

/// From the ids of a file, which may be any numbers, to indices.
#[derive(Default)]
pub(super) struct Ids {
    /// By id, index + 1; most writers count from 1.
    small: Vec<u32>,
    large: FxHashMap<u64, u32>,
    len: u32,
}

impl Ids {
    const SMALL: u64 = 1 << 16;

    /// The index of an id, the next one if it is new.
    pub fn index(&mut self, id: u64) -> u32 {
        // As long as ids come densely, the vector takes them.
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

    pub fn size(&self) -> u64 {
        (self.bytes.capacity() + 8 * self.ends.capacity()) as u64
    }
}

/// A function; indices of strings.
#[derive(Clone, Copy, Default)]
pub(super) struct Function {
    pub id: u64,
    pub name: u64,
    pub system_name: u64,
}

impl Function {
    pub fn read(mut message: Message<'_>) -> Result<Self, Fault> {
        let mut function = Self::default();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => function.id = value.number(),
                2 => function.name = value.number(),
                3 => function.system_name = value.number(),
                _ => {}
            }
        }
        Ok(function)
    }
}

/// A file that was mapped.
#[derive(Clone, Copy, Default)]
pub(super) struct Mapping {
    pub id: u64,
    pub start: u64,
    pub offset: u64,
    pub filename: u64,
}

impl Mapping {
    pub fn read(mut message: Message<'_>) -> Result<Self, Fault> {
        let mut mapping = Self::default();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => mapping.id = value.number(),
                2 => mapping.start = value.number(),
                4 => mapping.offset = value.number(),
                5 => mapping.filename = value.number(),
                _ => {}
            }
        }
        Ok(mapping)
    }
}

/// A place in the program.
#[derive(Clone, Copy, Default)]
pub(super) struct Location {
    pub mapping: u64,
    pub address: u64,
    /// Its lines in [`Locations::lines`].
    lines: (u32, u32),
    /// True if the file has it, or only refers to it.
    pub defined: bool,
}

/// A function at a source line.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub function: u64,
    pub line: i64,
}

/// All locations, by the index that [`Ids`] gave them.
#[derive(Default)]
pub(super) struct Locations {
    pub ids: Ids,
    all: Vec<Location>,
    lines: Vec<Line>,
}

impl Locations {
    pub fn read(&mut self, mut message: Message<'_>) -> Result<(), Fault> {
        let at = message.place();
        let (mut id, mut location) = (0, Location::default());
        let first = self.lines.len();
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (1, value) => id = value.number(),
                (2, value) => location.mapping = value.number(),
                (3, value) => location.address = value.number(),
                (4, Value::Bytes(line)) => self.lines.push(read_line(line)?),
                _ => {}
            }
        }
        let range = (u32::try_from(first), u32::try_from(self.lines.len()));
        let (Ok(first), Ok(end)) = range else {
            return Err(Fault::too_large("more than 2^32 lines", at));
        };
        location.lines = (first, end);
        location.defined = true;
        let index = self.ids.index(id) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, Location::default());
        }
        match self.all.get_mut(index) {
            Some(known) if known.defined => {
                let what = format!("location {id} comes a second time");
                Err(Fault::damaged(what, at))
            }
            Some(known) => {
                *known = location;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn get(&self, index: u32) -> Location {
        self.all.get(index as usize).copied().unwrap_or_default()
    }

    /// The functions at a location, innermost inlined call first.
    pub fn lines(&self, location: &Location) -> &[Line] {
        let (first, end) = location.lines;
        self.lines
            .get(first as usize..end as usize)
            .unwrap_or_default()
    }

    pub fn size(&self) -> u64 {
        let (locations, lines) = (self.all.capacity(), self.lines.capacity());
        let ids = 4 * self.ids.small.capacity() + 16 * self.ids.large.capacity();
        (size_of::<Location>() * locations + size_of::<Line>() * lines + ids) as u64
    }
}

fn read_line(mut message: Message<'_>) -> Result<Line, Fault> {
    let mut line = Line::default();
    while let Some((field, value)) = message.next()? {
        match field {
            1 => line.function = value.number(),
            2 => line.line = value.number() as i64,
            _ => {}
        }
    }
    Ok(line)
}
