//! Properties of a program that decide what a profile can show of it.

use super::answers::SCHEMA;
use crate::processes::command_files::{find_program, interpreter_line};
use object::elf::{DF_1_PIE, DT_FLAGS_1, ET_DYN, ET_EXEC, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use symbols::ImageSymbols;

/// Properties of a program that matter to profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The file.
    pub path: PathBuf,
    /// Kind of linking.
    pub linking: Linking,
    /// Build-id. Without one, profiles distinguish builds of the program only by path.
    pub build_id: Option<String>,
    /// True if the file itself has no full symbol table.
    pub stripped: bool,
    /// True if all functions have names, in the program's own symbol table or a separate one.
    pub all_names: bool,
    /// Debug information, with lines and inlined functions.
    pub debug_info: Option<DebugInfo>,
    /// Reason that existing debug information cannot be used.
    pub debug_problem: Option<String>,
    /// Functions that keep frame pointers; `None` if too few have names to tell.
    pub frame_pointers: Option<FramePointers>,
    /// True if the program runs with the rights of its file, so that the loader ignores preloaded
    /// libraries.
    pub privileged: bool,
}

/// Kind of linking of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Linking {
    /// Dynamic, loaded at any address.
    PositionIndependent,
    /// Dynamic, loaded at a fixed address.
    Fixed,
    /// Static, loaded at any address.
    StaticPositionIndependent,
    /// Static, loaded at a fixed address.
    Static,
    /// A shared library.
    SharedLibrary,
}

/// Debug information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugInfo {
    /// The DWARF version of the first unit; `None` if it is compressed.
    pub dwarf: Option<u16>,
    /// The file with the debug information, if that is another one.
    pub file: Option<PathBuf>,
}

/// A guess from the first instructions of functions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FramePointers {
    /// Number of examined functions with a frame.
    pub functions: usize,
    /// Fraction of them that keep a pointer to it.
    pub share: f64,
}

/// Reason that a program cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is a script: its interpreter is the program that runs.
    #[error("{}: a script; look at its interpreter: {interpreter}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// The first line, without `#!`.
        interpreter: String,
    },
    /// The file is ELF, but not 64-bit little-endian.
    #[error("{}: offset 0: {reason}", path.display())]
    OtherElf {
        /// The file.
        path: PathBuf,
        /// Description of what is wrong.
        reason: String,
    },
    /// The file is not a program, or is damaged.
    #[error(transparent)]
    Symbols(#[from] symbols::Error),
}

type Elf<'a> = ElfFile64<'a, LittleEndian, &'a ReadCache<File>>;

