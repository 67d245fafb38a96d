//! Measures skid: the places of samples in code whose slow instruction is known.
//!
//! An out-of-order processor is interrupted between two instructions that retire. At best, samples
//! always fall on the instruction after the one that held up retirement. If they come a varying
//! number of instructions late, they say nothing about single instructions. So four x86-64 kernels
//! are sampled: a chain of loads that miss the caches, a chain of divisions, an unpredictable
//! branch, and a sled of nops.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

use crate::events::perf::{self, Ring, Scope};
use crate::{Error, EventKind, EventSpec};
use perf_event_open_sys::bindings::PERF_SAMPLE_IP;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// Places of an event's samples. Shares are of the samples in a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skid {
    /// Number of samples in the four kernels.
    pub samples: u64,
    /// Share at the instruction after the load, in a chain of loads.
    pub load: f64,
    /// Share at the instruction after the division, in a chain of divisions.
    pub divide: f64,
    /// Share at the two successors of the unpredictable branch.
    pub branch: f64,
    /// Number of nops from one sampled nop to the next: the nops that retire together. `None` if
    /// the samples show no such pattern.
    pub retire_width: Option<u32>,
}

/// Least share of the samples at one place for a stall to count as there.
const ENOUGH: f64 = 0.5;

impl Skid {
    /// Returns whether a stall shows at the instruction after the slow one.
    pub fn is_one_instruction(&self) -> bool {
        self.load >= ENOUGH && self.divide >= ENOUGH
    }

    /// Returns whether hardly any samples come later, as they do if an interrupt falls anywhere in
    /// a group of instructions that retire together.
    pub fn is_sharp(&self) -> bool {
        self.load >= SHARP && self.divide >= SHARP
    }
}

/// Least share of the samples at one place if hardly any come later.
const SHARP: f64 = 0.9;

/// Microseconds between samples.
const PERIOD_US: u64 = 100;
/// Number of samples wanted in a kernel, and maximum number of runs to get them.
const WANTED: u64 = 400;
const ROUNDS: usize = 1000;
/// Number of words in the chain of loads: 4 MiB, more than the inner caches.
const WORDS: usize = 1 << 19;

/// Measures an event of this machine, in some tenths of a second of CPU time.
///
/// # Errors
/// If the event cannot be sampled, or there are no kernels for this processor.
#[cfg(target_arch = "x86_64")]
pub fn measure_skid(spec: &EventSpec) -> Result<Skid, Error> {
    let period = match spec.kind {
        EventKind::Clock => (PERIOD_US * 1000).max(1_000_000_000 / perf::max_sample_rate().max(1)),
        // Assumes some gigahertz.
        _ => PERIOD_US * 3000,
    };
    let mut attr = perf::event_attributes(spec, period);
    attr.sample_type = PERF_SAMPLE_IP.into();
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    let event = perf::open_event(&attr, Scope { pid: 0, cpu: -1 })
        .map_err(|_| Error::system("sampling ourselves"))?;
    let ring = Ring::map(&event, 16).map_err(|_| Error::system("mapping a ring buffer"))?;
    let mut sampled = Sampled { event, ring };
    let chain = load_chain();
    let loads = sampled.run_kernel(&kernels::CHASE, chain.as_ptr() as u64)?;
    let divisions = sampled.run_kernel(&kernels::DIVIDE, 7)?;
    let branches = sampled.run_kernel(&kernels::BRANCH, 88_172_645_463_325_252)?;
    let mut nops = sampled.run_kernel(&kernels::SLED, 0)?;
    // Without the jump back.
    nops.truncate(kernels::NOPS);
    let all = [&loads, &divisions, &branches, &nops];
    Ok(Skid {
        samples: all.iter().map(|counts| counts.iter().sum::<u64>()).sum(),
        load: share_at(&loads, kernels::CHASE.after),
        divide: share_at(&divisions, kernels::DIVIDE.after),
        branch: share_at(&branches, kernels::BRANCH.after),
        retire_width: group_width(&nops),
    })
}

/// Returns the share of the samples at these places.
fn share_at(counts: &[u64], places: &[usize]) -> f64 {
    let there: u64 = places.iter().filter_map(|at| counts.get(*at)).sum();
    there as f64 / counts.iter().sum::<u64>().max(1) as f64
}

