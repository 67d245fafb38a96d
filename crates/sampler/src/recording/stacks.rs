//! User stacks unwound from copies.

use crate::events::records::Record;
use crate::processes::images::open_same;
use crate::processes::maps;
use crate::recording::collection::Collection;
use profile::{FileIdentity, ImageId, ImageKind, ProcessAddress};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use unwind::{
    AddressSpace, ModuleCache, ModuleData, StackMemory, UnwindFailure, UnwindOutcome,
    UnwindRegisters, Unwinder,
};

/// Memory for unwind tables, in bytes.
const TABLES: usize = 512 << 20;
/// Number of address spaces in the cache.
const SPACES: usize = 4096;

/// Unwinds the stacks of samples.
pub(crate) struct StackReader {
    unwinder: Unwinder,
    modules: ModuleCache,
    /// Address spaces by the version of the mappings.
    spaces: FxHashMap<u64, AddressSpace>,
    vdso: Option<Arc<ModuleData>>,
    unwound: u64,
    truncated: u64,
    lost: u64,
}

impl StackReader {
    pub fn new() -> Self {
        let vdso = crate::processes::vdso::own_vdso()
            .and_then(|bytes| ModuleData::from_bytes("[vdso]", &bytes).ok())
            .map(Arc::new);
        Self {
            unwinder: Unwinder::new(),
            modules: ModuleCache::new(TABLES),
            spaces: FxHashMap::default(),
            vdso,
            unwound: 0,
            truncated: 0,
            lost: 0,
        }
    }

    /// Returns warnings if many stacks were longer than the copied part, or end in code without
    /// unwind information.
    pub fn warnings(&self, copied: u32) -> Vec<String> {
        let share = self.truncated as f64 / self.unwound.max(1) as f64;
        let most = crate::Options::MOST_STACK_BYTES;
        let cut = (share > 0.01 && copied < most).then(|| {
            format!(
                "{:.1} % of the stacks were cut at {copied} bytes; deeper: --call-graph dwarf,{most}",
                100.0 * share
            )
        });
        let lost = profile::warn_of_lost_stacks(self.lost, self.unwound);
        cut.into_iter().chain(lost).collect()
    }

    /// Returns the user frames of a sample, innermost first, callers inside their call
    /// instructions.
    pub fn unwind_user(
        &mut self,
        collection: &Collection,
        record: &Record,
        registers: &UnwindRegisters,
        bytes: &[u8],
    ) -> Vec<ProcessAddress> {
        let mut frames = Vec::new();
        let Some((mappings, version)) = collection.maps.mappings_at(record.pid, record.time) else {
            return vec![ProcessAddress(registers.pc())];
        };
        if self.spaces.len() >= SPACES {
            self.spaces.clear();
        }
        let Self {
            unwinder,
            modules,
            spaces,
            vdso,
            unwound,
            truncated,
            lost,
        } = self;
        let space = spaces.entry(version).or_insert_with(|| {
            let mut space = AddressSpace::new();
            for (start, mapping) in mappings.iter() {
                let range = ProcessAddress(*start)..ProcessAddress(mapping.end);
                let module = unwind_tables(collection, modules, vdso.as_ref(), mapping, record.pid);
                space.add_module(range, mapping.file_offset, module);
            }
            space
        });
        let stack = StackMemory::new(registers.sp(), bytes);
        let outcome = unwinder.unwind(space, registers, stack, &mut frames);
        *unwound += 1;
        *truncated += u64::from(outcome == UnwindOutcome::Truncated);
        *lost += u64::from(outcome == UnwindOutcome::Failed(UnwindFailure::NoTable));
        frames
    }
}

/// Returns the unwind tables of a mapping's file.
fn unwind_tables(
    collection: &Collection,
    modules: &mut ModuleCache,
    vdso: Option<&Arc<ModuleData>>,
    mapping: &maps::Mapping,
    pid: u32,
) -> Arc<ModuleData> {
    let image = collection.images.get(mapping.image);
    let found = match (image.kind, image.file) {
        (ImageKind::Vdso, _) => vdso.cloned(),
        (ImageKind::File, Some(identity)) => modules
            .get(identity, || {
                load_tables(collection, mapping.image, identity, pid)
            })
            .ok(),
        _ => None,
    };
    // Frame pointers serve if the tables cannot be read.
    found.unwrap_or_else(|| Arc::new(ModuleData::without_tables()))
}

fn load_tables(
    collection: &Collection,
    image: ImageId,
    identity: FileIdentity,
    pid: u32,
) -> Result<ModuleData, unwind::Error> {
    let path = &collection.images.get(image).path;
    match collection.images.held_file(image) {
        Some(file) => ModuleData::from_file(path, file),
        None => match open_same(path, identity, Some(pid)) {
            Some(file) => ModuleData::from_file(path, &file),
            None => ModuleData::open(std::path::Path::new(path)),
        },
    }
}
