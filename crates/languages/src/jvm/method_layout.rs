//! Layout of HotSpot's structures with the names, lines and inlined calls of methods.

use super::tables::{JvmMemory, PublishedStructures};

/// Versions whose forms below were tested, or are in the sources.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=25;
/// First version in which bytes of packed numbers are never 0.
const NO_ZERO_BYTES: u32 = 20;
/// Bytes of an entry in a table of places.
const PLACE: u64 = 16;

/// Offsets of fields in HotSpot's structures, in bytes. JDK 11, 17, 21 and 25 publish all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodLayout {
    /// Number that is subtracted from each byte of a packed number.
    pub(super) packed_excess: u8,
    /// Offset of the constant part in a method.
    pub(super) method_constant: u64,
    /// Offsets in the constant part: the constants of its class, flags, size of the code in bytes,
    /// name, and start of the code.
    pub(super) constants: u64,
    pub(super) flags: u64,
    pub(super) code_size: u64,
    pub(super) name: u64,
    pub(super) code: u64,
    /// Offsets in the constants: their class, their number, and the first one.
    pub(super) holder: u64,
    pub(super) constants_length: u64,
    pub(super) first_constant: u64,
    pub(super) source: SourceIndex,
    /// Offset of the name in a class.
    pub(super) class_name: u64,
    /// Offsets in a symbol: the length of its text, and the text.
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
    /// Layout of a code blob.
    pub(super) piece: PieceLayout,
}

/// Place of the number of the constant with the source file's name: an offset in the constants, or
/// in the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceIndex {
    OfConstants(u64),
    OfClass(u64),
}

/// Offsets of the fields of a code blob, from the start of its structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PieceLayout {
    /// Offset of the structure in the block.
    pub structure: u64,
    pub name: u64,
    /// Fields of a compiled method: the method, and the number of the compilation.
    pub method: u64,
    pub compile_id: u64,
    pub tables: CodeTables,
}

/// Offsets of the tables of a compiled method: its places, their scopes, and the methods that the
/// scopes name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CodeTables {
    /// Tables in the structure, after the code: offsets of tables, and one address.
    Within {
        places: u64,
        places_end: u64,
        scopes: u64,
        methods: u64,
    },
    /// Tables in separate memory.
    Apart {
        unchanging: u64,
        unchanging_size: u64,
        places: u64,
        scopes: u64,
        changing: u64,
        changing_size: u64,
        relocations: u64,
    },
}

/// The JVM's structures with the layout of methods.
pub(super) const METHOD_STRUCTURES: [&str; 12] = [
    "Abstract_VM_Version",
    "CodeBlob",
    "CompiledMethod",
    "ConstMethod",
    "ConstantPool",
    "HeapBlock",
    "InstanceKlass",
    "Klass",
    "Method",
    "PcDesc",
    "Symbol",
    "nmethod",
];

impl MethodLayout {
    /// Returns the offsets to read at a sample: the constant part of a method, and, of a block, the
    /// method and the number of its compilation.
    pub fn seen_offsets(&self) -> Option<[u16; 3]> {
        let of_block = |offset: u64| u16::try_from(self.piece.structure + offset).ok();
        Some([
            u16::try_from(self.method_constant).ok()?,
            of_block(self.piece.method)?,
            of_block(self.piece.compile_id)?,
        ])
    }

    /// Reads the layout of a running JVM. `None` if it does not publish it, or in an unknown form.
    pub(super) fn read(published: &PublishedStructures, memory: &JvmMemory<'_>) -> Option<Self> {
        let place = |structure: &str, name: &str| near(published.place(structure, name)?);
        let size = |structure: &str| near(published.size_of(structure)?);
        let version = published.place("Abstract_VM_Version", "_vm_major_version")?;
        let version = memory.half(version)?;
        if !VERSIONS.contains(&version) || size("PcDesc")? != PLACE {
            return None;
        }
        let flags =
            place("ConstMethod", "_flags").or_else(|| place("ConstMethod", "_flags._flags"));
        let source = match place("ConstantPool", "_source_file_name_index") {
            Some(offset) => SourceIndex::OfConstants(offset),
            None => SourceIndex::OfClass(place("InstanceKlass", "_source_file_name_index")?),
        };
        Some(Self {
            packed_excess: u8::from(version >= NO_ZERO_BYTES),
            method_constant: place("Method", "_constMethod")?,
            constants: place("ConstMethod", "_constants")?,
            flags: flags?,
            code_size: place("ConstMethod", "_code_size")?,
            name: place("ConstMethod", "_name_index")?,
            code: size("ConstMethod")?,
            holder: place("ConstantPool", "_pool_holder")?,
            constants_length: place("ConstantPool", "_length")?,
            first_constant: size("ConstantPool")?,
            source,
            class_name: place("Klass", "_name")?,
            symbol_length: place("Symbol", "_length")?,
            symbol_body: place("Symbol", "_body[0]")?,
            piece: PieceLayout::read(published, size("HeapBlock")?)?,
        })
    }
}

impl PieceLayout {
    fn read(published: &PublishedStructures, structure: u64) -> Option<Self> {
        let place = |structure: &str, name: &str| near(published.place(structure, name)?);
        let of_method = |name: &str| place("nmethod", name);
        let method = of_method("_method").or_else(|| place("CompiledMethod", "_method"));
        let tables = match of_method("_immutable_data") {
            None => CodeTables::Within {
                places: of_method("_scopes_pcs_offset")?,
                places_end: of_method("_dependencies_offset")?,
                scopes: place("CompiledMethod", "_scopes_data_begin")?,
                methods: of_method("_metadata_offset")?,
            },
            Some(unchanging) => CodeTables::Apart {
                unchanging,
                unchanging_size: of_method("_immutable_data_size")?,
                places: of_method("_scopes_pcs_offset")?,
                scopes: of_method("_scopes_data_offset")?,
                changing: place("CodeBlob", "_mutable_data")?,
                changing_size: place("CodeBlob", "_mutable_data_size")?,
                relocations: place("CodeBlob", "_relocation_size")?,
            },
        };
        Some(Self {
            structure,
            name: place("CodeBlob", "_name")?,
            method: method?,
            compile_id: of_method("_compile_id")?,
            tables,
        })
    }
}

/// Returns an offset within a structure.
fn near(offset: u64) -> Option<u64> {
    (offset < 4096).then_some(offset)
}
