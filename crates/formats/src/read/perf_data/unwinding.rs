//! User stacks unwound from copies, by the unwind tables of the mapped files.

use super::maps::{Maps, Space};
use super::wire::PerfSample;
use profile::{BuildId, FileIdentity, Image, ImageId, ImageKind, ProcessAddress};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use unwind::{
    AddressSpace, ModuleCache, ModuleData, StackMemory, UnwindMachine, UnwindOutcome,
    UnwindRegisters, Unwinder,
};

/// Memory for unwind tables, in bytes.
const TABLES: usize = 512 << 20;
/// Number of address spaces in the cache.
const SPACES: usize = 256;

/// Unwinds the stacks of samples.
pub(super) struct PerfStackReader<'o> {
    symbols: &'o symbols::SymbolOptions,
    machine: Option<UnwindMachine>,
    unwinder: Unwinder,
    modules: ModuleCache,
    /// Address spaces by number.
    spaces: FxHashMap<u64, AddressSpace>,
    pub unwound: u64,
    pub truncated: u64,
    pub failed: u64,
}

impl<'o> PerfStackReader<'o> {
    /// Makes a reader. `machine` is in the form of `uname -m`.
    pub fn new(machine: Option<&str>, symbols: &'o symbols::SymbolOptions) -> Self {
        Self {
            symbols,
            machine: match machine {
                Some("x86_64") => Some(UnwindMachine::X86_64),
                Some("aarch64") => Some(UnwindMachine::Aarch64),
                Some(_) => None,
                None => UnwindMachine::native(),
            },
            unwinder: Unwinder::new(),
            modules: ModuleCache::new(TABLES),
            spaces: FxHashMap::default(),
            unwound: 0,
            truncated: 0,
            failed: 0,
        }
    }

    /// Returns the user frames of a sample, innermost first, callers inside their call
    /// instructions; `None` if its registers do not suffice.
    pub fn unwind_sample(
        &mut self,
        maps: &Maps,
        space: &Space,
        sample: &PerfSample<'_>,
        mask: u64,
    ) -> Option<Vec<ProcessAddress>> {
        let registers = UnwindRegisters::from_perf(self.machine?, mask, &sample.registers)?;
        if self.spaces.len() >= SPACES {
            self.spaces.clear();
        }
        let (modules, symbols) = (&mut self.modules, self.symbols);
        let space = self.spaces.entry(space.number).or_insert_with(|| {
            let mut made = AddressSpace::new();
            for (start, mapping) in &space.mappings {
                let range = ProcessAddress(*start)..ProcessAddress(mapping.end);
                let module = module_of_image(modules, symbols, &maps.images, mapping.image);
                made.add_module(range, mapping.offset, module);
            }
            made
        });
        let mut frames = Vec::new();
        let stack = StackMemory::new(registers.sp(), sample.stack);
        let outcome = self.unwinder.unwind(space, &registers, stack, &mut frames);
        self.unwound += 1;
        match outcome {
            UnwindOutcome::Complete => {}
            UnwindOutcome::Truncated | UnwindOutcome::TooDeep => self.truncated += 1,
            UnwindOutcome::Failed(_) => self.failed += 1,
        }
        Some(frames)
    }
}

fn module_of_image(
    modules: &mut ModuleCache,
    options: &symbols::SymbolOptions,
    images: &[Image],
    id: ImageId,
) -> Arc<ModuleData> {
    let image = images
        .get(id.0 as usize)
        .filter(|image| image.kind == ImageKind::File);
    let found = image.and_then(|image| {
        // The cache is keyed by files; these have local numbers.
        let key = FileIdentity {
            major: 0,
            minor: 0,
            inode: id.0.into(),
            generation: 0,
        };
        modules
            .get(key, || {
                let path = find_image_file(options, image).unwrap_or_default();
                ModuleData::open(&path)
            })
            .ok()
    });
    // Frame pointers serve if the tables cannot be read.
    found.unwrap_or_else(|| Arc::new(ModuleData::without_tables()))
}

/// Finds the file of an image: under its path if it is still the same, else by its build-id.
fn find_image_file(options: &symbols::SymbolOptions, image: &Image) -> Option<PathBuf> {
    let path = options.path_of(&image.path);
    let Some(wanted) = &image.build_id else {
        return Some(path);
    };
    let same = |path: &PathBuf| -> bool {
        let found: Option<BuildId> = symbols::build_id_of_file(path).ok().flatten();
        found.as_ref() == Some(wanted)
    };
    std::iter::once(path)
        .chain(options.images_by_id(wanted))
        .find(same)
}
