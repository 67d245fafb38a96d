//! Lines and other parts of a file that make no sense: left out and counted, as long as they are few.

use super::draft::Draft;
use super::error::{Fault, Place};

/// The parts of a file that were left out.
pub(crate) struct Skipped {
    /// `lines`, `chunks`.
    parts: &'static str,
    count: u64,
    first: Option<(String, Place)>,
}

impl Skipped {
    pub fn new(parts: &'static str) -> Self {
        Self {
            parts,
            count: 0,
            first: None,
        }
    }

    /// Leaves out the part at `at`, of which `what` is wrong.
    pub fn add(&mut self, what: impl Into<String>, at: Place) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((what.into(), at));
        }
    }

    /// Notes what was left out. Where that is no less than what was `read`, the file is refused: it is
    /// another format or damaged throughout.
    pub fn finish(self, read: u64, draft: &mut Draft) -> Result<(), Fault> {
        let Some((what, at)) = self.first else {
            return Ok(());
        };
        if self.count >= read {
            return Err(Fault::damaged(what, at));
        }
        draft.note(format!(
            "{} {} were left out; the first: {what}, {at}",
            self.count, self.parts
        ));
        Ok(())
    }
}
