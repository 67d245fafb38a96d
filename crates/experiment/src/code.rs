//! Whose line is it (section 3.4.2): answers for the runtime what a code address means.

use crate::maps::{self, Mapping};
use crate::scope::Scope;
use profile::{Granularity, ImageOffset, SourceFrame};
use runtime_abi::{FRAGMENTS, Place, Rule};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use symbols::{DebugInfo, ImageSymbols};
use unwind::{CallerRule, ModuleData, Unwinder};

/// A mapped file, as far as it could be read.
pub(crate) struct Image {
    pub path: String,
    pub symbols: Option<ImageSymbols>,
    pub debug: Option<DebugInfo>,
    module: ModuleData,
}

/// A fragment, while it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub name: String,
    pub detail: String,
    pub image: String,
}

/// The code of a process.
pub(crate) struct Code {
    pid: u32,
    by: Granularity,
    scope: Scope,
    executable: String,
    mappings: Vec<Mapping>,
    images: FxHashMap<String, Rc<Image>>,
    unwinder: Unwinder,
    fragments: Vec<Known>,
    index: FxHashMap<String, u32>,
    /// Everything that was answered, for the case that a library is closed.
    answered: FxHashSet<u64>,
}

impl Code {
    /// The code of a process that runs this executable.
    pub fn new(pid: u32, by: Granularity, patterns: &[String]) -> Self {
        let executable = std::fs::read_link(format!("/proc/{pid}/exe"));
        let executable = executable.map_or(String::new(), |path| {
            let path = path.to_string_lossy().into_owned();
            path.strip_suffix(" (deleted)")
                .map_or(path.clone(), str::to_owned)
        });
        Self {
            pid,
            by,
            scope: Scope::new(patterns, &executable),
            executable,
            mappings: maps::read(pid),
            images: FxHashMap::default(),
            unwinder: Unwinder::new(),
            fragments: Vec::new(),
            index: FxHashMap::default(),
            answered: FxHashSet::default(),
        }
    }

    /// The path of the executable.
    pub fn executable(&self) -> &str {
        &self.executable
    }

    /// All fragments that have been met; the position is their number.
    pub fn fragments(&self) -> &[Known] {
        &self.fragments
    }

    /// The executable mappings.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The number of a fragment, a new one if need be; `None` if there are too many.
    pub fn number(&mut self, fragment: Known) -> Option<u32> {
        if let Some(number) = self.index.get(&fragment.name) {
            let known = self.fragments.get_mut(*number as usize)?;
            if known.image.is_empty() {
                *known = fragment; // from an earlier run, met for the first time
            }
            return Some(*number);
        }
        if self.fragments.len() >= FRAGMENTS {
            return None;
        }
        let number = self.fragments.len() as u32;
        self.index.insert(fragment.name.clone(), number);
        self.fragments.push(fragment);
        Some(number)
    }

    /// Returns what the code at an address is.
    pub fn place(&mut self, address: u64) -> Place {
        self.answered.insert(address);
        if maps::find(&self.mappings, address).is_none() {
            self.mappings = maps::read(self.pid);
        }
        let Some(mapping) = maps::find(&self.mappings, address) else {
            return Place::End;
        };
        let offset = mapping.file_offset(address);
        let path = mapping.path.clone();
        let image = self.image(&path);
        if let Some(fragment) = self.fragment(&image, offset)
            && let Some(number) = self.number(fragment)
        {
            return Place::Fragment(number);
        }
        let rule = if image.module.has_tables() {
            self.unwinder.caller_rule(&image.module, offset.0)
        } else {
            Some(CallerRule::WITH_FRAME_POINTER)
        };
        rule.and_then(narrow).map_or(Place::End, Place::Caller)
    }

    /// A library was closed: what every address means now.
    pub fn again(&mut self) -> Vec<(u64, Place)> {
        self.mappings = maps::read(self.pid);
        let addresses: Vec<u64> = self.answered.iter().copied().collect();
        addresses
            .into_iter()
            .map(|address| (address, self.place(address)))
            .collect()
    }

    /// Returns what is known of a mapped file.
    pub fn image(&mut self, path: &str) -> Rc<Image> {
        if let Some(image) = self.images.get(path) {
            return Rc::clone(image);
        }
        let image = Rc::new(self.open(path));
        self.images.insert(path.to_owned(), Rc::clone(&image));
        image
    }

    fn open(&self, path: &str) -> Image {
        let mut image = Image {
            path: path.to_owned(),
            symbols: None,
            debug: None,
            module: ModuleData::without_tables(),
        };
        if path == "[vdso]" {
            let bytes = sampler::vdso_bytes();
            let module = bytes.and_then(|bytes| ModuleData::from_bytes(path, &bytes).ok());
            image.module = module.unwrap_or_else(ModuleData::without_tables);
        } else if path.starts_with('/') {
            let file = self.readable(path);
            image.module = ModuleData::open(&file).unwrap_or_else(|_| ModuleData::without_tables());
            if self.scope.may_have(path) {
                image.symbols = ImageSymbols::open(&file, &symbols::Options::default()).ok();
                let debug = image.symbols.as_ref().and_then(|s| s.debug_info().ok());
                image.debug = debug.flatten();
            }
        }
        image
    }

    /// The path under which a file of the process can be read: its own, which differs from ours in a
    /// container, or the running executable if that was replaced.
    fn readable(&self, path: &str) -> PathBuf {
        if path == self.executable && !Path::new(path).exists() {
            return format!("/proc/{}/exe", self.pid).into();
        }
        let inside = PathBuf::from(format!("/proc/{}/root{path}", self.pid));
        if Path::new(path).exists() {
            path.into()
        } else {
            inside
        }
    }

    /// The fragment at a place, if it is in scope.
    fn fragment(&self, image: &Image, offset: ImageOffset) -> Option<Known> {
        if !self.scope.may_have(&image.path) {
            return None;
        }
        let symbols = image.symbols.as_ref()?;
        let procedure = symbols.procedure(offset).map(|raw| raw.demangled());
        let name = procedure.as_ref().map(|procedure| &procedure.name);
        let frames = match (&image.debug, symbols.address_of(offset)) {
            (Some(debug), Some(address)) => debug.frames(address, name).unwrap_or_default(),
            _ => Vec::new(),
        };
        match self.by {
            Granularity::Line => {
                let mut own = frames.iter().filter(|frame| self.is_own(image, frame));
                let frame = own.next()?;
                Some(Known {
                    name: line_name(frame)?,
                    detail: frame.function.to_string(),
                    image: image.path.clone(),
                })
            }
            Granularity::Function => {
                let outermost = frames.last();
                let source = outermost.and_then(|frame| frame.file.as_deref());
                if !self.scope.has(&image.path, source) {
                    return None;
                }
                let name = name.or(outermost.map(|frame| &frame.function))?;
                Some(Known {
                    name: name.to_string(),
                    detail: source.unwrap_or_default().to_owned(),
                    image: image.path.clone(),
                })
            }
        }
    }

    fn is_own(&self, image: &Image, frame: &SourceFrame) -> bool {
        frame.line.is_some()
            && frame
                .file
                .as_ref()
                .is_some_and(|file: &Arc<str>| self.scope.has(&image.path, Some(file)))
    }
}

fn line_name(frame: &SourceFrame) -> Option<String> {
    Some(format!("{}:{}", frame.file.as_ref()?, frame.line?))
}

/// The rule in the runtime's form, if it fits.
fn narrow(rule: CallerRule) -> Option<Rule> {
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
