//! Meaning of code addresses, for the runtime: the line that a sample belongs to (section 3.4.2).

use crate::attach::mapped_file;
use crate::code_set::{CallSequence, EVERYTHING_ELSE, SpeedupSet};
use crate::fragments::{FragmentTable, KnownFragment, name_copy};
use crate::maps::{self, ExecutableMapping};
use crate::scope::SourceScope;
use languages::{ElfImage, go::GoModule};
use object::ReadCache;
use profile::{Granularity, ImageOffset, SourceFrame};
use runtime_abi::selection::Steps;
use runtime_abi::{Page, Place, Rule, Thread};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::process_file;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::JoinHandle;
use symbols::{DebugInfo, ImageSymbols};
use unwind::{CallerRule, ModuleData, Unwinder};

/// A mapped file, as far as it could be read.
pub(crate) struct CodeImage {
    pub path: String,
    pub symbols: Option<ImageSymbols>,
    pub debug: Option<DebugInfo>,
    module: ModuleData,
}

impl CodeImage {
    /// Returns whether all its functions have names, not only exported ones.
    pub fn has_all_symbols(&self) -> bool {
        self.symbols.as_ref().is_some_and(ImageSymbols::is_complete)
    }

    /// Returns whether the file has symbols, debug information or unwind tables to tell its
    /// functions apart.
    pub fn has_functions(&self) -> bool {
        self.has_all_symbols() || self.module.has_tables()
    }
}

/// Size in bytes from which on a file is read in another thread where nothing waits for it: reading
/// the headers of all units of debug information takes some milliseconds for each megabyte.
const LARGE: u64 = 8 << 20;

/// Reads a file, with its symbols and debug information if `with_names` is set. `path` is its path
/// in the process, `file` the path to read.
fn read_image(path: String, file: &Path, with_names: bool) -> CodeImage {
    let module = ModuleData::open(file).unwrap_or_else(|_| ModuleData::without_tables());
    let options = symbols::SymbolOptions::default();
    let symbols = with_names.then(|| ImageSymbols::open_image(file, &options).ok());
    let symbols = symbols.flatten();
    let debug = symbols.as_ref().and_then(|s| s.debug_info().ok());
    CodeImage {
        path,
        debug: debug.flatten(),
        symbols,
        module,
    }
}

/// Meaning of a place, independent of the process that maps its file.
enum KnownPlace {
    Fragment(KnownFragment),
    Other(PlaceAnswer),
}

/// Answer to the runtime about a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceAnswer {
    pub place: Place,
    /// Transition table of the call sequence.
    pub steps: Steps,
}

impl PlaceAnswer {
    /// Returns the answer for code while no call sequence is selected.
    fn without_steps(place: Place) -> Self {
        let steps = Steps(0);
        Self { place, steps }
    }
}

/// Knowledge of a command's code, kept from one run to the next. A sample at an unknown place
/// counts for nothing, so without this few samples of short runs would count.
#[derive(Default)]
pub(crate) struct RememberedCode {
    images: FxHashMap<String, Rc<CodeImage>>,
    /// Images that other threads are reading.
    reading: FxHashMap<String, JoinHandle<CodeImage>>,
    /// Places by file and offset in it.
    places: FxHashMap<String, FxHashMap<u64, KnownPlace>>,
    /// True if the places have the steps of a call sequence, not fragments.
    has_steps: bool,
}

/// The code of a process.
pub(crate) struct TargetCode {
    pid: u32,
    by: Granularity,
    scope: SourceScope,
    executable: String,
    mappings: Vec<ExecutableMapping>,
    remembered: RememberedCode,
    unwinder: Unwinder,
    fragments: FragmentTable,
    /// The selected call sequence, from [`Self::begin_set`] on.
    sequence: Option<CallSequence>,
    /// True if symbols of all images are needed, not only of those in scope.
    names_all: bool,
    /// All resolved addresses, for the case that a library is unloaded.
    answered: FxHashSet<u64>,
    /// Requested addresses in images that are still being read.
    waiting: Vec<u64>,
}

impl TargetCode {
    /// Makes the code of a process that runs this executable.
    pub fn new(pid: u32, by: Granularity, patterns: &[String], remembered: RememberedCode) -> Self {
        let executable = executable_of(pid).unwrap_or_default();
        Self {
            pid,
            by,
            scope: SourceScope::new(patterns, &executable).with_module(main_module(pid)),
            executable,
            mappings: maps::read_mappings(pid),
            remembered,
            unwinder: Unwinder::new(),
            fragments: FragmentTable::default(),
            sequence: None,
            names_all: false,
            answered: FxHashSet::default(),
            waiting: Vec::new(),
        }
    }

