//! How the walks up user stacks went.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::FRAMES_SUMMARY;

/// `struct walk_counts` of unwind_tables.h, summed over the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkCounts {
    pub stacks: u64,
    /// Frames by unwind tables.
    pub by_table: u64,
    /// Frames by frame pointers, because the image had no table yet.
    pub by_pointer_early: u64,
    /// Frames by frame pointers, because the code has no table.
    pub by_pointer: u64,
    /// Stacks that ended at the start of a program or thread.
    pub complete: u64,
    /// Stacks that ended at a rule that the kernel cannot follow.
    pub unsupported: u64,
    /// Stacks that ended at a frame pointer that leads nowhere.
    pub lost: u64,
    /// Stacks that ended at a return address that is none.
    pub astray: u64,
    pub too_deep: u64,
    /// Stacks of 32-bit programs, which are not walked.
    pub narrow: u64,
    /// Look-ups of images for which the kernel's table had no room.
    pub crowded: u64,
}

impl WalkCounts {
    const FIELDS: usize = 11;

    /// Reads the sums of all CPUs.
    pub fn read_sums(map: &MapHandle) -> Self {
        let mut sums = [0u64; Self::FIELDS];
        let per_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        for cpu in per_cpu.ok().flatten().unwrap_or_default() {
            for (sum, word) in sums.iter_mut().zip(cpu.chunks_exact(8)) {
                *sum += word.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        let [
            stacks,
            by_table,
            by_pointer_early,
            by_pointer,
            complete,
            unsupported,
            lost,
            astray,
            too_deep,
            narrow,
            crowded,
        ] = sums;
        Self {
            stacks,
            by_table,
            by_pointer_early,
            by_pointer,
            complete,
            unsupported,
            lost,
            astray,
            too_deep,
            narrow,
            crowded,
        }
    }

    /// Sets the sums to zero.
    pub fn clear_sums(map: &MapHandle) {
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(0);
        let zeros = vec![vec![0; 8 * Self::FIELDS]; cpus];
        let _ = map.update_percpu(&0u32.to_ne_bytes(), &zeros, MapFlags::ANY);
    }

    /// Says how the frames were found, in one line; `None` without any.
    pub fn summary(&self) -> Option<String> {
        let frames = self.by_table + self.by_pointer + self.by_pointer_early;
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let walked = self.stacks - self.narrow.min(self.stacks);
        if frames == 0 {
            return None;
        }
        let mut text = format!(
            "{FRAMES_SUMMARY}{:.1} % by unwind tables, {:.1} % by frame pointers",
            percent(self.by_table, frames),
            percent(self.by_pointer + self.by_pointer_early, frames),
        );
        if self.by_pointer_early * 1000 > frames {
            let early = percent(self.by_pointer_early, frames);
            text += &format!(" ({early:.1} % before their tables were made)");
        }
        let whole = percent(self.complete, walked);
        text += &format!("; user stacks: {whole:.1} % whole");
        let ends = [
            (
                self.unsupported,
                "end at a rule that the kernel cannot follow",
            ),
            (self.lost, "end where no frame pointer leads on"),
            (self.astray, "end at a return address that is none"),
            (self.too_deep, "are deeper than 127 frames"),
        ];
        for (count, what) in ends.into_iter().filter(|(count, _)| count * 1000 > walked) {
            text += &format!(", {:.1} % {what}", percent(count, walked));
        }
        Some(text)
    }

    /// Says what was refused: each a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.narrow > 0 {
            warnings.push(format!(
                "{} samples are of 32-bit programs, whose stacks are not unwound: they have one frame",
                self.narrow
            ));
        }
        if self.crowded > 0 {
            warnings.push(format!(
                "more images were on stacks than there is room for: {} look-ups went by frame pointers",
                self.crowded
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_ways_and_the_ends() {
        assert_eq!(WalkCounts::default().summary(), None);
        let counts = WalkCounts {
            stacks: 101,
            by_table: 900,
            by_pointer: 50,
            by_pointer_early: 50,
            complete: 99,
            lost: 1,
            narrow: 1,
            ..WalkCounts::default()
        };
        assert_eq!(
            counts.summary().unwrap(),
            "user frames: 90.0 % by unwind tables, 10.0 % by frame pointers (5.0 % before their tables were made); user stacks: 99.0 % whole, 1.0 % end where no frame pointer leads on"
        );
        assert_eq!(counts.warnings().len(), 1);
    }
}
