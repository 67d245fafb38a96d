//! Profiles of Python's `cProfile` and `profile`: a dictionary written by `marshal`. It is a call
//! graph: for each function its own time, and for each caller the cost of the calls from there.

use super::callgrind::{CostGraph, expand_call_paths};
use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use profile::ValueType;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A file needs several times its size while it is read.
const MEMORY_FOR_BYTE: u64 = 64;
/// Maximum nesting of values: a dictionary of tuples with a dictionary of tuples.
const DEPTH: usize = 8;
/// Marks a value to which others refer.
const IS_REFERRED_TO: u8 = 0x80;

/// Returns whether bytes begin with a dictionary whose first key is a file, a line and a function.
pub(crate) fn detect_pstats(head: &[u8]) -> bool {
    let Some([dictionary, tuple, rest @ ..]) = head.first_chunk::<16>() else {
        return false;
    };
    let kind = |byte: &u8| byte & !IS_REFERRED_TO;
    let key = match kind(tuple) {
        b'(' => rest.starts_with(&[3, 0, 0, 0]).then(|| rest.get(4)),
        b')' => (rest.first() == Some(&3)).then(|| rest.get(1)),
        _ => None,
    };
    kind(dictionary) == b'{'
        && key
            .flatten()
            .is_some_and(|key| b"szZaAut".contains(&kind(key)))
}

/// A value of `marshal`.
#[derive(Clone, Debug)]
enum MarshalValue {
    None,
    Number(f64),
    Text(Rc<str>),
    Tuple(Rc<[MarshalValue]>),
    Dictionary(Rc<[(MarshalValue, MarshalValue)]>),
}

struct PythonUnmarshal<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Referable values, by number.
    referred: Vec<MarshalValue>,
    /// Texts to which Python 2 refers.
    interned: Vec<MarshalValue>,
}

