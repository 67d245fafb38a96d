//! Description that a running JVM gives of its code and its methods.

use super::code_cache::{CODE_STRUCTURES, CodeCache};
use super::method_layout::{METHOD_STRUCTURES, MethodLayout};
use super::tables::{JvmMemory, PublishedStructures};
use crate::ElfImage;

/// Layout of a JVM, read once its code is in place.
#[derive(Clone, Debug)]
pub struct JvmDescription {
    /// Its heaps of code.
    pub cache: CodeCache,
    /// Layout of its methods, by which they are named; `None` if it is not known.
    pub methods: Option<MethodLayout>,
}

impl JvmDescription {
    /// Reads the description. `base` is the load bias of its library `image`. `None` if the JVM does not say where its code
    /// is, or has not begun yet.
    pub fn read<'data, R: object::ReadRef<'data>>(
        image: &ElfImage<'data, R>,
        base: u64,
        memory: &JvmMemory<'_>,
    ) -> Option<Self> {
        let symbol = |name: &str| Some(image.exported_symbol(name)?.0.wrapping_add(base));
        let structures = [&CODE_STRUCTURES[..], &METHOD_STRUCTURES].concat();
        let published = PublishedStructures::read(memory, &symbol, &structures)?;
        Some(Self {
            cache: CodeCache::read(&published, memory)?,
            methods: MethodLayout::read(&published, memory),
        })
    }
}
