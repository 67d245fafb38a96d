//! Call stacks of blocks. They are unwound outside of the target, and named at the end.

use crate::maps::{self, ExecutableMapping};
use profile::{ImageOffset, ProcessAddress, TracedPlace};
use rustc_hash::FxHashMap;
use sampler::process_file;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use symbols::ImageSymbols;
use unwind::{AddressSpace, ModuleData, StackMemory, UnwindRegisters, Unwinder};

/// Registers at the beginning of a stack record, by their DWARF numbers: rip, rsp, rbp, rbx, r12 to
/// r15.
const REGISTERS: [u16; 8] = [16, 7, 6, 3, 12, 13, 14, 15];
/// Maximum number of distinct places. Later places are dropped.
const PLACES: usize = 1 << 18;

/// Known code of the target, and the places of its stacks.
pub(super) struct TracedStacks {
    pid: u32,
    /// Path of the runtime. Its functions stand between those of the target and of the C library.
    runtime: String,
    mappings: Vec<ExecutableMapping>,
    space: AddressSpace,
    modules: FxHashMap<String, Arc<ModuleData>>,
    unwinder: Unwinder,
    index: FxHashMap<u64, u32>,
    places: Vec<(String, ImageOffset)>,
}

impl TracedStacks {
    pub fn new(pid: u32, runtime: &Path) -> Self {
        let runtime = runtime.canonicalize().unwrap_or_else(|_| runtime.into());
        let mut new = Self {
            pid,
            runtime: runtime.to_string_lossy().into_owned(),
            mappings: Vec::new(),
            space: AddressSpace::new(),
            modules: FxHashMap::default(),
            unwinder: Unwinder::new(),
            index: FxHashMap::default(),
            places: Vec::new(),
        };
        new.refresh();
        new
    }

    /// Reads the mappings again.
    pub fn refresh(&mut self) {
        let mappings = maps::read_mappings(self.pid);
        if mappings.is_empty() {
            return; // the target has ended: the earlier mappings are the best known
        }
        self.mappings = mappings;
        self.space = AddressSpace::new();
        for mapping in &self.mappings {
            let module = self.modules.entry(mapping.path.clone()).or_insert_with(|| {
                let path = readable_path(self.pid, &mapping.path);
                let module = ModuleData::open(&path);
                Arc::new(module.unwrap_or_else(|_| ModuleData::without_tables()))
            });
            let range = ProcessAddress(mapping.range.start)..ProcessAddress(mapping.range.end);
            self.space
                .add_module(range, mapping.offset, Arc::clone(module));
        }
    }

    /// Returns the places of the callers in a stack record, innermost first.
    pub fn unwind(&mut self, words: &[u64]) -> Vec<u32> {
        let Some((registers, stack)) = words.split_at_checked(REGISTERS.len()) else {
            return Vec::new();
        };
        let value = |number: u16| {
            let at = REGISTERS.iter().position(|known| *known == number);
            at.and_then(|at| registers.get(at)).copied().unwrap_or(0)
        };
        // The first address is a return address. It lies after the call instruction.
        let mut state = UnwindRegisters::x86_64(value(16), value(7), value(6));
        for number in [3, 12, 13, 14, 15] {
            state = state.with(number, value(number));
        }
        let bytes: Vec<u8> = stack
            .iter()
            .skip(1)
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let mut frames = Vec::new();
        self.unwinder.unwind(
            &self.space,
            &state,
            StackMemory::new(value(7), &bytes),
            &mut frames,
        );
        if let Some(first) = frames.first_mut() {
            first.0 = first.0.saturating_sub(1);
        }
        let mut places = Vec::with_capacity(frames.len());
        for frame in &frames {
            let mapping = maps::mapping_at(&self.mappings, frame.0);
            if mapping.is_some_and(|mapping| mapping.path == self.runtime) {
                continue;
            }
            let Some(place) = self.place_at(frame.0) else {
                break;
            };
            places.push(place);
        }
        places
    }

    fn place_at(&mut self, address: u64) -> Option<u32> {
        if let Some(known) = self.index.get(&address) {
            return Some(*known);
        }
        if self.places.len() >= PLACES {
            return None;
        }
        let place = match maps::mapping_at(&self.mappings, address) {
            Some(mapping) => (mapping.path.clone(), mapping.file_offset(address)),
            None => (String::new(), ImageOffset(address)),
        };
        let number = self.places.len() as u32;
        self.places.push(place);
        self.index.insert(address, number);
        Some(number)
    }

    /// Returns all places with their names.
    pub fn named(&self) -> Vec<TracedPlace> {
        let mut images: FxHashMap<&str, Option<(ImageSymbols, Option<symbols::DebugInfo>)>> =
            FxHashMap::default();
        let mut named = Vec::new();
        for (path, offset) in &self.places {
            let image = images.entry(path).or_insert_with(|| {
                let file = readable_path(self.pid, path);
                let symbols =
                    ImageSymbols::open_image(&file, &symbols::SymbolOptions::default()).ok()?;
                let debug = symbols.debug_info().ok().flatten();
                Some((symbols, debug))
            });
            let mut place = TracedPlace {
                function: String::new(),
                line: None,
                image: path.clone(),
                offset: *offset,
            };
            if let Some((symbols, debug)) = image {
                let procedure = symbols
                    .procedure_at(*offset)
                    .map(|raw| raw.demangle_procedure());
                let name = procedure.as_ref().map(|procedure| &procedure.name);
                place.function = name.map(|name| name.to_string()).unwrap_or_default();
                if let (Some(debug), Some(address)) = (debug, symbols.address_of(*offset)) {
                    let frames = debug.source_frames(address, name).unwrap_or_default();
                    let innermost = frames.first();
                    place.line = innermost
                        .and_then(|frame| Some((frame.file.as_ref()?.to_string(), frame.line?)));
                }
            }
            named.push(place);
        }
        named
    }
}

fn readable_path(pid: u32, path: &str) -> PathBuf {
    if std::path::Path::new(path).exists() {
        path.into()
    } else {
        process_file(pid, &format!("root{path}")).into()
    }
}