impl PythonUnmarshal<'_> {
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

    fn read_long(&mut self) -> Result<i32, ReadFault> {
        let bytes = self.take_bytes(4)?.first_chunk::<4>().copied();
        Ok(i32::from_le_bytes(bytes.unwrap_or_default()))
    }

    fn read_length(&mut self) -> Result<usize, ReadFault> {
        let at = self.position();
        usize::try_from(self.read_long()?).map_err(|_| ReadFault::damaged("a negative length", at))
    }

    fn read_text(&mut self, length: usize) -> Result<MarshalValue, ReadFault> {
        let text = String::from_utf8_lossy(self.take_bytes(length)?);
        Ok(MarshalValue::Text(text.into()))
    }

    fn read_eight_bytes(&mut self) -> Result<[u8; 8], ReadFault> {
        let bytes = self.take_bytes(8)?.first_chunk::<8>().copied();
        Ok(bytes.unwrap_or_default())
    }

    /// Reads a number in decimal digits, as the first versions wrote it; `at` is its start.
    fn read_decimal(&mut self, at: FilePosition) -> Result<MarshalValue, ReadFault> {
        let length = self.read_byte()?.into();
        let text = String::from_utf8_lossy(self.take_bytes(length)?);
        let number = text.parse();
        let number = number.map_err(|_| ReadFault::damaged("not a number", at))?;
        Ok(MarshalValue::Number(number))
    }

    fn read_dictionary(&mut self, depth: usize) -> Result<MarshalValue, ReadFault> {
        let mut entries = Vec::new();
        while let Some(key) = self.read_value(depth + 1)? {
            let Some(value) = self.read_value(depth + 1)? else {
                return Err(ReadFault::damaged("a key without a value", self.position()));
            };
            entries.push((key, value));
        }
        Ok(MarshalValue::Dictionary(entries.into()))
    }

    /// Returns the next value; `None` at the end of a dictionary.
    fn read_value(&mut self, depth: usize) -> Result<Option<MarshalValue>, ReadFault> {
        let at = self.position();
        if depth > DEPTH {
            return Err(ReadFault::damaged(
                "values nested deeper than in a profile",
                at,
            ));
        }
        let code = self.read_byte()?;
        let slot = (code & IS_REFERRED_TO != 0).then(|| {
            // Its number precedes those of its parts.
            self.referred.push(MarshalValue::None);
            self.referred.len() - 1
        });
        let value = match code & !IS_REFERRED_TO {
            b'0' => return Ok(None),
            b'N' | b'T' | b'F' => MarshalValue::None,
            b'i' => MarshalValue::Number(self.read_long()?.into()),
            b'I' => MarshalValue::Number(i64::from_le_bytes(self.read_eight_bytes()?) as f64),
            b'g' => MarshalValue::Number(f64::from_le_bytes(self.read_eight_bytes()?)),
            b'l' => self.big_number()?,
            b'f' => self.read_decimal(at)?,
            b's' | b'u' | b'a' => {
                let length = self.read_length()?;
                self.read_text(length)?
            }
            b't' | b'A' => {
                let length = self.read_length()?;
                let text = self.read_text(length)?;
                self.interned.push(text.clone());
                text
            }
            b'z' | b'Z' => {
                let length = self.read_byte()?.into();
                self.read_text(length)?
            }
            kind @ (b'r' | b'R') => {
                let index = self.read_length()?;
                let known = if kind == b'r' {
                    &self.referred
                } else {
                    &self.interned
                };
                let value = known.get(index).cloned();
                value.ok_or_else(|| ReadFault::damaged("refers to what comes later", at))?
            }
            b'(' => {
                let length = self.read_length()?;
                self.read_tuple(length, depth)?
            }
            b')' => {
                let length = self.read_byte()?.into();
                self.read_tuple(length, depth)?
            }
            b'{' => self.read_dictionary(depth)?,
            code => {
                let what = format!(
                    "a value of kind {:?}, which profiles do not have",
                    char::from(code)
                );
                return Err(ReadFault::damaged(what, at));
            }
        };
        if let Some(entry) = slot.and_then(|slot| self.referred.get_mut(slot)) {
            *entry = value.clone();
        }
        Ok(Some(value))
    }

    fn read_tuple(&mut self, length: usize, depth: usize) -> Result<MarshalValue, ReadFault> {
        let mut parts = Vec::new();
        for _ in 0..length {
            let Some(part) = self.read_value(depth + 1)? else {
                return Err(ReadFault::damaged(
                    "a tuple that ends early",
                    self.position(),
                ));
            };
            parts.push(part);
        }
        Ok(MarshalValue::Tuple(parts.into()))
    }

    /// Reads a number of 15-bit digits.
    fn big_number(&mut self) -> Result<MarshalValue, ReadFault> {
        let length = self.read_long()?;
        let digits = self.take_bytes(2 * length.unsigned_abs() as usize)?;
        let (digits, _) = digits.as_chunks::<2>();
        let number = digits.iter().rev().fold(0.0, |number: f64, digit| {
            number * 32768.0 + f64::from(u16::from_le_bytes(*digit))
        });
        Ok(MarshalValue::Number(if length < 0 {
            -number
        } else {
            number
        }))
    }
}

/// A function, by its number in the file's order, and its costs.
#[derive(Default)]
struct PythonFunction {
    file: String,
    line: i64,
    name: String,
    own_ns: f64,
    /// Caller and cost.
    callers: Vec<(usize, f64)>,
}

#[derive(Default)]
struct PythonProfile {
    functions: Vec<PythonFunction>,
    numbers: FxHashMap<(Rc<str>, i64, Rc<str>), usize>,
}

