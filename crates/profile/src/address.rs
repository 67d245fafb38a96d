use crate::ImageId;
use serde::{Deserialize, Serialize};

/// An address in the address space of a running process, or of the running kernel.
///
/// It has no meaning after the process ends; the process maps turn it into a [`Location`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessAddress(pub u64);

/// An address in the image's own symbol table and debug information (ELF `p_vaddr`, DWARF
/// `DW_AT_low_pc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageAddress(pub u64);

/// A position in an image, in bytes, which stays valid after the process ends.
///
/// Its origin depends on the [`crate::ImageKind`]: the start of the file for
/// [`File`](crate::ImageKind::File) and [`Vdso`](crate::ImageKind::Vdso), the start of the text
/// (`_text`, or the module's load address) for [`Kernel`](crate::ImageKind::Kernel) and
/// [`KernelModule`](crate::ImageKind::KernelModule), and address zero of the process for
/// [`Jit`](crate::ImageKind::Jit), [`Anonymous`](crate::ImageKind::Anonymous) and
/// [`Unknown`](crate::ImageKind::Unknown).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct ImageOffset(pub u64);

/// The position of a sample, in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The image.
    pub image: ImageId,
    /// The position in it.
    pub offset: ImageOffset,
}
