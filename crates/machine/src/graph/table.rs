//! Jump tables: the computation of an indirect jump's target is evaluated symbolically along the
//! code that certainly leads to it, so that no compiler's patterns are built in.

use super::blocks::{JumpTable, LoadedImage};
use super::code::{CodeMap, Position};
use super::constants::Constants;
use super::values::{SymbolicValue, SymbolicValues, TableEntry, extend_bits};
use crate::effect::{AddressSum, RegisterEffect};
use crate::{Architecture, Instruction};
use profile::ImageAddress;
use rustc_hash::FxHashSet;

/// Limit on the instructions examined before a jump.
const MAX_PATH: usize = 64;

/// Maximum number of joins to look behind.
const MAX_JOINS: usize = 2;

/// Maximum number of paths that may meet there.
const MAX_WAYS: usize = 4;

/// Number of entries above which a claimed table is none.
const MAX_ENTRIES: u64 = 1 << 16;

/// Maximum number of entries of a table of unknown size.
const MAX_UNBOUNDED: u64 = 1 << 12;

/// Maximum number of different targets of a table outside of the procedure: parts of the procedure
/// that a compiler has moved elsewhere.
const MAX_OUTSIDE: usize = 2;

/// Finds the table of an indirect jump.
pub(super) fn find_jump_table(
    code: &CodeMap<'_>,
    jump: u32,
    image: &dyn LoadedImage,
    constants: &Constants,
) -> Option<JumpTable> {
    let mut found: Option<(TableEntry, Option<u64>)> = None;
    for path in paths_to(code, jump) {
        let (entry, bound) = follow_path(code, jump, &path, constants)?;
        found = match found {
            None => Some((entry, bound)),
            // All paths to the jump must lead to the same table.
            Some((first, other))
                if (TableEntry {
                    index: first.index,
                    ..entry
                }) == first =>
            {
                let bound = bound.zip(other).map(|(bound, other)| bound.max(other));
                Some((first, bound))
            }
            Some(_) => return None,
        };
    }
    let (entry, bound) = found?;
    let jump = code.instruction(jump)?.address;
    // The bound of an index need not be the size of the table.
    let bounded = bound.and_then(|bound| read_entries(code, jump, entry, Some(bound), image));
    bounded.or_else(|| read_entries(code, jump, entry, None, image))
}

/// Returns whether a jump takes its target from one fixed place, such as the global offset table:
/// it goes to another procedure.
pub(super) fn is_through_slot(code: &CodeMap<'_>, jump: &Instruction) -> bool {
    let effect = code.position(jump.address).map(|position| {
        let bytes = code.bytes_at(position);
        code.decoder.effect_of(jump.address, bytes)
    });
    matches!(
        effect,
        Some(Ok(RegisterEffect::JumpMemory(AddressSum {
            base: None,
            index: None,
            ..
        })))
    )
}

/// Returns the table entry that the jump uses after this path, and the largest index.
fn follow_path(
    code: &CodeMap<'_>,
    jump: u32,
    path: &[PathStep],
    constants: &Constants,
) -> Option<(TableEntry, Option<u64>)> {
    let mut values = SymbolicValues::new(code, constants);
    let effect_of = |instruction: &Instruction| {
        let position = code.position(instruction.address).unwrap_or(Position::MAX);
        let bytes = code.bytes_at(position);
        let effect = code.decoder.effect_of(instruction.address, bytes);
        effect.unwrap_or(RegisterEffect::Other)
    };
    for step in path.iter().rev() {
        let instruction = code.instruction(step.index)?;
        values.step(instruction, effect_of(instruction), step.jumps);
    }
    let value = match effect_of(code.instruction(jump)?) {
        RegisterEffect::JumpRegister(register) => values.value(register),
        RegisterEffect::JumpMemory(address) => values.load(address, 8, false),
        _ => return None,
    };
    match value {
        SymbolicValue::Entry(entry) => Some((entry, values.bound(entry.index))),
        _ => None,
    }
}

/// An instruction of a path, and whether the path continues at its jump target.
#[derive(Clone, Copy)]
struct PathStep {
    index: u32,
    jumps: bool,
}

