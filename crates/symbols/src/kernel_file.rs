//! The kernel's procedures on disk. Reading them from the kernel takes a tenth of a second of CPU
//! time, and they only change with the kernel and its modules. The addresses of these are read from
//! the kernel each time.

use crate::error::Error;
use crate::kernel::{KernelModule, KernelSymbol, KernelSymbols, read_modules};
use profile::{BuildId, ProcessAddress};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use whole_file::WholeFile;

/// The file; its first line identifies the kernel and modules, its last one is a checksum.
const NAME: &str = "kernel.symbols";
const MAGIC: &str = "vitalfew kernel symbols 1";
/// Maximum number of bytes that are read of it.
const LONGEST: u64 = 64 << 20;
/// Maximum number of lines in which the start of the kernel's text is searched, because it is near
/// the beginning.
const FIRST_LINES: usize = 8192;

/// The running kernel, without its procedures.
struct RunningKernel {
    key: String,
    text: ProcessAddress,
    modules: Vec<KernelModule>,
}

impl RunningKernel {
    fn look() -> Option<Self> {
        let modules = read_modules();
        let mut hasher = crc32fast::Hasher::new();
        let mut by_name: Vec<&KernelModule> = modules.iter().collect();
        by_name.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for KernelModule { name, start, end } in by_name {
            hasher.update(format!("{name} {:x}\n", end.0.wrapping_sub(start.0)).as_bytes());
            // A rebuilt module may have the same name and size.
            let note = fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id"));
            hasher.update(&note.unwrap_or_default());
        }
        Some(Self {
            key: format!(
                "{MAGIC} {} {:x}",
                running_kernel_build_id()?,
                hasher.finalize()
            ),
            text: read_text_start(BufReader::new(File::open("/proc/kallsyms").ok()?))?,
            modules,
        })
    }

    /// Returns the start of each part of the kernel: modules by name, the kernel proper under an
    /// empty name.
    fn part_starts(&self) -> FxHashMap<&str, u64> {
        let modules = self.modules.iter();
        let mut starts: FxHashMap<&str, u64> = modules
            .map(|module| (module.name.as_str(), module.start.0))
            .collect();
        starts.insert("", self.text.0);
        starts
    }

    fn to_text(&self, symbols: &[KernelSymbol]) -> String {
        let starts = self.part_starts();
        let mut text = format!("{}\n", self.key);
        for symbol in symbols {
            let module = symbol.module.as_deref().unwrap_or_default();
            // BPF programs and probes come and go.
            if let Some(base) = starts.get(module) {
                let offset = |address: ProcessAddress| address.0.wrapping_sub(*base);
                let (start, end, name) = (offset(symbol.start), offset(symbol.end), &symbol.name);
                let _ = match module {
                    "" => writeln!(text, "{start:x} {end:x} {name}"),
                    _ => writeln!(text, "{start:x} {end:x} {name} {module}"),
                };
            }
        }
        text
    }

    fn parse(self, text: &str) -> Option<KernelSymbols> {
        let starts = self.part_starts();
        let mut lines = text.lines();
        if lines.next() != Some(&self.key) {
            return None;
        }
        let mut symbols = Vec::new();
        for line in lines {
            let mut fields = line.split(' ');
            let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
            let (start, end) = (number()?, number()?);
            let (name, module) = (fields.next()?, fields.next().unwrap_or_default());
            let base = starts.get(module)?;
            let address = |offset: u64| ProcessAddress(base.wrapping_add(offset));
            symbols.push(KernelSymbol {
                start: address(start),
                end: address(end),
                name: name.to_owned(),
                module: (!module.is_empty()).then(|| module.to_owned()),
            });
        }
        symbols.sort_by_key(|symbol| symbol.start);
        Some(KernelSymbols::without_programs(
            symbols,
            self.modules,
            self.text,
        ))
    }
}

impl KernelSymbols {
    /// Reads the symbols stored in the directory, if they belong to the running kernel and its
    /// modules. Else reads them like [`Self::read_running_kernel`], and stores them there. Stored
    /// symbols lack the kernel's BPF programs: see [`Self::knows`].
    ///
    /// # Errors
    /// As [`Self::read_running_kernel`].
    pub fn read_or_keep(directory: &Path) -> Result<Self, Error> {
        if let Some(kept) = read_kept_symbols(directory) {
            return Ok(kept);
        }
        let read = Self::read_running_kernel()?;
        keep_symbols(directory, &read);
        Ok(read)
    }
}

/// Returns the stored procedures of the running kernel and its modules; `None` if there are none,
/// or those of another kernel.
fn read_kept_symbols(directory: &Path) -> Option<KernelSymbols> {
    let mut text = String::new();
    let file = File::open(directory.join(NAME)).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let (body, checksum) = text.trim_end().rsplit_once('\n')?;
    let sum = crc32fast::hash(body.as_bytes());
    if checksum != format!("{sum:x}") {
        return None;
    }
    RunningKernel::look()?.parse(body)
}

