//! Tables of its structures that HotSpot publishes for debuggers: fields (`gHotSpotVMStructs`),
//! with their offsets or addresses, and the sizes of types.

use std::collections::HashMap;

/// Maximum number of entries in a table of the JVM: JDK 25 has 3,600.
const MOST_ENTRIES: u64 = 20_000;
/// Length of the longest name of a structure or a field that is read.
const LONGEST_NAME: usize = 64;
/// Number of entries read at once from a table of unknown length.
const PIECE: u64 = 256;

/// A field of one of the JVM's structures.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Its type in C++.
    pub kind: String,
    /// Its offset; for a static field, its address.
    pub place: u64,
}

/// The memory of a process with a JVM.
pub struct JvmMemory<'a> {
    /// Fills a buffer with the bytes at an address; returns false if they are unmapped.
    pub read: &'a dyn Fn(u64, &mut [u8]) -> bool,
}

impl JvmMemory<'_> {
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read)(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }

    pub(super) fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.read)(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    pub(super) fn small(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        (self.read)(address, &mut bytes).then(|| u16::from_ne_bytes(bytes))
    }

    /// Returns at most `most` bytes from `start` on, up to the part after which they are `enough`,
    /// or as far as they can be read.
    pub(super) fn bytes_up_to(
        &self,
        start: u64,
        most: usize,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let Some(at) = start.checked_add(bytes.len() as u64) else {
                break;
            };
            // Up to the end of a page, because the next one may be unmapped.
            let length = (PIECE - at % PIECE) as usize;
            let mut piece = vec![0; length.min(most - bytes.len())];
            if !(self.read)(at, &mut piece) {
                break;
            }
            bytes.extend(&piece);
            if is_enough(&piece) {
                break;
            }
        }
        bytes
    }

    /// Reads a text that ends with a zero. It may be at the end of the mapped memory.
    pub(super) fn text(&self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST_NAME {
            let mut piece = [0; 8];
            (self.read)(address.checked_add(bytes.len() as u64)?, &mut piece).then_some(())?;
            match piece.iter().position(|byte| *byte == 0) {
                None => bytes.extend(piece),
                Some(end) => {
                    bytes.extend(piece.get(..end)?);
                    break;
                }
            }
        }
        String::from_utf8(bytes).ok()
    }
}

/// The tables of a JVM's structures.
struct Tables<'a> {
    memory: &'a JvmMemory<'a>,
    /// The values of the exported symbols with the layout of entries.
    symbol: &'a dyn Fn(&str) -> Option<u64>,
}

impl Tables<'_> {
    fn value(&self, symbol: &str) -> Option<u64> {
        self.memory.word((self.symbol)(symbol)?)
    }

    /// Calls a function for each entry of a table, which ends with an entry without a name.
    fn each_entry(
        &self,
        table: &str,
        entry: &str,
        name: &str,
        mut each: impl FnMut(u64, String),
    ) -> Option<()> {
        let stride = self.value(&format!("{entry}ArrayStride"))?;
        let name = self.value(&format!("{entry}{name}Offset"))?;
        let start = self.value(table)?;
        for number in 0..MOST_ENTRIES {
            let at = start.checked_add(number.checked_mul(stride)?)?;
            match self.memory.word(at.checked_add(name)?)? {
                0 => break,
                text => each(at, self.memory.text(text).unwrap_or_default()),
            }
        }
        Some(())
    }

    /// Returns the fields of these structures, by structure and name.
    fn fields(&self, structures: &[&str]) -> Option<HashMap<(String, String), Field>> {
        let entry = "gHotSpotVMStructEntry";
        let offset_of = |part: &str| self.value(&format!("{entry}{part}Offset"));
        let (name, kind) = (offset_of("FieldName")?, offset_of("TypeString")?);
        let (is_static, offset) = (offset_of("IsStatic")?, offset_of("Offset")?);
        let address = offset_of("Address")?;
        let mut fields = HashMap::new();
        self.each_entry("gHotSpotVMStructs", entry, "TypeName", |at, structure| {
            if !structures.contains(&structure.as_str()) {
                return;
            }
            let text = |part| self.memory.text(self.memory.word(at.wrapping_add(part))?);
            let found = || {
                let place = match self.memory.half(at.wrapping_add(is_static))? {
                    0 => offset,
                    _ => address,
                };
                let place = self.memory.word(at.wrapping_add(place))?;
                let kind = text(kind)?;
                Some((text(name)?, Field { kind, place }))
            };
            if let Some((name, field)) = found() {
                fields.insert((structure, name), field);
            }
        })?;
        Some(fields)
    }

    /// Returns the sizes of these structures in bytes.
    fn sizes(&self, structures: &[&str]) -> Option<HashMap<String, u64>> {
        let entry = "gHotSpotVMTypeEntry";
        let size = self.value(&format!("{entry}SizeOffset"))?;
        let mut sizes = HashMap::new();
        self.each_entry("gHotSpotVMTypes", entry, "TypeName", |at, name| {
            if structures.contains(&name.as_str())
                && let Some(size) = self.memory.word(at.wrapping_add(size))
            {
                sizes.insert(name, size);
            }
        })?;
        Some(sizes)
    }
}

/// Published fields and sizes of some structures of a JVM.
pub(super) struct PublishedStructures {
    fields: HashMap<(String, String), Field>,
    sizes: HashMap<String, u64>,
}

impl PublishedStructures {
    /// Reads the tables of a JVM, each once, for these structures; `symbol` returns the values of
    /// exported symbols.
    pub fn read(
        memory: &JvmMemory<'_>,
        symbol: &dyn Fn(&str) -> Option<u64>,
        structures: &[&str],
    ) -> Option<Self> {
        let tables = Tables { memory, symbol };
        Some(Self {
            fields: tables.fields(structures)?,
            sizes: tables.sizes(structures)?,
        })
    }

    /// Returns a field, if this JVM has it.
    pub fn field(&self, structure: &str, name: &str) -> Option<&Field> {
        self.fields.get(&(structure.to_owned(), name.to_owned()))
    }

    /// Returns the offset of a field; for a static field, its address.
    pub fn place(&self, structure: &str, name: &str) -> Option<u64> {
        Some(self.field(structure, name)?.place)
    }

    /// Returns the size of a structure in bytes.
    pub fn size_of(&self, structure: &str) -> Option<u64> {
        self.sizes.get(structure).copied()
    }
}
