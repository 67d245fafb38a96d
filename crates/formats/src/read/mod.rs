//! Reads profiles of other tools, and vitalfew's own, as call trees.
//!
//! [`read_profile`] recognises the format by the content of the file, whatever its name, and
//! decompresses gzip and zstd; [`from_recording`] makes the same tree from a recording.
//! `docs/formats.md` describes what each format contains and how it is read.
//!
//! Files are untrusted: every reader streams or is bounded by [`ReadLimits`], none recurses over
//! its input, and errors name the place in the file.

mod austin;
mod callgrind;
mod detect;
mod draft;
mod encoding;
pub(crate) mod error;
mod folded;
mod ghc;
mod gperftools;
mod imported;
mod indented;
pub(crate) mod input;
mod jfr;
mod json;
pub(crate) mod lines;
mod options;
mod otlp;
mod perf_data;
mod perf_script;
mod pprof;
mod pstats;
mod recording;
mod ruby_marshal;
mod skipped;
mod stackprof;
mod stacks;
mod time_axis;
mod tree_profile;
mod v8_log;

pub use error::{FilePosition, ReadError};
pub use imported::to_recording;
pub use options::{GroupBy, ReadLimits, ReadOptions};
pub use perf_data::{BranchStacks, perf_event_name};
pub use recording::from_recording;
pub use time_axis::TimeAxis;
pub use tree_profile::TreeProfile;

use detect::ReadWith;
use input::ProfileInput;
use std::path::Path;
use time_axis::TimeRange;

/// Reads the profile at `path`, of any supported format, compressed or not.
///
/// # Errors
/// If the file cannot be read, is of no supported format, is damaged, or exceeds the limits. The
/// error names the file and the place in it (in its decompressed content, if it is compressed).
pub fn read_profile(path: &Path, options: &ReadOptions) -> Result<TreeProfile, ReadError> {
    let mut input = ProfileInput::open_file(path, &options.limits)
        .map_err(|fault| fault.in_file(path, "profile"))?;
    let reader =
        detect::find_reader(input.first_bytes()).map_err(|what| ReadError::UnknownFormat {
            path: path.to_owned(),
            what,
        })?;
    let read = match reader.read {
        ReadWith::Bytes(read) => read(&mut input, options).map(|draft| (draft, reader.name)),
        ReadWith::Several(read) => read(&mut input, options),
        ReadWith::Timed(read_times, read) => {
            let times = if options.group_by.contains(&GroupBy::Slice) {
                read_times(path, options)
            } else {
                Ok(TimeRange::default())
            };
            let draft = times.and_then(|times| read(&mut input, times, options));
            draft.map(|draft| (draft, reader.name))
        }
        ReadWith::File(read) => {
            drop(input);
            read(path, options).map(|draft| (draft, reader.name))
        }
    };
    let (draft, name) = read.map_err(|fault| fault.in_file(path, reader.name))?;
    draft
        .finish_tree(name)
        .map_err(|fault| fault.in_file(path, name))
}
