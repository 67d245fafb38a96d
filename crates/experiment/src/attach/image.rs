//! The files that are needed in the target: the runtime, and the C library.

use super::proc_files::mapped_file;
use super::refuse::refusal;
use super::return_frame::{ReturningCall, WayOfReturning};
use crate::Error;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};
use profile::known_code::{CodeKind, KnownCode};
use sampler::process_file;
use std::fs;
use std::path::Path;

/// Prefix of the names of all builds.
const PREFIX: &str = "vitalfew-";

/// The runtime's file.
pub(super) struct RuntimeImage {
    pub bytes: Vec<u8>,
    /// Address of the function to call, relative to the load address.
    pub entry: u64,
    /// Name in the target's mappings, which differs between builds.
    pub name: String,
}

impl RuntimeImage {
    /// Reads the runtime's file, to begin a session by its function `entry`.
    pub fn read(path: &Path, entry: &str) -> Result<Self, Error> {
        let what = || format!("reading the runtime {}", path.display());
        let bytes = fs::read(path).map_err(Error::wrap_io(what()))?;
        let unusable = || Error::wrap_io(what())(std::io::ErrorKind::InvalidData.into());
        let elf = ElfFile64::<Endianness>::parse(&*bytes).map_err(|_| unusable())?;
        let entry = address_of(&elf, entry).ok_or_else(unusable)?;
        // FNV-1a suffices to tell builds apart.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(Self {
            name: format!("{PREFIX}{hash:016x}"),
            entry,
            bytes,
        })
    }

    /// Returns the runtime's address in a process that it was loaded into before.
    pub fn loaded_at(&self, pid: u32) -> Option<u64> {
        let text = fs::read_to_string(process_file(pid, "maps")).ok()?;
        let wanted = format!("/memfd:{}", self.name);
        let mut lines = profile::MapsLine::parse_all(&text);
        let first = lines.find(|line| line.original_path() == wanted && line.file_offset == 0);
        first.map(|line| line.addresses.start)
    }
}

/// Returns the number of runtimes, of any build, that were loaded into a process before.
pub(super) fn runtimes_loaded(pid: u32) -> usize {
    let text = fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
    let lines = profile::MapsLine::parse_all(&text).filter(|line| line.file_offset == 0);
    // Handlers have another word in front of the number.
    let is_runtime = |path: &str| {
        let name = path.strip_prefix("/memfd:");
        let build = name.and_then(|name| name.strip_prefix(PREFIX));
        build.is_some_and(|build| u64::from_str_radix(build, 16).is_ok())
    };
    lines
        .filter(|line| is_runtime(line.original_path()))
        .count()
}

/// Functions of the target's C library.
pub(super) struct LibcFunctions {
    pub errno_location: u64,
    pub dlopen: u64,
    /// Address of `dlerror`; 0: the C library itself has none.
    pub dlerror: u64,
    /// Additional flags for `dlopen`.
    pub flags: u64,
    /// Code of the library by which a thread restores itself after a system call.
    pub returning_call: ReturningCall,
}

impl LibcFunctions {
    /// Finds the functions in a process.
    pub fn find(pid: u32) -> Result<Self, Error> {
        let text = fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
        let is_libc = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name == "libc.so.6" || name.starts_with("libc-2.") && name.ends_with(".so")
        };
        let mut lines = profile::MapsLine::parse_all(&text);
        let first = lines.find(|line| line.file_offset == 0 && is_libc(line.original_path()));
        let first = first
            .ok_or_else(|| refusal(pid, "it does not use glibc, which the runtime is made for"))?;
        let range = &first.addresses;
        let file = mapped_file(pid, range.start, range.end, first.original_path());
        let unreadable = |_| refusal(pid, "its C library cannot be read (was it replaced?)");
        let bytes = fs::read(file).map_err(unreadable)?;
        let elf = ElfFile64::<Endianness>::parse(&*bytes);
        let elf = elf.map_err(|_| refusal(pid, "its C library is no ELF file"))?;
        let address = |name| address_of(&elf, name).map(|address| address + range.start);
        // Before glibc 2.34 `dlopen` was in a library of its own, which called this function.
        const INTERNAL: u64 = 0x8000_0000;
        let (dlopen, flags) = match (address("dlopen"), address("__libc_dlopen_mode")) {
            (Some(found), _) => (found, 0),
            (None, Some(found)) => (found, INTERNAL),
            (None, None) => return Err(refusal(pid, "its C library has no dlopen")),
        };
        Ok(Self {
            errno_location: address("__errno_location")
                .ok_or_else(|| refusal(pid, "its C library has no __errno_location"))?,
            dlopen,
            dlerror: address("dlerror").unwrap_or(0),
            flags: flags | (libc::RTLD_NOW | libc::RTLD_GLOBAL) as u64,
            returning_call: returning_call(&elf, range.start).ok_or_else(|| {
                refusal(
                    pid,
                    "its C library has no code by which a thread could go back by itself",
                )
            })?,
        })
    }
}

/// Finds the code by which a thread restores itself, in the C library's code section.
fn returning_call(elf: &ElfFile64<'_, Endianness>, base: u64) -> Option<ReturningCall> {
    let text = elf.section_by_name(".text")?;
    let (call, leave) = ReturningCall::find_code(text.data().ok()?)?;
    let at = |offset: u64| base.checked_add(text.address())?.checked_add(offset);
    Some(ReturningCall {
        call: at(call)?,
        back: WayOfReturning::Call(at(leave)?),
    })
}

fn address_of(elf: &ElfFile64<'_, Endianness>, name: &str) -> Option<u64> {
    let mut symbols = elf.dynamic_symbols();
    let found = symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
    Some(found.address()).filter(|address| *address != 0)
}

/// Returns the address ranges of functions in the executable mappings that a thread must not be
/// inside while it loads a library.
pub(super) fn allocator_functions(pid: u32) -> Vec<std::ops::Range<u64>> {
    const NAMES: [&str; 12] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "memalign",
        "posix_memalign",
        "aligned_alloc",
        "reallocarray",
        "malloc_trim",
        "dlopen",
        "dlclose",
        // Waits for locks inside the C library, above all its allocator's.
        "__lll_lock_wait_private",
    ];
    let text = fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
    let mut base = (String::new(), 0);
    let mut ranges = Vec::new();
    for line in profile::MapsLine::parse_all(&text) {
        let path = line.original_path();
        if line.file_offset == 0 && path != base.0 {
            base = (path.to_owned(), line.addresses.start);
        }
        if !line.executable {
            continue;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let kind = KnownCode::of_file(path).map(|code| code.kind);
        if matches!(kind, Some(CodeKind::Loader | CodeKind::Allocator)) || name.starts_with("libdl")
        {
            ranges.push(line.addresses.clone());
        } else if name.starts_with("libc.so") || name.starts_with("libc-2.") {
            let file = mapped_file(pid, line.addresses.start, line.addresses.end, path);
            let Ok(bytes) = fs::read(file) else { continue };
            let Ok(elf) = ElfFile64::<Endianness>::parse(&*bytes) else {
                continue;
            };
            let known = elf.dynamic_symbols().filter(|symbol| {
                symbol.name().is_ok_and(|name| NAMES.contains(&name)) && symbol.is_definition()
            });
            ranges.extend(known.map(|symbol| {
                let start = base.1 + symbol.address();
                start..start + symbol.size()
            }));
        }
    }
    ranges
}
