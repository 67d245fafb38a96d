//! Ranges that no known path reaches: padding, data, or code with another entry.

use super::code::{CodeMap, Position};
use crate::{Architecture, Flow};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// The contents at the start of an uncovered range.
pub(super) enum CodeGap {
    /// Code that may start at this position.
    Code(Position),
    /// Data.
    Data(Range<Position>),
}

/// Returns the first gap at or after `from`, and moves `from` past it. `steps` bounds the work.
pub(super) fn next_gap(
    code: &mut CodeMap<'_>,
    covered: &[bool],
    from: &mut Position,
    steps: &mut usize,
) -> Option<CodeGap> {
    loop {
        let rest = covered.get(*from as usize..)?;
        let start = *from + rest.iter().position(|covered| !covered)? as Position;
        let length = covered
            .get(start as usize..)?
            .iter()
            .take_while(|covered| !**covered)
            .count();
        let end = start + length as Position;
        let first = skip_padding(code, start, end);
        if first >= end {
            *from = end;
            continue;
        }
        return Some(if is_code(code, covered, first, steps) {
            *from = first;
            CodeGap::Code(first)
        } else {
            *from = end;
            CodeGap::Data(first..end)
        });
    }
}

/// Returns the first position of a range that is not padding.
fn skip_padding(code: &mut CodeMap<'_>, mut position: Position, end: Position) -> Position {
    let filling: &[u8] = match code.decoder.architecture() {
        Architecture::X86_64 => &[0, 0xcc],
        Architecture::Aarch64 => &[0],
    };
    while position < end {
        let step = match code.bytes_at(position).first() {
            Some(byte) if filling.contains(byte) => 1,
            _ => match code.decode(position) {
                Ok(instruction) if instruction.kind.nop => Position::from(instruction.length),
                _ => break,
            },
        };
        position += step;
    }
    position
}

/// Returns whether all code executed from a position decodes, and joins known code only where one
/// of its instructions starts.
fn is_code(code: &mut CodeMap<'_>, covered: &[bool], start: Position, steps: &mut usize) -> bool {
    let mut seen = FxHashSet::default();
    let mut work = vec![start];
    while let Some(position) = work.pop() {
        if code.index_at(position).is_some() || !seen.insert(position) {
            continue;
        }
        let Ok(instruction) = code.decode(position) else {
            return false;
        };
        *steps = match steps.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        let end = position as usize + usize::from(instruction.length);
        let overlaps = covered.get(position as usize..end);
        if overlaps.is_none_or(|bytes| bytes.contains(&true)) {
            return false;
        }
        if let Flow::Branch(target) | Flow::Jump(target) = instruction.flow {
            work.extend(code.position(target));
        }
        // A call may be the last instruction.
        if instruction.flow.falls_through() && !(instruction.flow.is_call() && end == covered.len())
        {
            work.push(end as Position);
        }
    }
    true
}
