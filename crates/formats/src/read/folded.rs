//! Folded (collapsed) stacks: `outermost;…;innermost value`, a line each.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use profile::{DraftNode, MethodId, ValueType};
use rustc_hash::{FxHashMap, FxHashSet};

/// Suffixes of async-profiler and of the FlameGraph scripts for the way a frame ran.
const COMPILED: &[&str] = &["_[j]", "_[0]", "_[1]"];
const INLINED: &str = "_[i]";
const KERNEL: &str = "_[k]";

pub(crate) fn read_folded(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let value_type = ValueType {
        name: "samples".to_owned(),
        unit: "samples".to_owned(),
    };
    let mut stacks = FoldedStacks {
        draft: TreeDraft::new(vec![value_type], options),
        methods: FxHashMap::default(),
        inline: options.inline,
        rests: FxHashMap::default(),
    };
    let mut lines = LineReader::new(input);
    let (mut fractions, mut comments, mut read) = (0_u64, 0_u64, 0_u64);
    let mut skipped = Skipped::new("lines");
    let mut differential = DifferentialStacks::default();
    while let Some((at, line)) = lines.next_line()? {
        // Before the split: `# duration: 23873` is no stack, though it ends in a number.
        if is_comment(&line) {
            comments += 1;
            continue;
        }
        match split_value(&line) {
            Some((stack, FoldedValue { value, rest })) => {
                fractions += u64::from(rest != 0.0);
                read += 1;
                differential.add_stack(stack);
                stacks.add_stack(stack, value, rest, at)?;
            }
            None if line.trim().is_empty() => {}
            None => skipped.skip_part("no number behind the last space", at),
        }
    }
    differential.refuse()?;
    let mut draft = stacks.draft;
    skipped.note_skipped(read, &mut draft)?;
    if fractions > 0 {
        draft.add_note(format!(
            "{fractions} values were not whole numbers and were rounded"
        ));
    }
    if comments > 0 {
        draft.add_note(format!(
            "{comments} lines with # or // are no stacks and were left out"
        ));
    }
    Ok(draft)
}

/// Returns whether a line is a comment. A frame may begin with `#` or `//` as well, but not with `#
/// `.
pub(crate) fn is_comment(line: &str) -> bool {
    line.starts_with("# ")
        || (line.starts_with('#') || line.starts_with("//")) && split_value(line).is_none()
}

/// The number at the end of a line.
pub(crate) struct FoldedValue {
    value: i64,
    /// Remainder of its rounding, 0 for an integer.
    rest: f64,
}

/// Splits a line into the stack and the value.
pub(crate) fn split_value(line: &str) -> Option<(&str, FoldedValue)> {
    let (stack, digits) = line.trim_end().rsplit_once([' ', '\t'])?;
    let value = match digits.parse() {
        Ok(value) => FoldedValue { value, rest: 0.0 },
        Err(_) => {
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let value: f64 = digits.parse().ok().filter(|v: &f64| v.is_finite())?;
            // A cast saturates; overflowing sums are found later.
            FoldedValue {
                value: value.round() as i64,
                rest: value - value.round(),
            }
        }
    };
    Some((stack, value))
}

/// Detector of files that compare two profiles: each stack so far had two values. In such files
/// each stack occurs once; threads named `worker 1`, `worker 2` are the same without their number.
#[derive(Default)]
struct DifferentialStacks {
    seen: FxHashSet<Box<str>>,
    is_profile: bool,
}

impl DifferentialStacks {
    /// Adds the text in front of a line's last value.
    fn add_stack(&mut self, text: &str) {
        if self.is_profile {
            return;
        }
        self.is_profile = match split_value(text) {
            Some((stack, _)) => !self.seen.insert(stack.trim_end().into()),
            None => true,
        };
        if self.is_profile {
            self.seen = FxHashSet::default();
        }
    }

    fn refuse(&self) -> Result<(), ReadFault> {
        if self.is_profile || self.seen.is_empty() {
            return Ok(());
        }
        Err(ReadFault::Lacks(
            "differential folded stacks: each has two values, of a profile before and of one after, and is no profile by itself. \
             Compare the two profiles that it was made of: vitalfew diff BEFORE AFTER"
                .to_owned(),
        ))
    }
}

struct FoldedStacks {
    draft: TreeDraft,
    /// Methods by the written frame; `None` for a frame whose cost is its caller's.
    methods: FxHashMap<Box<str>, Option<MethodId>>,
    inline: bool,
    /// Remainders of rounding by node: many small costs would otherwise be 0.
    rests: FxHashMap<DraftNode, f64>,
}

impl FoldedStacks {
    fn add_stack(
        &mut self,
        stack: &str,
        mut value: i64,
        rest: f64,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let mut node = self.draft.group_node(&Owner::default(), at)?;
        // Some tools end a stack with `;`, which makes an empty frame.
        for frame in stack.split(';').filter(|frame| !frame.is_empty()) {
            if let Some(method) = self.frame_method(frame)? {
                node = self.draft.child_node(node, method, at)?;
            }
        }
        if rest != 0.0 {
            let owed = self.rests.entry(node).or_default();
            *owed += rest;
            if owed.abs() > 0.5 {
                value = value.saturating_add(owed.round() as i64);
                *owed -= owed.round();
            }
        }
        self.draft.add_cost(0, node, value);
        Ok(())
    }

    fn frame_method(&mut self, frame: &str) -> Result<Option<MethodId>, ReadFault> {
        if let Some(method) = self.methods.get(frame) {
            return Ok(*method);
        }
        let method = if let Some(name) = frame.strip_suffix(KERNEL) {
            Some(self.draft.intern_method(name, "[kernel]")?)
        } else if let Some(name) = frame.strip_suffix(INLINED) {
            if self.inline {
                Some(self.draft.intern_method(name, "")?)
            } else {
                None
            }
        } else {
            let name = COMPILED.iter().find_map(|mark| frame.strip_suffix(mark));
            Some(self.draft.intern_method(name.unwrap_or(frame), "")?)
        };
        self.methods.insert(frame.into(), method);
        Ok(method)
    }
}
