//! The paper's static schedule (§6.1.3, §6.3): the time of each instruction of a block at the head
//! of an in-order processor's issue queue without dynamic stalls, and its reason.

use super::ProcessorModel;
use crate::Instruction;

/// Reason why an instruction was not issued earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The instruction was issued as soon as a cycle had room.
    Not,
    /// Others issued in the same cycle took the units that it needs.
    Slotting,
    /// The instruction waits for the result of another, by that one's place in the block.
    Operand(usize),
    /// An instruction still occupies the needed unit, by that one's place in the block.
    Unit(usize),
}

/// Static schedule of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Cycles that it is at the head of the issue queue: the paper's `M_i`. 0 for all but the first
    /// of instructions that are issued together.
    pub minimum: u32,
    /// The part of these cycles with another reason than the width of the processor.
    pub stall: u32,
    /// The reason.
    pub held: Held,
}

/// A register's value, or a unit: when it becomes available, and the instruction responsible.
#[derive(Clone, Copy, Default)]
struct Free {
    cycle: u32,
    by: Option<usize>,
}

impl ProcessorModel {
    /// Computes the schedule of the instructions of a block, as if nothing came before.
    pub fn schedule(&self, instructions: &[Instruction]) -> Vec<Scheduled> {
        let mut registers = [Free::default(); 128];
        let mut units: Vec<Vec<Free>> = self
            .resources
            .iter()
            .map(|resource| vec![Free::default(); resource.units.clamp(1, 64) as usize])
            .collect();
        // The cycle before the first one is full.
        let (mut cycle, mut issued) = (0_u32, self.processor.width);
        let mut schedule = Vec::with_capacity(instructions.len());
        for (place, one) in instructions.iter().enumerate() {
            let cost = self.cost(one);
            let room = cycle + u32::from(issued >= self.processor.width);
            let (mut at, mut held) = (room, Held::Not);
            for register in one.reads.iter() {
                let value = registers[usize::from(register.number())];
                if let Some(by) = value.by.filter(|_| value.cycle > at) {
                    (at, held) = (value.cycle, Held::Operand(by));
                }
            }
            for (resource, _) in cost.units {
                let free = units
                    .get(usize::from(*resource))
                    .and_then(|units| earliest_free(units));
                if let Some((_, free)) = free
                    && free.cycle > at
                    && let Some(by) = free.by
                {
                    let same_cycle = free.cycle == cycle + 1;
                    held = if same_cycle {
                        Held::Slotting
                    } else {
                        Held::Unit(by)
                    };
                    at = free.cycle;
                }
            }
            for (resource, cycles) in cost.units {
                let units = units.get_mut(usize::from(*resource));
                if let Some(units) = units
                    && let Some((index, _)) = earliest_free(units)
                    && let Some(unit) = units.get_mut(index)
                {
                    *unit = Free {
                        cycle: at + u32::from(*cycles),
                        by: Some(place),
                    };
                }
            }
            for register in one.writes.iter() {
                registers[usize::from(register.number())] = Free {
                    cycle: at + cost.latency,
                    by: Some(place),
                };
            }
            schedule.push(Scheduled {
                minimum: at - cycle,
                stall: at - room,
                held,
            });
            issued = if at == cycle { issued + 1 } else { 1 };
            cycle = at;
        }
        schedule
    }
}

fn earliest_free(units: &[Free]) -> Option<(usize, Free)> {
    let indexed = units.iter().copied().enumerate();
    indexed.min_by_key(|(_, free)| free.cycle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, InstructionDecoder, Processor};
    use profile::ImageAddress;

    fn schedule(words: &[u32]) -> Vec<Scheduled> {
        let mut decoder = InstructionDecoder::new(Architecture::Aarch64);
        let instructions: Vec<Instruction> = words
            .iter()
            .map(|word| {
                decoder
                    .decode(ImageAddress(0), &word.to_le_bytes())
                    .expect("valid")
            })
            .collect();
        ProcessorModel::new(Processor::named("cortex-a53").expect("there")).schedule(&instructions)
    }

    #[test]
    fn two_a_cycle_and_results_are_waited_for() {
        // add x0,x1,x2; add x3,x4,x5; ldr x6,[x0]; add x7,x6,#1
        let found = schedule(&[0x8b02_0020, 0x8b05_0083, 0xf940_0006, 0x9100_04c7]);
        assert_eq!(found[0].minimum, 1);
        assert_eq!(found[1].minimum, 0);
        assert_eq!(found[3].held, Held::Operand(2));
        assert!(found[3].minimum >= 2 && found[3].stall == found[3].minimum);
    }

    #[test]
    fn one_memory_unit_slots() {
        // Two loads that do not depend on each other cannot go together.
        let found = schedule(&[0xf940_0006, 0xf940_0027]);
        assert_eq!((found[1].held, found[1].minimum), (Held::Slotting, 1));
    }
}