/// Returns the paths to an instruction, each with the last step first. They end early where too
/// many meet.
fn paths_to(code: &CodeMap<'_>, from: u32) -> Vec<Vec<PathStep>> {
    let mut complete = Vec::new();
    let mut growing = vec![(from, Vec::new(), 0)];
    while let Some((current, path, joins)) = growing.pop() {
        let before = steps_to(code, current);
        let is_join = before.len() > 1;
        if before.is_empty()
            || path.len() >= MAX_PATH
            || is_join && (joins == MAX_JOINS || before.len() > MAX_WAYS)
        {
            complete.push(path);
            continue;
        }
        for step in before {
            let mut path = path.clone();
            path.push(step);
            growing.push((step.index, path, joins + usize::from(is_join)));
        }
    }
    complete
}

/// Returns the instructions that may execute before an instruction.
fn steps_to(code: &CodeMap<'_>, to: u32) -> Vec<PathStep> {
    let position = code
        .instruction(to)
        .and_then(|instruction| code.position(instruction.address));
    let Some(position) = position.filter(|position| *position != 0) else {
        return Vec::new();
    };
    let before = code.index_before(position).filter(|before| {
        code.instruction(*before)
            .is_some_and(|instruction| code.runs_on(*before, instruction))
    });
    let jumps = code.jumps_to.get(&position);
    let jumps = jumps.map(Vec::as_slice).unwrap_or_default().iter();
    let jumps = jumps.take(MAX_WAYS + 1).map(|index| PathStep {
        index: *index,
        jumps: true,
    });
    before
        .map(|index| PathStep {
            index,
            jumps: false,
        })
        .into_iter()
        .chain(jumps)
        .collect()
}

/// Reads the entries.
fn read_entries(
    code: &CodeMap<'_>,
    jump: ImageAddress,
    entry: TableEntry,
    bound: Option<u64>,
    image: &dyn LoadedImage,
) -> Option<JumpTable> {
    let count = match bound {
        Some(bound) if bound >= MAX_ENTRIES => return None,
        Some(bound) => bound + 1,
        None => MAX_UNBOUNDED,
    };
    let mut targets = Vec::new();
    let mut outside = FxHashSet::default();
    for index in 0..count {
        let Some(target) = entry_target(entry, index, image) else {
            break;
        };
        let inside = code.position(target);
        if inside.is_none() {
            outside.insert(target);
        }
        let starts = inside.is_some_and(|position| starts_instruction(code, position));
        // A table of known size may lead out of the procedure, but not into the middle of an
        // instruction.
        if !starts && (bound.is_none() || inside.is_some()) {
            break;
        }
        targets.push(target);
    }
    let complete = bound.is_none() || targets.len() as u64 == count;
    // In a real table, entries that lead out have one or two default targets.
    let plausible =
        outside.len() <= MAX_OUTSIDE && targets.iter().any(|target| !outside.contains(target));
    (complete && plausible).then_some(JumpTable {
        jump,
        address: ImageAddress(entry.table),
        targets,
        bounded: bound.is_some(),
    })
}

fn entry_target(entry: TableEntry, index: u64, image: &dyn LoadedImage) -> Option<ImageAddress> {
    let mut buffer = [0; 8];
    let address = entry.table.checked_add(index << entry.stride)?;
    let bytes = buffer.get_mut(..entry.width.into())?;
    if !image.read_loaded(ImageAddress(address), bytes) {
        return None;
    }
    let value = extend_bits(u64::from_le_bytes(buffer), entry.width * 8, entry.signed);
    let value = value.checked_shl(entry.shift.into())?;
    Some(ImageAddress(entry.base.wrapping_add(value)))
}

fn starts_instruction(code: &CodeMap<'_>, position: Position) -> bool {
    let known = code.index_at(position).is_some();
    let aligned = match code.decoder.architecture() {
        Architecture::X86_64 => true,
        Architecture::Aarch64 => position.is_multiple_of(4),
    };
    known
        || aligned
            && code
                .decoder
                .effect_of(code.address(position), code.bytes_at(position))
                .is_ok()
}
