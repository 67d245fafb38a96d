//! Reasons of stalls.

/// Declares an enum of reasons from one table, in the order of the summary: variant, letter in a bubble, name.
macro_rules! reasons {
    ($(#[$about:meta])* $type:ident: $($(#[$what:meta])* $reason:ident $letter:literal $name:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$what])* $reason,)*
        }

        impl $type {
            /// All, in the order of the summary.
            pub const ALL: [Self; [$($letter),*].len()] = [$(Self::$reason),*];

            /// The letter in a bubble; the paper's where it has one.
            pub fn letter(self) -> char {
                match self {
                    $(Self::$reason => $letter,)*
                }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// A reason of a dynamic stall.
    Cause:
    /// The instruction was not in the first-level instruction cache.
    InstructionCache 'i' "I-cache miss",
    /// The translation of its address was not in the first-level table.
    InstructionTlb 'I' "ITLB miss",
    /// Data were not in the first-level data cache.
    DataCache 'd' "D-cache miss",
    /// The translation of a data address was not in the first-level table.
    DataTlb 'D' "DTLB miss",
    /// Stores wait for room in the store buffer.
    StoreBuffer 'w' "Store buffer",
    /// A locked or serialising instruction waits for all before it.
    Synchronisation 'l' "Synchronization",
    /// A branch, call or return was not predicted.
    Mispredict 'p' "Branch mispredict",
    /// Results of other instructions are waited for.
    Dependency 'c' "Dependency chain",
    /// A division or another operation that takes its unit for long.
    Unit 'u' "Divider, long units",
    /// Other instructions have the ports that are needed.
    Ports 'o' "Port contention",
    /// A page was not mapped.
    PageFault 'f' "Page fault",
    /// The instruction is carried out by microcode.
    Microcode 'm' "Microcode",
}

impl Cause {
    /// Returns whether one instruction, elsewhere, is the reason, so that its address tells something.
    pub fn is_of_instruction(self) -> bool {
        match self {
            Self::DataCache
            | Self::StoreBuffer
            | Self::Synchronisation
            | Self::Mispredict
            | Self::Dependency
            | Self::Unit => true,
            Self::InstructionCache
            | Self::InstructionTlb
            | Self::DataTlb
            | Self::Ports
            | Self::PageFault
            | Self::Microcode => false,
        }
    }
}

reasons! {
    /// A reason of a static stall: one that no luck avoids.
    Static:
    /// In order: units were taken by an instruction of the same cycle.
    Slotting 's' "Slotting",
    /// In order: the result of an instruction of the block comes so late.
    Operand 'a' "Operand dependency",
    /// In order: a unit is busy with an instruction of the block.
    Unit 'n' "Unit dependency",
    /// Out of order: fetching takes longer than issuing.
    FrontEnd 'e' "Front end",
    /// Out of order: units take longer than issuing.
    Ports 'P' "Ports",
}

/// A cause that was not ruled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// The cause.
    pub cause: Cause,
    /// The instructions, by index in the graph, that it may be due to: loads that feed the stalled
    /// one, branches that lead to it.
    pub at: Vec<usize>,
    /// The most cycles that it can have cost each time, and not more than the stall.
    pub most: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_cause_has_a_letter_of_its_own_and_a_row_in_the_docs() {
        let docs = include_str!("../../../../../docs/method/annotate-causes.md");
        let rows = docs.lines().filter(|line| line.starts_with("| "));
        let letters = rows.filter_map(|row| row.trim_start_matches("| ").split(" | ").next());
        let documented: BTreeSet<&str> = letters.flat_map(|cell| cell.split(", ")).collect();
        let mut met = BTreeSet::new();
        for cause in Cause::ALL {
            let letter = cause.letter();
            assert!(met.insert(letter), "{letter} is another cause's, too");
            let is_documented = documented.contains(letter.to_string().as_str());
            assert!(is_documented, "annotate-causes.md has no row {letter}");
        }
        for reason in Static::ALL {
            assert!(met.insert(reason.letter()), "{reason:?}");
        }
    }
}
