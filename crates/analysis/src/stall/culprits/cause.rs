//! Reasons for stalls.

/// Declares an enum of reasons from one table, in the order of the summary: variant, letter in a
/// bubble, name.
macro_rules! reasons {
    ($(#[$about:meta])* $type:ident: $($(#[$what:meta])* $reason:ident $letter:literal $name:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$what])* $reason,)*
        }

        impl $type {
            /// All reasons, in the order of the summary.
            pub const ALL: [Self; [$($letter),*].len()] = [$(Self::$reason),*];

            /// Returns the letter in a bubble; the paper's if it has one.
            pub fn letter(self) -> char {
                match self {
                    $(Self::$reason => $letter,)*
                }
            }

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// A reason for a dynamic stall.
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
    /// A locked or serialising instruction waits for all earlier ones.
    Synchronisation 'l' "Synchronization",
    /// A branch, call or return was not predicted.
    Mispredict 'p' "Branch mispredict",
    /// The instruction waits for results of others.
    Dependency 'c' "Dependency chain",
    /// A division or another operation occupies its unit for long.
    Unit 'u' "Divider, long units",
    /// Other instructions occupy the needed ports.
    Ports 'o' "Port contention",
    /// A page was not mapped.
    PageFault 'f' "Page fault",
    /// Microcode carries out the instruction.
    Microcode 'm' "Microcode",
}

impl Cause {
    /// Returns whether the reason is a single instruction elsewhere, so that its address is useful.
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
    /// A reason for a static stall: one that always occurs.
    Static:
    /// In order: an instruction of the same cycle took the units.
    Slotting 's' "Slotting",
    /// In order: the result of an instruction of the block comes late.
    Operand 'a' "Operand dependency",
    /// In order: an instruction of the block keeps a unit busy.
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
    /// The instructions that may be responsible, by index in the graph: loads that feed the stalled
    /// one, branches that lead to it.
    pub at: Vec<usize>,
    /// The most cycles that it can have cost each time, limited by the stall.
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
