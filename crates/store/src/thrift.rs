//! Parses the compact Thrift protocol, as far as Parquet's footers and page headers use it.

use crate::error::TableFault;

/// Maximum nesting: structs in lists in structs; a footer nests six deep.
const MAX_DEPTH: usize = 16;

/// Maximum number of fields; the largest struct of the format has some twenty.
const MAX_FIELDS: usize = 64;

#[derive(Debug)]
pub(crate) enum ThriftValue<'a> {
    Bool,
    Int(i64),
    Double,
    Binary(&'a [u8]),
    List(Vec<ThriftValue<'a>>),
    Struct(Struct<'a>),
}

/// A struct: its fields by number.
#[derive(Debug, Default)]
pub(crate) struct Struct<'a>(Vec<(i64, ThriftValue<'a>)>);

impl<'a> Struct<'a> {
    fn field_value(&self, field: i64) -> Option<&ThriftValue<'a>> {
        self.0.iter().find(|(id, _)| *id == field).map(|(_, v)| v)
    }

    pub fn int_field(&self, field: i64) -> Option<i64> {
        match self.field_value(field)? {
            ThriftValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns an integer that is a size or a position.
    pub fn size_field(&self, field: i64) -> Option<usize> {
        usize::try_from(self.int_field(field)?).ok()
    }

    pub fn binary_field(&self, field: i64) -> Option<&'a [u8]> {
        match self.field_value(field)? {
            ThriftValue::Binary(value) => Some(value),
            _ => None,
        }
    }

    pub fn struct_field(&self, field: i64) -> Option<&Struct<'a>> {
        match self.field_value(field)? {
            ThriftValue::Struct(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the structs of a list; empty if there is no such list.
    pub fn struct_list(&self, field: i64) -> impl Iterator<Item = &Struct<'a>> {
        let list = match self.field_value(field) {
            Some(ThriftValue::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            ThriftValue::Struct(value) => Some(value),
            _ => None,
        })
    }
}

/// Reads the struct at `start` of `bytes`; returns it and the position behind it.
pub(crate) fn parse_struct(bytes: &[u8], start: usize) -> Result<(Struct<'_>, usize), TableFault> {
    let mut input = ThriftInput { bytes, pos: start };
    let value = input.read_struct(0)?;
    Ok((value, input.pos))
}

struct ThriftInput<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> ThriftInput<'a> {
    fn fault_here(&self, what: &str) -> TableFault {
        TableFault::at_offset(self.pos, what)
    }

    fn read_byte(&mut self) -> Result<u8, TableFault> {
        let byte = *self
            .bytes
            .get(self.pos)
            .ok_or_else(|| self.fault_here("metadata is cut short"))?;
        self.pos += 1;
        Ok(byte)
    }

    fn take_bytes(&mut self, len: u64) -> Result<&'a [u8], TableFault> {
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.pos.checked_add(len))
            .and_then(|end| self.bytes.get(self.pos..end))
            .ok_or_else(|| self.fault_here("metadata is cut short"))?;
        self.pos += taken.len();
        Ok(taken)
    }

    fn read_unsigned(&mut self) -> Result<u64, TableFault> {
        read_varint(self.bytes, &mut self.pos)
    }

    fn read_signed(&mut self) -> Result<i64, TableFault> {
        self.read_unsigned().map(unzigzag)
    }

    fn read_struct(&mut self, depth: usize) -> Result<Struct<'a>, TableFault> {
        if depth > MAX_DEPTH {
            return Err(self.fault_here("metadata is nested too deep"));
        }
        let mut fields = Vec::new();
        let mut last = 0i64;
        loop {
            let header = self.read_byte()?;
            if header == 0 {
                return Ok(Struct(fields));
            }
            let id = match header >> 4 {
                0 => self.read_signed()?,
                delta => last.wrapping_add(i64::from(delta)),
            };
            let value = match header & 0xf {
                1 | 2 => ThriftValue::Bool,
                kind => self.read_value(kind, depth)?,
            };
            // For a repeated field, this reader would use the first value and others the last.
            if fields.len() == MAX_FIELDS || fields.iter().any(|(known, _)| *known == id) {
                return Err(self.fault_here("metadata says too much, or a thing twice"));
            }
            fields.push((id, value));
            last = id;
        }
    }

    fn read_value(&mut self, kind: u8, depth: usize) -> Result<ThriftValue<'a>, TableFault> {
        Ok(match kind {
            3 => ThriftValue::Int(i64::from(self.read_byte()?.cast_signed())),
            4..=6 => ThriftValue::Int(self.read_signed()?),
            7 => {
                self.take_bytes(8)?;
                ThriftValue::Double
            }
            8 => {
                let len = self.read_unsigned()?;
                ThriftValue::Binary(self.take_bytes(len)?)
            }
            9 | 10 => self.read_list(depth + 1)?,
            12 => ThriftValue::Struct(self.read_struct(depth + 1)?),
            _ => return Err(self.fault_here("metadata has a field of an unknown type")),
        })
    }

    fn read_list(&mut self, depth: usize) -> Result<ThriftValue<'a>, TableFault> {
        if depth > MAX_DEPTH {
            return Err(self.fault_here("metadata is nested too deep"));
        }
        let header = self.read_byte()?;
        let len = match header >> 4 {
            15 => self.read_unsigned()?,
            len => u64::from(len),
        };
        // Every element takes at least a byte.
        if len > (self.bytes.len() - self.pos) as u64 {
            return Err(self.fault_here("metadata is cut short"));
        }
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(match header & 0xf {
                1 | 2 => {
                    self.read_byte()?;
                    ThriftValue::Bool
                }
                kind => self.read_value(kind, depth)?,
            });
        }
        Ok(ThriftValue::List(list))
    }
}

/// Reads a little-endian base-128 integer at `*pos` and moves behind it.
pub(crate) fn read_varint(bytes: &[u8], pos: &mut usize) -> Result<u64, TableFault> {
    let start = *pos;
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let Some(byte) = bytes.get(*pos) else {
            return Err(TableFault::at_offset(start, "an integer is cut short"));
        };
        *pos += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(TableFault::at_offset(start, "an integer is too long"))
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
        let (value, end) = parse_struct(&bytes, 0).unwrap();
        assert_eq!(end, bytes.len() - 1);
        assert_eq!(value.int_field(1), Some(-3));
        assert_eq!(value.binary_field(3), Some(&b"ab"[..]));
        let list: Vec<_> = value.struct_list(20).map(|s| s.int_field(1)).collect();
        assert_eq!(list, [Some(1), None]);
        assert_eq!(value.int_field(21), None);
        for len in 0..end {
            assert!(parse_struct(&bytes[..len], 0).is_err(), "{len}");
        }
    }

    #[test]
    fn refuses_nesting_and_repetition() {
        assert!(parse_struct(&[0x1c; 100_000], 0).is_err());
        assert!(parse_struct(&[0x19; 100_000], 0).is_err());
        assert!(parse_struct(&[0x15, 2, 0x05, 2, 4, 0], 0).is_err());
        assert!(
            parse_struct(
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
            if let Ok((_, end)) = parse_struct(&bytes, 0) {
                prop_assert!(end <= bytes.len());
            }
        }
    }
}