/// Returns the width whose multiples separate most samples; each nop of the sled is one byte.
fn group_width(counts: &[u64]) -> Option<u32> {
    let total = counts.iter().sum::<u64>();
    let phases = |width: usize| {
        let mut sums = vec![0u64; width];
        for (at, count) in counts.iter().enumerate() {
            sums[at % width] += count;
        }
        sums.into_iter().max().unwrap_or(0)
    };
    // For multiples of the width the largest phase has fewer.
    let widths = (2..=16usize).rev();
    let best = widths.max_by_key(|width| phases(*width) * *width as u64)?;
    (total >= WANTED / 4 && 2 * phases(best) >= total).then_some(best as u32)
}

/// Makes a chain of dependent loads: a permutation with one cycle, a word in each cache line.
fn load_chain() -> Vec<u64> {
    const LINE: usize = 8;
    let lines = WORDS / LINE;
    let mut order: Vec<usize> = (0..lines).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..lines).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(at, (random % at as u64) as usize);
    }
    let mut chain = vec![0u64; WORDS];
    let start = chain.as_ptr() as u64;
    for pair in 0..lines {
        let (from, to) = (order[pair], order[(pair + 1) % lines]);
        chain[from * LINE] = start + (to * LINE * 8) as u64;
    }
    chain
}

/// An event on this thread.
#[cfg(target_arch = "x86_64")]
struct Sampled {
    event: OwnedFd,
    ring: Ring,
}

#[cfg(target_arch = "x86_64")]
impl Sampled {
    /// Runs a kernel until it has enough samples; returns the number at each of its bytes.
    fn run_kernel(&mut self, kernel: &kernels::Kernel, argument: u64) -> Result<Vec<u64>, Error> {
        let (start, end) = (kernel.code as usize as u64, &raw const *kernel.end as u64);
        let mut counts = vec![0u64; end.saturating_sub(start) as usize];
        let mut seen = 0;
        for _ in 0..ROUNDS {
            perf::enable_event(&self.event)?;
            // SAFETY: the kernels read memory only through the argument of CHASE, a chain that
            // outlives this call, and change only registers that a function may change.
            unsafe { (kernel.code)(argument, kernel.times) };
            perf::disable_event(&self.event)?;
            self.ring.read(|_, _, body| {
                let ip = body.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                let at = ip.and_then(|ip| ip.checked_sub(start));
                if let Some(count) = at.and_then(|at| counts.get_mut(at as usize)) {
                    *count += 1;
                    seen += 1;
                }
            });
            if seen >= WANTED {
                break;
            }
        }
        Ok(counts)
    }
}

/// Measures an event of this machine.
///
/// # Errors
/// There are no kernels for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn measure_skid(spec: &EventSpec) -> Result<Skid, Error> {
    Err(Error::EventRefused {
        name: spec.name.clone(),
        reason: "what its samples mean is measured on x86-64 only".to_owned(),
        source: std::io::ErrorKind::Unsupported.into(),
    })
}

#[cfg(target_arch = "x86_64")]
mod kernels {
    /// Code that is slow at a known place.
    pub struct Kernel {
        pub code: unsafe extern "C" fn(u64, u64) -> u64,
        /// The byte after the code.
        pub end: &'static u8,
        /// Offsets in bytes at which the samples should fall.
        pub after: &'static [usize],
        /// Number of rounds in a call: some milliseconds.
        pub times: u64,
    }

    unsafe extern "C" {
        fn vitalfew_skid_chase(at: u64, times: u64) -> u64;
        static vitalfew_skid_chase_end: u8;
        fn vitalfew_skid_divide(by: u64, times: u64) -> u64;
        static vitalfew_skid_divide_end: u8;
        fn vitalfew_skid_branch(seed: u64, times: u64) -> u64;
        static vitalfew_skid_branch_end: u8;
        fn vitalfew_skid_sled(unused: u64, times: u64) -> u64;
        static vitalfew_skid_sled_end: u8;
    }

    /// Number of nops in the sled.
    pub const NOPS: usize = 64;

    pub static CHASE: Kernel = Kernel {
        code: vitalfew_skid_chase,
        // SAFETY: a label of this crate, used only for its address.
        end: unsafe { &vitalfew_skid_chase_end },
        after: &[3],
        times: 50_000,
    };
    pub static DIVIDE: Kernel = Kernel {
        code: vitalfew_skid_divide,
        // SAFETY: as above.
        end: unsafe { &vitalfew_skid_divide_end },
        after: &[21],
        times: 100_000,
    };
    pub static BRANCH: Kernel = Kernel {
        code: vitalfew_skid_branch,
        // SAFETY: as above.
        end: unsafe { &vitalfew_skid_branch_end },
        after: &[36, 37, 46, 47],
        times: 200_000,
    };
    pub static SLED: Kernel = Kernel {
        code: vitalfew_skid_sled,
        // SAFETY: as above.
        end: unsafe { &vitalfew_skid_sled_end },
        after: &[],
        times: 50_000,
    };

