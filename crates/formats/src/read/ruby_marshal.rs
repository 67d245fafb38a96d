//! stackprof's own files: what Ruby's `Marshal.dump` writes of a hash with the profile.

use super::draft::Draft;
use super::error::{Fault, Place};
use super::input::Input;
use super::options::ReadOptions;
use super::stackprof::{StackprofFrame, StackprofProfile, build};
use std::rc::Rc;

/// A file needs several times its size while it is read.
const MEMORY_FOR_BYTE: u64 = 64;
/// Values inside each other: a hash of hashes of hashes.
const DEPTH: usize = 12;

/// Returns whether bytes are a dumped hash with the keys of a profile.
pub(crate) fn detect(head: &[u8]) -> bool {
    let has = |key: &[u8]| head.windows(key.len()).any(|part| part == key);
    head.starts_with(b"\x04\x08{") && has(b":\x0cversion") && has(b":\x09mode")
}

/// A value of Ruby's; objects of other classes are [`Self::Other`].
#[derive(Clone, Debug)]
enum RubyValue {
    Other,
    Number(f64),
    Text(Rc<str>),
    Array(Rc<[RubyValue]>),
    Hash(Rc<[(RubyValue, RubyValue)]>),
}

impl RubyValue {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn hash(&self) -> &[(RubyValue, RubyValue)] {
        match self {
            Self::Hash(entries) => entries,
            _ => &[],
        }
    }

    fn get(&self, key: &str) -> Option<&RubyValue> {
        let entry = self.hash().iter().find(|(k, _)| k.text() == Some(key));
        entry.map(|(_, value)| value)
    }
}

struct Unmarshal<'b> {
    bytes: &'b [u8],
    at: usize,
    symbols: Vec<RubyValue>,
    objects: Vec<RubyValue>,
}

