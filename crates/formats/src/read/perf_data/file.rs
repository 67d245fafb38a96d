//! The container: the header, the records one by one, and the tables after them.

use super::wire::{Attr, RecordBytes};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::input::ProfileInput;
use crate::read::options::ReadLimits;
use rustc_hash::FxHashMap;
use std::io::Read;
use zstd::stream::raw::{Decoder, Operation};

const HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
const RECORD_HEADER: usize = 8;

// Types of records that perf adds to the kernel's.
const USER: u32 = 64;
const HEADER_ATTR: u32 = 64;
const TRACING_DATA: u32 = 66;
const BUILD_ID: u32 = 67;
const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

const FEATURE_BUILD_ID: u64 = 2;
const FEATURE_HOSTNAME: u64 = 3;
const FEATURE_ARCH: u64 = 6;
const FEATURE_EVENT_DESC: u64 = 12;
/// Build-ids may be shorter than 20 bytes.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// A recorded event.
#[derive(Clone, Debug)]
pub(super) struct EventDesc {
    pub attr: Attr,
    pub name: Option<String>,
    pub ids: Vec<u64>,
}

/// The file's contents except its records.
#[derive(Default)]
pub(super) struct Facts {
    pub events: Vec<EventDesc>,
    pub host: Option<String>,
    pub machine: Option<String>,
    /// Build-ids by path.
    pub build_ids: FxHashMap<String, Vec<u8>>,
    /// True if the file was not closed properly, so that its size is unknown.
    pub unfinished: bool,
}

/// A record of the kernel.
pub(super) struct PerfRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: RecordBytes<'a>,
    pub at: FilePosition,
}