    /// Reads the symbols of all images. Called before the first image is read.
    pub fn name_all_images(&mut self) {
        self.names_all = true;
    }

    /// Switches to two fragments: the set, and everything else. Resolved places lose their meaning:
    /// see [`Self::resolve_all_again`].
    pub fn begin_set(&mut self, set: &SpeedupSet) {
        self.fragments.clear();
        let names = [
            (set.set_name(), set.kind_name()),
            (EVERYTHING_ELSE.to_owned(), ""),
        ];
        for (name, detail) in names {
            let detail = detail.to_owned();
            self.fragments.number_of(&KnownFragment {
                name,
                detail,
                ..KnownFragment::default()
            });
        }
        if let SpeedupSet::Sequence(sequence) = set {
            self.sequence = Some(sequence.clone());
            if !self.remembered.has_steps {
                self.remembered.places.clear();
                self.remembered.has_steps = true;
            }
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the path of the executable.
    pub fn executable(&self) -> &str {
        &self.executable
    }

    /// Returns the paths of the mapped images that are in scope as a whole: without patterns, the
    /// executable.
    pub fn images_in_scope(&self) -> Vec<String> {
        let mapped = self.mappings.iter().map(|mapping| &mapping.path);
        let in_scope = mapped.filter(|path| self.scope.has_image(path));
        let paths: BTreeSet<String> = in_scope.cloned().collect();
        paths.into_iter().collect()
    }

    /// Returns all fragments that have been met.
    pub fn fragments(&self) -> &FragmentTable {
        &self.fragments
    }

    /// Returns the fragments, to add some.
    pub fn fragments_mut(&mut self) -> &mut FragmentTable {
        &mut self.fragments
    }

    /// Returns the executable mappings.
    pub fn mappings(&self) -> &[ExecutableMapping] {
        &self.mappings
    }

    /// Returns the knowledge of the code, for the next run of the same command.
    pub fn into_remembered(self) -> RememberedCode {
        self.remembered
    }

    /// Speeds functions up, not lines. Called before the first place is looked up.
    pub fn by_function(&mut self) {
        self.by = Granularity::Function;
    }

    /// Returns the places known from earlier runs whose files are mapped.
    pub fn known_places(&mut self) -> Vec<(u64, PlaceAnswer)> {
        let mut addresses = Vec::new();
        for mapping in &self.mappings {
            let size = mapping.range.end - mapping.range.start;
            let known = self.remembered.places.get(&mapping.path);
            let offsets = known.into_iter().flat_map(FxHashMap::keys);
            let inside = offsets.filter_map(|offset| offset.checked_sub(mapping.offset));
            let inside = inside.filter(|at| *at < size);
            addresses.extend(inside.map(|at| mapping.range.start + at));
        }
        let places = addresses.into_iter();
        places
            .map(|address| (address, self.place_at(address)))
            .collect()
    }

    /// Returns the meaning of the code at an address. If its image is large and was not read yet,
    /// another thread begins to read it; [`Self::places_read_meanwhile`] then has the answer.
    pub fn place_if_read(&mut self, address: u64) -> Option<PlaceAnswer> {
        if self.begins_reading(address) {
            self.waiting.push(address);
            return None;
        }
        Some(self.place_at(address))
    }

    /// Returns the pending answers whose images have been read since the last call.
    pub fn places_read_meanwhile(&mut self) -> Vec<(u64, PlaceAnswer)> {
        let mut answers = Vec::new();
        for address in std::mem::take(&mut self.waiting) {
            let answer = self.place_if_read(address);
            answers.extend(answer.map(|answer| (address, answer)));
        }
        answers
    }

    /// Returns whether answers are pending on images that are still being read.
    pub fn is_reading(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for all images that are being read.
    pub fn finish_reading(&mut self) {
        let paths: Vec<String> = self.remembered.reading.keys().cloned().collect();
        paths.iter().for_each(|path| drop(self.image_of(path)));
    }

    /// Returns whether the image at an address is being read; starts a thread that reads it if need
    /// be.
    fn begins_reading(&mut self, address: u64) -> bool {
        if maps::mapping_at(&self.mappings, address).is_none() {
            self.mappings = maps::read_mappings(self.pid);
        }
        let Some(mapping) = maps::mapping_at(&self.mappings, address) else {
            return false;
        };
        let path = &mapping.path;
        if let Some(reader) = self.remembered.reading.get(path) {
            return !reader.is_finished();
        }
        if self.remembered.images.contains_key(path) || !path.starts_with('/') {
            return false;
        }
        let file = self.readable_path(path);
        let with_names = self.reads_names(path);
        let is_large = || std::fs::metadata(&file).is_ok_and(|file| file.len() >= LARGE);
        if !with_names || !is_large() {
            return false;
        }
        let path = path.clone();
        let name = path.clone();
        let reader = std::thread::Builder::new().name("symbols".into());
        match reader.spawn(move || read_image(name, &file, true)) {
            Ok(reader) => {
                self.remembered.reading.insert(path, reader);
                true
            }
            // Without a thread the image is read at once.
            Err(_) => false,
        }
    }

    fn reads_names(&self, path: &str) -> bool {
        self.names_all || self.scope.may_have(path)
    }

    /// Returns the meaning of the code at an address.
    pub fn place_at(&mut self, address: u64) -> PlaceAnswer {
        self.answered.insert(address);
        if maps::mapping_at(&self.mappings, address).is_none() {
            self.mappings = maps::read_mappings(self.pid);
        }
        let Some(mapping) = maps::mapping_at(&self.mappings, address) else {
            return PlaceAnswer::without_steps(Place::End);
        };
        let offset = mapping.file_offset(address);
        let path = mapping.path.clone();
        let known = self.remembered.places.get(&path);
        let fragment = match known.and_then(|places| places.get(&offset.0)) {
            Some(KnownPlace::Other(answer)) => return *answer,
            Some(KnownPlace::Fragment(fragment)) => Some(fragment.clone()),
            None if self.sequence.is_some() => return self.look_up_steps(&path, offset),
            None => self.look_up(&path, offset),
        };
        // If there are too many fragments, the caller's is used.
        match fragment.and_then(|fragment| self.fragments.number_of(&fragment)) {
            Some(number) => PlaceAnswer::without_steps(Place::Fragment(number)),
            None => PlaceAnswer::without_steps(self.caller_place(&path, offset)),
        }
    }

    /// Computes the steps of the call sequence at a place, and remembers them.
    fn look_up_steps(&mut self, path: &str, offset: ImageOffset) -> PlaceAnswer {
        let image = self.image_of(path);
        let functions = functions_at(&image, offset);
        let steps = self.sequence.as_ref().map(|it| it.steps_of(&functions));
        let answer = PlaceAnswer {
            place: self.caller_place(path, offset),
            steps: steps.unwrap_or(Steps(0)),
        };
        self.remember_place(path, offset, KnownPlace::Other(answer));
        answer
    }

    /// Remembers a place; code without a file differs between runs.
    fn remember_place(&mut self, path: &str, offset: ImageOffset, place: KnownPlace) {
        if path.starts_with('/') {
            let places = self.remembered.places.entry(path.to_owned()).or_default();
            places.insert(offset.0, place);
        }
    }

    /// Looks up the fragment at a place, and remembers it; `None`: not in scope.
    fn look_up(&mut self, path: &str, offset: ImageOffset) -> Option<KnownFragment> {
        let image = self.image_of(path);
        let fragment = self.fragment_at(&image, offset);
        let place = match &fragment {
            Some(fragment) => KnownPlace::Fragment(fragment.clone()),
            None => KnownPlace::Other(PlaceAnswer::without_steps(self.caller_place(path, offset))),
        };
        self.remember_place(path, offset, place);
        fragment
    }

    /// Returns the rule that finds the caller of a place.
    fn caller_place(&mut self, path: &str, offset: ImageOffset) -> Place {
        let image = self.image_of(path);
        let rule = if image.module.has_caller_rules() {
            self.unwinder.caller_rule(&image.module, offset.0)
        } else {
            Some(CallerRule::WITH_FRAME_POINTER)
        };
        rule.and_then(narrow_rule).map_or(Place::End, Place::Caller)
    }

    /// Records the stacks of threads that ran before the runtime was loaded: the mapping of their
    /// stack pointer at the first sample.
    pub fn find_stacks(&self, page: &Page) {
        let used = page.used.load(Acquire) as usize;
        let asks = |thread: &&Thread| {
            let low = thread.stack_low.load(Relaxed);
            thread.tid.load(Acquire) != 0 && thread.stack_high.load(Relaxed) == 0 && low != 0
        };
        let mut ranges = None;
        for thread in page.threads.iter().take(used).filter(asks) {
            let ranges = ranges.get_or_insert_with(|| maps::mapped_ranges(self.pid));
            let sp = thread.stack_low.load(Relaxed);
            let range = ranges.iter().find(|range| range.contains(&sp));
            // On an unknown stack callers are not looked up.
            let range = range.cloned().unwrap_or(1..1);
            thread.stack_low.store(range.start, Relaxed);
            thread.stack_high.store(range.end, Release);
        }
    }

    /// Resolves all addresses again, after a library was unloaded.
    pub fn resolve_all_again(&mut self) -> Vec<(u64, PlaceAnswer)> {
        self.mappings = maps::read_mappings(self.pid);
        let addresses: Vec<u64> = self.answered.iter().copied().collect();
        addresses
            .into_iter()
            .map(|address| (address, self.place_at(address)))
            .collect()
    }

    /// Returns the image of a mapped file.
    pub fn image_of(&mut self, path: &str) -> Rc<CodeImage> {
        if let Some(image) = self.remembered.images.get(path) {
            return Rc::clone(image);
        }
        let reader = self.remembered.reading.remove(path);
        let read = reader.and_then(|reader| reader.join().ok());
        let image = Rc::new(read.unwrap_or_else(|| self.open_image(path)));
        let images = &mut self.remembered.images;
        images.insert(path.to_owned(), Rc::clone(&image));
        image
    }

    fn open_image(&self, path: &str) -> CodeImage {
        if path.starts_with('/') {
            let file = self.readable_path(path);
            return read_image(path.to_owned(), &file, self.reads_names(path));
        }
        let bytes = sampler::vdso_bytes().filter(|_| path == "[vdso]");
        let module = bytes.and_then(|bytes| ModuleData::from_bytes(path, &bytes).ok());
        CodeImage {
            path: path.to_owned(),
            symbols: None,
            debug: None,
            module: module.unwrap_or_else(ModuleData::without_tables),
        }
    }

    /// Returns the path under which a file of the process can be read: its own, which differs in a
    /// container, the running executable if that was replaced, or the mapping if it has no path.
    pub fn readable_path(&self, path: &str) -> PathBuf {
        if path == self.executable && !Path::new(path).exists() {
            return format!("/proc/{}/exe", self.pid).into();
        }
        if Path::new(path).exists() {
            return path.into();
        }
        // Files in memory, such as the runtime of an attached process, have no valid path.
        match self.mappings.iter().find(|mapping| mapping.path == path) {
            Some(ExecutableMapping { range, .. }) => {
                mapped_file(self.pid, range.start, range.end, path)
            }
            None => format!("/proc/{}/root{path}", self.pid).into(),
        }
    }

    /// Returns the fragment at a place, if it is in scope.
    pub fn fragment_at(&self, image: &CodeImage, offset: ImageOffset) -> Option<KnownFragment> {
        if !self.scope.may_have(&image.path) {
            return None;
        }
        let symbols = image.symbols.as_ref()?;
        let procedure = symbols
            .procedure_at(offset)
            .map(|raw| raw.demangle_procedure());
        let name = procedure.as_ref().map(|procedure| &procedure.name);
        let frames = match (&image.debug, symbols.address_of(offset)) {
            (Some(debug), Some(address)) => debug.source_frames(address, name).unwrap_or_default(),
            _ => Vec::new(),
        };
        match self.by {
            Granularity::Line => {
                let at = frames.iter().position(|frame| self.is_own(image, frame))?;
                let (frame, callers) = frames.get(at..)?.split_first()?;
                let sites: Vec<String> = callers.iter().filter_map(line_name).collect();
                Some(KnownFragment {
                    name: line_name(frame)?,
                    detail: frame.function.to_string(),
                    image: image.path.clone(),
                    copy: name_copy(&sites),
                })
            }
            Granularity::Function => {
                // The innermost function of the program's own counts, even an inlined one:
                // optimised programs are often a single function to the linker.
                if let Some(own) = frames.iter().find(|frame| self.is_own(image, frame)) {
                    return Some(KnownFragment {
                        name: own.function.to_string(),
                        detail: own.file.as_deref().unwrap_or_default().to_owned(),
                        image: image.path.clone(),
                        copy: String::new(),
                    });
                }
                let outermost = frames.last();
                let source = outermost.and_then(|frame| frame.file.as_deref());
                let name = name.or(outermost.map(|frame| &frame.function));
                let function = name.map(|name| &**name);
                if !self.scope.is_in_scope(&image.path, source, function) {
                    return None;
                }
                // A stripped file has only the bounds of its functions left.
                let name = match name {
                    Some(name) => name.to_string(),
                    None => symbols.unwind_procedure(offset)?.name.to_string(),
                };
                Some(KnownFragment {
                    name,
                    detail: source.unwrap_or_default().to_owned(),
                    image: image.path.clone(),
                    copy: String::new(),
                })
            }
        }
    }

    fn is_own(&self, image: &CodeImage, frame: &SourceFrame) -> bool {
        let function = Some(&*frame.function);
        frame.line.is_some()
            && frame.file.as_ref().is_some_and(|file: &Arc<str>| {
                (self.scope).is_in_scope(&image.path, Some(file), function)
            })
    }
}

/// Returns the Go module that a process's program was built from, if it is a Go program.
fn main_module(pid: u32) -> Option<GoModule> {
    let file = ReadCache::new(File::open(process_file(pid, "exe")).ok()?);
    GoModule::find_in_image(&ElfImage::parse(&file)?)
}

/// Returns the path of a process's program; `None` if the process has ended.
pub(crate) fn executable_of(pid: u32) -> Option<String> {
    let path = std::fs::read_link(process_file(pid, "exe")).ok()?;
    let path = path.to_string_lossy();
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    Some(path.to_owned())
}

/// Returns the functions at a place, innermost first; several if some are inlined.
fn functions_at(image: &CodeImage, offset: ImageOffset) -> Vec<String> {
    let Some(symbols) = &image.symbols else {
        return Vec::new();
    };
    let procedure = symbols.procedure_at(offset);
    let name = procedure.map(|raw| raw.demangle_procedure().name);
    let frames = match (&image.debug, symbols.address_of(offset)) {
        (Some(debug), Some(address)) => debug.source_frames(address, name.as_ref()),
        _ => Ok(Vec::new()),
    };
    let inlined = frames.unwrap_or_default().into_iter();
    let mut functions: Vec<String> = inlined.map(|it| it.function.to_string()).collect();
    if functions.is_empty() {
        functions.extend(name.map(|name| name.to_string()));
    }
    functions
}

fn line_name(frame: &SourceFrame) -> Option<String> {
    Some(format!("{}:{}", frame.file.as_ref()?, frame.line?))
}

/// Converts a rule to the runtime's form, if it fits.
fn narrow_rule(rule: CallerRule) -> Option<Rule> {
    let offset = |at: Option<i64>| match at {
        Some(at) => i16::try_from(at)
            .ok()
            .filter(|at| *at != i16::MIN)
            .map(Some),
        None => Some(None),
    };
    Some(Rule {
        from_frame_pointer: rule.from_frame_pointer,
        cfa: u16::try_from(rule.cfa).ok()?,
        return_address: offset(rule.return_address)?,
        frame_pointer: offset(rule.frame_pointer)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_library_in_memory_has_its_tables() {
        let mapped = text_of_own_library();
        let file = memory_file(&mapped);
        let length = mapped.len();
        // SAFETY: a new read-only mapping, as long as the file.
        let start = unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                kind,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        let own = std::process::id();
        let mut code = TargetCode::new(own, Granularity::Line, &[], RememberedCode::default());
        let image = code.image_of("/memfd:vitalfew-test");
        assert!(image.has_functions());
        // SAFETY: what was mapped above, and nothing uses it.
        unsafe { libc::munmap(start, length) };
    }

    fn text_of_own_library() -> Vec<u8> {
        let mappings = maps::read_mappings(std::process::id());
        let library = mappings.iter().find(|it| it.path.contains("/libc.so"));
        std::fs::read(&library.expect("the C library").path).expect("a file")
    }

    fn memory_file(bytes: &[u8]) -> std::fs::File {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is a string; the descriptor is new.
        let file =
            unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"vitalfew-test".as_ptr(), 0)) };
        let mut writer = &file;
        std::io::Write::write_all(&mut writer, bytes).expect("memory");
        file
    }
}
