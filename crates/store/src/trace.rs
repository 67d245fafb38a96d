//! Traces on disk: a file of chunks, each with its checksum, the head in the last one.
//!
//! ```text
//! "VFTRACE\0", version u32, 0 u32
//! chunk*: tag u32, length u32, length unpacked u32, crc32 u32, packed bytes
//! "VFTREND\0", offset of the head's chunk u64
//! ```
//!
//! All numbers are little-endian. The checksum is that of the first three words and the packed
//! bytes. zstd packs the columns of up to [`ITEMS`] items (`trace_columns`), or the head as JSON.
//! `docs/trace-format.md` describes the format.

use crate::error::{StoreError, TableFault};
use crate::file::WrittenFile;
use crate::trace_columns::{Columns, TraceDecoder};
use profile::{TraceBatch, TraceHead};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use whole_file::WholeFile;

const MAGIC: &[u8; 8] = b"VFTRACE\0";
const END: &[u8; 8] = b"VFTREND\0";
/// Versions 2 to 4 may have samples of events, which are skipped; since version 3 a period is that
/// of a thread, from the moment on in which the thread took it; version 4 says of waits what other
/// processes had the CPUs for; version 5 has the intervals in which threads ran alone, and of the
/// arguments of calls only addresses.
const VERSION: u32 = 5;
/// Magic, version, zero.
const START_LEN: u64 = 16;
const END_LEN: u64 = 16;
const CHUNK_START: usize = 16;
/// Maximum number of items of a chunk.
pub(crate) const ITEMS: usize = 64 * 1024;
/// Maximum length of an unpacked chunk, which is written before it is half as long.
const MAX_CHUNK: usize = 8 << 20;
/// Limit on the head, unpacked: it names functions and places.
const MAX_HEAD: usize = 256 << 20;
/// The name of a trace's parts in errors.
const MEMBER: &str = "trace";
/// Fast, because chunks are packed while the program runs.
const LEVEL: i32 = 1;

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Items = 1,
    Head = 2,
}

/// Returns whether bytes begin like a trace of vitalfew.
pub fn is_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Writes a trace while it is recorded. The file is at its path after
/// [`finish`](TraceWriter::finish_trace) has returned. A dropped writer leaves nothing; the file of
/// a killed one has another name and [`TraceReader`] refuses it.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    file: BufWriter<WholeFile>,
    columns: Columns,
    packer: ChunkPacker,
    written: u64,
}

