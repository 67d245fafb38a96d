//! Traces on disk: a file of chunks, each with its checksum, the head in the last one.
//!
//! ```text
//! "VFTRACE\0", version u32, 0 u32
//! chunk*: tag u32, length u32, length unpacked u32, crc32 u32, packed bytes
//! "VFTREND\0", offset of the head's chunk u64
//! ```
//!
//! All numbers are little-endian. The checksum is that of the first three words and the packed bytes. What
//! is packed by zstd is the columns of up to [`ITEMS`] items (`trace_columns`), or the head as JSON.
//! `docs/format.md` is the description.

use crate::container::sync_directory;
use crate::error::{Error, Fault};
use crate::file::Written;
use crate::trace_columns::{Columns, Decoder};
use profile::{TraceBatch, TraceHead};
use std::fs::{self, File, Permissions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

const MAGIC: &[u8; 8] = b"VFTRACE\0";
const END: &[u8; 8] = b"VFTREND\0";
/// Version 2 may have samples of events; since version 3 a period is that of a thread, from the moment on in which the
/// thread took it.
const VERSION: u32 = 3;
/// Magic, version, zero.
const START_LEN: u64 = 16;
const END_LEN: u64 = 16;
const CHUNK_START: usize = 16;
/// Items of a chunk.
pub(crate) const ITEMS: usize = 64 * 1024;
/// A chunk unpacked is at most so long: it is written before it is longer than half of it.
const MAX_CHUNK: usize = 8 << 20;
/// And the head: it names functions and places.
const MAX_HEAD: usize = 256 << 20;
/// What errors call the parts.
const MEMBER: &str = "trace";
/// Fast: it is packed while the program runs.
const LEVEL: i32 = 1;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Items = 1,
    Head = 2,
}

/// Returns whether bytes begin like a trace of ours.
pub fn is_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Writes a trace while it is being made. The file is at its path when [`finish`](TraceWriter::finish) has returned;
/// of a writer that is dropped nothing remains, and what one leaves that was killed has another name
/// and is refused by [`TraceReader`].
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    directory: PathBuf,
    file: BufWriter<NamedTempFile>,
    columns: Columns,
    packer: Packer,
    written: u64,
}