    std::arch::global_asm!(
        ".macro vitalfew_kernel name",
        ".hidden \\name",
        ".globl \\name",
        ".type \\name, @function",
        ".p2align 6",
        "\\name:",
        ".endm",
        ".macro vitalfew_kernel_end name",
        ".hidden \\name",
        ".globl \\name",
        "\\name:",
        "ret",
        ".endm",
        "vitalfew_kernel vitalfew_skid_chase",
        "2: mov rdi, [rdi]",
        "nop",
        "nop",
        "nop",
        "nop",
        "dec rsi",
        "jnz 2b",
        "vitalfew_kernel_end vitalfew_skid_chase_end",
        "vitalfew_kernel vitalfew_skid_divide",
        "mov rcx, rdi",
        "mov rax, -3",
        // Depends on the quotient of the last division, and is large again.
        "2: or rax, -256",
        "xor edx, edx",
        "div rcx",
        "nop",
        "nop",
        "nop",
        "nop",
        "dec rsi",
        "jnz 2b",
        "vitalfew_kernel_end vitalfew_skid_divide_end",
        "vitalfew_kernel vitalfew_skid_branch",
        // Marsaglia's generator: no predictor knows its next bit.
        "2: mov rax, rdi",
        "shl rax, 13",
        "xor rdi, rax",
        "mov rax, rdi",
        "shr rax, 7",
        "xor rdi, rax",
        "mov rax, rdi",
        "shl rax, 17",
        "xor rdi, rax",
        "test dil, 64",
        "jz 3f",
        "nop",
        "nop",
        "nop",
        "nop",
        "dec rsi",
        "jnz 2b",
        "ret",
        "3: nop",
        "nop",
        "nop",
        "nop",
        "dec rsi",
        "jnz 2b",
        "vitalfew_kernel_end vitalfew_skid_branch_end",
        "vitalfew_kernel vitalfew_skid_sled",
        "2: .rept 64",
        "nop",
        ".endr",
        "dec rsi",
        "jnz 2b",
        "vitalfew_kernel_end vitalfew_skid_sled_end",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retire_width_is_the_distance_of_sampled_nops() {
        let mut counts = vec![0u64; 240];
        for at in (3..240).step_by(6) {
            counts[at] = 20;
        }
        counts[100] = 30;
        assert_eq!(group_width(&counts), Some(6));
        assert_eq!(group_width(&[3; 240]), None);
        assert_eq!(group_width(&[]), None);
    }

    #[test]
    fn a_chain_comes_back_after_all_of_it() {
        let chain = load_chain();
        let start = chain.as_ptr() as u64;
        let (mut at, mut steps) = (0, 0);
        loop {
            at = ((chain[at] - start) / 8) as usize;
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, WORDS / 8);
    }

    /// Checks the instruction before each place where samples should fall: load, division, branch
    /// or its successor.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn places_are_where_the_assembler_put_them() {
        use machine::{Architecture, InstructionDecoder};
        use profile::ImageAddress;
        for (kernel, before) in [
            (&kernels::CHASE, &["mov"][..]),
            (&kernels::DIVIDE, &["div"]),
            (&kernels::BRANCH, &["je", "nop", "ret", "nop"]),
        ] {
            let length = &raw const *kernel.end as usize - kernel.code as usize;
            // SAFETY: the code of a kernel, up to its end.
            let code = unsafe { std::slice::from_raw_parts(kernel.code as *const u8, length) };
            let mut decoder = InstructionDecoder::new(Architecture::X86_64);
            let (mut at, mut texts) = (0, Vec::new());
            while at < length {
                let address = ImageAddress(at as u64);
                let text = decoder.text(address, &code[at..]).unwrap();
                at += usize::from(decoder.decode(address, &code[at..]).unwrap().length);
                texts.push((at, text));
            }
            for (after, before) in kernel.after.iter().zip(before) {
                let found = texts.iter().find(|(end, _)| end == after);
                let text = &found.unwrap_or_else(|| panic!("{after} in {texts:?}")).1;
                assert!(text.starts_with(before), "{text} before {after}");
            }
        }
    }

    #[test]
    fn a_stall_shows_right_after_it_or_not() {
        let good = Skid {
            samples: 1600,
            load: 0.99,
            divide: 0.9,
            branch: 0.5,
            retire_width: Some(8),
        };
        assert!(good.is_one_instruction());
        let late = Skid { load: 0.1, ..good };
        assert!(!late.is_one_instruction());
    }
}
