//! pprof's `profile.proto`, by a decoder that keeps no more of the file than the tree needs.
//!
//! The fields may come in any order, and samples mostly come before the tables that they refer to.
//! So samples are added to a tree of locations as they come, which is translated at the end.

mod contents;
mod samples;
mod tables;
mod translate;
mod wire;

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use contents::PprofFile;
use samples::SampleTree;
use tables::{Locations, Strings};
use wire::Stream;

pub(crate) use wire::{Message, WireValue};

/// The number of samples or table entries between two checks of the memory.
const CHECK_EVERY: u64 = 1024;

pub(crate) fn read_pprof(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let memory = options.limits.memory;
    let mut file = PprofFile {
        value_types: Vec::new(),
        samples: SampleTree::new(!options.group_by.is_empty()),
        mappings: Vec::new(),
        locations: Locations::default(),
        functions: Vec::new(),
        strings: Strings::default(),
        drop_frames: 0,
        keep_frames: 0,
        comments: Vec::new(),
        default: 0,
    };
    let mut stream = Stream::new(input, memory);
    let mut fields = 0_u64;
    let mut end = FilePosition::Offset(0);
    while let Some((field, value)) = stream.next_field()? {
        if let WireValue::Bytes(message) = value {
            end = message.file_position();
        }
        file.read_field(field, value)?;
        fields += 1;
        if fields.is_multiple_of(CHECK_EVERY) && file.memory_size() > memory {
            let what = format!("its tables need more than {} MiB of memory", memory >> 20);
            return Err(ReadFault::too_large(what, end));
        }
    }
    file.samples.drop_index();
    translate::translate_profile(file, options, end)
}

fn is_value_type(mut message: Message<'_>) -> bool {
    loop {
        match message.next_field() {
            Ok(Some((1 | 2, WireValue::Number(_)))) => {}
            Ok(None) => return true,
            _ => return false,
        }
    }
}

/// Returns whether the first bytes of a file look like those of a profile.
pub(crate) fn detect_pprof(head: &[u8], whole: bool) -> bool {
    let mut message = Message::new(head);
    let mut fields = 0;
    loop {
        let before = message;
        match message.next_field() {
            // A name and a unit, by number: any other message means another format.
            Ok(Some((1, WireValue::Bytes(value_type)))) if !is_value_type(value_type) => {
                return false;
            }
            Ok(Some((1..=8 | 11 | 13, WireValue::Bytes(_)) | (7..=15, WireValue::Number(_)))) => {
                fields += 1
            }
            Ok(None) => return fields > 0,
            Ok(Some(_)) => return false,
            // The last field may reach beyond the available bytes; but there must be earlier
            // fields, or its type must fit.
            Err(_) => {
                let tag = before.field_bytes().first().copied().unwrap_or(0);
                return !whole
                    && (fields > 1 || matches!(tag, 0x0a | 0x12 | 0x1a | 0x22 | 0x2a | 0x32));
            }
        }
    }
}
