//! The processors with tables: properties that LLVM's models lack, from the makers' optimisation
//! guides, and the number that identifies each.

use crate::Architecture;

/// Properties of a processor that the tables lack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// The name for `--cpu`.
    pub name: &'static str,
    /// LLVM's name of the processor, for `examples/tables.rs`.
    pub llvm: &'static str,
    /// True if LLVM's model counts the parts of micro-operations that are issued as one.
    pub llvm_splits_fused: bool,
    /// The machines with this processor.
    pub machines: Machines,
    /// The instruction set that it executes.
    pub architecture: Architecture,
    /// Maximum number of micro-operations (fused ones count as one) issued in a cycle.
    pub width: u32,
    /// Maximum number of code bytes delivered in a cycle, from the cache of decoded instructions if
    /// there is one.
    pub fetch: u32,
    /// Maximum number of jumps taken in a cycle.
    pub jumps: u32,
    /// True if instructions are issued in order.
    pub in_order: bool,
    /// Maximum cost of a mispredicted branch in cycles, without its own wait.
    pub mispredict: u32,
    /// Bytes of the first-level instruction cache.
    pub instruction_cache: u32,
    /// Bytes of the first-level and the second-level data cache: the smallest that its makers build
    /// in; 0 without one.
    pub data_caches: [u32; 2],
    /// Pages of 4 KiB in the first-level and the second-level table of data translations, likewise.
    pub data_tlbs: [u32; 2],
}

/// The numbers that identify processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Machines {
    /// Models of Intel's family 6, as in CPUID.
    Intel(&'static [u32]),
    /// AMD's families with the first and the last model of ranges, as in CPUID.
    Amd(&'static [(u32, u32, u32)]),
    /// Arm's part number, as in MIDR.
    Arm(u32),
}

const X86: Processor = Processor {
    name: "",
    llvm: "",
    llvm_splits_fused: false,
    machines: Machines::Intel(&[]),
    architecture: Architecture::X86_64,
    width: 4,
    fetch: 32,
    jumps: 1,
    in_order: false,
    mispredict: 25,
    instruction_cache: 32 << 10,
    data_caches: [32 << 10, 256 << 10],
    data_tlbs: [64, 1536],
};

const INTEL: Processor = Processor {
    llvm_splits_fused: true,
    ..X86
};

const ARM: Processor = Processor {
    architecture: Architecture::Aarch64,
    fetch: 16,
    mispredict: 16,
    instruction_cache: 64 << 10,
    data_caches: [64 << 10, 256 << 10],
    data_tlbs: [44, 1280],
    ..X86
};

const SMALL_ARM: Processor = Processor {
    width: 2,
    fetch: 8,
    in_order: true,
    mispredict: 9,
    instruction_cache: 32 << 10,
    data_caches: [8 << 10, 0],
    data_tlbs: [10, 512],
    ..ARM
};

/// All processors, in the order of the tables' columns. A new one is a row here and a run of
/// `examples/tables.rs`: help, error messages and docs (by a test) follow.
pub const PROCESSORS: &[Processor] = &[
    Processor {
        name: "skylake",
        llvm: "skylake-avx512",
        machines: Machines::Intel(&[78, 85, 94, 142, 158, 165, 166]),
        ..INTEL
    },
    Processor {
        name: "icelake",
        llvm: "icelake-server",
        machines: Machines::Intel(&[106, 108, 125, 126, 140, 141, 167]),
        width: 5,
        ..INTEL
    },
    Processor {
        name: "alderlake",
        llvm: "alderlake",
        machines: Machines::Intel(&[151, 154, 183, 186, 191]),
        width: 6,
        fetch: 64,
        ..INTEL
    },
    Processor {
        name: "sapphirerapids",
        llvm: "sapphirerapids",
        machines: Machines::Intel(&[143, 207]),
        width: 6,
        fetch: 64,
        ..INTEL
    },
    Processor {
        name: "zen3",
        llvm: "znver3",
        machines: Machines::Amd(&[(25, 0x00, 0x0f), (25, 0x20, 0x5f)]),
        width: 6,
        fetch: 64,
        ..X86
    },
    Processor {
        name: "zen4",
        llvm: "znver4",
        machines: Machines::Amd(&[(25, 0x10, 0x1f), (25, 0x60, 0x7f), (25, 0xa0, 0xaf)]),
        width: 6,
        fetch: 64,
        ..X86
    },
    Processor {
        name: "zen5",
        llvm: "znver5",
        machines: Machines::Amd(&[(26, 0, u32::MAX)]),
        width: 8,
        fetch: 64,
        jumps: 2,
        ..X86
    },
    Processor {
        name: "neoverse-n1",
        llvm: "neoverse-n1",
        machines: Machines::Arm(0xd0c),
        ..ARM
    },
    Processor {
        name: "neoverse-n2",
        llvm: "neoverse-n2",
        machines: Machines::Arm(0xd49),
        width: 5,
        fetch: 32,
        ..ARM
    },
    Processor {
        name: "neoverse-v1",
        llvm: "neoverse-v1",
        machines: Machines::Arm(0xd40),
        width: 8,
        fetch: 32,
        ..ARM
    },
    Processor {
        name: "neoverse-v2",
        llvm: "neoverse-v2",
        machines: Machines::Arm(0xd4f),
        width: 8,
        fetch: 32,
        ..ARM
    },
    Processor {
        name: "cortex-a53",
        llvm: "cortex-a53",
        machines: Machines::Arm(0xd03),
        ..SMALL_ARM
    },
    Processor {
        name: "cortex-a55",
        llvm: "cortex-a55",
        machines: Machines::Arm(0xd05),
        ..SMALL_ARM
    },
];

impl Processor {
    /// Finds the processor of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROCESSORS.iter().find(|one| one.name == name)
    }

    /// Finds the processor of a machine: `vendor-family-model` in decimal as in CPUID
    /// (`GenuineIntel-6-143`), or `implementer-part` in hexadecimal as in Arm's MIDR
    /// (`0x41-0xd0c`).
    pub fn of_machine(id: &str) -> Option<&'static Self> {
        PROCESSORS.iter().find(|one| one.machines.contains_id(id))
    }
}

