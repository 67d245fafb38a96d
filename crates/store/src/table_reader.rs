//! Reads the Parquet files that [`crate::table_writer`] writes, in bounded memory and without a
//! panic for any bytes.

use crate::encoding::{decode_deltas, decode_runs, plain_integers, plain_texts};
use crate::error::TableFault;
use crate::table::{ColumnKind, MAX_PAGE, ROW_GROUP, TableColumn};
use crate::thrift::{self, Struct};
use std::cell::Cell;

/// Limit on the decoded size of a member: this many bytes, and [`BYTES_PER_BYTE`] more for each
/// byte of the member. A sample takes about 1.5 bytes in the file and 64 in memory.
const FREE_BYTES: u64 = 64 << 20;
const BYTES_PER_BYTE: u64 = 256;
const BYTES_PER_ROW: u64 = 64;

/// Row groups of later writers may be larger.
const MAX_GROUP_ROWS: usize = 2 * ROW_GROUP;

/// The number of bytes that a member may still decode to.
#[derive(Debug)]
pub(crate) struct Budget(Cell<u64>);

impl Budget {
    fn new(member_len: usize) -> Self {
        let scaled = BYTES_PER_BYTE.saturating_mul(member_len as u64);
        Self(Cell::new(FREE_BYTES.saturating_add(scaled)))
    }

    /// Spends `bytes` of the budget.
    pub fn spend_bytes(&self, bytes: u64, offset: usize) -> Result<(), TableFault> {
        let left = self.0.get().checked_sub(bytes).ok_or_else(|| {
            TableFault::at_offset(offset, "the table decodes to far more than a recording has")
        })?;
        self.0.set(left);
        Ok(())
    }
}

/// An open table.
pub(crate) struct ParquetTable<'a> {
    bytes: &'a [u8],
    groups: Vec<RowGroup>,
    pub budget: Budget,
}

struct RowGroup {
    first_row: u64,
    rows: usize,
    chunks: Vec<ColumnChunk>,
}

/// A column of a row group.
struct ColumnChunk {
    column: &'static TableColumn,
    start: usize,
    end: usize,
}

/// The texts of a column of a row group: the distinct ones as far as the file separates them, and
/// the index of each row's text.
pub(crate) struct Texts {
    pub distinct: Vec<String>,
    pub rows: Vec<Option<u32>>,
}

impl Texts {
    pub fn text_at(&self, row: usize) -> Option<&str> {
        self.distinct
            .get((*self.rows.get(row)?)? as usize)
            .map(String::as_str)
    }
}

fn read_footer(bytes: &[u8]) -> Result<Struct<'_>, TableFault> {
    let end = bytes.len();
    if end < 12 || !bytes.starts_with(b"PAR1") || !bytes.ends_with(b"PAR1") {
        return Err(TableFault::at_offset(0, "not a Parquet file"));
    }
    let (len, _) = bytes[end - 8..].as_chunks::<4>();
    let start = usize::try_from(u32::from_le_bytes(len[0]))
        .ok()
        .and_then(|len| (end - 8).checked_sub(len))
        .filter(|start| *start >= 4)
        .ok_or_else(|| TableFault::at_offset(end - 8, "the footer is longer than the file"))?;
    Ok(thrift::parse_struct(&bytes[..end - 8], start)?.0)
}

/// Returns the position of each of `columns` in the file, `None` if the file lacks it. Columns of
/// newer writers are ignored.
fn column_positions(
    footer: &Struct<'_>,
    columns: &'static [TableColumn],
) -> Result<Vec<Option<usize>>, TableFault> {
    let leaves: Vec<&Struct<'_>> = footer.struct_list(2).skip(1).collect();
    if leaves.iter().any(|leaf| leaf.int_field(5).is_some()) {
        return Err(TableFault::at_offset(0, "the table has nested columns"));
    }
    let find = |column: &TableColumn| {
        let position = leaves
            .iter()
            .position(|leaf| leaf.binary_field(4) == Some(column.name.as_bytes()));
        let Some(position) = position else {
            let fault = || TableFault::at_offset(0, format!("no column {}", column.name));
            return column.later.then_some(None).ok_or_else(fault);
        };
        let kind = match leaves[position].int_field(1) {
            Some(2) => Some(ColumnKind::Int),
            Some(6) => Some(ColumnKind::Text),
            _ => None,
        };
        let repetition = i64::from(column.optional);
        if kind != Some(column.kind) || leaves[position].int_field(3) != Some(repetition) {
            let what = format!("column {} has another type", column.name);
            return Err(TableFault::at_offset(0, what));
        }
        Ok(Some(position))
    };
    columns.iter().map(find).collect()
}

