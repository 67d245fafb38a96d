//! Reads the Parquet files that [`crate::table_writer`] writes: bounded in memory and without a
//! panic whatever the bytes are.

use crate::encoding::{deltas, plain_integers, plain_texts, runs};
use crate::error::Fault;
use crate::table::{Column, Kind, MAX_PAGE, ROW_GROUP};
use crate::thrift::{self, Struct};
use std::cell::Cell;

/// What a member may decode to: this many bytes and [`BYTES_PER_BYTE`] more for each byte it has.
/// A sample takes about 1.5 bytes in the file and 64 in memory.
const FREE_BYTES: u64 = 64 << 20;
const BYTES_PER_BYTE: u64 = 256;
const BYTES_PER_ROW: u64 = 64;

/// Row groups of later writers may be larger.
const MAX_GROUP_ROWS: usize = 2 * ROW_GROUP;

/// How much a member may still decode to.
#[derive(Debug)]
pub(crate) struct Budget(Cell<u64>);

impl Budget {
    fn new(member_len: usize) -> Self {
        let scaled = BYTES_PER_BYTE.saturating_mul(member_len as u64);
        Self(Cell::new(FREE_BYTES.saturating_add(scaled)))
    }

    /// Takes `bytes` out of it.
    pub fn spend(&self, bytes: u64, offset: usize) -> Result<(), Fault> {
        let left = self.0.get().checked_sub(bytes).ok_or_else(|| {
            Fault::at_offset(offset, "the table decodes to far more than a recording has")
        })?;
        self.0.set(left);
        Ok(())
    }
}

/// An open table.
pub(crate) struct Table<'a> {
    bytes: &'a [u8],
    groups: Vec<Group>,
    pub budget: Budget,
}

struct Group {
    first_row: u64,
    rows: usize,
    chunks: Vec<Chunk>,
}

/// A column of a row group.
struct Chunk {
    column: &'static Column,
    start: usize,
    end: usize,
}

/// The texts of a column of a row group: the distinct ones as far as the file has them apart, and
/// for each row the position of its text among them.
pub(crate) struct Texts {
    pub distinct: Vec<String>,
    pub rows: Vec<Option<u32>>,
}

impl Texts {
    pub fn get(&self, row: usize) -> Option<&str> {
        self.distinct
            .get((*self.rows.get(row)?)? as usize)
            .map(String::as_str)
    }
}

fn footer(bytes: &[u8]) -> Result<Struct<'_>, Fault> {
    let end = bytes.len();
    if end < 12 || !bytes.starts_with(b"PAR1") || !bytes.ends_with(b"PAR1") {
        return Err(Fault::at_offset(0, "not a Parquet file"));
    }
    let (len, _) = bytes[end - 8..].as_chunks::<4>();
    let start = usize::try_from(u32::from_le_bytes(len[0]))
        .ok()
        .and_then(|len| (end - 8).checked_sub(len))
        .filter(|start| *start >= 4)
        .ok_or_else(|| Fault::at_offset(end - 8, "the footer is longer than the file"))?;
    Ok(thrift::parse(&bytes[..end - 8], start)?.0)
}

/// For each of `columns` its position in the file; further columns are of a later writer and not
/// looked at.
fn positions(footer: &Struct<'_>, columns: &'static [Column]) -> Result<Vec<usize>, Fault> {
    let leaves: Vec<&Struct<'_>> = footer.structs(2).skip(1).collect();
    if leaves.iter().any(|leaf| leaf.int(5).is_some()) {
        return Err(Fault::at_offset(0, "the table has nested columns"));
    }
    let find = |column: &Column| {
        let position = leaves
            .iter()
            .position(|leaf| leaf.binary(4) == Some(column.name.as_bytes()))
            .ok_or_else(|| Fault::at_offset(0, format!("no column {}", column.name)))?;
        let kind = match leaves[position].int(1) {
            Some(2) => Some(Kind::Int),
            Some(6) => Some(Kind::Text),
            _ => None,
        };
        let repetition = i64::from(column.optional);
        if kind != Some(column.kind) || leaves[position].int(3) != Some(repetition) {
            let what = format!("column {} has another type", column.name);
            return Err(Fault::at_offset(0, what));
        }
        Ok(position)
    };
    columns.iter().map(find).collect()
}

