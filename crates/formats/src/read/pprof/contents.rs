//! Contents of a file, in the order of its fields.

use super::samples::SampleTree;
use super::tables::{FunctionEntry, Locations, MappingEntry, Strings};
use super::wire::{Message, WireValue};
use crate::read::error::ReadFault;

/// Contents of the file.
pub(super) struct PprofFile {
    /// Indexes of strings: type and unit.
    pub value_types: Vec<(u64, u64)>,
    pub samples: SampleTree,
    pub mappings: Vec<MappingEntry>,
    pub locations: Locations,
    pub functions: Vec<FunctionEntry>,
    pub strings: Strings,
    /// Indexes of strings.
    pub drop_frames: u64,
    pub keep_frames: u64,
    pub comments: Vec<u64>,
    pub default: u64,
}

impl PprofFile {
    pub fn read_field(&mut self, field: u64, value: WireValue<'_>) -> Result<(), ReadFault> {
        match (field, value) {
            (1, WireValue::Bytes(message)) => self.value_types.push(value_type(message)?),
            (2, WireValue::Bytes(message)) => {
                self.samples.read_sample(message, &mut self.locations)?
            }
            (3, WireValue::Bytes(message)) => {
                self.mappings.push(MappingEntry::read_mapping(message)?)
            }
            (4, WireValue::Bytes(message)) => self.locations.read_location(message)?,
            (5, WireValue::Bytes(message)) => {
                self.functions.push(FunctionEntry::read_function(message)?)
            }
            (6, WireValue::Bytes(message)) => self.strings.push(message.field_bytes()),
            (7, value) => self.drop_frames = value.as_number(),
            (8, value) => self.keep_frames = value.as_number(),
            (13, value) => value.append_numbers(&mut self.comments)?,
            (14, value) => self.default = value.as_number(),
            _ => {}
        }
        Ok(())
    }

    pub fn memory_size(&self) -> u64 {
        let functions = self.functions.capacity() * size_of::<FunctionEntry>();
        let mappings = self.mappings.capacity() * size_of::<MappingEntry>();
        let rest = 16 * self.value_types.capacity() + 8 * self.comments.capacity();
        (functions + mappings + rest) as u64
            + self.samples.memory_size()
            + self.locations.memory_size()
            + self.strings.memory_size()
    }
}

fn value_type(mut message: Message<'_>) -> Result<(u64, u64), ReadFault> {
    let (mut name, mut unit) = (0, 0);
    while let Some((field, value)) = message.next_field()? {
        match field {
            1 => name = value.as_number(),
            2 => unit = value.as_number(),
            _ => {}
        }
    }
    Ok((name, unit))
}
