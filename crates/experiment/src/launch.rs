//! Starts the command with the runtime in it.

use crate::Error;
use crate::memory::WaitWords;
use crate::own_filter;
use memchr::memmem;
use object::elf::{ELFMAG, EM_AARCH64, EM_X86_64, PT_INTERP};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ReadCache};
use profile::RunEnd;
use runtime_abi::{is_starter_path, layout, state};
use sampler::process_file;
use sampler::{Exit, Launched, find_program, program_text};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// Length of a script's first line that the kernel reads, in bytes.
const LONGEST_LINE: u64 = 256;
/// The runtime's file.
const RUNTIME: &str = "libvitalfew_runtime.so";

/// Returns the library to preload: the one that was given, or the one beside this program.
///
/// # Errors
/// [`Error::NoRuntime`]; [`Error::OtherRuntime`]: it was not built with this program.
pub fn find_runtime(given: Option<&Path>) -> Result<PathBuf, Error> {
    let library = match given {
        // The dynamic linker resolves a relative path in the command's directory.
        Some(given) => std::path::absolute(given).map_err(Error::wrap_io("--runtime"))?,
        None => {
            let own = std::env::current_exe();
            runtime_beside(&own.map_err(Error::wrap_io("where this program is"))?)?
        }
    };
    // A command that cannot be started is the more important error.
    if library.exists() {
        check_runtime(&library)?;
    }
    Ok(library)
}

/// Returns the library beside a program, or in `../lib/vitalfew` from there.
fn runtime_beside(executable: &Path) -> Result<PathBuf, Error> {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let looked = vec![directory.to_owned(), directory.join("../lib/vitalfew")];
    let found = looked
        .iter()
        .map(|directory| directory.join(RUNTIME))
        .find(|path| path.is_file());
    found.ok_or(Error::NoRuntime {
        name: RUNTIME,
        looked,
    })
}

/// Checks that a library to preload was built with this program: both lay out the shared memory.
fn check_runtime(library: &Path) -> Result<(), Error> {
    let what = format!("reading the runtime {}", library.display());
    let bytes = std::fs::read(library).map_err(Error::wrap_io(what))?;
    match memmem::find(&bytes, &layout::MARK) {
        Some(_) => Ok(()),
        None => Err(Error::OtherRuntime {
            path: library.to_owned(),
        }),
    }
}

/// Returns the name of the command's program if that is a script whose first line names
/// `interpreter`.
pub(crate) fn script_of(command: &[OsString], interpreter: &Path) -> Option<String> {
    let file = File::open(find_program(command.first()?)?).ok()?;
    let mut line = Vec::new();
    let mut start = BufReader::new(file.take(LONGEST_LINE));
    start.read_until(b'\n', &mut line).ok()?;
    let interpreter = interpreter.file_name()?.as_bytes();
    // `python3` is a link to `python3.11`.
    let names_it = |word: &[u8]| {
        let name = word.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| !name.is_empty() && interpreter.starts_with(name))
    };
    let mut words = line.strip_prefix(b"#!")?.split(u8::is_ascii_whitespace);
    words.any(names_it).then(|| program_text(command))
}

/// Source of knowledge about which thread waits for which, needed to account for delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A preloaded library hooks the functions by which threads synchronise.
    Hooks,
    /// The kernel reports which thread wakes which.
    Kernel {
        /// True for a Go program.
        go: bool,
    },
}