impl Program {
    /// Examines a program; a name without a slash is looked up as a shell would.
    ///
    /// # Errors
    /// If it cannot be read, or is no program that can be measured.
    pub fn inspect_program(program: &Path) -> Result<Self, ProgramError> {
        let path = program_file(program);
        let read = |source| ProgramError::Read {
            path: path.clone(),
            source,
        };
        let file = File::open(&path).map_err(read)?;
        let mode = file.metadata().map_err(read)?.mode();
        check_kind(&path, &file)?;
        // Parsing refuses damaged files and absurd sizes.
        let symbols = ImageSymbols::open_image(&path, &symbols::SymbolOptions::default())?;
        let cache = ReadCache::new(file.try_clone().map_err(read)?);
        let elf = Elf::parse(&cache).map_err(|error| ProgramError::OtherElf {
            path: path.clone(),
            reason: format!("no 64-bit little-endian ELF image: {error}"),
        })?;
        let (debug_info, debug_problem) = match symbols.debug_info() {
            Ok(found) => (found.map(|found| debug_info(&path, found.path())), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Self {
            schema: SCHEMA,
            linking: linking_of(&elf, &cache),
            build_id: symbols.build_id().map(ToString::to_string),
            stripped: elf.section_by_name(".symtab").is_none(),
            all_names: symbols.is_complete(),
            debug_info,
            debug_problem,
            frame_pointers: frame_pointers(&symbols, &file),
            privileged: mode & 0o6000 != 0 || has_file_capabilities(&path),
            path,
        })
    }
}

/// Returns the file at a path, or the one that a shell would execute by that name.
fn program_file(program: &Path) -> PathBuf {
    let named = program.to_str().filter(|_| !program.exists());
    let found = named.and_then(find_program);
    found.unwrap_or_else(|| program.to_owned())
}

fn check_kind(path: &Path, file: &File) -> Result<(), ProgramError> {
    let line = interpreter_line(file).map_err(|source| ProgramError::Read {
        path: path.to_owned(),
        source,
    })?;
    line.map_or(Ok(()), |interpreter| {
        Err(ProgramError::Script {
            path: path.to_owned(),
            interpreter,
        })
    })
}

fn linking_of(elf: &Elf<'_>, cache: &ReadCache<File>) -> Linking {
    let le = LittleEndian;
    let headers = elf.elf_program_headers();
    let dynamic = headers.iter().any(|header| header.p_type(le) == PT_INTERP);
    let entries = headers
        .iter()
        .filter_map(|header| header.dynamic(le, cache).ok().flatten());
    let mut flags = entries
        .flatten()
        .filter(|entry| entry.d_tag(le) == DT_FLAGS_1);
    let executable = flags.any(|entry| entry.d_val(le) & DF_1_PIE.0 != 0);
    match (elf.elf_header().e_type(le), dynamic) {
        (ET_EXEC, true) => Linking::Fixed,
        (ET_EXEC, false) => Linking::Static,
        (ET_DYN, true) => Linking::PositionIndependent,
        (ET_DYN, false) if executable => Linking::StaticPositionIndependent,
        _ => Linking::SharedLibrary,
    }
}

fn debug_info(program: &Path, found: &Path) -> DebugInfo {
    DebugInfo {
        dwarf: dwarf_version(found),
        file: (found != program).then(|| found.to_owned()),
    }
}

/// Reads the version in the header of the first unit.
fn dwarf_version(path: &Path) -> Option<u16> {
    let file = File::open(path).ok()?;
    let cache = ReadCache::new(file.try_clone().ok()?);
    let elf = Elf::parse(&cache).ok()?;
    let section = elf.section_by_name(".debug_info")?;
    let range = section.compressed_file_range().ok()?;
    if range.format != object::CompressionFormat::None {
        return None;
    }
    let mut header = [0; 14];
    file.read_exact_at(&mut header, range.offset).ok()?;
    let long = header.starts_with(&[0xff; 4]);
    let at = if long { 12 } else { 4 };
    Some(u16::from_le_bytes([header[at], header[at + 1]]))
}

/// Maximum number of functions to examine, their least length, and the number that suffices.
const MOST: usize = 2000;
const SHORTEST: u64 = 48;
const ENOUGH: usize = 20;

fn frame_pointers(symbols: &ImageSymbols, file: &File) -> Option<FramePointers> {
    let long = symbols
        .all_procedures()
        .filter(|procedure| procedure.size >= SHORTEST);
    let mut code = [0; SHORTEST as usize];
    let starts = long.take(MOST).filter_map(|procedure| {
        file.read_exact_at(&mut code, procedure.start.0).ok()?;
        sets_frame_pointer(&code)
    });
    let starts: Vec<bool> = starts.collect();
    let kept = starts.iter().filter(|kept| **kept).count();
    (starts.len() >= ENOUGH).then(|| FramePointers {
        functions: starts.len(),
        share: kept as f64 / starts.len() as f64,
    })
}

/// Returns whether a function that makes a frame keeps a pointer to it; `None` if it starts without
/// a frame, as leaf functions do. Landing marks and a check of the stack's size may come first.
fn sets_frame_pointer(code: &[u8]) -> Option<bool> {
    if cfg!(target_arch = "aarch64") {
        let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        let mut words = code.chunks_exact(4).take(8).map(word);
        // mov x29, sp; or add x29, sp, #n
        let kept = words.clone().any(|word| word & 0xffc0_03ff == 0x9100_03fd);
        // stp x, x, [sp, #-n]!; or str x, [sp, #-n]!; or sub sp, sp, #n
        let frame = |word: u32| {
            word & 0xffc0_03e0 == 0xa980_03e0
                || word & 0xffe0_0fe0 == 0xf800_0fe0
                || word & 0xff80_03ff == 0xd100_03ff
        };
        return (kept || words.any(frame)).then_some(kept);
    }
    let start = &code[..code.len().min(28)];
    // push %rbp; mov %rsp, %rbp
    let kept = start
        .windows(4)
        .any(|bytes| bytes == [0x55, 0x48, 0x89, 0xe5]);
    // push %rbx, %rbp or %r12 to %r15; or sub $n, %rsp
    let code = start
        .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
        .unwrap_or(start);
    let frame = matches!(
        code,
        [0x53 | 0x55, ..] | [0x41, 0x54..=0x57, ..] | [0x48, 0x83 | 0x81, 0xec, ..]
    );
    (kept || frame).then_some(kept)
}

fn has_file_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings are terminated; without a buffer only the size is returned.
    let size = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    size > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn compile(options: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("p.c");
        let functions: String = (0..30)
            .map(|n| format!("int f{n}(int *a) {{ int s = {n}; for (int i = 0; i < a[0]; i++) s += a[i] * s + f(s); return s; }}\n"))
            .collect();
        std::fs::write(&source, format!("int f(int);\n{functions}volatile int v; __attribute__((noinline)) int f(int n) {{ return v += n; }}\nint main(void) {{ return 0; }}")).unwrap();
        let program = directory.path().join("p");
        let run = Command::new("cc")
            .args(["-O1"])
            .args(options)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .output();
        let run = run.unwrap();
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        (directory, program)
    }

