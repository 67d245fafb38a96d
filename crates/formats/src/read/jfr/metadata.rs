//! Reads a chunk's bytes and its description of event types.
//!
//! Written by hand: the crate `jfrs` 0.2.5 reserves as much memory as a file claims and panics on
//! text that is not UTF-8.

use crate::read::error::{FilePosition, ReadFault};
use rustc_hash::FxHashMap;

/// Type of the event with a pool of constants.
pub(super) const CONSTANTS: i64 = 1;
/// Maximum nesting of the description's elements.
const DEPTH: usize = 64;

/// Reads the bytes of a chunk in order.
#[derive(Clone, Copy)]
pub(super) struct JfrCursor<'a> {
    bytes: &'a [u8],
    position: usize,
    /// The chunk's offset in the file.
    base: u64,
}

impl<'a> JfrCursor<'a> {
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self {
            bytes,
            position: 0,
            base,
        }
    }

    /// Returns a cursor in the same chunk at another position.
    pub fn at_position(&self, position: u64) -> Result<Self, ReadFault> {
        match usize::try_from(position)
            .ok()
            .filter(|p| *p <= self.bytes.len())
        {
            Some(position) => Ok(Self { position, ..*self }),
            None => Err(self.fault(format!("position {position} lies outside of the chunk"))),
        }
    }

    /// Returns the next `length` bytes, and moves behind them.
    pub fn next_part(&mut self, length: usize) -> Result<Self, ReadFault> {
        let end = self
            .position
            .checked_add(length)
            .filter(|end| *end <= self.bytes.len());
        let Some(bytes) = end.and_then(|end| self.bytes.get(..end)) else {
            return Err(self.fault("cut short"));
        };
        let part = Self { bytes, ..*self };
        self.position += length;
        Ok(part)
    }

    pub fn position(&self) -> u64 {
        self.position as u64
    }

    pub fn bytes_left(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub fn file_position(&self) -> FilePosition {
        FilePosition::Offset(self.base + self.position as u64)
    }

    pub fn fault(&self, what: impl Into<String>) -> ReadFault {
        ReadFault::damaged(what, self.file_position())
    }

    pub fn read_byte(&mut self) -> Result<u8, ReadFault> {
        let byte = self.bytes.get(self.position).copied();
        self.position += usize::from(byte.is_some());
        byte.ok_or_else(|| self.fault("cut short"))
    }

    /// Reads a number of `size` bytes, most significant first.
    pub fn read_fixed(&mut self, size: usize) -> Result<i64, ReadFault> {
        let mut value = 0_u64;
        for _ in 0..size {
            value = value << 8 | u64::from(self.read_byte()?);
        }
        Ok(value as i64)
    }

    /// Reads a number of up to nine bytes, the last of which has eight bits.
    pub fn read_number(&mut self) -> Result<i64, ReadFault> {
        let mut value = 0_u64;
        for index in 0..8 {
            let byte = self.read_byte()?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value as i64);
            }
        }
        Ok((value | u64::from(self.read_byte()?) << 56) as i64)
    }

    /// Reads the number of following items, each of which takes at least one byte.
    pub fn read_count(&mut self) -> Result<usize, ReadFault> {
        let count = self.read_number()?;
        match usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.bytes_left())
        {
            Some(count) => Ok(count),
            None => Err(self.fault(format!("{count} elements in {} bytes", self.bytes_left()))),
        }
    }

    /// Reads a text, or its number in the pool of texts.
    pub fn read_text(&mut self) -> Result<JfrText, ReadFault> {
        match self.read_byte()? {
            0 | 1 => Ok(JfrText::Here(String::new())),
            2 => Ok(JfrText::Pool(self.read_number()?)),
            encoding @ (3 | 5) => {
                let length = self.read_count()?;
                let part = self.next_part(length)?;
                let bytes = part.bytes.get(part.position..).unwrap_or_default();
                Ok(JfrText::Here(match encoding {
                    3 => String::from_utf8_lossy(bytes).into_owned(),
                    _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
                }))
            }
            4 => {
                let length = self.read_count()?;
                let units = (0..length).map(|_| Ok(self.read_number()? as u16));
                let units = units.collect::<Result<Vec<u16>, ReadFault>>()?;
                Ok(JfrText::Here(String::from_utf16_lossy(&units)))
            }
            encoding => {
                Err(self.fault(format!("a text in encoding {encoding}, which there is not")))
            }
        }
    }
}

