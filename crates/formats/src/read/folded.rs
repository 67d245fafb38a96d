//! Folded (collapsed) stacks: `outermost;…;innermost value`, a line each.

use super::draft::{Draft, Owner};
use super::error::{Fault, Place};
use super::input::Input;
use super::lines::Lines;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::{MethodId, ValueType};
use rustc_hash::FxHashMap;

/// Marks of async-profiler and of the FlameGraph scripts: how the frame ran.
const COMPILED: &[&str] = &["_[j]", "_[0]", "_[1]"];
const INLINED: &str = "_[i]";
const KERNEL: &str = "_[k]";

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let value_type = ValueType {
        name: "samples".to_owned(),
        unit: "samples".to_owned(),
    };
    let mut stacks = Stacks {
        draft: Draft::new(vec![value_type], options),
        methods: FxHashMap::default(),
        inline: options.inline,
    };
    let mut lines = Lines::new(input);
    let (mut fractions, mut comments, mut read) = (0_u64, 0_u64, 0_u64);
    let mut skipped = Skipped::new("lines");
    while let Some((at, line)) = lines.next()? {
        match split(&line) {
            Some((stack, Value { value, fraction })) => {
                fractions += u64::from(fraction);
                read += 1;
                stacks.add(stack, value, at)?;
            }
            None if line.trim().is_empty() => {}
            None if line.starts_with('#') || line.starts_with("//") => comments += 1,
            None => skipped.add("no number behind the last space", at),
        }
    }
    let mut draft = stacks.draft;
    skipped.finish(read, &mut draft)?;
    if fractions > 0 {
        draft.note(format!(
            "{fractions} values were not whole numbers and were rounded"
        ));
    }
    if comments > 0 {
        draft.note(format!(
            "{comments} lines with # or // are no stacks and were left out"
        ));
    }
    Ok(draft)
}

/// The number at the end of a line.
pub(crate) struct Value {
    value: i64,
    /// True if it was rounded.
    fraction: bool,
}

/// The stack and the value of a line.
pub(crate) fn split(line: &str) -> Option<(&str, Value)> {
    let (stack, digits) = line.trim_end().rsplit_once([' ', '\t'])?;
    let value = match digits.parse() {
        Ok(value) => Value {
            value,
            fraction: false,
        },
        Err(_) => {
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let value: f64 = digits.parse().ok().filter(|v: &f64| v.is_finite())?;
            // A cast saturates; sums that overflow are found later.
            Value {
                value: value.round() as i64,
                fraction: value.fract() != 0.0,
            }
        }
    };
    Some((stack, value))
}

struct Stacks {
    draft: Draft,
    /// By the frame as it is written; `None` of one that is its caller's.
    methods: FxHashMap<Box<str>, Option<MethodId>>,
    inline: bool,
}

impl Stacks {
    fn add(&mut self, stack: &str, value: i64, at: Place) -> Result<(), Fault> {
        let mut node = self.draft.group(&Owner::default(), at)?;
        // Empty frames come from tools that end a stack with `;`.
        for frame in stack.split(';').filter(|frame| !frame.is_empty()) {
            if let Some(method) = self.method(frame)? {
                node = self.draft.child(node, method, at)?;
            }
        }
        self.draft.add(0, node, value);
        Ok(())
    }

    fn method(&mut self, frame: &str) -> Result<Option<MethodId>, Fault> {
        if let Some(method) = self.methods.get(frame) {
            return Ok(*method);
        }
        let method = if let Some(name) = frame.strip_suffix(KERNEL) {
            Some(self.draft.method(name, "[kernel]")?)
        } else if let Some(name) = frame.strip_suffix(INLINED) {
            match self.inline {
                true => Some(self.draft.method(name, "")?),
                false => None,
            }
        } else {
            let name = COMPILED.iter().find_map(|mark| frame.strip_suffix(mark));
            Some(self.draft.method(name.unwrap_or(frame), "")?)
        };
        self.methods.insert(frame.into(), method);
        Ok(method)
    }
}