impl TraceWriter {
    /// Begins the trace for the file `path`; creates its directory.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn create_file(path: &Path) -> Result<Self, StoreError> {
        let failed = || StoreError::wrap_io("write", path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed())?;
        }
        let file = WholeFile::create(path).map_err(failed())?;
        let mut writer = Self {
            path: path.to_owned(),
            file: BufWriter::with_capacity(1 << 18, file),
            columns: Columns::default(),
            packer: ChunkPacker::new().map_err(failed())?,
            written: 0,
        };
        let mut start = MAGIC.to_vec();
        start.extend(VERSION.to_le_bytes());
        start.extend([0; 4]);
        writer.put_bytes(&start)?;
        Ok(writer)
    }

    /// Adds the next items of a thread.
    ///
    /// # Errors
    /// [`StoreError::Io`]: the disk is full. If the caller goes on, the trace is lost.
    pub fn write_batch(&mut self, batch: &TraceBatch) -> Result<(), StoreError> {
        for items in batch.items.chunks(ITEMS / 4) {
            self.columns.add_items(batch.thread, items);
            if self.columns.item_count() >= ITEMS || self.columns.byte_length() >= MAX_CHUNK / 4 {
                self.flush_chunk()?;
            }
        }
        Ok(())
    }

    /// Returns the length of the file so far, in bytes, without the items that are still in memory.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Writes the head, and puts the file in its place.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Unstorable`] if the head cannot be written.
    pub fn finish_trace(mut self, head: &TraceHead) -> Result<WrittenFile, StoreError> {
        self.flush_chunk()?;
        let bytes = serde_json::to_vec(head).map_err(|e| StoreError::unstorable(e.to_string()))?;
        if bytes.len() > MAX_HEAD {
            return Err(StoreError::unstorable(
                "the names of the trace exceed 256 MiB",
            ));
        }
        let at = self.written;
        self.write_chunk(Tag::Head, &bytes)?;
        self.put_bytes(END)?;
        self.put_bytes(&at.to_le_bytes())?;
        let path = &self.path;
        let failed = || StoreError::wrap_io("write", path);
        let file = self.file.into_inner().map_err(|e| e.into_error());
        file.and_then(WholeFile::commit).map_err(failed())?;
        Ok(WrittenFile {
            path: self.path,
            bytes: self.written,
        })
    }

    fn flush_chunk(&mut self) -> Result<(), StoreError> {
        if self.columns.item_count() == 0 {
            return Ok(());
        }
        let bytes = self.columns.take_chunk();
        self.write_chunk(Tag::Items, &bytes)
    }

    fn write_chunk(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), StoreError> {
        let packed = self.packer.compress_chunk(bytes);
        let packed = packed.map_err(StoreError::wrap_io("write", &self.path))?;
        let mut start = Vec::with_capacity(CHUNK_START);
        for word in [tag as u32, packed.len() as u32, bytes.len() as u32] {
            start.extend(word.to_le_bytes());
        }
        let crc32 = chunk_checksum(&start, &packed);
        start.extend(crc32.to_le_bytes());
        self.put_bytes(&start)?;
        self.put_bytes(&packed)
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let done = self.file.write_all(bytes);
        done.map_err(StoreError::wrap_io("write", &self.path))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// A compressor with reused memory.
struct ChunkPacker(zstd::bulk::Compressor<'static>);

impl std::fmt::Debug for ChunkPacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl ChunkPacker {
    fn new() -> std::io::Result<Self> {
        Ok(Self(zstd::bulk::Compressor::new(LEVEL)?))
    }

    fn compress_chunk(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        self.0.compress(bytes)
    }
}

/// A decompressor with reused memory.
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

fn chunk_checksum(start: &[u8], packed: &[u8]) -> u32 {
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
    version: u32,
    head: TraceHead,
    decoder: TraceDecoder,
    unpacker: Unpacker,
    packed: Vec<u8>,
    /// Start of the chunk that is being read.
    chunk_at: u64,
    at: u64,
    /// End of the item chunks: the start of the head's chunk.
    end: u64,
}

impl TraceReader {
    /// Opens the trace in the file `path`, and reads its head.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::NotARecording`] of a file of another kind;
    /// [`StoreError::Newer`]; [`StoreError::Outdated`]; [`StoreError::Checksum`] and
    /// [`StoreError::Damaged`], also of a trace whose end was not written.
    pub fn open_trace(path: &Path) -> Result<Self, StoreError> {
        let failed = || StoreError::wrap_io("read", path);
        let file = File::open(path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::with_capacity(1 << 18, file),
            version: VERSION,
            head: empty_head(),
            decoder: TraceDecoder::default(),
            unpacker: Unpacker::new().map_err(failed())?,
            packed: Vec::new(),
            chunk_at: 0,
            at: 0,
            end: length,
        };
        let start: [u8; 16] = reader.read_exactly()?;
        if !is_trace(&start) {
            return Err(StoreError::NotARecording {
                path: path.to_owned(),
                looks_like: "no trace of the interference method",
            });
        }
        let version = header_word(&start, 8);
        if version > VERSION {
            return Err(StoreError::Newer {
                path: path.to_owned(),
                version: version.into(),
                supported: VERSION.into(),
            });
        }
        if version < 1 {
            return Err(reader.damaged_at(8, format!("its version is {version}")));
        }
        reader.version = version;
        let end_at = length.saturating_sub(END_LEN);
        reader.seek_to(end_at)?;
        let end: [u8; 16] = reader.read_exactly()?;
        if !end.starts_with(END) {
            let what = "the end of the trace is missing: it was cut short, or the run that wrote it did not end";
            return Err(reader.damaged_at(end_at, what));
        }
        let head_at = u64::from(header_word(&end, 8)) | u64::from(header_word(&end, 12)) << 32;
        if head_at < START_LEN || head_at > end_at {
            return Err(reader.damaged_at(end_at + 8, "the head is outside of the file"));
        }
        reader.seek_to(head_at)?;
        reader.end = end_at;
        reader.read_chunk(Tag::Head, MAX_HEAD)?;
        let bytes = std::mem::take(&mut reader.decoder.bytes);
        if reader.at != end_at {
            return Err(reader.damaged_at(reader.at, "there is something behind the head"));
        }
        let head: Result<TraceHead, _> = serde_json::from_slice(&bytes);
        reader.head = head.map_err(|e| reader.damaged_at(head_at, format!("the head: {e}")))?;
        if version < 3 && reader.head.blocks.iter().any(|block| block.period > 1) {
            return Err(StoreError::Outdated {
                path: path.to_owned(),
                version: version.into(),
            });
        }
        reader.end = head_at;
        reader.seek_to(START_LEN)?;
        Ok(reader)
    }

    /// Returns everything but the events.
    pub fn head(&self) -> &TraceHead {
        &self.head
    }

    /// Returns the next items of a thread, in the order in which they were written; `None` at the
    /// end. Their blocks, threads and places are in the head.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Checksum`], [`StoreError::Damaged`]. Items of a chunk
    /// before the damage were returned already.
    pub fn next_batch(&mut self) -> Result<Option<&TraceBatch>, StoreError> {
        loop {
            let found = self.decoder.next_items(&self.head);
            if found.map_err(|what| self.damaged_at(self.chunk_at, what))? {
                return Ok(Some(&self.decoder.batch));
            }
            if self.at == self.end {
                return Ok(None);
            }
            self.chunk_at = self.at;
            self.read_chunk(Tag::Items, MAX_CHUNK)?;
            let started = self.decoder.start_chunk(self.version);
            started.map_err(|what| self.damaged_at(self.chunk_at, what))?;
        }
    }

    /// Reads a chunk into the decoder's memory.
    fn read_chunk(&mut self, tag: Tag, most: usize) -> Result<(), StoreError> {
        let at = self.at;
        let start: [u8; CHUNK_START] = self.read_exactly()?;
        let (found, packed_len, length) = (
            header_word(&start, 0),
            header_word(&start, 4),
            header_word(&start, 8),
        );
        let expected = header_word(&start, 12);
        if u64::from(packed_len) > self.end.saturating_sub(self.at) {
            return Err(self.damaged_at(at + 4, "a chunk is longer than the file"));
        }
        if length as usize > most {
            let what = format!("a chunk of {length} bytes, and none has more than {most}");
            return Err(self.damaged_at(at + 8, what));
        }
        self.packed.resize(packed_len as usize, 0);
        let read = self.file.read_exact(&mut self.packed);
        read.map_err(StoreError::wrap_io("read", &self.path))?;
        self.at += u64::from(packed_len);
        let crc32 = chunk_checksum(start.get(..12).unwrap_or_default(), &self.packed);
        if crc32 != expected {
            return Err(StoreError::Checksum {
                path: self.path.clone(),
                member: format!("the chunk at offset {at}"),
                expected,
                found: crc32,
            });
        }
        if found != tag as u32 {
            return Err(self.damaged_at(
                at,
                format!("a chunk of kind {found} where {} belongs", tag as u32),
            ));
        }
        let bytes = &mut self.decoder.bytes;
        bytes.clear();
        bytes.reserve_exact(length as usize);
        let unpacked = self.unpacker.0.decompress_to_buffer(&self.packed, bytes);
        unpacked.map_err(|e| self.damaged_at(at + 16, e.to_string()))?;
        if self.decoder.bytes.len() != length as usize {
            return Err(self.damaged_at(at + 8, "a chunk is not as long as it says"));
        }
        Ok(())
    }

    fn read_exactly<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let mut bytes = [0; N];
        let at = self.at;
        match self.file.read_exact(&mut bytes) {
            Ok(()) => {
                self.at += N as u64;
                Ok(bytes)
            }
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged_at(at, "the file ends here"))
            }
            Err(e) => Err(StoreError::wrap_io("read", &self.path)(e)),
        }
    }

    fn seek_to(&mut self, to: u64) -> Result<(), StoreError> {
        let moved = self.file.seek(SeekFrom::Start(to));
        moved.map_err(StoreError::wrap_io("read", &self.path))?;
        self.at = to;
        Ok(())
    }

    fn damaged_at(&self, at: u64, what: impl Into<String>) -> StoreError {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        TableFault::at_offset(at, what).in_member(&self.path, MEMBER)
    }
}

/// Reads a little-endian word of a header; 0 behind its end, where no caller reads.
fn header_word(bytes: &[u8], at: usize) -> u32 {
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
        end: profile::RunEnd::Unknown,
        blocks: Vec::new(),
        threads: Vec::new(),
        places: Vec::new(),
        lost: 0,
        waits: false,
        cpu_users: Vec::new(),
        throttled: None,
        solo: profile::SoloSchedule::default(),
        call_ticks: 0,
        warnings: Vec::new(),
    }
}
