//! A section of debug information, read on access, and the [`gimli::Reader`] over it.
//!
//! Debug information is the largest and least trusted input of the suite, and the libraries that
//! parse it trust their input: a few bytes can describe endless nesting, or the same list a million
//! times. All their reads pass through here, where [`Meter`] counts the work: a read fails once the
//! steps exceed the limit for the size, or once the parser has recursed too deep.

use crate::error::DebugProblem;
use crate::input::ImageInput;
use gimli::{ReaderOffsetId, RunTimeEndian};
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Size of the parts in which a file is read, as a power of two of bytes: most lookups touch few
/// units.
const CHUNK_SHIFT: u32 = 16;

/// Steps granted for each byte of debug information. Programs with 20 to 240 MB needed a quarter of
/// a step for each byte when every procedure was looked up.
const STEPS_PER_BYTE: u64 = 8;

/// Steps granted for any size.
const STEPS_FREE: u64 = 1 << 20;

/// Steps granted for each lookup, for data that is read again every time (names).
const STEPS_PER_LOOKUP: u64 = 4096;

/// Stack that the parser may use: enough for a few hundred nested inlined calls, and well below the
/// default of 2 MiB for threads.
const MAX_STACK: usize = 768 << 10;

/// Counter of the work on the debug information of one image, with the place read last. One thread
/// reads at a time; another one may have opened it.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    left: AtomicU64,
    stack: AtomicUsize,
    /// Names of the sections, and the number of the one read last.
    names: Mutex<Vec<&'static str>>,
    section: AtomicUsize,
    position: AtomicUsize,
    problem: Mutex<Option<DebugProblem>>,
}

impl Meter {
    pub fn new() -> Arc<Self> {
        let meter = Self::default();
        meter.left.store(STEPS_FREE, Relaxed);
        Arc::new(meter)
    }

    /// Grants the steps for a section of this size. Returns the section's number.
    fn add_section(&self, name: &'static str, bytes: usize) -> usize {
        self.grant((bytes as u64).saturating_mul(STEPS_PER_BYTE));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(name);
        names.len() - 1
    }

    fn grant(&self, steps: u64) {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_add(steps), Relaxed);
    }

    /// Starts a lookup, from which the depth of the stack is measured.
    pub fn start(&self) {
        self.grant(STEPS_PER_LOOKUP);
        self.stack.store(stack_pointer(), Relaxed);
        self.set_problem(None);
    }

    fn set_problem(&self, problem: Option<DebugProblem>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Returns the section and position read last, and the problem there.
    pub fn blame(&self, error: gimli::Error) -> (&'static str, u64, DebugProblem) {
        let problem = *self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = problem.unwrap_or(DebugProblem::Invalid(error));
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(self.section.load(Relaxed)).copied();
        let position = self.position.load(Relaxed) as u64;
        (name.unwrap_or_default(), position, problem)
    }

    /// Returns the error for unbounded work.
    pub fn refuse(&self) -> gimli::Error {
        self.set_problem(Some(DebugProblem::TooMuchWork));
        gimli::Error::Io
    }

    fn take_step(
        &self,
        section: &MeteredSection,
        position: usize,
        cost: usize,
    ) -> gimli::Result<()> {
        // Separate loads and stores suffice, because no other thread reads meanwhile.
        self.section.store(section.number, Relaxed);
        self.position.store(position, Relaxed);
        let Some(left) = self.left.load(Relaxed).checked_sub(cost as u64) else {
            return Err(self.refuse());
        };
        self.left.store(left, Relaxed);
        let stack = self.stack.load(Relaxed);
        if stack.abs_diff(stack_pointer()) > MAX_STACK && stack != 0 {
            self.set_problem(Some(DebugProblem::TooDeep));
            return Err(gimli::Error::Io);
        }
        Ok(())
    }
}

/// Returns the approximate end of the stack.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// A section, uncompressed in memory or in its file.
pub(crate) struct MeteredSection {
    name: &'static str,
    len: usize,
    /// The file and the section's start in it; `None` if the only chunk is already there.
    source: Option<(Arc<ImageInput>, u64)>,
    shift: u32,
    chunks: Box<[OnceLock<Box<[u8]>>]>,
    meter: Arc<Meter>,
    /// Its number in the meter.
    number: usize,
}

impl MeteredSection {
    pub fn from_bytes(name: &'static str, bytes: Vec<u8>, meter: &Arc<Meter>) -> Arc<Self> {
        Arc::new(Self {
            number: meter.add_section(name, bytes.len()),
            name,
            len: bytes.len(),
            source: None,
            shift: usize::BITS - 1,
            chunks: Box::new([OnceLock::from(bytes.into_boxed_slice())]),
            meter: Arc::clone(meter),
        })
    }

