//! Plans the patches of the target's code, outside of the target.

use super::code_room::{
    CodeWriter, PAGE, entry_jump, far_jump, free_addresses_near, padding_after,
};
use super::functions::{TracedFunction, TracedImage, refusal_of};
use super::hazards::Hazard;
use super::memory::TraceMemory;
use super::patches::Patch;
use super::relocate::{Prologue, TraceRefusal, jump_targets};
use super::select::{FunctionPattern, without_parameters};
use super::stub::{self, Process, TraceStub, unwind_information};
use crate::Error;
use crate::maps::{self, ExecutableMapping};
use profile::known_code::KnownOperation;
use profile::{BlockKind, TracedBlock};
use runtime_abi::trace::{BLOCKS, CODE, CODE_OFFSET, Step, step};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use unwind::{ModuleData, Unwinder};

/// Maximum size of the relocated prologue of one function.
const BODY: usize = 128;
/// Maximum number of functions in one code region.
const PIECE: usize = 1 << 16;

/// The plan, which grows with each library that the target loads.
pub(super) struct Planner {
    pid: u32,
    executable: String,
    /// Mapped images that were already examined.
    seen: Vec<(String, u64)>,
    pub blocks: Vec<TracedBlock>,
    /// Blocks of functions by image and offset. A library may be loaded again.
    known: FxHashMap<(String, u64), u32>,
    /// Addresses that the runtime is to map.
    reserved: Vec<Range<u64>>,
    /// Offset of the next free byte in the code area.
    used: usize,
    process: Process,
    slow: u64,
    personality: u64,
    unwinder: Unwinder,
    matched: Vec<bool>,
    /// Patches that the runtime writes, or the controller if [`Planner::keeps_jumps`].
    pub patches: Vec<Patch>,
    /// True if the program already runs. The controller then writes the patches itself.
    pub keeps_jumps: bool,
    /// Address ranges of our code in the target.
    pub code: Vec<Range<u64>>,
    /// Addresses of the unwinding information for our code.
    information: Vec<u64>,
    /// An image with a hazard. Nothing may be traced in a program with it.
    pub hazard: Option<(String, Hazard)>,
}

/// A function with its address and code in the process.
struct PatchCandidate<'a> {
    function: &'a TracedFunction,
    address: u64,
    code: Vec<u8>,
    free: usize,
}

/// Steps for the runtime, as words.
#[derive(Default)]
struct Steps(Vec<[u64; 4]>);

impl Steps {
    fn push_step(&mut self, kind: u32, length: usize, address: u64, value: u64) {
        self.0
            .push([u64::from(kind) | (length as u64) << 32, address, value, 0]);
    }
}

impl Planner {
    /// Creates a planner for the process that shares the memory.
    pub fn new(shared: &TraceMemory, executable: &str, patterns: usize) -> Self {
        let pid = shared.pid.load(Relaxed);
        let periods = std::mem::offset_of!(runtime_abi::trace::Memory, periods) as u64;
        Self {
            pid,
            executable: executable.to_owned(),
            seen: Vec::new(),
            blocks: Vec::new(),
            known: FxHashMap::default(),
            reserved: Vec::new(),
            used: 0,
            process: Process {
                local: shared.local.load(Relaxed) as i32,
                periods: shared.address.load(Relaxed) + periods,
            },
            slow: shared.slow.load(Relaxed),
            personality: shared.personality.load(Relaxed),
            unwinder: Unwinder::new(),
            matched: vec![false; patterns],
            patches: Vec::new(),
            keeps_jumps: false,
            code: Vec::new(),
            information: Vec::new(),
            hazard: None,
        }
    }

