//! Labels of goroutines by the collector's numbers.

use profile::{NameId, NameSet};
use rustc_hash::FxHashMap;

/// Maximum number of sets of labels. A program that labels each request separately has more.
const MOST_SETS: usize = 10_000;

/// The labels seen so far.
#[derive(Default)]
pub(crate) struct GoroutineLabels {
    texts: FxHashMap<u32, String>,
    ids: FxHashMap<u32, NameId>,
}

impl GoroutineLabels {
    /// Adds the labels that the kernel half sent.
    pub fn add_texts(&mut self, texts: Vec<(u32, String)>) {
        for (number, text) in texts {
            if self.texts.len() < MOST_SETS {
                self.texts.insert(number, text);
            }
        }
    }

    /// Returns the name of a number; `None` for 0, the number of no labels.
    pub fn name_of(&mut self, number: u32, names: &mut NameSet) -> Option<NameId> {
        if number == 0 {
            return None;
        }
        if let Some(id) = self.ids.get(&number) {
            return Some(*id);
        }
        let Some(text) = self.texts.get(&number) else {
            return Some(names.intern("[other labels]"));
        };
        let id = names.intern(text);
        self.ids.insert(number, id);
        Some(id)
    }

    /// Forgets the ids, which belonged to the former set of names.
    pub fn forget_ids(&mut self) {
        self.ids.clear();
    }
}
