//! Values of JSON that count their memory against the limit.
//!
//! `serde` cannot pass a budget through derived types, so it is in a thread-local variable while a
//! file is read.

use profile::ValueType;
use rustc_hash::FxHashMap;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

thread_local! {
    /// Number of bytes that may still be used.
    static BUDGET: Cell<u64> = const { Cell::new(0) };
}

/// The error's text when the budget is exceeded.
pub(super) const OVER_BUDGET: &str = "its tables need more memory than the limit allows";

/// Sets the number of bytes that may be used from here on.
pub(super) fn set_budget(bytes: u64) {
    BUDGET.set(bytes);
}

/// Returns the remaining number of bytes.
pub(super) fn remaining_budget() -> u64 {
    BUDGET.get()
}

/// Counts `bytes` that are kept.
pub(super) fn charge_budget<E: Error>(bytes: usize) -> Result<(), E> {
    let left = BUDGET.get().checked_sub(bytes as u64);
    BUDGET.set(left.ok_or_else(|| E::custom(OVER_BUDGET))?);
    Ok(())
}

/// A type that can be read from any value. Kinds of values without a meaning there are skipped.
///
/// An untagged enumeration of `serde` would first copy the value, past the budget.
pub(super) trait AnyValue<'de>: Default {
    fn from_unsigned<E: Error>(number: u64) -> Result<Self, E> {
        Self::from_number(number as f64)
    }
    fn from_number<E: Error>(_: f64) -> Result<Self, E> {
        Ok(Self::default())
    }
    fn from_text<E: Error>(_: &str) -> Result<Self, E> {
        Ok(Self::default())
    }
    fn from_array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn from_object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads the next value, of any kind.
pub(super) fn read_any<'de, T: AnyValue<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(AnyVisitor(PhantomData))
}

struct AnyVisitor<T>(PhantomData<T>);

impl<'de, T: AnyValue<'de>> Visitor<'de> for AnyVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::from_unsigned(number)
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::from_number(number as f64)
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::from_number(number)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::from_array(seq)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_object(map)
    }
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonColumn<T>(pub Vec<T>);

impl<T> Default for JsonColumn<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> JsonColumn<T> {
    pub fn value_at(&self, index: usize) -> Option<T> {
        self.0.get(index).copied()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonColumn<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListElements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListElements<T> {
            type Value = JsonColumn<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JsonColumn<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(element) = seq.next_element()? {
                    charge_budget(size_of::<T>())?;
                    all.push(element);
                }
                Ok(JsonColumn(all))
            }
        }
        deserializer.deserialize_seq(ListElements(PhantomData))
    }
}

/// A string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct JsonText(pub String);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        charge_budget(text.len())?;
        Ok(Self(text))
    }
}

/// A number or a string; any other value counts as nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Scalar {
    #[default]
    None,
    Number(f64),
    Text(JsonText),
}

impl Scalar {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(JsonText(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, also from a string like `12.5`.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(JsonText(text)) => {
                text.parse().ok().filter(|number: &f64| number.is_finite())
            }
            Self::None => None,
        }
    }

    /// Returns the value as a key of a table, where the file may write `1` or `"1"`.
    pub fn as_key(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(JsonText(text)) => text.clone(),
            Self::None => String::new(),
        }
    }

    /// Returns the integer, also from a string like `12` or `12.1`.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number as i64),
            Self::Text(JsonText(text)) => text.split('.').next()?.parse().ok(),
            Self::None => None,
        }
    }
}

impl<'de> AnyValue<'de> for Scalar {
    fn from_number<E: Error>(number: f64) -> Result<Self, E> {
        Ok(Self::Number(number))
    }
    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        charge_budget(text.len())?;
        Ok(Self::Text(JsonText(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_any(deserializer)
    }
}

/// An object with arbitrary keys; numbers as keys are text in JSON.
#[derive(Debug)]
pub(super) struct ObjectTable<T>(pub FxHashMap<String, T>);

impl<T> Default for ObjectTable<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<'de, T: Deserialize<'de>> AnyValue<'de> for ObjectTable<T> {
    fn from_object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut all = FxHashMap::default();
        while let Some((JsonText(key), value)) = map.next_entry::<JsonText, T>()? {
            charge_budget(2 * size_of::<T>() + 64)?;
            all.insert(key, value);
        }
        Ok(Self(all))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_any(deserializer)
    }
}

/// An object, or nothing for any other value.
#[derive(Clone, Debug)]
pub(super) struct Lenient<T>(pub Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: DeserializeOwned> AnyValue<'de> for Lenient<T> {
    fn from_object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let object = T::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self(Some(object)))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_any(deserializer)
    }
}

/// Returns the value type of a profile, with its unit.
pub(super) fn value_type(name: &str, unit: &str) -> ValueType {
    ValueType {
        name: name.to_owned(),
        unit: unit.to_owned(),
    }
}