/// Reads a file from beginning to end, and passes each record to `each`.
pub(super) fn scan_records(
    input: &mut ProfileInput,
    limits: &ReadLimits,
    mut each: impl FnMut(PerfRecord<'_>, &Facts) -> Result<(), ReadFault>,
) -> Result<Facts, ReadFault> {
    let mut prefix = Vec::new();
    read_to(input, &mut prefix, PIPE_HEADER)?;
    let big = prefix.starts_with(b"2ELIFREP");
    let size = RecordBytes::new(&prefix, big)
        .starting_at(8)
        .and_then(|mut b| b.u64());
    let mut facts = Facts::default();
    let mut records = Records {
        big,
        zstd: None,
        pending: Vec::new(),
        facts: &mut facts,
        memory: limits.memory,
    };
    if size == Some(PIPE_HEADER) {
        records.read_records(input, None, &mut each)?;
        return Ok(facts);
    }
    read_to(input, &mut prefix, HEADER)?;
    let mut header = RecordBytes::new(&prefix, big).starting_at(16);
    let mut number = || header.as_mut().and_then(RecordBytes::u64).unwrap_or(0);
    let attr_size = number();
    let (attrs, attrs_size) = (number(), number());
    let (data, mut data_size) = (number(), number());
    let (_, _) = (number(), number());
    let features: Vec<u64> = (0..4).map(|_| number()).collect();
    if data < HEADER || data > limits.memory {
        let what = format!("its data begin at {data}");
        return Err(ReadFault::damaged(what, FilePosition::Offset(40)));
    }
    read_to(input, &mut prefix, data)?;
    let all = RecordBytes::new(&prefix, big);
    records.facts.events = read_attributes(all, attrs, attrs_size, attr_size).ok_or_else(|| {
        ReadFault::damaged("bad attributes of events", FilePosition::Offset(attrs))
    })?;
    if data_size == 0 {
        records.facts.unfinished = true;
        data_size = u64::MAX;
    }
    records.read_records(input, Some(data_size), &mut each)?;
    // Features follow the data: first their places, then their contents.
    let start = data.saturating_add(data_size);
    let mut tail = Vec::new();
    input.take(limits.memory / 4).read_to_end(&mut tail)?;
    if !facts.unfinished {
        features_of(&mut facts, &features, RecordBytes::new(&tail, big), start)?;
    }
    Ok(facts)
}

/// Reads on until `bytes` holds the first `length` bytes of the file.
fn read_to(input: &mut ProfileInput, bytes: &mut Vec<u8>, length: u64) -> Result<(), ReadFault> {
    let missing = length.saturating_sub(bytes.len() as u64);
    input.take(missing).read_to_end(bytes)?;
    if bytes.len() as u64 >= length {
        Ok(())
    } else {
        Err(ReadFault::damaged(
            "cut short",
            FilePosition::Offset(input.next_offset()),
        ))
    }
}

fn read_attributes(
    all: RecordBytes<'_>,
    start: u64,
    size: u64,
    each: u64,
) -> Option<Vec<EventDesc>> {
    let mut section = all.starting_at(start)?;
    let mut section = RecordBytes::new(section.take_bytes(size)?, all.is_big());
    let attr_size = each.checked_sub(16)?;
    let mut events = Vec::new();
    while !section.rest_of_bytes().is_empty() {
        let attr = Attr::read_attr(RecordBytes::new(
            section.take_bytes(attr_size)?,
            all.is_big(),
        ))?;
        let (offset, size) = (section.u64()?, section.u64()?);
        let mut ids = RecordBytes::new(all.starting_at(offset)?.take_bytes(size)?, all.is_big());
        events.push(EventDesc {
            attr,
            name: None,
            ids: std::iter::from_fn(|| ids.u64()).collect(),
        });
    }
    Some(events)
}

fn features_of(
    facts: &mut Facts,
    bits: &[u64],
    tail: RecordBytes<'_>,
    start: u64,
) -> Result<(), ReadFault> {
    let mut index = tail;
    for feature in (0..256).filter(|f| {
        bits.get(f / 64)
            .is_some_and(|word| word >> (f % 64) & 1 == 1)
    }) {
        let at = FilePosition::Offset(start);
        let section = index.u64().zip(index.u64());
        let Some((offset, size)) = section else {
            return Err(ReadFault::damaged("cut short among its features", at));
        };
        let section = offset
            .checked_sub(start)
            .and_then(|offset| tail.starting_at(offset)?.take_bytes(size));
        let Some(section) = section else {
            let what = format!("feature {feature} is not in the file");
            return Err(ReadFault::damaged(what, FilePosition::Offset(offset)));
        };
        let section = RecordBytes::new(section, tail.is_big());
        facts.read_feature(feature as u64, section).ok_or_else(|| {
            ReadFault::damaged(
                format!("bad feature {feature}"),
                FilePosition::Offset(offset),
            )
        })?;
    }
    Ok(())
}

impl Facts {
    /// Returns the index of each event by its ids.
    pub fn event_positions(&self) -> FxHashMap<u64, usize> {
        let events = self.events.iter().enumerate();
        events
            .flat_map(|(i, e)| e.ids.iter().map(move |id| (*id, i)))
            .collect()
    }

    /// Returns the event of a sample.
    pub fn event_of(
        &self,
        sample: RecordBytes<'_>,
        ids: &FxHashMap<u64, usize>,
    ) -> Option<(usize, &EventDesc)> {
        let index = match self.events.as_slice() {
            [_] => 0,
            events => {
                let id = events.first()?.attr.sample_id(sample);
                id.and_then(|id| ids.get(&id)).copied().unwrap_or(0)
            }
        };
        Some((index, self.events.get(index)?))
    }

    /// Returns the time of a sample, in nanoseconds. All events of a file have it at the same
    /// place.
    pub fn sample_time(&self, sample: RecordBytes<'_>) -> Option<u64> {
        self.events.first()?.attr.sample_time(sample)
    }

    /// Reads a feature; `None` if it is damaged.
    fn read_feature(&mut self, feature: u64, mut section: RecordBytes<'_>) -> Option<()> {
        let text = |section: &mut RecordBytes<'_>| {
            let length = section.u32()?;
            let text = section.take_bytes(length.into())?;
            Some(RecordBytes::new(text, false).read_text())
        };
        match feature {
            FEATURE_HOSTNAME => self.host = Some(text(&mut section)?),
            FEATURE_ARCH => self.machine = Some(text(&mut section)?),
            FEATURE_BUILD_ID => {
                while !section.rest_of_bytes().is_empty() {
                    section.u32()?;
                    let (misc, size) = (section.u16()?, section.u16()?);
                    let body = section.take_bytes(u64::from(size).checked_sub(8)?)?;
                    self.build_id(misc, RecordBytes::new(body, section.is_big()))?;
                }
            }
            FEATURE_EVENT_DESC => {
                let (count, attr_size) = (section.u32()?, section.u32()?);
                for _ in 0..count {
                    let attr = Attr::read_attr(RecordBytes::new(
                        section.take_bytes(attr_size.into())?,
                        section.is_big(),
                    ))?;
                    let ids = section.u32()?;
                    let name = text(&mut section)?;
                    let mut ids =
                        RecordBytes::new(section.take_bytes(u64::from(ids) * 8)?, section.is_big());
                    let ids: Vec<u64> = std::iter::from_fn(|| ids.u64()).collect();
                    self.name_event(attr, name, &ids);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn name_event(&mut self, attr: Attr, name: String, ids: &[u64]) {
        let same = |event: &&mut EventDesc| match (event.ids.first(), ids.first()) {
            (Some(a), Some(b)) => a == b,
            _ => event.attr == attr,
        };
        if let Some(event) = self.events.iter_mut().find(same) {
            event.name = Some(name);
        }
    }

    fn build_id(&mut self, misc: u16, mut body: RecordBytes<'_>) -> Option<()> {
        body.u32()?;
        let id = body.take_bytes(24)?;
        let size = match misc & MISC_BUILD_ID_SIZE {
            0 => 20,
            _ => usize::from(*id.get(20)?).min(20),
        };
        let id = id.get(..size)?.to_vec();
        self.build_ids.insert(body.read_text(), id);
        Some(())
    }
}

struct Records<'f> {
    big: bool,
    zstd: Option<Decoder<'static>>,
    /// Decompressed bytes of an incomplete record.
    pending: Vec<u8>,
    facts: &'f mut Facts,
    memory: u64,
}

impl Records<'_> {
    /// Reads records up to `length` bytes or, without a length, to the end of the file.
    fn read_records(
        &mut self,
        input: &mut ProfileInput,
        length: Option<u64>,
        each: &mut impl FnMut(PerfRecord<'_>, &Facts) -> Result<(), ReadFault>,
    ) -> Result<(), ReadFault> {
        let mut left = length.unwrap_or(u64::MAX);
        let to_end = length.is_none() || length == Some(u64::MAX);
        let mut bytes = Vec::new();
        while left > 0 {
            let at = FilePosition::Offset(input.next_offset());
            bytes.clear();
            input.take(RECORD_HEADER as u64).read_to_end(&mut bytes)?;
            if bytes.is_empty() && to_end {
                break;
            }
            let (kind, misc, size) = record_head(RecordBytes::new(&bytes, self.big), at)?;
            input
                .take((size - RECORD_HEADER) as u64)
                .read_to_end(&mut bytes)?;
            if bytes.len() < size {
                return Err(ReadFault::damaged("cut short in a record", at));
            }
            left = left.saturating_sub(size as u64);
            let body = RecordBytes::new(bytes.get(RECORD_HEADER..).unwrap_or_default(), self.big);
            left = left.saturating_sub(self.skip_payload(input, kind, body, at)?);
            match kind {
                COMPRESSED => self.read_compressed(body.rest_of_bytes(), at, each)?,
                COMPRESSED2 => {
                    let mut body = body;
                    let data = body.u64().and_then(|size| body.take_bytes(size));
                    let bad = || ReadFault::damaged("a compressed record is longer than it is", at);
                    self.read_compressed(data.ok_or_else(bad)?, at, each)?;
                }
                _ => self.read_record(kind, misc, body, at, each)?,
            }
        }
        Ok(())
    }

    /// Skips the data after a record that its size does not include.
    fn skip_payload(
        &self,
        input: &mut ProfileInput,
        kind: u32,
        mut body: RecordBytes<'_>,
        at: FilePosition,
    ) -> Result<u64, ReadFault> {
        let size = match kind {
            AUXTRACE => body.u64(),
            TRACING_DATA => body.u32().map(|size| u64::from(size).next_multiple_of(8)),
            _ => Some(0),
        };
        let size = size.ok_or_else(|| ReadFault::damaged("cut short in a record", at))?;
        let skipped = std::io::copy(&mut input.take(size), &mut std::io::sink())?;
        if skipped == size {
            Ok(size)
        } else {
            Err(ReadFault::damaged("cut short in a record's data", at))
        }
    }

    fn read_compressed(
        &mut self,
        mut data: &[u8],
        at: FilePosition,
        each: &mut impl FnMut(PerfRecord<'_>, &Facts) -> Result<(), ReadFault>,
    ) -> Result<(), ReadFault> {
        let mut zstd = match self.zstd.take() {
            Some(zstd) => zstd,
            None => Decoder::new()?,
        };
        let mut buffer = vec![0; 1 << 16];
        loop {
            let status = zstd.run_on_buffers(data, &mut buffer).map_err(|error| {
                ReadFault::damaged(format!("its zstd compression: {error}"), at)
            })?;
            data = data.get(status.bytes_read..).unwrap_or_default();
            self.pending
                .extend(buffer.get(..status.bytes_written).unwrap_or_default());
            let mut pending = std::mem::take(&mut self.pending);
            let used = self.read_decompressed(&pending, at, each)?;
            pending.drain(..used);
            self.pending = pending;
            // A full buffer may leave data in the decoder.
            if data.is_empty() && status.bytes_written < buffer.len() {
                break;
            }
            if status.bytes_read == 0 && status.bytes_written == 0 {
                return Err(ReadFault::damaged(
                    "its zstd compression does not go on",
                    at,
                ));
            }
        }
        self.zstd = Some(zstd);
        Ok(())
    }

    /// Reads the complete records of `bytes`; returns their length in bytes.
    fn read_decompressed(
        &mut self,
        bytes: &[u8],
        at: FilePosition,
        each: &mut impl FnMut(PerfRecord<'_>, &Facts) -> Result<(), ReadFault>,
    ) -> Result<usize, ReadFault> {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..)
            && rest.len() >= RECORD_HEADER
        {
            let (kind, misc, size) = record_head(RecordBytes::new(rest, self.big), at)?;
            let Some(body) = rest.get(RECORD_HEADER..size) else {
                break;
            };
            self.read_record(kind, misc, RecordBytes::new(body, self.big), at, each)?;
            used += size;
        }
        Ok(used)
    }

    fn read_record(
        &mut self,
        kind: u32,
        misc: u16,
        body: RecordBytes<'_>,
        at: FilePosition,
        each: &mut impl FnMut(PerfRecord<'_>, &Facts) -> Result<(), ReadFault>,
    ) -> Result<(), ReadFault> {
        if kind < USER {
            let record = PerfRecord {
                kind,
                misc,
                body,
                at,
            };
            return each(record, self.facts);
        }
        if self.facts.build_ids.len() as u64 > self.memory / 1024 {
            return Err(ReadFault::too_large("too many build-ids", at));
        }
        let read = match kind {
            HEADER_ATTR => self.read_attr(body),
            BUILD_ID => self.facts.build_id(misc, body),
            HEADER_FEATURE => {
                let mut body = body;
                body.u64()
                    .and_then(|feature| self.facts.read_feature(feature, body))
            }
            _ => Some(()),
        };
        read.ok_or_else(|| ReadFault::damaged(format!("a bad record of type {kind}"), at))
    }

    fn read_attr(&mut self, body: RecordBytes<'_>) -> Option<()> {
        let size = body.starting_at(4)?.u32()?;
        let mut rest = body;
        let attr = Attr::read_attr(RecordBytes::new(rest.take_bytes(size.into())?, self.big))?;
        self.facts.events.push(EventDesc {
            attr,
            name: None,
            ids: std::iter::from_fn(|| rest.u64()).collect(),
        });
        Some(())
    }
}

/// Returns kind, misc and size of a record.
fn record_head(
    mut bytes: RecordBytes<'_>,
    at: FilePosition,
) -> Result<(u32, u16, usize), ReadFault> {
    let head = bytes.u32().zip(bytes.u16()).zip(bytes.u16());
    let Some(((kind, misc), size)) = head else {
        return Err(ReadFault::damaged("cut short in a record", at));
    };
    let size = usize::from(size);
    if size < RECORD_HEADER {
        return Err(ReadFault::damaged(format!("a record of {size} bytes"), at));
    }
    Ok((kind, misc, size))
}
