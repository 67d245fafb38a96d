//! Values as a chunk describes them, and its pools of constants.

use super::metadata::{CONSTANTS, Classes, Cursor, Text, event};
use crate::read::error::Fault;
use rustc_hash::FxHashMap;

/// Types inside each other.
const DEPTH: usize = 16;
/// What a value costs in memory, in bytes.
const BYTES: u64 = 48;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(i64),
    Text(String),
    /// A constant of a type.
    Constant(i64, i64),
    /// By position of the field.
    Object(i64, Vec<Value>),
    Array(Vec<Value>),
}

/// The constants of a chunk, by type and number.
#[derive(Default)]
pub(super) struct Pools {
    constants: FxHashMap<(i64, i64), Value>,
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

/// Reads values and counts what they take.
pub(super) struct Values<'c> {
    pub classes: &'c Classes,
    pub left: u64,
}

impl Values<'_> {
    /// A value of a type.
    pub fn read(
        &mut self,
        class: i64,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<Value, Fault> {
        let Some(described) = self.classes.get(&class) else {
            return Err(cursor.fault(format!("type {class} is not described")));
        };
        if depth > DEPTH {
            return Err(cursor.fault(format!("type {} contains itself", described.name)));
        }
        self.left = self.left.checked_sub(BYTES).ok_or_else(|| {
            Fault::too_large(
                "its constants need more memory than the limit allows",
                cursor.place(),
            )
        })?;
        let number = match described.name.as_str() {
            "boolean" | "byte" => i64::from(cursor.byte()?),
            "char" | "short" | "int" | "long" => cursor.number()?,
            "float" => cursor.fixed(4)?,
            "double" => cursor.fixed(8)?,
            "java.lang.String" => return self.text(class, cursor),
            _ => {
                let mut values = Vec::new();
                for field in &described.fields {
                    values.push(self.field(field.class, field.pool, field.array, cursor, depth)?);
                }
                return Ok(Value::Object(class, values));
            }
        };
        Ok(Value::Number(number))
    }

    fn text(&mut self, class: i64, cursor: &mut Cursor<'_>) -> Result<Value, Fault> {
        let before = cursor.position();
        let text = cursor.text()?;
        self.left = self.left.saturating_sub(2 * (cursor.position() - before));
        Ok(match text {
            Text::Here(text) => Value::Text(text),
            Text::Pool(number) => Value::Constant(class, number),
        })
    }

    fn field(
        &mut self,
        class: i64,
        pool: bool,
        array: bool,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<Value, Fault> {
        if array {
            let mut values = Vec::new();
            for _ in 0..cursor.count()? {
                values.push(self.field(class, pool, false, cursor, depth)?);
            }
            return Ok(Value::Array(values));
        }
        match pool {
            true => Ok(Value::Constant(class, cursor.number()?)),
            false => self.read(class, cursor, depth + 1),
        }
    }

    /// Reads the constants from the last pool of the chunk back to its first.
    pub fn pools(&mut self, chunk: Cursor<'_>, last: u64) -> Result<Pools, Fault> {
        let mut pools = Pools::default();
        let mut position = last;
        loop {
            let mut event = event(&mut chunk.at(position)?)?;
            if event.number()? != CONSTANTS {
                return Err(event.fault("no pool of constants where there should be one"));
            }
            event.number()?;
            event.number()?;
            let delta = event.number()?;
            event.byte()?;
            for _ in 0..event.count()? {
                self.pool(&mut event, &mut pools)?;
            }
            // Backwards only, so that no walk goes in circles.
            let before = position.checked_add_signed(delta);
            match before.filter(|_| delta < 0) {
                Some(before) => position = before,
                None => return Ok(pools),
            }
        }
    }

    fn pool(&mut self, event: &mut Cursor<'_>, pools: &mut Pools) -> Result<(), Fault> {
        let class = event.number()?;
        let described = self.classes.get(&class);
        let wanted = described.is_some_and(|class| WANTED.contains(&class.name.as_str()));
        for _ in 0..event.count()? {
            let number = event.number()?;
            let left = self.left;
            let value = self.read(class, event, 0)?;
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
    /// A field of an object or of the constant that stands for it.
    pub fn field<'v>(
        &'v self,
        classes: &Classes,
        value: &'v Value,
        name: &str,
    ) -> Option<&'v Value> {
        match self.constant(value)? {
            Value::Object(class, values) => values.get(classes.get(class)?.position(name)?),
            _ => None,
        }
    }

    /// The value that a constant stands for.
    pub fn constant<'v>(&'v self, value: &'v Value) -> Option<&'v Value> {
        match value {
            Value::Constant(class, number) => self.constants.get(&(*class, *number)),
            other => Some(other),
        }
    }

    /// The text of a value: of a symbol, too.
    pub fn text<'v>(&'v self, classes: &Classes, value: &'v Value) -> Option<&'v str> {
        let value = match self.field(classes, value, "string") {
            Some(text) => self.constant(text)?,
            None => self.constant(value)?,
        };
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
