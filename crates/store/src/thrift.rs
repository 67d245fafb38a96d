//! The compact Thrift protocol, as far as Parquet's footers and page headers use it.

use crate::error::Fault;

/// Structs in lists in structs: a footer nests six deep.
const MAX_DEPTH: usize = 16;

/// The largest struct of the format has some twenty fields.
const MAX_FIELDS: usize = 64;

#[derive(Debug)]
pub(crate) enum Value<'a> {
    Bool,
    Int(i64),
    Double,
    Binary(&'a [u8]),
    List(Vec<Value<'a>>),
    Struct(Struct<'a>),
}

/// A struct: its fields by number.
#[derive(Debug, Default)]
pub(crate) struct Struct<'a>(Vec<(i64, Value<'a>)>);

impl<'a> Struct<'a> {
    fn get(&self, field: i64) -> Option<&Value<'a>> {
        self.0.iter().find(|(id, _)| *id == field).map(|(_, v)| v)
    }

    pub fn int(&self, field: i64) -> Option<i64> {
        match self.get(field)? {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// An integer that is a size or a position.
    pub fn size(&self, field: i64) -> Option<usize> {
        usize::try_from(self.int(field)?).ok()
    }

    pub fn binary(&self, field: i64) -> Option<&'a [u8]> {
        match self.get(field)? {
            Value::Binary(value) => Some(value),
            _ => None,
        }
    }

    pub fn structure(&self, field: i64) -> Option<&Struct<'a>> {
        match self.get(field)? {
            Value::Struct(value) => Some(value),
            _ => None,
        }
    }

    /// The structs of a list; empty if there is no such list.
    pub fn structs(&self, field: i64) -> impl Iterator<Item = &Struct<'a>> {
        let list = match self.get(field) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            Value::Struct(value) => Some(value),
            _ => None,
        })
    }
}

/// Reads the struct at `start` of `bytes`; returns it and the position behind it.
pub(crate) fn parse(bytes: &[u8], start: usize) -> Result<(Struct<'_>, usize), Fault> {
    let mut input = Input { bytes, pos: start };
    let value = input.structure(0)?;
    Ok((value, input.pos))
}

struct Input<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Input<'a> {
    fn fault(&self, what: &str) -> Fault {
        Fault::at_offset(self.pos, what)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self
            .bytes
            .get(self.pos)
            .ok_or_else(|| self.fault("metadata is cut short"))?;
        self.pos += 1;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.pos.checked_add(len))
            .and_then(|end| self.bytes.get(self.pos..end))
            .ok_or_else(|| self.fault("metadata is cut short"))?;
        self.pos += taken.len();
        Ok(taken)
    }

    fn unsigned(&mut self) -> Result<u64, Fault> {
        varint(self.bytes, &mut self.pos)
    }

    fn signed(&mut self) -> Result<i64, Fault> {
        self.unsigned().map(unzigzag)
    }

    fn structure(&mut self, depth: usize) -> Result<Struct<'a>, Fault> {
        if depth > MAX_DEPTH {
            return Err(self.fault("metadata is nested too deep"));
        }
        let mut fields = Vec::new();
        let mut last = 0i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(Struct(fields));
            }
            let id = match header >> 4 {
                0 => self.signed()?,
                delta => last.wrapping_add(i64::from(delta)),
            };
            let value = match header & 0xf {
                1 | 2 => Value::Bool,
                kind => self.value(kind, depth)?,
            };
            // The first of two would win here and the last elsewhere.
            if fields.len() == MAX_FIELDS || fields.iter().any(|(known, _)| *known == id) {
                return Err(self.fault("metadata says too much, or a thing twice"));
            }
            fields.push((id, value));
            last = id;
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value<'a>, Fault> {
        Ok(match kind {
            3 => Value::Int(i64::from(self.byte()?.cast_signed())),
            4..=6 => Value::Int(self.signed()?),
            7 => {
                self.take(8)?;
                Value::Double
            }
            8 => {
                let len = self.unsigned()?;
                Value::Binary(self.take(len)?)
            }
            9 | 10 => self.list(depth + 1)?,
            12 => Value::Struct(self.structure(depth + 1)?),
            _ => return Err(self.fault("metadata has a field of an unknown type")),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, Fault> {
        if depth > MAX_DEPTH {
            return Err(self.fault("metadata is nested too deep"));
        }
        let header = self.byte()?;
        let len = match header >> 4 {
            15 => self.unsigned()?,
            len => u64::from(len),
        };
        // Every element takes a byte at least.
        if len > (self.bytes.len() - self.pos) as u64 {
            return Err(self.fault("metadata is cut short"));
        }
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(match header & 0xf {
                1 | 2 => {
                    self.byte()?;
                    Value::Bool
                }
                kind => self.value(kind, depth)?,
            });
        }
        Ok(Value::List(list))
    }
}

/// Reads a little-endian base-128 integer at `*pos` and moves behind it.
pub(crate) fn varint(bytes: &[u8], pos: &mut usize) -> Result<u64, Fault> {
    let start = *pos;
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let Some(byte) = bytes.get(*pos) else {
            return Err(Fault::at_offset(start, "an integer is cut short"));
        };
        *pos += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::at_offset(start, "an integer is too long"))
}

/// Undoes the mapping of signed to unsigned integers that keeps small ones small.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_protocol_describes() {
        // 1: i32 -3; 3: binary "ab"; 20: list of two structs {1: i64 1}, {}; 21: true
        let bytes = [
            0x15, 5, 0x28, 2, b'a', b'b', 0x09, 40, 0x2c, 0x16, 2, 0, 0, 0x11, 0, 99,
        ];
        let (value, end) = parse(&bytes, 0).unwrap();
        assert_eq!(end, bytes.len() - 1);
        assert_eq!(value.int(1), Some(-3));
        assert_eq!(value.binary(3), Some(&b"ab"[..]));
        let list: Vec<_> = value.structs(20).map(|s| s.int(1)).collect();
        assert_eq!(list, [Some(1), None]);
        assert_eq!(value.int(21), None);
        for len in 0..end {
            assert!(parse(&bytes[..len], 0).is_err(), "{len}");
        }
    }

    #[test]
    fn refuses_nesting_and_repetition() {
        assert!(parse(&[0x1c; 100_000], 0).is_err());
        assert!(parse(&[0x19; 100_000], 0).is_err());
        assert!(parse(&[0x15, 2, 0x05, 2, 4, 0], 0).is_err());
        assert!(
            parse(
                &[
                    0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0
                ],
                0
            )
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn survives_anything(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok((_, end)) = parse(&bytes, 0) {
                prop_assert!(end <= bytes.len());
            }
        }
    }
}
