//! Moves between vector registers and memory: whole registers, halves, and masked elements.

use super::lanes::{self, ZERO as NOTHING, with_low};
use super::masks;
use super::memory::InterpretedMemory;
use super::names::{integer_index, vector_index, width_mask};
use super::partly::Partly;
use super::state::State;
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind};

impl State {
    /// Loads or stores one half of 16 bytes.
    pub(super) fn moves_half(
        &mut self,
        instruction: &Instruction,
        half: usize,
        memory: &mut impl InterpretedMemory,
    ) -> Option<bool> {
        let at = self.address(instruction);
        if instruction.op0_kind() != OpKind::Memory {
            let index = vector_index(instruction.op0_register())?;
            self.vector[index][half] = at.and_then(|at| memory.load_value(at, 8));
            return Some(true);
        }
        match at {
            Some(at) => {
                let index = vector_index(instruction.op1_register())?;
                memory.store_value(at, 8, self.vector[index][half]);
                Some(true)
            }
            None => (!memory.is_whole()).then_some(true),
        }
    }

    /// Loads or moves masked elements.
    pub(super) fn moves_some(
        &mut self,
        instruction: &Instruction,
        lanes: usize,
        width: usize,
        memory: &mut impl InterpretedMemory,
    ) -> bool {
        let to = (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register());
        let mask = masks::mask_index(instruction.op_mask()).and_then(|index| self.masks[index]);
        let (Some(to), Some(mask)) = (to.and_then(vector_index), mask) else {
            return false;
        };
        let old = if instruction.zeroing_masking() {
            NOTHING
        } else {
            self.vector[to]
        };
        let new = self.vector_operand(instruction, 1, lanes, memory);
        self.set_vector(
            instruction,
            lanes,
            lanes::blend_by_mask(&new, &old, mask, width),
        );
        self.partly = Some(Partly {
            register: to,
            elements: mask,
            width,
            loaded: new,
        });
        true
    }

    pub(super) fn execute_move(
        &mut self,
        instruction: &Instruction,
        bytes: usize,
        memory: &mut impl InterpretedMemory,
    ) -> Option<bool> {
        let scalar = bytes < 16;
        // Between two registers the low number joins the upper part of the destination, or of
        // another register.
        let joins = matches!(
            instruction.mnemonic(),
            Mnemonic::Movsd | Mnemonic::Movss | Mnemonic::Vmovsd | Mnemonic::Vmovss
        ) && instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register;
        let last = instruction.op_count() - 1;
        let mut value = self.vector_operand(instruction, last, bytes.div_ceil(8), memory);
        if scalar && !joins {
            value = with_low(
                &NOTHING,
                [value[0].map(|low| low & width_mask(bytes)), Some(0)],
            );
        }
        if instruction.op0_kind() == OpKind::Memory {
            let at = self.address(instruction);
            if at.is_none() && memory.is_whole() {
                return None;
            }
            if let Some(at) = at {
                for (lane, from) in value.iter().zip((0..bytes).step_by(8)) {
                    memory.store_value(at.wrapping_add(from as u64), (bytes - from).min(8), *lane);
                }
            }
            return Some(true);
        }
        let to = instruction.op0_register();
        match vector_index(to) {
            Some(index) if joins => {
                let legacy = instruction.encoding() == EncodingKind::Legacy;
                let above = vector_index(instruction.op_register(u32::from(!legacy)))?;
                let above = self.vector[above];
                let low = match (bytes, value[0]) {
                    (8, low) => low,
                    (_, low) => low
                        .zip(above[0])
                        .map(|(low, above)| low & width_mask(4) | above & !width_mask(4)),
                };
                let result = with_low(&above, [low, above[1]]);
                self.vector[index][..2].copy_from_slice(&result[..2]);
                if !legacy {
                    self.vector[index][2..].fill(Some(0));
                }
            }
            Some(_) => self.set_vector(instruction, bytes.div_ceil(8).max(2), value),
            None => self.integer[integer_index(to)?] = value[0],
        }
        Some(true)
    }
}

/// Returns which half of 16 bytes an instruction moves to or from memory.
pub(super) fn half_moved(instruction: &Instruction) -> Option<usize> {
    match instruction.mnemonic() {
        Mnemonic::Movlpd | Mnemonic::Movlps => Some(0),
        Mnemonic::Movhpd | Mnemonic::Movhps => Some(1),
        _ => None,
    }
}

/// Returns the element size in bytes of a masked move.
pub(super) fn masked_move(instruction: &Instruction) -> Option<usize> {
    use Mnemonic as M;
    Some(match instruction.mnemonic() {
        M::Vmovdqu8 => 1,
        M::Vmovdqu16 => 2,
        M::Vmovdqu32 | M::Vmovdqa32 => 4,
        M::Vmovdqu64 | M::Vmovdqa64 => 8,
        _ => return None,
    })
}

/// Returns the number of bytes that a move moves; an inner `None` stands for whole registers.
pub(super) fn moved_bytes(instruction: &Instruction) -> Option<Option<usize>> {
    use Mnemonic as M;
    Some(match instruction.mnemonic() {
        M::Movups | M::Movaps | M::Movupd | M::Movapd | M::Movdqu | M::Movdqa => None,
        M::Vmovups | M::Vmovaps | M::Vmovupd | M::Vmovapd | M::Vmovdqu | M::Vmovdqa => None,
        M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 | M::Vmovdqu64 => None,
        M::Vmovdqa32 | M::Vmovdqa64 | M::Lddqu | M::Vlddqu | M::Movntdq | M::Vmovntdq => None,
        M::Movq | M::Movsd | M::Vmovq | M::Vmovsd => Some(8),
        M::Movd | M::Movss | M::Vmovd | M::Vmovss => Some(4),
        _ => return None,
    })
}
