/// A copy of the lowest bytes of a thread's stack.
#[derive(Clone, Copy, Debug)]
pub struct StackMemory<'a> {
    start: u64,
    bytes: &'a [u8],
}

/// Reason why a word of the stack is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The word is after the copied bytes.
    Beyond,
    /// The word is before the copied bytes.
    Below,
}

impl<'a> StackMemory<'a> {
    /// Makes a copy that starts at address `start`, usually the stack pointer's.
    pub fn new(start: u64, bytes: &'a [u8]) -> Self {
        Self { start, bytes }
    }

    /// Returns the `size` bytes (at most 8) at `address` as a little-endian number.
    pub(crate) fn read_value(&self, address: u64, size: u8) -> Result<u64, Missing> {
        let offset = address.checked_sub(self.start).ok_or(Missing::Below)?;
        let offset = usize::try_from(offset).map_err(|_| Missing::Beyond)?;
        let end = offset.checked_add(usize::from(size.min(8)));
        let bytes = end.and_then(|end| self.bytes.get(offset..end));
        let mut word = [0; 8];
        let bytes = bytes.ok_or(Missing::Beyond)?;
        word[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    pub(crate) fn read_word(&self, address: u64) -> Result<u64, Missing> {
        self.read_value(address, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_copied_bytes_are_read() {
        let bytes: Vec<u8> = (1..=12).collect();
        let stack = StackMemory::new(0x1000, &bytes);
        assert_eq!(stack.read_word(0x1000), Ok(0x0807_0605_0403_0201));
        assert_eq!(stack.read_word(0x1004), Ok(0x0c0b_0a09_0807_0605));
        assert_eq!(stack.read_word(0x1005), Err(Missing::Beyond));
        assert_eq!(stack.read_word(0xfff), Err(Missing::Below));
        assert_eq!(stack.read_word(u64::MAX), Err(Missing::Beyond));
        assert_eq!(stack.read_value(0x1002, 2), Ok(0x0403));
        let high = StackMemory::new(u64::MAX - 3, &bytes);
        assert_eq!(high.read_value(u64::MAX - 3, 4), Ok(0x0403_0201));
    }
}
