//! Finishes a recording: keeps only images with samples, splits the kernel into its parts, and
//! embeds the symbols that cannot be read again later.

use crate::processes::images::{ImageTable, KERNEL, open_regular, open_same};
use crate::processes::maps::ProcessMaps;
use crate::processes::perf_map::open_perf_map;
use crate::processes::unreadable::{FindNames, Names, Unreadable, elf_name, find_names};
use crate::recording::collection::Collection;
use crate::recording::script_functions::ScriptFunctions;
use profile::{
    AccessCount, BranchCount, BuildId, EmbeddedSymbol, Image, ImageId, ImageKind, ImageOffset,
    Location, ProcessAddress, RARE_STACKS, Recording, SharingCode, StretchCount, name_processes,
    rare_stacks_symbol,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use symbols::{ImageSymbols, KernelSymbols, running_kernel_build_id};

/// Moves all gathered data into the recording. The kernel's symbols are kept in `directory`.
pub(crate) fn finish_recording(
    mut collection: Collection,
    recording: &mut Recording,
    directory: Option<&Path>,
) {
    if collection.images.has_nameless() {
        // A process without records may still be running.
        collection.maps.scan_again(&mut collection.images);
    }
    recording.slice_ns = collection.slices.map(|slices| slices.length_ns);
    let sources = NameSources {
        kernel: None,
        directory,
        find_names: &find_names,
    };
    move_samples(&mut collection, recording, sources);
    crate::recording::wakers::drop_own_frames(recording);
    crate::recording::wakers::name_interrupts(recording);
}

/// Sources of names that will be unreadable later.
pub(crate) struct NameSources<'a> {
    /// Symbols of the kernel, which take time and memory to read in full. `None`: they are read
    /// here.
    pub kernel: Option<KernelSymbols>,
    /// Directory in which they are kept if they are read.
    pub directory: Option<&'a Path>,
    /// Finds the names in files, which takes time and memory, too.
    pub find_names: &'a FindNames,
}

/// Moves the samples gathered so far into the recording; images and maps stay for later samples.
pub(crate) fn move_samples(
    collection: &mut Collection,
    recording: &mut Recording,
    names: NameSources<'_>,
) -> Option<KernelSymbols> {
    let tally = collection.take_tally();
    let mut finisher = Finisher {
        images: &collection.images,
        functions: &collection.functions,
        maps: &collection.maps,
        kernel: names.kernel.map(Some),
        directory: names.directory,
        new: Vec::new(),
        moved: FxHashMap::default(),
        named: FxHashMap::default(),
        sources: Vec::new(),
        embedded: BTreeSet::new(),
        warnings: BTreeSet::new(),
    };
    tally.move_into(recording, |location| finisher.place_in_recording(location));
    name_processes(recording, |pid| collection.maps.name_of_process(pid));
    let branches = std::mem::take(&mut collection.branches).into_iter();
    recording.branches = branches
        .map(
            |((image, branch, target), (observed, walked))| BranchCount {
                image: finisher.image_in_recording(image),
                branch,
                target,
                observed,
                walked,
            },
        )
        .collect();
    recording.branches.sort_unstable();
    let stretches = std::mem::take(&mut collection.stretches);
    let finished = |one: StretchCount| StretchCount {
        image: finisher.image_in_recording(one.image),
        ..one
    };
    recording.stretches = stretches.iter().map(finished).collect();
    recording.stretches.sort_unstable();
    let accesses = std::mem::take(&mut collection.accesses).into_iter();
    let finished = |((image, instruction), accesses)| AccessCount {
        image: finisher.image_in_recording(image),
        instruction,
        accesses,
    };
    recording.accesses = accesses.map(finished).collect();
    recording.accesses.sort_unstable();
    let sharing = std::mem::take(&mut collection.shared_lines).into_sharing_code();
    let sharing = sharing.map(|code| SharingCode {
        place: finisher.place_in_recording(code.place),
        variable: (code.variable).map(|(image, at)| (finisher.image_in_recording(image), at)),
        ..code
    });
    recording.sharing = sharing.collect();
    recording.sharing.sort_unstable_by_key(|code| code.place);
    finisher.embed_names(names.find_names);
    recording.images = finisher.new;
    recording.symbols = finisher.embedded.into_iter().collect();
    let kernel = finisher.kernel.flatten();
    let warnings = finisher.warnings;
    recording
        .warnings
        .extend(std::mem::take(&mut collection.warnings));
    recording.warnings.extend(warnings);
    kernel
}

