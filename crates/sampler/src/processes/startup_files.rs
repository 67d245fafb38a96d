//! Finds the files that a command maps as code when it starts: its program or the interpreter of a
//! script, and the libraries that these need. Files that cannot be found are left out: they are met
//! later.

use super::command_files::{find_program, script_interpreter};
use super::images::open_regular;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, ReadCache};
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of files, for images that name very many.
const MOST_FILES: usize = 256;
/// Maximum length of the chain of script interpreters that the kernel follows.
const MOST_SCRIPTS: usize = 5;
/// Directories that the C library searches last. Those of other systems do not exist.
const LIBRARY_DIRECTORIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Returns the files that a command maps as code when it starts, in the order of mapping.
pub(crate) fn startup_files(command: impl AsRef<OsStr>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    let mut queue: VecDeque<PathBuf> = programs_of(command.as_ref()).into();
    while let Some(path) = queue.pop_front() {
        let Ok(path) = path.canonicalize() else {
            continue;
        };
        if files.len() >= MOST_FILES || !seen.insert(path.clone()) {
            continue;
        }
        if let Some(needs) = Needs::read_needs(&path) {
            queue.extend(needs.find_libraries());
            files.push(path);
        }
    }
    files
}

/// Returns the programs that run when a command does: more than one if the first is a script.
fn programs_of(command: &OsStr) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    let mut next = find_program(command);
    for _ in 0..=MOST_SCRIPTS {
        let Some(program) = next else { break };
        let line = script_interpreter(&program).unwrap_or_default();
        let mut words = line.split_whitespace();
        next = match words.next() {
            Some(interpreter) if interpreter.ends_with("/env") => {
                programs.push(PathBuf::from(interpreter));
                let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
                words.find(is_name).and_then(find_program)
            }
            Some(interpreter) => Some(PathBuf::from(interpreter)),
            None => {
                programs.push(program);
                break;
            }
        };
    }
    programs
}

/// Libraries that an image needs.
#[derive(Debug, Default)]
struct Needs {
    names: Vec<String>,
    /// Directories to search first for its libraries.
    directories: Vec<PathBuf>,
}

impl Needs {
    /// Reads the needs of an image; `None` if the file is no 64-bit ELF image.
    fn read_needs(path: &Path) -> Option<Self> {
        let file = open_regular(path)?;
        let mut needs = Self::default();
        let origin = path.parent().unwrap_or(Path::new("/"));
        needs.read_dynamic(&file, origin)?;
        Some(needs)
    }

    fn read_dynamic(&mut self, file: &File, origin: &Path) -> Option<()> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let (endian, data, segments) = (elf.endian(), elf.data(), elf.elf_program_headers());
        if let Some(loader) = segments
            .iter()
            .find_map(|segment| segment.interpreter(endian, data).ok()?)
        {
            self.names
                .push(String::from_utf8_lossy(loader).into_owned());
        }
        let Some(entries) = segments
            .iter()
            .find_map(|segment| segment.dynamic(endian, data).ok()?)
        else {
            return Some(()); // a static program
        };
        let value = |tag| entries.iter().find(|entry| entry.tag(endian) == tag);
        let size = value(elf::DT_STRSZ)?.val(endian);
        let strings = value(elf::DT_STRTAB)?.val(endian);
        let strings = segments
            .iter()
            .find_map(|segment| segment.data_range(endian, data, strings, size).ok()?)?;
        for entry in entries {
            let rest = || strings.get(usize::try_from(entry.val(endian)).ok()?..);
            let text = || rest()?.split(|byte| *byte == 0).next();
            match entry.tag(endian) {
                elf::DT_NULL => break,
                elf::DT_NEEDED if self.names.len() < MOST_FILES => {
                    let name = text().map(|name| String::from_utf8_lossy(name).into_owned());
                    self.names.extend(name);
                }
                elf::DT_RUNPATH | elf::DT_RPATH => {
                    self.directories.extend(
                        text()
                            .into_iter()
                            .flat_map(|text| run_path_directories(text, origin)),
                    );
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Returns the paths of the libraries.
    fn find_libraries(&self) -> Vec<PathBuf> {
        let from_environment = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let given: Vec<PathBuf> = std::env::split_paths(&from_environment).collect();
        let last = LIBRARY_DIRECTORIES.iter().map(PathBuf::from);
        let directories: Vec<PathBuf> = given
            .into_iter()
            .chain(self.directories.iter().cloned())
            .chain(configured_directories())
            .chain(last)
            .collect();
        let find = |name: &String| {
            if name.contains('/') {
                return Some(PathBuf::from(name));
            }
            let mut places = directories.iter().map(|directory| directory.join(name));
            places.find(|place| place.is_file())
        };
        self.names.iter().filter_map(find).collect()
    }
}

/// Returns the directories of a run path, with `$ORIGIN` for that of the image.
fn run_path_directories(path: &[u8], origin: &Path) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(path);
    let origin = origin.to_string_lossy();
    let put = |part: &str| {
        part.replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin)
    };
    let parts = text.split(':').filter(|part| !part.is_empty());
    parts.map(|part| PathBuf::from(put(part))).collect()
}

/// Returns the directories that the administrator configured for the C library.
fn configured_directories() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.as_os_str().as_bytes().ends_with(b".conf"));
    files.sort();
    files.insert(0, PathBuf::from("/etc/ld.so.conf"));
    let texts = files
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_directory = |line: &&String| line.starts_with('/');
    lines
        .iter()
        .filter(is_directory)
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(files: &[PathBuf]) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
        files.iter().filter_map(name).collect()
    }

    #[test]
    fn a_program_is_followed_by_its_loader_and_libraries() {
        let own = std::env::current_exe().unwrap();
        let files = startup_files(own.to_str().unwrap());
        assert_eq!(files[0], own.canonicalize().unwrap());
        let names = names(&files);
        for wanted in ["ld-linux", "libc.so"] {
            assert!(
                names.iter().any(|name| name.starts_with(wanted)),
                "{names:?}"
            );
        }
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let script = |name: &str, head: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, head).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let direct = script("direct", "#! /bin/sh -e\nexit\n");
        assert_eq!(startup_files(&direct)[0], shell);
        let found = startup_files(script("found", "#!/usr/bin/env -S A=1 sh\n"));
        assert!(found.contains(&shell), "{found:?}");
        // A script that is its own interpreter ends the chain.
        let own = directory.path().join("loop");
        let looped = script("loop", &format!("#!{}\n", own.display()));
        assert!(startup_files(&looped).is_empty());
    }

    #[test]
    fn what_is_no_program_has_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, b"\x7fELF and no more").unwrap();
        assert!(startup_files(path.to_str().unwrap()).is_empty());
        assert!(startup_files("/dev/zero").is_empty());
        assert!(startup_files("/nowhere").is_empty());
    }

    #[test]
    fn run_paths_are_relative_to_the_image() {
        let found = run_path_directories(b"$ORIGIN/../lib:/opt/x::${ORIGIN}", Path::new("/a/bin"));
        let wanted = ["/a/bin/../lib", "/opt/x", "/a/bin"].map(PathBuf::from);
        assert_eq!(found, wanted);
    }
}