fn read_chunk(
    group: &Struct<'_>,
    position: usize,
    column: &'static TableColumn,
    rows: usize,
    len: usize,
) -> Result<ColumnChunk, TableFault> {
    let fault = |what: &str| TableFault::at_offset(0, format!("column {}: {what}", column.name));
    let chunk = group.struct_list(1).nth(position);
    let meta = chunk
        .and_then(|chunk| chunk.struct_field(3))
        .ok_or_else(|| fault("not in every row group"))?;
    if meta.size_field(5) != Some(rows) || meta.int_field(4) != Some(6) {
        return Err(fault("has another number of rows, or another compression"));
    }
    let start = meta.size_field(11).or_else(|| meta.size_field(9));
    let end = start
        .zip(meta.size_field(7))
        .and_then(|(a, b)| a.checked_add(b));
    match (start, end) {
        (Some(start), Some(end)) if end <= len => Ok(ColumnChunk { column, start, end }),
        _ => Err(fault("lies outside of the file")),
    }
}

impl<'a> ParquetTable<'a> {
    /// Opens the table in `bytes`, to read these columns.
    pub fn open(bytes: &'a [u8], columns: &'static [TableColumn]) -> Result<Self, TableFault> {
        let footer = read_footer(bytes)?;
        let positions = column_positions(&footer, columns)?;
        let budget = Budget::new(bytes.len());
        let mut groups = Vec::new();
        let mut first_row = 0;
        for group in footer.struct_list(4) {
            let rows = group.size_field(3).filter(|rows| *rows <= MAX_GROUP_ROWS);
            let rows = rows.ok_or_else(|| TableFault::at_offset(0, "a row group is too large"))?;
            budget.spend_bytes(rows as u64 * BYTES_PER_ROW, 0)?;
            let chunks = columns
                .iter()
                .zip(&positions)
                .filter_map(|(column, position)| {
                    Some(read_chunk(group, (*position)?, column, rows, bytes.len()))
                })
                .collect::<Result<_, _>>()?;
            groups.push(RowGroup {
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

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// Returns the row groups, in order.
    pub fn row_groups(&self) -> impl Iterator<Item = GroupRows<'_>> {
        self.groups
            .iter()
            .map(|group| GroupRows { table: self, group })
    }
}

/// The rows of a row group.
pub(crate) struct GroupRows<'a> {
    table: &'a ParquetTable<'a>,
    group: &'a RowGroup,
}

impl GroupRows<'_> {
    pub fn len(&self) -> usize {
        self.group.rows
    }

    /// Returns the number in the table of the row at `position` of the group.
    pub fn table_row(&self, position: usize) -> u64 {
        self.group.first_row + position as u64
    }

    /// Reads an integer column without nulls.
    pub fn read_ints(&self, name: &str) -> Result<Vec<i64>, TableFault> {
        let (present, values) = self.decode_column(name, ColumnKind::Int, plain_integers)?;
        if present.iter().any(|present| !present) {
            return Err(TableFault::at_offset(0, format!("column {name} has nulls")));
        }
        Ok(values)
    }

    /// Reads an integer column.
    pub fn optional_ints(&self, name: &str) -> Result<Vec<Option<i64>>, TableFault> {
        let (present, values) = self.decode_column(name, ColumnKind::Int, plain_integers)?;
        Ok(spread_values(&present, values))
    }

    /// Reads an integer column that older recordings lack.
    pub fn later_ints(&self, name: &str) -> Result<Vec<Option<i64>>, TableFault> {
        let mut chunks = self.group.chunks.iter();
        if chunks.any(|chunk| chunk.column.name == name) {
            self.optional_ints(name)
        } else {
            Ok(vec![None; self.len()])
        }
    }

    /// Reads a text column that older recordings lack.
    pub fn later_texts(&self, name: &str) -> Result<Texts, TableFault> {
        let mut chunks = self.group.chunks.iter();
        if chunks.any(|chunk| chunk.column.name == name) {
            self.read_texts(name)
        } else {
            Ok(Texts {
                distinct: Vec::new(),
                rows: Vec::new(),
            })
        }
    }

    /// Reads a text column; only an optional one has nulls.
    pub fn read_texts(&self, name: &str) -> Result<Texts, TableFault> {
        let mut distinct: Vec<String> = Vec::new();
        let plain = |data: &[u8], count: usize| {
            let texts = plain_texts(data, count)?;
            let first = distinct.len();
            distinct.extend(texts);
            // The budget keeps this far below 2^32.
            Ok((first..distinct.len()).map(|i| i as u32).collect())
        };
        let (present, values) = self.decode_column(name, ColumnKind::Text, plain)?;
        Ok(Texts {
            rows: spread_values(&present, values),
            distinct,
        })
    }

    /// Decodes a column: for each row whether it has a value, and the values. `plain` decodes a
    /// number of unencoded values.
    fn decode_column<T: Copy + FromDelta>(
        &self,
        name: &str,
        kind: ColumnKind,
        mut plain: impl FnMut(&[u8], usize) -> Result<Vec<T>, &'static str>,
    ) -> Result<(Vec<bool>, Vec<T>), TableFault> {
        let chunk = self
            .group
            .chunks
            .iter()
            .find(|chunk| chunk.column.name == name && chunk.column.kind == kind)
            .ok_or_else(|| TableFault::at_offset(0, format!("no column {name}")))?;
        let mut present = Vec::with_capacity(self.group.rows);
        let mut values = Vec::with_capacity(self.group.rows);
        let mut dictionary: Option<Vec<T>> = None;
        let mut pos = chunk.start;
        while pos < chunk.end {
            let page =
                DataPage::read_page(&self.table.bytes[..chunk.end], pos, &self.table.budget)?;
            let fault = |what: &str| TableFault::at_offset(pos, format!("column {name}: {what}"));
            if page.dictionary {
                if dictionary.is_some() {
                    return Err(fault("has two dictionaries"));
                }
                dictionary = Some(plain(&page.data, page.values).map_err(fault)?);
            } else {
                if page.values > self.group.rows - present.len() {
                    return Err(fault("has more values than rows"));
                }
                let (levels, data) = page.decode_levels(chunk.column.optional).map_err(fault)?;
                let count = levels.iter().filter(|present| **present).count();
                present.extend(levels);
                values.extend(match (page.encoding, count) {
                    (_, 0) => Vec::new(),
                    (PLAIN, _) => plain(data, count).map_err(fault)?,
                    (RLE_DICTIONARY, _) => {
                        look_up(dictionary.as_deref(), data, count).map_err(fault)?
                    }
                    (DELTA, _) => T::deltas(data, count).map_err(fault)?,
                    _ => return Err(fault("has an encoding that recordings do not use")),
                });
            }
            pos = page.end;
        }
        if present.len() != self.group.rows {
            let what = format!("column {name}: has fewer values than rows");
            return Err(TableFault::at_offset(chunk.start, what));
        }
        Ok((present, values))
    }
}

/// The decoded type of a column, and its decoding from differences.
trait FromDelta: Sized {
    fn deltas(_data: &[u8], _count: usize) -> Result<Vec<Self>, &'static str> {
        Err("has differences of texts")
    }
}