/// Source of the symbols of an image that must be embedded.
enum Source {
    /// Not embedded: the reader finds the symbols in the file.
    Later,
    /// The interpreter; with the image's former number.
    Script(ImageId),
    /// Placeholder for callers that were left out.
    RareStacks,
    /// An ELF image in memory.
    Elf(Box<ImageSymbols>),
    /// A file that names the places collected here.
    Places(File, Names, BTreeSet<ImageOffset>),
}

struct Finisher<'a> {
    images: &'a ImageTable,
    functions: &'a ScriptFunctions,
    maps: &'a ProcessMaps,
    kernel: Option<Option<KernelSymbols>>,
    directory: Option<&'a Path>,
    new: Vec<Image>,
    /// New numbers of images.
    moved: FxHashMap<ImageId, ImageId>,
    /// Parts of the kernel by name.
    named: FxHashMap<String, ImageId>,
    /// Sources by new number of the image.
    sources: Vec<Source>,
    embedded: BTreeSet<EmbeddedSymbol>,
    warnings: BTreeSet<String>,
}

impl Finisher<'_> {
    /// Returns a location's counterpart in the recording.
    fn place_in_recording(&mut self, location: Location) -> Location {
        if location.image == KERNEL {
            return self.place_in_kernel(ProcessAddress(location.offset.0));
        }
        let image = self.image_in_recording(location.image);
        self.embed_symbol(image, location.offset);
        Location { image, ..location }
    }

    /// Returns the number in the recording of an image other than the kernel.
    fn image_in_recording(&mut self, old: ImageId) -> ImageId {
        match self.moved.get(&old) {
            Some(id) => *id,
            None => self.take_image(old),
        }
    }

    fn add_image(&mut self, image: Image, source: Source) -> ImageId {
        let id = ImageId(self.new.len() as u32);
        self.new.push(image);
        self.sources.push(source);
        id
    }

    fn take_image(&mut self, old: ImageId) -> ImageId {
        let mut image = self.images.finished_image(old);
        let source = match image.kind {
            ImageKind::File => self.file_source(old, &mut image),
            ImageKind::Vdso => {
                crate::processes::vdso::own_vdso().map_or(Source::Later, vdso_source)
            }
            ImageKind::Anonymous => self.generated_code(&image),
            ImageKind::Script => Source::Script(old),
            ImageKind::Jit if image.path == RARE_STACKS => Source::RareStacks,
            _ => Source::Later,
        };
        if let Source::Elf(elf) = &source
            && image.build_id.is_none()
        {
            image.build_id = elf.build_id().cloned();
        }
        let id = self.add_image(image, source);
        self.moved.insert(old, id);
        id
    }

    /// Returns the source of a file's symbols; a file that will not be found under its path is read
    /// now, if it still can be.
    fn file_source(&mut self, id: ImageId, image: &mut Image) -> Source {
        let Some(identity) = image.file else {
            return Source::Later;
        };
        if let Some(file) = open_same(&image.path, identity, None) {
            if image.build_id.is_none() {
                image.build_id = build_id(&file);
            }
            return Source::Later;
        }
        image.gone = true;
        let held = self
            .images
            .held_file(id)
            .and_then(|file| file.try_clone().ok());
        match held.or_else(|| self.maps.open_mapped(id, identity)) {
            Some(file) => {
                if image.build_id.is_none() {
                    image.build_id = build_id(&file);
                }
                Source::Places(file, Names::Elf, BTreeSet::new())
            }
            None => Source::Later,
        }
    }

    /// Returns the source of symbols for code without a file: a perf map or a jitdump may name it.
    fn generated_code(&self, image: &Image) -> Source {
        let Some(pid) = generating_process(image) else {
            return Source::Later;
        };
        if let Some(file) = open_perf_map(pid) {
            return Source::Places(file, Names::PerfMap, BTreeSet::new());
        }
        let dump = self.maps.jitdumps().get(&pid);
        let file = dump.and_then(open_regular);
        let file = file.filter(|file| file.metadata().is_ok_and(|data| data.len() > 0));
        file.map_or(Source::Later, |file| {
            Source::Places(file, Names::JitDump, BTreeSet::new())
        })
    }

    /// Embeds the symbol at a place, if the reader could not find it.
    fn embed_symbol(&mut self, image: ImageId, offset: ImageOffset) {
        match &mut self.sources[image.0 as usize] {
            Source::Later => {}
            Source::RareStacks => {
                self.embedded.insert(rare_stacks_symbol(image));
            }
            Source::Script(old) => {
                let named = self.functions.embedded_symbol(*old, offset, image);
                self.embedded.extend(named);
            }
            Source::Elf(elf) => {
                self.embedded
                    .extend(elf_name(elf, offset).map(|named| EmbeddedSymbol {
                        image,
                        start: named.start,
                        end: named.end,
                        name: named.name,
                    }));
            }
            Source::Places(_, _, offsets) => {
                offsets.insert(offset);
            }
        }
    }

    /// Embeds the names of the collected places.
    fn embed_names(&mut self, find_names: &FindNames) {
        let sources = std::mem::take(&mut self.sources);
        let numbered = (0..).map(ImageId).zip(sources);
        let wanted = numbered.filter_map(|(image, source)| match source {
            Source::Places(file, kind, offsets) if !offsets.is_empty() => {
                let offsets = offsets.into_iter().collect();
                let unreadable = Unreadable {
                    file,
                    kind,
                    offsets,
                };
                Some((image, unreadable))
            }
            _ => None,
        });
        let (ids, unreadable): (Vec<ImageId>, Vec<Unreadable>) = wanted.unzip();
        if ids.is_empty() {
            return;
        }
        let found = find_names(&unreadable);
        for (image, names) in ids.into_iter().zip(found) {
            let Some(names) = names else { continue };
            let described = &mut self.new[image.0 as usize];
            if let Some(pid) = generating_process(described) {
                described.kind = ImageKind::Jit;
                described.path = format!("[jit {pid}]");
            }
            self.embedded
                .extend(names.into_iter().map(|named| EmbeddedSymbol {
                    image,
                    start: named.start,
                    end: named.end,
                    name: named.name,
                }));
        }
    }

    fn place_in_kernel(&mut self, address: ProcessAddress) -> Location {
        let warnings = &mut self.warnings;
        let directory = self.directory;
        let kernel = self.kernel.get_or_insert_with(|| match read_kernel(directory) {
            Ok(kernel) => Some(kernel),
            Err(error) => {
                warnings.insert(format!(
                    "kernel samples have no symbols: {error}; as root: sysctl kernel.kptr_restrict=0"
                ));
                None
            }
        });
        if let Some(kept) = kernel
            && !kept.knows(address)
            && let Ok(whole) = KernelSymbols::read_running_kernel()
        {
            *kept = whole;
        }
        let symbol = kernel.as_ref().and_then(|kernel| kernel.find(address));
        let symbol = symbol.cloned();
        let module = kernel.as_ref().and_then(|kernel| kernel.module_at(address));
        let text = kernel.as_ref().and_then(KernelSymbols::text_start);
        // Offsets are relative to the part's load address, so that they survive the next boot.
        let (name, base) = match (module, symbol.as_ref().and_then(|s| s.module.clone())) {
            (Some(module), _) => (module.name.clone(), module.start.0),
            (None, Some(other)) => (other, 0),
            (None, None) => ("kernel".to_owned(), text.map_or(0, |text| text.0)),
        };
        let image = self.kernel_part(&name);
        let relative = |address: ProcessAddress| ImageOffset(address.0.wrapping_sub(base));
        if let Some(symbol) = symbol {
            self.embedded.insert(EmbeddedSymbol {
                image,
                start: relative(symbol.start),
                end: relative(symbol.end),
                name: symbol.name,
            });
        }
        Location {
            image,
            offset: relative(address),
        }
    }

    fn kernel_part(&mut self, name: &str) -> ImageId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let image = Image {
            kind: if name == "kernel" {
                ImageKind::Kernel
            } else {
                ImageKind::KernelModule
            },
            path: format!("[{name}]"),
            build_id: (name == "kernel").then(running_kernel_build_id).flatten(),
            file: None,
            gone: false,
        };
        let id = self.add_image(image, Source::Later);
        self.named.insert(name.to_owned(), id);
        id
    }
}

