//! stackprof, for Ruby: frames by number, and stacks of these numbers with their count.

use super::value::{JsonColumn, ObjectTable, Scalar};
use crate::read::draft::TreeDraft;
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::stackprof::{StackprofFrame, StackprofProfile, build_tree};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct FrameFields {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    file: Scalar,
    #[serde(default)]
    line: Scalar,
    #[serde(default)]
    samples: Scalar,
}

/// Fields of such a profile, taken from its document.
pub(super) struct StackprofDocument {
    pub mode: Scalar,
    pub interval: Scalar,
    pub raw: Option<JsonColumn<f64>>,
    pub frames: ObjectTable<FrameFields>,
}

pub(super) fn read_json(
    document: StackprofDocument,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut profile = StackprofProfile {
        mode: document.mode.as_text().unwrap_or_default().to_owned(),
        interval: document.interval.as_number().unwrap_or(1.0),
        raw: document
            .raw
            .map(|raw| raw.0.iter().map(|n| *n as u64).collect()),
        ..StackprofProfile::default()
    };
    for (id, frame) in document.frames.0 {
        let Ok(id) = id.parse::<f64>() else {
            let what = format!("a frame with the number {id:?}");
            return Err(ReadFault::damaged(what, FilePosition::Offset(0)));
        };
        let text = |value: &Scalar| value.as_text().unwrap_or_default().to_owned();
        let frame = StackprofFrame {
            name: text(&frame.name),
            file: text(&frame.file),
            line: frame.line.as_integer(),
            samples: frame.samples.as_integer().unwrap_or(0),
        };
        // Numbers are addresses, of which all JSON parsers keep the same 53 bits.
        profile.frames.insert(id as u64, frame);
    }
    build_tree(&profile, options, used)
}