pub(super) enum JfrText {
    Here(String),
    Pool(i64),
}

/// A field of a type.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: String,
    pub class: i64,
    /// True if the value is its number in the constant pool of the class.
    pub pool: bool,
    pub array: bool,
}

/// A type of events or values.
#[derive(Clone, Debug, Default)]
pub(super) struct JfrClass {
    pub name: String,
    pub fields: Vec<Field>,
}

impl JfrClass {
    pub fn field_position(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == field)
    }
}

/// The types of a chunk, by their ids.
pub(super) type Classes = FxHashMap<i64, JfrClass>;

/// Reads the description of types; `event` is positioned after its size and type.
pub(super) fn read_classes(mut event: JfrCursor<'_>) -> Result<Classes, ReadFault> {
    for _start_duration_id in 0..3 {
        event.read_number()?;
    }
    let count = event.read_count()?;
    let mut strings = Vec::new();
    for _ in 0..count {
        strings.push(match event.read_text()? {
            JfrText::Here(text) => text,
            JfrText::Pool(_) => return Err(event.fault("a name out of a pool")),
        });
    }
    let mut classes = Classes::default();
    let mut class = None;
    // The number of remaining children of each open element.
    let mut open = vec![1_usize];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let (name, attributes) = read_element(&mut event, &strings)?;
        let attribute = |key: &str| {
            attributes
                .iter()
                .find(|(k, _)| *k == key)
                .map_or("", |(_, value)| *value)
        };
        match name {
            "class" => {
                let id: i64 = attribute("id")
                    .parse()
                    .map_err(|_| event.fault("a type without an id"))?;
                let name = attribute("name").to_owned();
                let fields = Vec::new();
                classes.insert(id, JfrClass { name, fields });
                class = Some(id);
            }
            "field" => {
                let id = attribute("class").parse();
                let field = Field {
                    name: attribute("name").to_owned(),
                    class: id.map_err(|_| event.fault("a field without a type"))?,
                    pool: attribute("constantPool") == "true",
                    array: !matches!(attribute("dimension"), "" | "0"),
                };
                if let Some(class) = class.and_then(|id| classes.get_mut(&id)) {
                    class.fields.push(field);
                }
            }
            _ => {}
        }
        open.push(event.read_count()?);
        if open.len() > DEPTH {
            return Err(event.fault("types described too deep"));
        }
    }
    Ok(classes)
}

/// An element's name and attributes.
type Element<'s> = (&'s str, Vec<(&'s str, &'s str)>);

/// Reads the head of an element; its children follow.
fn read_element<'s>(
    event: &mut JfrCursor<'_>,
    strings: &'s [String],
) -> Result<Element<'s>, ReadFault> {
    let string = |event: &mut JfrCursor<'_>| {
        let index = event.read_number()?;
        let found = usize::try_from(index).ok().and_then(|i| strings.get(i));
        found
            .map(String::as_str)
            .ok_or_else(|| event.fault(format!("name {index} is not there")))
    };
    let name = string(event)?;
    let mut attributes = Vec::new();
    for _ in 0..event.read_count()? {
        attributes.push((string(event)?, string(event)?));
    }
    Ok((name, attributes))
}

/// Returns the next event's bytes after its size.
pub(super) fn next_event<'a>(cursor: &mut JfrCursor<'a>) -> Result<JfrCursor<'a>, ReadFault> {
    let start = cursor.position();
    let size = cursor.read_number()?;
    let head = (cursor.position() - start) as i64;
    match usize::try_from(size.wrapping_sub(head)) {
        Ok(length) if size > head => cursor.next_part(length),
        _ => Err(cursor.fault(format!("an event of {size} bytes"))),
    }
}