    /// Returns the numbers of the patterns without a match.
    pub fn unmatched(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.matched.len()).filter(|at| !self.matched[*at])
    }

    /// Returns whether an image is mapped that the pattern applies to.
    pub fn could_match(&self, pattern: &FunctionPattern) -> bool {
        let own = |path: &str| path == self.executable;
        pattern.is_anywhere()
            || self
                .seen
                .iter()
                .any(|(path, _)| pattern.is_for(path, own(path)))
    }

    /// Returns names that are similar to a pattern's name.
    pub fn near(&self, pattern: &FunctionPattern) -> Vec<String> {
        let Ok(image) = TracedImage::open_image(&self.executable, &self.readable(&self.executable))
        else {
            return Vec::new();
        };
        let wanted = pattern.text();
        let mut near: Vec<(usize, String)> = Vec::new();
        for name in image
            .functions
            .iter()
            .filter_map(|function| function.names.first())
        {
            let source = symbols::demangle_name(name);
            let plain = without_parameters(&source);
            let distance = strsim::damerau_levenshtein(plain, &wanted);
            let inside = plain.contains(&wanted) && wanted.len() > 2;
            if distance <= wanted.len() / 3 + 1 || inside {
                near.push((if inside { 0 } else { distance }, plain.to_owned()));
            }
        }
        near.sort();
        near.dedup();
        near.into_iter().take(5).map(|(_, name)| name).collect()
    }

    /// Plans patches for newly mapped code, and writes the steps into the shared memory.
    pub fn plan(
        &mut self,
        shared: &TraceMemory,
        patterns: &[FunctionPattern],
    ) -> Result<(), Error> {
        let mappings = join_mappings(maps::read_mappings(self.pid));
        let memory =
            File::open(format!("/proc/{}/mem", self.pid)).map_err(|source| Error::System {
                what: "reading the target's code".into(),
                source,
            })?;
        // A mapping is identified by its path and its distance from the file. `join_mappings`
        // undoes splits by changed protections.
        let key = |mapping: &ExecutableMapping| {
            let start = mapping.range.start.wrapping_sub(mapping.offset);
            (mapping.path.clone(), start)
        };
        let seen: Vec<_> = mappings.iter().map(key).collect();
        let before = std::mem::replace(&mut self.seen, seen);
        let mut images: Vec<(TracedImage, Vec<ExecutableMapping>)> = Vec::new();
        for mapping in &mappings {
            if !mapping.path.starts_with('/') || before.contains(&key(mapping)) {
                continue;
            }
            if mapping.path.ends_with("/libvitalfew_runtime.so") {
                continue;
            }
            if let Some((_, others)) = images.iter_mut().find(|it| it.0.path == mapping.path) {
                others.push(mapping.clone());
                continue;
            }
            let file = self.readable(&mapping.path);
            if let Ok(image) = TracedImage::open_image(&mapping.path, &file) {
                images.push((image, vec![mapping.clone()]));
            }
        }
        let hazard = |(image, _): &(TracedImage, Vec<ExecutableMapping>)| {
            Some((image.path.clone(), image.hazard?))
        };
        let first = self
            .hazard
            .is_none()
            .then(|| images.iter().find_map(hazard));
        self.hazard = self.hazard.take().or(first.flatten());
        self.hazard = self
            .hazard
            .take()
            .or_else(|| other_unwinder(shared, &mappings));
        if self.hazard.is_some() {
            return self.hand_over(shared, &Steps::default());
        }
        let wanted = self.choose_functions(&images, patterns);
        let mut steps = Steps::default();
        for ((image, mappings), wanted) in images.iter().zip(&wanted) {
            for mapping in mappings {
                let mapped = mapped_functions(image, wanted, mapping);
                for piece in mapped.chunks(PIECE) {
                    self.plan_image(shared, &memory, image, mapping, piece, &mut steps)?;
                }
            }
            self.refuse_unmapped(image, mappings, wanted);
        }
        for (image, mappings) in &images {
            for mapping in mappings {
                note_allocator(shared, image, mapping);
                self.plan_library_hook(shared, &memory, image, mapping, &mut steps);
            }
        }
        self.marked(shared);
        self.hand_over(shared, &steps)
    }

    /// Returns a path by which a file of the target can be opened.
    pub fn readable(&self, path: &str) -> std::path::PathBuf {
        let inside = format!("/proc/{}/root{path}", self.pid);
        if path == self.executable {
            format!("/proc/{}/exe", self.pid).into()
        } else if std::path::Path::new(path).exists() {
            path.into()
        } else {
            inside.into()
        }
    }

    /// Chooses the functions of each image that the patterns select. A pattern without an image
    /// selects functions of the executable. If there is none of that name, it selects functions of
    /// all images.
    fn choose_functions(
        &mut self,
        images: &[(TracedImage, Vec<ExecutableMapping>)],
        patterns: &[FunctionPattern],
    ) -> Vec<Vec<usize>> {
        let mut wanted = vec![Vec::new(); images.len()];
        for (number, pattern) in patterns.iter().enumerate() {
            let mut own = false;
            for elsewhere in [false, true] {
                if elsewhere && (own || !pattern.is_anywhere()) {
                    continue;
                }
                for ((image, _), wanted) in images.iter().zip(&mut wanted) {
                    let executable = image.path == self.executable;
                    if !elsewhere && !pattern.is_for(&image.path, executable) {
                        continue;
                    }
                    for (at, function) in image.functions.iter().enumerate() {
                        if pattern.means_function(function) {
                            wanted.push(at);
                            own = true;
                        }
                    }
                }
            }
            if let Some(matched) = self.matched.get_mut(number) {
                *matched |= own;
            }
        }
        for list in &mut wanted {
            list.sort_unstable();
            list.dedup();
        }
        wanted
    }

    /// Refuses the functions that lie outside of all executable mappings.
    fn refuse_unmapped(
        &mut self,
        image: &TracedImage,
        mappings: &[ExecutableMapping],
        wanted: &[usize],
    ) {
        let functions = wanted.iter().filter_map(|at| image.functions.get(*at));
        for function in functions {
            if !mappings.iter().any(|mapping| holds(mapping, function)) {
                self.add_block(image, function, Some(TraceRefusal::NoInstruction));
            }
        }
    }

    /// Plans the chosen functions of one mapping of an image.
    #[allow(clippy::too_many_arguments)]
    fn plan_image(
        &mut self,
        shared: &TraceMemory,
        memory: &File,
        image: &TracedImage,
        mapping: &ExecutableMapping,
        wanted: &[usize],
        steps: &mut Steps,
    ) -> Result<(), Error> {
        let Some(text) = text_of(memory, mapping).filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let file = self.readable(&image.path);
        let module = ModuleData::open(&file).unwrap_or_else(|_| ModuleData::without_tables());
        let code_of = |function: &TracedFunction| -> Option<(u64, &[u8])> {
            let at = function.offset.0.checked_sub(mapping.offset)? as usize;
            let code = text.get(at..at.checked_add(function.size as usize)?)?;
            Some((mapping.range.start + at as u64, code))
        };
        let targets = jump_targets(image.functions.iter().filter_map(code_of));
        let stubs = (wanted.len() * stub::SIZE).next_multiple_of(PAGE as usize);
        let bodies = wanted.len() * (BODY + stub::UNWIND_ENTRY) + 4096;
        let size = (stubs + bodies).next_multiple_of(PAGE as usize);
        let place = free_addresses_near(self.pid, &self.reserved, &mapping.range, size as u64);
        let room = self.used + size <= CODE / 2;
        let Some(base) = place.filter(|_| room) else {
            for at in wanted {
                if let Some(function) = image.functions.get(*at) {
                    self.add_block(image, function, Some(TraceRefusal::TooFar));
                }
            }
            return Ok(());
        };
        self.reserved.push(base..base + size as u64);
        let offset = self.used;
        self.used += size;
        let mut writer = CodeWriter {
            code: vec![0; size],
            base,
            stub: 0,
            body: stubs,
            returns: Vec::new(),
        };
        // After the stubs come the jump to the runtime, the relocated prologues, and the unwinding
        // information.
        let slow = writer.append(&far_jump(self.slow));
        let mut patches: Vec<(u64, Vec<u8>)> = Vec::new();
        for at in wanted {
            let Some(function) = image.functions.get(*at) else {
                continue;
            };
            let next = image.functions.get(at + 1).map(|next| next.offset.0);
            let free = padding_after(&text, mapping, function, next);
            let planned = refusal_of(function).map_or(Ok(()), Err).and_then(|()| {
                let (address, code) = code_of(function).ok_or(TraceRefusal::NoInstruction)?;
                if module.has_tables()
                    && self
                        .unwinder
                        .caller_rule(&module, function.offset.0)
                        .is_none()
                {
                    return Err(TraceRefusal::NoUnwinding);
                }
                let candidate = PatchCandidate {
                    function,
                    address,
                    code: code.to_vec(),
                    free,
                };
                self.plan_function(image, &candidate, &mut writer, slow, &targets)
            });
            match planned {
                Ok(patch) => {
                    patches.push(patch);
                    self.add_block(image, function, None);
                }
                Err(refusal) => self.add_block(image, function, Some(refusal)),
            }
        }
        if patches.is_empty() {
            return Ok(());
        }
        let information = unwind_information(self.personality, &writer.returns);
        let information = writer.append(&information);
        shared.write_code(offset, &writer.code);
        let in_memory = |offset: usize| (CODE_OFFSET + offset) as u64;
        steps.push_step(step::MAP, size, base, in_memory(offset));
        steps.push_step(step::UNWIND, 0, information, 0);
        self.code.push(base..base + size as u64);
        self.information.push(information);
        self.patch_steps(shared, memory, mapping, patches, steps);
        Ok(())
    }

    /// Plans a hook for libraries that are loaded later. The dynamic linker calls an empty function
    /// for debuggers, before any code of the library runs.
    fn plan_library_hook(
        &mut self,
        shared: &TraceMemory,
        memory: &File,
        image: &TracedImage,
        mapping: &ExecutableMapping,
        steps: &mut Steps,
    ) -> Option<()> {
        let called =
            |function: &TracedFunction| function.names.iter().any(|n| n == "_dl_debug_state");
        let at = image.functions.iter().position(called)?;
        let function = image.functions.get(at)?;
        let text = text_of(memory, mapping)?;
        let start = function.offset.0.checked_sub(mapping.offset)? as usize;
        let code = text.get(start..start.checked_add(function.size as usize)?)?;
        let next = image.functions.get(at + 1).map(|next| next.offset.0);
        let free = padding_after(&text, mapping, function, next);
        let prologue = Prologue::of(mapping.range.start + start as u64, code, free, &[]).ok()?;
        let base = free_addresses_near(self.pid, &self.reserved, &mapping.range, PAGE)?;
        let mut writer = CodeWriter {
            code: vec![0; PAGE as usize],
            base,
            stub: 0,
            body: stub::SIZE,
            returns: Vec::new(),
        };
        let slow = writer.append(&far_jump(self.slow));
        let body = writer.next_body();
        writer.put_body(&prologue.encode(body).ok()?);
        writer.put_stub(&stub::library_stub(body + 8, slow, base).ok()?);
        let patch = (prologue.at, entry_jump(&prologue, base).ok()?);
        self.reserved.push(base..base + PAGE);
        shared.write_code(self.used, &writer.code);
        let offset = (CODE_OFFSET + self.used) as u64;
        self.used += PAGE as usize;
        steps.push_step(step::MAP, PAGE as usize, base, offset);
        self.code.push(base..base + PAGE);
        self.patch_steps(shared, memory, mapping, vec![patch], steps);
        Some(())
    }

    /// Assigns numbers to newly marked blocks.
    pub fn marked(&mut self, shared: &TraceMemory) {
        for marked in &shared.marked {
            const USED: u32 = 2;
            if marked.state.load(Acquire) != USED || marked.block.load(Relaxed) != 0 {
                continue;
            }
            let bytes: Vec<u8> = marked.name.iter().map(|byte| byte.load(Relaxed)).collect();
            let end = bytes
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(bytes.len());
            let name = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
            self.blocks.push(TracedBlock {
                name: name.into_owned(),
                image: self.executable.clone(),
                build_id: None,
                offset: profile::ImageOffset(0),
                kind: BlockKind::Marked,
                period: 1,
                refused: None,
                unfinished: 0,
                calls: 0,
                represented: 0,
                shared_line: None,
            });
            marked.block.store(
                self.blocks.len() as u32,
                std::sync::atomic::Ordering::Release,
            );
        }
    }

    /// Plans one function. Returns the address and the bytes of its patch.
    fn plan_function(
        &self,
        image: &TracedImage,
        candidate: &PatchCandidate<'_>,
        writer: &mut CodeWriter,
        slow: u64,
        targets: &[u64],
    ) -> Result<(u64, Vec<u8>), TraceRefusal> {
        let PatchCandidate {
            function,
            address,
            code,
            free,
        } = candidate;
        let block = match self.known.get(&(image.path.clone(), function.offset.0)) {
            Some(known) => *known,
            None if self.blocks.len() >= BLOCKS => return Err(TraceRefusal::TooMany),
            None => self.blocks.len() as u32,
        };
        let prologue = Prologue::of(*address, code, *free, targets)?;
        let body_at = writer.next_body();
        let body = prologue.encode(body_at)?;
        if body.len() > BODY {
            return Err(TraceRefusal::TooFar);
        }
        let stub = TraceStub {
            block,
            takes_address: takes_address(function),
            body: body_at + 8,
            slow,
        };
        let stub_at = writer.base + writer.stub as u64;
        let (code, returned) = stub
            .encode(&self.process, stub_at)
            .map_err(|_| TraceRefusal::TooFar)?;
        if code.len() > stub::SIZE {
            return Err(TraceRefusal::TooFar);
        }
        let jump = entry_jump(&prologue, stub_at)?;
        writer.put_body(&body);
        writer.put_stub(&code);
        writer.returns.push(returned);
        Ok((prologue.at, jump))
    }

    fn add_block(
        &mut self,
        image: &TracedImage,
        function: &TracedFunction,
        refusal: Option<TraceRefusal>,
    ) {
        let key = (image.path.clone(), function.offset.0);
        if self.known.contains_key(&key) {
            return;
        }
        self.known.insert(key, self.blocks.len() as u32);
        let name = function.names.first().map_or("", String::as_str);
        self.blocks.push(TracedBlock {
            name: symbols::demangle_name(name).into_owned(),
            image: image.path.clone(),
            build_id: image.build_id.clone(),
            offset: function.offset,
            kind: BlockKind::Function,
            period: 1,
            refused: refusal.map(|refusal| refusal.to_string()),
            unfinished: 0,
            calls: 0,
            represented: 0,
            shared_line: None,
        });
    }

    /// Plans the steps that write the patches. One change of protection covers all their pages.
    fn patch_steps(
        &mut self,
        shared: &TraceMemory,
        memory: &File,
        mapping: &ExecutableMapping,
        mut patches: Vec<(u64, Vec<u8>)>,
        steps: &mut Steps,
    ) {
        patches.sort_by_key(|(at, _)| *at);
        for (at, new) in &patches {
            let mut old = vec![0; new.len()];
            if memory.read_exact_at(&mut old, *at).is_ok() {
                let (at, new) = (*at, new.clone());
                self.patches.push(Patch { at, old, new });
            }
        }
        if self.keeps_jumps {
            return;
        }
        let (Some((first, _)), Some((last, bytes))) = (patches.first(), patches.last()) else {
            return;
        };
        let start = first & !(PAGE - 1);
        let length = (last + bytes.len() as u64).next_multiple_of(PAGE) - start;
        let (read, write, execute) = (1, 2, 4);
        steps.push_step(
            step::PROTECT,
            length as usize,
            start,
            read | write | execute,
        );
        for (at, bytes) in &patches {
            let offset = self.used;
            self.used += bytes.len().next_multiple_of(16);
            if shared.write_code(offset, bytes) {
                steps.push_step(step::COPY, bytes.len(), *at, (CODE_OFFSET + offset) as u64);
            }
        }
        self.used = self.used.next_multiple_of(PAGE as usize);
        let own_write = if mapping.writable { write } else { 0 };
        let access = read | own_write | execute;
        steps.push_step(step::PROTECT, length as usize, start, access);
    }

    /// Plans the steps by which the runtime unmaps our code. No thread uses it any more.
    pub fn plan_unmapping(&mut self, shared: &TraceMemory, locals: &[u64]) -> Result<(), Error> {
        let mut steps = Steps::default();
        for information in std::mem::take(&mut self.information) {
            steps.push_step(step::FORGET, 0, information, 0);
        }
        for code in std::mem::take(&mut self.code) {
            let length = (code.end - code.start) as usize;
            steps.push_step(step::UNMAP, length, code.start, 0);
        }
        for local in locals {
            steps.push_step(step::UNMAP_LOCAL, 0, *local, 0);
        }
        self.hand_over(shared, &steps)
    }

    /// Writes the steps where the runtime finds them.
    fn hand_over(&mut self, shared: &TraceMemory, steps: &Steps) -> Result<(), Error> {
        let offset = self.used;
        let bytes: Vec<u8> = steps
            .0
            .iter()
            .flatten()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        const { assert!(size_of::<Step>() == 32) };
        if !shared.write_code(offset, &bytes) {
            return Err(Error::System {
                what: "making room for the plans of all functions".into(),
                source: std::io::ErrorKind::OutOfMemory.into(),
            });
        }
        self.used = (offset + bytes.len()).next_multiple_of(PAGE as usize);
        shared.step_count.store(steps.0.len() as u64, Relaxed);
        shared.steps.store(
            (CODE_OFFSET + offset) as u64,
            std::sync::atomic::Ordering::Release,
        );
        Ok(())
    }
}

