//! Text for people: numbers with separators and units, clean names; files written whole.

use anyhow::Context;
use rustix::fs::Mode;
use rustix::process::umask;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub use crate::table::{Align, Table, shortened};

/// 1234567 as 1,234,567.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds as a time with three digits: 1.50 s, 12.3 ms.
pub fn time(ns: f64) -> String {
    if ns == 0.0 {
        return "0 s".to_owned();
    }
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Bytes with a unit.
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Cleans a name from outside for a terminal: each character that steers the terminal, turns the
/// direction of the text round or cannot be seen becomes U+FFFD. Every command shows names through
/// this function.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_deceptive(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Returns whether a character does something other than to stand for itself: control characters (Cc),
/// direction marks and other invisible format characters (Cf), line separators, noncharacters.
pub fn is_deceptive(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    let noncharacter = matches!(c, '\u{fdd0}'..='\u{fdef}') || c as u32 & 0xfffe == 0xfffe;
    c.is_control() || invisible || noncharacter
}

/// Writes a result, through a buffer.
pub fn write_all(
    out: &mut impl Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Writes a file, whole or not at all: beside it, then in its place.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}", std::process::id()));
    let result = File::create(&temporary)
        .map_err(anyhow::Error::from)
        .and_then(|mut file| write_all(&mut file, write))
        .and_then(|()| Ok(std::fs::rename(&temporary, path)?));
    if let Err(error) = result {
        let _ = std::fs::remove_file(&temporary);
        return Err(error).with_context(|| format!("writing {}", path.display()));
    }
    Ok(())
}

/// Lets all files that this process creates be its owner's alone. What runs on a machine is not for everybody to know.
pub fn create_private_files() {
    umask(Mode::RWXG | Mode::RWXO);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(time(1_500_000_000.0), "1.50 s");
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(0.0), "0 s");
        assert_eq!(bytes(123), "123 B");
        assert_eq!(bytes(12_345), "12.3 kB");
    }

    #[test]
    fn names_neither_steer_the_terminal_nor_deceive_its_reader() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(printable("std::vec<é, 語>"), "std::vec<é, 語>");
        let hostile = "\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{200e}\u{202e}\u{2028}\u{2066}\u{2069}\u{feff}\u{fdd0}\u{e0041}\u{1ffff}";
        assert!(printable(hostile).chars().all(|c| c == '\u{fffd}'));
    }
}
