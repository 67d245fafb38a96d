//! pprof's `profile.proto`, by a decoder that keeps no more of the file than the tree needs.
//!
//! The fields may come in any order, and samples mostly come before what they refer to. So they are
//! added to a tree of locations as they come, and that is translated when all is known.

mod samples;
mod tables;
mod translate;
mod wire;

use super::draft::Draft;
use super::error::{Fault, Place};
use super::input::Input;
use super::options::ReadOptions;
use samples::Samples;
use tables::{Function, Locations, Mapping, Strings};
use wire::{Stream, Value};

pub(crate) use wire::{Message, Value as WireValue};

/// How many samples or table entries may pass before the memory is looked at.
const CHECK_EVERY: u64 = 1024;

/// All that the file says.
struct File {
    /// Indices of strings: type and unit.
    value_types: Vec<(u64, u64)>,
    samples: Samples,
    mappings: Vec<Mapping>,
    locations: Locations,
    functions: Vec<Function>,
    strings: Strings,
    /// Indices of strings.
    drop_frames: u64,
    keep_frames: u64,
    comments: Vec<u64>,
    default: u64,
}

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let memory = options.limits.memory;
    let mut file = File {
        value_types: Vec::new(),
        samples: Samples::new(!options.group_by.is_empty()),
        mappings: Vec::new(),
        locations: Locations::default(),
        functions: Vec::new(),
        strings: Strings::default(),
        drop_frames: 0,
        keep_frames: 0,
        comments: Vec::new(),
        default: 0,
    };
    let mut stream = Stream::new(input, memory);
    let mut fields = 0_u64;
    let mut end = Place::Offset(0);
    while let Some((field, value)) = stream.next()? {
        if let Value::Bytes(message) = value {
            end = message.place();
        }
        file.field(field, value)?;
        fields += 1;
        if fields.is_multiple_of(CHECK_EVERY) && file.size() > memory {
            let what = format!("its tables need more than {} MiB of memory", memory >> 20);
            return Err(Fault::too_large(what, end));
        }
    }
    file.samples.end();
    translate::translate(file, options, end)
}

impl File {
    fn field(&mut self, field: u64, value: Value<'_>) -> Result<(), Fault> {
        match (field, value) {
            (1, Value::Bytes(message)) => self.value_types.push(value_type(message)?),
            (2, Value::Bytes(message)) => self.samples.read(message, &mut self.locations)?,
            (3, Value::Bytes(message)) => self.mappings.push(Mapping::read(message)?),
            (4, Value::Bytes(message)) => self.locations.read(message)?,
            (5, Value::Bytes(message)) => self.functions.push(Function::read(message)?),
            (6, Value::Bytes(message)) => self.strings.push(message.bytes()),
            (7, value) => self.drop_frames = value.number(),
            (8, value) => self.keep_frames = value.number(),
            (13, value) => value.numbers(&mut self.comments)?,
            (14, value) => self.default = value.number(),
            _ => {}
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        let functions = self.functions.capacity() * size_of::<Function>();
        let mappings = self.mappings.capacity() * size_of::<Mapping>();
        let rest = 16 * self.value_types.capacity() + 8 * self.comments.capacity();
        (functions + mappings + rest) as u64
            + self.samples.size()
            + self.locations.size()
            + self.strings.size()
    }
}

fn value_type(mut message: Message<'_>) -> Result<(u64, u64), Fault> {
    let (mut name, mut unit) = (0, 0);
    while let Some((field, value)) = message.next()? {
        match field {
            1 => name = value.number(),
            2 => unit = value.number(),
            _ => {}
        }
    }
    Ok((name, unit))
}

fn is_value_type(mut message: Message<'_>) -> bool {
    loop {
        match message.next() {
            Ok(Some((1 | 2, Value::Number(_)))) => {}
            Ok(None) => return true,
            _ => return false,
        }
    }
}

/// Returns whether the first bytes of a file look like those of a profile.
pub(crate) fn detect(head: &[u8], whole: bool) -> bool {
    let mut message = Message::new(head);
    let mut fields = 0;
    loop {
        let before = message;
        match message.next() {
            // A name and a unit, by number: what else begins with a message is another format.
            Ok(Some((1, Value::Bytes(value_type)))) if !is_value_type(value_type) => return false,
            Ok(Some((1..=8 | 11 | 13, Value::Bytes(_)) | (7..=15, Value::Number(_)))) => {
                fields += 1
            }
            Ok(None) => return fields > 0,
            Ok(Some(_)) => return false,
            // The last field may reach beyond what we have; but some must have been seen, or it is
            // of the right kind.
            Err(_) => {
                let tag = before.bytes().first().copied().unwrap_or(0);
                return !whole
                    && (fields > 1 || matches!(tag, 0x0a | 0x12 | 0x1a | 0x22 | 0x2a | 0x32));
            }
        }
    }
}