/// Returns the library that throws exceptions, if it differs from the library that knows our
/// unwinding information, or if it is not libgcc.
fn other_unwinder(
    shared: &TraceMemory,
    mappings: &[ExecutableMapping],
) -> Option<(String, Hazard)> {
    let image_at =
        |address: u64| maps::mapping_at(mappings, address).map(|found| found.path.as_str());
    let raise = image_at(shared.raise_exception.load(Relaxed))?;
    let register = image_at(shared.register_frame.load(Relaxed))?;
    let libgcc = raise.rsplit('/').next()?.starts_with("libgcc_s");
    (raise != register || !libgcc).then(|| (raise.to_owned(), Hazard::OwnUnwinder))
}

/// Joins mappings that are adjacent both in memory and in their file. The program has split them by
/// changing the protection of a part.
fn join_mappings(mappings: Vec<ExecutableMapping>) -> Vec<ExecutableMapping> {
    let mut joined: Vec<ExecutableMapping> = Vec::new();
    for mapping in mappings {
        match joined.last_mut() {
            Some(last)
                if last.path == mapping.path
                    && last.range.end == mapping.range.start
                    && last.file_offset(last.range.end).0 == mapping.offset =>
            {
                last.range.end = mapping.range.end;
                last.writable |= mapping.writable;
            }
            _ => joined.push(mapping),
        }
    }
    joined
}

