//! Where debug information is kept apart from the program.

use crate::elf::{self, Elf};
use crate::error::Error;
use crate::input::Input;
use crate::tables::{DataSection, RawSymbols};
use profile::BuildId;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to look for images and their debug information.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories with debug information or images by build-id, in any of the usual layouts:
    /// `DIR/.build-id/ab/cdef.debug` (distributions), `DIR/.build-id/ab/cdef` (Fedora, perf's
    /// cache) and `DIR/abcdef/debuginfo` (debuginfod's cache). Debug links are looked up in
    /// `DIR/path/of/image/` too.
    pub debug_dirs: Vec<PathBuf>,
    /// Where the file system of the recorded machine is found, if it is not `/`: put before the
    /// path of every image.
    pub root: Option<PathBuf>,
}

impl Default for Options {
    /// `/usr/lib/debug`, `/usr/lib`, and, if there is a home directory, the caches of perf and
    /// debuginfod in it.
    fn default() -> Self {
        let mut debug_dirs = vec!["/usr/lib/debug".into(), "/usr/lib".into()];
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = var("HOME").map(PathBuf::from);
        debug_dirs.extend(home.iter().map(|home| home.join(".debug")));
        let cache = var("DEBUGINFOD_CACHE_PATH").map(PathBuf::from).or_else(|| {
            let caches = var("XDG_CACHE_HOME").map(PathBuf::from);
            let caches = caches.or_else(|| home.map(|home| home.join(".cache")));
            caches.map(|caches| caches.join("debuginfod_client"))
        });
        debug_dirs.extend(cache);
        Self {
            debug_dirs,
            root: None,
        }
    }
}

impl Options {
    /// The path under which the file of an image is found here.
    pub fn path_of(&self, image_path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(image_path.trim_start_matches('/')),
            None => image_path.into(),
        }
    }

    /// Where the image itself may be kept by build-id.
    pub fn images_by_id(&self, id: &BuildId) -> impl Iterator<Item = PathBuf> + '_ {
        const NAMES: &[(&str, bool)] = &[
            ("/elf", true),
            ("", true),
            (".debug", true),
            ("executable", false),
        ];
        self.by_id(id, NAMES)
    }

    /// Where the debug information of an image may be kept by build-id.
    pub(crate) fn debug_by_id(&self, id: &BuildId) -> impl Iterator<Item = PathBuf> + '_ {
        const NAMES: &[(&str, bool)] = &[(".debug", true), ("/debug", true), ("debuginfo", false)];
        self.by_id(id, NAMES)
    }

    fn by_id(
        &self,
        id: &BuildId,
        names: &'static [(&str, bool)],
    ) -> impl Iterator<Item = PathBuf> + '_ {
        let id = id.to_string();
        self.debug_dirs.iter().flat_map(move |dir| {
            let id = id.clone();
            names.iter().map(move |(name, split)| {
                // At least one byte: two digits.
                let (head, tail) = id.split_at(2);
                if *split {
                    dir.join(format!(".build-id/{head}/{tail}{name}"))
                } else {
                    dir.join(&id).join(name)
                }
            })
        })
    }
}

/// Opens an image or debug file.
pub(crate) fn open(path: &Path, symbols: &mut RawSymbols) -> Result<Elf, Error> {
    Elf::read(path, Arc::new(open_input(path)?), symbols)
}

pub(crate) fn open_input(path: &Path) -> Result<Input, Error> {
    // Not to wait for a writer if somebody put a pipe there.
    let metadata = path.metadata().map_err(Error::io(path))?;
    if !metadata.is_file() {
        return Err(Error::NotElf {
            path: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(Error::io(path))?;
    Input::file(file).map_err(Error::io(path))
}

/// A file that was found: its path, what it is, its symbols.
pub(crate) struct Found {
    pub path: PathBuf,
    pub elf: Elf,
    pub symbols: RawSymbols,
}

fn try_open(path: PathBuf, accept: impl FnOnce(&Elf) -> bool) -> Option<Found> {
    let mut symbols = RawSymbols::default();
    let elf = open(&path, &mut symbols).ok()?;
    accept(&elf).then_some(Found { path, elf, symbols })
}

/// The separate debug file of an image: by build-id, else by debug link.
pub(crate) fn debug_file(path: &Path, image: &Elf, options: &Options) -> Option<Found> {
    let same = |elf: &Elf| elf.build_id == image.build_id;
    if let Some(id) = &image.build_id {
        let found = options
            .debug_by_id(id)
            .find_map(|path| try_open(path, same));
        if found.is_some() {
            return found;
        }
    }
    let (name, crc) = link(image, ".gnu_debuglink")?;
    let crc = u32::from_le_bytes(*crc.last_chunk::<4>()?);
    let crc = if image.little_endian {
        crc
    } else {
        crc.swap_bytes()
    };
    let dir = path.parent()?;
    let inside = dir.strip_prefix("/").unwrap_or(dir);
    let beside = [dir.join(&name), dir.join(".debug").join(&name)];
    let elsewhere = options
        .debug_dirs
        .iter()
        .map(|root| root.join(inside).join(&name));
    let candidates = beside.into_iter().chain(elsewhere);
    candidates
        .filter(|candidate| candidate != path)
        .find_map(|path| {
            try_open(path, |elf| match (&elf.build_id, &image.build_id) {
                (Some(_), Some(_)) => same(elf),
                _ => checksum(&elf.input) == Some(crc),
            })
        })
}

/// The file that several debug files share (`dwz`).
pub(crate) fn shared_debug_file(path: &Path, debug: &Elf, options: &Options) -> Option<Found> {
    let (name, id) = link(debug, ".gnu_debugaltlink")?;
    let id = BuildId::new(&id)?;
    let same = |elf: &Elf| elf.build_id.as_ref() == Some(&id);
    // A relative name starts at the real place of the file, not at a link to it.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named = real.parent().map(|dir| dir.join(&name));
    let by_id = options.debug_by_id(&id);
    named
        .into_iter()
        .chain(by_id)
        .find_map(|path| try_open(path, same))
}

/// A link: a file name, a zero, and what tells the right file.
fn link(elf: &Elf, section: &str) -> Option<(PathBuf, Vec<u8>)> {
    let section: &DataSection = elf.section(section)?;
    let bytes = elf
        .input
        .read(section.offset, section.size.min(1 << 16))
        .ok()?;
    let end = memchr::memchr(0, &bytes)?;
    let name = OsStr::from_bytes(&bytes[..end]);
    (!name.is_empty()).then(|| (name.into(), bytes[end + 1..].to_vec()))
}

/// The checksum that debug links use.
fn checksum(input: &Input) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut offset = 0;
    while offset < input.len() {
        let len = (input.len() - offset).min(1 << 20);
        hasher.update(&input.read(offset, len).ok()?);
        offset += len;
    }
    Some(hasher.finalize())
}

/// The build-id of an ELF file (`NT_GNU_BUILD_ID`), `None` if it has none. Reads only headers and
/// notes; works for stripped files.
///
/// # Errors
/// If the file cannot be read or is not ELF.
pub fn build_id_of_file(path: &Path) -> Result<Option<BuildId>, Error> {
    elf::build_id(path, &open_input(path)?)
}

/// The build-id of an ELF image in memory (a vDSO, for instance). `name` is what errors call it.
///
/// # Errors
/// If it is not ELF.
pub fn build_id_of_bytes(name: &Path, bytes: Vec<u8>) -> Result<Option<BuildId>, Error> {
    elf::build_id(name, &Input::Bytes(bytes))
}
