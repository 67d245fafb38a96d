//! Registers that hold the same constant throughout a procedure.

use super::code::{CodeMap, Position};
use crate::Register;
use crate::effect::RegisterEffect;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// Largest distance of two instructions that form one constant, in bytes.
const NEAR: u64 = 32;

/// Registers that get the same constant at each write in the procedure, because a compiler has
/// moved the address of a table out of a loop.
#[derive(Default)]
pub(super) struct Constants(OnceCell<FxHashMap<Register, Option<u64>>>);

impl Constants {
    pub fn of(&self, code: &CodeMap<'_>, register: Register) -> Option<u64> {
        let known = self.0.get_or_init(|| find_constants(code));
        known.get(&register).copied().flatten()
    }
}

fn find_constants(code: &CodeMap<'_>) -> FxHashMap<Register, Option<u64>> {
    let stack_pointer = Register::stack_pointer(code.decoder.architecture());
    // The last constant given to a register, and its place.
    let mut last: FxHashMap<Register, (u64, u64)> = FxHashMap::default();
    let mut definitions: FxHashMap<Register, Vec<(u64, Option<u64>)>> = FxHashMap::default();
    for instruction in &code.instructions {
        if instruction.kind.load && instruction.reads.contains(stack_pointer) {
            // Restores the caller's value.
            continue;
        }
        let here = instruction.address.0;
        let position = code.position(instruction.address).unwrap_or(Position::MAX);
        let effect = code
            .decoder
            .effect_of(instruction.address, code.bytes_at(position));
        let near = |register: &Register| {
            let (value, at) = last.get(register)?;
            (here.abs_diff(*at) <= NEAR).then_some(*value)
        };
        let (new, replaces) = match effect {
            Ok(RegisterEffect::Constant { to, value }) => (Some((to, value)), false),
            Ok(RegisterEffect::Add { to, sum }) if sum.index.is_none() => {
                let base = sum.base.as_ref().and_then(near);
                let new = base.map(|base| (to, base.wrapping_add(sum.displacement)));
                (new, sum.base == Some(to))
            }
            _ => (None, false),
        };
        for register in instruction.writes.iter() {
            let value = new
                .filter(|(to, _)| *to == register)
                .map(|(_, value)| value);
            let known = definitions.entry(register).or_default();
            if replaces && value.is_some() {
                known.pop();
            }
            known.push((here, value));
            match value {
                Some(value) => last.insert(register, (value, here)),
                None => last.remove(&register),
            };
        }
    }
    let same = |values: &Vec<(u64, Option<u64>)>| {
        let first = values.first()?.1?;
        values
            .iter()
            .all(|(_, value)| *value == Some(first))
            .then_some(first)
    };
    definitions
        .iter()
        .map(|(register, values)| (*register, same(values)))
        .collect()
}
