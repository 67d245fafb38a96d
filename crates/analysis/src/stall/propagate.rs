//! Frequencies from the flow in and out (section 6.1.4): a block runs as often as all edges into it
//! together, and as all edges out of it.

use super::{Confidence, Ends, Estimate};
use machine::Equivalence;

/// The edges on one side of a block, and the block.
struct Side {
    block: usize,
    edges: Vec<usize>,
}

/// Fills in the frequencies that follow from known ones. Each class gets a frequency once, so that
/// this takes linear time.
pub(super) fn propagate_known(
    edges: &[Ends],
    classes: &Equivalence,
    known: &mut [Option<Estimate>],
) {
    let blocks = classes.blocks.len();
    let mut sides: Vec<Side> = (0..2 * blocks)
        .map(|side| Side {
            block: classes.blocks[side / 2],
            edges: Vec::new(),
        })
        .collect();
    for ((from, to), class) in edges.iter().zip(&classes.edges) {
        if let Some(to) = to {
            sides[2 * to].edges.push(*class);
        }
        if let Some(from) = from {
            sides[2 * from + 1].edges.push(*class);
        }
    }
    let mut sides_of: Vec<Vec<usize>> = vec![Vec::new(); classes.classes];
    for (index, side) in sides.iter().enumerate() {
        for class in side.edges.iter().chain([&side.block]) {
            sides_of[*class].push(index);
        }
    }
    // Number of unknown classes on each side: a side is solved when one is left.
    let mut unknown: Vec<usize> = sides
        .iter()
        .map(|side| {
            let all = side.edges.iter().chain([&side.block]);
            all.filter(|class| known[**class].is_none()).count()
        })
        .collect();
    let mut work: Vec<usize> = (0..sides.len())
        .filter(|side| unknown[*side] == 1)
        .collect();
    while let Some(index) = work.pop() {
        let Some((class, estimate)) = solve_side(&sides[index], known) else {
            continue;
        };
        known[class] = Some(estimate);
        for side in &sides_of[class] {
            unknown[*side] -= 1;
            if unknown[*side] == 1 {
                work.push(*side);
            }
        }
    }
}

/// Returns an upper bound for each class: a block runs no more often than all blocks before it
/// together, nor than those after it.
pub(super) fn class_ceilings(
    edges: &[Ends],
    classes: &Equivalence,
    known: &[Option<Estimate>],
) -> Vec<f64> {
    let of = |block: Option<usize>| {
        let known = block.and_then(|block| known[classes.blocks[block]]);
        known
            .filter(|one| one.confidence > Confidence::Low)
            .map_or(f64::INFINITY, |one| one.frequency)
    };
    let blocks = classes.blocks.len();
    let (mut before, mut after) = (vec![0.0; blocks], vec![0.0; blocks]);
    for (from, to) in edges {
        if let Some(to) = to {
            before[*to] += of(*from);
        }
        if let Some(from) = from {
            after[*from] += of(*to);
        }
    }
    let mut ceilings = vec![f64::INFINITY; classes.classes];
    for (block, class) in classes.blocks.iter().enumerate() {
        // A block without edges in, or out, has no such bound.
        let bounds = [before[block], after[block]]
            .into_iter()
            .filter(|bound| *bound > 0.0);
        ceilings[*class] = bounds.fold(ceilings[*class], f64::min);
    }
    ceilings
}

/// Returns the only unknown class of a side, and its value.
fn solve_side(side: &Side, known: &[Option<Estimate>]) -> Option<(usize, Estimate)> {
    if side.edges.is_empty() {
        return None;
    }
    let mut missing = None;
    let mut sum = 0.0;
    let mut confidence = Confidence::High;
    for class in &side.edges {
        match known[*class] {
            Some(estimate) => {
                sum += estimate.frequency;
                confidence = confidence.min(estimate.confidence);
            }
            None if missing.is_some() => return None,
            None => missing = Some(*class),
        }
    }
    match (missing, known[side.block]) {
        (None, None) => Some((
            side.block,
            Estimate {
                frequency: sum,
                confidence,
                deviation: None,
            },
        )),
        (Some(class), Some(block)) => {
            let frequency = (block.frequency - sum).max(0.0);
            let confidence = confidence.min(block.confidence);
            // A small difference of large estimates is mostly their errors.
            let confidence = if frequency < 0.5 * block.frequency {
                Confidence::Low
            } else {
                confidence.min(Confidence::Medium)
            };
            let confidence = if side.edges.len() == 1 {
                block.confidence
            } else {
                confidence
            };
            Some((
                class,
                Estimate {
                    frequency,
                    confidence,
                    deviation: None,
                },
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn high(frequency: f64) -> Option<Estimate> {
        Some(Estimate {
            frequency,
            confidence: Confidence::High,
            deviation: None,
        })
    }

    #[test]
    fn the_arm_without_samples_is_the_rest() {
        let edges = [
            (None, Some(0)),
            (Some(0), Some(1)),
            (Some(0), Some(2)),
            (Some(1), Some(3)),
            (Some(2), Some(3)),
            (Some(3), None),
        ];
        let classes = Equivalence::new(4, &edges);
        let mut known = vec![None; classes.classes];
        known[classes.blocks[0]] = high(100.0);
        known[classes.blocks[1]] = high(30.0);
        propagate_known(&edges, &classes, &mut known);
        let rest = known[classes.blocks[2]].expect("follows");
        assert_eq!(rest.frequency, 70.0);
        assert_eq!(rest.confidence, Confidence::Medium);
    }

    #[test]
    fn no_frequency_is_negative() {
        let edges = [
            (None, Some(0)),
            (Some(0), Some(1)),
            (Some(0), None),
            (Some(1), None),
        ];
        let classes = Equivalence::new(2, &edges);
        let mut known = vec![None; classes.classes];
        known[classes.blocks[0]] = high(10.0);
        known[classes.blocks[1]] = high(12.0);
        propagate_known(&edges, &classes, &mut known);
        assert_eq!(known[classes.edges[2]].map(|one| one.frequency), Some(0.0));
    }
}
