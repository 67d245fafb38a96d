//! Finds the file of a command's name, and the interpreter of a script.

use super::images::open_regular;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Number of bytes of a script's first line that the kernel reads.
const SCRIPT_HEAD: usize = 256;

/// Returns the words of a command as text, as they are stored and printed.
pub fn command_text(command: &[OsString]) -> Vec<String> {
    let words = command.iter();
    words.map(|word| word.to_string_lossy().into()).collect()
}

/// Returns the name of a command's program as text.
pub fn program_text(command: &[OsString]) -> String {
    command_text(command.get(..1).unwrap_or_default()).concat()
}

/// Finds the file of a command's name, as execvp(3) does: a name with a slash is a path.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    places.find(|place| {
        let can_be_executed = |mode: u32| mode & 0o111 != 0;
        place
            .metadata()
            .is_ok_and(|found| found.is_file() && can_be_executed(found.permissions().mode()))
    })
}

/// Returns the text after `#!` in the first line of a file; `None` if it is no script.
pub(crate) fn interpreter_line(file: &File) -> io::Result<Option<String>> {
    let mut head = [0; SCRIPT_HEAD];
    let length = file.read_at(&mut head, 0)?;
    let line = head[..length].split(|byte| *byte == b'\n').next();
    let named = line.and_then(|line| line.strip_prefix(b"#!"));
    Ok(named.map(|named| String::from_utf8_lossy(named).trim().to_owned()))
}

/// As [`interpreter_line`], for the script at a path; `None` also if it cannot be read.
pub(crate) fn script_interpreter(path: &Path) -> Option<String> {
    interpreter_line(&open_regular(path)?).ok()?
}