/// Returns how a command is measured, with hooks if `hooks` is set and possible. Refuses programs
/// that cannot be measured either way.
pub(crate) fn way_into(command: &[OsString], hooks: bool) -> Result<Way, Error> {
    let default = if hooks {
        Way::Hooks
    } else {
        Way::Kernel { go: false }
    };
    let Some(program) = command.first().and_then(find_program) else {
        return Ok(default); // the launch itself reports why it fails
    };
    let refuse = |reason: &str| {
        Err(Error::NotPreloadable {
            program: program.clone(),
            reason: reason.to_owned(),
        })
    };
    if let Ok(Some(call)) = own_filter::forbidden_call() {
        return refuse(&format!(
            "would inherit a filter of system calls (seccomp) that forbids {call}, which a sampled thread makes; start vitalfew without \
             that filter"
        ));
    }
    let Some(kind) = program_kind(&program) else {
        return Ok(default); // a script, or an unreadable file
    };
    match kind {
        ProgramKind::Small => {
            return refuse("is a 32-bit program; only 64-bit programs can be measured");
        }
        ProgramKind::OtherMachine => {
            return refuse("is a program for another processor; run it on a machine of that kind");
        }
        ProgramKind::Dynamic | ProgramKind::Static | ProgramKind::OtherLibrary => {}
    }
    if is_set_id(&program) {
        return refuse(
            "is set-uid or set-gid, so that it cannot be measured; run it as its owner, or run a copy",
        );
    }
    let go = is_go_program(&program);
    if go || !hooks || !matches!(kind, ProgramKind::Dynamic) {
        return Ok(Way::Kernel { go });
    }
    refuse_unpreloadable(&program)?;
    Ok(Way::Hooks)
}

/// Refuses programs that no library can be preloaded into.
pub(crate) fn check_preloadable(command: &[OsString]) -> Result<(), Error> {
    way_into(command, true)?;
    let Some(program) = command.first().and_then(find_program) else {
        return Ok(());
    };
    let reason = match program_kind(&program) {
        Some(ProgramKind::Static) if is_dynamic_linker(&program) => {
            "is the dynamic linker, whose own functions are not the program's; start the program by its own name"
        }
        Some(ProgramKind::Static) => {
            "is statically linked, so that nothing can be preloaded; link it dynamically"
        }
        Some(ProgramKind::OtherLibrary) => {
            "uses another C library than glibc (musl, Bionic), into which the runtime cannot be preloaded; build it for glibc"
        }
        _ => return refuse_unpreloadable(&program),
    };
    Err(Error::NotPreloadable {
        program,
        reason: reason.to_owned(),
    })
}

/// Returns the files that a command maps at its start: its program and the libraries of that. A
/// script's files are not known.
pub(crate) fn files_of_start(command: &[OsString]) -> Vec<PathBuf> {
    let program = command.first().and_then(find_program);
    let Some(program) = program else {
        return Vec::new();
    };
    let mut files = vec![program.clone()];
    if matches!(program_kind(&program), Some(ProgramKind::Dynamic)) {
        // With this variable, glibc's dynamic linker lists them instead of starting the program, as
        // for ldd.
        let listed = std::process::Command::new(&program)
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .stdin(std::process::Stdio::null())
            .output();
        let text = listed.map_or(Vec::new(), |output| output.stdout);
        files.extend(listed_libraries(&String::from_utf8_lossy(&text)));
    }
    files
}

/// Parses the dynamic linker's list of libraries.
fn listed_libraries(text: &str) -> Vec<PathBuf> {
    let paths = text.lines().filter_map(|line| {
        // A library that is needed by its path has no name in front.
        let found = line
            .split_once(" => ")
            .map_or(line.trim(), |(_, found)| found);
        let (path, _) = found.rsplit_once(" (0x")?;
        path.starts_with('/').then(|| path.into())
    });
    paths.collect()
}

/// Returns whether a program is `ld.so`, which executes the program in its arguments.
fn is_dynamic_linker(program: &Path) -> bool {
    let file = program.canonicalize();
    let name = file.as_deref().unwrap_or(program).file_name();
    name.and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("ld-") && name.contains(".so") || name == "ld.so")
}

