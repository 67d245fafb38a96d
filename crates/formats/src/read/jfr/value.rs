//! Reads values as a chunk describes them, and its pools of constants.

use super::metadata::{CONSTANTS, Classes, JfrCursor, JfrText, next_event};
use crate::read::error::ReadFault;
use rustc_hash::FxHashMap;

/// Maximum nesting of types.
const DEPTH: usize = 16;
/// Memory of a value, in bytes.
const BYTES: u64 = 48;

#[derive(Clone, Debug)]
pub(super) enum JfrValue {
    Number(i64),
    Text(String),
    /// A constant of a type.
    Constant(i64, i64),
    /// An object: its type, and the values of its fields in order.
    Object(i64, Vec<JfrValue>),
    Array(Vec<JfrValue>),
}

/// The constants of a chunk, by type and number.
#[derive(Default)]
pub(super) struct Pools {
    constants: FxHashMap<(i64, i64), JfrValue>,
}

/// Types whose constants are needed.
const WANTED: &[&str] = &[
    "jdk.types.StackTrace",
    "jdk.types.Method",
    "jdk.types.Symbol",
    "jdk.types.FrameType",
    "java.lang.Class",
    "java.lang.String",
    "java.lang.Thread",
];

/// Reads values and counts the memory that they take.
pub(super) struct JfrValueReader<'c> {
    pub classes: &'c Classes,
    pub left: u64,
}

impl JfrValueReader<'_> {
    /// Reads a value of a type.
    pub fn read_value(
        &mut self,
        class: i64,
        cursor: &mut JfrCursor<'_>,
        depth: usize,
    ) -> Result<JfrValue, ReadFault> {
        let Some(described) = self.classes.get(&class) else {
            return Err(cursor.fault(format!("type {class} is not described")));
        };
        if depth > DEPTH {
            return Err(cursor.fault(format!("type {} contains itself", described.name)));
        }
        self.left = self.left.checked_sub(BYTES).ok_or_else(|| {
            ReadFault::too_large(
                "its constants need more memory than the limit allows",
                cursor.file_position(),
            )
        })?;
        let number = match described.name.as_str() {
            "boolean" | "byte" => i64::from(cursor.read_byte()?),
            "char" | "short" | "int" | "long" => cursor.read_number()?,
            "float" => cursor.read_fixed(4)?,
            "double" => cursor.read_fixed(8)?,
            "java.lang.String" => return self.read_text(class, cursor),
            _ => {
                let mut values = Vec::new();
                for field in &described.fields {
                    values.push(self.read_field(
                        field.class,
                        field.pool,
                        field.array,
                        cursor,
                        depth,
                    )?);
                }
                return Ok(JfrValue::Object(class, values));
            }
        };
        Ok(JfrValue::Number(number))
    }

    fn read_text(&mut self, class: i64, cursor: &mut JfrCursor<'_>) -> Result<JfrValue, ReadFault> {
        let before = cursor.position();
        let text = cursor.read_text()?;
        self.left = self.left.saturating_sub(2 * (cursor.position() - before));
        Ok(match text {
            JfrText::Here(text) => JfrValue::Text(text),
            JfrText::Pool(number) => JfrValue::Constant(class, number),
        })
    }

    fn read_field(
        &mut self,
        class: i64,
        pool: bool,
        array: bool,
        cursor: &mut JfrCursor<'_>,
        depth: usize,
    ) -> Result<JfrValue, ReadFault> {
        if array {
            let mut values = Vec::new();
            for _ in 0..cursor.read_count()? {
                values.push(self.read_field(class, pool, false, cursor, depth)?);
            }
            return Ok(JfrValue::Array(values));
        }
        if pool {
            Ok(JfrValue::Constant(class, cursor.read_number()?))
        } else {
            self.read_value(class, cursor, depth + 1)
        }
    }

    /// Reads the constants from the last pool of the chunk back to its first.
    pub fn read_pools(&mut self, chunk: JfrCursor<'_>, last: u64) -> Result<Pools, ReadFault> {
        let mut pools = Pools::default();
        let mut position = last;
        loop {
            let mut event = next_event(&mut chunk.at_position(position)?)?;
            if event.read_number()? != CONSTANTS {
                return Err(event.fault("no pool of constants where there should be one"));
            }
            event.read_number()?;
            event.read_number()?;
            let delta = event.read_number()?;
            event.read_byte()?;
            for _ in 0..event.read_count()? {
                self.read_pool(&mut event, &mut pools)?;
            }
            // Backwards only, so that the walk cannot loop.
            let before = position.checked_add_signed(delta);
            match before.filter(|_| delta < 0) {
                Some(before) => position = before,
                None => return Ok(pools),
            }
        }
    }

    fn read_pool(&mut self, event: &mut JfrCursor<'_>, pools: &mut Pools) -> Result<(), ReadFault> {
        let class = event.read_number()?;
        let described = self.classes.get(&class);
        let wanted = described.is_some_and(|class| WANTED.contains(&class.name.as_str()));
        for _ in 0..event.read_count()? {
            let number = event.read_number()?;
            let left = self.left;
            let value = self.read_value(class, event, 0)?;
            if wanted {
                pools.constants.entry((class, number)).or_insert(value);
            } else {
                self.left = left;
            }
        }
        Ok(())
    }
}

impl Pools {
    /// Returns a field of an object, or of the constant that stands for it.
    pub fn field_value<'v>(
        &'v self,
        classes: &Classes,
        value: &'v JfrValue,
        name: &str,
    ) -> Option<&'v JfrValue> {
        match self.resolve_constant(value)? {
            JfrValue::Object(class, values) => {
                values.get(classes.get(class)?.field_position(name)?)
            }
            _ => None,
        }
    }

    /// Returns the value of a constant.
    pub fn resolve_constant<'v>(&'v self, value: &'v JfrValue) -> Option<&'v JfrValue> {
        match value {
            JfrValue::Constant(class, number) => self.constants.get(&(*class, *number)),
            other => Some(other),
        }
    }

    /// Returns the text of a value, also of a symbol.
    pub fn text_of<'v>(&'v self, classes: &Classes, value: &'v JfrValue) -> Option<&'v str> {
        let value = match self.field_value(classes, value, "string") {
            Some(text) => self.resolve_constant(text)?,
            None => self.resolve_constant(value)?,
        };
        match value {
            JfrValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl JfrValue {
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
