use crate::ModuleData;
use profile::ProcessAddress;
use std::ops::Range;
use std::sync::Arc;

/// The code mapped into a process.
///
/// A clone shares everything with its original until one of them changes: clone it for a forked
/// process, and make a new one at an exec. Only executable mappings are needed.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// Mappings: sorted, disjoint.
    mappings: Arc<Vec<ModuleMapping>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ModuleMapping {
    start: u64,
    end: u64,
    /// Offset in the file of the byte at `start`.
    file_offset: u64,
    pub(crate) module: Arc<ModuleData>,
}

impl ModuleMapping {
    /// Returns the offset in the file of an address that is not below the mapping.
    pub(crate) fn offset_in_file(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start)?;
        self.file_offset.checked_add(offset)
    }

    /// Returns the address in the image; `None` if no segment contains it.
    pub(crate) fn image_address(&self, address: u64) -> Option<u64> {
        self.module.image_address(self.offset_in_file(address)?)
    }
}

impl AddressSpace {
    /// Makes an empty address space.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `module`, from its `file_offset` on, to `range`, replacing earlier mappings.
    pub fn add_module(
        &mut self,
        range: Range<ProcessAddress>,
        file_offset: u64,
        module: Arc<ModuleData>,
    ) {
        let (start, end) = (range.start.0, range.end.0);
        if start >= end {
            return;
        }
        self.remove_range(range);
        let at = self.mappings.partition_point(|m| m.start < start);
        let new = ModuleMapping {
            start,
            end,
            file_offset,
            module,
        };
        Arc::make_mut(&mut self.mappings).insert(at, new);
    }

    /// Removes the mappings in `range`; those that extend beyond it keep the rest.
    pub fn remove_range(&mut self, range: Range<ProcessAddress>) {
        let (start, end) = (range.start.0, range.end.0);
        let first = self.mappings.partition_point(|m| m.end <= start);
        let last = self.mappings.partition_point(|m| m.start < end);
        if start >= end || first >= last {
            return;
        }
        let hit = &self.mappings[first..last];
        let before = hit
            .first()
            .filter(|m| m.start < start)
            .map(|m| ModuleMapping {
                end: start,
                ..m.clone()
            });
        let after = hit.last().filter(|m| m.end > end).map(|m| ModuleMapping {
            start: end,
            file_offset: m.file_offset.saturating_add(end - m.start),
            ..m.clone()
        });
        let mappings = Arc::make_mut(&mut self.mappings);
        mappings.splice(first..last, before.into_iter().chain(after));
    }

    /// Returns the number of mappings.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Returns whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    pub(crate) fn mapping_at(&self, address: u64) -> Option<&ModuleMapping> {
        let at = self.mappings.partition_point(|m| m.end <= address);
        self.mappings.get(at).filter(|m| m.start <= address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn range(start: u64, end: u64) -> Range<ProcessAddress> {
        ProcessAddress(start)..ProcessAddress(end)
    }

    proptest! {
        /// Against a model that stores every byte separately.
        #[test]
        fn mappings_replace_what_they_cover(
            steps in prop::collection::vec((0u64..64, 0u64..64, any::<bool>()), 0..40),
        ) {
            let module = Arc::new(ModuleData::without_tables());
            let (mut space, mut model) = (AddressSpace::new(), BTreeMap::new());
            for (n, (start, end, add)) in steps.into_iter().enumerate() {
                let before = space.clone();
                let kept = format!("{before:?}");
                if add {
                    space.add_module(range(start, end), 1000 * n as u64, module.clone());
                } else {
                    space.remove_range(range(start, end));
                }
                prop_assert_eq!(kept, format!("{before:?}"), "a clone changed");
                for address in start..end {
                    model.remove(&address);
                    if add {
                        model.insert(address, 1000 * n as u64 + address - start);
                    }
                }
            }
            for address in 0..70 {
                let found = space.mapping_at(address).map(|m| m.file_offset + address - m.start);
                prop_assert_eq!(found, model.get(&address).copied(), "at {}", address);
            }
        }
    }
}
