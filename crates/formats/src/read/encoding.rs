//! Text in UTF-16 or with a byte order mark, recognised by that mark.

use std::io::{self, BufRead, BufReader, Read};

/// The byte order marks that a text may begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrderMark {
    Utf8,
    Utf16Little,
    Utf16Big,
}

impl ByteOrderMark {
    pub fn detect_mark(head: &[u8]) -> Option<Self> {
        match head {
            [0xef, 0xbb, 0xbf, ..] => Some(Self::Utf8),
            [0xff, 0xfe, ..] => Some(Self::Utf16Little),
            [0xfe, 0xff, ..] => Some(Self::Utf16Big),
            _ => None,
        }
    }

    /// Returns a reader of the text as UTF-8 without the mark, which `reader` yields next.
    pub fn decode_text(self, mut reader: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
        let length = if self == Self::Utf8 { 3 } else { 2 };
        io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        if self == Self::Utf8 {
            return Ok(reader);
        }
        Ok(Box::new(BufReader::new(Utf16Reader {
            inner: reader,
            big_endian: self == Self::Utf16Big,
            rest: Vec::new(),
            high_surrogate: None,
            text: Vec::new(),
            given: 0,
        })))
    }
}

/// Turns UTF-16 into UTF-8; invalid units become U+FFFD.
struct Utf16Reader {
    inner: Box<dyn BufRead>,
    big_endian: bool,
    /// Half of a unit, at the end of the bytes read so far.
    rest: Vec<u8>,
    high_surrogate: Option<u16>,
    text: Vec<u8>,
    /// Number of bytes of `text` already returned.
    given: usize,
}

impl Utf16Reader {
    /// Decodes the next bytes; returns whether there were any.
    fn decode_more(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.given = 0;
        let bytes = self.inner.fill_buf()?;
        let length = bytes.len();
        self.rest.extend_from_slice(bytes);
        self.inner.consume(length);
        let (pairs, odd) = self.rest.as_chunks::<2>();
        let units = pairs.iter().map(|pair| {
            if self.big_endian {
                u16::from_be_bytes(*pair)
            } else {
                u16::from_le_bytes(*pair)
            }
        });
        let mut units: Vec<u16> = self
            .high_surrogate
            .take()
            .into_iter()
            .chain(units)
            .collect();
        if length > 0
            && units
                .last()
                .is_some_and(|unit| (0xd800..0xdc00).contains(unit))
        {
            self.high_surrogate = units.pop();
        }
        let odd = odd.to_vec();
        let mut buffer = [0; 4];
        for c in char::decode_utf16(units) {
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text
                .extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
        self.rest = odd;
        Ok(length > 0)
    }
}

impl Read for Utf16Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            let more = self.decode_more()?;
            if !more && self.text.is_empty() {
                return Ok(0);
            }
        }
        let left = self.text.get(self.given..).unwrap_or_default();
        let length = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..length), left.get(..length)) {
            to.copy_from_slice(from);
        }
        self.given += length;
        Ok(length)
    }
}
