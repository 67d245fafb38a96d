//! Allocates pages of the kernel's rows.

use std::collections::BTreeMap;
use std::ops::Range;

/// Pages numbered from 0, allocated in ranges.
pub(crate) struct PageAllocator {
    /// Start and end of free ranges, none of which are adjacent.
    free: BTreeMap<u32, u32>,
}

impl PageAllocator {
    pub fn new(pages: u32) -> Self {
        Self {
            free: BTreeMap::from([(0, pages)]),
        }
    }

    /// Takes the first range of `pages` pages; `None` if there is none.
    pub fn take_pages(&mut self, pages: u32) -> Option<Range<u32>> {
        let fits = |(start, end): (&u32, &u32)| (end - start >= pages).then_some((*start, *end));
        let (start, end) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if start + pages < end {
            self.free.insert(start + pages, end);
        }
        Some(start..start + pages)
    }

    /// Returns a range.
    pub fn give_back(&mut self, pages: Range<u32>) {
        if pages.is_empty() {
            return;
        }
        let (mut start, mut end) = (pages.start, pages.end);
        if let Some((before, until)) = self.free.range(..start).next_back()
            && *until == start
        {
            start = *before;
        }
        if let Some(until) = self.free.remove(&end) {
            end = until;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_are_disjoint_and_come_back(
            steps in prop::collection::vec((1u32..20, any::<prop::sample::Index>()), 1..100),
        ) {
            let mut pages = PageAllocator::new(100);
            let mut held: Vec<Range<u32>> = Vec::new();
            for (count, which) in steps {
                match pages.take_pages(count) {
                    Some(taken) => {
                        prop_assert!(taken.end <= 100);
                        prop_assert!(held.iter().all(|h| h.end <= taken.start || taken.end <= h.start));
                        held.push(taken);
                    }
                    None => pages.give_back(held.swap_remove(which.index(held.len()))),
                }
                let used: u32 = held.iter().map(|h| h.end - h.start).sum();
                let free: u32 = pages.free.iter().map(|(start, end)| end - start).sum();
                prop_assert_eq!(free, 100 - used);
            }
            held.into_iter().for_each(|stretch| pages.give_back(stretch));
            prop_assert_eq!(pages.take_pages(100), Some(0..100));
        }
    }
}
