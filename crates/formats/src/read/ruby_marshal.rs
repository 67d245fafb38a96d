//! stackprof's own files: a hash with the profile, written by Ruby's `Marshal.dump`.

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use super::stackprof::{StackprofFrame, StackprofProfile, build_tree};
use std::rc::Rc;

/// A file needs several times its size while it is read.
const MEMORY_FOR_BYTE: u64 = 64;
/// Maximum nesting of values: a hash of hashes of hashes.
const DEPTH: usize = 12;

/// Returns whether bytes are a dumped hash with the keys of a profile.
pub(crate) fn detect_ruby_marshal(head: &[u8]) -> bool {
    let has = |key: &[u8]| head.windows(key.len()).any(|part| part == key);
    head.starts_with(b"\x04\x08{") && has(b":\x0cversion") && has(b":\x09mode")
}

/// A value of Ruby; objects of other classes are [`Self::Other`].
#[derive(Clone, Debug)]
enum RubyValue {
    Other,
    Number(f64),
    Text(Rc<str>),
    Array(Rc<[RubyValue]>),
    Hash(Rc<[(RubyValue, RubyValue)]>),
}

impl RubyValue {
    fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn as_hash(&self) -> &[(RubyValue, RubyValue)] {
        match self {
            Self::Hash(entries) => entries,
            _ => &[],
        }
    }

    fn get_key(&self, key: &str) -> Option<&RubyValue> {
        let entry = self
            .as_hash()
            .iter()
            .find(|(k, _)| k.as_text() == Some(key));
        entry.map(|(_, value)| value)
    }
}

struct RubyUnmarshal<'b> {
    bytes: &'b [u8],
    at: usize,
    symbols: Vec<RubyValue>,
    objects: Vec<RubyValue>,
}

