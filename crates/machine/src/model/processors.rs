//! The processors that there are tables of: what is not in LLVM's models, out of the makers'
//! optimisation guides, and by what number each is recognised.

use crate::Architecture;

/// What is not in the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// The name: `--cpu` takes it.
    pub name: &'static str,
    /// What it executes.
    pub architecture: Architecture,
    /// Micro-operations (fused ones count as one) that are issued a cycle at most.
    pub width: u32,
    /// Bytes of code that a cycle delivers at most, from the cache of decoded instructions where
    /// there is one.
    pub fetch: u32,
    /// Jumps that are taken a cycle at most.
    pub jumps: u32,
    /// Whether instructions are issued in order.
    pub in_order: bool,
    /// Cycles that a branch costs at most if it was not predicted, when it does not wait itself.
    pub mispredict: u32,
    /// Bytes of the first-level instruction cache.
    pub instruction_cache: u32,
    /// Bytes of the first-level and the second-level data cache: the least that its makers build in;
    /// 0 without one.
    pub data_caches: [u32; 2],
    /// Pages of 4 KiB of which the first-level table of data translations and that behind it have
    /// the addresses, likewise.
    pub data_tlbs: [u32; 2],
}

const fn x86(name: &'static str, width: u32, fetch: u32) -> Processor {
    Processor {
        name,
        architecture: Architecture::X86_64,
        width,
        fetch,
        jumps: 1,
        in_order: false,
        mispredict: 25,
        instruction_cache: 32 << 10,
        data_caches: [32 << 10, 256 << 10],
        data_tlbs: [64, 1536],
    }
}

const fn arm(name: &'static str, width: u32, fetch: u32) -> Processor {
    Processor {
        architecture: Architecture::Aarch64,
        mispredict: 16,
        instruction_cache: 64 << 10,
        data_caches: [64 << 10, 256 << 10],
        data_tlbs: [44, 1280],
        ..x86(name, width, fetch)
    }
}

const fn small(name: &'static str) -> Processor {
    Processor {
        in_order: true,
        mispredict: 9,
        instruction_cache: 32 << 10,
        data_caches: [8 << 10, 0],
        data_tlbs: [10, 512],
        ..arm(name, 2, 8)
    }
}

/// All, in the order of the tables' columns.
pub const PROCESSORS: &[Processor] = &[
    x86("skylake", 4, 32),
    x86("icelake", 5, 32),
    x86("alderlake", 6, 64),
    x86("sapphirerapids", 6, 64),
    x86("zen3", 6, 64),
    x86("zen4", 6, 64),
    Processor {
        jumps: 2,
        ..x86("zen5", 8, 64)
    },
    arm("neoverse-n1", 4, 16),
    arm("neoverse-n2", 5, 32),
    arm("neoverse-v1", 8, 32),
    arm("neoverse-v2", 8, 32),
    small("cortex-a53"),
    small("cortex-a55"),
];

impl Processor {
    /// The processor of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROCESSORS.iter().find(|one| one.name == name)
    }

    /// The processor of a machine: `vendor-family-model` in decimal as CPUID has them
    /// (`GenuineIntel-6-143`), or `implementer-part` in hexadecimal as Arm's MIDR has them
    /// (`0x41-0xd0c`).
    pub fn of_machine(id: &str) -> Option<&'static Self> {
        let mut parts = id.split('-');
        let vendor = parts.next()?;
        let name = if vendor == "0x41" {
            arm_name(parts.next()?)?
        } else {
            let family: u32 = parts.next()?.parse().ok()?;
            let model: u32 = parts.next()?.parse().ok()?;
            match vendor {
                "GenuineIntel" if family == 6 => intel_name(model)?,
                "AuthenticAMD" => amd_name(family, model)?,
                _ => return None,
            }
        };
        Self::named(name)
    }
}

fn arm_name(part: &str) -> Option<&'static str> {
    Some(match part {
        "0xd0c" => "neoverse-n1",
        "0xd49" => "neoverse-n2",
        "0xd40" => "neoverse-v1",
        "0xd4f" => "neoverse-v2",
        "0xd03" => "cortex-a53",
        "0xd05" => "cortex-a55",
        _ => return None,
    })
}

fn intel_name(model: u32) -> Option<&'static str> {
    Some(match model {
        78 | 85 | 94 | 142 | 158 | 165 | 166 => "skylake",
        106 | 108 | 125 | 126 | 140 | 141 | 167 => "icelake",
        151 | 154 | 183 | 186 | 191 => "alderlake",
        143 | 207 => "sapphirerapids",
        _ => return None,
    })
}

fn amd_name(family: u32, model: u32) -> Option<&'static str> {
    Some(match (family, model) {
        (25, 0x00..=0x0f | 0x20..=0x5f) => "zen3",
        (25, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => "zen4",
        (26, _) => "zen5",
        _ => return None,
    })
}
