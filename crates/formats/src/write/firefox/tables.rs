//! The tables shared by all threads of a profile. Each is kept by rows and written by columns, as
//! the format demands.

use crate::frame::{Namer, base_name, is_kernel};
use crate::write::paths::StackPaths;
use indexmap::IndexSet;
use profile::{Image, ImageId, ImageKind, ImageOffset, Location, Recording};
use rustc_hash::FxBuildHasher;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::iter::repeat_n;

type Set<T> = IndexSet<T, FxBuildHasher>;

/// The type of a resource that is a library.
const LIBRARY: u32 = 1;
/// "No address", "no resource".
const NONE: i64 = -1;
/// Position of a source without a known start: the first line and column, as in the format's own
/// upgrader.
const FIRST: u32 = 1;

#[derive(PartialEq, Eq, Hash)]
struct FirefoxFrame {
    address: i64,
    inline_depth: usize,
    category: u32,
    func: usize,
    native_symbol: Option<usize>,
    line: Option<u32>,
}

#[derive(PartialEq, Eq, Hash)]
struct Func {
    name: usize,
    resource: i64,
    source: Option<usize>,
}

#[derive(PartialEq, Eq, Hash)]
struct NativeSymbol {
    lib: usize,
    address: i64,
    name: usize,
    size: Option<u64>,
}

/// Strings, source files, frames, functions and symbols; indexes count in order of insertion.
pub(super) struct FirefoxTables<'a> {
    recording: &'a Recording,
    namer: Namer<'a>,
    strings: Set<Cow<'a, str>>,
    /// Sources by the string of the file's name.
    sources: Set<usize>,
    frames: Set<FirefoxFrame>,
    funcs: Set<Func>,
    native_symbols: Set<NativeSymbol>,
    /// The images that have a name; the resource of a library has the library's index.
    libs: Set<ImageId>,
}

impl<'a> FirefoxTables<'a> {
    pub fn new(recording: &'a Recording, namer: Namer<'a>) -> Self {
        Self {
            recording,
            namer,
            strings: Set::default(),
            sources: Set::default(),
            frames: Set::default(),
            funcs: Set::default(),
            native_symbols: Set::default(),
            libs: Set::default(),
        }
    }

    /// Appends the indexes of the frames at a location, innermost first.
    pub fn frame_indices(&mut self, location: Location, numbers: &mut Vec<usize>) {
        let image = self.recording.image(location.image);
        let named = image.kind != ImageKind::Unknown;
        let lib = named.then(|| self.libs.insert_full(location.image).0);
        let address = relative_address(location.offset).filter(|_| lib.is_some());
        let native_symbol = self.native_symbol(location, lib);
        let depths = self.namer.functions_at(location).count();
        for (index, function) in self.namer.functions_at(location).enumerate() {
            let name = self.string_index(function.name);
            let file = function.file.map(|file| self.string_index(file));
            let source = file.map(|file| self.sources.insert_full(file).0);
            let func = Func {
                name,
                resource: lib.map_or(NONE, |lib| lib as i64),
                source,
            };
            let frame = FirefoxFrame {
                address: address.unwrap_or(NONE),
                // Counted from the outermost function, the one that was not inlined.
                inline_depth: depths - 1 - index,
                category: if is_kernel(image) { 2 } else { 1 },
                func: self.funcs.insert_full(func).0,
                native_symbol: native_symbol.filter(|_| address.is_some()),
                line: function.line,
            };
            numbers.push(self.frames.insert_full(frame).0);
        }
    }

    fn native_symbol(&mut self, location: Location, lib: Option<usize>) -> Option<usize> {
        let procedure = self.namer.procedure_at(location)?;
        let symbol = NativeSymbol {
            lib: lib?,
            address: relative_address(procedure.start)?,
            name: self.string_index(&*procedure.name),
            size: Some(procedure.size).filter(|size| *size > 0),
        };
        Some(self.native_symbols.insert_full(symbol).0)
    }

    fn string_index(&mut self, text: impl Into<Cow<'a, str>>) -> usize {
        self.strings.insert_full(text.into()).0
    }

    /// Returns the libraries, once all frames are known.
    pub fn iter_libs(&self) -> impl Iterator<Item = FirefoxLib<'a>> {
        let arch = self.recording.host.machine.as_str();
        self.libs
            .iter()
            .map(move |id| FirefoxLib::new(self.recording.image(*id), arch))
    }

    /// Names the resources, after which the tables are complete.
    pub fn shared_tables<'t>(&'t mut self, paths: &StackPaths) -> FirefoxShared<'t, 'a> {
        let recording = self.recording;
        let libs: Vec<ImageId> = self.libs.iter().copied().collect();
        let resources = libs
            .iter()
            .map(|id| self.string_index(base_name(recording.image(*id))))
            .collect();
        FirefoxShared::new(self, paths, resources)
    }
}

/// Returns a library-relative address. The format has 32 bits; larger offsets are addresses of a
/// process, not file positions.
fn relative_address(offset: ImageOffset) -> Option<i64> {
    i32::try_from(offset.0).ok().map(Into::into)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirefoxLib<'a> {
    arch: &'a str,
    name: &'a str,
    path: &'a str,
    debug_name: &'a str,
    debug_path: &'a str,
    breakpad_id: String,
    code_id: Option<String>,
}