impl Unmarshal<'_> {
    fn place(&self) -> Place {
        Place::Offset(self.at as u64)
    }

    fn take(&mut self, length: usize) -> Result<&[u8], Fault> {
        let at = self.place();
        let end = self.at.checked_add(length);
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| Fault::damaged("cut short", at))?;
        self.at += length;
        Ok(part)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    /// A number of up to four bytes, the first of which says how many there are or is the number.
    fn fixnum(&mut self) -> Result<i64, Fault> {
        let first = self.byte()?.cast_signed();
        match first {
            0 => Ok(0),
            1..=4 => {
                let bytes = self.take(first.unsigned_abs().into())?;
                Ok(bytes.iter().rev().fold(0, |n, b| n << 8 | i64::from(*b)))
            }
            -4..=-1 => {
                let bytes = self.take(first.unsigned_abs().into())?;
                Ok(bytes.iter().rev().fold(-1, |n, b| n << 8 | i64::from(*b)))
            }
            5.. => Ok(i64::from(first) - 5),
            _ => Ok(i64::from(first) + 5),
        }
    }

    fn length(&mut self) -> Result<usize, Fault> {
        let at = self.place();
        usize::try_from(self.fixnum()?).map_err(|_| Fault::damaged("a negative length", at))
    }

    fn text(&mut self) -> Result<RubyValue, Fault> {
        let length = self.length()?;
        let text = String::from_utf8_lossy(self.take(length)?);
        Ok(RubyValue::Text(text.into()))
    }

    /// Gives an object its number, which comes before those of its parts.
    fn reserve(&mut self) -> usize {
        self.objects.push(RubyValue::Other);
        self.objects.len() - 1
    }

    fn keep(&mut self, slot: usize, value: RubyValue) -> RubyValue {
        if let Some(entry) = self.objects.get_mut(slot) {
            *entry = value.clone();
        }
        value
    }

    fn value(&mut self, depth: usize) -> Result<RubyValue, Fault> {
        let at = self.place();
        if depth > DEPTH {
            return Err(Fault::damaged("values nested deeper than in a profile", at));
        }
        match self.byte()? {
            b'0' | b'T' | b'F' => Ok(RubyValue::Other),
            b'i' => Ok(RubyValue::Number(self.fixnum()? as f64)),
            b':' => {
                let text = self.text()?;
                self.symbols.push(text.clone());
                Ok(text)
            }
            b';' => {
                let index = self.length()?;
                let symbol = self.symbols.get(index).cloned();
                symbol.ok_or_else(|| Fault::damaged("a symbol that was not given before", at))
            }
            b'@' => {
                let index = self.length()?;
                let object = self.objects.get(index).cloned();
                object.ok_or_else(|| Fault::damaged("an object that was not given before", at))
            }
            // Text with its encoding.
            b'I' => {
                let value = self.value(depth + 1)?;
                for _ in 0..self.length()? {
                    self.value(depth + 1)?;
                    self.value(depth + 1)?;
                }
                Ok(value)
            }
            b'"' => {
                let slot = self.reserve();
                let text = self.text()?;
                Ok(self.keep(slot, text))
            }
            b'f' => {
                let slot = self.reserve();
                let text = self.text()?;
                let number = text
                    .text()
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(f64::NAN);
                Ok(self.keep(slot, RubyValue::Number(number)))
            }
            b'l' => {
                let slot = self.reserve();
                let negative = self.byte()? == b'-';
                let length = self.length()?.saturating_mul(2);
                let digits = self.take(length)?;
                let number = digits
                    .iter()
                    .rev()
                    .fold(0.0, |n: f64, b| n * 256.0 + f64::from(*b));
                let number = if negative { -number } else { number };
                Ok(self.keep(slot, RubyValue::Number(number)))
            }
            b'[' => {
                let slot = self.reserve();
                let mut all = Vec::new();
                for _ in 0..self.length()? {
                    all.push(self.value(depth + 1)?);
                }
                Ok(self.keep(slot, RubyValue::Array(all.into())))
            }
            kind @ (b'{' | b'}') => {
                let slot = self.reserve();
                let mut entries = Vec::new();
                for _ in 0..self.length()? {
                    entries.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                // What it gives for keys that it does not have.
                if kind == b'}' {
                    self.value(depth + 1)?;
                }
                Ok(self.keep(slot, RubyValue::Hash(entries.into())))
            }
            kind => {
                let what = format!(
                    "a value of kind {:?}, which profiles do not have",
                    char::from(kind)
                );
                Err(Fault::damaged(what, at))
            }
        }
    }
}

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let bytes = input.read_whole(options.limits.memory / MEMORY_FOR_BYTE)?;
    let mut unmarshal = Unmarshal {
        bytes: &bytes,
        // Behind the version of the format.
        at: 2,
        symbols: Vec::new(),
        objects: Vec::new(),
    };
    let document = unmarshal.value(0)?;
    let number = |value: Option<&RubyValue>| value.and_then(RubyValue::number);
    let text = |value: Option<&RubyValue>| {
        value
            .and_then(RubyValue::text)
            .unwrap_or_default()
            .to_owned()
    };
    let mut profile = StackprofProfile {
        mode: text(document.get("mode")),
        interval: number(document.get("interval")).unwrap_or(1.0),
        ..StackprofProfile::default()
    };
    if let Some(RubyValue::Array(raw)) = document.get("raw") {
        let numbers = raw.iter().map(|value| value.number().unwrap_or(0.0) as u64);
        profile.raw = Some(numbers.collect());
    }
    for (id, frame) in document.get("frames").map_or(&[][..], RubyValue::hash) {
        let Some(id) = id.number() else { continue };
        let frame = StackprofFrame {
            name: text(frame.get("name")),
            file: text(frame.get("file")),
            line: number(frame.get("line")).map(|line| line as i64),
            samples: number(frame.get("samples")).unwrap_or(0.0) as i64,
        };
        profile.frames.insert(id as u64, frame);
    }
    build(&profile, options, bytes.len() as u64 * MEMORY_FOR_BYTE)
}
