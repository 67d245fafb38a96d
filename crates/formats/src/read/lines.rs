//! The lines of a text.

use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Maximum length of a line, in bytes: a stack of ten thousand frames of a thousand characters.
const LONGEST: u64 = 16 << 20;

/// Reads a text line by line.
pub(crate) struct LineReader<'i> {
    input: &'i mut ProfileInput,
    buffer: Vec<u8>,
    number: u64,
}

impl<'i> LineReader<'i> {
    pub fn new(input: &'i mut ProfileInput) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line without its end, and its place; `None` after the last. Invalid UTF-8
    /// is replaced.
    pub fn next_line(&mut self) -> Result<Option<(FilePosition, Cow<'_, str>)>, ReadFault> {
        self.buffer.clear();
        let mut limited = (&mut *self.input).take(LONGEST);
        if limited.read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let at = FilePosition::Line(self.number);
        if self.buffer.len() as u64 == LONGEST {
            let what = format!("a line of more than {LONGEST} bytes");
            return Err(ReadFault::too_large(what, at));
        }
        let mut line = self.buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some((at, String::from_utf8_lossy(line))))
    }
}
