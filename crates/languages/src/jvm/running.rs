//! A running JVM's description of its code and its methods.

use super::code_cache::{CODE_STRUCTURES, CodeCache};
use super::method_layout::{METHOD_STRUCTURES, MethodLayout};
use super::tables::{JvmMemory, PublishedStructures};
use crate::ElfImage;

/// Layout of a JVM, read after its code is in place.
#[derive(Clone, Debug)]
pub struct JvmDescription {
    /// Its heaps of code.
    pub cache: CodeCache,
    /// Layout of its methods, for their names; `None` if unknown.
    pub methods: Option<MethodLayout>,
}

impl JvmDescription {
    /// Reads the description. `base` is the load bias of its library `image`. `None` if the JVM
    /// does not publish its code, or has not started yet.
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
