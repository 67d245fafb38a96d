//! Reads protobuf's wire format piece by piece: only one of the outermost fields is in memory.

use crate::read::error::{FilePosition, ReadFault};
use crate::read::input::ProfileInput;
use std::io::Read;

const CHUNK: usize = 1 << 20;

/// The outermost message of a file.
pub(crate) struct Stream<'i> {
    input: &'i mut ProfileInput,
    buffer: Vec<u8>,
    /// Start of the next field in `buffer`.
    start: usize,
    /// The offset of `buffer`'s first byte.
    offset: u64,
    ended: bool,
    /// The longest field, in bytes.
    longest: u64,
}

impl<'i> Stream<'i> {
    pub fn new(input: &'i mut ProfileInput, longest: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            ended: false,
            longest,
        }
    }

    /// Returns the next field; `None` at the end.
    pub fn next_field(&mut self) -> Result<Option<(u64, WireValue<'_>)>, ReadFault> {
        // Tag and length take at most ten bytes each.
        self.fill_buffer(20)?;
        if self.start == self.buffer.len() {
            return Ok(None);
        }
        let mut head = self.rest_of_buffer();
        let tag = head.read_varint()?;
        let length = match tag & 7 {
            2 => head.read_varint()?,
            _ => 10,
        };
        let at = FilePosition::Offset(self.offset + self.start as u64);
        if length > self.longest {
            let what = format!("a field of {length} bytes, more than the memory limit allows");
            return Err(ReadFault::too_large(what, at));
        }
        let head = (head.offset - self.rest_of_buffer().offset) as usize;
        // Fits in usize, because it is less than the memory limit.
        self.fill_buffer(head.saturating_add(length as usize))?;
        let mut rest = self.rest_of_buffer();
        let before = rest.offset;
        // The borrow of the field must not prevent the update of `start`.
        let end = {
            rest.next_field()?;
            self.start + (rest.offset - before) as usize
        };
        let start = std::mem::replace(&mut self.start, end);
        let mut field = Message {
            bytes: self.buffer.get(start..end).unwrap_or_default(),
            offset: before,
        };
        field.next_field()
    }

    fn rest_of_buffer(&self) -> Message<'_> {
        Message {
            bytes: self.buffer.get(self.start..).unwrap_or_default(),
            offset: self.offset + self.start as u64,
        }
    }

    /// Fills the buffer with `wanted` bytes, or all remaining ones.
    fn fill_buffer(&mut self, wanted: usize) -> Result<(), ReadFault> {
        if self.buffer.len() - self.start >= wanted || self.ended {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.start = 0;
        let missing = wanted.max(CHUNK) - self.buffer.len();
        let read = (&mut *self.input)
            .take(missing as u64)
            .read_to_end(&mut self.buffer)?;
        self.ended = read < missing;
        Ok(())
    }
}

/// A message, or the rest of it.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    /// The offset of the next byte in the file.
    offset: u64,
}

/// The value of a field.
pub(crate) enum WireValue<'a> {
    Number(u64),
    Bytes(Message<'a>),
}

impl<'a> Message<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub fn field_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn file_position(&self) -> FilePosition {
        FilePosition::Offset(self.offset)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next field.
    pub fn next_field(&mut self) -> Result<Option<(u64, WireValue<'a>)>, ReadFault> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.read_varint()?;
        let value = match tag & 7 {
            0 => WireValue::Number(self.read_varint()?),
            1 => WireValue::Number(self.read_fixed(8)?),
            5 => WireValue::Number(self.read_fixed(4)?),
            2 => {
                let length = self.read_varint()?;
                WireValue::Bytes(self.split_off(length)?)
            }
            wire_type => {
                let what = format!("wire type {wire_type}, which there is not");
                return Err(ReadFault::damaged(what, self.file_position()));
            }
        };
        Ok(Some((tag >> 3, value)))
    }

    pub fn read_varint(&mut self) -> Result<u64, ReadFault> {
        let mut value = 0;
        for (index, byte) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.advance(index + 1);
                return Ok(value);
            }
        }
        let what = match self.bytes.len() {
            ..10 => "cut short",
            _ => "a number of more than 64 bits",
        };
        Err(ReadFault::damaged(what, self.file_position()))
    }

    fn read_fixed(&mut self, size: u64) -> Result<u64, ReadFault> {
        let bytes = self.split_off(size)?.bytes.iter().rev();
        Ok(bytes.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn split_off(&mut self, length: u64) -> Result<Message<'a>, ReadFault> {
        let at = usize::try_from(length)
            .ok()
            .filter(|l| *l <= self.bytes.len());
        let Some(at) = at else {
            let what = format!("{length} bytes are announced and {} left", self.bytes.len());
            return Err(ReadFault::damaged(what, self.file_position()));
        };
        let part = Message {
            bytes: self.bytes.get(..at).unwrap_or_default(),
            offset: self.offset,
        };
        self.advance(at);
        Ok(part)
    }

    fn advance(&mut self, by: usize) {
        self.bytes = self.bytes.get(by..).unwrap_or_default();
        self.offset += by as u64;
    }
}

impl WireValue<'_> {
    /// Returns the number; 0 for bytes, because pprof's readers ignore a field of another type.
    pub fn as_number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => 0,
        }
    }

    /// Appends the numbers of a repeated field, packed or not.
    pub fn append_numbers(&self, out: &mut Vec<u64>) -> Result<(), ReadFault> {
        match self {
            Self::Number(number) => out.push(*number),
            Self::Bytes(packed) => {
                let mut packed = *packed;
                while !packed.is_empty() {
                    out.push(packed.read_varint()?);
                }
            }
        }
        Ok(())
    }
}
