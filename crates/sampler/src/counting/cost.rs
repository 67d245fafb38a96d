//! The cost of counting, measured on this thread before a run.

use super::uprobe::CountingUprobe;
use crate::clock::thread_cpu_ns;
use profile::MapsLine;
use std::hint::black_box;
use std::io;

/// Executions in a measurement, and measurements, of which the median counts.
const HITS: u64 = 500;
const ROUNDS: usize = 7;

/// Begins with a jump.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn jump_place() {
    core::arch::naked_asm!("jmp 2f", "2:", "ret")
}

/// Begins with an instruction that does nothing.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn nop_place() {
    core::arch::naked_asm!("nop word ptr [rax + rax]", "ret")
}

/// Begins with an instruction that no kernel emulates.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn other_place() {
    core::arch::naked_asm!("mov rax, rdi", "ret")
}

/// Nanoseconds by which a uprobe slows an execution of its instruction, by its kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HitCost {
    pub jump_ns: f64,
    pub nop_ns: f64,
    pub other_ns: f64,
}

/// Measures the cost of uprobes.
///
/// # Errors
/// If the kernel refuses them.
#[cfg(target_arch = "x86_64")]
pub(super) fn measure_hits() -> io::Result<HitCost> {
    Ok(HitCost {
        jump_ns: measure_function(jump_place)?,
        nop_ns: measure_function(nop_place)?,
        other_ns: measure_function(other_place)?,
    })
}

/// Fails: registers are sampled on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn measure_hits() -> io::Result<HitCost> {
    Err(io::ErrorKind::Unsupported.into())
}

fn measure_function(counted: extern "C" fn()) -> io::Result<f64> {
    let counted = black_box(counted);
    let time = || {
        let before = thread_cpu_ns();
        for _ in 0..HITS {
            counted();
        }
        thread_cpu_ns().saturating_sub(before) as f64
    };
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all.get(ROUNDS / 2).copied().unwrap_or(0.0)
    };
    let without = median((0..ROUNDS).map(|_| time()).collect());
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut lines = MapsLine::parse_all(&maps);
    let offset = lines.find_map(|line| line.file_offset_of(counted as usize as u64));
    let offset = offset.ok_or(io::ErrorKind::NotFound)?;
    let _uprobe = CountingUprobe::open(0, c"/proc/self/exe", offset)?;
    let with = median((0..ROUNDS).map(|_| time()).collect());
    Ok(((with - without) / HITS as f64).max(0.0))
}
