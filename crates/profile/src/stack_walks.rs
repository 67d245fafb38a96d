use serde::{Deserialize, Serialize};

/// The beginning of the warning about how user stacks were found. It is a real warning only if many
/// are missing.
pub const FRAMES_SUMMARY: &str = "user frames: ";

/// Returns a warning if many of the stacks end in code that can be unwound by neither tables nor
/// frame pointers.
pub fn warn_of_lost_stacks(lost: u64, stacks: u64) -> Option<String> {
    let share = lost as f64 / stacks.max(1) as f64;
    (share > 0.05).then(|| {
        format!(
            "{:.0} % of the stacks end in code that has no unwind tables and keeps no frame pointer: callers are missing there; \
             build it with -fasynchronous-unwind-tables or -fno-omit-frame-pointer",
            100.0 * share
        )
    })
}

/// Counts of the walks of user stacks in the kernel: frames by the method that found them, stacks
/// by the reason of their end.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[serde(default)]
#[repr(C)]
pub struct StackWalks {
    /// Stacks that were walked.
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
    /// Stacks that ended at an invalid frame pointer.
    pub lost: u64,
    /// Stacks that ended at an invalid return address.
    pub astray: u64,
    /// Stacks with more frames than are recorded.
    pub too_deep: u64,
    /// Stacks of 32-bit programs, which are not walked.
    pub narrow: u64,
    /// Look-ups of images without room in the kernel's table.
    pub crowded: u64,
}

/// The fields of [`StackWalks`], in their order.
pub type StackWalkCounts = [u64; 11];

impl From<StackWalkCounts> for StackWalks {
    fn from(counts: StackWalkCounts) -> Self {
        bytemuck::must_cast(counts)
    }
}

impl StackWalks {
    fn zip_with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        let (mut counts, others): (StackWalkCounts, StackWalkCounts) =
            (bytemuck::must_cast(self), bytemuck::must_cast(other));
        for (count, other) in counts.iter_mut().zip(others) {
            *count = combine(*count, other);
        }
        counts.into()
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        self.zip_with(other, u64::saturating_add)
    }

    /// Returns the difference to `before`, an earlier reading of the same counts.
    pub fn since(self, before: Self) -> Self {
        self.zip_with(before, u64::saturating_sub)
    }

    /// Returns the number of stacks that could have been walked to their start.
    fn walked(self) -> u64 {
        self.stacks.saturating_sub(self.narrow)
    }

    /// Returns the share of stacks that reach the start of their program or thread, 0 to 1; `None`
    /// without any.
    pub fn whole_share(self) -> Option<f64> {
        let walked = self.walked();
        (walked > 0).then(|| self.complete as f64 / walked as f64)
    }

    /// Returns one line about how the frames were found; `None` without any.
    pub fn summary(self) -> Option<String> {
        let pointers = self.by_pointer.saturating_add(self.by_pointer_early);
        let frames = self.by_table.saturating_add(pointers);
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let walked = self.walked();
        if frames == 0 {
            return None;
        }
        let mut text = format!(
            "{FRAMES_SUMMARY}{:.1} % by unwind tables, {:.1} % by frame pointers",
            percent(self.by_table, frames),
            percent(pointers, frames),
        );
        let early = percent(self.by_pointer_early, frames);
        if early > 0.1 {
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
            (self.too_deep, "are deeper than is followed"),
        ];
        for (count, what) in ends {
            let share = percent(count, walked);
            if share > 0.1 {
                text += &format!(", {share:.1} % {what}");
            }
        }
        Some(text)
    }

    /// Returns warnings about stacks that could not be walked, each a sentence.
    pub fn warnings(self) -> Vec<String> {
        // If tables were not ready yet, the code may still have some.
        let lost = self.lost.saturating_sub(self.by_pointer_early);
        let mut warnings = Vec::from_iter(warn_of_lost_stacks(lost, self.walked()));
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

    /// Returns the summary and the warnings for the reader.
    pub fn sentences(self) -> Vec<String> {
        let mut sentences: Vec<String> = self.summary().into_iter().collect();
        sentences.extend(self.warnings());
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_ways_and_the_ends() {
        assert_eq!(StackWalks::default().summary(), None);
        assert_eq!(StackWalks::default().whole_share(), None);
        let counts = StackWalks {
            stacks: 101,
            by_table: 900,
            by_pointer: 50,
            by_pointer_early: 50,
            complete: 99,
            lost: 1,
            narrow: 1,
            ..StackWalks::default()
        };
        assert_eq!(
            counts.summary().unwrap(),
            "user frames: 90.0 % by unwind tables, 10.0 % by frame pointers (5.0 % before their tables were made); user stacks: 99.0 % whole, 1.0 % end where no frame pointer leads on"
        );
        assert_eq!(counts.warnings().len(), 1);
        assert_eq!(counts.sentences().len(), 2);
        assert_eq!(counts.whole_share(), Some(0.99));
        // Stacks that may have ended before a table was ready say nothing about the code.
        for (early, warnings) in [(0, 2), (39, 1)] {
            let counts = StackWalks {
                lost: 40,
                by_pointer_early: early,
                ..counts
            };
            assert_eq!(counts.warnings().len(), warnings);
        }
    }

    #[test]
    fn sums_and_differences_are_of_each_count() {
        let one = StackWalks {
            stacks: 5,
            crowded: 2,
            ..StackWalks::default()
        };
        let two = one.plus(one);
        assert_eq!((two.stacks, two.crowded, two.by_table), (10, 4, 0));
        assert_eq!(two.since(one), one);
        assert_eq!(one.since(two), StackWalks::default());
    }
}
