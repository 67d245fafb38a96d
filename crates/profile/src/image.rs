use serde::{Deserialize, Serialize};
use std::fmt;

/// Index of an [`Image`] in [`crate::Recording::images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImageId(pub u32);

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageKind {
    /// An executable or shared library on disk.
    File,
    /// The kernel itself.
    Kernel,
    /// A loadable kernel module (or other code the kernel lists apart, such as BPF programs).
    KernelModule,
    /// The code page that the kernel maps into every process.
    Vdso,
    /// Code generated at run time that a perf map or jitdump names.
    Jit,
    /// A file in another language whose functions an interpreter executes. The lowest 24 bits of an
    /// offset are the line, and the bits above a number of the function.
    Script,
    /// Executable memory with no file and no name.
    Anonymous,
    /// An unknown image.
    Unknown,
}

/// The kernel's identity of a file, which outlives the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode, which distinguishes a file from a later one with the same number.
    pub generation: u64,
}

/// The build-id of an ELF image (`NT_GNU_BUILD_ID`): equal bytes mean the same program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// The longest build-id that the kernel reports, in bytes.
    pub const MAX_LEN: usize = 20;

    /// Makes a build-id of these bytes; `None` if there are none.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    /// Parses the hexadecimal form; `None` if it is empty, odd or not hexadecimal.
    pub fn from_hex(text: &str) -> Option<Self> {
        if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok())
            .collect();
        Self::new(&bytes?)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

impl Serialize for BuildId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BuildId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not a hexadecimal build-id"))
    }
}

/// Something that contains code with samples.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    /// The kind of image.
    pub kind: ImageKind,
    /// Its path as its process saw it (for a deleted file, without the kernel's ` (deleted)`), or a
    /// name in brackets: `[kernel]`, `[vdso]`, `[jit 1234]`, `[unknown]`.
    pub path: String,
    /// Its build-id, if it has one that could be read.
    pub build_id: Option<BuildId>,
    /// The file it was mapped from.
    pub file: Option<FileIdentity>,
    /// True if, at the end of collection, the path led to no file or to another one.
    pub gone: bool,
}

/// Beginning of the path of a file of which only the number is known.
const NAMELESS: &str = "[inode ";

impl Image {
    /// Returns the substitute for the path of a file of which only the number is known.
    pub fn path_of_number(file: FileIdentity) -> String {
        let FileIdentity {
            major,
            minor,
            inode,
            ..
        } = file;
        format!("{NAMELESS}{major}:{minor}:{inode}]")
    }

    /// Returns whether only the number of its file is known, so that no code in it has a name.
    pub fn is_nameless(&self) -> bool {
        self.kind == ImageKind::File && self.path.starts_with(NAMELESS)
    }

    /// Returns the image for samples in no known image.
    pub fn unknown() -> Self {
        Self {
            kind: ImageKind::Unknown,
            path: "[unknown]".to_owned(),
            build_id: None,
            file: None,
            gone: false,
        }
    }

    /// Returns whether [`crate::ImageOffset`]s of this image count from the start of an ELF file on
    /// disk.
    pub fn is_file(&self) -> bool {
        self.kind == ImageKind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_read_what_they_print() {
        let id = BuildId::new(&[0x00, 0xff, 0x1a]).unwrap();
        assert_eq!(id.to_string(), "00ff1a");
        assert_eq!(BuildId::from_hex("00ff1a"), Some(id));
        for bad in ["", "0", "zz", "é0", "+1"] {
            assert_eq!(BuildId::from_hex(bad), None, "{bad:?}");
        }
    }
}
