//! Symbols of the running kernel, its modules and its BPF programs.

use crate::error::Error;
use profile::ProcessAddress;
use std::path::Path;

/// A procedure of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// First byte.
    pub start: ProcessAddress,
    /// First byte after it; equal to `start` if unknown.
    pub end: ProcessAddress,
    /// Its name.
    pub name: String,
    /// Its module, as in `/proc/kallsyms` (`bpf` for BPF programs); `None` for the kernel proper.
    pub module: Option<String>,
}

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    /// Its name.
    pub name: String,
    /// Load address.
    pub start: ProcessAddress,
    /// First byte after it.
    pub end: ProcessAddress,
}

/// The symbols of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSymbols {
    symbols: Vec<KernelSymbol>,
    modules: Vec<KernelModule>,
    text: Option<ProcessAddress>,
    /// True if BPF programs and probes are missing.
    lacks_programs: bool,
}

struct KallsymsLine<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    module: Option<&'a str>,
}

impl KernelSymbols {
    /// Reads `/proc/kallsyms` and `/proc/modules`.
    ///
    /// # Errors
    /// If they cannot be read, or the kernel hides its addresses from this user
    /// ([`Error::KernelAddressesHidden`]).
    pub fn read_running_kernel() -> Result<Self, Error> {
        let path = Path::new("/proc/kallsyms");
        let kallsyms = std::fs::read_to_string(path).map_err(Error::wrap_io(path))?;
        Self::parse(&kallsyms, &modules_text())
    }

    /// Makes symbols of stored procedures, by address, for a kernel and modules at their current
    /// addresses.
    pub(crate) fn without_programs(
        symbols: Vec<KernelSymbol>,
        modules: Vec<KernelModule>,
        text: ProcessAddress,
    ) -> Self {
        Self {
            symbols,
            modules,
            text: Some(text),
            lacks_programs: true,
        }
    }

    /// Returns whether [`Self::find`] returns the symbol at an address that
    /// [`Self::read_running_kernel`] would.
    pub fn knows(&self, address: ProcessAddress) -> bool {
        let has_end = |symbol: &KernelSymbol| symbol.start != symbol.end;
        !self.lacks_programs || self.find(address).is_some_and(has_end)
    }

    /// Reads the addresses of the kernel and its modules without names, in a hundredth of the
    /// memory.
    ///
    /// # Errors
    /// As [`KernelSymbols::read_running_kernel`].
    pub fn read_layout() -> Result<Self, Error> {
        use std::io::{BufRead, BufReader};
        let path = Path::new("/proc/kallsyms");
        let kallsyms = std::fs::File::open(path).map_err(Error::wrap_io(path))?;
        let mut kept = String::new();
        for line in BufReader::new(kallsyms).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(Error::wrap_io(path))?).into_owned();
            if line.ends_with(" _text") || line.ends_with(" _stext") {
                kept.push_str(&line);
                kept.push('\n');
            }
        }
        let mut layout = Self::parse(&kept, &modules_text())?;
        layout.symbols.clear();
        Ok(layout)
    }

    /// Parses the text of `/proc/kallsyms` and of `/proc/modules` (empty if there is none).
    ///
    /// # Errors
    /// [`Error::KernelAddressesHidden`] if every address is zero; [`Error::Line`] for a malformed
    /// line.
    pub fn parse(kallsyms: &str, modules: &str) -> Result<Self, Error> {
        let path = Path::new("/proc/kallsyms");
        let mut lines = each_line(path, kallsyms, symbol_line)?;
        if lines.iter().all(|line| line.address == 0) {
            return Err(Error::KernelAddressesHidden {
                path: path.to_owned(),
            });
        }
        let modules = parse_modules(modules)?;
        let at = |name: &str| {
            let mut own = lines.iter().filter(|line| line.module.is_none());
            own.find(|line| line.name == name)
                .map(|line| ProcessAddress(line.address))
        };
        let text = at("_text").or_else(|| at("_stext"));
        // Code before data at one address: the text ends where the data starts.
        lines.sort_by_key(|line| (line.address, !line.is_code()));
        Ok(Self {
            symbols: procedures_of_lines(&lines, &modules),
            modules,
            text,
            lacks_programs: false,
        })
    }

    /// Returns the procedures by address.
    pub fn symbols(&self) -> &[KernelSymbol] {
        &self.symbols
    }

    /// Returns the modules by address.
    pub fn modules(&self) -> &[KernelModule] {
        &self.modules
    }

    /// Returns the start of the kernel's text (`_text`).
    pub fn text_start(&self) -> Option<ProcessAddress> {
        self.text
    }

    /// Returns the procedure at an address.
    pub fn find(&self, address: ProcessAddress) -> Option<&KernelSymbol> {
        let index = self
            .symbols
            .partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols.get(index.checked_sub(1)?)?;
        (symbol.end == symbol.start || address < symbol.end).then_some(symbol)
    }

    /// Returns the module that is loaded at an address.
    pub fn module_at(&self, address: ProcessAddress) -> Option<&KernelModule> {
        module_at(&self.modules, address.0)
    }
}