fn chunk(
    group: &Struct<'_>,
    position: usize,
    column: &'static Column,
    rows: usize,
    len: usize,
) -> Result<Chunk, Fault> {
    let fault = |what: &str| Fault::at_offset(0, format!("column {}: {what}", column.name));
    let chunk = group.structs(1).nth(position);
    let meta = chunk
        .and_then(|chunk| chunk.structure(3))
        .ok_or_else(|| fault("not in every row group"))?;
    if meta.size(5) != Some(rows) || meta.int(4) != Some(6) {
        return Err(fault("has another number of rows, or another compression"));
    }
    let start = meta.size(11).or_else(|| meta.size(9));
    let end = start.zip(meta.size(7)).and_then(|(a, b)| a.checked_add(b));
    match (start, end) {
        (Some(start), Some(end)) if end <= len => Ok(Chunk { column, start, end }),
        _ => Err(fault("lies outside of the file")),
    }
}

impl<'a> Table<'a> {
    /// Opens the table in `bytes`, to read these columns of it.
    pub fn open(bytes: &'a [u8], columns: &'static [Column]) -> Result<Self, Fault> {
        let footer = footer(bytes)?;
        let positions = positions(&footer, columns)?;
        let budget = Budget::new(bytes.len());
        let mut groups = Vec::new();
        let mut first_row = 0;
        for group in footer.structs(4) {
            let rows = group.size(3).filter(|rows| *rows <= MAX_GROUP_ROWS);
            let rows = rows.ok_or_else(|| Fault::at_offset(0, "a row group is too large"))?;
            budget.spend(rows as u64 * BYTES_PER_ROW, 0)?;
            let chunks = columns
                .iter()
                .zip(&positions)
                .map(|(column, position)| chunk(group, *position, column, rows, bytes.len()))
                .collect::<Result<_, _>>()?;
            groups.push(Group {
                first_row,
                rows,
                chunks,
            });
            first_row += rows as u64;
        }
        Ok(Self {
            bytes,
            groups,
            budget,
        })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// The row groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = Rows<'_>> {
        self.groups.iter().map(|group| Rows { table: self, group })
    }
}

/// The rows of a row group.
pub(crate) struct Rows<'a> {
    table: &'a Table<'a>,
    group: &'a Group,
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.group.rows
    }

    /// The number in the table of the row at `position` here.
    pub fn number(&self, position: usize) -> u64 {
        self.group.first_row + position as u64
    }

    /// The values of an integer column that is never null.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, Fault> {
        let (present, values) = self.values(name, Kind::Int, plain_integers)?;
        if present.iter().any(|present| !present) {
            return Err(Fault::at_offset(0, format!("column {name} has nulls")));
        }
        Ok(values)
    }

    /// The values of an integer column.
    pub fn optional_ints(&self, name: &str) -> Result<Vec<Option<i64>>, Fault> {
        let (present, values) = self.values(name, Kind::Int, plain_integers)?;
        Ok(spread(&present, values))
    }

    /// The values of a text column; only an optional one has nulls.
    pub fn texts(&self, name: &str) -> Result<Texts, Fault> {
        let mut distinct: Vec<String> = Vec::new();
        let plain = |data: &[u8], count: usize| {
            let texts = plain_texts(data, count)?;
            let first = distinct.len();
            distinct.extend(texts);
            // The budget keeps this far below 2^32.
            Ok((first..distinct.len()).map(|i| i as u32).collect())
        };
        let (present, values) = self.values(name, Kind::Text, plain)?;
        Ok(Texts {
            rows: spread(&present, values),
            distinct,
        })
    }

    /// Decodes a column: for each row whether it has a value, and the values. `plain` decodes so
    /// many values that stand as they are.
    fn values<T: Copy + FromDelta>(
        &self,
        name: &str,
        kind: Kind,
        mut plain: impl FnMut(&[u8], usize) -> Result<Vec<T>, &'static str>,
    ) -> Result<(Vec<bool>, Vec<T>), Fault> {
        let chunk = self
            .group
            .chunks
            .iter()
            .find(|chunk| chunk.column.name == name && chunk.column.kind == kind)
            .ok_or_else(|| Fault::at_offset(0, format!("no column {name}")))?;
        let mut present = Vec::with_capacity(self.group.rows);
        let mut values = Vec::with_capacity(self.group.rows);
        let mut dictionary: Option<Vec<T>> = None;
        let mut pos = chunk.start;
        while pos < chunk.end {
            let page = Page::read(&self.table.bytes[..chunk.end], pos, &self.table.budget)?;
            let fault = |what: &str| Fault::at_offset(pos, format!("column {name}: {what}"));
            if page.dictionary {
                if dictionary.is_some() {
                    return Err(fault("has two dictionaries"));
                }
                dictionary = Some(plain(&page.data, page.values).map_err(fault)?);
            } else {
                if page.values > self.group.rows - present.len() {
                    return Err(fault("has more values than rows"));
                }
                let (levels, data) = page.levels(chunk.column.optional).map_err(fault)?;
                let count = levels.iter().filter(|present| **present).count();
                present.extend(levels);
                values.extend(match (page.encoding, count) {
                    (_, 0) => Vec::new(),
                    (PLAIN, _) => plain(data, count).map_err(fault)?,
                    (RLE_DICTIONARY, _) => {
                        lookup(dictionary.as_deref(), data, count).map_err(fault)?
                    }
                    (DELTA, _) => T::deltas(data, count).map_err(fault)?,
                    _ => return Err(fault("has an encoding that recordings do not use")),
                });
            }
            pos = page.end;
        }
        if present.len() != self.group.rows {
            let what = format!("column {name}: has fewer values than rows");
            return Err(Fault::at_offset(chunk.start, what));
        }
        Ok((present, values))
    }
}