impl<'a> FirefoxLib<'a> {
    fn new(image: &'a Image, arch: &'a str) -> Self {
        let name = base_name(image);
        let build_id = image.build_id.as_ref();
        Self {
            arch,
            name,
            path: &image.path,
            debug_name: name,
            debug_path: &image.path,
            breakpad_id: breakpad_id(build_id.map_or(&[], |id| id.as_bytes())),
            code_id: build_id.map(ToString::to_string),
        }
    }
}

/// Returns the identifier that Breakpad makes of a build-id: its first 16 bytes as a GUID, whose
/// first three parts are little-endian numbers, and the age 0.
fn breakpad_id(build_id: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte = |at: usize| build_id.get(at).copied().unwrap_or(0);
    let guid: String = ORDER
        .iter()
        .map(|at| format!("{:02X}", byte(*at)))
        .collect();
    guid + "0"
}

/// The `shared` object of the profile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirefoxShared<'t, 'a> {
    string_array: &'t Set<Cow<'a, str>>,
    sources: SourceTable<'t>,
    stack_table: FirefoxStackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    native_symbols: NativeSymbolTable,
}

/// A column with the same value in all rows.
struct Same<T>(T, usize);

impl<T: Serialize> Serialize for Same<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(repeat_n(&self.0, self.1))
    }
}

/// A column without values.
type Empty = Same<()>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceTable<'t> {
    length: usize,
    id: Empty,
    filename: &'t Set<usize>,
    start_line: Same<u32>,
    start_column: Same<u32>,
    #[serde(rename = "sourceMapURL")]
    source_map_url: Empty,
}

#[derive(Serialize)]
struct FirefoxStackTable {
    length: usize,
    prefix: Vec<Option<usize>>,
    frame: Vec<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    length: usize,
    address: Vec<i64>,
    inline_depth: Vec<usize>,
    category: Vec<u32>,
    subcategory: Same<u32>,
    func: Vec<usize>,
    native_symbol: Vec<Option<usize>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Same<u32>,
    line: Vec<Option<u32>>,
    column: Empty,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    length: usize,
    name: Vec<usize>,
    #[serde(rename = "isJS")]
    is_js: Same<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Same<bool>,
    resource: Vec<i64>,
    source: Vec<Option<usize>>,
    line_number: Empty,
    column_number: Empty,
}

#[derive(Serialize)]
struct ResourceTable {
    length: usize,
    lib: Vec<usize>,
    name: Vec<usize>,
    host: Empty,
    r#type: Same<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSymbolTable {
    length: usize,
    lib_index: Vec<usize>,
    address: Vec<i64>,
    name: Vec<usize>,
    function_size: Vec<Option<u64>>,
}

impl<'t, 'a> FirefoxShared<'t, 'a> {
    fn new(tables: &'t FirefoxTables<'a>, paths: &StackPaths, resources: Vec<usize>) -> Self {
        let (sources, stacks) = (tables.sources.len(), paths.iter_nodes().len());
        let (prefix, frame) = paths.iter_nodes().unzip();
        Self {
            string_array: &tables.strings,
            sources: SourceTable {
                length: sources,
                id: Same((), sources),
                filename: &tables.sources,
                start_line: Same(FIRST, sources),
                start_column: Same(FIRST, sources),
                source_map_url: Same((), sources),
            },
            stack_table: FirefoxStackTable {
                length: stacks,
                prefix,
                frame,
            },
            frame_table: FrameTable::new(&tables.frames),
            func_table: FuncTable::new(&tables.funcs),
            resource_table: ResourceTable {
                length: resources.len(),
                lib: (0..resources.len()).collect(),
                host: Same((), resources.len()),
                r#type: Same(LIBRARY, resources.len()),
                name: resources,
            },
            native_symbols: NativeSymbolTable::new(&tables.native_symbols),
        }
    }
}

impl FrameTable {
    fn new(rows: &Set<FirefoxFrame>) -> Self {
        Self {
            length: rows.len(),
            address: rows.iter().map(|r| r.address).collect(),
            inline_depth: rows.iter().map(|r| r.inline_depth).collect(),
            category: rows.iter().map(|r| r.category).collect(),
            subcategory: Same(0, rows.len()),
            func: rows.iter().map(|r| r.func).collect(),
            native_symbol: rows.iter().map(|r| r.native_symbol).collect(),
            inner_window_id: Same(0, rows.len()),
            line: rows.iter().map(|r| r.line).collect(),
            column: Same((), rows.len()),
        }
    }
}

impl FuncTable {
    fn new(rows: &Set<Func>) -> Self {
        Self {
            length: rows.len(),
            name: rows.iter().map(|r| r.name).collect(),
            is_js: Same(false, rows.len()),
            relevant_for_js: Same(false, rows.len()),
            resource: rows.iter().map(|r| r.resource).collect(),
            source: rows.iter().map(|r| r.source).collect(),
            line_number: Same((), rows.len()),
            column_number: Same((), rows.len()),
        }
    }
}

impl NativeSymbolTable {
    fn new(rows: &Set<NativeSymbol>) -> Self {
        Self {
            length: rows.len(),
            lib_index: rows.iter().map(|r| r.lib).collect(),
            address: rows.iter().map(|r| r.address).collect(),
            name: rows.iter().map(|r| r.name).collect(),
            function_size: rows.iter().map(|r| r.size).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpad_ids_swap_the_first_three_parts() {
        let id: Vec<u8> = (1..=20).collect();
        assert_eq!(breakpad_id(&id), "0403020106050807090A0B0C0D0E0F100");
        assert_eq!(breakpad_id(&[0xab]), "000000AB0000000000000000000000000");
        assert_eq!(breakpad_id(&[]).len(), 33);
    }
}