    #[test]
    fn how_it_was_linked_and_compiled() {
        for (options, linking, dwarf, kept) in [
            (
                &["-pie", "-fPIE", "-gdwarf-5", "-fno-omit-frame-pointer"][..],
                Linking::PositionIndependent,
                Some(5),
                true,
            ),
            (
                &["-no-pie", "-gdwarf-4", "-fomit-frame-pointer"],
                Linking::Fixed,
                Some(4),
                false,
            ),
            (
                &["-static", "-fomit-frame-pointer"],
                Linking::Static,
                None,
                false,
            ),
            (
                &["-static-pie", "-fPIE"],
                Linking::StaticPositionIndependent,
                None,
                false,
            ),
            (&["-shared", "-fPIC"], Linking::SharedLibrary, None, false),
        ] {
            let (_directory, path) = compile(options);
            let program = Program::inspect_program(&path).unwrap();
            assert_eq!(program.linking, linking, "{options:?}");
            if !options[0].starts_with("-static") {
                assert_eq!(
                    program.debug_info.as_ref().and_then(|d| d.dwarf),
                    dwarf,
                    "{options:?}"
                );
                assert!(!program.stripped && program.all_names && !program.privileged);
                let share = program.frame_pointers.unwrap().share;
                assert_eq!(share > 0.8, kept, "{options:?}: {share}");
            }
        }
    }

    #[test]
    fn stripped_and_privileged() {
        use std::os::unix::fs::PermissionsExt;
        let (_directory, path) = compile(&["-g", "-Wl,--build-id"]);
        let debug = path.with_extension("debug");
        let run = |command: &mut Command| assert!(command.status().unwrap().success());
        run(Command::new("objcopy")
            .arg("--only-keep-debug")
            .arg(&path)
            .arg(&debug));
        run(Command::new("strip").arg(&path));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let program = Program::inspect_program(&path).unwrap();
        assert!(program.stripped && !program.all_names && program.privileged);
        assert_eq!((program.debug_info, program.frame_pointers), (None, None));
        assert!(program.build_id.is_some());
        run(Command::new("objcopy")
            .arg(format!("--add-gnu-debuglink={}", debug.display()))
            .arg(&path));
        let program = Program::inspect_program(&path).unwrap();
        assert!(program.stripped && program.all_names);
        assert_eq!(program.debug_info.unwrap().file, Some(debug));
    }

    #[test]
    fn what_is_no_program_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("script");
        std::fs::write(&path, "#!/bin/sh -e\nexit").unwrap();
        let error = Program::inspect_program(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("/script: a script; look at its interpreter: /bin/sh -e"),
            "{error}"
        );
        std::fs::write(&path, "text").unwrap();
        let error = Program::inspect_program(&path).unwrap_err().to_string();
        assert!(error.ends_with("/script: not an ELF file"), "{error}");
        assert!(matches!(
            Program::inspect_program(Path::new("/no/such")),
            Err(ProgramError::Read { .. })
        ));
        assert!(
            Program::inspect_program(Path::new("sh"))
                .unwrap()
                .path
                .is_absolute()
        );
    }

    #[test]
    fn damaged_programs_are_refused_or_read_but_never_crash() {
        let (_directory, path) = compile(&["-g"]);
        let whole = std::fs::read(&path).unwrap();
        for n in 0..400 {
            let mut bytes = whole.clone();
            if n % 2 == 0 {
                bytes.truncate(whole.len() * n / 400);
            } else {
                // The headers, and samples of the rest.
                for k in 0..4 {
                    let at = if k == 0 {
                        n % 64
                    } else {
                        (n * 7919 + k * 104_729) % whole.len()
                    };
                    bytes[at] ^= 1 << (n % 8);
                }
            }
            std::fs::write(&path, bytes).unwrap();
            match Program::inspect_program(&path) {
                Ok(program) => assert_eq!(program.path, path),
                Err(error) => assert!(
                    error.to_string().contains("/p: ") || error.to_string().contains("/p"),
                    "{error}"
                ),
            }
        }
    }
}
