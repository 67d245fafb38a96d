//! Skips and counts invalid lines and other parts of a file, as long as they are few.

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};

/// The skipped parts of a file.
pub(crate) struct Skipped {
    /// Name of the parts: `lines`, `chunks`.
    parts: &'static str,
    count: u64,
    first: Option<(String, FilePosition)>,
}

impl Skipped {
    pub fn new(parts: &'static str) -> Self {
        Self {
            parts,
            count: 0,
            first: None,
        }
    }

    /// Skips the part at `at`, with `what` as the fault.
    pub fn skip_part(&mut self, what: impl Into<String>, at: FilePosition) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((what.into(), at));
        }
    }

    /// Adds a note on the skipped parts. If they are at least as many as the `read` ones, the file
    /// is refused: it is another format or damaged throughout.
    pub fn note_skipped(self, read: u64, draft: &mut TreeDraft) -> Result<(), ReadFault> {
        let Some((what, at)) = self.first else {
            return Ok(());
        };
        if self.count >= read {
            return Err(ReadFault::damaged(what, at));
        }
        draft.add_note(format!(
            "{} {} were left out; the first: {what}, {at}",
            self.count, self.parts
        ));
        Ok(())
    }
}
