//! Kinds of files that vitalfew's commands write, recognised by their first bytes.

use crate::tree::is_recording;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Number of bytes at the start of a file within which every kind can be recognised.
const HEAD_BYTES: u64 = 4096;

/// The kind of a file, which determines the command that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// A recording, or a database of them.
    Recording,
    /// A causal profile, of vitalfew or of Coz.
    Causal,
    /// A trace or a result of `interference run`.
    Interference,
    /// A result of `run`.
    Run,
    /// JSON that another command of vitalfew wrote.
    OtherJson,
    /// Any other file: another tool's profile, if it can be read at all.
    Foreign,
}

impl ResultKind {
    /// Reads the kind of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        if metadata.is_dir() {
            return Ok(Self::Recording);
        }
        // Data from a pipe is gone once read, and its other end may never write.
        if !metadata.is_file() {
            return Ok(Self::Foreign);
        }
        if is_recording(path) {
            return Ok(Self::Recording);
        }
        let mut head = Vec::new();
        File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self::of_head(&head))
    }

    fn of_head(head: &[u8]) -> Self {
        if store::is_causal(head) || formats::coz::is_coz(head) {
            return Self::Causal;
        }
        if store::is_trace(head) || store::is_interference(head) {
            return Self::Interference;
        }
        let text: String = String::from_utf8_lossy(head).split_whitespace().collect();
        let schema = text
            .starts_with('{')
            .then(|| text.split_once("\"schema\":\"vitalfew.")?.1.split_once('/'))
            .flatten();
        match schema {
            Some(("run", _)) => Self::Run,
            Some(_) => Self::OtherJson,
            None => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_leaves_another_kind() {
        for (head, kind) in [
            ("{\n  \"schema\": \"vitalfew.run/2\",", ResultKind::Run),
            ("{\"schema\":\"vitalfew.diff/2\",", ResultKind::OtherJson),
            (
                "{\"format\":\"vitalfew-causal-profile\",\"version\":1",
                ResultKind::Causal,
            ),
            ("startup\ttime=1\n", ResultKind::Causal),
            (
                "{\"format\":\"vitalfew-interference\",\"version\":1",
                ResultKind::Interference,
            ),
            ("main;f 12\n", ResultKind::Foreign),
            ("[\"schema\":\"vitalfew.run/2\"]", ResultKind::Foreign),
            ("", ResultKind::Foreign),
        ] {
            assert_eq!(ResultKind::of_head(head.as_bytes()), kind, "{head}");
        }
    }
}