impl RubyUnmarshal<'_> {
    fn position(&self) -> FilePosition {
        FilePosition::Offset(self.at as u64)
    }

    fn take_bytes(&mut self, length: usize) -> Result<&[u8], ReadFault> {
        let at = self.position();
        let end = self.at.checked_add(length);
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| ReadFault::damaged("cut short", at))?;
        self.at += length;
        Ok(part)
    }

    fn read_byte(&mut self) -> Result<u8, ReadFault> {
        Ok(self.take_bytes(1)?.first().copied().unwrap_or(0))
    }

    /// Reads a number of up to four bytes; the first one is their number or the value.
    fn read_fixnum(&mut self) -> Result<i64, ReadFault> {
        let first = self.read_byte()?.cast_signed();
        match first {
            0 => Ok(0),
            1..=4 => {
                let bytes = self.take_bytes(first.unsigned_abs().into())?;
                Ok(bytes.iter().rev().fold(0, |n, b| n << 8 | i64::from(*b)))
            }
            -4..=-1 => {
                let bytes = self.take_bytes(first.unsigned_abs().into())?;
                Ok(bytes.iter().rev().fold(-1, |n, b| n << 8 | i64::from(*b)))
            }
            5.. => Ok(i64::from(first) - 5),
            _ => Ok(i64::from(first) + 5),
        }
    }

    fn read_length(&mut self) -> Result<usize, ReadFault> {
        let at = self.position();
        usize::try_from(self.read_fixnum()?)
            .map_err(|_| ReadFault::damaged("a negative length", at))
    }

    fn read_text(&mut self) -> Result<RubyValue, ReadFault> {
        let length = self.read_length()?;
        let text = String::from_utf8_lossy(self.take_bytes(length)?);
        Ok(RubyValue::Text(text.into()))
    }

    /// Reserves the number of an object, which comes before those of its parts.
    fn reserve_slot(&mut self) -> usize {
        self.objects.push(RubyValue::Other);
        self.objects.len() - 1
    }

    fn keep_object(&mut self, slot: usize, value: RubyValue) -> RubyValue {
        if let Some(entry) = self.objects.get_mut(slot) {
            *entry = value.clone();
        }
        value
    }

    fn read_value(&mut self, depth: usize) -> Result<RubyValue, ReadFault> {
        let at = self.position();
        if depth > DEPTH {
            return Err(ReadFault::damaged(
                "values nested deeper than in a profile",
                at,
            ));
        }
        match self.read_byte()? {
            b'0' | b'T' | b'F' => Ok(RubyValue::Other),
            b'i' => Ok(RubyValue::Number(self.read_fixnum()? as f64)),
            b':' => {
                let text = self.read_text()?;
                self.symbols.push(text.clone());
                Ok(text)
            }
            b';' => {
                let index = self.read_length()?;
                let symbol = self.symbols.get(index).cloned();
                symbol.ok_or_else(|| ReadFault::damaged("a symbol that was not given before", at))
            }
            b'@' => {
                let index = self.read_length()?;
                let object = self.objects.get(index).cloned();
                object.ok_or_else(|| ReadFault::damaged("an object that was not given before", at))
            }
            // Text with its encoding.
            b'I' => {
                let value = self.read_value(depth + 1)?;
                for _ in 0..self.read_length()? {
                    self.read_value(depth + 1)?;
                    self.read_value(depth + 1)?;
                }
                Ok(value)
            }
            kind => {
                let slot = self.reserve_slot();
                let value = self.read_object(kind, at, depth)?;
                Ok(self.keep_object(slot, value))
            }
        }
    }

    /// Returns the next value, of a kind to which later values can refer.
    fn read_object(
        &mut self,
        kind: u8,
        at: FilePosition,
        depth: usize,
    ) -> Result<RubyValue, ReadFault> {
        match kind {
            b'"' => self.read_text(),
            b'f' => {
                let text = self.read_text()?;
                let number = text.as_text().and_then(|text| text.parse().ok());
                Ok(RubyValue::Number(number.unwrap_or(f64::NAN)))
            }
            b'l' => {
                let negative = self.read_byte()? == b'-';
                let length = self.read_length()?.saturating_mul(2);
                let digits = self.take_bytes(length)?.iter().rev();
                let number = digits.fold(0.0, |n: f64, b| n * 256.0 + f64::from(*b));
                Ok(RubyValue::Number(if negative { -number } else { number }))
            }
            b'[' => {
                let mut all = Vec::new();
                for _ in 0..self.read_length()? {
                    all.push(self.read_value(depth + 1)?);
                }
                Ok(RubyValue::Array(all.into()))
            }
            b'{' | b'}' => {
                let mut entries = Vec::new();
                for _ in 0..self.read_length()? {
                    entries.push((self.read_value(depth + 1)?, self.read_value(depth + 1)?));
                }
                // The default value of a hash.
                if kind == b'}' {
                    self.read_value(depth + 1)?;
                }
                Ok(RubyValue::Hash(entries.into()))
            }
            kind => {
                let what = format!(
                    "a value of kind {:?}, which profiles do not have",
                    char::from(kind)
                );
                Err(ReadFault::damaged(what, at))
            }
        }
    }
}

pub(crate) fn read_ruby_marshal(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let bytes = input.read_whole(options.limits.memory / MEMORY_FOR_BYTE)?;
    let mut unmarshal = RubyUnmarshal {
        bytes: &bytes,
        // After the version of the format.
        at: 2,
        symbols: Vec::new(),
        objects: Vec::new(),
    };
    let document = unmarshal.read_value(0)?;
    let number = |value: Option<&RubyValue>| value.and_then(RubyValue::as_number);
    let text = |value: Option<&RubyValue>| {
        value
            .and_then(RubyValue::as_text)
            .unwrap_or_default()
            .to_owned()
    };
    let mut profile = StackprofProfile {
        mode: text(document.get_key("mode")),
        interval: number(document.get_key("interval")).unwrap_or(1.0),
        ..StackprofProfile::default()
    };
    if let Some(RubyValue::Array(raw)) = document.get_key("raw") {
        let numbers = raw
            .iter()
            .map(|value| value.as_number().unwrap_or(0.0) as u64);
        profile.raw = Some(numbers.collect());
    }
    for (id, frame) in document
        .get_key("frames")
        .map_or(&[][..], RubyValue::as_hash)
    {
        let Some(id) = id.as_number() else { continue };
        let frame = StackprofFrame {
            name: text(frame.get_key("name")),
            file: text(frame.get_key("file")),
            line: number(frame.get_key("line")).map(|line| line as i64),
            samples: number(frame.get_key("samples")).unwrap_or(0.0) as i64,
        };
        profile.frames.insert(id as u64, frame);
    }
    build_tree(&profile, options, bytes.len() as u64 * MEMORY_FOR_BYTE)
}
