//! Reader of the output of Austin, a sampler of Python programs: metadata as `# key: value`, and a
//! line a sample, `P<process>;T<interpreter>:<thread>;<file>:<function>:<line>;… <value>`.
//!
//! The format resembles folded stacks. Read as those, metadata would count as stacks, each line of
//! a function would be a method, and microseconds would be samples.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use crate::frame::base_of_path;
use profile::ValueType;

const NANOS_PER_MICRO: i64 = 1000;

pub(crate) fn detect_austin(text: &str) -> bool {
    text.starts_with("# austin: ")
}

/// Quantity that Austin measured.
#[derive(Clone, Copy)]
enum AustinMode {
    Wall,
    Cpu,
    Memory,
    /// Time, whether the thread was idle, and memory.
    Full,
}

impl AustinMode {
    fn parse_mode(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "full" => Self::Full,
            _ => Self::Wall,
        }
    }

    fn value_types(self) -> Vec<ValueType> {
        let (wall, cpu) = (("wall time", "nanoseconds"), ("cpu time", "nanoseconds"));
        let memory = ("memory", "bytes");
        let types = match self {
            Self::Wall => vec![wall],
            Self::Cpu => vec![cpu],
            Self::Memory => vec![memory],
            Self::Full => vec![wall, cpu, memory],
        };
        let value_type = |(name, unit): (&str, &str)| ValueType {
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        types.into_iter().map(value_type).collect()
    }

    /// Returns the costs at the end of a line, in the order of the value types.
    fn line_costs(self, text: &str) -> Option<Vec<i64>> {
        let numbers: Option<Vec<i64>> = text.split(',').map(|n| n.parse().ok()).collect();
        let nanos = |micros: i64| micros.saturating_mul(NANOS_PER_MICRO);
        match (self, numbers?.as_slice()) {
            (Self::Wall | Self::Cpu, [time]) => Some(vec![nanos(*time)]),
            (Self::Memory, [bytes]) => Some(vec![*bytes]),
            (Self::Full, [time, idle, bytes]) => {
                let cpu = if *idle == 0 { nanos(*time) } else { 0 };
                Some(vec![nanos(*time), cpu, *bytes])
            }
            _ => None,
        }
    }
}

pub(crate) fn read_austin(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let mut mode = AustinMode::Wall;
    let mut lines = LineReader::new(input);
    // Metadata precedes the samples; the totals follow them.
    let mut draft: Option<TreeDraft> = None;
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    while let Some((at, line)) = lines.next_line()? {
        let line = line.trim_end();
        if let Some(entry) = line.strip_prefix("# ") {
            // The first mode determines the tree's value types.
            if let (Some(name), None) = (entry.strip_prefix("mode: "), &draft) {
                mode = AustinMode::parse_mode(name);
            }
        } else if !line.is_empty() {
            let draft = draft.get_or_insert_with(|| TreeDraft::new(mode.value_types(), options));
            let sample = line.rsplit_once(' ');
            match sample.and_then(|(stack, value)| Some((stack, mode.line_costs(value)?))) {
                Some((stack, costs)) => {
                    read += 1;
                    add_sample(draft, stack, &costs, options, at)?;
                }
                None => skipped.skip_part("no values of the mode behind the last space", at),
            }
        }
    }
    let mut draft = draft.unwrap_or_else(|| TreeDraft::new(mode.value_types(), options));
    skipped.note_skipped(read, &mut draft)?;
    Ok(draft)
}

fn add_sample(
    draft: &mut TreeDraft,
    stack: &str,
    costs: &[i64],
    options: &ReadOptions,
    at: FilePosition,
) -> Result<(), ReadFault> {
    let mut frames = stack.split(';').peekable();
    let pid = frames.next_if(|frame| numbered(frame, 'P').is_some());
    let thread = frames.next_if(|frame| numbered(frame, 'T').is_some());
    let owner = Owner {
        pid: pid.and_then(|frame| numbered(frame, 'P')),
        tid: thread.and_then(|frame| numbered(frame, 'T')),
        ..Owner::default()
    };
    let mut node = draft.group_node(&owner, at)?;
    for frame in frames.filter(|frame| !frame.is_empty()) {
        let (name, module) = split_frame(frame, options.lines);
        let method = draft.intern_method(&name, module)?;
        node = draft.child_node(node, method, at)?;
    }
    for (value, cost) in costs.iter().enumerate() {
        draft.add_cost(value, node, *cost);
    }
    Ok(())
}

/// Parses the number of `P12`, or of `T0:12`, whose first part is the interpreter's.
fn numbered(frame: &str, letter: char) -> Option<i64> {
    let number = frame.strip_prefix(letter)?;
    number.rsplit(':').next()?.parse().ok()
}

/// Returns the name and module of a frame. `:INVALID:` and `:GC:` stand for unreadable stacks and
/// for garbage collection.
fn split_frame(frame: &str, with_lines: bool) -> (String, &str) {
    if let Some(mark) = frame.strip_prefix(':').and_then(|f| f.strip_suffix(':')) {
        return (format!("[{}]", mark.to_lowercase()), "");
    }
    let mut parts = frame.rsplitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(line), Some(name), Some(file)) => {
            let name = if with_lines {
                format!("{name}:{line}")
            } else {
                name.to_owned()
            };
            (name, base_of_path(file))
        }
        _ => (frame.to_owned(), ""),
    }
}