/// Returns whether the first argument of a function is recorded.
fn takes_address(function: &TracedFunction) -> bool {
    let mut names = function.names.iter();
    names.any(|name| {
        let operation = KnownOperation::of_function(&symbols::demangle_name(name));
        operation.is_some_and(KnownOperation::takes_address)
    })
}

/// Returns whether a function begins in a mapping.
fn holds(mapping: &ExecutableMapping, function: &TracedFunction) -> bool {
    let length = mapping.range.end - mapping.range.start;
    let at = function.offset.0.checked_sub(mapping.offset);
    at.is_some_and(|at| at < length)
}

/// Returns the chosen functions of an image that begin in a mapping.
fn mapped_functions(
    image: &TracedImage,
    wanted: &[usize],
    mapping: &ExecutableMapping,
) -> Vec<usize> {
    let mapped = |at: &&usize| {
        let function = image.functions.get(**at);
        function.is_some_and(|function| holds(mapping, function))
    };
    wanted.iter().filter(mapped).copied().collect()
}

/// Maximum size of an allocator's code, and of its code before the first exported function.
const ALLOCATOR: u64 = 64 << 10;
const BEFORE_ALLOCATOR: u64 = 16 << 10;

/// Records the address range of the allocator. Its functions hold locks that hooks do not see.
fn note_allocator(shared: &TraceMemory, image: &TracedImage, mapping: &ExecutableMapping) {
    const NAMES: [&str; 6] = [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "memalign",
        "malloc_info",
    ];
    let is_its = |function: &&TracedFunction| {
        let mut names = function.names.iter();
        names.any(|name| NAMES.iter().any(|own| symbol_name(name) == *own))
    };
    let own = image.functions.iter().filter(is_its);
    let own: Vec<_> = own.filter(|function| holds(mapping, function)).collect();
    let [first, .., last] = own.as_slice() else {
        return;
    };
    let address = |offset: u64| mapping.range.start + offset.saturating_sub(mapping.offset);
    let end = last.offset.0 + last.size;
    let start = first.offset.0.saturating_sub(BEFORE_ALLOCATOR);
    if end - start <= ALLOCATOR {
        let [from, to] = &shared.hold.allocator;
        from.store(address(start), Relaxed);
        to.store(address(end), Relaxed);
    }
}