/// What a column decodes to, and whether differences make it.
trait FromDelta: Sized {
    fn deltas(_data: &[u8], _count: usize) -> Result<Vec<Self>, &'static str> {
        Err("has differences of texts")
    }
}

impl FromDelta for i64 {
    fn deltas(data: &[u8], count: usize) -> Result<Vec<Self>, &'static str> {
        deltas(data, count)
    }
}

impl FromDelta for u32 {}

const PLAIN: i64 = 0;
const DELTA: i64 = 5;
const RLE_DICTIONARY: i64 = 8;

fn lookup<T: Copy>(
    dictionary: Option<&[T]>,
    data: &[u8],
    count: usize,
) -> Result<Vec<T>, &'static str> {
    let dictionary = dictionary.ok_or("has no dictionary")?;
    let (width, data) = data.split_first().ok_or("a page is cut short")?;
    let indices = runs(data, *width, count)?;
    indices
        .into_iter()
        .map(|i| dictionary.get(i as usize).copied())
        .collect::<Option<_>>()
        .ok_or("points outside of its dictionary")
}

/// A value for each row that has one.
fn spread<T>(present: &[bool], values: Vec<T>) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    let spread = present.iter().map(|p| p.then(|| values.next()).flatten());
    spread.collect()
}

/// A page of a column, decompressed.
struct Page {
    dictionary: bool,
    values: usize,
    encoding: i64,
    data: Vec<u8>,
    /// Where the next page starts.
    end: usize,
}

impl Page {
    /// Reads the page at `start`; `bytes` end with its column.
    fn read(bytes: &[u8], start: usize, budget: &Budget) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::at_offset(start, what);
        let (header, body) = thrift::parse(bytes, start)?;
        let (dictionary, details) = match header.int(1) {
            Some(0) => (false, header.structure(5)),
            Some(2) => (true, header.structure(7)),
            _ => return Err(fault("a page is of a kind that recordings do not use")),
        };
        let details = details.ok_or_else(|| fault("a page has no header"))?;
        let len = header.size(2).filter(|len| *len <= MAX_PAGE);
        let len = len.ok_or_else(|| fault("a page is too large"))?;
        let end = header.size(3).and_then(|len| body.checked_add(len));
        let compressed = end.and_then(|end| bytes.get(body..end));
        let compressed = compressed.ok_or_else(|| fault("a page is cut short"))?;
        budget.spend(len as u64, start)?;
        let data = match compressed.is_empty() {
            true => Vec::new(),
            false => zstd::bulk::decompress(compressed, len)
                .map_err(|e| fault(&format!("a page does not decompress: {e}")))?,
        };
        if data.len() != len {
            return Err(fault("a page decompresses to another length"));
        }
        let values = details.size(1);
        Ok(Self {
            dictionary,
            values: values.ok_or_else(|| fault("a page has no number of values"))?,
            encoding: details.int(2).unwrap_or(-1),
            data,
            end: body + compressed.len(),
        })
    }

    /// For each row of the page whether it has a value, and the values' bytes.
    fn levels(&self, optional: bool) -> Result<(Vec<bool>, &[u8]), &'static str> {
        if !optional {
            return Ok((vec![true; self.values], &self.data));
        }
        let (len, data) = self
            .data
            .split_first_chunk::<4>()
            .ok_or("a page is cut short")?;
        let (levels, data) = usize::try_from(u32::from_le_bytes(*len))
            .ok()
            .and_then(|len| data.split_at_checked(len))
            .ok_or("a page is cut short")?;
        let levels = runs(levels, 1, self.values)?;
        Ok((levels.into_iter().map(|level| level == 1).collect(), data))
    }
}
