//! Text output: numbers with separators and units, clean names; files written whole.

use anyhow::Context;
use rustix::fs::Mode;
use rustix::process::umask;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::Path;
use whole_file::WholeFile;

pub use crate::printable::{clean_name, is_deceptive};
pub use crate::table::{Align, Table, shorten_middle};
pub use results::phrases::{count_noun, format_bytes, format_ns, group_digits};

/// Writes a result, through a buffer.
pub fn write_all(
    out: &mut impl Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Writes a documented JSON form, for people and programs.
pub fn write_json(out: &mut dyn Write, json: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, json)?;
    writeln!(out)
}

/// Writes a file, whole or not at all.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let result = WholeFile::create(path)
        .map_err(anyhow::Error::from)
        .and_then(|mut file| {
            write_all(&mut file, write)?;
            Ok(file.commit()?)
        });
    result.with_context(|| format!("writing {}", path.display()))
}

/// Makes all files that this process creates private to their owner, because not everybody may know
/// what runs on a machine.
pub fn create_private_files() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Quotes words for a shell.
pub fn shell_words(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    quoted.join(" ")
}

/// Returns ` --db DIR` for a next command if the user has named a database.
pub fn database_option() -> String {
    store::named_database().map_or_else(String::new, |path| {
        let path = path.display().to_string();
        format!(" --db {}", shell_word(&store::with_addresses(&path)))
    })
}

fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(format_ns(1_500_000_000.0), "1.50 s");
        assert_eq!(format_ns(999.0), "999 ns");
        assert_eq!(format_ns(0.0), "0 s");
        assert_eq!(format_bytes(123), "123 B");
        assert_eq!(format_bytes(12_345), "12.3 kB");
    }

    #[test]
    fn names_neither_steer_the_terminal_nor_deceive_its_reader() {
        assert_eq!(clean_name("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(clean_name("std::vec<é, 語>"), "std::vec<é, 語>");
        let hostile = "\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{200e}\u{202e}\u{2028}\u{2066}\u{2069}\u{feff}\u{fdd0}\u{e0041}\u{1ffff}";
        assert!(clean_name(hostile).chars().all(|c| c == '\u{fffd}'));
    }
}
