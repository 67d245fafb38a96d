use object::read::{ReadCache, ReadRef};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The bytes of an image.
///
/// Files are read piece by piece and not mapped: truncating a mapped file (a compiler that writes
/// in place, `install` without unlinking) kills the reader with SIGBUS, while a read is only short.
#[derive(Debug)]
pub(crate) enum ImageInput {
    File { file: File, len: u64 },
    Bytes(Vec<u8>),
}

impl ImageInput {
    pub fn from_file(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self::File {
            len: metadata.len(),
            file,
        })
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads a whole range. A range that leaves the file fails before any memory is allocated.
    pub fn read_range(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let (Some(end), Ok(size)) = (end, usize::try_from(len)) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        match self {
            Self::Bytes(bytes) => Ok(bytes[offset as usize..end as usize].to_vec()),
            Self::File { file, .. } => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(size)?;
                bytes.resize(size, 0);
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }
}

/// Limit on the bytes read from a file for its headers and symbol tables. A well-formed file needs
/// each byte at most once; a hostile one can point thousands of headers at the same bytes.
const MAX_TABLES: u64 = 2 << 30;

/// Access of `object` to headers and tables of a file without holding all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableBudget<'a> {
    cache: &'a ReadCache<&'a File>,
    left: &'a Cell<u64>,
}

impl<'a> TableBudget<'a> {
    pub fn table_allowance(len: u64) -> Cell<u64> {
        Cell::new(
            len.saturating_mul(2)
                .saturating_add(1 << 16)
                .min(MAX_TABLES),
        )
    }

    pub fn new(cache: &'a ReadCache<&'a File>, left: &'a Cell<u64>) -> Self {
        Self { cache, left }
    }

    fn spend_allowance(self, size: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for TableBudget<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend_allowance(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.spend_allowance(256)?;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}
