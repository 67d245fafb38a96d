//! Reasons of stalls.

/// A reason of a dynamic stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The instruction was not in the first-level instruction cache.
    InstructionCache,
    /// The translation of its address was not in the first-level table.
    InstructionTlb,
    /// Data were not in the first-level data cache.
    DataCache,
    /// The translation of a data address was not in the first-level table.
    DataTlb,
    /// Stores wait for room in the store buffer.
    StoreBuffer,
    /// A branch, call or return was not predicted.
    Mispredict,
    /// Results of other instructions are waited for.
    Dependency,
    /// A division or another operation that takes its unit for long.
    Unit,
    /// Other instructions have the ports that are needed.
    Ports,
    /// A locked or serialising instruction waits for all before it.
    Synchronisation,
    /// A page was not mapped.
    PageFault,
    /// The instruction is carried out by microcode.
    Microcode,
}

impl Cause {
    /// All, in the order of the summary.
    pub const ALL: [Self; 12] = [
        Self::InstructionCache,
        Self::InstructionTlb,
        Self::DataCache,
        Self::DataTlb,
        Self::StoreBuffer,
        Self::Synchronisation,
        Self::Mispredict,
        Self::Dependency,
        Self::Unit,
        Self::Ports,
        Self::PageFault,
        Self::Microcode,
    ];

    /// The letter in a bubble; the paper's where it has one.
    pub fn letter(self) -> char {
        match self {
            Self::InstructionCache => 'i',
            Self::InstructionTlb => 'I',
            Self::DataCache => 'd',
            Self::DataTlb => 'D',
            Self::StoreBuffer => 'w',
            Self::Mispredict => 'p',
            Self::Dependency => 'c',
            Self::Unit => 'u',
            Self::Ports => 'o',
            Self::Synchronisation => 'l',
            Self::PageFault => 'f',
            Self::Microcode => 'm',
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InstructionCache => "I-cache miss",
            Self::InstructionTlb => "ITLB miss",
            Self::DataCache => "D-cache miss",
            Self::DataTlb => "DTLB miss",
            Self::StoreBuffer => "Store buffer",
            Self::Mispredict => "Branch mispredict",
            Self::Dependency => "Dependency chain",
            Self::Unit => "Divider, long units",
            Self::Ports => "Port contention",
            Self::Synchronisation => "Synchronization",
            Self::PageFault => "Page fault",
            Self::Microcode => "Microcode",
        }
    }
}

/// A reason of a static stall: one that no luck avoids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Static {
    /// In order: units were taken by an instruction of the same cycle.
    Slotting,
    /// In order: the result of an instruction of the block comes so late.
    Operand,
    /// In order: a unit is busy with an instruction of the block.
    Unit,
    /// Out of order: fetching takes longer than issuing.
    FrontEnd,
    /// Out of order: units take longer than issuing.
    Ports,
}

impl Static {
    /// All, in the order of the summary.
    pub const ALL: [Self; 5] = [
        Self::Slotting,
        Self::Operand,
        Self::Unit,
        Self::FrontEnd,
        Self::Ports,
    ];

    /// The letter in a bubble.
    pub fn letter(self) -> char {
        match self {
            Self::Slotting => 's',
            Self::Operand => 'a',
            Self::Unit => 'n',
            Self::FrontEnd => 'e',
            Self::Ports => 'P',
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slotting => "Slotting",
            Self::Operand => "Operand dependency",
            Self::Unit => "Unit dependency",
            Self::FrontEnd => "Front end",
            Self::Ports => "Ports",
        }
    }
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