impl TraceWriter {
    /// Begins the trace that will be the file `path`; its directory is made.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = || Error::io("write", path);
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(directory).map_err(failed())?;
        let file = tempfile::Builder::new()
            .prefix(".vitalfew-")
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(failed())?;
        let mut writer = Self {
            path: path.to_owned(),
            directory: directory.to_owned(),
            file: BufWriter::with_capacity(1 << 18, file),
            columns: Columns::default(),
            packer: Packer::new().map_err(failed())?,
            written: 0,
        };
        let mut start = MAGIC.to_vec();
        start.extend(VERSION.to_le_bytes());
        start.extend([0; 4]);
        writer.put(&start)?;
        Ok(writer)
    }

    /// Adds what a thread did next.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full. Whoever goes on loses the trace.
    pub fn write(&mut self, batch: &TraceBatch) -> Result<(), Error> {
        for items in batch.items.chunks(ITEMS / 4) {
            self.columns.add(batch.thread, items);
            if self.columns.items() >= ITEMS || self.columns.bytes() >= MAX_CHUNK / 4 {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Returns how long the file is by now, in bytes, without what is still in memory.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Writes the head, and puts the file in its place.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Unstorable`] if the head cannot be written.
    pub fn finish(mut self, head: &TraceHead) -> Result<Written, Error> {
        self.flush()?;
        let bytes = serde_json::to_vec(head).map_err(|e| Error::unstorable(e.to_string()))?;
        if bytes.len() > MAX_HEAD {
            return Err(Error::unstorable("the names of the trace exceed 256 MiB"));
        }
        let at = self.written;
        self.chunk(Tag::Head, &bytes)?;
        self.put(END)?;
        self.put(&at.to_le_bytes())?;
        let path = &self.path;
        let failed = || Error::io("write", path);
        let file = self.file.into_inner().map_err(|e| e.into_error());
        let file = file.map_err(failed())?;
        file.as_file().sync_all().map_err(failed())?;
        file.persist(path).map_err(|e| e.error).map_err(failed())?;
        sync_directory(&self.directory)?;
        Ok(Written {
            path: self.path,
            bytes: self.written,
        })
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.columns.items() == 0 {
            return Ok(());
        }
        let bytes = self.columns.take();
        self.chunk(Tag::Items, &bytes)
    }

    fn chunk(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), Error> {
        let packed = self.packer.pack(bytes);
        let packed = packed.map_err(Error::io("write", &self.path))?;
        let mut start = Vec::with_capacity(CHUNK_START);
        for word in [tag as u32, packed.len() as u32, bytes.len() as u32] {
            start.extend(word.to_le_bytes());
        }
        let crc32 = checksum(&start, &packed);
        start.extend(crc32.to_le_bytes());
        self.put(&start)?;
        self.put(&packed)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let done = self.file.write_all(bytes);
        done.map_err(Error::io("write", &self.path))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// A compressor that keeps its memory.
struct Packer(zstd::bulk::Compressor<'static>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    fn new() -> std::io::Result<Self> {
        Ok(Self(zstd::bulk::Compressor::new(LEVEL)?))
    }

    fn pack(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        self.0.compress(bytes)
    }
}

/// A decompressor that keeps its memory.
struct Unpacker(zstd::bulk::Decompressor<'static>);

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    fn new() -> std::io::Result<Self> {
        Ok(Self(zstd::bulk::Decompressor::new()?))
    }
}

fn checksum(start: &[u8], packed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(start);
    hasher.update(packed);
    hasher.finalize()
}

/// Reads a trace from its beginning to its end, a chunk at a time.
#[derive(Debug)]
pub struct TraceReader {
    path: PathBuf,
    file: BufReader<File>,
    head: TraceHead,
    decoder: Decoder,
    unpacker: Unpacker,
    packed: Vec<u8>,
    /// Where the chunk is that is being read.
    chunk_at: u64,
    at: u64,
    /// Where the head's chunk is.
    end: u64,
}

impl TraceReader {
    /// Opens the trace in the file `path`, and reads its head.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotARecording`] of a file of another kind; [`Error::Newer`]; [`Error::Outdated`];
    /// [`Error::Checksum`] and [`Error::Damaged`], also of a trace whose end was not written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = || Error::io("read", path);
        let file = File::open(path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::with_capacity(1 << 18, file),
            head: empty_head(),
            decoder: Decoder::default(),
            unpacker: Unpacker::new().map_err(failed())?,
            packed: Vec::new(),
            chunk_at: 0,
            at: 0,
            end: length,
        };
        let start: [u8; 16] = reader.exactly()?;
        if !is_trace(&start) {
            return Err(Error::NotARecording {
                path: path.to_owned(),
                looks_like: "no trace of the interference method",
            });
        }
        let version = word(&start, 8);
        if version > VERSION {
            return Err(Error::Newer {
                path: path.to_owned(),
                version: version.into(),
                supported: VERSION.into(),
            });
        }
        if version < 1 {
            return Err(reader.damaged(8, format!("its version is {version}")));
        }
        let end_at = length.saturating_sub(END_LEN);
        reader.seek(end_at)?;
        let end: [u8; 16] = reader.exactly()?;
        if !end.starts_with(END) {
            let what = "the end of the trace is missing: it was cut short, or the run that wrote it did not end";
            return Err(reader.damaged(end_at, what));
        }
        let head_at = u64::from(word(&end, 8)) | u64::from(word(&end, 12)) << 32;
        if head_at < START_LEN || head_at > end_at {
            return Err(reader.damaged(end_at + 8, "the head is outside of the file"));
        }
        reader.seek(head_at)?;
        reader.end = end_at;
        reader.chunk(Tag::Head, MAX_HEAD)?;
        let bytes = std::mem::take(&mut reader.decoder.bytes);
        if reader.at != end_at {
            return Err(reader.damaged(reader.at, "there is something behind the head"));
        }
        let head: Result<TraceHead, _> = serde_json::from_slice(&bytes);
        reader.head = head.map_err(|e| reader.damaged(head_at, format!("the head: {e}")))?;
        if version < 3 && reader.head.blocks.iter().any(|block| block.period > 1) {
            return Err(Error::Outdated {
                path: path.to_owned(),
                version: version.into(),
            });
        }
        reader.end = head_at;
        reader.seek(START_LEN)?;
        Ok(reader)
    }

    /// Everything but the events.
    pub fn head(&self) -> &TraceHead {
        &self.head
    }

    /// Returns what a thread did next, in the order in which it was written, some items at a time; `None` at the end. The blocks,
    /// threads and places in it are in the head.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Checksum`], [`Error::Damaged`]. What was read of a chunk before it turns out to be damaged
    /// has been given.
    pub fn next_batch(&mut self) -> Result<Option<&TraceBatch>, Error> {
        loop {
            let found = self.decoder.advance(&self.head);
            if found.map_err(|what| self.damaged(self.chunk_at, what))? {
                return Ok(Some(&self.decoder.batch));
            }
            if self.at == self.end {
                return Ok(None);
            }
            self.chunk_at = self.at;
            self.chunk(Tag::Items, MAX_CHUNK)?;
            let started = self.decoder.start();
            started.map_err(|what| self.damaged(self.chunk_at, what))?;
        }
    }

    /// Reads a chunk into the decoder's memory.
    fn chunk(&mut self, tag: Tag, most: usize) -> Result<(), Error> {
        let at = self.at;
        let start: [u8; CHUNK_START] = self.exactly()?;
        let (found, packed_len, length) = (word(&start, 0), word(&start, 4), word(&start, 8));
        let expected = word(&start, 12);
        if u64::from(packed_len) > self.end.saturating_sub(self.at) {
            return Err(self.damaged(at + 4, "a chunk is longer than the file"));
        }
        if length as usize > most {
            let what = format!("a chunk of {length} bytes, and none has more than {most}");
            return Err(self.damaged(at + 8, what));
        }
        self.packed.resize(packed_len as usize, 0);
        let read = self.file.read_exact(&mut self.packed);
        read.map_err(Error::io("read", &self.path))?;
        self.at += u64::from(packed_len);
        let crc32 = checksum(start.get(..12).unwrap_or_default(), &self.packed);
        if crc32 != expected {
            return Err(Error::Checksum {
                path: self.path.clone(),
                member: format!("the chunk at offset {at}"),
                expected,
                found: crc32,
            });
        }
        if found != tag as u32 {
            return Err(self.damaged(
                at,
                format!("a chunk of kind {found} where {} belongs", tag as u32),
            ));
        }
        let bytes = &mut self.decoder.bytes;
        bytes.clear();
        bytes.reserve_exact(length as usize);
        let unpacked = self.unpacker.0.decompress_to_buffer(&self.packed, bytes);
        unpacked.map_err(|e| self.damaged(at + 16, e.to_string()))?;
        if self.decoder.bytes.len() != length as usize {
            return Err(self.damaged(at + 8, "a chunk is not as long as it says"));
        }
        Ok(())
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let at = self.at;
        match self.file.read_exact(&mut bytes) {
            Ok(()) => {
                self.at += N as u64;
                Ok(bytes)
            }
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged(at, "the file ends here"))
            }
            Err(e) => Err(Error::io("read", &self.path)(e)),
        }
    }

    fn seek(&mut self, to: u64) -> Result<(), Error> {
        let moved = self.file.seek(SeekFrom::Start(to));
        moved.map_err(Error::io("read", &self.path))?;
        self.at = to;
        Ok(())
    }

    fn damaged(&self, at: u64, what: impl Into<String>) -> Error {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        Fault::at_offset(at, what).of(&self.path, MEMBER)
    }
}

/// A little-endian word of a header; 0 behind its end, where no caller looks.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}

fn empty_head() -> TraceHead {
    TraceHead {
        command: Vec::new(),
        host: profile::Host::default(),
        start_unix_ns: 0,
        ticks_per_second: 0,
        duration: 0,
        empty_duration: 0,
        call_overhead: 0,
        end: profile::RunEnd::Unknown,
        blocks: Vec::new(),
        threads: Vec::new(),
        places: Vec::new(),
        lost: 0,
        waits: false,
        events: Vec::new(),
        no_events: None,
        warnings: Vec::new(),
    }
}
