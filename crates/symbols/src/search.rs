//! Search for debug information outside of the program's file.

use crate::debuginfod::{DebuginfodClient, DebuginfodKind, cache_directory};
use crate::elf::{self, Elf};
use crate::error::Error;
use crate::input::ImageInput;
use crate::open::{open_elf, open_input};
use crate::tables::{DataSection, RawSymbols};
use profile::BuildId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Places to look for images and their debug information.
#[derive(Clone, Debug)]
pub struct SymbolOptions {
    /// Directories with debug information or images by build-id, in any of the usual layouts:
    /// `DIR/.build-id/ab/cdef.debug` (distributions), `DIR/.build-id/ab/cdef` (Fedora, perf's
    /// cache) and `DIR/abcdef/debuginfo` (debuginfod's cache). Debug links are looked up in
    /// `DIR/path/of/image/` too.
    pub debug_dirs: Vec<PathBuf>,
    /// Directory with the file system of the recorded machine, if it is not `/`: a prefix for the
    /// path of every image.
    pub root: Option<PathBuf>,
    /// The servers for files that are in none of the directories.
    pub debuginfod: Option<Arc<DebuginfodClient>>,
}

impl Default for SymbolOptions {
    /// Searches `/usr/lib/debug`, `/usr/lib`, and, if there is a home directory, the caches of perf
    /// and debuginfod in it. Asks no server.
    fn default() -> Self {
        let mut debug_dirs = vec!["/usr/lib/debug".into(), "/usr/lib".into()];
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        debug_dirs.extend(home.map(|home| PathBuf::from(home).join(".debug")));
        debug_dirs.extend(cache_directory(|name| std::env::var_os(name)));
        Self {
            debug_dirs,
            root: None,
            debuginfod: None,
        }
    }
}

impl SymbolOptions {
    /// Returns the local path of an image's file.
    pub fn path_of(&self, image_path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(image_path.trim_start_matches('/')),
            None => image_path.into(),
        }
    }

    /// Returns the possible paths of the image itself by build-id.
    pub fn images_by_id(&self, id: &BuildId) -> impl Iterator<Item = PathBuf> + '_ {
        const NAMES: &[(&str, bool)] = &[
            ("/elf", true),
            ("", true),
            (".debug", true),
            ("executable", false),
        ];
        self.by_id(id, NAMES)
    }

    /// Returns the possible paths of the image's debug information by build-id.
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

/// A debug file: its path, its ELF structure, its symbols.
pub(crate) struct FoundDebugFile {
    pub path: PathBuf,
    pub elf: Elf,
    pub symbols: RawSymbols,
}

fn try_open(path: PathBuf, accept: impl FnOnce(&Elf) -> bool) -> Option<FoundDebugFile> {
    let mut symbols = RawSymbols::default();
    let elf = open_elf(&path, &mut symbols).ok()?;
    accept(&elf).then_some(FoundDebugFile { path, elf, symbols })
}

/// Finds the separate debug file of an image: by build-id, else by debug link.
pub(crate) fn debug_file(
    path: &Path,
    image: &Elf,
    options: &SymbolOptions,
) -> Option<FoundDebugFile> {
    let same = |elf: &Elf| elf.build_id == image.build_id;
    if let Some(id) = &image.build_id {
        let found = options
            .debug_by_id(id)
            .find_map(|path| try_open(path, same));
        if found.is_some() {
            return found;
        }
    }
    let (name, crc) = debug_link(image, ".gnu_debuglink")?;
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
                _ => debuglink_checksum(&elf.input) == Some(crc),
            })
        })
}

/// Fetches the separate debug file of an image from a server.
pub(crate) fn debug_file_of_servers(
    image: &Elf,
    options: &SymbolOptions,
) -> Option<FoundDebugFile> {
    let id = image.build_id.as_ref()?;
    let client = options.debuginfod.as_ref()?;
    let path = client.fetch_file(id, DebuginfodKind::DebugInfo)?;
    try_open(path, |elf| elf.build_id.as_ref() == Some(id))
}

/// Fetches the image with a build-id from a server.
pub(crate) fn image_of_servers(id: &BuildId, options: &SymbolOptions) -> Option<PathBuf> {
    let client = options.debuginfod.as_ref()?;
    client.fetch_file(id, DebuginfodKind::Executable)
}

/// Finds the file that several debug files share (`dwz`).
pub(crate) fn shared_debug_file(
    path: &Path,
    debug: &Elf,
    options: &SymbolOptions,
) -> Option<FoundDebugFile> {
    let (name, id) = debug_link(debug, ".gnu_debugaltlink")?;
    let id = BuildId::new(&id)?;
    let same = |elf: &Elf| elf.build_id.as_ref() == Some(&id);
    // A relative name starts at the real place of the file, not at a link to it.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named = real.parent().map(|dir| dir.join(&name));
    let by_id = options.debug_by_id(&id);
    let mut here = named.into_iter().chain(by_id);
    let here = here.find_map(|path| try_open(path, same));
    here.or_else(|| {
        let client = options.debuginfod.as_ref()?;
        try_open(client.fetch_file(&id, DebuginfodKind::DebugInfo)?, same)
    })
}

/// Returns a link: a file name, and the bytes after its zero that identify the right file.
fn debug_link(elf: &Elf, section: &str) -> Option<(PathBuf, Vec<u8>)> {
    let section: &DataSection = elf.section_named(section)?;
    let bytes = elf
        .input
        .read_range(section.offset, section.size.min(1 << 16))
        .ok()?;
    let end = memchr::memchr(0, &bytes)?;
    let name = OsStr::from_bytes(&bytes[..end]);
    (!name.is_empty()).then(|| (name.into(), bytes[end + 1..].to_vec()))
}

/// Computes the checksum that debug links use.
fn debuglink_checksum(input: &ImageInput) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut offset = 0;
    while offset < input.len() {
        let len = (input.len() - offset).min(1 << 20);
        hasher.update(&input.read_range(offset, len).ok()?);
        offset += len;
    }
    Some(hasher.finalize())
}

/// Returns the build-id of an ELF file (`NT_GNU_BUILD_ID`); `None` if it has none. Reads only
/// headers and notes; works for stripped files.
///
/// # Errors
/// If the file cannot be read or is not ELF.
pub fn build_id_of_file(path: &Path) -> Result<Option<BuildId>, Error> {
    elf::build_id(path, &open_input(path)?)
}

/// Returns the build-id of an ELF image in memory (a vDSO, for instance). `name` is its name in
/// errors.
///
/// # Errors
/// If it is not ELF.
pub fn build_id_of_bytes(name: &Path, bytes: Vec<u8>) -> Result<Option<BuildId>, Error> {
    elf::build_id(name, &ImageInput::Bytes(bytes))
}
