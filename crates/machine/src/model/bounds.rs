use super::ProcessorModel;
use crate::{Flow, Instruction};

/// The least cycles of a sequence of instructions, repeated without stalls: three bounds, of which
/// the largest counts. Latency bounds no out-of-order execution, because other work goes on
/// meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Cycles of fetching.
    pub front_end: f64,
    /// Cycles of issuing: micro-operations divided by the width.
    pub issue: f64,
    /// Cycles of the busiest units.
    pub ports: f64,
    /// The busiest units, by index in [`ProcessorModel::resources`].
    pub busiest: Option<usize>,
}

/// The limiting resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Fetching.
    FrontEnd,
    /// Issuing.
    Issue,
    /// Units.
    Ports,
}

impl Bounds {
    /// Returns the largest bound.
    pub fn cycles(&self) -> f64 {
        self.front_end.max(self.issue).max(self.ports)
    }

    /// Returns the resource of the largest bound.
    pub fn limit(&self) -> Limit {
        let cycles = self.cycles();
        if self.issue >= cycles {
            Limit::Issue
        } else if self.ports >= cycles {
            Limit::Ports
        } else {
            Limit::FrontEnd
        }
    }
}

/// Returns whether the second instruction is fused with the first.
pub(crate) fn are_fused(first: &Instruction, second: &Instruction) -> bool {
    first.kind.fusible_flags && second.kind.fusible_branch
}

impl ProcessorModel {
    /// Returns the bounds of consecutive instructions.
    pub fn bounds(&self, instructions: &[Instruction]) -> Bounds {
        let processor = self.processor;
        let mut busy = vec![0_u64; self.resources.len()];
        let (mut uops, mut bytes, mut jumps) = (0_u64, 0_u64, 0_u64);
        let mut before: Option<&Instruction> = None;
        for one in instructions {
            let cost = self.cost(one);
            bytes += u64::from(one.length);
            // Conditional branches may fall through.
            let jumps_away = !matches!(one.flow, Flow::Next | Flow::Branch(_) | Flow::Stop);
            jumps += u64::from(jumps_away);
            let fused = before.is_some_and(|before| are_fused(before, one));
            before = Some(one);
            if fused {
                continue;
            }
            uops += u64::from(cost.uops);
            for (resource, cycles) in cost.units {
                if let Some(busy) = busy.get_mut(usize::from(*resource)) {
                    *busy += u64::from(*cycles);
                }
            }
        }
        let used = self.resources.iter().zip(&busy).map(|(resource, busy)| {
            // Counts fit: a procedure has at most some million instructions.
            *busy as f64 / f64::from(resource.units.max(1))
        });
        let busiest = used
            .enumerate()
            .filter(|(_, cycles)| *cycles > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let fetch = bytes as f64 / f64::from(processor.fetch);
        Bounds {
            front_end: fetch.max(jumps as f64 / f64::from(processor.jumps)),
            issue: uops as f64 / f64::from(processor.width),
            ports: busiest.map_or(0.0, |(_, cycles)| cycles),
            busiest: busiest.map(|(index, _)| index),
        }
    }
}