fn refuse_unpreloadable(program: &Path) -> Result<(), Error> {
    match needs_library(program, SANITIZER) {
        Some(true) => Err(Error::NotPreloadable {
            program: program.to_owned(),
            reason: "is built with AddressSanitizer, which ends a program that another library is preloaded into; build it without \
                     -fsanitize=address"
                .into(),
        }),
        _ => Ok(()),
    }
}

/// Returns whether a program would run as another user or group.
fn is_set_id(program: &Path) -> bool {
    let Ok(metadata) = program.metadata() else {
        return false;
    };
    let mode = metadata.permissions().mode();
    // SAFETY: calls without arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    mode & 0o4000 != 0 && metadata.uid() != user || mode & 0o2000 != 0 && metadata.gid() != group
}

/// Returns the environment of a command to measure.
pub(crate) fn target_environment(
    runtime: &Path,
    memory: &impl AsRawFd,
    variable: &'static str,
) -> Result<Vec<(&'static str, OsString)>, Error> {
    let text = runtime.to_string_lossy();
    if text.contains([':', ' ']) {
        return Err(Error::NotPreloadable {
            program: runtime.to_owned(),
            reason: "the dynamic linker takes no library with a blank or a colon in its path"
                .into(),
        });
    }
    let mut preload = runtime.as_os_str().to_owned();
    if let Some(own) = std::env::var_os("LD_PRELOAD").filter(|own| !own.is_empty()) {
        preload.push(":");
        preload.push(own);
    }
    let number = memory.as_raw_fd().to_string().into();
    Ok(vec![("LD_PRELOAD", preload), (variable, number)])
}

/// Time limit for a program to reach the runtime.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time between two looks at the program.
const TICK: Duration = Duration::from_millis(10);

/// Waits until the runtime in the target reports. Of a shell that is the program that it executes
/// in its process.
///
/// # Errors
/// [`Error::NotLoaded`] if the runtime does not report.
pub(crate) fn await_runtime(
    words: WaitWords<'_>,
    command: &[OsString],
    launched: &mut Launched,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut start = Instant::now();
    let file = process_file(launched.pid(), "exe");
    let executable = || std::fs::read_link(&file).ok();
    let is_starter = |path: PathBuf| is_starter_path(path.as_os_str().as_bytes());
    loop {
        let seen = words.news.load(Acquire);
        let state = words.state.load(Acquire);
        if state == state::READY {
            return Ok(());
        }
        if state == state::IN_STARTER && executable().is_some_and(is_starter) {
            // What a shell does before it executes the program takes as long as it takes.
            start = Instant::now();
        }
        let has_ended = launched.try_wait().is_some();
        if has_ended || start.elapsed() > PATIENCE || stop.load(Relaxed) {
            words.state.store(state::OFF, Relaxed);
            let reason = if state == state::IN_STARTER && has_ended {
                "it is run by a shell, which executed no program in its own process: name the program that the shell starts"
            } else if has_ended || executable().is_none() {
                "it ended before"
            } else {
                "it may have capabilities of its own, or not use the C library"
            };
            return Err(Error::NotLoaded {
                program: program_text(command),
                reason: reason.into(),
            });
        }
        words.wait_for_news(seen, TICK);
    }
}

/// Returns how a run of a command ended.
pub(crate) fn run_end(exit: Option<Exit>) -> RunEnd {
    match exit {
        Some(Exit::Code(code)) => RunEnd::Exited(code),
        Some(Exit::Signal(signal)) => RunEnd::Signalled(signal),
        None => RunEnd::Stopped,
    }
}

/// Returns the present time, in nanoseconds since 1970-01-01 UTC.
pub(crate) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// Kinds of programs, by how the runtime can be brought into them.
pub(crate) enum ProgramKind {
    Dynamic,
    Static,
    Small,
    OtherMachine,
    OtherLibrary,
}

/// Prefixes of the names of dynamic linkers that are not glibc's.
const OTHER_LINKERS: [&[u8]; 2] = [b"ld-musl", b"linker"];