impl FromDelta for i64 {
    fn deltas(data: &[u8], count: usize) -> Result<Vec<Self>, &'static str> {
        decode_deltas(data, count)
    }
}

impl FromDelta for u32 {}

const PLAIN: i64 = 0;
const DELTA: i64 = 5;
const RLE_DICTIONARY: i64 = 8;

fn look_up<T: Copy>(
    dictionary: Option<&[T]>,
    data: &[u8],
    count: usize,
) -> Result<Vec<T>, &'static str> {
    let dictionary = dictionary.ok_or("has no dictionary")?;
    let (width, data) = data.split_first().ok_or("a page is cut short")?;
    let indices = decode_runs(data, *width, count)?;
    indices
        .into_iter()
        .map(|i| dictionary.get(i as usize).copied())
        .collect::<Option<_>>()
        .ok_or("points outside of its dictionary")
}

/// Returns a value for each row that has one.
fn spread_values<T>(present: &[bool], values: Vec<T>) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    let spread = present.iter().map(|p| p.then(|| values.next()).flatten());
    spread.collect()
}

/// A page of a column, decompressed.
struct DataPage {
    dictionary: bool,
    values: usize,
    encoding: i64,
    data: Vec<u8>,
    /// Start of the next page.
    end: usize,
}

impl DataPage {
    /// Reads the page at `start`; `bytes` end with its column.
    fn read_page(bytes: &[u8], start: usize, budget: &Budget) -> Result<Self, TableFault> {
        let fault = |what: &str| TableFault::at_offset(start, what);
        let (header, body) = thrift::parse_struct(bytes, start)?;
        let (dictionary, details) = match header.int_field(1) {
            Some(0) => (false, header.struct_field(5)),
            Some(2) => (true, header.struct_field(7)),
            _ => return Err(fault("a page is of a kind that recordings do not use")),
        };
        let details = details.ok_or_else(|| fault("a page has no header"))?;
        let len = header.size_field(2).filter(|len| *len <= MAX_PAGE);
        let len = len.ok_or_else(|| fault("a page is too large"))?;
        let end = header.size_field(3).and_then(|len| body.checked_add(len));
        let compressed = end.and_then(|end| bytes.get(body..end));
        let compressed = compressed.ok_or_else(|| fault("a page is cut short"))?;
        budget.spend_bytes(len as u64, start)?;
        let data = if compressed.is_empty() {
            Vec::new()
        } else {
            zstd::bulk::decompress(compressed, len)
                .map_err(|e| fault(&format!("a page does not decompress: {e}")))?
        };
        if data.len() != len {
            return Err(fault("a page decompresses to another length"));
        }
        let values = details.size_field(1);
        Ok(Self {
            dictionary,
            values: values.ok_or_else(|| fault("a page has no number of values"))?,
            encoding: details.int_field(2).unwrap_or(-1),
            data,
            end: body + compressed.len(),
        })
    }

    /// Returns for each row of the page whether it has a value, and the values' bytes.
    fn decode_levels(&self, optional: bool) -> Result<(Vec<bool>, &[u8]), &'static str> {
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
        let levels = decode_runs(levels, 1, self.values)?;
        Ok((levels.into_iter().map(|level| level == 1).collect(), data))
    }
}
