//! Names of code without a file: of the kernel and of generated code.

use profile::{EmbeddedSymbol, ImageId, ImageOffset};
use rustc_hash::FxHashMap;

/// The largest `/tmp/perf-PID.map` that is read, in bytes.
const LARGEST_PERF_MAP: u64 = 256 << 20;

/// Returns the symbols in a process's list of its generated code.
pub(super) fn perf_map(path: &str, image: ImageId) -> Option<Vec<EmbeddedSymbol>> {
    if std::fs::metadata(path).ok()?.len() > LARGEST_PERF_MAP {
        return None;
    }
    let text = std::fs::read(path).ok()?;
    let (symbols, _) = symbols::parse_perf_map(&String::from_utf8_lossy(&text));
    let symbol = |symbol: symbols::ProcessSymbol| EmbeddedSymbol {
        image,
        start: ImageOffset(symbol.start.0),
        end: ImageOffset(symbol.end.0),
        name: symbol.name,
    };
    Some(symbols.into_iter().map(symbol).collect())
}

/// Returns the symbols of the running kernel, if the file is from the same one.
pub(super) fn running_kernel(
    build_ids: &FxHashMap<String, Vec<u8>>,
) -> Result<symbols::KernelSymbols, String> {
    let recorded = build_ids.get("[kernel.kallsyms]");
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    // The build-id is in one of the notes; nothing else there has these 20 bytes.
    if !recorded.is_some_and(|id| !id.is_empty() && notes.windows(id.len()).any(|w| w == *id)) {
        return Err("the profile is of another kernel than the one that runs here".to_owned());
    }
    symbols::KernelSymbols::read_running_kernel().map_err(|error| error.to_string())
}

/// Returns the symbols of the kernel proper or of one module.
pub(super) fn kernel_symbols(
    kernel: &symbols::KernelSymbols,
    image: ImageId,
    path: &str,
) -> Vec<EmbeddedSymbol> {
    let name = path.trim_matches(['[', ']']);
    let module = (name != "kernel").then_some(name);
    let start = match module {
        None => kernel.text_start(),
        Some(name) => {
            let same =
                |m: &&symbols::KernelModule| m.name.replace('-', "_") == name.replace('-', "_");
            kernel.modules().iter().find(same).map(|m| m.start)
        }
    };
    let Some(start) = start else {
        return Vec::new();
    };
    let of_image = |s: &&symbols::KernelSymbol| {
        s.module.as_deref().map(|m| m.replace('-', "_")) == module.map(|m| m.replace('-', "_"))
            && s.start >= start
    };
    let symbol = |s: &symbols::KernelSymbol| EmbeddedSymbol {
        image,
        start: ImageOffset(s.start.0 - start.0),
        end: ImageOffset(s.end.0.saturating_sub(start.0)),
        name: s.name.clone(),
    };
    kernel
        .symbols()
        .iter()
        .filter(of_image)
        .map(symbol)
        .collect()
}
