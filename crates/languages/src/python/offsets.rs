//! Where the structures of each version have what.

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3.
    pub major: u8,
    /// 8 to 13.
    pub minor: u8,
}

/// The number of functions that one call of the evaluation function stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameCalls {
    /// One (3.8 to 3.10).
    One = 1,
    /// All up to the one that is marked as an entry, with it (3.11).
    ToEntry = 2,
    /// All up to a frame on the C stack, which is no function (3.12 and later).
    ToShim = 3,
}

/// Offsets of fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The runtime's first interpreter.
    pub interpreters_head: u32,
    /// An interpreter's successor in the list.
    pub interpreter_next: u32,
    /// An interpreter's first thread.
    pub interpreter_threads: u32,
    /// A thread's successor in the list.
    pub thread_next: u16,
    /// A thread's `pthread_t`.
    pub thread_id: u16,
    /// A thread's frame, or the structure that holds it.
    pub thread_frame: u16,
    /// The frame's place in the holding structure, where there is one.
    pub holder_frame: Option<u16>,
    /// Bytes of a frame that hold all that is read of it.
    pub frame_size: u16,
    /// A frame's code object.
    pub frame_code: u16,
    /// A frame's caller.
    pub frame_previous: u16,
    /// A frame's instruction.
    pub frame_instruction: u16,
    /// The mark on a frame that ends a call of the evaluation function.
    pub frame_mark: u16,
    /// A code object's first line.
    pub code_first_line: u16,
    /// A code object's file.
    pub code_file: u16,
    /// A code object's (qualified) name.
    pub code_name: u16,
    /// A code object's table of lines.
    pub code_lines: u16,
    /// A code object's instructions, where frames point to one of them.
    pub code_instructions: Option<u16>,
    /// A string's characters, if all are ASCII.
    pub ascii_data: u16,
    /// A string's characters, if not all are ASCII.
    pub text_data: u16,
    /// A bytes object's bytes.
    pub bytes_data: u16,
    /// The relation of functions to calls of the evaluation function.
    pub calls: FrameCalls,
    /// The mark's value, for [`FrameCalls::ToShim`].
    pub mark: u8,
}

const V3_8: Offsets = Offsets {
    interpreters_head: 32,
    interpreter_next: 0,
    interpreter_threads: 8,
    thread_next: 8,
    thread_id: 176,
    thread_frame: 24,
    holder_frame: None,
    frame_size: 112,
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: 104,
    frame_mark: 0,
    code_first_line: 40,
    code_file: 104,
    code_name: 112,
    code_lines: 120,
    code_instructions: None,
    ascii_data: 48,
    text_data: 72,
    bytes_data: 32,
    calls: FrameCalls::One,
    mark: 0,
};
const V3_10: Offsets = Offsets {
    frame_instruction: 96,
    ..V3_8
};
const V3_11: Offsets = Offsets {
    interpreters_head: 40,
    interpreter_next: 0,
    interpreter_threads: 16,
    thread_next: 8,
    thread_id: 152,
    thread_frame: 56,
    holder_frame: Some(8),
    frame_size: 72,
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    frame_mark: 68,
    code_first_line: 72,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    code_instructions: Some(184),
    calls: FrameCalls::ToEntry,
    ..V3_8
};
const V3_12: Offsets = Offsets {
    interpreter_threads: 72,
    thread_id: 136,
    holder_frame: Some(0),
    frame_code: 0,
    frame_previous: 8,
    frame_mark: 70,
    code_first_line: 68,
    code_instructions: Some(192),
    ascii_data: 40,
    text_data: 56,
    calls: FrameCalls::ToShim,
    mark: 3,
    ..V3_11
};

impl Offsets {
    /// Returns those of a version that does not publish them.
    pub fn of_version(version: Version) -> Option<Self> {
        match (version.major, version.minor) {
            (3, 8 | 9) => Some(V3_8),
            (3, 10) => Some(V3_10),
            (3, 11) => Some(V3_11),
            (3, 12) => Some(V3_12),
            _ => None,
        }
    }

    /// Returns those that 3.13 publishes at the start of its runtime (`_Py_DebugOffsets`); `None` if these bytes are
    /// something else, or are of a build without the global lock, which was never tried.
    pub fn published(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..8)? != b"xdebugpy" {
            return None;
        }
        let word = |index: usize| -> Option<u64> {
            let bytes = bytes.get(8 * index..8 * index + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let near = |index: usize| u16::try_from(word(index)?).ok();
        let far = |index: usize| u32::try_from(word(index)?).ok();
        if word(1)? >> 16 != 0x030d || word(2)? != 0 {
            return None;
        }
        let ascii = near(ASCII_SIZE)?;
        Some(Self {
            interpreters_head: far(5)?,
            interpreter_next: far(8)?,
            interpreter_threads: far(9)?,
            thread_next: near(21)?,
            thread_frame: near(23)?,
            thread_id: near(24)?,
            holder_frame: None,
            frame_size: 72,
            frame_previous: near(29)?,
            frame_code: near(30)?,
            frame_instruction: near(31)?,
            frame_mark: near(33)?,
            code_file: near(35)?,
            code_name: near(37)?,
            code_lines: near(38)?,
            code_first_line: near(39)?,
            code_instructions: Some(near(43)?),
            ascii_data: ascii,
            text_data: ascii + 16,
            bytes_data: near(BYTES_DATA)?,
            ..V3_12
        })
        .filter(Self::is_readable)
    }

    /// Returns whether all that is read lies in what the kernel half reads at once.
    fn is_readable(&self) -> bool {
        let frame = [self.frame_code, self.frame_previous, self.frame_instruction];
        let code = [self.code_file, self.code_name, self.code_lines];
        frame
            .iter()
            .all(|at| at + 8 <= self.frame_size && at % 8 == 0)
            && self.frame_mark < self.frame_size
            && code.iter().all(|at| at + 8 <= 144 && at % 8 == 0)
            && self.code_first_line + 4 <= 144
    }
}

/// Words of `_Py_DebugOffsets`.
const BYTES_DATA: usize = 66;
const ASCII_SIZE: usize = 70;
/// The number of bytes of the published offsets that are read.
pub(super) const PUBLISHED: usize = 8 * 72;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_read_at_once() {
        for minor in 8..=12 {
            let offsets = Offsets::of_version(Version { major: 3, minor }).unwrap();
            assert!(offsets.is_readable(), "3.{minor}");
        }
        for minor in [7, 14] {
            assert_eq!(Offsets::of_version(Version { major: 3, minor }), None);
        }
    }

    #[test]
    fn what_is_published_is_checked() {
        assert_eq!(Offsets::published(b"xdebug"), None);
        let mut bytes = vec![0; PUBLISHED];
        bytes[..8].copy_from_slice(b"xdebugpy");
        bytes[8..16].copy_from_slice(&0x030d_00f0_u64.to_le_bytes());
        assert_eq!(
            Offsets::published(&bytes).map(|o| o.calls),
            Some(FrameCalls::ToShim)
        );
        bytes[8 * 30..8 * 31].copy_from_slice(&400_u64.to_le_bytes());
        assert_eq!(
            Offsets::published(&bytes),
            None,
            "a code object behind the frame"
        );
        bytes[16] = 1;
        assert_eq!(Offsets::published(&bytes), None, "without the global lock");
    }
}