/// Returns a symbol's name without its version.
fn symbol_name(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Returns the content of a mapping, or `None` if it is gone.
fn text_of(memory: &File, mapping: &ExecutableMapping) -> Option<Vec<u8>> {
    let mut text = vec![0; (mapping.range.end - mapping.range.start) as usize];
    memory.read_exact_at(&mut text, mapping.range.start).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::ImageOffset;

    fn mapping(start: u64, end: u64, offset: u64, writable: bool) -> ExecutableMapping {
        ExecutableMapping {
            range: start..end,
            offset,
            path: "/a".into(),
            writable,
        }
    }

    #[test]
    fn mappings_that_were_split_are_one_and_other_segments_are_apart() {
        let split = vec![
            mapping(0x1000, 0x2000, 0x1000, false),
            mapping(0x2000, 0x3000, 0x2000, true),
            mapping(0x3000, 0x5000, 0x3000, false),
            // Both belong to the same file: another segment, and the same text again.
            mapping(0x5000, 0x6000, 0x9000, false),
            mapping(0x9000, 0xd000, 0x1000, false),
        ];
        let joined = join_mappings(split.clone());
        assert_eq!(joined[0], mapping(0x1000, 0x5000, 0x1000, true));
        assert_eq!(joined[1..], split[3..]);
    }

    #[test]
    fn functions_are_looked_for_in_the_mapping_that_holds_them() {
        let function = |offset| TracedFunction {
            names: Vec::new(),
            offset: ImageOffset(offset),
            size: 16,
            indirect: false,
        };
        let image = TracedImage {
            path: "/a".into(),
            build_id: None,
            functions: [0x1000, 0x4ff0, 0x5000, 0x9000].map(function).to_vec(),
            hazard: None,
        };
        let all = [0, 1, 2, 3];
        let text = mapping(0x1000, 0x5000, 0x1000, false);
        assert_eq!(mapped_functions(&image, &all, &text), [0, 1]);
        let second = mapping(0x5000, 0x6000, 0x9000, false);
        assert_eq!(mapped_functions(&image, &all, &second), [3]);
    }
}
