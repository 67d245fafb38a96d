//! Tables as arrays of rows, whose schema names the elements of a row.

use super::value::{JsonColumn, Scalar};
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use std::fmt;

/// Elements of a row that are kept: all that a profile needs come early.
const KEPT: usize = 7;

/// The columns' positions by name.
pub(super) type Schema = FxHashMap<String, usize>;
pub(super) type Rows = JsonColumn<JsonRow>;

/// The numbers of a row; `NaN` where there is none.
#[derive(Clone, Copy)]
pub(super) struct JsonRow(pub [f64; KEPT]);

impl<'de> Deserialize<'de> for JsonRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowElements;
        impl<'de> Visitor<'de> for RowElements {
            type Value = JsonRow;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JsonRow, A::Error> {
                let mut row = [f64::NAN; KEPT];
                for entry in &mut row {
                    match seq.next_element::<Scalar>()? {
                        Some(Scalar::Number(number)) => *entry = number,
                        Some(_) => {}
                        None => return Ok(JsonRow(row)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(JsonRow(row))
            }
            fn visit_unit<E: Error>(self) -> Result<JsonRow, E> {
                Ok(JsonRow([f64::NAN; KEPT]))
            }
        }
        deserializer.deserialize_any(RowElements)
    }
}
