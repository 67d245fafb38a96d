//! What is known of memory while execution is followed.

use rustc_hash::FxHashMap;

/// Memory as far as it is known.
pub(super) trait Memory {
    /// A little-endian value of 1, 2, 4 or 8 bytes.
    fn load(&mut self, at: u64, width: usize) -> Option<u64>;

    /// Stores a value, or something unknown.
    fn store(&mut self, at: u64, width: usize, value: Option<u64>);

    /// Whether a store to an unknown address makes everything else unknown.
    fn is_known(&self) -> bool;
}

/// Nothing is known of it.
pub(super) struct Nothing;

impl Memory for Nothing {
    fn load(&mut self, _: u64, _: usize) -> Option<u64> {
        None
    }

    fn store(&mut self, _: u64, _: usize, _: Option<u64>) {}

    fn is_known(&self) -> bool {
        false
    }
}

const PAGE: usize = 4096;

/// The memory of a process, under what was stored since.
pub(super) struct Overlay<R> {
    read: R,
    pages: FxHashMap<u64, Option<Box<[u8; PAGE]>>>,
    /// By byte; nothing where something unknown was stored.
    stored: FxHashMap<u64, Option<u8>>,
}

impl<R: FnMut(u64, &mut [u8]) -> bool> Overlay<R> {
    pub fn new(read: R) -> Self {
        Self {
            read,
            pages: FxHashMap::default(),
            stored: FxHashMap::default(),
        }
    }

    fn page(&mut self, number: u64) -> Option<&[u8; PAGE]> {
        let read = &mut self.read;
        let page = self.pages.entry(number).or_insert_with(|| {
            let mut bytes = Box::new([0; PAGE]);
            read(number * PAGE as u64, bytes.as_mut_slice()).then_some(bytes)
        });
        page.as_deref()
    }

    fn byte(&mut self, at: u64) -> Option<u8> {
        if !self.stored.is_empty()
            && let Some(stored) = self.stored.get(&at)
        {
            return *stored;
        }
        let page = self.page(at / PAGE as u64)?;
        page.get((at % PAGE as u64) as usize).copied()
    }

    /// Fills a buffer as far as memory is known; gives how far that is.
    pub fn code(&mut self, at: u64, buffer: &mut [u8]) -> usize {
        for (index, byte) in buffer.iter_mut().enumerate() {
            match self.byte(at.wrapping_add(index as u64)) {
                Some(value) => *byte = value,
                None => return index,
            }
        }
        buffer.len()
    }
}

impl<R: FnMut(u64, &mut [u8]) -> bool> Memory for Overlay<R> {
    fn load(&mut self, at: u64, width: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let part = bytes.get_mut(..width)?;
        (self.code(at, part) == width).then_some(u64::from_le_bytes(bytes))
    }

    fn store(&mut self, at: u64, width: usize, value: Option<u64>) {
        for index in 0..width as u64 {
            let byte = value.and_then(|value| value.to_le_bytes().get(index as usize).copied());
            self.stored.insert(at.wrapping_add(index), byte);
        }
    }

    fn is_known(&self) -> bool {
        true
    }
}
