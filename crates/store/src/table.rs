//! The tables of a recording and their columns: what `docs/format.md` describes.
//!
//! Every integer is a signed 64-bit column. Narrower types would save nothing (the encodings store
//! what the values need) and unsigned ones are read as decimals by some engines. An unsigned value
//! that does not fit keeps its bits and reads as negative; only offsets, inodes and generations
//! can.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
}

/// How the values of a column are laid out before zstd sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Differences in as few bits as 64 neighbours need: for what ascends.
    Delta,
    /// An index into the distinct values: for what repeats.
    Dictionary,
    /// As they are: for what does neither.
    Plain,
}

/// A column of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub optional: bool,
    pub packing: Packing,
    /// True if the least and greatest value stand in the file's footer, so that an engine can
    /// pass over the file: worth it for what people ask by.
    pub statistics: bool,
}

const fn int(name: &'static str, packing: Packing) -> Column {
    Column {
        name,
        kind: Kind::Int,
        optional: false,
        packing,
        statistics: false,
    }
}

const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Text,
        optional: false,
        packing: Packing::Dictionary,
        statistics: false,
    }
}

impl Column {
    const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    const fn searched(mut self) -> Self {
        self.statistics = true;
        self
    }

    const fn plain(mut self) -> Self {
        self.packing = Packing::Plain;
        self
    }
}

use Packing::{Delta, Dictionary};

pub(crate) const SAMPLES: &[Column] = &[
    int("event_id", Dictionary),
    text("event").searched(),
    text("process").searched(),
    int("pid", Dictionary).optional(),
    int("tid", Dictionary).optional(),
    int("image_id", Dictionary),
    text("image").searched(),
    text("build_id").optional().searched(),
    int("offset", Delta),
    int("caller", Delta).optional(),
    text("waker_process").optional(),
    int("waker_tid", Dictionary).optional(),
    int("waker_stack", Dictionary).optional(),
    int("count", Dictionary),
    int("weight", Dictionary).optional(),
];

pub(crate) const STACKS: &[Column] = &[
    int("id", Delta),
    int("caller", Delta).optional(),
    int("image_id", Dictionary),
    text("image"),
    text("build_id").optional(),
    int("offset", Delta),
];

pub(crate) const THREADS: &[Column] = &[
    int("event_id", Dictionary),
    text("event"),
    text("process").searched(),
    int("pid", Delta),
    int("tid", Delta),
    int("count", Dictionary),
    int("weight", Dictionary).optional(),
];

pub(crate) const IMAGES: &[Column] = &[
    int("id", Delta),
    text("kind"),
    text("path").plain(),
    text("build_id").optional().plain(),
    int("major", Dictionary).optional(),
    int("minor", Dictionary).optional(),
    int("inode", Delta).optional(),
    int("generation", Dictionary).optional(),
    int("gone", Dictionary),
];

pub(crate) const SYMBOLS: &[Column] = &[
    int("image_id", Dictionary),
    text("image"),
    int("start", Delta),
    int("end", Delta),
    text("name").plain(),
];

pub(crate) const BRANCHES: &[Column] = &[
    int("image_id", Dictionary),
    text("image").searched(),
    text("build_id").optional().searched(),
    int("branch", Delta),
    int("target", Delta),
    int("observed", Dictionary),
    int("walked", Dictionary),
];

pub(crate) const STRETCHES: &[Column] = &[
    int("image_id", Dictionary),
    text("image").searched(),
    text("build_id").optional().searched(),
    int("start", Delta),
    int("branch", Delta),
    int("target", Delta).optional(),
    int("times", Dictionary),
    int("judged", Dictionary),
    int("mispredicted", Dictionary),
];

pub(crate) const ACCESSES: &[Column] = &[
    int("image_id", Dictionary),
    text("image").searched(),
    text("build_id").optional().searched(),
    int("instruction", Delta),
    int("stride", Dictionary),
    int("votes", Dictionary),
    int("known", Dictionary),
    int("unknown", Dictionary),
    int("origins", Dictionary),
    int("new_line", Dictionary),
    int("new_page", Dictionary),
    int("strided", Dictionary),
    int("waited", Dictionary),
    int("waited_line", Dictionary),
    int("waited_page", Dictionary),
];

pub(crate) const PLACES: &[Column] = &[
    int("image_id", Dictionary),
    text("image").searched(),
    text("build_id").optional().searched(),
    int("instruction", Delta),
    int("line", Dictionary),
    int("hash", Packing::Plain),
    int("seen", Dictionary),
    int("waited", Dictionary),
];

/// Rows of a row group, the unit that is decoded at once.
pub(crate) const ROW_GROUP: usize = 1 << 18;

/// The longest text that can be stored, in bytes. Names of processes have 15, paths at most 4096;
/// of what is known only mangled C++ names come near.
pub(crate) const MAX_TEXT: usize = 1 << 20;

/// The longest page, decompressed, in bytes. The writer cuts pages near 1 MiB, but never a text.
pub(crate) const MAX_PAGE: usize = 16 << 20;