/// Prefix of the name of AddressSanitizer's library, which must be loaded first.
const SANITIZER: &[u8] = b"libasan.so";

/// Returns whether an executable needs a library whose name begins with `start`; `None` if it
/// cannot be read.
fn needs_library(program: &Path, start: &[u8]) -> Option<bool> {
    let file = ReadCache::new(File::open(program).ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&file).ok()?;
    let mut libraries = elf.import_libraries().ok()?;
    Some(libraries.any(|library| library.is_ok_and(|library| library.name().starts_with(start))))
}

/// Returns whether a program is a Go program.
pub(crate) fn is_go_program(program: &Path) -> bool {
    has_section(program, ".go.buildinfo")
}

/// Returns whether an executable or a library has a section of this name.
pub(crate) fn has_section(file: &Path, name: &str) -> bool {
    let find = || {
        let cache = ReadCache::new(File::open(file).ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let found = elf.section_by_name(name);
        Some(found.is_some())
    };
    find().unwrap_or(false)
}

/// Returns the kind of a program; `None` if it is no ELF file.
pub(crate) fn program_kind(program: &Path) -> Option<ProgramKind> {
    let mut head = Vec::new();
    // Program headers follow the file's header in every file that a linker wrote.
    File::open(program)
        .ok()?
        .take(64 << 10)
        .read_to_end(&mut head)
        .ok()?;
    if !head.starts_with(&ELFMAG) {
        return None;
    }
    const CLASS_64: u8 = 2;
    if head.get(4) != Some(&CLASS_64) {
        return Some(ProgramKind::Small);
    }
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(bytes)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    };
    let machine = if cfg!(target_arch = "aarch64") {
        EM_AARCH64
    } else {
        EM_X86_64
    };
    if number(18, 2)? != u64::from(machine.0) {
        return Some(ProgramKind::OtherMachine);
    }
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut linker = None;
    for at in 0..count {
        let header = usize::try_from(first.checked_add(at * size)?).ok()?;
        if number(header, 4)? == u64::from(PT_INTERP.0) {
            let start = usize::try_from(number(header.checked_add(8)?, 8)?).ok()?;
            let length = usize::try_from(number(header.checked_add(32)?, 8)?).ok()?;
            linker = Some(
                head.get(start..start.checked_add(length)?)
                    .unwrap_or_default(),
            );
        }
    }
    let Some(linker) = linker else {
        return Some(ProgramKind::Static);
    };
    let file = linker.rsplit(|byte| *byte == b'/').next()?;
    let other = OTHER_LINKERS.iter().any(|name| file.starts_with(name));
    Some(if other {
        ProgramKind::OtherLibrary
    } else {
        ProgramKind::Dynamic
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(bytes: &[u8]) -> Option<ProgramKind> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        program_kind(file.path())
    }

    #[test]
    fn libraries_are_listed_as_they_are_found() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd12345000)\n\
             \tliba b.so => /usr/lib/liba b.so (0x00007f0000000000)\n\
             \tlibgone.so => not found\n\
             \t/lib64/ld-linux-x86-64.so.2 (0x00007f0000200000)\n";
        let found = ["/usr/lib/liba b.so", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(listed_libraries(text), found.map(Path::new));
        let own = std::env::current_exe().unwrap();
        let files = files_of_start(&[own.clone().into_os_string()]);
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
        assert_eq!(files[0], own);
        assert!(names.iter().any(|name| *name == "libc.so.6"), "{names:?}");
    }

    #[test]
    fn damaged_programs_are_left_to_the_kernel() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(kind_of(&own), Some(ProgramKind::Dynamic)));
        for length in 0..200 {
            let kind = kind_of(&own[..length]);
            assert!(!matches!(kind, Some(ProgramKind::Dynamic)), "{length}");
        }
        let mut small = own[..4096].to_vec();
        small[4] = 1;
        assert!(matches!(kind_of(&small), Some(ProgramKind::Small)));
    }
}
