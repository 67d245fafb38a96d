//! Columns shared by several tables: the columns of an image, and texts that rows share.

use crate::error::StoreError;
use crate::table_writer::{RowsWriter, shared_text};
use parquet::data_type::ByteArray;
use profile::{Image, ImageId, ImageKind, NameId, Recording};

/// Image kinds as `images.parquet` spells them.
pub(crate) const KINDS: [(ImageKind, &str); 8] = [
    (ImageKind::File, "file"),
    (ImageKind::Kernel, "kernel"),
    (ImageKind::KernelModule, "kernel_module"),
    (ImageKind::Vdso, "vdso"),
    (ImageKind::Jit, "jit"),
    (ImageKind::Script, "script"),
    (ImageKind::Anonymous, "anonymous"),
    (ImageKind::Unknown, "unknown"),
];

/// All texts, each once, shared by the rows.
pub(crate) struct SharedTexts {
    pub events: Vec<ByteArray>,
    names: Vec<ByteArray>,
    /// Rank of each name in alphabetical order, which does not depend on the order of arrival.
    ranks: Vec<u32>,
    paths: Vec<ByteArray>,
    build_ids: Vec<Option<ByteArray>>,
}

impl SharedTexts {
    pub fn new(recording: &Recording) -> Result<Self, StoreError> {
        let names: Vec<&str> = recording.names.iter().collect();
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_unstable_by_key(|i| names[*i]);
        let mut ranks = vec![0; names.len()];
        for (rank, i) in (0..).zip(sorted) {
            ranks[i] = rank;
        }
        let images = &recording.images;
        let build_id = |image: &Image| {
            image
                .build_id
                .as_ref()
                .map(|id| shared_text(&id.to_string()))
        };
        let events = recording
            .events
            .iter()
            .map(|event| shared_text(&event.name));
        Ok(Self {
            events: events.collect::<Result<_, _>>()?,
            names: names
                .into_iter()
                .map(shared_text)
                .collect::<Result<_, _>>()?,
            ranks,
            paths: images
                .iter()
                .map(|image| shared_text(&image.path))
                .collect::<Result<_, _>>()?,
            build_ids: images
                .iter()
                .map(|i| build_id(i).transpose())
                .collect::<Result<_, _>>()?,
        })
    }

    pub fn name_text(&self, id: NameId) -> &ByteArray {
        &self.names[id.0 as usize]
    }

    pub fn name_rank(&self, id: NameId) -> u32 {
        self.ranks[id.0 as usize]
    }

    pub fn path_text(&self, id: ImageId) -> &ByteArray {
        &self.paths[id.0 as usize]
    }

    pub fn build_id(&self, id: ImageId) -> Option<&ByteArray> {
        self.build_ids[id.0 as usize].as_ref()
    }
}

/// Returns the columns of an image: its id and, for readers of this table alone, its path and
/// build-id.
pub(crate) fn image_columns<I: Iterator<Item = ImageId>>(
    out: &mut RowsWriter<'_>,
    texts: &SharedTexts,
    images: impl Fn() -> I,
) -> Result<(), StoreError> {
    out.write_ints("image_id", images().map(|id| id.0.into()))?;
    out.write_texts("image", images().map(|id| texts.path_text(id)))?;
    out.optional_texts("build_id", images().map(|id| texts.build_id(id)))
}