    /// Makes a section of a file. The range must lie in the file.
    pub fn from_file(
        name: &'static str,
        input: &Arc<ImageInput>,
        offset: u64,
        len: usize,
        meter: &Arc<Meter>,
    ) -> Arc<Self> {
        let count = len.div_ceil(1 << CHUNK_SHIFT);
        Arc::new(Self {
            number: meter.add_section(name, len),
            name,
            len,
            source: Some((Arc::clone(input), offset)),
            shift: CHUNK_SHIFT,
            chunks: (0..count).map(|_| OnceLock::new()).collect(),
            meter: Arc::clone(meter),
        })
    }

    /// Returns the bytes from `position` to the end of its chunk.
    fn rest_of_chunk(&self, position: usize) -> gimli::Result<&[u8]> {
        let index = position >> self.shift;
        let start = index << self.shift;
        let cell = self.chunks.get(index).ok_or(gimli::Error::Io)?;
        let chunk = match cell.get() {
            Some(chunk) => chunk,
            None => {
                let (input, offset) = self.source.as_ref().ok_or(gimli::Error::Io)?;
                let len = (1usize << self.shift).min(self.len - start);
                let bytes = input
                    .read_range(offset + start as u64, len as u64)
                    .map_err(|_| gimli::Error::Io)?;
                cell.get_or_init(|| bytes.into_boxed_slice())
            }
        };
        chunk.get(position - start..).ok_or(gimli::Error::Io)
    }
}

impl fmt::Debug for MeteredSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.len)
    }
}

/// A range of a [`MeteredSection`].
#[derive(Clone, Debug)]
pub(crate) struct SectionReader {
    section: Arc<MeteredSection>,
    start: usize,
    end: usize,
    endian: RunTimeEndian,
}

impl SectionReader {
    pub fn new(section: Arc<MeteredSection>, endian: RunTimeEndian) -> Self {
        Self {
            start: 0,
            end: section.len,
            section,
            endian,
        }
    }

    fn eof_error(&self) -> gimli::Error {
        gimli::Error::UnexpectedEof(ReaderOffsetId(self.start as u64))
    }

    fn check_length(&self, len: usize) -> gimli::Result<()> {
        if len > self.end - self.start {
            return Err(self.eof_error());
        }
        Ok(())
    }
}

impl gimli::Reader for SectionReader {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.end = self.start;
    }

    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.check_length(len)?;
        self.end = self.start + len;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.start.saturating_sub(base.start)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.start as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let position = usize::try_from(id.0).ok()?;
        (self.start..=self.end)
            .contains(&position)
            .then(|| position - self.start)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let mut position = self.start;
        while position < self.end {
            let chunk = self.section.rest_of_chunk(position)?;
            let chunk = &chunk[..chunk.len().min(self.end - position)];
            let found = memchr::memchr(byte, chunk);
            let passed = found.unwrap_or(chunk.len());
            let cost = 1 + passed / 16;
            self.section
                .meter
                .take_step(&self.section, position, cost)?;
            position += passed;
            if found.is_some() {
                return Ok(position - self.start);
            }
        }
        Err(self.eof_error())
    }

    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        self.check_length(len)?;
        self.start += len;
        Ok(())
    }

    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        let mut head = self.clone();
        head.truncate(len)?;
        self.start += len;
        Ok(head)
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        let len = self.len();
        if len == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let cost = 1 + len / 16;
        self.section
            .meter
            .take_step(&self.section, self.start, cost)?;
        let chunk = self.section.rest_of_chunk(self.start)?;
        if let Some(slice) = chunk.get(..len) {
            return Ok(Cow::Borrowed(slice));
        }
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let chunk = self.section.rest_of_chunk(self.start + bytes.len())?;
            bytes.extend_from_slice(&chunk[..chunk.len().min(len - bytes.len())]);
        }
        Ok(Cow::Owned(bytes))
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
                .map(Cow::Borrowed)
                .map_err(|_| gimli::Error::BadUtf8),
            Cow::Owned(bytes) => String::from_utf8(bytes)
                .map(Cow::Owned)
                .map_err(|_| gimli::Error::BadUtf8),
        }
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    fn read_slice(&mut self, buf: &mut [u8]) -> gimli::Result<()> {
        self.check_length(buf.len())?;
        self.section
            .meter
            .take_step(&self.section, self.start, 1 + buf.len() / 16)?;
        let mut filled = 0;
        while filled < buf.len() {
            let chunk = self.section.rest_of_chunk(self.start + filled)?;
            let len = chunk.len().min(buf.len() - filled);
            buf[filled..filled + len].copy_from_slice(&chunk[..len]);
            filled += len;
        }
        self.start += buf.len();
        Ok(())
    }

    fn read_u8(&mut self) -> gimli::Result<u8> {
        self.check_length(1)?;
        self.section.meter.take_step(&self.section, self.start, 1)?;
        let byte = *self
            .section
            .rest_of_chunk(self.start)?
            .first()
            .ok_or(gimli::Error::Io)?;
        self.start += 1;
        Ok(byte)
    }
}
