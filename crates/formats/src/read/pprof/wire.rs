//! Protobuf's wire format, read piece by piece: only one of the outermost fields is in memory.

use crate::read::error::{Fault, Place};
use crate::read::input::Input;
use std::io::Read;

const CHUNK: usize = 1 << 20;

/// The outermost message of a file.
pub(crate) struct Stream<'i> {
    input: &'i mut Input,
    buffer: Vec<u8>,
    /// Where the next field begins in `buffer`.
    start: usize,
    /// The offset of `buffer`'s first byte.
    offset: u64,
    ended: bool,
    /// The longest field, in bytes.
    longest: u64,
}

impl<'i> Stream<'i> {
    pub fn new(input: &'i mut Input, longest: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            ended: false,
            longest,
        }
    }

    /// The next field; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Value<'_>)>, Fault> {
        // Tag and length take at most ten bytes each.
        self.fill(20)?;
        if self.start == self.buffer.len() {
            return Ok(None);
        }
        let mut head = self.rest();
        let tag = head.varint()?;
        let length = match tag & 7 {
            2 => head.varint()?,
            _ => 10,
        };
        let at = Place::Offset(self.offset + self.start as u64);
        if length > self.longest {
            let what = format!("a field of {length} bytes, more than the memory limit allows");
            return Err(Fault::too_large(what, at));
        }
        let head = (head.offset - self.rest().offset) as usize;
        // In usize, for it is less than the memory limit.
        self.fill(head.saturating_add(length as usize))?;
        let mut rest = self.rest();
        let before = rest.offset;
        // The borrow of the field must not keep `start` from moving on.
        let end = {
            rest.next()?;
            self.start + (rest.offset - before) as usize
        };
        let start = std::mem::replace(&mut self.start, end);
        let mut field = Message {
            bytes: self.buffer.get(start..end).unwrap_or_default(),
            offset: before,
        };
        field.next()
    }

    fn rest(&self) -> Message<'_> {
        Message {
            bytes: self.buffer.get(self.start..).unwrap_or_default(),
            offset: self.offset + self.start as u64,
        }
    }

    /// Has `wanted` bytes in the buffer, or all that are left.
    fn fill(&mut self, wanted: usize) -> Result<(), Fault> {
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

/// A message, or what is left of it.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    /// Of the next byte, in the file.
    offset: u64,
}

/// The value of a field.
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(Message<'a>),
}

impl<'a> Message<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn place(&self) -> Place {
        Place::Offset(self.offset)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next field.
    pub fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Fault> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.fixed(8)?),
            5 => Value::Number(self.fixed(4)?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.split(length)?)
            }
            wire_type => {
                let what = format!("wire type {wire_type}, which there is not");
                return Err(Fault::damaged(what, self.place()));
            }
        };
        Ok(Some((tag >> 3, value)))
    }

    pub fn varint(&mut self) -> Result<u64, Fault> {
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
        Err(Fault::damaged(what, self.place()))
    }

    fn fixed(&mut self, size: u64) -> Result<u64, Fault> {
        let bytes = self.split(size)?.bytes.iter().rev();
        Ok(bytes.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn split(&mut self, length: u64) -> Result<Message<'a>, Fault> {
        let at = usize::try_from(length)
            .ok()
            .filter(|l| *l <= self.bytes.len());
        let Some(at) = at else {
            let what = format!("{length} bytes are announced and {} left", self.bytes.len());
            return Err(Fault::damaged(what, self.place()));
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

impl Value<'_> {
    /// The number; of bytes, 0: pprof's readers take a field of another type for one not set.
    pub fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => 0,
        }
    }

    /// Appends the numbers of a repeated field, packed or not.
    pub fn numbers(&self, out: &mut Vec<u64>) -> Result<(), Fault> {
        match self {
            Self::Number(number) => out.push(*number),
            Self::Bytes(packed) => {
                let mut packed = *packed;
                while !packed.is_empty() {
                    out.push(packed.varint()?);
                }
            }
        }
        Ok(())
    }
}
