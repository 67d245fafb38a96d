//! Cache of methods of a JVM.

use super::method::JavaMethod;
use super::method_layout::MethodLayout;
use super::tables::JvmMemory;
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum size of remembered methods, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// Methods read so far, by address.
#[derive(Default)]
pub(super) struct KnownMethods {
    methods: HashMap<u64, Rc<JavaMethod>>,
    bytes: usize,
}

impl KnownMethods {
    /// Returns the method at an address, with its size in bytes if it had to be read, else 0.
    pub fn find_or_read(
        &mut self,
        layout: &MethodLayout,
        address: u64,
        memory: &JvmMemory<'_>,
    ) -> Option<(Rc<JavaMethod>, usize)> {
        if let Some(method) = self.methods.get(&address) {
            return Some((Rc::clone(method), 0));
        }
        let method = Rc::new(JavaMethod::read(layout, address, memory)?);
        let bytes = method.memory();
        if self.bytes > MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.methods.insert(address, Rc::clone(&method));
        Some((method, bytes))
    }
}
