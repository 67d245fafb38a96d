//! Results that a command has stored as JSON. They are read within a size limit, and only if they
//! have the known schema.

use anyhow::Context;
use results::{ResultKind, usage_refusal};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A kind of stored result.
pub struct KeptFile {
    /// Name of the kind in messages, such as "a measurement".
    pub what: &'static str,
    /// Kind of the file.
    pub kind: ResultKind,
    /// Schema that the file must name.
    pub schema: &'static str,
    /// Maximum length, in bytes.
    pub longest: u64,
}

impl KeptFile {
    /// Reads a file. `schema_of` returns the schema that the content names.
    ///
    /// # Errors
    /// If the file cannot be read, or is of another kind.
    pub fn read<T: DeserializeOwned>(
        &self,
        path: &Path,
        schema_of: impl FnOnce(&T) -> &str,
    ) -> anyhow::Result<T> {
        self.kind.expect_file(path)?;
        let unreadable = || format!("{}: cannot be read", path.display());
        let file = File::open(path).with_context(unreadable)?;
        let mut text = Vec::new();
        file.take(self.longest + 1)
            .read_to_end(&mut text)
            .with_context(unreadable)?;
        if text.len() as u64 > self.longest {
            return Err(self.refuse(path, &format!("longer than {} bytes", self.longest)));
        }
        let kept: T =
            serde_json::from_slice(&text).map_err(|error| self.refuse(path, &error.to_string()))?;
        if schema_of(&kept) == self.schema {
            Ok(kept)
        } else {
            Err(self.refuse(path, &format!("its schema is not {}", self.schema)))
        }
    }

    /// Returns the error for a file of another kind.
    pub fn refuse(&self, path: &Path, why: &str) -> anyhow::Error {
        usage_refusal(format!("{}: not {} ({why})", path.display(), self.what))
    }
}
