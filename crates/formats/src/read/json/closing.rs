//! Closes the array of a trace's events, which Chromium may leave open, as its format allows.

use std::io::{self, Read};

/// Passes on the bytes of another reader, and appends the missing bracket after the last complete
/// event.
pub(super) struct ClosingReader<R> {
    inner: R,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The first and the last character that is not white space.
    first: Option<u8>,
    last: u8,
    ended: bool,
    /// The bytes that are appended at the end.
    tail: &'static [u8],
}

impl<R: Read> ClosingReader<R> {
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            depth: 0,
            in_string: false,
            escaped: false,
            first: None,
            last: 0,
            ended: false,
            tail: b"",
        }
    }

    fn track_byte(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return,
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.first.get_or_insert(byte);
        self.last = byte;
    }

    fn missing_end(&self) -> &'static [u8] {
        match (self.first, self.depth, self.last) {
            _ if self.in_string => b"",
            (Some(b'['), 1, b'}' | b'[') => b"]",
            // An empty event, because a comma must be followed by one.
            (Some(b'['), 1, b',') => b"{}]",
            _ => b"",
        }
    }
}

impl<R: Read> Read for ClosingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.ended {
            let length = self.inner.read(out)?;
            for byte in out.get(..length).unwrap_or_default() {
                self.track_byte(*byte);
            }
            if length > 0 || out.is_empty() {
                return Ok(length);
            }
            self.ended = true;
            self.tail = self.missing_end();
        }
        self.tail.read(out)
    }
}
