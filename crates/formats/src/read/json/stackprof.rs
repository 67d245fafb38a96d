//! stackprof, of Ruby: frames by number, and stacks of these numbers with their count.

use super::Document;
use super::value::Scalar;
use crate::read::draft::Draft;
use crate::read::error::{Fault, Place};
use crate::read::options::ReadOptions;
use crate::read::stackprof::{StackprofFrame, StackprofProfile, build};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Frame {
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    file: Scalar,
    #[serde(default)]
    line: Scalar,
    #[serde(default)]
    samples: Scalar,
}

pub(super) fn read_json(
    document: Document,
    options: &ReadOptions,
    used: u64,
) -> Result<Draft, Fault> {
    let mut profile = StackprofProfile {
        mode: document.mode.text().unwrap_or_default().to_owned(),
        interval: document.interval.number().unwrap_or(1.0),
        raw: document
            .raw
            .map(|raw| raw.0.iter().map(|n| *n as u64).collect()),
        ..StackprofProfile::default()
    };
    for (id, frame) in document.frames.0 {
        let Ok(id) = id.parse::<f64>() else {
            let what = format!("a frame with the number {id:?}");
            return Err(Fault::damaged(what, Place::Offset(0)));
        };
        let text = |value: &Scalar| value.text().unwrap_or_default().to_owned();
        let frame = StackprofFrame {
            name: text(&frame.name),
            file: text(&frame.file),
            line: frame.line.integer(),
            samples: frame.samples.integer().unwrap_or(0),
        };
        // Numbers are addresses, of which JSON's readers keep 53 bits everywhere alike.
        profile.frames.insert(id as u64, frame);
    }
    build(&profile, options, used)
}