impl Machines {
    fn contains_id(self, id: &str) -> bool {
        let Some((vendor, numbers)) = id.split_once('-') else {
            return false;
        };
        let family_and_model = || {
            let (family, model) = numbers.split_once('-')?;
            Some((family.parse::<u32>().ok()?, model.parse::<u32>().ok()?))
        };
        match (self, vendor) {
            (Self::Intel(models), "GenuineIntel") => family_and_model()
                .is_some_and(|(family, model)| family == 6 && models.contains(&model)),
            (Self::Amd(ranges), "AuthenticAMD") => {
                family_and_model().is_some_and(|(family, model)| {
                    let within = |range: &(u32, u32, u32)| {
                        range.0 == family && (range.1..=range.2).contains(&model)
                    };
                    ranges.iter().any(within)
                })
            }
            (Self::Arm(part), "0x41") => {
                let number = numbers.strip_prefix("0x");
                number.and_then(|number| u32::from_str_radix(number, 16).ok()) == Some(part)
            }
            _ => false,
        }
    }
}

/// Returns the number of the event of retired taken branches, for processors whose manuals give it,
/// including those without tables. `counters` is the kernel's name of the processor's counters.
pub fn taken_branches_event(cpu_id: &str, counters: &str) -> Option<u64> {
    let family = |vendor: &str| cpu_id.strip_prefix(vendor)?.split('-').next()?.parse().ok();
    if family("AuthenticAMD-").is_some_and(|family: u32| family >= 0x17) {
        return Some(0xc4);
    }
    // The small cores have another one; on hybrid machines the counters have other names.
    let is_large = family("GenuineIntel-").is_some() && LARGE_CORES.contains(&counters);
    is_large.then_some(0x20c4)
}

/// Intel's large cores, by the kernel's names of their counters.
const LARGE_CORES: [&str; 8] = [
    "sandybridge",
    "ivybridge",
    "haswell",
    "broadwell",
    "skylake",
    "icelake",
    "sapphire_rapids",
    "granite_rapids",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_branches_have_numbers_where_they_are_known() {
        assert_eq!(taken_branches_event("AuthenticAMD-26-2", ""), Some(0xc4));
        assert_eq!(taken_branches_event("AuthenticAMD-16-2", ""), None);
        let intel = |counters| taken_branches_event("GenuineIntel-6-143", counters);
        assert_eq!(intel("sapphire_rapids"), Some(0x20c4));
        assert_eq!(intel("goldmont_plus"), None);
        assert_eq!(taken_branches_event("0x41-0xd4f", ""), None);
    }

    #[test]
    fn no_machine_is_of_two_processors() {
        let ids = (0..256).flat_map(|model| {
            [
                format!("GenuineIntel-6-{model}"),
                format!("AuthenticAMD-25-{model}"),
                format!("AuthenticAMD-26-{model}"),
            ]
        });
        let parts = (0xd00..0xe00).map(|part| format!("0x41-{part:#x}"));
        for id in ids.chain(parts) {
            let of = PROCESSORS
                .iter()
                .filter(|one| one.machines.contains_id(&id));
            assert!(of.count() <= 1, "{id}");
        }
        let documented = include_str!("../../../../docs/annotate.md");
        for processor in PROCESSORS {
            let found = documented.contains(&format!("`{}`", processor.name));
            assert!(found, "docs/annotate.md does not name {}", processor.name);
        }
    }
}
