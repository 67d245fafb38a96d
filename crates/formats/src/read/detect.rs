//! Recognition of formats by the first bytes.

use super::draft::TreeDraft;
use super::error::ReadFault;
use super::input::{HEAD, ProfileInput};
use super::options::ReadOptions;
use super::time_axis::TimeRange;
use super::{
    austin, callgrind, folded, ghc, gperftools, jfr, json, otlp, perf_data, perf_script, pprof,
    pstats, ruby_marshal, v8_log,
};
use std::path::Path;

/// The first bytes of a file, decompressed.
pub(crate) struct Head<'h> {
    pub bytes: &'h [u8],
    /// True if the file has no more bytes.
    pub is_whole: bool,
    /// The complete lines of these bytes, if they are text.
    pub text: Option<&'h str>,
}

/// A tree, and the name of its format.
type NamedDraft = (TreeDraft, &'static str);

/// The kind of reader of a format.
pub(crate) enum ReadWith {
    Bytes(fn(&mut ProfileInput, &ReadOptions) -> Result<TreeDraft, ReadFault>),
    /// Several formats in one, distinguished while they are read.
    Several(fn(&mut ProfileInput, &ReadOptions) -> Result<NamedDraft, ReadFault>),
    /// A format that, if times are requested, is read twice: first for the range of its times.
    Timed(
        fn(&Path, &ReadOptions) -> Result<TimeRange, ReadFault>,
        fn(&mut ProfileInput, TimeRange, &ReadOptions) -> Result<TreeDraft, ReadFault>,
    ),
    /// A format that is read more than once, so the input must be a file.
    File(fn(&Path, &ReadOptions) -> Result<TreeDraft, ReadFault>),
}

/// A readable format.
pub(crate) struct FormatReader {
    pub name: &'static str,
    is_format: fn(&Head<'_>) -> bool,
    pub read: ReadWith,
}

/// All readers. The first that accepts a file reads it, so formats with less distinct beginnings
/// come last.
const READERS: &[FormatReader] = &[
    FormatReader {
        name: "perf.data",
        is_format: |head| {
            head.bytes.starts_with(b"PERFILE2") || head.bytes.starts_with(b"2ELIFREP")
        },
        read: ReadWith::File(perf_data::read_perf_data),
    },
    FormatReader {
        name: "JFR",
        is_format: |head| head.bytes.starts_with(b"FLR\0"),
        read: ReadWith::Timed(jfr::read_jfr_times, jfr::read_jfr),
    },
    FormatReader {
        name: gperftools::NAME,
        is_format: |head| match head.text {
            Some(text) => gperftools::detect_text(text),
            None => gperftools::detect_binary(head.bytes),
        },
        read: ReadWith::Bytes(gperftools::read_gperftools),
    },
    FormatReader {
        name: "nested JSON profile",
        is_format: |head| head.text.is_some_and(json::detect_nested),
        read: ReadWith::Several(json::read_nested),
    },
    FormatReader {
        name: json::NAME,
        is_format: |head| head.text.is_some_and(is_json),
        read: ReadWith::Several(json::read_json),
    },
    FormatReader {
        name: "V8 log",
        is_format: |head| head.text.is_some_and(v8_log::detect_v8_log),
        read: ReadWith::Bytes(v8_log::read_v8_log),
    },
    FormatReader {
        name: "GHC profile",
        is_format: |head| head.text.is_some_and(ghc::detect_ghc),
        read: ReadWith::Bytes(ghc::read_ghc),
    },
    FormatReader {
        name: "callgrind",
        is_format: |head| head.text.is_some_and(is_callgrind),
        read: ReadWith::Bytes(callgrind::read_callgrind),
    },
    // Before folded stacks, because a frame's address may look like a value.
    FormatReader {
        name: "perf script",
        is_format: |head| head.text.is_some_and(perf_script::detect_perf_script),
        read: ReadWith::Bytes(perf_script::read_perf_script),
    },
    FormatReader {
        name: "Austin samples",
        is_format: |head| head.text.is_some_and(austin::detect_austin),
        read: ReadWith::Bytes(austin::read_austin),
    },
    FormatReader {
        name: "folded stacks",
        is_format: |head| head.text.is_some_and(is_folded),
        read: ReadWith::Bytes(folded::read_folded),
    },
    FormatReader {
        name: "pstats",
        is_format: |head| pstats::detect_pstats(head.bytes),
        read: ReadWith::Bytes(pstats::read_pstats),
    },
    FormatReader {
        name: "stackprof",
        is_format: |head| ruby_marshal::detect_ruby_marshal(head.bytes),
        read: ReadWith::Bytes(ruby_marshal::read_ruby_marshal),
    },
    FormatReader {
        name: "OTLP profiles",
        is_format: |head| head.text.is_none() && otlp::detect_otlp(head.bytes, head.is_whole),
        read: ReadWith::Bytes(otlp::read_otlp),
    },
    // Text may look like protobuf, but a profile in protobuf never looks like text.
    FormatReader {
        name: "pprof",
        is_format: |head| head.text.is_none() && pprof::detect_pprof(head.bytes, head.is_whole),
        read: ReadWith::Bytes(pprof::read_pprof),
    },
];

/// First bytes of files that are no profiles or of unsupported formats, and the kind of file.
const FOREIGN: &[(&[u8], &str)] = &[
    (b"PK\x03\x04", "it is a zip archive"),
    (
        b"\x7fELF",
        "it is a program or library, not what was measured of it",
    ),
    (
        b"PAR1",
        "it is a Parquet table; name the recording that it is part of",
    ),
    (b"SQLite format 3\0", "it is an SQLite database"),
    (b"JiTD", "it is a jitdump file"),
    (b"startup\t", "it is a causal profile made by Coz"),
    (
        b"SLOW",
        "it is a method trace of Android's ART, which is not read",
    ),
    (
        b"SIMPLEPERF",
        "it is a recording of simpleperf, which is not read",
    ),
    (
        b"CUBEX",
        "it is a Cube profile of Score-P, which is not read",
    ),
    (b"<?xml", "it is XML, which is not read"),
    (
        b"FLR\0\0\0",
        "it is a flight recording of Oracle's JDK 7 or 8 (format 0.9), which is not read; JDK 8u262 and later write format 2, which is",
    ),
];

/// Returns the reader of a file that begins with `head`, or the kind of file that it looks like.
pub(crate) fn find_reader(head: &[u8]) -> Result<&'static FormatReader, &'static str> {
    if head.is_empty() {
        return Err("it is empty");
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(what);
    }
    let text = whole_lines(head);
    let head = Head {
        bytes: head,
        is_whole: (head.len() as u64) < HEAD,
        text: text.as_deref(),
    };
    let reader = READERS.iter().find(|reader| (reader.is_format)(&head));
    reader.ok_or(match head.text {
        Some(_) => "it is text of an unknown kind",
        None => "it is binary, of an unknown kind",
    })
}

/// Returns whether a text begins like an object or an array of objects. Frames of folded stacks may
/// begin with brackets too: `[unknown]`, `{closure#0}`.
fn is_json(text: &str) -> bool {
    let mut signs = text.chars().filter(|c| !c.is_whitespace());
    match (signs.next(), signs.next()) {
        (Some('{'), Some(next)) => next == '"' || next == '}',
        (Some('['), Some(next)) => next == '{' || next == ']',
        _ => false,
    }
}

fn is_callgrind(text: &str) -> bool {
    let begins = |key: &str| text.lines().any(|line| line.starts_with(key));
    text.starts_with("# callgrind format")
        || begins("events:") && (begins("fn=") || begins("positions:"))
}

/// Returns whether most lines of a text end in a number, or the text begins with a stack longer
/// than the available part.
fn is_folded(text: &str) -> bool {
    let (mut stacks, mut others) = (0_u64, 0_u64);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if folded::is_comment(line) {
            continue;
        }
        match folded::split_value(line) {
            Some(_) => stacks += 1,
            None => others += 1,
        }
    }
    stacks > 0 && stacks >= others || !text.contains('\n') && text.contains(';')
}

/// Returns the complete lines of a text; `None` if it has none.
fn whole_lines(head: &[u8]) -> Option<String> {
    let odd = |b: &u8| *b < b' ' && !matches!(b, b'\t' | b'\n' | b'\r' | 0x1b);
    if head.iter().any(odd) {
        return None;
    }
    let end = head
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(head.len(), |end| end + 1);
    Some(String::from_utf8_lossy(head.get(..end)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_row_in_the_docs() {
        let docs = include_str!("../../../../docs/formats.md");
        for reader in READERS {
            // Formats in JSON have names of their own, determined by the content.
            if matches!(reader.read, ReadWith::Several(_)) {
                continue;
            }
            let row = format!("\n| {}", reader.name);
            assert!(docs.contains(&row), "docs/formats.md: {}", reader.name);
        }
    }
}