pub(crate) fn read_pstats(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let bytes = input.read_whole(options.limits.memory / MEMORY_FOR_BYTE)?;
    let mut unmarshal = PythonUnmarshal {
        bytes: &bytes,
        at: 0,
        referred: Vec::new(),
        interned: Vec::new(),
    };
    let Some(MarshalValue::Dictionary(entries)) = unmarshal.read_value(0)? else {
        return Err(ReadFault::damaged(
            "no dictionary of functions",
            FilePosition::Offset(0),
        ));
    };
    let mut profile = PythonProfile::default();
    for (row, (key, value)) in entries.iter().enumerate() {
        let at = FilePosition::Row {
            table: "function",
            row: row as u64,
        };
        let what = "not a function with its calls and times";
        profile
            .add_function(key, value)
            .ok_or_else(|| ReadFault::damaged(what, at))?;
    }
    let mut graph = CostGraph::new(options.limits.memory);
    graph.set_events(&["time"]);
    profile.fill_graph(&mut graph, options)?;
    let end = FilePosition::Offset(bytes.len() as u64);
    let is_changed = graph.reconcile_calls(end)?;
    let time = ValueType {
        name: "time".to_owned(),
        unit: "nanoseconds".to_owned(),
    };
    let mut draft = TreeDraft::new(vec![time], options);
    draft.charge_memory(
        bytes.len() as u64 * MEMORY_FOR_BYTE + graph.memory_size(),
        FilePosition::Offset(0),
    )?;
    draft.add_note("pstats keeps a call graph: the time of a function was shared among its call paths in proportion to what its callers waited for it");
    if is_changed {
        draft.add_note(
            "calls of functions that call themselves were counted more than once and scaled down",
        );
    }
    expand_call_paths(&graph, &mut draft, end)?;
    Ok(draft)
}

impl PythonProfile {
    /// Parses `(file, line, name): (calls, all calls, own time, time, {caller: (…)})`.
    fn add_function(&mut self, key: &MarshalValue, value: &MarshalValue) -> Option<()> {
        let number = self.function_index(key)?;
        let MarshalValue::Tuple(parts) = value else {
            return None;
        };
        let [
            _,
            _,
            MarshalValue::Number(own),
            _,
            MarshalValue::Dictionary(callers),
        ] = &**parts
        else {
            return None;
        };
        if !own.is_finite() {
            return None;
        }
        let mut all = Vec::with_capacity(callers.len());
        for (caller, cost) in callers.iter() {
            let caller = self.function_index(caller)?;
            // Without `cProfile`, only the calls are counted.
            let cost = match cost {
                MarshalValue::Tuple(parts) => match parts.get(3) {
                    Some(MarshalValue::Number(cost)) if cost.is_finite() => *cost,
                    _ => return None,
                },
                _ => 0.0,
            };
            all.push((caller, (cost * 1e9).max(0.0)));
        }
        let function = self.functions.get_mut(number)?;
        function.own_ns = (own * 1e9).max(0.0);
        function.callers = all;
        Some(())
    }

    fn function_index(&mut self, key: &MarshalValue) -> Option<usize> {
        let MarshalValue::Tuple(parts) = key else {
            return None;
        };
        let [
            MarshalValue::Text(file),
            MarshalValue::Number(line),
            MarshalValue::Text(name),
        ] = &**parts
        else {
            return None;
        };
        let line = *line as i64;
        let next = self.functions.len();
        let number = *self
            .numbers
            .entry((file.clone(), line, name.clone()))
            .or_insert(next);
        if number == next {
            self.functions.push(PythonFunction {
                file: file.to_string(),
                line,
                name: name.to_string(),
                ..PythonFunction::default()
            });
        }
        Some(number)
    }

    fn fill_graph(&self, graph: &mut CostGraph, options: &ReadOptions) -> Result<(), ReadFault> {
        let at = FilePosition::Offset(0);
        let mut ids = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let name = if options.lines && function.line > 0 {
                format!("{}:{}", function.name, function.line)
            } else {
                function.name.clone()
            };
            // Built-in functions have `~` for a file.
            let file = function.file.strip_prefix('~').unwrap_or(&function.file);
            let id = graph.add_function(file, &name, at)?;
            graph.add_cost(id, None, function.own_ns.round() as i64, at)?;
            ids.push(id);
        }
        for (function, callee) in self.functions.iter().zip(&ids) {
            for (caller, cost) in &function.callers {
                if let Some(caller) = ids.get(*caller) {
                    graph.add_cost(*caller, Some(*callee), cost.round() as i64, at)?;
                }
            }
        }
        Ok(())
    }
}
