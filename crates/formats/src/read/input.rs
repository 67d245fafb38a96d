//! The bytes of a profile, decompressed, with their offsets.

use super::encoding::ByteOrderMark;
use super::error::{FilePosition, ReadFault};
use super::options::ReadLimits;
use flate2::bufread::MultiGzDecoder;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

const BUFFER: usize = 1 << 18;
/// Number of first bytes by which formats are recognised.
pub(crate) const HEAD: u64 = 1 << 16;
/// Maximum number of nested compressions.
const LAYERS: usize = 3;
/// Number of decompressed bytes before the ratio is checked.
const FREE: u64 = 64 << 20;

/// A profile's bytes.
pub(crate) struct ProfileInput {
    reader: Box<dyn BufRead>,
    /// The first bytes, which `reader` will yield again.
    head: Vec<u8>,
    /// Number of bytes read.
    offset: u64,
}

impl ProfileInput {
    pub fn open_file(path: &Path, limits: &ReadLimits) -> Result<Self, ReadFault> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        Self::new(Box::new(BufReader::with_capacity(BUFFER, file)), limits)
    }

    pub fn new(raw: Box<dyn BufRead>, limits: &ReadLimits) -> Result<Self, ReadFault> {
        let consumed = Rc::new(Cell::new(0));
        let mut reader: Box<dyn BufRead> = Box::new(CountingReader {
            inner: raw,
            count: consumed.clone(),
        });
        for _ in 0..LAYERS {
            let mut head = Vec::new();
            (&mut reader).take(HEAD).read_to_end(&mut head)?;
            let compression = InputCompression::detect_compression(&head);
            // The reader yields the head again: it was only read to recognise the format.
            reader = Box::new(io::Cursor::new(head.clone()).chain(reader));
            let Some(compression) = compression else {
                return Self::from_decoder(reader, head);
            };
            let inner: Box<dyn Read> = match compression {
                InputCompression::Gzip => Box::new(MultiGzDecoder::new(reader)),
                InputCompression::Zstd => Box::new(zstd::Decoder::with_buffer(reader)?),
            };
            let decompressed = Decompressed {
                inner,
                compression,
                consumed: consumed.clone(),
                ratio: limits.ratio,
                given: 0,
            };
            reader = Box::new(BufReader::with_capacity(BUFFER, decompressed));
        }
        let what = format!("compressed more than {LAYERS} times over");
        Err(ReadFault::too_large(what, FilePosition::Offset(0)))
    }

    /// Makes the input from `reader`, which begins with `head`; text in another encoding is
    /// converted to UTF-8.
    fn from_decoder(mut reader: Box<dyn BufRead>, mut head: Vec<u8>) -> Result<Self, ReadFault> {
        if let Some(mark) = ByteOrderMark::detect_mark(&head) {
            reader = mark.decode_text(reader)?;
            head.clear();
            (&mut reader).take(HEAD).read_to_end(&mut head)?;
            reader = Box::new(io::Cursor::new(head.clone()).chain(reader));
        }
        Ok(Self {
            reader,
            head,
            offset: 0,
        })
    }

    /// Returns the first bytes of the profile, whatever was read since.
    pub fn first_bytes(&self) -> &[u8] {
        &self.head
    }

    /// Reads all remaining bytes, if they are at most `most`.
    pub fn read_whole(&mut self, most: u64) -> Result<Vec<u8>, ReadFault> {
        let mut bytes = Vec::new();
        self.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            let what = format!(
                "more than {} MiB, which this format cannot be read with",
                most >> 20
            );
            return Err(ReadFault::too_large(what, FilePosition::Offset(most)));
        }
        Ok(bytes)
    }

    /// Returns the offset of the next byte.
    pub fn next_offset(&self) -> u64 {
        self.offset
    }
}

impl Read for ProfileInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl BufRead for ProfileInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.offset += amount as u64;
        self.reader.consume(amount);
    }
}

#[derive(Clone, Copy)]
enum InputCompression {
    Gzip,
    Zstd,
}

impl InputCompression {
    fn detect_compression(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x1f\x8b") {
            Some(Self::Gzip)
        } else if head.starts_with(b"\x28\xb5\x2f\xfd") {
            Some(Self::Zstd)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Counts the bytes read of the file.
struct CountingReader {
    inner: Box<dyn BufRead>,
    count: Rc<Cell<u64>>,
}

impl Read for CountingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

impl BufRead for CountingReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count.set(self.count.get() + amount as u64);
        self.inner.consume(amount);
    }
}

/// A decompressor that stops at decompression bombs and reports the end of the data.
struct Decompressed {
    inner: Box<dyn Read>,
    compression: InputCompression,
    consumed: Rc<Cell<u64>>,
    ratio: u64,
    given: u64,
}

impl Read for Decompressed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = FilePosition::Offset(self.given);
        let read = self.inner.read(out).map_err(|error| {
            // The system's own errors pass through the decompressors unchanged.
            if error.raw_os_error().is_some()
                || error
                    .get_ref()
                    .is_some_and(|e| e.is::<super::error::InputFault>())
            {
                return error;
            }
            let name = self.compression.name();
            ReadFault::damaged(format!("its {name} compression: {error}"), at).into()
        })?;
        self.given += read as u64;
        let most = self.consumed.get().saturating_mul(self.ratio).max(FREE);
        if self.given > most {
            let what = format!("decompresses to more than {} times its size", self.ratio);
            return Err(ReadFault::too_large(what, at).into());
        }
        Ok(read)
    }
}