/// Stores procedures of the running kernel. A user who cannot write reads them from the kernel
/// again the next time.
fn keep_symbols(directory: &Path, symbols: &KernelSymbols) {
    let Some(kernel) = RunningKernel::look() else {
        return;
    };
    let text = kernel.to_text(symbols.symbols());
    let body = text.trim_end();
    let write = || {
        fs::create_dir_all(directory)?;
        let mut file = WholeFile::create_private(&directory.join(NAME))?;
        write!(file, "{body}\n{:x}\n", crc32fast::hash(body.as_bytes()))?;
        file.commit_cached()
    };
    let _: std::io::Result<()> = write();
}

/// Returns the start of the kernel's text (`_text`, else `_stext`, which is at the same address),
/// from its list of symbols.
fn read_text_start(kallsyms: impl BufRead) -> Option<ProcessAddress> {
    for line in kallsyms.lines().take(FIRST_LINES) {
        let line = line.ok()?;
        if line.ends_with(" _text") || line.ends_with(" _stext") {
            let (address, _) = line.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            // Hidden from this user.
            return (address != 0).then_some(ProcessAddress(address));
        }
    }
    None
}

/// Returns the build-id of the running kernel, from its notes.
pub fn running_kernel_build_id() -> Option<BuildId> {
    let notes = fs::read("/sys/kernel/notes").ok()?;
    let mut rest = &notes[..];
    let word = |bytes: &[u8], at: usize| -> Option<usize> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    loop {
        let (name_len, len, kind) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
        let name = rest.get(12..12 + name_len)?;
        let start = 12 + name_len.next_multiple_of(4);
        let value = rest.get(start..start + len)?;
        if kind == 3 && name == b"GNU\0" {
            return BuildId::new(value);
        }
        rest = rest.get(start + len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(start: u64, end: u64, name: &str, module: Option<&str>) -> KernelSymbol {
        KernelSymbol {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            name: name.to_owned(),
            module: module.map(str::to_owned),
        }
    }

    fn kernel(key: &str, text: u64, module: u64) -> RunningKernel {
        RunningKernel {
            key: key.to_owned(),
            text: ProcessAddress(text),
            modules: vec![KernelModule {
                name: "ext4".to_owned(),
                start: ProcessAddress(module),
                end: ProcessAddress(module + 0x9000),
            }],
        }
    }

    #[test]
    fn procedures_are_where_the_kernel_and_its_modules_are_now() {
        let symbols = [
            symbol(0x1_0000, 0x1_0040, "start", None),
            symbol(0x1_0040, 0x1_0080, "next", None),
            symbol(0x5_0000, 0x5_0100, "ext4_read", Some("ext4")),
            symbol(0x7_0000, 0x7_0000, "bpf_prog_1", Some("bpf")),
        ];
        let text = kernel("one", 0x1_0000, 0x5_0000).to_text(&symbols);
        let read = kernel("one", 0x3_0000, 0x2_0000).parse(&text).unwrap();
        let wanted = [
            symbol(0x2_0000, 0x2_0100, "ext4_read", Some("ext4")),
            symbol(0x3_0000, 0x3_0040, "start", None),
            symbol(0x3_0040, 0x3_0080, "next", None),
        ];
        assert_eq!(read.symbols(), wanted);
        assert!(read.knows(ProcessAddress(0x3_0010)));
        assert!(!read.knows(ProcessAddress(0x7_0000)));
        assert_eq!(read.text_start(), Some(ProcessAddress(0x3_0000)));
        assert!(kernel("two", 0x3_0000, 0x2_0000).parse(&text).is_none());
    }

    #[test]
    fn the_start_of_the_text_is_among_the_first_symbols() {
        let start = |text: &str| read_text_start(text.as_bytes()).map(|address| address.0);
        assert_eq!(
            start("0 A fixed\nff80 T _stext\nff80 T _text\n"),
            Some(0xff80)
        );
        assert_eq!(start("0 T _stext\n0 T _text\n"), None);
        assert_eq!(start("ff80 T start\n"), None);
    }

    /// On this machine, each procedure has the same name in the stored symbols, or is known to be
    /// missing there.
    #[test]
    fn what_is_kept_is_what_the_kernel_says() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read_kept_symbols(directory.path()).is_none());
        let Ok(read) = KernelSymbols::read_running_kernel() else {
            return; // hidden from this user
        };
        keep_symbols(directory.path(), &read);
        let Some(kept) = read_kept_symbols(directory.path()) else {
            assert!(RunningKernel::look().is_none());
            return;
        };
        for symbol in read.symbols() {
            let same = kept.find(symbol.start) == Some(symbol);
            assert!(same || !kept.knows(symbol.start), "{symbol:?}");
        }
        let own = read.symbols().iter().filter(|s| s.module.is_none());
        assert!(
            own.clone()
                .all(|symbol| kept.find(symbol.start) == Some(symbol))
        );
        let path = directory.path().join(NAME);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(read_kept_symbols(directory.path()).is_none());
    }
}
