//! Kinds of files that vitalfew's commands write, recognised by their first bytes.

use crate::refusal::usage_refusal;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Number of bytes at the start of a file within which every kind can be recognised.
const HEAD_BYTES: u64 = 4096;

/// Returns whether a path is one of our recordings: a directory, or a zip file. Readers recognise
/// all other formats.
pub fn is_recording(path: &Path) -> bool {
    let mut magic = [0; 4];
    if path.is_dir() {
        return true;
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"PK\x03\x04"
}

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
    /// A measurement of `check`.
    Check,
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

    /// Refuses a file of another kind, if the kind is known: says what it is, and which command
    /// shows it. A directory or a missing file is left to its reader.
    ///
    /// # Errors
    /// If the file is of another kind.
    pub fn expect_file(self, path: &Path) -> anyhow::Result<()> {
        let kind = Self::of_file(path).unwrap_or(Self::Foreign);
        let (what, command) = match kind {
            _ if kind == self => return Ok(()),
            Self::Foreign => return Ok(()),
            Self::Recording => ("a recording", "report"),
            Self::Causal => ("a causal profile", "causal report"),
            Self::Interference => ("what vitalfew interference run kept", "interference report"),
            Self::Run => ("a result of vitalfew run", "run --show"),
            Self::Check => ("a measurement of vitalfew check", "check --against"),
            Self::OtherJson => ("a result that a command wrote with --json", "serve"),
        };
        let path = path.display();
        let command = match kind {
            Self::Check => format!("{command} {path} -- COMMAND compares with"),
            _ => format!("{command} {path} shows"),
        };
        Err(usage_refusal(format!(
            "{path} is {what}: vitalfew {command} it"
        )))
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
            Some(("check", _)) => Self::Check,
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
            ("{\"schema\":\"vitalfew.check/1\",", ResultKind::Check),
            (
                "{\"schema\":\"vitalfew.check-result/1\",",
                ResultKind::OtherJson,
            ),
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

    #[test]
    fn a_file_of_another_kind_is_named_with_the_command_that_shows_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path();
        std::fs::write(path, "{\"schema\":\"vitalfew.run/2\"}").expect("written");
        let error = ResultKind::Recording.expect_file(path).expect_err("a run");
        let name = path.display();
        assert_eq!(
            error.to_string(),
            format!("{name} is a result of vitalfew run: vitalfew run --show {name} shows it")
        );
        assert!(ResultKind::Run.expect_file(path).is_ok());
        std::fs::write(path, "main;f 12\n").expect("written");
        assert!(ResultKind::Run.expect_file(path).is_ok());
    }
}
