//! What a file is, by its first bytes.

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Jfr,
    Callgrind,
    PerfData,
    PerfScript,
    Pprof,
    Folded,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => super::json::NAME,
            Self::Jfr => "JFR",
            Self::Callgrind => "callgrind",
            Self::PerfData => "perf.data",
            Self::PerfScript => "perf script",
            Self::Pprof => "pprof",
            Self::Folded => "folded stacks",
        }
    }
}

/// First bytes of what is no profile that is read here, and what begins with them.
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
];

/// The format of a file that begins with `head`, or what the file looks like.
pub(crate) fn format(head: &[u8]) -> Result<Format, &'static str> {
    if head.is_empty() {
        return Err("it is empty");
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(what);
    }
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Ok(Format::PerfData);
    }
    if head.starts_with(b"FLR\0") {
        return Ok(Format::Jfr);
    }
    // Text, of which no profile in protobuf consists, may look like protobuf, but not the reverse.
    match text(head) {
        Some(text) => text_format(&text),
        None if super::pprof::detect(head, (head.len() as u64) < super::input::HEAD) => {
            Ok(Format::Pprof)
        }
        None => Err("it is binary, of an unknown kind"),
    }
}

fn text_format(text: &str) -> Result<Format, &'static str> {
    if is_json(text) {
        return Ok(Format::Json);
    }
    if is_callgrind(text) {
        return Ok(Format::Callgrind);
    }
    // Before folded stacks, for the address of a frame may look like a value.
    if text
        .lines()
        .take(1000)
        .any(|line| super::perf_script::Header::parse(line).is_some())
    {
        return Ok(Format::PerfScript);
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    if lines.any(|line| super::folded::split(line).is_some()) {
        return Ok(Format::Folded);
    }
    // A first stack may be longer than what we have of it.
    if !text.contains('\n') && text.contains(';') {
        return Ok(Format::Folded);
    }
    Err("it is text of an unknown kind")
}

/// Whether a text begins as an object or an array of objects does. Frames of folded stacks may begin
/// with brackets too: `[unknown]`, `{closure#0}`.
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

/// The whole lines of a text; `None` if it is none.
fn text(head: &[u8]) -> Option<String> {
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