fn read_kernel(directory: Option<&Path>) -> Result<KernelSymbols, symbols::Error> {
    match directory {
        Some(directory) => KernelSymbols::read_or_keep(directory),
        None => KernelSymbols::read_running_kernel(),
    }
}

fn vdso_source(bytes: Vec<u8>) -> Source {
    let options = symbols::SymbolOptions::default();
    let elf = ImageSymbols::from_bytes(Path::new("[vdso]"), bytes, &options);
    elf.map_or(Source::Later, |elf| Source::Elf(Box::new(elf)))
}

/// Returns the process that generated the code of an image without a file.
fn generating_process(image: &Image) -> Option<u32> {
    let pid = image.path.strip_prefix("[anon ")?.strip_suffix(']')?;
    pid.parse().ok()
}

fn descriptor_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn build_id(file: &File) -> Option<BuildId> {
    symbols::build_id_of_file(Path::new(&descriptor_path(file)))
        .ok()
        .flatten()
}

/// Adds the names of the kernel's procedures to a recording of this machine that was made without
/// them, if the same kernel still runs.
pub fn name_kernel(recording: &mut Recording) {
    let running = running_kernel_build_id();
    let is_kernel =
        |image: &Image| matches!(image.kind, ImageKind::Kernel | ImageKind::KernelModule);
    let same = |image: &Image| image.kind == ImageKind::Kernel && image.build_id == running;
    let kernels = recording
        .images
        .iter()
        .filter(|i| i.kind == ImageKind::Kernel);
    if running.is_none() || !kernels.clone().all(same) || kernels.count() == 0 {
        return;
    }
    let Ok(kernel) = KernelSymbols::read_running_kernel() else {
        return; // hidden from this user
    };
    let mut embedded: BTreeSet<EmbeddedSymbol> = recording.symbols.drain(..).collect();
    for frame in recording.stacks.frames() {
        let location = frame.location;
        let image = recording.image(location.image);
        if !is_kernel(image) {
            continue;
        }
        let module = image.path.trim_start_matches('[').trim_end_matches(']');
        let base = match image.kind {
            ImageKind::Kernel => kernel.text_start().map(|text| text.0),
            _ => {
                let mut modules = kernel.modules().iter();
                modules.find(|m| m.name == module).map(|m| m.start.0)
            }
        };
        let Some(base) = base else { continue };
        let address = ProcessAddress(location.offset.0.wrapping_add(base));
        let Some(symbol) = kernel.find(address) else {
            continue;
        };
        embedded.insert(EmbeddedSymbol {
            image: location.image,
            start: ImageOffset(symbol.start.0.wrapping_sub(base)),
            end: ImageOffset(symbol.end.0.wrapping_sub(base)),
            name: symbol.name.clone(),
        });
    }
    recording.symbols = embedded.into_iter().collect();
}
