//! Recognition of files that are not recordings.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// First bytes of files, and the kind of file.
const KNOWN: &[(&[u8], &str)] = &[
    (b"PERFILE2", "made by perf"),
    (
        b"2ELIFREP",
        "made by perf on a machine of the other byte order",
    ),
    (b"\x1f\x8b", "compressed by gzip, perhaps a pprof profile"),
    (
        b"\x7fELF",
        "a program or library, not what was measured of it",
    ),
    (
        b"PAR1",
        "a single Parquet table: name the directory that it is in",
    ),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"startup\t", "a causal profile made by Coz"),
    (b"JiTD", "a jitdump file"),
    (
        b"{",
        "JSON, perhaps a profile of Firefox, speedscope or Chromium",
    ),
];

/// Returns the kind of file that it looks like if it is no zip archive; `None` if it is one.
pub(crate) fn foreign_format(file: &File) -> io::Result<Option<&'static str>> {
    let mut start = [0; 16];
    let mut len = 0;
    while len < start.len() {
        match file.read_at(&mut start[len..], len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(format_name(&start[..len]))
}

fn format_name(start: &[u8]) -> Option<&'static str> {
    // The second is an archive without entries.
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return None;
    }
    let known = KNOWN.iter().find(|(magic, _)| start.starts_with(magic));
    Some(match known {
        Some((_, looks_like)) => looks_like,
        None if start.is_empty() => "empty",
        None if b"PK\x03\x04".starts_with(start) => "cut short after its first bytes",
        None if start
            .iter()
            .all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) =>
        {
            "text, perhaps folded stacks or the output of perf script"
        }
        None => "of an unknown kind",
    })
}
