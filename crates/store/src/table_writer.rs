//! Writes tables as Parquet files.

use crate::error::StoreError;
use crate::table::{ColumnKind, MAX_TEXT, Packing, TableColumn};
use crate::table_reader::ParquetTable;
use parquet::basic::{
    Compression, ConvertedType, Encoding, Repetition, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::sync::Arc;

/// Higher levels cost time and gain little: see the crate's documentation.
const ZSTD_LEVEL: i32 = 9;

/// Number of values passed at once: the writer checks the size of a page only in between.
const BATCH_VALUES: usize = 1024;
const BATCH_BYTES: usize = 64 << 10;

impl From<ParquetError> for StoreError {
    /// Wraps an error, which can only be a defect: the writer writes to memory and gets values that
    /// match the schema.
    fn from(error: ParquetError) -> Self {
        Self::unstorable(error.to_string())
    }
}

fn parquet_schema(columns: &[TableColumn]) -> Result<Type, ParquetError> {
    let field = |column: &TableColumn| {
        let (physical, converted) = match column.kind {
            ColumnKind::Int => (Physical::INT64, ConvertedType::NONE),
            ColumnKind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let repetition = if column.optional {
            Repetition::OPTIONAL
        } else {
            Repetition::REQUIRED
        };
        Type::primitive_type_builder(column.name, physical)
            .with_converted_type(converted)
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    };
    Type::group_type_builder("schema")
        .with_fields(columns.iter().map(field).collect::<Result<_, _>>()?)
        .build()
}

fn writer_properties(columns: &[TableColumn]) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("vitalfew ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(BATCH_VALUES);
    for column in columns {
        let path = ColumnPath::from(column.name);
        let dictionary = column.packing == Packing::Dictionary;
        properties = properties.set_column_dictionary_enabled(path.clone(), dictionary);
        if column.packing == Packing::Delta {
            let encoding = Encoding::DELTA_BINARY_PACKED;
            properties = properties.set_column_encoding(path.clone(), encoding);
        }
        if column.statistics {
            let statistics = EnabledStatistics::Chunk;
            properties = properties.set_column_statistics_enabled(path, statistics);
        }
    }
    Ok(properties.build())
}

/// Writes one table.
pub(crate) struct TableWriter {
    columns: &'static [TableColumn],
    file: SerializedFileWriter<Vec<u8>>,
}

impl TableWriter {
    pub fn new(columns: &'static [TableColumn]) -> Result<Self, StoreError> {
        let properties = Arc::new(writer_properties(columns)?);
        let schema = Arc::new(parquet_schema(columns)?);
        let file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        Ok(Self { columns, file })
    }

    /// Begins a row group.
    pub fn begin_rows(&mut self) -> Result<RowsWriter<'_>, StoreError> {
        Ok(RowsWriter {
            columns: self.columns.iter(),
            group: self.file.next_row_group()?,
        })
    }

    /// Returns the bytes of the table, after a reader accepted them.
    pub fn finish_table(self) -> Result<Vec<u8>, StoreError> {
        let columns = self.columns;
        let bytes = self.into_bytes()?;
        // The reader refuses a table that compresses suspiciously well: better to learn of that
        // now.
        ParquetTable::open(&bytes, columns).map_err(|fault| StoreError::unstorable(fault.what))?;
        Ok(bytes)
    }

    /// Returns the bytes of the table without the reader's check.
    pub fn into_bytes(self) -> Result<Vec<u8>, StoreError> {
        Ok(self.file.into_inner()?)
    }
}

/// Writes the columns of a row group, in the order of the table.
pub(crate) struct RowsWriter<'a> {
    columns: std::slice::Iter<'static, TableColumn>,
    group: SerializedRowGroupWriter<'a, Vec<u8>>,
}

/// Makes a text of a column, shared so that a row costs no copy.
pub(crate) fn shared_text(text: &str) -> Result<ByteArray, StoreError> {
    if text.len() > MAX_TEXT {
        let what = format!("a name of {} bytes: at most {MAX_TEXT} can be", text.len());
        return Err(StoreError::unstorable(what));
    }
    Ok(ByteArray::from(text.as_bytes().to_vec()))
}

impl RowsWriter<'_> {
    /// Writes an integer column that is never null.
    pub fn write_ints(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = i64>,
    ) -> Result<(), StoreError> {
        self.optional_ints(name, rows.map(Some))
    }

    /// Writes an integer column.
    pub fn optional_ints(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = Option<i64>>,
    ) -> Result<(), StoreError> {
        self.write_column::<Int64Type>(name, ColumnKind::Int, rows, |_| 8)
    }

    /// Writes a text column that is never null.
    pub fn write_texts<'t>(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = &'t ByteArray>,
    ) -> Result<(), StoreError> {
        self.optional_texts(name, rows.map(Some))
    }

    /// Writes a text column.
    pub fn optional_texts<'t>(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = Option<&'t ByteArray>>,
    ) -> Result<(), StoreError> {
        let rows = rows.map(|row| row.cloned());
        self.write_column::<ByteArrayType>(name, ColumnKind::Text, rows, |text| text.len())
    }

    fn write_column<T: DataType>(
        &mut self,
        name: &str,
        kind: ColumnKind,
        rows: impl Iterator<Item = Option<T::T>>,
        size: impl Fn(&T::T) -> usize,
    ) -> Result<(), StoreError> {
        let column = self.columns.next();
        let column = column.filter(|column| column.name == name && column.kind == kind);
        let column =
            column.ok_or_else(|| StoreError::unstorable(format!("no column {name} here")))?;
        let mut writer = self
            .group
            .next_column()?
            .ok_or_else(|| StoreError::unstorable(format!("no column {name} in the schema")))?;
        let typed = writer.typed::<T>();
        let mut values = Vec::with_capacity(BATCH_VALUES);
        let mut levels = Vec::with_capacity(BATCH_VALUES);
        let mut bytes = 0;
        for row in rows {
            levels.push(i16::from(row.is_some()));
            bytes += row.as_ref().map_or(0, &size);
            values.extend(row);
            if levels.len() == BATCH_VALUES || bytes >= BATCH_BYTES {
                typed.write_batch(&values, column.optional.then_some(&levels), None)?;
                values.clear();
                levels.clear();
                bytes = 0;
            }
        }
        typed.write_batch(&values, column.optional.then_some(&levels), None)?;
        Ok(writer.close()?)
    }

    /// Ends the row group.
    pub fn finish_rows(self) -> Result<(), StoreError> {
        self.group.close()?;
        Ok(())
    }
}