/// Returns the text of `/proc/modules`, which a kernel without loadable modules lacks.
fn modules_text() -> String {
    std::fs::read_to_string("/proc/modules").unwrap_or_default()
}

/// Reads the modules of the running kernel, by address; none if they are hidden from this user.
pub(crate) fn read_modules() -> Vec<KernelModule> {
    parse_modules(&modules_text()).unwrap_or_default()
}

fn parse_modules(text: &str) -> Result<Vec<KernelModule>, Error> {
    let mut modules = each_line(Path::new("/proc/modules"), text, module_line)?;
    modules.retain(|module| module.start.0 != 0);
    modules.sort_by_key(|module| module.start);
    Ok(modules)
}

impl KallsymsLine<'_> {
    fn is_code(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }

    /// Ranks the names of one address: global ones first, then those with few underscores.
    fn name_rank(&self) -> (bool, usize) {
        let underscores = self.name.bytes().take_while(|byte| *byte == b'_').count();
        (self.kind.is_ascii_lowercase(), underscores)
    }
}

fn module_at(modules: &[KernelModule], address: u64) -> Option<&KernelModule> {
    let index = modules.partition_point(|module| module.start.0 <= address);
    let module = modules.get(index.checked_sub(1)?)?;
    (address < module.end.0).then_some(module)
}

/// Returns the procedures of sorted lines. Each extends to the next symbol of any type, or to the
/// end of its module.
fn procedures_of_lines(lines: &[KallsymsLine<'_>], modules: &[KernelModule]) -> Vec<KernelSymbol> {
    let mut symbols = Vec::new();
    let mut groups = lines.chunk_by(|a, b| a.address == b.address).peekable();
    while let Some(group) = groups.next() {
        let next = groups.peek().and_then(|group| group.first());
        // Linker markers (`_etext`) are at the ends of ranges and name nothing.
        let named = group
            .iter()
            .filter(|line| line.is_code() && line.address != 0);
        let Some(best) = named.min_by_key(|line| line.name_rank()) else {
            continue;
        };
        if matches!(best.name, "_etext" | "_einittext") {
            continue;
        }
        let start = best.address;
        let next = next
            .filter(|next| next.module == best.module)
            .map(|next| next.address);
        let module = module_at(modules, start).map(|module| module.end.0);
        let end = match (next, module) {
            (Some(next), Some(module)) => next.min(module),
            (next, module) => next.or(module).unwrap_or(start),
        };
        symbols.push(KernelSymbol {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            name: best.name.to_owned(),
            module: best.module.map(str::to_owned),
        });
    }
    symbols
}

/// Parses `ADDRESS TYPE NAME[\t[MODULE]]`.
fn symbol_line(line: &str) -> Result<KallsymsLine<'_>, &'static str> {
    let (address, rest) = line.split_once(' ').ok_or("no address")?;
    let (kind, rest) = rest.split_once(' ').ok_or("no type")?;
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => {
            let module = module
                .trim()
                .strip_prefix('[')
                .and_then(|m| m.strip_suffix(']'));
            (name, Some(module.ok_or("no module in brackets")?))
        }
        None => (rest, None),
    };
    let name = name.trim_end();
    match kind.as_bytes() {
        [kind] if !name.is_empty() => Ok(KallsymsLine {
            address: u64::from_str_radix(address, 16).map_err(|_| "not a hexadecimal address")?,
            kind: *kind,
            name,
            module,
        }),
        _ => Err("not ADDRESS TYPE NAME"),
    }
}

/// Parses `NAME SIZE REFERENCES USERS STATE ADDRESS [TAINT]`.
fn module_line(line: &str) -> Result<KernelModule, &'static str> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next().ok_or("no name")?;
    let size = fields.next().and_then(|size| size.parse().ok());
    let size: u64 = size.ok_or("not a size in bytes")?;
    let start = fields.nth(3).and_then(|address| address.strip_prefix("0x"));
    let start = start.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let start = start.ok_or("not an address")?;
    Ok(KernelModule {
        name: name.to_owned(),
        start: ProcessAddress(start),
        end: ProcessAddress(start.saturating_add(size)),
    })
}

fn each_line<'t, T>(
    path: &Path,
    text: &'t str,
    parse: impl Fn(&'t str) -> Result<T, &'static str>,
) -> Result<Vec<T>, Error> {
    let mut parsed = Vec::new();
    let mut offset = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let trimmed = line.trim_end();
        if !trimmed.is_empty() {
            parsed.push(parse(trimmed).map_err(|reason| Error::Line {
                path: path.to_owned(),
                line: number,
                offset,
                reason,
            })?);
        }
        offset += line.len() as u64;
    }
    Ok(parsed)
}
