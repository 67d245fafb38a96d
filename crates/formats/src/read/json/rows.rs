//! Tables as arrays of rows, of which a schema says what each element is.

use super::value::{Column, Scalar};
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use std::fmt;

/// Elements of a row that are kept: all that a profile needs come early.
const KEPT: usize = 7;

/// The columns' positions by name.
pub(super) type Schema = FxHashMap<String, usize>;
pub(super) type Rows = Column<Row>;

/// The numbers of a row; `NaN` where there is none.
#[derive(Clone, Copy)]
pub(super) struct Row(pub [f64; KEPT]);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Row, A::Error> {
                let mut row = [f64::NAN; KEPT];
                for entry in &mut row {
                    match seq.next_element::<Scalar>()? {
                        Some(Scalar::Number(number)) => *entry = number,
                        Some(_) => {}
                        None => return Ok(Row(row)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Row(row))
            }
            fn visit_unit<E: Error>(self) -> Result<Row, E> {
                Ok(Row([f64::NAN; KEPT]))
            }
        }
        deserializer.deserialize_any(Elements)
    }
}
