//! The tables of a recording and their columns, as `docs/format.md` describes them.
//!
//! Every integer is a signed 64-bit column. Narrower types would save nothing (the encodings adapt
//! to the values), and some engines read unsigned ones as decimals. An unsigned value that does not
//! fit keeps its bits and reads as negative; only offsets, inodes and generations can.

/// The kind of value in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Int,
    Text,
}

/// The encoding of a column's values before zstd compresses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Differences in the number of bits that 64 neighbours need: for ascending columns.
    Delta,
    /// An index into the distinct values: for repetitive columns.
    Dictionary,
    /// Unencoded values: for columns that neither ascend nor repeat.
    Plain,
}

/// A column of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub name: &'static str,
    pub kind: ColumnKind,
    pub optional: bool,
    /// True if older recordings lack the column: all its values are then null.
    pub later: bool,
    pub packing: Packing,
    /// True if the file's footer has the least and greatest value, so that an engine can skip the
    /// file: useful for columns that queries filter by.
    pub statistics: bool,
}

const fn int_column(name: &'static str, packing: Packing) -> TableColumn {
    TableColumn {
        name,
        kind: ColumnKind::Int,
        optional: false,
        later: false,
        packing,
        statistics: false,
    }
}

const fn text_column(name: &'static str) -> TableColumn {
    TableColumn {
        name,
        kind: ColumnKind::Text,
        optional: false,
        later: false,
        packing: Packing::Dictionary,
        statistics: false,
    }
}

impl TableColumn {
    const fn make_optional(mut self) -> Self {
        self.optional = true;
        self
    }

    const fn make_later(mut self) -> Self {
        self.optional = true;
        self.later = true;
        self
    }

    const fn make_searched(mut self) -> Self {
        self.statistics = true;
        self
    }

    const fn make_plain(mut self) -> Self {
        self.packing = Packing::Plain;
        self
    }
}

use Packing::{Delta, Dictionary};

pub(crate) const SAMPLES: &[TableColumn] = &[
    int_column("event_id", Dictionary),
    text_column("event").make_searched(),
    text_column("process").make_searched(),
    int_column("pid", Dictionary).make_optional(),
    int_column("tid", Dictionary).make_optional(),
    int_column("image_id", Dictionary),
    text_column("image").make_searched(),
    text_column("build_id").make_optional().make_searched(),
    int_column("offset", Delta),
    int_column("caller", Delta).make_optional(),
    text_column("waker_process").make_optional(),
    int_column("waker_tid", Dictionary).make_optional(),
    int_column("waker_stack", Dictionary).make_optional(),
    int_column("count", Dictionary),
    int_column("weight", Dictionary).make_optional(),
    text_column("cgroup").make_later().make_searched(),
    int_column("slice", Dictionary).make_later(),
    text_column("labels").make_later(),
];

pub(crate) const STACKS: &[TableColumn] = &[
    int_column("id", Delta),
    int_column("caller", Delta).make_optional(),
    int_column("image_id", Dictionary),
    text_column("image"),
    text_column("build_id").make_optional(),
    int_column("offset", Delta),
];

pub(crate) const THREADS: &[TableColumn] = &[
    int_column("event_id", Dictionary),
    text_column("event"),
    text_column("process").make_searched(),
    int_column("pid", Delta),
    int_column("tid", Delta),
    int_column("count", Dictionary),
    int_column("weight", Dictionary).make_optional(),
    text_column("cgroup").make_later(),
];

pub(crate) const IMAGES: &[TableColumn] = &[
    int_column("id", Delta),
    text_column("kind"),
    text_column("path").make_plain(),
    text_column("build_id").make_optional().make_plain(),
    int_column("major", Dictionary).make_optional(),
    int_column("minor", Dictionary).make_optional(),
    int_column("inode", Delta).make_optional(),
    int_column("generation", Dictionary).make_optional(),
    int_column("gone", Dictionary),
];

pub(crate) const SYMBOLS: &[TableColumn] = &[
    int_column("image_id", Dictionary),
    text_column("image"),
    int_column("start", Delta),
    int_column("end", Delta),
    text_column("name").make_plain(),
];

pub(crate) const BRANCHES: &[TableColumn] = &[
    int_column("image_id", Dictionary),
    text_column("image").make_searched(),
    text_column("build_id").make_optional().make_searched(),
    int_column("branch", Delta),
    int_column("target", Delta),
    int_column("observed", Dictionary),
    int_column("walked", Dictionary),
];

pub(crate) const STRETCHES: &[TableColumn] = &[
    int_column("image_id", Dictionary),
    text_column("image").make_searched(),
    text_column("build_id").make_optional().make_searched(),
    int_column("start", Delta),
    int_column("branch", Delta),
    int_column("target", Delta).make_optional(),
    int_column("times", Dictionary),
    int_column("judged", Dictionary),
    int_column("mispredicted", Dictionary),
];

pub(crate) const ACCESSES: &[TableColumn] = &[
    int_column("image_id", Dictionary),
    text_column("image").make_searched(),
    text_column("build_id").make_optional().make_searched(),
    int_column("instruction", Delta),
    int_column("stride", Dictionary),
    int_column("votes", Dictionary),
    int_column("known", Dictionary),
    int_column("unknown", Dictionary),
    int_column("origins", Dictionary),
    int_column("new_line", Dictionary),
    int_column("new_page", Dictionary),
    int_column("strided", Dictionary),
    int_column("waited", Dictionary),
    int_column("waited_line", Dictionary),
    int_column("waited_page", Dictionary),
];

pub(crate) const PLACES: &[TableColumn] = &[
    int_column("image_id", Dictionary),
    text_column("image").make_searched(),
    text_column("build_id").make_optional().make_searched(),
    int_column("instruction", Delta),
    int_column("line", Dictionary),
    int_column("hash", Packing::Plain),
    int_column("seen", Dictionary),
    int_column("waited", Dictionary),
];

/// Rows of a row group, the unit of decoding.
pub(crate) const ROW_GROUP: usize = 1 << 18;

/// The longest text, in bytes. Names of processes have 15, paths at most 4096; only mangled C++
/// names come near this limit.
pub(crate) const MAX_TEXT: usize = 1 << 20;

/// The longest page, decompressed, in bytes. The writer cuts pages near 1 MiB, but never a text.
pub(crate) const MAX_PAGE: usize = 16 << 20;
