//! The envelope of JSON on disk: the name of the form, its version, and a checksum.
//!
//! `{"format":"…","version":1,"crc32":…,"<key>":…}`, on one line; the checksum covers the bytes of
//! the value of `<key>`.

use crate::error::{StoreError, TableFault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::Path;

/// A form of JSON on disk.
pub(crate) struct EnvelopeForm {
    /// Its name.
    pub format: &'static str,
    /// Raised when a reader of the former version would misread the content, not for additions that
    /// it can ignore (a further field).
    pub version: u64,
    /// Key of the content.
    pub key: &'static str,
    /// The name of the member in errors.
    pub member: &'static str,
}

/// The fields at the start of every version.
#[derive(Deserialize)]
struct Stamp {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    crc32: u32,
    #[serde(borrow, alias = "recording", alias = "run", alias = "result")]
    content: &'a RawValue,
}

impl EnvelopeForm {
    /// Returns the content in its envelope, with the end of the line.
    pub fn seal_content(&self, content: &impl Serialize) -> Result<Vec<u8>, StoreError> {
        let unstorable = |e: serde_json::Error| StoreError::unstorable(e.to_string());
        let content = serde_json::to_string(content).map_err(unstorable)?;
        let Self { format, key, .. } = self;
        let version = self.version;
        let crc32 = crc32fast::hash(content.as_bytes());
        Ok(format!(
            "{{\"format\":\"{format}\",\"version\":{version},\"crc32\":{crc32},\"{key}\":{content}}}\n"
        )
        .into_bytes())
    }

    /// Opens the content of an envelope that begins at the offset `base` of the file at `path`.
    pub fn open_envelope<T: DeserializeOwned>(
        &self,
        bytes: &[u8],
        path: &Path,
        base: usize,
    ) -> Result<T, StoreError> {
        let fault = |at: usize, what: String| TableFault::at_offset(base + at, what);
        let damaged = |e: serde_json::Error| {
            fault(error_offset(bytes, &e), e.to_string()).in_member(path, self.member)
        };
        let stamp: Stamp = serde_json::from_slice(bytes).map_err(damaged)?;
        if stamp.format != self.format {
            let what = format!("its format is {:?}, not {:?}", stamp.format, self.format);
            return Err(fault(0, what).in_member(path, self.member));
        }
        if stamp.version > self.version {
            return Err(StoreError::Newer {
                path: path.to_owned(),
                version: stamp.version,
                supported: self.version,
            });
        }
        if stamp.version < self.version {
            let what = format!("its version is {}", stamp.version);
            return Err(fault(0, what).in_member(path, self.member));
        }
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(damaged)?;
        let content = envelope.content.get();
        let found = crc32fast::hash(content.as_bytes());
        if found != envelope.crc32 {
            return Err(StoreError::Checksum {
                path: path.to_owned(),
                member: self.member.to_owned(),
                expected: envelope.crc32,
                found,
            });
        }
        // The content begins within the line; positions of errors count from the start of the line.
        let start = content.as_ptr() as usize - bytes.as_ptr() as usize;
        serde_json::from_str(content).map_err(|e| {
            fault(start + error_offset(content.as_bytes(), &e), e.to_string())
                .in_member(path, self.member)
        })
    }
}

/// Returns the offset of an error, which serde_json gives as line and column.
fn error_offset(bytes: &[u8], error: &serde_json::Error) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    before + error.column()
}
